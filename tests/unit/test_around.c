/* test_around.c - the bound over a neighbourhood against LAPACK's norm of the Jacobian at
 * inputs inside it: random ones on its wall, and those that an attack finds. */
#include "chosen.h"
#include "core/extreme.h"
#include "lipscope/attack.h"
#include "lipscope/file.h"
#include "layers.h"
#include "linalg/dense.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
/* cmocka.h wants the above */
#include <cmocka.h>

#include "exact_norm.h"
#include "test_device.h"

static double mean_length(const test_layer *t) {
    double sum = 0.0;
    for (size_t i = 0; i < t->input.n; i++)
        sum += vector_norm(t->layer.d, t->input.X + i * t->layer.d);
    return sum / (double)t->input.n;
}

static lipsc_around around(const test_layer *t, double R, int threads) {
    lipsc_attn *attn = NULL;
    lipsc_around found = {0};
    lipsc_error err = {.text = ""};
    if (lipsc_attn_new(&t->layer, &t->input, LIPSC_F64, test_device(threads), &attn,
                       &err) ||
        lipsc_attn_around(attn, R, &found, &err))
        fail_msg("%s", err.text);
    lipsc_attn_free(attn);
    return found;
}

/* Every token at distance `part` R from its place, in a random direction. */
static double random_sigma(const test_layer *t, double R, double part, uint64_t seed) {
    const size_t n = t->input.n, d = t->layer.d;
    double *X = doubles(n * d), *h = random_vectors(seed, n * d);
    for (size_t i = 0; i < n; i++) {
        const double length = vector_norm(d, h + i * d);
        for (size_t c = 0; c < d; c++)
            X[i * d + c] = t->input.X[i * d + c] + part * R * h[i * d + c] / length;
    }
    lipsc_input moved = t->input;
    moved.X = X;
    const double sigma = exact_norm(&t->layer, &moved);
    free(X);
    free(h);
    return sigma;
}

/* What a short attack finds, judged by LAPACK at the input that it returns.  0: no search,
 * because the scores at that radius have no digits left, or because of positions, which an
 * attack takes from 0 on. */
static double attacked_sigma(const test_layer *t, double R, double upper) {
    lipsc_attack_settings set;
    lipsc_attack_result found;
    lipsc_attack_defaults(&set);
    if (t->input.positions) return 0.0;
    set.n = t->input.n;
    set.domain = LIPSC_ATTACK_AROUND;
    set.radius = R;
    set.centre = set.data = t->input.X;
    set.weights = t->input.weights;
    set.times = t->input.times;
    set.restarts = 1;
    set.iterations = 6;
    set.device = test_device(1);
    lipsc_error err = {.text = ""};
    const lipsc_status status = lipsc_attack_run(&t->layer, &set, &found, &err);
    if (status == LIPSC_E_RANGE) return 0.0;
    if (status) fail_msg("attack: %s", err.text);
    lipsc_input moved = t->input;
    moved.X = found.X;
    const double sigma = exact_norm(&t->layer, &moved);
    /* its own upper bound is this one, of a radius wider by 1e-12 for the rounding of the
     * search: ball bounds grow with a power of it */
    if (!(found.upper <= upper * (1.0 + 1e-9)))
        fail_msg("attack: upper %.15g, around %.15g", found.upper, upper);
    lipsc_attack_result_free(&found);
    return sigma;
}

static unsigned draw_features(stream *s) {
    unsigned features = (unsigned)draw(s, 0, (1u << FEATURES) - 1);
    if (draw(s, 0, 3)) features &= ~(unsigned)FEATURE_SATURATED;
    if (draw(s, 0, 9)) features &= ~(unsigned)FEATURE_ONE_TOKEN;
    if (draw(s, 0, 1)) features &= ~(unsigned)FEATURE_ROTARY;
    if (draw(s, 0, 1)) features &= ~(unsigned)FEATURE_QK_NORM;
    if (!draw(s, 0, 3) && !(features & (FEATURE_TIMES | FEATURE_SATURATED)))
        features |= draw(s, 0, 1) ? FEATURE_ALIBI : FEATURE_BUCKETS;
    if (!draw(s, 0, 3) && !(features & FEATURE_SATURATED)) features |= FEATURE_SINKS;
    if (!draw(s, 0, 3) && !(features & FEATURE_SATURATED)) features |= FEATURE_SOFT_CAP;
    if (!draw(s, 0, 3)) features |= FEATURE_WHOLE_NORM;
    return features;
}

