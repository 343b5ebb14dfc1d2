/* certify.c - the ladder of a certificate: which rung is expected to close first, its
 * price, and the climb (docs/maths.md 7.8).
 *
 * Rungs are chosen by counted work, never by the clock, so that the same operator has the
 * same bound every time; the clock only tells the price, and refuses what is too long. */
#include "certify/certify.h"

#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"
#include "svd/solver.h"

enum {
    SMALL_SIDE = 512,   /* up to here the assembled matrix costs next to nothing */
    FIRST_VECTORS = 16, /* Ritz vectors to begin with                            */
    MOST_VECTORS = 256,
    RATE_ORDER = 384 /* of the product that tells how fast dense work is */
};

/* A rung is taken when the moment is expected to leave this much of its room. */
static const double expected_room = 0.5;
/* More vectors are sought as long as that costs less than this part of the rung. */
static const double search_share = 0.2;
/* An operation of a product takes about as long as that many of dense work. */
static const double dense_gain = 4.0;

static const char *const moment_names[LIPSC_MOST_POWER + 1] = {
    NULL,          "frobenius",   "schatten-4",  "schatten-6", "schatten-8",
    "schatten-10", "schatten-12", "schatten-14", "schatten-16"};

void lipsc_certify_defaults(lipsc_certify_settings *set) {
    memset(set, 0, sizeof *set);
    set->eps = 1e-3;
    set->upper = INFINITY;
    set->max_seconds = 300.0;
    set->max_bytes = (size_t)2 << 30;
    set->seed = 1;
}

/* ---- Where it starts --------------------------------------------------------------- */

/* A lower bound by the direction v: |J v| / |v|, less what the product is off by. */
static lipsc_status lower_of(const lipsc_linop *op, const double *v, double rounding,
                             double *lower) {
    double *image = lipsc_alloc(op->m, sizeof *image);
    if (!image) return LIPSC_E_NOMEM;
    const lipsc_status status = lipsc_linop_host(op, 0, 1, v, image);
    const double above = lipsc_up(lipsc_scaled_length(op->n, v), 2 * op->n);
    const double below =
        status ? NAN : lipsc_down(lipsc_scaled_length(op->m, image), 2 * op->m);
    int finite = isfinite(above) && above > 0.0;
    for (size_t e = 0; !status && e < op->m; e++) finite &= isfinite(image[e]) != 0;
    lipsc_release(image);
    if (status) return status;
    if (!finite) return LIPSC_E_NONFIN;
    *lower = lipsc_max(0.0, lipsc_down(lipsc_down(below / above, 4) - rounding, 4));
    return LIPSC_OK;
}

static lipsc_status check(const lipsc_linop *op, const double *v,
                          const lipsc_certify_settings *set) {
    if (!op || !op->apply || !op->m || !op->n || !set) return LIPSC_E_ARG;
    if (!(set->eps > 0.0) || !(set->rounding >= 0.0) || !(set->lower >= 0.0))
        return LIPSC_E_ARG;
    if (!(set->upper >= 0.0) || !(set->max_seconds > 0.0)) return LIPSC_E_ARG;
    return v || set->lower > 0.0 ? LIPSC_OK : LIPSC_E_ARG;
}

static double power_of_two_near(double x) {
    int exponent;
    frexp(x, &exponent);
    return x > 0.0 && isfinite(x) ? ldexp(1.0, exponent - 1) : 1.0;
}

/* ---- Prices ------------------------------------------------------------------------ */

static double vector_seconds(const lipsc_certifier *c) {
    const size_t count = c->applied[0] + c->applied[1];
    return count ? c->product_seconds / (double)count : 0.0;
}

/* Operations per second of dense products here, now. */
static double dense_rate(void) {
    const size_t n = RATE_ORDER;
    double *a = lipsc_alloc_zero(n * n, sizeof *a), *b = lipsc_alloc(n * n, sizeof *b);
    double seconds = 1.0;
    if (a && b) {
        for (int round = 0; round < 2; round++) { /* the first one warms up */
            const double start = lipsc_seconds();
            lipsc_dense_gemm(1, 0, n, n, n, 1.0, a, n, a, n, 0.0, b, n);
            seconds = lipsc_seconds() - start;
        }
    }
    lipsc_release(a);
    lipsc_release(b);
    return 2.0 * pow((double)n, 3.0) / lipsc_max(seconds, 1e-6);
}

