/* cmd_measure.c - lipscope measure: sigma of the layers of a model on windows of a text. */
#define _POSIX_C_SOURCE 200809L
#include <float.h>
#include <math.h>
#include <omp.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "core/clock.h"
#include "core/mem.h"
#include "interrupt.h"
#include "measure.h"
#include "names.h"

#define AT(member) .offset = offsetof(measure_settings, member)

static const cli_option options[] = {
    {.kind = CLI_GROUP, .name = "Where"},
    CLI_SOURCE_OPTIONS(measure_settings),
    {.kind = CLI_SIZES,
     .name = "lengths",
     .value = "LIST",
     .min = 1,
     .max = 100000000,
     AT(lengths),
     .help = "tokens of a window (default 16:128:x2, as far as it fits)"},
    {.kind = CLI_SIZES, .name = "length", .min = 1, .max = 100000000, AT(lengths)},
    {.kind = CLI_TEXT,
     .name = "windows",
     .value = "N|LIST",
     AT(windows),
     .help = "the first N windows of each length, or those in a list or range such as "
             "5:9 (default 10)"},
    {.kind = CLI_TEXT,
     .name = "layers",
     .value = "LIST",
     AT(layers),
     .help = "all, a list or a range (default all)"},
    {.kind = CLI_TEXT, .name = "layer", AT(layers)},
    {.kind = CLI_TEXT,
     .name = "heads",
     .value = "LIST",
     AT(heads),
     .help = "all together, each alone, or a list of heads alone (default all)"},
    {.kind = CLI_CHOICE,
     .name = "map",
     .value = "M",
     .wanted = "heads|attention|norm-attention|residual|block|model",
     AT(map),
     .help = "what is differentiated: heads, attention, norm-attention, residual, block "
             "or model (default attention)"},
    {.kind = CLI_CHOICE,
     .name = "mask",
     .value = "M",
     .wanted = "model|none|causal",
     AT(mask),
     .help = "model, none or causal (default: the model's own)"},

    {.kind = CLI_GROUP, .name = "The solve"},
    {.kind = CLI_CHOICE,
     .name = "dtype",
     .value = "T",
     .wanted = "f32|f64",
     AT(dtype),
     .help = "precision of the products: f32 or f64 (default f32); the value is "
             "re-evaluated in double either way"},
    {.kind = CLI_REAL,
     .name = "tol",
     .value = "T",
     .min = DBL_MIN,
     .max = DBL_MAX,
     AT(tol),
     .wanted = "a positive number",
     .help = "residual to stop at (default 1e-2 in f32, 1e-8 in f64)"},
    CLI_SOLVER_OPTION(measure_settings),
    {.kind = CLI_SIZE,
     .name = "max-products",
     .value = "N",
     .min = 1,
     .max = 1e9,
     AT(max_products),
     .help = "pairs of products at most, for each cell (default 1000)"},
    CLI_PART_OPTION(measure_settings),
    {.kind = CLI_SEED,
     .name = "seed",
     .value = "N",
     AT(seed),
     .help = "seed of start vectors, of resampling and of random models (default 1)"},
    CLI_THREADS_OPTION(measure_settings),

    {.kind = CLI_GROUP, .name = "What is told"},
    CLI_COUNT_OPTION(measure_settings),
    {.kind = CLI_FLAG,
     .name = "upper",
     AT(upper),
     .help = "a proved upper bound as well (maps heads and attention)"},
    CLI_CERTIFY_OPTIONS(measure_settings),
    CLI_PROBABILITY_OPTION(measure_settings),
    {.kind = CLI_FLAG,
     .name = "as-released",
     AT(as_released),
     .help = "|J^T f(X)|^(1/2) as well, what the paper's scripts return"},
    {.kind = CLI_FLAG,
     .name = "details",
     AT(details),
     .help = "entropy of the attention, its sink, the token and the pair of tokens that "
             "matter most; takes several times as long"},
    {.kind = CLI_FLAG,
     .name = "sink",
     AT(sink),
     .help =
         "entropy of the attention, its sink, what moving the sink token alone does and "
         "what all others do while it is held fixed; three times as long"},
    {.kind = CLI_TEXT,
     .name = "save-direction",
     .value = "PATH",
     AT(save_direction),
     .help = "write the direction that reaches each value: one file, or a folder of them "
             "when there are several cells"},
    {.kind = CLI_REAL,
     .name = "max-sigma",
     .value = "S",
     .min = 0,
     .max = DBL_MAX,
     AT(max_sigma),
     .wanted = "a number that is not negative",
     .help = "exit 4 when any sigma is larger"},
    {.kind = CLI_TEXT,
     .name = "run",
     .value = "FILE",
     AT(run),
     .help = "keep every finished cell in this file; the same command goes on from there"},
    {.kind = CLI_TEXT,
     .name = "shard",
     .value = "I/K",
     AT(shard),
     .help = "only the I-th of K parts of about equal cost, each a run file of its own; "
             "`lipscope merge` joins them"},
    {.kind = CLI_FLAG,
     .name = "timing",
     AT(timing),
     .help = "say on standard error where the time went"},
    CLI_OUTPUT_OPTIONS(measure_settings),
};