static void name_features(uint64_t seed, unsigned features, double R, char *to,
                          size_t room) {
    int used = snprintf(to, room, "seed %llu, R %.3g:", (unsigned long long)seed, R);
    for (int f = 0; f < ALL_FEATURES; f++)
        if (features & (1u << f))
            used += snprintf(to + used, room - (size_t)used, " %s,", feature_names[f]);
}

/* Nothing is forgiven but the rounding of the judge. */
static void check(double sigma, double bound, const char *name, const char *where) {
    if (!(sigma * (1.0 - 1e-12) <= bound))
        fail_msg("%s: sigma %.15g %s above %.15g", name, sigma, where, bound);
}

/* The largest |score| of any head. */
static double largest_score(const test_layer *t) {
    const size_t n = t->input.n;
    long double *s = malloc((n + 2 * t->layer.key_dim) * sizeof *s), largest = 0.0L;
    const longdouble_point here = {&t->layer, &t->input, NULL, 0.0L};
    assert_non_null(s);
    for (size_t h = 0; h < t->layer.heads; h++)
        for (size_t i = 0; i < n; i++) {
            longdouble_scores(&here, h, i, s + n, s);
            for (size_t j = 0; j < n; j++)
                if (isfinite((double)s[j])) largest = fmaxl(largest, fabsl(s[j]));
        }
    free(s);
    return (double)largest;
}

static const double relative[] = {0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0};
enum { RADII = sizeof relative / sizeof *relative, THOUSANDTH = 4 };

/* Near the point the bound is close to that at the point; a norm at a query that is nearly
 * zero is steep, and so is its bound. */
static void check_near(const test_layer *t, int k, const lipsc_around *found,
                       const char *name) {
    const double ratio = found->value / found->point;
    if (k == 0 && !(ratio <= 1.0 + 1e-9))
        fail_msg("%s: %.15g, not the bound at the point, %.15g", name, found->value,
                 found->point);
    if (k == THOUSANDTH && largest_score(t) < 30.0 && !(ratio <= 1.2))
        fail_msg("%s: %.4g times the bound at the point", name, ratio);
}

static void random_layers(void **state) {
    (void)state;
    enum { LAYERS = 200 };
    double worst[RADII] = {0}, sum[RADII] = {0};
    for (uint64_t seed = 1; seed <= LAYERS; seed++) {
        if (!chosen(seed)) continue;
        stream s = {seed + 9000, 0};
        const unsigned features = draw_features(&s);
        test_layer t = random_layer(seed, features);
        const double unit = mean_length(&t);
        double before = 0.0;
        for (int k = 0; k < RADII; k++) {
            const double R = relative[k] * unit;
            char name[400];
            name_features(seed, features, R, name, sizeof name);
            const lipsc_around found = around(&t, R, 1);
            if (!(found.value >= before * (1.0 - 1e-12)))
                fail_msg("%s: %.15g, less than %.15g of a smaller radius", name,
                         found.value, before);
            before = found.value;
            check_near(&t, k, &found, name);
            for (uint64_t try = 0; try < 2; try++)
                check(random_sigma(&t, R, try ? 0.5 : 1.0, 100 * seed + try), found.value,
                      name, "at a random input");
            if (seed % RADII == (uint64_t)k)
                check(attacked_sigma(&t, R, found.value), found.value, name, "attacked");
            worst[k] = lipsc_max(worst[k], found.value / found.point);
            sum[k] += found.value / found.point * (double)fewer() / LAYERS;
        }
        test_layer_free(&t);
    }
    for (int k = 0; k < RADII; k++)
        print_message("R %g of the mean token: bound / bound at the point: mean %.4g, at "
                      "most %.4g\n",
                      relative[k], sum[k], worst[k]);
}

