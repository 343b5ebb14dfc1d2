/* cmd_distance.c - lipscope distance: how far two measures are apart. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <stdio.h>

#include "args.h"
#include "gauss.h"
#include "screen.h"

typedef struct {
    layer_settings from; /* first: see layer_source.h */
    double p, sinkhorn;
    int conditional, normalise;
    const char *plan;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "The distance"},
    OPTION(REAL, "p", "P", p, .wanted = "a number from 1 to 1000", .min = 1, .max = 1e3,
           .help = "exponent of the cost |x - y|^P (default 2)"),
    OPTION(FLAG, "conditional", NULL, conditional,
           .help = "d_p of the masked mean field: mass stays at its time, and both "
                   "measures must have the same masses at the same times"),
    OPTION(REAL, "sinkhorn", "EPS", sinkhorn, .wanted = "a positive number", .min = DBL_MIN,
           .max = DBL_MAX,
           .help = "the Sinkhorn divergence instead, an approximation for large measures; "
                   "EPS is in units of the cost"),

    {.kind = CLI_GROUP, .name = "Input and plan"},
    OPTION(FLAG, "normalise", NULL, normalise, .help = "divide the weights by their sum"),
    OPTION(TEXT, "plan", "FILE", plan,
           .help = "write the plan (from, to, mass) and the potentials (f, g) as "
                   "safetensors"),
    LAYER_SOURCE_OPTIONS,
    CLI_OUTPUT_OPTIONS(layer_settings),
};

static lipsc_status write_plan(const char *path, const lipsc_distance *found, size_t n,
                               size_t m, lipsc_error *err) {
    const size_t count = found->moves;
    double *columns = calloc(count, 3 * sizeof *columns);
    if (!columns) return LIPSC_E_NOMEM;
    for (size_t k = 0; k < count; k++) {
        columns[k] = (double)found->plan[k].from;
        columns[count + k] = (double)found->plan[k].to;
        columns[2 * count + k] = found->plan[k].mass;
    }
    const lipsc_st_item items[] = {{"from", LIPSC_F64, 1, &count, columns},
                                   {"to", LIPSC_F64, 1, &count, columns + count},
                                   {"mass", LIPSC_F64, 1, &count, columns + 2 * count},
                                   {"f", LIPSC_F64, 1, &n, found->f},
                                   {"g", LIPSC_F64, 1, &m, found->g}};
    char p[32];
    snprintf(p, sizeof p, "%.17g", found->p);
    const lipsc_st_note notes[] = {{"p", p}, {"method", found->method}};
    const lipsc_status status = lipsc_st_write(path, items, sizeof items / sizeof *items,
                                               notes, sizeof notes / sizeof *notes, err);
    free(columns);
    return status;
}

/* For people, above the row. */
static void say(const lipsc_distance *found, const lipsc_ratio *ratio) {
    const cli_screen screen = cli_screen_open();
    char distance[CLI_NUMBER], after[CLI_NUMBER], times[CLI_NUMBER];
    cli_say(&screen, "The measures are %s apart (%s with p = %g, %s).",
            cli_digits(found->distance, 4, distance), found->conditional ? "d_p" : "W_p",
            found->p, found->method);
    if (ratio)
        cli_say(&screen, "Their images are %s apart, %s times as far.",
                cli_digits(ratio->after, 4, after), cli_digits(ratio->ratio, 4, times));
    putchar('\n');
}

