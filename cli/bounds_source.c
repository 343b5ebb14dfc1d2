/* bounds_source.c - a layer at an input for `bounds`: from a layer file or from a model. */
#define _POSIX_C_SOURCE 200809L
#include "bounds.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "model/state.h"
#include "value/value.h"

static int is_model(const char *what) {
    struct stat info;
    return !strncmp(what, "random:", 7) || (!stat(what, &info) && S_ISDIR(info.st_mode));
}

/* ---- A layer file -------------------------------------------------------------------- */

static int open_file(const cli_command *self, const bounds_settings *s, const char *path,
                     bounds_source *out) {
    const lipsc_layer_options how = {
        .heads = s->num_heads,
        .kv_heads = s->kv_heads,
        .scale = isnan(s->scale) ? 0.0 : s->scale,
        .mask = s->sliding ? LIPSC_MASK_SLIDING
                           : (s->causal ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE),
        .window = s->sliding,
        .need_input = 1};
    lipsc_error err;
    if (s->source.text || s->source.ids || s->source.pixels)
        return cli_wrong_use(self, "%s is a layer file: it brings its input", path);
    if (lipsc_layer_file_read(path, &how, &out->file, &err))
        return cli_failure(self, "%s", err.text);
    out->has_file = 1;
    if (lipsc_attn_new(&out->file.layer, &out->file.input, LIPSC_F64,
                       (int)s->common.threads, &out->attn, &err))
        return cli_failure(self, "%s: %s", path, err.text);
    return CLI_RUN;
}

/* ---- A model ---------------------------------------------------------------------------
 */

static int check_window(const cli_command *self, const char *spec, const bounds_settings *s,
                        const lipsc_model_info *info, const cli_source *source, size_t n) {
    if (s->layer >= info->layers)
        return cli_failure(self, "%s: --layer %zu: the model has layers 0 to %zu", spec,
                           s->layer, info->layers - 1);
    if (source->pixels) return CLI_RUN;
    if (info->positions && n > info->positions)
        return cli_failure(self, "%s: length %zu is beyond the model's %zu positions", spec,
                           n, info->positions);
    if (n == 0 || s->window >= source->count / n)
        return cli_failure(self, "%s: window %zu of length %zu is beyond its %zu tokens",
                           source->path, s->window, n, source->count);
    return CLI_RUN;
}

static int run_window(const cli_command *self, const bounds_settings *s, const char *spec,
                      bounds_source *out) {
    lipsc_error err;
    const lipsc_model_info *info = lipsc_model_describe(out->model);
    if (cli_source_read(&s->source, spec, info, &out->source, &err))
        return cli_failure(self, "%s", err.text);
    const size_t n = s->length ? s->length : s->source.ids ? out->source.count : 64;
    const int threads = s->common.threads ? (int)s->common.threads : 1;
    const int code = check_window(self, spec, s, info, &out->source, n);
    if (code != CLI_RUN) return code;
    const lipsc_status status =
        out->source.pixels
            ? lipsc_acts_new_pixels(out->model, LIPSC_F64, threads, out->source.shape,
                                    out->source.pixels, s->layer + 1, &out->acts, &err)
            : lipsc_acts_new(out->model, LIPSC_F64, threads, n,
                             out->source.ids + s->window * n, s->layer + 1, &out->acts,
                             &err);
    return status ? cli_failure(self, "%s", err.text) : CLI_RUN;
}

/* The norm whose output attention receives: its own in pre-norm models, that behind the
 * block before (or behind the embedding) in post-norm ones. */
static lipsc_status norm_in_front(lipsc_model *model, size_t layer, const lipsc_norm **norm,
                                  lipsc_error *err) {
    if (lipsc_model_describe(model)->pre_norm)
        return lipsc_model_norm(model, layer, LIPSC_NORM_ATTN, LIPSC_F64, norm, err);
    if (layer > 0)
        return lipsc_model_norm(model, layer - 1, LIPSC_NORM_MLP, LIPSC_F64, norm, err);
    return lipsc_model_embed_norm(model, LIPSC_F64, norm, err);
}

/* R_N, and what the derivative of the norm can stretch at the tokens x (n, d). */
static lipsc_status measure_norm(lipsc_model *model, const lipsc_norm *norm, size_t n,
                                 const double *x, lipsc_zoo_norm *out) {
    const lipsc_space *space = model->backend->space(LIPSC_F64);
    const size_t d = model->config.d;
    double *g = lipsc_alloc_zero(d, 2 * sizeof *g);
    if (!g) return LIPSC_E_NOMEM;
    double *b = g + d, gain = 0.0, shift = 0.0, least = INFINITY;
    space->download(d, norm->gain, g);
    if (norm->bias) space->download(d, norm->bias, b);
    for (size_t c = 0; c < d; c++) {
        gain = fmax(gain, fabs(g[c]));
        shift = hypot(shift, b[c]);
    }
    const double root_d = sqrt((double)d), eps = model->config.norm_eps;
    for (size_t i = 0; x && i < n; i++) {
        double mean = 0.0, square = (double)d * eps;
        for (size_t c = 0; !model->config.family->rms && c < d; c++) mean += x[i * d + c];
        mean /= (double)d;
        for (size_t c = 0; c < d; c++)
            square += (x[i * d + c] - mean) * (x[i * d + c] - mean);
        least = fmin(least, sqrt(square));
    }
    out->radius = root_d * gain + shift;
    out->here = root_d * gain / least;
    out->everywhere = gain / sqrt(eps);
    lipsc_release(g);
    return LIPSC_OK;
}

