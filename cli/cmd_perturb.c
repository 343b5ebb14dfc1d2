/* cmd_perturb.c - lipscope perturb: what changes of finite size do, beside sigma. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "interrupt.h"
#include "perturb_table.h"
#include "progress.h"
#include "source.h"
#include "words.h"

typedef struct {
    cli_common common;
    lipsc_source_options source;
    cli_sizes layers;
    size_t length, window, tokens, neighbours;
    double noise;
    int rows, no_bounds, part;
    uint64_t seed;
    const char *out;
    char *line; /* as typed */
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Where"},
    CLI_SOURCE_OPTIONS(settings),
    OPTION(SIZE, "length", "N", length, .min = 2, .max = 1e6,
           .help = "tokens of the window (default 32)"),
    CLI_WINDOW_OPTION(settings),
    OPTION(SIZES, "layers", "LIST", layers, .min = 0, .max = 1e8,
           .help = "for instance 0,3,7 or 0:11 (default all)"),
    CLI_PART_OPTION(settings),
    {.kind = CLI_GROUP, .name = "Changes"},
    OPTION(SIZE, "tokens", "K", tokens, .min = 1, .max = 1e6,
           .help =
               "tokens that are swapped, left out and written twice, one at a time, spread "
               "over the window (default 4)"),
    OPTION(SIZE, "neighbours", "K", neighbours, .min = 1, .max = 1e4,
           .help = "nearest tokens that each is swapped for (default 2)"),
    OPTION(REAL, "noise", "S", noise,
           .wanted = "a size relative to the input, such as 0.01", .min = 1e-12, .max = 1e3,
           .help =
               "one size of noise, relative to the input (default 0.001, 0.01 and 0.1)"),
    OPTION(FLAG, "no-bounds", NULL, no_bounds,
           .help = "without the proved bounds, which cost most in long windows"),
    OPTION(SEED, "seed", "N", seed, .help = "of the noise (default 1)"),
    CLI_THREADS_OPTION(settings),
    OPTION(TEXT, "out", "FILE", out, .letter = 'o',
           .help = "a page with all rows, and a chart of ratios against steps"),
    OPTION(
        FLAG, "rows", NULL, rows,
        .help =
            "every change in a row of its own, not a line for each layer; always so in tsv "
            "and json"),
    CLI_OUTPUT_OPTIONS(settings),
};

/* ---- Rows -------------------------------------------------------------------------- */

static const lipsc_column row_columns[] = {
    {"change", LIPSC_COLUMN_STRING}, {"layer", LIPSC_COLUMN_INTEGER},
    {"token", LIPSC_COLUMN_INTEGER}, {"from", LIPSC_COLUMN_STRING},
    {"to", LIPSC_COLUMN_STRING},     {"step", LIPSC_COLUMN_REAL},
    {"ratio", LIPSC_COLUMN_REAL},    {"first_order", LIPSC_COLUMN_REAL},
    {"sigma", LIPSC_COLUMN_REAL},    {"upper", LIPSC_COLUMN_REAL},
    {"others", LIPSC_COLUMN_REAL},   {"logits", LIPSC_COLUMN_REAL}};

static void fill_row(lipsc_table *t, const lipsc_perturbed *r,
                     const lipsc_tokenizer *tokenizer) {
    char word[CLI_WORD];
    lipsc_table_row(t);
    lipsc_table_string(t, "change", lipsc_change_name(r->change));
    if (r->layer != SIZE_MAX) lipsc_table_integer(t, "layer", (long long)r->layer);
    if (r->token != SIZE_MAX) {
        lipsc_table_integer(t, "token", (long long)r->token);
        cli_word(tokenizer, r->from, word);
        lipsc_table_string(t, "from", word);
    }
    if (r->change == LIPSC_CHANGE_SWAP) {
        cli_word(tokenizer, r->to, word);
        lipsc_table_string(t, "to", word);
    }
    lipsc_table_real(t, "step", r->step);
    lipsc_table_real(t, "ratio", r->ratio);
    lipsc_table_real(t, "first_order", r->first);
    lipsc_table_real(t, "sigma", r->sigma);
    lipsc_table_real(t, "upper", r->upper);
    lipsc_table_real(t, "others", r->others);
    lipsc_table_real(t, "logits", r->logits);
}

static int print_rows(const cli_command *self, const settings *s,
                      const lipsc_perturbation_rows *rows,
                      const lipsc_tokenizer *tokenizer) {
    lipsc_error err;
    lipsc_table *t =
        lipsc_table_new(self->name, (lipsc_format)s->common.format, LIPSC_LAYOUT_WIDE,
                        stdout, sizeof row_columns / sizeof *row_columns, row_columns);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    for (size_t i = 0; i < rows->count; i++) fill_row(t, &rows->at[i], tokenizer);
    const int code =
        lipsc_table_end(t, &err) ? cli_failure(self, "%s", err.text) : CLI_DONE;
    lipsc_table_free(t);
    return code;
}

