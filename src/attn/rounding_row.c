/* rounding_row.c - what rounding does to one row of one head (docs/maths.md 7.6).
 *
 * Everything is an upper bound, for the exact numbers and for those of any evaluation.  A
 * sink is one more key, which is zero and has the value zero, with a score of its own.
 * With top the key of the largest score, `seen` covers P_ij, and `rest` covers the mass
 * beside top: in a row that leads by more than its errors it vanishes, and with it all
 * that rounding can do to query and key path, however large the scores are. */
#include "attn/rounding_row.h"

#include <math.h>

static double smaller(double a, double b) { return a < b ? a : b; }

/* A cap, its slope and its bias are computed to this many units, of the cap and of 1. */
static const double CAP_ROUNDS = 16.0, BIAS_ROUNDS = 8.0;

/* Where entry l of a row stands: the keys that it sees, then the sink. */
static size_t place_of(const lipsc_rounded_head *head, size_t lo, size_t hi, size_t l) {
    return l < hi - lo ? lo + l : head->n;
}

/* Bound of |computed - exact| of q_i . k_j, up to a constant of the row. */
static double product_error(const lipsc_rounded_head *head, size_t i, size_t j,
                            double error_q, double error_k, double dots) {
    const lipsc_projected *q = &head->q, *k = &head->k;
    return error_q * k->spread[j] + q->length[i] * error_k +
           dots * q->length[i] * k->length[j];
}

/* Of what is left to do: the exponential, its argument, weight and bias. */
static double finish_error(const lipsc_rounded_head *head, double unit, double bias,
                           double distance) {
    return unit * (8.0 + 4.0 * smaller(distance, 800.0) + head->log_weight_error +
                   BIAS_ROUNDS * fabs(bias));
}

static double bias_at(const lipsc_rounded_head *head, size_t i, size_t j) {
    if (j == head->n) return head->sink;
    return head->bias ? head->bias[head->n - 1 + j - i] : 0.0;
}

/* s -> c tanh(s / c), whose slope is at most `steepest` within both errors of s; raises
 * *bent to the error of the slope.  docs/maths.md 7.6, "Caps". */
static double cap_score(const lipsc_rounded_head *head, double s, double *error,
                        double *own, double *bent) {
    const double c = head->cap, away = (fabs(s) - *error - *own) / c;
    const double steepest = away > 0.0 ? smaller(1.0, 4.0 * exp(-2.0 * away)) : 1.0;
    const double slope_error =
        smaller(*error / c * smaller(0.77, 2.0 * steepest), 1.0) + CAP_ROUNDS * head->unit;
    if (!(slope_error <= *bent)) *bent = slope_error;
    *error = smaller(*error * steepest, 2.0 * c) + CAP_ROUNDS * head->unit * c;
    *own = smaller(*own * steepest, 2.0 * c) + CAP_ROUNDS * head->own_unit * c;
    return c * tanh(s / c);
}

/* Products become scores; near and seen their errors, by any evaluation and by this pass.
 */
static void finish_scores(const lipsc_rounded_head *head, size_t i, size_t lo, size_t hi,
                          size_t count, double *score, double *near, double *seen,
                          double *bent) {
    const lipsc_projected *q = &head->q, *k = &head->k;
    for (size_t l = 0; l < count; l++) {
        const size_t j = place_of(head, lo, hi, l);
        near[l] = product_error(head, i, j, q->error[i], k->error[j], head->dots);
        seen[l] =
            product_error(head, i, j, q->own_error[i], k->own_error[j], head->own_dots);
        if (j == head->n)
            score[l] = 0.0;
        else if (head->cap > 0.0)
            score[l] = cap_score(head, score[l], &near[l], &seen[l], bent);
        score[l] += bias_at(head, i, j);
        if (head->log_weight && j < head->n) score[l] += head->log_weight[j];
    }
}

