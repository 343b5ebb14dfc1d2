/* layers.c - docs/maths.md 3 on layers of real size: every bound beside the exact
 * value at a window of text, and the regime. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "claims/claims.h"

typedef struct {
    const char *id;   /* of the claim      */
    const char *name; /* of the experiment */
    const char *spec; /* MODEL             */
} place;

static void store_rows(claims_work *r, const place *p, size_t layer,
                       const lipsc_zoo_case *z, const lipsc_zoo_row *rows) {
    for (size_t b = 0; b < lipsc_zoo_count; b++) {
        const lipsc_zoo_row *from = &rows[b];
        char key[128];
        snprintf(key, sizeof key, "%s: %s", p->name, from->rule->name);
        json_t *row = json_object();
        json_object_set_new(row, "experiment", json_string(p->name));
        json_object_set_new(row, "model", lipsc_json_text(p->spec));
        json_object_set_new(row, "layer", json_integer((json_int_t)layer));
        json_object_set_new(row, "n", json_integer((json_int_t)z->n));
        json_object_set_new(row, "radius", lipsc_json_real(z->radius));
        json_object_set_new(row, "name", json_string(from->rule->name));
        json_object_set_new(row, "source", json_string(from->rule->source));
        json_object_set_new(row, "kind",
                            json_string(lipsc_bound_kind_name(from->rule->kind)));
        json_object_set_new(row, "norm", json_string(lipsc_bound_norm_name(from->norm)));
        json_object_set_new(row, "domain",
                            json_string(lipsc_bound_domain_name(from->rule->domain)));
        json_object_set_new(row, "value", lipsc_json_real(from->value));
        json_object_set_new(row, "log_value", lipsc_json_real(from->log_value));
        json_object_set_new(row, "sigma", lipsc_json_real(from->sigma));
        json_object_set_new(row, "ratio",
                            lipsc_json_real(from->comparable && !*from->refused
                                                ? exp(from->log_value - log(from->sigma))
                                                : NAN));
        json_object_set_new(row, "refused",
                            *from->refused ? json_string(from->refused) : json_null());
        claims_store(r, key, row);
    }
}

/* Upper bounds in the norm of sigma, as multiples of it. */
typedef struct {
    double least, paper; /* of all, of the paper's    */
    const char *tightest;
    size_t said, outside, refused; /* refused though the hypotheses hold  */
    char why[320];                 /* the name and the reason of the last */
} ranking;

static ranking rank_rows(const lipsc_zoo_case *z, const lipsc_zoo_row *rows) {
    ranking out = {.least = INFINITY, .paper = NAN, .tightest = "none"};
    for (size_t b = 0; b < lipsc_zoo_count; b++) {
        const lipsc_zoo_row *row = &rows[b];
        if (!row->comparable || row->rule->kind != LIPSC_KIND_UPPER) continue;
        if (*row->refused) {
            const int applies = !row->rule->refuse(z);
            out.refused += (size_t)applies;
            out.outside += (size_t)!applies;
            if (applies)
                snprintf(out.why, sizeof out.why, "%s: %.240s", row->rule->name,
                         row->refused);
            continue;
        }
        const double ratio = exp(row->log_value - log(row->sigma));
        out.said++;
        if (!strcmp(row->rule->name, "paper-finite-n")) out.paper = ratio;
        if (ratio < out.least) out.tightest = row->rule->name;
        claims_lower(&out.least, ratio);
    }
    return out;
}

static void layer_line(claims_work *r, const place *p, size_t layer,
                       const lipsc_zoo_case *z, const lipsc_zoo_row *rows) {
    const ranking all = rank_rows(z, rows);
    char statement[120], regime_words[160] = "", unmet[400];
    claims_line line = claims_line_of(p->id);
    lipsc_regime regime;
    if (!lipsc_zoo_regime(z, &regime, NULL))
        snprintf(regime_words, sizeof regime_words,
                 "; the ball %s (a = %.3g), this input %s (scores within %.3g)",
                 regime.name, regime.a, regime.input, regime.spread);
    snprintf(statement, sizeof statement, "%s, layer %zu, n = %zu: %s", p->name, layer,
             z->n, line.claim->statement);
    line.statement = statement;
    if (all.refused) {
        snprintf(unmet, sizeof unmet, "refused though its hypotheses hold: %s", all.why);
        line.unmet = unmet;
    }
    claims_judge(
        r, &line, all.least,
        "%zu bounds (%zu not for this layer): %s %.3g times sigma, that of 3.1 %.3g "
        "times%s",
        all.said, all.outside, all.tightest, all.least, all.paper, regime_words);
}

int claims_window_open(claims_work *r, const char *spec, const lipsc_mask *mask,
                       size_t length, size_t *layer, claims_window *out) {
    lipsc_error err = {.text = ""};
    lipsc_place_options of;
    *out = (claims_window){.model = NULL};
    if (claims_stopped(r)) return 0;
    lipsc_place_defaults(&of);
    lipsc_status status = claims_model_open(r, spec, &out->model, &err);
    /* products too small for several threads */
    if (!status) status = lipsc_device_open(NULL, 1, &out->device, &err);
    if (!status) {
        of.from = spec;
        of.open = out->model;
        of.layer = *layer = lipsc_model_describe(out->model)->layers / 2;
        of.mask_override = mask;
        of.source.text = r->texts.at[0];
        of.length = length;
        of.device = out->device;
        status = lipsc_place_open(&of, &out->place, &err);
    }
    if (!status) status = place_point_make(out->place, 0, NULL, &out->point, &err);
    if (status) claims_fail(r, status, &err);
    return !status;
}

void claims_window_close(claims_work *r, claims_window *window) {
    place_point_free(&window->point);
    lipsc_place_close(window->place);
    lipsc_device_close(window->device);
    if (window->model) claims_model_close(r, window->model);
}

static void bound_layer(claims_work *r, const place *p) {
    lipsc_error err = {.text = ""};
    lipsc_zoo_case z;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    claims_window window;
    size_t layer = 0;
    double sigma = NAN;
    memset(&z, 0, sizeof z);
    if (claims_window_open(r, p->spec, NULL, r->set->quick ? 16 : 64, &layer, &window)) {
        lipsc_zoo_row *rows = lipsc_alloc(lipsc_zoo_count, sizeof *rows);
        lipsc_svd_defaults(&set);
        lipsc_status status = rows ? LIPSC_OK : LIPSC_E_NOMEM;
        if (!status)
            status = lipsc_attn_sigma(window.point.attn, &set, &sigma, NULL, NULL, &info);
        if (!status)
            status = lipsc_zoo_case_make(window.point.attn, NAN, 4.0,
                                         window.point.has_norm ? &window.point.norm : NULL,
                                         &z, &err);
        if (!status) status = lipsc_zoo_evaluate_all(&z, sigma, rows);
        if (status) {
            claims_fail(r, status, &err);
        } else {
            store_rows(r, p, layer, &z, rows);
            layer_line(r, p, layer, &z, rows);
        }
        lipsc_zoo_case_free(&z);
        lipsc_release(rows);
    }
    claims_window_close(r, &window);
}

void claims_decoder_bounds(claims_work *r) {
    bound_layer(r, &(place){"bounds-decoder", "bounds of the decoder", r->decoder});
}

void claims_encoder_bounds(claims_work *r) {
    bound_layer(r, &(place){"bounds-encoder", "bounds of the encoder", claims_encoder(r)});
}
