/* cmd_attack.c - lipscope attack: the input of given length and radius at which sigma is
 * largest, as far as a search finds it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attack_table.h"
#include "interrupt.h"
#include "place.h"
#include "progress.h"
#include "screen.h"

enum { DTYPE_DEFAULT, DTYPE_F32, DTYPE_F64 };

typedef struct {
    cli_place from; /* first, for its option tables */
    cli_sizes lengths;
    size_t atoms;
    int domain; /* lipsc_attack_domain */
    size_t restarts, iterations;
    double tol, seconds;
    int dtype, rows;
    const char *out, *run;
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
    CLI_RELATIVE_OPTION("--radius (domain around)"),
    OPTION(
        CHOICE, "domain", "D", domain, .wanted = "ball|sphere|norm|around",
        .help =
            "ball: every |x_i| <= R; sphere: every |x_i| = R; norm: the image of the norm "
            "in front of the layer; around: every token within R of that of the input "
            "given (default ball)"),
    OPTION(SIZE, "atoms", "K", atoms, .min = 1, .max = 1e6,
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
    OPTION(SIZE, "restarts", "N", restarts, .min = 1, .max = 1e6,
           .help = "starts that are climbed from (default 8, 32 for small layers)"),
    OPTION(SIZE, "iterations", "N", iterations, .min = 0, .max = 1e9,
           .help = "of the longest climb (default 200)"),
    OPTION(SEED, "seed", "N", from.seed,
           .help = "of random inputs and random models (default 1)"),
    OPTION(CHOICE, "dtype", "T", dtype, .wanted = "default|f32|f64",
           .help =
               "precision of the search: f32 or f64 (default f32 for a model, f64 for a "
               "file); the value found is computed in double"),
    OPTION(REAL, "tol", "T", tol, .wanted = "a number from 1e-14 to 1", .min = 1e-14,
           .max = 1.0, .help = "residual of the value found (default 1e-8)"),
    OPTION(REAL, "seconds", "S", seconds, .wanted = "a positive number", .min = 1e-3,
           .max = 1e9,
           .help =
               "end after so many seconds, shared by the lengths, with the best so far"),
    CLI_THREADS_OPTION(cli_place),

    {.kind = CLI_GROUP, .name = "Files"},
    OPTION(
        TEXT, "out", "FILE", out, .letter = 'o',
        .help =
            "the input found, with the layer and the direction that reaches sigma (default "
            "attack.safetensors); with several lengths NAME-LENGTH.EXT"),
    OPTION(TEXT, "run", "FILE", run,
           .help = "keep finished lengths in this SQLite file and continue from it"),
    OPTION(FLAG, "rows", NULL, rows,
           .help = "the row of each length (wide); always so in tsv and json"),
    CLI_OUTPUT_OPTIONS(cli_place),
};

/* ---- What is said -------------------------------------------------------------------- */

/* Members of the JSON object behind the fits. */
#define CASE_LIST(X)                                         \
    X(measure, FLAG, 0, 0, "", "masses were sought as well") \
    X(special, FLAG, 0, 0, "", "special tokens stand around the windows")

typedef struct {
    CASE_LIST(LIPSC_FIELD_MEMBER)
} record;
static const lipsc_field case_fields[] = {CASE_LIST(LIPSC_FIELD_ENTRY)};

static size_t finished(const lipsc_attacks *a) {
    size_t done = 0;
    for (size_t i = 0; i < a->count; i++) done += a->rows[i].n != LIPSC_NONE;
    return done;
}

static size_t longest(const lipsc_attacks *a) {
    size_t most = 0;
    for (size_t i = 0; i < a->count; i++)
        if (a->rows[i].n != LIPSC_NONE && a->rows[i].n > most) most = a->rows[i].n;
    return most;
}

