/* around_ends.c - one softmax row whose scores move: the ends of its weights (docs/maths.md
 * 3.15, "Weights").
 *
 * Up to a number that is the same for all j,
 *     s'_ij - s_ij = (q'_i - q_i).(k_j - kbar_i) + q_i.(k'_j - k_j) + (q'_i - q_i).(k'_j -
 * k_j), at most query_j + move_j = e_j in size, with mean zero of the first part under P_i.
 * By Jensen's inequality for the other keys
 *     P'_ij <= P e^E / (P e^E + 1 - P),    E = query_j/(1-P) + move_j + mean of move over
 * l != j, and with N = sum_{l != j} P_il (e^{e_l + e_j} - 1),
 *     P'_ij >= P / (1 + N),    P'_ij >= P e^-L,    L = query_j + (1-P) move_j
 *         + sum_{l != j} P_il move_l + sum_l P_il e_l^2 e^{e_l} / 2.
 * A sink in the softmax is one more key, zero and at rest. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "bound/around.h"
#include "bound/around_sums.h"
#include "core/extreme.h"
#include "linalg/dense.h"

/* ---- The row and what is attached to its keys --------------------------------------- */

static void softmax(const lipsc_head_at *head, size_t i, lipsc_around_row *row) {
    const size_t k = head->k, lo = head->rows->lo[i], count = head->rows->hi[i] - lo;
    double *s = row->log_p, total = 0.0;
    row->lo = lo;
    row->count = row->all = count;
    row->top = 0;
    lipsc_dense_gemm(1, 0, count, 1, k, 1.0, head->key + lo * k, k, head->q + i * k, k, 0.0,
                     s, count);
    lipsc_head_finish(head, i, s, row->slope);
    for (size_t j = 0; head->cap > 0.0 && j < count; j++)
        for (size_t l = 0; l < k; l++)
            row->bent[j * k + l] = row->slope[j] * head->key[(lo + j) * k + l];
    if (head->sink > -INFINITY) s[row->all++] = head->sink;
    for (size_t j = 1; j < row->all; j++)
        if (s[j] > s[row->top]) row->top = j;
    const double largest = s[row->top];
    for (size_t j = 0; j < row->all; j++) total += row->p[j] = exp(s[j] -= largest);
    const double log_total = log(total);
    for (size_t j = 0; j < row->all; j++) {
        row->p[j] /= total;
        s[j] -= log_total;
    }
}

/* y_j - mean of the row, found from differences to the row's largest entry; base has the y
 * of the visible keys, that of the sink is zero. */
static void centre(const lipsc_around_row *row, size_t width, const double *base,
                   double *mean, double *to, double *length) {
    const double *top = row->top < row->count ? base + row->top * width : row->zero;
    memset(mean, 0, width * sizeof *mean);
    for (size_t j = 0; j < row->all; j++) {
        const double *own = j < row->count ? base + j * width : row->zero;
        for (size_t c = 0; c < width; c++) {
            to[j * width + c] = own[c] - top[c];
            mean[c] += row->p[j] * to[j * width + c];
        }
    }
    for (size_t j = 0; j < row->all; j++) {
        for (size_t c = 0; c < width; c++) to[j * width + c] -= mean[c];
        length[j] = lipsc_length(width, to + j * width);
    }
}

/* to (count, rank) = factor F from (count, k), and the lengths */
static void through_factor(const lipsc_factor *F, double factor, size_t count,
                           const double *from, double *to, double *length) {
    lipsc_dense_gemm(0, 0, F->rank, count, F->cols, factor, F->values, F->rank, from,
                     F->cols, 0.0, to, F->rank);
    for (size_t j = 0; j < count; j++) length[j] = lipsc_length(F->rank, to + j * F->rank);
}

/* What Dq_i^T g, of length `length` as computed, changes by: r bend + blur. */
typedef struct {
    double along, size; /* c . u and |c| of c = gain o Rot^T g */
    int whole;          /* the norm is one over all heads: `length` has no W^T u */
} seen_by_norm;

