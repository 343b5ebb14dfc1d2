/* mean_field.c - docs/maths.md 4, 5.3 and 5.5: two Diracs of very unequal mass,
 * few atoms that are sought, tokens on a sphere. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "claims/claims.h"

void claims_mean_field_row(claims_work *r, const char *experiment, const char *what,
                           double a, double sigma, double promised, double upper) {
    char key[128];
    snprintf(key, sizeof key, "%s: %s, a=%g", experiment, what, a);
    json_t *row = json_object();
    json_object_set_new(row, "experiment", json_string(experiment));
    json_object_set_new(row, "case", json_string(what));
    json_object_set_new(row, "a", json_real(a));
    json_object_set_new(row, "exact", lipsc_json_real(sigma));
    json_object_set_new(row, "formula", lipsc_json_real(promised));
    json_object_set_new(row, "upper", lipsc_json_real(upper));
    claims_store(r, key, row);
}

/* ---- 5.3: two Diracs ----------------------------------------------------------------- */

/* One size of the scores. */
typedef struct {
    double sigma, promised, equal; /* exact, by the formula, exact with equal masses */
    double upper, paper;           /* bounds                                          */
} dirac;

static dirac diracs_at(double a) {
    static const double half[] = {0.5, 0.5};
    const double R = sqrt(a), X[] = {-R, R};
    const lipsc_input equal = {.n = 2, .X = X, .weights = half};
    dirac d = {NAN, NAN, NAN, NAN, NAN};
    claims_small s;
    lipsc_worst worst;
    if (claims_small_identity(&s, 1, -1.0)) return d;
    d.upper = claims_ball_bound(&s, "mean-field-w2", 2, R, 0);
    d.paper = claims_ball_bound(&s, "paper-mean-field", 2, R, 0);
    d.equal = claims_sigma(&s.layer, &equal);
    if (!lipsc_construct_diracs(&s.facts, R, &worst, NULL)) {
        d.promised = exp(worst.log_promised);
        d.sigma = claims_reach(&s, &worst, 0);
    }
    claims_small_free(&s);
    return d;
}

void claims_two_diracs(claims_work *r) {
    static const double a[] = {0.25, 0.5, 1, 2, 3, 4, 6};
    static const double table[] = {0.8633,  1.3078,   3.0567,   12.9931,
                                   48.0673, 165.8455, 1748.4499};
    double off = 0.0, below[2] = {0, 0}, least = INFINITY, growth = INFINITY;
    double tight[2] = {INFINITY, 0}, unequal = INFINITY, before = NAN;
    for (size_t i = 0; i < 7; i++) {
        const dirac d = diracs_at(a[i]);
        const double rate = log(d.sigma) / sqrt(a[i]);
        claims_raise(&off, fabs(d.sigma / table[i] - 1.0));
        claims_lower(&least, d.sigma / d.promised);
        if (a[i] >= 0.5) claims_raise(&below[0], d.sigma / d.upper);
        if (a[i] >= 0.5) claims_raise(&below[1], d.sigma / d.paper);
        if (a[i] >= 1.0) claims_lower(&unequal, d.sigma / d.equal);
        if (a[i] > 1.0) claims_lower(&growth, rate / before);
        if (a[i] >= 2.0) claims_lower(&tight[0], d.sigma / d.upper);
        if (a[i] >= 2.0) claims_raise(&tight[1], d.sigma / d.upper);
        before = rate;
        claims_mean_field_row(r, "mean field, two Diracs", "W_2", a[i], d.sigma, d.promised,
                              d.upper);
    }
    claims_say(r, "two-diracs-table", off, "off by at most %.1e", off);
    claims_say(r, "two-diracs-reached", least, "exact / formula at least %.4f", least);
    claims_say(
        r, "unequal-masses", unequal,
        "at least %.2f times what the same two places reach with equal masses, a = 1 "
        "... 6",
        unequal);
    claims_say(r, "two-diracs-below", below[0], "at most %.3f of it, a >= 0.5", below[0]);
    claims_say(r, "two-diracs-paper", below[1], "at most %.3f of it, a >= 0.5", below[1]);
    claims_say(r, "faster-than-exponential", growth,
               "grows by a factor of %.3f at least from each a to the next, a = 1 ... 6",
               growth);
    claims_say(r, "mean-field-tight", tight[0], "%.4f to %.4f", tight[0], tight[1]);
}

/* W_1: the light mass tends to zero. */
void claims_first_distance(claims_work *r) {
    static const double a[] = {0.5, 1, 2, 3};
    double worst = 0.0, below = 0.0;
    for (size_t i = 0; i < 4; i++) {
        const double R = sqrt(a[i]), X[] = {-R, R}, light = 1e-9;
        const double weights[] = {light, 1.0 - light};
        claims_small s;
        lipsc_attn *attn = NULL;
        const lipsc_input input = {.n = 2, .X = X, .weights = weights};
        if (claims_small_identity(&s, 1, -1.0)) return;
        double constant = NAN;
        if (!lipsc_attn_new(&s.layer, &input, LIPSC_F64, NULL, &attn, NULL)) {
            double *K = claims_jacobian(attn); /* sqrt(a_i) J_i1 / sqrt(a_1) */
            if (K) constant = fabs(K[0]) + sqrt(weights[1] / weights[0]) * fabs(K[1]);
            lipsc_release(K);
        }
        const double promised = (1.0 + 2.0 * a[i]) * exp(2.0 * a[i]);
        claims_raise(&worst, fabs(constant / promised - 1.0));
        claims_raise(&below, constant / claims_ball_bound(&s, "mean-field-w1", 2, R, 0));
        claims_mean_field_row(r, "mean field, two Diracs", "W_1", a[i], constant, promised,
                              claims_ball_bound(&s, "mean-field-w1", 2, R, 0));
        lipsc_attn_free(attn);
        claims_small_free(&s);
    }
    claims_say(r, "w1-sharp", worst, "off by at most %.1e; %.3f of the bound", worst,
               below);
}

