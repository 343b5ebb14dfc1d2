/* zoo.c - the table of bounds, and what all of them share. */
#include "bound/zoo.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bound/construct.h"
#include "bound/head.h"
#include "bound/joint.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

#define PAPER "Castin, Ablin, Peyre 2024"

static const char *never(const lipsc_zoo_case *z) {
    (void)z;
    return NULL;
}

/* name, source, formula; kind, norm, domain; hypotheses; the bound */
#define HEADS(name, source, formula, kind, norm, domain, refuse, function) \
    {                                                                      \
        name, source, formula, LIPSC_KIND_##kind, LIPSC_NORM_##norm,       \
            LIPSC_DOMAIN_##domain, refuse, function, NULL                  \
    }
#define WHOLE(name, source, formula, kind, norm, domain, refuse, function) \
    {                                                                      \
        name, source, formula, LIPSC_KIND_##kind, LIPSC_NORM_##norm,       \
            LIPSC_DOMAIN_##domain, refuse, NULL, function                  \
    }

const lipsc_zoo_rule lipsc_zoo_rules[] = {
    WHOLE("data-columns", "maths 3.3, 3.13",
          "max_i |V C_i A| + sqrt(max_j sum_i P_ij tau_i^2)", UPPER, OF_SIGMA, INPUT, never,
          lipsc_data_columns),
    WHOLE("data-rows", "maths 3.3, 3.13", "max_i |V C_i A| + sqrt(sum_i |row_i|^2)", UPPER,
          OF_SIGMA, INPUT, lipsc_refuse_weights, lipsc_data_rows),
    WHOLE(
        "data-joint", "maths 3.10, all heads at once",
        "(|J_s|^2 + (max_i |D_i| + sqrt(Omega max_j sum_ih P^h_ij tau_ih^2 / v_j))^2)^1/2",
        UPPER, OF_SIGMA, INPUT, lipsc_refuse_turned, lipsc_data_joint),
    HEADS("elementary", "maths 3.14, exact softmax Jacobian",
          "|V| (|P| + 2 |A| |X|^2 max_i |diag(P_i) - P_i P_i^T|)", UPPER, FROBENIUS, INPUT,
          lipsc_elementary_refuse, lipsc_elementary),
    HEADS("elementary-cover", "maths 3.14; Yudin et al. 2025",
          "|V| (|P| + 2 |A| |X|^2 max_i p1 (1 - p1 + p2))", UPPER, FROBENIUS, INPUT,
          lipsc_elementary_refuse, lipsc_elementary_cover),
    HEADS("paper-finite-n", PAPER ", Theorem 3.3; maths 3.1",
          "sqrt3 |V| (a^2 (4n+1) + n)^{1/2}", UPPER, FROBENIUS, BALL,
          lipsc_paper_finite_refuse, lipsc_paper_finite),
    HEADS("paper-mean-field", PAPER ", Theorem 3.5; maths 3.7", "|V| (1+3a) e^{2a}", UPPER,
          W2, BALL, lipsc_paper_mean_field_refuse, lipsc_paper_mean_field),
    HEADS("rows", "maths 3.4", "|V| (a + sqrt(n) min(sqrt(1+a^2), 1 + a/sqrt2))", UPPER,
          FROBENIUS, BALL, lipsc_rows_refuse, lipsc_rows_bound),
    HEADS("finite-n", "maths 3.5",
          "|V| (a + min{rows, sqrt((1+a^2) n / (1+(n-1)e^{-2a}))})", UPPER, FROBENIUS, BALL,
          lipsc_finite_refuse, lipsc_finite),
    HEADS("atoms", "maths 3.5, weighted atoms",
          "|V| (a + sqrt((1+a^2) / (a_min + (1-a_min) e^{-2a})))", UPPER, OF_SIGMA, BALL,
          lipsc_refuse_biased, lipsc_atoms),
    HEADS("mean-field-w2", "maths 3.6", "|V| (a + e^a sqrt(1+a^2))", UPPER, W2, BALL,
          lipsc_mean_field_refuse, lipsc_mean_field_w2),
    HEADS("mean-field-w1", "maths 3.6", "|V| (a + (1+2a) e^{2a})", UPPER, W1, BALL,
          lipsc_mean_field_refuse, lipsc_mean_field_w1),
    HEADS("mean-field-wp", "maths 3.6", "|V| (a + (1+2a) e^{2a/p})", UPPER, WP, BALL,
          lipsc_mean_field_refuse, lipsc_mean_field_wp),
    HEADS("max-token", "maths 3.6", "|V| (1+2a)", UPPER, MAX_TOKEN, BALL,
          lipsc_refuse_turned, lipsc_max_token),
    HEADS("masked-finite-n", "maths 3.8", "|V| (a + min{sqrt((1+a^2) S_n), rows})", UPPER,
          FROBENIUS, BALL, lipsc_masked_finite_refuse, lipsc_masked_finite),
    HEADS("masked-uniform", "maths 3.9", "|V| (a + 2 (1+2a) (1 + sqrt(e^{2a}-1)))", UPPER,
          D2, BALL, lipsc_masked_uniform_refuse, lipsc_masked_uniform),
    HEADS("masked-dp", "maths 3.9", "|V| (a + p/(p-1) (1+2a) (1 + (e^{2a}-1)^{1/p}))",
          UPPER, DP, BALL, lipsc_masked_dp_refuse, lipsc_masked_dp),
    WHOLE("norm-data", "maths 3.11", "data bound at N(X) * max_i |DN(x_i)|", UPPER,
          FROBENIUS, INPUT, lipsc_normed_refuse, lipsc_normed_data),
    WHOLE("norm-here", "maths 3.11", "bound(n, R_N) * sqrt(d) max|g| / min_i r(x_i)", UPPER,
          FROBENIUS, INPUT, lipsc_normed_refuse, lipsc_normed_here),
    WHOLE("norm-everywhere", "maths 3.11", "bound(n, R_N) * max|g| / sqrt(eps)", UPPER,
          FROBENIUS, ALL, lipsc_normed_refuse, lipsc_normed_everywhere),
    WHOLE("large-radius", "maths 6", "|V| sqrt(max_j #{i : argmax_l (A x_i).x_l = j})",
          LIMIT, OF_SIGMA, INPUT, lipsc_refuse_turned, lipsc_large_radius),
    WHOLE("single-token", "maths 7", "max_j lambda_max(sum_i J_ij^T J_ij)^{1/2}", LOWER,
          OF_SIGMA, INPUT, never, lipsc_single_token),
    WHOLE("one-outlier", "maths 5.1, 5.4", "sqrt(n-1) p |V (I + (1-p) b w^T)|, best Delta",
          LOWER, FROBENIUS, BALL, lipsc_worst_refuse, lipsc_worst_one),
    WHOLE("eigenvector", PAPER ", released code; maths 5.1",
          "sqrt(n-1) p |V (I + (1-p) b w^T)|, A u = lambda u", LOWER, FROBENIUS, BALL,
          lipsc_worst_refuse, lipsc_worst_eigen),
    WHOLE("n-adapted", "maths 5.1", "one outlier, bulk radius chosen for n", LOWER,
          FROBENIUS, BALL, lipsc_worst_refuse, lipsc_worst_fit),
    WHOLE("two-outliers", "maths 5.2", "sqrt(2(n-2)) p |A x| |V b|", LOWER, FROBENIUS, BALL,
          lipsc_worst_refuse, lipsc_worst_two),
    WHOLE("linear-in-a", "maths 5.2 (L4)", "|V ((n-1)/n R^2 u u^T A + I/n)|", LOWER,
          FROBENIUS, BALL, lipsc_worst_refuse, lipsc_worst_line),
    WHOLE("two-diracs", "maths 5.3", "e^{Delta/2} max_z phi(z) |V b| / |b|", LOWER, W2,
          BALL, lipsc_mean_field_refuse, lipsc_worst_diracs),
    WHOLE("every-scale", "maths 5.4", "-> 2 e^{Delta/2} max_z phi(z) |V b| / |b|", LOWER,
          D2, BALL, lipsc_masked_uniform_refuse, lipsc_worst_scales),
};
const size_t lipsc_zoo_count = sizeof lipsc_zoo_rules / sizeof *lipsc_zoo_rules;

