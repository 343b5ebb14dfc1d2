/* reproduce_layers.c - docs/maths.md 3 on layers of real size: every bound beside the exact
 * value at a window of text, and the regime. */
#include <math.h>
#include <string.h>

#include "bounds.h"
#include "core/mem.h"
#include "reproduce.h"

typedef struct {
    const char *name; /* of the experiment */
    const char *spec; /* MODEL             */
} place;

static void store_rows(repro *r, const place *p, size_t layer, const lipsc_zoo_case *z,
                       const lipsc_zoo_row *rows) {
    for (size_t b = 0; b < lipsc_zoo_count; b++) {
        const lipsc_zoo_row *from = &rows[b];
        char key[128];
        snprintf(key, sizeof key, "%s: %s", p->name, from->rule->name);
        json_t *row = json_object();
        json_object_set_new(row, "experiment", json_string(p->name));
        json_object_set_new(row, "model", lipsc_json_text(p->spec));
        json_object_set_new(row, "layer", json_integer((json_int_t)layer));
        json_object_set_new(row, "n", json_integer((json_int_t)z->n));
        json_object_set_new(row, "radius", repro_real(z->radius));
        json_object_set_new(row, "name", json_string(from->rule->name));
        json_object_set_new(row, "source", json_string(from->rule->source));
        json_object_set_new(row, "kind",
                            json_string(lipsc_bound_kind_name(from->rule->kind)));
        json_object_set_new(row, "norm", json_string(lipsc_bound_norm_name(from->norm)));
        json_object_set_new(row, "domain",
                            json_string(lipsc_bound_domain_name(from->rule->domain)));
        json_object_set_new(row, "value", repro_real(from->value));
        json_object_set_new(row, "log_value", repro_real(from->log_value));
        json_object_set_new(row, "sigma", repro_real(from->sigma));
        json_object_set_new(row, "ratio",
                            repro_real(from->comparable && !*from->refused
                                           ? exp(from->log_value - log(from->sigma))
                                           : NAN));
        json_object_set_new(row, "refused",
                            *from->refused ? json_string(from->refused) : json_null());
        repro_store(r, key, row);
    }
}

/* Upper bounds in the norm of sigma, as multiples of it. */
static void layer_line(repro *r, const place *p, size_t layer, const lipsc_zoo_case *z,
                       const lipsc_zoo_row *rows) {
    double least = INFINITY, paper = NAN;
    const char *tightest = "none";
    char claim[120], regime_words[120] = "";
    lipsc_regime regime;
    for (size_t b = 0; b < lipsc_zoo_count; b++) {
        const lipsc_zoo_row *row = &rows[b];
        if (*row->refused || !row->comparable || row->rule->kind != LIPSC_KIND_UPPER)
            continue;
        const double ratio = exp(row->log_value - log(row->sigma));
        if (!strcmp(row->rule->name, "paper-finite-n")) paper = ratio;
        if (ratio < least) {
            least = ratio;
            tightest = row->rule->name;
        }
    }
    if (!lipsc_zoo_regime(z, &regime, NULL))
        snprintf(regime_words, sizeof regime_words,
                 "; regime %s, a = %.3g, crossover e^%.3g", regime.name, regime.a,
                 regime.log_crossover);
    snprintf(claim, sizeof claim, "%s, layer %zu, n = %zu: no bound lies below sigma",
             p->name, layer, z->n);
    repro_judge(r,
                &(repro_line){.name = p->name,
                              .section = "3",
                              .claim = claim,
                              .paper = "Theorem 3.3",
                              .relation = REPRO_AT_LEAST,
                              .promised = 1.0,
                              .tolerance = 1e-9},
                least, "%s %.3g times sigma, the paper's %.3g times%s", tightest, least,
                paper, regime_words);
}

static void bound_layer(repro *r, const place *p) {
    lipsc_model *model = NULL;
    lipsc_error err = {.text = ""};
    lipsc_zoo_case z;
    bounds_source source;
    bounds_settings s = {.common = r->set->common,
                         .scale = NAN,
                         .map = 1,
                         .seed = r->set->seed,
                         .p = 4.0,
                         .length = r->set->quick ? 16 : 64,
                         .source = {.text = r->texts.items[0]}};
    s.common.threads = 1; /* products too small for several */
    if (repro_stopped(r) || repro_known(r, p->name)) return;
    if (repro_model_open(r, p->spec, &model, &err)) {
        repro_fail(r, err.code, &err);
        return;
    }
    s.layer = lipsc_model_describe(model)->layers / 2;
    repro_model_close(r, model);
    memset(&z, 0, sizeof z);
    if (bounds_source_open(r->self, &s, p->spec, &source) != CLI_RUN) {
        snprintf(err.text, sizeof err.text, "%s: cannot be bounded", p->spec);
        repro_fail(r, LIPSC_E_ARG, &err); /* the reason has been said */
    } else {
        lipsc_svd_settings set;
        lipsc_svd_info info;
        double sigma = NAN;
        lipsc_zoo_row *rows = lipsc_alloc(lipsc_zoo_count, sizeof *rows);
        lipsc_svd_defaults(&set);
        lipsc_status status = rows ? LIPSC_OK : LIPSC_E_NOMEM;
        if (!status)
            status = lipsc_attn_sigma(source.attn, &set, &sigma, NULL, NULL, &info);
        if (!status)
            status = lipsc_zoo_case_make(source.attn, source.radius, s.p,
                                         source.has_norm ? &source.norm : NULL, &z, &err);
        if (!status) status = lipsc_zoo_evaluate_all(&z, sigma, rows);
        if (status) {
            repro_fail(r, status, &err);
        } else {
            store_rows(r, p, s.layer, &z, rows);
            layer_line(r, p, s.layer, &z, rows);
        }
        lipsc_zoo_case_free(&z);
        lipsc_release(rows);
    }
    bounds_source_close(&source);
}

void repro_layers(repro *r) {
    const place places[] = {
        {"bounds of the decoder", r->decoder},
        {"bounds of the encoder", r->set->bert ? r->set->bert : "random:bert:nano"}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        bound_layer(r, &places[i]);
        r->lines = (int)i + 1; /* its place, also where it was known */
    }
}