static int write_page(const cli_command *self, const settings *s,
                      const lipsc_perturbation_rows *rows, const lipsc_perturbed_of *of) {
    lipsc_error err;
    if (lipsc_report_perturbed(rows, of, s->out, &err))
        return cli_failure(self, "%s", err.text);
    if (!s->common.quiet) cli_note(self, "wrote %s", s->out);
    return CLI_DONE;
}

/* ---- The command -------------------------------------------------------------------- */

typedef struct {
    const cli_command *self;
    cli_progress line;
} watcher;

static void tell(void *ctx, size_t done, size_t total) {
    watcher *w = ctx;
    cli_progress_part(&w->line, w->self, "changes", done, total);
}

static int work(const cli_command *self, const char *spec, const settings *s,
                lipsc_model *model, const lipsc_source *source, lipsc_device *device) {
    const lipsc_model_info *info = lipsc_model_describe(model);
    lipsc_error wrong;
    const lipsc_status fits = lipsc_window_check(spec, info, &s->source, source, s->length,
                                                 s->length, s->window, &wrong);
    if (fits)
        return (fits == LIPSC_E_ARG ? cli_wrong_use : cli_failure)(self, "%s", wrong.text);
    uint32_t *ids = calloc(s->length, sizeof *ids);
    if (!ids) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    const size_t start = lipsc_window_start(&s->source, s->length, s->length, s->window);
    for (size_t i = 0; i < s->length; i++)
        ids[i] = lipsc_window_id(source, start, s->length, i);

    lipsc_perturb_settings set;
    lipsc_perturb_defaults(&set);
    set.device = device;
    set.tokens = s->tokens;
    set.neighbours = s->neighbours;
    set.bounds = !s->no_bounds;
    set.seed = s->seed;
    watcher w = {.self = self};
    set.stop = cli_interrupted;
    set.progress = tell;
    set.ctx = &w;
    if (s->layers.count) {
        set.layers = s->layers.items;
        set.layer_count = s->layers.count;
    }
    if (s->noise > 0) {
        set.noise = &s->noise;
        set.noise_count = 1;
    }
    lipsc_perturbation_rows rows;
    lipsc_error err = {.text = ""};
    cli_interrupt_begin();
    cli_progress_begin(&w.line, &s->common);
    const lipsc_status status = lipsc_perturb(model, s->length, ids, &set, &rows, &err);
    cli_progress_end(&w.line);
    cli_interrupt_end();
    free(ids);
    if (status)
        return cli_failure(self, "%s: %s", spec,
                           *err.text ? err.text : lipsc_strerror(status));

    lipsc_tokenizer *tokenizer = cli_words_open(&s->source, spec);
    int code = CLI_DONE;
    if (s->rows || s->common.format != LIPSC_FORMAT_TABLE) {
        code = print_rows(self, s, &rows, tokenizer);
    } else {
        if (perturb_table(&rows, s->noise > 0 ? s->noise : 1e-3, tokenizer))
            code = cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    }
    if (s->out && code == CLI_DONE)
        code = write_page(self, s, &rows,
                          &(lipsc_perturbed_of){.model = spec,
                                                .model_hash = info->hash,
                                                .text_hash = source->hash,
                                                .command_line = s->line,
                                                .tokenizer = tokenizer,
                                                .n = s->length,
                                                .seed = s->seed});
    lipsc_tokenizer_free(tokenizer);
    lipsc_perturbation_free(&rows);
    return code;
}

static int perturb(const cli_command *self, const char *spec, const settings *s) {
    lipsc_model *model = NULL;
    lipsc_device *device = s->common.device;
    lipsc_source source = {0};
    lipsc_error err;
    int code = CLI_FAILED;
    lipsc_status status =
        lipsc_model_open_part(spec, (lipsc_part)s->part, s->seed, &model, &err);
    if (!status)
        status =
            lipsc_source_read(&s->source, spec, lipsc_model_describe(model), &source, &err);
    if (status) {
        code = cli_failure(self, "%s", err.text);
    } else {
        if (!s->common.quiet) cli_source_say(self, &source);
        code = work(self, spec, s, model, &source, device);
        lipsc_source_free(&source);
    }
    lipsc_model_free(model);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.seed = 1, .length = 32, .tokens = 4, .neighbours = 2};
    s.line = cli_command_line(self, argc, argv); /* parsing moves the words */
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN) code = cli_source_check(self, &s.source);
    if (code == CLI_RUN && s.source.pixels)
        code =
            cli_wrong_use(self, "an image has no tokens to change: give --text or --ids");
    if (code == CLI_RUN && !s.source.text + !s.source.ids != 1)
        code = cli_wrong_use(self, "give one of --text and --ids");
    if (code == CLI_RUN) code = perturb(self, argv[0], &s);
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
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
