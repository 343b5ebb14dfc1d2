/* around.c - a proved upper bound of |J| at every input whose tokens lie within r of those
 * of the given one (docs/maths.md 3.15).
 *
 * Ends: the inequalities of upper.c with the upper end of everything in them, which
 * around_row.c has.  Change: the bound at the point, whatever it is, plus a bound of
 * |J' - J|.  Ball: the bounds over the ball of radius max |x_i| + r.  Each holds, so the
 * smallest does.
 *
 * Columns are summed block by block of rows, so that the sums do not depend on the number
 * of threads. */
#include "bound/around.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "bound/joint.h"
#include "bound/sink_move.h"
#include "bound/slices.h"
#include "bound/zoo.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

enum { BLOCK = 64 }; /* rows between two additions to the columns */

/* What is added up over the rows, for each key: with hi_ij tau_i^2 of both views, with
 * eps_ij tau_eps^2, with hi_ij tau_move^2, with hi_ij tau_weighted^2 / weight_j. */
enum { BY_HEAD, BY_OUT, BY_EPS, BY_MOVE, BY_WEIGHT, SUMS };

typedef struct {
    size_t n;
    double *hi, *eps; /* (BLOCK, n) of a block of rows           */
    double factor[BLOCK][SUMS];
    double *column[SUMS]; /* (n) of one head                         */
    double *query;        /* (n) of one head, after O                */
    double *joint[SUMS];  /* (n) of all heads, V times the unit of the first */
    double unit;          /* that one */
    double *storage;
} column_sums;

/* Maxima over the rows of one head, and the sum of rho^2. */
typedef struct {
    double query[LIPSC_VIEWS], change, rho2[LIPSC_VIEWS];
} head_rows;

/* Sums over the rows of a block, in their order. */
typedef struct {
    double rho2[LIPSC_VIEWS][BLOCK];
} block_sums;

static lipsc_status sums_new(size_t n, column_sums *sums) {
    size_t count;
    memset(sums, 0, sizeof *sums);
    sums->n = n;
    if (lipsc_mul_size(n, 2 * BLOCK + 2 * SUMS + 1, &count))
        sums->storage = lipsc_alloc_zero(count, sizeof *sums->storage);
    if (!sums->storage) return LIPSC_E_NOMEM;
    sums->hi = sums->storage;
    sums->eps = sums->hi + BLOCK * n;
    sums->query = sums->eps + (BLOCK + 2 * SUMS) * n;
    for (int s = 0; s < SUMS; s++) {
        sums->column[s] = sums->eps + (BLOCK + (size_t)s) * n;
        sums->joint[s] = sums->column[s] + SUMS * n;
    }
    return LIPSC_OK;
}

/* ---- One head ----------------------------------------------------------------------- */

static void keep_row(const lipsc_around_row *row, size_t place, column_sums *sums,
                     head_rows *mine, block_sums *block) {
    memcpy(sums->hi + place * sums->n, row->hi, row->count * sizeof *row->hi);
    memcpy(sums->eps + place * sums->n, row->eps, row->count * sizeof *row->eps);
    double *factor = sums->factor[place];
    factor[BY_HEAD] = row->tau[0] * row->tau[0];
    factor[BY_OUT] = row->tau[1] * row->tau[1];
    factor[BY_EPS] = row->tau_eps * row->tau_eps;
    factor[BY_MOVE] = row->tau_move * row->tau_move;
    factor[BY_WEIGHT] = row->tau_weighted * row->tau_weighted;
    for (int v = 0; v < LIPSC_VIEWS; v++) {
        mine->query[v] = lipsc_max(mine->query[v], row->query_term[v]);
        block->rho2[v][place] = row->rho[v] * row->rho[v];
    }
    mine->change = lipsc_max(mine->change, row->query_change);
}

