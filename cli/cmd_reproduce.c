/* cmd_reproduce.c - lipscope reproduce: every claim of the table, computed and judged. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/mem.h"
#include "core/sha256.h"
#include "interrupt.h"
#include "reproduce/reproduce.h"
#include "source.h"

#define AT(member) .offset = offsetof(repro_settings, member)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Models and texts"},
    {.kind = CLI_TEXT,
     .name = "bert",
     .value = "DIR",
     AT(bert),
     .help = "a pretrained encoder (default: a small random BERT)"},
    {.kind = CLI_TEXT,
     .name = "gpt2",
     .value = "DIR",
     AT(gpt2),
     .help = "a pretrained GPT-2; one that holds the attention of some layers only "
             "serves the adversarial inputs (default: the built-in gpt2-nano)"},
    {.kind = CLI_TEXTS,
     .name = "text",
     .value = "FILE",
     AT(texts),
     .help = "a text; may be repeated for further texts (default: the built-in one)"},

    {.kind = CLI_GROUP, .name = "Where and how"},
    {.kind = CLI_TEXT,
     .name = "out",
     .value = "DIR",
     AT(out),
     .help = "folder for tables, report and run file (default lipscope-reproduce)"},
    {.kind = CLI_TEXT,
     .name = "run",
     .value = "FILE",
     AT(run),
     .help = "the run file (default run.db in that folder); the same command goes on "
             "from there"},
    {.kind = CLI_FLAG,
     .name = "quick",
     AT(quick),
     .help = "few lengths, windows and random layers: shows that everything runs, "
             "draws no conclusions"},
    {.kind = CLI_CHOICE,
     .name = "only",
     .value = "PART",
     .wanted = "all|split|basics|bounds|lemmas|worst|mean-field|regimes|layers|released|"
               "text|adversarial",
     AT(only),
     .help = "compute one part: split, basics, bounds, lemmas, worst, mean-field, regimes, "
             "layers, released, text or adversarial (default all); the table shows all "
             "that the "
             "run file has"},
    {.kind = CLI_SEED,
     .name = "seed",
     .value = "N",
     AT(seed),
     .help = "seed of start vectors, random layers, random models and resampling "
             "(default 1)"},
    CLI_THREADS_OPTION(repro_settings),
    {.kind = CLI_TEXT,
     .name = "spoil",
     .value = "NAME",
     AT(spoil),
     .help = "a self-test: the promise of that line is made 1000 times stronger, so "
             "that it must come out as `no`"},
    CLI_OUTPUT_OPTIONS(repro_settings),
};

enum { KEPT = sizeof((repro *)0)->kept / sizeof((repro *)0)->kept[0] };

/* ---- What is worked on --------------------------------------------------------------- */

/* The folder, made where it is missing; its parent must be there. */
static int make_folder(const cli_command *self, const char *path) {
    struct stat info;
    if (!mkdir(path, 0777)) return CLI_RUN;
    const int why = errno;
    if (!stat(path, &info) && S_ISDIR(info.st_mode)) return CLI_RUN;
    return cli_failure(self, "%s: cannot make this folder: %s", path,
                       why == EEXIST ? "a file of that name is there" : strerror(why));
}

lipsc_status repro_model_open(repro *r, const char *spec, lipsc_model **out,
                              lipsc_error *err) {
    for (size_t k = 0; k < KEPT; k++)
        if (r->kept[k].model && !strcmp(r->kept[k].spec, spec)) {
            *out = r->kept[k].model;
            return LIPSC_OK;
        }
    return lipsc_model_open_part(spec, LIPSC_PART_WHOLE, r->set->seed, out, err);
}

void repro_model_close(repro *r, lipsc_model *model) {
    for (size_t k = 0; k < KEPT; k++)
        if (r->kept[k].model == model) return;
    lipsc_model_free(model);
}

int repro_is_published(repro *r, const char *spec, const char *architecture) {
    lipsc_model *model = NULL;
    if (repro_model_open(r, spec, &model, NULL)) return 0;
    const lipsc_model_info *info = lipsc_model_describe(model);
    const int same =
        info->d == 768 && info->layers == 12 && !strcmp(info->architecture, architecture);
    repro_model_close(r, model);
    return same;
}

const char *repro_encoder(const repro *r) {
    return r->set->bert ? r->set->bert : "random:bert:nano";
}

