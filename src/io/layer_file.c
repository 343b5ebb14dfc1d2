/* layer_file.c - an attention layer with its input, read from one safetensors file.
 *
 * The tensors are those of LIPSC_TENSOR_LIST, the metadata those of LIPSC_NOTE_LIST.  Other
 * tensors of a bare file are ignored; but a name that only differs from one of these by
 * capitals, where that one is absent, is an error: a bias that silently is not used would
 * give a wrong number. */
#include "io/layer_file.h"

#include "core/error.h"
#include "core/mem.h"
#include "io/show.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    X = LIPSC_T_X,
    Q = LIPSC_T_Q,
    K = LIPSC_T_K,
    V = LIPSC_T_V,
    A = LIPSC_T_A,
    O = LIPSC_T_O,
    TIMES = LIPSC_T_TIMES,
    ROTARY = LIPSC_T_ROTARY_FREQ
};

enum { MOST_AXES = 3 }; /* pixels; find_tensors has refused what has more */

typedef struct {
    const lipsc_st *st;
    lipsc_layer_options options;
    int whole;                                    /* any map, with its direction */
    unsigned char said[LIPSC_NOTES];              /* by the metadata             */
    const lipsc_st_tensor *tensor[LIPSC_TENSORS]; /* NULL: absent                */
    lipsc_layer_record record;
    lipsc_error *err;
} reader;

/* What lipsc_layer_file.storage points to. */
typedef struct {
    lipsc_layer_record record;
    double *values;
    char *texts;
} stored;

static const char *name_of(int which) { return lipsc_layer_tensors[which].name; }

#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static lipsc_status
refuse(const reader *r, lipsc_status code, const char *format, ...) {
    char reason[300];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return lipsc_fail(r->err, code, "%s: %s", lipsc_st_path(r->st), reason);
}

/* "tensor 'K' has shape (12, 8), but ..." */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
static lipsc_status
refuse_shape(const reader *r, int which, const char *format, ...) {
    const lipsc_st_tensor *t = r->tensor[which];
    char shape[LIPSC_SHOWN_SHAPE], reason[160];
    lipsc_show_shape(t->ndim, t->shape, shape);
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return lipsc_fail_at(r->err, LIPSC_E_FORMAT, t->offset,
                         "%s: tensor '%s' has shape %s, but %s", lipsc_st_path(r->st),
                         t->name, shape, reason);
}

static int same_but_for_capitals(const char *a, const char *b) {
    while (*a && tolower((unsigned char)*a) == tolower((unsigned char)*b)) a++, b++;
    return *a == *b;
}

/* The maps behind attention are those of a model, which alone has all their weights. */
static int has_layer(const reader *r) {
    return !r->said[LIPSC_N_MAP] || r->record.map <= LIPSC_FILE_ATTENTION;
}

/* A file that names its schema has been searched for unknown names already. */
static lipsc_status check_names(const reader *r) {
    for (size_t j = 0; j < lipsc_st_count(r->st); j++) {
        const char *name = lipsc_st_at(r->st, j)->name;
        for (int i = 0; i < LIPSC_TENSORS; i++)
            if (!r->tensor[i] && lipsc_layer_tensors[i].use != LIPSC_FOR_CHECK &&
                same_but_for_capitals(name, name_of(i)))
                return refuse(r, LIPSC_E_FORMAT, "unknown tensor '%s'; did you mean '%s'?",
                              name, name_of(i));
    }
    return LIPSC_OK;
}

static lipsc_status find_tensors(reader *r) {
    for (int i = 0; i < LIPSC_TENSORS; i++)
        if (r->whole || lipsc_layer_tensors[i].use != LIPSC_FOR_CHECK)
            r->tensor[i] = lipsc_st_find(r->st, name_of(i));
    const lipsc_status status = has_layer(r) ? check_names(r) : LIPSC_OK;
    if (status) return status;
    for (int i = 0; i < LIPSC_TENSORS; i++) {
        static const char *const kinds[] = {"vector", "matrix", "stack of matrices"};
        const lipsc_st_tensor *t = r->tensor[i];
        const size_t ndim = lipsc_layer_tensors[i].rows == LIPSC_PIXEL_SHAPE ? 3
                            : lipsc_layer_tensors[i].columns == LIPSC_VECTOR ? 1
                                                                             : 2;
        if (!t) continue;
        if (t->ndim != ndim) return refuse_shape(r, i, "it must be a %s", kinds[ndim - 1]);
        if (t->count == 0) return refuse_shape(r, i, "no size may be zero");
    }
    return LIPSC_OK;
}

