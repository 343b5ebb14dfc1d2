/* window.h - one window of a source, for the commands that take just one. */
#ifndef LIPSC_CLI_WINDOW_H
#define LIPSC_CLI_WINDOW_H

#include "args.h"
#include "source.h"

#define cli_window_start lipsc_window_start
#define cli_window_whole lipsc_window_whole
#define cli_source_free  lipsc_source_free

/* Which window: number w of the windows of length n. */
typedef struct {
    size_t longest, n, w; /* longest: of all lengths asked for */
} cli_window;

/* All that can be wrong with it.  CLI_RUN, or the exit code after a sentence. */
int cli_window_check(const cli_command *self, const char *spec,
                     const lipsc_model_info *info, const cli_source_options *options,
                     const cli_source *source, const cli_window *window);

/* lipsc_window_acts with this many threads. */
lipsc_status cli_window_acts(const cli_source *source, size_t start, size_t n,
                             lipsc_model *model, lipsc_dtype dtype, int threads,
                             size_t layer, lipsc_acts **acts, lipsc_error *err);

#endif
