/* masked.c - docs/maths.md 1.4 and 5.4: causal masks, an outlier that comes
 * first, at every time scale, or last. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "claims/claims.h"

void claims_outlier_first(claims_work *r) {
    static const double table[3][4] = {{1.5294, 3.4414, 5.3135, 5.6574},
                                       {1.4588, 3.8743, 14.4923, 22.0037},
                                       {1.4233, 3.3406, 14.6768, 52.6472}};
    static const size_t lengths[] = {2, 10, 100, 800};
    double off = 0.0, below = 0.0, least = INFINITY;
    for (size_t i = 0; i < 3; i++) {
        claims_small s;
        const double a = (double)(i + 1), R = sqrt(a);
        if (claims_small_identity(&s, 1, -1.0)) return;
        for (size_t j = 0; j < 4; j++) {
            static const char *const bounds[] = {"masked-finite-n", "masked-uniform",
                                                 "paper-finite-n"};
            lipsc_worst worst;
            char key[80];
            if (lipsc_construct_outlier(&s.facts, R, lengths[j], 1, 0, &worst, NULL)) {
                off = NAN; /* which stays */
                continue;
            }
            const double promised = exp(worst.log_promised);
            const double sigma = claims_reach(&s, &worst, 1);
            claims_raise(&off, fabs(sigma / table[i][j] - 1.0));
            claims_lower(&least, sigma / promised);
            double sharpest = INFINITY;
            for (size_t b = 0; b < 3; b++)
                claims_lower(&sharpest, claims_ball_bound(&s, bounds[b], lengths[j], R, 1));
            claims_raise(&below, sigma / sharpest);
            snprintf(key, sizeof key, "masked, outlier first: a=%g n=%zu", a, lengths[j]);
            claims_store_worst(
                r, key,
                &(lipsc_claim_worst){.experiment = "masked, outlier first, A = -1",
                                     .mask = "causal",
                                     .radius = R,
                                     .n = lengths[j],
                                     .sigma = sigma,
                                     .best_construction = promised,
                                     .upper = sharpest,
                                     .upper_paper = NAN});
        }
        claims_small_free(&s);
    }
    claims_say(r, "masked-table", off, "off by at most %.1e", off);
    claims_say(r, "masked-reached", least, "exact / formula at least %.4f", least);
    claims_say(r, "masked-below", below, "at most %.3f of the sharpest", below);
}

static double causal_sigma(const claims_small *s, size_t n, double first, double last) {
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
    if (X && !lipsc_attn_new(&layer, &input, LIPSC_F64, NULL, &attn, NULL) &&
        lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info))
        sigma = NAN;
    lipsc_attn_free(attn);
    lipsc_release(X);
    return sigma;
}

/* d = 1, A = -1, V = 1, causal, the outlier at -R first, all others at R.  Row i > 0 gives
 * the outlier p = 1/(1 + i e^{-2a}) and every other token that it sees (1 - p)/i, so that
 * sums over the past are all that J needs: n steps in place of n^2, and no kernel of ours.
 */
typedef struct {
    size_t n;
    double *diagonal, *past,
        *first; /* (n): query path, each crowd token seen, the outlier */
} crowd;

static int crowd_apply(void *ctx, int trans, size_t k, const double *x, double *y) {
    const crowd *c = ctx;
    for (size_t v = 0; v < k; v++, x += c->n, y += c->n) {
        double sum = 0.0, first = 0.0;
        for (size_t e = 0; e < c->n; e++) { /* forwards, or backwards */
            const size_t i = trans ? c->n - 1 - e : e;
            if (i == 0) continue;
            sum += trans ? c->past[i] * x[i] : x[i];
            first += c->first[i] * x[i];
            y[i] = c->diagonal[i] * x[i];
            y[i] += trans ? sum : c->past[i] * sum + c->first[i] * x[0];
        }
        y[0] = trans ? x[0] + first : x[0]; /* f_0 = V x_0 */
    }
    return 0;
}

