/* joint_rows.c - the rows of one head, for the bound by all heads together (3.10).
 *
 * A tile of rows of P at a time.  Second moments of the values, and of values with keys,
 * are taken around the mean of all tokens and then moved to o_i, which costs digits where a
 * row is nearly one-hot: the slack counts the moments before they are moved.  Of many
 * tokens they are taken in f32; a head where that slack is more than BLUR of the result, as
 * in saturated rows, goes on in double. */
#include "bound/joint_head.h"
#include "bound/joint_moments.h"

#include <limits.h>
#include <math.h>
#include <omp.h>
#include <string.h>

#include "bound/psd.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

enum { TILE = 64 };           /* rows of P taken at once                       */
enum { SQUARINGS = 4 };       /* of lipsc_psd_norm: within a few per cent      */
enum { QUERY_SQUARINGS = 2 }; /* of a Gram matrix: as good as 3 of its factor  */
enum { COARSE_TOKENS = 128 }; /* from here on moments in f32 are worth a try   */

static const double BLUR = 1e-2;

/* More than squares that underflow can lose; values are near 1. */
static const double LOST = 1e-140, LOST_SQUARE = 1e-280;

/* Room of one thread; everything column-major, one column for each row of the tile. */
typedef struct {
    double *storage;
    double *P, *weighted;        /* (n, TILE) and P_ij v_j without the sink */
    double *kbar, *shifted;      /* (k, TILE), (dv, TILE): of P kappa, of weighted y */
    lipsc_moments values, cross; /* of y with y, of y with kappa             */
    double *square, *work, *cov; /* (max, max) each                          */
    double *tau2;                /* (TILE)                                   */
    size_t first, count;         /* keys that the tile sees                  */
    int coarse, blurred;         /* moments in f32; they are not good enough */
} room;

static lipsc_status room_new(const lipsc_joint *j, room *r) {
    const size_t n = j->n, k = j->k, dv = j->dv, m = max_size(k, dv);
    double **const arrays[] = {&r->P,      &r->weighted, &r->kbar, &r->shifted,
                               &r->square, &r->work,     &r->cov,  &r->tau2};
    const size_t sizes[] = {n * TILE, n * TILE, k * TILE, dv * TILE,
                            m * m,    m * m,    m * m,    TILE};
    r->storage = lipsc_alloc_arrays(sizeof sizes / sizeof *sizes, arrays, sizes);
    if (!r->storage) return LIPSC_E_NOMEM;
    r->coarse = n >= COARSE_TOKENS && dv * m < INT_MAX && n < INT_MAX;
    return LIPSC_OK;
}

/* Room for the moments of a tile. */
static lipsc_status moments_new(const lipsc_joint *j, room *r) {
    const lipsc_status status =
        lipsc_moments_new(j->n, TILE, j->dv * (j->dv + 1) / 2, &r->values);
    return status ? status : lipsc_moments_new(j->n, TILE, j->dv * j->k, &r->cross);
}

static void room_free(room *r) {
    lipsc_release(r->storage);
    lipsc_moments_free(&r->values);
    lipsc_moments_free(&r->cross);
}

/* ---- The attention of a tile ------------------------------------------------------- */

static void softmax(const double *log_weight, size_t count, double *p) {
    double largest = -INFINITY, total = 0.0;
    for (size_t l = 0; l < count; l++) {
        if (log_weight) p[l] += log_weight[l];
        if (p[l] > largest) largest = p[l];
    }
    for (size_t l = 0; l < count; l++) total += p[l] = exp(p[l] - largest);
    for (size_t l = 0; l < count; l++) p[l] /= total;
}

static void attend(const lipsc_joint *j, const lipsc_joint_head *head, size_t i0,
                   size_t rows, room *r) {
    const size_t *lo = j->rows->lo, *hi = j->rows->hi, k = j->k;
    const double *log_weight = j->rows->log_weight;
    r->first = lo[i0];
    r->count = hi[i0 + rows - 1] - r->first;
    lipsc_dense_gemm(1, 0, r->count, rows, k, 1.0, head->key + r->first * k, k,
                     head->q + i0 * k, k, 0.0, r->P, r->count);
    for (size_t t = 0; t < rows; t++) {
        const size_t before = lo[i0 + t] - r->first, after = hi[i0 + t] - r->first;
        double *p = r->P + t * r->count;
        memset(p, 0, before * sizeof *p);
        memset(p + after, 0, (r->count - after) * sizeof *p);
        for (size_t l = before; head->bias && l < after; l++)
            p[l] += head->bias[j->n - 1 + r->first + l - (i0 + t)];
        softmax(log_weight ? log_weight + lo[i0 + t] : NULL, after - before, p + before);
    }
}