static lipsc_status block_rows(const lipsc_head_at *head, const lipsc_reach *reach,
                               size_t first, size_t count, lipsc_around_row *rows,
                               column_sums *sums, lipsc_sink *sink, head_rows *all) {
    lipsc_status status = LIPSC_OK;
    block_sums block;
#pragma omp parallel num_threads(head->threads)
    {
        lipsc_status mine = LIPSC_OK;
        head_rows own = {0};
        lipsc_around_row *row = NULL;
#pragma omp critical(lipsc_around_merge)
        row = rows++;
#pragma omp for schedule(dynamic)
        for (size_t place = 0; place < count; place++) {
            if (mine) continue;
            mine = lipsc_around_row_make(head, reach, first + place, row);
            if (!mine) keep_row(row, place, sums, &own, &block);
            if (!mine) sums->query[first + place] = row->query_term[1];
            if (!mine) lipsc_sink_row(head, row, first + place, sink);
        }
#pragma omp critical(lipsc_around_merge)
        {
            if (mine && !status) status = mine;
            for (int v = 0; v < LIPSC_VIEWS; v++)
                all->query[v] = lipsc_max(all->query[v], own.query[v]);
            all->change = lipsc_max(all->change, own.change);
        }
    }
    for (size_t place = 0; !status && place < count; place++)
        for (int v = 0; v < LIPSC_VIEWS; v++) all->rho2[v] += block.rho2[v][place];
    return status;
}

/* column_j += (a_i/a_j) hi_ij tau_i^2 ... for a block of rows */
static void add_block(const lipsc_head_at *head, const lipsc_reach *reach, size_t first,
                      size_t count, column_sums *sums) {
    const size_t n = head->n, *lo = head->rows->lo, *hi = head->rows->hi;
    const double *root = head->rows->root_weight;
#pragma omp parallel for schedule(static) num_threads(head->threads)
    for (size_t j0 = 0; j0 < n; j0 += BLOCK)
        for (size_t place = 0; place < count; place++) {
            const size_t i = first + place, j1 = min_size(j0 + BLOCK, hi[i]);
            const double *factor = sums->factor[place];
            for (size_t j = j0 > lo[i] ? j0 : lo[i]; j < j1; j++) {
                const double ratio = root ? root[i] / root[j] : 1.0;
                const double p = ratio * ratio * sums->hi[place * n + j - lo[i]];
                const double eps = ratio * ratio * sums->eps[place * n + j - lo[i]];
                sums->column[BY_HEAD][j] += p * factor[BY_HEAD];
                sums->column[BY_OUT][j] += p * factor[BY_OUT];
                sums->column[BY_EPS][j] += eps * factor[BY_EPS];
                sums->column[BY_MOVE][j] += p * factor[BY_MOVE];
                if (j != reach->sink)
                    sums->column[BY_WEIGHT][j] += p * factor[BY_WEIGHT] / reach->weight[j];
            }
        }
}

static lipsc_status head_pass(const lipsc_head_at *head, const lipsc_reach *reach,
                              lipsc_around_row *rows, column_sums *sums, lipsc_sink *sink,
                              head_rows *all) {
    if (sums->unit == 0.0) sums->unit = head->unit;
    /* at least 1e-140: its square stays a number, and a larger one does no harm */
    const double ratio = lipsc_max(sums->unit / head->unit, 1e-140);
    memset(all, 0, sizeof *all);
    for (int s = 0; s < SUMS; s++) memset(sums->column[s], 0, head->n * sizeof(double));
    for (size_t first = 0; first < head->n; first += BLOCK) {
        const size_t count = min_size(BLOCK, head->n - first);
        const lipsc_status status =
            block_rows(head, reach, first, count, rows, sums, sink, all);
        if (status) return status;
        add_block(head, reach, first, count, sums);
    }
    for (int s = 0; s < SUMS; s++)
        for (size_t j = 0; j < head->n; j++)
            sums->joint[s][j] += ratio * ratio * sums->column[s][j];
    return LIPSC_OK;
}

/* ---- All heads ---------------------------------------------------------------------- */

static double root_of_largest(size_t n, const double *x) {
    double largest = 0.0;
    for (size_t j = 0; j < n; j++) largest = lipsc_max(largest, x[j]);
    return sqrt(largest);
}

/* Over the heads so far: roots of sums of squares, and sums of what they do after O. */
typedef struct {
    double best_root, best_sum;
    double query_root, change_root;
    double change_sum, alone_sum;
} layer_sums;

