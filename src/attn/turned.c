/* turned.c - a layer in other coordinates, in which half of V and O is zero.
 *
 * Orthogonal R and L change no singular value of L^T J R, which is the J of the layer with
 *
 *     Q R, K R, V R, L^T O        at the tokens R^T x.
 *
 * V^T = R T and O = L S with T and S upper triangular (QR) leave half of V R = T^T and of
 * L^T O = S to be multiplied by a device that leaves out zeros.  What a solve finds there
 * is turned back before anything is said of it. */
#include "attn/turned.h"

#include "core/error.h"
#include "core/mem.h"
#include "linalg/dense.h"

#include <string.h>

/* Below, there are few panels to leave out; above, making them takes long and much memory:
 * some 9 d^3 operations and 80 d^2 bytes more. */
enum { LEAST = 256, MOST = 1024 };

struct lipsc_turned {
    double *storage;
    const double *in,
        *out;             /* R (d, d), L (width, width), column-major; out NULL: as it is */
    lipsc_packed *packed; /* the layer over there */
};

int lipsc_width_turns(const lipsc_device *device, lipsc_dtype dtype, size_t d) {
    return dtype == LIPSC_F32 && lipsc_device_table(device)->leaves_zeros && d >= LEAST &&
           d <= MOST;
}

int lipsc_attn_turns(const lipsc_attn *attn) {
    const lipsc_layer *l = &attn->layer;
    return lipsc_width_turns(attn->device, attn->dtype, l->d) && !attn->rows.raw.q &&
           l->Q && l->K && l->V && lipsc_layer_width(l) <= MOST;
}

/* to (rows, d) = from (rows, d) R */
static void turn_rows(size_t rows, size_t d, const double *r, const double *from,
                      double *to) {
    lipsc_dense_gemm(1, 0, d, rows, d, 1.0, r, d, from, d, 0.0, to, d);
}

/* to (rows, d) = from (rows, d) R^T */
static void turn_rows_back(size_t rows, size_t d, const double *r, const double *from,
                           double *to) {
    lipsc_dense_gemm(0, 0, d, rows, d, 1.0, r, d, from, d, 0.0, to, d);
}

/* O (width, inner) of layer = l there, with l (width, width). */
static lipsc_status turn_output(const lipsc_layer *layer, double *l, double *there) {
    const size_t width = lipsc_layer_width(layer), inner = layer->heads * layer->value_dim;
    double *columns = lipsc_alloc(inner, width * sizeof *columns);
    if (!columns) return LIPSC_E_NOMEM;
    for (size_t c = 0; c < inner; c++)
        for (size_t r = 0; r < width; r++) columns[c * width + r] = layer->O[r * inner + c];
    const lipsc_status status = lipsc_dense_qr(width, inner, columns, l);
    for (size_t r = 0; r < width; r++)
        for (size_t c = 0; c < inner; c++) there[r * inner + c] = columns[c * width + r];
    lipsc_release(columns);
    return status;
}

/* The weights of layer over there, in the storage of t. */
static lipsc_status turn_weights(const lipsc_layer *layer, lipsc_turned *t,
                                 lipsc_layer *there) {
    const size_t d = layer->d, width = lipsc_layer_width(layer);
    const size_t q = layer->heads * layer->key_dim, k = layer->kv_heads * layer->key_dim;
    const size_t v = layer->kv_heads * layer->value_dim,
                 o = layer->O ? layer->heads * layer->value_dim : 0;
    t->storage = lipsc_alloc(d * (d + q + k + v) + (o ? width * (width + o) : 0),
                             sizeof *t->storage);
    if (!t->storage) return LIPSC_E_NOMEM;
    double *R = t->storage, *Q = R + d * d, *K = Q + q * d, *V = K + k * d, *L = V + v * d;
    memcpy(V, layer->V, v * d * sizeof *V); /* column-major (d, v): V^T */
    const lipsc_status status = lipsc_dense_qr(d, v, V, R);
    if (status) return status;
    turn_rows(q, d, R, layer->Q, Q);
    turn_rows(k, d, R, layer->K, K);
    *there = *layer;
    there->Q = Q;
    there->K = K;
    there->V = V;
    t->in = R;
    if (!o) return LIPSC_OK;
    there->O = L + width * width;
    t->out = L;
    return turn_output(layer, L, L + width * width);
}

void lipsc_turned_free(lipsc_turned *turned) {
    if (!turned) return;
    lipsc_packed_free(turned->packed);
    lipsc_release(turned->storage);
    lipsc_release(turned);
}

lipsc_status lipsc_turned_new(const lipsc_layer *layer, lipsc_turned **out,
                              lipsc_error *err) {
    lipsc_layer there;
    lipsc_turned *t = lipsc_alloc_zero(1, sizeof *t);
    lipsc_status status = t ? turn_weights(layer, t, &there) : LIPSC_E_NOMEM;
    if (status)
        lipsc_fail(err, status, "no memory for a layer in other coordinates");
    else
        status = lipsc_packed_new(&there, 0, &t->packed, err);
    if (status)
        lipsc_turned_free(t);
    else
        *out = t;
    return status;
}

/* How many rows of k vectors of attn are here, where ranks may share them. */
static size_t rows_here(const lipsc_attn *attn, size_t k) {
    const lipsc_space *space = lipsc_device_space(attn->device, attn->dtype);
    return k * (space->split ? space->split->own : attn->input.n);
}

/* Its tokens over there, in the device's order, to be released; NULL: out of memory. */
static double *turned_tokens(lipsc_attn *attn, const lipsc_turned *t) {
    const size_t rows = rows_here(attn, 1), d = attn->layer.d;
    if (!attn->rows.own_X && lipsc_attn_tokens(attn)) return NULL;
    double *X = lipsc_alloc(rows, d * sizeof *X);
    if (X) turn_rows(rows, d, t->in, attn->rows.own_X ? attn->rows.own_X : attn->X, X);
    return X;
}

lipsc_status lipsc_attns_turned(size_t count, lipsc_attn *const *attn, lipsc_attn **out) {
    const lipsc_turned *t;
    double **X = lipsc_alloc_zero(count, sizeof *X);
    lipsc_status status = X ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = lipsc_packed_turned(attn[0]->packed, &t, NULL);
    for (size_t i = 0; i < count; i++) out[i] = NULL;
    for (size_t i = 0; i < count && !status; i++) {
        out[i] = lipsc_alloc_zero(1, sizeof **out);
        X[i] = turned_tokens(attn[i], t);
        if (!out[i] || !X[i]) status = LIPSC_E_NOMEM;
    }
    if (!status)
        status = lipsc_attns_over(count, attn, t->packed, X, out);
    else
        for (size_t i = 0; X && i < count; i++) lipsc_release(X[i]);
    lipsc_release(X);
    return status;
}

lipsc_status lipsc_attn_turn_back(lipsc_attn *attn, int image, size_t k, double *x) {
    const lipsc_turned *t;
    lipsc_status status = lipsc_packed_turned(attn->packed, &t, NULL);
    if (status) return status;
    const double *by = image ? t->out : t->in;
    const size_t rows = rows_here(attn, k),
                 width = image ? lipsc_layer_width(&attn->layer) : attn->layer.d;
    if (!by) return LIPSC_OK;
    double *from = lipsc_alloc(rows, width * sizeof *from);
    if (!from) return LIPSC_E_NOMEM;
    memcpy(from, x, rows * width * sizeof *from);
    turn_rows_back(rows, width, by, from, x);
    lipsc_release(from);
    return LIPSC_OK;
}
