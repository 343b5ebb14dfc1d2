/* run.c - every claim of the table, computed and judged: what is worked on, the run file,
 * and which computations run. */
#include <omp.h>
#include <stdio.h>
#include <string.h>

#include "claims/claims.h"
#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "lipscope/tokens.h"
#include "ranks/deal.h"
#include "study/window.h"

enum { KEPT = sizeof((claims_work *)0)->kept / sizeof((claims_work *)0)->kept[0] };

void lipsc_claims_defaults(lipsc_claims_settings *set) {
    *set = (lipsc_claims_settings){.seed = 1, .only = -1};
}

/* ---- What is worked on --------------------------------------------------------------- */

lipsc_status claims_model_open(claims_work *r, const char *spec, lipsc_model **out,
                               lipsc_error *err) {
    for (size_t k = 0; k < KEPT; k++)
        if (r->kept[k].model && !strcmp(r->kept[k].spec, spec)) {
            *out = r->kept[k].model;
            return LIPSC_OK;
        }
    return lipsc_model_open_part(spec, LIPSC_PART_WHOLE, r->set->seed, out, err);
}

void claims_model_close(claims_work *r, lipsc_model *model) {
    for (size_t k = 0; k < KEPT; k++)
        if (r->kept[k].model == model) return;
    lipsc_model_free(model);
}

int claims_is_published(claims_work *r, const char *spec, const char *architecture) {
    lipsc_model *model = NULL;
    if (claims_model_open(r, spec, &model, NULL)) return 0;
    const lipsc_model_info *info = lipsc_model_describe(model);
    const int same =
        info->d == 768 && info->layers == 12 && !strcmp(info->architecture, architecture);
    claims_model_close(r, model);
    return same;
}

const char *claims_encoder(const claims_work *r) {
    return r->set->bert ? r->set->bert : "random:bert:nano";
}

/* The hash of a model, so that another one is refused; its kind must fit.  It is kept. */
static lipsc_status add_model(claims_work *r, json_t *all, const char *name,
                              const char *spec, int encoder, int *reads_text,
                              lipsc_error *err) {
    lipsc_model *model;
    size_t k = 0;
    lipsc_status status =
        lipsc_model_open_part(spec, LIPSC_PART_WHOLE, r->set->seed, &model, err);
    if (status) return status;
    while (r->kept[k].model) k++;
    r->kept[k].spec = spec;
    r->kept[k].model = model;
    const lipsc_model_info *info = lipsc_model_describe(model);
    if (encoder != (info->mask == LIPSC_MASK_NONE && !info->has_pixels))
        status = lipsc_fail(err, LIPSC_E_ARG, "%s: a model of kind %s cannot stand for %s",
                            spec, info->architecture, encoder ? "BERT" : "GPT-2");
    if (reads_text) *reads_text = info->has_embeddings;
    json_object_set_new(all, name, json_string(info->hash));
    return status;
}

static lipsc_status add_text(const claims_work *r, const char *path, json_t *hashes,
                             lipsc_error *err) {
    char *bytes, hash[65], remark[LIPSC_SOURCE_REMARK];
    size_t size;
    lipsc_sha256 sha;
    if (!strcmp(path, "-"))
        return lipsc_fail(err, LIPSC_E_ARG,
                          "a text that is read several times cannot come from standard "
                          "input");
    const lipsc_status status = lipsc_bytes_read(path, &bytes, &size, err);
    if (status) return status;
    lipsc_sha256_begin(&sha);
    lipsc_sha256_add(&sha, bytes, size);
    lipsc_sha256_end(&sha, hash);
    json_array_append_new(hashes, json_string(hash));
    const size_t malformed = lipsc_tokenizer_malformed(bytes, size);
    if (malformed && r->set->remark) {
        lipsc_source_malformed(path, malformed, size, remark);
        r->set->remark(r->set->ctx, remark);
    }
    lipsc_release(bytes);
    return LIPSC_OK;
}