/* Fills seen with bounds of P_ij and near with 1 where j may be the largest entry, 0
 * elsewhere, and notes the largest errors of the scores. */
static void cover_row(const lipsc_rounded_head *head, size_t i, size_t lo, size_t hi,
                      size_t count, size_t top, const double *score, double *near,
                      double *seen, lipsc_rounded_row *row) {
    double widest = 0.0, total = 0.0;
    for (size_t l = 0; l < count; l++) {
        const double bias = bias_at(head, i, place_of(head, lo, hi, l));
        const double distance = score[top] - score[l];
        const double error = near[l] + finish_error(head, head->unit, bias, distance);
        const double own = seen[l] + finish_error(head, head->own_unit, bias, distance);
        near[l] = error + own; /* between this pass and any other */
        if (!(error <= row->score_error)) row->score_error = error;
        if (!(own <= row->own_error)) row->own_error = own;
        if (!(near[l] <= widest)) widest = near[l];
    }
    const double at_top = near[top];
    for (size_t l = 0; l < count; l++) {
        const double lead = score[l] - score[top] + near[l] + at_top;
        seen[l] = lead < 700.0 ? exp(lead) : INFINITY; /* a NaN too */
        near[l] = seen[l] >= 1.0 ? 1.0 : 0.0;
        total += seen[l];
    }
    /* where an entry is beyond the range its sum is no sum to divide by */
    const double factor = total < INFINITY ? exp(2.0 * widest) / total : INFINITY;
    for (size_t l = 0; l < count; l++) {
        const double normalised = factor * seen[l];
        if (normalised < seen[l]) seen[l] = normalised;
        seen[l] = smaller(seen[l] + head->smallest, 1.0);
    }
    seen[top] = 1.0;
}

/* Standard deviation, and mean distance from the mean, of vectors under P_i, given their
 * distances from some point: taken from that point, or from the vector of top. */
typedef struct {
    double deviation, distance;
} scatter;

static scatter scatter_of(const lipsc_rounded_head *head, size_t lo, size_t hi,
                          size_t count, size_t top, const double *seen,
                          const double *spread, double widest) {
    if (!(widest > 0.0)) return (scatter){0.0, 0.0};
    const double from_top = spread[place_of(head, lo, hi, top)] / widest;
    double square = 0.0, square_top = 0.0, sum_top = 0.0;
    for (size_t l = 0; l < count; l++) { /* relative to the widest: squares underflow */
        const double near = spread[place_of(head, lo, hi, l)] / widest;
        const double far = near + from_top;
        square += seen[l] * near * near;
        if (l == top) continue;
        square_top += seen[l] * far * far;
        sum_top += seen[l] * far;
    }
    const double deviation = widest * (sqrt(smaller(square, square_top)) + 1e-150);
    return (scatter){deviation, smaller(deviation, widest * (2.0 * sum_top + 1e-150))};
}

