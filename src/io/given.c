/* given.c - tensors that are in memory already: any strides, four types of numbers. */
#include "io/given.h"

#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/half.h"
#include "core/mem.h"
#include "io/show.h"

enum { AXES = 8 };

/* ---- The set ----------------------------------------------------------------------- */

static size_t item_bytes(const char *dtype) {
    static const struct {
        const char *name;
        size_t bytes;
    } types[] = {{"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, dtype)) return types[i].bytes;
    return 0;
}

static void *copied(const void *from, size_t count, size_t size) {
    void *copy = lipsc_alloc(count, size);
    if (copy && from) memcpy(copy, from, count * size);
    return copy;
}

/* Strides of rows one after the other, where none are given. */
static void lay_out(lipsc_given_tensor *t, const ptrdiff_t *strides) {
    size_t step = t->item;
    for (size_t axis = t->ndim; axis-- > 0;) {
        t->strides[axis] = strides ? strides[axis] : (ptrdiff_t)step;
        step *= t->shape[axis];
    }
}

static lipsc_status wrong(const char *name, const lipsc_model_tensor *from,
                          const char *reason, lipsc_error *err) {
    char model[LIPSC_SHOWN_PATH], tensor[LIPSC_SHOWN_NAME];
    lipsc_show_path(name, model);
    lipsc_show_name(from->name ? from->name : "", tensor);
    return lipsc_fail(err, LIPSC_E_ARG, "%s: tensor '%s' %s", model, tensor, reason);
}

static lipsc_status add(const char *name, const lipsc_model_tensor *from,
                        lipsc_given_tensor *t, lipsc_error *err) {
    if (!from->name || !from->dtype || (from->ndim && !from->shape))
        return wrong(name, from, "has no name, no type or no shape", err);
    if (from->ndim > AXES) return wrong(name, from, "has more than eight axes", err);
    t->ndim = from->ndim;
    t->data = from->data;
    t->count = 1;
    t->item = item_bytes(from->dtype);
    size_t bytes;
    for (size_t axis = 0; axis < from->ndim; axis++)
        if (!lipsc_mul_size(t->count, from->shape[axis], &t->count))
            return wrong(name, from, "is too large", err);
    if (!lipsc_mul_size(t->count, 8, &bytes) || bytes > PTRDIFF_MAX)
        return wrong(name, from, "is too large", err);
    if (t->count && !t->data) return wrong(name, from, "has no numbers", err);
    t->name = copied(from->name, strlen(from->name) + 1, 1);
    t->dtype = copied(from->dtype, strlen(from->dtype) + 1, 1);
    t->shape = copied(from->shape, from->ndim, sizeof *t->shape);
    t->strides = lipsc_alloc(from->ndim, sizeof *t->strides);
    if (!t->name || !t->dtype || !t->shape || !t->strides)
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a list of tensors");
    lay_out(t, from->strides);
    return LIPSC_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const lipsc_given_tensor *)a)->name,
                  ((const lipsc_given_tensor *)b)->name);
}

lipsc_status lipsc_given_make(const char *name, size_t count,
                              const lipsc_model_tensor *tensors, lipsc_given_set *out,
                              lipsc_error *err) {
    *out = (lipsc_given_set){0, lipsc_alloc_zero(count, sizeof *out->at)};
    lipsc_status status =
        out->at ? LIPSC_OK : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for tensors");
    while (!status && out->count < count) {
        status = add(name, &tensors[out->count], &out->at[out->count], err);
        out->count++;
    }
    if (status) return status;
    if (count) qsort(out->at, count, sizeof *out->at, by_name);
    for (size_t i = 1; i < count; i++)
        if (!by_name(&out->at[i - 1], &out->at[i]))
            return wrong(name, &(lipsc_model_tensor){.name = out->at[i].name},
                         "is there twice", err);
    return LIPSC_OK;
}

void lipsc_given_free(lipsc_given_set *set) {
    for (size_t i = 0; i < set->count; i++) {
        lipsc_release(set->at[i].name);
        lipsc_release(set->at[i].dtype);
        lipsc_release(set->at[i].shape);
        lipsc_release(set->at[i].strides);
    }
    lipsc_release(set->at);
    *set = (lipsc_given_set){0, NULL};
}

const lipsc_given_tensor *lipsc_given_find(const lipsc_given_set *set, const char *name) {
    size_t low = 0, high = set->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = strcmp(set->at[middle].name, name);
        if (!order) return &set->at[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* ---- Its numbers ------------------------------------------------------------------- */

static double number(const lipsc_given_tensor *t, const uint8_t *at) {
    uint16_t half;
    float single;
    double value;
    switch (t->item) {
    case 2:
        memcpy(&half, at, sizeof half);
        return (double)(*t->dtype == 'B' ? lipsc_bf16_to_float(half)
                                         : lipsc_f16_to_float(half));
    case 4:
        memcpy(&single, at, sizeof single);
        return (double)single;
    default:
        memcpy(&value, at, sizeof value);
        return value;
    }
}

/* Where number i stands, in row-major order; its places along the axes. */
static const uint8_t *locate(const lipsc_given_tensor *t, size_t i, size_t place[AXES]) {
    const uint8_t *at = t->data;
    for (size_t axis = t->ndim; axis-- > 0;) {
        place[axis] = i % t->shape[axis];
        i /= t->shape[axis];
        at += (ptrdiff_t)place[axis] * t->strides[axis];
    }
    return at;
}

/* The number behind it; `at` is left where it is behind the last one. */
static const uint8_t *step(const lipsc_given_tensor *t, const uint8_t *at,
                           size_t place[AXES]) {
    for (size_t axis = t->ndim; axis-- > 0;) {
        if (++place[axis] < t->shape[axis]) return at + t->strides[axis];
        at -= (ptrdiff_t)(t->shape[axis] - 1) * t->strides[axis];
        place[axis] = 0;
    }
    return at;
}

lipsc_status lipsc_given_read(const lipsc_given_tensor *t, size_t first, size_t count,
                              double *out, lipsc_error *err) {
    size_t place[AXES];
    if (!t->item)
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "tensor '%s' is of type %s, which is not read", t->name,
                          t->dtype);
    if (first > t->count || count > t->count - first)
        return lipsc_fail(err, LIPSC_E_RANGE, "tensor '%s' has %zu numbers", t->name,
                          t->count);
    if (!count) return LIPSC_OK;
    const uint8_t *at = locate(t, first, place);
    for (size_t i = 0; i < count; i++) {
        out[i] = number(t, at);
        at = step(t, at, place);
    }
    return LIPSC_OK;
}

static void hash_text(const char *text, lipsc_sha256 *sha) {
    lipsc_sha256_add(sha, text, strlen(text) + 1);
}

static void hash_size(size_t size, lipsc_sha256 *sha) {
    uint8_t little[8];
    for (int i = 0; i < 8; i++) little[i] = (uint8_t)((uint64_t)size >> 8 * i);
    lipsc_sha256_add(sha, little, sizeof little);
}

void lipsc_given_hash(const lipsc_given_set *set, lipsc_sha256 *sha) {
    for (size_t i = 0; i < set->count; i++) {
        const lipsc_given_tensor *t = &set->at[i];
        size_t place[AXES];
        hash_text(t->name, sha);
        hash_text(t->dtype, sha);
        for (size_t axis = 0; axis < t->ndim; axis++) hash_size(t->shape[axis], sha);
        if (!t->item || !t->count) continue;
        const uint8_t *at = locate(t, 0, place);
        for (size_t k = 0; k < t->count; k++) {
            lipsc_sha256_add(sha, at, t->item);
            at = step(t, at, place);
        }
    }
}
