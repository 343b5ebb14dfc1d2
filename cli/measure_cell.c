/* measure_cell.c - one cell: the map at a window, its largest singular value, its row. */
#include "measure.h"

#include <math.h>
#include <string.h>

#include "attn/attn.h"
#include "bound/spread.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "interrupt.h"
#include "layer_save.h"
#include "names.h"
#include "value/influence.h"
#include "value/sink.h"
#include "value/value.h"

const char *const measure_map_names[] = {"heads",    "attention", "norm-attention",
                                         "residual", "block",     "model"};

const char *measure_mask_name(const measure_job *job) {
    static const char *const names[] = {"model", "none", "causal"};
    return names[job->set->mask];
}

/* ---- Names ------------------------------------------------------------------------- */

static void place_text(size_t place, const char *none, char text[24]) {
    if (place == MEASURE_NONE)
        snprintf(text, 24, "%s", none);
    else
        snprintf(text, 24, "%zu", place);
}

void measure_key(const measure_job *job, const measure_cell *cell, char key[MEASURE_KEY]) {
    char layer[24], head[24];
    place_text(cell->layer, "none", layer);
    place_text(cell->head, "all", head);
    snprintf(key, MEASURE_KEY, "%s%smap=%s layer=%s head=%s n=%zu window=%zu",
             job->experiment ? job->experiment : "", job->experiment ? ": " : "",
             measure_map_names[job->set->map], layer, head, cell->n, cell->window);
}

int measure_direction_path(const measure_job *job, const measure_cell *cell, char *path,
                           size_t room) {
    const char *base = job->set->save_direction;
    char layer[24], head[24];
    int length;
    place_text(cell->layer, "", layer);
    place_text(cell->head, "", head);
    if (job->cell_count == 1)
        length = snprintf(path, room, "%s", base);
    else
        length = snprintf(path, room, "%s/%s%s%s%s%sn%zu-window%zu.safetensors", base,
                          *layer ? "layer" : "model", layer, *head ? "-head" : "", head,
                          "-", cell->n, cell->window);
    return length > 0 && (size_t)length < room;
}

/* ---- The window -------------------------------------------------------------------- */

lipsc_status measure_window(measure_job *job, const measure_cell *cell, lipsc_acts **acts,
                            lipsc_error *err) {
    return cli_window_begin(&job->source, cell->start, cell->n, job->model, job->dtype,
                            acts, err);
}

/* Where the map is differentiated, (n, d). */
static const double *map_input(const measure_job *job, const measure_cell *cell,
                               const lipsc_acts *acts) {
    if (job->set->map == LIPSC_MAP_MODEL) return lipsc_acts_block_input(acts, 0);
    if (job->set->map == LIPSC_MAP_HEADS || job->set->map == LIPSC_MAP_ATTENTION)
        return lipsc_acts_attention_input(acts, cell->layer);
    return lipsc_acts_block_input(acts, cell->layer);
}

double measure_tol(const measure_job *job) {
    if (job->set->tol != 0.0) return job->set->tol;
    return job->dtype == LIPSC_F32 ? 1e-2 : 1e-8;
}

/* As in `layer`: unless a tolerance was asked for, the value of an f32 solve shall be good
 * to the digits that a table shows. */
double measure_value_tol(const measure_job *job) {
    return job->set->tol == 0.0 && job->dtype == LIPSC_F32 ? 1e-6 : 0.0;
}

/* ---- The row ----------------------------------------------------------------------- */

typedef struct {
    double *sigma; /* (count) */
    lipsc_svd_info info;
    double lower, upper, released, seconds, routing_gap;
    lipsc_spread spread;
    int has_spread;
    lipsc_influence influence;
    lipsc_sink_share share;
    double *v; /* the first direction, or NULL */
    cli_certified certified;
} result;

static void set_spread(lipsc_row *row, const result *r) {
    row->entropy = r->spread.entropy;
    row->sink = r->spread.sink;
    row->sink_token = r->spread.sink_token;
    row->sink_norm = r->share.alone;
    row->rest_norm = r->share.rest;
}