/* sigma of norm and attention together. */
static lipsc_status solve_norm(const bounds_settings *s, long head, const lipsc_mask *mask,
                               bounds_source *out, lipsc_error *err) {
    const lipsc_map_options how = {.map = LIPSC_MAP_NORM_ATTENTION,
                                   .layer = s->layer,
                                   .head = head,
                                   .mask_override = mask,
                                   .dtype = LIPSC_F64,
                                   .threads =
                                       s->common.threads ? (int)s->common.threads : 1};
    lipsc_map *map = NULL;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    lipsc_status status = lipsc_map_new(out->model, out->acts, &how, &map, err);
    if (!status) status = lipsc_map_sigma(map, &set, &out->norm.sigma, NULL, NULL, &info);
    lipsc_map_free(map);
    return status == LIPSC_E_NOCONV ? LIPSC_OK : status;
}

static int read_norm(const cli_command *self, const bounds_settings *s, long head,
                     const lipsc_mask *mask, bounds_source *out) {
    const lipsc_model_info *info = lipsc_model_describe(out->model);
    const int wanted = s->radius && !strcmp(s->radius, "layernorm");
    const lipsc_norm *norm = NULL;
    lipsc_error err = {.text = ""};
    lipsc_status status = norm_in_front(out->model, s->layer, &norm, &err);
    if (status || !norm)
        return wanted ? cli_failure(self, "--radius layernorm: %s",
                                    *err.text ? err.text : "the layer has no norm in front")
                      : CLI_RUN;
    const double *x = info->pre_norm ? lipsc_acts_block_input(out->acts, s->layer) : NULL;
    status = measure_norm(out->model, norm, lipsc_acts_length(out->acts), x, &out->norm);
    if (!status && wanted) out->radius = out->norm.radius;
    /* rows of their own for the map that begins with the norm */
    if (!status && info->pre_norm && head < 0 && s->map == 1) {
        status = solve_norm(s, head, mask, out, &err);
        out->has_norm = !status;
    }
    return status ? cli_failure(self, "%s", *err.text ? err.text : lipsc_strerror(status))
                  : CLI_RUN;
}

static int open_model(const cli_command *self, const bounds_settings *s, const char *spec,
                      bounds_source *out) {
    lipsc_error err;
    size_t head_place = 0;
    if (!!s->source.text + !!s->source.ids + !!s->source.pixels != 1)
        return cli_wrong_use(self, "give one of --text, --ids and --pixels");
    if (lipsc_model_open(spec, s->seed, &out->model, &err))
        return cli_failure(self, "%s", err.text);
    const size_t heads = lipsc_model_describe(out->model)->heads;
    const int one = s->head && strcmp(s->head, "all");
    if (one && cli_number_size(s->head, 0, heads - 1, &head_place))
        return cli_wrong_use(self, "--heads %s: expected all, or one head from 0 to %zu",
                             s->head, heads - 1);
    const long head = one ? (long)head_place : -1;
    const int code = run_window(self, s, spec, out);
    if (code != CLI_RUN) return code;
    const lipsc_mask none = LIPSC_MASK_NONE, causal = LIPSC_MASK_CAUSAL;
    const lipsc_mask *mask = s->mask == BOUNDS_MASK_NONE     ? &none
                             : s->mask == BOUNDS_MASK_CAUSAL ? &causal
                                                             : NULL;
    lipsc_layer layer;
    const lipsc_map_kind map = s->map ? LIPSC_MAP_ATTENTION : LIPSC_MAP_HEADS;
    const lipsc_input input = {.n = lipsc_acts_length(out->acts),
                               .X = lipsc_acts_attention_input(out->acts, s->layer)};
    if (lipsc_model_layer(out->model, s->layer, head, map, mask, &layer, &err) ||
        lipsc_attn_new(&layer, &input, LIPSC_F64, (int)s->common.threads, &out->attn, &err))
        return cli_failure(self, "%s", err.text);
    return read_norm(self, s, head, mask, out);
}

int bounds_source_open(const cli_command *self, const bounds_settings *s, const char *what,
                       bounds_source *out) {
    memset(out, 0, sizeof *out);
    out->radius = NAN;
    const int named = s->radius && !strcmp(s->radius, "layernorm");
    if (s->radius && !named && cli_number_real(s->radius, 0.0, DBL_MAX, &out->radius))
        return cli_wrong_use(self,
                             "invalid value '%s' for '--radius': expected layernorm or "
                             "a number that is not negative",
                             s->radius);
    if (is_model(what)) return open_model(self, s, what, out);
    if (named)
        return cli_wrong_use(self,
                             "--radius layernorm needs a model: a layer file has no norm");
    return open_file(self, s, what, out);
}

void bounds_source_close(bounds_source *source) {
    lipsc_attn_free(source->attn);
    if (source->has_file) lipsc_layer_file_free(&source->file);
    lipsc_acts_free(source->acts);
    cli_source_free(&source->source);
    lipsc_model_free(source->model);
}