static void add_head(const lipsc_head_at *head, const column_sums *sums,
                     const head_rows *rows, int equal, layer_sums *all) {
    const size_t n = head->n;
    const double out_norm = head->out.norm / head->out_unit;
    double bound[LIPSC_VIEWS];
    for (int v = 0; v < LIPSC_VIEWS; v++) {
        const double column = root_of_largest(n, sums->column[v ? BY_OUT : BY_HEAD]);
        const double row = sqrt(rows->rho2[v]);
        const double best = equal && row < column ? row : column;
        bound[v] = (rows->query[v] + best) / head->unit / (v ? head->out_unit : 1.0);
    }
    const double change = (rows->change + root_of_largest(n, sums->column[BY_EPS]) +
                           root_of_largest(n, sums->column[BY_MOVE])) /
                          head->unit;
    all->best_root = hypot(all->best_root, bound[0]);
    all->best_sum += bound[1] < out_norm * bound[0] ? bound[1] : out_norm * bound[0];
    all->query_root = hypot(all->query_root, rows->query[0] / head->unit);
    all->change_root = hypot(all->change_root, rows->change / head->unit);
    all->change_sum += out_norm * change;
    all->alone_sum += out_norm * bound[0];
}

static double joint_root(const column_sums *sums, int which) {
    return root_of_largest(sums->n, sums->joint[which]) / sums->unit;
}

static double smallest(double a, double b) { return isnan(b) || a <= b ? a : b; }

/* The result of all heads; out_norm NULL: heads side by side. */
static void finish(const layer_sums *all, const column_sums *sums, const double *out_norm,
                   double slices, const lipsc_joint_choice *choice, double sink_moved,
                   double margin, lipsc_around *out) {
    const double O = out_norm ? *out_norm : 1.0;
    double ends = all->best_root, change = all->change_root;
    ends = smallest(ends, all->query_root + joint_root(sums, BY_HEAD));
    if (!out_norm) {
        const double rest = all->query_root + joint_root(sums, BY_WEIGHT);
        const double sink = choice->column + sink_moved / sums->unit + all->query_root;
        ends = smallest(ends, choice->sink < sums->n ? hypot(sink, rest) : rest);
    }
    change += joint_root(sums, BY_EPS) + joint_root(sums, BY_MOVE);
    ends *= O;
    change *= O;
    if (out_norm) {
        ends = smallest(smallest(ends, all->best_sum), slices);
        change = smallest(change, all->change_sum);
    }
    out->ends = margin * ends;
    out->change = margin * change;
}

static lipsc_status rows_new(const lipsc_head_at *head, lipsc_around_row **rows) {
    const size_t threads = (size_t)head->threads;
    lipsc_status status = LIPSC_OK;
    *rows = lipsc_alloc_zero(threads, sizeof **rows);
    if (!*rows) return LIPSC_E_NOMEM;
    for (size_t t = 0; !status && t < threads; t++)
        status = lipsc_around_row_new(head, *rows + t);
    return status;
}

static void rows_free(const lipsc_head_at *head, lipsc_around_row *rows) {
    for (size_t t = 0; rows && t < (size_t)head->threads; t++)
        lipsc_around_row_free(rows + t);
    lipsc_release(rows);
}

/* ---- Weights of the keys ------------------------------------------------------------- */

/* weight_j += about what column j of a head comes to */
static void weigh_keys(const lipsc_head_at *head, const lipsc_reach *reach,
                       lipsc_around_row *rows, column_sums *sums, double *weight) {
    const size_t n = head->n, *lo = head->rows->lo, *hi = head->rows->hi;
    const double *root = head->rows->root_weight;
    double size[BLOCK];
    for (size_t first = 0; first < n; first += BLOCK) {
        const size_t count = min_size(BLOCK, n - first);
        lipsc_around_row *next = rows;
#pragma omp parallel num_threads(head->threads)
        {
            lipsc_around_row *row = NULL;
#pragma omp critical(lipsc_around_merge)
            row = next++;
#pragma omp for schedule(dynamic)
            for (size_t place = 0; place < count; place++) {
                lipsc_around_row_weigh(head, reach, first + place, row, &size[place]);
                memcpy(sums->hi + place * n, row->p, row->count * sizeof *row->p);
            }
        }
        for (size_t i = first; i < first + count; i++)
            for (size_t j = lo[i]; j < hi[i]; j++) {
                const double ratio = root ? root[i] / root[j] : 1.0;
                weight[j] +=
                    ratio * ratio * size[i - first] * sums->hi[(i - first) * n + j - lo[i]];
            }
    }
}

