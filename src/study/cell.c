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

double lipsc_row_tol(double tol, lipsc_dtype dtype) {
    if (tol != 0.0) return tol;
    return dtype == LIPSC_F32 ? 1e-2 : 1e-8;
}

double lipsc_study_tol(const lipsc_study_settings *set) {
    return lipsc_row_tol(set->tol, set->dtype);
}

/* As in `layer`: unless a tolerance was asked for, the value of an f32 solve shall be good
 * to the digits that a table shows. */
double lipsc_study_value_tol(const lipsc_study_settings *set) {
    return set->tol == 0.0 && set->dtype == LIPSC_F32 ? 1e-6 : 0.0;
}

static size_t value_count(const lipsc_study *study) {
    return study->set.count ? study->set.count : 1;
}

/* Who is told of a solve, and the residual that ends it. */
typedef struct {
    const lipsc_study_settings *set;
    double tol;
} follower;

static int solve_stops(void *ctx) {
    const follower *f = ctx;
    return f->set->stop && f->set->stop(f->set->ctx);
}

static void tell_solve(void *ctx, long products, double sigma, double residual) {
    const follower *f = ctx;
    f->set->solve(f->set->ctx, products, sigma, residual, f->tol);
}

/* With an f that a solve is told to, where somebody wants to know. */
static lipsc_svd_settings solve_settings(const lipsc_study *study, int told, follower *f) {
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
    set.pinned = s->pinned;
    set.stop = s->stop;
    set.ctx = s->ctx;
    if (!told || !s->solve) return set;
    /* an error of the value is about the square of the residual */
    *f = (follower){s, lipsc_study_tol(s)};
    if (set.value_tol > 0.0 && sqrt(set.value_tol) < f->tol) f->tol = sqrt(set.value_tol);
    set.stop = solve_stops;
    set.progress = tell_solve;
    set.ctx = f;
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
                           "%s: %s; certify_seconds and certify_memory set the limit",
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
        status = lipsc_influence_find(&op, cell->n, s->seed, s->stop, s->ctx, r->strengths,
                                      &r->influence);
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

/* A cell on its way. */
typedef struct {
    lipsc_map *map;
    study_result r;
} work;

/* The values of all cells whose maps are made. */
static void find_values(const lipsc_study *study, size_t count, study_job *job, work *w) {
    follower follows;
    const lipsc_svd_settings set = solve_settings(study, job->told, &follows);
    lipsc_sigma_task *task = lipsc_alloc_zero(count, sizeof *task);
    lipsc_attn **attn = lipsc_alloc(count, sizeof *attn);
    lipsc_status status = task && attn ? LIPSC_OK : LIPSC_E_NOMEM;
    const lipsc_map_kind kind = study->set.map;
    const int together = kind == LIPSC_MAP_HEADS || kind == LIPSC_MAP_ATTENTION;
    for (size_t i = 0; i < count && !status; i++) {
        study_result *r = &w[i].r;
        status = make_room(study, w[i].map, r);
        attn[i] = lipsc_map_attn(w[i].map);
        task[i] =
            (lipsc_sigma_task){.sigma = r->sigma, .u = r->u, .v = r->v, .info = &r->info};
    }
    if (!status && together) status = lipsc_attn_sigmas(count, attn, &set, task);
    for (size_t i = 0; i < count; i++) {
        study_result *r = &w[i].r;
        if (!status && !together)
            task[i].status =
                lipsc_map_sigma(w[i].map, &set, r->sigma, r->u, r->v, &r->info);
        job[i].status = status ? status : task[i].status;
    }
    lipsc_release(task);
    lipsc_release(attn);
}

/* What follows the value of a cell. */
static void complete(const lipsc_study *study, study_job *job, work *w, int threads) {
    study_result *r = &w->r;
    const double solved = lipsc_seconds();
    r->lower = r->info.lower;
    if (job->status == LIPSC_E_NOCONV) job->status = LIPSC_OK; /* info.converged says so */
    if (job->status) {
        fail_plain(job->status, &job->err);
        return;
    }
    job->times.solve = threads * r->info.seconds;
    job->times.products = threads * r->info.product_seconds;
    job->status = extras(study, job->cell, w->map, r, &job->err);
    if (!job->status && study->set.save_direction)
        job->status = lipsc_study_save_direction(study, job->cell, job->acts,
                                                 lipsc_map_attn(w->map), r, &job->err);
    const double extra = lipsc_seconds() - solved;
    job->times.extras = threads * extra;
    r->seconds += r->info.seconds + extra;
    r->routing_gap = lipsc_map_routing_gap(w->map);
    if (!job->status)
        lipsc_study_fill(study, job->cell, job->acts, lipsc_map_attn(w->map), r, &job->room,
                         &job->row);
}

static lipsc_map_options map_options(const lipsc_study *study, const study_cell *cell,
                                     lipsc_device *device) {
    return (lipsc_map_options){.map = study->set.map,
                               .layer = cell->layer == LIPSC_NONE ? 0 : cell->layer,
                               .head = cell->head == LIPSC_NONE ? -1 : (long)cell->head,
                               .mask_override = study->set.mask_override,
                               .dtype = study->set.dtype,
                               .device = device};
}

/* Room for the values, and the maps; the time goes to all alike. */
static lipsc_status make_maps(const lipsc_study *study, size_t count, study_job *job,
                              work *w, lipsc_device *device, lipsc_error *err) {
    const double begin = lipsc_seconds();
    const lipsc_map_options how = map_options(study, job->cell, device);
    const lipsc_acts **acts = lipsc_alloc(count, sizeof *acts);
    lipsc_map **map = lipsc_alloc(count, sizeof *map);
    lipsc_status status = acts && map ? LIPSC_OK : fail_plain(LIPSC_E_NOMEM, err);
    for (size_t i = 0; i < count && !status; i++) {
        job[i].cell->passing = 0;
        acts[i] = job[i].acts;
        w[i].r = (study_result){.upper = NAN, .released = NAN, .share = {NAN, NAN}};
        w[i].r.sigma = lipsc_alloc_zero(value_count(study), sizeof *w[i].r.sigma);
        job[i].room.sigmas = w[i].r.sigma;
        if (study->set.details)
            w[i].r.strengths = lipsc_alloc_zero(job[i].cell->n, sizeof *w[i].r.strengths);
        job[i].room.influence = w[i].r.strengths;
        if (!w[i].r.sigma || (study->set.details && !w[i].r.strengths))
            status = fail_plain(LIPSC_E_NOMEM, err);
    }
    if (!status) status = lipsc_map_batch_new(study->model, count, acts, &how, map, err);
    const double each = (lipsc_seconds() - begin) / (double)count;
    for (size_t i = 0; i < count && !status; i++) {
        w[i].map = map[i];
        w[i].r.seconds = each;
        job[i].times.prepare = device->threads * each;
    }
    lipsc_release(acts);
    lipsc_release(map);
    return status;
}

void lipsc_study_compute(const lipsc_study *study, size_t count, study_job *job,
                         int threads) {
    lipsc_error err;
    lipsc_device lent;
    lipsc_device_lend(study->set.device, threads, &lent);
    work *w = lipsc_alloc_zero(count, sizeof *w);
    const lipsc_status status =
        w ? make_maps(study, count, job, w, &lent, &err) : fail_plain(LIPSC_E_NOMEM, &err);
    if (!status) find_values(study, count, job, w);
    for (size_t i = 0; i < count; i++) {
        if (status) {
            job[i].status = status;
            job[i].err = err;
        } else {
            complete(study, &job[i], &w[i], threads);
        }
        if (!w) continue;
        lipsc_map_free(w[i].map);
        lipsc_release(w[i].r.u);
        lipsc_release(w[i].r.v);
    }
    lipsc_release(w);
}
