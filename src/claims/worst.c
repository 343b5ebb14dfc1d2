/* worst.c - docs/maths.md 5.1 and 5.2: constructions for n tokens; the formula
 * below the exact value, the exact value below the bounds, printed tables. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "claims/claims.h"

/* How a series of constructions compares. */
typedef struct {
    double least; /* exact / formula                */
    double most;  /* exact / finite-n               */
    double paper; /* exact / paper-finite-n         */
    double lower; /* exact / |V| sqrt(n-1) p, n <= e^Delta */
    size_t inputs;
} series;

static const series none_yet = {.least = INFINITY, .lower = INFINITY};

/* A construction that could not be made: nothing may be said of its series. */
static void spoil(series *all) { *all = (series){NAN, NAN, NAN, NAN, 0}; }

/* One construction of n tokens in the ball: a row of the run, and its share of the series.
 * Returns sigma. */
static double take(claims_work *r, const char *experiment, const claims_small *s, double R,
                   lipsc_worst *worst, series *all) {
    const size_t n = worst->n;
    const double delta = worst->delta, others = (double)n - 1.0;
    const double plain = s->facts.norm_V * sqrt(others) / (1.0 + others * exp(-delta));
    const double promised = exp(worst->log_promised), sigma = claims_reach(s, worst, 0);
    const double upper = claims_ball_bound(s, "finite-n", n, R, 0);
    const double paper = claims_ball_bound(s, "paper-finite-n", n, R, 0);
    char key[128];
    snprintf(key, sizeof key, "%s: n=%zu", experiment, n);
    claims_store_worst(r, key,
                       &(lipsc_claim_worst){.experiment = experiment,
                                            .mask = "none",
                                            .radius = R,
                                            .n = n,
                                            .sigma = sigma,
                                            .best_construction = promised,
                                            .upper = upper,
                                            .upper_paper = paper});
    claims_lower(&all->least, sigma / promised);
    claims_raise(&all->most, sigma / upper);
    claims_raise(&all->paper, sigma / paper);
    if (log((double)n) <= delta) claims_lower(&all->lower, sigma / plain);
    all->inputs++;
    return sigma;
}

/* NAME-reached and NAME-below, and where the table has it NAME-paper. */
static void series_lines(claims_work *r, const char *name, const series *all) {
    char id[48];
    snprintf(id, sizeof id, "%s-reached", name);
    claims_say(r, id, all->least, "exact / formula at least %.4f on %zu inputs", all->least,
               all->inputs);
    snprintf(id, sizeof id, "%s-below", name);
    claims_say(r, id, all->most, "at most %.3f of it", all->most);
    snprintf(id, sizeof id, "%s-paper", name);
    if (claims_find(id)) claims_say(r, id, all->paper, "at most %.3f of it", all->paper);
}

/* ---- 5.1: one outlier ---------------------------------------------------------------- */

/* The worst difference from a printed value, in units of its last digit. */
static void compare_printed(double value, double printed, double unit, double *worst) {
    claims_raise(worst, fabs(value - printed) / unit);
}

void claims_one_outlier(claims_work *r) {
    static const double heads[][2] = {{-1, 1}, {-1, 1.5}, {-0.5, 2}, {4, 1.5}, {8, 2}};
    static const size_t lengths[] = {2, 3, 5, 10, 30, 100, 300, 1000, 3000, 10000, 100000};
    static const double table[] = {1.1736,  1.5566,  2.3418, 3.9784, 8.8291, 16.1590,
                                   17.9148, 13.3979, 8.5881, 4.9486, 1.8486};
    series all = none_yet;
    double off = 0.0, z, stars = 0.0, peak = 0.0;
    size_t peak_n = 0;
    for (size_t h = 0; h < 5 && !claims_stopped(r); h++) {
        claims_small s;
        char experiment[80];
        if (claims_small_identity(&s, 1, heads[h][0])) break;
        snprintf(experiment, sizeof experiment, "one outlier, A = %g, R = %g", heads[h][0],
                 heads[h][1]);
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            lipsc_worst worst;
            if (lipsc_construct_eigenvector(&s.facts, heads[h][1], lengths[i], 1, 0, &worst,
                                            NULL)) {
                spoil(&all);
                continue;
            }
            const double sigma = take(r, experiment, &s, heads[h][1], &worst, &all);
            if (h != 1) continue;
            compare_printed(sigma, table[i], 1e-4, &off);
            if (sigma > peak) {
                peak = sigma;
                peak_n = lengths[i];
            }
        }
        claims_small_free(&s);
    }
    series_lines(r, "one-outlier", &all);
    claims_say(r, "paper-lower", all.lower, "exact / formula at least %.4f", all.lower);
    claims_say(r, "one-outlier-table", off,
               "%.2f units of the last digit off; largest %.2f at n = %zu", off, peak,
               peak_n);
    static const double deltas[] = {0.5, 1, 2, 4, 8, 16};
    static const double best[] = {1.46, 1.78, 2.15, 2.48, 2.71, 2.84};
    for (size_t i = 0; i < 6; i++) {
        lipsc_best_phi(deltas[i], &z);
        compare_printed(z, best[i], 1e-2, &stars);
    }
    const double limit = lipsc_best_phi(1e8, &z) / 1e8;
    claims_say(r, "peak", stars, "%.2f units of the last digit off; phi / Delta -> %.4f",
               stars, limit);
}

