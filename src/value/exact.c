/* exact.c - products in double with the layer and the input as they were given. */
#include "core/mem.h"
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
        return lipsc_attn_tokens(attn);
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

/* ---- Several handles at once --------------------------------------------------------- */

/* One of several products on its way through the device. */
typedef struct {
    lipsc_attn own,
        *attn; /* the operator in double: a handle of its own, or the caller's */
    lipsc_linop op;
    lipsc_buffer x, y;
} passage;

/* k vectors of a length, of which host has what is here. */
static lipsc_status carry(const lipsc_space *space, size_t elements, const double *up,
                          double *down, lipsc_buffer there) {
    const lipsc_space *part = lipsc_space_part(space);
    const size_t here = lipsc_space_here(space, elements);
    const lipsc_buffer own = lipsc_space_own(space, there);
    return up ? lipsc_space_upload(part, here, up, own)
              : lipsc_space_download(part, here, own, down);
}

/* Whether the operator can work with the vectors where they are. */
static int is_there(const lipsc_space *space, const lipsc_linop *op,
                    const lipsc_product *product) {
    return !space->split && lipsc_space_fits(space, product->x, product->k, op->n) &&
           lipsc_space_fits(space, product->y, product->k, op->m);
}

/* What is here of vectors that ranks share is theirs already, where it is the host's. */
static lipsc_status send(const lipsc_product *product, passage *p) {
    const lipsc_space *space = p->op.space;
    size_t from, to;
    if (is_there(space, &p->op, product)) {
        p->x = product->x;
        p->y = product->y;
        return LIPSC_OK;
    }
    if (space->split && space->part == lipsc_space_host(space->dtype)) {
        p->x = lipsc_space_view(space, product->x.count, product->x.at);
        p->y = lipsc_space_view(space, product->y.count, product->y.at);
        return LIPSC_OK;
    }
    if (!lipsc_mul_size(product->k, p->op.n, &from) ||
        !lipsc_mul_size(product->k, p->op.m, &to))
        return LIPSC_E_RANGE;
    p->x = lipsc_space_alloc(space, from);
    p->y = lipsc_space_alloc(space, to);
    if (!p->x.at || !p->y.at) return LIPSC_E_NOMEM;
    return space->split
               ? carry(space, from, product->x.at, NULL, p->x)
               : lipsc_vectors_upload(space, p->op.n, product->k, product->x.at, p->x);
}

static lipsc_status fetch(const lipsc_product *product, const passage *p) {
    const lipsc_space *space = p->op.space;
    return space->split
               ? carry(space, product->k * p->op.m, NULL, product->y.at, p->y)
               : lipsc_vectors_download(space, p->op.m, product->k, p->y, product->y.at);
}

/* The operators in double stay with their handles. */
static lipsc_status keep_double(size_t count, const lipsc_product *product, passage *p) {
    lipsc_attn **attn = lipsc_alloc(count, sizeof *attn);
    if (!attn) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < count; i++) attn[i] = product[i].of;
    const lipsc_status status = lipsc_attns_keep(count, attn);
    for (size_t i = 0; i < count && !status; i++) p[i].attn = attn[i]->twin;
    lipsc_release(attn);
    return status;
}

static lipsc_status open_double(size_t count, const lipsc_product *product, passage *p) {
    const lipsc_attn *first = product->of;
    const lipsc_device *device = lipsc_device_proved(first->device);
    const int ready = first->dtype == LIPSC_F64 && device == first->device;
    const int kept = !ready && device == first->device &&
                     lipsc_device_table(device)->coarse_f32; /* rounding asks again */
    lipsc_status status = LIPSC_OK;
    const lipsc_attn **from = lipsc_alloc(count, sizeof *from);
    lipsc_attn **own = lipsc_alloc(count, sizeof *own);
    if (!from || !own) status = LIPSC_E_NOMEM;
    for (size_t i = 0; i < count && !status; i++) {
        from[i] = product[i].of;
        own[i] = &p[i].own;
        p[i].attn = ready ? product[i].of : own[i];
    }
    if (!status && kept) status = keep_double(count, product, p);
    if (!status && !ready && !kept)
        status = lipsc_attns_as(count, from, LIPSC_F64, device, own);
    for (size_t i = 0; i < count && !status; i++) p[i].op = lipsc_attn_linop(p[i].attn);
    lipsc_release(from);
    lipsc_release(own);
    return status;
}

static lipsc_status pass_all(size_t count, const lipsc_product *product, passage *p,
                             lipsc_product *there) {
    lipsc_status status = open_double(count, product, p);
    for (size_t i = 0; i < count && !status; i++) {
        status = send(&product[i], &p[i]);
        there[i] = (lipsc_product){p[i].attn, product[i].k, p[i].x, p[i].y};
    }
    if (!status) status = lipsc_attn_products(0, count, there);
    for (size_t i = 0; i < count && !status; i++)
        if (p[i].y.at != product[i].y.at) status = fetch(&product[i], &p[i]);
    for (size_t i = 0; i < count; i++) {
        if (p[i].x.at != product[i].x.at) lipsc_space_release(p[i].op.space, p[i].x);
        if (p[i].y.at != product[i].y.at) lipsc_space_release(p[i].op.space, p[i].y);
        lipsc_attn_close(&p[i].own);
    }
    return status;
}

lipsc_status lipsc_exact_products(size_t count, const lipsc_product *product) {
    passage *p = lipsc_alloc_zero(count, sizeof *p);
    lipsc_product *there = lipsc_alloc(count, sizeof *there);
    const lipsc_status status =
        p && there ? pass_all(count, product, p, there) : LIPSC_E_NOMEM;
    lipsc_release(p);
    lipsc_release(there);
    return status;
}