static lipsc_certify_plan price_moments(const lipsc_certifier *c, int power) {
    const double side = (double)c->side;
    const size_t longest = c->op->m > c->op->n ? c->op->m : c->op->n;
    return (lipsc_certify_plan){.rung = moment_names[power],
                                .products = 0.5 * side * power,
                                .seconds = side * power * vector_seconds(c),
                                .bytes = (3 * LIPSC_CERTIFY_BLOCK + 1) * longest *
                                         sizeof(double)};
}

/* Operations with the assembled matrix. */
static double dense_work(const lipsc_certifier *c) {
    const double side = (double)c->side;
    const double rows = (double)(c->op->m > c->op->n ? c->op->m : c->op->n);
    return side * side * rows * 1.1 + side * side * side / 3.0;
}

/* Whether it takes less than moments up to a power, by counting: both make the `side`
 * products that the first moment needs. */
static int dense_is_less(const lipsc_certifier *c, int power) {
    const lipsc_linop *op = c->op;
    const double product = op->work > 0.0 ? op->work : 2.0 * (double)op->m * (double)op->n;
    return dense_work(c) < dense_gain * (double)c->side * (power - 1) * product;
}

static lipsc_certify_plan price_dense(const lipsc_certifier *c, double rate) {
    const double side = (double)c->side;
    const double seconds = side * vector_seconds(c) + dense_work(c) / rate;
    return (lipsc_certify_plan){.rung = "cholesky",
                                .products = 0.5 * side,
                                .seconds = seconds,
                                .bytes = lipsc_dense_proof_bytes(c)};
}

static lipsc_status admit(const lipsc_certifier *c, const lipsc_certify_plan *plan,
                          lipsc_error *err) {
    const lipsc_certify_settings *set = c->set;
    if (plan->seconds > set->max_seconds || plan->bytes > set->max_bytes)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "the certificate (%s) is expected to take %.0f s and %.2f GiB, "
                          "beyond the limit of %.0f s and %.2f GiB",
                          plan->rung, plan->seconds,
                          (double)plan->bytes / (double)(1 << 30), set->max_seconds,
                          (double)set->max_bytes / (double)(1 << 30));
    if (set->begin && set->begin(set->ctx, plan))
        return lipsc_fail(err, LIPSC_E_REFUSED, "the certificate was not wanted");
    return LIPSC_OK;
}

/* ---- Rungs ------------------------------------------------------------------------- */

typedef struct {
    lipsc_ritz ritz;
    double rest[LIPSC_MOST_POWER + 1]; /* estimates, for these vectors */
    long search;                       /* products that the last search took */
} outlook;

/* The least power whose moment is expected to leave room below the goal; 0: none. */
static int least_power(const lipsc_certifier *c, const outlook *o) {
    for (int p = 1; p <= LIPSC_MOST_POWER; p++)
        if (o->rest[p] <= expected_room * pow(c->goal, 2.0 * p)) return p;
    return 0;
}

static lipsc_status look(lipsc_certifier *c, size_t k, outlook *o) {
    lipsc_ritz_free(&o->ritz);
    lipsc_status status = lipsc_ritz_find(c, k, &o->ritz, &o->search);
    if (!status) status = lipsc_ritz_rest(c, &o->ritz, LIPSC_MOST_POWER, o->rest);
    return status;
}

/* More vectors bring the power down, by one at least, or are not worth their search. */
static lipsc_status look_ahead(lipsc_certifier *c, outlook *o) {
    size_t k = c->side < 4 * FIRST_VECTORS ? 1 : FIRST_VECTORS;
    lipsc_status status = look(c, k, o);
    while (!status && o->ritz.k == k && 4 * k <= MOST_VECTORS && 16 * k <= c->side) {
        const int power = least_power(c, o);
        const double rung = 0.5 * (double)c->side * (power ? power : LIPSC_MOST_POWER);
        if (power == 1 || 4.0 * (double)o->search > search_share * rung) break;
        k *= 4;
        status = look(c, k, o);
    }
    return status;
}

