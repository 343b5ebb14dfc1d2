/* layer_file.c - an attention layer with its input, read from one safetensors file.
 *
 *     X (n,d)   Q (H k, d)   K (Hkv k, d)   V (Hkv dv, d)   or A (d,d) for Q and K
 *     O (d_out, H dv)   bq (H k)   bk (Hkv k)   bv (Hkv dv)   bo (d_out)   c (d)
 *     weights (n)   times (n)
 * Other tensors are ignored, for attack and direction files carry their own; but a name
 * that only differs from one of these by capitals, where that one is absent, is an error:
 * a bias that silently is not used would give a wrong number. */
#include "io/layer_file.h"

#include "core/error.h"
#include "core/mem.h"
#include "io/show.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { X, Q, K, V, A, O, BQ, BK, BV, BO, C, WEIGHTS, TIMES, KNOWN };

static const struct {
    const char *name;
    size_t ndim;
} known[KNOWN] = {{"X", 2}, {"Q", 2},       {"K", 2},    {"V", 2},  {"A", 2},
                  {"O", 2}, {"bq", 1},      {"bk", 1},   {"bv", 1}, {"bo", 1},
                  {"c", 1}, {"weights", 1}, {"times", 1}};

typedef struct {
    const lipsc_st *st;
    lipsc_layer_options options;
    const lipsc_st_tensor *tensor[KNOWN]; /* NULL: absent */
    const double *values[KNOWN];          /* NULL: absent */
    lipsc_layer layer;
    size_t n;
    lipsc_error *err;
} reader;

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

static lipsc_status find_tensors(reader *r) {
    for (int i = 0; i < KNOWN; i++) r->tensor[i] = lipsc_st_find(r->st, known[i].name);
    for (size_t j = 0; j < lipsc_st_count(r->st); j++) {
        const char *name = lipsc_st_at(r->st, j)->name;
        for (int i = 0; i < KNOWN; i++)
            if (!r->tensor[i] && same_but_for_capitals(name, known[i].name))
                return refuse(r, LIPSC_E_FORMAT, "unknown tensor '%s'; did you mean '%s'?",
                              name, known[i].name);
    }
    for (int i = 0; i < KNOWN; i++) {
        const lipsc_st_tensor *t = r->tensor[i];
        if (!t) continue;
        if (t->ndim != known[i].ndim)
            return refuse_shape(r, i, "it must be a %s",
                                known[i].ndim == 1 ? "vector" : "matrix");
        if (t->count == 0) return refuse_shape(r, i, "no size may be zero");
    }
    return LIPSC_OK;
}

/* Which tensors must, may and must not stand together. */
static lipsc_status check_presence(const reader *r) {
    static const struct {
        int tensor, with, present;
    } needs[] = {{Q, A, 0}, {K, A, 0},  {BQ, A, 0},      {BK, A, 0},
                 {C, A, 1}, {BO, O, 1}, {WEIGHTS, X, 1}, {TIMES, X, 1}};
    for (size_t i = 0; i < sizeof needs / sizeof needs[0]; i++) {
        const char *name = known[needs[i].tensor].name, *with = known[needs[i].with].name;
        if (!r->tensor[needs[i].tensor] || !r->tensor[needs[i].with] == !needs[i].present)
            continue;
        if (needs[i].present)
            return refuse(r, LIPSC_E_FORMAT,
                          "tensor '%s' needs tensor '%s', which is missing", name, with);
        return refuse(r, LIPSC_E_FORMAT, "tensor '%s' cannot stand beside tensor '%s'%s",
                      name, with, needs[i].tensor == BQ ? ", whose bias is 'c'" : "");
    }
    if (!r->tensor[A] && !r->tensor[Q] && !r->tensor[K])
        return refuse(r, LIPSC_E_FORMAT, "tensors 'Q' and 'K' (or 'A') are missing");
    const int required[] = {Q, K, V, X};
    for (int i = 0; i < 4; i++) {
        const int which = required[i];
        if (r->tensor[which]) continue;
        if ((which == Q || which == K) && r->tensor[A]) continue;
        if (which == X && !r->options.need_input) continue;
        return refuse(r, LIPSC_E_FORMAT, "tensor '%s' is missing", known[which].name);
    }
    return LIPSC_OK;
}

