/* product.c - what a handle computes: products with J and its transpose, the output, what
 * stands behind the products.
 *
 * Vectors of lipsc_attn_apply are host doubles in the caller's order; they are turned
 * into the device's memory and precision here.  lipsc_attn_linop is the same operator
 * without that detour, for solvers whose vectors live on the device. */
#include "attn/attn.h"
#include "core/mem.h"

static size_t input_length(const lipsc_attn *attn) { return attn->input.n * attn->layer.d; }
static size_t output_length(const lipsc_attn *attn) {
    return attn->input.n * lipsc_layer_width(&attn->layer);
}

/* Whether the vectors are the device's, in the right precision and all there. */
static int fits(const lipsc_attn *attn, int trans, size_t k, lipsc_buffer x,
                lipsc_buffer y) {
    const lipsc_space *space = lipsc_device_space(attn->device, attn->dtype);
    return lipsc_space_fits(space, trans ? y : x, k, input_length(attn)) &&
           lipsc_space_fits(space, trans ? x : y, k, output_length(attn));
}

static lipsc_status linop_apply(void *ctx, int trans, size_t k, lipsc_buffer x,
                                lipsc_buffer y) {
    lipsc_attn *attn = ctx;
    const lipsc_status status =
        fits(attn, trans, k, x, y) ? lipsc_attn_ready(attn) : LIPSC_E_ARG;
    if (status) return status;
    return lipsc_device_table(attn->device)
        ->product(attn->device, attn->state, trans, k, x, y);
}

lipsc_status lipsc_attn_products(int trans, size_t count, const lipsc_product *product) {
    enum { FEW = 32 };
    lipsc_product few[FEW], *of_states = few;
    if (!count) return LIPSC_OK;
    const lipsc_device *device = ((const lipsc_attn *)product->of)->device;
    const lipsc_device_ops *ops = lipsc_device_table(device);
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; !ops->products && !status && i < count; i++)
        status =
            linop_apply(product[i].of, trans, product[i].k, product[i].x, product[i].y);
    if (!ops->products) return status;
    if (count > FEW && !(of_states = lipsc_alloc(count, sizeof *of_states)))
        return LIPSC_E_NOMEM;
    for (size_t i = 0; i < count && !status; i++) {
        const lipsc_product *p = &product[i];
        status =
            fits(p->of, trans, p->k, p->x, p->y) ? lipsc_attn_ready(p->of) : LIPSC_E_ARG;
        of_states[i] = *p;
        of_states[i].of = ((const lipsc_attn *)product[i].of)->state;
    }
    if (!status) status = ops->products(device, trans, count, of_states);
    if (of_states != few) lipsc_release(of_states);
    return status;
}

lipsc_linop lipsc_attn_linop(lipsc_attn *attn) {
    const double n = (double)attn->input.n, d = (double)attn->layer.d;
    return (lipsc_linop){.m = output_length(attn),
                         .n = input_length(attn),
                         .space = lipsc_device_space(attn->device, attn->dtype),
                         .apply = linop_apply,
                         .ctx = attn,
                         .work = 8.0 * n * d * (n + d)};
}

lipsc_status lipsc_attn_apply(lipsc_attn *attn, int trans, size_t k, const double *x,
                              double *y) {
    if (!attn || (trans != 0 && trans != 1) || (k && (!x || !y))) return LIPSC_E_ARG;
    if (k == 0) return LIPSC_OK;
    const lipsc_linop op = lipsc_attn_linop(attn);
    return lipsc_linop_host(&op, trans, k, x, y);
}

static int op_apply(void *ctx, int trans, size_t k, const double *x, double *y) {
    return (int)lipsc_attn_apply(ctx, trans, k, x, y);
}

lipsc_op lipsc_attn_op(lipsc_attn *attn) {
    return (lipsc_op){
        .m = output_length(attn), .n = input_length(attn), .apply = op_apply, .ctx = attn};
}

lipsc_status lipsc_attn_output_to(lipsc_attn *attn, lipsc_buffer y) {
    const lipsc_device_ops *ops = lipsc_device_table(attn->device);
    if (!ops->output) return LIPSC_E_BACKEND;
    const lipsc_status status = lipsc_attn_ready(attn);
    return status ? status : ops->output(attn->device, attn->state, y);
}

lipsc_status lipsc_attn_output(lipsc_attn *attn, double *y) {
    if (!attn || !y) return LIPSC_E_ARG;
    if (lipsc_device_table(attn->device)->output)
        return lipsc_attn_output_to(attn, lipsc_host_view(output_length(attn), y));
    lipsc_attn own;
    lipsc_status status =
        lipsc_attn_as(attn, attn->dtype, lipsc_device_cpu(attn->device), &own);
    if (!status) status = lipsc_attn_output(&own, y);
    lipsc_attn_close(&own);
    return status;
}

lipsc_status lipsc_attn_projections(const lipsc_attn *attn, size_t h, double *q,
                                    double *key, double *z, double *q_over,
                                    double *k_over) {
    const lipsc_device_ops *ops = lipsc_device_table(attn->device);
    if (!ops->projections) return LIPSC_E_BACKEND;
    return ops->projections(attn->device, attn->state, h, q, key, z, q_over, k_over);
}

lipsc_status lipsc_attn_spread_there(const lipsc_attn *attn, double *entropy,
                                     double *columns) {
    const lipsc_device *device = attn->device;
    const lipsc_device_ops *ops = lipsc_device_table(device);
    const lipsc_attn *in_double = attn->dtype == LIPSC_F64 ? attn : attn->twin;
    if (in_double && in_double->state)
        return ops->spread(device, in_double->state, entropy, columns);
    lipsc_attn own;
    lipsc_status status = lipsc_attn_as(attn, LIPSC_F64, device, &own);
    if (!status) status = ops->spread(device, own.state, entropy, columns);
    lipsc_attn_close(&own);
    return status;
}

size_t lipsc_attn_bytes(const lipsc_attn *attn) {
    return attn && attn->state
               ? lipsc_device_table(attn->device)->bytes(attn->device, attn->state)
               : 0;
}
