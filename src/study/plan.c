/* plan.c - which cells a study has, in the order in which they are useful: the first window
 * at all lengths and layers, then the next window. */
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "study/study.h"

enum { LARGEST = 100000000 };

static const size_t default_lengths[] = {16, 32, 64, 128};
enum { DEFAULTS = sizeof default_lengths / sizeof *default_lengths };

/* Numbers of layers, heads, lengths or windows; free `items`. */
typedef struct {
    size_t count;
    size_t *items;
} list;

static lipsc_status fail_memory(lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for so many cells");
}

static lipsc_status list_new(size_t count, list *out, lipsc_error *err) {
    out->items = lipsc_alloc(count, sizeof *out->items);
    return out->items ? LIPSC_OK : fail_memory(err);
}

/* 0, 1, ..., count - 1. */
static lipsc_status count_up(size_t count, list *out, lipsc_error *err) {
    const lipsc_status status = list_new(count, out, err);
    for (size_t i = 0; i < count && !status; i++) out->items[out->count++] = i;
    return status;
}

static int has(const list *l, size_t value) {
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i] == value) return 1;
    return 0;
}

/* The distinct numbers below `limit` that are asked for, or all. */
static lipsc_status choose(const lipsc_study *study, const char *what, lipsc_sizes asked,
                           size_t limit, list *out, lipsc_error *err) {
    if (!asked.count) return count_up(limit, out, err);
    const lipsc_status status = list_new(asked.count, out, err);
    if (status) return status;
    for (size_t i = 0; i < asked.count; i++) {
        if (asked.at[i] >= limit)
            return lipsc_fail(err, LIPSC_E_RANGE, "%s: %s %zu: the model has %s 0 to %zu",
                              study->set.model, what, asked.at[i], what, limit - 1);
        if (has(out, asked.at[i]))
            return lipsc_fail(err, LIPSC_E_ARG, "%s: %zu is named twice", what,
                              asked.at[i]);
        out->items[out->count++] = asked.at[i];
    }
    return LIPSC_OK;
}

/* ---- Layers and heads -------------------------------------------------------------- */

static lipsc_status plan_layers(const lipsc_study *study, list *layers, lipsc_error *err) {
    const lipsc_sizes asked = study->set.layers;
    if (study->set.map == LIPSC_MAP_MODEL) {
        if (asked.count)
            return lipsc_fail(err, LIPSC_E_ARG,
                              "the map model has no layers to choose from");
        return count_up(1, layers, err);
    }
    const lipsc_status status =
        choose(study, "layers", asked, study->info->layers, layers, err);
    if (status) return status;
    for (size_t i = 0; i < layers->count; i++)
        if (!lipsc_model_has_layer(study->model, layers->items[i]))
            return lipsc_fail(err, LIPSC_E_RANGE, "%s: layer %zu is not stored in it",
                              study->set.model, layers->items[i]);
    return LIPSC_OK;
}

static int single_heads(const lipsc_study_settings *set) {
    return set->each_head || set->heads.count;
}

static lipsc_status plan_heads(const lipsc_study *study, list *heads, lipsc_error *err) {
    const lipsc_study_settings *set = &study->set;
    if (!single_heads(set)) return count_up(1, heads, err);
    if (set->map != LIPSC_MAP_HEADS && set->map != LIPSC_MAP_ATTENTION)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "single heads are for the maps heads and attention only");
    return choose(study, "heads", set->heads, study->info->heads, heads, err);
}

/* ---- Lengths and windows ----------------------------------------------------------- */

/* An image, or ids without a length, is one window. */
static lipsc_status plan_single(const lipsc_study *study, size_t n, list *lengths,
                                list *windows, lipsc_error *err) {
    const lipsc_study_settings *set = &study->set;
    for (size_t i = 0; i < set->lengths.count; i++)
        if (set->lengths.at[i] != n)
            return lipsc_fail(err, LIPSC_E_RANGE,
                              "%s: one window of length %zu, not of length %zu",
                              study->source.path, n, set->lengths.at[i]);
    for (size_t i = 0; i < set->windows.count; i++)
        if (set->windows.at[i])
            return lipsc_fail(err, LIPSC_E_RANGE,
                              "%s: one window, number 0, not window %zu",
                              study->source.path, set->windows.at[i]);
    if (set->window_count > 1)
        return lipsc_fail(err, LIPSC_E_RANGE, "%s: one window, number 0, not %zu windows",
                          study->source.path, set->window_count);
    lipsc_status status = list_new(1, lengths, err);
    if (!status) lengths->items[lengths->count++] = n;
    return status ? status : count_up(1, windows, err);
}