/* a_i / a_j */
static double weight_ratio(const lipsc_joint *j, size_t to, size_t from) {
    const double *w = j->rows->log_weight;
    return w ? exp(w[to] - w[from]) : 1.0;
}

lipsc_status lipsc_joint_weights(const lipsc_joint *j, const lipsc_joint_head *head,
                                 double *v) {
    const size_t dv = j->dv;
    room r = {0};
    const lipsc_status status = room_new(j, &r);
    for (size_t i0 = 0; !status && i0 < j->n; i0 += TILE) {
        const size_t rows = min_size(TILE, j->n - i0);
        attend(j, head, i0, rows, &r);
        const double *y = head->y + r.first * dv;
        lipsc_dense_gemm(0, 0, dv, rows, r.count, 1.0, y, dv, r.P, r.count, 0.0, r.shifted,
                         dv);
        for (size_t t = 0; t < rows; t++) {
            const double *p = r.P + t * r.count, *o = r.shifted + t * dv;
            const double moment = lipsc_dot_simd(r.count, p, head->y_square + r.first) -
                                  lipsc_dot_simd(dv, o, o);
            const double w = head->length[i0 + t];
            const double size = head->value_norm + 0.25 * w * w * lipsc_max(moment, 0.0);
            if (j->rows->log_weight)
                for (size_t l = 0; l < r.count; l++)
                    v[r.first + l] += size * p[l] * weight_ratio(j, i0 + t, r.first + l);
            else
                for (size_t l = 0; l < r.count; l++) v[r.first + l] += size * p[l];
        }
    }
    room_free(&r);
    return status;
}

/* ---- One row --------------------------------------------------------------------- */

/* tau_i^2 = |sum_{j not s} P_ij v_j T_ij T_ij^T| */
static lipsc_status row_tau(const lipsc_joint *j, const lipsc_joint_head *head, size_t i,
                            size_t t, room *r, double *tau2) {
    const size_t dv = j->dv;
    const double *o = head->mean + i * dv, *ov = r->shifted + t * dv;
    const double *x = head->cross + i * dv, w2 = head->length[i] * head->length[i];
    double *M = r->square, mass = 0.0, size = 0.0, trace = 0.0;
    const double *p = r->weighted + t * r->count;
#pragma omp simd reduction(+ : mass)
    for (size_t l = 0; l < r->count; l++) mass += p[l];
    lipsc_moments_row(&r->values, t, dv, dv, 1, M);
    for (size_t c = 0; c < dv; c++) {
        trace += M[c * dv + c];
        size += w2 * (M[c * dv + c] + mass * o[c] * o[c]) + mass * head->gram[c * dv + c];
    }
    for (size_t c = 0; c < dv; c++) {
        /* moved = M - ov o^T - o ov^T + mass o o^T; mixed = x e^T + e x^T, e = ov - mass o
         */
        const double shift = w2 * o[c], own = x[c] - shift, e_c = ov[c] - mass * o[c];
        for (size_t e = 0; e < dv; e++)
            M[c * dv + e] = w2 * M[c * dv + e] + mass * head->gram[c * dv + e] +
                            own * (ov[e] - mass * o[e]) + e_c * x[e] - w2 * ov[c] * o[e];
    }
    const double slack =
        w2 * (1.001 * r->values.error * trace + r->values.lost) + LOST_SQUARE * (1.0 + w2);
    const lipsc_status status = lipsc_psd_norm(dv, M, SQUARINGS, r->work, tau2);
    if (!(slack <= BLUR * *tau2)) r->blurred = 1;
    *tau2 += 4.0 * j->rounding * size + slack;
    return status;
}

/* |Cov_i(y, kappa)| */
static lipsc_status row_query(const lipsc_joint *j, const lipsc_joint_head *head, size_t i,
                              size_t t, room *r, double *query) {
    const size_t dv = j->dv, k = j->k, size = min_size(dv, k);
    const double *o = head->mean + i * dv, *kbar = r->kbar + t * k;
    const double *p = r->P + t * r->count;
    double *cov = r->cov, value = 0.0;
    lipsc_moments_row(&r->cross, t, dv, k, 0, cov);
    for (size_t c = 0; c < dv; c++)
        for (size_t e = 0; e < k; e++) cov[c * k + e] -= o[c] * kbar[e];
    const double y = sqrt(lipsc_dot_simd(r->count, p, head->y_square + r->first));
    const double kappa = sqrt(lipsc_dot_simd(r->count, p, head->k_square + r->first));
    /* cov is k x dv column-major */
    if (dv <= k)
        lipsc_dense_gemm(1, 0, dv, dv, k, 1.0, cov, k, cov, k, 0.0, r->square, dv);
    else
        lipsc_dense_gemm(0, 1, k, k, dv, 1.0, cov, k, cov, k, 0.0, r->square, k);
    const lipsc_status status =
        lipsc_psd_norm(size, r->square, QUERY_SQUARINGS, r->work, &value);
    const double slack = 1.001 * r->cross.error * y * kappa + r->cross.lost;
    if (!(slack <= BLUR * (sqrt(value) + sqrt(head->value_norm)))) r->blurred = 1;
    *query = sqrt(value) + 4.0 * j->rounding * y * kappa + slack + LOST * (1.0 + y);
    return status;
}

