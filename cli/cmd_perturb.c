/* cmd_perturb.c - lipscope perturb: what changes of finite size do, beside sigma. */
#include <stdlib.h>

#include "interrupt.h"
#include "perturb_table.h"
#include "progress.h"
#include "words.h"

typedef struct {
    cli_place from; /* first, for its option tables */
    lipsc_perturb_settings set;
    cli_sizes layers;
    double noise;
    int rows, no_bounds;
    const char *out;
    char *line; /* as typed */
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Where"},
    CLI_SOURCE_OPTIONS(cli_place),
    OPTION(SIZE, "length", "N", from.length, .min = 2, .max = 1e6,
           .help = "tokens of the window (default 32)"),
    CLI_WINDOW_OPTION(cli_place),
    OPTION(SIZES, "layers", "LIST", layers, .min = 0, .max = 1e8,
           .help = "for instance 0,3,7 or 0:11 (default all)"),
    CLI_PART_OPTION(cli_place),
    {.kind = CLI_GROUP, .name = "Changes"},
    OPTION(SIZE, "tokens", "K", set.tokens, .min = 1, .max = 1e6,
           .help =
               "tokens that are swapped, left out and written twice, one at a time, spread "
               "over the window (default 4)"),
    OPTION(SIZE, "neighbours", "K", set.neighbours, .min = 1, .max = 1e4,
           .help = "nearest tokens that each is swapped for (default 2)"),
    OPTION(REAL, "noise", "S", noise,
           .wanted = "a size relative to the input, such as 0.01", .min = 1e-12, .max = 1e3,
           .help =
               "one size of noise, relative to the input (default 0.001, 0.01 and 0.1)"),
    OPTION(FLAG, "no-bounds", NULL, no_bounds,
           .help = "without the proved bounds, which cost most in long windows"),
    OPTION(SEED, "seed", "N", from.seed, .help = "of the noise (default 1)"),
    CLI_THREADS_OPTION(cli_place),
    OPTION(TEXT, "out", "FILE", out, .letter = 'o',
           .help = "a page with all rows, and a chart of ratios against steps"),
    OPTION(
        FLAG, "rows", NULL, rows,
        .help =
            "every change in a row of its own, not a line for each layer; always so in tsv "
            "and json"),
    CLI_OUTPUT_OPTIONS(cli_place),
};

static lipsc_status change(const cli_command *self, settings *s, lipsc_place *place,
                           lipsc_perturbation_rows *rows, lipsc_error *err) {
    cli_progress line;
    lipsc_perturb_settings *set = &s->set;
    set->layers = s->layers.items;
    set->layer_count = s->layers.count;
    set->noise = s->noise > 0 ? &s->noise : set->noise;
    set->noise_count = s->noise > 0 ? 1 : set->noise_count;
    set->bounds = !s->no_bounds;
    set->seed = s->from.seed;
    set->stop = cli_interrupted;
    set->progress = cli_progress_part;
    set->ctx = &line;
    cli_interrupt_begin();
    cli_progress_begin_parts(&line, self, &s->from.common, "changes");
    const lipsc_status status = lipsc_place_perturb(place, set, rows, err);
    cli_progress_end(&line);
    return status;
}

static int write_page(const cli_command *self, const settings *s, const char *spec,
                      const lipsc_place *place, const lipsc_perturbation_rows *rows,
                      const lipsc_tokenizer *tokenizer) {
    const lipsc_perturbed_of of = {.model = spec,
                                   .model_hash = lipsc_place_model(place)->hash,
                                   .text_hash = lipsc_place_source(place)->hash,
                                   .command_line = s->line,
                                   .tokenizer = tokenizer,
                                   .n = s->from.length,
                                   .seed = s->from.seed};
    lipsc_error err;
    if (lipsc_report_perturbed(rows, &of, s->out, &err))
        return cli_failure(self, "%s", err.text);
    if (!s->from.common.quiet) cli_note(self, "wrote %s", s->out);
    return CLI_DONE;
}

static int perturb(const cli_command *self, const char *spec, settings *s,
                   lipsc_place *place) {
    lipsc_perturbation_rows rows;
    lipsc_error err = {.text = ""};
    const lipsc_status status = change(self, s, place, &rows, &err);
    if (status) {
        lipsc_perturbation_free(&rows);
        return cli_place_failure(self, status, &err);
    }
    lipsc_tokenizer *tokenizer = cli_words_open(&s->from.source, spec);
    int code = perturb_print(self, &s->from.common, s->rows, s->noise, &rows, tokenizer);
    if (s->out && code == CLI_DONE)
        code = write_page(self, s, spec, place, &rows, tokenizer);
    lipsc_tokenizer_free(tokenizer);
    lipsc_perturbation_free(&rows);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.from = CLI_PLACE_DEFAULT};
    lipsc_place *place = NULL;
    int operands;
    s.line = cli_command_line(self, argc, argv); /* parsing moves the words */
    s.from.length = 32;
    lipsc_perturb_defaults(&s.set);
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN && s.from.source.pixels)
        code =
            cli_wrong_use(self, "an image has no tokens to change: give --text or --ids");
    if (code == CLI_RUN && !s.from.source.text + !s.from.source.ids != 1)
        code = cli_wrong_use(self, "give one of --text and --ids");
    if (code == CLI_RUN) code = cli_place_open(self, &s.from, argv[0], 0, &place);
    if (code == CLI_RUN) code = perturb(self, argv[0], &s, place);
    lipsc_place_close(place);
    cli_sizes_free(&s.layers);
    free(s.line);
    return code;
}

const cli_command cli_cmd_perturb = {
    .name = "perturb",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "what changes of finite size do, beside sigma and the bounds",
    .about =
        "sigma speaks of small changes.  This swaps tokens for those with the nearest\n"
        "embeddings, adds noise to what a layer's attention receives, leaves tokens out\n"
        "and writes them twice, and tells how far the outputs move: the ratio of output\n"
        "to input change, what the derivative predicts, sigma, and the proved bound over\n"
        "the neighbourhood that contains the step, which no ratio exceeds.  In double.",
    .example = "  $ lipscope perturb builtin:gpt2-nano --text builtin:lighthouse\n"
               "  $ lipscope perturb gpt2/ --text alice.txt --layers 3 --rows\n"
               "  $ lipscope perturb gpt2/ --text alice.txt -o changes.html\n",
    CLI_TABLE(options),
    .run = run,
};
