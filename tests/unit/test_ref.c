/* test_ref.c - the definition against golden values, LAPACK, the adjoint identity,
 * central differences and attention in long double. */
#include "core/extreme.h"
#include "layers.h"
#include "linalg/dense.h"

#include <float.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
/* cmocka.h wants the above */
#include <cmocka.h>

/* ---- Golden values (docs/maths.md, section 7) ------------------------------------ */

/* Scores (A x_i).x_j, one head, no output projection. */
static lipsc_layer a_layer(size_t d, const double *A, const double *V, lipsc_mask mask) {
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = d;
    layer.Q = A;
    layer.V = V;
    layer.mask = mask;
    return layer;
}

/* Largest singular value of J restricted to the span of `count` orthonormal directions
 * (NULL: all), by LAPACK. */
static double dense_norm(const lipsc_layer *layer, const lipsc_input *input, size_t count,
                         const double *directions) {
    const size_t in = input->n * layer->d, out = input->n * lipsc_layer_width(layer);
    double *eye = calloc(in * in, sizeof *eye);
    if (!directions) count = in;
    double *J = malloc(out * count * sizeof *J), sigma = NAN;
    assert_true(eye && J);
    for (size_t e = 0; e < in; e++) eye[e * in + e] = 1.0;
    assert_int_equal(
        lipsc_ref_apply(layer, input, 0, count, directions ? directions : eye, J, NULL), 0);
    assert_int_equal(lipsc_dense_norm(out, count, J, &sigma), 0);
    free(eye);
    free(J);
    return sigma;
}

/* A measure with every atom cut into two equal halves.  Moving them independently gives
 * L_split (docs/maths.md, section 2); moving them apart, only the fluctuations
 * max_i |V C_i A|. */
static void split_constants(const lipsc_layer *layer, const lipsc_input *input,
                            double *split, double *fluctuation) {
    const size_t n = input->n, d = layer->d;
    double *X = malloc(2 * n * d * sizeof *X), *weights = malloc(2 * n * sizeof *weights);
    double *apart = calloc(n * d * 2 * n * d, sizeof *apart);
    assert_true(X && weights && apart);
    for (size_t i = 0; i < 2 * n; i++) {
        weights[i] = input->weights ? input->weights[i / 2] / 2.0 : 1.0;
        memcpy(X + i * d, input->X + i / 2 * d, d * sizeof *X);
    }
    for (size_t i = 0; i < n; i++)
        for (size_t c = 0; c < d; c++) {
            double *direction = apart + (i * d + c) * 2 * n * d;
            direction[2 * i * d + c] = sqrt(0.5);
            direction[(2 * i + 1) * d + c] = -sqrt(0.5);
        }
    const lipsc_input halves = {.n = 2 * n, .X = X, .weights = weights};
    *split = dense_norm(layer, &halves, 0, NULL);
    *fluctuation = dense_norm(layer, &halves, n * d, apart);
    free(X);
    free(weights);
    free(apart);
}

static double worst_golden;

/* 1e-10: the stored values have 12 decimals, and a dense SVD of these sizes is good to
 * about 1e-14. */
static void check_golden(const char *name, double value, double golden) {
    const double error = fabs(value - golden) / golden;
    worst_golden = lipsc_max(worst_golden, error);
    if (!(error < 1e-10)) fail_msg("%s: %.15g, golden %.15g", name, value, golden);
}

