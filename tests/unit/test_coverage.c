/* test_coverage.c - simulated sweeps: how often the 95 % interval holds the true exponent,
 * and how often a true straight line is called bent.
 *
 * ln sigma of start s at length n is
 *
 *     0.4 ln n + level u_s + tilt v_s (ln n - mean) + noise h_n e_{s,n}
 *
 * with u, v, e standard normal, e of neighbouring lengths correlated by rho, h = 1 or a
 * hump.  Neighbouring lengths of gpt2-nano on a novel correlate by 0 to 0.93, with
 * deviations of 0.03 to 0.24 that are largest in the middle: such sweeps are here, and
 * rougher ones.  TRIALS as the first argument runs more of them and prints the table of
 * docs/maths.md 9. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/rng.h"
#include "lipscope/fit.h"

enum { MOST_POINTS = 20 * 7 * 2, ROWS = 9 };
static const double truth = 0.4;
static size_t trials = 250;
static int printing;

typedef struct {
    const char *name;
    double level, tilt, noise, rho;
    int hump, skew;
    size_t first, lengths, texts; /* lengths first, 2 first, 4 first, ... */
} sweep;

static const sweep sweeps[ROWS] = {
    {"cells independent", 0, 0, 0.1, 0, 0, 0, 16, 5, 1},
    {"neighbours 0.5", 0, 0, 0.15, 0.5, 0, 0, 16, 4, 1},
    {"neighbours 0.9", 0, 0, 0.05, 0.9, 0, 0, 16, 5, 1},
    {"hump, neighbours 0.4", 0, 0, 0.05, 0.4, 1, 0, 16, 5, 1},
    {"own level and slope", 0.1, 0.1, 0.05, 0.5, 0, 0, 8, 7, 1},
    {"own slope only", 0, 0.1, 0.02, 0, 0, 0, 16, 4, 1},
    {"level far above noise", 0.3, 0.05, 0.05, 0.5, 0, 0, 8, 3, 1},
    {"skewed noise", 0.1, 0.03, 0.1, 0.5, 0, 1, 16, 5, 1},
    {"two texts", 0.1, 0.05, 0.1, 0.5, 0, 0, 16, 5, 2}};

/* Skewed: a lognormal number of mean 0, deviation 1. */
static double draw(const sweep *s, uint64_t *counter) {
    const double z = lipsc_rng_normal(20261115, (*counter)++), w = 0.7;
    if (!s->skew) return z;
    return (exp(w * z) - exp(0.5 * w * w)) / sqrt(expm1(w * w) * exp(w * w));
}

static size_t simulate(const sweep *s, size_t starts, uint64_t *counter,
                       lipsc_fit_point *points) {
    const double middle = log((double)s->first) + 0.5 * (double)(s->lengths - 1) * log(2.0);
    size_t count = 0;
    for (size_t i = 0; i < starts * s->texts; i++) {
        const double u = s->level * draw(s, counter), v = s->tilt * draw(s, counter);
        const double text = i < starts ? 0.0 : 0.5; /* the second lies higher */
        double e = 0.0;
        for (size_t l = 0; l < s->lengths; l++) {
            const size_t n = s->first << l;
            const double x = log((double)n), place = (double)l / (double)(s->lengths - 1);
            const double z = draw(s, counter);
            e = l ? s->rho * e + sqrt(1.0 - s->rho * s->rho) * z : z;
            const double h = s->hump ? 1.0 + 2.0 * sin(3.14159265 * place) : 1.0;
            points[count++] = (lipsc_fit_point){
                .n = n,
                .start = i % starts,
                .text = i / starts,
                .x = (double)n,
                .y = exp(truth * x + text + u + v * (x - middle) + s->noise * h * e)};
        }
    }
    return count;
}

/* Fractions of the trials. */
typedef struct {
    double covered, bent, width;
} outcome;

static outcome run(const sweep *s, size_t starts) {
    uint64_t counter = 0;
    outcome out = {0, 0, 0};
    for (size_t t = 0; t < trials; t++) {
        lipsc_fit_point points[MOST_POINTS];
        lipsc_fit fit;
        const size_t count = simulate(s, starts, &counter, points);
        assert_int_equal(lipsc_fit_power(count, points, t, &fit, NULL, NULL), LIPSC_OK);
        out.covered += fit.low <= truth && truth <= fit.high;
        out.bent += fit.lack_of_fit < 0.05;
        out.width += fit.high - fit.low;
    }
    out.covered /= (double)trials;
    out.bent /= (double)trials;
    out.width /= (double)trials;
    return out;
}

/* The true coverage of every kind of sweep lies inside 92 to 98 %: the many trials of
 * `make intervals` are judged by that, few trials with three of their own deviations added.
 * All kinds together have enough trials even here. */
static void check_starts(size_t starts) {
    const double slack = 3.0 * sqrt(0.95 * 0.05 / (double)trials);
    const double room = trials >= 4000 ? 0.0 : slack;
    outcome all = {0, 0, 0};
    for (size_t i = 0; i < ROWS; i++) {
        const outcome one = run(&sweeps[i], starts);
        if (printing)
            printf("| %s | %zu | %.1f %% | %.1f %% | %.3f |\n", sweeps[i].name, starts,
                   100.0 * one.covered, 100.0 * one.bent, one.width);
        if (!(one.covered >= 0.92 - room && one.covered <= 0.98 + room))
            fail_msg("%s, %zu starts: covers %.3f", sweeps[i].name, starts, one.covered);
        if (!(one.bent <= 0.06 + room))
            fail_msg("%s, %zu starts: bent %.3f", sweeps[i].name, starts, one.bent);
        all.covered += one.covered / ROWS;
    }
    if (!(all.covered >= 0.92 && all.covered <= 0.98))
        fail_msg("%zu starts: covers %.3f", starts, all.covered);
}

static void test_6(void **state) {
    (void)state;
    check_starts(6);
}
static void test_10(void **state) {
    (void)state;
    check_starts(10);
}
static void test_20(void **state) {
    (void)state;
    check_starts(20);
}

int main(int argc, char **argv) {
    if (argc > 1) {
        trials = (size_t)strtoul(argv[1], NULL, 10);
        printing = 1;
        puts("| sweep | starts | covers | called bent | width |\n|---|---|---|---|---|");
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_6),
        cmocka_unit_test(test_10),
        cmocka_unit_test(test_20),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
