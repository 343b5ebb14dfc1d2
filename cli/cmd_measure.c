/* cmd_measure.c - lipscope measure: sigma of the layers of a model on windows of a text. */
#include <float.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "interrupt.h"
#include "measure.h"
#include "ranks.h"
#include "teller.h"

#define OPTION(...) CLI_OPTION(measure_settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Where"},
    CLI_SOURCE_OPTIONS(lipsc_study_settings),
    OPTION(SIZES, "lengths", "LIST", lengths, .min = 1, .max = 100000000,
           .help = "tokens of a window (default 16:128:x2, as far as it fits)"),
    OPTION(SIZES, "length", NULL, lengths, .min = 1, .max = 100000000),
    OPTION(TEXT, "windows", "N|LIST", typed.windows,
           .help =
               "the first N windows of each length, or those in a list or range such as "
               "5:9 (default 10)"),
    OPTION(TEXT, "layers", "LIST", typed.layers,
           .help = "all, a list or a range (default all)"),
    OPTION(TEXT, "layer", NULL, typed.layers, .help = NULL),
    OPTION(TEXT, "heads", "LIST", typed.heads,
           .help = "all together, each alone, or a list of heads alone (default all)"),
    OPTION(CHOICE, "map", "M", study.map,
           .wanted = "heads|attention|norm-attention|residual|block|model",
           .help =
               "what is differentiated: heads, attention, norm-attention, residual, block "
               "or model (default attention)"),
    OPTION(CHOICE, "mask", "M", mask, .wanted = "model|none|causal",
           .help = "model, none or causal (default: the model's own)"),

    {.kind = CLI_GROUP, .name = "The solve"},
    OPTION(CHOICE, "dtype", "T", dtype, .wanted = "default|f32|f64",
           .help = "precision of the products: f32 or f64 (default f32, on a GPU what "
                   "--tol needs); the value is re-evaluated in double either way"),
    OPTION(REAL, "tol", "T", study.tol, .wanted = "a positive number", .min = DBL_MIN,
           .max = DBL_MAX,
           .help = "residual to stop at (default 1e-2 in f32, 1e-8 in f64)"),
    CLI_SOLVER_OPTION(measure_settings, study.method),
    CLI_PRODUCTS_OPTION(measure_settings, study.max_products, ", for each cell"),
    CLI_PART_OPTION(lipsc_study_settings),
    OPTION(SEED, "seed", "N", study.seed,
           .help = "seed of start vectors, of resampling and of random models (default 1)"),
    CLI_THREADS_OPTION(measure_settings),

    {.kind = CLI_GROUP, .name = "What is told"},
    CLI_COUNT_OPTION(measure_settings, study.count),
    OPTION(FLAG, "upper", NULL, study.upper,
           .help = "a proved upper bound as well (maps heads and attention)"),
    CLI_CERTIFY_OPTIONS(measure_settings, study.certify, study.certify_seconds,
                        study.certify_memory),
    CLI_PROBABILITY_OPTION(measure_settings, study.probability),
    CLI_RELEASED_OPTION(measure_settings, study.as_released),
    OPTION(FLAG, "details", NULL, study.details,
           .help =
               "entropy of the attention, its sink, the token and the pair of tokens that "
               "matter most; takes several times as long"),
    OPTION(
        FLAG, "sink", NULL, study.sink,
        .help =
            "entropy of the attention, its sink, what moving the sink token alone does and "
            "what all others do while it is held fixed; three times as long"),
    OPTION(TEXT, "save-direction", "PATH", study.save_direction,
           .help =
               "write the direction that reaches each value: one file, or a folder of them "
               "when there are several cells"),
    CLI_MAX_SIGMA_OPTION(measure_settings, "any sigma"),
    OPTION(
        TEXT, "run", "FILE", study.run_file,
        .help =
            "keep every finished cell in this file; the same command goes on from there"),
    OPTION(
        TEXT, "label", "NAME", label,
        .help =
            "what this run is called in its table, on pages and by compare; kept with the "
            "command line of a new run file"),
    OPTION(TEXT, "shard", "I/K", typed.shard,
           .help =
               "only the I-th of K parts of about equal cost, each a run file of its own; "
               "`lipscope merge` joins them"),
    OPTION(FLAG, "rows", NULL, rows,
           .help =
               "every cell in a row of its own (wide), and all of the fits, not medians by "
               "layer and length; always so in tsv and json"),
    OPTION(FLAG, "timing", NULL, timing,
           .help = "say on standard error where the time went"),
    CLI_OUTPUT_OPTIONS(measure_settings),
};

