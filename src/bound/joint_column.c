/* joint_column.c - the norm of one column of blocks of J, all heads together (3.10).
 *
 * Block i of column s, without the query term, is sum_h p_ih U_h (F_h V_h + delta_ih
 * w_ih^T) with p_ih = sqrt(a_i/a_s) P^h_is and delta_ih = y_s - o_i.  Its Gram matrix, d x
 * d, is
 *
 *     FV^T (X o c) FV + FV^T E K + (FV^T E K)^T + K^T N K,     X = U^T U, in blocks
 *     c_hg = sum_i p_ih p_ig,   E_hg = X_hg sum_i p_ih p_ig delta_ig q_ig^T,
 *     N_hg = sum_i p_ih p_ig (delta_ih . X_hg delta_ig) q_ih q_ig^T. */
#include "bound/joint_head.h"

#include <math.h>
#include <string.h>

#include "bound/psd.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

enum { SQUARINGS = 6, BLOCK = 64 };

/* Row-major stacks over the heads and the matrices between them. */
typedef struct {
    double *storage;
    double *FV, *K;          /* (heads dv, d), (heads k, d)                         */
    double *values;          /* (heads dv)^2: X o c                                 */
    double *mixed;           /* (heads dv, heads k) column-major: E                 */
    double *keys;            /* (heads k)^2: N                                      */
    double *delta;           /* (heads, n, dv): p_ih delta_ih                       */
    double *half, *C, *work; /* (heads max, d), (d, d), (d, d)                 */
} column;

/* Room of one thread for a pair of heads. */
typedef struct {
    double *turned, *one, *pair; /* (n, dv), (n, k), (dv, k)                       */
} pair_room;

static lipsc_status column_new(const lipsc_joint *j, column *c) {
    const size_t n = j->n, d = j->d, k = j->k, dv = j->dv, H = j->heads;
    const size_t m = k > dv ? k : dv;
    double **const arrays[] = {&c->FV,    &c->K,    &c->values, &c->mixed, &c->keys,
                               &c->delta, &c->half, &c->C,      &c->work};
    const size_t sizes[] = {H * dv * d,     H * k * d,     H * dv * H * dv,
                            H * dv * H * k, H * k * H * k, H * n * dv,
                            H * m * d,      d * d,         d * d};
    c->storage = lipsc_alloc_arrays(sizeof sizes / sizeof *sizes, arrays, sizes);
    if (!c->storage) return LIPSC_E_NOMEM;
    return LIPSC_OK;
}

/* FV, K and delta of every head; returns the size of the positive parts of the Gram
 * matrix, the scale of its rounding errors. */
static double stack_heads(const lipsc_joint *j, column *c) {
    const lipsc_layer *l = &j->attn->layer;
    const size_t n = j->n, d = j->d, k = j->k, dv = j->dv;
    double size = 0.0;
    for (size_t h = 0; h < j->heads; h++) {
        const lipsc_joint_head *head = &j->head[h];
        const size_t g = h * l->kv_heads / l->heads;
        const double *y = head->y + j->sink * dv;
        const double values = lipsc_dot(dv * d, head->FV, head->FV);
        memcpy(c->FV + h * dv * d, head->FV, dv * d * sizeof *head->FV);
        for (size_t r = 0; r < k; r++)
            for (size_t e = 0; e < d; e++)
                c->K[(h * k + r) * d + e] =
                    l->K ? l->K[(g * k + r) * d + e] : (r == e ? 1.0 : 0.0);
        for (size_t i = 0; i < n; i++) {
            const double p = head->to_sink[i], *o = head->mean + i * dv;
            double *delta = c->delta + (h * n + i) * dv;
            for (size_t e = 0; e < dv; e++) delta[e] = p * (y[e] - o[e]);
            size += p * p *
                    (values + 2.0 * head->length[i] * head->length[i] *
                                  (lipsc_dot(dv, y, y) + lipsc_dot(dv, o, o)));
        }
    }
    return size;
}

