/* cmd_bounds.c - lipscope bounds: every bound of the zoo beside the exact value. */
#include <float.h>
#include <math.h>

#include "bounds_table.h"
#include "interrupt.h"
#include "place.h"
#include "progress.h"
#include "ranks.h"

typedef struct {
    cli_place from; /* first, for its option tables */
    lipsc_bounds_settings set;
    cli_sizes layers;
    int rows;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "A layer file"},
    CLI_LAYER_OPTIONS(cli_place),

    {.kind = CLI_GROUP, .name = "A model"},
    OPTION(SIZES, "layers", "LIST", layers, .min = 0, .max = 1e8,
           .help = "the layers, from 0: 3, or several such as 0:11 (default 0)"),
    OPTION(SIZES, "layer", NULL, layers, .min = 0, .max = 1e8),
    CLI_ONE_HEAD_OPTION(cli_place),
    CLI_SOURCE_OPTIONS(cli_place),
    OPTION(SIZE, "length", "N", from.length, .min = 1, .max = 1e8,
           .help = "tokens of the window (default 64)"),
    OPTION(SIZE, "lengths", NULL, from.length, .min = 1, .max = 1e8),
    CLI_WINDOW_OPTION(cli_place),
    CLI_MAP_OPTION(cli_place),
    CLI_MASK_OPTION(cli_place),
    CLI_PART_OPTION(cli_place),
    OPTION(SEED, "seed", "N", from.seed, .help = "seed of random models (default 1)"),

    {.kind = CLI_GROUP, .name = "The bounds"},
    OPTION(TEXT, "radius", "R", from.radius,
           .help =
               "radius of the ball, or layernorm: that of the norm in front of the layer "
               "(default: the longest token)"),
    OPTION(REAL, "p", "P", set.p, .wanted = "a number from 1 on", .min = 1, .max = 1e6,
           .help = "of the norms Wp and dp (default 4)"),
    OPTION(REAL, "around", "R", set.around, .wanted = "a number that is not negative",
           .min = 0, .max = DBL_MAX,
           .help = "also bound sigma at every input whose tokens lie within R of these"),
    CLI_RELATIVE_OPTION(settings, "--around"),
    OPTION(
        REAL, "below", "S", set.below, .wanted = "a positive number", .min = 0,
        .max = DBL_MAX,
        .help =
            "find the largest R for which sigma is proved to stay below S, and take it for "
            "--around"),
    CLI_THREADS_OPTION(cli_place),
    OPTION(
        FLAG, "rows", NULL, rows,
        .help =
            "every bound in a row of its own (wide), refused ones with the reason; always "
            "so in tsv and json"),
    CLI_OUTPUT_OPTIONS(cli_place),
};

static int check(const cli_command *self, const settings *s) {
    const int around = !isnan(s->set.around), below = !isnan(s->set.below);
    if (around && below)
        return cli_wrong_use(self, "--below S finds the radius: leave out --around");
    if ((around || below) && s->from.radius)
        return cli_wrong_use(self,
                             "%s: the ball is that of the longest token and the "
                             "neighbourhood: leave out --radius",
                             around ? "--around" : "--below");
    if (s->set.relative && !around)
        return cli_wrong_use(self, "--relative goes with --around R");
    return CLI_RUN;
}

static int verdict(const cli_command *self, const settings *s, const char *what,
                   const lipsc_layers_bounds *all) {
    int code = CLI_DONE;
    for (size_t i = 0; i < all->count; i++) {
        const lipsc_svd_info *info = &all->at[i].bounds.info;
        if (!all->at[i].status) continue;
        code = CLI_NOT_CONVERGED;
        if (!s->from.common.quiet)
            cli_failure(self, "%s: sigma not converged: residual %.2e after %ld products",
                        what, info->residual, info->products);
    }
    return code;
}

static int bound(const cli_command *self, settings *s, const char *what, int of_norm,
                 lipsc_place *place) {
    cli_progress line;
    lipsc_layers_bounds all;
    lipsc_error err = {.text = ""};
    const lipsc_sizes layers = {s->layers.count ? s->layers.count : 1,
                                s->layers.count ? s->layers.items : &s->from.layer};
    cli_progress_begin_parts(&line, self, &s->from.common, "steps of the bounds");
    cli_interrupt_begin();
    s->set.stop = cli_interrupted;
    s->set.progress = cli_progress_solve;
    s->set.steps = cli_progress_part;
    s->set.ctx = &line;
    const double turns =
        ceil((double)layers.count / (double)lipsc_ranks_count(cli_ranks()));
    cli_progress_plan(&line, self, turns * lipsc_place_bounds_seconds(place, &s->set));
    const lipsc_status status =
        lipsc_place_layers_bounds(place, layers, of_norm, &s->set, &all, &err);
    cli_progress_end(&line);
    int code = CLI_DONE;
    if (!cli_ranks_leads())
        code = cli_ranks_followed();
    else if (status == LIPSC_E_REFUSED && of_norm)
        code = cli_failure(self, "--radius layernorm: %s", err.text);
    else if (status)
        code = cli_place_failure(self, status, &err);
    else
        code = bounds_print(self, &s->from, what, place, s->rows, &all);
    if (code == CLI_DONE && cli_ranks_leads()) code = verdict(self, s, what, &all);
    lipsc_layers_bounds_free(&all);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.from = CLI_PLACE_DEFAULT};
    int operands, of_norm;
    lipsc_place *place = NULL;
    lipsc_bounds_defaults(&s.set);
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN) code = check(self, &s);
    if (s.layers.count) s.from.layer = s.layers.items[0];
    if (code == CLI_RUN)
        code = cli_radius_read(self, &s.from, argv[0], &s.set.radius, &of_norm);
    if (code == CLI_RUN) code = cli_place_open(self, &s.from, argv[0], 1, &place);
    if (code == CLI_RUN && lipsc_place_model(place) && !lipsc_place_source(place))
        code = cli_wrong_use(self, "give one of --text, --ids and --pixels");
    if (code == CLI_RUN) code = bound(self, &s, argv[0], of_norm, place);
    lipsc_place_close(place);
    cli_sizes_free(&s.layers);
    return code;
}

const cli_command cli_cmd_bounds = {
    .name = "bounds",
    .operands = "MODEL|FILE",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "every bound of the zoo beside the exact value",
    .about =
        "All upper and lower bounds of the largest singular value of one attention\n"
        "layer: at its input, over all inputs in a ball, over all inputs, tightest first.\n"
        "A bound whose hypotheses do not hold is refused; --rows has the reasons.\n"
        "FILE is a layer file as `lipscope layer` reads it.  `ratio`\n"
        "is value / sigma, where sigma is the constant in the norm of the bound.",
    .example = "  $ lipscope bounds layer.safetensors --num-heads 12 --causal\n"
               "  $ lipscope bounds gpt2/ --text alice.txt --layers 3 --length 64\n"
               "  $ lipscope bounds layer.safetensors --around 0.001 --relative\n",
    CLI_TABLE(options),
    .run = run,
    .shares = CLI_SHARES_CELLS,
};