static lipsc_status climb_moments(lipsc_certifier *c, int power, outlook *o,
                                  double *bound) {
    lipsc_moments moments;
    lipsc_status status = lipsc_moments_find(c, power, &moments);
    if (status) return status;
    c->upper = lipsc_min(c->upper, lipsc_moments_bound(&moments));
    status = lipsc_ritz_powers(c, power, c->upper, &o->ritz);
    if (!status) status = lipsc_ritz_prove(c, &o->ritz, &moments, bound);
    return status;
}

typedef struct {
    lipsc_certify_plan plan;
    int power; /* 0: the assembled matrix */
} rung;

static void begin_rung(lipsc_certifier *c, const rung *r) {
    c->begin = lipsc_seconds();
    c->total = lipsc_max(r->plan.seconds, 1e-9);
    c->done = 0.0;
}

/* Its columns are off by eta each. */
static int dense_closes(const lipsc_certifier *c) {
    return sqrt((double)c->side) * c->eta <
           0.5 * c->set->eps * c->goal / (1.0 + c->set->eps);
}

/* The rungs that are expected to close, that of less work first; or what is asked for.
 * o: NULL for the assembled matrix. */
static size_t choose(const lipsc_certifier *c, const outlook *o, int way, rung rungs[2]) {
    const int power = way > 0 ? way : o ? least_power(c, o) : 0;
    size_t count = 0;
    if (way > 0) {
        rungs[0] = (rung){price_moments(c, way), way};
        return 1;
    }
    const rung dense = {price_dense(c, o ? dense_rate() : 1e9), 0};
    if (power) rungs[count++] = (rung){price_moments(c, power), power};
    if ((dense.plan.bytes <= c->set->max_bytes && dense_closes(c)) || !power)
        rungs[count++] = dense;
    if (count == 2 && dense_is_less(c, power)) {
        const rung swap = rungs[0];
        rungs[0] = rungs[1];
        rungs[1] = swap;
    }
    return count;
}

/* *name: the rung that closed, NULL when none did. */
static lipsc_status climb(lipsc_certifier *c, int way, outlook *o, const char **name,
                          lipsc_error *err) {
    const int dense =
        way == LIPSC_CHOLESKY_WAY || (way == LIPSC_ANY_WAY && c->side <= SMALL_SIDE);
    rung rungs[2];
    lipsc_status status = dense ? LIPSC_OK : look_ahead(c, o);
    const size_t count = status ? 0 : choose(c, dense ? NULL : o, way, rungs);
    for (size_t i = 0; i < count && !status && !*name; i++) {
        double bound = INFINITY;
        status = admit(c, &rungs[i].plan, err);
        if (status) break;
        begin_rung(c, &rungs[i]);
        status = rungs[i].power ? climb_moments(c, rungs[i].power, o, &bound)
                                : lipsc_dense_prove(c, &bound);
        if (!status && bound <= c->goal) {
            c->upper = lipsc_min(c->upper, bound);
            *name = rungs[i].plan.rung;
        }
    }
    return status;
}

static lipsc_status not_closed(const lipsc_certificate *out,
                               const lipsc_certify_settings *set, lipsc_error *err) {
    const double eps = set->eps;
    if (isinf(set->rounding))
        return lipsc_fail(err, LIPSC_E_NOCONV,
                          "no certificate: no bound of the products' rounding is proved");
    if (!(out->lower > 0.0))
        return lipsc_fail(err, LIPSC_E_NOCONV,
                          "no certificate: the lower bound is 0, to which no upper bound "
                          "is close");
    return lipsc_fail(err, LIPSC_E_NOCONV,
                      "no certificate: sigma could not be shown to be below %.10g; either "
                      "the direction is not good to %.1e, or rounding is in the way",
                      (1.0 + eps) * out->lower, eps);
}

