/* test_enclosure.c - lower <= sigma <= upper, and the bound of rounding behind both,
 * against the definition in 150 digits (MPFR).
 *
 *     test_enclosure [LAYERS [FIRST]]    default 2000; `make fuzz-bounds` asks for a
 * million
 *
 * Per layer: |J v| at our v is at least lower; |J v| at our v, and at the vector of
 * LAPACK's SVD of the assembled Jacobian, is at most upper; products by the definition and
 * by the kernels, both ways, in f64, in f32 and with projections in twice the precision,
 * are within eps of the exact ones. */
#include "core/extreme.h"
#include "attn/rounding.h"
#include "extreme_layer.h"
#include "linalg/dense.h"
#include "mpfr_attention.h"
#include "test_device.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static size_t fuzz_layers = 2000, fuzz_first = 0;

/* What a layer came to, and how close a bound was. */
typedef struct {
    size_t layers, decided, upper, around, refused, failed;
    size_t finer; /* decided by projections in twice the precision alone                 */
    size_t spoken, passed; /* upper_prob of solves in f32: given, below sigma            */
    double closest[4];     /* largest error / eps: f64, f32; (|J v| - lower) / rounding;
                            * projections in twice the precision                           */
    double loosest; /* largest eps / |J v| of a decided layer                       */
} tally;

static void blame(tally *t, uint64_t seed, const char *what, double found, double bound) {
    t->failed++;
    fprintf(stderr, "layer %llu: %s: %.17g against %.17g\n", (unsigned long long)seed, what,
            found, bound);
}

/* found <= bound, where a NaN on either side fails; counts how close it came. */
static void at_most(tally *t, uint64_t seed, const char *what, double found, double bound,
                    double *closest) {
    if (!(found <= bound)) blame(t, seed, what, found, bound);
    if (closest && bound > 0.0 && bound < INFINITY && !(found / bound <= *closest))
        *closest = found / bound;
}

/* ---- Products ----------------------------------------------------------------------- */

/* |y - exact|, rounded up to a double */
static double error_of(size_t count, mpfr_t *exact, const double *y) {
    mpfr_t r;
    mpfr_init2(r, MP_BITS);
    mp_distance(r, count, exact, y);
    const double error = mpfr_get_d(r, MPFR_RNDD); /* down: the judge gives the benefit */
    mpfr_clear(r);
    return error;
}

static void random_unit(uint64_t seed, size_t count, double *x) {
    double square = 0.0;
    for (size_t e = 0; e < count; e++) {
        x[e] = (double)(float)lipsc_rng_normal(seed, e); /* exact in f32 as well */
        square += x[e] * x[e];
    }
    const double unit = exp2(floor(-0.5 * log2(square))); /* length in (1/2, 1] */
    for (size_t e = 0; e < count; e++) x[e] *= unit;
}

