/* cmd_distance.c - lipscope distance: how far two measures are apart. */
#include <float.h>
#include <stdio.h>

#include "distance_table.h"
#include "gauss.h"

typedef struct {
    layer_settings from; /* first: see layer_source.h */
    lipsc_distance_settings set;
    const char *plan;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "The distance"},
    OPTION(REAL, "p", "P", set.p, .wanted = "a number from 1 to 1000", .min = 1, .max = 1e3,
           .help = "exponent of the cost |x - y|^P (default 2)"),
    OPTION(FLAG, "conditional", NULL, set.conditional,
           .help = "d_p of the masked mean field: mass stays at its time, and both "
                   "measures must have the same masses at the same times"),
    OPTION(REAL, "sinkhorn", "EPS", set.sinkhorn, .wanted = "a positive number",
           .min = DBL_MIN, .max = DBL_MAX,
           .help = "the Sinkhorn divergence instead, an approximation for large measures; "
                   "EPS is in units of the cost"),

    {.kind = CLI_GROUP, .name = "Input and plan"},
    MEASURE_NORMALISE_OPTION,
    OPTION(TEXT, "plan", "FILE", plan,
           .help = "write the plan (from, to, mass) and the potentials (f, g) as "
                   "safetensors"),
    LAYER_SOURCE_OPTIONS,
    CLI_OUTPUT_OPTIONS(layer_settings),
};

static int acts(const settings *s) { return s->from.path || s->from.model; }

/* The same distance between the images. */
static int images(const cli_command *self, const settings *s, const lipsc_measure *a,
                  const lipsc_measure *b, lipsc_ratio *out) {
    layer_source layer;
    lipsc_error err;
    int code = layer_source_open(self, &s->from, a->times && b->times, &layer);
    if (code == CLI_RUN &&
        lipsc_ratio_between(&layer.layer, a, b, &s->set, s->from.common.device, out, &err))
        code = cli_failure(self, "%s: %s", layer.name, err.text);
    layer_source_close(&layer);
    return code;
}

static int measure(const cli_command *self, const settings *s, const lipsc_measure *a,
                   const lipsc_measure *b) {
    lipsc_distance found;
    lipsc_ratio ratio;
    lipsc_error err = {.text = ""};
    const lipsc_status status = lipsc_distance_between(a, b, &s->set, &found, &err);
    if (status && status != LIPSC_E_NOCONV) return cli_failure(self, "%s", err.text);
    int code = acts(s) ? images(self, s, a, b, &ratio) : CLI_RUN;
    if (code == CLI_RUN && s->plan &&
        lipsc_distance_write(s->plan, &found, a->n, b->n, &err))
        code = cli_failure(self, "%s", err.text);
    if (code == CLI_RUN)
        code = distance_print(self, &s->from.common, a, b, &found, acts(s) ? &ratio : NULL);
    lipsc_distance_free(&found);
    if (code == CLI_DONE && status) {
        if (!s->from.common.quiet)
            fprintf(stderr, "lipscope %s: %s\n", self->name, lipsc_strerror(status));
        code = CLI_NOT_CONVERGED;
    }
    return code;
}

static int measures(const cli_command *self, const settings *s, char **path) {
    lipsc_measure_file a = {.storage = NULL}, b = {.storage = NULL};
    lipsc_error err;
    int code;
    if (lipsc_measure_file_read(path[0], s->from.normalise, &a, &err) ||
        lipsc_measure_file_read(path[1], s->from.normalise, &b, &err))
        code = cli_failure(self, "%s", err.text);
    else if (a.measure.d != b.measure.d)
        code = cli_failure(self, "%s: its points have width %zu, those of %s width %zu",
                           path[1], b.measure.d, path[0], a.measure.d);
    else
        code = measure(self, s, &a.measure, &b.measure);
    lipsc_measure_file_free(&a);
    lipsc_measure_file_free(&b);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.from = LAYER_SETTINGS_DEFAULT};
    int operands;
    lipsc_distance_defaults(&s.set);
    const int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    s.set.plan = s.plan != NULL;
    if (s.set.sinkhorn > 0 && s.plan)
        return cli_wrong_use(self, "--plan needs an exact distance, without --sinkhorn");
    if (s.set.sinkhorn > 0 && acts(&s))
        return cli_wrong_use(self, "a ratio needs exact distances, without --sinkhorn");
    if (!lipsc_gauss_file_recognised(argv[0]) || !lipsc_gauss_file_recognised(argv[1]))
        return measures(self, &s, argv);
    if (s.set.conditional || s.set.sinkhorn > 0 || s.plan || s.set.p != 2.0)
        return cli_wrong_use(self, "between Gaussians there is W_2 in closed form, nothing "
                                   "else");
    return gauss_distance(self, &s.from, argv[0], argv[1]);
}

const cli_command cli_cmd_distance = {
    .name = "distance",
    .operands = "A B",
    .min_operands = 2,
    .max_operands = 2,
    .summary = "Wasserstein distance between two measures, with its proof",
    .about =
        "W_p = (least sum of mass |x - y|^p over all ways to carry A to B)^(1/p), exact.\n"
        "`gap` is the cost less what the dual potentials prove: zero up to rounding.\n"
        "A and B are safetensors files (points, and optionally weights that sum to 1 and\n"
        "times in [0,1]), .npy arrays or CSV tables of points; or two Gaussians (mean,\n"
        "cov).  With a layer, also the distance of their images and the ratio of both.",
    .example = "  $ lipscope distance mu.safetensors nu.csv --p 1 --plan plan.safetensors\n"
               "  $ lipscope distance mu.safetensors nu.csv --layer layer.safetensors\n",
    CLI_TABLE(options),
    .run = run,
};
