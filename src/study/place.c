/* place.c - one attention layer, from a layer file or a model, and inputs for it. */
#define _POSIX_C_SOURCE 200809L /* stat */
#include "study/place.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "attn/attn.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "io/builtin.h"
#include "io/hub.h"
#include "model/model.h"
#include "ranks/deal.h"
#include "study/alike.h"
#include "study/needs.h"
#include "study/save.h"

void lipsc_place_defaults(lipsc_place_options *options) {
    *options = (lipsc_place_options){
        .seed = 1, .head = -1, .map = LIPSC_MAP_ATTENTION, .file = {.need_input = 1}};
}

int lipsc_place_is_model(const char *from) {
    struct stat info;
    if (!strncmp(from, "random:", 7) || lipsc_is_builtin(from)) return 1;
    if (!stat(from, &info)) return S_ISDIR(info.st_mode) || lipsc_model_recognised(from);
    const char *dot = strrchr(from, '.');
    const int file = dot && (!strcmp(dot, ".safetensors") || !strcmp(dot, ".st"));
    return !file && lipsc_hub_is_name(from);
}

static int has_windows(const lipsc_source_options *s) {
    return s->text || s->ids || s->pixels || s->text_bytes || s->id_list || s->pixel_list;
}

/* ---- Opening ------------------------------------------------------------------------- */

static lipsc_status open_file(lipsc_place *p, lipsc_error *err) {
    if (has_windows(&p->set.source))
        return lipsc_fail(err, LIPSC_E_ARG, "%s is a layer file: it brings its input",
                          p->set.from);
    const lipsc_status status =
        lipsc_layer_file_read(p->set.from, &p->set.file, &p->file, err);
    if (status) return status == LIPSC_E_ARG ? LIPSC_E_FORMAT : status;
    p->has_file = 1;
    p->given = p->file.layer;
    return LIPSC_OK;
}

static lipsc_status open_weights(lipsc_place *p, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    if (p->set.open)
        p->model = p->set.open;
    else
        status =
            lipsc_model_open_part(p->set.from, p->set.part, p->set.seed, &p->model, err);
    if (status) return status == LIPSC_E_ARG ? LIPSC_E_FORMAT : status;
    p->info = lipsc_model_describe(p->model);
    return lipsc_model_use(p->model, p->set.device, err); /* before a layer is held */
}

static lipsc_status open_model(lipsc_place *p, lipsc_error *err) {
    lipsc_status status = open_weights(p, err);
    if (status) return status;
    if (p->set.layer >= p->info->layers)
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "%s: layer %zu: the model has layers 0 to %zu", p->set.from,
                          p->set.layer, p->info->layers - 1);
    if (p->set.head >= 0 && (size_t)p->set.head >= p->info->heads)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "head %ld: expected all, or one head from 0 to %zu", p->set.head,
                          p->info->heads - 1);
    if (has_windows(&p->set.source)) {
        status = lipsc_source_read(&p->set.source, p->set.from, p->info, &p->source, err);
        if (status) return status == LIPSC_E_ARG ? LIPSC_E_FORMAT : status;
        p->has_source = 1;
    }
    return lipsc_model_layer(p->model, p->set.layer, p->set.head, p->set.map,
                             p->set.mask_override, &p->given, err);
}

/* All ranks have read the same, or none goes on. */
static lipsc_status meet(const lipsc_place *p, lipsc_status status, lipsc_error *err) {
    char said[LIPSC_RANKS_SAID] = "";
    const char *device = lipsc_device_name(p->set.device);
    if (!status)
        snprintf(said, sizeof said,
                 "model: %s\ntext: %s\nids: %s\ndevice: %.*s\nlayer at its input: %llx",
                 p->info ? p->info->hash : "", p->source.hash, p->source.ids_hash,
                 (int)strcspn(device, ":"), device,
                 (unsigned long long)lipsc_place_digest(
                     &p->set, &p->layer, p->has_file ? &p->file.input : NULL));
    return lipsc_ranks_meet(p->set.ranks, status, said, err);
}

lipsc_status lipsc_place_open(const lipsc_place_options *options, lipsc_place **out,
                              lipsc_error *err) {
    lipsc_place *p = lipsc_alloc_zero(1, sizeof *p);
    lipsc_error why = {.text = ""};
    if (!p) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    p->set = *options;
    if (options->mask_override) {
        p->mask = *options->mask_override;
        p->set.mask_override = &p->mask;
    }
    if (!p->set.from) p->set.from = "the model";
    lipsc_status status = options->open || lipsc_place_is_model(p->set.from)
                              ? open_model(p, err)
                              : open_file(p, err);
    if (!status) {
        status = lipsc_layer_check(&p->given, &p->layer, &why);
        if (status)
            status = lipsc_fail(err, LIPSC_E_FORMAT, "%s: %s", p->set.from, why.text);
    }
    status = meet(p, status, err);
    if (status)
        lipsc_place_close(p);
    else
        *out = p;
    return status;
}

