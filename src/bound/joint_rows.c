/* joint_rows.c - the rows of one head, for the bound by all heads together (3.10).
 *
 * A tile of rows of P at a time.  Second moments of the values, and of values with keys,
 * are products of P with the products y_a y_b of their components: one large matrix product
 * in the place of one small one for each token.  They are taken around the mean of all
 * tokens and then moved to o_i, which costs digits where a row is nearly one-hot: the
 * slack counts the moments before they are moved. */
#include "bound/joint_head.h"

#include <math.h>
#include <string.h>

#include "bound/psd.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"

enum { TILE = 64 };     /* rows of P, and keys, taken at once       */
enum { SQUARINGS = 4 }; /* of lipsc_psd_norm: within a few per cent */

/* More than squares that underflow can lose; values are near 1. */
static const double LOST = 1e-140, LOST_SQUARE = 1e-280;

/* Room of one thread; everything column-major, one column for each row of the tile. */
typedef struct {
    double *storage;
    double *P, *weighted;   /* (n, TILE) and P_ij v_j without the sink */
    double *kbar, *shifted; /* (k, TILE), (dv, TILE): of P kappa, of weighted y */
    double *pack;           /* (pairs, TILE): products of components of a key */
    double *values, *cross; /* (dv^2, TILE), (dv k, TILE): the moments */
    double *square, *work;  /* (max, max) each */
    size_t first, count;    /* keys that the tile sees */
} room;

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }
static size_t larger(size_t a, size_t b) { return a > b ? a : b; }

static lipsc_status room_new(const lipsc_joint *j, room *r) {
    const size_t n = j->n, k = j->k, dv = j->dv, m = larger(k, dv);
    double **const arrays[] = {&r->P,      &r->weighted, &r->kbar,   &r->shifted, &r->pack,
                               &r->values, &r->cross,    &r->square, &r->work};
    const size_t sizes[] = {n * TILE,      n * TILE,      k * TILE,
                            dv * TILE,     dv * m * TILE, dv * dv * TILE,
                            dv * k * TILE, m * m,         m * m};
    size_t total = 0;
    for (size_t a = 0; a < sizeof sizes / sizeof sizes[0]; a++) total += sizes[a];
    r->storage = lipsc_alloc_zero(total, sizeof *r->storage);
    if (!r->storage) return LIPSC_E_NOMEM;
    double *at = r->storage;
    for (size_t a = 0; a < sizeof sizes / sizeof sizes[0]; a++) {
        *arrays[a] = at;
        at += sizes[a];
    }
    return LIPSC_OK;
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

static double dot(size_t n, const double *a, const double *b) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t l = 0; l < n; l++) sum += a[l] * b[l];
    return sum;
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
        const size_t rows = smaller(TILE, j->n - i0);
        attend(j, head, i0, rows, &r);
        const double *y = head->y + r.first * dv;
        lipsc_dense_gemm(0, 0, dv, rows, r.count, 1.0, y, dv, r.P, r.count, 0.0, r.shifted,
                         dv);
        for (size_t t = 0; t < rows; t++) {
            const double *p = r.P + t * r.count, *o = r.shifted + t * dv;
            double moment = -dot(dv, o, o);
            for (size_t l = 0; l < r.count; l++)
                if (p[l] > 0.0) moment += p[l] * dot(dv, y + l * dv, y + l * dv);
            const double w = head->length[i0 + t];
            const double size = head->value_norm + 0.25 * w * w * lipsc_max(moment, 0.0);
            for (size_t l = 0; l < r.count; l++)
                v[r.first + l] += size * p[l] * weight_ratio(j, i0 + t, r.first + l);
        }
    }
    lipsc_release(r.storage);
    return status;
}

/* ---- Moments ------------------------------------------------------------------------ */

/* moments (width dv, rows) += the products a_c b_e of every key, weighted by p */
static void add_moments(const lipsc_joint *j, const double *a, const double *b,
                        size_t width, size_t rows, const double *p, room *r,
                        double *moments) {
    const size_t dv = j->dv, cols = dv * width;
    const int symmetric = a == b;
    for (size_t l0 = 0; l0 < r->count; l0 += TILE) {
        const size_t keys = smaller(TILE, r->count - l0);
        size_t used = 0;
        for (size_t l = 0; l < keys; l++) {
            const double *x = a + (l0 + l) * dv, *z = b + (l0 + l) * width;
            double *to = r->pack + l * (symmetric ? dv * (dv + 1) / 2 : cols);
            used = 0;
            for (size_t c = 0; c < dv; c++)
                for (size_t e = symmetric ? c : 0; e < width; e++) to[used++] = x[c] * z[e];
        }
        lipsc_dense_gemm(0, 0, used, rows, keys, 1.0, r->pack, used, p + l0, r->count,
                         l0 ? 1.0 : 0.0, moments, used);
    }
}

/* The packed half of a symmetric matrix, whole. */
static void unpack(size_t size, const double *half, double *whole) {
    for (size_t c = 0; c < size; c++)
        for (size_t e = c; e < size; e++)
            whole[c * size + e] = whole[e * size + c] = *half++;
}