/* Products of one random vector each way, by the definition and by the kernels. */
static void judge_products(tally *t, const extreme_layer *c, const lipsc_layer *layer,
                           mp_attention *m, lipsc_attn *attn, lipsc_attn *attn32) {
    lipsc_rounding f64, f32, fine = {.eps = INFINITY};
    lipsc_attn *refined = NULL;
    const size_t in = c->input.n * layer->d, out = c->input.n * lipsc_layer_width(layer);
    double *x = malloc((in + out) * sizeof *x), *y = malloc((in + out) * sizeof *y);
    mpfr_t *exact = mp_new(in + out);
    assert_int_equal(lipsc_attn_rounding(attn, LIPSC_F64, &f64), LIPSC_OK);
    /* the coarser bound that does not look at the scores, wherever it is finite */
    lipsc_rounding coarse;
    assert_int_equal(lipsc_attn_rounding_within(attn, LIPSC_F64, DBL_MAX, &coarse),
                     LIPSC_OK);
    if (!lipsc_attn_refined(attn, &refined)) {
        assert_int_equal(lipsc_attn_rounding(refined, LIPSC_F64, &fine), LIPSC_OK);
        t->finer += f64.undecided && !fine.undecided;
    }
    for (int trans = 0; trans < 2; trans++) {
        const size_t from = trans ? out : in, to = trans ? in : out;
        random_unit(c->seed + 17, from, x);
        if (trans)
            mp_vjp(m, x, exact);
        else
            mp_jvp(m, x, exact);
        if (lipsc_ref_apply(layer, &c->input, trans, 1, x, y, NULL) == LIPSC_OK)
            at_most(t, c->seed, trans ? "J^T, definition" : "J, definition",
                    error_of(to, exact, y), lipsc_min(f64.eps, coarse.eps), &t->closest[0]);
        assert_int_equal(lipsc_attn_apply(attn, trans, 1, x, y), LIPSC_OK);
        at_most(t, c->seed, trans ? "J^T, kernels" : "J, kernels", error_of(to, exact, y),
                lipsc_min(f64.eps, coarse.eps), &t->closest[0]);
        if (refined) {
            assert_int_equal(lipsc_attn_apply(refined, trans, 1, x, y), LIPSC_OK);
            at_most(t, c->seed, trans ? "J^T, twice" : "J, twice", error_of(to, exact, y),
                    fine.eps, &t->closest[3]);
        }
        if (!attn32) continue;
        assert_int_equal(lipsc_attn_rounding(attn32, LIPSC_F32, &f32), LIPSC_OK);
        assert_int_equal(lipsc_attn_apply(attn32, trans, 1, x, y), LIPSC_OK);
        int finite = 1;
        for (size_t e = 0; e < to; e++) finite = finite && isfinite(y[e]);
        if (finite)
            at_most(t, c->seed, trans ? "J^T, f32" : "J, f32", error_of(to, exact, y),
                    f32.eps, &t->closest[1]);
    }
    lipsc_attn_free(refined);
    mp_free(in + out, exact);
    free(x);
    free(y);
}

/* ---- The enclosure ------------------------------------------------------------------ */

/* |J v| / |v| by the judge, rounded as asked */
static double stretch_of(mp_attention *m, const double *v, mpfr_rnd_t round) {
    const size_t in = m->in->n * m->l->d, out = m->in->n * mp_width(m);
    mpfr_t *y = mp_new(out), r, s;
    mpfr_init2(r, MP_BITS);
    mpfr_init2(s, MP_BITS);
    mp_jvp(m, v, y);
    mp_distance(r, out, y, NULL);
    mp_length(s, in, v);
    mpfr_div(r, r, s, MP_NEAR);
    const double stretch = mpfr_get_d(r, round);
    mpfr_clear(r);
    mpfr_clear(s);
    mp_free(out, y);
    return stretch;
}

/* The right singular vector of the Jacobian assembled in double. */
static void svd_vector(lipsc_attn *attn, double *v) {
    const lipsc_op op = lipsc_attn_op(attn);
    const size_t rank = op.m < op.n ? op.m : op.n;
    double *unit = calloc(op.n * op.n, sizeof *unit), *J = malloc(op.m * op.n * sizeof *J);
    double *s = malloc(rank * sizeof *s), *vt = malloc(rank * op.n * sizeof *vt);
    for (size_t e = 0; e < op.n; e++) unit[e * op.n + e] = 1.0;
    assert_int_equal(op.apply(op.ctx, 0, op.n, unit, J), 0);
    assert_int_equal(lipsc_dense_svd(op.m, op.n, J, s, NULL, vt), LIPSC_OK);
    for (size_t e = 0; e < op.n; e++) v[e] = vt[e * rank];
    free(unit);
    free(J);
    free(s);
    free(vt);
}

