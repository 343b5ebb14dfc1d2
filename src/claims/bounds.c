/* bounds.c - docs/maths.md 3: every upper bound against the exact value on a
 * batch of random layers, the worst cases of section 5 among the inputs. */
#include <math.h>
#include <string.h>

#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"
#include "claims/claims.h"

enum { TOKENS = 20, WIDTH = 4, HEADS = 3, MATRIX = HEADS * WIDTH * WIDTH };

typedef struct {
    lipsc_layer layer;
    lipsc_input input;
    double R;
    int turned;
    double Q[MATRIX], K[MATRIX], V[MATRIX], O[MATRIX], bias[HEADS * WIDTH];
    double X[TOKENS * WIDTH], weights[TOKENS], times[TOKENS], freq[WIDTH], gain[WIDTH];
} drawn;

/* What each rule met, and two shares of it. */
typedef struct {
    claims_record *rule;  /* (lipsc_zoo_count)                     */
    claims_record heads;  /* upper bounds of several heads         */
    claims_record turned; /* data-columns with rotary positions   */
} met;

/* ---- Inputs -------------------------------------------------------------------------- */

static void draw_heads(claims_dice *dice, drawn *c) {
    lipsc_layer *l = &c->layer;
    const size_t d = l->d;
    l->heads = claims_among(dice, 1, HEADS);
    l->kv_heads = l->heads == 2 && claims_among(dice, 0, 1) ? 1 : l->heads;
    l->key_dim = 2 * claims_among(dice, 1, WIDTH / 2);
    l->value_dim = claims_among(dice, 1, WIDTH);
    claims_normal(dice, l->heads * l->key_dim * d, 1.0 / sqrt((double)d), c->Q);
    claims_normal(dice, l->kv_heads * l->key_dim * d, 1.0, c->K);
    l->K = c->K;
    if (claims_among(dice, 0, 1)) {
        claims_normal(dice, l->heads * l->key_dim, 0.5, c->bias);
        l->bq = c->bias;
    }
    if (claims_among(dice, 0, 1)) {
        l->out_dim = claims_among(dice, 1, WIDTH);
        claims_normal(dice, l->out_dim * l->heads * l->value_dim, 1.0, c->O);
        l->O = c->O;
    }
    c->turned = claims_among(dice, 0, 2) == 0; /* rotary positions, query/key norms */
    if (c->turned) {
        l->rotary_dim = l->key_dim;
        for (size_t i = 0; i < WIDTH; i++) {
            c->freq[i] = pow(10.0, -(double)i);
            c->gain[i] = 0.5 + claims_uniform(dice);
        }
        l->rotary_freq = c->freq;
        if (claims_among(dice, 0, 1)) {
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

static void draw(claims_dice *dice, size_t trial, drawn *c) {
    memset(c, 0, sizeof *c);
    lipsc_layer *l = &c->layer;
    lipsc_layer_defaults(l);
    const size_t kind = trial % 8, n = claims_among(dice, 1, TOKENS);
    l->d = claims_among(dice, 1, n > 12 ? 2 : WIDTH);
    c->R = 0.2 * pow(15.0, claims_uniform(dice)); /* 0.2 ... 3 */
    l->Q = c->Q;
    l->V = c->V;
    if (kind < 5) {
        claims_score_matrix(dice, kind, l->d, c->Q);
        l->key_dim = l->value_dim = l->d;
    } else {
        draw_heads(dice, c);
    }
    claims_normal(dice, MATRIX, 1.0, c->V);
    if (kind < 5 && trial % 2)
        for (size_t e = 0; e < l->d * l->d; e++) c->V[e] = e / l->d == e % l->d;
    c->input = (lipsc_input){.n = n, .X = c->X};
    claims_tokens(dice, n, l->d, c->R, trial % 3 == 0, c->X);
    if (kind == 1 && trial % 16 < 8) crowd(c, 1 + trial % 2);
    l->mask = (lipsc_mask)claims_among(dice, 0, 3);
    l->window = claims_among(dice, 1, n);
    for (size_t i = 0; i < n; i++) {
        c->times[i] = (double)claims_among(dice, 0, n) / (double)n;
        c->weights[i] = exp(4.0 * claims_uniform(dice) - 2.0);
    }
    if (l->mask == LIPSC_MASK_TIMES) c->input.times = c->times;
    if (claims_among(dice, 0, 2) == 0 && n > 1) c->input.weights = c->weights;
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
        largest = lipsc_max(largest, sqrt(square));
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
static double reached_in(const jacobian *o, double p, claims_dice *dice) {
    double h[TOKENS * WIDTH], y[TOKENS * HEADS * WIDTH], best = 0.0;
    for (size_t trial = 0; trial < o->n + 4; trial++) {
        claims_normal(dice, o->n * o->d, 1.0, h);
        for (size_t e = 0; trial < o->n && e < o->n * o->d; e++)
            if (e / o->d != trial) h[e] = 0.0;
        for (size_t i = 0; isinf(p) && i < o->n; i++) { /* all tokens equally far */
            double square = 0.0;
            for (size_t c = 0; c < o->d; c++) square += h[i * o->d + c] * h[i * o->d + c];
            for (size_t c = 0; square > 0.0 && c < o->d; c++)
                h[i * o->d + c] /= sqrt(square);
        }
        multiply(o, h, y);
        claims_raise(&best, size_of(o, o->width, y, p) / size_of(o, o->d, h, p));
    }
    return best;
}

/* ---- One input ----------------------------------------------------------------------- */

static double constant_in(lipsc_bound_norm norm, const jacobian *o, double sigma, double p,
                          claims_dice *dice) {
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

static void try_rule(const drawn *c, const lipsc_zoo_case *z, const jacobian *o,
                     double sigma, claims_dice *dice, const lipsc_zoo_row *row, met *all) {
    const lipsc_zoo_rule *rule = row->rule;
    const double exact = *row->refused ? NAN : constant_in(row->norm, o, sigma, z->p, dice);
    claims_record_add(&all->rule[rule - lipsc_zoo_rules], z, row, exact);
    if (c->layer.heads > 1 && rule->kind == LIPSC_KIND_UPPER && !*row->refused)
        claims_record_add(&all->heads, z, row, exact);
    if (c->turned && !strcmp(rule->name, "data-columns"))
        claims_record_add(&all->turned, z, row, exact);
}

/* Claims about this input: upper bounds, and lower bounds at the input itself. */
static int speaks_of_input(const lipsc_zoo_rule *rule) {
    return rule->kind == LIPSC_KIND_UPPER ||
           (rule->kind == LIPSC_KIND_LOWER && rule->domain == LIPSC_DOMAIN_INPUT);
}

static lipsc_status try_rules(const drawn *c, lipsc_attn *attn, claims_dice *dice,
                              met *all) {
    const double p = 3.0;
    lipsc_zoo_case z;
    double *J = claims_jacobian(attn), sigma = NAN, total = 0.0;
    jacobian o = {c->input.n, c->layer.d, lipsc_layer_width(&attn->layer), J, {0}};
    for (size_t i = 0; i < o.n; i++)
        total += o.a[i] = c->input.weights ? c->input.weights[i] : 1.0;
    for (size_t i = 0; i < o.n; i++) o.a[i] /= total;
    lipsc_status status =
        J ? lipsc_dense_norm(o.n * o.width, o.n * o.d, J, &sigma) : LIPSC_E_NOMEM;
    if (!status) {
        status = lipsc_zoo_case_make(attn, c->R * (1.0 + 1e-12), p, NULL, &z, NULL);
        for (size_t b = 0; !status && b < lipsc_zoo_count; b++) {
            lipsc_zoo_row row;
            if (!speaks_of_input(&lipsc_zoo_rules[b])) continue;
            status = lipsc_zoo_evaluate(&z, &lipsc_zoo_rules[b], &row);
            if (!status) try_rule(c, &z, &o, sigma, dice, &row, all);
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

/* A bound of the paper has a claim of its own in the table. */
static void rule_line(claims_work *r, const lipsc_zoo_rule *rule,
                      const claims_record *record) {
    char section[16], statement[160];
    const int own = claims_find(rule->name) != NULL;
    claims_line line = claims_line_of(own ? rule->name : "bound");
    if (!own) {
        snprintf(line.name, sizeof line.name, "%s", rule->name);
        snprintf(statement, sizeof statement, "%s %s %s",
                 rule->norm == LIPSC_NORM_OF_SIGMA ? "sigma"
                                                   : lipsc_bound_norm_name(rule->norm),
                 rule->kind == LIPSC_KIND_LOWER ? ">=" : "<=", rule->formula);
        line.section = section_of(rule, section);
        line.statement = statement;
        line.origin =
            strstr(rule->source, "Yudin")
                ? "with Yudin et al. 2025's form of the softmax, seen in code only"
                : rule->source;
    }
    claims_record_say(r, &line, record);
}

static void add_lines(claims_work *r, const met *all) {
    for (size_t b = 0; b < lipsc_zoo_count; b++)
        if (speaks_of_input(&lipsc_zoo_rules[b]) &&
            lipsc_zoo_rules[b].refuse != lipsc_normed_refuse) /* lemmas.c has norms */
            rule_line(r, &lipsc_zoo_rules[b], &all->rule[b]);
    claims_pass(r, "paper-masked",
                "its constant was not seen; what is proved here are masked-uniform and "
                "masked-dp");
    const claims_line heads = claims_line_of("heads"), rotary = claims_line_of("rotary");
    claims_record_say(r, &heads, &all->heads);
    claims_record_say(r, &rotary, &all->turned);
}

void claims_bounds(claims_work *r) {
    const size_t trials = r->set->quick ? 160 : 4000;
    claims_dice dice = {r->set->seed + 3, 0};
    met all = {.rule = lipsc_alloc_zero(lipsc_zoo_count, sizeof *all.rule)};
    drawn *c = lipsc_alloc(1, sizeof *c);
    if (!all.rule || !c) claims_fail(r, LIPSC_E_NOMEM, NULL);
    for (size_t t = 0; claims_going(r, t, trials); t++) {
        lipsc_attn *attn = NULL;
        lipsc_error err = {.text = ""};
        draw(&dice, t, c);
        lipsc_status status =
            lipsc_attn_new(&c->layer, &c->input, LIPSC_F64, NULL, &attn, &err);
        if (!status) status = try_rules(c, attn, &dice, &all);
        lipsc_attn_free(attn);
        if (status) claims_fail(r, status, &err);
    }
    if (!r->status) add_lines(r, &all);
    lipsc_release(all.rule);
    lipsc_release(c);
}
