/* window.c - windows of a source: where they start, whether they fit, and their tokens. */
#include "study/window.h"

#include <string.h>

#include "core/error.h"
#include "core/mem.h"

/* ---- Where ------------------------------------------------------------------------- */

lipsc_status lipsc_windows_check(const lipsc_source_options *options, size_t longest,
                                 lipsc_error *err) {
    if (options->tiled && options->stride)
        return lipsc_fail(
            err, LIPSC_E_ARG,
            "tiled windows have no stride: leave out one of tiled and stride");
    if (options->stride && longest > options->stride)
        return lipsc_fail(
            err, LIPSC_E_ARG,
            "length %zu is longer than the stride %zu: its windows would overlap", longest,
            options->stride);
    return LIPSC_OK;
}

/* Both factors are below 1e8. */
size_t lipsc_window_start(const lipsc_source_options *options, size_t longest, size_t n,
                          size_t w) {
    return w * (options->tiled ? n : options->stride ? options->stride : longest);
}

size_t lipsc_window_special(const lipsc_source *source) {
    return source->before + source->after;
}

size_t lipsc_window_whole(const lipsc_source *source) {
    return source->count + lipsc_window_special(source);
}

int lipsc_window_fits(const lipsc_source *source, size_t start, size_t n) {
    const size_t special = lipsc_window_special(source);
    return n > special && start <= source->count && n - special <= source->count - start;
}

/* ---- Whether ----------------------------------------------------------------------- */

lipsc_status lipsc_length_check(const char *spec, const lipsc_model_info *info,
                                const lipsc_source *source, size_t n, lipsc_error *err) {
    const size_t special = lipsc_window_special(source);
    if (source->pixels) return LIPSC_OK;
    if (info->positions && n > info->positions)
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "%s: length %zu is beyond the model's %zu positions", spec, n,
                          info->positions);
    if (n <= special)
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "%s: length %zu leaves no token of the text beside the model's "
                          "%zu special ones",
                          spec, n, special);
    return LIPSC_OK;
}

lipsc_status lipsc_window_check(const char *spec, const lipsc_model_info *info,
                                const lipsc_source_options *options,
                                const lipsc_source *source, size_t longest, size_t n,
                                size_t w, lipsc_error *err) {
    if (source->pixels) return LIPSC_OK;
    lipsc_status status = lipsc_windows_check(options, n, err);
    if (!status) status = lipsc_length_check(spec, info, source, n, err);
    if (status) return status;
    if (!lipsc_window_fits(source, lipsc_window_start(options, longest, n, w), n))
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "%s: window %zu of length %zu is beyond its %zu tokens",
                          source->path, w, n, source->count);
    return LIPSC_OK;
}

/* ---- What -------------------------------------------------------------------------- */

uint32_t lipsc_window_id(const lipsc_source *source, size_t start, size_t n, size_t i) {
    if (i < source->before) return source->around[i];
    if (i >= n - source->after)
        return source->around[source->before + i + source->after - n];
    return source->ids[start + i - source->before];
}

/* What stands behind the token before it: a tokenizer may leave out the space in front of
 * the first token of a text, or join pieces of a word. */
lipsc_status lipsc_window_word(const lipsc_source *source, size_t start, size_t n, size_t i,
                               char **text, lipsc_error *err) {
    if (!source->tokenizer)
        return lipsc_fail(err, LIPSC_E_REFUSED, "%s: its tokens have no texts",
                          source->path);
    const uint32_t own = lipsc_window_id(source, start, n, i),
                   before = i ? lipsc_window_id(source, start, n, i - 1) : own;
    const uint32_t pair[2] = {before, own};
    char *first = NULL, *both = NULL;
    size_t size, all;
    lipsc_status status = LIPSC_OK;
    *text = NULL;
    if (i)
        status = lipsc_tokenizer_decode(source->tokenizer, pair, 1, 0, &first, &size, err);
    if (i && !status)
        status = lipsc_tokenizer_decode(source->tokenizer, pair, 2, 0, &both, &all, err);
    if (i && !status && all > size && !memcmp(first, both, size)) {
        memmove(both, both + size, all - size + 1);
        *text = both;
        both = NULL;
    } else if (!status) {
        status = lipsc_tokenizer_decode(source->tokenizer, &own, 1, 0, text, &size, err);
    }
    lipsc_release(first);
    lipsc_release(both);
    return status;
}

lipsc_status lipsc_window_read(const lipsc_source *source, size_t start, size_t n,
                               lipsc_model *model, double **tokens, lipsc_error *err) {
    *tokens = NULL;
    if (source->pixels) return LIPSC_OK;
    uint32_t *ids = lipsc_alloc(n, sizeof *ids);
    if (!ids) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ids");
    for (size_t i = 0; i < n; i++) ids[i] = lipsc_window_id(source, start, n, i);
    const lipsc_status status = lipsc_acts_read(model, n, ids, tokens, err);
    lipsc_release(ids);
    return status;
}

lipsc_status lipsc_window_begin(const lipsc_source *source, size_t start, size_t n,
                                lipsc_model *model, lipsc_dtype dtype, lipsc_acts **acts,
                                lipsc_error *err) {
    if (source->pixels)
        return lipsc_acts_begin_pixels(model, dtype, source->shape, source->pixels, acts,
                                       err);
    double *tokens;
    lipsc_status status = lipsc_window_read(source, start, n, model, &tokens, err);
    if (status) return status;
    status = lipsc_acts_begin_at(model, dtype, n, tokens, acts, err);
    lipsc_release(tokens);
    return status;
}

lipsc_status lipsc_window_acts(const lipsc_source *source, size_t start, size_t n,
                               lipsc_model *model, lipsc_dtype dtype, lipsc_device *device,
                               size_t layer, lipsc_acts **acts, lipsc_error *err) {
    const int threads = lipsc_device_threads(device);
    lipsc_status status = lipsc_model_use(model, device, err);
    if (!status) status = lipsc_window_begin(source, start, n, model, dtype, acts, err);
    if (status) return status;
    status = lipsc_acts_pass(model, *acts, threads, layer, err);
    if (!status) status = lipsc_acts_attend(model, *acts, threads, err);
    if (!status) return LIPSC_OK;
    lipsc_acts_free(*acts);
    *acts = NULL;
    return status;
}