lipsc_rounded_row lipsc_rounded_row_of(const lipsc_rounded_head *head, size_t i, size_t lo,
                                       size_t hi, double *score, double *near,
                                       double *seen) {
    const lipsc_projected *q = &head->q, *k = &head->k;
    const size_t count = hi - lo + (head->has_sink ? 1 : 0);
    size_t top = 0;
    double bent = 0.0; /* error of the cap's slopes */
    finish_scores(head, i, lo, hi, count, score, near, seen, &bent);
    for (size_t l = 1; l < hi - lo;
         l++) /* every evaluation shifts by a key, not the sink */
        if (score[l] > score[top]) top = l;
    lipsc_rounded_row row = {0};
    cover_row(head, i, lo, hi, count, top, score, near, seen, &row);

    double rest = 0.0, near_sum = 0.0, seen_sum = 0.0;
    for (size_t l = 0; l < count; l++)
        if (l != top) rest += seen[l];
    rest = smaller(rest, 1.0);
    near[top] = 1.0;
    for (size_t l = 0; l < count; l++) {
        near[l] = near[l] > 0.0 ? rest : seen[l];
        near_sum += near[l];
        seen_sum += seen[l];
    }

    const double relative = expm1(2.0 * row.score_error);
    const double theta = relative < 1.0 ? relative : 1.0;         /* |P' - P| / P        */
    const double theta_cov = smaller(theta * (1.0 + theta), 2.0); /* of a covariance */
    const scatter z =
        scatter_of(head, lo, hi, count, top, seen, head->z_spread, head->z_widest);
    const scatter key = scatter_of(head, lo, hi, count, top, seen, k->spread, k->widest);
    const double near_root = sqrt(near_sum);
    const double Lq = q->stretch[i], Lk = k->most_stretch, nq = q->length[i];

    /* the score's own error, inputs of the derivative, values, sums */
    row.own = theta_cov * Lq * key.deviation * z.deviation +
              z.distance * (q->stretch_error[i] * k->longest +
                            Lq * (k->longest_error + (head->dots + bent) * k->longest)) +
              2.0 * head->z_error * Lq * key.distance +
              16.0 * head->sums * head->z_longest * Lq * k->longest * rest;
    row.key = theta_cov * z.deviation * nq * Lk * sqrt(2.0) +
              near_root * (theta * head->v_norm +
                           2.0 * head->z_widest *
                               (Lk * (q->error[i] + (head->dots + bent) * nq) +
                                nq * k->most_stretch_error) +
                           4.0 * head->z_error * nq * Lk +
                           16.0 * head->sums * head->z_longest * nq * Lk);
    row.value = sqrt(seen_sum) * (head->sums * head->v_norm + head->v_error);
    row.open = theta * rest;
    return row;
}

double lipsc_rounded_cover(const lipsc_rounded_head *head, double *score_error) {
    const lipsc_projected *q = &head->q, *k = &head->k;
    const double SMALL = 1e-3;
    const double sums = head->sums + (double)head->n * head->smallest; /* P may be zero */
    double per_key = 0.0, own = 0.0, squares = 0.0, worst = 0.0;
    for (size_t j = 0; j < head->n; j++) {
        const double error = k->error[j] + head->dots * k->length[j];
        if (!(error <= per_key)) per_key = error;
    }
    for (size_t i = 0; i < head->n; i++) {
        const double Lq = q->stretch[i], Lk = k->most_stretch, nq = q->length[i];
        const double product = q->error[i] * k->widest + nq * per_key;
        const double capped = head->cap > 0.0 ? CAP_ROUNDS * head->unit * head->cap : 0.0;
        const double error =
            product + capped + finish_error(head, head->unit, head->most_bias, 800.0);
        const double bent =
            head->cap > 0.0 ? smaller(product / head->cap, 1.0) + CAP_ROUNDS * head->unit
                            : 0.0;
        const double dots = head->dots + bent;
        const double theta = expm1(2.0 * error);
        if (!(error <= worst)) worst = error;
        const double row_own =
            theta * (1.0 + theta) * Lq * k->widest * head->z_widest +
            head->z_widest * (q->stretch_error[i] * k->longest +
                              Lq * (k->longest_error + dots * k->longest)) +
            2.0 * head->z_error * Lq * k->widest +
            16.0 * sums * head->z_longest * Lq * k->longest;
        const double row =
            theta * (1.0 + theta) * head->z_widest * nq * Lk + theta * head->v_norm +
            2.0 * head->z_widest *
                (Lk * (q->error[i] + dots * nq) + nq * k->most_stretch_error) +
            2.0 * head->z_error * nq * Lk + sums * head->v_norm + head->v_error +
            32.0 * sums * head->z_longest * nq * Lk; /* at all keys, and at top */
        if (!(row_own <= own)) own = row_own;
        squares += row * row;
    }
    *score_error = worst;
    return worst < SMALL ? own + sqrt(squares) : INFINITY;
}
