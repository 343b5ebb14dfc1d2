/* cell.c - one cell: the map at a window, its largest singular value, what is asked for
 * besides. */
#include <math.h>
#include <stdio.h>

#include "attn/attn.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/mem.h"
#include "study/result.h"
#include "value/value.h"

/* ---- Names --------------------------------------------------------------------------- */

static void place_text(size_t place, const char *none, char text[24]) {
    if (place == LIPSC_NONE)
        snprintf(text, 24, "%s", none);
    else
        snprintf(text, 24, "%zu", place);
}

void lipsc_study_cell_key(const lipsc_study *study, const study_cell *cell,
                          char key[LIPSC_CELL_KEY]) {
    const char *experiment = study->set.experiment;
    char layer[24], head[24];
    place_text(cell->layer, "none", layer);
    place_text(cell->head, "all", head);
    snprintf(key, LIPSC_CELL_KEY, "%s%smap=%s layer=%s head=%s n=%zu window=%zu",
             experiment ? experiment : "", experiment ? ": " : "",
             lipsc_map_name(study->set.map), layer, head, cell->n, cell->window);
}

/* ---- The solve ----------------------------------------------------------------------- */

const double *lipsc_study_input(const lipsc_study *study, const study_cell *cell,
                                const lipsc_acts *acts) {
    const lipsc_map_kind map = study->set.map;
    if (map == LIPSC_MAP_MODEL) return lipsc_acts_block_input(acts, 0);
    if (map == LIPSC_MAP_HEADS || map == LIPSC_MAP_ATTENTION)
        return lipsc_acts_attention_input(acts, cell->layer);
    return lipsc_acts_block_input(acts, cell->layer);
}

double lipsc_study_tol(const lipsc_study_settings *set) {
    if (set->tol != 0.0) return set->tol;
    return set->dtype == LIPSC_F32 ? 1e-2 : 1e-8;
}

/* As in `layer`: unless a tolerance was asked for, the value of an f32 solve shall be good
 * to the digits that a table shows. */
double lipsc_study_value_tol(const lipsc_study_settings *set) {
    return set->tol == 0.0 && set->dtype == LIPSC_F32 ? 1e-6 : 0.0;
}

static size_t value_count(const lipsc_study *study) {
    return study->set.count ? study->set.count : 1;
}

static lipsc_svd_settings solve_settings(const lipsc_study *study) {
    const lipsc_study_settings *s = &study->set;
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.method = s->method;
    set.tol = s->tol;
    set.value_tol = lipsc_study_value_tol(s);
    if (s->max_products) set.max_products = (long)s->max_products;
    set.count = value_count(study);
    set.seed = s->seed;
    set.probability = s->probability;
    set.stop = s->stop;
    set.ctx = s->ctx;
    return set;
}

static lipsc_status fail_plain(lipsc_status status, lipsc_error *err) {
    return status ? lipsc_fail(err, status, "%s", lipsc_strerror(status)) : LIPSC_OK;
}

/* ---- The certificate ----------------------------------------------------------------- */

/* Below, a certificate starts without a word. */
static const double worth_telling = 1.0; /* seconds */

typedef struct {
    const lipsc_study *study;
    char key[LIPSC_CELL_KEY];
    const char *rung;
} certifier;

static int tell_plan(void *ctx, const lipsc_certify_plan *plan) {
    certifier *c = ctx;
    c->rung = plan->rung;
    if (plan->seconds >= worth_telling)
        lipsc_study_remark(c->study,
                           "%s: certificate (%s): about %.0f products, %.0f s, %.2f GiB",
                           c->key, plan->rung, plan->products, plan->seconds,
                           (double)plan->bytes / (double)(1 << 30));
    return 0;
}

static int ask_stop(void *ctx) { return lipsc_study_stopped(((certifier *)ctx)->study); }

static void tell_done(void *ctx, double done, double seconds_left) {
    const certifier *c = ctx;
    const lipsc_study_settings *s = &c->study->set;
    if (s->certificate) s->certificate(s->ctx, c->rung, done, seconds_left);
}

static lipsc_certify_settings certify_settings(certifier *c, const study_result *r) {
    const lipsc_study_settings *s = &c->study->set;
    lipsc_certify_settings set;
    lipsc_certify_defaults(&set);
    set.eps = s->certify;
    set.max_seconds = s->certify_seconds;
    set.max_bytes = (size_t)(s->certify_memory * (double)(1 << 30));
    if (r->lower > 0.0) set.lower = r->lower; /* not a NaN */
    if (!isnan(r->upper)) set.upper = r->upper;
    set.seed = s->seed;
    set.begin = tell_plan;
    set.stop = ask_stop;
    set.progress = tell_done;
    set.ctx = c;
    return set;
}

/* The row is made, certified or not; one that was refused may be asked for again. */
static lipsc_status certify(const lipsc_study *study, study_cell *cell, lipsc_map *map,
                            study_result *r, lipsc_error *err) {
    certifier c = {.study = study, .rung = ""};
    lipsc_study_cell_key(study, cell, c.key);
    const lipsc_certify_settings set = certify_settings(&c, r);
    const lipsc_status status = lipsc_map_certify(map, r->v, &set, &r->certificate, err);
    r->upper = r->certificate.upper;
    r->lower = r->certificate.lower;
    tell_done(&c, 1.0, 0.0);
    cell->passing = status == LIPSC_E_REFUSED;
    if (cell->passing)
        lipsc_study_remark(study,
                           "%s: %s; --certify-seconds and --certify-memory set the limit",
                           c.key, err->text);
    else if (status == LIPSC_E_NOCONV)
        lipsc_study_remark(study, "%s: %s", c.key, err->text);
    return cell->passing || status == LIPSC_E_NOCONV ? LIPSC_OK : status;
}

