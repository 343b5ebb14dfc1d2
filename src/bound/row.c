/* row.c - what one token contributes to the bounds of its head.
 *
 * With o_i = sum_j P_ij z_j, delta_j = z_j - o_i and w_ij the gradient of the score s_ij
 * with respect to key token j, block (i, j) of the Jacobian of a head is
 *
 *     (i == j) Cov_i(z, key) Dq_i  +  P_ij T_ij,     T_ij = V + delta_j w_ij^T   (dv x d)
 *
 * Query term.  The blocks stand on the diagonal: its norm is max_i |Cov_i(z, key) Dq_i|,
 * with Dq_i = scale Rot_i Norm'_i Q.  Rot and Norm' are applied to the rows of the
 * covariance, Q through its factor.
 *
 * Columns.  By Cauchy-Schwarz with the weights P_ij, for a unit vector e,
 *     (e . sum_j P_ij T_ij h_j)^2 <= (sum_j P_ij |T_ij^T e|^2) (sum_j P_ij |h_j|^2),
 * and the first factor is e^T M_i e with M_i = sum_j P_ij T_ij T_ij^T.  So
 *     |(B h)_i|^2 <= tau_i^2 sum_j P_ij |h_j|^2,     tau_i^2 = largest eigenvalue of M_i.
 * This is docs/maths.md 3.2 with V kept inside.  Where keys are neither turned nor
 * normalised, w_ij = w_i = K^T q_i, the mixed terms vanish because delta has mean zero, and
 *     M_i = V V^T + |w_i|^2 Cov_i(z)   <=   |V|^2 (1 + |w_i|^2 lambda_max(C_i)),
 * which is the factor of UB_data (3.3).  Otherwise w_ij = K^T Norm'_j^T Rot_j^T q_i and
 *     M_i = V V^T + sum_j P_ij (V w_ij delta_j^T + delta_j w_ij^T V^T
 *                               + |w_ij|^2 delta_j delta_j^T):
 * by the triangle inequality in L^2(P_i) it is below the tau_i of 3.13, which puts
 * |q_i| max_j |Norm'_j K| in the place of |w_ij|.
 *
 * Rows.  The i-th row of B has norm rho_i, rho_i^2 = largest eigenvalue of
 *     N_i = sum_j P_ij^2 T_ij T_ij^T,
 * the same sum with P_ij^2 in the place of P_ij; there the mixed terms stay.
 *
 * After a slice W of the output projection T_ij becomes W T_ij: the same matrices between
 * F and F^T, with the factor F of W in the place of W.
 *
 * Everything is summed around the mean, which is itself found from differences to the
 * row's largest entry, so that nearly one-hot rows keep their digits.  Cost of M or N: one
 * product of value_dim^2 times the visible keys, three with turned keys.  The query term
 * is a maximum: it is computed only where a cheap cover of it, a product of traces and
 * then a Frobenius norm, exceeds what was found before. */
#include "bound/head.h"
#include "bound/psd.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

#include <math.h>
#include <string.h>

enum { CHUNK = 128 };    /* keys packed at once: they stay in the cache              */
enum { SQUARINGS = 40 }; /* at most, of lipsc_psd_norm: it ends where 1e-10 is left  */

/* ---- The softmax row and its means ------------------------------------------------- */

