/* exact.c - products in double with the layer and the input as they were given. */
#include "value/value.h"

/* Up to this many operations the definition takes at most about ten milliseconds. */
static const double cheap_flops = 1e7;

/* Operations of one product by the definition, roughly: eight per score and value
 * component in the core, four in the projections. */
static double definition_flops(const lipsc_attn *attn) {
    const lipsc_layer *l = &attn->layer;
    const double n = (double)attn->input.n, d = (double)l->d, width = (double)l->out_dim;
    const double k = (double)l->key_dim, dv = (double)l->value_dim;
    return (double)l->heads * n *
           (8.0 * n * (k + dv) + 4.0 * d * (2.0 * k + dv) + 2.0 * width * dv);
}

lipsc_status lipsc_exact_open(lipsc_attn *attn, size_t products, lipsc_exact *exact) {
    exact->attn = NULL;
    exact->layer = &attn->layer;
    exact->input = &attn->input;
    exact->own = (lipsc_attn){0};
    const int refined = attn->rows.raw.q != NULL; /* more than the definition knows */
    if (!refined && (double)products * definition_flops(attn) <= cheap_flops)
        return LIPSC_OK;
    const lipsc_device *device = lipsc_device_proved(attn->device);
    if (attn->dtype == LIPSC_F64 && device == attn->device) {
        exact->attn = attn;
        return LIPSC_OK;
    }
    exact->attn = &exact->own;
    const lipsc_status status = lipsc_attn_as(attn, LIPSC_F64, device, &exact->own);
    if (status) lipsc_exact_close(exact);
    return status;
}

lipsc_status lipsc_exact_apply(lipsc_exact *exact, int trans, size_t k, const double *x,
                               double *y) {
    if (exact->attn) return lipsc_attn_apply(exact->attn, trans, k, x, y);
    return lipsc_ref_apply(exact->layer, exact->input, trans, k, x, y, NULL);
}

lipsc_status lipsc_exact_output(lipsc_exact *exact, double *y) {
    if (exact->attn) return lipsc_attn_output(exact->attn, y);
    return lipsc_ref_output(exact->layer, exact->input, y, NULL);
}

void lipsc_exact_close(lipsc_exact *exact) { lipsc_attn_close(&exact->own); }
