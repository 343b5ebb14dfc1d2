/* cmd_attack.c - lipscope attack: the input of given length and radius at which sigma is
 * largest, as far as a search finds it. */
#define _POSIX_C_SOURCE 200809L
#include <math.h>
#include <omp.h>
#include <string.h>
#include <unistd.h>

#include "attack.h"
#include "core/mem.h"
#include "interrupt.h"
#include "names.h"
#include "run/growth.h"

#define AT(member)   .offset = offsetof(attack_settings, member)
#define FROM(member) .offset = offsetof(attack_settings, from.member)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "The domain"},
    {.kind = CLI_SIZES,
     .name = "lengths",
     .value = "LIST",
     .min = 1,
     .max = 1e8,
     AT(lengths),
     .help = "tokens: 64, or several such as 8:512:x2 (default: those of the input given)"},
    {.kind = CLI_SIZES, .name = "length", .min = 1, .max = 1e8, AT(lengths)},
    {.kind = CLI_TEXT,
     .name = "radius",
     .value = "R",
     FROM(radius),
     .help = "a number, or layernorm: that of the norm in front of the layer (default: the "
             "longest token of the input given)"},
    CLI_RELATIVE_OPTION(bounds_settings, "--radius (domain around)"),
    {.kind = CLI_CHOICE,
     .name = "domain",
     .value = "D",
     .wanted = "ball|sphere|norm|around",
     AT(domain),
     .help = "ball: every |x_i| <= R; sphere: every |x_i| = R; norm: the image of the norm "
             "in front of the layer; around: every token within R of that of the input "
             "given (default ball)"},
    {.kind = CLI_SIZE,
     .name = "atoms",
     .value = "K",
     .min = 1,
     .max = 1e6,
     AT(atoms),
     .help = "seek a measure of K atoms instead, positions and masses"},

    {.kind = CLI_GROUP, .name = "A layer file"},
    CLI_LAYER_OPTIONS(bounds_settings),

    {.kind = CLI_GROUP, .name = "A model"},
    CLI_ONE_LAYER_OPTIONS(bounds_settings),
    CLI_ONE_HEAD_OPTION(bounds_settings),
    CLI_SOURCE_OPTIONS(bounds_settings),
    CLI_WINDOW_OPTION(bounds_settings),
    CLI_MAP_OPTION(bounds_settings),
    CLI_MASK_OPTION(bounds_settings),
    CLI_PART_OPTION(bounds_settings),

    {.kind = CLI_GROUP, .name = "The search"},
    {.kind = CLI_SIZE,
     .name = "restarts",
     .value = "N",
     .min = 1,
     .max = 1e6,
     AT(restarts),
     .help = "starts that are climbed from (default 8, 32 for small layers)"},
    {.kind = CLI_SIZE,
     .name = "iterations",
     .value = "N",
     .min = 0,
     .max = 1e9,
     AT(iterations),
     .help = "of the longest climb (default 200)"},
    {.kind = CLI_SEED,
     .name = "seed",
     .value = "N",
     FROM(seed),
     .help = "of random inputs and random models (default 1)"},
    {.kind = CLI_CHOICE,
     .name = "dtype",
     .value = "T",
     .wanted = "default|f32|f64",
     AT(dtype),
     .help = "precision of the search: f32 or f64 (default f32 for a model, f64 for a "
             "file); the value found is computed in double"},
    {.kind = CLI_REAL,
     .name = "tol",
     .value = "T",
     .min = 1e-14,
     .max = 1.0,
     AT(tol),
     .wanted = "a number from 1e-14 to 1",
     .help = "residual of the value found (default 1e-8)"},
    CLI_THREADS_OPTION(bounds_settings),

    {.kind = CLI_GROUP, .name = "Files"},
    {.kind = CLI_TEXT,
     .letter = 'o',
     .name = "out",
     .value = "FILE",
     AT(out),
     .help =
         "the input found, with the layer and the direction that reaches sigma (default "
         "attack.safetensors); with several lengths NAME-LENGTH.EXT"},
    {.kind = CLI_TEXT,
     .name = "run",
     .value = "FILE",
     AT(run),
     .help = "keep finished lengths in this SQLite file and continue from it"},
    CLI_OUTPUT_OPTIONS(bounds_settings),
};