static int print(const cli_command *self, const settings *s, const lipsc_distance *found,
                 const lipsc_ratio *ratio, const lipsc_measure *a, const lipsc_measure *b) {
    static const lipsc_column columns[] = {{"p", LIPSC_COLUMN_REAL},
                                           {"distance", LIPSC_COLUMN_REAL},
                                           {"cost", LIPSC_COLUMN_REAL},
                                           {"gap", LIPSC_COLUMN_REAL},
                                           {"conditional", LIPSC_COLUMN_BOOL},
                                           {"method", LIPSC_COLUMN_STRING},
                                           {"image_distance", LIPSC_COLUMN_REAL},
                                           {"ratio", LIPSC_COLUMN_REAL},
                                           {"image_gap", LIPSC_COLUMN_REAL},
                                           {"image_method", LIPSC_COLUMN_STRING},
                                           {"epsilon", LIPSC_COLUMN_REAL},
                                           {"imbalance", LIPSC_COLUMN_REAL},
                                           {"n", LIPSC_COLUMN_INTEGER},
                                           {"m", LIPSC_COLUMN_INTEGER},
                                           {"d", LIPSC_COLUMN_INTEGER},
                                           {"seconds", LIPSC_COLUMN_REAL}};
    lipsc_error err;
    if (s->from.common.format == LIPSC_FORMAT_TABLE) say(found, ratio);
    lipsc_table *t = lipsc_table_new(self->name, (lipsc_format)s->from.common.format,
                                     LIPSC_LAYOUT_UPRIGHT, stdout,
                                     sizeof columns / sizeof *columns, columns);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    lipsc_table_row(t);
    lipsc_table_real(t, "p", found->p);
    lipsc_table_real(t, "distance", found->distance);
    lipsc_table_real(t, "cost", found->cost);
    lipsc_table_real(t, "gap", found->gap);
    lipsc_table_bool(t, "conditional", found->conditional);
    lipsc_table_string(t, "method", found->method);
    if (ratio) {
        lipsc_table_real(t, "image_distance", ratio->after);
        lipsc_table_real(t, "ratio", ratio->ratio);
        lipsc_table_real(t, "image_gap", ratio->gap_after);
        lipsc_table_string(t, "image_method", ratio->method_after);
    }
    if (found->epsilon > 0) lipsc_table_real(t, "epsilon", found->epsilon);
    lipsc_table_real(t, "imbalance", found->imbalance);
    lipsc_table_integer(t, "n", (long long)a->n);
    lipsc_table_integer(t, "m", (long long)b->n);
    lipsc_table_integer(t, "d", (long long)a->d);
    lipsc_table_real(t, "seconds", found->seconds);
    const lipsc_status status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

/* The same distance between the images. */
static int images(const cli_command *self, const settings *s, const lipsc_measure *a,
                  const lipsc_measure *b, const lipsc_distance_settings *set,
                  lipsc_ratio *out) {
    layer_source layer;
    lipsc_error err;
    int code = layer_source_open(self, &s->from, a->times && b->times, &layer);
    if (code == CLI_RUN &&
        lipsc_ratio_between(&layer.layer, a, b, set, s->from.common.device, out, &err))
        code = cli_failure(self, "%s: %s", layer.name, err.text);
    layer_source_close(&layer);
    return code;
}

static int measure(const cli_command *self, const settings *s, const lipsc_measure *a,
                   const lipsc_measure *b) {
    lipsc_distance_settings set;
    lipsc_distance found;
    lipsc_error err = {.text = ""};
    lipsc_distance_defaults(&set);
    if (s->p > 0) set.p = s->p;
    set.conditional = s->conditional;
    set.sinkhorn = s->sinkhorn;
    set.plan = s->plan != NULL;
    const lipsc_status status = lipsc_distance_between(a, b, &set, &found, &err);
    if (status && status != LIPSC_E_NOCONV) return cli_failure(self, "%s", err.text);
    lipsc_ratio ratio;
    const int acted = s->from.path || s->from.model;
    int code = acted ? images(self, s, a, b, &set, &ratio) : CLI_RUN;
    if (code == CLI_RUN) code = CLI_DONE;
    if (code == CLI_DONE && s->plan) {
        const lipsc_status written = write_plan(s->plan, &found, a->n, b->n, &err);
        if (written)
            code = cli_failure(self, "%s", *err.text ? err.text : lipsc_strerror(written));
    }
    if (code == CLI_DONE) code = print(self, s, &found, acted ? &ratio : NULL, a, b);
    lipsc_distance_free(&found);
    if (code == CLI_DONE && status) {
        if (!s->from.common.quiet)
            fprintf(stderr, "lipscope %s: %s\n", self->name, lipsc_strerror(status));
        code = CLI_NOT_CONVERGED;
    }
    return code;
}

static int gaussians(const cli_command *self, const settings *s, char **path) {
    if (s->conditional || s->sinkhorn > 0 || s->plan || (s->p > 0 && s->p != 2.0))
        return cli_wrong_use(self, "between Gaussians there is W_2 in closed form, nothing "
                                   "else");
    return gauss_distance(self, &s->from, s->from.path || s->from.model, path[0], path[1]);
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.from = LAYER_SETTINGS_DEFAULT};
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    if (s.sinkhorn > 0 && s.plan)
        return cli_wrong_use(self, "--plan needs an exact distance, without --sinkhorn");
    if (s.sinkhorn > 0 && (s.from.path || s.from.model))
        return cli_wrong_use(self, "a ratio needs exact distances, without --sinkhorn");
    if (lipsc_gauss_file_recognised(argv[0]) && lipsc_gauss_file_recognised(argv[1]))
        return gaussians(self, &s, argv);
    lipsc_measure_file a, b;
    lipsc_error err;
    if (lipsc_measure_file_read(argv[0], s.normalise, &a, &err))
        return cli_failure(self, "%s", err.text);
    if (lipsc_measure_file_read(argv[1], s.normalise, &b, &err)) {
        lipsc_measure_file_free(&a);
        return cli_failure(self, "%s", err.text);
    }
    if (a.measure.d != b.measure.d)
        code = cli_failure(self, "%s: its points have width %zu, those of %s width %zu",
                           argv[1], b.measure.d, argv[0], a.measure.d);
    else
        code = measure(self, &s, &a.measure, &b.measure);
    lipsc_measure_file_free(&a);
    lipsc_measure_file_free(&b);
    return code;
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
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