/* Any weights in (0, 1] hold; near the columns they take care of attention sinks. */
static lipsc_status find_weights(const lipsc_attn *attn, lipsc_head_at *head,
                                 lipsc_around_row *rows, column_sums *sums,
                                 lipsc_reach *reach, double *weight) {
    const double faintest = 1e-3;
    const size_t n = attn->rows.n;
    double most = 0.0;
    lipsc_status status = LIPSC_OK;
    memset(weight, 0, n * sizeof *weight);
    for (size_t h = 0; !status && h < attn->layer.heads; h++) {
        status = lipsc_head_enter(attn, h, head);
        if (!status) status = lipsc_reach_make(attn, h, head, 0.0, reach);
        if (!status) weigh_keys(head, reach, rows, sums, weight);
    }
    for (size_t j = 0; j < n; j++) most = lipsc_max(most, weight[j]);
    for (size_t j = 0; j < n; j++) { /* a NaN or an infinity: all alike */
        const double share = most < INFINITY ? weight[j] / most : 1.0;
        weight[j] = share > faintest ? share : share <= faintest ? faintest : 1.0;
    }
    reach->weight = weight;
    return status;
}

/* Sink and weights: those of the bound at the point where it is one by all heads together.
 */
static lipsc_status choose(const lipsc_attn *attn, lipsc_head_at *head,
                           lipsc_around_row *rows, column_sums *sums, lipsc_reach *reach,
                           lipsc_joint_choice *choice) {
    double value;
    size_t head_index;
    const lipsc_status status = lipsc_joint_bound_by(attn, &value, &head_index, choice);
    if (!status && !(value < INFINITY)) {
        choice->sink = attn->rows.n;
        return find_weights(attn, head, rows, sums, reach, choice->weight);
    }
    reach->weight = choice->weight;
    return status;
}

/* ends and change at radius r; rounding: what the bound at the point has for it */
static lipsc_status bound_moved(const lipsc_zoo_case *z, double r, double rounding,
                                lipsc_around *out) {
    lipsc_attn *attn = z->attn;
    const lipsc_layer *layer = &attn->layer;
    const size_t n = attn->rows.n;
    const int equal = lipsc_equal_weights(&attn->input);
    lipsc_head_at head;
    lipsc_reach reach = {0};
    lipsc_around_row *rows = NULL;
    column_sums sums = {0};
    layer_sums all = {0};
    lipsc_slices slices = {0};
    lipsc_sink sink = {0};
    double out_norm = 1.0, joint = NAN, sink_moved = 0.0;
    lipsc_status status = lipsc_head_new(attn, &head);
    if (!status) status = lipsc_reach_new(n, &reach);
    if (!status) status = rows_new(&head, &rows);
    if (!status) status = sums_new(n, &sums);
    if (!status) status = lipsc_slices_new(layer, n, &slices);
    lipsc_joint_choice choice = {.sink = n, .weight = lipsc_alloc(n, sizeof(double))};
    if (!choice.weight) status = LIPSC_E_NOMEM;
    if (!status) status = choose(attn, &head, rows, &sums, &reach, &choice);
    choice.column += rounding;
    reach.sink = choice.sink;
    if (!status) /* heads behind an O that is too wide for slices have no use for it */
        status =
            lipsc_sink_new(layer, n, layer->O && !slices.heads ? n : choice.sink, &sink);
    for (size_t h = 0; !status && h < layer->heads; h++) {
        head_rows found;
        status = lipsc_zoo_stopped(z);
        if (!status) status = lipsc_head_enter(attn, h, &head);
        if (!status) status = lipsc_reach_make(attn, h, &head, r, &reach);
        if (!status) status = head_pass(&head, &reach, rows, &sums, &sink, &found);
        if (!status) add_head(&head, &sums, &found, equal, &all);
        const double *const columns[] = {sums.column[BY_OUT], sums.column[BY_WEIGHT]};
        if (!status)
            status = lipsc_slices_keep(layer, &head, h, columns, sums.query, &slices);
        if (!status) lipsc_sink_keep(layer, &head, h, &sink);
        lipsc_zoo_step(z, 1);
    }
    if (!status && layer->O)
        status = lipsc_dense_norm(layer->heads * layer->value_dim, layer->out_dim, layer->O,
                                  &out_norm);
    if (!status) status = lipsc_slices_bound(&slices, &sink, choice.column, &joint);
    if (!status && !layer->O && sink.heads)
        status = lipsc_sink_bound(&sink, NULL, &sink_moved);
    if (!status) {
        /* U_h F_h is the slice up to rounding */
        joint += 64.0 * (double)(layer->out_dim + layer->value_dim) * DBL_EPSILON *
                 all.alone_sum;
        const size_t widths = layer->d + layer->key_dim + layer->value_dim +
                              layer->out_dim + layer->heads * layer->value_dim;
        const double margin = 1.0 + (8.0 * (double)(n + widths) + 1000.0) * DBL_EPSILON;
        finish(&all, &sums, layer->O ? &out_norm : NULL, joint, &choice, sink_moved, margin,
               out);
    }
    rows_free(&head, rows);
    lipsc_head_free(&head);
    lipsc_reach_free(&reach);
    lipsc_slices_free(&slices);
    lipsc_sink_free(&sink);
    lipsc_release(choice.weight);
    lipsc_release(sums.storage);
    return status;
}

