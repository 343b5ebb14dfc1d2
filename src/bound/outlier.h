/* outlier.h - directions that belong to the scores of a head: inside bound/ only. */
#ifndef LIPSC_BOUND_OUTLIER_H
#define LIPSC_BOUND_OUTLIER_H

#include "bound/construct.h"

/* The `count` largest singular values of A with left and right vectors, (count, d). */
lipsc_status lipsc_score_vectors(const lipsc_head_facts *f, size_t count, double *sigma,
                                 double *u, double *v);

/* Real eigenvalues of A other than zero and unit eigenvectors (count, d); room for
 * k and min(d, k) d. */
lipsc_status lipsc_score_eigenvectors(const lipsc_head_facts *f, size_t *count,
                                      double *lambda, double *vectors);

/* Memory of a construction with that many points, X zero. */
lipsc_status lipsc_worst_new(size_t points, size_t d, int timed, lipsc_worst *out);

/* The pair of tokens that 5.1, 5.3 and 5.4 are made of: bulk x, outlier y. */
typedef struct {
    double *x, *y, *w, *b; /* (d) each: w = A x + c, b = y - x            */
    double delta;          /* w.b                                          */
    double gain;           /* |V b| / |b|; 0 when b = 0                    */
    double *both, *room;   /* (d), (k): scratch                            */
    double *storage;
} lipsc_outlier;

lipsc_status lipsc_outlier_new(const lipsc_head_facts *f, lipsc_outlier *o);
void lipsc_outlier_free(lipsc_outlier *o);
/* From x and y to the rest. */
void lipsc_outlier_finish(const lipsc_head_facts *f, lipsc_outlier *o);
/* x of the best Delta, y = R w/|w|. */
lipsc_status lipsc_outlier_best(const lipsc_head_facts *f, double R, int sphere,
                                lipsc_outlier *o);

#endif
