/* given.h - tensors that are in memory already, as a set of named tensors. */
#ifndef LIPSC_IO_GIVEN_H
#define LIPSC_IO_GIVEN_H

#include "core/sha256.h"
#include "lipscope/model.h"

/* One tensor; valid as long as its set. */
typedef struct {
    char *name, *dtype;
    size_t ndim, *shape;
    ptrdiff_t *strides; /* in bytes */
    const uint8_t *data;
    size_t count, item; /* numbers; bytes of one, 0: of a type that is not converted */
} lipsc_given_tensor;

typedef struct {
    size_t count;
    lipsc_given_tensor *at; /* sorted by name */
} lipsc_given_set;

/* Copies all but the numbers.  Refuses two of one name and sizes beyond memory.  name: of
 * the model, in sentences.  Free it either way. */
lipsc_status lipsc_given_make(const char *name, size_t count,
                              const lipsc_model_tensor *tensors, lipsc_given_set *out,
                              lipsc_error *err);
void lipsc_given_free(lipsc_given_set *set);

const lipsc_given_tensor *lipsc_given_find(const lipsc_given_set *set,
                                           const char *name); /* or NULL */

/* Numbers first .. first+count-1 in row-major order. */
lipsc_status lipsc_given_read(const lipsc_given_tensor *tensor, size_t first, size_t count,
                              double *out, lipsc_error *err);

/* Names, types, shapes and numbers, whatever the strides. */
void lipsc_given_hash(const lipsc_given_set *set, lipsc_sha256 *sha);

#endif