/* ---- What was asked ---------------------------------------------------------------- */

static int check_options(const cli_command *self, const measure_settings *s) {
    const int sources = !!s->source.text + !!s->source.ids + !!s->source.pixels;
    if (sources != 1)
        return cli_wrong_use(self, sources ? "give only one of --text, --ids and --pixels"
                                           : "give a text with --text FILE (or --ids, or "
                                             "--pixels for a model of images)");
    const int code = cli_source_check(self, &s->source);
    if (code != CLI_RUN) return code;
    const int attention = s->map == LIPSC_MAP_HEADS || s->map == LIPSC_MAP_ATTENTION;
    if (!attention && s->upper)
        return cli_wrong_use(self,
                             "'--upper' is known for the maps heads and attention only");
    return CLI_RUN;
}

/* A folder for directions, or the one file's own name. */
static int prepare_directions(const measure_job *job) {
    const char *path = job->set->save_direction;
    struct stat info;
    if (!path || job->cell_count == 1) return CLI_RUN;
    if (mkdir(path, 0777) && (stat(path, &info) || !S_ISDIR(info.st_mode)))
        return cli_failure(job->self, "%s: cannot make this folder for %zu directions",
                           path, job->cell_count);
    return CLI_RUN;
}

/* ---- The run file ------------------------------------------------------------------ */

/* Everything that decides a value.  Lengths, windows and layers are not among it: they only
 * say which cells there are, and a run may be extended. */
static json_t *run_settings(const measure_job *job) {
    const measure_settings *s = job->set;
    json_t *all = json_object();
    json_object_set_new(all, "model_hash", json_string(job->info->hash));
    json_object_set_new(all, "text_hash", json_string(job->source.hash));
    json_object_set_new(all, "ids_hash", json_string(job->source.ids_hash));
    json_object_set_new(all, "map", json_string(measure_map_names[s->map]));
    json_object_set_new(all, "mask", json_string(measure_mask_name(job)));
    json_object_set_new(all, "heads", json_string(s->heads ? s->heads : "all"));
    json_object_set_new(all, "dtype", json_string(lipsc_dtype_name(job->dtype)));
    json_object_set_new(all, "seed", json_integer((json_int_t)s->seed));
    json_object_set_new(all, "tol", json_real(measure_tol(job)));
    json_object_set_new(all, "value_tol", json_real(measure_value_tol(job)));
    json_object_set_new(all, "solver", json_integer(s->solver));
    json_object_set_new(all, "max_products", json_integer((json_int_t)s->max_products));
    json_object_set_new(all, "probability", json_real(s->probability));
    json_object_set_new(all, "count", json_integer((json_int_t)s->count));
    json_object_set_new(all, "upper", json_boolean(s->upper));
    json_object_set_new(all, "as_released", json_boolean(s->as_released));
    json_object_set_new(all, "details", json_boolean(s->details));
    json_object_set_new(all, "sink", json_boolean(s->sink));
    json_object_set_new(all, "special", json_boolean(s->source.special));
    json_object_set_new(all, "tiled", json_boolean(!job->stride));
    json_object_set_new(all, "stride",
                        job->stride ? json_integer((json_int_t)job->stride) : json_null());
    json_object_set_new(all, "certify",
                        s->certify.eps > 0.0 ? json_real(s->certify.eps) : json_null());
    return all;
}

/* What files of the first edition were made with. */
static json_t *absent_settings(void) {
    return json_pack("{s:b, s:n, s:n, s:b, s:b}", "tiled", 1, "stride", "certify", "sink",
                     0, "special", 0);
}

