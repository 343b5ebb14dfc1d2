/* joint.c - two outliers for each of several heads at once (docs/maths.md 5.2 is for one
 * head).
 *
 * Bulk at x, and for each head h of a chosen set a pair of outliers c_h +- b_h: the b_h are
 * orthogonal to every w_h = A_h x + c_h, so that head h shares its attention evenly between
 * the two of its own pair, which it prefers to all other tokens by its place c_h.  Moving
 * the pairs by +-v_h moves every bulk output by sum_h W_h V_h b_h (w_h.v_h); with v_h along
 * w_h and all outputs along e this is
 *
 *     sqrt((n - 2m)/2) ( sum_h |w_h|^2 |W_h V_h b_h . e|^2 )^{1/2},
 *
 * m the number of pairs: about what |J| reaches.  b_h is V_h^T W_h^T e with the w's taken
 * off; e and x are found by power steps in turn.  Heads that like the same x add up. */
#include <math.h>
#include <string.h>

#include "attack/search.h"
#include "bound/outlier.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/space.h"

enum { MOST_PAIRS = 8, ROUNDS = 60 };

typedef struct {
    const lipsc_layer *layer;
    const lipsc_head_facts *facts; /* (heads) */
    size_t heads, d, width;
    double R;
    double *x, *e;     /* (d), (width), of length one, one behind the other  */
    double *first;     /* (d + width): what they begin with                  */
    double *w, *s, *q; /* (heads, d): w_h; b_h, not scaled; basis of the w_h */
    double *W;         /* (heads, dv, width): W_h^T, or NULL without O       */
    double *part;      /* (heads): |w_h| |s_h|                              */
    double *along;     /* (heads)                                            */
    double *room, *other, *storage;
    size_t use[MOST_PAIRS];
} joint;

static void add(size_t n, double factor, const double *x, double *y) {
    for (size_t c = 0; c < n; c++) y[c] += factor * x[c];
}

static double normalise(size_t n, double *x) {
    const double length = sqrt(lipsc_dot_simd(n, x, x));
    for (size_t c = 0; length > 0.0 && c < n; c++) x[c] /= length;
    return length;
}

/* y (cols) += M^T x, M (rows, cols) row-major, of the host */
static void add_back(size_t rows, size_t cols, const double *M, const double *x,
                     double *y) {
    (void)!lipsc_space_combine(lipsc_space_host(LIPSC_F64), cols, rows,
                               lipsc_host_view(rows * cols, M), 1, x, 1.0,
                               lipsc_host_view(cols, y));
}

static const double *values_of(const joint *j, size_t h) {
    const lipsc_layer *l = j->layer;
    return l->V + h * l->kv_heads / l->heads * l->value_dim * j->d;
}

/* p += factor W_h V_h b; without O the heads stand side by side. */
static void add_value(joint *j, size_t h, double factor, const double *b, double *p) {
    const size_t dv = j->layer->value_dim;
    lipsc_host_multiply(dv, j->d, values_of(j, h), b, j->room);
    for (size_t k = 0; k < dv; k++) j->room[k] *= factor;
    if (j->W)
        add_back(dv, j->width, j->W + h * dv * j->width, j->room, p);
    else
        add(dv, 1.0, j->room, p + h * dv);
}

/* s = V_h^T W_h^T e */
static void value_back(joint *j, size_t h, const double *e, double *s) {
    const size_t dv = j->layer->value_dim;
    memset(s, 0, j->d * sizeof *s);
    if (j->W)
        lipsc_host_multiply(dv, j->width, j->W + h * dv * j->width, e, j->room);
    else
        memcpy(j->room, e + h * dv, dv * sizeof *s);
    add_back(dv, j->d, values_of(j, h), j->room, s);
}

/* Takes the first `rank` vectors of q off x; twice, against rounding. */
static void take_off(const joint *j, size_t rank, double *x) {
    for (int pass = 0; pass < 2; pass++) {
        lipsc_host_multiply(rank, j->d, j->q, x, j->along);
        for (size_t k = 0; k < rank; k++) j->along[k] = -j->along[k];
        add_back(rank, j->d, j->q, j->along, x);
    }
}

