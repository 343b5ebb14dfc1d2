/* measure_plan.c - which cells a measurement has, in the order in which they are useful:
 * the first window at all lengths and layers, then the next window. */
#include "measure.h"

#include <string.h>

#include "core/mem.h"
#include "io/show.h"

enum { DEFAULT_WINDOWS = 10, LARGEST = 100000000 };

static const size_t default_lengths[] = {16, 32, 64, 128};

/* A list of distinct numbers below `limit` named by an option; "all" or NULL: all. */
static int parse_choice(const measure_job *job, const char *option, const char *text,
                        size_t limit, cli_sizes *out) {
    char whole[32];
    snprintf(whole, sizeof whole, "0:%zu", limit - 1);
    if (!text || !strcmp(text, "all")) text = whole;
    if (cli_sizes_parse(text, 0, LARGEST, out))
        return cli_wrong_use(job->self,
                             "invalid value '%s' for '--%s': expected all, a list such as "
                             "0,3 or a range such as 0:5",
                             text, option);
    for (size_t i = 0; i < out->count; i++) {
        if (out->items[i] >= limit)
            return cli_failure(job->self, "%s: --%s %zu: the model has %s 0 to %zu",
                               job->spec, option, out->items[i], option, limit - 1);
        for (size_t j = 0; j < i; j++)
            if (out->items[i] == out->items[j])
                return cli_wrong_use(job->self, "'--%s' names %zu twice", option,
                                     out->items[i]);
    }
    return CLI_RUN;
}

/* ---- Layers and heads -------------------------------------------------------------- */

static int plan_layers(const measure_job *job, cli_sizes *layers) {
    const char *asked = job->set->layers;
    if (job->set->map == LIPSC_MAP_MODEL) {
        if (asked)
            return cli_wrong_use(job->self, "'--layers' has no meaning with --map model");
        return cli_sizes_parse("0", 0, 0, layers) ? CLI_FAILED : CLI_RUN;
    }
    const int code = parse_choice(job, "layers", asked, job->info->layers, layers);
    if (code != CLI_RUN) return code;
    for (size_t i = 0; i < layers->count; i++)
        if (!lipsc_model_has_layer(job->model, layers->items[i]))
            return cli_failure(job->self, "%s: layer %zu is not stored in it", job->spec,
                               layers->items[i]);
    return CLI_RUN;
}

/* *each: one cell for every head in the list, not one for all together. */
static int plan_heads(const measure_job *job, cli_sizes *heads, int *each) {
    const char *asked = job->set->heads;
    *each = asked && strcmp(asked, "all");
    if (!*each) return cli_sizes_parse("0", 0, 0, heads) ? CLI_FAILED : CLI_RUN;
    if (job->set->map != LIPSC_MAP_HEADS && job->set->map != LIPSC_MAP_ATTENTION)
        return cli_wrong_use(job->self, "'--heads %s' needs --map heads or attention",
                             asked);
    return parse_choice(job, "heads", strcmp(asked, "each") ? asked : NULL,
                        job->info->heads, heads);
}

/* ---- Lengths and windows ----------------------------------------------------------- */

/* An image, or ids without a length, is one window. */
static int plan_single(measure_job *job, size_t n, cli_sizes *lengths, cli_sizes *windows) {
    char text[32];
    for (size_t i = 0; i < job->set->lengths.count; i++)
        if (job->set->lengths.items[i] != n)
            return cli_failure(job->self, "%s: one window of length %zu, not of length %zu",
                               job->source.path, n, job->set->lengths.items[i]);
    if (job->set->windows && strcmp(job->set->windows, "1") &&
        strcmp(job->set->windows, "0:0"))
        return cli_failure(job->self, "%s: one window, number 0, not --windows %s",
                           job->source.path, job->set->windows);
    snprintf(text, sizeof text, "%zu", n);
    return cli_sizes_parse(text, 1, SIZE_MAX, lengths) ||
                   cli_sizes_parse("0", 0, 0, windows)
               ? CLI_FAILED
               : CLI_RUN;
}