static void golden_one_dimension(void **state) {
    (void)state;
    const double one[] = {1}, minus_one[] = {-1}, eight[] = {8};
    double X[10] = {-1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    lipsc_input input = {.n = 10, .X = X};
    lipsc_layer layer = a_layer(1, minus_one, one, LIPSC_MASK_NONE);
    check_golden("G1", dense_norm(&layer, &input, 0, NULL), 2.993716248639);
    layer.mask = LIPSC_MASK_CAUSAL;
    check_golden("G2", dense_norm(&layer, &input, 0, NULL), 3.441372507848);

    X[0] = 2;
    layer = a_layer(1, eight, one, LIPSC_MASK_NONE);
    check_golden("G3", dense_norm(&layer, &input, 0, NULL), 3.222109224297);

    double split, fluctuation;
    layer = a_layer(1, minus_one, one, LIPSC_MASK_NONE);
    const double two[] = {4, 0}, sixteenths[] = {1.0 / 16, 15.0 / 16};
    input = (lipsc_input){.n = 2, .X = two, .weights = sixteenths};
    split_constants(&layer, &input, &split, &fluctuation);
    check_golden("G6", dense_norm(&layer, &input, 0, NULL), 0.258198918804);
    check_golden("G7", split, 0.9375);

    const double pair[] = {-1, 1}, twentieths[] = {0.05, 0.95};
    input = (lipsc_input){.n = 2, .X = pair, .weights = twentieths};
    check_golden("G8", dense_norm(&layer, &input, 0, NULL), 3.018882725007);

    const double far[] = {5.5981184, 0.46767033};
    input = (lipsc_input){.n = 2, .X = far};
    split_constants(&layer, &input, &split, &fluctuation);
    check_golden("G9", dense_norm(&layer, &input, 0, NULL), 1.352654726003);
    check_golden("G10", split, 2.008219648160);
}

static void golden_two_dimensions(void **state) {
    (void)state;
    const double eye[] = {1, 0, 0, 1}, minus_eye[] = {-1, 0, 0, -1};
    double X[20] = {0, 2, 0, -2};
    for (size_t i = 2; i < 10; i++) X[2 * i] = 2;
    const lipsc_input input = {.n = 10, .X = X};
    lipsc_layer layer = a_layer(2, minus_eye, eye, LIPSC_MASK_NONE);
    check_golden("G4", dense_norm(&layer, &input, 0, NULL), 8.625871066143);
    layer.mask = LIPSC_MASK_CAUSAL;
    check_golden("G5", dense_norm(&layer, &input, 0, NULL), 8.839040401892);
}

static void golden_three_dimensions(void **state) {
    (void)state;
    double X[18], A[9], V[9], weights[6], y[18], split, fluctuation;
    for (int i = 0; i < 6; i++) weights[i] = (i + 1) / 21.0;
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 3; k++) X[3 * i + k] = sin(1 + 3 * i + k);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++) {
            A[3 * i + k] = cos(2 * i + 5 * k);
            V[3 * i + k] = cos(1 + i - 2 * k);
        }
    lipsc_input input = {.n = 6, .X = X};
    lipsc_layer layer = a_layer(3, A, V, LIPSC_MASK_NONE);
    check_golden("G11", dense_norm(&layer, &input, 0, NULL), 1.747921853181);
    assert_int_equal(lipsc_ref_output(&layer, &input, y, NULL), 0);
    double corner = y[0];
    layer.mask = LIPSC_MASK_CAUSAL;
    check_golden("G12", dense_norm(&layer, &input, 0, NULL), 2.314757266577);
    assert_int_equal(lipsc_ref_output(&layer, &input, y, NULL), 0);
    check_golden("G16", corner + y[0], 1.151612969734);

    layer.mask = LIPSC_MASK_NONE;
    input.weights = weights;
    split_constants(&layer, &input, &split, &fluctuation);
    check_golden("G13", dense_norm(&layer, &input, 0, NULL), 1.794099288290);
    check_golden("G14", fluctuation, 0.453771732149);
    print_message("golden values: worst relative error %.1e\n", worst_golden);
}

/* ---- Random layers ----------------------------------------------------------------- */

/* Worst errors over all layers checked, for the message at the end. */
static struct { double output, adjoint, difference, longdouble; } worst;

static void describe(unsigned features, uint64_t seed, char *text, size_t size) {
    size_t used = (size_t)snprintf(text, size, "seed %llu:", (unsigned long long)seed);
    for (unsigned f = 0; f < FEATURES && used < size; f++)
        if (features >> f & 1)
            used += (size_t)snprintf(text + used, size - used, " [%s]", feature_names[f]);
}