static void set_details(lipsc_row *row, const result *r) {
    row->token = r->influence.token;
    row->token_norm = r->influence.token_norm;
    row->pair_from = r->influence.pair_from;
    row->pair_to = r->influence.pair_to;
    row->pair_norm = r->influence.pair_norm;
}

static void set_certificate(lipsc_row *row, const lipsc_certificate *found) {
    row->certified = found->certified;
    row->certificate = found->rung;
    row->certify_products = found->products;
}

/* What the row says of its origin, so that it can stand alone. */
static void set_origin(const measure_job *job, lipsc_row *row) {
    row->experiment = job->experiment;
    row->model = job->spec;
    row->architecture = job->info->architecture;
    row->version = lipsc_version();
    row->model_hash = job->info->hash;
    row->text_hash = job->source.hash;
    row->seed = (long long)job->set->seed;
    row->tol = measure_tol(job);
}

static void set_radius(const double *X, size_t n, size_t d, lipsc_row *row) {
    double sum = 0.0, largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double square = 0.0;
        for (size_t c = 0; c < d; c++) square += X[i * d + c] * X[i * d + c];
        sum += square;
        largest = lipsc_max(largest, square);
    }
    row->radius_rms = sqrt(sum / (double)n);
    row->radius_max = sqrt(largest);
}

static void set_value(const result *r, lipsc_row *row) {
    row->sigma = r->sigma[0];
    row->lower = r->lower;
    row->upper = r->upper;
    row->upper_prob = r->info.upper_prob;
    row->probability = r->info.probability;
    row->residual = r->info.residual;
    row->products = r->info.products;
    row->converged = r->info.converged;
    row->released = r->released;
    row->routing_gap = r->routing_gap;
    row->seconds = r->seconds;
}

unsigned measure_parts(const measure_settings *s) {
    return LIPSC_PART_UPPER | (s->count ? LIPSC_PART_COUNT : 0) |
           (s->as_released ? LIPSC_PART_RELEASED : 0) |
           (s->details ? LIPSC_PART_DETAILS : 0) |
           (s->details || s->sink ? LIPSC_PART_SPREAD : 0) |
           (s->sink ? LIPSC_PART_SINK : 0) |
           (s->certify.eps > 0.0 ? LIPSC_PART_CERTIFY : 0);
}

static void make_row(const measure_job *job, const measure_cell *cell,
                     const lipsc_acts *acts, lipsc_attn *attn, const result *r,
                     measure_room *room, lipsc_row *row) {
    const measure_settings *s = job->set;
    const lipsc_mask mask = attn                 ? attn->layer.mask
                            : job->mask_override ? *job->mask_override
                                                 : job->info->mask;
    lipsc_fields_clear(lipsc_row_fields(), row);
    row->parts = measure_parts(s) | (job->experiment ? LIPSC_PART_EXPERIMENT : 0);
    row->layer = cell->layer;
    row->head = cell->head;
    row->map = measure_map_names[s->map];
    row->mask = lipsc_mask_name(mask);
    row->n = cell->n;
    row->window = cell->window;
    row->start = cell->start;
    row->special = s->source.special;
    row->dtype = lipsc_dtype_name(job->dtype);
    set_value(r, row);
    set_radius(map_input(job, cell, acts), cell->n, job->info->d, row);
    if (*r->info.unknown) {
        memcpy(room->rounding, r->info.unknown, sizeof room->rounding);
        row->rounding = room->rounding;
    }
    if (s->count) row->sigmas = (lipsc_reals){s->count, room->sigmas};
    if (r->has_spread) set_spread(row, r);
    if (s->details) set_details(row, r);
    if (s->certify.eps > 0.0) set_certificate(row, &r->certified.found);
    set_origin(job, row);
}

lipsc_status measure_keep(measure_job *job, measure_cell *cell, const lipsc_row *row,
                          lipsc_error *err) {
    lipsc_row *kept = &job->rows[cell - job->cells];
    *kept = *row;
    if (row->rounding) kept->rounding = lipsc_pool_text(&job->pool, row->rounding);
    if (row->sigmas.at)
        kept->sigmas.at = lipsc_pool_reals(&job->pool, row->sigmas.count, row->sigmas.at);
    if ((row->rounding && !kept->rounding) || (row->sigmas.at && !kept->sigmas.at))
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    cell->row = kept;
    return LIPSC_OK;
}

