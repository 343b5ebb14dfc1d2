/* adversarial.c - docs/maths.md 8: the authors' adversarial inputs, one token
 * against a crowd along an eigenvector, on whole attention modules of real models.
 *
 * The exact sigma stands beside what the released script returns.  With a query bias u and
 * -u are two inputs: both are measured. */
#include <math.h>
#include <omp.h>
#include <string.h>

#include "core/clock.h"
#include "core/extreme.h"
#include "core/error.h"
#include "core/mem.h"
#include "claims/claims.h"
#include "ranks/ranks.h"

enum { STEP = 5, MOST_LENGTHS = 20 }; /* n = 2, 7, ..., 97 */

typedef struct {
    const char *name;   /* of the experiment                                        */
    const char *spec;   /* MODEL                                                    */
    size_t layer, head; /* SIZE_MAX: the middle layer; heads count from 0           */
    double R;
    lipsc_map_kind map;
    int rows;     /* the direction as the script takes it: rows of the stored
                   * (in, out) weights in place of columns                    */
    double drawn; /* the paper draws drawn sqrt(n) for its model ...          */
    const char *drawn_for;
    int same; /* ... which this is: 1 with this very direction, 2 another; 0 it is not */
} figure;

/* ---- The direction ------------------------------------------------------------------- */

/* Q and K whose head `head` has A = Wk[rows]^T Wq[rows] / sqrt(k), Wq the stored (d, d)
 * matrix, rows those of the head: the slice that the released code takes. */
static lipsc_status slice_rows(const lipsc_layer *layer, size_t head, double *Q, double *K,
                               lipsc_layer *out) {
    const size_t d = layer->d, k = layer->key_dim;
    if (layer->heads * k != d) return LIPSC_E_ARG;
    for (size_t r = 0; r < k; r++)
        for (size_t j = 0; j < d; j++) {
            Q[r * d + j] = layer->Q[j * d + head * k + r];
            K[r * d + j] = layer->K[j * d + head * k + r];
        }
    lipsc_layer raw;
    lipsc_layer_defaults(&raw);
    raw.d = d;
    raw.key_dim = raw.value_dim = k;
    raw.Q = Q;
    raw.K = K;
    raw.V = layer->V;
    return lipsc_layer_check(&raw, out, NULL);
}

/* x (2, d): the outlier and the crowd, as the eigenvector rule places them. */
static lipsc_status place(const figure *f, const lipsc_layer *layer, size_t head, int sign,
                          double *x, lipsc_error *err) {
    const size_t d = layer->d;
    lipsc_head_facts facts;
    lipsc_worst worst;
    lipsc_layer used = *layer;
    double *Q = NULL;
    lipsc_status status = LIPSC_OK;
    memset(&facts, 0, sizeof facts);
    if (f->rows) {
        Q = lipsc_alloc(2 * layer->key_dim * d, sizeof *Q);
        status =
            Q ? slice_rows(layer, head, Q, Q + layer->key_dim * d, &used) : LIPSC_E_NOMEM;
    }
    if (!status) status = lipsc_head_facts_make(&used, f->rows ? 0 : head, &facts);
    if (!status)
        status = lipsc_construct_eigenvector(&facts, f->R, 2, sign, 0, &worst, err);
    if (!status) {
        memcpy(x, worst.X, 2 * d * sizeof *x);
        lipsc_worst_free(&worst);
    }
    lipsc_head_facts_free(&facts);
    lipsc_release(Q);
    return status;
}

/* (K y) . scale (Q x + bq) for rows of one head. */
static double score(const lipsc_layer *layer, size_t h, const double *x, const double *y) {
    const size_t d = layer->d, k = layer->key_dim;
    const size_t g = h * layer->kv_heads / layer->heads;
    double sum = 0.0;
    for (size_t l = 0; l < k; l++) {
        const double *Q = layer->Q + (h * k + l) * d, *K = layer->K + (g * k + l) * d;
        double q = layer->bq ? layer->bq[h * k + l] : 0.0, key = 0.0;
        for (size_t c = 0; c < d; c++) {
            q += Q[c] * x[c];
            key += K[c] * y[c];
        }
        sum += q * key;
    }
    return layer->scale * sum;
}

/* By how much the crowd prefers the outlier in the head that prefers it most: that carries
 * growth like sqrt(n) up to n = e^Delta (5.1). */
static double preference(const lipsc_layer *layer, const double *x) {
    const double *outlier = x, *crowd = x + layer->d;
    double delta = -INFINITY;
    for (size_t h = 0; h < layer->heads; h++)
        claims_raise(&delta,
                     score(layer, h, crowd, outlier) - score(layer, h, crowd, crowd));
    return delta;
}

