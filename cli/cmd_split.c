/* cmd_split.c - lipscope split: moving, splitting and teleporting constants of a measure.
 */
#include <float.h>

#include "gauss.h"
#include "interrupt.h"
#include "split_search.h"
#include "split_table.h"

typedef struct {
    layer_settings from; /* first: see layer_source.h */
    lipsc_slope_settings set;
    size_t atoms;
    const char *out, *search;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    LAYER_SOURCE_OPTIONS,
    {.kind = CLI_GROUP, .name = "The constants"},
    MEASURE_NORMALISE_OPTION,
    MEASURE_SAMPLES_OPTION,
    OPTION(REAL, "tol", "T", set.tol, .wanted = "a number between 0 and 1", .min = DBL_MIN,
           .max = 1, .help = "residual to stop at (default 1e-8)"),
    OPTION(REAL, "radius", "R", set.radius, .wanted = "a positive number", .min = DBL_MIN,
           .max = DBL_MAX,
           .help =
               "of the ball into which atoms are teleported (default: the longest atom)"),
    OPTION(SIZE, "restarts", "N", set.restarts, .min = 0, .max = 1000,
           .help = "starts of that search for each atom; 0: no search (default 8)"),
    OPTION(REAL, "step", "T", set.step, .wanted = "a number from 0 to 0.5", .min = 0,
           .max = 0.5,
           .help = "of the finite perturbations; 0: none are made (default 1e-4)"),
    OPTION(SIZE, "measured", "N", set.measured, .min = 0, .max = 1e8,
           .help = "measure ratios up to so many different atoms (default 1000)"),
    {.kind = CLI_GROUP, .name = "The worst measures"},
    OPTION(TEXT, "search", "RADII", search,
           .help =
               "without MEASURE: for each of these radii, separated by commas, search the "
               "ball for the pair of measures that is driven apart most"),
    OPTION(SIZE, "atoms", "N", atoms, .min = 2, .max = 64,
           .help = "of the measures tried (default 3)"),
    OPTION(TEXT, "out", "FILE", out, .letter = 'o',
           .help = "the split measure with the directions, or the worst measure, as "
                   "safetensors"),
    CLI_OUTPUT_OPTIONS(layer_settings),
};

static int split(const cli_command *self, settings *s, const char *path,
                 const layer_source *from) {
    const lipsc_measure *mu = &from->mu.measure;
    lipsc_slopes found;
    lipsc_error err = {.text = ""};
    s->set.device = s->from.common.device;
    s->set.seed = s->from.seed;
    s->set.stop = cli_interrupted;
    cli_interrupt_begin();
    const lipsc_status status = lipsc_slopes_find(&from->layer, mu, &s->set, &found, &err);
    if (status && status != LIPSC_E_NOCONV)
        return cli_failure(self, "%s: %s", path, err.text);
    int code = s->out && lipsc_slopes_write(s->out, &found, mu, s->set.step, &err)
                   ? cli_failure(self, "%s", err.text)
                   : split_print(self, &s->from.common, from, s->set.step, &found);
    if (code == CLI_DONE && status) {
        if (!s->from.common.quiet)
            cli_failure(self, "%s: not converged: residuals %.2e and %.2e", path,
                        found.move_residual, found.halves_residual);
        code = CLI_NOT_CONVERGED;
    }
    lipsc_slopes_free(&found);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.from = LAYER_SETTINGS_DEFAULT};
    layer_source from;
    int operands;
    lipsc_slope_defaults(&s.set);
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    if (s.out && s.set.step == 0.0)
        return cli_wrong_use(self,
                             "-o writes the measure a step away: give --step above 0");
    if (s.search && operands)
        return cli_wrong_use(self, "--search goes over all measures: give no MEASURE");
    if (s.search) return split_search(self, &s.from, s.search, s.atoms, s.set.step, s.out);
    if (!operands) return cli_wrong_use(self, "give a MEASURE, or --search RADII");
    if (!s.from.samples && lipsc_gauss_file_recognised(argv[0]))
        return gauss_act(self, &s.from, argv[0], NULL);
    code = layer_source_open_measure(self, &s.from, argv[0], &from);
    if (code == CLI_RUN) code = split(self, &s, argv[0], &from);
    layer_source_close(&from);
    return code;
}

const cli_command cli_cmd_split = {
    .name = "split",
    .operands = "MEASURE",
    .min_operands = 0,
    .max_operands = 1,
    .summary = "moving, splitting and teleporting constants of a measure",
    .about =
        "How much faster than a measure its image under attention can change, in the\n"
        "distance W_2 (d_2 with times): when its atoms move (`move`), when they are split\n"
        "first (`split`), and when a vanishing part of one goes far away (`teleport`,\n"
        "found by search: a lower value, with a proved `teleport_upper`).  `measured` is\n"
        "the ratio of two exact distances for a finite perturbation that shows it.\n"
        "A Gaussian (mean, cov) has its constants in closed form.",
    .example =
        "  $ lipscope split mu.safetensors --layer layer.safetensors\n"
        "  $ lipscope split mu.safetensors --model gpt2/ --layers 3 --heads 0 -o parts.st\n"
        "  $ lipscope split --search 1,2,3 --layer layer.safetensors\n",
    CLI_TABLE(options),
    .run = run,
};
