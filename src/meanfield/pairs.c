/* pairs.c - few atoms of very different mass in a ball, moved about at random as long as
 * their local constant grows; starts are the worst cases of docs/maths.md 5.3 and 5.4. */
#include "lipscope/meanfield.h"

#include <math.h>
#include <string.h>

#include "bound/construct.h"
#include "bound/zoo.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/rng.h"
#include "meanfield/meanfield.h"

enum { HEADS = 4, RANDOM_STARTS = 3, FIBRES = 100 };
static const double fibre_growth = 1.5; /* the cells of 5.4 span 17 decades */
static const double least_log_mass = -60.0;

void lipsc_pairs_defaults(lipsc_pairs_settings *set) {
    *set = (lipsc_pairs_settings){.atoms = 3, .step = 1e-4, .seed = 1};
}

void lipsc_pairs_free(lipsc_pairs *pairs) {
    if (pairs) lipsc_cloud_free(&pairs->measure);
}

typedef struct {
    const lipsc_layer *layer; /* resolved */
    lipsc_acting acting;
    const lipsc_pairs_settings *set;
    size_t k, d;
    double *now, *best, *weights; /* points (k, d) and log masses (k); weights (k)      */
    lipsc_pairs *out;
    uint64_t drawn;
} search;

static double normal(search *s) { return lipsc_rng_normal(s->set->seed, s->drawn++); }

/* ---- One measure -------------------------------------------------------------------- */

static lipsc_status slope_of(search *s, const lipsc_measure *mu, double step, double *split,
                             double *measured, lipsc_error *err) {
    lipsc_slope_settings set;
    lipsc_slopes found;
    lipsc_slope_defaults(&set);
    set.device = s->set->device;
    set.restarts = 0;
    set.tol = 1e-6; /* the error of a value with a gap below it is its square */
    set.step = step;
    s->out->evaluations++;
    if (s->set->stop && s->set->stop(s->set->ctx)) return LIPSC_E_STOPPED;
    const lipsc_status status =
        lipsc_slopes_with(&s->acting, s->layer, mu, &set, &found, err);
    if (status && status != LIPSC_E_NOCONV) return status;
    *split = found.split;
    if (measured) *measured = found.split_measured;
    lipsc_slopes_free(&found);
    return LIPSC_OK;
}

static lipsc_status keep(const lipsc_measure *mu, double split, lipsc_pairs *out,
                         lipsc_error *err) {
    lipsc_cloud_parts parts;
    lipsc_cloud copy;
    const size_t n = mu->n;
    const lipsc_status status =
        lipsc_cloud_new(n, mu->d, mu->times != NULL, &copy, &parts, err);
    if (status) return status;
    memcpy(parts.points, mu->points, n * mu->d * sizeof *parts.points);
    memcpy(parts.weights, mu->weights, n * sizeof *parts.weights);
    if (mu->times) memcpy(parts.times, mu->times, n * sizeof *parts.times);
    lipsc_cloud_free(&out->measure);
    out->measure = copy;
    out->best = split;
    return LIPSC_OK;
}

/* ---- Moving about ------------------------------------------------------------------- */

/* Points into the ball, log masses up to 0; weights that sum to one. */
static void repair(search *s, double *x) {
    double *t = x + s->k * s->d, top = -INFINITY, sum = 0.0;
    for (size_t i = 0; i < s->k; i++) {
        double length = 0.0;
        for (size_t c = 0; c < s->d; c++) length = hypot(length, x[i * s->d + c]);
        for (size_t c = 0; length > s->set->radius && c < s->d; c++)
            x[i * s->d + c] *= s->set->radius / length;
        top = lipsc_max(top, t[i]);
    }
    for (size_t i = 0; i < s->k; i++) {
        t[i] = lipsc_max(t[i] - top, least_log_mass);
        sum += s->weights[i] = exp(t[i]);
    }
    for (size_t i = 0; i < s->k; i++) s->weights[i] /= sum;
}

