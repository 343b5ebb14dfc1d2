/* joint.c - an upper bound of |J| at the input by all heads together (docs/maths.md 3.10).
 *
 * J = D + B: the query path, block diagonal, and the rest, (B h)_i = sum_h O_h sum_j
 * P^h_ij T^h_ij h_j.  O_h = U_h F_h with orthonormal columns U_h.  For any numbers v_j > 0,
 * c_h > 0, by Cauchy's inequality over the keys of each head and then over the heads,
 *
 *     |(B h)_i|^2 <= |[c_1 U_1 .. c_H U_H]|^2 sum_h c_h^-2 tau_ih^2 sum_j P^h_ij |h_j|^2 /
 * v_j, tau_ih^2 = | sum_j P^h_ij v_j F_h T^h_ij T^h_ij^T F_h^T |.
 *
 * v_j near the column sums of the attention takes care of the sinks; the largest of them is
 * a column of blocks by itself, whose norm is found exactly: |J|^2 <= |J_s|^2 + |J_rest|^2.
 */
#include "bound/joint.h"

#include <math.h>
#include <string.h>

#include "bound/head.h"
#include "bound/joint_head.h"
#include "bound/psd.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

enum { SQUARINGS = 6 }; /* of lipsc_psd_norm, for all heads */
enum {
    COLUMN_LIMIT = 8
}; /* dimensions for each token up to which a column of blocks is
    * worth its d^3 operations                                   */
static const double SINK = 2.0;      /* times the next column: worth a column of its own */
static const double FAINTEST = 1e-3; /* v_j at least, the largest being 1               */

/* A NaN stays. */
static double larger_of(double a, double b) { return a >= b ? a : (b > a ? b : NAN); }

/* The power of two that brings the largest of count numbers near 1. */
static double unit_of(size_t count, const double *a) {
    double size = 0.0;
    int exponent = 0;
    for (size_t e = 0; a && e < count; e++) size = lipsc_max(size, fabs(a[e]));
    if (size > 0.0) frexp(size, &exponent);
    return ldexp(1.0, -(exponent < -1000 ? -1000 : exponent));
}

/* ---- Heads -------------------------------------------------------------------------- */

static size_t place(const lipsc_joint *j, lipsc_joint_head *h, double *base) {
    double **const arrays[] = {&h->q,      &h->key,      &h->y,       &h->kappa,
                               &h->cross,  &h->mean,     &h->length,  &h->to_sink,
                               &h->column, &h->query,    &h->FV,      &h->gram,
                               &h->U,      &h->y_square, &h->k_square};
    const size_t n = j->n, k = j->k, dv = j->dv;
    const size_t sizes[] = {n * k, n * k, n * dv,    n * k,   n * dv,        n * dv, n, n,
                            n,     n,     dv * j->d, dv * dv, j->width * dv, n,      n};
    size_t used = 0;
    for (size_t a = 0; a < sizeof sizes / sizeof sizes[0]; a++) {
        if (base) *arrays[a] = base + used;
        used += sizes[a];
    }
    return used;
}

static void squares(size_t n, size_t width, const double *y, double *square) {
    for (size_t i = 0; i < n; i++) {
        square[i] = 0.0;
        for (size_t c = 0; c < width; c++) square[i] += y[i * width + c] * y[i * width + c];
    }
}

/* slice (width, dv) of O = U S W^T: U as it is, F (dv, dv) column-major = S W^T */
static lipsc_status factor_out(const lipsc_joint *j, size_t h, double *U, double *F) {
    const lipsc_layer *l = &j->attn->layer;
    const size_t dv = j->dv, rows = j->width, rank = min_size(rows, dv);
    memset(F, 0, dv * dv * sizeof *F);
    if (!l->O) {
        for (size_t c = 0; c < dv; c++) F[c + c * dv] = 1.0;
        return LIPSC_OK;
    }
    double *a = lipsc_alloc(rows * dv + rank * dv + rank, sizeof *a);
    if (!a) return LIPSC_E_NOMEM;
    double *vt = a + rows * dv, *s = vt + rank * dv;
    for (size_t c = 0; c < dv; c++)
        for (size_t r = 0; r < rows; r++)
            a[r + c * rows] = j->out_unit * l->O[r * l->heads * dv + h * dv + c];
    memset(U, 0, rows * dv * sizeof *U);
    const lipsc_status status = lipsc_dense_svd(rows, dv, a, s, U, vt);
    for (size_t c = 0; !status && c < dv; c++)
        for (size_t r = 0; r < rank; r++) F[r + c * dv] = s[r] * vt[r + c * rank];
    lipsc_release(a);
    return status;
}

