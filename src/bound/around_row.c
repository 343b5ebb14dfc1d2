/* around_row.c - one softmax row over all inputs whose tokens moved by at most r, and its
 * part of the bounds (docs/maths.md 3.15).
 *
 * Matrices.  Y has the rows y_j = z_j - o_i, B the rows b_j = Dq_i^T (k_j - kbar_i), and
 * S' = diag(P') - P' P'^T does not see what all rows have in common.  The moved rows are
 * Y + H, B + G with |S'^{1/2} H| <= eta and |S'^{1/2} G| <= theta, and
 *     |(Y+H)^T S' (B+G) - Y^T S B| <= (1 + sum eps) |Y^T eps Y|^{1/2} |B^T eps B|^{1/2}
 *         + eta |B^T hi B|^{1/2} + theta |Y^T hi Y|^{1/2} + eta theta.
 *
 * Value and key path.  T_ij = V + y_j w_ij^T as in row.c.  In L^2(P'_i) the moved T'
 * differs from T by at most tau_move = max|w| (eta + |sum (P'-P) y|) + omega (|Y^T hi
 * Y|^{1/2} + eta), omega >= |w' - w|.  Where w_ij = w_i the mixed terms vanish for P'
 * itself: tau' <= |V V^T + (|w| + omega)^2 Y^T hi Y|^{1/2} + (|w| + omega) eta.
 *
 * Rounding is one more move: what q, k, z and the row may have lost is part of move, eta,
 * theta and omega.  All other sums are of positive terms. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "bound/around.h"
#include "bound/around_sums.h"
#include "bound/psd.h"
#include "core/extreme.h"
#include "linalg/dense.h"

enum { EXACT = 40, LOOSE = 3 }; /* squarings: to the last digit; within a few percent */

/* ---- Sums of matrices over the row -------------------------------------------------- */

/* sum_j weight_j a_j b_j^T (width_a, width_b), column-major; squared: weight_j^2 */
static void outer_sum(lipsc_around_row *row, size_t count, const double *weight,
                      const double *length, size_t width_a, const double *a, size_t width_b,
                      const double *b, double *sum) {
    for (size_t j = 0; j < count; j++) {
        const double root = sqrt(weight[j]) * (length ? length[j] : 1.0);
        for (size_t c = 0; c < width_a; c++)
            row->pack_a[j * width_a + c] = root * a[j * width_a + c];
        if (b != a)
            for (size_t c = 0; c < width_b; c++)
                row->pack_b[j * width_b + c] = root * b[j * width_b + c];
    }
    lipsc_dense_gemm(0, 1, width_a, width_b, count, 1.0, row->pack_a, width_a,
                     b != a ? row->pack_b : row->pack_a, width_b, 0.0, sum, width_a);
}

/* What a sum over the row may have lost whose parts have traces of `size` in all. */
static double sum_slack(const lipsc_head_at *head, const lipsc_around_row *row,
                        double size) {
    return (2.0 * lipsc_row_loss(row) + 8.0 * (double)(head->d + head->dv) * DBL_EPSILON) *
           size;
}

/* norm[view] >= |a|^{1/2}, |F a F^T|^{1/2} for every a (dv, dv) within slack of this one,
 * and what stands beside it. */
static lipsc_status roots_of(const lipsc_head_at *head, const double *a, double slack,
                             int squarings, lipsc_around_row *row, double *norm) {
    const size_t dv = head->dv, rank = head->out.rank;
    double value = 0.0;
    memcpy(row->gram, a, dv * dv * sizeof *a);
    lipsc_status status = lipsc_psd_norm(dv, row->gram, squarings, row->room, &value);
    norm[0] = sqrt(value + slack) + sqrt(row->beside);
    norm[1] = 0.0;
    if (status || rank == 0) return status;
    const double *F = head->out.values;
    lipsc_dense_gemm(0, 0, rank, dv, dv, 1.0, F, rank, a, dv, 0.0, row->half, rank);
    lipsc_dense_gemm(0, 1, rank, rank, dv, 1.0, row->half, rank, F, rank, 0.0, row->gram,
                     rank);
    status = lipsc_psd_norm(rank, row->gram, squarings, row->room, &value);
    norm[1] = sqrt(value + slack * head->out.norm * head->out.norm) +
              head->out.norm * sqrt(row->beside);
    return status;
}

