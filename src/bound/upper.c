/* upper.c - a proved upper bound of |J| at the input: heads first, then all together.
 *
 * One head (row.c has tau_i, rho_i and the query term; a_i are the token weights):
 *
 *     columns   max_i |query_i| + sqrt( max_j (1/a_j) sum_i a_i P_ij tau_i^2 )
 *     rows      max_i |query_i| + sqrt( sum_i rho_i^2 )             (equal weights only)
 *
 * Columns: add |(B h)_i|^2 <= tau_i^2 sum_j P_ij |h_j|^2 with the weights a_i and take
 * the largest factor of a_j |h_j|^2.  Rows: the norm of a matrix is at most the root of
 * the sum of the squared norms of its rows of blocks.  That sum is given up where it has
 * already passed the largest column; what is missing is covered by
 *     rho_i^2 <= (max_j P_ij) tau_i^2,
 * so that `rows` stays a bound, only not the smallest one.
 *
 * All heads (docs/maths.md 3.10), W_h the slices of O: J = sum_h W_h J_h, hence
 *     |J| <= sum_h |W_h J_h|     and     |J| <= |O| sqrt( sum_h |J_h|^2 ).
 * |W_h J_h| is below both its own bound and |W_h| times that of J_h.  Without O the second
 * one with |O| = 1.
 *
 * Rounding.  All sums are of positive terms or of centred squares, so that a bound is
 * wrong by a few n eps relative at most: below 1e-10 for n up to 10^5.  The Jacobian at
 * computed queries, keys and values is not the exact one; how far apart they can be
 * (docs/maths.md 7.6) is added. */
#include "attn/rounding.h"
#include "bound/head.h"
#include "core/error.h"
#include "core/mem.h"
#include "linalg/dense.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { COLUMN_BLOCK = 64 }; /* keys, and rows, of one tile of P           */
enum { ROW_BLOCK = 32 };    /* tokens between two looks at the sum of rows */

/* Per token, kept for the column sums. */
typedef struct {
    double *tau2[LIPSC_VIEWS], *rho2[LIPSC_VIEWS]; /* (n)                             */
    double *shift, *total;                         /* (n) P_ij a_i/a_j =
                                                    * exp(q_i.k_j - shift_i) / total_i */
    double *column[LIPSC_VIEWS];                   /* (n) the sums                     */
} token_sums;

typedef struct {
    double columns[LIPSC_VIEWS], rows[LIPSC_VIEWS];
    double out_norm; /* |W_h| */
} head_bounds;

static size_t smaller(size_t a, size_t b) { return a < b ? a : b; }

/* ---- One head --------------------------------------------------------------------- */

/* tau and the row statistics of every token, and the query term.  Which thread has which
 * token does not matter: tokens are independent and the query term is a maximum. */
static lipsc_status by_columns(const lipsc_head *head, token_sums *sums, double *query) {
    const double *log_weight = head->rows->log_weight;
    lipsc_status status = LIPSC_OK;
#pragma omp parallel num_threads(head->threads)
    {
        lipsc_row row;
        lipsc_status mine = lipsc_row_new(head, &row);
#pragma omp for schedule(dynamic, 4)
        for (size_t i = 0; i < head->n; i++) {
            if (mine) continue;
            mine = lipsc_row_columns(head, i, &row);
            for (int v = 0; v < LIPSC_VIEWS; v++) sums->tau2[v][i] = row.tau2[v];
            sums->shift[i] = row.largest - (log_weight ? log_weight[i] : 0.0);
            sums->total[i] = row.total;
        }
#pragma omp critical(lipsc_upper_merge)
        {
            if (mine && !status) status = mine;
            for (int v = 0; v < LIPSC_VIEWS; v++) query[v] = fmax(query[v], row.query[v]);
        }
        lipsc_row_free(&row);
    }
    return status;
}

/* rho of the tokens first .. first+count-1 */
static lipsc_status rows_of(const lipsc_head *head, size_t first, size_t count,
                            token_sums *sums) {
    lipsc_status status = LIPSC_OK;
#pragma omp parallel num_threads(head->threads)
    {
        lipsc_row row;
        lipsc_status mine = lipsc_row_new(head, &row);
#pragma omp for schedule(dynamic, 4)
        for (size_t i = first; i < first + count; i++) {
            if (mine) continue;
            mine = lipsc_row_rows(head, i, &row);
            for (int v = 0; v < LIPSC_VIEWS; v++) sums->rho2[v][i] = row.rho2[v];
        }
#pragma omp critical(lipsc_upper_merge)
        if (mine && !status) status = mine;
        lipsc_row_free(&row);
    }
    return status;
}

