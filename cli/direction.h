/* direction.h - a value with the direction that reaches it, as a file that stands alone.
 *
 * A direction file is a layer file (X, Q, K, V, ... as docs/cli.md says) with three more
 * tensors and with what the options of `layer` had said as metadata:
 *
 *     sigma (1)       the value                         heads, kv_heads, window
 *     v (n, d)        |v| = 1                           scale, mask, map, dtype
 *     u (n, width)    J v / sigma                       lipscope (the version) */
#ifndef LIPSC_CLI_DIRECTION_H
#define LIPSC_CLI_DIRECTION_H

#include "lipscope.h"

/* layer with its defaults resolved; dtype is that of the solve, the file is in F64.  u and
 * v NULL: the layer file alone. */
lipsc_status cli_direction_write(const char *path, const lipsc_layer *layer,
                                 const lipsc_input *input, lipsc_dtype dtype, double sigma,
                                 const double *u, const double *v, lipsc_error *err);

/* What such a file cannot say of a layer (rotary positions, norms of queries and keys), or
 * NULL. */
const char *cli_direction_beyond(const lipsc_layer *layer);
/* On standard error: the options with which `layer` reads the file as it was meant. */
void cli_direction_how(const char *command, const char *path, const lipsc_layer *layer);

typedef struct {
    lipsc_layer_file file;
    double sigma; /* as stored */
    double *v;    /* (n, d) */
} cli_direction;

lipsc_status cli_direction_read(const char *path, cli_direction *out, lipsc_error *err);
void cli_direction_free(cli_direction *direction);

#endif
