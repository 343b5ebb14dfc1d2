/* lemmas.c - docs/maths.md 3, beside the table of bounds: the two lemmas of the
 * proofs, a norm in front of the layer, whole distances of measures, and the formula that
 * is no bound. */
#include <math.h>
#include <string.h>

#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"
#include "claims/claims.h"

/* ---- Lemmas -------------------------------------------------------------------------- */

/* 3.2: sum_j P_j |T_j^T e|^2 = 1 + |w|^2 e^T C e for unit e, T_j = I + (x_j - m) w^T */
void claims_identity(claims_work *r) {
    enum { MOST = 8, D = 3 };
    claims_dice dice = {r->set->seed + 32, 0};
    double worst = 0.0;
    for (size_t trial = 0; trial < 1000; trial++) {
        const size_t n = claims_among(&dice, 1, MOST);
        double X[MOST * D], w[D], e[D], P[MOST], mean = 0.0, total = 0.0, length = 0.0;
        double left = 0.0, variance = 0.0, square = 0.0, along = 0.0;
        claims_normal(&dice, n * D, 1.0, X);
        claims_normal(&dice, D, 2.0, w);
        claims_normal(&dice, D, 1.0, e);
        for (size_t c = 0; c < D; c++) length = hypot(length, e[c]);
        for (size_t c = 0; c < D; c++) {
            e[c] /= length;
            square += w[c] * w[c];
            along += w[c] * e[c];
        }
        for (size_t j = 0; j < n; j++) {
            double score = 0.0;
            for (size_t c = 0; c < D; c++) score += w[c] * X[j * D + c];
            total += P[j] = exp(score);
        }
        for (size_t j = 0; j < n; j++)
            for (size_t c = 0; c < D; c++) mean += P[j] / total * e[c] * X[j * D + c];
        for (size_t j = 0; j < n; j++) { /* T_j^T e = e + (e.(x_j - m)) w */
            double t = -mean;
            for (size_t c = 0; c < D; c++) t += e[c] * X[j * D + c];
            left += P[j] / total * (1.0 + 2.0 * t * along + t * t * square);
            variance += P[j] / total * t * t;
        }
        const double right = 1.0 + square * variance;
        claims_raise(&worst, fabs(left / right - 1.0));
    }
    claims_say(r, "identity", worst, "off by at most %.1e, 1000 draws", worst);
}

/* 3.4: sum_j p_j^2 (t_j - tbar)^2 <= range^2 / 8 */
void claims_row_lemma(claims_work *r) {
    enum { MOST = 7 };
    claims_dice dice = {r->set->seed + 34, 0};
    double worst = 0.0;
    for (size_t trial = 0; trial < 20000; trial++) {
        double p[MOST], t[MOST], total = 0.0, mean = 0.0, sum = 0.0, low = 1.0, high = 0.0;
        const size_t n = claims_among(&dice, 2, MOST);
        const double power = 0.2 + 8.0 * claims_uniform(&dice);
        for (size_t j = 0; j < n; j++) {
            total += p[j] = pow(claims_uniform(&dice), power);
            t[j] = claims_uniform(&dice);
            if (trial % 2) t[j] = t[j] > 0.5;
        }
        if (trial == 1) { /* where it is an equality */
            p[0] = p[1] = total = 1.0;
            for (size_t j = 0; j < n; j++) p[j] = j < 2;
            total = 2.0;
            t[0] = 0.0;
            t[1] = 1.0;
        }
        for (size_t j = 0; j < n; j++) {
            p[j] /= total;
            mean += p[j] * t[j];
            low = lipsc_min(low, t[j]);
            high = lipsc_max(high, t[j]);
        }
        for (size_t j = 0; j < n; j++) sum += p[j] * p[j] * (t[j] - mean) * (t[j] - mean);
        if (high > low) claims_raise(&worst, 8.0 * sum / ((high - low) * (high - low)));
    }
    claims_say(r, "row-lemma", worst, "largest ratio %.5f, 20000 draws", worst);
}

/* 3.9: a causal kernel with entries in [1, E], rows normalised */
void claims_hardy_lemma(claims_work *r) {
    enum { MOST = 60 };
    claims_dice dice = {r->set->seed + 39, 0};
    double *P = lipsc_alloc(MOST * MOST, sizeof *P), worst = 0.0, norm;
    for (size_t trial = 0; P && trial < (r->set->quick ? 60u : 300u); trial++) {
        const size_t n = claims_among(&dice, 2, MOST);
        const double E = exp(5.0 * claims_uniform(&dice)), share = claims_uniform(&dice);
        const double first = 1.0 + (double)n / E * 3.0 * share;
        for (size_t i = 0; i < n; i++) { /* the transpose, column by column */
            double sum = 0.0;
            for (size_t j = 0; j < n; j++) {
                const int large =
                    trial % 2 ? claims_uniform(&dice) > share : (double)j < first;
                sum += P[i * n + j] = j > i ? 0.0 : large ? E : 1.0;
            }
            for (size_t j = 0; j <= i; j++) P[i * n + j] /= sum;
        }
        if (lipsc_dense_norm(n, n, P, &norm)) norm = NAN;
        claims_raise(&worst, norm / (2.0 * (1.0 + sqrt(E - 1.0))));
    }
    claims_say(r, "hardy-lemma", P ? worst : NAN, "largest ratio %.4f", worst);
    lipsc_release(P);
}

