/* cmd_export.c - lipscope export: one layer of a model with its input, as a layer file. */
#include "source.h"

typedef struct {
    cli_common common;
    lipsc_source_options source;
    size_t layer, length, window;
    int map, part;
    uint64_t seed;
    const char *out;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Where"},
    CLI_ONE_LAYER_OPTIONS(settings),
    CLI_SOURCE_OPTIONS(settings),
    OPTION(SIZE, "length", "N", length, .min = 1, .max = 1e8,
           .help = "tokens of the window (needed with --text)"),
    OPTION(SIZE, "lengths", NULL, length, .min = 1, .max = 1e8),
    CLI_WINDOW_OPTION(settings),
    CLI_MAP_OPTION(settings),
    CLI_PART_OPTION(settings),
    OPTION(SEED, "seed", "N", seed, .help = "seed of random models (default 1)"),
    CLI_THREADS_OPTION(settings),
    {.kind = CLI_GROUP, .name = "Output"},
    OPTION(TEXT, "out", "FILE", out, .letter = 'o', .help = "the layer file"),
    OPTION(FLAG, "quiet", NULL, common.quiet, .letter = 'q',
           .help = "no remark about how to read the file"),
};

static lipsc_status open_place(const settings *s, const char *spec, lipsc_model **model,
                               lipsc_device **device, lipsc_place **place,
                               lipsc_error *err) {
    lipsc_place_options of;
    lipsc_place_defaults(&of);
    lipsc_status status =
        lipsc_model_open_part(spec, (lipsc_part)s->part, s->seed, model, err);
    *device = s->common.device;
    of.from = spec;
    of.open = *model;
    of.layer = s->layer;
    of.map = s->map ? LIPSC_MAP_ATTENTION : LIPSC_MAP_HEADS;
    of.source = s->source;
    of.length = s->length;
    of.window = s->window;
    of.device = *device;
    return status ? status : lipsc_place_open(&of, place, err);
}

static int export(const cli_command *self, const char *spec, const settings *s) {
    lipsc_model *model = NULL;
    lipsc_device *device = NULL;
    lipsc_place *place = NULL;
    lipsc_error err;
    int code = CLI_DONE;
    if (open_place(s, spec, &model, &device, &place, &err)) {
        code = cli_failure(self, "%s", err.text);
    } else {
        if (!s->common.quiet) cli_source_say(self, lipsc_place_source(place));
        const lipsc_status status = lipsc_place_export(place, s->out, &err);
        if (status == LIPSC_E_ARG)
            code = cli_wrong_use(self, "%s", err.text);
        else if (status)
            code = cli_failure(self, "%s", err.text);
        else if (!s->common.quiet)
            cli_note(self, "read it with: lipscope layer %s", s->out);
    }
    lipsc_place_close(place);
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
    CLI_TABLE(options),
    .run = run,
};