/* From x and e: w_h, s_h orthogonal to all w, and what each head adds. */
static void prepare(joint *j) {
    size_t rank = 0;
    for (size_t c = 0; c < j->d; c++) j->other[c] = j->R * j->x[c];
    for (size_t h = 0; h < j->heads; h++) {
        double *w = j->w + h * j->d, *q = j->q + rank * j->d;
        lipsc_head_facts_score(&j->facts[h], 1, j->other, j->room, w);
        memcpy(q, w, j->d * sizeof *q);
        if (!(normalise(j->d, q) > 0.0)) continue;
        take_off(j, rank, q);
        if (normalise(j->d, q) > 1e-9) rank++;
    }
    for (size_t h = 0; h < j->heads; h++) {
        double *w = j->w + h * j->d, *s = j->s + h * j->d;
        value_back(j, h, j->e, s);
        take_off(j, rank, s);
        const double self = lipsc_max(lipsc_dot_simd(j->d, w, j->x), 0.0);
        j->part[h] =
            sqrt((lipsc_dot_simd(j->d, w, w) - self * self) * lipsc_dot_simd(j->d, s, s));
    }
}

/* The m heads that add most; returns the root of the sum of their squares. */
static double choose(joint *j, size_t m) {
    double sum = 0.0;
    for (size_t k = 0; k < m; k++) {
        size_t best = j->heads;
        for (size_t h = 0; h < j->heads; h++) {
            int taken = 0;
            for (size_t l = 0; l < k; l++) taken |= j->use[l] == h;
            if (!taken && (best == j->heads || j->part[h] > j->part[best])) best = h;
        }
        j->use[k] = best;
        sum += j->part[best] * j->part[best];
    }
    return sqrt(sum);
}

/* One power step for e, and a damped one for x: where a bulk token likes itself, w_h.x > 0,
 * the pair must stand at c_h along w_h and b_h is shorter, so that |w_h|^2 - (w_h.x)^2 is
 * what counts. */
static void improve(joint *j, size_t m) {
    double *step = j->q; /* made anew by prepare */
    memset(j->e, 0, j->width * sizeof *j->e);
    memset(step, 0, j->d * sizeof *step);
    for (size_t k = 0; k < m; k++) {
        const size_t h = j->use[k];
        const double *w = j->w + h * j->d, *s = j->s + h * j->d;
        const double weight = lipsc_dot_simd(j->d, s, s),
                     self = lipsc_max(lipsc_dot_simd(j->d, w, j->x), 0.0);
        add_value(j, h, lipsc_dot_simd(j->d, w, w), s, j->e);
        lipsc_head_facts_score_back(&j->facts[h], w, j->room, j->other);
        add(j->d, weight, j->other, step);
        lipsc_head_facts_score_back(&j->facts[h], j->x, j->room, j->other);
        add(j->d, -weight * self, j->other, step);
        add(j->d, -weight * self / j->R, w, step);
    }
    const double length = sqrt(lipsc_dot_simd(j->d, step, step));
    normalise(j->width, j->e);
    add(j->d, -lipsc_dot_simd(j->d, step, j->x), j->x, step); /* along the sphere */
    add(j->d, length > 0.0 ? 1.0 / length : 0.0, step, j->x);
    normalise(j->d, j->x);
}

/* Begins with what head `first` likes best. */
static lipsc_status begin(joint *j, size_t first) {
    enum { STEPS = 10 };
    double sigma;
    const lipsc_status status =
        lipsc_score_vectors(&j->facts[first], 1, &sigma, j->other, j->x);
    for (size_t c = 0; c < j->d; c++) j->other[c] = 1.0 + (double)(c % 7); /* any */
    for (int step = 0; !status && step < STEPS; step++) {
        memset(j->e, 0, j->width * sizeof *j->e);
        add_value(j, first, 1.0, j->other, j->e);
        normalise(j->width, j->e);
        value_back(j, first, j->e, j->other);
    }
    return status;
}

/* ---- The tokens --------------------------------------------------------------------- */

/* c: w_k.c reaches the score that head k wants its outliers to have, and for the other
 * heads used it stays below theirs, by projections.  Its length. */
static double place(const joint *j, size_t m, size_t k, double margin, double *c) {
    enum { SWEEPS = 300 };
    memset(c, 0, j->d * sizeof *c);
    for (int sweep = 0; sweep < SWEEPS; sweep++)
        for (size_t l = 0; l < m; l++) {
            const double *w = j->w + j->use[l] * j->d;
            const double own =
                lipsc_max(j->R * lipsc_dot_simd(j->d, w, j->x), 0.0) + margin;
            const double miss = (l == k ? own : own - margin) - lipsc_dot_simd(j->d, w, c);
            if (l == k ? miss > 0.0 : miss < 0.0)
                add(j->d, miss / lipsc_dot_simd(j->d, w, w), w, c);
        }
    return sqrt(lipsc_dot_simd(j->d, c, c));
}

