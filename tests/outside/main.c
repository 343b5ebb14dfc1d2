/* main.c - an outside program: one value of an installed lipscope, from C or C++. */
#include <lipscope.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    /* One token at -1 and nine at 1, A = -1, V = 1: value G1 of docs/maths.md. */
    const double X[] = {-1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    const double minus_one[] = {-1}, one[] = {1};
    const double expected = 2.993716248639;
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 1;
    layer.Q = minus_one;
    layer.K = layer.V = one;

    lipsc_input input;
    memset(&input, 0, sizeof input);
    input.n = 10;
    input.X = X;

    lipsc_error err;
    lipsc_attn *attn = NULL;
    if (lipsc_attn_new(&layer, &input, LIPSC_F64, NULL, &attn, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    lipsc_svd_settings set;
    lipsc_svd_info info;
    double sigma = 0.0;
    lipsc_svd_defaults(&set);
    lipsc_status status = lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info);
    lipsc_attn_free(attn);
    printf("lipscope %s: %s, sigma %.12f\n", lipsc_version(), lipsc_status_name(status),
           sigma);
    /* 5e-13 is half of the last digit written above; the rest is rounding. */
    return status == LIPSC_OK && fabs(sigma - expected) < 1e-12 ? 0 : 1;
}
