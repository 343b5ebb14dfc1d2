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
 * Together with the bound of joint.c; beyond some length, where heads apart cost more than
 * they give, that one alone.
 *
 * Rounding.  Projections and softmax: what they can do to J is added (7.6).  The rest
 * are sums of positive terms and of centred squares: docs/maths.md 3.3, "Rounding", has
 * the relative error head.rounding of tau, rho and the query term. */
#include "attn/rounding.h"
#include "bound/head.h"
#include "bound/joint.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"

#include <math.h>
#include <string.h>

enum { APART_TOKENS = 128 }; /* up to here heads apart are tried as well as together */
enum { COLUMN_BLOCK = 64 };  /* tokens between two additions to the columns */
enum { ROW_BLOCK = 32 };     /* tokens between two looks at the sum of rows */

/* Rounding below that part of the bound is not worth a look at all scores. */
static const double ENOUGH = 1e-6;

/* Per token, kept for the column sums. */
typedef struct {
    double *tau2[LIPSC_VIEWS], *rho2[LIPSC_VIEWS]; /* (n)                             */
    double *largest;                               /* (n) max_j P_ij                   */
    double *column[LIPSC_VIEWS];                   /* (n) sum_i (a_i/a_j) P_ij tau_i^2 */
    double *P;                                     /* (COLUMN_BLOCK, n)                */
} token_sums;

typedef struct {
    double columns[LIPSC_VIEWS], rows[LIPSC_VIEWS];
    double out_norm; /* |W_h| */
} head_bounds;

/* A NaN stays. */
static double larger_of(double a, double b) { return a >= b ? a : (b > a ? b : NAN); }

/* ---- One head --------------------------------------------------------------------- */

/* What is kept of token i's row; first: of the block. */
typedef lipsc_status keep_row(const lipsc_head_at *head, size_t first, size_t i,
                              lipsc_head_row *row, token_sums *sums);

/* The tokens first .. first+count-1, and the query term and cover of their rows.  Which
 * thread has which token does not matter: tokens are independent, the terms are maxima. */
static lipsc_status each_row(const lipsc_head_at *head, size_t first, size_t count,
                             keep_row *keep, token_sums *sums, double *query,
                             double *cover) {
    lipsc_status status = lipsc_attn_stopped(head->attn);
    if (status) return status;
#pragma omp parallel num_threads(head->threads)
    {
        lipsc_head_row row;
        lipsc_status mine = lipsc_head_row_new(head, &row);
#pragma omp for schedule(dynamic, 4)
        for (size_t i = first; i < first + count; i++)
            if (!mine) mine = keep(head, first, i, &row, sums);
#pragma omp critical(lipsc_upper_merge)
        {
            if (mine && !status) status = mine;
            for (int v = 0; v < LIPSC_VIEWS; v++)
                query[v] = larger_of(query[v], row.query[v]);
            *cover = larger_of(*cover, row.cover);
        }
        lipsc_head_row_free(&row);
    }
    return status;
}

/* tau, and the row of P */
static lipsc_status keep_columns(const lipsc_head_at *head, size_t first, size_t i,
                                 lipsc_head_row *row, token_sums *sums) {
    const lipsc_status status = lipsc_head_row_columns(head, i, row);
    for (int v = 0; v < LIPSC_VIEWS; v++) sums->tau2[v][i] = row->tau2[v];
    sums->largest[i] = row->p[row->top - head->rows->lo[i]];
    memcpy(sums->P + (i - first) * head->n, row->p,
           (head->rows->hi[i] - head->rows->lo[i]) * sizeof *row->p);
    return status;
}

/* rho */
static lipsc_status keep_rows(const lipsc_head_at *head, size_t first, size_t i,
                              lipsc_head_row *row, token_sums *sums) {
    (void)first;
    const lipsc_status status = lipsc_head_row_rows(head, i, row);
    for (int v = 0; v < LIPSC_VIEWS; v++) sums->rho2[v][i] = row->rho2[v];
    return status;
}

/* column_j += (a_i/a_j) P_ij tau_i^2 */
static void add_columns(const lipsc_head_at *head, size_t i, const double *p,
                        token_sums *sums) {
    const double *log_weight = head->rows->log_weight;
    const size_t lo = head->rows->lo[i], hi = head->rows->hi[i];
    for (size_t j = lo; j < hi; j++) {
        const double ratio = log_weight ? exp(log_weight[i] - log_weight[j]) : 1.0;
        for (int v = 0; v < LIPSC_VIEWS; v++)
            sums->column[v][j] += ratio * p[j - lo] * sums->tau2[v][i];
    }
}

