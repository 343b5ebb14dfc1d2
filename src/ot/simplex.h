/* simplex.h - network simplex for a transportation problem on a growing list of arcs.
 *
 *     minimise sum_a c_a x_a    over flows x >= 0 from sources 0..n-1 to targets 0..m-1
 *     with the given supplies and demands, whole numbers of equal sum.
 *
 * The caller decides which arcs are in the list and adds those that
 * its own pricing of the others finds; the tree and its flows stay. */
#ifndef LIPSC_OT_SIMPLEX_H
#define LIPSC_OT_SIMPLEX_H

#include "lipscope.h"

typedef struct {
    uint32_t from, to; /* source, target */
    double cost;
} lipsc_ot_arc;

typedef struct lipsc_simplex lipsc_simplex;

/* Nodes without arcs; room for a first number of arcs.  n + m < 2^31. */
lipsc_status lipsc_simplex_new(size_t n, size_t m, const int64_t *supply,
                               const int64_t *demand, lipsc_simplex **out);
void lipsc_simplex_free(lipsc_simplex *s); /* NULL does nothing */

/* LIPSC_E_NOMEM or LIPSC_OK. */
lipsc_status lipsc_simplex_add(lipsc_simplex *s, size_t from, size_t to, double cost);
size_t lipsc_simplex_arcs(const lipsc_simplex *s);

/* The first tree: arcs of the list are filled one after the other as far as supply and
 * demand allow, those of smallest key first; key has one number per arc.  What is left
 * over goes from source i through an artificial root to target j at cost
 * f_i + g_j + penalty, where f and g are potentials near the optimal ones. */
lipsc_status lipsc_simplex_begin(lipsc_simplex *s, const float *key, const double *f,
                                 const double *g, double penalty);

/* Makes the way over the root dearer, for a list on which it is still used. */
void lipsc_simplex_raise(lipsc_simplex *s, double by);

/* Pivots until no arc of the list has a reduced cost below -tolerance, or LIPSC_E_NOCONV
 * after so many: flows and potentials are then those of the last tree. */
lipsc_status lipsc_simplex_run(lipsc_simplex *s, double tolerance, long most);
long lipsc_simplex_pivots(const lipsc_simplex *s);

/* Potentials of the tree: f_i + g_j = c on its arcs, <= c + tolerance on the list. */
void lipsc_simplex_potentials(const lipsc_simplex *s, double *f, double *g);

/* The flow between node v (source v, or target v - n) and its parent in the tree, where
 * that is an arc between a source and a target: 1 and the arc, else 0.  v < n + m. */
int lipsc_simplex_flow(const lipsc_simplex *s, size_t v, lipsc_ot_arc *arc, int64_t *flow);

/* Flow over the root: zero at the optimum of a complete list with a large penalty. */
int64_t lipsc_simplex_left_over(const lipsc_simplex *s);

#endif
