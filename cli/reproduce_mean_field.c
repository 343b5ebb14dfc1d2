/* reproduce_mean_field.c - docs/maths.md 4 and 5.3 to 5.5: two Diracs of very unequal mass,
 * masks, tokens on a sphere. */
#include <math.h>
#include <string.h>

#include "attack/attack.h"
#include "core/mem.h"
#include "reproduce.h"

static repro_line table_line(const char *name, const char *section, const char *claim,
                             const char *paper) {
    return (repro_line){.name = name, /* relative: the tables have four digits */
                        .section = section,
                        .claim = claim,
                        .paper = paper,
                        .relation = REPRO_EQUALS,
                        .tolerance = 3e-4};
}

static void row_of(repro *r, const char *experiment, const char *what, double a,
                   double sigma, double promised, double upper) {
    char key[128];
    snprintf(key, sizeof key, "%s: %s, a=%g", experiment, what, a);
    json_t *row = json_object();
    json_object_set_new(row, "experiment", json_string(experiment));
    json_object_set_new(row, "case", json_string(what));
    json_object_set_new(row, "a", json_real(a));
    json_object_set_new(row, "exact", repro_real(sigma));
    json_object_set_new(row, "formula", repro_real(promised));
    json_object_set_new(row, "upper", repro_real(upper));
    repro_store(r, key, row);
}

static void worsen(double *worst, double value) {
    *worst = isnan(value) ? NAN : fmax(*worst, value);
}

/* ---- 5.3: two Diracs ----------------------------------------------------------------- */

static double diracs_at(double a, double *promised, double *upper, double *paper) {
    repro_small s;
    lipsc_worst worst;
    double sigma = NAN;
    if (repro_small_identity(&s, 1, -1.0)) return NAN;
    *upper = repro_ball_bound(&s, "mean-field-w2", 2, sqrt(a), 0);
    *paper = repro_ball_bound(&s, "paper-mean-field", 2, sqrt(a), 0);
    if (!lipsc_construct_diracs(&s.facts, sqrt(a), &worst, NULL)) {
        *promised = exp(worst.log_promised);
        sigma = repro_reach(&s, &worst, 0);
    }
    repro_small_free(&s);
    return sigma;
}

static void two_diracs(repro *r) {
    static const double a[] = {0.25, 0.5, 1, 2, 3, 4, 6};
    static const double table[] = {0.8633,  1.3078,   3.0567,   12.9931,
                                   48.0673, 165.8455, 1748.4499};
    double off = 0.0, below = 0.0, least = INFINITY, growth = INFINITY, tight[2] = {1, 0};
    for (size_t i = 0; i < 7; i++) {
        double promised = NAN, upper = NAN, paper = NAN;
        const double sigma = diracs_at(a[i], &promised, &upper, &paper);
        worsen(&off, fabs(sigma / table[i] - 1.0));
        worsen(&below, fmax(sigma / upper, sigma / paper));
        least = isnan(sigma) ? NAN : fmin(least, sigma / promised);
        if (a[i] >= 1.0) growth = fmin(growth, log(sigma) / a[i]);
        if (a[i] >= 2.0) {
            tight[0] = fmin(tight[0], sigma / upper);
            tight[1] = fmax(tight[1], sigma / upper);
        }
        row_of(r, "mean field, two Diracs", "W_2", a[i], sigma, promised, upper);
    }
    repro_line line = table_line("two-diracs-table", "5.3",
                                 "two Diracs of unequal mass: L_move for a = 0.25 ... 6",
                                 "3.057, 12.99, 165.8, 1748.4");
    repro_judge(r, &line, off, "off by at most %.1e", off);
    repro_judge(r,
                &(repro_line){.name = "two-diracs-reached",
                              .section = "5.3",
                              .claim = "L_move >= e^{Delta/2} max phi |V b| / |b|",
                              .paper = "v1: few Diracs, unbalanced masses",
                              .relation = REPRO_AT_LEAST,
                              .promised = 1.0,
                              .tolerance = 1e-9},
                least, "exact / formula at least %.4f", least);
    repro_judge(r,
                &(repro_line){.name = "two-diracs-below",
                              .section = "3.6",
                              .claim = "and stays below both mean-field bounds",
                              .paper = "Theorem 3.5: |V| (1+3a) e^{2a}",
                              .relation = REPRO_AT_MOST,
                              .promised = 1.0},
                below, "at most %.3f of the sharper one", below);
    repro_judge(r,
                &(repro_line){.name = "faster-than-exponential",
                              .section = "5.3",
                              .claim = "the constant grows faster than exponentially in R",
                              .paper = "v1 abstract",
                              .relation = REPRO_AT_LEAST,
                              .promised = 1.0},
                growth, "ln L / (|A| R^2) at least %.3f", growth);
    repro_judge(
        r,
        &(repro_line){.name = "mean-field-tight",
                      .section = "4",
                      .claim = "0.70 to 0.72 of mean-field-w2 is reached for a in [2, 6]",
                      .paper = "-> 3^{3/2}/8 = 0.6495",
                      .relation = REPRO_AT_LEAST,
                      .promised = 0.70},
        tight[0], "%.4f to %.4f", tight[0], tight[1]);
}