void lipsc_place_close(lipsc_place *p) {
    if (!p) return;
    if (p->has_file) lipsc_layer_file_free(&p->file);
    lipsc_acts_free(p->acts);
    if (p->has_source) lipsc_source_free(&p->source);
    if (!p->set.open)
        lipsc_model_free(p->model);
    else if (p->given.d) /* lipsc_model_layer held it */
        lipsc_model_let_go(p->set.open, p->set.layer);
    lipsc_release(p);
}

const lipsc_layer *lipsc_place_layer(const lipsc_place *p) { return &p->layer; }
const lipsc_model_info *lipsc_place_model(const lipsc_place *p) { return p->info; }
const lipsc_source *lipsc_place_source(const lipsc_place *p) {
    return p->has_source ? &p->source : NULL;
}

/* ---- Windows ------------------------------------------------------------------------- */

size_t place_given(const lipsc_place *p) {
    if (p->has_file) return p->file.input.n;
    return p->has_source && p->source.ids ? lipsc_window_whole(&p->source) : 0;
}

/* Of the window: as asked for, or all of the ids. */
static size_t window_length(const lipsc_place *p) {
    const int ids = p->set.source.ids || p->set.source.id_list;
    return p->set.length ? p->set.length : ids ? place_given(p) : 64;
}

lipsc_status place_run(lipsc_place *p, size_t longest, size_t n, lipsc_error *err) {
    const lipsc_source_options *from = &p->set.source;
    lipsc_status status = lipsc_window_check(p->set.from, p->info, from, &p->source,
                                             longest, n, p->set.window, err);
    if (status) return status;
    lipsc_acts_free(p->acts);
    p->acts = NULL;
    const size_t start = lipsc_window_start(from, longest, n, p->set.window);
    status = lipsc_window_acts(&p->source, start, n, p->model, LIPSC_F64, p->set.device,
                               p->set.layer, &p->acts, err);
    return status ? status : lipsc_acts_ask(p->acts, p->set.layer, err);
}

/* ---- Bounds -------------------------------------------------------------------------- */