/* Scores up to 1e15, which double cannot tell apart: rounding is one of the moves, that of
 * the judge too. */
static void large_scores(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 60; seed++) {
        if (!chosen(seed)) continue;
        test_layer t = random_layer(seed, seed % 2 ? FEATURE_CAUSAL : FEATURE_BIASES);
        t.layer.scale = pow(10.0, (double)(seed % 16));
        const lipsc_around found = around(&t, 1e-9, 1);
        check(random_sigma(&t, 1e-9, 1.0, seed), found.value, "large scores", "near it");
        test_layer_free(&t);
    }
}

/* d = 1, V = 1, A = a, two tokens x and -x, unmasked: every P_ij is known, and so is sigma
 * at all inputs (x + s, -x + t).  The bound is above the largest over a grid. */
static void two_tokens(void **state) {
    (void)state;
    const double a = -1.5, one = 1.0, X[] = {0.4, -0.4};
    test_layer t = {.input = {.n = 2, .X = X}};
    lipsc_layer_defaults(&t.layer);
    t.layer.d = t.layer.key_dim = t.layer.value_dim = 1;
    t.layer.Q = &a;
    t.layer.V = &one;
    t.layer.scale = 1.0;
    for (double R = 1e-3; R < 2.0; R *= 4.0) {
        const double bound = around(&t, R, 1).value;
        for (int p = -8; p <= 8; p++)
            for (int q = -8; q <= 8; q++) {
                const double moved[] = {X[0] + p * R / 8.0, X[1] + q * R / 8.0};
                const lipsc_input input = {.n = 2, .X = moved};
                check(exact_norm(&t.layer, &input), bound, "two tokens", "on the grid");
            }
    }
}

/* The largest radius below a limit. */
static void below(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        test_layer t = random_layer(seed, (unsigned)(seed * 37) & 0x1ff);
        const double point = around(&t, 0.0, 1).value, limit = (1.0 + (double)seed) * point;
        lipsc_attn *attn = NULL;
        lipsc_around found;
        lipsc_error err;
        assert_int_equal(
            lipsc_attn_new(&t.layer, &t.input, LIPSC_F64, test_device(1), &attn, &err),
            LIPSC_OK);
        assert_int_equal(lipsc_attn_below(attn, limit, &found, &err), LIPSC_OK);
        assert_true(found.radius > 0.0 && found.value <= limit);
        assert_true(around(&t, found.radius, 1).value <= limit);
        if (t.input.n > 1) assert_true(around(&t, 1.003 * found.radius, 1).value > limit);
        assert_int_equal(lipsc_attn_below(attn, 0.9 * point, &found, &err),
                         LIPSC_E_REFUSED);
        assert_int_equal(lipsc_attn_below(attn, NAN, &found, &err), LIPSC_E_ARG);
        lipsc_attn_free(attn);
        test_layer_free(&t);
    }
}

typedef struct {
    size_t calls, done, total, end_at;
} count;

static void count_step(void *ctx, size_t done, size_t total) {
    count *c = ctx;
    assert_true(c->calls ? done >= c->done : done == 0);
    assert_true(done <= total);
    *c = (count){c->calls + 1, done, total, c->end_at};
}

static int asks_end(void *ctx) {
    const count *c = ctx;
    return c->done >= c->end_at;
}