lipsc_status measure_restore(measure_job *job, measure_cell *cell, lipsc_error *err) {
    lipsc_row *row = &job->rows[cell - job->cells];
    char key[MEASURE_KEY];
    json_t *stored;
    measure_key(job, cell, key);
    lipsc_status status = lipsc_run_get(job->run, key, &stored, err);
    if (status || !stored) return status;
    status = lipsc_row_read(stored, &job->pool, row, err);
    json_decref(stored);
    if (!status) cell->row = row;
    return status;
}

/* ---- The solve --------------------------------------------------------------------- */

static lipsc_svd_settings solve_settings(const measure_job *job) {
    const measure_settings *s = job->set;
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.method = (lipsc_method)s->solver;
    set.tol = s->tol;
    set.value_tol = measure_value_tol(job);
    if (s->max_products) set.max_products = (long)s->max_products;
    set.count = s->count ? s->count : 1;
    set.seed = s->seed;
    set.probability = s->probability;
    set.stop = cli_interrupted;
    return set;
}

/* Heads and attention go with their layer; of the other maps only the model has all that
 * they are made of. */
static lipsc_layer_record make_record(const measure_job *job, const measure_cell *cell,
                                      const lipsc_acts *acts, const lipsc_attn *attn) {
    const int alone =
        job->set->map == LIPSC_MAP_HEADS || job->set->map == LIPSC_MAP_ATTENTION;
    if (alone) return lipsc_layer_record_of(&attn->layer, &attn->input);
    return (lipsc_layer_record){
        .layer = {.d = job->info->d},
        .input = {.n = cell->n, .X = map_input(job, cell, acts)},
        .map = job->set->map,
        .mask_override = job->mask_override ? lipsc_mask_name(*job->mask_override) : NULL};
}

static lipsc_status save_direction(const measure_job *job, const measure_cell *cell,
                                   const lipsc_acts *acts, const lipsc_attn *attn,
                                   const double *sigma, const double *u, const double *v,
                                   lipsc_error *err) {
    char path[4096];
    cli_save_room room = {.ids = NULL};
    if (!measure_direction_path(job, cell, path, sizeof path))
        return lipsc_fail(err, LIPSC_E_RANGE, "%s: the path is too long",
                          job->set->save_direction);
    lipsc_layer_record record = make_record(job, cell, acts, attn);
    cli_save_model(&record, job->spec, job->info, cell->layer,
                   cell->head == MEASURE_NONE ? -1 : (long)cell->head, &room);
    record.dtype = lipsc_dtype_name(job->dtype);
    record.sigma = sigma;
    record.u = u;
    record.v = v;
    lipsc_status status = cli_save_window(&record, &job->source, cell->start, &room, err);
    if (!status) status = lipsc_layer_write(path, &record, err);
    cli_save_free(&room);
    return status;
}

static lipsc_status fail_plain(lipsc_status status, lipsc_error *err) {
    return status ? lipsc_fail(err, status, "%s", lipsc_strerror(status)) : LIPSC_OK;
}

static lipsc_status certify(const measure_job *job, const measure_cell *cell,
                            lipsc_map *map, result *r, lipsc_error *err) {
    char key[MEASURE_KEY];
    cli_certifier c;
    measure_key(job, cell, key);
    cli_certify_begin(&c, job->self, &job->set->certify, &job->set->common, key, r->lower,
                      r->upper, job->set->seed);
    const lipsc_status status =
        lipsc_map_certify(map, r->v, &c.set, &r->certified.found, err);
    r->upper = r->certified.found.upper;
    r->lower = r->certified.found.lower;
    return cli_certify_end(&c, status, err, &r->certified);
}