/* ---- One value ----------------------------------------------------------------------- */

/* A direction of a figure, ready to be measured at any length. */
typedef struct {
    char named[96]; /* the experiment, with the sign of u */
    const figure *figure;
    const lipsc_model_info *info;
    const lipsc_layer *layer;
    lipsc_packed *packed; /* of layer                        */
    size_t at, head;
    double *x;    /* (2, d): outlier and crowd               */
    double delta; /* by how much the crowd prefers the outlier */
    size_t step, count;
    double left;            /* work of the lengths that are not done, in some unit      */
    double seconds, priced; /* of those that are done, and the work that was           */
} sheet;

static size_t length_of(const sheet *s, size_t i) { return 2 + i * s->step; }

static double work_of(const sheet *s, size_t n) {
    return (double)n * (double)(n + s->layer->d);
}

static void key_of(const sheet *s, size_t n, char key[160]) {
    snprintf(key, 160, "%s: n=%zu", s->named, n);
}

static json_t *make_row(const sheet *s, size_t n, const double value[3],
                        const lipsc_svd_info *how) {
    double first = 0.0, others = 0.0;
    for (size_t c = 0; c < s->layer->d; c++) {
        first += s->x[c] * s->x[c];
        others += s->x[s->layer->d + c] * s->x[s->layer->d + c];
    }
    json_t *row = json_object();
    json_object_set_new(row, "experiment", json_string(s->named));
    json_object_set_new(row, "model", lipsc_json_text(s->figure->spec));
    json_object_set_new(row, "architecture", json_string(s->info->architecture));
    json_object_set_new(row, "layer", json_integer((json_int_t)s->at));
    json_object_set_new(row, "head", json_null());
    json_object_set_new(row, "direction_head", json_integer((json_int_t)s->head));
    json_object_set_new(
        row, "map",
        json_string(lipsc_map_name(s->layer->O ? LIPSC_MAP_ATTENTION : LIPSC_MAP_HEADS)));
    json_object_set_new(row, "mask", json_string(lipsc_mask_name(s->layer->mask)));
    json_object_set_new(row, "n", json_integer((json_int_t)n));
    json_object_set_new(row, "window", json_integer(0));
    json_object_set_new(row, "sigma", lipsc_json_real(value[0]));
    json_object_set_new(row, "lower", lipsc_json_real(how->lower));
    json_object_set_new(row, "released", lipsc_json_real(value[1]));
    json_object_set_new(row, "upper", lipsc_json_real(value[2]));
    json_object_set_new(row, "residual", lipsc_json_real(how->residual));
    json_object_set_new(row, "products", json_integer(how->products));
    json_object_set_new(row, "converged", json_boolean(how->converged));
    json_object_set_new(row, "dtype", json_string("f64"));
    json_object_set_new(
        row, "radius_rms",
        lipsc_json_real(sqrt((first + (double)(n - 1) * others) / (double)n)));
    json_object_set_new(row, "radius_max", lipsc_json_real(sqrt(lipsc_max(first, others))));
    return row;
}

/* value: sigma, as released, and with prove the proved bound, which takes longer than both.
 */
static lipsc_status measure_at(const claims_work *r, const sheet *s, size_t n, int prove,
                               double value[3], lipsc_svd_info *how, lipsc_error *err) {
    const size_t d = s->layer->d;
    lipsc_svd_settings set;
    lipsc_attn *attn = NULL;
    lipsc_upper upper;
    double *X = lipsc_alloc(n * d, sizeof *X);
    if (!X) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < n; i++) memcpy(X + i * d, i ? s->x + d : s->x, d * sizeof *X);
    const lipsc_input input = {.n = n, .X = X};
    lipsc_svd_defaults(&set);
    set.seed = r->set->seed;
    set.stop = r->set->stop;
    set.ctx = r->set->ctx;
    lipsc_status status =
        lipsc_attn_at(s->packed, NULL, &input, LIPSC_F64, lipsc_cpu_of(1), &attn, err);
    if (!status) status = lipsc_attn_sigma(attn, &set, &value[0], NULL, NULL, how);
    if (status == LIPSC_E_NOCONV) status = LIPSC_OK; /* how->converged says so */
    if (!status) status = lipsc_attn_released(attn, &value[1]);
    if (!status && prove && !lipsc_attn_upper(attn, &upper, NULL)) value[2] = upper.value;
    lipsc_attn_free(attn);
    lipsc_release(X);
    return status;
}

/* How far it is; how long a length takes is known from those without a proof.  What other
 * ranks have done is not known: pieces tell it. */