static lipsc_status check_length(const lipsc_study *study, size_t n, lipsc_error *err) {
    const lipsc_status status =
        lipsc_length_check(study->set.model, study->info, &study->source, n, err);
    if (status) return status;
    if (!n || n > LARGEST)
        return lipsc_fail(err, LIPSC_E_ARG, "a window has 1 to %d tokens, not %zu", LARGEST,
                          n);
    if (study->source.ids && !lipsc_window_fits(&study->source, 0, n))
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "%s: %zu tokens are shorter than one window of length %zu",
                          study->source.path, study->source.count, n);
    return LIPSC_OK;
}

/* By default what fits. */
static lipsc_status default_plan(const lipsc_study *study, list *lengths,
                                 lipsc_error *err) {
    size_t longest = lipsc_window_whole(&study->source);
    if (study->info->positions && study->info->positions < longest)
        longest = study->info->positions;
    const lipsc_status status = list_new(DEFAULTS, lengths, err);
    for (size_t i = 0; i < DEFAULTS && !status; i++)
        if (default_lengths[i] <= longest)
            lengths->items[lengths->count++] = default_lengths[i];
    if (status || lengths->count) return status;
    return check_length(study, default_lengths[0], err);
}

static lipsc_status plan_lengths(const lipsc_study *study, list *lengths,
                                 lipsc_error *err) {
    const lipsc_sizes asked = study->set.lengths;
    if (!asked.count) return default_plan(study, lengths, err);
    lipsc_status status = list_new(asked.count, lengths, err);
    for (size_t i = 0; i < asked.count && !status; i++) {
        status = check_length(study, asked.at[i], err);
        if (!status && !has(lengths, asked.at[i]))
            lengths->items[lengths->count++] = asked.at[i];
    }
    return status;
}

enum { DEFAULT_WINDOWS = 10 };

static lipsc_status plan_windows(const lipsc_study *study, list *windows,
                                 lipsc_error *err) {
    const lipsc_study_settings *set = &study->set;
    if (!set->windows.count)
        return count_up(set->window_count ? set->window_count : DEFAULT_WINDOWS, windows,
                        err);
    const lipsc_status status = list_new(set->windows.count, windows, err);
    for (size_t i = 0; i < set->windows.count && !status; i++) {
        if (set->windows.at[i] > LARGEST)
            return lipsc_fail(err, LIPSC_E_ARG, "there is no window %zu",
                              set->windows.at[i]);
        windows->items[windows->count++] = set->windows.at[i];
    }
    return status;
}

/* The longest length, and with it the stride: that of the settings or of the run file,
 * which must not be shorter. */
static lipsc_status plan_stride(lipsc_study *study, const list *lengths, size_t *longest,
                                lipsc_error *err) {
    const lipsc_source_options *s = &study->set.source;
    *longest = 0;
    for (size_t i = 0; i < lengths->count; i++)
        if (lengths->items[i] > *longest) *longest = lengths->items[i];
    const lipsc_status status = lipsc_windows_check(s, *longest, err);
    if (status) return status;
    if (study->stride && *longest > study->stride)
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "%s: its windows start every %zu tokens: length %zu needs "
                          "another run file, or a stride of %zu from the beginning",
                          study->set.run_file, study->stride, *longest, *longest);
    if (!study->stride && !s->tiled) study->stride = s->stride ? s->stride : *longest;
    return LIPSC_OK;
}

/* Whether a window is in the text.  Where all lengths start alike, all of them or none. */
static int has_window(const lipsc_study *study, size_t longest, size_t n, size_t start) {
    return !study->source.ids ||
           lipsc_window_fits(&study->source, start, study->stride ? longest : n);
}

/* ---- Cells ------------------------------------------------------------------------- */

/* Operations of one pair of products, an MLP and further blocks added. */
static double pair_cost(const lipsc_study *study, size_t n) {
    const lipsc_model_info *info = study->info;
    const lipsc_map_kind map = study->set.map;
    const double tokens = (double)n, d = (double)info->d, ffn = (double)info->ffn;
    double cost = 16.0 * tokens * d * d + 16.0 * tokens * tokens * d;
    if (map == LIPSC_MAP_BLOCK || map == LIPSC_MAP_MODEL) cost += 8.0 * tokens * d * ffn;
    if (map == LIPSC_MAP_MODEL) cost *= (double)info->layers;
    return study->set.dtype == LIPSC_F64 ? 2.0 * cost : cost;
}