/* ---- A norm in front ----------------------------------------------------------------- */

enum { WIDTH = 6, TOKENS = 7 };

/* DN(x) column-major and y = N(x), z the direction; returns r(x). */
static double norm_at(int layer_norm, const double *g, const double *b, double eps,
                      const double *x, double *y, double *D) {
    double mean = 0.0, square = 0.0, z[WIDTH];
    for (size_t c = 0; layer_norm && c < WIDTH; c++) mean += x[c] / WIDTH;
    for (size_t c = 0; c < WIDTH; c++) square += (x[c] - mean) * (x[c] - mean);
    const double r = sqrt(square + WIDTH * eps), root = sqrt((double)WIDTH);
    for (size_t c = 0; c < WIDTH; c++) {
        z[c] = (x[c] - mean) / r;
        y[c] = g[c] * root * z[c] + (b ? b[c] : 0.0);
    }
    for (size_t i = 0; i < WIDTH; i++)
        for (size_t j = 0; j < WIDTH; j++)
            D[i + j * WIDTH] = root / r * g[i] *
                               ((i == j) - (layer_norm ? 1.0 / WIDTH : 0.0) - z[i] * z[j]);
    return r;
}

typedef struct {
    double image, slope;
    claims_record bound[3];
} normed;

static const char *const normed_rules[] = {"norm-data", "norm-here", "norm-everywhere"};

static lipsc_status try_norm(claims_dice *dice, size_t trial, normed *w) {
    const double eps = 1e-5;
    const int layer_norm = trial % 2, masked = trial % 3 == 0;
    const size_t n = claims_among(dice, 2, TOKENS);
    double X[TOKENS * WIDTH], Y[TOKENS * WIDTH], g[WIDTH], b[WIDTH], A[WIDTH * WIDTH];
    double V[WIDTH * WIDTH], D[TOKENS][WIDTH * WIDTH], largest_g = 0.0, length_b = 0.0;
    lipsc_zoo_norm norm = {0};
    claims_normal(dice, n * WIDTH, 0.1 + 4.9 * claims_uniform(dice), X);
    claims_normal(dice, WIDTH, 1.0, g);
    claims_normal(dice, WIDTH, layer_norm ? 1.0 : 0.0, b);
    claims_score_matrix(dice, trial % 3, WIDTH, A);
    for (size_t e = 0; e < WIDTH * WIDTH; e++) A[e] *= 0.2;
    claims_normal(dice, WIDTH * WIDTH, 1.0, V);
    for (size_t c = 0; c < WIDTH; c++) {
        largest_g = lipsc_max(largest_g, fabs(g[c]));
        length_b = hypot(length_b, b[c]);
    }
    norm.radius = sqrt((double)WIDTH) * largest_g + length_b;
    norm.everywhere = largest_g / sqrt(eps);
    for (size_t i = 0; i < n; i++) {
        double *y = Y + i * WIDTH, length = 0.0, slope;
        const double r = norm_at(layer_norm, g, b, eps, X + i * WIDTH, y, D[i]);
        const double cover = sqrt((double)WIDTH) * largest_g / r;
        for (size_t c = 0; c < WIDTH; c++) length = hypot(length, y[c]);
        if (lipsc_dense_norm(WIDTH, WIDTH, D[i], &slope)) return LIPSC_E_NOMEM;
        norm.here = lipsc_max(norm.here, cover);
        claims_raise(&w->image, length / norm.radius);
        claims_raise(&w->slope, slope / cover);
    }
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = WIDTH;
    layer.Q = A;
    layer.V = V;
    layer.mask = masked ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE;
    const lipsc_input input = {.n = n, .X = Y};
    lipsc_attn *attn = NULL;
    lipsc_zoo_case z;
    lipsc_status status = lipsc_attn_new(&layer, &input, LIPSC_F64, NULL, &attn, NULL);
    if (status) return status;
    const size_t m = n * WIDTH;
    double *J = claims_jacobian(attn), *JD = lipsc_alloc(m * m, sizeof *JD);
    status = J && JD ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; !status && i < n; i++) /* block column i of J blockdiag(D) */
        lipsc_dense_gemm(0, 0, m, WIDTH, WIDTH, 1.0, J + i * WIDTH * m, m, D[i], WIDTH, 0.0,
                         JD + i * WIDTH * m, m);
    if (!status) status = lipsc_dense_norm(m, m, JD, &norm.sigma);
    if (!status) {
        status = lipsc_zoo_case_make(attn, NAN, 2.0, &norm, &z, NULL);
        for (size_t b3 = 0; !status && b3 < 3; b3++) {
            lipsc_zoo_row row;
            status = lipsc_zoo_evaluate(&z, lipsc_zoo_find(normed_rules[b3]), &row);
            if (!status) claims_record_add(&w->bound[b3], &z, &row, norm.sigma);
        }
        lipsc_zoo_case_free(&z);
    }
    lipsc_release(J);
    lipsc_release(JD);
    lipsc_attn_free(attn);
    return status;
}

