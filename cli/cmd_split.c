/* cmd_split.c - lipscope split: moving, splitting and teleporting constants of a measure.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>

#include "gauss.h"
#include "interrupt.h"
#include "layer_source.h"
#include "measure_write.h"
#include "names.h"
#include "screen.h"
#include "split_search.h"

typedef struct {
    layer_settings from; /* first: see layer_source.h */
    int normalise;
    double radius, step, tol;
    size_t restarts, measured, samples, atoms;
    const char *out, *search;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    LAYER_SOURCE_OPTIONS,
    {.kind = CLI_GROUP, .name = "The constants"},
    OPTION(FLAG, "normalise", NULL, normalise, .help = "divide the weights by their sum"),
    OPTION(SIZE, "samples", "N", samples, .min = 1, .max = 1e8,
           .help = "of a Gaussian or a mixture: take N random tokens of it"),
    OPTION(REAL, "tol", "T", tol, .wanted = "a number between 0 and 1", .min = DBL_MIN,
           .max = 1, .help = "residual to stop at (default 1e-8)"),
    OPTION(REAL, "radius", "R", radius, .wanted = "a positive number", .min = DBL_MIN,
           .max = DBL_MAX,
           .help =
               "of the ball into which atoms are teleported (default: the longest atom)"),
    OPTION(SIZE, "restarts", "N", restarts, .min = 0, .max = 1000,
           .help = "starts of that search for each atom; 0: no search (default 8)"),
    OPTION(REAL, "step", "T", step, .wanted = "a number from 0 to 0.5", .min = 0,
           .max = 0.5,
           .help = "of the finite perturbations; 0: none are made (default 1e-4)"),
    OPTION(SIZE, "measured", "N", measured, .min = 0, .max = 1e8,
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

static const lipsc_column columns[] = {{"move", LIPSC_COLUMN_REAL},
                                       {"split", LIPSC_COLUMN_REAL},
                                       {"teleport", LIPSC_COLUMN_REAL},
                                       {"move_atom", LIPSC_COLUMN_INTEGER},
                                       {"split_atom", LIPSC_COLUMN_INTEGER},
                                       {"teleport_atom", LIPSC_COLUMN_INTEGER},
                                       {"move_measured", LIPSC_COLUMN_REAL},
                                       {"split_measured", LIPSC_COLUMN_REAL},
                                       {"teleport_measured", LIPSC_COLUMN_REAL},
                                       {"halves", LIPSC_COLUMN_REAL},
                                       {"halves_measured", LIPSC_COLUMN_REAL},
                                       {"teleport_kind", LIPSC_COLUMN_STRING},
                                       {"teleport_upper", LIPSC_COLUMN_REAL},
                                       {"duplicate", LIPSC_COLUMN_REAL},
                                       {"distance", LIPSC_COLUMN_STRING},
                                       {"map", LIPSC_COLUMN_STRING},
                                       {"mask", LIPSC_COLUMN_STRING},
                                       {"n", LIPSC_COLUMN_INTEGER},
                                       {"atoms", LIPSC_COLUMN_INTEGER},
                                       {"d", LIPSC_COLUMN_INTEGER},
                                       {"step", LIPSC_COLUMN_REAL},
                                       {"residual", LIPSC_COLUMN_REAL},
                                       {"converged", LIPSC_COLUMN_BOOL},
                                       {"half", LIPSC_COLUMN_REALS},
                                       {"target", LIPSC_COLUMN_REALS},
                                       {"seconds", LIPSC_COLUMN_REAL}};

static void fill_row(lipsc_table *t, const settings *s, const layer_source *layer,
                     const lipsc_measure *mu, const lipsc_slopes *found) {
    enum { SHOWN = 16 }; /* longer vectors are in the file of -o only */
    const int json = s->from.common.format == LIPSC_FORMAT_JSON;
    lipsc_table_row(t);
    lipsc_table_real(t, "move", found->move);
    lipsc_table_real(t, "split", found->split);
    lipsc_table_real(t, "teleport", found->teleport);
    lipsc_table_integer(t, "move_atom", (long long)found->move_atom);
    lipsc_table_integer(t, "split_atom", (long long)found->split_atom);
    lipsc_table_integer(t, "teleport_atom", (long long)found->teleport_atom);
    lipsc_table_real(t, "move_measured", found->move_measured);
    lipsc_table_real(t, "split_measured", found->split_measured);
    lipsc_table_real(t, "teleport_measured", found->teleport_measured);
    lipsc_table_real(t, "halves", found->halves);
    lipsc_table_real(t, "halves_measured", found->halves_measured);
    lipsc_table_string(t, "teleport_kind", "lower");
    lipsc_table_real(t, "teleport_upper", found->teleport_cover);
    lipsc_table_real(t, "duplicate", found->duplicate);
    lipsc_table_string(t, "distance", found->masked ? "d2" : "W2");
    lipsc_table_string(t, "map", cli_map_name(&layer->layer));
    lipsc_table_string(t, "mask",
                       lipsc_mask_name(mu->times ? LIPSC_MASK_TIMES : layer->layer.mask));
    lipsc_table_integer(t, "n", (long long)found->n);
    lipsc_table_integer(t, "atoms", (long long)found->atoms);
    lipsc_table_integer(t, "d", (long long)found->d);
    lipsc_table_real(t, "step", s->step);
    const double move = found->move_residual, halves = found->halves_residual;
    lipsc_table_real(t, "residual", isnan(move) || move > halves ? move : halves);
    lipsc_table_bool(t, "converged", found->converged);
    if (json || found->d <= SHOWN) {
        lipsc_table_reals(t, "half", found->d, found->half);
        lipsc_table_reals(t, "target", found->d, found->target);
    }
    lipsc_table_real(t, "seconds", found->seconds);
}

/* For people, above the row: which of the three drives the image away fastest. */
static void say(const lipsc_slopes *found) {
    const cli_screen screen = cli_screen_open();
    char move[CLI_NUMBER], split[CLI_NUMBER], far[CLI_NUMBER], ratio[CLI_NUMBER];
    cli_say(
        &screen,
        "Moving atoms a little moves the image up to %s times as far, splitting one up to "
        "%s times, carrying mass far away %s times at least (%s): splitting is %s times "
        "moving.",
        cli_digits(found->move, 3, move), cli_digits(found->split, 3, split),
        cli_digits(found->teleport, 3, far), found->masked ? "d2" : "W2",
        cli_digits(found->split / found->move, 3, ratio));
    putchar('\n');
}

static int print(const cli_command *self, const settings *s, const layer_source *layer,
                 const lipsc_measure *mu, const lipsc_slopes *found) {
    lipsc_error err;
    if (s->from.common.format == LIPSC_FORMAT_TABLE) say(found);
    lipsc_table *t = lipsc_table_new(self->name, (lipsc_format)s->from.common.format,
                                     LIPSC_LAYOUT_UPRIGHT, stdout,
                                     sizeof columns / sizeof *columns, columns);
    if (!t) return cli_failure(self, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    fill_row(t, s, layer, mu, found);
    const lipsc_status status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

/* The measure whose halves were moved, with the directions behind all three constants. */
static lipsc_status write_split(const settings *s, const lipsc_measure *mu,
                                const lipsc_slopes *found, lipsc_error *err) {
    const size_t all[2] = {found->n, found->d}, *row = all + 1;
    const lipsc_st_item more[] = {{"move", LIPSC_F64, 2, all, found->direction},
                                  {"half", LIPSC_F64, 1, row, found->half},
                                  {"target", LIPSC_F64, 1, row, found->target}};
    char step[32], atom[32];
    snprintf(step, sizeof step, "%.17g", s->step);
    snprintf(atom, sizeof atom, "%zu", found->split_atom);
    const lipsc_st_note notes[] = {{"step", step}, {"split_atom", atom}};
    lipsc_cloud parted;
    lipsc_status status =
        lipsc_slopes_perturb(found, mu, LIPSC_PERTURB_SPLIT, s->step, &parted, err);
    if (status) return status;
    status = cli_measure_write(s->out, &parted.measure, more, sizeof more / sizeof *more,
                               notes, sizeof notes / sizeof *notes, err);
    lipsc_cloud_free(&parted);
    return status;
}

static int split(const cli_command *self, const settings *s, const layer_source *layer,
                 const char *path, const lipsc_measure *mu) {
    lipsc_slope_settings set;
    lipsc_slopes found;
    lipsc_error err = {.text = ""};
    lipsc_slope_defaults(&set);
    set.device = s->from.common.device;
    set.tol = s->tol;
    set.radius = s->radius;
    set.restarts = s->restarts;
    set.step = s->step;
    set.measured = s->measured;
    set.seed = s->from.seed;
    set.stop = cli_interrupted;
    cli_interrupt_begin();
    const lipsc_status status = lipsc_slopes_find(&layer->layer, mu, &set, &found, &err);
    if (status && status != LIPSC_E_NOCONV)
        return cli_failure(self, "%s: %s", path, err.text);
    int code = CLI_DONE;
    if (s->out && write_split(s, mu, &found, &err))
        code = cli_failure(self, "%s", err.text);
    if (code == CLI_DONE) code = print(self, s, layer, mu, &found);
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
    lipsc_slope_settings usual;
    lipsc_slope_defaults(&usual);
    settings s = {.from = LAYER_SETTINGS_DEFAULT,
                  .step = usual.step,
                  .restarts = usual.restarts,
                  .measured = usual.measured};
    int operands;
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code != CLI_RUN) return code;
    if (s.out && s.step == 0.0)
        return cli_wrong_use(self,
                             "-o writes the measure a step away: give --step above 0");
    if (s.search && operands)
        return cli_wrong_use(self, "--search goes over all measures: give no MEASURE");
    if (s.search) return split_search(self, &s.from, s.search, s.atoms, s.step, s.out);
    if (!operands) return cli_wrong_use(self, "give a MEASURE, or --search RADII");
    if (!s.samples && lipsc_gauss_file_recognised(argv[0]))
        return gauss_act(self, &s.from, argv[0], NULL);
    lipsc_measure_file mu = {.storage = NULL};
    layer_source layer;
    code = measure_open(self, argv[0], s.normalise, s.samples, s.from.seed, &mu);
    if (code != CLI_RUN) return code;
    code = layer_source_open(self, &s.from, mu.measure.times != NULL, &layer);
    if (code == CLI_RUN) code = split(self, &s, &layer, argv[0], &mu.measure);
    layer_source_close(&layer);
    lipsc_measure_file_free(&mu);
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
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
