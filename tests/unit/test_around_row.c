/* test_around_row.c - what the bound over a neighbourhood says of single rows, and of the
 * column of a sink, against inputs that are made to go as far as they can: the weights of a
 * row from scores in long double, the column by the definition and LAPACK. */
#include "bound/sink_move.h"
#include "core/extreme.h"
#include "layers.h"
#include "linalg/dense.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
/* cmocka.h wants the above */
#include <cmocka.h>

#include "exact_norm.h"
#include "test_device.h"

/* A layer, one head of it entered, and what its rows say at a radius. */
typedef struct {
    test_layer t;
    lipsc_attn *attn;
    lipsc_head_at head;
    lipsc_reach reach;
    lipsc_around_row row;
    double *weight;
} bench;

static void bench_new(test_layer t, bench *b) {
    memset(b, 0, sizeof *b);
    b->t = t;
    b->weight = doubles(t.input.n);
    for (size_t j = 0; j < t.input.n; j++) b->weight[j] = 1.0;
    assert_int_equal(
        lipsc_attn_new(&t.layer, &t.input, LIPSC_F64, test_device(1), &b->attn, NULL),
        LIPSC_OK);
    assert_int_equal(lipsc_head_new(b->attn, &b->head), LIPSC_OK);
    assert_int_equal(lipsc_reach_new(t.input.n, &b->reach), LIPSC_OK);
    assert_int_equal(lipsc_around_row_new(&b->head, &b->row), LIPSC_OK);
    b->reach.weight = b->weight;
    b->reach.sink = t.input.n;
}

static void bench_free(bench *b) {
    lipsc_around_row_free(&b->row);
    lipsc_reach_free(&b->reach);
    lipsc_head_free(&b->head);
    lipsc_attn_free(b->attn);
    free(b->weight);
    test_layer_free(&b->t);
}

static void enter(bench *b, size_t h, double r) {
    assert_int_equal(lipsc_head_enter(b->attn, h, &b->head), LIPSC_OK);
    assert_int_equal(lipsc_reach_make(b->attn, h, &b->head, r, &b->reach), LIPSC_OK);
}

/* ---- Inputs that go far ------------------------------------------------------------- */

/* to += size times v, brought to length 1 */
static void step(size_t d, double size, const double *v, double *to) {
    const double length = vector_norm(d, v);
    for (size_t c = 0; c < d && length > 0.0; c++) to[c] += size * v[c] / length;
}

/* out (d) = W^T g for W (k, d) */
static void pull_back(size_t k, size_t d, const double *W, const double *g, double *out) {
    for (size_t c = 0; c < d; c++) {
        out[c] = 0.0;
        for (size_t l = 0; l < k; l++) out[c] += W[l * d + c] * g[l];
    }
}

/* Moves every token by r: token i along g of its query space, each other token l along or
 * against the gradient of its score as the sign of push_l says. */
static double *pushed(const bench *b, size_t h, size_t i, const double *g,
                      const double *push, double r) {
    const lipsc_layer *l = &b->t.layer;
    const size_t n = b->t.input.n, d = l->d, k = l->key_dim;
    double *X = doubles(n * d), *dq = doubles(d), *dk = doubles(d), *way = doubles(d);
    memcpy(X, b->t.input.X, n * d * sizeof *X);
    pull_back(k, d, l->Q + h * k * d, g, dq);
    for (size_t c = 0; c < d; c++) dq[c] *= b->head.scale;
    pull_back(k, d, l->K + h * k * d, b->head.q + i * k, dk);
    for (size_t j = 0; j < n; j++) {
        for (size_t c = 0; c < d; c++) way[c] = j == i ? dq[c] : push[j] * dk[c];
        step(d, r, way, X + j * d);
    }
    free(dq);
    free(dk);
    free(way);
    return X;
}

static void weights_at(const bench *b, size_t h, size_t i, const double *X, double *p) {
    const size_t n = b->t.input.n;
    const double *sinks = b->t.layer.sinks;
    lipsc_input moved = b->t.input;
    moved.X = X;
    const longdouble_point here = {&b->t.layer, &moved, NULL, 0.0L};
    long double *s = malloc((n + 2 * b->t.layer.key_dim) * sizeof *s), total = 0.0L;
    assert_non_null(s);
    longdouble_scores(&here, h, i, s + n, s);
    long double largest = s[i];
    for (size_t j = 0; j < n; j++) largest = fmaxl(largest, s[j]);
    if (sinks) largest = fmaxl(largest, sinks[h]);
    if (sinks) total = expl(sinks[h] - largest);
    for (size_t j = 0; j < n; j++) total += expl(s[j] - largest);
    for (size_t j = 0; j < n; j++) p[j] = (double)(expl(s[j] - largest) / total);
    free(s);
}