/* W_1: the light mass tends to zero. */
static void first_distance(repro *r) {
    static const double a[] = {0.5, 1, 2, 3};
    double worst = 0.0, below = 0.0;
    for (size_t i = 0; i < 4; i++) {
        const double R = sqrt(a[i]), X[] = {-R, R}, light = 1e-9;
        const double weights[] = {light, 1.0 - light};
        repro_small s;
        lipsc_attn *attn = NULL;
        const lipsc_input input = {.n = 2, .X = X, .weights = weights};
        if (repro_small_identity(&s, 1, -1.0)) return;
        double constant = NAN;
        if (!lipsc_attn_new(&s.layer, &input, LIPSC_F64, 1, &attn, NULL)) {
            double *K = repro_jacobian(attn); /* sqrt(a_i) J_i1 / sqrt(a_1) */
            if (K) constant = fabs(K[0]) + sqrt(weights[1] / weights[0]) * fabs(K[1]);
            lipsc_release(K);
        }
        const double promised = (1.0 + 2.0 * a[i]) * exp(2.0 * a[i]);
        worsen(&worst, fabs(constant / promised - 1.0));
        worsen(&below, constant / repro_ball_bound(&s, "mean-field-w1", 2, R, 0));
        row_of(r, "mean field, two Diracs", "W_1", a[i], constant, promised,
               repro_ball_bound(&s, "mean-field-w1", 2, R, 0));
        lipsc_attn_free(attn);
        repro_small_free(&s);
    }
    repro_line line = table_line("w1-sharp", "5.3", "in W_1 (1+2a) e^{2a} is reached",
                                 "the exponent 2a is sharp for p = 1");
    repro_judge(r, &line, worst, "off by at most %.1e; %.3f of the bound", worst, below);
}

/* k = n e^{-Delta} / z equal outliers among n tokens, the best of some z, a = 1. */
static void plateau(repro *r) {
    static const size_t lengths[] = {100, 1000, 10000, 100000, 1000000};
    static const double z[] = {1, 1.5, 2, 2.5, 3, 4};
    double worst = 0.0, best = NAN;
    repro_small s;
    if (repro_small_identity(&s, 1, -1.0)) return;
    for (size_t i = 0; i < 5; i++) {
        const double n = (double)lengths[i];
        best = 0.0;
        for (size_t j = 0; j < sizeof z / sizeof *z; j++) {
            const double k = round(n * exp(-2.0) / z[j]);
            double X[] = {-1.0, 1.0}, count[] = {k, n - k}, sigma = NAN;
            const lipsc_worst crowd = {
                .n = lengths[i], .d = 1, .points = 2, .X = X, .count = count};
            if (lipsc_worst_reach(&s.layer, &crowd, 0, 1, &sigma, NULL)) sigma = NAN;
            worsen(&best, sigma);
        }
        worsen(&worst, fabs(best / 3.0685 - 1.0));
    }
    repro_line line = table_line(
        "plateau", "5.3", "n equal tokens, a fraction e^-Delta of outliers: flat in n",
        "3.0685 for n = 10^2 ... 10^6, a = 1");
    repro_judge(r, &line, worst, "%.4f at n = 10^6, off by at most %.1e", best, worst);
    repro_small_free(&s);
}