static lipsc_status lay_out(const joint *j, size_t m, size_t n, lipsc_worst *out) {
    const double margin = log((double)n) + 4.0;
    const size_t d = j->d;
    lipsc_status status = lipsc_worst_new(2 * m + 1, d, 0, out);
    if (status) return status;
    for (size_t k = 0; k < m; k++) {
        const double *s = j->s + j->use[k] * d, *w = j->w + j->use[k] * d;
        double *plus = out->X + 2 * k * d, *minus = plus + d;
        const double length = place(j, m, k, margin, minus);
        const double across =
            sqrt(j->R * j->R - length * length) / sqrt(lipsc_dot_simd(d, s, s));
        if (!(length < j->R) || !isfinite(across) || !(lipsc_dot_simd(d, w, w) > 0.0)) {
            lipsc_worst_free(out);
            return LIPSC_E_REFUSED;
        }
        for (size_t c = 0; c < d; c++) {
            plus[c] = minus[c] + across * s[c];
            minus[c] -= across * s[c];
        }
        out->count[2 * k] = out->count[2 * k + 1] = 1.0;
    }
    for (size_t c = 0; c < d; c++) out->X[2 * m * d + c] = j->R * j->x[c];
    out->count[2 * m] = (double)(n - 2 * m);
    out->n = n;
    return LIPSC_OK;
}

static lipsc_status joint_new(joint *j) {
    const lipsc_layer *l = j->layer;
    const size_t d = j->d, wide = j->heads * d,
                 inner = l->key_dim > l->value_dim ? l->key_dim : l->value_dim;
    const size_t slices = l->O ? j->heads * l->value_dim * j->width : 0;
    j->storage =
        lipsc_alloc_zero(3 * d + 2 * j->width + 3 * wide + 2 * j->heads + inner + slices,
                         sizeof *j->storage);
    if (!j->storage) return LIPSC_E_NOMEM;
    j->x = j->storage;
    j->e = j->x + d;
    j->first = j->e + j->width;
    j->other = j->first + d + j->width;
    j->w = j->other + d;
    j->s = j->w + wide;
    j->q = j->s + wide;
    j->part = j->q + wide;
    j->along = j->part + j->heads;
    j->room = j->along + j->heads;
    if (!l->O) return LIPSC_OK;
    j->W = j->room + inner;
    for (size_t k = 0; k < j->heads * l->value_dim; k++)
        for (size_t o = 0; o < j->width; o++)
            j->W[k * j->width + o] = l->O[o * j->heads * l->value_dim + k];
    return LIPSC_OK;
}

/* Power steps until nothing is gained any more; what the m heads add up to. */
static double settle(joint *j, size_t m) {
    const double small = 1e-6; /* gain of a round at the end, twice in a row */
    double sum = 0.0;
    int level = 0;
    for (int round = 0; round < ROUNDS; round++) {
        const double last = sum;
        prepare(j);
        sum = choose(j, m);
        level = fabs(sum - last) <= small * sum ? level + 1 : 0;
        if (level == 2 || round + 1 == ROUNDS) break;
        improve(j, m);
    }
    return sum;
}

lipsc_status lipsc_construct_joint(const lipsc_layer *layer, const lipsc_head_facts *facts,
                                   double R, size_t n, size_t first, lipsc_worst *out) {
    joint j = {.layer = layer,
               .facts = facts,
               .heads = layer->heads,
               .d = layer->d,
               .width = lipsc_layer_width(layer),
               .R = R};
    size_t best = 0;
    double most = 0.0;
    lipsc_status status = joint_new(&j);
    if (!status) status = begin(&j, first);
    if (!status) memcpy(j.first, j.x, (j.d + j.width) * sizeof *j.x);
    for (size_t m = 1; !status && m <= MOST_PAIRS && m <= j.heads && 2 * m < n; m++) {
        memcpy(j.x, j.first, (j.d + j.width) * sizeof *j.x);
        const double value = settle(&j, m) * sqrt((double)(n - 2 * m));
        lipsc_worst worst;
        if (!(value > most) || !isfinite(value)) continue;
        status = lay_out(&j, m, n, &worst);
        if (status == LIPSC_E_REFUSED) {
            status = LIPSC_OK;
            continue;
        }
        if (status) break;
        if (best) lipsc_worst_free(out);
        *out = worst;
        most = value;
        best = m;
    }
    lipsc_release(j.storage);
    if (status && best) lipsc_worst_free(out);
    return status ? status : best ? LIPSC_OK : LIPSC_E_REFUSED;
}