/* D^{1/2} J D^{-1/2} x by central differences of lipsc_ref_output. */
static void difference_jvp(const test_layer *t, double step, const double *x, double *y) {
    double *X = malloc(t->in * sizeof *X), *minus = malloc(t->out * sizeof *minus);
    const double *a = t->input.weights;
    const size_t d = t->layer.d, width = t->out / t->input.n;
    lipsc_input moved = t->input;
    moved.X = X;
    assert_true(X && minus);
    for (int sign = -1; sign <= 1; sign += 2) {
        for (size_t e = 0; e < t->in; e++)
            X[e] = t->input.X[e] + sign * step * (a ? x[e] / sqrt(a[e / d]) : x[e]);
        assert_int_equal(lipsc_ref_output(&t->layer, &moved, sign < 0 ? minus : y, NULL),
                         LIPSC_OK);
    }
    for (size_t e = 0; e < t->out; e++)
        y[e] = (y[e] - minus[e]) / (2 * step) * (a ? sqrt(a[e / width]) : 1.0);
    free(X);
    free(minus);
}

static void check_layer(const test_layer *t, const char *name) {
    double *v = random_vectors(1, t->in), *w = random_vectors(2, t->out);
    double *jv = malloc(t->out * sizeof *jv), *jtw = malloc(t->in * sizeof *jtw);
    double *other = malloc(t->out * sizeof *other);
    long double *f = malloc(t->out * sizeof *f);
    assert_true(jv && jtw && other && f);
    const double length = vector_norm(t->in, v);
    for (size_t e = 0; e < t->in; e++) v[e] /= length;
    assert_int_equal(lipsc_ref_apply(&t->layer, &t->input, 0, 1, v, jv, NULL), LIPSC_OK);
    assert_int_equal(lipsc_ref_apply(&t->layer, &t->input, 1, 1, w, jtw, NULL), LIPSC_OK);
    const double size = vector_norm(t->out, jv);

    /* sums of at most a hundred terms: 1e-13 is a few hundred eps */
    const longdouble_point here = {&t->layer, &t->input, NULL, 0.0L};
    longdouble_output(&here, f);
    assert_int_equal(lipsc_ref_output(&t->layer, &t->input, other, NULL), LIPSC_OK);
    double error = 0.0, largest = 0.0;
    for (size_t e = 0; e < t->out; e++) {
        error = lipsc_max(error, fabs(other[e] - (double)f[e]));
        largest = lipsc_max(largest, fabs(other[e]));
    }
    error /= largest;
    worst.output = lipsc_max(worst.output, error);
    if (!(error < 1e-13)) fail_msg("%s output off by %.1e", name, error);

    /* <J v, w> = <v, J^T w>, relative to |J v| |w|: the same sums in another order */
    const double gap = fabs(vector_dot(t->out, jv, w) - vector_dot(t->in, v, jtw)) /
                       (size * vector_norm(t->out, w));
    worst.adjoint = lipsc_max(worst.adjoint, gap);
    if (!(gap < 1e-13)) fail_msg("%s adjoint gap %.1e", name, gap);

    /* In double the step is the cube root of eps, where truncation h^2 f'''/6 and rounding
     * eps/h are both near 1e-10; 1e-7 leaves room for f''' of a few hundred and for the
     * rounding of f, eps times the scores. */
    difference_jvp(t, 6e-6, v, other);
    error = vector_distance(t->out, jv, other) / size;
    worst.difference = lipsc_max(worst.difference, error);
    if (!(error < 1e-7)) fail_msg("%s central difference off by %.1e", name, error);

    /* In long double, step 1e-6: truncation 1e-12 f'''/6, rounding 1e-19/1e-6. */
    longdouble_jvp(&t->layer, &t->input, 1e-6L, v, other);
    error = vector_distance(t->out, jv, other) / size;
    worst.longdouble = lipsc_max(worst.longdouble, error);
    if (!(error < 1e-9)) fail_msg("%s long double difference off by %.1e", name, error);

    free(v);
    free(w);
    free(jv);
    free(jtw);
    free(other);
    free(f);
}

static void check_features(unsigned features, uint64_t seed) {
    char name[320];
    describe(features, seed, name, sizeof name);
    test_layer t = random_layer(seed, features);
    check_layer(&t, name);
    test_layer_free(&t);
}

static void features_alone(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        check_features(0, seed);
        for (unsigned f = 0; f < ALL_FEATURES; f++) check_features(1u << f, seed);
    }
}

static void features_in_pairs(void **state) {
    (void)state;
    for (unsigned f = 0; f < ALL_FEATURES; f++)
        for (unsigned g = 0; g < f; g++) check_features(1u << f | 1u << g, 100 + f);
}