/* k = n e^{-Delta} / z equal outliers among n tokens, the best of some z, a = 1. */
void claims_plateau(claims_work *r) {
    static const size_t lengths[] = {100, 1000, 10000, 100000, 1000000};
    static const double z[] = {1, 1.5, 2, 2.5, 3, 4};
    double worst = 0.0, best = NAN;
    claims_small s;
    if (claims_small_identity(&s, 1, -1.0)) return;
    for (size_t i = 0; i < 5; i++) {
        const double n = (double)lengths[i];
        best = 0.0;
        for (size_t j = 0; j < sizeof z / sizeof *z; j++) {
            const double k = round(n * exp(-2.0) / z[j]);
            double X[] = {-1.0, 1.0}, count[] = {k, n - k}, sigma = NAN;
            const lipsc_worst crowd = {
                .n = lengths[i], .d = 1, .points = 2, .X = X, .count = count};
            if (lipsc_worst_reach(&s.layer, &crowd, lipsc_cpu_of(1), &sigma, NULL))
                sigma = NAN;
            claims_raise(&best, sigma);
        }
        claims_raise(&worst, fabs(best / 3.0685 - 1.0));
    }
    claims_say(r, "plateau", worst, "%.4f at n = 10^6, off by at most %.1e", best, worst);
    claims_small_free(&s);
}

/* The largest sigma that a search finds over places and masses of so many atoms. */
static double sought(claims_work *r, const claims_small *s, double R, size_t atoms) {
    lipsc_attack_settings set;
    lipsc_attack_result found;
    lipsc_attack_defaults(&set);
    set.n = atoms;
    set.domain = LIPSC_ATTACK_BALL;
    set.radius = R;
    set.masses = 1;
    set.dtype = LIPSC_F64;
    set.seed = r->set->seed;
    if (lipsc_attack_run(&s->layer, &set, &found, NULL)) return NAN;
    const double sigma = found.sigma;
    lipsc_attack_result_free(&found);
    return sigma;
}

/* A third atom brings nothing for A = -1, and much for A = +1 and large scores. */
void claims_few_atoms(claims_work *r) {
    static const struct {
        const char *id;
        double score, R;
    } cases[] = {{"few-diracs", -1.0, 1.0}, {"third-atom", 1.0, 4.47213595499957939}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases && !claims_stopped(r); i++) {
        claims_small s;
        if (claims_small_identity(&s, 1, cases[i].score)) return;
        const double two = sought(r, &s, cases[i].R, 2),
                     three = sought(r, &s, cases[i].R, 3);
        claims_say(r, cases[i].id, three / two,
                   "%.4f found with three atoms, %.4f with two", three, two);
        claims_small_free(&s);
    }
}

/* ---- 5.5: a sphere ------------------------------------------------------------------- */

void claims_sphere(claims_work *r) {
    static const size_t lengths[] = {4, 16, 64, 256};
    static const double one[] = {1.7303, 3.8536, 7.7730, 14.7106};
    static const double two[] = {5.6147, 10.1140, 14.4829, 13.5959};
    claims_dice dice = {r->set->seed + 55, 0};
    claims_small s;
    double off = 0.0, free_growth[2] = {0, 0};
    if (claims_small_identity(&s, 2, -1.0)) return;
    for (size_t i = 0; i < 4; i++) {
        lipsc_worst worst;
        double sigma = NAN;
        if (!lipsc_construct_outlier(&s.facts, 2.0, lengths[i], 0, 1, &worst, NULL))
            sigma = claims_reach(&s, &worst, 0);
        claims_raise(&off, fabs(sigma / one[i] - 1.0));
        sigma = NAN;
        if (!lipsc_construct_two(&s.facts, 2.0, lengths[i], 0.0, 1, &worst, NULL))
            sigma = claims_reach(&s, &worst, 0);
        claims_raise(&off, fabs(sigma / two[i] - 1.0));
    }
    claims_small_free(&s);
    claims_say(r, "sphere", off, "off by at most %.1e for n = 4 ... 256", off);
    if (claims_small_identity(&s, 3, 1.0)) return;
    for (size_t i = 0; i < 2; i++) {
        enum { TOKENS = 16 };
        const size_t n = i ? TOKENS : 4;
        for (size_t t = 0; t < (r->set->quick ? 10u : 60u); t++) {
            double X[TOKENS * 3], count[TOKENS], sigma = NAN;
            claims_tokens(&dice, n, 3, 2.0, 1, X);
            for (size_t q = 0; q < n; q++) count[q] = 1.0;
            const lipsc_worst any = {
                .n = n, .d = 3, .points = n, .X = X, .count = count, .sphere = 1};
            if (lipsc_worst_reach(&s.layer, &any, lipsc_cpu_of(1), &sigma, NULL))
                sigma = NAN;
            claims_raise(&free_growth[i], sigma);
        }
    }
    claims_say(r, "sphere-positive", free_growth[1] / free_growth[0],
               "largest %.2f (n = 4), %.2f (n = 16)", free_growth[0], free_growth[1]);
    claims_small_free(&s);
}
