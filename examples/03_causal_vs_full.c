/* 03_causal_vs_full.c - how the constant grows with the length, with and without a mask.
 *
 * One outlier at -R, then n-1 tokens at +R, A = -1, R = 1.5 (docs/maths.md 5.1).  Without
 * a mask growth stops near n = e^{2 R^2} = 90: then the crowd outweighs the outlier in
 * every row.  With the causal mask the first rows see a short past in which the outlier
 * still rules, and the constant stays high. */
#include <lipscope.h>
#include <stdio.h>
#include <stdlib.h>

static lipsc_status sigma_at(size_t n, const double *X, lipsc_mask mask, double *sigma) {
    const double minus_one[] = {-1}, one[] = {1};
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 1;
    layer.Q = minus_one;
    layer.K = layer.V = one;
    layer.mask = mask;

    lipsc_input input = {.n = n, .X = X};
    lipsc_attn *attn;
    lipsc_status status = lipsc_attn_new(&layer, &input, LIPSC_F64, NULL, &attn, NULL);
    if (status != LIPSC_OK) return status;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    status = lipsc_attn_sigma(attn, &set, sigma, NULL, NULL, &info);
    lipsc_attn_free(attn);
    return status;
}

int main(void) {
    const size_t lengths[] = {2, 10, 30, 100, 300, 1000};
    const size_t longest = 1000;
    double *X = malloc(longest * sizeof *X);
    if (X == NULL) return 1;
    X[0] = -1.5;
    for (size_t i = 1; i < longest; i++) X[i] = 1.5;

    lipsc_status status = LIPSC_OK;
    printf("%6s %12s %12s\n", "n", "full", "causal");
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths && status == LIPSC_OK; i++) {
        double full = 0.0, causal = 0.0;
        status = sigma_at(lengths[i], X, LIPSC_MASK_NONE, &full);
        if (status == LIPSC_OK)
            status = sigma_at(lengths[i], X, LIPSC_MASK_CAUSAL, &causal);
        if (status == LIPSC_OK) printf("%6zu %12.6f %12.6f\n", lengths[i], full, causal);
    }
    free(X);
    if (status != LIPSC_OK) fprintf(stderr, "%s\n", lipsc_strerror(status));
    return status != LIPSC_OK;
}
