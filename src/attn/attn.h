/* attn.h - what value/ and bound/ may know of an attention operator. */
#ifndef LIPSC_ATTN_ATTN_H
#define LIPSC_ATTN_ATTN_H

#include "backend/backend.h"
#include "lipscope.h"

/* The weights of a layer, made ready once per device and precision and shared by any
 * number of inputs, from any number of threads. */
typedef struct lipsc_packed lipsc_packed;

/* copy 0: the arrays of layer are borrowed and must outlive the result. */
lipsc_status lipsc_packed_new(const lipsc_layer *layer, int copy, lipsc_packed **out,
                              lipsc_error *err);
void lipsc_packed_free(lipsc_packed *packed);                      /* NULL does nothing */
const lipsc_layer *lipsc_packed_layer(const lipsc_packed *packed); /* checked, resolved */
/* Made when first asked for; valid as long as packed, which must not outlive device. */
lipsc_status lipsc_packed_weights(lipsc_packed *packed, const lipsc_device *device,
                                  lipsc_dtype dtype, const void **weights,
                                  lipsc_error *err);

/* Keeps the layer and the input as given, so that a value found in f32 can be re-evaluated
 * with them. */
struct lipsc_attn {
    lipsc_packed *packed;
    int owns_packed;
    lipsc_layer layer;  /* that of packed, with the mask in use                */
    lipsc_input input;  /* the caller's order; X NULL: ask lipsc_attn_tokens   */
    lipsc_rows rows;    /* the device's order                                  */
    const double *X;    /* (n, d) of the host in the device's order; NULL as input.X */
    void *storage;      /* arrays of input and rows but X                      */
    double *tokens;     /* X, in both orders; NULL: not asked for, forgotten, or another
                         * handle's                                            */
    lipsc_buffer kept;  /* rows.X where it is the device's, and this handle's  */
    double *own_tokens; /* rows.own_X; NULL: none, or another handle's        */
    double *fetched;    /* tokens from where they were, for another device's handle */
    lipsc_dtype dtype;
    const lipsc_device *device;
    void *state;            /* of the device, in dtype; NULL: not made yet */
    lipsc_attn *twin;       /* NULL, or itself in f64: lipsc_attns_keep */
    int (*stop)(void *ctx); /* whom long bounds of it ask, from one thread; or NULL */
    void *stop_ctx;
};

static inline lipsc_status lipsc_attn_stopped(const lipsc_attn *attn) {
    return attn->stop && attn->stop(attn->stop_ctx) ? LIPSC_E_STOPPED : LIPSC_OK;
}

/* Inputs of so many times the tokens from which on a device has LIPSC_F16 are long. */
#define LIPSC_LONG 16

/* How many threads of the CPU are worth their start for work of its size. */
static inline int lipsc_attn_threads(const lipsc_attn *attn) {
    return lipsc_device_useful_threads(attn->device, &attn->layer, attn->input.n);
}

/* lipsc_attn_new on weights that are packed already and must outlive the handle; mask NULL:
 * the layer's own. */
lipsc_status lipsc_attn_at(lipsc_packed *packed, const lipsc_mask *mask,
                           const lipsc_input *input, lipsc_dtype dtype,
                           const lipsc_device *device, lipsc_attn **out, lipsc_error *err);

/* The same at n tokens that are in a device's memory, with no weights, times or positions
 * of their own.  They are copied there, and no double of the host is made of them unless
 * somebody asks or `device` takes no others. */
lipsc_status lipsc_attn_there(lipsc_packed *packed, const lipsc_mask *mask, size_t n,
                              lipsc_buffer X, lipsc_dtype dtype, const lipsc_device *device,
                              lipsc_attn **out, lipsc_error *err);

/* lipsc_attn_at at several inputs, whose lengths may differ: handles whose products can be
 * made together.  Each is, to the last bit, what it would be alone, and is freed on its
 * own; but they share their work memory, so that only one thread at a time may use any of
 * them. */