/* sum_j weight_j y_j y_j^T into row->sum; returns what it may have lost. */
static double spread_sum(const lipsc_head_at *head, const double *weight,
                         lipsc_around_row *row) {
    outer_sum(row, row->all, weight, NULL, head->dv, row->y, head->dv, row->y, row->sum);
    row->beside = 0.0;
    return sum_slack(head, row, lipsc_weighted_squares(row->all, weight, row->y_length));
}

/* sum_j weight_j V w_ij y_j^T into row->half, (dv, dv) */
static void mixed_sum(const lipsc_head_at *head, const double *weight,
                      lipsc_around_row *row) {
    const size_t dv = head->dv, k = head->k;
    if (head->keys_differ) {
        outer_sum(row, row->count, weight, NULL, k, row->w, dv, row->y, row->cross);
    } else {
        memset(row->mean, 0, dv * sizeof *row->mean);
        for (size_t j = 0; j < row->count; j++)
            for (size_t c = 0; c < dv; c++) row->mean[c] += weight[j] * row->y[j * dv + c];
        for (size_t c = 0; c < dv; c++)
            for (size_t l = 0; l < k; l++) row->cross[l + c * k] = row->w[l] * row->mean[c];
    }
    lipsc_dense_gemm(0, 0, dv, dv, k, 1.0, head->VKt, dv, row->cross, k, 0.0, row->half,
                     dv);
}

/* sum_j weight_j T_ij T_ij^T into row->sum, w_ij wrong by w_error at most; returns what it
 * may have lost. */
static double value_sum(const lipsc_head_at *head, const double *weight, double w_error,
                        lipsc_around_row *row) {
    const size_t dv = head->dv, count = row->count;
    double mass = 0.0, trace = 0.0, size = 0.0, w = 0.0;
    row->beside = 0.0;
    for (size_t j = 0; j < count; j++) {
        const double beside = row->w_beside[j] * row->y_length[j];
        mass += weight[j];
        row->beside += weight[j] * beside * beside;
        w = lipsc_max(w, row->w_length[j]);
    }
    mixed_sum(head, weight, row);
    outer_sum(row, count, weight, row->w_length, dv, row->y, dv, row->y, row->sum);
    for (size_t c = 0; c < dv; c++) {
        trace += head->VVt[c + c * dv];
        size += row->sum[c + c * dv] + mass * head->VVt[c + c * dv];
    }
    for (size_t c = 0; c < dv; c++)
        for (size_t e = 0; e < dv; e++)
            row->sum[e + c * dv] += mass * head->VVt[e + c * dv] + row->half[e + c * dv] +
                                    row->half[c + e * dv];
    return sum_slack(head, row, 2.0 * size) +
           4.0 * sqrt(trace) * w_error * lipsc_dot(count, weight, row->y_length) +
           (2.0 * w + w_error) * w_error *
               lipsc_weighted_squares(count, weight, row->y_length);
}

/* ---- The query term ----------------------------------------------------------------- */

/* What the part beside B adds to it: |F Y^T diag(P) b_beside| */
static void query_beside(const lipsc_head_at *head, lipsc_around_row *row, double *norm) {
    const size_t dv = head->dv, out = head->out.rank;
    memset(row->mean, 0, dv * sizeof *row->mean);
    for (size_t j = 0; j < row->all; j++)
        for (size_t c = 0; c < dv; c++)
            row->mean[c] += row->p[j] * row->b_beside[j] * row->y[j * dv + c];
    norm[0] += lipsc_length(dv, row->mean);
    if (out == 0) return;
    lipsc_dense_gemm(0, 0, out, 1, dv, 1.0, head->out.values, out, row->mean, dv, 0.0,
                     row->half, out);
    norm[1] += lipsc_length(out, row->half);
}

/* |F Y^T diag(P) B| for both views, exact */
static lipsc_status query_here(const lipsc_head_at *head, lipsc_around_row *row,
                               double *norm) {
    const size_t dv = head->dv, rank = head->Qt.rank, out = head->out.rank;
    outer_sum(row, row->all, row->p, NULL, dv, row->y, rank, row->b, row->cross);
    lipsc_status status = LIPSC_OK;
    norm[1] = 0.0;
    for (int view = 0; !status && view < (out ? LIPSC_VIEWS : 1); view++) {
        const double *a = row->cross;
        size_t rows = dv;
        if (view) {
            lipsc_dense_gemm(0, 0, out, rank, dv, 1.0, head->out.values, out, row->cross,
                             dv, 0.0, row->half, out);
            a = row->half;
            rows = out;
        }
        const size_t size = rows <= rank ? rows : rank;
        if (rows <= rank)
            lipsc_dense_gemm(0, 1, size, size, rank, 1.0, a, rows, a, rows, 0.0, row->gram,
                             size);
        else
            lipsc_dense_gemm(1, 0, size, size, rows, 1.0, a, rows, a, rows, 0.0, row->gram,
                             size);
        double value = 0.0;
        status = lipsc_psd_norm(size, row->gram, EXACT, row->room, &value);
        norm[view] = sqrt(value);
    }
    if (!status && head->query_turn.pull) query_beside(head, row, norm);
    return status;
}