/* What a head is made of, from one that lipsc_head_enter has entered. */
static lipsc_status make_head(const lipsc_joint *j, size_t h, const lipsc_head_at *from,
                              lipsc_joint_head *head) {
    const lipsc_layer *l = &j->attn->layer;
    const size_t n = j->n, d = j->d, k = j->k, dv = j->dv, rank = from->Qt.rank;
    const size_t g = h * l->kv_heads / l->heads;
    const size_t count = place(j, head, NULL);
    double *F = lipsc_alloc(3 * dv * dv + k * dv, sizeof *F);
    head->storage = lipsc_alloc_zero(count, sizeof *head->storage);
    lipsc_status status = F && head->storage ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) {
        place(j, head, head->storage);
        head->bias = from->bias;
        status = factor_out(j, h, head->U, F);
    }
    if (!status) {
        const double to_unit = j->value_unit / from->unit;
        double *FVK = F + dv * dv, *square = FVK + dv * k, *room = square + dv * dv;
        memcpy(head->q, from->q, n * k * sizeof *head->q);
        memcpy(head->key, from->key, n * k * sizeof *head->key);
        lipsc_dense_gemm(0, 0, dv, n, dv, to_unit, F, dv, from->z, dv, 0.0, head->y, dv);
        lipsc_dense_gemm(0, 0, rank, n, k, from->scale, from->Qt.values, rank, from->key, k,
                         0.0, head->kappa, k);
        /* V is (dv, d) row-major; F V row-major is V^T F^T column-major */
        lipsc_dense_gemm(0, 1, d, dv, dv, j->value_unit, l->V + g * dv * d, d, F, dv, 0.0,
                         head->FV, d);
        lipsc_dense_gemm(1, 0, dv, dv, d, 1.0, head->FV, d, head->FV, d, 0.0, head->gram,
                         dv);
        lipsc_dense_gemm(0, 0, dv, k, dv, to_unit, F, dv, from->VKt, dv, 0.0, FVK, dv);
        lipsc_dense_gemm(0, 0, dv, n, k, 1.0, FVK, dv, from->q, k, 0.0, head->cross, dv);
        for (size_t i = 0; i < n; i++)
            head->length[i] = lipsc_head_pull(from, head->q + i * k);
        lipsc_subtract_mean(n, dv, head->y);
        lipsc_subtract_mean(n, k, head->kappa);
        squares(n, dv, head->y, head->y_square);
        squares(n, k, head->kappa, head->k_square);
        head->y_unit = unit_of(n * dv, head->y);
        head->k_unit = unit_of(n * k, head->kappa);
        memcpy(square, head->gram, dv * dv * sizeof *square);
        status = lipsc_psd_norm(dv, square, SQUARINGS, room, &head->value_norm);
    }
    lipsc_release(F);
    return status;
}

static lipsc_status make_heads(lipsc_joint *j, int threads) {
    lipsc_status status = LIPSC_OK;
#pragma omp parallel num_threads(threads)
    {
        lipsc_head_at head;
        lipsc_status mine = lipsc_head_new(j->attn, &head);
        head.threads = 1;
        head.sliced = 0; /* factor_out has more of it */
#pragma omp for schedule(dynamic, 1)
        for (size_t h = 0; h < j->heads; h++) {
            if (!mine) mine = lipsc_head_enter(j->attn, h, &head);
            if (!mine) mine = make_head(j, h, &head, &j->head[h]);
        }
#pragma omp critical(lipsc_joint_merge)
        if (mine && !status) status = mine;
        lipsc_head_free(&head);
    }
    return status;
}

/* ---- Weights of the keys, rows ------------------------------------------------------ */