/* The hash of a model, so that another one is refused; its kind must fit.  It is kept. */
static int add_model(repro *r, json_t *all, const char *name, const char *spec, int encoder,
                     int *reads_text) {
    lipsc_model *model;
    lipsc_error err;
    size_t k = 0;
    if (lipsc_model_open_part(spec, LIPSC_PART_WHOLE, r->set->seed, &model, &err))
        return cli_failure(r->self, "%s", err.text);
    while (r->kept[k].model) k++;
    r->kept[k].spec = spec;
    r->kept[k].model = model;
    const lipsc_model_info *info = lipsc_model_describe(model);
    const int fits = encoder == (info->mask == LIPSC_MASK_NONE && !info->has_pixels);
    const int code =
        fits ? CLI_RUN
             : cli_failure(r->self, "%s: a model of kind %s cannot stand for %s", spec,
                           info->architecture, encoder ? "BERT" : "GPT-2");
    if (reads_text) *reads_text = info->has_embeddings;
    json_object_set_new(all, name, json_string(info->hash));
    return code;
}

static int add_texts(const repro *r, json_t *all) {
    json_t *hashes = json_array();
    for (size_t t = 0; t < r->texts.count; t++) {
        char *bytes, hash[65];
        size_t size;
        lipsc_error err;
        lipsc_sha256 sha;
        if (!strcmp(r->texts.items[t], "-")) {
            json_decref(hashes);
            return cli_wrong_use(r->self, "a text that is read several times cannot come "
                                          "from standard input");
        }
        if (lipsc_bytes_read(r->texts.items[t], &bytes, &size, &err)) {
            json_decref(hashes);
            return cli_failure(r->self, "%s", err.text);
        }
        lipsc_sha256_begin(&sha);
        lipsc_sha256_add(&sha, bytes, size);
        lipsc_sha256_end(&sha, hash);
        json_array_append_new(hashes, json_string(hash));
        if (!r->set->common.quiet)
            cli_utf8_say(r->self, r->texts.items[t], lipsc_tokenizer_malformed(bytes, size),
                         size);
        lipsc_release(bytes);
    }
    json_object_set_new(all, "text_hashes", hashes);
    return CLI_RUN;
}

/* Everything that decides a value. */
static int gather(repro *r, json_t *all) {
    const repro_settings *s = r->set;
    int reads_text = 0, code = CLI_RUN;
    if (s->gpt2) code = add_model(r, all, "gpt2_hash", s->gpt2, 0, &reads_text);
    if (code == CLI_RUN && s->bert) code = add_model(r, all, "bert_hash", s->bert, 1, NULL);
    r->decoder = reads_text ? s->gpt2 : "builtin:gpt2-nano";
    if (code == CLI_RUN && !reads_text)
        code = add_model(r, all, "decoder_hash", r->decoder, 0, NULL);
    r->texts = s->texts;
    if (!r->texts.count) r->texts = (cli_texts){1, {"builtin:lighthouse"}};
    if (code == CLI_RUN) code = add_texts(r, all);
    json_object_set_new(all, "seed", json_integer((json_int_t)s->seed));
    json_object_set_new(all, "quick", json_boolean(s->quick));
    json_object_set_new(all, "tiled",
                        json_false()); /* windows of all lengths start alike */
    json_object_set_new(all, "spoil", s->spoil ? json_string(s->spoil) : json_null());
    return code;
}

/* ---- Together ------------------------------------------------------------------------ */

/* These store every cell of theirs, and only lines and laws are made again. */
static int keeps_cells(const repro_claim *c) {
    return c->part == REPRO_TEXT || c->part == REPRO_ADVERSARIAL;
}

/* 1: the run file has every claim of this computation. */
static int computed(repro *r, const repro_claim *first) {
    for (size_t c = 0; c < repro_claim_count; c++)
        if (repro_claims[c].compute == first->compute && !repro_claims[c].many &&
            !repro_known(r, repro_claims[c].id))
            return 0;
    return 1;
}

/* A claim that its computation forgot is an error, not a shorter table. */
static void check_reported(repro *r, const repro_claim *first) {
    for (size_t c = 0; c < repro_claim_count && !r->status; c++)
        if (repro_claims[c].compute == first->compute && !repro_claims[c].many &&
            !repro_known(r, repro_claims[c].id)) {
            lipsc_error err;
            snprintf(err.text, sizeof err.text, "%s: could not be computed",
                     repro_claims[c].id);
            repro_fail(r, LIPSC_E_NOMEM, &err);
        }
}

static void compute(repro *r, const repro_claim *claim) {
    /* Parts share their work among threads themselves; products inside are small. */
    omp_set_num_threads(1);
    r->order = 1000 * (size_t)(claim - repro_claims);
    claim->compute(r);
    if (!repro_stopped(r)) check_reported(r, claim);
    cli_progress_end(&r->progress);
}