/* What the derivative of the norm can stretch at the tokens x (n, d). */
static void measure_norm(const place_norm *norm, size_t n, size_t d, const double *x,
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
static lipsc_status solve_norm(const lipsc_place *p, const lipsc_bounds_settings *set,
                               double *sigma, lipsc_error *err) {
    const lipsc_map_options how = {.map = LIPSC_MAP_NORM_ATTENTION,
                                   .layer = p->set.layer,
                                   .head = -1,
                                   .mask_override = p->set.mask_override,
                                   .dtype = LIPSC_F64,
                                   .device = p->set.device};
    lipsc_map *map = NULL;
    lipsc_svd_settings solve;
    lipsc_svd_info info;
    lipsc_svd_defaults(&solve);
    solve.stop = set ? set->stop : NULL;
    solve.ctx = set ? set->ctx : NULL;
    lipsc_status status = lipsc_map_new(p->model, p->acts, &how, &map, err);
    if (status) return status;
    status = lipsc_map_sigma(map, &solve, sigma, NULL, NULL, &info);
    lipsc_map_free(map);
    if (status == LIPSC_E_NOCONV) return LIPSC_OK;
    return status ? lipsc_fail(err, status, "%s", lipsc_strerror(status)) : LIPSC_OK;
}

/* *has: the map that begins with the norm has bounds of its own. */
static lipsc_status find_norm(lipsc_place *p, int wanted, const lipsc_bounds_settings *set,
                              lipsc_zoo_norm *out, int *has, lipsc_error *err) {
    place_norm norm;
    *has = 0;
    lipsc_status status = place_norm_read(p, &norm, err);
    if (status) return wanted ? status : LIPSC_OK;
    const double *x =
        p->info->pre_norm ? lipsc_acts_block_input(p->acts, p->set.layer) : NULL;
    measure_norm(&norm, lipsc_acts_length(p->acts), p->info->d, x, out);
    lipsc_release(norm.gain);
    if (!p->info->pre_norm || p->set.head >= 0 || p->set.map != LIPSC_MAP_ATTENTION)
        return LIPSC_OK;
    *has = 1;
    return solve_norm(p, set, &out->sigma, err);
}

/* The input of the file, or the window. */
static lipsc_status find_input(lipsc_place *p, lipsc_input *input, lipsc_error *err) {
    if (p->has_file) {
        *input = p->file.input;
        return LIPSC_OK;
    }
    if (!p->has_source)
        return lipsc_fail(err, LIPSC_E_ARG, "a model needs a text, ids or an image");
    const size_t n = window_length(p);
    const lipsc_status status = place_run(p, n, n, err);
    if (status) return status;
    *input = (lipsc_input){.n = lipsc_acts_length(p->acts),
                           .X = lipsc_acts_attention_input(p->acts, p->set.layer)};
    return LIPSC_OK;
}

/* What the layer or its input are at fault for, and no option. */
static lipsc_status blame(const lipsc_place *p, lipsc_status status, const lipsc_error *why,
                          lipsc_error *err) {
    return lipsc_fail(err, status == LIPSC_E_ARG ? LIPSC_E_RANGE : status, "%s: %s",
                      p->set.from, why->text);
}

lipsc_status place_point_make(lipsc_place *p, int wants_norm,
                              const lipsc_bounds_settings *set, place_point *out,
                              lipsc_error *err) {
    lipsc_input input;
    lipsc_error why;
    *out = (place_point){.attn = NULL};
    if (wants_norm && p->has_file)
        return lipsc_fail(err, LIPSC_E_ARG, "a layer file has no norm");
    lipsc_status status = find_input(p, &input, err);
    if (status) return status;
    /* of a model products in f32, as a study has them; values are re-evaluated in double */
    status = lipsc_attn_new(&p->given, &input, p->has_file ? LIPSC_F64 : LIPSC_F32,
                            p->set.device, &out->attn, &why);
    if (status) return blame(p, status, &why, err);
    return p->has_file ? LIPSC_OK
                       : find_norm(p, wants_norm, set, &out->norm, &out->has_norm, err);
}

void place_point_free(place_point *point) {
    lipsc_attn_free(point->attn);
    point->attn = NULL;
}

lipsc_status lipsc_place_bounds(lipsc_place *p, int radius_of_norm,
                                const lipsc_bounds_settings *set, lipsc_bounds *out,
                                lipsc_error *err) {
    lipsc_bounds_settings used = *set;
    place_point point;
    lipsc_error why;
    lipsc_status status = place_point_make(p, radius_of_norm, set, &point, err);
    if (radius_of_norm) used.radius = point.norm.radius;
    if (!status) {
        status = lipsc_zoo_bounds(point.attn, point.has_norm ? &point.norm : NULL, &used,
                                  out, &why);
        if (status && status != LIPSC_E_NOCONV) status = blame(p, status, &why, err);
    }
    place_point_free(&point);
    return status;
}

double lipsc_place_bounds_seconds(const lipsc_place *p, const lipsc_bounds_settings *set) {
    enum { BELOW_RADII = 14 }; /* of a search for the largest one */
    const size_t n = p->has_file ? place_given(p) : window_length(p);
    const size_t radii = !isnan(set->below) ? BELOW_RADII : !isnan(set->around);
    if (!n || !p->layer.d) return NAN;
    return lipsc_study_bounds_seconds(&p->layer, n, radii,
                                      lipsc_device_threads(p->set.device));
}

/* ---- Finite changes ------------------------------------------------------------------ */

lipsc_status lipsc_place_perturb(lipsc_place *p, const lipsc_perturb_settings *set,
                                 lipsc_perturbation_rows *out, lipsc_error *err) {
    lipsc_error why = {.text = ""};
    lipsc_perturb_settings used = *set;
    *out = (lipsc_perturbation_rows){0};
    if (!p->has_source || p->source.pixels)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "there are no tokens to change: a model needs "
                          "a text or ids");
    const size_t n = window_length(p);
    lipsc_status status = lipsc_window_check(p->set.from, p->info, &p->set.source,
                                             &p->source, n, n, p->set.window, err);
    if (status) return status;
    uint32_t *ids = lipsc_alloc(n, sizeof *ids);
    if (!ids) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ids");
    const size_t start = lipsc_window_start(&p->set.source, n, n, p->set.window);
    for (size_t i = 0; i < n; i++) ids[i] = lipsc_window_id(&p->source, start, n, i);
    used.device = p->set.device;
    status = lipsc_perturb(p->model, n, ids, &used, out, &why);
    if (status) blame(p, status, &why, err);
    lipsc_release(ids);
    return status;
}

/* ---- Files --------------------------------------------------------------------------- */

lipsc_status lipsc_place_export(lipsc_place *p, const char *path, lipsc_error *err) {
    lipsc_input input;
    lipsc_save_room room = {.ids = NULL};
    if (p->has_file) return lipsc_fail(err, LIPSC_E_ARG, "it is a layer file already");
    lipsc_status status = find_input(p, &input, err);
    if (status) return status;
    lipsc_layer_record record = lipsc_layer_record_of(&p->layer, &input);
    lipsc_save_model(&record, p->set.from, p->info, p->set.layer, p->set.head, &room);
    const size_t start =
        lipsc_window_start(&p->set.source, input.n, input.n, p->set.window);
    status = lipsc_save_window(&record, &p->source, start, &room, err);
    if (!status) status = lipsc_layer_write(path, &record, err);
    lipsc_save_free(&room);
    return status;
}
