/* facts.c - matrices and norms of one head, without an input. */
#include "bound/facts.h"

#include <math.h>
#include <string.h>

#include "bound/head.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"
#include "linalg/space.h"

/* y (cols) = M^T x */
static void multiply_back(size_t rows, size_t cols, const double *M, const double *x,
                          double *y) {
    (void)!lipsc_space_combine(lipsc_space_host(LIPSC_F64), cols, rows,
                               lipsc_host_view(rows * cols, M), 1, x, 0.0,
                               lipsc_host_view(cols, y));
}

void lipsc_head_facts_score(const lipsc_head_facts *f, int bias, const double *x,
                            double *room, double *w) {
    lipsc_host_multiply(f->k, f->d, f->Q, x, room);
    for (size_t l = 0; l < f->k; l++) {
        if (bias && f->bq) room[l] += f->bq[l];
        room[l] *= f->scale;
    }
    if (f->K)
        multiply_back(f->k, f->d, f->K, room, w);
    else
        memcpy(w, room, f->d * sizeof *w);
}

void lipsc_head_facts_score_back(const lipsc_head_facts *f, const double *y, double *room,
                                 double *x) {
    if (f->K)
        lipsc_host_multiply(f->k, f->d, f->K, y, room);
    else
        memcpy(room, y, f->d * sizeof *room);
    for (size_t l = 0; l < f->k; l++) room[l] *= f->scale;
    multiply_back(f->k, f->d, f->Q, room, x);
}

double lipsc_head_facts_value_length(const lipsc_head_facts *f, const double *b) {
    double square = 0.0;
    for (size_t r = 0; r < f->rank; r++) {
        double sum;
        lipsc_host_multiply(1, f->d, f->value + r * f->d, b, &sum);
        square += sum * sum;
    }
    return sqrt(square);
}

lipsc_status lipsc_head_facts_stretch(const lipsc_head_facts *f, double alpha, double beta,
                                      const double *b, const double *w, double *norm) {
    double *M = lipsc_alloc(f->rank, f->d * sizeof *M);
    double *Vb = lipsc_alloc(f->rank, sizeof *Vb);
    lipsc_status status = M && Vb ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) {
        lipsc_host_multiply(f->rank, f->d, f->value, b, Vb);
        for (size_t r = 0; r < f->rank; r++)
            for (size_t c = 0; c < f->d; c++)
                M[r * f->d + c] = alpha * f->value[r * f->d + c] + beta * Vb[r] * w[c];
        status = lipsc_dense_norm(f->d, f->rank, M, norm);
    }
    lipsc_release(M);
    lipsc_release(Vb);
    return status;
}

/* ---- Norms ------------------------------------------------------------------------ */

/* A factor of the transpose of M (rows, cols) row-major: |M^T g| = |F g|. */
static lipsc_status factor_of_transpose(size_t rows, size_t cols, const double *M,
                                        lipsc_factor *factor) {
    double *copy = lipsc_alloc(rows, cols * sizeof *copy);
    factor->values = lipsc_alloc(rows, rows * sizeof *factor->values);
    lipsc_status status = LIPSC_E_NOMEM;
    if (copy && factor->values) {
        memcpy(copy, M, rows * cols * sizeof *copy);
        status = lipsc_factor_make(cols, rows, copy, factor);
    }
    lipsc_release(copy);
    return status;
}

/* |K^T Q| = |F_Q F_K^T| with the factors of Q^T and K^T: at most k x k. */
static lipsc_status score_norm(const lipsc_head_facts *f, double *norm) {
    if (!f->K) return lipsc_dense_norm(f->d, f->k, f->Q, norm);
    lipsc_factor q = {0}, k = {0};
    lipsc_status status = factor_of_transpose(f->k, f->d, f->Q, &q);
    if (!status) status = factor_of_transpose(f->k, f->d, f->K, &k);
    double *product = status ? NULL : lipsc_alloc(q.rank, k.rank * sizeof *product);
    if (!status && !product) status = LIPSC_E_NOMEM;
    if (!status) {
        lipsc_dense_gemm(0, 1, q.rank, k.rank, f->k, 1.0, q.values, q.rank, k.values,
                         k.rank, 0.0, product, q.rank);
        status = lipsc_dense_norm(q.rank, k.rank, product, norm);
    }
    lipsc_release(q.values);
    lipsc_release(k.values);
    lipsc_release(product);
    return status;
}

