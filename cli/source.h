/* source.h - where the windows of a measurement come from: a text, ids, or an image. */
#ifndef LIPSC_CLI_SOURCE_H
#define LIPSC_CLI_SOURCE_H

#include "model/model.h"
#include "token/token.h"

/* A whole file, standard input when path is "-", or a built-in text (data.h).  *bytes (free
 * with lipsc_release) is never NULL on success. */
lipsc_status cli_bytes_read(const char *path, char **bytes, size_t *size, lipsc_error *err);

/* Whole numbers separated by white space; *ids as cli_bytes_read. */
lipsc_status cli_ids_read(const char *path, uint32_t **ids, size_t *count,
                          lipsc_error *err);

/* lipsc_model_open, of a built-in model (data.h) as well. */
lipsc_status cli_model_open(const char *spec, uint64_t seed, lipsc_model **out,
                            lipsc_error *err);

/* The tokenizer of a model: that in `folder` when it is not NULL, otherwise that beside the
 * weights; of random:DIR that in DIR, and the built-in one where there is none. */
lipsc_status cli_tokenizer_open(const char *spec, const char *folder, lipsc_tokenizer **out,
                                lipsc_error *err);

typedef struct {
    const char *path; /* as typed                                              */
    uint32_t *ids;    /* NULL for an image                                     */
    size_t count;
    double *pixels; /* (channels, height, width)                             */
    size_t shape[3];
    char hash[65];     /* SHA-256 of the bytes of the file                      */
    char ids_hash[65]; /* of the ids, little-endian; empty for an image         */
} cli_source;

/* Exactly one of the three is not NULL.  What does not fit the model is refused: ids that
 * its embedding does not have, a tokenizer that could make such ids, an image for a model
 * of text. */
typedef struct {
    const char *text, *ids, *pixels, *tokenizer;
} cli_source_options;

/* The options that fill it; the settings have a cli_source_options source. */
#define CLI_SOURCE_OPTIONS(settings)                                                   \
    {.kind = CLI_TEXT,                                                                 \
     .name = "text",                                                                   \
     .value = "FILE",                                                                  \
     .offset = offsetof(settings, source.text),                                        \
     .help = "the text, - is standard input"},                                         \
        {.kind = CLI_TEXT,                                                             \
         .name = "ids",                                                                \
         .value = "FILE",                                                              \
         .offset = offsetof(settings, source.ids),                                     \
         .help = "token ids in place of a text: one window"},                          \
        {.kind = CLI_TEXT,                                                             \
         .name = "pixels",                                                             \
         .value = "FILE",                                                              \
         .offset = offsetof(settings, source.pixels),                                  \
         .help = "an image: safetensors with pixel_values (channels, height, width)"}, \
    {                                                                                  \
        .kind = CLI_TEXT, .name = "tokenizer", .value = "DIR",                         \
        .offset = offsetof(settings, source.tokenizer),                                \
        .help = "tokenizer files (default: those of the model)"                        \
    }

lipsc_status cli_source_read(const cli_source_options *options, const char *spec,
                             const lipsc_model_info *info, cli_source *out,
                             lipsc_error *err);
void cli_source_free(cli_source *source);

#endif