static void judge_enclosure(tally *t, const extreme_layer *c, mp_attention *m,
                            lipsc_attn *attn) {
    const size_t in = c->input.n * attn->layer.d;
    double *v = malloc(in * sizeof *v), sigma;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_upper upper;
    lipsc_svd_defaults(&set);
    const lipsc_status status = lipsc_attn_sigma(attn, &set, &sigma, NULL, v, &info);
    if (status && status != LIPSC_E_NOCONV) {
        t->refused++;
        free(v);
        return;
    }
    const double at_v = stretch_of(m, v, MPFR_RNDD);
    at_most(t, c->seed, "lower above |J v|", info.lower, nextafter(at_v, INFINITY), NULL);
    if (!(info.lower >= 0.0)) blame(t, c->seed, "lower", info.lower, 0.0);
    if (info.unknown[0]) {
        if (info.lower > 0.0) blame(t, c->seed, "lower of the unknown", info.lower, 0.0);
    } else {
        t->decided++;
        at_most(t, c->seed, "|J v| as printed", fabs(sigma - at_v),
                info.rounding + 1e-15 * sigma, &t->closest[2]);
        if (sigma > 0.0 && info.rounding / sigma > t->loosest)
            t->loosest = info.rounding / sigma;
        if (lipsc_attn_upper(attn, &upper, NULL) == LIPSC_OK) {
            svd_vector(attn, v);
            t->upper++;
            at_most(t, c->seed, "upper below |J v| of the solve", at_v, upper.value, NULL);
            at_most(t, c->seed, "upper below |J v|", stretch_of(m, v, MPFR_RNDD),
                    upper.value, NULL);
        }
    }
    free(v);
}

/* A solve in f32: lower holds as above, and sigma passes upper_prob once in a thousand. */
static void judge_f32(tally *t, const extreme_layer *c, mp_attention *m, lipsc_attn *attn,
                      lipsc_attn *attn32) {
    double *v = malloc(c->input.n * attn->layer.d * sizeof *v), sigma;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    const lipsc_status status = lipsc_attn_sigma(attn32, &set, &sigma, NULL, v, &info);
    if (!status || status == LIPSC_E_NOCONV) {
        at_most(t, c->seed, "lower of f32 above |J v|", info.lower,
                nextafter(stretch_of(m, v, MPFR_RNDD), INFINITY), NULL);
        if (!isnan(info.upper_prob)) {
            svd_vector(attn, v);
            t->spoken++;
            t->passed += !(stretch_of(m, v, MPFR_RNDD) <= info.upper_prob);
        }
    }
    free(v);
}

static int any_value(const lipsc_layer *layer) {
    const size_t count = layer->kv_heads * layer->value_dim * layer->d;
    for (size_t e = 0; e < count; e++)
        if (layer->V[e] != 0.0) return 1;
    return 0;
}

/* The bound over a neighbourhood (3.15) at an input on its wall, or at its centre: also
 * where double cannot tell the scores apart. */
static void judge_around(tally *t, const extreme_layer *c, const lipsc_layer *layer,
                         lipsc_attn *centre) {
    static const double radii[] = {0.0, 1e-12, 1e-6, 1e-3};
    const size_t n = c->input.n, d = layer->d;
    double R = radii[c->seed % 4], farthest = 0.0;
    double *X = malloc(2 * n * d * sizeof *X), *v = X + n * d;
    lipsc_input moved = c->input;
    lipsc_attn *attn = NULL;
    lipsc_around around;
    mp_attention m;
    for (size_t i = 0; i < n; i++) { /* by 0.999 R: the sum below rounds */
        double *x = X + i * d, square = 0.0, moved_by = 0.0;
        for (size_t e = 0; e < d; e++) x[e] = lipsc_rng_normal(c->seed + 99, i * d + e);
        for (size_t e = 0; e < d; e++) square += x[e] * x[e];
        for (size_t e = 0; e < d; e++) {
            const double from = c->input.X[i * d + e];
            x[e] = from + 0.999 * R * x[e] / sqrt(square);
            moved_by += (x[e] - from) * (x[e] - from);
        }
        farthest = lipsc_max(farthest, sqrt(moved_by));
    }
    /* numbers that are large beside R round to beyond it: then the wall is there */
    if (R > 0.0) R = lipsc_max(R, farthest * (1.0 + 1e-12));
    moved.X = R > 0.0 ? X : c->input.X;
    if (!lipsc_attn_around(centre, R, &around, NULL) &&
        !lipsc_attn_new(layer, &moved, LIPSC_F64, test_device(1), &attn, NULL)) {
        mp_open(&m, layer, &moved);
        svd_vector(attn, v);
        t->around++;
        if (around.value > 0.0 ||
            any_value(layer)) /* V = 0: J is zero, the judge's rounding
                               * of a sum of value biases is not */
            at_most(t, c->seed, "around below |J v|", stretch_of(&m, v, MPFR_RNDD),
                    around.value, NULL);
        mp_close(&m);
    }
    lipsc_attn_free(attn);
    free(X);
}

