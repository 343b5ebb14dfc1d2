/* cmd_reproduce.c - lipscope reproduce: every claim of the table, computed and judged. */
#define _POSIX_C_SOURCE 200809L
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "interrupt.h"
#include "reproduce.h"
#include "teller.h"

#define OPTION(...) CLI_OPTION(reproduce_settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Models and texts"},
    OPTION(TEXT, "bert", "DIR", bert,
           .help = "a pretrained encoder (default: a small random BERT)"),
    OPTION(TEXT, "gpt2", "DIR", gpt2,
           .help = "a pretrained GPT-2; one that holds the attention of some layers only "
                   "serves the adversarial inputs (default: the built-in gpt2-nano)"),
    OPTION(TEXTS, "text", "FILE", texts,
           .help = "a text; may be repeated for further texts (default: the built-in one)"),

    {.kind = CLI_GROUP, .name = "Where and how"},
    OPTION(TEXT, "out", "DIR", out,
           .help = "folder for tables, report and run file (default lipscope-reproduce)"),
    OPTION(TEXT, "run", "FILE", run,
           .help = "the run file (default run.db in that folder); the same command goes on "
                   "from there"),
    OPTION(FLAG, "quick", NULL, quick,
           .help = "few lengths, windows and random layers: shows that everything runs, "
                   "draws no conclusions"),
    OPTION(
        CHOICE, "only", "PART", only,
        .wanted = "all|split|basics|bounds|lemmas|worst|mean-field|regimes|layers|released|"
                  "text|adversarial",
        .help =
            "compute one part: split, basics, bounds, lemmas, worst, mean-field, regimes, "
            "layers, released, text or adversarial (default all); the table shows all "
            "that the "
            "run file has"),
    OPTION(SEED, "seed", "N", seed,
           .help = "seed of start vectors, random layers, random models and resampling "
                   "(default 1)"),
    CLI_THREADS_OPTION(reproduce_settings),
    OPTION(TEXT, "spoil", "NAME", spoil,
           .help = "a self-test: the promise of that line is made 1000 times stronger, so "
                   "that it must come out as `no`"),
    CLI_OUTPUT_OPTIONS(reproduce_settings),
};

/* The folder, made where it is missing; its parent must be there. */
static int make_folder(const cli_command *self, const char *path) {
    struct stat info;
    if (!mkdir(path, 0777)) return CLI_RUN;
    const int why = errno;
    if (!stat(path, &info) && S_ISDIR(info.st_mode)) return CLI_RUN;
    return cli_failure(self, "%s: cannot make this folder: %s", path,
                       why == EEXIST ? "a file of that name is there" : strerror(why));
}

/* ---- What is said meanwhile ---------------------------------------------------------- */

static void say_part(void *ctx, const char *title) {
    const cli_teller *t = ctx;
    if (!t->common->quiet) fprintf(stderr, "%s\n", title);
}

static void say_doing(void *ctx, const char *what) {
    cli_teller *t = ctx;
    if (what)
        cli_progress_say(&t->progress, "%s", what);
    else
        cli_progress_end(&t->progress);
}

static void say_sweep(void *ctx, lipsc_study *study) {
    const cli_teller *t = ctx;
    cli_teller_plan(t, study, t->common->device);
}

/* ---- Together ------------------------------------------------------------------------ */

static lipsc_claims_settings ask(const cli_command *self, const reproduce_settings *s,
                                 const char *run, const char *line, cli_teller *teller) {
    lipsc_claims_settings set;
    lipsc_study_settings told = {.model = NULL};
    lipsc_claims_defaults(&set);
    cli_teller_begin(teller, self, &s->common, &told);
    set.bert = s->bert;
    set.gpt2 = s->gpt2;
    set.texts = (lipsc_claim_texts){s->texts.count, s->texts.items};
    set.quick = s->quick;
    set.only = s->only - 1;
    set.seed = s->seed;
    set.spoil = s->spoil;
    set.device = s->common.device;
    set.run_file = run;
    set.command_line = line;
    set.stop = told.stop;
    set.progress = told.progress;
    set.remark = told.remark;
    set.part = say_part;
    set.doing = say_doing;
    set.sweep = say_sweep;
    set.ctx = told.ctx;
    return set;
}

static int finish(const cli_command *self, const reproduce_settings *s, const char *run,
                  const lipsc_claims *found) {
    char page[4400];
    lipsc_error err;
    int code = reproduce_print(self, s, found);
    snprintf(page, sizeof page, "%s/report.html", s->out);
    if (lipsc_report_is_built() && lipsc_report_write(1, &run, page, &err))
        code = cli_failure(self, "%s", err.text);
    return code;
}

static int reproduce(const cli_command *self, const reproduce_settings *s,
                     const char *line) {
    char run[4400];
    cli_teller teller;
    lipsc_claims found;
    lipsc_error err;
    snprintf(run, sizeof run, "%s%s", s->run ? s->run : s->out, s->run ? "" : "/run.db");
    const lipsc_claims_settings set = ask(self, s, run, line, &teller);
    cli_interrupt_begin();
    const lipsc_status status = lipsc_claims_run(&set, &found, &err);
    cli_teller_end(&teller);
    int code;
    if (status == LIPSC_E_STOPPED) {
        cli_interrupt_done();
        code = cli_failure(self, "interrupted; the same command continues from %s", run);
    } else {
        code = status ? cli_failure(self, "%s", err.text) : finish(self, s, run, &found);
    }
    lipsc_claims_free(&found);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    reproduce_settings s = {.out = "lipscope-reproduce", .seed = 1};
    int operands;
    char *line = cli_command_line(self, argc, argv);
    int code = cli_parse(self, argc, argv, &s, &operands);
    for (size_t t = 0; t < s.texts.count && code == CLI_RUN; t++)
        if (!strcmp(s.texts.items[t], "-"))
            code = cli_wrong_use(self, "a text that is read several times cannot come from "
                                       "standard input");
    if (code == CLI_RUN) code = make_folder(self, s.out);
    if (code == CLI_RUN) {
        code = reproduce(self, &s, line);
        if (code == CLI_FAILED) rmdir(s.out); /* where nothing came into it */
    }
    free(line);
    return code;
}

const cli_command cli_cmd_reproduce = {
    .name = "reproduce",
    .operands = "",
    .summary = "every experiment and theorem of the paper, checked",
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