/* Blocks (h, g) of the three matrices; of the keys, which are symmetric, where g >= h. */
static void pair_of_heads(const lipsc_joint *j, size_t h, size_t g, const pair_room *room,
                          column *c) {
    const size_t n = j->n, k = j->k, dv = j->dv, H = j->heads;
    const lipsc_joint_head *a = &j->head[h], *b = &j->head[g];
    const double *X = j->gram_U + h * dv + g * dv * H * dv;
    const double *delta_a = c->delta + h * n * dv, *delta_b = c->delta + g * n * dv;
    const double both = lipsc_dot(n, a->to_sink, b->to_sink);
    for (size_t e = 0; e < dv; e++)
        for (size_t r = 0; r < dv; r++)
            c->values[h * dv + r + (g * dv + e) * H * dv] = both * X[r + e * H * dv];
    /* sum_i p_ih (p_ig delta_ig) q_ig^T */
    for (size_t i = 0; i < n; i++)
        for (size_t e = 0; e < k; e++)
            room->one[i * k + e] = a->to_sink[i] * b->q[i * k + e];
    lipsc_dense_gemm(0, 1, dv, k, n, 1.0, delta_b, dv, room->one, k, 0.0, room->pair, dv);
    lipsc_dense_gemm(0, 0, dv, k, dv, 1.0, X, H * dv, room->pair, dv, 0.0,
                     c->mixed + h * dv + g * k * H * dv, H * dv);
    if (g < h) return;
    /* sum_i (p_ih delta_ih . X p_ig delta_ig) q_ih q_ig^T */
    lipsc_dense_gemm(0, 0, dv, n, dv, 1.0, X, H * dv, delta_b, dv, 0.0, room->turned, dv);
    for (size_t i = 0; i < n; i++) {
        const double e = lipsc_dot(dv, delta_a + i * dv, room->turned + i * dv);
        for (size_t l = 0; l < k; l++) room->one[i * k + l] = e * b->q[i * k + l];
    }
    lipsc_dense_gemm(0, 1, k, k, n, 1.0, a->q, k, room->one, k, 0.0,
                     c->keys + h * k + g * k * H * k, H * k);
    for (size_t e = 0; g > h && e < k; e++)
        for (size_t l = 0; l < k; l++)
            c->keys[g * k + e + (h * k + l) * H * k] =
                c->keys[h * k + l + (g * k + e) * H * k];
}

static lipsc_status all_pairs(const lipsc_joint *j, column *c) {
    const size_t n = j->n, k = j->k, dv = j->dv, H = j->heads;
    lipsc_status status = LIPSC_OK;
#pragma omp parallel num_threads(j->threads)
    {
        double *storage = lipsc_alloc(n * (dv + k) + dv * k, sizeof *storage);
        const pair_room room =
            storage ? (pair_room){storage, storage + n * dv, storage + n * (dv + k)}
                    : (pair_room){NULL, NULL, NULL};
#pragma omp for schedule(dynamic, 4)
        for (size_t pair = 0; pair < H * H; pair++)
            if (storage) pair_of_heads(j, pair / H, pair % H, &room, c);
        if (!storage) {
#pragma omp atomic write
            status = LIPSC_E_NOMEM;
        }
        lipsc_release(storage);
    }
    return status;
}

/* C += factor (A^T M B + its transpose), A and B row-major with d columns */
static void add_product(const lipsc_joint *j, size_t rows_a, size_t rows_b, const double *A,
                        const double *M, const double *B, double factor, column *c) {
    const size_t d = j->d;
    /* half (d, rows_b) = A^T M; A row-major is A^T column-major.  Blocks of columns of a
     * fixed size: no bit depends on the number of threads */
#pragma omp parallel num_threads(j->threads)
    {
#pragma omp for schedule(dynamic, 1)
        for (size_t e = 0; e < rows_b; e += BLOCK)
            lipsc_dense_gemm(0, 0, d, rows_b - e < BLOCK ? rows_b - e : BLOCK, rows_a, 1.0,
                             A, d, M + e * rows_a, rows_a, 0.0, c->half + e * d, d);
#pragma omp for schedule(dynamic, 1)
        for (size_t e = 0; e < d; e += BLOCK)
            lipsc_dense_gemm(0, 1, d, d - e < BLOCK ? d - e : BLOCK, rows_b, 1.0, c->half,
                             d, B + e, d, 0.0, c->work + e * d, d);
    }
    for (size_t e = 0; e < d; e++)
        for (size_t r = 0; r < d; r++)
            c->C[r + e * d] += factor * (c->work[r + e * d] + c->work[e + r * d]);
}

lipsc_status lipsc_joint_column(const lipsc_joint *j, double *norm) {
    const size_t H = j->heads;
    column c = {0};
    lipsc_status status = column_new(j, &c);
    if (status) return status;
    const double size = stack_heads(j, &c);
    status = all_pairs(j, &c);
    add_product(j, H * j->dv, H * j->dv, c.FV, c.values, c.FV, 0.5, &c);
    add_product(j, H * j->dv, H * j->k, c.FV, c.mixed, c.K, 1.0, &c);
    add_product(j, H * j->k, H * j->k, c.K, c.keys, c.K, 0.5, &c);
    double value = 0.0;
    if (!status)
        status = lipsc_psd_norm_by(j->threads, j->d, c.C, SQUARINGS, c.work, &value);
    *norm = sqrt(value + 8.0 * j->rounding * (double)H * size);
    lipsc_release(c.storage);
    return status;
}