/* Which tensors must, may and must not stand together. */
static lipsc_status check_company(const reader *r) {
    static const struct {
        int tensor, with, present;
    } needs[] = {{Q, A, 0},
                 {K, A, 0},
                 {LIPSC_T_BQ, A, 0},
                 {LIPSC_T_BK, A, 0},
                 {LIPSC_T_C, A, 1},
                 {LIPSC_T_BO, O, 1},
                 {LIPSC_T_WEIGHTS, X, 1},
                 {TIMES, X, 1},
                 {LIPSC_T_POSITIONS, X, 1},
                 {LIPSC_T_POSITIONS, ROTARY, 1},
                 {LIPSC_T_IDS, X, 1},
                 {LIPSC_T_DIRECTION, X, 1},
                 {LIPSC_T_DIRECTION, LIPSC_T_SIGMA, 1}};
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        const char *name = name_of(needs[i].tensor), *with = name_of(needs[i].with);
        if (!r->tensor[needs[i].tensor] || !r->tensor[needs[i].with] == !needs[i].present)
            continue;
        if (needs[i].present)
            return refuse(r, LIPSC_E_FORMAT,
                          "tensor '%s' needs tensor '%s', which is missing", name, with);
        return refuse(r, LIPSC_E_FORMAT, "tensor '%s' cannot stand beside tensor '%s'%s",
                      name, with,
                      needs[i].tensor == LIPSC_T_BQ ? ", whose bias is 'c'" : "");
    }
    return LIPSC_OK;
}

static lipsc_status check_presence(const reader *r) {
    const lipsc_status status = check_company(r);
    if (status) return status;
    for (int i = 0; !has_layer(r) && i < LIPSC_TENSORS; i++)
        if (i != X && r->tensor[i] && lipsc_layer_tensors[i].use != LIPSC_FOR_CHECK)
            return refuse(r, LIPSC_E_FORMAT,
                          "tensor '%s' has no place in a file of the map %s", name_of(i),
                          lipsc_layer_maps[r->record.map]);
    if (has_layer(r) && !r->tensor[A] && !r->tensor[Q] && !r->tensor[K])
        return refuse(r, LIPSC_E_FORMAT, "tensors 'Q' and 'K' (or 'A') are missing");
    const int required[] = {Q, K, V, X};
    for (int i = 0; i < 4; i++) {
        const int which = required[i];
        if (r->tensor[which]) continue;
        if (which != X && !has_layer(r)) continue;
        if ((which == Q || which == K) && r->tensor[A]) continue;
        if (which == X && !r->options.need_input && has_layer(r)) continue;
        return refuse(r, LIPSC_E_FORMAT, "tensor '%s' is missing", name_of(which));
    }
    return LIPSC_OK;
}

/* The map, by its name or by whether there is an output projection. */
static lipsc_status take_map(reader *r) {
    int *map = &r->record.map;
    if (!r->said[LIPSC_N_MAP]) {
        *map = r->tensor[O] ? LIPSC_FILE_ATTENTION : LIPSC_FILE_HEADS;
        return LIPSC_OK;
    }
    if (*map > LIPSC_FILE_ATTENTION && !r->whole)
        return refuse(
            r, LIPSC_E_FORMAT,
            "is of the map %s, at the input of %s: only `lipscope check` reads it",
            lipsc_layer_maps[*map], *map == LIPSC_FILE_MODEL ? "the model" : "the block");
    if (!has_layer(r)) return LIPSC_OK;
    if ((*map == LIPSC_FILE_HEADS) == (r->tensor[O] != NULL))
        return refuse(r, LIPSC_E_FORMAT, "its metadata says map %s, but tensor 'O' is %s",
                      lipsc_layer_maps[*map], r->tensor[O] ? "there" : "missing");
    return LIPSC_OK;
}

