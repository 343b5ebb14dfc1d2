/* growth.c - docs/maths.md 8: sigma on real text against the length, as defined
 * and as released, for encoder and decoder, pretrained and random.
 *
 * A curve is one sweep of `measure`, whose cells go into the run file under the name of the
 * experiment. */
#include <math.h>
#include <string.h>

#include "core/median.h"
#include "core/mem.h"
#include "io/builtin.h"
#include "claims/law.h"

enum { MOST_LENGTHS = 64 };

/* ---- One sweep ----------------------------------------------------------------------- */

/* The paper's grids: 2, 4, ..., 98, and 2, 12, ..., 502 of a second text, where model and
 * text go as far with ten windows; `longest` is what they allow.  How many. */
static size_t fill_lengths(const claims_work *r, const claims_curve *c, size_t longest,
                           size_t lengths[MOST_LENGTHS]) {
    static const size_t quick[] = {8, 16, 32};
    const int longer = c->longer && longest > 98;
    const size_t last = !longer ? 98 : longest < 502 ? longest : 502;
    size_t count = 0;
    if (r->set->quick) {
        memcpy(lengths, quick, sizeof quick);
        return sizeof quick / sizeof *quick;
    }
    for (size_t n = 2; n <= last; n += longer ? 10 : 2) lengths[count++] = n;
    return count;
}

/* Tokens that ten windows of the text and the model's positions leave for one. */
static lipsc_status longest_window(const claims_work *r, const claims_curve *c,
                                   const lipsc_study_settings *set, size_t *longest,
                                   lipsc_error *err) {
    const lipsc_model_info *info = lipsc_model_describe(set->open);
    lipsc_source source;
    *longest = 0;
    if (r->set->quick || !c->longer) return LIPSC_OK;
    const lipsc_status status =
        lipsc_source_read(&set->source, c->spec, info, &source, err);
    if (status) return status;
    *longest = source.count / 10;
    if (info->positions && *longest > info->positions) *longest = info->positions;
    lipsc_source_free(&source);
    return LIPSC_OK;
}

/* One curve: its study, and what that points to. */
typedef struct {
    lipsc_study_settings set;
    size_t lengths[MOST_LENGTHS], layers[2];
    lipsc_study *study; /* NULL: it failed */
} curve;

static void fill_settings(claims_work *r, const claims_curve *c, curve *out) {
    static const lipsc_mask masks[] = {
        [CLAIMS_MASK_NONE] = LIPSC_MASK_NONE, [CLAIMS_MASK_CAUSAL] = LIPSC_MASK_CAUSAL};
    const size_t layers = lipsc_model_describe(out->set.open)->layers;
    const int both = c->first && layers > 1;
    lipsc_study_settings *set = &out->set;
    set->model = c->spec;
    set->source.text = r->texts.at[c->text];
    set->window_count = r->set->quick ? 2 : 10;
    out->layers[both] = layers / 2; /* behind layer 0 */
    set->layers = (lipsc_sizes){both ? 2 : 1, out->layers};
    set->map = c->map;
    if (c->mask != CLAIMS_MASK_MODEL) set->mask_override = &masks[c->mask];
    set->seed = r->set->seed;
    set->as_released = 1;
    set->run = r->run;
    set->experiment = c->name;
    set->device = r->set->device;
    set->ranks = r->set->ranks;
    set->stop = r->set->stop;
    set->progress = r->set->progress;
    set->remark = r->set->remark;
    set->ctx = r->set->ctx;
}

static lipsc_status run_study(claims_work *r, curve *out, lipsc_error *err) {
    lipsc_status status = lipsc_study_open(&out->set, &out->study, err);
    if (status) return status;
    if (r->set->sweep) r->set->sweep(r->set->ctx, out->study);
    status = lipsc_study_run(out->study, err);
    if (r->set->doing) r->set->doing(r->set->ctx, NULL);
    return status;
}

