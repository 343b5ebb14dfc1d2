/* test_spread.c - entropy and sink of the attention against closed forms and plain loops.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/extreme.h"
#include "bound/spread.h"
#include "layers.h"
#include "longdouble.h"
#include "test_device.h"

static void near(double value, double want, double tolerance) {
    if (!(fabs(value - want) <= tolerance * fabs(want)))
        fail_msg("%.17g is not within %g of %.17g", value, tolerance, want);
}

static lipsc_spread spread_of(const lipsc_layer *layer, const lipsc_input *input) {
    lipsc_attn *attn;
    lipsc_error err;
    lipsc_spread spread;
    assert_int_equal(lipsc_attn_new(layer, input, LIPSC_F64, test_device(1), &attn, &err),
                     LIPSC_OK);
    assert_int_equal(lipsc_attn_spread(attn, &spread), LIPSC_OK);
    lipsc_attn_free(attn);
    return spread;
}

/* Equal tokens see each other alike: P_ij = 1/n, or 1/(i+1) under the causal mask. */
static void test_uniform(void **state) {
    (void)state;
    enum { N = 9 };
    double X[N], sums = 0.0, entropy = 0.0;
    const double one[] = {1.0};
    for (size_t i = 0; i < N; i++) {
        X[i] = 0.5;
        sums += 1.0 / (double)(i + 1);
        entropy += log((double)(i + 1)) / N;
    }
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 1;
    layer.Q = layer.K = layer.V = one;
    const lipsc_input input = {.n = N, .X = X};
    lipsc_spread s = spread_of(&layer, &input);
    near(s.entropy, log((double)N), 1e-14); /* a few roundings */
    near(s.sink, 1.0, 1e-14);
    layer.mask = LIPSC_MASK_CAUSAL;
    s = spread_of(&layer, &input);
    near(s.entropy, entropy, 1e-14);
    near(s.sink, sums, 1e-14);
    assert_int_equal(s.sink_token, 0);
}

/* P by the formula of lipscope.h in plain loops, for layers without rotation and norm. */
static void test_plain_loops(void **state) {
    (void)state;
    const unsigned features[] = {0, FEATURE_CAUSAL | FEATURE_BIASES,
                                 FEATURE_GROUPED | FEATURE_WEIGHTS | FEATURE_SCALE,
                                 FEATURE_TIMES | FEATURE_WEIGHTS, FEATURE_SATURATED};
    for (size_t f = 0; f < sizeof features / sizeof *features; f++) {
        test_layer t = random_layer(f + 1, features[f]);
        const lipsc_layer *l = &t.layer;
        const size_t n = t.input.n, d = l->d, k = l->key_dim;
        const size_t groups = l->kv_heads ? l->kv_heads : l->heads;
        const double scale = l->scale != 0.0 ? l->scale : 1.0 / sqrt((double)k);
        double entropy = 0.0, sink = -1.0, *columns = calloc(n, sizeof *columns),
               *p = calloc(n, sizeof *p);
        size_t sink_token = 0;
        for (size_t h = 0; h < l->heads; h++) {
            const size_t g = h * groups / l->heads;
            memset(columns, 0, n * sizeof *columns);
            for (size_t i = 0; i < n; i++) {
                double largest = -INFINITY, total = 0.0;
                for (size_t j = 0; j < n; j++) {
                    const int seen = l->mask == LIPSC_MASK_CAUSAL ? j <= i
                                     : l->mask == LIPSC_MASK_TIMES
                                         ? t.input.times[j] <= t.input.times[i]
                                         : 1;
                    p[j] = seen ? 0.0 : -INFINITY;
                    for (size_t c = 0; seen && c < k; c++) {
                        double q = l->bq ? l->bq[h * k + c] : 0.0;
                        double key = l->bk ? l->bk[g * k + c] : 0.0;
                        for (size_t e = 0; e < d; e++) {
                            q += l->Q[(h * k + c) * d + e] * t.input.X[i * d + e];
                            key += l->K[(g * k + c) * d + e] * t.input.X[j * d + e];
                        }
                        p[j] += scale * q * key;
                    }
                    if (seen && t.input.weights) p[j] += log(t.input.weights[j]);
                    largest = lipsc_max(largest, p[j]);
                }
                for (size_t j = 0; j < n; j++) total += p[j] = exp(p[j] - largest);
                for (size_t j = 0; j < n; j++) {
                    const double share = p[j] / total;
                    columns[j] += share;
                    if (share > 0.0) entropy -= share * log(share) / (double)(n * l->heads);
                }
            }
            for (size_t j = 0; j < n; j++)
                if (columns[j] > sink) sink = columns[j], sink_token = j;
        }
        const lipsc_spread s = spread_of(l, &t.input);
        near(s.entropy, entropy, 1e-10); /* scores of size 100 lose two digits */
        near(s.sink, sink, 1e-10);
        assert_int_equal(s.sink_token, sink_token);
        free(columns);
        free(p);
        test_layer_free(&t);
    }
}

/* Scores in long double with all that they may have; a sink is one more key of each row. */
static void test_scores_beyond(void **state) {
    (void)state;
    for (unsigned f = FEATURES; f < ALL_FEATURES; f++) {
        test_layer t = random_layer(f, 1u << f | FEATURE_QK_NORM | FEATURE_BIASES);
        const lipsc_layer *l = &t.layer;
        const longdouble_point here = {l, &t.input, NULL, 0.0L};
        const size_t n = t.input.n, rows = n * l->heads;
        long double *s = malloc((2 * n + 2 * l->key_dim + 1) * sizeof *s);
        long double *columns = s + n + 1, entropy = 0.0L, sink = -1.0L;
        assert_non_null(s);
        for (size_t h = 0; h < l->heads; h++) {
            for (size_t j = 0; j < n; j++) columns[j] = 0.0L;
            for (size_t i = 0; i < n; i++) {
                longdouble_scores(&here, h, i, columns + n, s);
                s[n] = l->sinks ? (long double)l->sinks[h] : -(long double)INFINITY;
                long double total = 0.0L;
                for (size_t j = 0; j <= n; j++) total += expl(s[j]);
                for (size_t j = 0; j <= n; j++) {
                    const long double p = expl(s[j]) / total;
                    if (j < n) columns[j] += p;
                    if (p > 0.0L) entropy -= p * logl(p) / (long double)rows;
                }
            }
            for (size_t j = 0; j < n; j++) sink = fmaxl(sink, columns[j]);
        }
        const lipsc_spread found = spread_of(l, &t.input);
        near(found.entropy, (double)entropy, 1e-12);
        near(found.sink, (double)sink, 1e-12);
        free(s);
        test_layer_free(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uniform),
        cmocka_unit_test(test_plain_loops),
        cmocka_unit_test(test_scores_beyond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