/* ---- The fuzz ----------------------------------------------------------------------- */

static void judge_layer(uint64_t seed, tally *t) {
    extreme_layer c;
    mp_attention m;
    lipsc_layer layer;
    lipsc_attn *attn = NULL, *attn32 = NULL;
    extreme_draw(seed, &c);
    t->layers++;
    assert_int_equal(lipsc_layer_check(&c.layer, &layer, NULL), LIPSC_OK);
    if (lipsc_attn_new(&layer, &c.input, LIPSC_F64, test_device(1), &attn, NULL)) {
        t->refused++;
        return;
    }
    if (lipsc_attn_new(&layer, &c.input, LIPSC_F32, test_device(1), &attn32, NULL))
        attn32 = NULL;
    mp_open(&m, &layer, &c.input);
    judge_products(t, &c, &layer, &m, attn, attn32);
    judge_enclosure(t, &c, &m, attn);
    if (attn32) judge_f32(t, &c, &m, attn, attn32);
    judge_around(t, &c, &layer, attn);
    mp_close(&m);
    lipsc_attn_free(attn);
    lipsc_attn_free(attn32);
}

static void add(tally *sum, const tally *t) {
    sum->layers += t->layers;
    sum->decided += t->decided;
    sum->finer += t->finer;
    sum->upper += t->upper;
    sum->around += t->around;
    sum->refused += t->refused;
    sum->failed += t->failed;
    sum->spoken += t->spoken;
    sum->passed += t->passed;
    for (int i = 0; i < 4; i++) sum->closest[i] = lipsc_max(sum->closest[i], t->closest[i]);
    sum->loosest = lipsc_max(sum->loosest, t->loosest);
}

static void no_enclosure_is_broken(void **state) {
    (void)state;
    tally sum = {0};
#pragma omp parallel num_threads(2)
    {
        tally mine = {0};
#pragma omp for schedule(dynamic, 16)
        for (size_t i = 0; i < fuzz_layers; i++) judge_layer(fuzz_first + i, &mine);
#pragma omp critical
        add(&sum, &mine);
        mpfr_free_cache();
    }
    printf("%zu layers: %zu decided (%zu only by twice the precision), %zu with an upper "
           "bound, "
           "%zu around, %zu refused; %zu broken\n"
           "upper_prob in f32: %zu, passed %zu times\n"
           "error / eps at most %.2e in f64, %.2e in f32, %.2e by twice the precision; of "
           "|J v| "
           "%.2e; eps / sigma %.1e\n",
           sum.layers, sum.decided, sum.finer, sum.upper, sum.around, sum.refused,
           sum.failed, sum.spoken, sum.passed, sum.closest[0], sum.closest[1],
           sum.closest[3], sum.closest[2], sum.loosest);
    assert_int_equal(sum.failed, 0);
    assert_true(sum.decided * 2 > sum.layers); /* the bound is not an excuse */
    assert_true(sum.upper * 2 > sum.layers);
    assert_true(sum.spoken * 2 > sum.layers);
    assert_true(sum.passed * 1000 <= sum.spoken + 2000); /* probability 0.999 */
}

/* Layers that longer runs have found. */
static void known_layers(void **state) {
    (void)state;
    /* scores in the flat part of a cap, unknown by 351: e^700 is beyond the range of the
     * bounds of P, e^702 is not beyond that of a double; an input of 109346 that was moved
     * by 1.8e-12 and judged by the bound for 1e-12 */
    static const uint64_t seeds[] = {168206, 404149};
    tally t = {0};
    for (size_t s = 0; s < sizeof seeds / sizeof *seeds; s++) judge_layer(seeds[s], &t);
    mpfr_free_cache();
    assert_int_equal(t.failed, 0);
}

int main(int argc, char **argv) {
    if (argc > 1) fuzz_layers = strtoull(argv[1], NULL, 10);
    if (argc > 2) fuzz_first = strtoull(argv[2], NULL, 10);
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_enclosure_is_broken),
                                       cmocka_unit_test(known_layers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
