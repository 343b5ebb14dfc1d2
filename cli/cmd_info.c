/* cmd_info.c - lipscope info: what is in a checkpoint. */
#include <stdlib.h>
#include <string.h>

#include "args.h"
#include "screen.h"

typedef struct {
    cli_common common;
    int tensors;
    int part;
    uint64_t seed;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Options"},
    OPTION(FLAG, "tensors", NULL, tensors, .help = "a row for every tensor that is stored"),
    CLI_PART_OPTION(settings),
    OPTION(SEED, "seed", "N", seed,
           .help = "seed of random models, which enters their hash (default 1)"),
    CLI_OUTPUT_OPTIONS(settings),
};

/* t NULL: memory was short. */
static int finish(const cli_command *self, lipsc_table *t) {
    lipsc_error err;
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    const lipsc_status status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

/* ---- Tensors ----------------------------------------------------------------------- */

static int one_file(const lipsc_stored_rows *rows) {
    for (size_t i = 1; i < rows->count; i++)
        if (strcmp(rows->at[i].file, rows->at[0].file)) return 0;
    return rows->count > 0;
}

/* A file that holds them all is named once. */
static int show_tensors(const cli_command *self, const lipsc_stored_rows *rows) {
    static const cli_grid_column shown[] = {{"tensor", CLI_LEFT},
                                            {"dtype", CLI_LEFT},
                                            {"shape", CLI_LEFT},
                                            {"size", CLI_RIGHT},
                                            {"file", CLI_LEFT}};
    const cli_screen screen = cli_screen_open();
    const int one = one_file(rows);
    cli_grid *g = cli_grid_new(sizeof shown / sizeof *shown - (one ? 1 : 0), shown);
    char size[CLI_NUMBER];
    if (one) cli_say(&screen, "%s: %zu tensors\n", rows->at[0].file, rows->count);
    if (one) putchar('\n');
    for (size_t i = 0; i < rows->count; i++) {
        const lipsc_stored_row *row = &rows->at[i];
        cli_grid_text(g, "%s", row->tensor);
        cli_grid_text(g, "%s", row->dtype);
        cli_grid_text(g, "%s", row->shape);
        cli_grid_text(g, "%s", cli_bytes((double)row->bytes, size));
        if (!one) cli_grid_text(g, "%s", row->file);
    }
    const lipsc_status status = cli_grid_print(&screen, g, 1);
    cli_grid_free(g);
    return status ? cli_failure(self, "%s", lipsc_strerror(status)) : CLI_DONE;
}

static int list_tensors(const cli_command *self, const settings *s, const char *spec) {
    enum { MOST = 8 };
    const lipsc_format format = (lipsc_format)s->common.format;
    lipsc_column columns[MOST];
    lipsc_stored_rows rows;
    lipsc_error err;
    int code;
    if (lipsc_stored_read_all(spec, &rows, &err)) {
        code = cli_failure(self, "%s", err.text);
    } else if (format == LIPSC_FORMAT_TABLE) {
        code = show_tensors(self, &rows);
    } else {
        const size_t count = lipsc_table_columns(lipsc_stored_fields(), 0, format, columns);
        lipsc_table *t =
            lipsc_table_new(self->name, format, LIPSC_LAYOUT_WIDE, stdout, count, columns);
        for (size_t i = 0; t && i < rows.count; i++)
            lipsc_table_record(t, lipsc_stored_fields(), &rows.at[i]);
        code = finish(self, t);
    }
    lipsc_stored_rows_free(&rows);
    return code;
}

/* ---- The model --------------------------------------------------------------------- */

static const lipsc_column columns[] = {
    {"model", LIPSC_COLUMN_STRING},      {"architecture", LIPSC_COLUMN_STRING},
    {"layers", LIPSC_COLUMN_INTEGER},    {"layers_stored", LIPSC_COLUMN_STRING},
    {"d", LIPSC_COLUMN_INTEGER},         {"heads", LIPSC_COLUMN_INTEGER},
    {"kv_heads", LIPSC_COLUMN_INTEGER},  {"head_dim", LIPSC_COLUMN_INTEGER},
    {"ffn", LIPSC_COLUMN_INTEGER},       {"vocab", LIPSC_COLUMN_INTEGER},
    {"positions", LIPSC_COLUMN_INTEGER}, {"norm", LIPSC_COLUMN_STRING},
    {"mask", LIPSC_COLUMN_STRING},       {"sliding", LIPSC_COLUMN_INTEGER},
    {"input", LIPSC_COLUMN_STRING},      {"parameters", LIPSC_COLUMN_INTEGER},
    {"stored", LIPSC_COLUMN_STRING},     {"memory", LIPSC_COLUMN_INTEGER},
    {"model_hash", LIPSC_COLUMN_STRING}};

/* Bytes that `measure` takes by default at windows of 512 tokens, or of as many as the
 * model has positions for. */
static double sweep_memory(const lipsc_model *model, const lipsc_model_info *info) {
    enum { TOKENS = 512, WINDOWS = 10 };
    const size_t n = info->positions && info->positions < TOKENS ? info->positions : TOKENS;
    return lipsc_study_bytes(model, LIPSC_MAP_ATTENTION, LIPSC_F32, NULL, n, 2.0 * WINDOWS);
}

/* "0:5", or "0,6" where some are missing, "none"; NULL when memory is short. */
static char *stored_layers(const lipsc_model *model, size_t layers) {
    const size_t room =
        48 * (layers + 1); /* two numbers for each layer are more than enough */
    char *text = malloc(room);
    size_t used = 0;
    if (!text) return NULL;
    snprintf(text, room, "none");
    for (size_t first = 0, next; first < layers; first = next) {
        next = first + 1;
        if (!lipsc_model_has_layer(model, first)) continue;
        while (next < layers && lipsc_model_has_layer(model, next)) next++;
        used += (size_t)snprintf(text + used, room - used, "%s%zu", used ? "," : "", first);
        if (next - first > 1)
            used += (size_t)snprintf(text + used, room - used, ":%zu", next - 1);
    }
    return text;
}

/* "3.16 million" */
static const char *many(double count, char text[CLI_NUMBER]) {
    static const char *const names[] = {"", " thousand", " million", " billion",
                                        " trillion"};
    char digits[CLI_NUMBER];
    size_t unit = 0;
    while (count >= 999.5 && unit + 1 < sizeof names / sizeof *names)
        count /= 1000.0, unit++;
    snprintf(text, CLI_NUMBER, "%.19s%s", cli_digits(count, 3, digits), names[unit]);
    return text;
}

/* Large numbers: for people in words. */
static void fill_large(lipsc_table *t, const char *name, double value, int people,
                       const char *words) {
    if (people)
        lipsc_table_string(t, name, words);
    else
        lipsc_table_integer(t, name, (long long)value);
}

static void fill(lipsc_table *t, const char *spec, const lipsc_model *model, int people) {
    char words[CLI_NUMBER];
    const lipsc_model_info *info = lipsc_model_describe(model);
    char *stored = stored_layers(model, info->layers);
    lipsc_table_row(t);
    lipsc_table_string(t, "model", spec);
    lipsc_table_string(t, "architecture", info->architecture);
    lipsc_table_integer(t, "layers", (long long)info->layers);
    lipsc_table_string(t, "layers_stored", stored);
    lipsc_table_integer(t, "d", (long long)info->d);
    lipsc_table_integer(t, "heads", (long long)info->heads);
    lipsc_table_integer(t, "kv_heads", (long long)info->kv_heads);
    lipsc_table_integer(t, "head_dim", (long long)info->head_dim);
    lipsc_table_integer(t, "ffn", (long long)info->ffn);
    if (!info->has_pixels) lipsc_table_integer(t, "vocab", (long long)info->vocab);
    if (info->positions) lipsc_table_integer(t, "positions", (long long)info->positions);
    lipsc_table_string(t, "norm", info->pre_norm ? "pre" : "post");
    lipsc_table_string(t, "mask", lipsc_mask_name(info->mask));
    if (info->mask == LIPSC_MASK_SLIDING || info->mask == LIPSC_MASK_LOCAL)
        lipsc_table_integer(t, "sliding", (long long)info->window);
    lipsc_table_string(t, "input",
                       !info->has_embeddings ? "none"
                       : info->has_pixels    ? "pixels"
                                             : "text");
    fill_large(t, "parameters", (double)info->parameters, people,
               many((double)info->parameters, words));
    lipsc_table_string(t, "stored", info->stored);
    const double memory = sweep_memory(model, info);
    fill_large(t, "memory", memory, people, cli_bytes(memory, words));
    lipsc_table_string(t, "model_hash", info->hash);
    free(stored);
}

static int describe(const cli_command *self, const settings *s, const char *spec) {
    lipsc_model *model;
    lipsc_error err;
    if (lipsc_model_open_part(spec, (lipsc_part)s->part, s->seed, &model, &err))
        return cli_failure(self, "%s", err.text);
    enum { COUNT = sizeof columns / sizeof *columns };
    const int people = s->common.format == LIPSC_FORMAT_TABLE;
    lipsc_column kinds[COUNT];
    memcpy(kinds, columns, sizeof kinds);
    for (size_t i = 0; people && i < COUNT; i++)
        if (!strcmp(kinds[i].name, "parameters") || !strcmp(kinds[i].name, "memory"))
            kinds[i].kind = LIPSC_COLUMN_STRING;
    lipsc_table *t = lipsc_table_new(self->name, (lipsc_format)s->common.format,
                                     LIPSC_LAYOUT_UPRIGHT, stdout, COUNT, kinds);
    if (t) fill(t, spec, model, people);
    const int code = finish(self, t);
    lipsc_model_free(model);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.seed = 1};
    int operands;
    const int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    return s.tensors || lipsc_stored_alone(argv[0]) ? list_tensors(self, &s, argv[0])
                                                    : describe(self, &s, argv[0]);
}

const cli_command cli_cmd_info = {
    .name = "info",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "what is in a checkpoint",
    .about =
        "Architecture, sizes and hash of a model, or with --tensors its tensors.  MODEL\n"
        "is a Hugging Face folder, a GGUF file, random:FAMILY or random:DIR; of a\n"
        "safetensors file the tensors are listed.",
    .example = "  $ lipscope info gpt2/\n"
               "  $ lipscope info gpt2/ --tensors\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