/* Three atoms whose places and masses are sought, a = 1. */
static void three_atoms(repro *r) {
    repro_small s;
    lipsc_attack_settings set;
    lipsc_attack_result found;
    const repro_line line = {.name = "few-diracs",
                             .section = "5.3",
                             .claim = "a third atom brings nothing: few Diracs suffice",
                             .paper = "3.0687 at best, two reach 3.0567",
                             .relation = REPRO_EQUALS,
                             .promised = 3.0687,
                             .tolerance = 2e-3,
                             .kind = REPRO_EXPERIMENT};
    double sigma = NAN;
    if (repro_small_identity(&s, 1, -1.0)) return;
    lipsc_attack_defaults(&set);
    set.n = 3;
    set.domain = LIPSC_ATTACK_BALL;
    set.radius = 1.0;
    set.masses = 1;
    set.dtype = LIPSC_F64;
    set.threads = 1;
    set.seed = r->set->seed;
    if (!lipsc_attack_run(&s.layer, &set, &found, NULL)) {
        sigma = found.sigma;
        lipsc_attack_result_free(&found);
    }
    repro_judge(r, &line, sigma, "%.4f found by the attack with three free atoms", sigma);
    repro_small_free(&s);
}

/* ---- 5.4: masks ---------------------------------------------------------------------- */

static void outlier_first(repro *r) {
    static const double table[3][4] = {{1.5294, 3.4414, 5.3135, 5.6574},
                                       {1.4588, 3.8743, 14.4923, 22.0037},
                                       {1.4233, 3.3406, 14.6768, 52.6472}};
    static const size_t lengths[] = {2, 10, 100, 800};
    double off = 0.0, below = 0.0, least = INFINITY;
    for (size_t i = 0; i < 3; i++) {
        repro_small s;
        const double a = (double)(i + 1), R = sqrt(a);
        if (repro_small_identity(&s, 1, -1.0)) return;
        for (size_t j = 0; j < 4; j++) {
            static const char *const bounds[] = {"masked-finite-n", "masked-uniform",
                                                 "paper-finite-n"};
            lipsc_worst worst;
            char key[80];
            if (lipsc_construct_outlier(&s.facts, R, lengths[j], 1, 0, &worst, NULL))
                continue;
            const double promised = exp(worst.log_promised);
            const double sigma = repro_reach(&s, &worst, 1);
            worsen(&off, fabs(sigma / table[i][j] - 1.0));
            least = isnan(sigma) ? NAN : fmin(least, sigma / promised);
            double sharpest = INFINITY;
            for (size_t b = 0; b < 3; b++)
                sharpest =
                    fmin(sharpest, repro_ball_bound(&s, bounds[b], lengths[j], R, 1));
            worsen(&below, sigma / sharpest);
            snprintf(key, sizeof key, "masked, outlier first: a=%g n=%zu", a, lengths[j]);
            json_t *row = json_object();
            json_object_set_new(row, "experiment",
                                json_string("masked, outlier first, A = -1"));
            json_object_set_new(row, "n", json_integer((json_int_t)lengths[j]));
            json_object_set_new(row, "radius", json_real(R));
            json_object_set_new(row, "domain", json_string("ball"));
            json_object_set_new(row, "mask", json_string("causal"));
            json_object_set_new(row, "sigma", repro_real(sigma));
            json_object_set_new(row, "best_construction", repro_real(promised));
            json_object_set_new(row, "upper", repro_real(sharpest));
            repro_store(r, key, row);
        }
        repro_small_free(&s);
    }
    repro_line line = table_line("masked-table", "5.4",
                                 "causal, outlier first: values for a = 1, 2, 3, n <= 800",
                                 "5.657, 22.00, 52.65 at n = 800");
    repro_judge(r, &line, off, "off by at most %.1e", off);
    repro_judge(r,
                &(repro_line){.name = "masked-reached",
                              .section = "5.4",
                              .claim = "sigma^2 >= sum_i p_i^2 (1 + (1-p_i) Delta)^2",
                              .paper = "proved here",
                              .relation = REPRO_AT_LEAST,
                              .promised = 1.0,
                              .tolerance = 1e-9},
                least, "exact / formula at least %.4f", least);
    repro_judge(r,
                &(repro_line){.name = "masked-below",
                              .section = "3.8",
                              .claim = "and stays below the three masked bounds",
                              .paper = "the paper's bound holds masked as well",
                              .relation = REPRO_AT_MOST,
                              .promised = 1.0},
                below, "at most %.3f of the sharpest", below);
}