/* From best: normal steps whose size follows their success. */
static lipsc_status climb(search *s, lipsc_error *err) {
    const size_t numbers = s->k * (s->d + 1);
    const double reach = s->set->radius / sqrt((double)s->d);
    double here = 0.0, size = 0.2;
    lipsc_status status = LIPSC_OK;
    const size_t chosen = s->d <= 16 ? 300 : 60;
    const size_t most = s->set->evaluations ? s->set->evaluations : chosen;
    for (size_t e = 0; e < most && !status; e++) {
        double split = 0.0;
        for (size_t i = 0; i < numbers; i++)
            s->now[i] = s->best[i] +
                        (e == 0 ? 0.0 : size * normal(s) * (i < s->k * s->d ? reach : 4.0));
        repair(s, s->now);
        const lipsc_measure mu = {
            .n = s->k, .d = s->d, .points = s->now, .weights = s->weights};
        status = slope_of(s, &mu, 0.0, &split, NULL, err);
        if (status == LIPSC_E_NONFIN) status = LIPSC_OK; /* a score overflowed: not there */
        const int better = !status && split > here;
        size = lipsc_min(0.5, size * (e == 0 ? 1.0 : better ? 1.5 : 0.91));
        if (!better) continue;
        here = split;
        memcpy(s->best, s->now, numbers * sizeof *s->now);
        if (split > s->out->best) status = keep(&mu, split, s->out, err);
    }
    return status;
}

static void random_start(search *s) {
    for (size_t i = 0; i < s->k * s->d; i++)
        s->best[i] = s->set->radius / sqrt((double)s->d) * normal(s);
    for (size_t i = 0; i < s->k; i++) s->best[s->k * s->d + i] = 3.0 * normal(s);
}

/* ---- Known worst cases -------------------------------------------------------------- */

/* 5.3: the two Diracs, and further atoms of little mass; 5.4 as it stands. */
static lipsc_status from_head(search *s, const lipsc_head_facts *f, lipsc_error *err) {
    const int masked = s->layer->mask != LIPSC_MASK_NONE;
    lipsc_worst worst;
    double split = 0.0;
    lipsc_status status = masked ? lipsc_construct_scales(f, s->set->radius, FIBRES,
                                                          fibre_growth, &worst, err)
                                 : lipsc_construct_diracs(f, s->set->radius, &worst, err);
    if (status) return status;
    const lipsc_measure mu = {.n = worst.points,
                              .d = s->d,
                              .points = worst.X,
                              .weights = worst.count,
                              .times = worst.times};
    status = slope_of(s, &mu, 0.0, &split, NULL, err);
    if (!status && split > s->out->construction) {
        s->out->construction = split;
        s->out->promised = exp(worst.log_promised);
    }
    if (!status && split > s->out->best) status = keep(&mu, split, s->out, err);
    if (!status && !masked) {
        random_start(s);
        memcpy(s->best, worst.X, 2 * s->d * sizeof *worst.X);
        for (size_t i = 0; i < s->k; i++)
            s->best[s->k * s->d + i] =
                i < 2 ? log(worst.count[i]) : log(worst.count[0]) - 5;
        status = climb(s, err);
    }
    lipsc_worst_free(&worst);
    return status;
}

/* The heads of largest a, largest first. */
static size_t choose_heads(const lipsc_zoo_case *z, size_t order[HEADS]) {
    size_t count = 0;
    for (size_t h = 0; h < z->layer->heads; h++) {
        size_t place = count < HEADS ? count++ : HEADS;
        while (place > 0 && lipsc_a2(z, order[place - 1]) < lipsc_a2(z, h)) {
            if (place < HEADS) order[place] = order[place - 1];
            place--;
        }
        if (place < HEADS) order[place] = h;
    }
    return count;
}