/* Block by block, so that the sums do not depend on the number of threads. */
static lipsc_status by_columns(const lipsc_head_at *head, token_sums *sums, double *query) {
    double cover = 0.0;
    for (int v = 0; v < LIPSC_VIEWS; v++)
        memset(sums->column[v], 0, head->n * sizeof *sums->column[v]);
    for (size_t first = 0; first < head->n; first += COLUMN_BLOCK) {
        const size_t count = min_size(COLUMN_BLOCK, head->n - first);
        const lipsc_status status =
            each_row(head, first, count, keep_columns, sums, query, &cover);
        if (status) return status;
        for (size_t i = first; i < first + count; i++)
            add_columns(head, i, sums->P + (i - first) * head->n, sums);
    }
    query[0] += head->rounding * cover;
    query[1] += head->rounding * cover * head->out.norm;
    return LIPSC_OK;
}

/* total[v] = sum_i rho_i^2, block by block of a fixed size until it has passed the largest
 * column everywhere. */
static lipsc_status by_rows(const lipsc_head_at *head, const double *column,
                            token_sums *sums, double *total) {
    const int views = head->out.rank ? LIPSC_VIEWS : 1;
    int open = views;
    for (size_t first = 0; first < head->n; first += ROW_BLOCK) {
        const size_t count = min_size(ROW_BLOCK, head->n - first);
        double query[LIPSC_VIEWS] = {0}, cover = 0.0; /* those of the columns count */
        lipsc_status status = LIPSC_OK;
        if (open) status = each_row(head, first, count, keep_rows, sums, query, &cover);
        if (status) return status;
        for (int v = 0; v < views; v++)
            for (size_t i = first; i < first + count; i++)
                total[v] += open ? sums->rho2[v][i] : sums->tau2[v][i] * sums->largest[i];
        if (open) {
            open = 0;
            for (int v = 0; v < views; v++) open += total[v] <= column[v];
        }
    }
    return LIPSC_OK;
}

static lipsc_status bound_head(const lipsc_head_at *head, token_sums *sums,
                               head_bounds *bounds) {
    double query[LIPSC_VIEWS] = {0}, column[LIPSC_VIEWS] = {0}, rows[LIPSC_VIEWS] = {0};
    const int equal = head->equal;
    lipsc_status status = by_columns(head, sums, query);
    if (status) return status;
    for (int v = 0; v < LIPSC_VIEWS; v++)
        for (size_t j = 0; j < head->n; j++) {
            if (!(sums->column[v][j] < INFINITY)) return LIPSC_E_RANGE; /* a NaN too */
            column[v] = larger_of(column[v], sums->column[v][j]);
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
    const double own = lipsc_min(after, bounds->out_norm * alone);
    c->sum += own;
    return has_out ? own : alone;
}

static double combined(const combination *c, const double *out_norm) {
    return out_norm ? lipsc_min(c->sum, *out_norm * c->root) : c->root;
}

static double *doubles(size_t n, int *failed) {
    double *p = lipsc_alloc_zero(n, sizeof *p);
    *failed |= !p;
    return p;
}

static lipsc_status sums_new(size_t n, token_sums *sums) {
    int failed = 0;
    size_t tile;
    sums->largest = doubles(n, &failed);
    sums->P = lipsc_mul_size(n, COLUMN_BLOCK, &tile) ? doubles(tile, &failed) : NULL;
    failed |= !sums->P;
    for (int v = 0; v < LIPSC_VIEWS; v++) {
        sums->tau2[v] = doubles(n, &failed);
        sums->rho2[v] = doubles(n, &failed);
        sums->column[v] = doubles(n, &failed);
    }
    return failed ? LIPSC_E_NOMEM : LIPSC_OK;
}

static void sums_free(token_sums *sums) {
    lipsc_release(sums->largest);
    lipsc_release(sums->P);
    for (int v = 0; v < LIPSC_VIEWS; v++) {
        lipsc_release(sums->tau2[v]);
        lipsc_release(sums->rho2[v]);
        lipsc_release(sums->column[v]);
    }
}

static lipsc_status too_large(lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_RANGE,
                      "the upper bound at this input is too large for a double");
}

/* What rounding of the projections and of the softmax can do (7.6); refused where nothing
 * is known of the attention.  It need not be smaller than enough. */
static lipsc_status rounding_of(lipsc_attn *attn, double enough, double *eps,
                                lipsc_error *err) {
    lipsc_rounding rounding;
    const lipsc_status status =
        lipsc_attn_rounding_within(attn, LIPSC_F64, enough, &rounding);
    if (status) return lipsc_fail(err, status, "upper bound: %s", lipsc_strerror(status));
    *eps = rounding.eps;
    if (!rounding.undecided) return rounding.eps < INFINITY ? LIPSC_OK : too_large(err);
    char why[200];
    lipsc_rounding_reason(&rounding, why, sizeof why);
    return lipsc_fail(err, LIPSC_E_REFUSED, "%s", why);
}

