/* window.h - windows of a source: where they start, whether they fit, and their tokens,
 * with the special ones around.  Every command that cuts windows does it here. */
#ifndef LIPSC_CLI_WINDOW_H
#define LIPSC_CLI_WINDOW_H

#include "args.h"
#include "source.h"

/* Whether --stride and --tiled agree with each other and with the longest length that is
 * asked for; 0 and a sentence otherwise. */
int cli_windows_agree(const cli_source_options *options, size_t longest, lipsc_error *err);

/* The token of the text at which window w of length n starts; longest: of all lengths asked
 * for. */
size_t cli_window_start(const cli_source_options *options, size_t longest, size_t n,
                        size_t w);

/* Special tokens of a window, and the length of the one that holds everything. */
size_t cli_window_special(const cli_source *source);
size_t cli_window_whole(const cli_source *source);

/* Whether the n tokens, special ones among them, that start at `start` are there. */
int cli_window_fits(const cli_source *source, size_t start, size_t n);

/* A length that the model takes and that has room for text.  CLI_RUN, or the exit code
 * after a sentence on standard error; an image is always fine. */
int cli_length_check(const cli_command *self, const char *spec,
                     const lipsc_model_info *info, const cli_source *source, size_t n);

/* Which window: number w of the windows of length n. */
typedef struct {
    size_t longest, n, w; /* longest: of all lengths asked for */
} cli_window;

/* All that can be wrong with one window, as above. */
int cli_window_check(const cli_command *self, const char *spec,
                     const lipsc_model_info *info, const cli_source_options *options,
                     const cli_source *source, const cli_window *window);

/* Token i of the window of length n that starts at `start`. */
uint32_t cli_window_id(const cli_source *source, size_t start, size_t n, size_t i);

/* The window, or the image, before block 0; and as far as the attention of a layer. */
lipsc_status cli_window_begin(const cli_source *source, size_t start, size_t n,
                              lipsc_model *model, lipsc_dtype dtype, lipsc_acts **acts,
                              lipsc_error *err);
lipsc_status cli_window_acts(const cli_source *source, size_t start, size_t n,
                             lipsc_model *model, lipsc_dtype dtype, int threads,
                             size_t layer, lipsc_acts **acts, lipsc_error *err);

#endif