/* Everything that decides a value. */
static lipsc_status gather(claims_work *r, json_t *all, lipsc_error *err) {
    static const char *const built_in[] = {"builtin:lighthouse"};
    const lipsc_claims_settings *s = r->set;
    int reads_text = 0;
    lipsc_status status = LIPSC_OK;
    if (s->texts.count > LIPSC_CLAIM_TEXTS)
        return lipsc_fail(err, LIPSC_E_ARG, "more than %d texts", LIPSC_CLAIM_TEXTS);
    if (s->gpt2) status = add_model(r, all, "gpt2_hash", s->gpt2, 0, &reads_text, err);
    if (!status && s->bert) status = add_model(r, all, "bert_hash", s->bert, 1, NULL, err);
    r->decoder = reads_text ? s->gpt2 : "builtin:gpt2-nano";
    if (!status && !reads_text)
        status = add_model(r, all, "decoder_hash", r->decoder, 0, NULL, err);
    r->texts = s->texts.count ? s->texts : (lipsc_claim_texts){1, built_in};
    json_t *hashes = json_array();
    for (size_t t = 0; t < r->texts.count && !status; t++)
        status = add_text(r, r->texts.at[t], hashes, err);
    json_object_set_new(all, "text_hashes", hashes);
    json_object_set_new(all, "seed", json_integer((json_int_t)s->seed));
    json_object_set_new(all, "quick", json_boolean(s->quick));
    json_object_set_new(all, "tiled",
                        json_false()); /* windows of all lengths start alike */
    json_object_set_new(all, "spoil", s->spoil ? json_string(s->spoil) : json_null());
    return status;
}

/* ---- Together ------------------------------------------------------------------------ */

/* These store every cell of theirs, and only lines and laws are made again. */
static int keeps_cells(const claims_entry *c) {
    return c->part == LIPSC_CLAIM_TEXT || c->part == LIPSC_CLAIM_ADVERSARIAL;
}

/* 1: the run file has every claim of this computation. */
static int computed(claims_work *r, const claims_entry *first) {
    for (size_t c = 0; c < claims_count; c++)
        if (claims_table[c].compute == first->compute && !claims_table[c].many &&
            !claims_known(r, claims_table[c].id))
            return 0;
    return 1;
}

/* A claim that its computation forgot is an error, not a shorter table. */
static void check_reported(claims_work *r, const claims_entry *first) {
    for (size_t c = 0; c < claims_count && !r->status; c++)
        if (claims_table[c].compute == first->compute && !claims_table[c].many &&
            !claims_known(r, claims_table[c].id)) {
            lipsc_error err;
            snprintf(err.text, sizeof err.text, "%s: could not be computed",
                     claims_table[c].id);
            claims_fail(r, LIPSC_E_NOMEM, &err);
        }
}

static void compute(claims_work *r, const claims_entry *claim) {
    /* Parts share their work among threads themselves; products inside are small. */
    const int threads = omp_get_max_threads();
    omp_set_num_threads(1);
    r->order = 1000 * (size_t)(claim - claims_table);
    r->part = claims_part_title(claim->part);
    claim->compute(r);
    omp_set_num_threads(threads);
    if (r->set->doing) r->set->doing(r->set->ctx, NULL);
}

/* The first claim of the next computation of these parts; NULL: there is none. */
static const claims_entry *next_computation(const claims_work *r, const claims_entry *last,
                                            int cells) {
    for (size_t c = last ? (size_t)(last - claims_table) + 1 : 0; c < claims_count; c++) {
        const claims_entry *claim = &claims_table[c];
        if (c && claim[-1].compute == claim->compute) continue;
        if (r->set->only >= 0 && r->set->only != (int)claim->part) continue;
        if (keeps_cells(claim) == cells) return claim;
    }
    return NULL;
}

static void say_part(claims_work *r, const claims_entry *claim) {
    if (r->told != (int)claim->part && r->set->part)
        r->set->part(r->set->ctx, claims_part_title(claim->part));
    r->told = (int)claim->part;
}

typedef struct {
    size_t count;
    const claims_entry **at;
    char *known;
} computations;

static void compute_piece(claims_work *r, void *ctx, size_t piece) {
    const claims_entry *claim = ((const computations *)ctx)->at[piece];
    say_part(r, claim);
    compute(r, claim);
    if (!claims_stopped(r)) check_reported(r, claim);
}

/* Each by one rank. */
static void run_dealt(claims_work *r) {
    computations all = {0, lipsc_alloc(claims_count, sizeof *all.at),
                        lipsc_alloc_zero(claims_count, 1)};
    const claims_entry *claim = NULL;
    if (!all.at || !all.known) claims_fail(r, LIPSC_E_NOMEM, NULL);
    while (!r->status && (claim = next_computation(r, claim, 0))) {
        all.known[all.count] = (char)(claims_leads(r) && computed(r, claim));
        all.at[all.count++] = claim;
    }
    claims_deal(r, all.count, all.known, compute_piece, &all);
    lipsc_release(all.at);
    lipsc_release(all.known);
}

static void tell_plan(claims_work *r) {
    char open[LIPSC_CLAIM_PARTS] = {0};
    if (!r->set->plan || !claims_leads(r)) return;
    for (int cells = 0; cells < 2; cells++)
        for (const claims_entry *c = NULL; (c = next_computation(r, c, cells));)
            if (!computed(r, c)) open[c->part] = 1;
    if (!r->status) r->set->plan(r->set->ctx, claims_seconds(r, open));
}