static void sweep(claims_work *r, const claims_curve *c, curve *out) {
    lipsc_error err = {.text = ""};
    size_t longest;
    lipsc_study_settings *set = &out->set;
    lipsc_study_defaults(set);
    lipsc_status status = claims_model_open(r, c->spec, &set->open, &err);
    if (!status) {
        fill_settings(r, c, out);
        status = longest_window(r, c, set, &longest, &err);
    }
    if (status) {
        claims_fail(r, status, &err);
        return;
    }
    set->lengths = (lipsc_sizes){fill_lengths(r, c, longest, out->lengths), out->lengths};
    status = run_study(r, out, &err);
    claims_agree(r, status, &err);
}

static void curve_free(claims_work *r, curve *c) {
    lipsc_study_close(c->study);
    claims_model_close(r, c->set.open);
}

/* ---- Laws ---------------------------------------------------------------------------- */

/* Of a row, by its name. */
static double number(const lipsc_row *row, const char *name) {
    json_t *value = lipsc_fields_get(lipsc_row_fields(), row, name);
    const double x = json_is_number(value) ? json_number_value(value) : NAN;
    json_decref(value);
    return x;
}

static const lipsc_fit no_fit = {
    .exponent = NAN, .coefficient = NAN, .low = NAN, .high = NAN, .lack_of_fit = NAN};

/* value ~ coefficient against^exponent, over the cells of a layer; NaN where too few. */
static lipsc_fit fit(claims_work *r, const claims_curve *c, const lipsc_study *study,
                     size_t layer, const char *value, const char *against) {
    lipsc_fit out = no_fit;
    const size_t cells = lipsc_study_count(study);
    lipsc_fit_point *points = lipsc_alloc(cells, sizeof *points);
    size_t count = 0;
    for (size_t i = 0; points && i < cells; i++) {
        const lipsc_cell cell = lipsc_study_cell(study, i);
        if (cell.layer != layer || !cell.row) continue;
        points[count++] = (lipsc_fit_point){.n = cell.n,
                                            .start = cell.start,
                                            .x = number(cell.row, against),
                                            .y = number(cell.row, value)};
    }
    if (!points || lipsc_fit_power(count, points, r->set->seed, &out, NULL, NULL))
        out = no_fit;
    lipsc_release(points);
    claims_fit_add(r, &(lipsc_claim_fit){.experiment = c->name,
                                         .model = c->spec,
                                         .map = lipsc_map_name(c->map),
                                         .layer = layer,
                                         .value = value,
                                         .against = against,
                                         .exponent = out.exponent,
                                         .exponent_low = out.low,
                                         .exponent_high = out.high,
                                         .coefficient = out.coefficient,
                                         .law = out.lengths ? out.law : -1,
                                         .lack_of_fit = out.lack_of_fit,
                                         .lengths = out.lengths,
                                         .starts = out.starts});
    return out;
}

/* Correlation of ln sigma with ln R over all cells of a layer, n >= 8. */
static double correlation(const lipsc_study *study, size_t layer) {
    double count = 0, sx = 0, sy = 0, xx = 0, yy = 0, xy = 0;
    for (size_t i = 0; i < lipsc_study_count(study); i++) {
        const lipsc_cell cell = lipsc_study_cell(study, i);
        if (cell.layer != layer || cell.n < 8) continue;
        const double x = log(cell.row->radius_rms), y = log(cell.row->sigma);
        count += 1.0;
        sx += x;
        sy += y;
        xx += x * x;
        yy += y * y;
        xy += x * y;
    }
    return (xy - sx * sy / count) / sqrt((xx - sx * sx / count) * (yy - sy * sy / count));
}

/* Returns the fit of sigma against n. */
static lipsc_fit layer_lines(claims_work *r, const claims_curve *c,
                             const lipsc_study *study, size_t layer, int place) {
    claims_laws laws = {.correlated = correlation(study, layer)};
    laws.defined = fit(r, c, study, layer, "sigma", "n");
    laws.released = fit(r, c, study, layer, "released", "n");
    laws.radius = fit(r, c, study, layer, "radius_rms", "n");
    fit(r, c, study, layer, "sigma", "radius_rms");
    claims_law_lines(r, c, layer, &c->drawn[place], &laws,
                     c->trained && c->map == LIPSC_MAP_ATTENTION &&
                         c->mask == CLAIMS_MASK_MODEL);
    return laws.defined;
}

