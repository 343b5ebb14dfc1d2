/* source.h - the options that say where the windows of a measurement come from. */
#ifndef LIPSC_CLI_SOURCE_H
#define LIPSC_CLI_SOURCE_H

#include "args.h"

/* The options that fill it; the settings have a lipsc_source_options source. */
#define CLI_SOURCE_OPTIONS(settings)                                                       \
    CLI_OPTION(settings, TEXT, "text", "FILE", source.text,                                \
               .help = "the text, - is standard input"),                                   \
        CLI_OPTION(                                                                        \
            settings, TEXT, "ids", "FILE", source.ids,                                     \
            .help = "token ids in place of a text, separated by white space or commas or " \
                    "as a JSON list; without a length, one window"),                       \
        CLI_OPTION(                                                                        \
            settings, TEXT, "pixels", "FILE", source.pixels,                               \
            .help = "an image: safetensors with pixel_values (channels, height, width)"),  \
        CLI_OPTION(settings, TEXT, "tokenizer", "PATH", source.tokenizer,                  \
                   .help =                                                                 \
                       "a tokenizer.json, a folder with tokenizer files or a GGUF file "   \
                       "(default: those of the model)"),                                   \
        CLI_OPTION(settings, FLAG, "special", NULL, source.special,                        \
                   .help =                                                                 \
                       "the model's special tokens around each window; its length counts " \
                       "them"),                                                            \
        CLI_OPTION(settings, SIZE, "stride", "S", source.stride, .min = 1, .max = 1e8,     \
                   .help =                                                                 \
                       "window w starts at token w S, whatever its length (default: the "  \
                       "longest length)"),                                                 \
        CLI_OPTION(settings, FLAG, "tiled", NULL, source.tiled,                            \
                   .help = "window w of length n starts at token w n instead")

/* What has no meaning without the rest.  CLI_RUN, or the exit code after a sentence. */
int cli_source_check(const cli_command *self, const lipsc_source_options *options);

/* What is worth knowing, on standard error; NULL: nothing. */
void cli_source_say(const cli_command *self, const lipsc_source *source);
void cli_utf8_say(const cli_command *self, const char *path, size_t malformed, size_t size);

#endif