static lipsc_status take_options(reader *r) {
    const lipsc_layer_options *o = &r->options;
    lipsc_layer *layer = &r->layer;
    layer->heads = o->heads ? o->heads : 1;
    layer->kv_heads = o->kv_heads ? o->kv_heads : layer->heads;
    layer->scale = o->scale;
    layer->mask = o->mask;
    if (!isfinite(o->scale)) return refuse(r, LIPSC_E_ARG, "the scale must be finite");
    if (layer->heads % layer->kv_heads)
        return refuse(r, LIPSC_E_ARG, "%zu key/value heads do not divide %zu heads",
                      layer->kv_heads, layer->heads);
    if (r->tensor[A] && layer->heads != 1)
        return refuse(r, LIPSC_E_ARG,
                      "tensor 'A' is for one head, but %zu heads were asked for",
                      layer->heads);
    if (o->mask == LIPSC_MASK_SLIDING) {
        if (o->window == 0) return refuse(r, LIPSC_E_ARG, "the window must be at least 1");
        layer->window = o->window;
    }
    if (r->tensor[TIMES]) {
        if (o->mask == LIPSC_MASK_CAUSAL || o->mask == LIPSC_MASK_SLIDING)
            return refuse(
                r, LIPSC_E_ARG,
                "tensor 'times' is a mask of its own and cannot be combined with a "
                "%s mask",
                o->mask == LIPSC_MASK_CAUSAL ? "causal" : "sliding");
        layer->mask = LIPSC_MASK_TIMES;
    } else if (o->mask == LIPSC_MASK_TIMES && r->tensor[X]) {
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
    const size_t d = r->layer.d = r->tensor[first]->shape[1];
    for (int i = 0; i < 5; i++) {
        const int which = on_tokens[i];
        if (r->tensor[which] && r->tensor[which]->shape[1] != d)
            return refuse_shape(r, which, "%s has width %zu", known[first].name, d);
    }
    r->n = r->tensor[X] ? rows(r, X) : 0;
    return LIPSC_OK;
}

static lipsc_status take_heads(reader *r) {
    lipsc_layer *l = &r->layer;
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

/* Biases, weights and times are as long as the rows they go with. */
static lipsc_status check_vectors(const reader *r) {
    static const int pairs[][2] = {{BQ, Q}, {BK, K},      {BV, V},   {BO, O},
                                   {C, A},  {WEIGHTS, X}, {TIMES, X}};
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        const int which = pairs[i][0], of = pairs[i][1];
        if (r->tensor[which] && r->tensor[which]->count != rows(r, of))
            return refuse_shape(r, which, "%s has %zu row%s", known[of].name, rows(r, of),
                                rows(r, of) == 1 ? "" : "s");
    }
    return LIPSC_OK;
}

static lipsc_status refuse_value(const reader *r, int which, size_t i, lipsc_status code,
                                 const char *what) {
    const lipsc_st_tensor *t = r->tensor[which];
    size_t index[2] = {i, 0};
    if (t->ndim == 2) {
        index[0] = i / t->shape[1];
        index[1] = i % t->shape[1];
    }
    char place[LIPSC_SHOWN_SHAPE];
    lipsc_show_shape(t->ndim, index, place);
    return lipsc_fail_at(r->err, code, t->offset + i * (t->bytes / t->count),
                         "%s: tensor '%s' holds %s at index %s", lipsc_st_path(r->st),
                         t->name, what, place);
}

static lipsc_status load(reader *r, int which, double *to) {
    const lipsc_st_tensor *t = r->tensor[which];
    const lipsc_status status = lipsc_st_read_f64(r->st, t, 0, t->count, to, r->err);
    if (status) return status;
    for (size_t i = 0; i < t->count; i++) {
        if (!isfinite(to[i]))
            return refuse_value(r, which, i, LIPSC_E_NONFIN,
                                isnan(to[i]) ? "a NaN" : "an infinity");
        if (which == WEIGHTS && !(to[i] > 0))
            return refuse_value(r, which, i, LIPSC_E_FORMAT,
                                "a weight that is not positive");
    }
    r->values[which] = to;
    return LIPSC_OK;
}

/* All values in one block, each tensor on a cache line of its own. */
static lipsc_status load_all(reader *r, double **storage) {
    enum { LINE = 8 };
    size_t total = 0, used = 0;
    for (int i = 0; i < KNOWN; i++) /* each count is at most half the file: no overflow */
        if (r->tensor[i]) total += (r->tensor[i]->count + LINE - 1) / LINE * LINE;
    double *block = lipsc_alloc(total, sizeof *block);
    if (!block) return refuse(r, LIPSC_E_NOMEM, "no memory for its tensors");
    for (int i = 0; i < KNOWN; i++) {
        if (!r->tensor[i]) continue;
        const lipsc_status status = load(r, i, block + used);
        if (status) {
            lipsc_release(block);
            return status;
        }
        used += (r->tensor[i]->count + LINE - 1) / LINE * LINE;
    }
    *storage = block;
    return LIPSC_OK;
}

static void hand_over(const reader *r, double *storage, lipsc_layer_file *out) {
    const double *const *v = r->values;
    out->layer = r->layer;
    out->layer.Q = v[A] ? v[A] : v[Q];
    out->layer.K = v[K]; /* NULL with A */
    out->layer.V = v[V];
    out->layer.O = v[O];
    out->layer.bq = v[A] ? v[C] : v[BQ];
    out->layer.bk = v[BK];
    out->layer.bv = v[BV];
    out->layer.bo = v[BO];
    out->input =
        (lipsc_input){.n = r->n, .X = v[X], .weights = v[WEIGHTS], .times = v[TIMES]};
    out->storage = storage;
}

lipsc_status lipsc_layer_from_st(const lipsc_st *st, const lipsc_layer_options *options,
                                 lipsc_layer_file *out, lipsc_error *err) {
    reader r = {.st = st, .err = err};
    if (options) r.options = *options;
    double *storage = NULL;
    lipsc_status status = find_tensors(&r);
    if (!status) status = check_presence(&r);
    if (!status) status = take_options(&r);
    if (!status) status = take_width(&r);
    if (!status) status = take_heads(&r);
    if (!status) status = check_vectors(&r);
    if (!status) status = load_all(&r, &storage);
    if (!status) hand_over(&r, storage, out);
    return status;
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
    lipsc_release(file->storage);
    *file = (lipsc_layer_file){0};
}