void claims_behind_norms(claims_work *r) {
    claims_dice dice = {r->set->seed + 311, 0};
    normed w = {0};
    for (size_t t = 0; claims_going(r, t, r->set->quick ? 30 : 200); t++) {
        const lipsc_status status = try_norm(&dice, t, &w);
        if (status) claims_fail(r, status, NULL);
    }
    claims_say(r, "norm-image", w.image, "largest ratio %.4f", w.image);
    claims_say(r, "norm-slope", w.slope, "largest ratio %.4f", w.slope);
    for (size_t b = 0; b < 3; b++) {
        const claims_line line = claims_line_of(normed_rules[b]);
        claims_record_say(r, &line, &w.bound[b]);
    }
}

/* ---- Whole distances ----------------------------------------------------------------- */

/* W_2(F(mu), F(nu)) <= bound W_2(mu, nu), also far apart and with other numbers of atoms */
void claims_whole_distances(claims_work *r) {
    enum { MOST = 4 };
    claims_dice dice = {r->set->seed + 36, 0};
    double worst = 0.0, paper = 0.0;
    const size_t trials = r->set->quick ? 20 : 80;
    for (size_t t = 0; claims_going(r, t, trials); t++) {
        claims_small s;
        const size_t d = claims_among(&dice, 1, 2);
        const double R = 0.5 + claims_uniform(&dice);
        double X[2][MOST * 2], a[2][MOST];
        lipsc_measure mu[2];
        lipsc_ratio ratio = {.ratio = NAN};
        claims_score_matrix(&dice, t % 3, d, s.A);
        for (size_t e = 0; e < d * d; e++) s.V[e] = e / d == e % d;
        for (int m = 0; m < 2; m++) {
            const size_t n = claims_among(&dice, 1, MOST);
            double total = 0.0;
            claims_tokens(&dice, n, d, R, 0, X[m]);
            for (size_t i = 0; i < n; i++) total += a[m][i] = 0.01 + claims_uniform(&dice);
            for (size_t i = 0; i < n; i++) a[m][i] /= total;
            mu[m] = (lipsc_measure){.n = n, .d = d, .points = X[m], .weights = a[m]};
        }
        if (claims_small_ready(&s, d) ||
            lipsc_ratio_between(&s.layer, &mu[0], &mu[1], NULL, NULL, &ratio, NULL))
            ratio.ratio = NAN;
        claims_raise(&worst, ratio.ratio / claims_ball_bound(&s, "mean-field-w2", 2, R, 0));
        claims_raise(&paper,
                     ratio.ratio / claims_ball_bound(&s, "paper-mean-field", 2, R, 0));
        claims_small_free(&s);
    }
    claims_say(r, "mean-field-global", worst,
               "largest ratio %.3f of exact distances, %zu pairs", worst, trials);
    claims_say(r, "paper-global", paper, "largest ratio %.3f, the same pairs", paper);
}

/* 3.12: the formula in the authors' toolbox, A = 10 e1 e2^T, X = (e1, -e1), V = I */
void claims_toolbox(claims_work *r) {
    static const double X[] = {1, 0, -1, 0};
    claims_small s = {.A = {0, 10, 0, 0}, .V = {1, 0, 0, 1}};
    const lipsc_input input = {.n = 2, .X = X};
    const double formula = sqrt(2.0); /* all A x_i are zero: sqrt(n) is left */
    double sigma = NAN, ours = NAN;
    if (!claims_small_ready(&s, 2)) {
        sigma = claims_sigma(&s.layer, &input);
        ours = claims_ball_bound(&s, "finite-n", 2, 1.0, 0);
    }
    claims_say(r, "toolbox-formula", sigma, "sigma %.4f, the formula %.4f, finite-n %.3f",
               sigma, formula, ours);
    claims_small_free(&s);
}