/* ---- Rows --------------------------------------------------------------------------- */

static void weigh(const lipsc_joint *j, size_t rows, room *r) {
    for (size_t t = 0; t < rows; t++) {
        const double *p = r->P + t * r->count, *v = j->v + r->first;
        double *to = r->weighted + t * r->count;
        for (size_t l = 0; l < r->count; l++) to[l] = p[l] * v[l];
    }
}

/* What row i adds to the columns. */
static void add_row(const lipsc_joint *j, size_t i, size_t t, const room *r,
                    lipsc_joint_head *head) {
    const double *p = r->P + t * r->count, *over = j->over_v + r->first;
    const double tau2 = r->tau2[t];
    double *column = head->column + r->first;
    if (j->rows->log_weight) {
        for (size_t l = 0; l < r->count; l++)
            if (p[l] > 0.0)
                column[l] += weight_ratio(j, i, r->first + l) * p[l] * tau2 * over[l];
    } else {
        for (size_t l = 0; l < r->count; l++) column[l] += p[l] * tau2 * over[l];
    }
    if (j->sink >= r->first && j->sink < r->first + r->count)
        head->to_sink[i] = p[j->sink - r->first] * sqrt(weight_ratio(j, i, j->sink));
}

/* tau and the query term of the rows of a tile, whose attention is there. */
static lipsc_status tile_terms(const lipsc_joint *j, size_t i0, size_t rows, room *r,
                               lipsc_joint_head *head) {
    const lipsc_vectors y = {head->y + r->first * j->dv, j->dv, head->y_unit};
    const lipsc_vectors kappa = {head->kappa + r->first * j->k, j->k, head->k_unit};
    lipsc_status status = LIPSC_OK;
    lipsc_moments_make(r->coarse, r->count, rows, &y, &y, r->weighted, &r->values);
    lipsc_moments_make(r->coarse, r->count, rows, &y, &kappa, r->P, &r->cross);
    r->blurred = 0;
    for (size_t t = 0; !status && t < rows; t++) {
        status = row_tau(j, head, i0 + t, t, r, &r->tau2[t]);
        if (!status) status = row_query(j, head, i0 + t, t, r, &head->query[i0 + t]);
        if (r->coarse && (r->blurred || status)) { /* from here on in double */
            r->coarse = 0;
            return tile_terms(j, i0, rows, r, head);
        }
    }
    return status;
}

/* Whether the bound shall end. */
static lipsc_status stopped(const lipsc_joint *j) {
    int yes;
    if (!omp_get_thread_num() && lipsc_attn_stopped(j->attn)) {
#pragma omp atomic write
        *j->stopped = 1;
    }
#pragma omp atomic read
    yes = *j->stopped;
    return yes ? LIPSC_E_STOPPED : LIPSC_OK;
}

lipsc_status lipsc_joint_rows(const lipsc_joint *j, lipsc_joint_head *head) {
    const size_t dv = j->dv, k = j->k;
    room r = {0};
    lipsc_status status = room_new(j, &r);
    if (!status) status = moments_new(j, &r);
    for (size_t i0 = 0; !status && i0 < j->n; i0 += TILE) {
        const size_t rows = min_size(TILE, j->n - i0);
        status = stopped(j);
        if (status) break;
        attend(j, head, i0, rows, &r);
        weigh(j, rows, &r);
        const double *y = head->y + r.first * dv, *kappa = head->kappa + r.first * k;
        lipsc_dense_gemm(0, 0, dv, rows, r.count, 1.0, y, dv, r.P, r.count, 0.0,
                         head->mean + i0 * dv, dv);
        lipsc_dense_gemm(0, 0, k, rows, r.count, 1.0, kappa, k, r.P, r.count, 0.0, r.kbar,
                         k);
        lipsc_dense_gemm(0, 0, dv, rows, r.count, 1.0, y, dv, r.weighted, r.count, 0.0,
                         r.shifted, dv);
        status = tile_terms(j, i0, rows, &r, head);
        for (size_t t = 0; !status && t < rows; t++) add_row(j, i0 + t, t, &r, head);
    }
    room_free(&r);
    return status;
}