typedef struct {
    list layers, heads, lengths, windows;
    size_t longest; /* of the lengths */
} lists;

static lipsc_status cells_room(lipsc_study *study, const lists *l, lipsc_error *err) {
    size_t room;
    if (!lipsc_mul_size(l->layers.count, l->heads.count, &room) ||
        !lipsc_mul_size(room, l->lengths.count, &room) ||
        !lipsc_mul_size(room, l->windows.count, &room) ||
        !(study->cells = lipsc_alloc_zero(room, sizeof *study->cells)) ||
        !(study->rows = lipsc_alloc(room, sizeof *study->rows)))
        return fail_memory(err);
    return LIPSC_OK;
}

/* The cells of one window: all layers, all heads that are asked for. */
static void add_cells(lipsc_study *study, const lists *l, size_t n, size_t window,
                      size_t start) {
    const int whole = study->set.map == LIPSC_MAP_MODEL, alone = single_heads(&study->set);
    for (size_t a = 0; a < l->layers.count; a++)
        for (size_t h = 0; h < l->heads.count; h++)
            study->cells[study->cell_count++] =
                (study_cell){.layer = whole ? LIPSC_NONE : l->layers.items[a],
                             .head = alone ? l->heads.items[h] : LIPSC_NONE,
                             .n = n,
                             .window = window,
                             .start = start,
                             .cost = pair_cost(study, n)};
}

static lipsc_status make_cells(lipsc_study *study, const lists *l, lipsc_error *err) {
    const lipsc_source_options how = {.stride = study->stride,
                                      .tiled = study->set.source.tiled};
    const lipsc_source *source = &study->source;
    size_t missing = 0;
    const lipsc_status status = cells_room(study, l, err);
    if (status) return status;
    for (size_t w = 0; w < l->windows.count; w++)
        for (size_t i = 0; i < l->lengths.count; i++) {
            const size_t n = l->lengths.items[i], window = l->windows.items[w];
            const size_t start = lipsc_window_start(&how, l->longest, n, window);
            if (has_window(study, l->longest, n, start))
                add_cells(study, l, n, window, start);
            else if (study->set.windows.count)
                return lipsc_fail(err, LIPSC_E_RANGE,
                                  "%s: window %zu of length %zu is beyond its %zu tokens",
                                  source->path, window, n, source->count);
            else
                missing++;
        }
    if (missing)
        lipsc_study_remark(study, "%s: %zu tokens; %zu windows do not fit and are left out",
                           source->path, source->count, missing);
    return LIPSC_OK;
}

/* Tokens of an image: as many as the model makes of it. */
static lipsc_status image_length(lipsc_study *study, size_t *n, lipsc_error *err) {
    lipsc_acts *acts;
    const lipsc_status status = lipsc_window_begin(&study->source, 0, 0, study->model,
                                                   study->set.dtype, &acts, err);
    if (status) return status;
    *n = lipsc_acts_length(acts);
    lipsc_acts_free(acts);
    return LIPSC_OK;
}

int lipsc_study_is_single(const lipsc_study_settings *set) {
    const lipsc_source_options *s = &set->source;
    return s->pixels || s->pixel_list || ((s->ids || s->id_list) && !set->lengths.count);
}

static lipsc_status plan_where(lipsc_study *study, lists *l, lipsc_error *err) {
    size_t n = lipsc_window_whole(&study->source);
    lipsc_status status = LIPSC_OK;
    if (study->source.pixels) status = image_length(study, &n, err);
    if (!status && lipsc_study_is_single(&study->set)) {
        if (study->source.ids) status = check_length(study, n, err);
        return status ? status : plan_single(study, n, &l->lengths, &l->windows, err);
    }
    if (!status) status = plan_lengths(study, &l->lengths, err);
    if (!status) status = plan_stride(study, &l->lengths, &l->longest, err);
    return status ? status : plan_windows(study, &l->windows, err);
}

lipsc_status lipsc_study_plan(lipsc_study *study, lipsc_error *err) {
    lists l = {0};
    lipsc_status status = plan_layers(study, &l.layers, err);
    if (!status) status = plan_heads(study, &l.heads, err);
    if (!status) status = plan_where(study, &l, err);
    if (!status) status = make_cells(study, &l, err);
    if (!status && study->set.shards) status = lipsc_study_shard(study, err);
    lipsc_release(l.layers.items);
    lipsc_release(l.heads.items);
    lipsc_release(l.lengths.items);
    lipsc_release(l.windows.items);
    return status;
}
