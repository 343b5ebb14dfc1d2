/* reproduce_bounds.c - docs/maths.md 3: every upper bound against the exact value on a
 * batch of random layers, the worst cases of section 5 among the inputs. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "linalg/dense.h"
#include "reproduce.h"

enum { TOKENS = 20, WIDTH = 4, HEADS = 3, MATRIX = HEADS * WIDTH * WIDTH };

typedef struct {
    lipsc_layer layer;
    lipsc_input input;
    double R;
    int turned;
    double Q[MATRIX], K[MATRIX], V[MATRIX], O[MATRIX], bias[HEADS * WIDTH];
    double X[TOKENS * WIDTH], weights[TOKENS], times[TOKENS], freq[WIDTH], gain[WIDTH];
} drawn;

/* What one rule met. */
typedef struct {
    double largest; /* exact / bound            */
    double heads;   /* of several heads         */
    size_t inputs;  /* where the bound was said */
} record;

/* ---- Inputs -------------------------------------------------------------------------- */

static void draw_heads(repro_dice *dice, drawn *c) {
    lipsc_layer *l = &c->layer;
    const size_t d = l->d;
    l->heads = repro_among(dice, 1, HEADS);
    l->kv_heads = l->heads == 2 && repro_among(dice, 0, 1) ? 1 : l->heads;
    l->key_dim = 2 * repro_among(dice, 1, WIDTH / 2);
    l->value_dim = repro_among(dice, 1, WIDTH);
    repro_normal(dice, l->heads * l->key_dim * d, 1.0 / sqrt((double)d), c->Q);
    repro_normal(dice, l->kv_heads * l->key_dim * d, 1.0, c->K);
    l->K = c->K;
    if (repro_among(dice, 0, 1)) {
        repro_normal(dice, l->heads * l->key_dim, 0.5, c->bias);
        l->bq = c->bias;
    }
    if (repro_among(dice, 0, 1)) {
        l->out_dim = repro_among(dice, 1, WIDTH);
        repro_normal(dice, l->out_dim * l->heads * l->value_dim, 1.0, c->O);
        l->O = c->O;
    }
    c->turned = repro_among(dice, 0, 2) == 0; /* rotary positions, query/key norms */
    if (c->turned) {
        l->rotary_dim = l->key_dim;
        for (size_t i = 0; i < WIDTH; i++) {
            c->freq[i] = pow(10.0, -(double)i);
            c->gain[i] = 0.5 + repro_uniform(dice);
        }
        l->rotary_freq = c->freq;
        if (repro_among(dice, 0, 1)) {
            l->q_gain = l->k_gain = c->gain;
            l->norm_eps = 1e-5;
        }
    }
}

/* One outlier and a crowd, or two outliers: where the bounds are nearly reached. */
static void crowd(drawn *c, size_t outliers) {
    const size_t n = c->input.n, d = c->layer.d;
    memset(c->X, 0, sizeof c->X);
    for (size_t i = 0; i < n; i++) {
        const int out = i < outliers;
        if (outliers == 2 && d > 1 && out)
            c->X[i * d + 1] = i ? -c->R : c->R;
        else
            c->X[i * d] = out ? -c->R : c->R;
    }
}

static void draw(repro_dice *dice, size_t trial, drawn *c) {
    memset(c, 0, sizeof *c);
    lipsc_layer *l = &c->layer;
    lipsc_layer_defaults(l);
    const size_t kind = trial % 8, n = repro_among(dice, 1, TOKENS);
    l->d = repro_among(dice, 1, n > 12 ? 2 : WIDTH);
    c->R = 0.2 * pow(15.0, repro_uniform(dice)); /* 0.2 ... 3 */
    l->Q = c->Q;
    l->V = c->V;
    if (kind < 5) {
        repro_score_matrix(dice, kind, l->d, c->Q);
        l->key_dim = l->value_dim = l->d;
    } else {
        draw_heads(dice, c);
    }
    repro_normal(dice, MATRIX, 1.0, c->V);
    if (kind < 5 && trial % 2)
        for (size_t e = 0; e < l->d * l->d; e++) c->V[e] = e / l->d == e % l->d;
    c->input = (lipsc_input){.n = n, .X = c->X};
    repro_tokens(dice, n, l->d, c->R, trial % 3 == 0, c->X);
    if (kind == 1 && trial % 16 < 8) crowd(c, 1 + trial % 2);
    l->mask = (lipsc_mask)repro_among(dice, 0, 3);
    l->window = repro_among(dice, 1, n);
    for (size_t i = 0; i < n; i++) {
        c->times[i] = (double)repro_among(dice, 0, n) / (double)n;
        c->weights[i] = exp(4.0 * repro_uniform(dice) - 2.0);
    }
    if (l->mask == LIPSC_MASK_TIMES) c->input.times = c->times;
    if (repro_among(dice, 0, 2) == 0) c->input.weights = c->weights;
}