/* ---- What is asked for besides ------------------------------------------------------- */

static lipsc_status find_upper(const lipsc_study *study, lipsc_attn *attn, study_result *r,
                               lipsc_error *err) {
    lipsc_upper upper;
    if (!study->set.upper || *r->info.unknown) return LIPSC_OK;
    const lipsc_status status = lipsc_attn_upper(attn, &upper, err);
    if (!status) r->upper = upper.value;
    return status;
}

/* Entropy, sink, what single tokens do. */
static lipsc_status look_closer(const lipsc_study *study, const study_cell *cell,
                                lipsc_map *map, study_result *r, lipsc_error *err) {
    const lipsc_study_settings *s = &study->set;
    lipsc_attn *attn = lipsc_map_attn(map);
    const lipsc_linop op = lipsc_map_linop(map);
    lipsc_status status = LIPSC_OK;
    if (s->details || s->sink) {
        r->has_spread = attn != NULL;
        if (r->has_spread) status = lipsc_attn_spread(attn, &r->spread);
    }
    if (!status && s->sink && r->has_spread)
        status = lipsc_sink_share_find(&op, cell->n, r->spread.sink_token, s->seed, s->stop,
                                       s->ctx, &r->share);
    if (!status && s->details)
        status =
            lipsc_influence_find(&op, cell->n, s->seed, s->stop, s->ctx, &r->influence);
    return fail_plain(status, err);
}

static lipsc_status extras(const lipsc_study *study, study_cell *cell, lipsc_map *map,
                           study_result *r, lipsc_error *err) {
    lipsc_status status = find_upper(study, lipsc_map_attn(map), r, err);
    if (!status && study->set.certify > 0.0) status = certify(study, cell, map, r, err);
    if (!status && study->set.as_released)
        status = fail_plain(lipsc_map_released(map, &r->released), err);
    return status ? status : look_closer(study, cell, map, r, err);
}

/* ---- Together ------------------------------------------------------------------------ */

/* Room for directions where somebody needs them. */
static lipsc_status make_room(const lipsc_study *study, lipsc_map *map, study_result *r) {
    const lipsc_linop op = lipsc_map_linop(map);
    const size_t count = value_count(study);
    size_t m, n;
    if (!study->set.save_direction && !(study->set.certify > 0.0)) return LIPSC_OK;
    if (!lipsc_mul_size(op.m, count, &m) || !lipsc_mul_size(op.n, count, &n))
        return LIPSC_E_NOMEM;
    r->u = lipsc_alloc(m, sizeof *r->u);
    r->v = lipsc_alloc(n, sizeof *r->v);
    return r->u && r->v ? LIPSC_OK : LIPSC_E_NOMEM;
}

static lipsc_status solve(const lipsc_study *study, study_cell *cell,
                          const lipsc_acts *acts, lipsc_map *map, int threads,
                          study_result *r, lipsc_study_times *times, lipsc_error *err) {
    const lipsc_svd_settings set = solve_settings(study);
    const double begin = lipsc_seconds();
    lipsc_status status = make_room(study, map, r);
    if (!status) status = lipsc_map_sigma(map, &set, r->sigma, r->u, r->v, &r->info);
    r->lower = r->info.lower;
    if (status == LIPSC_E_NOCONV) status = LIPSC_OK; /* r->info.converged says so */
    if (status) fail_plain(status, err);
    const double solved = lipsc_seconds();
    times->solve += threads * (solved - begin);
    times->products += threads * r->info.product_seconds;
    if (!status) status = extras(study, cell, map, r, err);
    if (!status && study->set.save_direction)
        status = lipsc_study_save_direction(study, cell, acts, lipsc_map_attn(map), r, err);
    times->extras += threads * (lipsc_seconds() - solved);
    return status;
}

static lipsc_map_options map_options(const lipsc_study *study, const study_cell *cell,
                                     int threads) {
    return (lipsc_map_options){.map = study->set.map,
                               .layer = cell->layer == LIPSC_NONE ? 0 : cell->layer,
                               .head = cell->head == LIPSC_NONE ? -1 : (long)cell->head,
                               .mask_override = study->set.mask_override,
                               .dtype = study->set.dtype,
                               .threads = threads};
}

lipsc_status lipsc_study_compute(const lipsc_study *study, study_cell *cell,
                                 const lipsc_acts *acts, int threads,
                                 lipsc_study_times *times, study_room *room, lipsc_row *row,
                                 lipsc_error *err) {
    const double begin = lipsc_seconds();
    const lipsc_map_options how = map_options(study, cell, threads);
    lipsc_map *map = NULL;
    study_result r = {.upper = NAN, .released = NAN, .share = {NAN, NAN}};
    r.sigma = lipsc_alloc_zero(value_count(study), sizeof *r.sigma);
    room->sigmas = r.sigma;
    cell->passing = 0;
    lipsc_status status = r.sigma ? lipsc_map_new(study->model, acts, &how, &map, err)
                                  : fail_plain(LIPSC_E_NOMEM, err);
    times->prepare += threads * (lipsc_seconds() - begin);
    if (!status) status = solve(study, cell, acts, map, threads, &r, times, err);
    r.seconds = lipsc_seconds() - begin;
    r.routing_gap = map ? lipsc_map_routing_gap(map) : NAN;
    if (!status) lipsc_study_fill(study, cell, acts, lipsc_map_attn(map), &r, room, row);
    lipsc_map_free(map);
    lipsc_release(r.u);
    lipsc_release(r.v);
    return status;
}