static const lipsc_column columns[] = {
    {"n", LIPSC_COLUMN_INTEGER},     {"radius", LIPSC_COLUMN_REAL},
    {"domain", LIPSC_COLUMN_STRING}, {"start", LIPSC_COLUMN_STRING},
    {"sigma", LIPSC_COLUMN_REAL},    {"lower", LIPSC_COLUMN_REAL},
    {"residual", LIPSC_COLUMN_REAL}, {"best_construction", LIPSC_COLUMN_REAL},
    {"upper", LIPSC_COLUMN_REAL},    {"evaluations", LIPSC_COLUMN_INTEGER},
    {"input", LIPSC_COLUMN_STRING}};
enum { COLUMNS = sizeof columns / sizeof *columns };

/* ---- The run file ------------------------------------------------------------------- */

/* All that decides a value, except the length: a run may be extended. */
static json_t *run_settings(const attack_job *job) {
    const attack_settings *s = job->set;
    const bounds_settings *f = &s->from;
    json_t *all = json_pack(
        "{s:s, s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:f, s:f, s:s, s:I, s:s, s:I, s:I, "
        "s:I, s:s, s:f}",
        "hash", job->hash, "text_hash", job->source.source.hash, "ids_hash",
        job->source.source.ids_hash, "layer", (json_int_t)f->layer, "heads",
        f->head ? f->head : "all", "map", cli_map_name(&job->layer), "num_heads",
        (json_int_t)job->layer.heads, "kv_heads", (json_int_t)job->layer.kv_heads,
        "sliding", (json_int_t)job->layer.window, "scale", job->layer.scale, "tol", s->tol,
        "mask", lipsc_mask_name(job->layer.mask), "window", (json_int_t)f->window, "domain",
        attack_domain_names[s->domain], "atoms", (json_int_t)s->atoms, "restarts",
        (json_int_t)s->restarts, "iterations", (json_int_t)s->iterations, "dtype",
        lipsc_dtype_name(job->dtype), "seed", (double)f->seed);
    /* the first window starts at 0 either way */
    const size_t stride = f->source.stride ? f->source.stride : job->source.longest;
    const int tiled = f->source.tiled || f->window == 0;
    json_object_set_new(all, "special", json_boolean(f->source.special));
    json_object_set_new(all, "tiled", json_boolean(tiled));
    json_object_set_new(all, "stride",
                        tiled ? json_null() : json_integer((json_int_t)stride));
    return all;
}

static void cell_key(size_t n, double radius, char *key, size_t room) {
    snprintf(key, room, "n=%zu radius=%.17g", n, radius);
}

static int open_run(attack_job *job, const char *line) {
    const char *names[COLUMNS];
    for (size_t c = 0; c < COLUMNS; c++) names[c] = columns[c].name;
    json_t *settings = run_settings(job);
    json_t *absent = json_pack("{s:b, s:n, s:b}", "tiled", 1, "stride", "special", 0);
    const lipsc_run_options how = {.command = job->self->name,
                                   .command_line = line,
                                   .settings = settings,
                                   .absent = absent,
                                   .field_count = COLUMNS,
                                   .fields = names};
    lipsc_error err = {.text = "out of memory"};
    const lipsc_status status =
        settings ? lipsc_run_open(job->set->run, &how, &job->run, &err) : LIPSC_E_NOMEM;
    json_decref(settings);
    json_decref(absent);
    return status ? cli_failure(job->self, "%s", err.text) : CLI_RUN;
}

/* The row of an earlier call, when its file is still there. */
static lipsc_status restore(attack_job *job, size_t i, const char *key, lipsc_error *err) {
    char path[4096];
    if (!job->run || !attack_path(job, job->lengths[i], path, sizeof path) ||
        access(path, R_OK))
        return LIPSC_OK;
    const lipsc_status status = lipsc_run_get(job->run, key, &job->rows[i], err);
    const char *stored = json_string_value(json_object_get(job->rows[i], "input"));
    if (!status && job->rows[i] && (!stored || strcmp(stored, path))) {
        json_decref(job->rows[i]); /* another file */
        job->rows[i] = NULL;
    }
    return status;
}

/* ---- Rows --------------------------------------------------------------------------- */

static void fill_row(lipsc_table *t, const json_t *row) {
    lipsc_table_row(t);
    for (size_t c = 0; c < COLUMNS; c++) {
        const json_t *value = json_object_get(row, columns[c].name);
        if (json_is_string(value))
            lipsc_table_string(t, columns[c].name, json_string_value(value));
        else if (json_is_integer(value))
            lipsc_table_integer(t, columns[c].name, json_integer_value(value));
        else if (json_is_real(value))
            lipsc_table_real(t, columns[c].name, json_real_value(value));
    }
}