const lipsc_zoo_rule *lipsc_zoo_find(const char *name) {
    for (size_t b = 0; b < lipsc_zoo_count; b++)
        if (!strcmp(lipsc_zoo_rules[b].name, name)) return &lipsc_zoo_rules[b];
    return NULL;
}

const char *lipsc_bound_kind_name(lipsc_bound_kind kind) {
    static const char *const names[] = {"upper", "limit", "lower"};
    return names[kind];
}

const char *lipsc_bound_norm_name(lipsc_bound_norm norm) {
    static const char *const names[] = {"frobenius", "max-token", "W1", "W2",
                                        "Wp",        "d2",        "dp", "sigma"};
    return names[norm];
}

const char *lipsc_bound_domain_name(lipsc_bound_domain domain) {
    static const char *const names[] = {"input", "ball", "all"};
    return names[domain];
}

/* ---- Small things that the formulas share ------------------------------------------- */

double lipsc_log_add(double x, double y) {
    const double large = lipsc_max(x, y), small = lipsc_min(x, y);
    return large == -INFINITY || large == INFINITY ? large
                                                   : large + log1p(exp(small - large));
}

double lipsc_log_a1(const lipsc_zoo_case *z, size_t h) {
    return log(z->head[h].norm_A) + 2.0 * log(z->radius);
}

