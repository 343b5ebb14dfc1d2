/* needs.h - what a sweep needs: the memory that it keeps to, and the time. */
#ifndef LIPSC_STUDY_NEEDS_H
#define LIPSC_STUDY_NEEDS_H

#include "lipscope/attack.h"
#include "lipscope/study.h"

/* Which weights are made ready depends on these. */
typedef struct {
    const lipsc_model *model;
    lipsc_map_kind map;
    lipsc_dtype dtype;
    int threads;
    int queued; /* weights lie in the memory of a device that has much of it */
} study_kind;

/* Bytes of the residual streams of windows that go through the model together; one window
 * goes in any case. */
extern const double lipsc_study_streams_room;

/* Layers whose weights are ready at a time, at least one. */
size_t lipsc_study_layers_ready(const study_kind *kind);

/* Bytes of a window of n tokens on its way, and of its solve. */
double lipsc_study_stream_bytes(const lipsc_model *model, size_t n);
double lipsc_study_solve_bytes(const lipsc_model *model, size_t n);

/* Whether every thread may have a window of n tokens of its own. */
int lipsc_study_side_by_side(const study_kind *kind, size_t n);

/* Bytes of a sweep, roughly and from above: streams: of all windows together. */
double lipsc_study_sweep_bytes(const study_kind *kind, size_t longest, double streams);

/* Pairs of products of most cells, all else that a cell costs included. */
extern const double lipsc_study_pairs_of_cell;

/* Floating-point operations that one thread makes in a second, by a short trial; 0 when
 * memory is short. */
double lipsc_study_speed(lipsc_dtype dtype);

/* Seconds of a solve, and of all bounds with those over `radii` neighbourhoods, roughly:
 * the sizes over the speed of a product, which is tried now.  Infinite when memory is
 * short. */
double lipsc_study_solve_seconds(const lipsc_layer *layer, size_t n, lipsc_dtype dtype,
                                 int threads);
double lipsc_study_bounds_seconds(const lipsc_layer *layer, size_t n, size_t radii,
                                  int threads);
/* And of the search of n tokens with the precision, restarts and iterations of `set`. */
double lipsc_study_attack_seconds(const lipsc_layer *layer,
                                  const lipsc_attack_settings *set, int threads);

#endif