static double causal_sigma(const repro_small *s, size_t n, double first, double last) {
    double *X = lipsc_alloc(n, sizeof *X), sigma = NAN;
    lipsc_layer layer = s->layer;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_attn *attn = NULL;
    lipsc_svd_defaults(&set);
    set.tol = 1e-6; /* the value's error is the square of that */
    layer.mask = LIPSC_MASK_CAUSAL;
    for (size_t i = 0; X && i < n; i++) X[i] = i + 1 < n ? first : last;
    const lipsc_input input = {.n = n, .X = X};
    if (X && !lipsc_attn_new(&layer, &input, LIPSC_F64, 1, &attn, NULL) &&
        lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info))
        sigma = NAN;
    lipsc_attn_free(attn);
    lipsc_release(X);
    return sigma;
}

static void many_tokens(repro *r) {
    repro_small s;
    lipsc_worst worst;
    const size_t n = r->set->quick ? 1000 : 4000;
    double limit = NAN, scales = INFINITY;
    if (repro_small_identity(&s, 1, -1.0)) return;
    if (!lipsc_construct_outlier(&s.facts, 1.0, n, 1, 0, &worst, NULL))
        limit = repro_reach(&s, &worst, 1);
    const double unmasked = repro_ball_bound(&s, "mean-field-w2", n, 1.0, 0);
    const double formula = exp(1.0) * sqrt(1.0 + 2.0 + 4.0 / 3.0); /* Delta = 2 */
    repro_judge(r,
                &(repro_line){.name = "masked-limit",
                              .section = "5.4",
                              .claim = "-> e^{Delta/2} sqrt(1 + Delta + Delta^2/3), a = 1",
                              .paper = "5.659; 5.704 at n = 4000",
                              .relation = REPRO_EQUALS,
                              .promised = formula,
                              .tolerance = 0.06},
                limit, "%.4f at n = %zu, formula %.4f", limit, n, formula);
    repro_judge(r,
                &(repro_line){.name = "masked-worse",
                              .section = "4",
                              .claim = "a mask is strictly worse: above the unmasked bound",
                              .paper = "5.66 above 4.84 at a = 1",
                              .relation = REPRO_AT_LEAST,
                              .promised = unmasked},
                limit, "%.3f above %.3f", limit, unmasked);
    for (size_t i = 0; i < 3; i++) {
        static const double a[] = {0.5, 1, 2};
        if (lipsc_construct_scales(&s.facts, sqrt(a[i]), 300, 1.15, &worst, NULL)) continue;
        const double promised = exp(worst.log_promised);
        const double sigma = repro_reach(&s, &worst, 0);
        scales = isnan(sigma) ? NAN : fmin(scales, sigma / promised);
        row_of(r, "masked mean field, outliers at every scale", "d_2", a[i], sigma,
               promised, repro_ball_bound(&s, "masked-uniform", 2, sqrt(a[i]), 1));
    }
    repro_judge(
        r,
        &(repro_line){.name = "every-scale",
                      .section = "5.4",
                      .claim = "outliers at every time scale -> 2 e^{Delta/2} max phi",
                      .paper = "96 % with 300 time fibres",
                      .relation = REPRO_AT_LEAST,
                      .promised = 0.96},
        scales, "%.1f %% of the limit at least", 100.0 * scales);
    const double last = causal_sigma(&s, 800, 1.0, -1.0);
    repro_judge(r,
                &(repro_line){.name = "outlier-last",
                              .section = "5.4",
                              .claim = "an outlier that comes last is harmless",
                              .paper = "1.739 at n = 800",
                              .relation = REPRO_EQUALS,
                              .promised = 1.7393,
                              .tolerance = 6e-5},
                last, "%.4f", last);
    repro_small_free(&s);
}

