/* small.c - small layers whose constants are known, random ones, their
 * Jacobians, and bounds that need no input. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "core/rng.h"
#include "linalg/dense.h"
#include "claims/claims.h"

/* ---- One head ------------------------------------------------------------------------ */

lipsc_status claims_small_ready(claims_small *s, size_t d) {
    lipsc_layer raw;
    lipsc_layer_defaults(&raw);
    raw.d = raw.key_dim = raw.value_dim = d;
    raw.Q = s->A;
    raw.V = s->V;
    memset(&s->facts, 0, sizeof s->facts);
    const lipsc_status status = lipsc_layer_check(&raw, &s->layer, NULL);
    return status ? status : lipsc_head_facts_make(&s->layer, 0, &s->facts);
}

lipsc_status claims_small_identity(claims_small *s, size_t d, double score) {
    for (size_t e = 0; e < d * d; e++) {
        s->A[e] = e / d == e % d ? score : 0.0;
        s->V[e] = e / d == e % d ? 1.0 : 0.0;
    }
    return claims_small_ready(s, d);
}

void claims_small_free(claims_small *s) { lipsc_head_facts_free(&s->facts); }

double claims_reach(const claims_small *s, lipsc_worst *worst, int causal) {
    lipsc_layer layer = s->layer;
    double sigma = NAN;
    if (causal) layer.mask = LIPSC_MASK_CAUSAL;
    if (lipsc_worst_reach(&layer, worst, lipsc_cpu_of(1), &sigma, NULL)) sigma = NAN;
    lipsc_worst_free(worst);
    return sigma;
}

double claims_sigma(const lipsc_layer *layer, const lipsc_input *input) {
    lipsc_attn *attn = NULL;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    double sigma = NAN;
    lipsc_svd_defaults(&set);
    set.method = LIPSC_DENSE;
    if (!lipsc_attn_new(layer, input, LIPSC_F64, NULL, &attn, NULL) &&
        lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info))
        sigma = NAN;
    lipsc_attn_free(attn);
    return sigma;
}

/* A bound over a ball looks at n, the radius and the mask's ranges, at no token. */
double claims_ball_bound(const claims_small *s, const char *name, size_t n, double R,
                         int causal) {
    lipsc_head_facts facts = s->facts;
    lipsc_layer layer = s->layer;
    lipsc_attn attn;
    lipsc_zoo_row row;
    size_t *lo = lipsc_alloc_zero(n, 2 * sizeof *lo);
    if (!lo) return NAN;
    for (size_t i = 0; i < n; i++) lo[n + i] = causal ? i + 1 : n;
    memset(&attn, 0, sizeof attn);
    attn.rows = (lipsc_rows){.n = n, .lo = lo, .hi = lo + n};
    if (causal) layer.mask = LIPSC_MASK_CAUSAL;
    const lipsc_zoo_case z = {.attn = &attn,
                              .layer = &layer,
                              .n = n,
                              .radius = R,
                              .p = 2.0,
                              .head = &facts,
                              .out_norm = 1.0};
    const lipsc_status status = lipsc_zoo_evaluate(&z, lipsc_zoo_find(name), &row);
    lipsc_release(lo);
    return status || *row.refused ? NAN : exp(row.log_value);
}

/* ---- Random layers ------------------------------------------------------------------- */

double claims_uniform(claims_dice *dice) {
    return lipsc_rng_uniform(dice->seed, dice->next++);
}

size_t claims_among(claims_dice *dice, size_t low, size_t high) {
    return low + (size_t)(claims_uniform(dice) * (double)(high - low + 1));
}

void claims_normal(claims_dice *dice, size_t count, double size, double *x) {
    dice->next += dice->next & 1; /* normal numbers come in pairs */
    for (size_t e = 0; e < count; e++)
        x[e] = size * lipsc_rng_normal(dice->seed, dice->next++);
}

void claims_score_matrix(claims_dice *dice, size_t kind, size_t d, double *A) {
    enum { LARGEST = 8 };
    double B[LARGEST * LARGEST], left[LARGEST], right[LARGEST];
    const double size = 1.0 / sqrt((double)d);
    claims_normal(dice, d * d, size, B);
    claims_normal(dice, d, size, left);
    claims_normal(dice, d, size, right);
    for (size_t i = 0; i < d; i++)
        for (size_t j = 0; j < d; j++) {
            const double values[] = {B[i * d + j], i == j ? -1.0 : 0.0, i == j ? 1.0 : 0.0,
                                     B[i * d + j] - B[j * d + i], left[i] * right[j]};
            A[i * d + j] = values[kind];
        }
}

void claims_tokens(claims_dice *dice, size_t n, size_t d, double R, int boundary,
                   double *X) {
    claims_normal(dice, n * d, 1.0, X);
    for (size_t i = 0; i < n; i++) {
        double *x = X + i * d, square = 0.0;
        const double depth = pow(claims_uniform(dice), 1.0 / (double)d);
        for (size_t c = 0; c < d; c++) square += x[c] * x[c];
        const double factor = (boundary ? R : R * depth) / sqrt(square);
        for (size_t c = 0; c < d; c++) x[c] *= factor;
    }
}

double *claims_jacobian(lipsc_attn *attn) {
    const lipsc_op op = lipsc_attn_op(attn);
    double *J = lipsc_alloc(op.m * op.n, sizeof *J);
    double *unit = lipsc_alloc_zero(op.n * op.n, sizeof *unit);
    for (size_t e = 0; unit && e < op.n; e++) unit[e * op.n + e] = 1.0;
    if (!J || !unit || op.apply(op.ctx, 0, op.n, unit, J)) {
        lipsc_release(J);
        J = NULL;
    }
    lipsc_release(unit);
    return J;
}