/* Scales, climbs, and scales back. */
static lipsc_status prove(const lipsc_linop *op, const lipsc_certify_settings *set, int way,
                          lipsc_certificate *out, lipsc_error *err) {
    const double scale = power_of_two_near(out->lower);
    lipsc_certifier c = {.op = op,
                         .set = set,
                         .scale = scale,
                         .eta = set->rounding / scale,
                         .goal = lipsc_down((1.0 + set->eps) * (out->lower / scale), 4),
                         .upper = lipsc_up(set->upper / scale, 2),
                         .flip = op->m < op->n,
                         .side = op->m < op->n ? op->m : op->n};
    outlook o = {{0}, {0}, 0};
    const lipsc_status status = climb(&c, way, &o, &out->rung, err);
    out->upper = lipsc_min(out->upper, lipsc_up(c.upper, 2) * scale);
    if (out->rung) out->upper = lipsc_min(out->upper, (1.0 + set->eps) * out->lower);
    out->vectors = o.ritz.k;
    out->products += (long)(c.applied[0] > c.applied[1] ? c.applied[0] : c.applied[1]);
    lipsc_ritz_free(&o.ritz);
    return status;
}

/* A zero operator is the one that needs no direction: every product is exactly zero. */
static lipsc_status prove_zero(const lipsc_linop *op, const lipsc_certify_settings *set,
                               lipsc_certificate *out) {
    lipsc_certifier c = {.op = op,
                         .set = set,
                         .scale = 1.0,
                         .eta = set->rounding,
                         .upper = INFINITY,
                         .flip = op->m < op->n,
                         .side = op->m < op->n ? op->m : op->n,
                         .total = 1.0};
    lipsc_moments moments;
    const lipsc_status status = lipsc_moments_find(&c, 1, &moments);
    if (status) return status;
    out->products += (long)(c.applied[0] + c.applied[1]);
    out->upper = lipsc_min(out->upper, moments.root[1]);
    if (out->upper == 0.0) out->rung = moment_names[1];
    return LIPSC_OK;
}

lipsc_status lipsc_certify(const lipsc_op *op, const double *v,
                           const lipsc_certify_settings *set, lipsc_certificate *out,
                           lipsc_error *err) {
    return lipsc_certify_by(op, v, set, LIPSC_ANY_WAY, out, err);
}

lipsc_status lipsc_certify_by(const lipsc_op *op, const double *v,
                              const lipsc_certify_settings *set, int way,
                              lipsc_certificate *out, lipsc_error *err) {
    if (!op || !op->apply) return lipsc_fail(err, LIPSC_E_ARG, "there is no operator");
    const lipsc_linop there = lipsc_svd_callback(op);
    return lipsc_certify_linop(&there, v, set, way, out, err);
}

lipsc_status lipsc_certify_linop(const lipsc_linop *op, const double *v,
                                 const lipsc_certify_settings *set, int way,
                                 lipsc_certificate *out, lipsc_error *err) {
    const double start = lipsc_seconds();
    lipsc_status status = check(op, v, set);
    if (status || !out) return lipsc_fail(err, LIPSC_E_ARG, "a setting is out of range");
    *out = (lipsc_certificate){.lower = set->lower, .upper = set->upper};
    if (out->lower == 0.0) {
        out->products = 1;
        status = lower_of(op, v, set->rounding, &out->lower);
    }
    if (!status && out->upper <= (1.0 + set->eps) * out->lower)
        out->rung = "upper";
    else if (!status && out->lower > 0.0 && isfinite(set->rounding))
        status = prove(op, set, way, out, err);
    else if (!status && set->rounding == 0.0)
        status = prove_zero(op, set, out);
    out->certified = out->rung != NULL;
    out->seconds = lipsc_seconds() - start;
    if (!status && !out->certified) return not_closed(out, set, err);
    if (status && status != LIPSC_E_REFUSED) /* whose sentence is there already */
        lipsc_fail(err, status, "%s", lipsc_strerror(status));
    return status;
}