/* ---- Weights, and the mean ---------------------------------------------------------- */

/* Every weight of the row within its ends, and the mean within its drift.  *reached: how
 * much of eps_j the weight j has moved by. */
static void check_row(const bench *b, const double *p, size_t j, double *reached) {
    const lipsc_around_row *row = &b->row;
    const size_t dv = b->head.dv;
    double *mean = doubles(dv);
    for (size_t l = 0; l < row->all; l++) {
        double now = l < row->count ? p[row->lo + l] : 1.0;
        for (size_t c = 0; l == row->count && c < l; c++) now -= p[row->lo + c];
        assert_true(now <= row->hi[l] + 4e-15);
        assert_true(fabs(now - row->p[l]) <= row->eps[l] + 4e-15);
        for (size_t c = 0; c < dv; c++) mean[c] += now * row->y[l * dv + c];
    }
    assert_true(vector_norm(dv, mean) <= row->drift[0] * (1.0 + 1e-12) + 1e-14);
    *reached = lipsc_max(*reached, fabs(p[row->lo + j] - row->p[j]) / row->eps[j]);
    free(mean);
}

/* Up and down with weight j: the query along or against g_j, its key along, all others
 * against.  To first order nothing goes further where the row's own key counts little. */
static double try_weight(bench *b, size_t h, size_t i, size_t j, double r) {
    const size_t n = b->t.input.n, k = b->head.k;
    double *push = doubles(n), *g = doubles(k), *p = doubles(n), reached = 0.0;
    for (int sign = -1; sign <= 1; sign += 2) {
        for (size_t l = 0; l < n; l++) push[l] = -sign;
        push[b->row.lo + j] = sign;
        for (size_t c = 0; c < k; c++) g[c] = sign * b->row.g[j * k + c];
        double *X = pushed(b, h, i, g, push, r);
        weights_at(b, h, i, X, p);
        check_row(b, p, j, &reached);
        free(X);
    }
    free(push);
    free(g);
    free(p);
    return reached;
}

/* The mean along a direction: keys by the sign of their value there. */
static void try_mean(bench *b, size_t h, size_t i, double r, const double *e) {
    const size_t n = b->t.input.n, k = b->head.k, dv = b->head.dv;
    const lipsc_around_row *row = &b->row;
    double *push = doubles(n), *g = doubles(k), *p = doubles(n), reached = 0.0;
    for (size_t l = 0; l < row->count; l++) {
        const double along = vector_dot(dv, row->y + l * dv, e);
        push[row->lo + l] = along > 0.0 ? 1.0 : -1.0;
        for (size_t c = 0; c < k; c++) g[c] += row->p[l] * along * row->g[l * k + c];
    }
    double *X = pushed(b, h, i, g, push, r);
    weights_at(b, h, i, X, p);
    check_row(b, p, 0, &reached);
    free(X);
    free(push);
    free(g);
    free(p);
}

static void rows(void **state) {
    (void)state;
    static const unsigned kinds[] = {0,
                                     FEATURE_CAUSAL,
                                     FEATURE_BIASES,
                                     FEATURE_WEIGHTS,
                                     FEATURE_SCALE | FEATURE_LOCAL,
                                     FEATURE_SINKS,
                                     FEATURE_SINKS | FEATURE_CAUSAL | FEATURE_BIASES,
                                     FEATURE_SOFT_CAP,
                                     FEATURE_SOFT_CAP | FEATURE_SINKS | FEATURE_BIASES};
    double least = 1.0;
    for (uint64_t seed = 1; seed <= 45; seed++) {
        bench b;
        bench_new(random_layer(seed, kinds[seed % 9]), &b);
        const size_t n = b.t.input.n, heads = b.t.layer.heads, dv = b.head.dv;
        for (int k = 0; k < 4; k++) {
            const double r = (const double[]){1e-5, 1e-3, 0.05, 1.0}[k];
            for (size_t h = 0; h < heads; h++) {
                enter(&b, h, r);
                for (size_t i = 0; i < n; i++) {
                    assert_int_equal(lipsc_around_row_make(&b.head, &b.reach, i, &b.row),
                                     LIPSC_OK);
                    double *e = random_vectors(seed + i, dv);
                    try_mean(&b, h, i, r, e);
                    free(e);
                    for (size_t j = 0; j < b.row.count; j++) {
                        const double reached = try_weight(&b, h, i, j, r);
                        const double own = b.row.p[i - b.row.lo];
                        if (k == 0 && b.row.lo + j != i && own < 0.02 * (1.0 - b.row.p[j]))
                            least = lipsc_min(least, reached);
                    }
                }
            }
        }
        bench_free(&b);
    }
    print_message("weights: at least %.4f of eps is reached where r is small\n", least);
    assert_true(least > 0.95);
}

