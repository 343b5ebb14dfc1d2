/* rounding_row.c - what rounding does to one row of one head (docs/maths.md 7.6).
 *
 * Everything is an upper bound, for the exact numbers and for those of any evaluation.
 * With top the key of the largest score, `seen` covers P_ij, and `rest` covers the mass
 * beside top: in a row that leads by more than its errors it vanishes, and with it all
 * that rounding can do to query and key path, however large the scores are. */
#include "attn/rounding_row.h"

#include <math.h>

static double smaller(double a, double b) { return a < b ? a : b; }

/* Bound of |computed - exact| of score (i, j), up to a constant of the row. */
static double score_error(const lipsc_rounded_head *head, size_t i, size_t j,
                          double error_q, double error_k, double dots, double unit,
                          double distance) {
    const lipsc_projected *q = &head->q, *k = &head->k;
    return error_q * k->spread[j] + q->length[i] * error_k +
           dots * q->length[i] * k->length[j] + head->log_weight_error * unit +
           unit * (8.0 + 4.0 * smaller(distance, 800.0));
}

/* Fills seen with bounds of P_ij and near with 1 where j may be the largest entry, 0
 * elsewhere, and notes the largest errors of the scores. */
static void cover_row(const lipsc_rounded_head *head, size_t i, size_t lo, size_t count,
                      size_t top, const double *score, double *near, double *seen,
                      lipsc_rounded_row *row) {
    const lipsc_projected *q = &head->q, *k = &head->k;
    double widest = 0.0, total = 0.0;
    for (size_t l = 0; l < count; l++) {
        const size_t j = lo + l;
        const double distance = score[top] - score[l];
        const double error = score_error(head, i, j, q->error[i], k->error[j], head->dots,
                                         head->unit, distance);
        const double own = score_error(head, i, j, q->own_error[i], k->own_error[j],
                                       head->own_dots, head->own_unit, distance);
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
    const double factor = exp(2.0 * widest) / total; /* NaN: inf / inf */
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

static scatter scatter_of(size_t count, size_t top, const double *seen,
                          const double *spread, double widest) {
    if (!(widest > 0.0)) return (scatter){0.0, 0.0};
    double square = 0.0, square_top = 0.0, sum_top = 0.0;
    for (size_t l = 0; l < count; l++) { /* relative to the widest: squares underflow */
        const double near = spread[l] / widest, far = near + spread[top] / widest;
        square += seen[l] * near * near;
        if (l == top) continue;
        square_top += seen[l] * far * far;
        sum_top += seen[l] * far;
    }
    const double deviation = widest * (sqrt(smaller(square, square_top)) + 1e-150);
    return (scatter){deviation, smaller(deviation, widest * (2.0 * sum_top + 1e-150))};
}

lipsc_rounded_row lipsc_rounded_row_of(const lipsc_rounded_head *head, size_t i, size_t lo,
                                       size_t hi, const double *score, double *near,
                                       double *seen) {
    const lipsc_projected *q = &head->q, *k = &head->k;
    const size_t count = hi - lo;
    size_t top = 0;
    for (size_t l = 1; l < count; l++)
        if (score[l] > score[top]) top = l;
    lipsc_rounded_row row = {0};
    cover_row(head, i, lo, count, top, score, near, seen, &row);

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
    const scatter z = scatter_of(count, top, seen, head->z_spread + lo, head->z_widest);
    const scatter key = scatter_of(count, top, seen, k->spread + lo, k->widest);
    const double near_root = sqrt(near_sum);
    const double Lq = q->stretch[i], Lk = k->most_stretch, nq = q->length[i];

    /* the score's own error, inputs of the derivative, values, sums */
    row.own = theta_cov * Lq * key.deviation * z.deviation +
              z.distance * (q->stretch_error[i] * k->longest +
                            Lq * (k->longest_error + head->dots * k->longest)) +
              2.0 * head->z_error * Lq * key.distance +
              16.0 * head->sums * head->z_longest * Lq * k->longest * rest;
    row.key =
        theta_cov * z.deviation * nq * Lk * sqrt(2.0) +
        near_root *
            (theta * head->v_norm +
             2.0 * head->z_widest *
                 (Lk * (q->error[i] + head->dots * nq) + nq * k->most_stretch_error) +
             4.0 * head->z_error * nq * Lk + 16.0 * head->sums * head->z_longest * nq * Lk);
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
        const double error =
            q->error[i] * k->widest + nq * per_key + head->unit * (8.0 + 4.0 * 800.0);
        const double theta = expm1(2.0 * error);
        if (!(error <= worst)) worst = error;
        const double row_own =
            theta * (1.0 + theta) * Lq * k->widest * head->z_widest +
            head->z_widest * (q->stretch_error[i] * k->longest +
                              Lq * (k->longest_error + head->dots * k->longest)) +
            2.0 * head->z_error * Lq * k->widest +
            16.0 * sums * head->z_longest * Lq * k->longest;
        const double row =
            theta * (1.0 + theta) * head->z_widest * nq * Lk + theta * head->v_norm +
            2.0 * head->z_widest *
                (Lk * (q->error[i] + head->dots * nq) + nq * k->most_stretch_error) +
            2.0 * head->z_error * nq * Lk + sums * head->v_norm + head->v_error +
            32.0 * sums * head->z_longest * nq * Lk; /* at all keys, and at top */
        if (!(row_own <= own)) own = row_own;
        squares += row * row;
    }
    *score_error = worst;
    return worst < SMALL ? own + sqrt(squares) : INFINITY;
}