/* Every computation of the table once, in its order. */
static void run_claims(repro *r) {
    int told = -1;
    for (size_t c = 0; c < repro_claim_count && !repro_stopped(r); c++) {
        const repro_claim *claim = &repro_claims[c];
        if (c && claim[-1].compute == claim->compute) continue;
        if (r->set->only && r->set->only != (int)claim->part + 1) continue;
        if (!keeps_cells(claim) && computed(r, claim)) continue;
        if (told != (int)claim->part && !r->set->common.quiet)
            fprintf(stderr, "%s\n", repro_part_title(claim->part));
        told = (int)claim->part;
        compute(r, claim);
    }
}

static int finish(repro *r, const char *run) {
    char page[4400];
    json_t *head = NULL, *rows = NULL;
    lipsc_error err = {.text = ""};
    snprintf(page, sizeof page, "%s/report.html", r->set->out);
    if (lipsc_run_read(run, &head, &rows, &err))
        return cli_failure(r->self, "%s", err.text);
    int code = repro_print(r, rows);
    json_decref(head);
    json_decref(rows);
    if (lipsc_report_is_built() && lipsc_report_write(1, &run, page, &err))
        code = cli_failure(r->self, "%s", err.text);
    return code;
}

static int known_spoil(repro *r) {
    if (!r->set->spoil || r->spoiled) return CLI_RUN;
    return repro_known(r, r->set->spoil)
               ? CLI_RUN
               : cli_failure(r->self, "--spoil %s: no line has this name", r->set->spoil);
}

static int reproduce(repro *r, const char *line) {
    static const char *const fields[] = {
        "section",  "name",     "source",     "claim",      "origin",
        "measured", "holds",    "experiment", "model",      "layer",
        "map",      "mask",     "n",          "window",     "start",
        "sigma",    "released", "upper",      "radius_rms", "best_construction"};
    char run[4400];
    lipsc_error err = {.text = ""};
    json_t *all = json_object(),
           *absent = json_pack("{s:b}", "tiled", 1); /* first edition */
    int code = gather(r, all);
    if (code == CLI_RUN) code = make_folder(r->self, r->set->out);
    snprintf(run, sizeof run, "%s%s", r->set->run ? r->set->run : r->set->out,
             r->set->run ? "" : "/run.db");
    const lipsc_run_options how = {.command = r->self->name,
                                   .command_line = line,
                                   .settings = all,
                                   .absent = absent,
                                   .field_count = sizeof fields / sizeof *fields,
                                   .fields = fields};
    if (code == CLI_RUN && lipsc_run_open(run, &how, &r->run, &err))
        code = cli_failure(r->self, "%s", err.text);
    json_decref(all);
    json_decref(absent);
    if (code != CLI_RUN) return code;
    cli_interrupt_begin();
    cli_progress_begin(&r->progress, &r->set->common);
    run_claims(r);
    cli_progress_end(&r->progress);
    if (!r->status) code = known_spoil(r);
    lipsc_run_close(r->run);
    if (r->status == LIPSC_E_STOPPED) {
        cli_interrupt_done();
        return cli_failure(r->self, "interrupted; the same command continues from %s", run);
    }
    if (r->status) return cli_failure(r->self, "%s", r->err.text);
    return code == CLI_RUN ? finish(r, run) : code;
}

static int run(const cli_command *self, int argc, char **argv) {
    repro_settings s = {.out = "lipscope-reproduce", .seed = 1};
    int operands;
    char *line = cli_command_line(self, argc, argv);
    int code = cli_parse(self, argc, argv, &s, &operands);
    repro r = {.self = self,
               .set = &s,
               .threads = s.common.threads ? (int)s.common.threads : omp_get_max_threads(),
               .fits = json_array()};
    r.device = s.common.device;
    if (code == CLI_RUN) code = reproduce(&r, line);
    json_decref(r.fits);
    for (size_t k = 0; k < KEPT; k++) lipsc_model_free(r.kept[k].model);
    free(line);
    return code;
}

const cli_command cli_cmd_reproduce = {
    .name = "reproduce",
    .operands = "",
    .summary = "every experiment and theorem of the paper, as defined and as released",
    .about =
        "A table of claims around \"How Smooth Is Attention?\" (Castin, Ablin, Peyre,\n"
        "2024), each with its source: a theorem of the paper, a figure of the paper, a\n"
        "theorem proved here (docs/maths.md), a regression of our own.  Figures stand\n"
        "there as defined, with the exact sigma, and as released, with what the published\n"
        "scripts return in its place.  A claim whose hypotheses do not hold is not\n"
        "judged, with the reason.  Exit 1 when a theorem or a regression does not hold; a\n"
        "figure that comes out otherwise is a finding.  Where no model or text is given,\n"
        "what is built in is used.",
    .example = "  $ lipscope reproduce --quick --out quick\n"
               "  $ lipscope reproduce --quick --gpt2 gpt2 --text alice.txt --out alice\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
