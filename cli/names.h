/* names.h - how masks, precisions and maps are called in options, rows and files. */
#ifndef LIPSC_CLI_NAMES_H
#define LIPSC_CLI_NAMES_H

#include "lipscope.h"

static inline const char *cli_mask_name(lipsc_mask mask) {
    static const char *const names[] = {"none", "causal", "sliding", "times", "local"};
    return names[mask];
}

static inline const char *cli_dtype_name(lipsc_dtype dtype) {
    return dtype == LIPSC_F32 ? "f32" : "f64";
}

/* With the output projection it is the attention module, without it only its heads. */
static inline const char *cli_map_name(const lipsc_layer *layer) {
    return layer->O ? "attention" : "heads";
}

#endif