/* Every computation of the table once; those that keep cells, which stand last, share them
 * among the ranks. */
static void run_claims(claims_work *r) {
    const claims_entry *claim = NULL;
    r->told = -1;
    tell_plan(r);
    run_dealt(r);
    while (!claims_stopped(r) && (claim = next_computation(r, claim, 1))) {
        say_part(r, claim);
        compute(r, claim);
        if (claims_leads(r) && !claims_stopped(r)) check_reported(r, claim);
    }
}

/* All ranks have read the same, or none goes on. */
static lipsc_status meet(const claims_work *r, const json_t *all, lipsc_status status,
                         lipsc_error *err) {
    char *text = lipsc_json_dumps(all, JSON_COMPACT | JSON_SORT_KEYS), hash[65] = "";
    char said[128];
    lipsc_sha256 sha;
    if (text) {
        lipsc_sha256_begin(&sha);
        lipsc_sha256_add(&sha, text, strlen(text));
        lipsc_sha256_end(&sha, hash);
    }
    lipsc_release(text);
    snprintf(said, sizeof said, "choice of models, texts and options: %s", hash);
    return lipsc_ranks_meet(r->set->ranks, status, said, err);
}

static lipsc_status open_run(claims_work *r, lipsc_error *err) {
    static const char *const fields[] = {
        "section",  "name",     "source",     "claim",      "origin",
        "measured", "holds",    "experiment", "model",      "layer",
        "map",      "mask",     "n",          "window",     "start",
        "sigma",    "released", "upper",      "radius_rms", "best_construction"};
    json_t *all = json_object(),
           *absent = json_pack("{s:b}", "tiled", 1); /* first edition */
    const lipsc_run_options how = {.command = "reproduce",
                                   .command_line = r->set->command_line,
                                   .settings = all,
                                   .absent = absent,
                                   .field_count = sizeof fields / sizeof *fields,
                                   .fields = fields};
    lipsc_status status = all && absent ? gather(r, all, err)
                                        : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    if (!status && claims_leads(r))
        status = lipsc_run_open(r->set->run_file, &how, &r->run, err);
    status = meet(r, all, status, err);
    json_decref(all);
    json_decref(absent);
    return status;
}

static void check_spoilt(claims_work *r) {
    const char *name = r->set->spoil;
    lipsc_error err;
    if (r->status || !name || r->spoiled || claims_known(r, name)) return;
    lipsc_fail(&err, LIPSC_E_ARG, "spoil %s: no line has this name", name);
    claims_fail(r, LIPSC_E_ARG, &err);
}

/* Rank 0 speaks for all. */
static lipsc_claims_settings quietly(const lipsc_claims_settings *set) {
    lipsc_claims_settings own = *set;
    if (!lipsc_ranks_number(set->ranks)) return own;
    own.part = own.doing = NULL;
    own.plan = NULL;
    own.sweep = NULL;
    own.progress = NULL;
    own.remark = NULL;
    return own;
}

/* All ranks end together; one that fails by itself stays awaited. */
static void end_together(claims_work *r) {
    if (r->lost) return; /* there are some who do not know of the end */
    if (!r->agreed) claims_together(r);
    if (claims_leads(r) || r->agreed || !r->status) {
        if (r->set->ranks) lipsc_ranks_busy(r->set->ranks, 0);
        if (!claims_leads(r)) r->status = LIPSC_OK;
    }
}

lipsc_status lipsc_claims_run(const lipsc_claims_settings *set, lipsc_claims *out,
                              lipsc_error *err) {
    *out = (lipsc_claims){0};
    const lipsc_claims_settings own = quietly(set);
    claims_work r = {.set = &own, .out = out, .threads = lipsc_device_threads(set->device)};
    if (!set->run_file)
        return lipsc_fail(err, LIPSC_E_ARG, "claims are kept in a run file: name one");
    lipsc_status status = open_run(&r, err);
    if (status && !claims_leads(&r)) {
        status = LIPSC_OK; /* rank 0 says why */
    } else if (!status) {
        run_claims(&r);
        if (claims_leads(&r)) check_spoilt(&r);
        end_together(&r);
        lipsc_run_close(r.run);
        if (r.status) status = lipsc_fail(err, r.status, "%s", r.err.text);
        if (!status && claims_leads(&r))
            status = claims_results_read(set->run_file, out, err);
    }
    for (size_t k = 0; k < KEPT; k++) lipsc_model_free(r.kept[k].model);
    return status;
}
