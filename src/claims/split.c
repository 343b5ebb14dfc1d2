/* split.c - docs/maths.md 2: atoms that move, are split, are teleported. */
#include <math.h>
#include <string.h>

#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"
#include "claims/claims.h"

enum { ATOMS = 3, WIDTH = 3, PARTS = 5 };

/* ---- Random measures ----------------------------------------------------------------- */

typedef struct {
    claims_small small;
    double X[ATOMS * WIDTH], weights[ATOMS], times[ATOMS];
    lipsc_measure mu;
} cloud;

static lipsc_status draw(claims_dice *dice, size_t kind, int timed, cloud *c) {
    const size_t n = claims_among(dice, 1, ATOMS), d = claims_among(dice, 1, WIDTH);
    double total = 0.0, scale = 0.3 + 1.7 * claims_uniform(dice);
    claims_score_matrix(dice, kind, d, c->small.A);
    for (size_t e = 0; e < d * d; e++) c->small.A[e] *= scale;
    claims_normal(dice, d * d, 1.0, c->small.V);
    claims_tokens(dice, n, d, 2.0, 0, c->X);
    for (size_t i = 0; i < n; i++) total += c->weights[i] = 0.02 + claims_uniform(dice);
    for (size_t i = 0; i < n; i++) c->weights[i] /= total;
    for (size_t i = 0; i < n; i++) c->times[i] = (double)(i + 1) / (double)n;
    c->mu = (lipsc_measure){.n = n,
                            .d = d,
                            .points = c->X,
                            .weights = c->weights,
                            .times = timed ? c->times : NULL};
    return claims_small_ready(&c->small, d);
}

static int find(const lipsc_layer *layer, const lipsc_measure *mu, lipsc_slopes *out) {
    return lipsc_slopes_find(layer, mu, NULL, out, NULL) == LIPSC_OK;
}

/* sigma of the system in which every atom is `parts` atoms that move on their own, by
 * LAPACK: no formula of section 2 is in it. */
static double split_by_force(claims_dice *dice, const cloud *c, size_t parts) {
    const size_t n = c->mu.n, d = c->mu.d;
    double X[ATOMS * PARTS * WIDTH], weights[ATOMS * PARTS], times[ATOMS * PARTS];
    lipsc_layer layer = c->small.layer;
    for (size_t i = 0; i < n; i++) {
        double total = 0.0, *part = weights + i * parts;
        for (size_t b = 0; b < parts; b++) total += part[b] = 0.01 + claims_uniform(dice);
        for (size_t b = 0; b < parts; b++) {
            part[b] *= c->weights[i] / total;
            times[i * parts + b] = c->times[i];
            memcpy(X + (i * parts + b) * d, c->X + i * d, d * sizeof *X);
        }
    }
    const lipsc_input input = {
        .n = n * parts, .X = X, .weights = weights, .times = c->mu.times ? times : NULL};
    if (c->mu.times) layer.mask = LIPSC_MASK_TIMES;
    return claims_sigma(&layer, &input);
}

/* P_ii |V (I + (x_i - m_i) w_i^T)|, the largest: what splitting can gain at most. */
static double self_term(const cloud *c) {
    const size_t n = c->mu.n, d = c->mu.d;
    double largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double w[WIDTH] = {0}, score[ATOMS], m[WIDTH] = {0}, sum = 0.0, norm;
        double T[WIDTH * WIDTH], VT[WIDTH * WIDTH]; /* column-major */
        for (size_t a = 0; a < d; a++)
            for (size_t b = 0; b < d; b++) w[a] += c->small.A[a * d + b] * c->X[i * d + b];
        for (size_t j = 0; j < n; j++) {
            score[j] = 0.0;
            for (size_t a = 0; a < d; a++) score[j] += w[a] * c->X[j * d + a];
            sum += score[j] = c->weights[j] * exp(score[j]);
        }
        for (size_t j = 0; j < n; j++)
            for (size_t a = 0; a < d; a++) m[a] += score[j] / sum * c->X[j * d + a];
        for (size_t a = 0; a < d; a++)
            for (size_t b = 0; b < d; b++)
                T[a + b * d] = (a == b) + (c->X[i * d + a] - m[a]) * w[b];
        lipsc_dense_gemm(1, 0, d, d, d, 1.0, c->small.V, d, T, d, 0.0, VT, d);
        if (lipsc_dense_norm(d, d, VT, &norm)) return NAN;
        largest = lipsc_max(largest, score[i] / sum * norm);
    }
    return largest;
}

typedef struct {
    double theorem, masked, move, gain, cover;
    int clouds;
} worst;