static const lipsc_zoo_rule *rule_of(int masked) {
    for (size_t r = 0; r < lipsc_zoo_count; r++)
        if (lipsc_zoo_rules[r].log_head ==
            (masked ? lipsc_masked_uniform : lipsc_mean_field_w2))
            return &lipsc_zoo_rules[r];
    return NULL;
}

/* ---- Together ----------------------------------------------------------------------- */

static lipsc_status run(search *s, const lipsc_zoo_case *z, lipsc_error *err) {
    const int masked = s->layer->mask != LIPSC_MASK_NONE;
    size_t heads[HEADS] = {0};
    const size_t count = choose_heads(z, heads);
    lipsc_zoo_row bound;
    lipsc_status status = lipsc_zoo_evaluate(z, rule_of(masked), &bound);
    s->out->upper = bound.value;
    s->out->log_upper = bound.log_value;
    s->out->a = lipsc_a2(z, heads[0]);
    for (size_t h = 0; h < count && !status; h++) {
        status = from_head(s, &z->head[heads[h]], err);
        if (status == LIPSC_E_REFUSED && (h > 0 || !masked)) status = LIPSC_OK;
    }
    for (int r = 0; r < RANDOM_STARTS && !masked && !status; r++) {
        random_start(s);
        status = climb(s, err);
    }
    if (!status && s->out->measure.storage) {
        double split;
        status = slope_of(s, &s->out->measure.measure, s->set->step, &split,
                          &s->out->measured, err);
    }
    return status;
}

lipsc_status lipsc_pairs_find(const lipsc_layer *layer, const lipsc_pairs_settings *set,
                              lipsc_pairs *out, lipsc_error *err) {
    lipsc_layer resolved;
    lipsc_error own = {.text = ""};
    if (!err) err = &own;
    lipsc_status status = lipsc_layer_check(layer, &resolved, err);
    if (status) return status;
    if (!(set->radius > 0.0) || !isfinite(set->radius) || set->atoms < 2 || set->atoms > 64)
        return lipsc_fail(err, LIPSC_E_ARG, "a setting is out of range");
    if (resolved.mask == LIPSC_MASK_SLIDING || resolved.mask == LIPSC_MASK_LOCAL)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "a sliding window counts tokens, which a measure does not have");
    *out = (lipsc_pairs){.measured = NAN, .construction = NAN, .promised = NAN};
    out->construction = -1.0;
    if (resolved.mask == LIPSC_MASK_CAUSAL) resolved.mask = LIPSC_MASK_TIMES;
    search s = {.layer = &resolved, .set = set, .k = set->atoms, .d = layer->d, .out = out};
    const size_t numbers = s.k * (s.d + 1);
    double *storage = lipsc_alloc_zero(2 * numbers + s.k, sizeof *storage);
    if (!storage) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a search");
    s.now = storage;
    s.best = storage + numbers;
    s.weights = storage + 2 * numbers;

    /* the ball is all that the bounds look at: one token at its middle */
    const double time = 1.0;
    const lipsc_input middle = {
        .n = 1, .X = s.now, .times = resolved.mask == LIPSC_MASK_TIMES ? &time : NULL};
    lipsc_zoo_case zoo;
    lipsc_attn *attn;
    memset(&zoo, 0, sizeof zoo);
    status = lipsc_attn_new(&resolved, &middle, LIPSC_F64, lipsc_cpu_of(1), &attn, err);
    if (!status) {
        status = lipsc_zoo_case_make(attn, set->radius, 2.0, NULL, &zoo, err);
        if (!status) status = lipsc_acting_new(&resolved, &s.acting, err);
        if (!status) status = run(&s, &zoo, err);
        lipsc_acting_free(&s.acting);
        lipsc_zoo_case_free(&zoo);
        lipsc_attn_free(attn);
    }
    lipsc_release(storage);
    if (out->construction < 0.0) out->construction = NAN;
    if (!status) return LIPSC_OK;
    lipsc_pairs_free(out);
    return *err->text ? status : lipsc_fail(err, status, "%s", lipsc_strerror(status));
}