/* What is asked for besides the value. */
static lipsc_status extras(const measure_job *job, const measure_cell *cell, lipsc_map *map,
                           result *r, lipsc_error *err) {
    lipsc_attn *attn = lipsc_map_attn(map);
    const lipsc_linop op = lipsc_map_linop(map);
    lipsc_status status = LIPSC_OK;
    if (job->set->upper && !*r->info.unknown) {
        lipsc_upper upper;
        status = lipsc_attn_upper(attn, &upper, err);
        if (!status) r->upper = upper.value;
    }
    if (!status && job->set->certify.eps > 0.0) status = certify(job, cell, map, r, err);
    if (!status && job->set->as_released)
        status = fail_plain(lipsc_map_released(map, &r->released), err);
    if (!status && (job->set->details || job->set->sink)) {
        r->has_spread = attn != NULL;
        if (r->has_spread) status = fail_plain(lipsc_attn_spread(attn, &r->spread), err);
    }
    if (!status && job->set->sink && r->has_spread)
        status =
            fail_plain(lipsc_sink_share_find(&op, cell->n, r->spread.sink_token,
                                             job->set->seed, cli_interrupted, &r->share),
                       err);
    if (!status && job->set->details)
        status = fail_plain(lipsc_influence_find(&op, cell->n, job->set->seed,
                                                 cli_interrupted, &r->influence),
                            err);
    return status;
}

static lipsc_status solve(const measure_job *job, const measure_cell *cell,
                          const lipsc_acts *acts, lipsc_map *map, int threads, result *r,
                          measure_times *times, lipsc_error *err) {
    const lipsc_svd_settings set = solve_settings(job);
    const lipsc_linop op = lipsc_map_linop(map);
    const double begin = lipsc_seconds();
    const int wanted = job->set->save_direction || job->set->certify.eps > 0.0;
    double *u = NULL;
    if (wanted) {
        size_t m, n;
        if (lipsc_mul_size(op.m, set.count, &m) && lipsc_mul_size(op.n, set.count, &n)) {
            u = lipsc_alloc(m, sizeof *u);
            r->v = lipsc_alloc(n, sizeof *r->v);
        }
    }
    lipsc_status status = wanted && (!u || !r->v) ? LIPSC_E_NOMEM : LIPSC_OK;
    if (!status) status = lipsc_map_sigma(map, &set, r->sigma, u, r->v, &r->info);
    r->lower = r->info.lower;
    if (status == LIPSC_E_NOCONV) status = LIPSC_OK; /* r->info.converged says so */
    if (status) fail_plain(status, err);
    const double solved = lipsc_seconds();
    times->solve += threads * (solved - begin);
    times->products += threads * r->info.product_seconds;
    if (!status) status = extras(job, cell, map, r, err);
    if (!status && job->set->save_direction)
        status =
            save_direction(job, cell, acts, lipsc_map_attn(map), r->sigma, u, r->v, err);
    times->extras += threads * (lipsc_seconds() - solved);
    lipsc_release(u);
    return status;
}

lipsc_status measure_compute(const measure_job *job, measure_cell *cell,
                             const lipsc_acts *acts, int threads, measure_times *times,
                             measure_room *room, lipsc_row *row, lipsc_error *err) {
    const double begin = lipsc_seconds();
    const lipsc_map_options how = {.map = (lipsc_map_kind)job->set->map,
                                   .layer = cell->layer == MEASURE_NONE ? 0 : cell->layer,
                                   .head =
                                       cell->head == MEASURE_NONE ? -1 : (long)cell->head,
                                   .mask_override = job->mask_override,
                                   .dtype = job->dtype,
                                   .threads = threads};
    lipsc_map *map = NULL;
    result r = {.upper = NAN, .released = NAN, .share = {NAN, NAN}};
    r.sigma = lipsc_alloc_zero(job->set->count ? job->set->count : 1, sizeof *r.sigma);
    room->sigmas = r.sigma;
    lipsc_status status =
        r.sigma ? lipsc_map_new(job->model, acts, &how, &map, err)
                : lipsc_fail(err, LIPSC_E_NOMEM, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    times->prepare += threads * (lipsc_seconds() - begin);
    if (!status) status = solve(job, cell, acts, map, threads, &r, times, err);
    r.seconds = lipsc_seconds() - begin;
    cell->passing = r.certified.refused;
    r.routing_gap = map ? lipsc_map_routing_gap(map) : NAN;
    if (!status) make_row(job, cell, acts, lipsc_map_attn(map), &r, room, row);
    lipsc_map_free(map);
    lipsc_release(r.v);
    return status;
}
