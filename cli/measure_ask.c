/* measure_ask.c - what the options of `lipscope measure` ask for, as a study. */
#include <math.h>
#include <string.h>

#include "measure.h"
#include "ranks.h"

void measure_defaults(measure_settings *s) {
    *s = (measure_settings){.max_sigma = INFINITY};
    lipsc_study_defaults(&s->study);
}

/* ---- What they must not contradict -------------------------------------------------- */

static int check(const cli_command *self, const measure_settings *s) {
    const lipsc_study_settings *set = &s->study;
    const int sources = !!set->source.text + !!set->source.ids + !!set->source.pixels;
    if (sources != 1)
        return cli_wrong_use(self, sources ? "give only one of --text, --ids and --pixels"
                                           : "give a text with --text FILE (or --ids, or "
                                             "--pixels for a model of images)");
    const int code = cli_source_check(self, &set->source);
    if (code != CLI_RUN) return code;
    const int attention = set->map == LIPSC_MAP_HEADS || set->map == LIPSC_MAP_ATTENTION;
    if (!attention && set->upper)
        return cli_wrong_use(self,
                             "'--upper' is known for the maps heads and attention only");
    if (!attention && s->typed.heads && strcmp(s->typed.heads, "all"))
        return cli_wrong_use(self, "'--heads %s' needs --map heads or attention",
                             s->typed.heads);
    if (set->map == LIPSC_MAP_MODEL && s->typed.layers)
        return cli_wrong_use(self, "'--layers' has no meaning with --map model");
    return CLI_RUN;
}

/* ---- Lists -------------------------------------------------------------------------- */

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

/* ---- Together ----------------------------------------------------------------------- */

static lipsc_sizes list_of(const cli_sizes *sizes) {
    return (lipsc_sizes){sizes->count, sizes->items};
}

int measure_ask(const cli_command *self, measure_settings *s) {
    static const lipsc_mask masks[] = {
        [MEASURE_MASK_NONE] = LIPSC_MASK_NONE, [MEASURE_MASK_CAUSAL] = LIPSC_MASK_CAUSAL};
    lipsc_study_settings *set = &s->study;
    set->each_head = s->typed.heads && !strcmp(s->typed.heads, "each");
    if (s->mask != MEASURE_MASK_MODEL) set->mask_override = &masks[s->mask];
    set->dtype = s->dtype == DTYPE_F64 ? LIPSC_F64 : LIPSC_F32;
    set->pinned = s->dtype != DTYPE_DEFAULT;
    set->device = s->common.device;
    set->ranks = cli_ranks();
    int code = check(self, s);
    if (code == CLI_RUN) code = parse_list(self, "layers", s->typed.layers, &s->layers);
    if (code == CLI_RUN)
        code = parse_list(self, "heads", set->each_head ? NULL : s->typed.heads, &s->heads);
    if (code == CLI_RUN)
        code = parse_windows(self, s->typed.windows, &set->window_count, &s->windows);
    if (code == CLI_RUN)
        code = parse_shard(self, s->typed.shard, &set->shard, &set->shards);
    set->lengths = list_of(&s->lengths);
    set->layers = list_of(&s->layers);
    set->heads = list_of(&s->heads);
    set->windows = list_of(&s->windows);
    return code;
}

void measure_settings_free(measure_settings *s) {
    cli_sizes_free(&s->lengths);
    cli_sizes_free(&s->layers);
    cli_sizes_free(&s->heads);
    cli_sizes_free(&s->windows);
}
