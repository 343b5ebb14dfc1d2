/* regimes.c - docs/maths.md 3.5 and 6: where growth with n must stop, and what is
 * left when tokens are large. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "linalg/dense.h"
#include "claims/claims.h"

/* ---- 3.5: the crossover -------------------------------------------------------------- */

/* d ln bound / d ln n, by a factor of four */
static double slope(const claims_small *s, double R, double n) {
    const double low = claims_ball_bound(s, "finite-n", (size_t)n, R, 0);
    const double high = claims_ball_bound(s, "finite-n", (size_t)(4.0 * n), R, 0);
    return log(high / low) / log(4.0);
}

void claims_crossover(claims_work *r) {
    claims_small s;
    if (claims_small_identity(&s, 1, -1.0)) return;
    const double R = 2.0, turn = exp(2.0 * R * R); /* a = 4: e^8 = 2981 */
    const double before = slope(&s, R, turn / 64.0), after = slope(&s, R, turn * 256.0);
    claims_say(r, "crossover-before", before, "exponent %.3f near n = e^{2a}/64, a = 4",
               before);
    claims_say(r, "crossover-after", after, "exponent %.4f near n = 256 e^{2a}", after);
    claims_small_free(&s);
}

/* 1: ball and input are called so. */
static int called(const claims_small *s, const lipsc_input *input, const char *ball,
                  const char *here) {
    lipsc_attn *attn = NULL;
    lipsc_zoo_case z;
    lipsc_regime regime;
    int right = 0;
    if (lipsc_attn_new(&s->layer, input, LIPSC_F64, NULL, &attn, NULL)) return 0;
    if (!lipsc_zoo_case_make(attn, NAN, 2.0, NULL, &z, NULL) &&
        !lipsc_zoo_regime(&z, &regime, NULL))
        right = !strcmp(regime.name, ball) && !strcmp(regime.input, here);
    lipsc_zoo_case_free(&z);
    lipsc_attn_free(attn);
    return right;
}

void claims_told_apart(claims_work *r) {
    enum { TOKENS = 64 };
    static const struct {
        double R;
        size_t n;
        int together; /* tokens close to each other: scores hardly differ */
        const char *ball, *input;
    } cases[] = {{2.0, 8, 0, "sqrt_n", "sqrt_n"},
                 {1.0, TOKENS, 0, "mean_field", "mean_field"},
                 {100.0, 8, 0, "large_radius", "large_radius"},
                 {2.0, 8, 1, "sqrt_n", "mean_field"}};
    claims_dice dice = {r->set->seed + 35, 0};
    int right = 0;
    for (size_t i = 0; i < 4; i++) {
        claims_small s;
        double X[TOKENS * 2];
        if (claims_small_identity(&s, 2, -1.0)) return;
        claims_tokens(&dice, cases[i].n, 2, cases[i].R, 1, X);
        for (size_t e = 0; cases[i].together && e < 2 * cases[i].n; e++)
            X[e] = 0.01 * X[e] + (e % 2 ? 0.0 : cases[i].R);
        const lipsc_input input = {.n = cases[i].n, .X = X};
        right += called(&s, &input, cases[i].ball, cases[i].input);
        claims_small_free(&s);
    }
    claims_say(r, "regimes", right, "%d of 4", right);
}

/* ---- 6: large radius ----------------------------------------------------------------- */

enum { TOKENS = 8, WIDTH = 3 };

/* |V| sqrt(max_j #{i : argmax_l (A x_i).x_l = j}), counted here; *rows: that number */
static double limit_of(const claims_small *s, size_t n, int causal, const double *X) {
    const size_t d = s->layer.d;
    size_t votes[TOKENS] = {0}, most = 0;
    for (size_t i = 0; i < n; i++) {
        double w[WIDTH] = {0}, best = -INFINITY;
        size_t choice = 0;
        for (size_t a = 0; a < d; a++)
            for (size_t b = 0; b < d; b++) w[a] += s->A[a * d + b] * X[i * d + b];
        for (size_t j = 0; j <= (causal ? i : n - 1); j++) {
            double score = 0.0;
            for (size_t a = 0; a < d; a++) score += w[a] * X[j * d + a];
            if (score > best) {
                best = score;
                choice = j;
            }
        }
        if (++votes[choice] > most) most = votes[choice];
    }
    return s->facts.norm_V * sqrt((double)most);
}

void claims_large_radius(claims_work *r) {
    static const double radii[] = {1, 3, 10, 30, 1000};
    claims_dice dice = {r->set->seed + 6, 0};
    const size_t trials = r->set->quick ? 16 : 60;
    double off = 0.0, root = 0.0, between = 0.0, shown[5] = {0};
    for (size_t t = 0; claims_going(r, t, trials); t++) {
        claims_small s;
        const size_t n = claims_among(&dice, 2, TOKENS), d = claims_among(&dice, 1, WIDTH);
        const int causal = t % 2;
        double X[TOKENS * WIDTH], values[5], scaled[TOKENS * WIDTH];
        claims_score_matrix(&dice, 0, d, s.A);
        claims_normal(&dice, d * d, 1.0, s.V);
        claims_normal(&dice, n * d, 1.0, X);
        if (claims_small_ready(&s, d)) return;
        lipsc_layer layer = s.layer;
        if (causal) layer.mask = LIPSC_MASK_CAUSAL;
        const double limit = limit_of(&s, n, causal, X);
        for (size_t i = 0; i < 5; i++) {
            for (size_t e = 0; e < n * d; e++) scaled[e] = radii[i] * X[e];
            const lipsc_input input = {.n = n, .X = scaled};
            values[i] = claims_sigma(&layer, &input);
        }
        claims_raise(&off, fabs(values[4] / limit - 1.0));
        claims_raise(&root, values[4] / (s.facts.norm_V * sqrt((double)n)));
        for (size_t i = 0; i < 4; i++)
            if (values[i] / limit > between) {
                between = values[i] / limit;
                memcpy(shown, values, sizeof shown);
            }
        claims_small_free(&s);
    }
    claims_say(r, "large-radius", off, "off by at most %.1e at R = 1000, %zu inputs", off,
               trials);
    claims_say(r, "large-radius-root", root, "largest ratio %.4f", root);
    claims_say(r, "large-radius-between", between,
               "%.2f, %.2f, %.2f, %.2f at R = 1, 3, 10, 30, then %.3f", shown[0], shown[1],
               shown[2], shown[3], shown[4]);
}