static void softmax_row(const lipsc_head_at *head, size_t i, lipsc_head_row *row) {
    const size_t k = head->k, lo = head->rows->lo[i], count = head->rows->hi[i] - lo;
    double *p = row->p;
    lipsc_dense_gemm(1, 0, count, 1, k, 1.0, head->key + lo * k, k, head->q + i * k, k, 0.0,
                     p, count);
    lipsc_head_finish(head, i, p, row->slope);
    size_t top = 0;
    for (size_t j = 1; j < count; j++)
        if (p[j] > p[top]) top = j;
    row->top = lo + top;
    row->at_sink = head->sink > p[top];
    row->largest = row->at_sink ? head->sink : p[top];
    row->total = exp(head->sink - row->largest);
    for (size_t j = 0; j < count; j++) row->total += p[j] = exp(p[j] - row->largest);
    for (size_t j = 0; j < count; j++) p[j] /= row->total;
    row->sink = exp(head->sink - row->largest) / row->total;
    row->key = head->cap > 0.0 ? row->bent : head->key;
    for (size_t j = 0; head->cap > 0.0 && j < count; j++)
        for (size_t l = 0; l < k; l++)
            row->bent[(lo + j) * k + l] = row->slope[j] * head->key[(lo + j) * k + l];
}

/* The vector that those of a row are taken from: that of its largest entry. */
static const double *origin(const lipsc_head_row *row, size_t width, const double *y) {
    return row->at_sink ? row->zero : y + row->top * width;
}

/* mean = sum_j P_ij (y_j - y_top), the sink being zero */
static void row_mean(const lipsc_head_at *head, size_t i, const lipsc_head_row *row,
                     size_t width, const double *y, double *mean) {
    const size_t lo = head->rows->lo[i], hi = head->rows->hi[i];
    const double *y_top = origin(row, width, y);
    for (size_t c = 0; c < width; c++) mean[c] = -row->sink * y_top[c];
    for (size_t j = lo; j < hi; j++) {
        const double p = row->p[j - lo], *y_j = y + j * width;
        for (size_t c = 0; c < width; c++) mean[c] += p * (y_j[c] - y_top[c]);
    }
}

/* to = factor (y_j - mean of the row) */
static void centred(const lipsc_head_row *row, size_t width, const double *y,
                    const double *y_j, const double *mean, double factor, double *to) {
    const double *y_top = origin(row, width, y);
    for (size_t c = 0; c < width; c++) to[c] = factor * (y_j[c] - y_top[c] - mean[c]);
}

/* ---- M and N ------------------------------------------------------------------------ */

/* What rounding can have done to |K^T g|. */
static double factor_slack(const lipsc_head_at *head, const double *g) {
    double square = 0.0;
    for (size_t l = 0; l < head->k; l++) square += g[l] * g[l];
    return head->rounding * head->Kt.norm * sqrt(square);
}

/* Gradients of the scores with respect to the raw keys first .. first+count-1 into pack_k,
 * their lengths |w_ij| = |K^T g| into length. */
static void turned_gradients(const lipsc_head_at *head, size_t i, size_t first,
                             size_t count, lipsc_head_row *row, double *length) {
    const size_t k = head->k, rank = head->Kt.rank;
    for (size_t j = 0; j < count; j++) {
        const double slope = row->slope[first + j - head->rows->lo[i]];
        double *g = row->pack_k + j * k;
        memcpy(g, head->q + i * k, k * sizeof *g);
        row->beside[j] = slope * lipsc_turn_beside(&head->key_turn, first + j, g);
        lipsc_turn_back(&head->key_turn, first + j, g);
        for (size_t l = 0; l < k; l++) g[l] *= slope;
    }
    lipsc_dense_gemm(0, 0, rank, count, k, 1.0, head->Kt.values, rank, row->pack_k, k, 0.0,
                     row->pack_w, rank);
    for (size_t j = 0; j < count; j++) {
        double square = 0.0;
        for (size_t l = 0; l < rank; l++)
            square += row->pack_w[j * rank + l] * row->pack_w[j * rank + l];
        length[j] = sqrt(square) + factor_slack(head, row->pack_k + j * k);
    }
}

/* |K^T q_i| */
static double plain_length(const lipsc_head_at *head, size_t i, lipsc_head_row *row) {
    const size_t k = head->k, rank = head->Kt.rank;
    lipsc_dense_gemm(0, 0, rank, 1, k, 1.0, head->Kt.values, rank, head->q + i * k, k, 0.0,
                     row->vec, rank);
    double square = 0.0;
    for (size_t l = 0; l < rank; l++) square += row->vec[l] * row->vec[l];
    return sqrt(square) + factor_slack(head, head->q + i * k);
}