lipsc_status lipsc_attn_batch_at(lipsc_packed *packed, const lipsc_mask *mask, size_t count,
                                 const lipsc_input *inputs, lipsc_dtype dtype,
                                 const lipsc_device *device, lipsc_attn **out,
                                 lipsc_error *err);

/* The same at tokens that are in memory from which the device takes them, too, there[i] (n,
 * d): this is copied, and inputs[i].X must outlive the handle.  There are no times.  there
 * NULL: lipsc_attn_batch_at. */
lipsc_status lipsc_attn_batch_there(lipsc_packed *packed, const lipsc_mask *mask,
                                    size_t count, const lipsc_input *inputs,
                                    const lipsc_buffer *there, lipsc_dtype dtype,
                                    const lipsc_device *device, lipsc_attn **out,
                                    lipsc_error *err);

/* attn->state, made where it is not there yet. */
lipsc_status lipsc_attn_ready(lipsc_attn *attn);

/* Products with handles of one batch, each the `of` of at most one product. */
lipsc_status lipsc_attn_products(int trans, size_t count, const lipsc_product *product);

/* *own: attn in another precision or on another device, borrowing layer, weights, input and
 * rows from attn.  To be closed, also after a failure. */
lipsc_status lipsc_attn_as(const lipsc_attn *attn, lipsc_dtype dtype,
                           const lipsc_device *device, lipsc_attn *own);
/* The same for handles of one batch, which the results are too. */
lipsc_status lipsc_attns_as(size_t count, const lipsc_attn *const *attn, lipsc_dtype dtype,
                            const lipsc_device *device, lipsc_attn *const *own);
/* The same with the weights of another layer of these sizes, at tokens X[i] in the device's
 * order, own rows of them where ranks share those; own[i] has X[i] from now on. */
lipsc_status lipsc_attns_over(size_t count, lipsc_attn *const *attn, lipsc_packed *packed,
                              double *const *X, lipsc_attn *const *own);
void lipsc_attn_close(lipsc_attn *own);
/* The twins of handles of one batch that have none, in f64 on the same device, as long as
 * the handles live: for a device that is asked for them again and again. */
lipsc_status lipsc_attns_keep(size_t count, lipsc_attn *const *attn);

/* ---- Tokens (tokens.c) ---- */

/* input.X and X are there from now on. */
lipsc_status lipsc_attn_tokens(lipsc_attn *attn);
/* Whether inputs of a device may be there. */
int lipsc_device_takes_tokens(const lipsc_device *device, lipsc_buffer X);
/* count numbers of any device as doubles, to be released; NULL: out of memory. */
double *lipsc_buffer_fetch(lipsc_buffer b, size_t count);

/* Where ranks share their rows: */

/* rows.own_X, of a handle that has its state. */
lipsc_status lipsc_attn_share_tokens(lipsc_attn *attn);
/* Leaves a rank with its own rows: X is NULL from now on, for handles that borrow it too.
 * Solves can do with that, bounds and files cannot.  Nothing where nobody shares them. */
void lipsc_attn_forget_tokens(lipsc_attn *attn);
/* (n) |x_i| in the device's order; every rank calls it. */
lipsc_status lipsc_attn_token_lengths(const lipsc_attn *attn, double *lengths);
/* All that are not on the host, in the device's order, to be released; every rank calls it.
 * NULL: X has them. */
lipsc_status lipsc_attn_whole_tokens(const lipsc_attn *attn, double **out);

/* What the products of query head h work with: see lipsc_device_ops.  LIPSC_E_BACKEND where
 * the device does not say; its CPU does. */
lipsc_status lipsc_attn_projections(const lipsc_attn *attn, size_t h, double *q,
                                    double *key, double *z, double *q_over, double *k_over);

/* Entropies of rows and sums of columns, by a device that has them: see lipsc_device_ops.
 */