static lipsc_status take_options(reader *r) {
    lipsc_status status =
        lipsc_layer_take_options(r->st, &r->options, r->said, &r->record, r->err);
    if (status) return status;
    lipsc_layer *layer = &r->record.layer;
    if (layer->heads % layer->kv_heads)
        return refuse(r, LIPSC_E_ARG, "%zu key/value heads do not divide %zu heads",
                      layer->kv_heads, layer->heads);
    if (r->tensor[A] && layer->heads != 1)
        return refuse(r, LIPSC_E_ARG,
                      "tensor 'A' is for one head, but %zu heads were asked for",
                      layer->heads);
    if (lipsc_mask_has_window(layer->mask) && layer->window == 0)
        return refuse(r, LIPSC_E_ARG, "the window must be at least 1");
    if (!lipsc_mask_has_window(layer->mask)) layer->window = 0;
    if (r->tensor[TIMES]) {
        if (layer->mask == LIPSC_MASK_CAUSAL || lipsc_mask_has_window(layer->mask))
            return refuse(
                r, LIPSC_E_ARG,
                "tensor 'times' is a mask of its own and cannot be combined with a "
                "%s mask",
                lipsc_layer_masks[layer->mask]);
        if (layer->mask == LIPSC_MASK_NONE && r->said[LIPSC_N_MASK])
            return refuse(r, LIPSC_E_FORMAT,
                          "its metadata says mask none, but tensor 'times' is there");
        layer->mask = LIPSC_MASK_TIMES;
    } else if (layer->mask == LIPSC_MASK_TIMES && r->tensor[X]) {
        return refuse(r, LIPSC_E_ARG,
                      "a mask by times was asked for, but tensor 'times' is "
                      "missing");
    }
    return LIPSC_OK;
}

static size_t rows(const reader *r, int which) { return r->tensor[which]->shape[0]; }

/* Every matrix that acts on tokens has as many columns as the first of them. */
static lipsc_status take_width(reader *r) {
    static const int on_tokens[] = {X, A, Q, K, V};
    const int first = r->tensor[X] ? X : r->tensor[A] ? A : Q;
    const size_t d = r->record.layer.d = r->tensor[first]->shape[1];
    for (int i = 0; i < 5; i++) {
        const int which = on_tokens[i];
        if (r->tensor[which] && r->tensor[which]->shape[1] != d)
            return refuse_shape(r, which, "%s has width %zu", name_of(first), d);
    }
    r->record.input.n = r->tensor[X] ? rows(r, X) : 0;
    return LIPSC_OK;
}

static lipsc_status take_heads(reader *r) {
    lipsc_layer *l = &r->record.layer;
    if (r->tensor[A]) {
        if (rows(r, A) != l->d) return refuse_shape(r, A, "it must be square");
        l->key_dim = l->d;
    } else {
        if (rows(r, Q) % l->heads)
            return refuse_shape(r, Q, "%zu heads do not divide its rows", l->heads);
        l->key_dim = rows(r, Q) / l->heads;
        if (rows(r, K) != l->kv_heads * l->key_dim) /* <= rows of Q: no overflow */
            return refuse_shape(r, K,
                                "%zu rows are needed for %zu key/value head%s of width %zu",
                                l->kv_heads * l->key_dim, l->kv_heads,
                                l->kv_heads == 1 ? "" : "s", l->key_dim);
    }
    if (rows(r, V) % l->kv_heads)
        return refuse_shape(r, V, "%zu key/value heads do not divide its rows",
                            l->kv_heads);
    l->value_dim = rows(r, V) / l->kv_heads;
    size_t joined;
    if (!lipsc_mul_size(l->heads, l->value_dim, &joined))
        return refuse(r, LIPSC_E_RANGE, "the joined width of all heads overflows");
    l->out_dim = joined;
    if (r->tensor[O]) {
        if (r->tensor[O]->shape[1] != joined)
            return refuse_shape(
                r, O, "%zu columns are needed for %zu head%s with values of width %zu",
                joined, l->heads, l->heads == 1 ? "" : "s", l->value_dim);
        l->out_dim = rows(r, O);
    }
    return LIPSC_OK;
}