/* Steps come in order up to the last; a table ends before any bound that is left. */
static void steps(void **state) {
    (void)state;
    for (int kind = 0; kind < 3; kind++) {
        test_layer t =
            random_layer_of(7, FEATURE_CAUSAL, (layer_sizes){.n = 5, .heads = 3});
        lipsc_bounds_settings set;
        lipsc_bounds found;
        lipsc_attn *attn = NULL;
        lipsc_error err = {.text = ""};
        count c = {.end_at = SIZE_MAX};
        lipsc_bounds_defaults(&set);
        if (kind == 1) set.around = 0.01;
        if (kind == 2) set.below = 3.0 * around(&t, 0.0, 1).value;
        set.stop = asks_end;
        set.steps = count_step;
        set.ctx = &c;
        assert_int_equal(
            lipsc_attn_new(&t.layer, &t.input, LIPSC_F64, test_device(1), &attn, &err),
            LIPSC_OK);
        assert_int_equal(lipsc_attn_bounds(attn, &set, &found, &err), LIPSC_OK);
        assert_int_equal(c.done, c.total);
        assert_true(c.calls > (kind ? 6 : 3));
        lipsc_bounds_free(&found);
        const size_t all = c.done;
        for (size_t end = 1; end + t.layer.heads <= all; end += t.layer.heads) {
            c = (count){.end_at = end};
            assert_int_equal(lipsc_attn_bounds(attn, &set, &found, &err), LIPSC_E_STOPPED);
            assert_true(c.done < all);
        }
        lipsc_attn_free(attn);
        test_layer_free(&t);
    }
}

/* The first token as long as that, along the keys that the query biases like. */
static void make_sink(test_layer *t, double length) {
    const lipsc_layer *l = &t->layer;
    double *x = (double *)t->input.X;
    for (size_t c = 0; c < l->d; c++) {
        x[c] = 0.0;
        for (size_t r = 0; r < l->heads * l->key_dim; r++)
            x[c] += l->K[r * l->d + c] * l->bq[r];
    }
    const double now = vector_norm(l->d, x);
    for (size_t c = 0; c < l->d; c++) x[c] *= length / now;
}

/* A token that every row looks at: the column of its blocks, exact at the point, is the
 * same nearby up to what it moves by, so that the ends alone tend to the bound by all heads
 * together.  Judged at inputs inside, sink moved too. */
static void sinks(void **state) {
    (void)state;
    int apart = 0;
    double worst = 0.0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const layer_sizes sizes = {.n = 24, .d = 6, .heads = 3};
        const unsigned kinds[] = {0, FEATURE_CAUSAL, FEATURE_WEIGHTS, FEATURE_NO_OUTPUT};
        test_layer t = random_layer_of(seed, FEATURE_BIASES | kinds[seed % 4], sizes);
        make_sink(&t, 8.0);
        const lipsc_around here = around(&t, 0.0, 1);
        assert_true(here.ends <= 1.25 * here.point);
        apart += here.ends <= 1.02 * here.point;
        for (int k = 0; k < 4; k++) {
            const double R = (const double[]){1e-4, 1e-3, 1e-2, 0.3}[k] * mean_length(&t);
            const lipsc_around found = around(&t, R, 2);
            if (k == 1) worst = lipsc_max(worst, found.value / here.point);
            for (uint64_t s = 0; s < 2; s++)
                check(random_sigma(&t, R, 0.999, seed + 7 * s), found.value, "a sink",
                      "random");
            check(random_sigma(&t, R, 0.999, seed), found.ends, "a sink", "ends");
        }
        test_layer_free(&t);
    }
    print_message("sinks: the ends tend to the bound at the point in %d of 12; R 0.001: at "
                  "most %.4f times it\n",
                  apart, worst);
    assert_true(apart >= 8);
    assert_true(worst <= 1.2);
}

/* Eight heads, a sink: heads and rows pull in different directions, which sums of lengths
 * do not see (1.22 times the bound at the point by them). */
static void many_heads(void **state) {
    (void)state;
    double worst = 0.0;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        const layer_sizes sizes = {.n = 64, .d = 32, .heads = 8};
        test_layer t = random_layer_of(seed, FEATURE_BIASES, sizes);
        make_sink(&t, 12.0);
        const lipsc_around found = around(&t, 3e-3 * mean_length(&t), 2);
        worst = lipsc_max(worst, found.value / found.point);
        test_layer_free(&t);
    }
    print_message("eight heads, R 0.003: at most %.4f times the bound at the point\n",
                  worst);
    assert_true(worst <= 1.16);
}

