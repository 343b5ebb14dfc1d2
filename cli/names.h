/* names.h - how the map of a lone layer is called in rows and files. */
#ifndef LIPSC_CLI_NAMES_H
#define LIPSC_CLI_NAMES_H

#include "lipscope.h"

/* With the output projection it is the attention module, without it only its heads. */
static inline const char *cli_map_name(const lipsc_layer *layer) {
    return layer->O ? "attention" : "heads";
}

#endif
