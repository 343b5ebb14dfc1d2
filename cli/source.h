/* source.h - the options that say where the windows of a measurement come from. */
#ifndef LIPSC_CLI_SOURCE_H
#define LIPSC_CLI_SOURCE_H

#include "args.h"

/* The options that fill it; the settings have a lipsc_source_options source. */
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
int cli_source_check(const cli_command *self, const lipsc_source_options *options);

/* What is worth knowing, on standard error; NULL: nothing. */
void cli_source_say(const cli_command *self, const lipsc_source *source);
void cli_utf8_say(const cli_command *self, const char *path, size_t malformed, size_t size);

#endif