static void tell(claims_work *r, sheet *s, size_t n, int proved, double seconds) {
    s->left -= work_of(s, n);
    if (!proved) {
        s->seconds += seconds;
        s->priced += work_of(s, n);
    }
    if (s->priced > 0.0 && lipsc_ranks_count(r->set->ranks) < 2)
        claims_doing(r, "%s, n = %zu  about %.0f s left", s->named, n,
                     s->seconds / s->priced * lipsc_max(0.0, s->left) / r->threads);
    else
        claims_doing(r, "%s, n = %zu", s->named, n);
}

/* NULL: something went wrong, which r knows. */
static json_t *compute_length(claims_work *r, sheet *s, size_t i) {
    double value[3] = {NAN, NAN, NAN};
    const size_t n = length_of(s, i);
    lipsc_svd_info how;
    lipsc_error err = {.text = ""};
    json_t *row = NULL;
    char key[160];
    int stopped;
#pragma omp critical(claims_run)
    stopped = claims_stopped(r);
    if (stopped) return NULL;
    const int prove = i + 1 == s->count;
    const double begin = lipsc_seconds();
    const lipsc_status status = measure_at(r, s, n, prove, value, &how, &err);
    const double seconds = lipsc_seconds() - begin;
    key_of(s, n, key);
#pragma omp critical(claims_run)
    {
        if (status) {
            claims_fail(r, status, &err);
        } else {
            row = make_row(s, n, value, &how);
            claims_store(r, key, json_incref(row));
            tell(r, s, n, prove, seconds);
        }
    }
    return row;
}

typedef struct {
    sheet *s;
    uint64_t known[MOST_LENGTHS]; /* to rank 0, which says so                    */
    uint64_t together;            /* lengths of a piece: as many as rank 0 has threads */
} lengths;

/* Products of so few tokens are too small for several threads: each has a length. */
static void compute_some(claims_work *r, void *ctx, size_t piece) {
    const lengths *l = ctx;
    const size_t first = piece * (size_t)l->together;
    const size_t left = l->s->count - first;
    const size_t count = left < l->together ? left : (size_t)l->together;
#pragma omp parallel num_threads(r->threads)
    {
        omp_set_num_threads(1); /* of regions inside */
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < count; i++) { /* the longest first */
            const size_t k = l->s->count - 1 - first - i;
            if (!l->known[k]) json_decref(compute_length(r, l->s, k));
        }
    }
}

/* Rank 0 knows which are there, and tells. */
static void compute_lengths(claims_work *r, sheet *s) {
    lengths l = {.s = s, .together = (uint64_t)r->threads};
    char key[160];
    lipsc_error err;
    for (size_t i = 0; r->run && i < s->count; i++) {
        key_of(s, length_of(s, i), key);
        json_t *row = claims_get(r, key);
        l.known[i] = row != NULL;
        if (!row) s->left += work_of(s, length_of(s, i));
        json_decref(row);
    }
    if (!claims_together(r)) return;
    if (lipsc_ranks_count(r->set->ranks) > 1 &&
        lipsc_ranks_tell(r->set->ranks, sizeof l.known + sizeof l.together, l.known))
        claims_fail(r, lipsc_fail(&err, LIPSC_E_IO, "another rank is out of reach"), &err);
    claims_deal(r, (s->count + l.together - 1) / l.together, NULL, compute_some, &l);
}

/* ---- One figure ---------------------------------------------------------------------- */

typedef struct {
    double ln_n[MOST_LENGTHS], ln[2][MOST_LENGTHS]; /* sigma, released */
    size_t count;
} points;

static void law_of(const points *p, int which, double *exponent, double *root) {
    double mx = 0, my = 0, xx = 0, xy = 0, sum = 0;
    const double count = (double)p->count;
    for (size_t i = 0; i < p->count; i++) {
        mx += p->ln_n[i] / count;
        my += p->ln[which][i] / count;
        sum += (p->ln[which][i] - 0.5 * p->ln_n[i]) / count;
    }
    for (size_t i = 0; i < p->count; i++) {
        xx += (p->ln_n[i] - mx) * (p->ln_n[i] - mx);
        xy += (p->ln_n[i] - mx) * (p->ln[which][i] - my);
    }
    *exponent = xy / xx;
    *root = exp(sum); /* of root sqrt(n) */
}

static const char *meaning(const double exponent[2]) {
    const int defined = fabs(exponent[0] - 0.5) <= 0.1,
              released = fabs(exponent[1] - 0.5) <= 0.1;
    if (defined && released) return "Both follow sqrt(n), with different constants.";
    if (released)
        return "The released value follows sqrt(n) because f(X) is nearly the same in "
               "every row; "
               "the constant itself follows another law.";
    return "Neither follows sqrt(n) with this model and this direction.";
}