/* total[v] = sum_i rho_i^2, block by block of a fixed size until it has passed the largest
 * column everywhere. */
static lipsc_status by_rows(const lipsc_head *head, const double *column, token_sums *sums,
                            double *total) {
    const int views = head->out.rank ? LIPSC_VIEWS : 1;
    int open = views;
    for (size_t first = 0; first < head->n; first += ROW_BLOCK) {
        const size_t count = smaller(ROW_BLOCK, head->n - first);
        lipsc_status status = open ? rows_of(head, first, count, sums) : LIPSC_OK;
        if (status) return status;
        for (int v = 0; v < views; v++)
            for (size_t i = first; i < first + count; i++)
                total[v] += open ? sums->rho2[v][i] : sums->tau2[v][i] / sums->total[i];
        if (open) {
            open = 0;
            for (int v = 0; v < views; v++) open += total[v] <= column[v];
        }
    }
    return LIPSC_OK;
}

/* column_j = sum_i (a_i/a_j) P_ij tau_i^2, one block of keys per thread, rows upwards.
 * Scores in tiles are not rounded as in rows: `apart` is how far they can be from each
 * other, and P_ij stays below one. */
static void column_sums(const lipsc_head *head, token_sums *sums) {
    const size_t n = head->n, k = head->k;
    const double *log_weight = head->rows->log_weight;
    const double apart = 4.0 * DBL_EPSILON * (double)(k + 4) * (1.0 + head->score_size);
    const size_t *lo = head->rows->lo, *hi = head->rows->hi;
#pragma omp parallel for schedule(dynamic) num_threads(head->threads)
    for (size_t j0 = 0; j0 < n; j0 += COLUMN_BLOCK) {
        double tile[COLUMN_BLOCK * COLUMN_BLOCK]; /* scores, one row per token */
        const size_t j1 = j0 + smaller(COLUMN_BLOCK, n - j0);
        for (int v = 0; v < LIPSC_VIEWS; v++)
            for (size_t j = j0; j < j1; j++) sums->column[v][j] = 0.0;
        for (size_t i0 = 0; i0 < n; i0 += COLUMN_BLOCK) {
            const size_t i1 = i0 + smaller(COLUMN_BLOCK, n - i0);
            if (hi[i1 - 1] <= j0 || lo[i0] >= j1) continue;
            lipsc_dense_gemm(1, 0, j1 - j0, i1 - i0, k, 1.0, head->key + j0 * k, k,
                             head->q + i0 * k, k, 0.0, tile, COLUMN_BLOCK);
            for (size_t i = i0; i < i1; i++) {
                const double *score = tile + (i - i0) * COLUMN_BLOCK;
                for (size_t j = j0 > lo[i] ? j0 : lo[i]; j < j1 && j < hi[i]; j++) {
                    const double most = log_weight ? log_weight[i] - log_weight[j] : 0.0;
                    const double lead = score[j - j0] - sums->shift[i] + apart;
                    const double p = exp(lead < most ? lead : most) / sums->total[i];
                    for (int v = 0; v < LIPSC_VIEWS; v++)
                        sums->column[v][j] += p * sums->tau2[v][i];
                }
            }
        }
    }
}

static lipsc_status bound_head(const lipsc_head *head, token_sums *sums,
                               head_bounds *bounds) {
    double query[LIPSC_VIEWS] = {0}, column[LIPSC_VIEWS] = {0}, rows[LIPSC_VIEWS] = {0};
    const int equal = head->rows->log_weight == NULL;
    lipsc_status status = by_columns(head, sums, query);
    if (status) return status;
    column_sums(head, sums);
    for (int v = 0; v < LIPSC_VIEWS; v++)
        for (size_t j = 0; j < head->n; j++) {
            if (!(sums->column[v][j] < INFINITY)) return LIPSC_E_RANGE; /* a NaN too */
            column[v] = fmax(column[v], sums->column[v][j]);
        }
    if (equal) status = by_rows(head, column, sums, rows);
    for (int v = 0; v < LIPSC_VIEWS; v++) {
        /* back from the units of V and O; two steps, as their product may overflow */
        const double out_unit = v ? head->out_unit : 1.0;
        bounds->columns[v] = (query[v] + sqrt(column[v])) / head->unit / out_unit;
        bounds->rows[v] = equal ? (query[v] + sqrt(rows[v])) / head->unit / out_unit : NAN;
    }
    bounds->out_norm = head->out.norm / head->out_unit;
    return status;
}

/* ---- All heads ---------------------------------------------------------------------- */

/* Of bounds of the |J_h| (alone) and of the |W_h J_h| (after). */
typedef struct {
    double root; /* sqrt(sum_h alone^2) */
    double sum;  /* sum_h after         */
} combination;

