/* basics.c - docs/maths.md 1.4, 3.14 and 5.2: sequences are measures, there is no
 * constant for all inputs, and what was known before the paper. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "claims/claims.h"

/* ---- 1.4: F(m(X)) = m(f(X)) ---------------------------------------------------------- */

enum { ATOMS = 4, TOKENS = 12, WIDTH = 3 };

/* A sequence of few different tokens, each written several times, and its measure. */
typedef struct {
    claims_small small;
    size_t n, atoms, d;
    double X[TOKENS * WIDTH], points[ATOMS * WIDTH], weights[ATOMS], times[TOKENS];
} sequence;

static lipsc_status draw(claims_dice *dice, size_t trial, sequence *q) {
    size_t count[ATOMS] = {0};
    q->d = claims_among(dice, 1, WIDTH);
    q->atoms = claims_among(dice, 1, ATOMS);
    q->n = claims_among(dice, q->atoms, TOKENS);
    claims_score_matrix(dice, trial % 5, q->d, q->small.A);
    claims_normal(dice, q->d * q->d, 1.0, q->small.V);
    claims_tokens(dice, q->atoms, q->d, 2.0, 0, q->points);
    for (size_t i = 0; i < q->n; i++) { /* every atom at least once */
        const size_t a = i < q->atoms ? i : claims_among(dice, 0, q->atoms - 1);
        memcpy(q->X + i * q->d, q->points + a * q->d, q->d * sizeof *q->X);
        q->times[i] = (double)(i + 1) / (double)q->n;
        count[a]++;
    }
    for (size_t a = 0; a < q->atoms; a++) q->weights[a] = (double)count[a] / (double)q->n;
    return claims_small_ready(&q->small, q->d);
}

/* The exact distance from m(f(X)), f by the definition's plain loops, to F of the measure;
 * relative to the size of f(X). */
static double off_by(const sequence *q, int causal) {
    const lipsc_input input = {.n = q->n, .X = q->X};
    lipsc_layer sequence_layer = q->small.layer;
    double Y[TOKENS * WIDTH], size = 0.0, off = NAN;
    lipsc_cloud image = {.storage = NULL};
    lipsc_distance_settings how;
    lipsc_distance distance;
    sequence_layer.mask = causal ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE;
    if (lipsc_ref_output(&sequence_layer, &input, Y, NULL)) return NAN;
    for (size_t e = 0; e < q->n * q->d; e++) size = hypot(size, Y[e]);
    const lipsc_measure mu =
        causal ? (lipsc_measure){.n = q->n, .d = q->d, .points = q->X, .times = q->times}
               : (lipsc_measure){
                     .n = q->atoms, .d = q->d, .points = q->points, .weights = q->weights};
    const lipsc_measure own = {
        .n = q->n, .d = q->d, .points = Y, .times = causal ? q->times : NULL};
    lipsc_distance_defaults(&how);
    how.conditional = causal;
    if (lipsc_measure_push(&q->small.layer, &mu, NULL, &image, NULL)) return NAN;
    if (!lipsc_distance_between(&own, &image.measure, &how, &distance, NULL)) {
        off = distance.distance / size;
        lipsc_distance_free(&distance);
    }
    lipsc_cloud_free(&image);
    return off;
}

void claims_embedding(claims_work *r) {
    claims_dice dice = {r->set->seed + 14, 0};
    const size_t trials = r->set->quick ? 20 : 200;
    double off[2] = {0, 0};
    for (size_t t = 0; claims_going(r, t, trials); t++) {
        sequence q;
        const lipsc_status status = draw(&dice, t, &q);
        for (int causal = 0; causal < 2; causal++)
            claims_raise(&off[causal], status ? NAN : off_by(&q, causal));
        claims_small_free(&q.small);
    }
    claims_say(r, "embedding", off[0],
               "W_2 at most %.1e of |f(X)|, %zu sequences with repeated tokens", off[0],
               trials);
    claims_say(r, "embedding-masked", off[1], "d_2 at most %.1e of |f(X)|", off[1]);
}

/* ---- No constant for all inputs ------------------------------------------------------ */

/* A token at 0 sees R and -R equally: sigma >= 2/3 |A| R^2 - 1/3 (5.2), for every R. */
void claims_not_lipschitz(claims_work *r) {
    static const double radii[] = {1, 10, 100, 1000};
    double least = INFINITY, values[4] = {0};
    claims_small s;
    if (claims_small_identity(&s, 1, 1.0)) return;
    for (size_t i = 0; i < 4; i++) {
        const double R = radii[i], X[] = {R, -R, 0.0};
        const lipsc_input input = {.n = 3, .X = X};
        values[i] = claims_sigma(&s.layer, &input);
        claims_lower(&least, values[i] / (2.0 / 3.0 * R * R - 1.0 / 3.0));
    }
    claims_say(
        r, "not-lipschitz", least,
        "three tokens R, -R, 0: sigma %.4g, %.4g, %.4g, %.4g at R = 1, 10, 100, 1000",
        values[0], values[1], values[2], values[3]);
    claims_small_free(&s);
}

/* ---- What was known before ----------------------------------------------------------- */

/* sigma of 5.3 over that of 5.2 (L4) at the same radius, A = -1. */
static double gain_over_linear(double a) {
    claims_small s;
    lipsc_worst worst;
    double diracs = NAN, line = NAN;
    if (claims_small_identity(&s, 1, -1.0)) return NAN;
    if (!lipsc_construct_diracs(&s.facts, sqrt(a), &worst, NULL))
        diracs = claims_reach(&s, &worst, 0);
    if (!lipsc_construct_linear(&s.facts, sqrt(a), 1001, &worst, NULL))
        line = claims_reach(&s, &worst, 0);
    claims_small_free(&s);
    return diracs / line;
}

/* 3.14 with |X|^2 <= n R^2, |P|^2 <= n and a softmax Jacobian of norm at most 1/2. */
static double elementary_ball(double n, double a) { return sqrt(n) + n * a; }

void claims_prior(claims_work *r) {
    static const double sizes[] = {1, 2, 4, 6}, lengths[] = {13, 100, 1000, 10000};
    double least = INFINITY, last = NAN, above = INFINITY, far = NAN;
    for (size_t i = 0; i < 4; i++) claims_lower(&least, last = gain_over_linear(sizes[i]));
    claims_say(r, "prior-lower", least, "%.3g times as much at a = 1, %.4g times at a = 6",
               least, last);
    for (size_t i = 0; i < 4; i++) {
        claims_small s;
        const double a = sizes[i];
        if (claims_small_identity(&s, 1, -1.0)) return;
        for (size_t j = 0; j < 4; j++) {
            far = elementary_ball(lengths[j], a) /
                  claims_ball_bound(&s, "paper-finite-n", (size_t)lengths[j], sqrt(a), 0);
            claims_lower(&above, far);
        }
        claims_small_free(&s);
    }
    claims_say(r, "prior-elementary", above,
               "at least %.3f times 3.1, %.1f times at n = 10^4", above, far);
    claims_pass(
        r, "prior-improved",
        "the constants of Vuckovic et al. 2020, 2021 (W_1) and Geshkovski et al. 2023 "
        "(W_2) were not seen; what can be compared are prior-lower and "
        "prior-elementary");
}