static int print(const cli_command *self, const settings *s, const char *what,
                 const lipsc_place *place, const lipsc_attacks *a) {
    enum { MOST = 24 };
    const lipsc_format format = (lipsc_format)s->from.common.format;
    const lipsc_fields fields = lipsc_attack_fields();
    lipsc_column columns[MOST];
    lipsc_error err = {.text = "out of memory"};
    if (!finished(a)) return CLI_DONE;
    if (format == LIPSC_FORMAT_TABLE && !s->rows)
        return attack_table(a, &s->from, what, place,
                            s->lengths.count ? s->lengths.items[s->lengths.count - 1]
                                             : longest(a),
                            s->atoms > 0)
                   ? cli_failure(self, "%s", err.text)
                   : CLI_DONE;
    lipsc_table *t =
        lipsc_table_new(self->name, format, LIPSC_LAYOUT_WIDE, stdout,
                        lipsc_table_columns(fields, 0, format, columns), columns);
    if (!t) return cli_failure(self, "%s", err.text);
    for (size_t i = 0; i < a->count; i++)
        if (a->rows[i].n != LIPSC_NONE) lipsc_table_record(t, fields, &a->rows[i]);
    lipsc_table_list(t, "fits", lipsc_growth_fields(), (size_t)a->has_law, sizeof a->law,
                     &a->law);
    lipsc_table_members(
        t, (lipsc_fields){sizeof case_fields / sizeof *case_fields, case_fields},
        &(record){s->atoms > 0, s->from.source.special});
    const lipsc_status status = lipsc_table_end(t, &err);
    lipsc_table_free(t);
    return status ? cli_failure(self, "%s", err.text) : CLI_DONE;
}

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

typedef struct {
    const cli_command *self;
    const settings *set;
    cli_progress line;
    double begin, climbs; /* seconds of the clock: of all, of the first climb */
    double done;          /* share of the climbs                              */
    int estimated;
} watcher;

/* Seconds that are left at most: climbs may arrive early. */
static double seconds_left(const watcher *w) {
    const double now = cli_seconds();
    const double left =
        w->done > 0.0 ? (now - w->climbs) * (1.0 - w->done) / w->done : INFINITY;
    const double limit =
        w->set->seconds > 0.0 ? w->set->seconds + w->begin - now : INFINITY;
    const double least = left < limit ? left : limit;
    return least > 0.0 ? least : 0.0;
}

/* One estimate of long work, when the first climbs say how fast it goes. */
static void estimate(watcher *w) {
    const double early = 0.02, long_work = 30.0, trial = 2.0;
    char text[CLI_NUMBER];
    if (w->estimated || !(w->done > early) || cli_seconds() - w->climbs < trial) return;
    w->estimated = 1;
    const double whole = cli_seconds() - w->begin + seconds_left(w);
    if (whole < long_work || w->set->from.common.quiet) return;
    cli_progress_end(&w->line);
    cli_note(w->self, "at most about %s; --seconds S ends it before",
             cli_duration(whole, text));
}

static void tell_share(void *ctx, double done) {
    watcher *w = ctx;
    if (w->climbs == 0.0) w->climbs = cli_seconds();
    w->done = done;
    estimate(w);
}

static void tell(void *ctx, size_t n, const char *doing, long evaluations, double best) {
    watcher *w = ctx;
    char left[CLI_NUMBER];
    const int known = w->done > 0.0 || w->set->seconds > 0.0;
    cli_progress_say(&w->line, "n %zu  %s  %ld inputs  best sigma %.4g%s%s%s", n, doing,
                     evaluations, best, known ? "  at most " : "",
                     known ? cli_duration(seconds_left(w), left) : "",
                     known ? " left" : "");
}

static void say_written(void *ctx, const char *path) {
    watcher *w = ctx;
    cli_progress_end(&w->line);
    if (!w->set->from.common.quiet)
        cli_note(w->self, "read it with: lipscope layer %s", path);
}