static void bend_of(const lipsc_reach *reach, const lipsc_norm_move *norm, double scale,
                    double W, double length, seen_by_norm seen, double *bend,
                    double *blur) {
    /* W^T c = rho (Dq^T g) / scale + (c . u) W^T u */
    const double pull = norm->rho * (scale > 0.0 ? length / scale : 0.0) +
                        (seen.whole ? 0.0 : fabs(seen.along) * norm->pull) +
                        reach->factor * W * seen.size;
    *bend = lipsc_norm_bend(norm, pull, seen.along, seen.size);
    *blur = norm->blur * seen.size;
}

/* (c . u) |W^T u| / rho of a norm that all heads share, which is not in the space of the
 * head; a sign that rounding may have lost belongs to nearly nothing */
static double beside_of(const lipsc_reach *reach, const lipsc_norm_move *norm,
                        seen_by_norm seen) {
    const double lost = reach->factor * seen.size;
    if (!seen.whole) return 0.0;
    return (seen.along < 0.0 ? seen.along - lost : seen.along + lost) * norm->pull /
           norm->rho;
}

/* b_j = Dq_i^T g_j */
static void query_gradients(const lipsc_head_at *head, const lipsc_reach *reach, size_t i,
                            lipsc_around_row *row) {
    const size_t k = head->k;
    const lipsc_norm_move *norm = reach->query.norm;
    const double *g = row->g;
    if (norm || head->query_turn.half) {
        memcpy(row->pack_a, row->g, row->all * k * sizeof *row->g);
        for (size_t j = 0; j < row->all; j++) /* c . u and |c| wait in the places */
            lipsc_turn_back_from(&head->query_turn, i, row->pack_a + j * k, &row->b_bend[j],
                                 &row->b_blur[j]);
        g = row->pack_a;
    }
    through_factor(&head->Qt, head->scale, row->all, g, row->b, row->b_length);
    for (size_t j = 0; norm && j < row->all; j++) {
        const int whole = head->query_turn.pull != NULL;
        const seen_by_norm seen = {row->b_bend[j], row->b_blur[j], whole};
        bend_of(reach, norm + i, fabs(head->scale), head->Qt.norm, row->b_length[j], seen,
                &row->b_bend[j], &row->b_blur[j]);
        row->b_beside[j] = fabs(head->scale) * beside_of(reach, norm + i, seen);
        row->b_length[j] += fabs(row->b_beside[j]);
    }
}

/* full_b: of the keys as they are, at every input of the neighbourhood */
static void whole_query_gradients(const lipsc_head_at *head, const lipsc_reach *reach,
                                  size_t i, lipsc_around_row *row) {
    const size_t k = head->k;
    const lipsc_side *query = &reach->query;
    double *along = row->w_beside, *size = row->full_w; /* which are not there yet */
    memcpy(row->pack_a, head->key + row->lo * k, row->count * k * sizeof *row->pack_a);
    for (size_t j = 0; j < row->count; j++)
        lipsc_turn_back_from(&head->query_turn, i, row->pack_a + j * k, &along[j],
                             &size[j]);
    through_factor(&head->Qt, head->scale, row->count, row->pack_a, row->b, row->full_b);
    for (size_t j = 0; j < row->count; j++) {
        const double key = reach->key.length[row->lo + j];
        row->full_b[j] += query->slope[i] * (reach->factor * key + lipsc_key_error(reach)) +
                          reach->r * query->bend[i] * (key + lipsc_key_error(reach));
        if (!query->norm) continue;
        const seen_by_norm seen = {along[j], size[j], head->query_turn.pull != NULL};
        row->full_b[j] += query->norm[i].blur * size[j] +
                          fabs(head->scale * beside_of(reach, query->norm + i, seen));
    }
}