static void features_together(void **state) {
    (void)state;
    const unsigned all = (1u << FEATURES) - 1;
    const unsigned off = FEATURE_ONE_TOKEN | FEATURE_SATURATED | FEATURE_EQUAL_TOKENS;
    for (uint64_t seed = 200; seed < 220; seed++) {
        check_features(all & ~off, seed);
        check_features(all & ~off & ~FEATURE_A_FORM & ~FEATURE_TIMES, seed);
        check_features(all & ~FEATURE_ONE_TOKEN & ~FEATURE_NO_OUTPUT, seed);
        check_features((unsigned)lipsc_rng_bits(seed, 0) & all & ~FEATURE_ONE_TOKEN, seed);
        check_features(
            (unsigned)lipsc_rng_bits(seed, 1) & ((1u << ALL_FEATURES) - 1) & ~off, seed);
    }
    print_message("worst: output %.1e, adjoint %.1e, central differences %.1e, in long "
                  "double %.1e\n",
                  worst.output, worst.adjoint, worst.difference, worst.longdouble);
}

/* A block of vectors gives what single vectors give, bit for bit. */
static void blocks(void **state) {
    (void)state;
    test_layer t = random_layer(5, FEATURE_TIMES | FEATURE_GROUPED | FEATURE_WEIGHTS);
    double *x = random_vectors(3, 3 * (t.in + t.out));
    double *y = malloc(3 * (t.in + t.out) * sizeof *y),
           *one = malloc((t.in + t.out) * sizeof *one);
    assert_true(y && one);
    for (int trans = 0; trans < 2; trans++) {
        const size_t from = trans ? t.out : t.in, to = trans ? t.in : t.out;
        assert_int_equal(lipsc_ref_apply(&t.layer, &t.input, trans, 3, x, y, NULL),
                         LIPSC_OK);
        for (size_t v = 0; v < 3; v++) {
            assert_int_equal(
                lipsc_ref_apply(&t.layer, &t.input, trans, 1, x + v * from, one, NULL),
                LIPSC_OK);
            assert_memory_equal(one, y + v * to, to * sizeof *one);
        }
    }
    free(x);
    free(y);
    free(one);
    test_layer_free(&t);
}

/* ---- Saturated rows ----------------------------------------------------------------- */

/* Tokens (x, y, c): scores gap * x_i' . x_j in x and y alone, values c alone.  A direction
 * that moves x and y, not c, reaches the output only through dP, which in a row that
 * leads by L is of size e^-L: nothing large hides a wrong digit. */
enum { TOKENS = 6 };

static void saturated_layer(double gap, test_layer *t) {
    memset(t, 0, sizeof *t);
    lipsc_layer *l = &t->layer;
    lipsc_layer_defaults(l);
    l->d = 3, l->key_dim = 2, l->value_dim = 1, l->scale = gap;
    double *Q = array_new(t, 6), *V = array_new(t, 3), *X = array_new(t, 3 * TOKENS);
    memcpy(Q, (double[]){1, 0, 0, 0, 1, 0}, 6 * sizeof *Q);
    memcpy(V, (double[]){0, 0, 1}, 3 * sizeof *V);
    for (size_t i = 0; i < TOKENS; i++) {
        /* on a circle: token i scores itself cos 0, its neighbours cos 60 degrees */
        const double angle = (double)i * 6.283185307179586 / TOKENS;
        X[3 * i] = cos(angle) * sqrt(2.0);
        X[3 * i + 1] = sin(angle) * sqrt(2.0);
        X[3 * i + 2] = lipsc_rng_normal(9, i);
    }
    l->Q = l->K = Q;
    l->V = V;
    t->input = (lipsc_input){.n = TOKENS, .X = X};
    t->in = 3 * TOKENS;
    t->out = TOKENS;
}

/* Jacobian of sum_j P_ij c_j with respect to (x, y) of all tokens, in long double, by the
 * textbook formula dP_ij = P_ij (ds_ij - sum_l P_il ds_il) written without cancellation:
 * dP_ij = P_ij sum_l P_il (ds_ij - ds_il). */