static int check_length(const measure_job *job, size_t n) {
    const int code = cli_length_check(job->self, job->spec, job->info, &job->source, n);
    if (code != CLI_RUN) return code;
    if (job->source.ids && !cli_window_fits(&job->source, 0, n))
        return cli_failure(job->self,
                           "%s: %zu tokens are shorter than one window of length %zu",
                           job->source.path, job->source.count, n);
    return CLI_RUN;
}

static int plan_lengths(const measure_job *job, cli_sizes *lengths) {
    const cli_sizes *asked = &job->set->lengths;
    char text[128] = "";
    size_t used = 0;
    if (asked->count) {
        lengths->items = lipsc_alloc(asked->count, sizeof *lengths->items);
        if (!lengths->items) return cli_failure(job->self, "out of memory");
        for (size_t i = 0; i < asked->count; i++) {
            const int code = check_length(job, asked->items[i]);
            if (code != CLI_RUN) return code;
            size_t known = 0;
            while (known < lengths->count && lengths->items[known] != asked->items[i])
                known++;
            if (known == lengths->count) lengths->items[lengths->count++] = asked->items[i];
        }
        return CLI_RUN;
    }
    /* by default what fits */
    size_t longest = cli_window_whole(&job->source);
    if (job->info->positions && job->info->positions < longest)
        longest = job->info->positions;
    for (size_t i = 0; i < sizeof default_lengths / sizeof *default_lengths; i++)
        if (default_lengths[i] <= longest)
            used += (size_t)snprintf(text + used, sizeof text - used, "%s%zu",
                                     used ? "," : "", default_lengths[i]);
    if (!used) return check_length(job, default_lengths[0]);
    return cli_sizes_parse(text, 1, LARGEST, lengths) ? CLI_FAILED : CLI_RUN;
}

/* "5" is the first five windows; a list or a range names them. *count_only: the former. */
static int plan_windows(const measure_job *job, cli_sizes *windows, int *count_only) {
    const char *asked = job->set->windows;
    char text[32];
    size_t number = DEFAULT_WINDOWS;
    *count_only = !asked || !cli_number_size(asked, 1, LARGEST, &number);
    if (*count_only) {
        snprintf(text, sizeof text, "0:%zu", number - 1);
        asked = text;
    }
    if (!cli_sizes_parse(asked, 0, LARGEST, windows)) return CLI_RUN;
    return cli_wrong_use(job->self,
                         "invalid value '%s' for '--windows': expected how many, or a list "
                         "such as 0,7 or a range such as 5:9 of windows",
                         asked);
}

/* The longest length, and with it the stride: that of the option or of the run file, which
 * must not be shorter. */
static int plan_stride(measure_job *job, const cli_sizes *lengths, size_t *longest) {
    const cli_source_options *s = &job->set->source;
    lipsc_error err;
    *longest = 0;
    for (size_t i = 0; i < lengths->count; i++)
        if (lengths->items[i] > *longest) *longest = lengths->items[i];
    if (!cli_windows_agree(s, *longest, &err))
        return cli_wrong_use(job->self, "%s", err.text);
    if (job->stride && *longest > job->stride)
        return cli_failure(job->self,
                           "%s: its windows start every %zu tokens: length %zu needs "
                           "another run file, or --stride %zu from the beginning",
                           job->set->run, job->stride, *longest, *longest);
    if (!job->stride && !s->tiled) job->stride = s->stride ? s->stride : *longest;
    return CLI_RUN;
}

/* Whether window w is in the text.  Where all lengths start alike, all of them or none. */
static int has_window(const measure_job *job, size_t longest, size_t n, size_t start) {
    return !job->source.ids ||
           cli_window_fits(&job->source, start, job->stride ? longest : n);
}

/* ---- Cells ------------------------------------------------------------------------- */

/* Operations of one pair of products (DESIGN, "Fast"), an MLP and further blocks added. */
static double pair_cost(const measure_job *job, size_t n) {
    const lipsc_model_info *info = job->info;
    const double tokens = (double)n, d = (double)info->d, ffn = (double)info->ffn;
    double cost = 16.0 * tokens * d * d + 16.0 * tokens * tokens * d;
    if (job->set->map == LIPSC_MAP_BLOCK || job->set->map == LIPSC_MAP_MODEL)
        cost += 8.0 * tokens * d * ffn;
    if (job->set->map == LIPSC_MAP_MODEL) cost *= (double)info->layers;
    return job->dtype == LIPSC_F64 ? 2.0 * cost : cost;
}

