/* released.c - docs/maths.md 8: what the published scripts return in place of
 * sigma, |J^T f(X)|^(1/2), on inputs where both are known. */
#include <math.h>

#include "core/mem.h"
#include "lipscope/construct.h"
#include "trial/known.h"
#include "claims/claims.h"

/* sigma and the released value; NaN where something fails. */
static void both_at(const lipsc_layer *layer, const lipsc_input *input, double value[2]) {
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_attn *attn = NULL;
    value[0] = value[1] = NAN;
    lipsc_svd_defaults(&set);
    set.max_products = 5000;
    set.tol = 1e-5; /* sigma's own error is the square of that */
    if (!lipsc_attn_new(layer, input, LIPSC_F64, NULL, &attn, NULL)) {
        if (lipsc_attn_sigma(attn, &set, &value[0], NULL, NULL, &info)) value[0] = NAN;
        if (lipsc_attn_released(attn, &value[1])) value[1] = NAN;
    }
    lipsc_attn_free(attn);
}

/* One outlier, d = 1, A = -1, R = 3: every row of f is nearly V x_1. */
void claims_known_outlier(claims_work *r) {
    enum { TOKENS = 97 };
    double X[TOKENS], value[2];
    lipsc_layer layer;
    lipsc_input input;
    lipsc_known_outlier(TOKENS, 3.0, X, &layer, &input);
    both_at(&layer, &input, value);
    claims_say(r, "released-outlier", value[1] / value[0], "%.4f for sigma %.4f", value[1],
               value[0]);
}

/* Tokens on a sphere around a common mean, scores near zero: attention averages. */
void claims_flat_tokens(claims_work *r) {
    enum { LENGTHS = 5, LONGEST = 128, WIDTH = 16 };
    claims_dice dice = {r->set->seed + 8, 0};
    double A[WIDTH * WIDTH], V[WIDTH * WIDTH], mean[WIDTH], ln[2][LENGTHS], exponent[2];
    double *X = lipsc_alloc(LONGEST * WIDTH, sizeof *X);
    lipsc_layer layer;
    if (!X) {
        claims_fail(r, LIPSC_E_NOMEM, NULL);
        return;
    }
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = WIDTH;
    layer.Q = A;
    layer.V = V;
    claims_normal(&dice, WIDTH * WIDTH, 0.02, A);
    for (size_t e = 0; e < WIDTH * WIDTH; e++) V[e] = e / WIDTH == e % WIDTH;
    claims_tokens(&dice, 1, WIDTH, 1.0, 1, mean);
    for (size_t k = 0, n = 8; k < LENGTHS; k++, n *= 2) {
        double value[2];
        claims_tokens(&dice, n, WIDTH, 1.0, 1, X);
        for (size_t e = 0; e < n * WIDTH; e++) X[e] += mean[e % WIDTH];
        const lipsc_input input = {.n = n, .X = X};
        both_at(&layer, &input, value);
        ln[0][k] = log(value[0]);
        ln[1][k] = log(value[1]);
    }
    lipsc_release(X);
    for (int which = 0; which < 2; which++) { /* lengths double: x = -2, ..., 2 */
        double sum = 0.0;
        for (int k = 0; k < LENGTHS; k++) sum += (k - 2) * ln[which][k];
        exponent[which] = sum / (10.0 * log(2.0));
    }
    claims_say(r, "released-toy", exponent[1] - exponent[0],
               "exponents %.3f and %.3f, n = 8 ... 128", exponent[1], exponent[0]);
}