double lipsc_log_a2(const lipsc_zoo_case *z, size_t h) {
    const double log_R = log(z->radius);
    if (log_R == -INFINITY) return -INFINITY;
    return lipsc_log_add(log(z->head[h].norm_A) + log_R, log(z->head[h].norm_c)) + log_R;
}

double lipsc_a2(const lipsc_zoo_case *z, size_t h) { return exp(lipsc_log_a2(z, h)); }

double lipsc_log_root_1_a2(double log_a) { return 0.5 * lipsc_log_add(0.0, 2.0 * log_a); }

/* ---- Hypotheses --------------------------------------------------------------------- */

const char *lipsc_refuse_turned(const lipsc_zoo_case *z) {
    return lipsc_scores_turned(z->layer);
}

const char *lipsc_refuse_biased(const lipsc_zoo_case *z) {
    const char *why = lipsc_refuse_turned(z);
    if (why || z->layer->bias_rule == LIPSC_BIAS_NONE) return why;
    return "a bias of the scores: those of a row may differ by more than 2 a; see rows";
}

const char *lipsc_refuse_masked(const lipsc_zoo_case *z) {
    return z->layer->mask == LIPSC_MASK_NONE ? NULL
                                             : "holds without a mask only; a mask is worse";
}

const char *lipsc_refuse_weights(const lipsc_zoo_case *z) {
    return z->weighted ? "tokens have unequal weights: sigma is a W_2 constant" : NULL;
}

const char *lipsc_refuse_unmasked(const lipsc_zoo_case *z) {
    if (z->layer->mask == LIPSC_MASK_NONE) return "no mask: see mean-field-w2";
    if (z->layer->mask == LIPSC_MASK_SLIDING || z->layer->mask == LIPSC_MASK_LOCAL)
        return "a sliding window: the proof needs all earlier tokens visible";
    return NULL;
}

/* ---- The case ----------------------------------------------------------------------- */

/* |X| from above: its largest singular value, or its Frobenius norm when that is large. */
static lipsc_status token_norm(size_t n, size_t d, const double *X, double *norm) {
    enum { EXACT = 1024 };
    if (n <= EXACT || d <= EXACT) return lipsc_dense_norm(d, n, X, norm);
    *norm = 0.0;
    for (size_t e = 0; e < n * d; e++) *norm = hypot(*norm, X[e]);
    return LIPSC_OK;
}

