/* 01_one_layer.c - the local Lipschitz constant of one attention layer at one input.
 *
 * One token stands at -1, three at 1, and A = -1: every token looks at the one that is
 * opposite to it.  The three follow the outlier, so moving it moves three outputs. */
#include <lipscope.h>
#include <stdio.h>

int main(void) {
    const double X[] = {-1, 1, 1, 1}; /* four tokens of width one */
    const double minus_one[] = {-1}, one[] = {1};
    lipsc_layer layer;
    lipsc_layer_defaults(&layer); /* one head, no mask */
    layer.d = layer.key_dim = layer.value_dim = 1;
    layer.Q = minus_one; /* scores (Q x_i).(K x_j) */
    layer.K = layer.V = one;

    lipsc_input input = {.n = 4, .X = X};
    lipsc_error err;
    lipsc_attn *attn;
    if (lipsc_attn_new(&layer, &input, LIPSC_F64, NULL, &attn, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_upper upper;
    double sigma;
    lipsc_svd_defaults(&set);
    lipsc_status status = lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info);
    if (status == LIPSC_OK) {
        printf("sigma %.12g, residual %.1e\n", sigma, info.residual);
        status = lipsc_attn_upper(attn, &upper, &err);
    }
    if (status == LIPSC_OK) printf("proved: sigma <= %.12g at this input\n", upper.value);
    lipsc_attn_free(attn);
    if (status != LIPSC_OK) fprintf(stderr, "%s\n", lipsc_strerror(status));
    return status != LIPSC_OK;
}