/* tau_i^2 = |sum_{j not s} P_ij v_j T_ij T_ij^T| */
static lipsc_status row_tau(const lipsc_joint *j, const lipsc_joint_head *head, size_t i,
                            size_t t, room *r, double *tau2) {
    const size_t dv = j->dv;
    const double *o = head->mean + i * dv, *ov = r->shifted + t * dv;
    const double *x = head->cross + i * dv, w2 = head->length[i] * head->length[i];
    double *M = r->square, mass = 0.0, size = 0.0;
    const double *p = r->weighted + t * r->count;
    for (size_t l = 0; l < r->count; l++) mass += p[l];
    unpack(dv, r->values + t * (dv * (dv + 1) / 2), M);
    for (size_t c = 0; c < dv; c++)
        size += w2 * (M[c * dv + c] + mass * o[c] * o[c]) + mass * head->gram[c * dv + c];
    for (size_t c = 0; c < dv; c++)
        for (size_t e = 0; e < dv; e++) {
            const double moved =
                M[c * dv + e] - ov[c] * o[e] - o[c] * ov[e] + mass * o[c] * o[e];
            const double mixed =
                x[c] * (ov[e] - mass * o[e]) + x[e] * (ov[c] - mass * o[c]);
            M[c * dv + e] = mass * head->gram[c * dv + e] + mixed + w2 * moved;
        }
    const lipsc_status status = lipsc_psd_norm(dv, M, SQUARINGS, r->work, tau2);
    *tau2 += 4.0 * j->rounding * size + LOST_SQUARE * (1.0 + w2);
    return status;
}

/* |Cov_i(y, kappa)| */
static lipsc_status row_query(const lipsc_joint *j, const lipsc_joint_head *head, size_t i,
                              size_t t, room *r, double *query) {
    const size_t dv = j->dv, k = j->k, size = smaller(dv, k);
    const double *o = head->mean + i * dv, *kbar = r->kbar + t * k;
    const double *p = r->P + t * r->count;
    double *cov = r->cross + t * dv * k, value = 0.0, y2 = 0.0, k2 = 0.0;
    for (size_t c = 0; c < dv; c++)
        for (size_t e = 0; e < k; e++) cov[c * k + e] -= o[c] * kbar[e];
    for (size_t l = 0; l < r->count; l++) {
        const double *y = head->y + (r->first + l) * dv;
        const double *kappa = head->kappa + (r->first + l) * k;
        if (p[l] > 0.0) {
            y2 += p[l] * dot(dv, y, y);
            k2 += p[l] * dot(k, kappa, kappa);
        }
    }
    /* cov is k x dv column-major */
    if (dv <= k)
        lipsc_dense_gemm(1, 0, dv, dv, k, 1.0, cov, k, cov, k, 0.0, r->square, dv);
    else
        lipsc_dense_gemm(0, 1, k, k, dv, 1.0, cov, k, cov, k, 0.0, r->square, k);
    const lipsc_status status = lipsc_psd_norm(size, r->square, SQUARINGS, r->work, &value);
    *query =
        sqrt(value) + 4.0 * j->rounding * sqrt(y2) * sqrt(k2) + LOST * (1.0 + sqrt(y2));
    return status;
}

/* ---- Rows --------------------------------------------------------------------------- */

static void weigh(const lipsc_joint *j, size_t rows, room *r) {
    for (size_t t = 0; t < rows; t++)
        for (size_t l = 0; l < r->count; l++) {
            const size_t key = r->first + l;
            const double p = r->P[t * r->count + l];
            r->weighted[t * r->count + l] = key == j->sink ? 0.0 : p * j->v[key];
        }
}

static lipsc_status one_row(const lipsc_joint *j, lipsc_joint_head *head, size_t i,
                            size_t t, room *r) {
    double tau2 = 0.0;
    lipsc_status status = row_tau(j, head, i, t, r, &tau2);
    if (!status) status = row_query(j, head, i, t, r, &head->query[i]);
    for (size_t l = 0; !status && l < r->count; l++) {
        const size_t key = r->first + l;
        const double p = r->P[t * r->count + l];
        if (!(p > 0.0)) continue;
        const double ratio = weight_ratio(j, i, key);
        if (key == j->sink)
            head->to_sink[i] = p * sqrt(ratio);
        else
            head->column[key] += ratio * p * tau2 / j->v[key];
    }
    return status;
}

lipsc_status lipsc_joint_rows(const lipsc_joint *j, lipsc_joint_head *head) {
    const size_t dv = j->dv, k = j->k;
    room r = {0};
    lipsc_status status = room_new(j, &r);
    for (size_t i0 = 0; !status && i0 < j->n; i0 += TILE) {
        const size_t rows = smaller(TILE, j->n - i0);
        attend(j, head, i0, rows, &r);
        weigh(j, rows, &r);
        const double *y = head->y + r.first * dv, *kappa = head->kappa + r.first * k;
        lipsc_dense_gemm(0, 0, dv, rows, r.count, 1.0, y, dv, r.P, r.count, 0.0,
                         head->mean + i0 * dv, dv);
        lipsc_dense_gemm(0, 0, k, rows, r.count, 1.0, kappa, k, r.P, r.count, 0.0, r.kbar,
                         k);
        lipsc_dense_gemm(0, 0, dv, rows, r.count, 1.0, y, dv, r.weighted, r.count, 0.0,
                         r.shifted, dv);
        add_moments(j, y, y, dv, rows, r.weighted, &r, r.values);
        add_moments(j, y, kappa, k, rows, r.P, &r, r.cross);
        for (size_t t = 0; !status && t < rows; t++)
            status = one_row(j, head, i0 + t, t, &r);
    }
    lipsc_release(r.storage);
    return status;
}