lipsc_status lipsc_zoo_case_make(lipsc_attn *attn, double radius, double p,
                                 const lipsc_zoo_norm *norm, lipsc_zoo_case *z,
                                 lipsc_error *err) {
    return lipsc_zoo_case_until(attn, radius, p, norm, NULL, NULL, z, err);
}

lipsc_status lipsc_zoo_case_until(lipsc_attn *attn, double radius, double p,
                                  const lipsc_zoo_norm *norm, int (*stop)(void *ctx),
                                  void *ctx, lipsc_zoo_case *z, lipsc_error *err) {
    const lipsc_layer *layer = &attn->layer;
    memset(z, 0, sizeof *z);
    z->stop = attn->stop = stop;
    z->ctx = attn->stop_ctx = ctx;
    z->given = attn;
    z->attn = attn;
    z->layer = layer;
    z->n = attn->input.n;
    z->p = p;
    z->norm = norm;
    z->weighted = !lipsc_equal_weights(&attn->input);
    z->out_norm = 1.0;
    lipsc_status status = lipsc_attn_tokens(attn);
    const double largest =
        status ? 0.0 : lipsc_longest_token(z->n, layer->d, attn->input.X);
    z->radius = isnan(radius) ? largest : radius;
    z->head = lipsc_alloc_zero(layer->heads, sizeof *z->head);
    z->local = lipsc_alloc_zero(layer->heads, sizeof *z->local);
    if (!z->head || !z->local) status = LIPSC_E_NOMEM;
    for (size_t h = 0; !status && h < layer->heads; h++) {
        status = lipsc_zoo_stopped(z);
        if (!status) status = lipsc_head_facts_make(layer, h, &z->head[h]);
    }
    if (!status && layer->O)
        status = lipsc_dense_norm(layer->heads * layer->value_dim, layer->out_dim, layer->O,
                                  &z->out_norm);
    if (!status) status = token_norm(z->n, layer->d, attn->input.X, &z->token_norm);
    if (!status) status = lipsc_zoo_stopped(z);
    if (!status) {
        z->data_status = lipsc_upper_at(attn, 1, &z->data, &z->refined, &z->data_reason);
        if (z->refined) z->attn = z->refined;
        const int ended =
            z->data_status == LIPSC_E_NOMEM || z->data_status == LIPSC_E_STOPPED;
        status = ended ? z->data_status : lipsc_local_make(z->attn, z->local);
    }
    if (status)
        return lipsc_fail(err, status, "bounds: %s",
                          status == LIPSC_E_RANGE
                              ? "a norm of the layer is too large for a "
                                "double"
                              : lipsc_strerror(status));
    if (largest > z->radius * (1.0 + 1e-12))
        return lipsc_fail(err, LIPSC_E_ARG,
                          "a token has length %.6g, outside the ball of radius %.6g",
                          largest, z->radius);
    return LIPSC_OK;
}

void lipsc_zoo_step(const lipsc_zoo_case *z, size_t steps) {
    lipsc_zoo_steps *s = z->steps;
    if (!s) return;
    s->done += steps;
    s->left -= steps < s->left ? steps : s->left;
    if (s->told) s->told(s->ctx, s->done, s->done + s->left);
}

void lipsc_zoo_expect(const lipsc_zoo_case *z, size_t radii) {
    if (z->steps) z->steps->left = radii * z->layer->heads + z->steps->after;
}

void lipsc_zoo_case_free(lipsc_zoo_case *z) {
    for (size_t h = 0; z->head && h < z->layer->heads; h++)
        lipsc_head_facts_free(&z->head[h]);
    lipsc_release(z->head);
    lipsc_release(z->local);
    lipsc_attn_free(z->refined);
    if (z->given) z->given->stop = NULL;
    z->given = NULL;
    z->refined = NULL;
    z->head = NULL;
    z->local = NULL;
}

