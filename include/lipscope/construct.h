/* construct.h - explicit worst cases of one head (docs/maths.md 5): inputs of a ball at
 * which sigma is large, the value that a formula promises there, and the value reached.
 *
 *     lipsc_construct_settings set;
 *     lipsc_worst worst;
 *     lipsc_construct_defaults(&set);
 *     set.which = LIPSC_CONSTRUCT_ADAPTED;
 *     set.n = 1000000;
 *     set.radius = 2;
 *     lipsc_construct(&layer, &set, &worst, &err);
 *     lipsc_worst_reach(&layer, &worst, NULL, &sigma, &err);
 *     lipsc_worst_free(&worst); */
#ifndef LIPSCOPE_CONSTRUCT_H
#define LIPSCOPE_CONSTRUCT_H

#include "lipscope/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    LIPSC_CONSTRUCT_OUTLIER = 0,     /* 5.1: one outlier, n - 1 equal tokens              */
    LIPSC_CONSTRUCT_EIGENVECTOR = 1, /* 5.1: the same along a real eigenvector of A       */
    LIPSC_CONSTRUCT_ADAPTED = 2,     /* 5.1: the equal tokens where they suit n           */
    LIPSC_CONSTRUCT_TWO = 3,         /* 5.2: two outliers                                 */
    LIPSC_CONSTRUCT_LINEAR = 4,      /* 5.2 (L4): tokens at Ru, -Ru and 0                 */
    LIPSC_CONSTRUCT_DIRACS = 5,      /* 5.3: a measure, two Diracs of very unequal mass   */
    LIPSC_CONSTRUCT_SCALES = 6       /* 5.4: a measure, outliers at every time scale      */
} lipsc_construction;
/* "one-outlier", "eigenvector", ...: the names of their bounds; NULL for another number. */
LIPSC_API const char *lipsc_construction_name(lipsc_construction which);

typedef struct {
    lipsc_construction which;
    size_t head;   /* whose worst case it is                                             */
    double radius; /* of the ball.  Default 1                                            */
    size_t n;      /* tokens, 2 or more (TWO and LINEAR: 3); of no meaning to measures    */
    int sphere;    /* 5.5: every token stays on the sphere of its length.  OUTLIER, TWO   */
    int backwards; /* EIGENVECTOR: -u, another input where there is a query bias          */
    double along;  /* TWO: how far their middle is out, in [0, 1) radii.  NaN: the best   */
    size_t fibres; /* SCALES: in how many cells of [0, 1].  Default 100                   */
    double growth; /* SCALES: of the cells.  Default 1.5                                  */
} lipsc_construct_settings;

LIPSC_API void lipsc_construct_defaults(lipsc_construct_settings *set);

/* Tokens that are equal are kept once, with their number: without a mask n of them are a
 * measure with few atoms, so that any n costs nothing. */
typedef struct {
    size_t n; /* tokens, the sum of count; 0: a measure, count are its weights   */
    size_t d, points;
    double *X;     /* (points, d) in the order of the tokens                          */
    double *count; /* (points)                                                        */
    double *times; /* (points) or NULL                                                */
    int sphere;    /* only moves along the sphere of each token count                 */
    double delta;  /* how much more a bulk token scores the outlier than itself       */
    double log_promised; /* of the head alone; -inf: nothing                          */
} lipsc_worst;

/* With the layer's mask: none, or causal (SCALES: causal or times).  LIPSC_E_REFUSED with
 * the reason where there is no such construction: positions, norms or biases of the scores
 * among them.  Free *out on LIPSC_OK. */
LIPSC_API lipsc_status lipsc_construct(const lipsc_layer *layer,
                                       const lipsc_construct_settings *set,
                                       lipsc_worst *out, lipsc_error *err);
LIPSC_API void lipsc_worst_free(lipsc_worst *worst);

/* sigma of the layer, all its heads, at the construction, computed in double; a value below
 * it where the solve does not converge.  Under a causal mask the tokens are written out one
 * by one. */
LIPSC_API lipsc_status lipsc_worst_reach(const lipsc_layer *layer, const lipsc_worst *worst,
                                         const lipsc_device *device, double *sigma,
                                         lipsc_error *err);

/* The tokens one by one, (n, d).  LIPSC_E_ARG for a measure. */
LIPSC_API lipsc_status lipsc_worst_tokens(const lipsc_worst *worst, double *X);

/* The smallest of them, without a search: one outlier at -R, n - 1 tokens at +R, one
 * dimension, scores -x_i x_j (docs/maths.md 5.1).  X (n) is the caller's, the input points
 * to it. */
LIPSC_API void lipsc_known_outlier(size_t n, double R, double *X, lipsc_layer *layer,
                                   lipsc_input *input);

#ifdef __cplusplus
}
#endif
#endif
