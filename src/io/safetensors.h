/* safetensors.h - named tensors in a file: read from hostile bytes, written atomically.
 *
 * The format: 8 bytes little-endian header length N, N bytes of JSON
 *     {"__metadata__": {"key": "text"}, "Q": {"dtype": "F32", "shape": [12, 6],
 *      "data_offsets": [0, 288]}, ...}
 * and the data, little-endian, row-major; offsets count from its first byte.  Tensors
 * cover the data without overlap and without holes; files that do not are refused. */
#ifndef LIPSC_IO_SAFETENSORS_H
#define LIPSC_IO_SAFETENSORS_H

#include "lipscope/file.h" /* lipsc_st_write */

typedef enum {
    LIPSC_ST_OTHER = 0, /* known to the format, not converted: integers, F8, ... */
    LIPSC_ST_F64,
    LIPSC_ST_F32,
    LIPSC_ST_F16,
    LIPSC_ST_BF16
} lipsc_st_type;

/* Valid as long as its lipsc_st. */
typedef struct {
    const char *name;
    const char *dtype; /* as the file spells it: "F32", "I64"      */
    lipsc_st_type type;
    size_t ndim;
    const size_t *shape; /* ndim numbers                             */
    size_t count;        /* product of the shape; 1 for a scalar     */
    const uint8_t *data; /* `bytes` bytes, not aligned               */
    size_t bytes;
    uint64_t offset; /* of data in the file                      */
} lipsc_st_tensor;

/* A parsed file.  Every span in it has been checked against the bytes given. */
typedef struct lipsc_st lipsc_st;

/* bytes must stay as long as the result; name_for_errors (a path) is copied. */
lipsc_status lipsc_st_parse(const uint8_t *bytes, size_t length,
                            const char *name_for_errors, lipsc_st **out, lipsc_error *err);

/* Maps the file and parses it; the file must not change until lipsc_st_free. */
lipsc_status lipsc_st_open(const char *path, lipsc_st **out, lipsc_error *err);
void lipsc_st_free(lipsc_st *st); /* NULL does nothing */

/* A tensor's bytes are not needed for a while: mapped ones leave memory until they are
 * read again. */
void lipsc_st_forget(const lipsc_st *st, const lipsc_st_tensor *tensor);

size_t lipsc_st_count(const lipsc_st *st);
const lipsc_st_tensor *lipsc_st_at(const lipsc_st *st, size_t i); /* sorted by name */
const lipsc_st_tensor *lipsc_st_find(const lipsc_st *st, const char *name); /* or NULL */
const char *lipsc_st_metadata(const lipsc_st *st, const char *key);         /* or NULL */
/* The first key that is not known, or NULL. */
const char *lipsc_st_metadata_other(const lipsc_st *st, int (*known)(const char *key));
const char *lipsc_st_path(const lipsc_st *st); /* as shown in error sentences */

/* Entries first ... first+count-1 of a tensor in storage order.  F32, F16 and BF16
 * convert exactly to both; F64 is rounded to nearest by read_f32.  Any other dtype is
 * refused by its name. */
lipsc_status lipsc_st_read_f64(const lipsc_st *st, const lipsc_st_tensor *tensor,
                               size_t first, size_t count, double *out, lipsc_error *err);
lipsc_status lipsc_st_read_f32(const lipsc_st *st, const lipsc_st_tensor *tensor,
                               size_t first, size_t count, float *out, lipsc_error *err);

#endif
