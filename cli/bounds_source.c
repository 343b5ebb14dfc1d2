/* bounds_source.c - a layer at an input for `bounds`: from a layer file or from a model.
 * `attack` takes its parts one by one. */
#define _POSIX_C_SOURCE 200809L
#include "bounds.h"

#include <float.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "io/builtin.h"
#include "io/hub.h"
#include "model/state.h"
#include "value/value.h"

/* What is not there and could be a name on the hub is taken for one, unless it is called
 * like a file. */
int bounds_is_model(const char *what) {
    struct stat info;
    if (!strncmp(what, "random:", 7) || lipsc_is_builtin(what)) return 1;
    if (!stat(what, &info)) return S_ISDIR(info.st_mode) || lipsc_model_recognised(what);
    const char *dot = strrchr(what, '.');
    const int file = dot && (!strcmp(dot, ".safetensors") || !strcmp(dot, ".st"));
    return !file && lipsc_hub_is_name(what);
}

/* ---- A layer file -------------------------------------------------------------------- */

int bounds_file_read(const cli_command *self, const bounds_settings *s, const char *path,
                     int need_input, bounds_source *out) {
    const lipsc_layer_options how = {
        .heads = s->num_heads,
        .kv_heads = s->kv_heads,
        .scale = isnan(s->scale) ? 0.0 : s->scale,
        .mask = s->sliding ? LIPSC_MASK_SLIDING
                           : (s->causal ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE),
        .window = s->sliding,
        .need_input = need_input};
    lipsc_error err;
    if (s->source.text || s->source.ids || s->source.pixels)
        return cli_wrong_use(self, "%s is a layer file: it brings its input", path);
    if (lipsc_layer_file_read(path, &how, &out->file, &err))
        return cli_failure(self, "%s", err.text);
    out->has_file = 1;
    return CLI_RUN;
}

static int open_file(const cli_command *self, const bounds_settings *s, const char *path,
                     bounds_source *out) {
    lipsc_error err;
    const int code = bounds_file_read(self, s, path, 1, out);
    if (code != CLI_RUN) return code;
    if (lipsc_attn_new(&out->file.layer, &out->file.input, LIPSC_F64,
                       (int)s->common.threads, &out->attn, &err))
        return cli_failure(self, "%s: %s", path, err.text);
    return CLI_RUN;
}

/* ---- A model ---------------------------------------------------------------------------
 */

int bounds_window_run(const cli_command *self, const bounds_settings *s, const char *spec,
                      size_t n, bounds_source *out) {
    lipsc_error err;
    const lipsc_model_info *info = lipsc_model_describe(out->model);
    const int threads = s->common.threads ? (int)s->common.threads : 1;
    const cli_window window = {out->longest ? out->longest : n, n, s->window};
    const int code = cli_window_check(self, spec, info, &s->source, &out->source, &window);
    if (code != CLI_RUN) return code;
    lipsc_acts_free(out->acts);
    out->acts = NULL;
    const size_t start = cli_window_start(&s->source, window.longest, n, s->window);
    return cli_window_acts(&out->source, start, n, out->model, LIPSC_F64, threads, s->layer,
                           &out->acts, &err)
               ? cli_failure(self, "%s", err.text)
               : CLI_RUN;
}

/* The norm whose output attention receives: its own in pre-norm models, that behind the
 * block before (or behind the embedding) in post-norm ones. */
static lipsc_status norm_in_front(lipsc_model *model, size_t layer, const lipsc_norm **norm,
                                  lipsc_error *err) {
    if (lipsc_model_describe(model)->pre_norm)
        return lipsc_model_norm(model, layer, LIPSC_NORM_ATTN, LIPSC_F64, norm, err);
    if (layer > 0)
        return lipsc_model_norm(model, layer - 1, LIPSC_NORM_MLP_SUM, LIPSC_F64, norm, err);
    return lipsc_model_embed_norm(model, LIPSC_F64, norm, err);
}

lipsc_status bounds_norm_read(lipsc_model *model, size_t layer, bounds_norm *out,
                              lipsc_error *err) {
    const lipsc_norm *norm = NULL;
    const lipsc_space *space = lipsc_device_space(model->home, LIPSC_F64);
    const size_t d = model->config.d;
    *out = (bounds_norm){.rms = model->config.family->rms, .eps = model->config.norm_eps};
    lipsc_status status = norm_in_front(model, layer, &norm, err);
    if (status) return status;
    if (!norm) return lipsc_fail(err, LIPSC_E_REFUSED, "the layer has no norm in front");
    out->gain = lipsc_alloc_zero(d, 2 * sizeof *out->gain);
    if (!out->gain) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a norm");
    out->shift = out->gain + d;
    status = lipsc_space_download(space, d, norm->gain, out->gain);
    if (!status && norm->bias)
        status = lipsc_space_download(space, d, norm->bias, out->shift);
    if (status) return lipsc_fail(err, status, "%s", lipsc_strerror(status));
    double shift = 0.0;
    for (size_t c = 0; c < d; c++) {
        out->largest = lipsc_max(out->largest, fabs(out->gain[c]));
        shift = hypot(shift, out->shift[c]);
    }
    out->radius = sqrt((double)d) * out->largest + shift;
    return LIPSC_OK;
}