/* ---- The column of a sink ----------------------------------------------------------- */

/* Blocks (i, s) of J, i not s: (n - 1, width, d) */
static double *column_of(const test_layer *t, const double *X, size_t s) {
    const size_t n = t->input.n, d = t->layer.d, width = lipsc_layer_width(&t->layer);
    lipsc_input input = t->input;
    input.X = X;
    double *x = doubles(d * n * d), *y = doubles(d * n * width),
           *a = doubles(n * width * d);
    for (size_t c = 0; c < d; c++) x[c * n * d + s * d + c] = 1.0;
    assert_int_equal(lipsc_ref_apply(&t->layer, &input, 0, d, x, y, NULL), LIPSC_OK);
    for (size_t c = 0; c < d; c++)
        for (size_t e = 0; e < n * width; e++)
            a[e + c * n * width] = e / width == s ? 0.0 : y[c * n * width + e];
    free(x);
    free(y);
    return a;
}

static double column_moved(const test_layer *t, const double *X, size_t s) {
    const size_t n = t->input.n, d = t->layer.d, width = lipsc_layer_width(&t->layer);
    double *before = column_of(t, t->input.X, s), *after = column_of(t, X, s), norm = NAN;
    for (size_t e = 0; e < n * width * d; e++) after[e] -= before[e];
    assert_int_equal(lipsc_dense_norm(n * width, d, after, &norm), LIPSC_OK);
    free(before);
    free(after);
    return norm;
}

/* What lipsc_sink_bound says of token s at radius r. */
static double sink_bound(bench *b, size_t s, double r) {
    const size_t n = b->t.input.n;
    lipsc_sink sink;
    double value = NAN;
    b->reach.sink = s;
    assert_int_equal(lipsc_sink_new(&b->t.layer, n, s, &sink), LIPSC_OK);
    for (size_t h = 0; h < b->t.layer.heads; h++) {
        enter(b, h, r);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(lipsc_around_row_make(&b->head, &b->reach, i, &b->row),
                             LIPSC_OK);
            lipsc_sink_row(&b->head, &b->row, i, &sink);
        }
        lipsc_sink_keep(&b->t.layer, &b->head, h, &sink);
    }
    assert_int_equal(lipsc_sink_bound(&sink, NULL, &value), LIPSC_OK);
    value /= sink.unit;
    lipsc_sink_free(&sink);
    return value;
}

/* Heads side by side, where the norm over the heads is that of the blocks. */
static void sink_columns(void **state) {
    (void)state;
    double closest = 0.0;
    for (uint64_t seed = 1; seed <= 30; seed++) {
        const unsigned kinds[] = {0, FEATURE_BIASES, FEATURE_GROUPED};
        const layer_sizes sizes = {.n = 8, .d = 6, .heads = 4};
        bench b;
        bench_new(random_layer_of(seed, FEATURE_NO_OUTPUT | kinds[seed % 3], sizes), &b);
        const size_t n = 8, d = 6, s = seed % n;
        for (int k = 0; k < 3; k++) {
            const double r = (const double[]){1e-6, 1e-3, 0.1}[k];
            const double bound = sink_bound(&b, s, r);
            for (uint64_t try = 0; try < 6; try++) {
                double *X = doubles(n * d), *v = random_vectors(100 * seed + try, n * d);
                memcpy(X, b.t.input.X, n * d * sizeof *X);
                for (size_t i = 0; i < n; i++) /* some move together */
                    step(d, r, try % 2 ? v : v + i * d, X + i * d);
                const double moved = column_moved(&b.t, X, s);
                if (!(moved * (1.0 - 1e-9) <= bound))
                    fail_msg("seed %d, r %g: the column moves by %.6g, bound %.6g",
                             (int)seed, r, moved, bound);
                closest = lipsc_max(closest, moved / bound);
                free(X);
                free(v);
            }
        }
        bench_free(&b);
    }
    print_message("sinks: a random input reaches %.3f of what the column may move by\n",
                  closest);
    assert_true(closest > 0.05);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows),
        cmocka_unit_test(sink_columns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