static lipsc_status find_weights(lipsc_joint *j, int threads) {
    const size_t n = j->n, heads = j->heads;
    double *each = lipsc_alloc_zero(n * heads, sizeof *each);
    lipsc_status status = each ? LIPSC_OK : LIPSC_E_NOMEM;
    if (status) return status;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (size_t h = 0; h < heads; h++) {
        const lipsc_status mine = lipsc_joint_weights(j, &j->head[h], each + h * n);
        if (mine) {
#pragma omp atomic write
            status = mine;
        }
    }
    double first = 0.0, second = 0.0;
    for (size_t i = 0; i < n; i++) {
        j->v[i] = 0.0;
        for (size_t h = 0; h < heads; h++) j->v[i] += each[h * n + i];
        if (j->v[i] > first) {
            second = first;
            first = j->v[i];
            j->sink = i;
        } else if (j->v[i] > second) {
            second = j->v[i];
        }
    }
    lipsc_release(each);
    const int apart = first > SINK * second && j->d <= COLUMN_LIMIT * n;
    if (!apart) j->sink = n;
    const double most = apart ? second : first;
    for (size_t i = 0; i < n; i++) {
        const double v = most > 0.0 ? j->v[i] / most : 1.0;
        j->v[i] = v > 1.0 ? 1.0 : (v > FAINTEST ? v : FAINTEST); /* a NaN too */
        j->over_v[i] = 1.0 / j->v[i];
    }
    if (apart) j->v[j->sink] = j->over_v[j->sink] = 0.0;
    return status;
}

static lipsc_status all_rows(lipsc_joint *j, int threads) {
    lipsc_status status = LIPSC_OK;
#pragma omp parallel for schedule(dynamic, 1) num_threads(threads)
    for (size_t h = 0; h < j->heads; h++) {
        const lipsc_status mine = lipsc_joint_rows(j, &j->head[h]);
        if (mine) {
#pragma omp atomic write
            status = mine;
        }
    }
    return status;
}

/* ---- Heads together ----------------------------------------------------------------- */

/* |[c_1 U_1 .. c_H U_H]|^2 from U^T U; c2 NULL: all ones */
static lipsc_status coupling(const lipsc_joint *j, const double *c2, double *room,
                             double *value) {
    const size_t dv = j->dv, size = j->heads * dv;
    double *a = room, *work = room + size * size;
    for (size_t c = 0; c < size; c++)
        for (size_t r = 0; r < size; r++)
            a[r + c * size] =
                j->gram_U[r + c * size] * (c2 ? sqrt(c2[r / dv] * c2[c / dv]) : 1.0);
    return lipsc_psd_norm_by(j->threads, size, a, SQUARINGS, work, value);
}

static void make_gram(lipsc_joint *j) {
    const size_t dv = j->dv, size = j->heads * dv;
    for (size_t g = 0; g < j->heads; g++)
        for (size_t h = 0; h < j->heads; h++) {
            double *block = j->gram_U + h * dv + g * dv * size;
            if (j->attn->layer.O) {
                lipsc_dense_gemm(1, 0, dv, dv, j->width, 1.0, j->head[h].U, j->width,
                                 j->head[g].U, j->width, 0.0, block, size);
            } else {
                for (size_t c = 0; h == g && c < dv; c++) block[c + c * size] = 1.0;
            }
        }
}

/* max_{j not s} sum_h column_h[j] / c_h^2 */
static double largest_column(const lipsc_joint *j, const double *c2) {
    double largest = 0.0;
    for (size_t i = 0; i < j->n; i++) {
        double sum = 0.0;
        for (size_t h = 0; h < j->heads; h++)
            sum += j->head[h].column[i] / (c2 ? c2[h] : 1.0);
        largest = larger_of(largest, sum);
    }
    return largest;
}

/* c_h^2 = sqrt(largest column of the head), the largest being 1. */
static void head_weights(const lipsc_joint *j, double *c2) {
    double most = 0.0;
    for (size_t h = 0; h < j->heads; h++) {
        c2[h] = 0.0;
        for (size_t i = 0; i < j->n; i++) c2[h] = lipsc_max(c2[h], j->head[h].column[i]);
        c2[h] = sqrt(c2[h]);
        most = lipsc_max(most, c2[h]);
    }
    for (size_t h = 0; h < j->heads; h++)
        c2[h] = most > 0.0 ? lipsc_max(c2[h] / most, FAINTEST) : 1.0;
}

/* The query term of token i. */
static double query_of(const lipsc_joint *j, size_t i, double coupled) {
    double sum = 0.0, square = 0.0;
    for (size_t h = 0; h < j->heads; h++) {
        sum += j->head[h].query[i];
        square += j->head[h].query[i] * j->head[h].query[i];
    }
    const double together = sqrt(coupled * square);
    return together < sum ? together : sum;
}