/* ---- Other norms --------------------------------------------------------------------- */

typedef struct {
    size_t n, d, width;
    const double *J; /* column-major, D^{1/2} J D^{-1/2} */
    double a[TOKENS];
} jacobian;

static double size_of(const jacobian *o, size_t width, const double *h, double p) {
    double sum = 0.0, largest = 0.0;
    for (size_t i = 0; i < o->n; i++) {
        double square = 0.0;
        for (size_t c = 0; c < width; c++) square += h[i * width + c] * h[i * width + c];
        largest = fmax(largest, sqrt(square));
        sum += o->a[i] * pow(square, p / 2.0);
    }
    return isinf(p) ? largest : pow(sum, 1.0 / p);
}

static void multiply(const jacobian *o, const double *h, double *y) {
    const size_t m = o->n * o->width;
    memset(y, 0, m * sizeof *y);
    for (size_t e = 0; e < o->n * o->d; e++)
        for (size_t i = 0; i < m; i++)
            y[i] += sqrt(o->a[e / o->d] / o->a[i / o->width]) * o->J[e * m + i] * h[e];
}

/* (sum a |J h|^p)^{1/p} / (sum a |h|^p)^{1/p}: the largest among moves of one token and of
 * all, a lower value of the constant in that norm. */
static double reached_in(const jacobian *o, double p, repro_dice *dice) {
    double h[TOKENS * WIDTH], y[TOKENS * HEADS * WIDTH], best = 0.0;
    for (size_t trial = 0; trial < o->n + 4; trial++) {
        repro_normal(dice, o->n * o->d, 1.0, h);
        for (size_t e = 0; trial < o->n && e < o->n * o->d; e++)
            if (e / o->d != trial) h[e] = 0.0;
        for (size_t i = 0; isinf(p) && i < o->n; i++) { /* all tokens equally far */
            double square = 0.0;
            for (size_t c = 0; c < o->d; c++) square += h[i * o->d + c] * h[i * o->d + c];
            for (size_t c = 0; square > 0.0 && c < o->d; c++)
                h[i * o->d + c] /= sqrt(square);
        }
        multiply(o, h, y);
        best = fmax(best, size_of(o, o->width, y, p) / size_of(o, o->d, h, p));
    }
    return best;
}

/* ---- One input ----------------------------------------------------------------------- */

static double constant_in(lipsc_bound_norm norm, const jacobian *o, double sigma, double p,
                          repro_dice *dice) {
    switch (norm) {
    case LIPSC_NORM_W1:
        return reached_in(o, 1.0, dice);
    case LIPSC_NORM_WP:
    case LIPSC_NORM_DP:
        return reached_in(o, p, dice);
    case LIPSC_NORM_MAX_TOKEN:
        return reached_in(o, INFINITY, dice);
    default:
        return sigma;
    }
}

static lipsc_status try_rules(const drawn *c, lipsc_attn *attn, repro_dice *dice,
                              record *records) {
    const double p = 3.0;
    lipsc_zoo_case z;
    double *J = repro_jacobian(attn), sigma = NAN, total = 0.0;
    jacobian o = {c->input.n, c->layer.d, lipsc_layer_width(&attn->layer), J, {0}};
    for (size_t i = 0; i < o.n; i++)
        total += o.a[i] = c->input.weights ? c->input.weights[i] : 1.0;
    for (size_t i = 0; i < o.n; i++) o.a[i] /= total;
    lipsc_status status =
        J ? lipsc_dense_norm(o.n * o.width, o.n * o.d, J, &sigma) : LIPSC_E_NOMEM;
    if (!status) {
        status = lipsc_zoo_case_make(attn, c->R * (1.0 + 1e-12), p, NULL, &z, NULL);
        for (size_t b = 0; !status && b < lipsc_zoo_count; b++) {
            const lipsc_zoo_rule *rule = &lipsc_zoo_rules[b];
            lipsc_zoo_row row;
            const int lower = rule->kind == LIPSC_KIND_LOWER;
            if (rule->kind == LIPSC_KIND_LIMIT ||
                (lower && rule->domain != LIPSC_DOMAIN_INPUT))
                continue;
            status = lipsc_zoo_evaluate(&z, rule, &row);
            if (status || *row.refused) continue;
            const double exact = constant_in(row.norm, &o, sigma, p, dice);
            /* a bound of a layer that does nothing may be zero itself */
            const double log_ratio = exact > 0.0 && !isnan(row.log_value)
                                         ? log(exact) - row.log_value
                                         : -INFINITY;
            const double ratio = exp(lower ? -log_ratio : log_ratio);
            records[b].largest = fmax(records[b].largest, ratio);
            if (c->layer.heads > 1) records[b].heads = fmax(records[b].heads, ratio);
            records[b].inputs++;
        }
        lipsc_zoo_case_free(&z);
    }
    lipsc_release(J);
    return status;
}