/* Adds a head and returns what it can do to the output. */

static double add_head(combination *c, const head_bounds *bounds, int has_out, double alone,
                       double after) {
    c->root = hypot(c->root, alone); /* squares could overflow */
    const double own = fmin(after, bounds->out_norm * alone);
    c->sum += own;
    return has_out ? own : alone;
}

static double combined(const combination *c, const double *out_norm) {
    return out_norm ? fmin(c->sum, *out_norm * c->root) : c->root;
}

static double *doubles(size_t n, int *failed) {
    double *p = lipsc_alloc_zero(n, sizeof *p);
    *failed |= !p;
    return p;
}

static lipsc_status sums_new(size_t n, token_sums *sums) {
    int failed = 0;
    sums->shift = doubles(n, &failed);
    sums->total = doubles(n, &failed);
    for (int v = 0; v < LIPSC_VIEWS; v++) {
        sums->tau2[v] = doubles(n, &failed);
        sums->rho2[v] = doubles(n, &failed);
        sums->column[v] = doubles(n, &failed);
    }
    return failed ? LIPSC_E_NOMEM : LIPSC_OK;
}

static void sums_free(token_sums *sums) {
    lipsc_release(sums->shift);
    lipsc_release(sums->total);
    for (int v = 0; v < LIPSC_VIEWS; v++) {
        lipsc_release(sums->tau2[v]);
        lipsc_release(sums->rho2[v]);
        lipsc_release(sums->column[v]);
    }
}

lipsc_status lipsc_attn_upper(lipsc_attn *attn, lipsc_upper *out, lipsc_error *err) {
    if (!attn || !out) return lipsc_fail(err, LIPSC_E_ARG, "attn or out is NULL");
    const lipsc_layer *layer = &attn->layer;
    const char *beyond = lipsc_layer_beyond(layer);
    if (beyond)
        return lipsc_fail(err, LIPSC_E_REFUSED, "%s: no upper bound is proved for these",
                          beyond);
    const int has_out = layer->O != NULL, equal = attn->rows.log_weight == NULL;
    lipsc_head head;
    token_sums sums;
    memset(&sums, 0, sizeof sums);
    lipsc_status status = lipsc_head_new(attn, &head);
    if (!status) status = sums_new(attn->rows.n, &sums);

    combination columns = {0}, rows = {0}, best = {0};
    lipsc_upper result = {0};
    lipsc_rounding rounding;
    double worst = -1.0, out_norm = 1.0;
    for (size_t h = 0; !status && h < layer->heads; h++) {
        head_bounds b;
        status = lipsc_head_enter(attn, h, &head);
        if (!status) status = bound_head(&head, &sums, &b);
        if (status) break;
        add_head(&columns, &b, has_out, b.columns[0], b.columns[1]);
        if (equal) add_head(&rows, &b, has_out, b.rows[0], b.rows[1]);
        /* fmin passes over the NaN of absent rows */
        const double own = add_head(&best, &b, has_out, fmin(b.columns[0], b.rows[0]),
                                    fmin(b.columns[1], b.rows[1]));
        if (own > worst) {
            worst = own;
            result.worst_head = h;
        }
    }
    if (!status && has_out)
        status = lipsc_dense_norm(layer->heads * layer->value_dim, layer->out_dim, layer->O,
                                  &out_norm);
    lipsc_head_free(&head);
    sums_free(&sums);

    if (!status) {
        const double margin = 1.0 + 1e-10;
        const double *norm = has_out ? &out_norm : NULL;
        result.columns = margin * combined(&columns, norm);
        result.rows = equal ? margin * combined(&rows, norm) : NAN;
        result.value = margin * combined(&best, norm);
        if (!(result.value < INFINITY)) status = LIPSC_E_RANGE;
    }
    if (!status) status = lipsc_attn_rounding(attn, LIPSC_F64, &rounding);
    if (!status && rounding.undecided) {
        char why[200];
        lipsc_rounding_reason(&rounding, why, sizeof why);
        return lipsc_fail(err, LIPSC_E_RANGE, "%s", why);
    }
    if (!status) {
        result.columns += rounding.eps;
        result.rows += rounding.eps;
        result.value += rounding.eps;
        if (!(result.value < INFINITY)) status = LIPSC_E_RANGE;
    }
    if (status == LIPSC_E_RANGE)
        return lipsc_fail(err, status,
                          "the upper bound at this input is too large for a double");
    if (status) return lipsc_fail(err, status, "upper bound: %s", lipsc_strerror(status));
    *out = result;
    return LIPSC_OK;
}
