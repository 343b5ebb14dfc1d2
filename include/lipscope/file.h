/* file.h - layers and tensors in files. */
#ifndef LIPSCOPE_FILE_H
#define LIPSCOPE_FILE_H

#include "lipscope/layer.h"
#include "lipscope/row.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Files -------------------------------------------------------------------- */

/* A layer with its input, read from one safetensors file (docs/cli.md, "Layer
 * files").  What its metadata says of the layer counts; an option that says something else
 * is refused (LIPSC_E_ARG, with both values).  Free with lipsc_layer_file_free; layer and
 * input point into it. */
typedef struct {
    lipsc_layer layer;
    lipsc_input input; /* X may be absent (n = 0) when need_input was 0 */
    void *storage;
} lipsc_layer_file;

typedef struct {
    size_t heads, kv_heads; /* 0: as the file says, or default */
    double scale;           /* 0: as the file says, or default */
    lipsc_mask mask;        /* LIPSC_MASK_NONE: as the file says, or by its times */
    size_t window;
    int need_input;
} lipsc_layer_options;

LIPSC_API lipsc_status lipsc_layer_file_read(const char *path,
                                             const lipsc_layer_options *options,
                                             lipsc_layer_file *out, lipsc_error *err);
LIPSC_API void lipsc_layer_file_free(lipsc_layer_file *file);

/* ---- Named tensors ------------------------------------------------------------- */

/* One tensor of a safetensors file, and one line of its metadata. */
typedef struct {
    const char *name;
    lipsc_dtype dtype; /* in the file */
    size_t ndim;
    const size_t *shape;
    const double *data;
} lipsc_st_item;

typedef struct {
    const char *key, *text;
} lipsc_st_note;

/* Writes a file that appears under its name whole or not at all: whatever fails, an
 * older file of that name stays as it was.  Devices and pipes are written directly.
 * A finite value beyond the range of F32 is refused, not turned into infinity. */
LIPSC_API lipsc_status lipsc_st_write(const char *path, const lipsc_st_item *items,
                                      size_t item_count, const lipsc_st_note *metadata,
                                      size_t note_count, lipsc_error *err);

/* ---- What files store ---------------------------------------------------------- */

/* One tensor.  X(member, kind, part, shown, unit, what it says) */
#define LIPSC_STORED_LIST(X)                        \
    X(tensor, TEXT, 0, 1, "", "its name")           \
    X(dtype, TEXT, 0, 1, "", "F16, Q4_K, ...")      \
    X(shape, TEXT, 0, 1, "", "(rows, columns)")     \
    X(bytes, COUNT, 0, 1, "bytes", "that it takes") \
    X(file, TEXT, 0, 1, "", "where it stands")

typedef struct {
    LIPSC_STORED_LIST(LIPSC_FIELD_MEMBER)
} lipsc_stored_row;

LIPSC_API lipsc_fields lipsc_stored_fields(void);

typedef struct {
    size_t count;
    lipsc_stored_row *at;
    void *storage;
} lipsc_stored_rows;

/* Every tensor of a safetensors or GGUF file, of a folder with some, or of a model as
 * lipsc_model_open takes it; LIPSC_E_ARG for a random one, which stores none.  Free it in
 * any case. */
LIPSC_API lipsc_status lipsc_stored_read_all(const char *spec, lipsc_stored_rows *out,
                                             lipsc_error *err);
LIPSC_API void lipsc_stored_rows_free(lipsc_stored_rows *rows);

/* 1: spec names a file of which its tensors are all that can be told, and no model. */
LIPSC_API int lipsc_stored_alone(const char *spec);

#ifdef __cplusplus
}
#endif
#endif
