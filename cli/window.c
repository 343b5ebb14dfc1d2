/* window.c - windows of a source: where they start, whether they fit, and their tokens. */
#include "window.h"

#include "core/error.h"
#include "core/mem.h"

/* ---- Where ------------------------------------------------------------------------- */

int cli_windows_agree(const cli_source_options *options, size_t longest, lipsc_error *err) {
    if (options->tiled && options->stride) {
        lipsc_fail(err, LIPSC_E_ARG,
                   "--tiled has no stride: leave out one of --tiled and --stride");
        return 0;
    }
    if (options->stride && longest > options->stride) {
        lipsc_fail(err, LIPSC_E_ARG,
                   "length %zu is longer than the stride %zu: its windows would overlap",
                   longest, options->stride);
        return 0;
    }
    return 1;
}

/* Both factors are below 1e8. */
size_t cli_window_start(const cli_source_options *options, size_t longest, size_t n,
                        size_t w) {
    return w * (options->tiled ? n : options->stride ? options->stride : longest);
}

size_t cli_window_special(const cli_source *source) {
    return source->before + source->after;
}

size_t cli_window_whole(const cli_source *source) {
    return source->count + cli_window_special(source);
}

int cli_window_fits(const cli_source *source, size_t start, size_t n) {
    const size_t special = cli_window_special(source);
    return n > special && start <= source->count && n - special <= source->count - start;
}

/* ---- Whether ----------------------------------------------------------------------- */

int cli_length_check(const cli_command *self, const char *spec,
                     const lipsc_model_info *info, const cli_source *source, size_t n) {
    const size_t special = cli_window_special(source);
    if (source->pixels) return CLI_RUN;
    if (info->positions && n > info->positions)
        return cli_failure(self, "%s: length %zu is beyond the model's %zu positions", spec,
                           n, info->positions);
    if (n <= special)
        return cli_failure(self,
                           "%s: length %zu leaves no token of the text beside the model's "
                           "%zu special ones",
                           spec, n, special);
    return CLI_RUN;
}

int cli_window_check(const cli_command *self, const char *spec,
                     const lipsc_model_info *info, const cli_source_options *options,
                     const cli_source *source, const cli_window *window) {
    lipsc_error err;
    if (source->pixels) return CLI_RUN;
    if (!cli_windows_agree(options, window->n, &err))
        return cli_wrong_use(self, "%s", err.text);
    const int code = cli_length_check(self, spec, info, source, window->n);
    if (code != CLI_RUN) return code;
    const size_t start = cli_window_start(options, window->longest, window->n, window->w);
    if (!cli_window_fits(source, start, window->n))
        return cli_failure(self, "%s: window %zu of length %zu is beyond its %zu tokens",
                           source->path, window->w, window->n, source->count);
    return CLI_RUN;
}

/* ---- What -------------------------------------------------------------------------- */

uint32_t cli_window_id(const cli_source *source, size_t start, size_t n, size_t i) {
    if (i < source->before) return source->around[i];
    if (i >= n - source->after)
        return source->around[source->before + i + source->after - n];
    return source->ids[start + i - source->before];
}

lipsc_status cli_window_begin(const cli_source *source, size_t start, size_t n,
                              lipsc_model *model, lipsc_dtype dtype, lipsc_acts **acts,
                              lipsc_error *err) {
    if (source->pixels)
        return lipsc_acts_begin_pixels(model, dtype, source->shape, source->pixels, acts,
                                       err);
    uint32_t *ids = lipsc_alloc(n, sizeof *ids);
    if (!ids) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ids");
    for (size_t i = 0; i < n; i++) ids[i] = cli_window_id(source, start, n, i);
    const lipsc_status status = lipsc_acts_begin(model, dtype, n, ids, acts, err);
    lipsc_release(ids);
    return status;
}

lipsc_status cli_window_acts(const cli_source *source, size_t start, size_t n,
                             lipsc_model *model, lipsc_dtype dtype, int threads,
                             size_t layer, lipsc_acts **acts, lipsc_error *err) {
    lipsc_status status = cli_window_begin(source, start, n, model, dtype, acts, err);
    if (status) return status;
    status = lipsc_acts_pass(model, *acts, threads, layer, err);
    if (!status) status = lipsc_acts_attend(model, *acts, threads, err);
    if (!status) return LIPSC_OK;
    lipsc_acts_free(*acts);
    *acts = NULL;
    return status;
}
