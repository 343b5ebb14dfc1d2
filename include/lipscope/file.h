/* file.h - layers in files. */
#ifndef LIPSCOPE_FILE_H
#define LIPSCOPE_FILE_H

#include "lipscope/layer.h"

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

#ifdef __cplusplus
}
#endif
#endif