typedef struct {
    cli_sizes layers, heads, lengths, windows;
    int each_head, count_only;
    size_t longest; /* of the lengths */
} lists;

static int make_cells(measure_job *job, const lists *l) {
    size_t room;
    const cli_source_options windows = {.stride = job->stride,
                                        .tiled = job->set->source.tiled};
    const int whole = job->set->map == LIPSC_MAP_MODEL;
    if (!lipsc_mul_size(l->layers.count, l->heads.count, &room) ||
        !lipsc_mul_size(room, l->lengths.count, &room) ||
        !lipsc_mul_size(room, l->windows.count, &room) ||
        !(job->cells = lipsc_alloc_zero(room, sizeof *job->cells)) ||
        !(job->rows = lipsc_alloc(room, sizeof *job->rows)))
        return cli_failure(job->self, "out of memory for so many cells");
    size_t missing = 0;
    for (size_t w = 0; w < l->windows.count; w++)
        for (size_t i = 0; i < l->lengths.count; i++) {
            const size_t n = l->lengths.items[i], window = l->windows.items[w];
            const size_t start = cli_window_start(&windows, l->longest, n, window);
            if (!has_window(job, l->longest, n, start)) {
                if (!l->count_only)
                    return cli_failure(job->self,
                                       "%s: window %zu of length %zu is beyond its %zu "
                                       "tokens",
                                       job->source.path, window, n, job->source.count);
                missing++;
                continue;
            }
            for (size_t a = 0; a < l->layers.count; a++)
                for (size_t h = 0; h < l->heads.count; h++)
                    job->cells[job->cell_count++] = (measure_cell){
                        .layer = whole ? MEASURE_NONE : l->layers.items[a],
                        .head = l->each_head ? l->heads.items[h] : MEASURE_NONE,
                        .n = n,
                        .window = window,
                        .start = start,
                        .cost = pair_cost(job, n)};
        }
    if (missing && !job->set->common.quiet)
        fprintf(
            stderr,
            "lipscope measure: %s: %zu tokens; %zu windows do not fit and are left out\n",
            job->source.path, job->source.count, missing);
    return CLI_RUN;
}

/* Tokens of an image: as many as the model makes of it. */
static int image_length(measure_job *job, size_t *n) {
    lipsc_acts *acts;
    lipsc_error err;
    if (lipsc_acts_new_pixels(job->model, job->dtype, NULL, job->source.shape,
                              job->source.pixels, 1, &acts, &err))
        return cli_failure(job->self, "%s", err.text);
    *n = lipsc_acts_length(acts);
    lipsc_acts_free(acts);
    return CLI_RUN;
}

void measure_cells_free(measure_job *job) {
    lipsc_release(job->cells);
    lipsc_release(job->rows);
    lipsc_pool_free(&job->pool);
}

int measure_single(const measure_settings *set) {
    return set->source.pixels || (set->source.ids && !set->lengths.count);
}

int measure_plan(measure_job *job) {
    lists l = {0};
    size_t n = cli_window_whole(&job->source);
    int code = plan_layers(job, &l.layers);
    if (code == CLI_RUN) code = plan_heads(job, &l.heads, &l.each_head);
    if (code == CLI_RUN && job->source.pixels) code = image_length(job, &n);
    if (code == CLI_RUN && measure_single(job->set)) {
        code = job->source.ids ? check_length(job, n) : CLI_RUN;
        if (code == CLI_RUN) code = plan_single(job, n, &l.lengths, &l.windows);
    } else if (code == CLI_RUN) {
        code = plan_lengths(job, &l.lengths);
        if (code == CLI_RUN) code = plan_stride(job, &l.lengths, &l.longest);
        if (code == CLI_RUN) code = plan_windows(job, &l.windows, &l.count_only);
    }
    if (code == CLI_RUN) code = make_cells(job, &l);
    if (code == CLI_RUN && job->set->shard) code = measure_shard(job);
    cli_sizes_free(&l.layers);
    cli_sizes_free(&l.heads);
    cli_sizes_free(&l.lengths);
    cli_sizes_free(&l.windows);
    return code;
}