typedef struct {
    double eps;                                   /* sum of eps                     */
    double eta[LIPSC_VIEWS], theta;               /* what moves in L^2(P')          */
    double y_hi[LIPSC_VIEWS], y_eps[LIPSC_VIEWS]; /* |Y^T hi Y|^{1/2} ...           */
    double b_hi, b_eps;
    double y_mean, b_mean;     /* rounding of the means */
    double y_spread, b_spread; /* of P */
} row_sizes;

static void query_terms(const lipsc_head_at *head, const double *here, const row_sizes *s,
                        lipsc_around_row *row) {
    for (int view = 0; view < LIPSC_VIEWS; view++) {
        const double out = view ? head->out.norm : 1.0;
        const double root = sqrt(s->eps);
        const double change =
            s->y_eps[view] * s->b_eps + row->drift[view] * (root * s->b_eps + s->b_mean) +
            s->eta[view] * s->b_hi + s->theta * s->y_hi[view] + s->eta[view] * s->theta +
            out * lipsc_row_loss(row) * s->y_spread * s->b_spread;
        row->query_term[view] = here[view] + change;
        if (view == 0) row->query_change = change;
    }
}

/* ---- One token ---------------------------------------------------------------------- */

/* In L^2(P'), what the moved slopes of a cap do to b: (phi' - phi) Dq'^T k */
static double bent_queries(const lipsc_around_row *row) {
    double sum = 0.0;
    for (size_t j = 0; j < row->count; j++) {
        const double move = row->slope_move[j] * row->full_b[j];
        sum += row->hi[j] * move * move;
    }
    return sqrt(sum);
}

/* And to w: the largest (phi' - phi) Dk'^T q */
static double bent_keys(const lipsc_around_row *row) {
    double largest = 0.0;
    for (size_t j = 0; j < row->count; j++)
        largest = lipsc_max(largest, row->slope_move[j] * row->full_w[j]);
    return largest;
}

static lipsc_status sizes_of(const lipsc_head_at *head, const lipsc_reach *reach, size_t i,
                             lipsc_around_row *row, row_sizes *s) {
    const size_t count = row->all, rank = head->Qt.rank;
    const lipsc_side *query = &reach->query;
    const double r = reach->r, slope = query->slope[i];
    const double key_error = lipsc_key_error(reach);
    const double g_hi = sqrt(lipsc_weighted_squares(count, row->hi, row->g_length));
    double value = 0.0;
    s->eps = 0.0;
    for (size_t j = 0; j < count; j++) s->eps += row->eps[j];
    for (int v = 0; v < LIPSC_VIEWS; v++)
        s->eta[v] = r * reach->value[v] + reach->value_error[v];
    s->theta = r * lipsc_cross_slope(reach, i) +
               slope * (key_error + reach->factor * g_hi) + r * query->bend[i] * key_error +
               r * sqrt(lipsc_weighted_squares(count, row->hi, row->b_bend)) +
               sqrt(lipsc_weighted_squares(count, row->hi, row->b_blur)) +
               bent_queries(row);
    s->b_hi = sqrt(lipsc_weighted_squares(count, row->hi, row->b_length));
    const double b_square = lipsc_weighted_squares(count, row->eps, row->b_length);
    outer_sum(row, count, row->eps, NULL, rank, row->b, rank, row->b, row->gram);
    lipsc_status status = lipsc_psd_norm(rank, row->gram, LOOSE, row->room, &value);
    s->b_eps = sqrt(value + 2.0 * lipsc_row_loss(row) * b_square) +
               sqrt(lipsc_weighted_squares(count, row->eps, row->b_beside));
    const double around = lipsc_row_loss(row);
    s->y_mean =
        around * (lipsc_dot(count, row->p, row->y_length) + row->y_length[row->top]);
    s->b_mean =
        around * (lipsc_dot(count, row->p, row->b_length) + row->b_length[row->top]) +
        slope * reach->factor * lipsc_dot(count, row->p, row->g_length);
    s->y_spread = sqrt(lipsc_weighted_squares(count, row->p, row->y_length));
    s->b_spread = sqrt(lipsc_weighted_squares(count, row->p, row->b_length));
    if (!status) {
        const double slack = spread_sum(head, row->eps, row);
        status = roots_of(head, row->sum, slack, LOOSE, row, s->y_eps);
    }
    return status;
}

