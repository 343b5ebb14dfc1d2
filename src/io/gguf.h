/* gguf.h - a GGUF file: typed notes and named tensors, read from hostile bytes.
 *
 * The format (versions 2 and 3, little-endian): "GGUF", version, number of tensors, number
 * of notes; the notes (key, type, value); the tensors' names, shapes, types and offsets;
 * then the data, aligned to general.alignment (32).  Shapes are written fastest index
 * first; here they are row-major, slowest first, as everywhere else. */
#ifndef LIPSC_IO_GGUF_H
#define LIPSC_IO_GGUF_H

#include "io/quant.h"

typedef struct lipsc_gguf lipsc_gguf;

enum { LIPSC_GGUF_DIMS = 4 };

/* Valid as long as its lipsc_gguf. */
typedef struct {
    const char *name;
    uint32_t type_id;
    const lipsc_quant *type; /* NULL: a number that no known format has            */
    size_t ndim, shape[LIPSC_GGUF_DIMS], count;
    const uint8_t *data; /* checked to lie in the file where the type is known     */
    size_t bytes;
    uint64_t offset; /* of data in the file */
} lipsc_gguf_tensor;

/* bytes must stay as long as the result; name_for_errors (a path) is copied. */
lipsc_status lipsc_gguf_parse(const uint8_t *bytes, size_t length,
                              const char *name_for_errors, lipsc_gguf **out,
                              lipsc_error *err);
/* Maps the file, which must not change until lipsc_gguf_free. */
lipsc_status lipsc_gguf_open(const char *path, lipsc_gguf **out, lipsc_error *err);
void lipsc_gguf_free(lipsc_gguf *gguf); /* NULL does nothing */

/* Does the file begin as a GGUF file does?  0 also where it cannot be read. */
int lipsc_gguf_recognised(const char *path);

const char *lipsc_gguf_path(const lipsc_gguf *gguf); /* as shown in error sentences */
size_t lipsc_gguf_count(const lipsc_gguf *gguf);
const lipsc_gguf_tensor *lipsc_gguf_at(const lipsc_gguf *gguf, size_t i); /* by name */
const lipsc_gguf_tensor *lipsc_gguf_find(const lipsc_gguf *gguf, const char *name);

/* Entries first .. first+count-1 in storage order; a type that cannot be unpacked is
 * refused by its name. */
lipsc_status lipsc_gguf_read(const lipsc_gguf *gguf, const lipsc_gguf_tensor *tensor,
                             size_t first, size_t count, double *out, lipsc_error *err);

/* A tensor's bytes are not needed for a while: mapped ones leave memory until they are
 * read again. */
void lipsc_gguf_forget(const lipsc_gguf *gguf, const lipsc_gguf_tensor *tensor);

/* ---- Notes: 1 and the value, or 0 when there is none of that key and kind ---- */

typedef struct {
    const char *bytes; /* in the file, not ended by a NUL */
    size_t size;
} lipsc_gguf_text;

/* The key of the i-th note, sorted, NULL behind the last. */
const char *lipsc_gguf_key(const lipsc_gguf *gguf, size_t i);

/* Integers, floats and truth values.  A single-precision note is the shortest decimal that
 * it stands for, 1e-05 and not 9.99999974738e-06: that is what the model was made with. */
int lipsc_gguf_number(const lipsc_gguf *gguf, const char *key, double *out);
int lipsc_gguf_string(const lipsc_gguf *gguf, const char *key, lipsc_gguf_text *out);

/* An array, walked from its beginning. */
typedef struct {
    uint32_t type; /* of its entries */
    size_t left;
    const uint8_t *at;
} lipsc_gguf_list;

int lipsc_gguf_array(const lipsc_gguf *gguf, const char *key, lipsc_gguf_list *out);
/* 1 and the next entry, or 0 at the end and for another kind of entry. */
int lipsc_gguf_next_number(lipsc_gguf_list *list, double *out);
int lipsc_gguf_next_string(lipsc_gguf_list *list, lipsc_gguf_text *out);

#endif
