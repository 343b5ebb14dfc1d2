/* source.h - where the windows of a measurement come from: a text, ids, or an image. */
#ifndef LIPSC_CLI_SOURCE_H
#define LIPSC_CLI_SOURCE_H

#include "args.h"
#include "model/model.h"
#include "token/token.h"

typedef struct {
    const char *path; /* as typed                                              */
    uint32_t *ids;    /* NULL for an image                                     */
    size_t count;
    uint32_t *around;       /* special tokens of a window: `before` in front, `after` */
    size_t before, after;   /* behind; none unless asked for                          */
    size_t size, malformed; /* bytes of a text, and those that are not UTF-8          */
    double *pixels;         /* (channels, height, width)                             */
    size_t shape[3];
    char hash[65];     /* SHA-256 of the bytes of the file                      */
    char ids_hash[65]; /* of the ids, little-endian; empty for an image         */
} cli_source;

/* Exactly one of the three is not NULL.  What does not fit the model is refused: ids that
 * its embedding does not have, a tokenizer that could make such ids, an image for a model
 * of text. */
typedef struct {
    const char *text, *ids, *pixels, *tokenizer;
    int special;   /* the model's special tokens around each window                */
    size_t stride; /* from one window to the next; 0: the longest length asked for */
    int tiled;     /* windows of length n follow one another: the stride is n      */
} cli_source_options;

/* The options that fill it; the settings have a cli_source_options source. */
#define CLI_SOURCE_OPTIONS(settings)                                                    \
    {.kind = CLI_TEXT,                                                                  \
     .name = "text",                                                                    \
     .value = "FILE",                                                                   \
     .offset = offsetof(settings, source.text),                                         \
     .help = "the text, - is standard input"},                                          \
        {.kind = CLI_TEXT,                                                              \
         .name = "ids",                                                                 \
         .value = "FILE",                                                               \
         .offset = offsetof(settings, source.ids),                                      \
         .help = "token ids in place of a text, separated by white space or commas or " \
                 "as a JSON list; without a length, one window"},                       \
        {.kind = CLI_TEXT,                                                              \
         .name = "pixels",                                                              \
         .value = "FILE",                                                               \
         .offset = offsetof(settings, source.pixels),                                   \
         .help = "an image: safetensors with pixel_values (channels, height, width)"},  \
        {.kind = CLI_TEXT,                                                              \
         .name = "tokenizer",                                                           \
         .value = "PATH",                                                               \
         .offset = offsetof(settings, source.tokenizer),                                \
         .help = "a tokenizer.json, a folder with tokenizer files or a GGUF file "      \
                 "(default: those of the model)"},                                      \
        {.kind = CLI_FLAG,                                                              \
         .name = "special",                                                             \
         .offset = offsetof(settings, source.special),                                  \
         .help = "the model's special tokens around each window; its length counts "    \
                 "them"},                                                               \
        {.kind = CLI_SIZE,                                                              \
         .name = "stride",                                                              \
         .value = "S",                                                                  \
         .min = 1,                                                                      \
         .max = 1e8,                                                                    \
         .offset = offsetof(settings, source.stride),                                   \
         .help = "window w starts at token w S, whatever its length (default: the "     \
                 "longest length)"},                                                    \
    {                                                                                   \
        .kind = CLI_FLAG, .name = "tiled", .offset = offsetof(settings, source.tiled),  \
        .help = "window w of length n starts at token w n instead"                      \
    }

/* What has no meaning without the rest.  CLI_RUN, or the exit code after a sentence. */
int cli_source_check(const cli_command *self, const cli_source_options *options);

lipsc_status cli_source_read(const cli_source_options *options, const char *spec,
                             const lipsc_model_info *info, cli_source *out,
                             lipsc_error *err);
void cli_source_free(cli_source *source);

/* Remarks on standard error: bytes that are not UTF-8, special tokens that there are not.
 */
void cli_source_say(const cli_command *self, const char *spec,
                    const cli_source_options *options, const cli_source *source);
void cli_utf8_say(const cli_command *self, const char *path, size_t malformed, size_t size);

#endif