/* A = 0: causal averaging. */
static void averaging(repro *r) {
    enum { TOKENS = 1000 };
    repro_small s;
    double harmonic = 0.0, reached = NAN, first[TOKENS] = {1.0}, y[TOKENS] = {0};
    double X[TOKENS] = {0};
    lipsc_attn *attn = NULL;
    if (repro_small_identity(&s, 1, 0.0)) return;
    lipsc_layer layer = s.layer;
    layer.mask = LIPSC_MASK_CAUSAL;
    const lipsc_input input = {.n = TOKENS, .X = X};
    for (size_t i = 1; i <= TOKENS; i++) harmonic += 1.0 / (double)i;
    if (!lipsc_attn_new(&layer, &input, LIPSC_F64, 1, &attn, NULL) &&
        !lipsc_attn_apply(attn, 0, 1, first, y)) {
        reached = 0.0;
        for (size_t i = 0; i < TOKENS; i++) reached += fabs(y[i]);
    }
    lipsc_attn_free(attn);
    repro_judge(r,
                &(repro_line){.name = "d1-unbounded",
                              .section = "1.4",
                              .claim = "d_1 has no constant uniform in n: A = 0 gives H_n",
                              .paper = "7.4855 at n = 1000; p > 1 is needed",
                              .relation = REPRO_EQUALS,
                              .promised = harmonic,
                              .tolerance = 1e-9},
                reached, "%.4f at n = 1000", reached);
    const double two = causal_sigma(&s, TOKENS, 0.0, 0.0);
    repro_judge(r,
                &(repro_line){.name = "d2-hardy",
                              .section = "1.4",
                              .claim = "and in d_2 tends to Hardy's 2",
                              .paper = "1.7481 at n = 1000",
                              .relation = REPRO_EQUALS,
                              .promised = 1.7481,
                              .tolerance = 6e-5},
                two, "%.4f at n = 1000", two);
    repro_small_free(&s);
}

/* ---- 5.5: a sphere ------------------------------------------------------------------- */

static void sphere(repro *r) {
    static const size_t lengths[] = {4, 16, 64, 256};
    static const double one[] = {1.7303, 3.8536, 7.7730, 14.7106};
    static const double two[] = {5.6147, 10.1140, 14.4829, 13.5959};
    repro_dice dice = {r->set->seed + 55, 0};
    repro_small s;
    double off = 0.0, free_growth[2] = {0, 0};
    if (repro_small_identity(&s, 2, -1.0)) return;
    for (size_t i = 0; i < 4; i++) {
        lipsc_worst worst;
        double sigma = NAN;
        if (!lipsc_construct_outlier(&s.facts, 2.0, lengths[i], 0, 1, &worst, NULL))
            sigma = repro_reach(&s, &worst, 0);
        worsen(&off, fabs(sigma / one[i] - 1.0));
        sigma = NAN;
        if (!lipsc_construct_two(&s.facts, 2.0, lengths[i], 0.0, 1, &worst, NULL))
            sigma = repro_reach(&s, &worst, 0);
        worsen(&off, fabs(sigma / two[i] - 1.0));
    }
    repro_small_free(&s);
    repro_line line = table_line(
        "sphere", "5.5", "A = -I on the sphere: sqrt(n-1) p, and a sqrt(n/2) with two",
        "7.773 and 14.48 at n = 64, R = 2");
    line.tolerance = 3e-3; /* moves of the crowd may add a little to the printed formula */
    repro_judge(r, &line, off, "off by at most %.1e for n = 4 ... 256", off);
    if (repro_small_identity(&s, 3, 1.0)) return;
    for (size_t i = 0; i < 2; i++) {
        enum { TOKENS = 16 };
        const size_t n = i ? TOKENS : 4;
        for (size_t t = 0; t < (r->set->quick ? 10u : 60u); t++) {
            double X[TOKENS * 3], count[TOKENS], sigma = NAN;
            repro_tokens(&dice, n, 3, 2.0, 1, X);
            for (size_t q = 0; q < n; q++) count[q] = 1.0;
            const lipsc_worst any = {
                .n = n, .d = 3, .points = n, .X = X, .count = count, .sphere = 1};
            if (lipsc_worst_reach(&s.layer, &any, 0, 1, &sigma, NULL)) sigma = NAN;
            worsen(&free_growth[i], sigma);
        }
    }
    repro_judge(r,
                &(repro_line){.name = "sphere-positive",
                              .section = "5.5",
                              .claim = "A = +I on the sphere: no sqrt(n) growth found",
                              .paper = "1.70 (n = 4), 1.83 (n = 16)",
                              .relation = REPRO_AT_MOST,
                              .promised = 1.5, /* sqrt(n) would give 2 */
                              .kind = REPRO_EXPERIMENT},
                free_growth[1] / free_growth[0], "largest %.2f (n = 4), %.2f (n = 16)",
                free_growth[0], free_growth[1]);
    repro_small_free(&s);
}

void repro_mean_field(repro *r) {
    two_diracs(r);
    first_distance(r);
    plateau(r);
    if (!repro_stopped(r)) three_atoms(r);
    if (!repro_stopped(r)) outlier_first(r);
    if (!repro_stopped(r)) many_tokens(r);
    if (!repro_stopped(r)) averaging(r);
    if (!repro_stopped(r)) sphere(r);
}