/* value = V, or F V with the factor F of the slice W_h (out_dim, dv) of O. */
static lipsc_status make_value(const lipsc_layer *layer, size_t h, const double *V,
                               lipsc_head_facts *f) {
    const size_t d = f->d, dv = layer->value_dim, out = layer->out_dim;
    f->value = lipsc_alloc(dv, d * sizeof *f->value);
    if (!f->value) return LIPSC_E_NOMEM;
    f->rank = dv;
    memcpy(f->value, V, dv * d * sizeof *V);
    if (!layer->O) return LIPSC_OK;
    lipsc_factor factor = {0};
    double *slice = lipsc_alloc(out, dv * sizeof *slice);
    factor.values = lipsc_alloc(dv, dv * sizeof *factor.values);
    lipsc_status status = slice && factor.values ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t r = 0; !status && r < out; r++)
        for (size_t c = 0; c < dv; c++)
            slice[r + c * out] = layer->O[r * layer->heads * dv + h * dv + c];
    if (!status) status = lipsc_factor_make(out, dv, slice, &factor);
    if (!status) {
        f->rank = min_size(out, dv);
        lipsc_dense_gemm(0, 1, d, f->rank, dv, 1.0, V, d, factor.values, f->rank, 0.0,
                         f->value, d);
    }
    lipsc_release(slice);
    lipsc_release(factor.values);
    return status;
}

lipsc_status lipsc_head_facts_make(const lipsc_layer *layer, size_t h,
                                   lipsc_head_facts *f) {
    const size_t d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    const size_t g = h * layer->kv_heads / layer->heads;
    const double *V = layer->V + g * dv * d;
    memset(f, 0, sizeof *f);
    f->d = d;
    f->k = k;
    f->scale = layer->scale;
    f->Q = layer->Q + h * k * d;
    f->K = layer->K ? layer->K + g * k * d : NULL;
    f->bq = layer->bq ? layer->bq + h * k : NULL;
    lipsc_status status = score_norm(f, &f->norm_A);
    f->norm_A *= fabs(f->scale);
    if (!status) status = make_value(layer, h, V, f);
    if (!status) status = lipsc_dense_norm(d, dv, V, &f->norm_V);
    if (!status) status = lipsc_dense_norm(d, f->rank, f->value, &f->norm_OV);
    if (!status && f->bq) {
        double *room = lipsc_alloc(k + 2 * d, sizeof *room);
        if (!room) return LIPSC_E_NOMEM;
        double *zero = room + k, *c = zero + d, square = 0.0;
        memset(zero, 0, d * sizeof *zero);
        lipsc_head_facts_score(f, 1, zero, room, c);
        for (size_t e = 0; e < d; e++) square += c[e] * c[e];
        f->norm_c = sqrt(square);
        lipsc_release(room);
    }
    if (status == LIPSC_E_NONFIN) status = LIPSC_E_RANGE;
    if (!status && !(isfinite(f->norm_A) && isfinite(f->norm_c) && isfinite(f->norm_V) &&
                     isfinite(f->norm_OV)))
        status = LIPSC_E_RANGE;
    return status;
}

void lipsc_head_facts_free(lipsc_head_facts *f) {
    lipsc_release(f->value);
    f->value = NULL;
}

const char *lipsc_scores_turned(const lipsc_layer *layer) {
    if (layer->soft_cap > 0.0)
        return "soft-capped scores are not (A x_i + c).x_j; see data-columns";
    if (layer->sinks)
        return "sinks in the softmax: a row of attention sums to less than one; see "
               "data-columns";
    if (layer->rotary_dim)
        return "rotary positions: scores are not (A x_i + c).x_j; see data-columns";
    if (layer->q_gain || layer->k_gain)
        return "query or key norms: scores are not (A x_i + c).x_j; see data-columns";
    return NULL;
}
