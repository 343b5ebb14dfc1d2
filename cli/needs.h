/* needs.h - what a sweep needs: the memory that it keeps to, and the time. */
#ifndef LIPSC_CLI_NEEDS_H
#define LIPSC_CLI_NEEDS_H

#include "model/model.h"

/* Which weights are made ready depends on these. */
typedef struct {
    const lipsc_model *model;
    lipsc_map_kind map;
    lipsc_dtype dtype;
    int threads;
} cli_sweep_kind;

/* Bytes of the residual streams of windows that go through the model together; one window
 * goes in any case. */
extern const double cli_streams_room;

/* Layers whose weights are ready at a time, at least one. */
size_t cli_layers_ready(const cli_sweep_kind *kind);

/* Bytes of a window of n tokens on its way, and of its solve. */
double cli_stream_bytes(const lipsc_model *model, size_t n);
double cli_solve_bytes(const lipsc_model *model, size_t n);

/* Whether every thread may have a window of n tokens of its own. */
int cli_fit_side_by_side(const cli_sweep_kind *kind, size_t n);

/* Bytes of a sweep, roughly and from above: streams: of all windows together. */
double cli_sweep_bytes(const cli_sweep_kind *kind, size_t longest, double streams);

/* Floating-point operations that one thread makes in a second, by a short trial; 0 when
 * memory is short. */
double cli_speed(lipsc_dtype dtype);

#endif
