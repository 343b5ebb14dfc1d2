/* test_golden.c - the golden values G1 ... G16 of docs/maths.md 7, which numpy computed
 * from dense Jacobians; twelve decimals. */
#include "core/extreme.h"
#include "linalg/dense.h"
#include "small_layer.h"

#include <string.h>

static const double digit = 1e-12; /* printed */

static void one_outlier(void **state) {
    (void)state;
    small_layer s;
    double X[10];
    for (size_t i = 0; i < 10; i++) X[i] = i ? 1.0 : -1.0;
    small_identity(&s, 1, -1.0);
    const lipsc_input input = {.n = 10, .X = X};
    assert_printed(small_sigma(&s, LIPSC_MASK_NONE, &input), 2.993716248639,
                   digit); /* G1 */
    assert_printed(small_sigma(&s, LIPSC_MASK_CAUSAL, &input), 3.441372507848, digit);
    lipsc_head_facts_free(&s.facts);
    small_identity(&s, 1, 8.0);
    for (size_t i = 0; i < 10; i++) X[i] = i ? 1.0 : 2.0;
    assert_printed(small_sigma(&s, LIPSC_MASK_NONE, &input), 3.222109224297,
                   digit); /* G3 */
    lipsc_head_facts_free(&s.facts);
}

static void two_outliers(void **state) {
    (void)state;
    small_layer s;
    double X[20] = {0, 2, 0, -2};
    for (size_t i = 2; i < 10; i++) X[2 * i] = 2.0;
    small_identity(&s, 2, -1.0);
    const lipsc_input input = {.n = 10, .X = X};
    assert_printed(small_sigma(&s, LIPSC_MASK_NONE, &input), 8.625871066143,
                   digit); /* G4 */
    assert_printed(small_sigma(&s, LIPSC_MASK_CAUSAL, &input), 8.839040401892, digit);
    double points[] = {0, 2, 0, -2, 2, 0}, count[] = {1, 1, 8};
    assert_printed(small_clusters(&s, 3, points, count), 8.625871066143, digit);
    lipsc_head_facts_free(&s.facts);
}

static void measures(void **state) {
    (void)state;
    small_layer s;
    small_identity(&s, 1, -1.0);
    double X[] = {4, 0}, count[] = {1, 15};
    const double weights[] = {1.0 / 16, 15.0 / 16};
    const lipsc_input g6 = {.n = 2, .X = X, .weights = weights};
    assert_printed(small_sigma(&s, LIPSC_MASK_NONE, &g6), 0.258198918804, digit);
    assert_printed(small_clusters(&s, 2, X, count), 0.9375, digit); /* G7: atoms split */
    const double Y[] = {-1, 1}, light[] = {0.05, 0.95};
    const lipsc_input g8 = {.n = 2, .X = Y, .weights = light};
    assert_printed(small_sigma(&s, LIPSC_MASK_NONE, &g8), 3.018882725007, digit);
    double Z[] = {5.5981184, 0.46767033}, twice[] = {2, 2};
    const lipsc_input g9 = {.n = 2, .X = Z};
    assert_printed(small_sigma(&s, LIPSC_MASK_NONE, &g9), 1.352654726003, digit);
    assert_printed(small_clusters(&s, 2, Z, twice), 2.008219648160, digit); /* G10 */
    lipsc_head_facts_free(&s.facts);
}

enum { N = 6, D = 3 };

static void sines(small_layer *s, double *X) {
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < D; k++) X[i * D + k] = sin((double)(1 + 3 * i + k));
    for (int i = 0; i < D; i++)
        for (int k = 0; k < D; k++) {
            s->A[i * D + k] = cos(2.0 * i + 5.0 * k);
            s->V[i * D + k] = cos(1.0 + i - 2.0 * k);
        }
    small_ready(s, D, 0);
}