/* Median over windows of sigma at the longest length. */
static double longest_median(const lipsc_study *study, size_t layer) {
    const size_t cells = lipsc_study_count(study);
    double values[64];
    size_t count = 0, n = 0;
    for (size_t i = 0; i < cells; i++)
        if (lipsc_study_cell(study, i).n > n) n = lipsc_study_cell(study, i).n;
    for (size_t i = 0; i < cells && count < 64; i++) {
        const lipsc_cell cell = lipsc_study_cell(study, i);
        if (cell.n == n && cell.layer == layer) values[count++] = cell.row->sigma;
    }
    return lipsc_median(count, values);
}

/* Of the middle layer. */
typedef struct {
    double median; /* sigma at the longest length */
    lipsc_fit fit; /* of sigma against n          */
} outcome;

static outcome draw_curve(claims_work *r, const claims_curve *c) {
    curve drawn = {.study = NULL};
    outcome out = {NAN, no_fit};
    if (claims_stopped(r)) return out;
    if (r->set->part) {
        char title[4400];
        snprintf(title, sizeof title, "%s (%s)", c->name, c->spec);
        r->set->part(r->set->ctx, title);
    }
    if (claims_together(r)) sweep(r, c, &drawn);
    if (!r->status && claims_leads(r)) { /* which has the rows */
        const lipsc_study *study = drawn.study;
        const size_t middle = lipsc_study_model(study)->layers / 2;
        for (size_t i = 0; i < lipsc_study_count(study); i++)
            r->out->loose += lipsc_study_cell(study, i).row->converged != 1;
        if (c->first && middle > 0) layer_lines(r, c, study, 0, 0);
        out.fit = layer_lines(r, c, study, middle, 1);
        out.median = longest_median(study, middle);
    }
    curve_free(r, &drawn);
    return out;
}

/* ---- All of them --------------------------------------------------------------------- */

/* ratio: what the built-in model and text give, causal over unmasked. */
static void mask_line(claims_work *r, const char *who, const char *origin, int built_in,
                      double ratio, double masked, double unmasked) {
    claims_line line = claims_line_of("mask");
    char statement[120];
    snprintf(line.name, sizeof line.name, "mask: %s", who);
    snprintf(statement, sizeof statement, "%s: %s", who, line.claim->statement);
    line.statement = statement;
    line.origin = origin;
    line.promised = ratio;
    if (!built_in || r->set->texts.count || r->set->seed != 1)
        line.unmet = "not the built-in model and text with seed 1";
    else if (r->set->quick)
        line.unmet = "the quick form has shorter windows";
    claims_judge(r, &line, masked / unmasked, "causal %.4g, unmasked %.4g at the longest n",
                 masked, unmasked);
}

static void leave_random_gpt2(claims_work *r) {
    claims_line line = claims_line_of("growth-defined");
    snprintf(line.name, sizeof line.name, "growth-defined: random GPT-2, layer 6");
    line.statement = "random GPT-2, layer 6";
    line.origin = "0.445 n^0.25 drawn (random GPT-2)";
    claims_leave(r, &line, "the quick form leaves it out");
}