/* A run keeps its stride, so that lengths up to it can be added. */
static int take_stride(measure_job *job) {
    const measure_settings *s = job->set;
    if (!s->run || s->source.stride || s->source.tiled || measure_single(s)) return CLI_RUN;
    json_t *stored = lipsc_run_settings(s->run, cli_cmd_measure.name);
    if (!stored) return CLI_RUN;
    const json_int_t stride = json_integer_value(json_object_get(stored, "stride"));
    json_decref(stored);
    if (stride > 0) {
        job->stride = (size_t)stride;
        return CLI_RUN;
    }
    return cli_failure(job->self,
                       "%s: its windows are tiled, window w of length n starts at token "
                       "w n: --tiled continues it",
                       s->run);
}

/* Rows of cells that an earlier call has finished. */
static lipsc_status restore(measure_job *job, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < job->cell_count && !status; i++) {
        measure_cell *cell = &job->cells[i];
        char path[4096];
        if (job->set->save_direction && /* its direction is not in the run file */
            (!measure_direction_path(job, cell, path, sizeof path) || access(path, R_OK)))
            continue;
        status = measure_restore(job, cell, err);
    }
    return status;
}

static int open_run(measure_job *job, const char *line) {
    const char *names[MEASURE_FIELDS];
    lipsc_fields_names(lipsc_row_fields(), names);
    json_t *settings = run_settings(job), *absent = absent_settings();
    const lipsc_run_options how = {.command = cli_cmd_measure.name,
                                   .command_line = line,
                                   .settings = settings,
                                   .absent = absent,
                                   .field_count = lipsc_row_fields().count,
                                   .fields = names};
    lipsc_error err;
    lipsc_status status = lipsc_run_open(job->set->run, &how, &job->run, &err);
    if (!status) status = restore(job, &err);
    json_decref(settings);
    json_decref(absent);
    return status ? cli_failure(job->self, "%s", err.text) : CLI_RUN;
}

/* ---- What came out ----------------------------------------------------------------- */

static size_t finished(const measure_job *job) {
    size_t count = 0;
    for (size_t i = 0; i < job->cell_count; i++) count += job->cells[i].row != NULL;
    return count;
}

/* Of the process, mapped files included. */
static long peak_megabytes(void) {
    struct rusage used;
    return getrusage(RUSAGE_SELF, &used) ? 0 : (long)((double)used.ru_maxrss * 1024e-6);
}

static void say_timing(const measure_job *job, size_t computed, double seconds) {
    const measure_times *t = &job->times;
    const double busy = t->forward + t->prepare + t->solve + t->extras;
    fprintf(stderr,
            "lipscope measure: %zu cells in %.3f s, %.1f cells/s; %d threads busy %.0f %%; "
            "of that products %.1f %%, the rest of the solver %.1f %%, projections and row "
            "statistics %.1f %%, forward pass %.1f %%, extras %.1f %%; %ld MB of memory\n",
            computed, seconds, (double)computed / seconds, job->threads,
            100.0 * busy / (seconds * job->threads), 100.0 * t->products / busy,
            100.0 * (t->solve - t->products) / busy, 100.0 * t->prepare / busy,
            100.0 * t->forward / busy, 100.0 * t->extras / busy, peak_megabytes());
}

static int verdict(const measure_job *job) {
    const measure_settings *s = job->set;
    size_t above = 0, loose = 0, open = 0, worst = 0;
    char key[MEASURE_KEY];
    for (size_t i = 0; i < job->cell_count; i++) {
        const lipsc_row *row = job->cells[i].row;
        if (!row) continue;
        if (row->sigma > s->max_sigma &&
            (!above++ || row->sigma > job->cells[worst].row->sigma))
            worst = i;
        loose += row->converged != 1;
        open += row->certified == 0;
    }
    if (above) {
        measure_key(job, &job->cells[worst], key);
        cli_failure(job->self,
                    "%s: sigma %.17g exceeds --max-sigma %.17g (%s; %zu of %zu cells "
                    "do)",
                    job->spec, job->cells[worst].row->sigma, s->max_sigma, key, above,
                    job->cell_count);
        return CLI_ABOVE_LIMIT;
    }
    if (!loose && !open) return CLI_DONE;
    if (loose && !s->common.quiet)
        cli_failure(job->self, "%s: %zu of %zu cells did not converge", job->spec, loose,
                    job->cell_count);
    if (open && !s->common.quiet)
        cli_failure(job->self, "%s: %zu of %zu cells have no certificate", job->spec, open,
                    job->cell_count);
    return CLI_NOT_CONVERGED;
}