/* ---- With the bounds over the ball -------------------------------------------------- */

/* The smallest bound of sigma over the ball that holds the neighbourhood; NaN: none. */
static lipsc_status bound_ball(const lipsc_zoo_case *z, double r, double *value) {
    lipsc_zoo_case ball = *z;
    ball.radius =
        (lipsc_longest_token(z->n, z->layer->d, z->attn->input.X) + r) * (1.0 + 1e-12);
    *value = NAN;
    for (size_t b = 0; b < lipsc_zoo_count; b++) {
        const lipsc_zoo_rule *rule = &lipsc_zoo_rules[b];
        lipsc_zoo_row row;
        if (rule->kind != LIPSC_KIND_UPPER || rule->domain != LIPSC_DOMAIN_BALL) continue;
        const lipsc_status status = lipsc_zoo_evaluate(&ball, rule, &row);
        if (status) return status;
        if (!*row.refused && row.comparable && !isnan(row.value))
            *value = isnan(*value) ? row.value : smallest(*value, row.value);
    }
    return LIPSC_OK;
}

static double finite_or_nan(double x) { return x < INFINITY ? x : NAN; }

lipsc_status lipsc_around_at(const lipsc_zoo_case *z, double r, lipsc_around *out,
                             lipsc_error *err) {
    if (!(r >= 0.0 && r < INFINITY))
        return lipsc_fail(err, LIPSC_E_ARG, "the radius is not a number from 0 on");
    lipsc_around found = {.radius = r, .ends = NAN, .change = NAN, .point = NAN};
    /* where nothing is known at the point there is no column of its sink either */
    const double rounding = z->data_status ? INFINITY : z->data.rounding;
    lipsc_status status = bound_moved(z, r, rounding, &found);
    if (status == LIPSC_E_RANGE || status == LIPSC_E_NONFIN) status = LIPSC_OK;
    if (!status) status = bound_ball(z, r, &found.ball);
    if (status) return lipsc_fail(err, status, "around: %s", lipsc_strerror(status));
    found.ends = finite_or_nan(found.ends);
    found.change = finite_or_nan(found.change);
    if (!z->data_status) found.point = z->data.value;
    const double candidates[] = {found.ends, (found.point + found.change) * (1.0 + 4e-16),
                                 found.ball};
    found.value = NAN;
    for (size_t c = 0; c < 3; c++)
        if (!(found.value <= candidates[c]) && candidates[c] < INFINITY)
            found.value = candidates[c];
    if (isnan(found.value))
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "every bound over inputs within %.6g is too large for a double%s",
                          r,
                          z->layer->q_gain || z->layer->k_gain
                              ? ": a query or key may come too close to zero for its norm"
                              : "");
    *out = found;
    return LIPSC_OK;
}