/* sigma ~ c n^e over the lengths; one value for each, so there is no interval.  slopes:
 * room for as many.  0 where there is no law to fit. */
static int fit_growth(const attack_job *job, double *slopes, lipsc_growth *out) {
    const int model = job->source.model != NULL;
    lipsc_fit_point *points = lipsc_alloc(job->count, sizeof *points);
    lipsc_fit fit;
    size_t used = 0;
    for (size_t i = 0; points && i < job->count; i++)
        if (job->rows[i])
            points[used++] = (lipsc_fit_point){
                .n = job->lengths[i],
                .x = (double)job->lengths[i],
                .y = json_number_value(json_object_get(job->rows[i], "sigma"))};
    const int found =
        points && slopes &&
        !lipsc_fit_power(used, points, job->set->from.seed, &fit, slopes, NULL);
    if (found) {
        lipsc_fields_clear(lipsc_growth_fields(), out);
        if (model) out->layer = job->set->from.layer;
        if (model && job->source.head >= 0) out->head = (size_t)job->source.head;
        out->map = cli_map_name(&job->layer);
        out->against = "n";
        lipsc_growth_set(out, &fit, slopes, NULL);
    }
    lipsc_release(points);
    return found;
}

/* One value for each length has no interval, and a slope without a straight line is no
 * law. */
static void say_growth(const lipsc_growth *law) {
    if (law->law > 0)
        printf("\nsigma ~ %.4g n^%.4g over %zu lengths, each with one input\n",
               law->coefficient, law->exponent, law->lengths);
    else
        printf("\nno power law: slope %.4g over %zu lengths, but the local slopes are more "
               "than 0.15 apart\n",
               law->exponent, law->lengths);
}

static int print(const attack_job *job) {
    const lipsc_format format = (lipsc_format)job->set->from.common.format;
    lipsc_error err = {.text = "out of memory"};
    size_t done = 0;
    lipsc_table *t = lipsc_table_new(job->self->name, format, LIPSC_LAYOUT_WIDE, stdout,
                                     COLUMNS, columns);
    if (!t) return cli_failure(job->self, "%s", err.text);
    for (size_t i = 0; i < job->count; i++)
        if (job->rows[i]) {
            fill_row(t, job->rows[i]);
            done++;
        }
    if (!done) {
        lipsc_table_free(t);
        return CLI_DONE;
    }
    double *slopes = lipsc_alloc(job->count, sizeof *slopes);
    lipsc_growth law;
    const int fitted = fit_growth(job, slopes, &law);
    const lipsc_growths laws = {.count = (size_t)fitted, .at = &law};
    lipsc_table_member(t, "fits", lipsc_growths_json(&laws));
    lipsc_table_member(t, "measure", json_boolean(job->set->atoms > 0));
    lipsc_table_member(t, "special", json_boolean(job->set->from.source.special));
    const lipsc_status status = lipsc_table_end(t, &err);
    if (!status && fitted && format == LIPSC_FORMAT_TABLE) say_growth(&law);
    lipsc_release(slopes);
    lipsc_table_free(t);
    return status ? cli_failure(job->self, "%s", err.text) : CLI_DONE;
}

/* ---- Together ----------------------------------------------------------------------- */

/* A search takes minutes: whether its file can be made is better known before. */
static int check_folder(const attack_job *job) {
    char folder[4096];
    const char *out = job->set->out, *slash = strrchr(out, '/');
    if (!slash) return CLI_RUN;
    const size_t length = slash == out ? 1 : (size_t)(slash - out);
    if (length >= sizeof folder) return cli_failure(job->self, "%s: too long a name", out);
    memcpy(folder, out, length);
    folder[length] = '\0';
    return access(folder, W_OK | X_OK)
               ? cli_failure(job->self, "%s: cannot write files into this folder", folder)
               : CLI_RUN;
}