/* a += x y^T + y x^T with x = V K^T q_i; (dv, dv) */
static void add_plain_cross(const lipsc_head_at *head, size_t i, const double *y,
                            lipsc_head_row *row, double *a) {
    const size_t dv = head->dv, k = head->k;
    double *x = row->vec;
    lipsc_dense_gemm(0, 0, dv, 1, k, 1.0, head->VKt, dv, head->q + i * k, k, 0.0, x, dv);
    for (size_t c = 0; c < dv; c++)
        for (size_t r = 0; r < dv; r++) a[r + c * dv] += x[r] * y[c] + y[r] * x[c];
}

/* a += V K^T G + (V K^T G)^T, G = row->cross */
static void add_turned_cross(const lipsc_head_at *head, lipsc_head_row *row, double *a) {
    const size_t dv = head->dv, k = head->k;
    double *x = row->work[0];
    lipsc_dense_gemm(0, 0, dv, dv, k, 1.0, head->VKt, dv, row->cross, k, 0.0, x, dv);
    for (size_t c = 0; c < dv; c++)
        for (size_t r = 0; r < dv; r++) a[r + c * dv] += x[r + c * dv] + x[c + r * dv];
}

/* What is added to a matrix of row sums: `size`, the traces of its positive parts and that
 * of the sink, is the scale of its rounding errors; `beside` bounds the part of it that
 * lipsc_turn_beside has. */
typedef struct {
    double size, beside;
} sum_scale;

/* row->sum = sum_j P_ij^power T_ij T_ij^T, over the keys: a sink has no direction. */
static sum_scale value_sum(const lipsc_head_at *head, size_t i, int power,
                           lipsc_head_row *row) {
    const size_t dv = head->dv, k = head->k, lo = head->rows->lo[i], hi = head->rows->hi[i];
    const int crossed = power == 2 || head->keys_differ || row->sink > 0.0;
    double *sum = row->sum, *shift = row->work[1], mass = 0.0, longest = 0.0;
    sum_scale scale = {0.0, 0.0};
    double length[CHUNK];
    const double constant = head->keys_differ ? 0.0 : plain_length(head, i, row);
    memset(shift, 0, dv * sizeof *shift); /* sum_j P_ij^power delta_j */
    for (size_t first = lo; first < hi; first += CHUNK) {
        const size_t count = min_size(CHUNK, hi - first);
        const double *p = row->p + (first - lo), beta = first == lo ? 0.0 : 1.0;
        for (size_t j = 0; j < count; j++) length[j] = constant;
        if (head->keys_differ) turned_gradients(head, i, first, count, row, length);
        for (size_t j = 0; j < count; j++) {
            const double root = power == 2 ? p[j] : sqrt(p[j]);
            double *delta = row->pack_z + j * dv;
            mass += root * root;
            if (!(length[j] <= longest)) longest = length[j];
            centred(row, dv, head->z, head->z + (first + j) * dv, row->mean_z, root, delta);
            if (head->key_turn.pull)
                scale.beside +=
                    lipsc_dot(dv, delta, delta) * row->beside[j] * row->beside[j];
            for (size_t c = 0; c < dv; c++) delta[c] *= length[j];
        }
        lipsc_dense_gemm(0, 1, dv, dv, count, 1.0, row->pack_z, dv, row->pack_z, dv, beta,
                         sum, dv);
        if (!crossed) continue;
        for (size_t j = 0; j < count; j++) {
            double *delta = row->pack_z + j * dv;
            centred(row, dv, head->z, head->z + (first + j) * dv, row->mean_z,
                    power == 2 ? p[j] * p[j] : p[j], delta);
            for (size_t c = 0; c < dv; c++) shift[c] += delta[c];
        }
        if (head->keys_differ)
            lipsc_dense_gemm(0, 1, k, dv, count, 1.0, row->pack_k, k, row->pack_z, dv, beta,
                             row->cross, k);
    }
    for (size_t c = 0; c < dv; c++)
        scale.size += sum[c + c * dv] + mass * head->VVt[c + c * dv];
    if (row->sink > 0.0) {
        centred(row, dv, head->z, row->zero, row->mean_z,
                longest * (power == 2 ? row->sink : sqrt(row->sink)), row->vec);
        scale.size += lipsc_dot(dv, row->vec, row->vec);
    }
    for (size_t e = 0; e < dv * dv; e++) sum[e] += mass * head->VVt[e];
    if (head->keys_differ)
        add_turned_cross(head, row, sum);
    else if (crossed)
        add_plain_cross(head, i, shift, row, sum);
    return scale;
}