static double crowd_sigma(size_t n, double R) {
    const double a = R * R, w = -R; /* w = A x of the crowd */
    lipsc_svd_settings set;
    lipsc_svd_info info;
    double sigma = NAN, *room = lipsc_alloc(n, 3 * sizeof *room);
    double *vectors = lipsc_alloc(n, 2 * sizeof *vectors);
    crowd c = {n, room, room + n, room + 2 * n};
    for (size_t i = 1; room && i < n; i++) {
        const double p = 1.0 / (1.0 + (double)i * exp(-2.0 * a));
        const double mean = R - 2.0 * R * p;
        c.diagonal[i] = -4.0 * a * p * (1.0 - p); /* C A */
        c.past[i] = (1.0 - p) / (double)i * (1.0 + (R - mean) * w);
        c.first[i] = p * (1.0 + (-R - mean) * w);
    }
    const lipsc_op op = {n, n, crowd_apply, &c};
    lipsc_svd_defaults(&set);
    set.tol = 1e-6; /* the value's error is the square of that over the gap */
    if (!room || !vectors || lipsc_svd(&op, &set, &sigma, vectors, vectors + n, &info))
        sigma = NAN;
    lipsc_release(room);
    lipsc_release(vectors);
    return sigma;
}

void claims_many_tokens(claims_work *r) {
    enum { TOKENS = 32000 };
    claims_small s;
    lipsc_worst worst;
    double limit = NAN, scales = INFINITY;
    if (claims_small_identity(&s, 1, -1.0)) return;
    if (!lipsc_construct_outlier(&s.facts, 1.0, 1000, 1, 0, &worst, NULL))
        limit = claims_reach(&s, &worst, 1);
    /* the kernels, where they and the closed form meet */
    const double apart = fabs(crowd_sigma(1000, 1.0) / limit - 1.0);
    const double far = apart < 1e-9 ? crowd_sigma(TOKENS, 1.0) : NAN;
    const double unmasked = claims_ball_bound(&s, "mean-field-w2", 2, 1.0, 0);
    const double formula = exp(1.0) * sqrt(1.0 + 2.0 + 4.0 / 3.0); /* Delta = 2 */
    claims_say(r, "masked-limit", far / formula, "%.4f at n = %d, formula %.4f", far,
               TOKENS, formula);
    claims_say(r, "masked-passes", far, "%.4f at n = %d, %.4f at n = 1000", far, TOKENS,
               limit);
    claims_say(r, "masked-worse", limit / unmasked, "%.3f above %.3f", limit, unmasked);
    for (size_t i = 0; i < 3; i++) {
        static const double a[] = {0.5, 1, 2};
        double promised = NAN, sigma = NAN;
        if (!lipsc_construct_scales(&s.facts, sqrt(a[i]), 300, 1.15, &worst, NULL)) {
            promised = exp(worst.log_promised);
            sigma = claims_reach(&s, &worst, 0);
        }
        claims_lower(&scales, sigma / promised);
        claims_mean_field_row(r, "masked mean field, outliers at every scale", "d_2", a[i],
                              sigma, promised,
                              claims_ball_bound(&s, "masked-uniform", 2, sqrt(a[i]), 1));
    }
    claims_say(r, "every-scale", scales, "%.1f %% of the limit at least", 100.0 * scales);
    const double last = causal_sigma(&s, 800, 1.0, -1.0);
    claims_say(r, "outlier-last", last, "%.4f", last);
    claims_small_free(&s);
}

/* A = 0: causal averaging. */
void claims_averaging(claims_work *r) {
    enum { TOKENS = 1000 };
    claims_small s;
    double harmonic = 0.0, reached = NAN, first[TOKENS] = {1.0}, y[TOKENS] = {0};
    double X[TOKENS] = {0};
    lipsc_attn *attn = NULL;
    if (claims_small_identity(&s, 1, 0.0)) return;
    lipsc_layer layer = s.layer;
    layer.mask = LIPSC_MASK_CAUSAL;
    const lipsc_input input = {.n = TOKENS, .X = X};
    for (size_t i = 1; i <= TOKENS; i++) harmonic += 1.0 / (double)i;
    if (!lipsc_attn_new(&layer, &input, LIPSC_F64, NULL, &attn, NULL) &&
        !lipsc_attn_apply(attn, 0, 1, first, y)) {
        reached = 0.0;
        for (size_t i = 0; i < TOKENS; i++) reached += fabs(y[i]);
    }
    lipsc_attn_free(attn);
    claims_say(r, "d1-unbounded", fabs(reached / harmonic - 1.0), "%.4f at n = 1000",
               reached);
    const double two = causal_sigma(&s, TOKENS, 0.0, 0.0);
    claims_say(r, "d2-hardy", two, "%.4f at n = 1000", two);
    claims_small_free(&s);
}