/* ---- Evaluation --------------------------------------------------------------------- */

static lipsc_bound_norm norm_of(const lipsc_zoo_case *z, const lipsc_zoo_rule *rule) {
    if (rule->norm != LIPSC_NORM_OF_SIGMA) return rule->norm;
    if (!z->weighted) return LIPSC_NORM_FROBENIUS;
    return z->layer->mask == LIPSC_MASK_NONE ? LIPSC_NORM_W2 : LIPSC_NORM_D2;
}

/* 3.10, in logarithms.  In W_p and d_p with p < 2 the heads add up. */
static double combine_heads(const lipsc_zoo_case *z, const lipsc_zoo_rule *rule) {
    const lipsc_heads_rule how =
        rule->norm == LIPSC_NORM_W1 ||
                ((rule->norm == LIPSC_NORM_WP || rule->norm == LIPSC_NORM_DP) && z->p < 2.0)
            ? LIPSC_HEADS_SUM
            : LIPSC_HEADS_ROOT;
    double sum = -INFINITY, squares = -INFINITY;
    for (size_t h = 0; h < z->layer->heads; h++) {
        const lipsc_head_facts *f = &z->head[h];
        const double log_bound = rule->log_head(z, h);
        if (f->norm_OV > 0.0) sum = lipsc_log_add(sum, log(f->norm_OV) + log_bound);
        if (f->norm_V > 0.0)
            squares = lipsc_log_add(squares, 2.0 * (log(f->norm_V) + log_bound));
    }
    const double root = log(z->out_norm) + 0.5 * squares;
    if (how == LIPSC_HEADS_SUM) return sum;
    return z->layer->O ? lipsc_min(sum, root) : root;
}

/* What rounding may have taken from a bound: the norms are good to a few eps, and stand in
 * the exponent 2a. */
static double margin(const lipsc_zoo_case *z) {
    double a = 0.0;
    for (size_t h = 0; h < z->layer->heads; h++) a = lipsc_max(a, lipsc_a2(z, h));
    return 2e-13 + DBL_EPSILON * (16.0 * a + (double)z->n);
}

lipsc_status lipsc_zoo_evaluate(const lipsc_zoo_case *z, const lipsc_zoo_rule *rule,
                                lipsc_zoo_row *row) {
    memset(row, 0, sizeof *row);
    row->rule = rule;
    row->norm = norm_of(z, rule);
    row->comparable = row->norm == LIPSC_NORM_FROBENIUS || row->norm == LIPSC_NORM_W2 ||
                      row->norm == LIPSC_NORM_D2;
    row->value = row->log_value = NAN;
    const char *why = rule->refuse(z);
    double log_value = NAN;
    lipsc_error err = {.text = ""};
    lipsc_status status = LIPSC_OK;
    if (!why && rule->log_head) {
        int memory = 0;
        lipsc_zoo_case told = *z;
        told.short_of_memory = &memory;
        log_value = combine_heads(&told, rule);
        if (memory) return LIPSC_E_NOMEM;
    }
    if (!why && rule->log_layer) status = rule->log_layer(z, &log_value, &err);
    if (status == LIPSC_E_NOMEM || status == LIPSC_E_STOPPED) return status;
    if (!why && status) why = *err.text ? err.text : lipsc_strerror(status);
    if (!why && rule->kind == LIPSC_KIND_UPPER && rule->log_head) log_value += margin(z);
    if (!why && (isnan(log_value) || log_value == INFINITY))
        why = "its logarithm is too large for a double";
    if (why) {
        snprintf(row->refused, sizeof row->refused, "%s", why);
        return LIPSC_OK;
    }
    const double value = exp(log_value);
    if (isfinite(value)) row->value = value;
    if (log_value != -INFINITY) row->log_value = log_value;
    return LIPSC_OK;
}