static lipsc_status take_rotary(reader *r) {
    lipsc_layer *l = &r->record.layer;
    if (!r->tensor[ROTARY]) return LIPSC_OK;
    if (rows(r, ROTARY) > l->key_dim / 2)
        return refuse_shape(r, ROTARY, "a query of width %zu has %zu pair%s to turn",
                            l->key_dim, l->key_dim / 2, l->key_dim / 2 == 1 ? "" : "s");
    l->rotary_dim = 2 * rows(r, ROTARY);
    return LIPSC_OK;
}

/* Every tensor has the sizes that the list says. */
static lipsc_status check_shapes(const reader *r) {
    size_t size[LIPSC_EXTENTS];
    lipsc_layer_record sized = r->record; /* with Q and O as the sizes ask for them */
    static const double there;
    sized.layer.Q = has_layer(r) ? &there : NULL;
    sized.layer.O = r->tensor[O] ? &there : NULL;
    lipsc_layer_sizes(&sized, size);
    for (int i = 0; i < LIPSC_TENSORS; i++) {
        const lipsc_layer_tensor *t = &lipsc_layer_tensors[i];
        const lipsc_extent_of extent[] = {t->rows, t->columns};
        if (!r->tensor[i] || t->rows == LIPSC_PIXEL_SHAPE) continue;
        for (size_t s = 0; s < r->tensor[i]->ndim; s++) {
            const size_t wanted = size[extent[s]];
            if (r->tensor[i]->shape[s] != wanted)
                return refuse_shape(r, i, "%s %zu %s%s", lipsc_extent_words[extent[s]].has,
                                    wanted, lipsc_extent_words[extent[s]].unit,
                                    wanted == 1 ? "" : "s");
        }
    }
    return LIPSC_OK;
}

static lipsc_status refuse_value(const reader *r, int which, size_t i, lipsc_status code,
                                 const char *what) {
    const lipsc_st_tensor *t = r->tensor[which];
    size_t index[MOST_AXES] = {0};
    for (size_t axis = t->ndim, rest = i; axis-- > 0; rest /= t->shape[axis])
        index[axis] = rest % t->shape[axis];
    char place[LIPSC_SHOWN_SHAPE];
    lipsc_show_shape(t->ndim, index, place);
    return lipsc_fail_at(r->err, code, t->offset + i * (t->bytes / t->count),
                         "%s: tensor '%s' holds %s at index %s", lipsc_st_path(r->st),
                         t->name, what, place);
}

static const char *bad_value(int which, double x) {
    if (isnan(x)) return "a NaN";
    if (isinf(x)) return "an infinity";
    if (which == LIPSC_T_WEIGHTS && !(x > 0)) return "a weight that is not positive";
    if (which == LIPSC_T_IDS && !(x >= 0 && x <= UINT32_MAX && floor(x) >= x))
        return "a number that is no id";
    return NULL;
}

static lipsc_status load(reader *r, int which, double *to) {
    const lipsc_st_tensor *t = r->tensor[which];
    const lipsc_status status = lipsc_st_read_f64(r->st, t, 0, t->count, to, r->err);
    if (status) return status;
    for (size_t i = 0; i < t->count; i++) {
        const char *bad = bad_value(which, to[i]);
        if (bad)
            return refuse_value(r, which, i,
                                isfinite(to[i]) ? LIPSC_E_FORMAT : LIPSC_E_NONFIN, bad);
    }
    const double *values = to;
    memcpy((char *)&r->record + lipsc_layer_tensors[which].at, &values, sizeof values);
    if (which == LIPSC_T_PIXELS)
        memcpy(r->record.pixel_shape, t->shape, sizeof r->record.pixel_shape);
    return LIPSC_OK;
}

