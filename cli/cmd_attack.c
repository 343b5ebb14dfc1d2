/* cmd_attack.c - lipscope attack: the input of given length and radius at which sigma is
 * largest, as far as a search finds it. */
#include <math.h>
#include <stdlib.h>

#include "attack_table.h"
#include "attack_teller.h"
#include "ranks.h"

typedef struct {
    cli_place from; /* first, for its option tables */
    lipsc_attacks_settings set;
    cli_sizes lengths;
    int rows;
} settings;

#define OPTION(...) CLI_OPTION(settings, __VA_ARGS__)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "The domain"},
    OPTION(
        SIZES, "lengths", "LIST", lengths, .min = 1, .max = 1e8,
        .help =
            "tokens: 64, or several such as 8:512:x2 (default: those of the input given)"),
    OPTION(SIZES, "length", NULL, lengths, .min = 1, .max = 1e8),
    OPTION(
        TEXT, "radius", "R", from.radius,
        .help =
            "a number, or layernorm: that of the norm in front of the layer (default: the "
            "longest token of the input given)"),
    CLI_RELATIVE_OPTION(settings, "--radius (domain around)"),
    OPTION(
        CHOICE, "domain", "D", set.domain, .wanted = "ball|sphere|norm|around",
        .help =
            "ball: every |x_i| <= R; sphere: every |x_i| = R; norm: the image of the norm "
            "in front of the layer; around: every token within R of that of the input "
            "given (default ball)"),
    OPTION(SIZE, "atoms", "K", set.atoms, .min = 1, .max = 1e6,
           .help = "seek a measure of K atoms instead, positions and masses"),

    {.kind = CLI_GROUP, .name = "A layer file"},
    CLI_LAYER_OPTIONS(cli_place),

    {.kind = CLI_GROUP, .name = "A model"},
    CLI_ONE_LAYER_OPTIONS(cli_place),
    CLI_ONE_HEAD_OPTION(cli_place),
    CLI_SOURCE_OPTIONS(cli_place),
    CLI_WINDOW_OPTION(cli_place),
    CLI_MAP_OPTION(cli_place),
    CLI_MASK_OPTION(cli_place),
    CLI_PART_OPTION(cli_place),

    {.kind = CLI_GROUP, .name = "The search"},
    OPTION(SIZE, "restarts", "N", set.restarts, .min = 1, .max = 1e6,
           .help = "starts that are climbed from (default 8, 32 for small layers)"),
    OPTION(SIZE, "iterations", "N", set.iterations, .min = 0, .max = 1e9,
           .help = "of the longest climb (default 200)"),
    OPTION(SEED, "seed", "N", from.seed,
           .help = "of random inputs and random models (default 1)"),
    OPTION(CHOICE, "dtype", "T", set.dtype, .wanted = "default|f64|f32", .min = -1,
           .help =
               "precision of the search: f32 or f64 (default f32 for a model, f64 for a "
               "file); the value found is computed in double"),
    OPTION(REAL, "tol", "T", set.tol, .wanted = "a number from 1e-14 to 1", .min = 1e-14,
           .max = 1.0, .help = "residual of the value found (default 1e-8)"),
    OPTION(REAL, "seconds", "S", set.seconds, .wanted = "a positive number", .min = 1e-3,
           .max = 1e9,
           .help =
               "end after so many seconds, shared by the lengths, with the best so far"),
    CLI_THREADS_OPTION(cli_place),

    {.kind = CLI_GROUP, .name = "Files"},
    OPTION(
        TEXT, "out", "FILE", set.out, .letter = 'o',
        .help =
            "the input found, with the layer and the direction that reaches sigma (default "
            "attack.safetensors); with several lengths NAME-LENGTH.EXT"),
    OPTION(TEXT, "run", "FILE", set.run_file,
           .help = "keep finished lengths in this SQLite file and continue from it"),
    OPTION(FLAG, "rows", NULL, rows,
           .help = "the row of each length (wide); always so in tsv and json"),
    CLI_OUTPUT_OPTIONS(cli_place),
};

/* ---- What is said -------------------------------------------------------------------- */

