/* cmd_info.c - lipscope info: what is in a checkpoint. */
#include "args.h"
#include "info_table.h"

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

static int list_tensors(const cli_command *self, const settings *s, const char *spec) {
    lipsc_stored_rows rows;
    lipsc_error err;
    const int code = lipsc_stored_read_all(spec, &rows, &err)
                         ? cli_failure(self, "%s", err.text)
                         : info_tensors_print(self, (lipsc_format)s->common.format, &rows);
    lipsc_stored_rows_free(&rows);
    return code;
}

static int describe(const cli_command *self, const settings *s, const char *spec) {
    lipsc_model *model;
    lipsc_about about;
    lipsc_error err;
    if (lipsc_model_open_part(spec, (lipsc_part)s->part, s->seed, &model, &err))
        return cli_failure(self, "%s", err.text);
    const int code = lipsc_model_about(model, spec, &about, &err)
                         ? cli_failure(self, "%s", err.text)
                         : info_model_print(self, (lipsc_format)s->common.format, &about);
    lipsc_about_free(&about);
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
        "is a Hugging Face folder, a GGUF file, a hub name that the local cache has,\n"
        "builtin:gpt2-nano, random:FAMILY or random:DIR; of a safetensors file the\n"
        "tensors are listed.",
    .example = "  $ lipscope info gpt2/\n"
               "  $ lipscope info gpt2/ --tensors\n",
    CLI_TABLE(options),
    .run = run,
};