/* The radius of the crowd chosen for n. */
void claims_adapted(claims_work *r) {
    static const size_t lengths[] = {5, 20, 100, 1000, 10000, 1000000};
    series all = none_yet;
    claims_small s;
    double floor_ratio = INFINITY, at_100 = NAN, at_10000 = NAN;
    if (claims_small_identity(&s, 1, -1.0)) return;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        lipsc_worst worst;
        if (lipsc_construct_adapted(&s.facts, 3.0, lengths[i], 0, &worst, NULL)) {
            spoil(&all);
            continue;
        }
        const double sigma =
            take(r, "n-adapted outlier, A = -1, R = 3", &s, 3.0, &worst, &all);
        const double others = (double)lengths[i] - 1.0;
        claims_lower(&floor_ratio,
                     sigma / (0.5 * sqrt(others) * (1.0 + 0.5 * log(others))));
        if (lengths[i] == 100) at_100 = sigma;
        if (lengths[i] == 10000) at_10000 = sigma;
    }
    series_lines(r, "n-adapted", &all);
    claims_say(r, "n-adapted-growth", floor_ratio, "%.2f and %.1f; ratio at least %.3f",
               at_100, at_10000, floor_ratio);
    claims_small_free(&s);
}

/* ---- 5.1: any A ---------------------------------------------------------------------- */

typedef struct {
    double low, high;   /* Delta* / (a/4), Delta* / 2a  */
    double rule, least; /* Delta* / 2 gamma R^2, sigma / formula */
    double skew, line;  /* |Delta* / a - 1|, linear-in-a: sigma / formula */
} extremes;

static void any_outlier(const claims_small *s, double R, size_t n, int skew, extremes *e) {
    const double a = s->facts.norm_A * R * R;
    lipsc_worst worst;
    double delta = NAN, promised = NAN, sigma = NAN;
    if (!lipsc_construct_outlier(&s->facts, R, n, 0, 0, &worst, NULL)) {
        delta = worst.delta;
        promised = exp(worst.log_promised);
        sigma = claims_reach(s, &worst, 0);
    }
    claims_lower(&e->low, delta / (a / 4.0));
    claims_raise(&e->high, delta / (2.0 * a));
    if (skew) claims_raise(&e->skew, fabs(delta / a - 1.0));
    claims_lower(&e->least, sigma / promised);
    /* the authors' rule needs a real eigenvalue: without one it says nothing */
    if (lipsc_construct_eigenvector(&s->facts, R, n, 1, 0, &worst, NULL)) return;
    if (worst.delta > 0.0) claims_lower(&e->rule, delta / worst.delta);
    lipsc_worst_free(&worst);
}

void claims_any_matrix(claims_work *r) {
    claims_dice dice = {r->set->seed + 51, 0};
    extremes e = {INFINITY, 0.0, INFINITY, INFINITY, 0.0, INFINITY};
    const size_t trials = r->set->quick ? 20 : 100;
    for (size_t t = 0; claims_going(r, t, trials); t++) {
        claims_small s;
        lipsc_worst worst;
        const size_t d = claims_among(&dice, 1 + (t % 5 == 3), 3),
                     n = claims_among(&dice, 2, 40);
        const double R = 0.5 + 1.5 * claims_uniform(&dice);
        claims_score_matrix(&dice, t % 5, d, s.A);
        claims_normal(&dice, d * d, 1.0, s.V);
        if (claims_small_ready(&s, d)) break;
        any_outlier(&s, R, n, t % 5 == 3 && d == 2, &e);
        for (int causal = 0; causal < 2; causal++) {
            double promised = NAN, sigma = NAN;
            if (!lipsc_construct_linear(&s.facts, R, 2 * (n / 2) + 1, &worst, NULL)) {
                promised = exp(worst.log_promised);
                sigma = claims_reach(&s, &worst, causal);
            }
            claims_lower(&e.line, sigma / promised);
        }
        claims_small_free(&s);
    }
    claims_say(r, "delta-low", e.low, "least Delta* / (a/4) %.4f over %zu A", e.low,
               trials);
    claims_say(r, "delta-high", e.high, "largest Delta* / 2a %.4f", e.high);
    claims_say(r, "delta-skew", e.skew, "off by at most %.1e", e.skew);
    claims_say(r, "eigenvector-rule", e.rule, "least Delta* / 2 gamma R^2 %.4f", e.rule);
    claims_say(r, "one-outlier-general", e.least, "exact / formula at least %.4f", e.least);
    claims_say(r, "linear-in-a", e.line, "exact / formula at least %.4f", e.line);
}

/* ---- 5.2: two outliers, and how tight finite-n is (4) -------------------------------- */

void claims_two_outliers(claims_work *r) {
    static const size_t lengths[] = {10, 100, 1000, 10000};
    static const double table[] = {35.844, 113.357, 358.449, 1132.941};
    series all = none_yet, last = none_yet;
    double off = 0.0;
    claims_small s;
    if (claims_small_identity(&s, 2, -1.0)) return;
    for (size_t i = 0; i < 4; i++) {
        lipsc_worst worst;
        if (lipsc_construct_two(&s.facts, 4.0, lengths[i], 0.0, 0, &worst, NULL)) {
            spoil(&all);
            continue;
        }
        last = none_yet;
        const double sigma = take(r, "two outliers, A = -I, R = 4", &s, 4.0, &worst, &last);
        compare_printed(sigma, table[i], 1e-3, &off);
        claims_lower(&all.least, last.least);
        claims_raise(&all.most, last.most);
        claims_raise(&all.paper, last.paper);
        all.inputs++;
    }
    series_lines(r, "two-outliers", &all);
    claims_say(r, "two-outliers-table", off, "%.2f units of the third decimal off", off);
    claims_say(r, "finite-n-tight", last.most, "%.4f of finite-n, %.4f of the paper's",
               last.most, last.paper);
    claims_small_free(&s);
}