/* ---- The lines ----------------------------------------------------------------------- */

/* "Castin, Ablin, Peyre 2024, Theorem 3.3; maths 3.1" -> "3.1" */
static const char *section_of(const lipsc_zoo_rule *rule, char room[16]) {
    const char *at = strstr(rule->source, "maths ");
    const size_t length = at ? strcspn(at + 6, ",;") : 0;
    snprintf(room, 16, "%.*s", (int)length, at ? at + 6 : "");
    return room;
}

static void add_lines(repro *r, const record *records, const double turned[2]) {
    double heads = 0.0;
    for (size_t b = 0; b < lipsc_zoo_count; b++) {
        const lipsc_zoo_rule *rule = &lipsc_zoo_rules[b];
        const int lower = rule->kind == LIPSC_KIND_LOWER;
        char section[16], claim[160], paper[80];
        if (!records[b].inputs) continue;
        const lipsc_bound_norm norm = rule->norm;
        snprintf(claim, sizeof claim, "%s %s %s",
                 norm == LIPSC_NORM_OF_SIGMA ? "sigma" : lipsc_bound_norm_name(norm),
                 lower ? ">=" : "<=", rule->formula);
        const char *theorem = strstr(rule->source, "Theorem");
        snprintf(paper, sizeof paper, "%.*s",
                 theorem ? (int)strcspn(theorem, ";") : (int)sizeof paper - 1,
                 theorem                         ? theorem
                 : strstr(rule->source, "Yudin") ? "Yudin et al. 2025"
                                                 : "proved here");
        repro_judge(r,
                    &(repro_line){.name = rule->name,
                                  .section = section_of(rule, section),
                                  .claim = claim,
                                  .paper = paper,
                                  .relation = REPRO_AT_MOST,
                                  .promised = 1.0,
                                  .tolerance = 1e-11}, /* rounding of LAPACK's norm */
                    records[b].largest, "largest %s %.4f on %zu inputs",
                    lower ? "bound / exact" : "exact / bound", records[b].largest,
                    records[b].inputs);
        if (!lower) heads = fmax(heads, records[b].heads);
    }
    repro_judge(r,
                &(repro_line){.name = "heads",
                              .section = "3.10",
                              .claim = "bounds of several heads combine",
                              .paper = "min(sum, |O| root of squares)",
                              .relation = REPRO_AT_MOST,
                              .promised = 1.0,
                              .tolerance = 1e-11},
                heads, "largest exact / bound %.4f", heads);
    repro_judge(r,
                &(repro_line){.name = "rotary",
                              .section = "3.13",
                              .claim = "rotary positions, query and key norms",
                              .paper = "proved here",
                              .relation = REPRO_AT_MOST,
                              .promised = 1.0,
                              .tolerance = 1e-11},
                turned[0], "largest exact / bound %.4f on %.0f inputs", turned[0],
                turned[1]);
}

void repro_bounds(repro *r) {
    const size_t trials = r->set->quick ? 160 : 4000;
    repro_dice dice = {r->set->seed + 3, 0};
    record *records = lipsc_alloc_zero(lipsc_zoo_count, sizeof *records);
    drawn *c = lipsc_alloc(1, sizeof *c);
    double turned[2] = {0, 0};
    if (!records || !c) repro_fail(r, LIPSC_E_NOMEM, NULL);
    for (size_t t = 0; t < trials && !repro_stopped(r); t++) {
        lipsc_attn *attn = NULL;
        lipsc_error err = {.text = ""};
        record before = {0};
        draw(&dice, t, c);
        lipsc_status status =
            lipsc_attn_new(&c->layer, &c->input, LIPSC_F64, 1, &attn, &err);
        const size_t data = (size_t)(lipsc_zoo_find("data-columns") - lipsc_zoo_rules);
        if (c->turned) { /* its share is told apart */
            before = records[data];
            records[data].largest = 0.0;
        }
        if (!status) status = try_rules(c, attn, &dice, records);
        if (c->turned) {
            turned[0] = fmax(turned[0], records[data].largest);
            turned[1] += 1.0;
            records[data].largest = fmax(records[data].largest, before.largest);
        }
        lipsc_attn_free(attn);
        if (status) repro_fail(r, status, &err);
        cli_progress_say(&r->progress, "bounds: %zu of %zu inputs", t + 1, trials);
    }
    if (!r->status) add_lines(r, records, turned);
    lipsc_release(records);
    lipsc_release(c);
}