/* An interrupted or failed sweep prints what it has as well. */
static int conclude(measure_job *job, lipsc_status status, const lipsc_error *err) {
    const size_t have = finished(job);
    const char *run = job->set->run;
    int code = have || !status ? measure_print(job) : CLI_DONE;
    if (status == LIPSC_E_STOPPED) {
        cli_interrupt_done();
        return run ? cli_failure(job->self,
                                 "interrupted; %zu of %zu cells stored in %s; the same "
                                 "command continues",
                                 have, job->cell_count, run)
                   : cli_failure(job->self, "interrupted; %zu of %zu cells finished", have,
                                 job->cell_count);
    }
    if (status)
        return cli_failure(job->self, "%s; %zu of %zu cells finished", err->text, have,
                           job->cell_count);
    return code == CLI_DONE ? verdict(job) : code;
}

/* ---- Together ---------------------------------------------------------------------- */

void measure_defaults(measure_settings *s) {
    lipsc_svd_settings solver;
    lipsc_svd_defaults(&solver);
    *s = (measure_settings){.map = LIPSC_MAP_ATTENTION,
                            .certify = CLI_CERTIFY_DEFAULTS,
                            .max_sigma = INFINITY,
                            .probability = solver.probability,
                            .seed = solver.seed};
}

int measure_begin(measure_job *job, const cli_command *self, const measure_settings *s,
                  const char *spec, const char *line) {
    lipsc_error err;
    *job = (measure_job){
        .self = self,
        .set = s,
        .spec = spec,
        .mask = s->mask == MEASURE_MASK_NONE ? LIPSC_MASK_NONE : LIPSC_MASK_CAUSAL,
        .dtype = s->dtype ? LIPSC_F64 : LIPSC_F32,
        .threads = s->common.threads ? (int)s->common.threads : omp_get_max_threads()};
    if (s->mask != MEASURE_MASK_MODEL) job->mask_override = &job->mask;
    if (lipsc_model_open_part(job->spec, (lipsc_part)s->part, s->seed, &job->model, &err))
        return cli_failure(job->self, "%s", err.text);
    job->info = lipsc_model_describe(job->model);
    if (cli_source_read(&s->source, job->spec, job->info, &job->source, &err))
        return cli_failure(job->self, "%s", err.text);
    if (!s->common.quiet) cli_source_say(self, spec, &s->source, &job->source);
    int code = take_stride(job);
    if (code == CLI_RUN) code = measure_plan(job);
    if (code == CLI_RUN) code = prepare_directions(job);
    if (code == CLI_RUN && s->run) code = open_run(job, line);
    return code;
}

void measure_end(measure_job *job) {
    lipsc_run_close(job->run);
    measure_cells_free(job);
    cli_source_free(&job->source);
    lipsc_model_free(job->model);
}

static int measure(measure_job *job) {
    const measure_settings *s = job->set;
    lipsc_error err = {.text = ""};
    const size_t before = finished(job);
    const double begin = lipsc_seconds();
    cli_interrupt_begin();
    const lipsc_status status = measure_sweep(job, &err);
    if (s->timing && finished(job) > before)
        say_timing(job, finished(job) - before, lipsc_seconds() - begin);
    return conclude(job, status, &err);
}

static int run(const cli_command *self, int argc, char **argv) {
    measure_settings s;
    int operands;
    measure_defaults(&s);
    char *line = cli_command_line(self, argc, argv); /* parsing moves the words */
    int code = cli_parse(self, argc, argv, &s, &operands);
    if (code == CLI_RUN) code = check_options(self, &s);
    if (code == CLI_RUN) {
        measure_job job;
        code = measure_begin(&job, self, &s, argv[0], line);
        if (code == CLI_RUN) code = measure(&job);
        measure_end(&job);
    }
    cli_sizes_free(&s.lengths);
    lipsc_release(line);
    return code;
}

const cli_command cli_cmd_measure = {
    .name = "measure",
    .operands = "MODEL",
    .min_operands = 1,
    .max_operands = 1,
    .summary = "sigma of a model's layers on a text, and how it grows with length",
    .about =
        "The largest singular value of the Jacobian of each layer of a model, at windows\n"
        "of a text: how far a small change of its input can be stretched.  MODEL is a\n"
        "Hugging Face folder, random:FAMILY or random:DIR.  With three lengths or more a\n"
        "growth law sigma ~ c n^e is fitted for each layer.",
    .example =
        "  $ lipscope measure gpt2/ --text alice.txt --lengths 16:512:x2 --run a.db\n",
    .option_count = sizeof options / sizeof *options,
    .options = options,
    .run = run,
};
