/* law.h - growth laws in words and lines of its table: what is measured,
 * with its interval, against what the paper draws. */
#ifndef LIPSC_CLAIMS_LAW_H
#define LIPSC_CLAIMS_LAW_H

#include "claims/claims.h"
#include "lipscope/fit.h"

/* What the paper draws, for layer 0 and the middle one: coefficient, exponent.  0: no line
 * in the figure, or another model than the paper's. */
typedef struct {
    double coefficient, exponent;
} claims_drawn;

enum { CLAIMS_MASK_MODEL, CLAIMS_MASK_NONE, CLAIMS_MASK_CAUSAL };

typedef struct {
    const char *name; /* of the experiment                                  */
    const char *spec; /* MODEL                                              */
    size_t text;      /* of the texts                                       */
    lipsc_map_kind map;
    int mask;    /* CLAIMS_MASK_...                                     */
    int first;   /* layer 0 as well as the middle one                  */
    int longer;  /* n up to 502 in steps of 10, as far as the text goes */
    int trained; /* its tokens may grow with n                         */
    int own;     /* the paper's own model                              */
    claims_drawn drawn[2];
    const char *drawn_for;
} claims_curve;

/* The laws of one layer of a curve against n, all of the same windows. */
typedef struct {
    lipsc_fit defined, released, radius;
    double correlated; /* ln sigma with ln R */
} claims_laws;

/* The lines of a layer: as defined, as released, and where with_radius the radius. */
void claims_law_lines(claims_work *r, const claims_curve *c, size_t layer,
                      const claims_drawn *drawn, const claims_laws *laws, int with_radius);
/* Whether the laws of several texts are told apart by their intervals. */
void claims_texts_line(claims_work *r, size_t count, const lipsc_fit *fits);

#endif
