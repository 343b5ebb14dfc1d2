/* distance.c - the public door to the distances: checks measures, brings their points to
 * one scale, and hands over what the solvers give. */
#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "ot/block.h"
#include "ot/check.h"

#include <math.h>
#include <string.h>

static const double sum_tolerance = 1e-9; /* of the weights */

void lipsc_distance_defaults(lipsc_distance_settings *set) {
    *set = (lipsc_distance_settings){.p = 2.0, .check = 1};
}

/* ---- What a measure has to be ---- */

lipsc_status lipsc_measure_check(const lipsc_measure *of, const char *which,
                                 lipsc_error *err) {
    size_t numbers;
    if (of->n == 0 || of->d == 0 || !of->points)
        return lipsc_fail(err, LIPSC_E_ARG, "the %s measure is empty", which);
    if (!lipsc_mul_size(of->n, of->d, &numbers))
        return lipsc_fail(err, LIPSC_E_RANGE, "the %s measure is too large", which);
    for (size_t i = 0; i < numbers; i++)
        if (!isfinite(of->points[i]))
            return lipsc_fail(err, LIPSC_E_NONFIN,
                              "point %zu of the %s measure holds a NaN or an infinity",
                              i / of->d, which);
    double sum = 0.0;
    for (size_t i = 0; of->weights && i < of->n; i++) {
        if (!(of->weights[i] > 0) || !isfinite(of->weights[i]))
            return lipsc_fail(err, LIPSC_E_ARG,
                              "weight %zu of the %s measure is not a positive number", i,
                              which);
        sum += of->weights[i];
    }
    if (of->weights && !(fabs(sum - 1.0) <= sum_tolerance))
        return lipsc_fail(err, LIPSC_E_ARG,
                          "the weights of the %s measure sum to %.17g, not to 1", which,
                          sum);
    for (size_t i = 0; of->times && i < of->n; i++)
        if (!(of->times[i] >= 0 && of->times[i] <= 1))
            return lipsc_fail(err, LIPSC_E_ARG,
                              "time %zu of the %s measure lies outside [0, 1]", i, which);
    return LIPSC_OK;
}

static lipsc_status check(const lipsc_measure *a, const lipsc_measure *b,
                          const lipsc_distance_settings *set, lipsc_error *err) {
    if (!(set->p >= 1) || !isfinite(set->p))
        return lipsc_fail(err, LIPSC_E_ARG, "p must be a number from 1 on");
    if (!(set->sinkhorn >= 0) || !isfinite(set->sinkhorn))
        return lipsc_fail(err, LIPSC_E_ARG, "epsilon must be positive");
    lipsc_status status = lipsc_measure_check(a, "first", err);
    if (!status) status = lipsc_measure_check(b, "second", err);
    if (status) return status;
    if (a->d != b->d)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "the points of the first measure have width %zu, those of the "
                          "second %zu",
                          a->d, b->d);
    if (set->conditional && (!a->times || !b->times))
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "the conditional distance needs times, which the %s measure "
                          "does not have",
                          a->times ? "second" : "first");
    return LIPSC_OK;
}

/* ---- One scale ---- */

/* An exponent e such that 2^-e times the points has a bounding box of diameter at most 1.
 * Multiplying by a power of two does not round. */
static int common_exponent(const lipsc_measure *a, const lipsc_measure *b) {
    double widest = 0.0; /* halves: a difference of finite numbers may overflow */
    for (size_t k = 0; k < a->d; k++) {
        double low = INFINITY, high = -INFINITY;
        for (size_t i = 0; i < a->n; i++) {
            low = lipsc_min(low, a->points[i * a->d + k]);
            high = lipsc_max(high, a->points[i * a->d + k]);
        }
        for (size_t j = 0; j < b->n; j++) {
            low = lipsc_min(low, b->points[j * a->d + k]);
            high = lipsc_max(high, b->points[j * a->d + k]);
        }
        widest = lipsc_max(widest, 0.5 * high - 0.5 * low);
    }
    if (widest == 0.0) return 0;
    int exponent, of_width;
    (void)frexp(widest, &exponent);
    (void)frexp(sqrt((double)a->d), &of_width);
    exponent += 1 + of_width;
    return exponent < -1000 ? -1000 : exponent > 1022 ? 1022 : exponent;
}

