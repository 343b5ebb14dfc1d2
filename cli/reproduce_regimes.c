/* reproduce_regimes.c - docs/maths.md 3.5 and 6: where growth with n must stop, and what is
 * left when tokens are large. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "linalg/dense.h"
#include "reproduce.h"

/* ---- 3.5: the crossover -------------------------------------------------------------- */

/* d ln bound / d ln n, by a factor of four */
static double slope(const repro_small *s, double R, double n) {
    const double low = repro_ball_bound(s, "finite-n", (size_t)n, R, 0);
    const double high = repro_ball_bound(s, "finite-n", (size_t)(4.0 * n), R, 0);
    return log(high / low) / log(4.0);
}

static void crossover(repro *r) {
    repro_small s;
    if (repro_small_identity(&s, 1, -1.0)) return;
    const double R = 2.0, turn = exp(2.0 * R * R); /* a = 4: e^8 = 2981 */
    const double before = slope(&s, R, turn / 64.0), after = slope(&s, R, turn * 256.0);
    repro_judge(r,
                &(repro_line){.name = "crossover-before",
                              .section = "3.5",
                              .claim = "finite-n grows like sqrt(n) well before n = e^{2a}",
                              .paper = "regime sqrt_n",
                              .relation = REPRO_AT_LEAST,
                              .promised = 0.4},
                before, "exponent %.3f near n = e^{2a}/64, a = 4", before);
    repro_judge(r,
                &(repro_line){.name = "crossover-after",
                              .section = "3.5",
                              .claim = "and is constant well after it",
                              .paper = "regime mean_field",
                              .relation = REPRO_AT_MOST,
                              .promised = 0.01},
                after, "exponent %.4f near n = 256 e^{2a}", after);
    repro_small_free(&s);
}

static void regimes(repro *r) {
    enum { TOKENS = 64 };
    static const struct {
        double R;
        size_t n;
        const char *name;
    } cases[] = {
        {2.0, 8, "sqrt_n"}, {1.0, TOKENS, "mean_field"}, {100.0, 8, "large_radius"}};
    repro_dice dice = {r->set->seed + 35, 0};
    int right = 0;
    for (size_t i = 0; i < 3; i++) {
        repro_small s;
        lipsc_attn *attn = NULL;
        lipsc_zoo_case z;
        lipsc_regime regime;
        double X[TOKENS * 2];
        if (repro_small_identity(&s, 2, -1.0)) return;
        repro_tokens(&dice, cases[i].n, 2, cases[i].R, 1, X);
        const lipsc_input input = {.n = cases[i].n, .X = X};
        if (!lipsc_attn_new(&s.layer, &input, LIPSC_F64, 1, &attn, NULL)) {
            if (!lipsc_zoo_case_make(attn, NAN, 2.0, NULL, &z, NULL) &&
                !lipsc_zoo_regime(&z, &regime, NULL))
                right += !strcmp(regime.name, cases[i].name);
            lipsc_zoo_case_free(&z);
        }
        lipsc_attn_free(attn);
        repro_small_free(&s);
    }
    repro_judge(r,
                &(repro_line){.name = "regimes",
                              .section = "3.5",
                              .claim = "three inputs, one of each regime, are told apart",
                              .paper = "sqrt(n), mean field, large radius",
                              .relation = REPRO_EQUALS,
                              .promised = 3.0,
                              .tolerance = 0.01},
                right, "%d of 3", right);
}

/* ---- 6: large radius ----------------------------------------------------------------- */

enum { TOKENS = 8, WIDTH = 3 };

/* |V| sqrt(max_j #{i : argmax_l (A x_i).x_l = j}), counted here; *rows: that number */
static double limit_of(const repro_small *s, size_t n, int causal, const double *X) {
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

static void large_radius(repro *r) {
    static const double radii[] = {1, 3, 10, 30, 1000};
    repro_dice dice = {r->set->seed + 6, 0};
    const size_t trials = r->set->quick ? 16 : 60;
    double off = 0.0, root = 0.0, between = 0.0, shown[5] = {0};
    for (size_t t = 0; t < trials && !repro_stopped(r); t++) {
        repro_small s;
        const size_t n = repro_among(&dice, 2, TOKENS), d = repro_among(&dice, 1, WIDTH);
        const int causal = t % 2;
        double X[TOKENS * WIDTH], values[5], scaled[TOKENS * WIDTH];
        repro_score_matrix(&dice, 0, d, s.A);
        repro_normal(&dice, d * d, 1.0, s.V);
        repro_normal(&dice, n * d, 1.0, X);
        if (repro_small_ready(&s, d)) return;
        lipsc_layer layer = s.layer;
        if (causal) layer.mask = LIPSC_MASK_CAUSAL;
        const double limit = limit_of(&s, n, causal, X);
        for (size_t i = 0; i < 5; i++) {
            for (size_t e = 0; e < n * d; e++) scaled[e] = radii[i] * X[e];
            const lipsc_input input = {.n = n, .X = scaled};
            values[i] = repro_sigma(&layer, &input);
        }
        off = isnan(values[4]) ? NAN : fmax(off, fabs(values[4] / limit - 1.0));
        root = fmax(root, values[4] / (s.facts.norm_V * sqrt((double)n)));
        for (size_t i = 0; i < 4; i++)
            if (values[i] / limit > between) {
                between = values[i] / limit;
                memcpy(shown, values, sizeof shown);
            }
        repro_small_free(&s);
    }
    repro_judge(r,
                &(repro_line){.name = "large-radius",
                              .section = "6",
                              .claim = "sigma(R X) -> |V| sqrt(max_j #{i : argmax = j})",
                              .paper = "almost every X",
                              .relation = REPRO_EQUALS,
                              .tolerance = 1e-3},
                off, "off by at most %.1e at R = 1000, %zu inputs", off, trials);
    repro_judge(r,
                &(repro_line){.name = "large-radius-root",
                              .section = "6",
                              .claim = "which is at most |V| sqrt(n)",
                              .paper = "a.e. bound of the paper",
                              .relation = REPRO_AT_MOST,
                              .promised = 1.0,
                              .tolerance = 1e-3},
                root, "largest ratio %.4f", root);
    repro_judge(r,
                &(repro_line){.name = "large-radius-between",
                              .section = "6",
                              .claim = "radii on the way can be worse",
                              .paper = "31.8 at R = 10, 2.85 in the limit",
                              .relation = REPRO_AT_LEAST,
                              .promised = 1.0},
                between, "%.2f, %.2f, %.2f, %.2f at R = 1, 3, 10, 30, then %.3f", shown[0],
                shown[1], shown[2], shown[3], shown[4]);
}

void repro_regimes(repro *r) {
    crossover(r);
    regimes(r);
    large_radius(r);
}