/* (sqrt(value) + sqrt(beside))^2 */
static double add_beside(double value, double rounding, double beside) {
    if (!(beside > 0.0 || isnan(beside))) return value;
    const double root = sqrt(value) + (1.0 + rounding) * sqrt(beside);
    return root * root;
}

/* value[view] = largest eigenvalue of F sum F^T, F the identity or the factor of O */
static lipsc_status sum_eigenvalues(const lipsc_head_at *head, sum_scale scale,
                                    lipsc_head_row *row, double *value) {
    const size_t dv = head->dv, rank = head->out.rank;
    double *square = row->work[0], *half = row->work[1];
    const double slack = head->rounding * scale.size;
    memcpy(square, row->sum, dv * dv * sizeof *square);
    lipsc_status status = lipsc_psd_norm(dv, square, SQUARINGS, row->power, &value[0]);
    value[0] = add_beside(value[0] + slack, head->rounding, scale.beside);
    if (status || rank == 0) return status;
    const double *F = head->out.values;
    lipsc_dense_gemm(0, 0, rank, dv, dv, 1.0, F, rank, row->sum, dv, 0.0, half, rank);
    lipsc_dense_gemm(0, 1, rank, rank, dv, 1.0, half, rank, F, rank, 0.0, square, rank);
    status = lipsc_psd_norm(rank, square, SQUARINGS, row->power, &value[1]);
    const double out2 = head->out.norm * head->out.norm;
    value[1] = add_beside(value[1] + slack * out2, head->rounding, scale.beside * out2);
    return status;
}

/* ---- The query term ----------------------------------------------------------------- */

/* trace of Cov_i(y) */
static double spread(const lipsc_head_at *head, size_t i, const lipsc_head_row *row,
                     size_t width, const double *y, const double *mean, double *room) {
    const size_t lo = head->rows->lo[i], hi = head->rows->hi[i];
    double *squares = room;
    double sum = 0.0;
    const double *y_top = origin(row, width, y);
    for (size_t c = 0; c < width; c++) {
        const double delta = y_top[c] + mean[c]; /* of the sink */
        squares[c] = row->sink * delta * delta;
    }
    for (size_t j = lo; j < hi; j++) {
        const double p = row->p[j - lo], *y_j = y + j * width;
        for (size_t c = 0; c < width; c++) {
            const double delta = y_j[c] - y_top[c] - mean[c];
            squares[c] += p * delta * delta;
        }
    }
    for (size_t c = 0; c < width; c++) sum += squares[c];
    return sum;
}

/* row->cov = Cov_i(z, key) Rot_i Norm'_i, (dv, k) column-major; returns what
 * lipsc_turn_beside leaves out of its product with Dq_i */
