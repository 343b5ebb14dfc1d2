/* local.c - bounds at one input: from the data (3.3), elementary, from one token
 * alone, and the limit of large radius (6). */
#include "bound/zoo.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bound/head.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/median.h"
#include "core/mem.h"
#include "value/influence.h"

/* ---- The softmax Jacobian D(p) = diag(p) - p p^T ------------------------------------ */

/* The two largest of p. */
static void two_largest(size_t n, const double *p, size_t *first, double *p1, double *p2) {
    *first = 0;
    for (size_t j = 1; j < n; j++)
        if (p[j] > p[*first]) *first = j;
    *p1 = n ? p[*first] : 0.0;
    *p2 = 0.0;
    for (size_t j = 0; j < n; j++)
        if (j != *first) *p2 = lipsc_max(*p2, p[j]);
}

double lipsc_softmax_cover(size_t n, const double *p) {
    size_t first;
    double p1, p2, others = 0.0;
    two_largest(n, p, &first, &p1, &p2);
    for (size_t j = 0; j < n; j++)
        if (j != first) others += p[j];
    return p1 * (others + p2);
}

/* An eigenvalue above p2 solves sum_j p_j^2 / (p_j - x) = 1.  With p_j^2 / (p_j - x) =
 * p_j + x p_j / (p_j - x) and sum p = 1 that is
 *     p1 / (p1 - x) = sum_{j > 1} p_j / (x - p_j),
 * free of cancellation; the left side grows and the right side falls on (p2, p1), so that
 * halving keeps the root between its ends.  From 1/(x - p_j) <= 1/(x - p2) the root is at
 * most p1 (1 - p1 + p2), which is where it begins. */
double lipsc_softmax_norm(size_t n, const double *p) {
    size_t first;
    double p1, p2;
    two_largest(n, p, &first, &p1, &p2);
    double low = p2, high = lipsc_min(p1, lipsc_softmax_cover(n, p));
    for (int step = 0; step < 60 && high - low > 1e-15 * high; step++) {
        const double x = low + 0.5 * (high - low);
        double right = 0.0;
        for (size_t j = 0; j < n; j++)
            if (j != first && p[j] > 0.0) right += p[j] / (x - p[j]);
        if (p1 / (p1 - x) < right)
            low = x;
        else
            high = x;
    }
    return high;
}

/* ---- One pass over the softmax rows ------------------------------------------------- */

/* p (hi - lo) = row i of P; returns 1 - max_j P_ij as the sum of the others.  *spread is
 * raised to the range of the scores. */
static double softmax_row(const lipsc_head_at *head, size_t i, double *p, double *spread) {
    const size_t k = head->k, lo = head->rows->lo[i], count = head->rows->hi[i] - lo;
    double total = 0.0, others = 0.0, low = INFINITY, high = -INFINITY;
    size_t top = 0;
    for (size_t j = 0; j < count; j++) {
        const double *q = head->q + i * k, *key = head->key + (lo + j) * k;
        double score = 0.0;
#pragma omp simd reduction(+ : score)
        for (size_t l = 0; l < k; l++) score += q[l] * key[l];
        p[j] = score;
        low = lipsc_min(low, score);
        high = lipsc_max(high, score);
    }
    lipsc_head_finish(head, i, p, NULL);
    for (size_t j = 1; j < count; j++)
        if (p[j] > p[top]) top = j;
    const double range = high - low;
    if (!(range <= *spread)) *spread = isnan(range) ? INFINITY : range; /* inf - inf */
    const double largest = p[top];
    for (size_t j = 0; j < count; j++) {
        p[j] = exp(p[j] - largest);
        total += p[j];
        if (j != top) others += p[j];
    }
    for (size_t j = 0; j < count; j++) p[j] /= total;
    return others / total;
}

static void read_rows(const lipsc_head_at *head, double *p, double *columns, double *rest,
                      lipsc_local *local) {
    const size_t n = head->n;
    const double *root = head->rows->root_weight;
    *local = (lipsc_local){0};
    memset(columns, 0, n * sizeof *columns);
    for (size_t i = 0; i < n; i++) {
        const size_t lo = head->rows->lo[i], count = head->rows->hi[i] - lo;
        rest[i] = softmax_row(head, i, p, &local->spread);
        for (size_t j = 0; j < count; j++) {
            const double ratio = root ? root[i] / root[lo + j] : 1.0;
            columns[lo + j] += ratio * ratio * p[j];
        }
        /* a maximum: the root is only found where its cover could raise it */
        const double cover = lipsc_softmax_cover(count, p);
        local->cover = lipsc_max(local->cover, cover);
        if (cover > local->softmax)
            local->softmax = lipsc_max(local->softmax, lipsc_softmax_norm(count, p));
    }
    for (size_t j = 0; j < n; j++) local->column = lipsc_max(local->column, columns[j]);
    local->median = lipsc_median(n, rest);
}

lipsc_status lipsc_local_make(const lipsc_attn *attn, lipsc_local *local) {
    const size_t n = attn->rows.n;
    lipsc_head_at head;
    lipsc_status status = lipsc_head_new(attn, &head);
    double *room = lipsc_alloc(n, 3 * sizeof *room);
    if (!room) status = LIPSC_E_NOMEM;
    for (size_t h = 0; !status && h < attn->layer.heads; h++) {
        status = lipsc_head_enter(attn, h, &head);
        if (!status) read_rows(&head, room, room + n, room + 2 * n, &local[h]);
    }
    lipsc_release(room);
    lipsc_head_free(&head);
    return status;
}