static void saturated_jvp(const test_layer *t, const double *h, long double *y) {
    const double *X = t->input.X;
    const long double scale = t->layer.scale;
    for (size_t i = 0; i < TOKENS; i++) {
        long double s[TOKENS], ds[TOKENS], sum = 0.0L, largest;
        for (size_t j = 0; j < TOKENS; j++) {
            s[j] = ds[j] = 0.0L;
            for (size_t c = 0; c < 2; c++) {
                const long double xi = X[3 * i + c], xj = X[3 * j + c];
                s[j] += scale * xi * xj;
                ds[j] += scale * (h[3 * i + c] * xj + xi * h[3 * j + c]);
            }
        }
        largest = s[i];
        for (size_t j = 0; j < TOKENS; j++) largest = fmaxl(largest, s[j]);
        for (size_t j = 0; j < TOKENS; j++) sum += s[j] = expl(s[j] - largest);
        y[i] = 0.0L; /* sum_j dP_ij c_j = 1/2 sum_jl P_ij P_il (ds_j - ds_l)(c_j - c_l) */
        for (size_t j = 0; j < TOKENS; j++)
            for (size_t l = 0; l < TOKENS; l++)
                y[i] += 0.5L * s[j] / sum * s[l] / sum * (ds[j] - ds[l]) *
                        ((long double)X[3 * j + 2] - (long double)X[3 * l + 2]);
    }
}

static void saturated_rows(void **state) {
    (void)state;
    const double leads[] = {1, 20, 40, 100, 300, 1000};
    double largest_error = 0.0;
    for (size_t a = 0; a < sizeof leads / sizeof leads[0]; a++) {
        test_layer t;
        saturated_layer(leads[a], &t);
        double *h = random_vectors(a, t.in), y[TOKENS], gradient[3 * TOKENS];
        long double exact[TOKENS];
        for (size_t i = 0; i < TOKENS; i++) h[3 * i + 2] = 0.0;
        saturated_jvp(&t, h, exact);
        assert_int_equal(lipsc_ref_apply(&t.layer, &t.input, 0, 1, h, y, NULL), LIPSC_OK);
        for (size_t i = 0; i < TOKENS; i++) {
            double unit[TOKENS] = {0};
            unit[i] = 1.0;
            assert_int_equal(
                lipsc_ref_apply(&t.layer, &t.input, 1, 1, unit, gradient, NULL), LIPSC_OK);
            const double transposed = vector_dot(t.in, gradient, h);
            /* Scores up to 2000 carry rounding 2000 eps = 4e-13, which the exponential
             * turns into a relative error; below DBL_MIN there is nothing to compare. */
            const double scale = fabs((double)exact[i]);
            const double forward = fabs(y[i] - (double)exact[i]);
            const double backward = fabs(transposed - (double)exact[i]);
            const double allowed = 1e-14 * (10.0 + leads[a]) * scale + DBL_MIN;
            if (!(forward < allowed) || !(backward < allowed))
                fail_msg("lead %g row %zu: J %.16g, J^T %.16g, exact %.16Lg", leads[a], i,
                         y[i], transposed, exact[i]);
            if (scale > 1e-290)
                largest_error =
                    lipsc_max(largest_error, lipsc_max(forward, backward) / scale);
        }
        free(h);
        test_layer_free(&t);
    }
    print_message("saturated rows: worst relative error %.1e\n", largest_error);
}

/* ---- Special cases with closed forms ------------------------------------------------ */

/* A token that sees itself alone: f_i = O V x_i + ..., so J is O V, whatever Q and K. */
static void one_visible_token(void **state) {
    (void)state;
    layer_sizes z = {.n = 4, .window = 1};
    test_layer t =
        random_layer_of(3, FEATURE_SLIDING | FEATURE_BIASES | FEATURE_QK_NORM, z);
    const lipsc_layer *l = &t.layer;
    double *v = random_vectors(4, t.in), *jv = malloc(t.out * sizeof *jv);
    assert_true(jv != NULL);
    assert_int_equal(lipsc_ref_apply(l, &t.input, 0, 1, v, jv, NULL), LIPSC_OK);
    const size_t concat = l->heads * l->value_dim;
    for (size_t i = 0; i < t.input.n; i++)
        for (size_t r = 0; r < l->out_dim; r++) {
            double expected = 0.0;
            for (size_t c = 0; c < concat; c++)
                expected +=
                    l->O[r * concat + c] * vector_dot(l->d, l->V + c * l->d, v + i * l->d);
            /* the same sums in another order */
            assert_true(fabs(jv[i * l->out_dim + r] - expected) <
                        1e-13 * (1.0 + fabs(expected)));
        }
    free(v);
    free(jv);
    test_layer_free(&t);
}