static lipsc_status combine(const lipsc_joint *j, double *value, size_t *worst_head,
                            double *sink_column) {
    const size_t size = j->heads * j->dv;
    double *room = lipsc_alloc(2 * size * size + j->heads, sizeof *room);
    if (!room) return LIPSC_E_NOMEM;
    double *c2 = room + 2 * size * size, plain = 0.0, weighted = 0.0, query = 0.0;
    lipsc_status status = coupling(j, NULL, room, &plain);
    head_weights(j, c2);
    for (size_t h = 0; h < j->heads; h++)
        if (c2[h] > c2[*worst_head]) *worst_head = h;
    if (!status) status = coupling(j, c2, room, &weighted);
    for (size_t i = 0; i < j->n; i++)
        if (i != j->sink) query = larger_of(query, query_of(j, i, plain));
    const double equal = plain * largest_column(j, NULL);
    const double unequal = weighted * largest_column(j, c2);
    const double rest = query + sqrt(unequal < equal ? unequal : equal);
    double column = 0.0, own = 0.0;
    if (!status && j->sink < j->n) {
        status = lipsc_joint_column(j, &column);
        own = query_of(j, j->sink, plain);
    }
    lipsc_release(room);
    const double margin = 1.0 + 8.0 * j->rounding;
    /* two steps: the product of the units may overflow */
    *value = hypot(column + own, rest) * margin / j->value_unit / j->out_unit;
    *sink_column = column * margin / j->value_unit / j->out_unit;
    return status;
}

lipsc_status lipsc_joint_bound(const lipsc_attn *attn, double *value, size_t *worst_head) {
    return lipsc_joint_bound_by(attn, value, worst_head, NULL);
}

lipsc_status lipsc_joint_bound_by(const lipsc_attn *attn, double *value, size_t *worst_head,
                                  lipsc_joint_choice *choice) {
    const lipsc_layer *l = &attn->layer;
    *value = INFINITY;
    *worst_head = 0;
    if (l->rotary_dim || l->q_gain || l->k_gain || l->sinks || l->soft_cap > 0.0)
        return LIPSC_OK;
    int stopped = 0;
    lipsc_joint j = {.attn = attn,
                     .stopped = &stopped,
                     .rows = &attn->rows,
                     .n = attn->rows.n,
                     .d = l->d,
                     .k = l->key_dim,
                     .dv = l->value_dim,
                     .heads = l->heads,
                     .width = lipsc_layer_width(l)};
    j.value_unit = unit_of(l->kv_heads * j.dv * j.d, l->V);
    j.out_unit = l->O ? unit_of(j.width * j.heads * j.dv, l->O) : 1.0;
    const int threads = j.threads = lipsc_attn_threads(attn);
    size_t size, square;
    if (!lipsc_mul_size(j.heads, j.dv, &size) || !lipsc_mul_size(size, size, &square))
        return LIPSC_OK;
    j.rounding = lipsc_head_rounding(j.n, j.d, j.k, j.dv) * sqrt((double)size);
    j.head = lipsc_alloc_zero(j.heads, sizeof *j.head);
    j.v = lipsc_alloc(j.n, 2 * sizeof *j.v);
    j.over_v = j.v ? j.v + j.n : NULL;
    j.gram_U = lipsc_alloc_zero(square, sizeof *j.gram_U);
    lipsc_status status = j.head && j.v && j.gram_U ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = make_heads(&j, threads);
    if (!status) status = find_weights(&j, threads);
    if (!status) status = all_rows(&j, threads);
    if (!status) {
        make_gram(&j);
        double column = 0.0;
        status = combine(&j, value, worst_head, &column);
        if (!status && choice) {
            choice->sink = j.sink;
            choice->column = column;
            memcpy(choice->weight, j.v, j.n * sizeof *j.v);
        }
    }
    for (size_t h = 0; j.head && h < j.heads; h++) lipsc_release(j.head[h].storage);
    lipsc_release(j.head);
    lipsc_release(j.v);
    lipsc_release(j.gram_U);
    if (status == LIPSC_E_RANGE || isnan(*value)) {
        *value = INFINITY;
        status = LIPSC_OK;
    }
    return status;
}