static lipsc_status attack_lengths(attack_job *job, int *code, lipsc_error *err) {
    const attack_settings *s = job->set;
    for (size_t i = 0; i < job->count; i++) {
        lipsc_attack_settings aim;
        char key[96];
        job->current = i;
        lipsc_attack_defaults(&aim);
        aim.seed = s->from.seed;
        aim.threads = (int)s->from.common.threads;
        aim.dtype = job->dtype;
        aim.tol = s->tol;
        aim.iterations = s->iterations;
        aim.restarts = s->restarts;
        *code = attack_source_aim(job, job->lengths[i], &aim);
        if (*code != CLI_RUN) return LIPSC_OK;
        cell_key(aim.n, aim.radius, key, sizeof key);
        lipsc_status status = restore(job, i, key, err);
        if (!status && !job->rows[i]) {
            status = attack_cell(job, job->lengths[i], &aim, &job->rows[i], err);
            if (!status && job->run)
                status = lipsc_run_put(job->run, key, job->rows[i], err);
        }
        if (status) return status;
    }
    return LIPSC_OK;
}

static int verdict(const attack_job *job) {
    int code = CLI_DONE;
    for (size_t i = 0; i < job->count; i++) {
        const json_t *row = job->rows[i];
        if (!row || json_is_true(json_object_get(row, "converged"))) continue;
        code = CLI_NOT_CONVERGED;
        if (!job->set->from.common.quiet)
            cli_failure(job->self, "%s: n %zu: sigma not converged: residual %.2e",
                        job->what, job->lengths[i],
                        json_number_value(json_object_get(row, "residual")));
    }
    return code;
}

static int interrupted(const attack_job *job) {
    char went[80] = "the best input so far is kept";
    cli_interrupt_done();
    if (!job->rows[job->current])
        snprintf(went, sizeof went, "no input of length %zu was found before, none is kept",
                 job->lengths[job->current]);
    return cli_failure(job->self, "interrupted; %s%s%s", went,
                       job->run ? "; the same command continues with " : "",
                       job->run ? job->set->run : "");
}

static int attack(attack_job *job, const char *line) {
    lipsc_error err = {.text = ""};
    int code = attack_source_open(job);
    if (code == CLI_RUN) code = check_folder(job);
    if (code == CLI_RUN && job->set->run) code = open_run(job, line);
    if (code != CLI_RUN) return code;
    const size_t threads = job->set->from.common.threads;
    if (threads) omp_set_num_threads((int)threads); /* of the dense algebra as well */
    cli_interrupt_begin();
    const lipsc_status status = attack_lengths(job, &code, &err);
    if (code != CLI_RUN) return code;
    const int printed = print(job);
    if (status == LIPSC_E_STOPPED) return interrupted(job);
    if (status) return cli_failure(job->self, "%s", err.text);
    return printed == CLI_DONE ? verdict(job) : printed;
}

static int run(const cli_command *self, int argc, char **argv) {
    lipsc_attack_settings defaults;
    lipsc_attack_defaults(&defaults);
    attack_settings s = {.from = {.scale = NAN, .map = 1, .seed = 1},
                         .iterations = defaults.iterations,
                         .restarts = defaults.restarts,
                         .out = "attack.safetensors"};
    int operands;
    char *line = cli_command_line(self, argc, argv); /* parsing moves the words */
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN && s.from.scale == 0.0) /* would mean "default" to the library */
        code = cli_wrong_use(self, "invalid value '0' for '--scale': expected a number "
                                   "other than zero");
    if (code == CLI_RUN) {
        attack_job job = {.self = self, .set = &s, .what = argv[0]};
        code = attack(&job, line);
        lipsc_run_close(job.run);
        attack_source_close(&job);
    }
    cli_sizes_free(&s.lengths);
    lipsc_release(line);
    return code;
}

const cli_command cli_cmd_attack = {
    .name = "attack",
    .operands = "MODEL|FILE",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "the worst input of given length and radius, as far as a search finds it",
    .about =
        "Looks for the input at which the largest singular value of one attention layer\n"
        "is largest: from the known worst cases of every head, from random inputs and\n"
        "from the input given, projected ascent along the gradient of sigma.  What it\n"
        "prints is reached by the input it writes; `upper` is proved for the whole\n"
        "domain, where a bound applies.  FILE is a layer file as `lipscope layer` reads\n"
        "it, with or without X.  The file written holds the layer with its heads, mask,\n"
        "scale, positions and norms, so it is read without options.  With three lengths or "
        "more sigma ~ c n^e is fitted.\n"
        "Ctrl-C ends the search and keeps the best input so far.",
    .example = "  $ lipscope attack gpt2/ --layer 3 --length 32 --radius layernorm\n"
               "  $ lipscope attack layer.safetensors --length 24 --radius 2\n"
               "  $ lipscope layer attack.safetensors\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