/* Head by head: columns, rows and the smaller of them, of the Jacobian as computed. */
static lipsc_status heads_apart(const lipsc_attn *attn, lipsc_upper *result) {
    const lipsc_layer *layer = &attn->layer;
    const int has_out = layer->O != NULL, equal = lipsc_equal_weights(&attn->input);
    lipsc_head_at head;
    token_sums sums;
    memset(&sums, 0, sizeof sums);
    lipsc_status status = lipsc_head_new(attn, &head);
    if (!status) status = sums_new(attn->rows.n, &sums);

    combination columns = {0}, rows = {0}, best = {0};
    double worst = -1.0, out_norm = 1.0;
    for (size_t h = 0; !status && h < layer->heads; h++) {
        head_bounds b;
        status = lipsc_head_enter(attn, h, &head);
        if (!status) status = bound_head(&head, &sums, &b);
        if (status) break;
        add_head(&columns, &b, has_out, b.columns[0], b.columns[1]);
        if (equal) add_head(&rows, &b, has_out, b.rows[0], b.rows[1]);
        const double own = add_head(
            &best, &b, has_out, equal ? lipsc_min(b.columns[0], b.rows[0]) : b.columns[0],
            equal ? lipsc_min(b.columns[1], b.rows[1]) : b.columns[1]);
        if (own > worst) {
            worst = own;
            result->worst_head = h;
        }
    }
    if (!status && has_out)
        status = lipsc_dense_norm(layer->heads * layer->value_dim, layer->out_dim, layer->O,
                                  &out_norm);
    lipsc_head_free(&head);
    sums_free(&sums);
    if (status) return status;
    const double margin = 1.0 + 4.0 * head.rounding;
    const double *norm = has_out ? &out_norm : NULL;
    result->columns = margin * combined(&columns, norm);
    result->rows = equal ? margin * combined(&rows, norm) : NAN;
    result->value = margin * combined(&best, norm);
    return LIPSC_OK;
}

/* With the projections that attn has. */
static lipsc_status upper_of(lipsc_attn *attn, int all, lipsc_upper *out,
                             lipsc_error *err) {
    lipsc_upper result = {.columns = NAN, .rows = NAN, .value = INFINITY};
    lipsc_status status = lipsc_joint_bound(attn, &result.joint, &result.worst_head);
    if (!status) {
        const int many = attn->rows.n > APART_TOKENS && result.joint < INFINITY;
        const lipsc_status known =
            rounding_of(attn, many ? ENOUGH * result.joint : 0.0, &result.rounding, err);
        if (known) return known;
    }
    if (!status && (all || attn->rows.n <= APART_TOKENS || !(result.joint < INFINITY)))
        status = heads_apart(attn, &result);
    if (status == LIPSC_E_RANGE) return too_large(err);
    if (status) return lipsc_fail(err, status, "upper bound: %s", lipsc_strerror(status));
    if (result.joint < result.value) result.value = result.joint;
    double *const bounds[] = {&result.columns, &result.rows, &result.joint, &result.value};
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++)
        *bounds[b] += result.rounding;
    if (!(result.value < INFINITY)) return too_large(err);
    *out = result;
    return LIPSC_OK;
}

/* Once more with projections in twice the precision, where the plain ones leave too much
 * open. */
lipsc_status lipsc_upper_at(lipsc_attn *attn, int all, lipsc_upper *out, lipsc_attn **used,
                            lipsc_error *err) {
    if (used) *used = NULL;
    lipsc_upper plain = {.value = INFINITY}, fine;
    const lipsc_status status = upper_of(attn, all, &plain, err);
    lipsc_attn *refined;
    if (!status) *out = plain;
    if (!status && plain.rounding <= LIPSC_BLURRED * plain.value) return LIPSC_OK;
    if (status == LIPSC_E_NOMEM || status == LIPSC_E_STOPPED ||
        lipsc_attn_refined(attn, &refined))
        return status;
    refined->stop = attn->stop;
    refined->stop_ctx = attn->stop_ctx;
    const lipsc_status again = upper_of(refined, all, &fine, NULL);
    const int better = !again && fine.value < plain.value;
    if (better) *out = fine;
    if (better && used)
        *used = refined;
    else
        lipsc_attn_free(refined);
    if (again == LIPSC_E_STOPPED)
        return lipsc_fail(err, again, "upper bound: %s", lipsc_strerror(again));
    return better ? LIPSC_OK : status;
}

lipsc_status lipsc_attn_upper(lipsc_attn *attn, lipsc_upper *out, lipsc_error *err) {
    if (!attn || !out) return lipsc_fail(err, LIPSC_E_ARG, "attn or out is NULL");
    return lipsc_upper_at(attn, 0, out, NULL, err);
}