/* 5.1: growth like sqrt(n) is claimed as long as n <= e^Delta. */
static const char *unmet(const sheet *s, char room[120]) {
    const size_t longest = length_of(s, s->count - 1);
    if (!(log((double)longest) <= s->delta)) {
        snprintf(room, 120, "n = %zu is above e^Delta, Delta = %.3g: no growth is claimed",
                 longest, s->delta);
        return room;
    }
    return s->figure->same ? NULL : "not the paper's model";
}

/* as_drawn: 1 the very input of the figure, -1 its other sign, 0 another direction. */
static void figure_line(claims_work *r, const sheet *s, const char *id, const char *origin,
                        double exponent, double root, int as_drawn, const char *says) {
    const figure *f = s->figure;
    claims_line line = claims_line_of(id);
    char statement[160], room[120];
    snprintf(line.name, sizeof line.name, "%s: %s", id, s->named);
    snprintf(statement, sizeof statement, "%s: %s", s->named, line.claim->statement);
    line.statement = statement;
    line.origin = origin;
    line.unmet = unmet(s, room);
    line.says = says;
    if (!line.unmet && as_drawn < 0)
        line.unmet = "which sign was drawn is not known, and the other comes nearer";
    if (as_drawn) {
        line.promised = f->drawn;
        line.tolerance = 0.05 * f->drawn;
    }
    claims_judge(r, &line, as_drawn ? root : exponent, "%.3g sqrt(n); exponent %.2f", root,
                 exponent);
}

/* other: the points of the other sign, or NULL. */
static void figure_lines(claims_work *r, const sheet *s, const points *p,
                         const points *other) {
    const figure *f = s->figure;
    double exponent[2], root[2], unused, across = INFINITY;
    char origin[80], says[900];
    for (int which = 0; which < 2; which++)
        law_of(p, which, &exponent[which], &root[which]);
    if (other) law_of(other, 1, &unused, &across);
    if (f->same)
        snprintf(origin, sizeof origin, "%.3g sqrt(n) drawn (%s)", f->drawn, f->drawn_for);
    else
        snprintf(origin, sizeof origin, "sqrt(n) on adversarial inputs");
    snprintf(says, sizeof says,
             "%s (%s): one token against n - 1 equal ones along an eigenvector u, R = %g, "
             "n = 2 ... %zu. As released |J^T f|^(1/2) = %.3g sqrt(n), exponent %.2f; the "
             "paper: %s. As "
             "defined sigma goes from %.4g to %.4g, exponent %.2f. %s",
             s->named, f->spec, f->R, length_of(s, s->count - 1), root[1], exponent[1],
             origin, exp(p->ln[0][0]), exp(p->ln[0][p->count - 1]), exponent[0],
             meaning(exponent));
    const int nearer = !(fabs(across - f->drawn) < fabs(root[1] - f->drawn));
    figure_line(r, s, "adversarial-released", origin, exponent[1], root[1],
                f->same != 1 ? 0
                : nearer     ? 1
                             : -1,
                says);
    figure_line(r, s, "adversarial-defined", origin, exponent[0], root[0], 0, NULL);
}

/* p stays empty where rank 0 has the rows. */
static void draw_lengths(claims_work *r, sheet *s, points *p) {
    compute_lengths(r, s);
    for (size_t i = 0; i < s->count && !r->status && r->run; i++) {
        char key[160];
        key_of(s, length_of(s, i), key);
        json_t *row = claims_get(r, key);
        if (row) {
            r->out->loose += !json_is_true(json_object_get(row, "converged"));
            p->ln_n[p->count] = log((double)length_of(s, i));
            p->ln[0][p->count] = log(json_number_value(json_object_get(row, "sigma")));
            p->ln[1][p->count] = log(json_number_value(json_object_get(row, "released")));
            p->count++;
        }
        json_decref(row);
    }
}

/* sign 0: u and -u are the same input.  p stays empty where there is no such input. */
static void draw_sign(claims_work *r, sheet *s, int sign, points *p) {
    const figure *f = s->figure;
    lipsc_error err = {.text = ""};
    s->x = lipsc_alloc(2 * s->layer->d, sizeof *s->x);
    const lipsc_status status =
        s->x ? place(f, s->layer, s->head, sign, s->x, &err) : LIPSC_E_NOMEM;
    snprintf(s->named, sizeof s->named, "%s%s", f->name,
             sign == 0  ? ""
             : sign > 0 ? ", u"
                        : ", -u");
    if (status == LIPSC_E_REFUSED) {
        claims_line line = claims_line_of("adversarial-defined");
        snprintf(line.name, sizeof line.name, "adversarial-defined: %s", s->named);
        line.statement = s->named;
        line.origin = f->drawn_for;
        claims_leave(r, &line, "%s", err.text);
    } else if (status) {
        claims_fail(r, status, &err);
    } else {
        s->delta = preference(s->layer, s->x);
        draw_lengths(r, s, p);
    }
}

