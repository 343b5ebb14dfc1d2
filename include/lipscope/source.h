/* source.h - where the windows of a measurement come from: a text, ids, or an image; and
 * how windows are cut.
 *
 *     lipsc_source source;
 *     lipsc_source_options from = {.text = "builtin:lighthouse"};
 *     lipsc_source_read(&from, "gpt2/", lipsc_model_describe(model), &source, &err);
 *     lipsc_window_acts(&source, start, n, model, LIPSC_F32, NULL, layer, &acts, &err); */
#ifndef LIPSCOPE_SOURCE_H
#define LIPSCOPE_SOURCE_H

#include "lipscope/model.h"
#include "lipscope/tokens.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Lengths, windows, layers: a list that stays its owner's. */
typedef struct {
    size_t count;
    const size_t *at;
} lipsc_sizes;

/* ---- What is read ----------------------------------------------------------------- */

/* Exactly one of the six is given; the rest is zero or NULL. */
typedef struct {
    const char *text;   /* a file, "-" for standard input, or builtin:lighthouse         */
    const char *ids;    /* a file of token ids, separated by white space or commas, or a
                         * JSON list                                                      */
    const char *pixels; /* a safetensors file with pixel_values (channels, height, width) */
    const char *text_bytes; /* the same in memory: text_size bytes,                      */
    size_t text_size;
    const uint32_t *id_list; /* id_count ids,                                             */
    size_t id_count;
    const double *pixel_list; /* or an image of this shape                                */
    size_t pixel_shape[3];

    const char *tokenizer; /* NULL: that of the model                                     */
    int special;           /* the model's special tokens stand around each window         */
    size_t stride; /* from one window to the next, not below the longest length asked for,
                    * which is its default 0                                             */
    int tiled;     /* windows of length n follow one another: the stride is n             */
} lipsc_source_options;

enum { LIPSC_SOURCE_REMARKS = 2, LIPSC_SOURCE_REMARK = 400 };

typedef struct {
    const char *path; /* as it was named, for sentences                               */
    uint32_t *ids;    /* NULL for an image                                            */
    size_t count;
    uint32_t *around;       /* special tokens of a window: `before` in front, `after` */
    size_t before, after;   /* behind; none unless asked for                          */
    size_t size, malformed; /* bytes of a text, and those that are not UTF-8          */
    double *pixels;         /* (channels, height, width)                              */
    size_t shape[3];
    char hash[65];       /* SHA-256 of the bytes of the file, or of those in memory     */
    char ids_hash[65];   /* of the ids, 32 bits each, little-endian; empty for an image */
    size_t remark_count; /* sentences on what is worth knowing and is no error        */
    char remarks[LIPSC_SOURCE_REMARKS][LIPSC_SOURCE_REMARK];
    lipsc_tokenizer *tokenizer; /* that was needed to read it; NULL: none was          */
} lipsc_source;

/* spec: the model as it was opened, whose tokenizer is taken.  What does not fit the model
 * is refused: ids that its embedding does not have, a tokenizer that could make such ids,
 * an image for a model of text.  *out is to be freed after LIPSC_OK alone; the text of
 * out->path is kept, not copied. */
LIPSC_API lipsc_status lipsc_source_read(const lipsc_source_options *options,
                                         const char *spec, const lipsc_model_info *info,
                                         lipsc_source *out, lipsc_error *err);
LIPSC_API void lipsc_source_free(lipsc_source *source);

/* ---- Windows ---------------------------------------------------------------------- */

/* Window w of length n starts at token w S of the text, where S is options->stride, or
 * `longest`, the longest of the lengths asked for: then windows of all lengths start
 * alike.  Tiled: at token w n.  Special tokens count in n. */
LIPSC_API size_t lipsc_window_start(const lipsc_source_options *options, size_t longest,
                                    size_t n, size_t w);

/* Special tokens of a window, and the length of the one that holds everything. */
LIPSC_API size_t lipsc_window_special(const lipsc_source *source);
LIPSC_API size_t lipsc_window_whole(const lipsc_source *source);

/* Whether the n tokens, special ones among them, that start at `start` are there. */
LIPSC_API int lipsc_window_fits(const lipsc_source *source, size_t start, size_t n);

/* Whether stride and tiling agree with each other and with the longest length. */
LIPSC_API lipsc_status lipsc_windows_check(const lipsc_source_options *options,
                                           size_t longest, lipsc_error *err);
/* A length that the model takes and that has room for text; an image is always fine. */
LIPSC_API lipsc_status lipsc_length_check(const char *spec, const lipsc_model_info *info,
                                          const lipsc_source *source, size_t n,
                                          lipsc_error *err);
/* All that can be wrong with window w of length n.  LIPSC_E_ARG: the options. */
LIPSC_API lipsc_status lipsc_window_check(const char *spec, const lipsc_model_info *info,
                                          const lipsc_source_options *options,
                                          const lipsc_source *source, size_t longest,
                                          size_t n, size_t w, lipsc_error *err);

/* Token i of the window of length n that starts at `start`. */
LIPSC_API uint32_t lipsc_window_id(const lipsc_source *source, size_t start, size_t n,
                                   size_t i);

/* Its text as it reads behind the token before it, so that those of a window make up its
 * sentence: " cat", "ing".  *text (free with lipsc_release) is valid UTF-8.
 * LIPSC_E_REFUSED: the source has no tokenizer. */
LIPSC_API lipsc_status lipsc_window_word(const lipsc_source *source, size_t start, size_t n,
                                         size_t i, char **text, lipsc_error *err);

/* The window, or the image, run through the model as far as the attention of a layer. */
LIPSC_API lipsc_status lipsc_window_acts(const lipsc_source *source, size_t start, size_t n,
                                         lipsc_model *model, lipsc_dtype dtype,
                                         lipsc_device *device, size_t layer,
                                         lipsc_acts **acts, lipsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