/* All values in one block, each tensor on a cache line of its own. */
static lipsc_status load_all(reader *r, double **storage) {
    enum { LINE = 8 };
    size_t total = 0, used = 0;
    for (int i = 0; i < LIPSC_TENSORS; i++) /* each count is at most half the file */
        if (r->tensor[i]) total += (r->tensor[i]->count + LINE - 1) / LINE * LINE;
    *storage = lipsc_alloc(total, sizeof **storage);
    if (!*storage) return refuse(r, LIPSC_E_NOMEM, "no memory for its tensors");
    for (int i = 0; i < LIPSC_TENSORS; i++) {
        if (!r->tensor[i]) continue;
        const lipsc_status status = load(r, i, *storage + used);
        if (status) return status;
        used += (r->tensor[i]->count + LINE - 1) / LINE * LINE;
    }
    return LIPSC_OK;
}

/* Texts of the metadata, which so far belong to the parsed file. */
static lipsc_status copy_texts(reader *r, char **storage) {
    size_t total = 0, used = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < LIPSC_NOTES; i++) {
            const lipsc_layer_note *note = &lipsc_layer_notes[i];
            const char *text = lipsc_st_metadata(r->st, note->key);
            if (note->kind != LIPSC_NOTE_TEXT || !text) continue;
            const size_t size = strlen(text) + 1;
            if (pass == 0) {
                total += size;
                continue;
            }
            const char *copy = memcpy(*storage + used, text, size);
            memcpy((char *)&r->record + note->at, &copy, sizeof copy);
            used += size;
        }
        if (pass == 0 && !(*storage = lipsc_alloc(total, 1)))
            return refuse(r, LIPSC_E_NOMEM, "no memory for its metadata");
    }
    return LIPSC_OK;
}

static void release(stored *all) {
    if (!all) return;
    lipsc_release(all->values);
    lipsc_release(all->texts);
    lipsc_release(all);
}

static lipsc_status keep(reader *r, lipsc_layer_file *out) {
    stored *all = lipsc_alloc_zero(1, sizeof *all);
    if (!all) return refuse(r, LIPSC_E_NOMEM, "no memory for its description");
    lipsc_status status = load_all(r, &all->values);
    if (!status) status = copy_texts(r, &all->texts);
    if (status) {
        release(all);
        return status;
    }
    all->record = r->record;
    *out = (lipsc_layer_file){r->record.layer, r->record.input, all};
    return LIPSC_OK;
}

static lipsc_status read_record(const lipsc_st *st, const lipsc_layer_options *options,
                                int whole, lipsc_layer_file *out, lipsc_error *err) {
    reader r = {.st = st, .whole = whole, .err = err};
    if (options) r.options = *options;
    lipsc_status status = lipsc_layer_read_notes(st, &r.record, r.said, err);
    if (!status) status = find_tensors(&r);
    if (!status) status = take_map(&r);
    if (!status) status = check_presence(&r);
    if (!status && has_layer(&r)) status = take_options(&r);
    if (!status) status = take_width(&r);
    if (!status && has_layer(&r)) status = take_heads(&r);
    if (!status && has_layer(&r)) status = take_rotary(&r);
    if (!status) status = check_shapes(&r);
    if (!status) status = keep(&r, out);
    return status;
}

lipsc_status lipsc_layer_from_st(const lipsc_st *st, const lipsc_layer_options *options,
                                 lipsc_layer_file *out, lipsc_error *err) {
    return read_record(st, options, 0, out, err);
}

lipsc_status lipsc_layer_whole_from_st(const lipsc_st *st, lipsc_layer_file *out,
                                       lipsc_error *err) {
    const lipsc_layer_options options = {.need_input = 1};
    return read_record(st, &options, 1, out, err);
}

const lipsc_layer_record *lipsc_layer_file_record(const lipsc_layer_file *file) {
    return file->storage ? &((const stored *)file->storage)->record : NULL;
}

lipsc_status lipsc_layer_file_read(const char *path, const lipsc_layer_options *options,
                                   lipsc_layer_file *out, lipsc_error *err) {
    lipsc_st *st;
    lipsc_status status = lipsc_st_open(path, &st, err);
    if (status) return status;
    status = lipsc_layer_from_st(st, options, out, err);
    lipsc_st_free(st);
    return status;
}

void lipsc_layer_file_free(lipsc_layer_file *file) {
    if (!file) return;
    release(file->storage);
    *file = (lipsc_layer_file){0};
}