/* An interrupted or failed study prints what it has as well. */
static int conclude(const cli_command *self, const measure_settings *s, lipsc_study *study,
                    lipsc_status status, const lipsc_error *err) {
    const size_t have = measure_finished(study), all = lipsc_study_count(study);
    measure_tally tally = {.above = 0};
    const unsigned parts = lipsc_study_parts(&s->study);
    int code = have || !status ? measure_print(self, s, parts, study, &tally) : CLI_DONE;
    if (status == LIPSC_E_STOPPED) {
        cli_interrupt_done();
        return s->study.run_file
                   ? cli_failure(self,
                                 "interrupted; %zu of %zu cells stored in %s; the same "
                                 "command continues",
                                 have, all, s->study.run_file)
                   : cli_failure(self, "interrupted; %zu of %zu cells finished", have, all);
    }
    if (status)
        return cli_failure(self, "%s; %zu of %zu cells finished", err->text, have, all);
    return code == CLI_DONE ? measure_verdict(self, s, s->study.model, study, &tally)
                            : code;
}

static int measure(const cli_command *self, measure_settings *s) {
    lipsc_study_settings *set = &s->study;
    cli_teller teller;
    lipsc_study *study;
    lipsc_error err = {.text = ""};
    cli_teller_begin(&teller, self, &s->common, set);
    lipsc_status status = lipsc_study_open(set, &study, &err);
    if (status && !cli_ranks_leads()) return CLI_DONE; /* rank 0 says why */
    if (status == LIPSC_E_ARG) return cli_wrong_use(self, "%s", err.text);
    if (status) return cli_failure(self, "%s", err.text);
    cli_teller_plan(&teller, study, set->device);
    cli_interrupt_begin();
    const size_t before = measure_finished(study);
    status = lipsc_study_run(study, &err);
    cli_teller_end(&teller);
    if (!cli_ranks_leads()) {
        lipsc_study_close(study);
        cli_interrupt_done();
        return CLI_DONE;
    }
    if (s->timing) measure_say_times(self, study, before, set->device);
    const int code = conclude(self, s, study, status, &err);
    lipsc_study_close(study);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    measure_settings s;
    int operands;
    measure_defaults(&s);
    char *line = cli_command_line(self, argc, argv); /* parsing moves the words */
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN) code = measure_ask(self, &s);
    if (code == CLI_RUN) {
        s.study.model = argv[0];
        s.study.command_line = line;
        s.study.rows_stay = 1; /* they are printed one by one, or medians are */
        code = measure(self, &s);
    }
    measure_settings_free(&s);
    free(line);
    return code;
}

const cli_command cli_cmd_measure = {
    .name = "measure",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "sigma of the layers on a text, and its growth with length",
    .about =
        "The largest singular value of the Jacobian of each layer of a model, at windows\n"
        "of a text: how far a small change of its input can be stretched.  MODEL is a\n"
        "Hugging Face folder, a GGUF file, a hub name that the local cache has,\n"
        "builtin:gpt2-nano, random:FAMILY or random:DIR.  With three lengths or more a\n"
        "growth law sigma ~ c n^e is fitted for each layer.",
    .example =
        "  $ lipscope measure gpt2/ --text alice.txt --lengths 16:512:x2 --run a.db\n",
    CLI_TABLE(options),
    .run = run,
    .shares = CLI_SHARES_CELLS,
};