/* No token can reach another: sigma does not change, and every radius does. */
static void no_scores(void **state) {
    (void)state;
    const double zero = 0.0, one = 1.0, X[] = {1.0, 2.0};
    test_layer t = {.input = {.n = 2, .X = X}};
    lipsc_layer_defaults(&t.layer);
    t.layer.d = t.layer.key_dim = t.layer.value_dim = 1;
    t.layer.Q = &zero;
    t.layer.K = t.layer.V = &one;
    assert_true(fabs(around(&t, 1e6, 1).value - 1.0) < 1e-9);
    lipsc_attn *attn = NULL;
    lipsc_around found;
    assert_int_equal(
        lipsc_attn_new(&t.layer, &t.input, LIPSC_F64, test_device(1), &attn, NULL),
        LIPSC_OK);
    assert_int_equal(lipsc_attn_below(attn, 2.0, &found, NULL), LIPSC_OK);
    assert_true(found.radius > 1e6);
    lipsc_attn_free(attn);
}

/* Keys that cancel to the last digits: the neighbourhood of a point is no worse known than
 * the point. */
static void cancelling(void **state) {
    (void)state;
    const lipsc_layer_options options = {.scale = 1.0, .need_input = 1};
    lipsc_layer_file file;
    lipsc_error err = {.text = ""};
    if (lipsc_layer_file_read(LIPSC_TEST_DATA "/hard/cancellation.safetensors", &options,
                              &file, &err))
        fail_msg("%s", err.text);
    const test_layer t = {.layer = file.layer, .input = file.input};
    for (int k = 0; k < 3; k++) {
        const double R = (const double[]){0.0, 1e-300, 1e-30}[k];
        const lipsc_around found = around(&t, R, 1);
        if (!(found.value <= found.point * (1.0 + 1e-4)))
            fail_msg("R %g: %.15g, far from the bound at the point, %.15g", R, found.value,
                     found.point);
        check(1.3557442268862374, found.value, "keys that cancel", "in 80 digits");
    }
    lipsc_layer_file_free(&file);
}

/* A norm without eps whose query may become zero has no bound; NaN is no radius. */
static void refused(void **state) {
    (void)state;
    test_layer t = random_layer(3, FEATURE_QK_NORM);
    lipsc_attn *attn = NULL;
    lipsc_around found;
    lipsc_error err = {.text = ""};
    t.layer.norm_eps = 0.0;
    assert_int_equal(
        lipsc_attn_new(&t.layer, &t.input, LIPSC_F64, test_device(1), &attn, NULL),
        LIPSC_OK);
    assert_int_equal(lipsc_attn_around(attn, 100.0, &found, &err), LIPSC_E_RANGE);
    assert_non_null(strstr(err.text, "too close to zero for its norm"));
    assert_int_equal(lipsc_attn_around(attn, 1e-9, &found, &err), LIPSC_OK);
    assert_int_equal(lipsc_attn_around(attn, NAN, &found, &err), LIPSC_E_ARG);
    assert_int_equal(lipsc_attn_around(attn, -1.0, &found, &err), LIPSC_E_ARG);
    assert_int_equal(lipsc_attn_around(attn, INFINITY, &found, &err), LIPSC_E_ARG);
    lipsc_attn_free(attn);
    test_layer_free(&t);
}

/* Sums do not depend on the number of threads. */
static void threads(void **state) {
    (void)state;
    test_layer t = random_layer_of(5, FEATURE_CAUSAL | FEATURE_ROTARY,
                                   (layer_sizes){.n = 150, .heads = 2});
    const lipsc_around one = around(&t, 0.01, 1), three = around(&t, 0.01, 3);
    assert_memory_equal(&one.ends, &three.ends, sizeof one.ends);
    assert_memory_equal(&one.change, &three.change, sizeof one.change);
    test_layer_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_layers), cmocka_unit_test(large_scores),
        cmocka_unit_test(two_tokens),    cmocka_unit_test(below),
        cmocka_unit_test(no_scores),     cmocka_unit_test(refused),
        cmocka_unit_test(threads),       cmocka_unit_test(sinks),
        cmocka_unit_test(many_heads),    cmocka_unit_test(cancelling),
        cmocka_unit_test(steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