/* |sum_j P'_ij y_j|, which is zero for P: by Cauchy's inequality with eps, and to first
 * order in the scores, y moving with the query as the query term says. */
static void find_drift(const lipsc_head_at *head, const lipsc_reach *reach,
                       const double *here, const row_sizes *s, lipsc_around_row *row) {
    const double r = reach->r;
    double mean = 0.0, moves = 0.0, lost = 0.0, bends = 0.0; /* under P */
    for (size_t j = 0; j < row->all; j++) {
        const double p = row->p[j], e = row->query[j] + row->move[j];
        const double beside = lipsc_max(row->query[j] - r * row->b_length[j], 0.0);
        const double bend = 0.5 * e * e * exp(e);
        mean += p * row->move[j];
        moves += p * row->move[j] * row->move[j];
        lost += p * beside * beside;
        bends += p * bend * bend;
    }
    for (int v = 0; v < LIPSC_VIEWS; v++) {
        const double out = v ? head->out.norm : 1.0;
        const double query =
            here[v] + out * lipsc_row_loss(row) * s->y_spread * s->b_spread;
        const double first =
            exp(mean) * (r * query + s->y_hi[v] * (sqrt(moves) + sqrt(lost) + sqrt(bends)));
        const double by_eps = sqrt(s->eps) * s->y_eps[v];
        row->drift[v] = (first < by_eps ? first : by_eps) + out * s->y_mean; /* no NaN */
    }
}

static double largest_of(size_t count, const double *x) {
    double largest = 0.0;
    for (size_t j = 0; j < count; j++) largest = lipsc_max(largest, x[j]);
    return largest;
}

/* max |w_ij| */
static double longest_gradient(const lipsc_around_row *row) {
    double longest = 0.0;
    for (size_t j = 0; j < row->count; j++)
        longest = lipsc_max(longest, row->w_length[j] + row->w_beside[j]);
    return longest;
}

/* P' T' - P T at the sink: (P' - P) T + P' (T' - T), and T' - T = (what y moves by) w^T +
 * y' (w' - w)^T.  What y moves by is (1 - P') times two tokens, and the drift. */
static void sink_moves(const lipsc_head_at *head, const lipsc_reach *reach, double eta,
                       double drift, double omega, lipsc_around_row *row) {
    const size_t l = reach->sink - row->lo, dv = head->dv, rank = head->out.rank;
    const double *y = row->y + l * dv;
    double size = row->y_length[l], others = row->eps[l]; /* 1 - P' at most */
    for (size_t j = 0; j < row->count; j++)
        if (j != l) others += row->p[j];
    const double shift = 2.0 * lipsc_min(others, 1.0) * eta + drift;
    if (rank) {
        lipsc_dense_gemm(0, 0, rank, 1, dv, 1.0, head->out.values, rank, y, dv, 0.0,
                         row->mean, rank);
        size = lipsc_length(rank, row->mean) +
               8.0 * (double)dv * DBL_EPSILON * head->out.norm * size;
    }
    row->sink_change = row->eps[l];
    row->sink_shift = row->hi[l] * shift;
    row->sink_turn = row->hi[l] * (size + shift) * omega;
}

/* |sum_j P'_ij (weight_j T_ij w_ij - middle y_j)|, at most, in a view; weight NULL: ones.
 * The sum runs over the keys and, with its middle, over a sink: w is zero there. */