/* max_i |V C_i A| with the covariances written out */
static double query_term(const small_layer *s, const double *X, const double *weights) {
    double largest = 0.0;
    for (size_t i = 0; i < N; i++) {
        double w[D] = {0}, p[N], total = 0.0, mean[D] = {0}, C[D * D] = {0};
        for (size_t r = 0; r < D; r++)
            for (size_t c = 0; c < D; c++) w[r] += s->A[r * D + c] * X[i * D + c];
        for (size_t j = 0; j < N; j++) {
            double score = 0.0;
            for (size_t c = 0; c < D; c++) score += w[c] * X[j * D + c];
            total += p[j] = weights[j] * exp(score);
        }
        for (size_t j = 0; j < N; j++)
            for (size_t c = 0; c < D; c++) mean[c] += p[j] / total * X[j * D + c];
        for (size_t j = 0; j < N; j++)
            for (size_t e = 0; e < D * D; e++)
                C[e] += p[j] / total * (X[j * D + e / D] - mean[e / D]) *
                        (X[j * D + e % D] - mean[e % D]);
        double CA[D * D] = {0}, VCA[D * D] = {0}, norm;
        for (size_t e = 0; e < D * D; e++)
            for (size_t l = 0; l < D; l++) CA[e] += C[e / D * D + l] * s->A[l * D + e % D];
        for (size_t e = 0; e < D * D; e++)
            for (size_t l = 0; l < D; l++)
                VCA[e] += s->V[e / D * D + l] * CA[l * D + e % D];
        assert_int_equal(lipsc_dense_norm(D, D, VCA, &norm), LIPSC_OK);
        largest = lipsc_max(largest, norm);
    }
    return largest;
}

static void sine_layer(void **state) {
    (void)state;
    small_layer s;
    double X[N * D], weights[N], y[N * D], z[N * D];
    sines(&s, X);
    lipsc_input input = {.n = N, .X = X};
    assert_printed(small_sigma(&s, LIPSC_MASK_NONE, &input), 1.747921853181,
                   digit); /* G11 */
    assert_printed(small_sigma(&s, LIPSC_MASK_CAUSAL, &input), 2.314757266577, digit);
    for (size_t i = 0; i < N; i++) weights[i] = (double)(i + 1) / 21.0;
    lipsc_layer causal = s.layer;
    causal.mask = LIPSC_MASK_CAUSAL;
    assert_int_equal(lipsc_ref_output(&s.layer, &input, y, NULL), LIPSC_OK);
    assert_int_equal(lipsc_ref_output(&causal, &input, z, NULL), LIPSC_OK);
    assert_printed(y[0] + z[0], 1.151612969734, digit); /* G16 */
    input.weights = weights;
    assert_printed(small_sigma(&s, LIPSC_MASK_NONE, &input), 1.794099288290,
                   digit);                                             /* G13 */
    assert_printed(query_term(&s, X, weights), 0.453771732149, digit); /* G14 */
    lipsc_head_facts_free(&s.facts);
}

/* G15: |J(N(X)) DN(X)|, the derivative of the norm by 1.7 */
static void behind_a_norm(void **state) {
    (void)state;
    enum { SIZE = N * D };
    small_layer s;
    double X[SIZE], Y[SIZE], DN[N][D * D], matrix[SIZE * SIZE], unit[SIZE], norm;
    sines(&s, X);
    for (size_t i = 0; i < N; i++) {
        const double *x = X + i * D;
        const double mean = (x[0] + x[1] + x[2]) / 3.0;
        double square = 0.0;
        for (size_t c = 0; c < D; c++) square += (x[c] - mean) * (x[c] - mean);
        const double r = sqrt(square + D * 1e-5), over = sqrt((double)D) / r;
        for (size_t c = 0; c < D; c++)
            Y[i * D + c] =
                (1.0 + 0.1 * (double)c) * over * (x[c] - mean) + 0.05 * (double)c;
        for (size_t c = 0; c < D; c++)
            for (size_t l = 0; l < D; l++)
                DN[i][c * D + l] =
                    (1.0 + 0.1 * (double)c) * over *
                    ((c == l) - 1.0 / D - (x[c] - mean) * (x[l] - mean) / r / r);
    }
    const lipsc_input input = {.n = N, .X = Y};
    for (size_t e = 0; e < SIZE; e++) {
        memset(unit, 0, sizeof unit);
        for (size_t c = 0; c < D; c++) unit[e / D * D + c] = DN[e / D][c * D + e % D];
        assert_int_equal(
            lipsc_ref_apply(&s.layer, &input, 0, 1, unit, matrix + e * SIZE, NULL),
            LIPSC_OK);
    }
    assert_int_equal(lipsc_dense_norm(SIZE, SIZE, matrix, &norm), LIPSC_OK);
    assert_printed(norm, 11.747478031826, digit);
    lipsc_head_facts_free(&s.facts);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_outlier),   cmocka_unit_test(two_outliers),
        cmocka_unit_test(measures),      cmocka_unit_test(sine_layer),
        cmocka_unit_test(behind_a_norm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