/* All tokens equal: P is uniform, keys and queries drop out, J averages V x. */
static void all_tokens_equal(void **state) {
    (void)state;
    layer_sizes z = {.n = 5, .heads = 1, .d = 3};
    test_layer t = random_layer_of(8, FEATURE_NO_OUTPUT, z);
    double X[15], *v = random_vectors(5, t.in), *jv = malloc(t.out * sizeof *jv),
                  mean[3] = {0};
    assert_true(jv != NULL);
    for (size_t e = 0; e < 15; e++) X[e] = t.input.X[e % 3], mean[e % 3] += v[e] / 5.0;
    t.input.X = X;
    assert_int_equal(lipsc_ref_apply(&t.layer, &t.input, 0, 1, v, jv, NULL), LIPSC_OK);
    for (size_t e = 0; e < t.out; e++) {
        const double *row = t.layer.V + e % t.layer.value_dim * 3;
        assert_true(fabs(jv[e] - vector_dot(3, row, mean)) < 1e-14);
    }
    free(v);
    free(jv);
    test_layer_free(&t);
}

/* Times that only name the causal order, in a shuffled sequence, are the causal mask. */
static void times_are_causal(void **state) {
    (void)state;
    const size_t shuffle[] = {3, 0, 4, 1, 2};
    layer_sizes z = {.n = 5};
    test_layer t = random_layer_of(4, FEATURE_CAUSAL, z);
    const size_t d = t.layer.d, width = t.out / 5;
    double *X = malloc(t.in * sizeof *X), times[5];
    double *a = malloc(t.out * sizeof *a), *b = malloc(t.out * sizeof *b);
    assert_true(X && a && b);
    for (size_t i = 0; i < 5; i++) {
        times[i] = (double)shuffle[i];
        memcpy(X + i * d, t.input.X + shuffle[i] * d, d * sizeof *X);
    }
    assert_int_equal(lipsc_ref_output(&t.layer, &t.input, a, NULL), LIPSC_OK);
    t.layer.mask = LIPSC_MASK_TIMES;
    const lipsc_input moved = {.n = 5, .X = X, .times = times};
    assert_int_equal(lipsc_ref_output(&t.layer, &moved, b, NULL), LIPSC_OK);
    for (size_t i = 0; i < 5; i++) /* sums over j in another order */
        assert_true(vector_distance(width, a + shuffle[i] * width, b + i * width) < 1e-14);
    free(X);
    free(a);
    free(b);
    test_layer_free(&t);
}

static void overflow_is_told(void **state) {
    (void)state;
    const double huge[] = {1e200}, one[] = {1}, X[] = {1e200, -1e200};
    lipsc_layer layer = a_layer(1, huge, one, LIPSC_MASK_NONE);
    const lipsc_input input = {.n = 2, .X = X};
    double y[2];
    lipsc_error err;
    assert_int_equal(lipsc_ref_output(&layer, &input, y, &err), LIPSC_E_NONFIN);
    assert_string_equal(err.text,
                        "attention at this input: a score or a product is not finite");
    assert_int_equal(lipsc_ref_apply(&layer, &input, 0, 1, X, y, &err), LIPSC_E_NONFIN);
    assert_int_equal(lipsc_ref_apply(&layer, &input, 2, 1, X, y, &err), LIPSC_E_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_one_dimension),
        cmocka_unit_test(golden_two_dimensions),
        cmocka_unit_test(golden_three_dimensions),
        cmocka_unit_test(features_alone),
        cmocka_unit_test(features_in_pairs),
        cmocka_unit_test(features_together),
        cmocka_unit_test(blocks),
        cmocka_unit_test(saturated_rows),
        cmocka_unit_test(one_visible_token),
        cmocka_unit_test(all_tokens_equal),
        cmocka_unit_test(times_are_causal),
        cmocka_unit_test(overflow_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