static double mean_pull(const lipsc_head_at *head, const lipsc_reach *reach, int view,
                        const double *weight, double middle, lipsc_around_row *row) {
    const size_t k = head->k, dv = head->dv, rank = head->out.rank;
    const double out = view ? head->out.norm : 1.0;
    double *w = row->cross, *sum = row->mean, sizes = 0.0, others = 0.0;
    memset(w, 0, k * sizeof *w);
    memset(sum, 0, dv * sizeof *sum);
    for (size_t j = 0; j < row->count; j++) {
        const double share = weight ? weight[row->lo + j] : 1.0;
        const double p = row->p[j] * share, length = row->w_length[j];
        const double *own = row->w + (head->keys_differ ? j * k : 0), y = row->y_length[j];
        const double square = share * length * length, beside = row->w_beside[j];
        const double left = share * (beside * reach->value[view] +
                                     out * (2.0 * length + beside) * beside * y);
        for (size_t l = 0; l < k; l++) w[l] += p * own[l];
        for (size_t c = 0; c < dv; c++) sum[c] += p * length * length * row->y[j * dv + c];
        sizes += p * length * (reach->value[view] + out * length * y) +
                 row->p[j] * out * middle * y;
        others += row->eps[j] * (share * length * reach->value[view] +
                                 out * fabs(square - middle) * y + left) +
                  row->p[j] * left;
    }
    if (row->all > row->count)
        others += row->eps[row->count] * out * middle * row->y_length[row->count];
    lipsc_dense_gemm(0, 0, dv, 1, k, 1.0, head->VKt, dv, w, k, 1.0, sum, dv);
    if (view)
        lipsc_dense_gemm(0, 0, rank, 1, dv, 1.0, head->out.values, rank, sum, dv, 0.0, w,
                         rank);
    return lipsc_length(view ? rank : dv, view ? w : sum) + others +
           sum_slack(head, row, sizes) +
           64.0 * (double)(head->d + k) * (double)(dv + k) * DBL_EPSILON * out *
               reach->value[0] * head->Kt.norm * reach->query.largest_length;
}

/* Of sum_j P'_ij (T_ij - a w_ij^T)(..)^T, a = sum_j P'_ij y_j at most drift, root^2 being
 * that of sum_j hi_ij T_ij T_ij^T: with f = sum_j P'_ij (T_ij w_ij - middle y_j) it is
 * sum_j P'_ij T_ij T_ij^T - a f^T - f a^T + (sum_j P'_ij |w_ij|^2 - 2 middle) a a^T. */
static double drifted_root(const lipsc_head_at *head, const lipsc_reach *reach, int view,
                           double root, lipsc_around_row *row) {
    const double drift = row->drift[view], w = longest_gradient(row);
    const double middle = lipsc_weighted_squares(row->count, row->p, row->w_length);
    double most = 0.0;
    for (size_t j = 0; j < row->count; j++) {
        const double own = row->w_length[j] + row->w_beside[j];
        most += row->hi[j] * own * own;
    }
    const double pull = mean_pull(head, reach, view, NULL, middle, row);
    const double joint = sqrt(root * root + 2.0 * drift * pull +
                              lipsc_max(most - 2.0 * middle, 0.0) * drift * drift);
    const double apart = root + w * drift;
    return joint < apart ? joint : apart; /* no NaN */
}

/* tau_weighted: as tau with the weights hi_ij weight_j.  Here the mixed terms stay, and
 * y_j + eta_j less the mean at X' is y_j up to 2 eta and the drift of the mean, which is
 * the same for all j: its square, and its product with a mean. */
static lipsc_status weighted_terms(const lipsc_head_at *head, const lipsc_reach *reach,
                                   const row_sizes *s, double w_error, double omega,
                                   lipsc_around_row *row) {
    const size_t count = row->count;
    const int view = head->out.rank ? 1 : 0;
    const double out = view ? head->out.norm : 1.0;
    double *weight = row->move, mass = 0.0, root[LIPSC_VIEWS]; /* moves are done with */
    for (size_t j = 0; j < count; j++) {
        weight[j] = row->hi[j] * reach->weight[row->lo + j];
        mass += weight[j];
    }
    const double slack = value_sum(head, weight, w_error, row);
    const lipsc_status status = roots_of(head, row->sum, slack, EXACT, row, root);
    const double spread = lipsc_min(
        s->y_hi[view], out * sqrt(lipsc_weighted_squares(count, weight, row->y_length)));
    const double drift = row->drift[view], w = longest_gradient(row);
    const double apart = root[view] + w * sqrt(mass) * drift;
    const double pull = mean_pull(head, reach, view, reach->weight, 0.0, row);
    const double joint =
        sqrt(root[view] * root[view] + 2.0 * drift * pull + w * w * mass * drift * drift);
    row->tau_weighted = (joint < apart ? joint : apart) + /* no NaN */
                        (w + omega) * lipsc_min(2.0 * sqrt(mass), 1.0) * s->eta[view] +
                        omega * (spread + sqrt(mass) * drift);
    if (reach->sink >= row->lo && reach->sink < row->lo + count)
        sink_moves(head, reach, s->eta[view], drift, omega, row);
    return status;
}