static double covariance(const lipsc_head_at *head, size_t i, lipsc_head_row *row) {
    const size_t dv = head->dv, k = head->k, lo = head->rows->lo[i], hi = head->rows->hi[i];
    for (size_t first = lo; first < hi; first += CHUNK) {
        const size_t count = min_size(CHUNK, hi - first);
        for (size_t j = 0; j < count; j++) {
            const double root = sqrt(row->p[first - lo + j]);
            centred(row, dv, head->z, head->z + (first + j) * dv, row->mean_z, root,
                    row->pack_z + j * dv);
            centred(row, k, row->key, row->key + (first + j) * k, row->mean_k, root,
                    row->pack_k + j * k);
        }
        lipsc_dense_gemm(0, 1, dv, k, count, 1.0, row->pack_z, dv, row->pack_k, k,
                         first == lo ? 0.0 : 1.0, row->cov, dv);
    }
    if (row->sink > 0.0) {
        const double root = sqrt(row->sink);
        centred(row, dv, head->z, row->zero, row->mean_z, root, row->pack_z);
        centred(row, k, row->key, row->zero, row->mean_k, root, row->pack_k);
        lipsc_dense_gemm(0, 1, dv, k, 1, 1.0, row->pack_z, dv, row->pack_k, k, 1.0,
                         row->cov, dv);
    }
    if (!head->query_turn.gain && head->query_turn.half == 0) return 0.0;
    double beside = 0.0;
    for (size_t c = 0; c < dv; c++) {
        for (size_t l = 0; l < k; l++) row->vec[l] = row->cov[c + l * dv];
        const double own = lipsc_turn_beside(&head->query_turn, i, row->vec);
        beside += own * own;
        lipsc_turn_back(&head->query_turn, i, row->vec);
        for (size_t l = 0; l < k; l++) row->cov[c + l * dv] = row->vec[l];
    }
    return fabs(head->scale) * sqrt(beside);
}

/* A maximum need not be computed where this cover of it does not reach `found`; the
 * margin keeps the result free of the order in which tokens came. */
static int exceeds(double cover, double found) { return !(cover * (1.0 + 1e-9) < found); }

/* Raises *found to the norm of a (rows, cols) and `beside`. */
static lipsc_status raise_to_norm(size_t rows, size_t cols, const double *a, double beside,
                                  lipsc_head_row *row, double *found) {
    double *gram = row->work[2], square = 0.0, value = 0.0;
    for (size_t e = 0; e < rows * cols; e++) square += a[e] * a[e];
    if (!exceeds(sqrt(square) + beside, *found)) return LIPSC_OK;
    const size_t size = min_size(rows, cols);
    if (rows <= cols)
        lipsc_dense_gemm(0, 1, size, size, cols, 1.0, a, rows, a, rows, 0.0, gram, size);
    else
        lipsc_dense_gemm(1, 0, size, size, rows, 1.0, a, rows, a, rows, 0.0, gram, size);
    lipsc_status status = lipsc_psd_norm(size, gram, SQUARINGS, row->power, &value);
    if (!status) *found = lipsc_max(*found, sqrt(value) + beside);
    return status;
}

/* |y_head| |W^T y| / (m r^3): what the radius of a norm over all heads adds to |Dq_i|, but
 * for scale and gains */
static double whole_stretch(const lipsc_turn *turn, size_t i) {
    const double inverse = turn->inverse[i];
    return inverse * inverse * turn->pull[i] / (double)turn->norm_width *
           lipsc_length(turn->width, turn->raw + i * turn->width);
}