/* w_ij */
static void key_gradients(const lipsc_head_at *head, const lipsc_reach *reach, size_t i,
                          lipsc_around_row *row) {
    const size_t k = head->k, count = row->count;
    const lipsc_norm_move *norm = reach->key.norm;
    const size_t different = head->keys_differ ? count : 1;
    for (size_t j = 0; j < different; j++) {
        memcpy(row->w + j * k, head->q + i * k, k * sizeof *row->w);
        lipsc_turn_back_from(&head->key_turn, row->lo + j, row->w + j * k, &row->w_bend[j],
                             &row->w_blur[j]);
    }
    through_factor(&head->Kt, 1.0, different, row->w, row->pack_a, row->w_length);
    for (size_t j = different; j < count; j++) row->w_length[j] = row->w_length[0];
    for (size_t j = 0; j < count; j++) row->w_beside[j] = 0.0;
    for (size_t j = 0; norm && j < count; j++) {
        const int whole = head->key_turn.pull != NULL;
        const seen_by_norm seen = {row->w_bend[j], row->w_blur[j], whole};
        const lipsc_norm_move *own = norm + row->lo + j;
        bend_of(reach, own, 1.0, head->Kt.norm, row->w_length[j], seen, &row->w_bend[j],
                &row->w_blur[j]);
        row->w_beside[j] = fabs(beside_of(reach, own, seen));
    }
    for (size_t j = 0; head->cap > 0.0 && j < count; j++) {
        const size_t token = row->lo + j;
        const double error = reach->query.error[i];
        row->full_w[j] =
            row->w_length[j] + row->w_beside[j] + row->w_blur[j] +
            reach->key.slope[token] * (error + reach->factor * reach->query.length[i]) +
            reach->r * (row->w_bend[j] + reach->key.bend[token] * error);
        row->w_length[j] *= row->slope[j];
        row->w_beside[j] *= row->slope[j];
        for (size_t l = 0; l < k; l++) row->w[j * k + l] *= row->slope[j];
    }
}

/* ---- The ends of the weights -------------------------------------------------------- */

/* Of the numbers that are added to the scores of a row. */
static double largest_term(const double *x, size_t from, size_t count) {
    double largest = 0.0;
    for (size_t j = 0; x && j < count; j++) largest = lipsc_max(largest, fabs(x[from + j]));
    return largest;
}

/* A capped score c tanh(s/c) has the slope phi = 1/cosh^2(s/c), whose derivative is at most
 * 4/(3 sqrt(3) c): a score that moves by D at most moves the capped one by phi times as
 * much, but for D^2 times half of that. */
static void bend_by_cap(double cap, double move, double *capped, double *slope_move) {
    const double bend = 0.7699 / cap;
    *capped += lipsc_min(0.5 * bend * move * move, move) + 16.0 * DBL_EPSILON * move;
    *slope_move = lipsc_min(bend * move, 1.0) + 16.0 * DBL_EPSILON;
}

/* How far the scores of row i move, rounding included. */
static void score_moves(const lipsc_head_at *head, const lipsc_reach *reach, size_t i,
                        lipsc_around_row *row) {
    const lipsc_side *query = &reach->query, *key = &reach->key;
    const double r = reach->r, slope = query->slope[i], q = query->length[i];
    const double key_error = lipsc_key_error(reach);
    const double weight = largest_term(head->rows->log_weight, row->lo, row->count) +
                          largest_term(head->bias, head->n - 1 + row->lo - i, row->count) +
                          (row->all > row->count ? fabs(head->sink) : 0.0);
    const double mean_error =
        lipsc_row_loss(row) *
        (lipsc_dot(row->all, row->p, row->g_length) + row->g_length[row->top]);
    const double fixed =
        r * r * lipsc_cross_slope(reach, i) +
        query->error[i] * (key->largest_length + key->largest_error) +
        q * key->largest_error +
        (8.0 * (double)head->k + 32.0) * DBL_EPSILON * (q * key->largest_length + weight) +
        lipsc_row_loss(row) + r * slope * (key_error + mean_error);
    for (size_t j = 0; j < row->all; j++) {
        const double g = row->g_length[j], w = row->w_length[j] + row->w_beside[j];
        const double lost = reach->factor * g + key_error;
        row->query[j] = r * (row->b_length[j] + slope * lost + row->b_blur[j]) +
                        0.5 * r * r * (row->b_bend[j] + query->bend[i] * key_error);
        row->move[j] = fixed;
        if (j == row->count) break; /* the sink's own score stays */
        row->move[j] +=
            r * (w + key->slope[row->lo + j] * (query->error[i] + reach->factor * q) +
                 row->w_blur[j]) +
            0.5 * r * r * (row->w_bend[j] + key->bend[row->lo + j] * query->error[i]);
        row->slope_move[j] = 0.0;
        if (head->cap > 0.0)
            bend_by_cap(head->cap, fixed + r * (row->full_b[j] + row->full_w[j]),
                        &row->move[j], &row->slope_move[j]);
    }
}

