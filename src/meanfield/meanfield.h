/* meanfield.h - a layer with the measure that it acts on: inside measure/ only. */
#ifndef LIPSC_MEANFIELD_MEANFIELD_H
#define LIPSC_MEANFIELD_MEANFIELD_H

#include "attn/attn.h"
#include "lipscope.h"

/* Room for a measure; weights always, times when asked for.  The pointers lead into out. */
typedef struct {
    double *points, *weights, *times;
} lipsc_cloud_parts;

lipsc_status lipsc_cloud_new(size_t n, size_t d, int timed, lipsc_cloud *out,
                             lipsc_cloud_parts *parts, lipsc_error *err);

/* The map and its different atoms. */
typedef struct {
    lipsc_layer layer; /* resolved; its mask is none, or times                    */
    lipsc_cloud atoms; /* with weights; with times exactly when there is a mask   */
    size_t *place;     /* (given n) which atom each given one became              */
    size_t *first;     /* (atoms n) the first of the given ones that became it    */
    int sequence;      /* the layer was causal: times are those of the places     */
} lipsc_atom_field;

/* layer's arrays must outlive it; mu is copied.  Nothing to free on failure. */
lipsc_status lipsc_atom_field_new(const lipsc_layer *layer, const lipsc_measure *mu,
                                  lipsc_atom_field *out, lipsc_error *err);
void lipsc_atom_field_free(lipsc_atom_field *field);
lipsc_input lipsc_atom_field_input(const lipsc_atom_field *field);
/* The device as given; where it is a CPU with free threads and the work is small, one: the
 * others would take longer to wake up. */
const lipsc_device *lipsc_atom_field_device(const lipsc_atom_field *field,
                                            const lipsc_device *device);
double lipsc_time_of(size_t i, size_t n); /* of place i in a sequence of n: (i+1)/n */

/* ---- Query path: paths.c ------------------------------------------------------------ */

/* The layer on tokens (y | x) of width 2 d, whose queries come from y and whose keys and
 * values come from x: Q' = [Q 0], K' = [0 K], V' = [0 V].  A direction (h | 0) then takes
 * the query path alone, and a token may ask at a place where no atom is.
 * Free with lipsc_packed_free. */
lipsc_status lipsc_paths_new(const lipsc_layer *resolved, lipsc_packed **out,
                             lipsc_error *err);
/* Tokens (queries_i | atoms_i); queries NULL: the atoms themselves. */
lipsc_status lipsc_paths_at(lipsc_packed *paths, lipsc_mask mask, const lipsc_input *atoms,
                            const double *queries, const lipsc_device *device,
                            lipsc_attn **out, lipsc_error *err);
/* y (n, width) = query path of x (n, d), token by token; with trans y (n, d) from x.
 * room (n, 2 d). */
lipsc_status lipsc_paths_apply(lipsc_attn *attn, int trans, const double *x, double *room,
                               double *y);

/* The weights of a layer made ready once, for any number of measures: as it is, and for the
 * query path.  Its mask does not matter.  Free with lipsc_acting_free, also on failure. */
typedef struct {
    lipsc_packed *whole, *paths;
} lipsc_acting;

lipsc_status lipsc_acting_new(const lipsc_layer *resolved, lipsc_acting *out,
                              lipsc_error *err);
void lipsc_acting_free(lipsc_acting *acting);

/* lipsc_slopes_find on weights that are ready; layer only says what the mask is. */
lipsc_status lipsc_slopes_with(const lipsc_acting *acting, const lipsc_layer *layer,
                               const lipsc_measure *mu, const lipsc_slope_settings *set,
                               lipsc_slopes *out, lipsc_error *err);

/* ---- Norms of all query paths: halves.c --------------------------------------------- */

/* norm (n): |V C_i A| of every token, reached by direction (n, d); residual: of the token
 * with the largest norm.  LIPSC_E_NOCONV when it is above tol. */
lipsc_status lipsc_halves_find(lipsc_attn *paths, double tol, uint64_t seed,
                               int (*stop)(void *ctx), void *ctx, double *norm,
                               double *direction, double *residual);

/* ---- One point searched: teleport.c ------------------------------------------------- */

typedef struct {
    double slope;   /* |Gamma(target) - Gamma(x)| / |target - x|; 0: nothing found */
    size_t atom;    /* of the field                                                */
    double *target; /* (d), the caller's                                          */
} lipsc_teleport;

/* norm and direction as lipsc_halves_find gave them. */
lipsc_status lipsc_teleport_find(const lipsc_atom_field *field, lipsc_packed *paths,
                                 const lipsc_slope_settings *set, const double *norm,
                                 const double *direction, lipsc_teleport *out,
                                 lipsc_error *err);
/* sup over z of |V C_z A|, from above: sum over heads of |W V| |A| R^2, or with |O|.  NaN
 * with query/key norms. */
lipsc_status lipsc_teleport_cover(const lipsc_atom_field *field, double *cover);

#endif