/* log(value / sigma); a value of zero comes first. */
static double log_ratio(const lipsc_zoo_row *row) {
    if (isnan(row->log_value)) return -INFINITY;
    return row->log_value - (row->sigma > 0.0 ? log(row->sigma) : 0.0);
}

/* Upper bounds upwards, those in the norm of sigma first; then limits; then lower bounds
 * downwards; refused ones last. */
static int tighter(const void *left, const void *right) {
    const lipsc_zoo_row *a = left, *b = right;
    const int order[] = {(*a->refused != 0) - (*b->refused != 0),
                         (int)a->rule->kind - (int)b->rule->kind,
                         b->comparable - a->comparable};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (order[i]) return order[i];
    const double x = log_ratio(a), y = log_ratio(b);
    const int upwards = (x > y) - (x < y);
    if (!*a->refused && upwards)
        return a->rule->kind == LIPSC_KIND_LOWER ? -upwards : upwards;
    return (a->rule > b->rule) - (a->rule < b->rule);
}

/* An input is built or solved for, in every head. */
static int is_slow(const lipsc_zoo_case *z, const lipsc_zoo_rule *rule) {
    return rule->kind == LIPSC_KIND_LOWER && rule->log_layer && !rule->refuse(z);
}

size_t lipsc_zoo_slow_count(const lipsc_zoo_case *z) {
    size_t count = 0;
    for (size_t b = 0; b < lipsc_zoo_count; b++)
        count += is_slow(z, &lipsc_zoo_rules[b]) ? 1 : 0;
    return count;
}

lipsc_status lipsc_zoo_evaluate_all(const lipsc_zoo_case *z, double sigma,
                                    lipsc_zoo_row *rows) {
    for (size_t b = 0; b < lipsc_zoo_count; b++) {
        const lipsc_zoo_rule *rule = &lipsc_zoo_rules[b];
        lipsc_status status = lipsc_zoo_stopped(z);
        if (!status) status = lipsc_zoo_evaluate(z, rule, &rows[b]);
        if (status) return status;
        if (is_slow(z, rule)) lipsc_zoo_step(z, z->layer->heads);
        const int normed = rule->refuse == lipsc_normed_refuse;
        rows[b].sigma = !normed ? sigma : z->norm ? z->norm->sigma : NAN;
    }
    qsort(rows, lipsc_zoo_count, sizeof *rows, tighter);
    return LIPSC_OK;
}

/* ---- Regime ------------------------------------------------------------------------- */

static const char *regime_name(int saturated, size_t n, double log_crossover) {
    if (saturated) return "large_radius";
    return log((double)n) > log_crossover ? "mean_field" : "sqrt_n";
}

lipsc_status lipsc_zoo_regime(const lipsc_zoo_case *z, lipsc_regime *out,
                              lipsc_error *err) {
    const char *why = lipsc_refuse_biased(z);
    if (why) return lipsc_fail(err, LIPSC_E_REFUSED, "%s", why);
    *out = (lipsc_regime){.a = -1.0};
    for (size_t h = 0; h < z->layer->heads; h++)
        if (lipsc_a2(z, h) > out->a) {
            out->a = lipsc_a2(z, h);
            out->head = h;
        }
    if (!isfinite(out->a))
        return lipsc_fail(err, LIPSC_E_RANGE, "|A| R^2 is too large for a double");
    double *x = lipsc_alloc(z->layer->d, sizeof *x);
    lipsc_status status =
        x ? lipsc_best_delta(&z->head[out->head], z->radius, 0, x, &out->delta)
          : LIPSC_E_NOMEM;
    lipsc_release(x);
    if (status) return lipsc_fail(err, status, "%s", lipsc_strerror(status));
    out->log_crossover = 2.0 * out->a;
    out->crossover = exp(out->log_crossover);
    out->spread = z->local[out->head].spread;
    const int saturated = z->local[out->head].median < 1e-3;
    out->name = regime_name(saturated, z->n, out->log_crossover);
    out->input = regime_name(saturated, z->n, out->spread);
    return LIPSC_OK;
}