/* Sums over keys: of P move, of P (e^e - 1), and over all of P e^2 exp(e) / 2. */
typedef struct {
    double moves, growth, bend;
} end_sums;

/* hi and eps of one key; rest = 1 - P_j and the sums are of the others. */
static void weight_ends(lipsc_around_row *row, size_t j, double rest,
                        const end_sums *others) {
    const double p = row->p[j], up = 1.0 + lipsc_row_loss(row);
    double hi = 1.0, above = 0.0, below = 0.0;
    if (rest > 0.0) {
        const double own = row->query[j] + row->move[j];
        const double E = row->query[j] / rest + row->move[j] + others->moves / rest;
        const double L = row->query[j] + rest * row->move[j] + others->moves + others->bend;
        const double odds = rest * exp(-(row->log_p[j] + E)); /* of not being j */
        hi = 1.0 / (1.0 + odds);
        above = p > 0.0 ? hi * rest * -expm1(-E) : hi;
        const double N = exp(own) * others->growth + rest * expm1(own);
        below = N < INFINITY ? p * N / (1.0 + N) : p;
        if (L < INFINITY) below = lipsc_min(below, p * -expm1(-L)); /* no NaN */
    }
    row->hi[j] = lipsc_max(lipsc_min(hi * up, 1.0), DBL_MIN);
    row->eps[j] = lipsc_max(above, below) * up + (up - 1.0) * p + DBL_MIN;
}

static lipsc_status find_ends(lipsc_around_row *row) {
    const size_t all = row->all, top = row->top;
    double rest = 0.0, bend = 0.0;
    end_sums most = {0}, one = {0}; /* of all but the top, of the top */
    for (size_t j = 0; j < all; j++) {
        const double p = row->p[j], e = row->query[j] + row->move[j];
        end_sums *to = j == top ? &one : &most;
        to->moves += p * row->move[j];
        to->growth += p * expm1(e);
        bend += 0.5 * p * e * e * exp(e);
        if (j != top) rest += p;
    }
    most.bend = bend;
    if (!(most.moves + one.moves < INFINITY)) return LIPSC_E_RANGE; /* a NaN too */
    for (size_t j = 0; j < all; j++) {
        if (j == top) {
            weight_ends(row, j, rest, &most);
            continue;
        }
        /* a little more than the others: its own growth too */
        const double own = most.moves - row->p[j] * row->move[j];
        const end_sums others = {one.moves + lipsc_max(own, 0.0) +
                                     lipsc_row_loss(row) * most.moves,
                                 one.growth + most.growth, bend};
        weight_ends(row, j, 1.0 - row->p[j], &others);
    }
    return LIPSC_OK;
}

void lipsc_around_attend(const lipsc_head_at *head, size_t i, lipsc_around_row *row) {
    softmax(head, i, row);
    centre(row, head->dv, head->z + row->lo * head->dv, row->mean, row->y, row->y_length);
}

lipsc_status lipsc_around_ends(const lipsc_head_at *head, const lipsc_reach *reach,
                               size_t i, lipsc_around_row *row) {
    lipsc_around_attend(head, i, row);
    const double *key = head->cap > 0.0 ? row->bent : head->key + row->lo * head->k;
    centre(row, head->k, key, row->mean, row->g, row->g_length);
    if (head->cap > 0.0) whole_query_gradients(head, reach, i, row);
    query_gradients(head, reach, i, row);
    key_gradients(head, reach, i, row);
    score_moves(head, reach, i, row);
    return find_ends(row);
}
