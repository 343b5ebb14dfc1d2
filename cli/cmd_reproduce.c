/* cmd_reproduce.c - lipscope reproduce: every claim of the table, computed and judged. */
#define _POSIX_C_SOURCE 200809L
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "interrupt.h"
#include "ranks.h"
#include "reproduce.h"
#include "teller.h"

#define OPTION(...) CLI_OPTION(reproduce_settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Models and texts"},
    OPTION(TEXT, "bert", "DIR", set.bert,
           .help = "a pretrained encoder (default: a small random BERT)"),
    OPTION(TEXT, "gpt2", "DIR", set.gpt2,
           .help = "a pretrained GPT-2; one that holds the attention of some layers only "
                   "serves the adversarial inputs (default: the built-in gpt2-nano)"),
    OPTION(TEXTS, "text", "FILE", texts,
           .help = "a text; may be repeated for further texts (default: the built-in one)"),

    {.kind = CLI_GROUP, .name = "Where and how"},
    OPTION(TEXT, "out", "DIR", out,
           .help = "folder for tables, report and run file (default lipscope-reproduce)"),
    OPTION(TEXT, "run", "FILE", set.run_file,
           .help = "the run file (default run.db in that folder); the same command goes on "
                   "from there"),
    OPTION(FLAG, "quick", NULL, set.quick,
           .help = "few lengths, windows and random layers: shows that everything runs, "
                   "draws no conclusions"),
    OPTION(
        CHOICE, "only", "PART", set.only, .min = -1,
        .wanted = "all|split|basics|bounds|lemmas|worst|mean-field|regimes|layers|released|"
                  "text|adversarial",
        .help =
            "compute one part: split, basics, bounds, lemmas, worst, mean-field, regimes, "
            "layers, released, text or adversarial (default all); the table shows all "
            "that the "
            "run file has"),
    OPTION(SEED, "seed", "N", set.seed,
           .help = "seed of start vectors, random layers, random models and resampling "
                   "(default 1)"),
    CLI_THREADS_OPTION(reproduce_settings),
    OPTION(TEXT, "spoil", "NAME", set.spoil,
           .help = "a self-test: the promise of that line is made 1000 times stronger, so "
                   "that it must come out as `no`"),
    CLI_OUTPUT_OPTIONS(reproduce_settings),
};

static int reproduce(const cli_command *self, reproduce_settings *s) {
    cli_teller teller;
    lipsc_claims found;
    lipsc_error err;
    int code;
    cli_teller_claims(&teller, self, &s->common, &s->set);
    cli_interrupt_begin();
    const lipsc_status status = lipsc_claims_run(&s->set, &found, &err);
    cli_teller_end(&teller);
    if (!cli_ranks_leads() && !status) {
        code = cli_ranks_followed();
    } else if (status == LIPSC_E_STOPPED) {
        cli_interrupt_done();
        code = cli_failure(self, "interrupted; the same command continues from %s",
                           s->set.run_file);
    } else {
        code =
            status ? cli_failure(self, "%s", err.text) : reproduce_print(self, s, &found);
    }
    lipsc_claims_free(&found);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    reproduce_settings s = {.out = "lipscope-reproduce"};
    char inside[4400];
    int operands;
    char *line = cli_command_line(self, argc, argv); /* parsing moves the words */
    lipsc_claims_defaults(&s.set);
    int code = cli_parse(self, argc, argv, &s, &operands);
    for (size_t t = 0; t < s.texts.count && code == CLI_RUN; t++)
        if (!strcmp(s.texts.items[t], "-"))
            code = cli_wrong_use(self, "a text that is read several times cannot come from "
                                       "standard input");
    if (code == CLI_RUN && cli_ranks_leads()) code = reproduce_folder(self, s.out);
    if (code == CLI_RUN) {
        snprintf(inside, sizeof inside, "%s/run.db", s.out);
        if (!s.set.run_file) s.set.run_file = inside;
        s.set.texts = (lipsc_claim_texts){s.texts.count, s.texts.items};
        s.set.device = s.common.device;
        s.set.ranks = cli_ranks();
        s.set.command_line = line;
        code = reproduce(self, &s);
        if (code == CLI_FAILED && cli_ranks_leads())
            rmdir(s.out); /* where nothing came into it */
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
    CLI_TABLE(options),
    .run = run,
    .shares = CLI_SHARES_CELLS,
};