static void examine(claims_dice *dice, size_t trial, worst *w) {
    cloud c;
    lipsc_slopes s;
    const int timed = trial % 3 == 2;
    static const size_t kinds[] = {0, 1, 2, 4};
    lipsc_status status = draw(dice, kinds[trial % 4], timed, &c);
    if (!status && find(&c.small.layer, &c.mu, &s)) {
        for (size_t parts = 2; parts <= PARTS; parts += parts == 2 ? 1 : 2) {
            const double forced = split_by_force(dice, &c, parts);
            double *at = timed ? &w->masked : &w->theorem;
            claims_raise(at, fabs(forced / s.split - 1.0));
        }
        claims_raise(&w->move, fabs(s.move_measured / s.move - 1.0));
        if (!timed) claims_raise(&w->gain, s.split / (s.move + self_term(&c)));
        if (s.teleport > 0.0 || s.teleport_cover > 0.0) /* one atom: both are zero */
            claims_raise(&w->cover, s.teleport / s.teleport_cover);
        w->clouds++;
        lipsc_slopes_free(&s);
    } else {
        w->theorem = w->masked = w->move = w->gain = w->cover = NAN;
    }
    claims_small_free(&c.small);
}

void claims_split_theorem(claims_work *r) {
    claims_dice dice = {r->set->seed, 0};
    const size_t trials = r->set->quick ? 24 : 240;
    worst w = {0};
    for (size_t t = 0; claims_going(r, t, trials); t++) examine(&dice, t, &w);
    claims_say(r, "moving", w.move,
               "exact W_2 ratios of small steps differ by at most %.1e", w.move);
    claims_say(r, "splitting-theorem", w.theorem,
               "split systems by force differ by at most %.1e, %d measures", w.theorem,
               w.clouds);
    claims_say(r, "splitting-masked", w.masked,
               "split systems by force differ by at most %.1e", w.masked);
    claims_say(r, "splitting-gain", w.gain, "largest ratio %.4f", w.gain);
    claims_say(r, "teleport-cover", w.cover, "largest ratio %.4f", w.cover);
}

/* ---- The examples -------------------------------------------------------------------- */

static lipsc_measure two_atoms(const double x[2], const double *a) {
    return (lipsc_measure){.n = 2, .d = 1, .points = x, .weights = a};
}

/* S1: R^-2 at R, the rest at 0. */
static void unbounded_gain(claims_work *r, const lipsc_layer *layer) {
    double worst_split = 0.0, ratio = 0.0, R = 2.0;
    for (; R <= 16.0; R *= 2.0) {
        const double x[] = {R, 0.0}, a[] = {1.0 / (R * R), 1.0 - 1.0 / (R * R)};
        const lipsc_measure mu = two_atoms(x, a);
        lipsc_slopes s;
        if (!find(layer, &mu, &s)) {
            worst_split = ratio = NAN;
            break;
        }
        worst_split = lipsc_max(worst_split, fabs(s.split - a[1]));
        ratio = s.split / s.move;
        json_t *row = json_object();
        char key[64];
        snprintf(key, sizeof key, "S1: R=%g", R);
        json_object_set_new(row, "experiment", json_string("splitting, example S1"));
        json_object_set_new(row, "radius", json_real(R));
        json_object_set_new(row, "move", lipsc_json_real(s.move));
        json_object_set_new(row, "split", lipsc_json_real(s.split));
        json_object_set_new(row, "teleport", lipsc_json_real(s.teleport));
        claims_store(r, key, row);
        lipsc_slopes_free(&s);
    }
    claims_say(r, "S1", worst_split, "off by at most %.1e for R = 2, 4, 8, 16",
               worst_split);
    claims_say(r, "S1-gain", ratio, "%.3f at R = 16", ratio);
}

void claims_split_examples(claims_work *r) {
    claims_small small;
    lipsc_slopes s;
    if (claims_small_identity(&small, 1, -1.0)) return;
    unbounded_gain(r, &small.layer);
    static const double pair[] = {5.5981184, 0.46767033};
    lipsc_measure mu = two_atoms(pair, NULL);
    double move = NAN, split = NAN, duplicate = NAN;
    if (find(&small.layer, &mu, &s)) {
        move = s.move;
        split = s.split;
        lipsc_slopes_free(&s);
    }
    lipsc_layer causal = small.layer;
    causal.mask = LIPSC_MASK_CAUSAL;
    if (find(&causal, &mu, &s)) {
        duplicate = s.duplicate;
        lipsc_slopes_free(&s);
    }
    claims_say(r, "S2", split / move, "%.6f -> %.6f", move, split);
    claims_say(r, "duplication", split / move, "%.3f times as much, two tokens (S2)",
               split / move);
    claims_say(r, "S2-causal", duplicate, "%.5f against %.5f", duplicate, split);
    static const double x[] = {3.0, 0.0}, a[] = {1.0 / 9.0, 8.0 / 9.0};
    double teleport = NAN, measured = NAN;
    mu = two_atoms(x, a);
    if (find(&small.layer, &mu, &s)) {
        teleport = s.teleport;
        split = s.split;
        measured = s.teleport_measured;
        lipsc_slopes_free(&s);
    }
    claims_say(r, "teleport", teleport, "%.4f against %.4f, as an exact W_2 ratio %.4f",
               teleport, split, measured);
    claims_small_free(&small);
}