static lipsc_status query_term(const lipsc_head_at *head, size_t i, lipsc_head_row *row) {
    const size_t dv = head->dv, k = head->k, rank = head->Qt.rank;
    double stretch = fabs(head->scale) * head->Qt.norm; /* of Dq_i, at least */
    if (head->query_turn.gain) {
        double gain = 0.0;
        for (size_t l = 0; l < k; l++)
            gain = lipsc_max(gain, fabs(head->query_turn.gain[l]));
        stretch *= gain * head->query_turn.inverse[i];
        if (head->query_turn.pull)
            stretch += fabs(head->scale) * gain * whole_stretch(&head->query_turn, i);
    }
    const double spread_z = spread(head, i, row, dv, head->z, row->mean_z, row->vec);
    const double spread_k = spread(head, i, row, k, row->key, row->mean_k, row->vec);
    const double cover = stretch * sqrt(spread_z) * sqrt(spread_k);
    if (!(cover <= row->cover)) row->cover = cover; /* a NaN stays */
    if (!exceeds(cover, row->query[0]) &&
        (head->out.rank == 0 || !exceeds(cover * head->out.norm, row->query[1])))
        return LIPSC_OK;

    const double beside = (1.0 + head->rounding) * covariance(head, i, row);
    double *product = row->work[0], *after = row->work[1];
    lipsc_dense_gemm(0, 1, dv, rank, k, head->scale, row->cov, dv, head->Qt.values, rank,
                     0.0, product, dv);
    lipsc_status status = raise_to_norm(dv, rank, product, beside, row, &row->query[0]);
    if (status || head->out.rank == 0) return status;
    lipsc_dense_gemm(0, 0, head->out.rank, rank, dv, 1.0, head->out.values, head->out.rank,
                     product, dv, 0.0, after, head->out.rank);
    return raise_to_norm(head->out.rank, rank, after, beside * head->out.norm, row,
                         &row->query[1]);
}

/* ---- One token ---------------------------------------------------------------------- */

lipsc_status lipsc_head_row_columns(const lipsc_head_at *head, size_t i,
                                    lipsc_head_row *row) {
    softmax_row(head, i, row);
    row_mean(head, i, row, head->dv, head->z, row->mean_z);
    row_mean(head, i, row, head->k, row->key, row->mean_k);
    const sum_scale scale = value_sum(head, i, 1, row);
    lipsc_status status = sum_eigenvalues(head, scale, row, row->tau2);
    return status ? status : query_term(head, i, row);
}

lipsc_status lipsc_head_row_rows(const lipsc_head_at *head, size_t i, lipsc_head_row *row) {
    softmax_row(head, i, row);
    row_mean(head, i, row, head->dv, head->z, row->mean_z);
    const sum_scale scale = value_sum(head, i, 2, row);
    return sum_eigenvalues(head, scale, row, row->rho2);
}

lipsc_status lipsc_head_row_new(const lipsc_head_at *head, lipsc_head_row *row) {
    const size_t n = head->n, k = head->k, dv = head->dv, m = max_size(k, dv);
    double **const arrays[] = {&row->p,       &row->mean_z, &row->mean_k,  &row->pack_z,
                               &row->pack_k,  &row->pack_w, &row->vec,     &row->sum,
                               &row->cross,   &row->cov,    &row->work[0], &row->work[1],
                               &row->work[2], &row->power,  &row->slope,   &row->bent,
                               &row->beside,  &row->zero};
    const size_t bent = head->cap > 0.0 ? n : 1;
    const size_t rows[] = {n,  1, 1, CHUNK, CHUNK, CHUNK, 1,    dv,    k,
                           dv, m, m, m,     m,     n,     bent, CHUNK, 1};
    const size_t cols[] = {1, dv, k, dv, k, k, m, dv, dv, k, m, m, m, m, 1, k, 1, m};
    int failed = 0;
    memset(row, 0, sizeof *row);
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) {
        size_t count;
        if (lipsc_mul_size(rows[a], cols[a], &count))
            *arrays[a] = lipsc_alloc_zero(count, sizeof(double));
        failed |= !*arrays[a];
    }
    return failed ? LIPSC_E_NOMEM : LIPSC_OK;
}

void lipsc_head_row_free(lipsc_head_row *row) {
    double *const arrays[] = {
        row->p,       row->mean_z, row->mean_k, row->pack_z, row->pack_k,  row->pack_w,
        row->vec,     row->sum,    row->cross,  row->cov,    row->work[0], row->work[1],
        row->work[2], row->power,  row->slope,  row->bent,   row->beside,  row->zero};
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) lipsc_release(arrays[a]);
}
