/* cmd_push.c - lipscope push: the image of a measure under attention. */
#include "gauss.h"
#include "progress.h"
#include "push_table.h"

typedef struct {
    layer_settings from; /* first: see layer_source.h */
    int merge;
    const char *out;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    LAYER_SOURCE_OPTIONS,
    {.kind = CLI_GROUP, .name = "Input and image"},
    MEASURE_NORMALISE_OPTION,
    OPTION(FLAG, "merge", NULL, merge,
           .help = "atoms of the image that are equal become one"),
    MEASURE_SAMPLES_OPTION,
    OPTION(TEXT, "out", "FILE", out, .letter = 'o', .help = "the image, as safetensors"),
    CLI_OUTPUT_OPTIONS(layer_settings),
};

/* The image, equal atoms as one where that is asked for. */
static lipsc_status push(const settings *s, const layer_source *from, lipsc_cloud *image,
                         lipsc_error *err) {
    lipsc_cloud merged;
    lipsc_status status = lipsc_measure_push(&from->layer, &from->mu.measure,
                                             s->from.common.device, image, err);
    if (status || !s->merge) return status;
    status = lipsc_measure_merge(&image->measure, &merged, NULL, err);
    lipsc_cloud_free(image);
    if (!status) *image = merged;
    return status;
}

static int act(const cli_command *self, const settings *s, const char *path,
               const layer_source *from) {
    const double started = cli_seconds();
    gauss_rate rate;
    lipsc_cloud image;
    lipsc_error err = {.text = ""};
    const lipsc_status status = push(s, from, &image, &err);
    if (status)
        return cli_failure(self, "%s: %s", path,
                           *err.text ? err.text : lipsc_strerror(status));
    int code = lipsc_measure_file_write(s->out, &image.measure, &err)
                   ? cli_failure(self, "%s", err.text)
                   : CLI_RUN;
    const double seconds = cli_seconds() - started;
    const int sampled = s->from.samples > 0;
    if (code == CLI_RUN && sampled)
        code = gauss_rate_of(self, from, path, s->from.seed, &rate);
    if (code == CLI_RUN)
        code = push_print(self, &s->from.common, from, &image.measure, s->out, seconds,
                          sampled ? &rate : NULL);
    lipsc_cloud_free(&image);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.from = LAYER_SETTINGS_DEFAULT};
    layer_source from;
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    if (!s.out) return cli_wrong_use(self, "give the file to write with -o FILE");
    if (!s.from.samples && lipsc_gauss_file_recognised(argv[0]))
        return gauss_act(self, &s.from, argv[0], s.out);
    code = layer_source_open_measure(self, &s.from, argv[0], &from);
    if (code == CLI_RUN) code = act(self, &s, argv[0], &from);
    layer_source_close(&from);
    return code;
}

const cli_command cli_cmd_push = {
    .name = "push",
    .operands = "MEASURE",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "the image of a measure under attention",
    .about =
        "Every atom goes to its output and keeps its weight and its time.  With times\n"
        "an atom sees those whose time is not later: the masked mean field.  MEASURE is\n"
        "a safetensors file (points, and optionally weights that sum to 1 and times in\n"
        "[0,1]), a .npy array or a CSV table of points; or a Gaussian (mean, cov), whose\n"
        "image is one again, or a mixture (mix), which is sampled.  `exponent` is the\n"
        "observed rate at which samples approach the limit.",
    .example = "  $ lipscope push mu.safetensors --layer layer.safetensors -o image.st\n",
    CLI_TABLE(options),
    .run = run,
};
