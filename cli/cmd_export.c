/* cmd_export.c - lipscope export: one layer of a model with its input, as a layer file. */
#include "args.h"
#include "attn/attn.h"
#include "layer_save.h"
#include "model/model.h"
#include "names.h"
#include "window.h"

typedef struct {
    cli_common common;
    cli_source_options source;
    size_t layer, length, window;
    int map, part;
    uint64_t seed;
    const char *out;
} settings;

#define AT(member) .offset = offsetof(settings, member)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Where"},
    CLI_ONE_LAYER_OPTIONS(settings),
    CLI_SOURCE_OPTIONS(settings),
    {.kind = CLI_SIZE,
     .name = "length",
     .value = "N",
     .min = 1,
     .max = 1e8,
     AT(length),
     .help = "tokens of the window (needed with --text)"},
    {.kind = CLI_SIZE, .name = "lengths", .min = 1, .max = 1e8, AT(length)},
    CLI_WINDOW_OPTION(settings),
    CLI_MAP_OPTION(settings),
    CLI_PART_OPTION(settings),
    {.kind = CLI_SEED,
     .name = "seed",
     .value = "N",
     AT(seed),
     .help = "seed of random models (default 1)"},
    CLI_THREADS_OPTION(settings),
    {.kind = CLI_GROUP, .name = "Output"},
    {.kind = CLI_TEXT,
     .letter = 'o',
     .name = "out",
     .value = "FILE",
     AT(out),
     .help = "the layer file"},
    {.kind = CLI_FLAG,
     .letter = 'q',
     .name = "quiet",
     .offset = offsetof(settings, common.quiet),
     .help = "no remark about how to read the file"},
};

static cli_window window_of(const settings *s, const cli_source *source) {
    const size_t n = s->length ? s->length : cli_window_whole(source);
    return (cli_window){n, n, s->window};
}

static int check_window(const cli_command *self, const char *spec, const settings *s,
                        const lipsc_model_info *info, const cli_source *source) {
    const cli_window window = window_of(s, source);
    if (s->layer >= info->layers)
        return cli_failure(self, "%s: --layer %zu: the model has layers 0 to %zu", spec,
                           s->layer, info->layers - 1);
    return cli_window_check(self, spec, info, &s->source, source, &window);
}

static size_t start_of(const settings *s, const cli_source *source) {
    const cli_window window = window_of(s, source);
    return cli_window_start(&s->source, window.longest, window.n, window.w);
}

/* The window run through the model up to the layer, in double. */
static lipsc_status window_acts(const settings *s, lipsc_model *model,
                                const cli_source *source, lipsc_acts **acts,
                                lipsc_error *err) {
    return cli_window_acts(source, start_of(s, source), window_of(s, source).n, model,
                           LIPSC_F64, s->common.threads ? (int)s->common.threads : 1,
                           s->layer, acts, err);
}

static int write_layer(const cli_command *self, const char *spec, const settings *s,
                       lipsc_model *model, const cli_source *source,
                       const lipsc_acts *acts) {
    lipsc_layer raw, layer;
    lipsc_error err;
    cli_save_room room = {.ids = NULL};
    const lipsc_map_kind map = s->map ? LIPSC_MAP_ATTENTION : LIPSC_MAP_HEADS;
    if (lipsc_model_layer(model, s->layer, -1, map, NULL, &raw, &err) ||
        lipsc_layer_check(&raw, &layer, &err))
        return cli_failure(self, "%s", err.text);
    const lipsc_input input = {.n = lipsc_acts_length(acts),
                               .X = lipsc_acts_attention_input(acts, s->layer)};
    lipsc_layer_record record = lipsc_layer_record_of(&layer, &input);
    cli_save_model(&record, spec, lipsc_model_describe(model), s->layer, -1, &room);
    lipsc_status status =
        cli_save_window(&record, source, start_of(s, source), &room, &err);
    if (!status) status = lipsc_layer_write(s->out, &record, &err);
    cli_save_free(&room);
    if (status) return cli_failure(self, "%s", err.text);
    if (!s->common.quiet) cli_save_say(self, s->out);
    return CLI_DONE;
}

static int export(const cli_command *self, const char *spec, const settings *s) {
    lipsc_model *model = NULL;
    cli_source source = {0};
    lipsc_acts *acts = NULL;
    lipsc_error err;
    lipsc_status status =
        lipsc_model_open_part(spec, (lipsc_part)s->part, s->seed, &model, &err);
    if (!status)
        status =
            cli_source_read(&s->source, spec, lipsc_model_describe(model), &source, &err);
    if (!status && !s->common.quiet) cli_source_say(self, spec, &s->source, &source);
    int code = status ? cli_failure(self, "%s", err.text)
                      : check_window(self, spec, s, lipsc_model_describe(model), &source);
    if (code == CLI_RUN && window_acts(s, model, &source, &acts, &err))
        code = cli_failure(self, "%s", err.text);
    if (code == CLI_RUN) code = write_layer(self, spec, s, model, &source, acts);
    lipsc_acts_free(acts);
    cli_source_free(&source);
    lipsc_model_free(model);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.map = 1, .seed = 1};
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN) code = cli_source_check(self, &s.source);
    if (code != CLI_RUN) return code;
    if (!!s.source.text + !!s.source.ids + !!s.source.pixels != 1)
        return cli_wrong_use(self, "give one of --text, --ids and --pixels");
    if (s.source.text && !s.length) return cli_wrong_use(self, "give --length N");
    if (!s.out) return cli_wrong_use(self, "give the file to write with -o FILE");
    return export(self, argv[0], &s);
}

const cli_command cli_cmd_export = {
    .name = "export",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "one layer of a model with its input, as a layer file",
    .about =
        "Writes the attention weights of one layer and its input on a window of a text\n"
        "as a safetensors file that says all that the layer is: heads, mask, scale,\n"
        "rotary positions, query/key norms.  `layer`, `bounds`, `attack` and the like\n"
        "read it without options.",
    .example = "  $ lipscope export gpt2/ --layer 3 --text alice.txt --length 64 -o l3.st\n"
               "  $ lipscope layer l3.st\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