/* What the derivative of the norm can stretch at the tokens x (n, d). */
static void measure_norm(const bounds_norm *norm, size_t n, size_t d, const double *x,
                         lipsc_zoo_norm *out) {
    double least = INFINITY;
    for (size_t i = 0; x && i < n; i++) {
        double mean = 0.0, square = (double)d * norm->eps;
        for (size_t c = 0; !norm->rms && c < d; c++) mean += x[i * d + c];
        mean /= (double)d;
        for (size_t c = 0; c < d; c++)
            square += (x[i * d + c] - mean) * (x[i * d + c] - mean);
        least = lipsc_min(least, sqrt(square));
    }
    out->radius = norm->radius;
    out->here = sqrt((double)d) * norm->largest / least;
    out->everywhere = norm->largest / sqrt(norm->eps);
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
    bounds_norm norm;
    lipsc_error err = {.text = ""};
    lipsc_status status = bounds_norm_read(out->model, s->layer, &norm, &err);
    if (status)
        return wanted ? cli_failure(self, "--radius layernorm: %s", err.text) : CLI_RUN;
    const double *x = info->pre_norm ? lipsc_acts_block_input(out->acts, s->layer) : NULL;
    measure_norm(&norm, lipsc_acts_length(out->acts), info->d, x, &out->norm);
    lipsc_release(norm.gain);
    if (wanted) out->radius = out->norm.radius;
    /* rows of their own for the map that begins with the norm */
    if (info->pre_norm && head < 0 && s->map == 1) {
        status = solve_norm(s, head, mask, out, &err);
        out->has_norm = !status;
    }
    return status ? cli_failure(self, "%s", *err.text ? err.text : lipsc_strerror(status))
                  : CLI_RUN;
}

static const lipsc_mask *mask_override(const bounds_settings *s) {
    static const lipsc_mask none = LIPSC_MASK_NONE, causal = LIPSC_MASK_CAUSAL;
    return s->mask == BOUNDS_MASK_NONE     ? &none
           : s->mask == BOUNDS_MASK_CAUSAL ? &causal
                                           : NULL;
}

int bounds_model_open(const cli_command *self, const bounds_settings *s, const char *spec,
                      bounds_source *out, lipsc_layer *layer) {
    lipsc_error err;
    size_t place = 0;
    if (!!s->source.text + !!s->source.ids + !!s->source.pixels > 1)
        return cli_wrong_use(self, "give one of --text, --ids and --pixels");
    if (lipsc_model_open_part(spec, (lipsc_part)s->part, s->seed, &out->model, &err))
        return cli_failure(self, "%s", err.text);
    const lipsc_model_info *info = lipsc_model_describe(out->model);
    if (s->layer >= info->layers)
        return cli_failure(self, "%s: --layer %zu: the model has layers 0 to %zu", spec,
                           s->layer, info->layers - 1);
    const int one = s->head && strcmp(s->head, "all");
    if (one && cli_number_size(s->head, 0, info->heads - 1, &place))
        return cli_wrong_use(self, "--heads %s: expected all, or one head from 0 to %zu",
                             s->head, info->heads - 1);
    out->head = one ? (long)place : -1;
    if ((s->source.text || s->source.ids || s->source.pixels) &&
        cli_source_read(&s->source, spec, info, &out->source, &err))
        return cli_failure(self, "%s", err.text);
    if (!s->common.quiet) cli_source_say(self, spec, &s->source, &out->source);
    const lipsc_map_kind map = s->map ? LIPSC_MAP_ATTENTION : LIPSC_MAP_HEADS;
    if (lipsc_model_layer(out->model, s->layer, out->head, map, mask_override(s), layer,
                          &err))
        return cli_failure(self, "%s", err.text);
    return CLI_RUN;
}

static int open_model(const cli_command *self, const bounds_settings *s, const char *spec,
                      bounds_source *out) {
    lipsc_error err;
    lipsc_layer layer;
    int code = bounds_model_open(self, s, spec, out, &layer);
    if (code == CLI_RUN && !s->source.text && !s->source.ids && !s->source.pixels)
        code = cli_wrong_use(self, "give one of --text, --ids and --pixels");
    const size_t n = s->length       ? s->length
                     : s->source.ids ? cli_window_whole(&out->source)
                                     : 64;
    if (code == CLI_RUN) code = bounds_window_run(self, s, spec, n, out);
    if (code != CLI_RUN) return code;
    const lipsc_input input = {.n = lipsc_acts_length(out->acts),
                               .X = lipsc_acts_attention_input(out->acts, s->layer)};
    /* products in f32, as `measure` has them; values are re-evaluated in double */
    if (lipsc_attn_new(&layer, &input, LIPSC_F32, (int)s->common.threads, &out->attn, &err))
        return cli_failure(self, "%s", err.text);
    return read_norm(self, s, out->head, mask_override(s), out);
}

int bounds_source_open(const cli_command *self, const bounds_settings *s, const char *what,
                       bounds_source *out) {
    const int code = cli_source_check(self, &s->source);
    memset(out, 0, sizeof *out);
    out->radius = NAN;
    if (code != CLI_RUN) return code;
    const int named = s->radius && !strcmp(s->radius, "layernorm");
    if (s->radius && !named && cli_number_real(s->radius, 0.0, DBL_MAX, &out->radius))
        return cli_wrong_use(self,
                             "invalid value '%s' for '--radius': expected layernorm or "
                             "a number that is not negative",
                             s->radius);
    if (bounds_is_model(what)) return open_model(self, s, what, out);
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
