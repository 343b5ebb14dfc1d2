/* cmd_bounds.c - lipscope bounds: every bound of the zoo beside the exact value. */
#include <float.h>
#include <math.h>

#include "bounds_table.h"
#include "interrupt.h"
#include "place.h"
#include "progress.h"

typedef struct {
    cli_place from; /* first, for its option tables */
    lipsc_bounds_settings set;
    int rows;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "A layer file"},
    CLI_LAYER_OPTIONS(cli_place),

    {.kind = CLI_GROUP, .name = "A model"},
    CLI_ONE_LAYER_OPTIONS(cli_place),
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

static int bound(const cli_command *self, settings *s, const char *what, int of_norm,
                 lipsc_place *place) {
    cli_progress line;
    char layer[CLI_PLACE_WORDS];
    lipsc_bounds bounds;
    lipsc_error err = {.text = ""};
    cli_progress_begin_parts(&line, self, &s->from.common, "steps of the bounds");
    cli_interrupt_begin();
    s->set.stop = cli_interrupted;
    s->set.progress = cli_progress_solve;
    s->set.steps = cli_progress_part;
    s->set.ctx = &line;
    const lipsc_status status = lipsc_place_bounds(place, of_norm, &s->set, &bounds, &err);
    cli_progress_end(&line);
    if (status == LIPSC_E_REFUSED && of_norm)
        return cli_failure(self, "--radius layernorm: %s", err.text);
    if (status && status != LIPSC_E_NOCONV) return cli_place_failure(self, status, &err);
    cli_place_words(&s->from, what, place, layer);
    int code = bounds_print(self, &s->from, layer, s->rows, &bounds);
    if (code == CLI_DONE && status) {
        code = CLI_NOT_CONVERGED;
        if (!s->from.common.quiet)
            cli_failure(self, "%s: sigma not converged: residual %.2e after %ld products",
                        what, bounds.info.residual, bounds.info.products);
    }
    lipsc_bounds_free(&bounds);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.from = CLI_PLACE_DEFAULT};
    int operands, of_norm;
    lipsc_place *place = NULL;
    lipsc_bounds_defaults(&s.set);
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN) code = check(self, &s);
    if (code == CLI_RUN)
        code = cli_radius_read(self, &s.from, argv[0], &s.set.radius, &of_norm);
    if (code == CLI_RUN) code = cli_place_open(self, &s.from, argv[0], 1, &place);
    if (code == CLI_RUN && lipsc_place_model(place) && !lipsc_place_source(place))
        code = cli_wrong_use(self, "give one of --text, --ids and --pixels");
    if (code == CLI_RUN) code = bound(self, &s, argv[0], of_norm, place);
    lipsc_place_close(place);
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
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