static int verdict(const cli_command *self, const settings *s, const char *what,
                   const lipsc_attacks *a) {
    int code = CLI_DONE;
    for (size_t i = 0; i < a->count; i++) {
        if (a->rows[i].n == LIPSC_NONE || a->rows[i].converged > 0) continue;
        code = CLI_NOT_CONVERGED;
        if (!s->from.common.quiet)
            cli_failure(self, "%s: n %zu: sigma not converged: residual %.2e", what,
                        a->rows[i].n, a->rows[i].residual);
    }
    return code;
}

/* ---- Together ------------------------------------------------------------------------ */

static int check(const cli_command *self, const settings *s, const char *what) {
    const lipsc_attacks_settings *set = &s->set;
    const int norm = set->domain == LIPSC_ATTACK_NORM;
    if (norm && !isnan(set->radius))
        return cli_wrong_use(self, "--domain norm has the radius of the norm: leave "
                                   "out --radius");
    if (set->domain == LIPSC_ATTACK_AROUND && isnan(set->radius))
        return cli_wrong_use(self, "--domain around needs --radius R, a number");
    if (set->relative && set->domain != LIPSC_ATTACK_AROUND)
        return cli_wrong_use(self, "--relative goes with --domain around");
    if (norm && !lipsc_place_is_model(what))
        return cli_wrong_use(self, "--domain norm needs a model: a layer file has no norm");
    if (set->atoms && s->lengths.count)
        return cli_wrong_use(self, "--atoms K is the length: leave out --length");
    return CLI_RUN;
}

static int attack(const cli_command *self, settings *s, const char *what,
                  lipsc_place *place) {
    attack_teller teller;
    lipsc_attacks found = {0};
    lipsc_error err = {.text = ""};
    attack_teller_begin(&teller, self, &s->from.common, &s->set);
    const lipsc_status status = lipsc_place_attack(place, &s->set, &found, &err);
    attack_teller_end(&teller);
    int code = cli_ranks_leads()
                   ? attack_print(self, &s->from, what, place, &s->set, s->rows, &found)
                   : CLI_RUN;
    if (code == CLI_RUN)
        code = cli_ranks_followed();
    else if (status == LIPSC_E_STOPPED)
        code = attack_teller_stopped(&teller, s->set.run_file, &found);
    else if (status)
        code = cli_place_failure(self, status, &err);
    else if (code == CLI_DONE)
        code = verdict(self, s, what, &found);
    lipsc_attacks_free(&found);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    settings s = {.from = CLI_PLACE_DEFAULT};
    lipsc_attacks_settings *set = &s.set;
    lipsc_place *place = NULL;
    int operands;
    char *line = cli_command_line(self, argc, argv); /* parsing moves the words */
    lipsc_attacks_defaults(set);
    set->out = "attack.safetensors";
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN)
        code = cli_radius_read(self, &s.from, argv[0], &set->radius, &set->radius_of_norm);
    if (code == CLI_RUN) code = check(self, &s, argv[0]);
    set->lengths = (lipsc_sizes){s.lengths.count, s.lengths.items};
    set->seed = s.from.seed;
    set->command_line = line;
    if (code == CLI_RUN) code = cli_place_open(self, &s.from, argv[0], 0, &place);
    if (code == CLI_RUN) code = attack(self, &s, argv[0], place);
    lipsc_place_close(place);
    cli_sizes_free(&s.lengths);
    free(line);
    return code;
}

const cli_command cli_cmd_attack = {
    .name = "attack",
    .operands = "MODEL|FILE",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "the worst input of a length and radius that a search finds",
    .about =
        "Looks for the input at which the largest singular value of one attention layer\n"
        "is largest: from the known worst cases of every head, from random inputs and\n"
        "from the input given, projected ascent along the gradient of sigma.  What it\n"
        "prints is reached by the input it writes; `upper` is proved for the whole\n"
        "domain, where a bound applies.  FILE is a layer file as `lipscope layer` reads\n"
        "it, with or without X.  The file written holds the layer with its heads, mask,\n"
        "scale, positions and norms, so it is read without options.  With three lengths\n"
        "or more sigma ~ c n^e is fitted.  Ctrl-C ends the search and keeps the best\n"
        "input so far.",
    .example = "  $ lipscope attack gpt2/ --layer 3 --length 32 --radius layernorm\n"
               "  $ lipscope attack layer.safetensors --length 24 --radius 2\n"
               "  $ lipscope layer attack.safetensors\n",
    CLI_TABLE(options),
    .run = run,
    .shares = CLI_SHARES_CELLS,
};