/* With a query bias u and -u are two inputs. */
static void draw_signs(claims_work *r, const sheet *s) {
    const lipsc_layer *layer = s->layer;
    sheet sides[2] = {*s, *s};
    points p[2] = {{.count = 0}, {.count = 0}};
    double bias = 0.0;
    for (size_t e = 0; layer->bq && e < layer->heads * layer->key_dim; e++)
        bias = lipsc_max(bias, fabs(layer->bq[e]));
    draw_sign(r, &sides[0], bias > 0.0 ? 1 : 0, &p[0]);
    if (bias > 0.0) draw_sign(r, &sides[1], -1, &p[1]);
    for (int i = 0; i < 2 && !r->status; i++)
        if (p[i].count)
            figure_lines(r, &sides[i], &p[i], p[1 - i].count ? &p[1 - i] : NULL);
    lipsc_release(sides[0].x);
    lipsc_release(sides[1].x);
}

static void draw_figure(claims_work *r, const figure *f) {
    lipsc_model *model = NULL;
    lipsc_layer raw, layer;
    sheet s = {.figure = f, .layer = &layer, .step = r->set->quick ? 3 * STEP : STEP};
    lipsc_error err = {.text = ""};
    if (claims_stopped(r)) return;
    s.count = r->set->quick ? 3 : MOST_LENGTHS;
    lipsc_status status = claims_model_open(r, f->spec, &model, &err);
    if (!status) {
        s.info = lipsc_model_describe(model);
        s.at = f->layer < s.info->layers ? f->layer : s.info->layers / 2;
        s.head = f->head < s.info->heads ? f->head : s.info->heads - 1;
        status = lipsc_model_layer(model, s.at, -1, f->map, NULL, &raw, &err);
    }
    if (!status) status = lipsc_layer_check(&raw, &layer, &err);
    if (!status) status = lipsc_packed_new(&layer, 0, &s.packed, &err);
    if (!status) draw_signs(r, &s);
    if (status) claims_fail(r, status, &err);
    lipsc_packed_free(s.packed);
    claims_model_close(r, model);
}

/* The random GPT-2 of the paper's size takes too long for the quick form. */
static void leave_figure(claims_work *r, const figure *f) {
    claims_line line = claims_line_of("adversarial-defined");
    snprintf(line.name, sizeof line.name, "adversarial-defined: %s", f->name);
    line.statement = f->name;
    line.origin = f->drawn_for;
    claims_leave(r, &line, "the quick form leaves it out");
}

void claims_adversarial(claims_work *r) {
    const char *gpt2 = r->set->gpt2 ? r->set->gpt2 : r->decoder;
    const char *bert = claims_encoder(r);
    const int real_gpt2 = claims_is_published(r, gpt2, "gpt2");
    const int real_bert = r->set->bert && claims_is_published(r, bert, "bert");
    const figure figures[] = {
        {"adversarial decoder, released slice", gpt2, 0, 0, 10.0, LIPSC_MAP_ATTENTION, 1,
         46.9, "GPT-2", real_gpt2},
        {"adversarial decoder, head 0", gpt2, 0, 0, 10.0, LIPSC_MAP_ATTENTION, 0, 46.9,
         "GPT-2", 2 * real_gpt2},
        {"adversarial random GPT-2", "random:gpt2", 6, 0, 100.0, LIPSC_MAP_ATTENTION, 1,
         0.92, "random GPT-2", 2},
        {"adversarial encoder, layer 0", bert, 0, 0, 15.5, LIPSC_MAP_HEADS, 0, 4.39, "BERT",
         real_bert},
        {"adversarial encoder, middle", bert, SIZE_MAX, 7, 21.5, LIPSC_MAP_HEADS, 0, 5.73,
         "BERT", real_bert},
    };
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (r->set->quick && !strcmp(figures[i].spec, "random:gpt2"))
            leave_figure(r, &figures[i]);
        else
            draw_figure(r, &figures[i]);
    if (!real_gpt2) claims_pass(r, "adversarial-gpt2", "give a pretrained GPT-2");
    if (!real_bert) claims_pass(r, "adversarial-bert", "give bert-base");
}
