/* facts.h - what bounds over a ball know of a head: its matrices and norms, no input.
 *
 *     w(x) = A x + c,   A = scale K^T Q,   c = scale K^T b_q          (docs/maths.md 1.1)
 * Nothing is d x d: A is only ever applied. */
#ifndef LIPSC_BOUND_FACTS_H
#define LIPSC_BOUND_FACTS_H

#include "lipscope.h"

typedef struct {
    size_t d, k, rank;
    const double *Q, *K, *bq; /* of the layer; K NULL: the identity; bq may be NULL      */
    double scale;
    double *value; /* (rank, d) row-major: |value x| = |W_h V_h x| for every x      */
    double norm_A, norm_c;
    double norm_V;  /* |V_h|                                                          */
    double norm_OV; /* |W_h V_h|, W_h the head's slice of O; |V_h| without O          */
} lipsc_head_facts;

/* Head h of a layer that lipsc_layer_check has resolved; its arrays must outlive *out.
 * LIPSC_E_RANGE when a norm overflows.  Free with lipsc_head_facts_free, also on failure.
 */
lipsc_status lipsc_head_facts_make(const lipsc_layer *layer, size_t h,
                                   lipsc_head_facts *out);
void lipsc_head_facts_free(lipsc_head_facts *facts);

/* Why the scores of such a layer are not w(x_i).x_j, or NULL. */
const char *lipsc_scores_turned(const lipsc_layer *layer);

/* w = A x (+ c with bias nonzero); room for k numbers. */
void lipsc_head_facts_score(const lipsc_head_facts *f, int bias, const double *x,
                            double *room, double *w);
/* x = A^T y */
void lipsc_head_facts_score_back(const lipsc_head_facts *f, const double *y, double *room,
                                 double *x);

/* |value (alpha I + beta b w^T)| and |value b| */
lipsc_status lipsc_head_facts_stretch(const lipsc_head_facts *f, double alpha, double beta,
                                      const double *b, const double *w, double *norm);
double lipsc_head_facts_value_length(const lipsc_head_facts *f, const double *b);

#endif