static double root(double cost, double p) {
    if (cost <= 0.0) return 0.0; /* a Sinkhorn divergence may be -1e-17 */
    return p == 1.0 ? cost : p == 2.0 ? sqrt(cost) : pow(cost, 1.0 / p);
}

/* Zero stays zero where the factor overflows. */
static double times_factor(double value, double factor) {
    return value == 0.0 ? 0.0 : value * factor;
}

/* ---- Weights ---- */

/* Sum exactly 1 up to rounding, so that the two measures balance. */
static void take_weights(const lipsc_measure *of, double *to) {
    double sum = 0.0;
    for (size_t i = 0; of->weights && i < of->n; i++) sum += of->weights[i];
    for (size_t i = 0; i < of->n; i++)
        to[i] = of->weights ? of->weights[i] / sum : 1.0 / (double)of->n;
}

static lipsc_status solve(const lipsc_measure *a, const lipsc_measure *b,
                          const lipsc_distance_settings *set, lipsc_ot_block *block,
                          lipsc_error *err) {
    double *weights = lipsc_alloc(a->n + b->n, sizeof *weights);
    if (!weights) return LIPSC_E_NOMEM;
    take_weights(a, weights);
    take_weights(b, weights + a->n);
    block->a = weights;
    block->b = weights + a->n;
    const lipsc_status status = set->conditional ? lipsc_ot_conditional(a, b, block, err)
                                                 : lipsc_ot_block_solve(block);
    lipsc_release(weights);
    return status;
}

static void hand_over(const lipsc_ot_block *block, const lipsc_distance_settings *set,
                      int exponent, lipsc_distance *out) {
    const double factor = pow(ldexp(1.0, exponent), set->p);
    for (size_t i = 0; i < block->n; i++) block->f[i] = times_factor(block->f[i], factor);
    for (size_t j = 0; j < block->m; j++) block->g[j] = times_factor(block->g[j], factor);
    out->p = set->p;
    out->distance = ldexp(root(block->cost, set->p), exponent);
    out->cost = times_factor(block->cost, factor);
    out->gap = times_factor(block->gap, factor);
    out->imbalance = block->imbalance;
    out->epsilon = set->sinkhorn;
    out->conditional = set->conditional != 0;
    out->method = block->method;
    out->f = block->f;
    out->g = block->g;
    out->pivots = block->pivots;
    if (set->plan && block->epsilon <= 0) {
        out->plan = block->moves;
        out->moves = block->count;
    } else {
        lipsc_release(block->moves);
    }
}

lipsc_status lipsc_distance_between(const lipsc_measure *a, const lipsc_measure *b,
                                    const lipsc_distance_settings *set, lipsc_distance *out,
                                    lipsc_error *err) {
    const double started = lipsc_seconds();
    lipsc_distance_settings defaults;
    if (!set) {
        lipsc_distance_defaults(&defaults);
        set = &defaults;
    }
    if (err) *err = (lipsc_error){0};
    lipsc_status status = check(a, b, set, err);
    if (status) return status;
    const int exponent = common_exponent(a, b);
    lipsc_ot_block block = {.n = a->n,
                            .m = b->n,
                            .d = a->d,
                            .p = set->p,
                            .scale = ldexp(1.0, -exponent),
                            .epsilon = set->sinkhorn / pow(ldexp(1.0, exponent), set->p),
                            .check = set->check,
                            .x = a->points,
                            .y = b->points,
                            .f = lipsc_alloc(a->n, sizeof(double)),
                            .g = lipsc_alloc(b->n, sizeof(double))};
    status = block.f && block.g ? solve(a, b, set, &block, err) : LIPSC_E_NOMEM;
    if (status && !(status == LIPSC_E_NOCONV && block.epsilon > 0)) {
        lipsc_release(block.f);
        lipsc_release(block.g);
        lipsc_release(block.moves);
        if (err && err->code) return status;
        return lipsc_fail(err, status, "the distance could not be computed: %s",
                          lipsc_strerror(status));
    }
    *out = (lipsc_distance){0};
    hand_over(&block, set, exponent, out);
    out->seconds = lipsc_seconds() - started;
    if (status) lipsc_fail(err, status, "the distance has not converged");
    return status;
}

void lipsc_distance_free(lipsc_distance *distance) {
    if (!distance) return;
    lipsc_release(distance->f);
    lipsc_release(distance->g);
    lipsc_release(distance->plan);
    *distance = (lipsc_distance){0};
}