/* Returns the law of the pretrained one. */
static lipsc_fit decoders(claims_work *r, size_t text, const char *suffix) {
    char names[4][64], random[4200];
    static const char *const kinds[] = {"decoder", "decoder random", "decoder unmasked",
                                        "random GPT-2"};
    for (size_t i = 0; i < 4; i++)
        snprintf(names[i], sizeof names[i], "%s%s", kinds[i], suffix);
    const int built_in = lipsc_is_builtin(r->decoder);
    if (built_in)
        snprintf(random, sizeof random, "random:gpt2:nano"); /* of the same shape */
    else
        snprintf(random, sizeof random, "random:%s", r->decoder);
    claims_curve c = {.name = names[0],
                      .spec = r->decoder,
                      .text = text,
                      .map = LIPSC_MAP_ATTENTION,
                      .first = 1,
                      .trained = 1,
                      .own = claims_is_published(r, r->decoder, "gpt2"),
                      .drawn_for = "GPT-2"};
    if (c.own) {
        c.drawn[0] = (claims_drawn){35.3, 0.26};
        c.drawn[1] = (claims_drawn){25.0, 0.51};
    }
    const outcome masked = draw_curve(r, &c);
    if (text == 0) {
        c.name = names[2];
        c.mask = CLAIMS_MASK_NONE;
        c.first = 0;
        c.drawn[1] = (claims_drawn){0};
        mask_line(r, "decoder", "0.653 (gpt2-nano, layer 3, n = 98)", built_in, 0.653,
                  masked.median, draw_curve(r, &c).median);
    }
    c = (claims_curve){.name = names[1],
                       .spec = random,
                       .text = text,
                       .map = LIPSC_MAP_ATTENTION,
                       .first = 1,
                       .drawn_for = "random GPT-2"};
    draw_curve(r, &c);
    if (text == 0 && r->set->quick) leave_random_gpt2(r);
    if (text == 0 && !r->set->quick) { /* the size and the grid that the paper drew */
        c.name = names[3];
        c.spec = "random:gpt2";
        c.first = 0;
        c.own = 1;
        c.drawn[1] = (claims_drawn){0.445, 0.25};
        draw_curve(r, &c);
    }
    return masked.fit;
}

static void encoders(claims_work *r, size_t text, const char *suffix) {
    char names[3][96], random[4200];
    const char *kind = r->set->bert ? "encoder" : "encoder random";
    static const char *const forms[] = {"", " with residual and norm", " masked"};
    for (size_t i = 0; i < 3; i++)
        snprintf(names[i], sizeof names[i], "%s%s%s", kind, forms[i], suffix);
    snprintf(random, sizeof random, "random:%s", r->set->bert ? r->set->bert : "bert:nano");
    claims_curve c = {.name = names[0],
                      .spec = claims_encoder(r),
                      .text = text,
                      .map = LIPSC_MAP_ATTENTION,
                      .first = 1,
                      .longer = text > 0,
                      .trained = r->set->bert != NULL,
                      .own = r->set->bert && claims_is_published(r, r->set->bert, "bert"),
                      .drawn_for = "BERT"};
    const int own = c.own;
    const double unmasked = draw_curve(r, &c).median;
    c.name = names[1]; /* the map of the released script */
    c.map = LIPSC_MAP_RESIDUAL;
    if (own && text == 0) c.drawn[0] = (claims_drawn){14.3, 0.24};
    draw_curve(r, &c);
    if (text > 0) return;
    c.name = names[2];
    c.map = LIPSC_MAP_ATTENTION;
    c.mask = CLAIMS_MASK_CAUSAL;
    c.first = 0;
    if (own) c.drawn[1] = (claims_drawn){6.44, 0.25};
    c.drawn_for = "\"BERT decoder\", no mask";
    mask_line(r, "encoder", "1.63 (random:bert:nano, n = 98); the paper passes no mask",
              !r->set->bert, 1.63, draw_curve(r, &c).median, unmasked);
    if (!r->set->bert) return;
    c = (claims_curve){.name = "encoder random",
                       .spec = random,
                       .map = LIPSC_MAP_ATTENTION,
                       .first = 1,
                       .drawn_for = "random BERT"};
    draw_curve(r, &c);
}

void claims_growth(claims_work *r) {
    lipsc_fit fits[LIPSC_CLAIM_TEXTS];
    for (size_t t = 0; t < r->texts.count; t++) {
        char suffix[32] = "";
        if (t) snprintf(suffix, sizeof suffix, ", text %zu", t + 1);
        fits[t] = decoders(r, t, suffix);
        encoders(r, t, suffix);
    }
    claims_texts_line(r, r->texts.count, fits);
    if (!r->set->bert) claims_pass(r, "pretrained-encoder", "give a pretrained BERT");
}
