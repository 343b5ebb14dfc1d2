/* measure_ask.c - what the options of `lipscope measure` ask for, as a study. */
#include <math.h>
#include <string.h>

#include "measure.h"
#include "ranks.h"

void measure_defaults(measure_settings *s) {
    lipsc_study_settings set;
    lipsc_study_defaults(&set);
    *s = (measure_settings){.map = LIPSC_MAP_ATTENTION,
                            .certify = CLI_CERTIFY_DEFAULTS,
                            .max_sigma = INFINITY,
                            .probability = set.probability,
                            .seed = set.seed};
}

/* ---- What they must not contradict ----------------------------------------------------
 */

static int check(const cli_command *self, const measure_settings *s) {
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
    if (!attention && s->heads && strcmp(s->heads, "all"))
        return cli_wrong_use(self, "'--heads %s' needs --map heads or attention", s->heads);
    if (s->map == LIPSC_MAP_MODEL && s->layers)
        return cli_wrong_use(self, "'--layers' has no meaning with --map model");
    return CLI_RUN;
}

/* ---- Lists -----------------------------------------------------------------------------
 */

enum { LARGEST = 100000000 };

/* A list named by an option; "all" or NULL: none. */
static int parse_list(const cli_command *self, const char *option, const char *text,
                      cli_sizes *out) {
    if (!text || !strcmp(text, "all") || !cli_sizes_parse(text, 0, LARGEST, out))
        return CLI_RUN;
    return cli_wrong_use(self,
                         "invalid value '%s' for '--%s': expected all, a list such as 0,3 "
                         "or a range such as 0:5",
                         text, option);
}

/* "5" is the first five windows; a list or a range names them. */
static int parse_windows(const cli_command *self, const char *text, size_t *count,
                         cli_sizes *out) {
    if (!text || !cli_number_size(text, 1, LARGEST, count) ||
        !cli_sizes_parse(text, 0, LARGEST, out))
        return CLI_RUN;
    return cli_wrong_use(self,
                         "invalid value '%s' for '--windows': expected how many, or a list "
                         "such as 0,7 or a range such as 5:9 of windows",
                         text);
}

static int parse_shard(const cli_command *self, const char *text, size_t *part,
                       size_t *parts) {
    enum { MOST = 1000000 };
    const char *slash = text ? strchr(text, '/') : NULL;
    char first[16] = "";
    if (!text) return CLI_RUN;
    if (slash && (size_t)(slash - text) < sizeof first) {
        memcpy(first, text, (size_t)(slash - text));
        if (!cli_number_size(slash + 1, 1, MOST, parts) &&
            !cli_number_size(first, 1, *parts, part))
            return CLI_RUN;
    }
    return cli_wrong_use(self,
                         "invalid value '%s' for '--shard': expected I/K with "
                         "1 <= I <= K",
                         text);
}

/* ---- Together --------------------------------------------------------------------------
 */

static void copy_plain(const measure_settings *s, measure_asked *out) {
    static const lipsc_mask masks[] = {
        [MEASURE_MASK_NONE] = LIPSC_MASK_NONE, [MEASURE_MASK_CAUSAL] = LIPSC_MASK_CAUSAL};
    lipsc_study_settings *set = &out->set;
    lipsc_study_defaults(set);
    set->part = (lipsc_part)s->part;
    set->source = s->source;
    set->lengths = (lipsc_sizes){s->lengths.count, s->lengths.items};
    set->map = (lipsc_map_kind)s->map;
    if (s->mask != MEASURE_MASK_MODEL) set->mask_override = &masks[s->mask];
    set->dtype = s->dtype == DTYPE_F64 ? LIPSC_F64 : LIPSC_F32;
    set->pinned = s->dtype != DTYPE_DEFAULT;
    set->method = (lipsc_method)s->solver;
    set->tol = s->tol;
    set->max_products = s->max_products;
    set->count = s->count;
    set->probability = s->probability;
    set->seed = s->seed;
    set->upper = s->upper;
    set->as_released = s->as_released;
    set->details = s->details;
    set->sink = s->sink;
    set->certify = s->certify.eps;
    set->certify_seconds = s->certify.seconds;
    set->certify_memory = s->certify.memory;
    set->save_direction = s->save_direction;
    set->run_file = s->run;
}

int measure_ask(const cli_command *self, const measure_settings *s, measure_asked *out) {
    lipsc_study_settings *set = &out->set;
    const int each = s->heads && !strcmp(s->heads, "each");
    *out = (measure_asked){.layers = {0}};
    copy_plain(s, out);
    set->each_head = each;
    int code = check(self, s);
    if (code == CLI_RUN) code = parse_list(self, "layers", s->layers, &out->layers);
    if (code == CLI_RUN)
        code = parse_list(self, "heads", each ? NULL : s->heads, &out->heads);
    if (code == CLI_RUN)
        code = parse_windows(self, s->windows, &set->window_count, &out->windows);
    if (code == CLI_RUN) code = parse_shard(self, s->shard, &set->shard, &set->shards);
    set->layers = (lipsc_sizes){out->layers.count, out->layers.items};
    set->heads = (lipsc_sizes){out->heads.count, out->heads.items};
    set->windows = (lipsc_sizes){out->windows.count, out->windows.items};
    set->device = s->common.device;
    set->ranks = cli_ranks();
    return code;
}

void measure_asked_free(measure_asked *asked) {
    cli_sizes_free(&asked->layers);
    cli_sizes_free(&asked->heads);
    cli_sizes_free(&asked->windows);
}