/* tau, rho and the changes; row_sizes without y_hi, which is filled in. */
static lipsc_status value_terms(const lipsc_head_at *head, const lipsc_reach *reach,
                                size_t i, const double *here, row_sizes *s,
                                lipsc_around_row *row) {
    const size_t count = row->count, dv = head->dv;
    const lipsc_side *query = &reach->query, *key = &reach->key;
    const double r = reach->r, q = query->length[i];
    const double w = longest_gradient(row);
    const double w_error = key->largest_slope * (query->error[i] + reach->factor * q);
    const double omega =
        r * (lipsc_cross_slope(reach, i) + key->largest_bend * query->error[i] +
             largest_of(count, row->w_bend)) +
        largest_of(count, row->w_blur) + w_error + bent_keys(row);
    /* else the mixed terms vanish for P' itself */
    const int mixed = head->keys_differ || row->all > count;
    double moved[LIPSC_VIEWS], root[LIPSC_VIEWS];

    double slack = spread_sum(head, row->hi, row);
    lipsc_status status = roots_of(head, row->sum, slack, LOOSE, row, s->y_hi);
    if (status) return status;
    find_drift(head, reach, here, s, row);
    for (int v = 0; v < LIPSC_VIEWS; v++)
        moved[v] = w * (s->eta[v] + row->drift[v]) + omega * (s->y_hi[v] + s->eta[v]);
    row->tau_move = moved[0];
    row->tau[1] = 0.0; /* without O */

    if (mixed) {
        slack = value_sum(head, row->hi, w_error, row);
    } else {
        const double square = (w + omega) * (w + omega);
        double trace = 0.0;
        for (size_t c = 0; c < dv; c++) trace += head->VVt[c + c * dv];
        for (size_t e = 0; e < dv * dv; e++)
            row->sum[e] = head->VVt[e] + square * row->sum[e];
        slack = square * slack + sum_slack(head, row, trace);
    }
    status = roots_of(head, row->sum, slack, EXACT, row, root);
    if (status) return status;
    for (int v = 0; v < (head->out.rank ? LIPSC_VIEWS : 1); v++)
        row->tau[v] = mixed ? drifted_root(head, reach, v, root[v], row) + w * s->eta[v] +
                                  omega * (s->y_hi[v] + s->eta[v])
                            : root[v] + (w + omega) * s->eta[v];

    slack = value_sum(head, row->eps, w_error, row);
    status = roots_of(head, row->sum, slack, LOOSE, row, root);
    row->tau_eps = root[0];
    if (!status) status = weighted_terms(head, reach, s, w_error, omega, row);
    if (status) return status;

    const double largest = sqrt(largest_of(count, row->hi));
    double *square = row->query; /* not needed any more */
    for (size_t j = 0; j < count; j++) square[j] = row->hi[j] * row->hi[j];
    slack = value_sum(head, square, w_error, row);
    status = roots_of(head, row->sum, slack, EXACT, row, root);
    for (int v = 0; v < LIPSC_VIEWS; v++)
        row->rho[v] = lipsc_min(root[v] + largest * moved[v], largest * row->tau[v]);
    return status;
}

void lipsc_around_row_weigh(const lipsc_head_at *head, const lipsc_reach *reach, size_t i,
                            lipsc_around_row *row, double *size) {
    const int view = head->out.rank ? 1 : 0;
    const double out = view ? head->out.norm / head->out_unit : 1.0;
    const double V = reach->value[view] / (view ? head->out_unit : 1.0);
    lipsc_around_attend(head, i, row);
    const double w = head->Kt.norm * reach->query.length[i] * out;
    *size =
        (V * V + 0.05 * w * w * lipsc_weighted_squares(row->all, row->p, row->y_length)) /
        head->unit / head->unit;
}

lipsc_status lipsc_around_row_make(const lipsc_head_at *head, const lipsc_reach *reach,
                                   size_t i, lipsc_around_row *row) {
    double here[LIPSC_VIEWS];
    row_sizes sizes;
    lipsc_status status = lipsc_around_ends(head, reach, i, row);
    if (!status) status = sizes_of(head, reach, i, row, &sizes);
    if (!status) status = query_here(head, row, here);
    if (!status) status = value_terms(head, reach, i, here, &sizes, row);
    if (!status) query_terms(head, here, &sizes, row);
    return status;
}
