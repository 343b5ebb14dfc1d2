/* cmd_push.c - lipscope push: the image of a measure under attention. */
#include <math.h>
#include <stdio.h>

#include "gauss.h"
#include "layer_source.h"
#include "measure_write.h"
#include "names.h"
#include "progress.h"
#include "screen.h"

typedef struct {
    layer_settings from; /* first: see layer_source.h */
    int normalise, merge;
    size_t samples;
    const char *out;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    LAYER_SOURCE_OPTIONS,
    {.kind = CLI_GROUP, .name = "Input and image"},
    OPTION(FLAG, "normalise", NULL, normalise, .help = "divide the weights by their sum"),
    OPTION(FLAG, "merge", NULL, merge,
           .help = "atoms of the image that are equal become one"),
    OPTION(SIZE, "samples", "N", samples, .min = 1, .max = 1e8,
           .help = "of a Gaussian or a mixture: take N random tokens of it"),
    OPTION(TEXT, "out", "FILE", out, .letter = 'o', .help = "the image, as safetensors"),
    CLI_OUTPUT_OPTIONS(layer_settings),
};

static double farthest(const lipsc_measure *mu) {
    double largest = 0.0;
    for (size_t i = 0; i < mu->n; i++) {
        double length = 0.0;
        for (size_t c = 0; c < mu->d; c++)
            length = hypot(length, mu->points[i * mu->d + c]);
        if (!(length <= largest) && !isnan(largest)) largest = length; /* a NaN stays */
    }
    return largest;
}

static int fill_rate(const cli_command *self, const settings *s, const layer_source *layer,
                     const char *path, lipsc_table *t) {
    lipsc_gauss_file file;
    int code = gauss_open(self, path, &file);
    if (code != CLI_RUN) return code;
    code = gauss_fill_rate(self, &layer->layer, &file.gauss, s->from.seed, t);
    lipsc_gauss_file_free(&file);
    return code;
}

static void say(const lipsc_measure *mu, const lipsc_measure *image) {
    const cli_screen screen = cli_screen_open();
    char before[CLI_NUMBER], after[CLI_NUMBER];
    cli_say(&screen, "%zu atom%s within %s of 0 went to %zu within %s.", mu->n,
            mu->n == 1 ? "" : "s", cli_digits_up(farthest(mu), before), image->n,
            cli_digits_up(farthest(image), after));
    putchar('\n');
}

static int print(const cli_command *self, const settings *s, const layer_source *layer,
                 const char *path, const lipsc_measure *mu, const lipsc_measure *image,
                 double seconds) {
    static const lipsc_column columns[] = {
        {"n", LIPSC_COLUMN_INTEGER},     {"d", LIPSC_COLUMN_INTEGER},
        {"atoms", LIPSC_COLUMN_INTEGER}, {"width", LIPSC_COLUMN_INTEGER},
        {"map", LIPSC_COLUMN_STRING},    {"mask", LIPSC_COLUMN_STRING},
        {"radius", LIPSC_COLUMN_REAL},   {"image_radius", LIPSC_COLUMN_REAL},
        {"image", LIPSC_COLUMN_STRING},  {"seconds", LIPSC_COLUMN_REAL},
        {"lengths", LIPSC_COLUMN_REALS}, {"errors", LIPSC_COLUMN_REALS},
        {"exponent", LIPSC_COLUMN_REAL}};
    lipsc_error err;
    lipsc_table *t = lipsc_table_new(self->name, (lipsc_format)s->from.common.format,
                                     LIPSC_LAYOUT_UPRIGHT, stdout,
                                     sizeof columns / sizeof *columns, columns);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    if (s->from.common.format == LIPSC_FORMAT_TABLE) say(mu, image);
    lipsc_table_row(t);
    lipsc_table_integer(t, "n", (long long)mu->n);
    lipsc_table_integer(t, "d", (long long)mu->d);
    lipsc_table_integer(t, "atoms", (long long)image->n);
    lipsc_table_integer(t, "width", (long long)image->d);
    lipsc_table_string(t, "map", cli_map_name(&layer->layer));
    lipsc_table_string(t, "mask",
                       lipsc_mask_name(mu->times ? LIPSC_MASK_TIMES : layer->layer.mask));
    lipsc_table_real(t, "radius", farthest(mu));
    lipsc_table_real(t, "image_radius", farthest(image));
    lipsc_table_string(t, "image", s->out);
    lipsc_table_real(t, "seconds", seconds);
    int code = s->samples ? fill_rate(self, s, layer, path, t) : CLI_RUN;
    if (code == CLI_RUN)
        code = lipsc_table_end(t, &err) ? cli_failure(self, "%s", err.text) : CLI_DONE;
    lipsc_table_free(t);
    return code;
}

static int push(const cli_command *self, const settings *s, const layer_source *layer,
                const char *path, const lipsc_measure *mu) {
    const double started = cli_seconds();
    lipsc_cloud image, merged;
    lipsc_error err = {.text = ""};
    lipsc_status status =
        lipsc_measure_push(&layer->layer, mu, s->from.common.device, &image, &err);
    if (!status && s->merge) {
        status = lipsc_measure_merge(&image.measure, &merged, NULL, &err);
        lipsc_cloud_free(&image);
        if (!status) image = merged;
    }
    if (status)
        return cli_failure(self, "%s: %s", path,
                           *err.text ? err.text : lipsc_strerror(status));
    const int code =
        cli_measure_write(s->out, &image.measure, NULL, 0, NULL, 0, &err)
            ? cli_failure(self, "%s", err.text)
            : print(self, s, layer, path, mu, &image.measure, cli_seconds() - started);
    lipsc_cloud_free(&image);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.from = LAYER_SETTINGS_DEFAULT};
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    if (!s.out) return cli_wrong_use(self, "give the file to write with -o FILE");
    if (!s.samples && lipsc_gauss_file_recognised(argv[0]))
        return gauss_act(self, &s.from, argv[0], s.out);
    lipsc_measure_file mu = {.storage = NULL};
    layer_source layer;
    code = measure_open(self, argv[0], s.normalise, s.samples, s.from.seed, &mu);
    if (code != CLI_RUN) return code;
    code = layer_source_open(self, &s.from, mu.measure.times != NULL, &layer);
    if (code == CLI_RUN) code = push(self, &s, &layer, argv[0], &mu.measure);
    layer_source_close(&layer);
    lipsc_measure_file_free(&mu);
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
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