static int interrupted(const cli_command *self, const settings *s, const lipsc_attacks *a) {
    char went[80] = "the best input so far is kept";
    cli_interrupt_done();
    if (a->missing != LIPSC_NONE)
        snprintf(went, sizeof went, "no input of length %zu was found before, none is kept",
                 a->missing);
    return cli_failure(self, "interrupted; %s%s%s", went,
                       s->run ? "; the same command continues with " : "",
                       s->run ? s->run : "");
}

/* ---- Together ------------------------------------------------------------------------ */

static int check(const cli_command *self, const settings *s, const char *what,
                 const lipsc_attacks_settings *set) {
    const int norm = s->domain == LIPSC_ATTACK_NORM;
    if (norm && !isnan(set->radius))
        return cli_wrong_use(self, "--domain norm has the radius of the norm: leave "
                                   "out --radius");
    if (s->domain == LIPSC_ATTACK_AROUND && isnan(set->radius))
        return cli_wrong_use(self, "--domain around needs --radius R, a number");
    if (s->from.relative && s->domain != LIPSC_ATTACK_AROUND)
        return cli_wrong_use(self, "--relative goes with --domain around");
    if ((norm || set->radius_of_norm) && !lipsc_place_is_model(what))
        return cli_wrong_use(self, "%s needs a model: a layer file has no norm",
                             norm ? "--domain norm" : "--radius layernorm");
    if (s->atoms && s->lengths.count)
        return cli_wrong_use(self, "--atoms K is the length: leave out --length");
    return CLI_RUN;
}

static int attack(const cli_command *self, const settings *s, const char *what,
                  lipsc_attacks_settings *set) {
    watcher w = {.self = self, .set = s};
    lipsc_device *device;
    lipsc_place *place;
    lipsc_attacks found = {0};
    lipsc_error err = {.text = ""};
    int code = cli_place_open(self, &s->from, what, 0, &device, &place);
    if (code == CLI_RUN) {
        cli_interrupt_begin();
        cli_progress_begin(&w.line, &s->from.common);
        set->stop = cli_interrupted;
        set->progress = tell;
        set->share = tell_share;
        w.begin = cli_seconds();
        set->written = say_written;
        set->ctx = &w;
        const lipsc_status status = lipsc_place_attack(place, set, &found, &err);
        cli_progress_end(&w.line);
        code = print(self, s, what, place, &found);
        if (status == LIPSC_E_STOPPED)
            code = interrupted(self, s, &found);
        else if (status)
            code = cli_place_failure(self, status, &err);
        else if (code == CLI_DONE)
            code = verdict(self, s, what, &found);
    }
    lipsc_attacks_free(&found);
    lipsc_place_close(place);
    return code;
}

static int run(const cli_command *self, int argc, char **argv) {
    lipsc_attacks_settings set;
    lipsc_attacks_defaults(&set);
    settings s = {.from = CLI_PLACE_DEFAULT,
                  .iterations = set.iterations,
                  .restarts = set.restarts,
                  .out = "attack.safetensors"};
    int operands;
    char *line = cli_command_line(self, argc, argv); /* parsing moves the words */
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN)
        code = cli_radius_read(self, &s.from, &set.radius, &set.radius_of_norm);
    if (code == CLI_RUN) code = check(self, &s, argv[0], &set);
    set.lengths.count = s.lengths.count;
    set.lengths.at = s.lengths.items;
    set.atoms = s.atoms;
    set.domain = (lipsc_attack_domain)s.domain;
    set.relative = s.from.relative;
    set.dtype = s.dtype == DTYPE_DEFAULT ? -1
                : s.dtype == DTYPE_F32   ? LIPSC_F32
                                         : LIPSC_F64;
    set.restarts = s.restarts;
    set.iterations = s.iterations;
    set.tol = s.tol;
    set.seconds = s.seconds;
    set.seed = s.from.seed;
    set.out = s.out;
    set.run_file = s.run;
    set.command_line = line;
    if (code == CLI_RUN) code = attack(self, &s, argv[0], &set);
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
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
