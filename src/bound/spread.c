/* spread.c - entropy of the attention rows and the largest column sum, by the device where
 * it can.
 *
 * -sum_j P_ij ln P_ij = ln Z_i - sum_j P_ij (s_ij - max), Z_i = sum_j exp(s_ij - max):
 * no logarithm of a vanishing P_ij is taken.  Sums run in the order of the tokens, so that
 * they do not depend on the number of threads. */
#include "bound/spread.h"

#include <math.h>
#include <string.h>

#include "bound/head.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"

/* Adds row i of head to the column sums and returns its entropy, in which a sink counts as
 * one more key.  p: room for n. */
static double add_row(const lipsc_head_at *head, size_t i, double *p, double *columns) {
    const size_t k = head->k, lo = head->rows->lo[i], count = head->rows->hi[i] - lo;
    double largest = head->sink, mean = 0.0;
    lipsc_dense_gemm(1, 0, count, 1, k, 1.0, head->key + lo * k, k, head->q + i * k, k, 0.0,
                     p, count);
    lipsc_head_finish(head, i, p, NULL);
    for (size_t j = 0; j < count; j++) largest = lipsc_max(largest, p[j]);
    const double sink = exp(head->sink - largest);
    double total = sink;
    for (size_t j = 0; j < count; j++) total += exp(p[j] - largest);
    for (size_t j = 0; j < count; j++) {
        const double share = exp(p[j] - largest) / total;
        mean += share * (p[j] - largest);
        columns[lo + j] += share;
    }
    if (sink > 0.0) mean += sink / total * (head->sink - largest);
    return log(total) - mean;
}

/* (heads, n): entropies of rows, sums of columns */
static lipsc_status spread_here(const lipsc_attn *attn, double *entropy, double *columns) {
    const size_t n = attn->rows.n;
    lipsc_head_at head;
    lipsc_status status = lipsc_head_new(attn, &head);
    double *p = lipsc_alloc(n, sizeof *p);
    if (!p) status = LIPSC_E_NOMEM;
    memset(columns, 0, attn->layer.heads * n * sizeof *columns);
    for (size_t h = 0; h < attn->layer.heads && !status; h++) {
        status = lipsc_head_enter(attn, h, &head);
        for (size_t i = 0; i < n && !status; i++)
            entropy[h * n + i] = add_row(&head, i, p, columns + h * n);
    }
    lipsc_release(p);
    lipsc_head_free(&head);
    return status;
}

/* The mean of the one, the largest of the other. */
static lipsc_status sum_up(const lipsc_attn *attn, const double *entropy,
                           const double *columns, lipsc_spread *out) {
    const size_t n = attn->rows.n, all = n * attn->layer.heads;
    *out = (lipsc_spread){.sink = -1.0};
    for (size_t e = 0; e < all; e++) {
        out->entropy += entropy[e] / ((double)n * (double)attn->layer.heads);
        if (!isfinite(columns[e])) return LIPSC_E_NONFIN;
        if (columns[e] > out->sink) {
            out->sink = columns[e];
            out->sink_token = attn->rows.order ? attn->rows.order[e % n] : e % n;
            out->sink_head = e / n;
        }
    }
    return isfinite(out->entropy) ? LIPSC_OK : LIPSC_E_NONFIN;
}

lipsc_status lipsc_attn_spread(const lipsc_attn *attn, lipsc_spread *out) {
    size_t all;
    if (!lipsc_mul_size(attn->rows.n, attn->layer.heads, &all)) return LIPSC_E_RANGE;
    double *entropy = lipsc_alloc(all, sizeof *entropy),
           *columns = lipsc_alloc(all, sizeof *columns);
    lipsc_status status = entropy && columns ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status)
        status = lipsc_device_table(attn->device)->spread
                     ? lipsc_attn_spread_there(attn, entropy, columns)
                     : spread_here(attn, entropy, columns);
    if (!status) status = sum_up(attn, entropy, columns, out);
    lipsc_release(entropy);
    lipsc_release(columns);
    return status;
}