/* ---- The bounds --------------------------------------------------------------------- */

static lipsc_status data(const lipsc_zoo_case *z, double value, double *log_value,
                         lipsc_error *err) {
    if (z->data_status)
        return lipsc_fail(err, z->data_status, "%.400s", z->data_reason.text);
    if (!(value < INFINITY))
        return lipsc_fail(err, LIPSC_E_RANGE, "its value is too large");
    *log_value = log(value);
    return LIPSC_OK;
}

lipsc_status lipsc_data_columns(const lipsc_zoo_case *z, double *log_value,
                                lipsc_error *err) {
    return data(z, z->data.columns, log_value, err);
}

lipsc_status lipsc_data_rows(const lipsc_zoo_case *z, double *log_value, lipsc_error *err) {
    if (isnan(z->data.rows) && !z->data_status)
        return lipsc_fail(err, LIPSC_E_REFUSED, "tokens have weights");
    return data(z, z->data.rows, log_value, err);
}

lipsc_status lipsc_data_joint(const lipsc_zoo_case *z, double *log_value,
                              lipsc_error *err) {
    return data(z, z->data.joint, log_value, err);
}

lipsc_status lipsc_data_best(const lipsc_zoo_case *z, double *log_value, lipsc_error *err) {
    return data(z, z->data.value, log_value, err);
}

const char *lipsc_elementary_refuse(const lipsc_zoo_case *z) {
    const char *why = lipsc_refuse_turned(z);
    return why ? why : lipsc_refuse_weights(z);
}

/* |P| + |X| D (|A| |X| + |W|) for |V| = 1: dF = dP X V^T + P dX V^T, and with
 * W = X A^T + 1 c^T, |dS| <= (|A| |X| + |W|) |dX|, |dP| <= D |dS|.
 * |W| <= |A| |X| + sqrt(n) |c|;  |P| <= sqrt(|P|_1 |P|_inf) = sqrt(largest column sum),
 * with equality for one-hot rows. */
static double elementary(const lipsc_zoo_case *z, size_t h, double softmax) {
    const double X = z->token_norm, A = z->head[h].norm_A;
    const double bias = sqrt((double)z->n) * z->head[h].norm_c;
    return lipsc_log_add(0.5 * log(z->local[h].column),
                         log(softmax) + log(X) + log(2.0 * A * X + bias));
}

double lipsc_elementary(const lipsc_zoo_case *z, size_t h) {
    return elementary(z, h, z->local[h].softmax);
}

double lipsc_elementary_cover(const lipsc_zoo_case *z, size_t h) {
    return elementary(z, h, z->local[h].cover);
}

lipsc_status lipsc_single_token(const lipsc_zoo_case *z, double *log_value,
                                lipsc_error *err) {
    const lipsc_linop op = lipsc_attn_linop(z->attn);
    lipsc_influence influence;
    const lipsc_status status = lipsc_influence_token(&op, z->n, 1, &influence);
    if (status) return lipsc_fail(err, status, "%s", lipsc_strerror(status));
    *log_value = log(influence.token_norm);
    return LIPSC_OK;
}

/* ---- Large radius ------------------------------------------------------------------- */

/* The key that row i prefers when X is scaled up; n when two are equal.  The query bias and
 * the weights stay behind: they do not grow with the square of the scale. */
static size_t preferred(const lipsc_zoo_case *z, size_t i, double *room, double *w) {
    const lipsc_rows *rows = &z->attn->rows;
    const size_t d = z->layer->d;
    double best = -INFINITY, size = 0.0;
    size_t place = rows->lo[i], ties = 0;
    lipsc_head_facts_score(&z->head[0], 0, z->attn->X + i * d, room, w);
    for (size_t j = rows->lo[i]; j < rows->hi[i]; j++) {
        double score = 0.0;
        for (size_t c = 0; c < d; c++) score += w[c] * z->attn->X[j * d + c];
        size = lipsc_max(size, fabs(score));
        if (score > best + 1e-12 * size) {
            best = score;
            place = j;
            ties = 0;
        } else if (score >= best - 1e-12 * size) {
            ties++;
        }
    }
    return ties ? rows->n : place;
}

lipsc_status lipsc_large_radius(const lipsc_zoo_case *z, double *log_value,
                                lipsc_error *err) {
    const lipsc_rows *rows = &z->attn->rows;
    const size_t n = rows->n, d = z->layer->d;
    if (z->layer->heads > 1)
        return lipsc_fail(err, LIPSC_E_REFUSED, "stated for one head; this layer has %zu",
                          z->layer->heads);
    if (z->head[0].norm_A == 0.0 && n > 1)
        return lipsc_fail(err, LIPSC_E_REFUSED, "A = 0: no row prefers a token");
    double *count = lipsc_alloc_zero(n, sizeof *count), largest = 0.0;
    double *room = lipsc_alloc(z->layer->key_dim + d, sizeof *room);
    lipsc_status status = count && room ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; !status && i < n; i++) {
        const size_t j = preferred(z, i, room, room + z->layer->key_dim);
        if (j == n) {
            status =
                lipsc_fail(err, LIPSC_E_REFUSED,
                           "token %zu prefers two tokens alike: no unique maximiser", i);
            break;
        }
        const double ratio =
            rows->root_weight ? rows->root_weight[i] / rows->root_weight[j] : 1.0;
        count[j] += ratio * ratio;
        largest = lipsc_max(largest, count[j]);
    }
    lipsc_release(count);
    lipsc_release(room);
    if (!status) *log_value = log(z->head[0].norm_OV) + 0.5 * log(largest);
    return status;
}