lipsc_status lipsc_attn_spread_there(const lipsc_attn *attn, double *entropy,
                                     double *columns);

/* attn in double, at projections in twice the precision, and borrowing from attn: for where
 * plain ones are not known well enough.  Its products are those of its handle alone, not of
 * the definition.  LIPSC_E_NONFIN where a score overflows. */
lipsc_status lipsc_attn_refined(const lipsc_attn *attn, lipsc_attn **out);

/* lipsc_ref_apply with queries, keys and values in twice the precision before they are
 * rounded: where they cancel. */
lipsc_status lipsc_ref_apply_twice(const lipsc_layer *layer, const lipsc_input *input,
                                   int trans, size_t k, const double *x, double *y,
                                   lipsc_error *err);

/* Sizes, finite values, positive weights, windows: the sentence names what is wrong.
 * Resolves defaults (kv_heads, scale, out_dim) into *resolved. */
lipsc_status lipsc_layer_check(const lipsc_layer *layer, lipsc_layer *resolved,
                               lipsc_error *err);
lipsc_status lipsc_input_check(const lipsc_layer *resolved, const lipsc_input *input,
                               lipsc_error *err);
/* The same of an input whose tokens are elsewhere. */
lipsc_status lipsc_input_check_rest(const lipsc_layer *resolved, const lipsc_input *input,
                                    lipsc_error *err);

/* What this layer has beyond a map of measures, in a few words; NULL: nothing. */
const char *lipsc_layer_beyond(const lipsc_layer *layer);

/* The bias of the scores of head h at the distance j - i = (ahead ? 1 : -1) * distance; 0
 * without a rule. */
double lipsc_layer_bias(const lipsc_layer *layer, size_t h, size_t distance, int ahead);

/* Row i of the sorted order sees keys lo[i] .. hi[i]-1; order[i] is the token that
 * stands at place i.  *identity is 1 when no token moves. */
lipsc_status lipsc_mask_ranges(const lipsc_layer *layer, const lipsc_input *input,
                               size_t *order, size_t *lo, size_t *hi, int *identity);

/* J as an operator on device vectors; valid as long as attn. */
lipsc_linop lipsc_attn_linop(lipsc_attn *attn);

/* lipsc_attn_output into memory of the handle's device, in either precision, or of the host
 * in doubles. */
lipsc_status lipsc_attn_output_to(lipsc_attn *attn, lipsc_buffer y);

/* ---- The gradient of sigma: docs/maths.md 7.4 ---- */

/* d/dX <u, J(X) v> for k pairs held fixed, u (n, width) of J's output and v (n, d) of its
 * input, in the caller's order: grad, k vectors (n, d).  Where sigma is simple and (u, v)
 * is its pair this is its gradient.  J means D^{1/2} J D^{-1/2}, as everywhere, and
 * grad_log_weight (k vectors (n), or NULL) is the derivative in ln a_i; it also makes
 * sense without weights, at equal ones. */
lipsc_status lipsc_attn_gradient(lipsc_attn *attn, size_t k, const double *u,
                                 const double *v, double *grad, double *grad_log_weight,
                                 lipsc_error *err);

/* The same at several handles of one batch, each of them once.  grad_log_weight: of all or
 * of none.  What all share comes back, and is the status of each that is not
 * LIPSC_E_NONFIN, where a gradient overflows. */
typedef struct {
    lipsc_attn *attn;
    size_t k;
    const double *u, *v;
    double *grad, *grad_log_weight;
    lipsc_status status;
} lipsc_gradient_task;
lipsc_status lipsc_attn_gradients(size_t count, lipsc_gradient_task *task);

/* The same by the definition: slow, readable, sharing no code with any back end. */
lipsc_status lipsc_ref_gradient(const lipsc_layer *layer, const lipsc_input *input,
                                size_t k, const double *u, const double *v, double *grad,
                                double *grad_log_weight, lipsc_error *err);

#endif
