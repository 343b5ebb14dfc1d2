/* search.h - what the parts of an attack share: inside attack/ only.
 *
 *     domain.c    where inputs are sought
 *     point.c     sigma and its gradient at one input
 *     ascent.c    a climb: one start followed upwards; curvature.c what it remembers
 *     starts.c    where climbs begin; light.c, joint.c constructions for them
 *     certify.c   the value found in double, and what bounds it from above
 *     attack.c    the order of things */
#ifndef LIPSC_ATTACK_SEARCH_H
#define LIPSC_ATTACK_SEARCH_H

#include "attack/domain.h"
#include "attn/attn.h"
#include "bound/construct.h"

/* Pairs of singular vectors that are looked at where values come together, and what a
 * quadratic form on them has. */
enum { LIPSC_PAIRS = 3, LIPSC_FORMS = LIPSC_PAIRS * (LIPSC_PAIRS + 1) / 2 };

/* curvature.c: steps of a climb that tell of the curvature. */
enum { LIPSC_MEMORY = 30 };

typedef struct {
    size_t size, count, next;
    double *s, *q; /* (LIPSC_MEMORY, size) each */
    double sq[LIPSC_MEMORY], scale;
} lipsc_curvature;

lipsc_status lipsc_curvature_new(size_t size, lipsc_curvature *m);
void lipsc_curvature_free(lipsc_curvature *m);
void lipsc_curvature_forget(lipsc_curvature *m);
void lipsc_curvature_add(lipsc_curvature *m, const double *from, const double *to,
                         const double *g_from, const double *g_to);
/* p = H g; 0 when nothing is known or p does not lead upwards. */
int lipsc_curvature_direction(const lipsc_curvature *m, const double *g, double *p);

/* A point with the value found there. */
typedef struct {
    double *y;    /* (size) parameters                                               */
    double *v;    /* (in) right singular vector                                      */
    double sigma; /* |J v|: a lower bound also where the solve was cut short          */
    char start[64];
} lipsc_spot;

typedef struct {
    const lipsc_attack_settings *set;
    lipsc_packed *packed;
    const lipsc_layer *layer; /* resolved; scores as they are, or tempered            */
    lipsc_layer whole;        /* resolved, scores as they are                         */
    int tempered;             /* values are not those of the layer itself             */
    double largest_score;     /* max_h (|A_h| R + |c_h|) R                            */
    lipsc_region region;
    size_t in, out;      /* n d, n width                                               */
    int dense;           /* so small that all pairs are found at once                  */
    lipsc_dtype dtype;   /* of the products                                            */
    double least_gain;   /* of log sigma that is no rounding                           */
    double *X, *weights; /* of the point looked at; weights NULL unless masses are free */
    double *u, *v;       /* (LIPSC_PAIRS) pairs at that point                          */
    double *mixed_u, *mixed_v;
    double *grad_X, *grad_t, *forms; /* (LIPSC_FORMS, size)                           */
    double *to, *g, *p;              /* (size)                                        */
    lipsc_curvature memory;          /* of the climb that is going on                 */
    lipsc_spot best, construction;   /* construction.sigma 0: none                    */
    const char *doing;
    long evaluations;
    size_t planned, passed, current; /* iterations: at most, of climbs that are over, and
                                      * of the one that goes on                       */
} lipsc_search;

/* LIPSC_E_NOMEM; free also on failure. */
lipsc_status lipsc_search_open(const lipsc_layer *layer, const lipsc_attack_settings *set,
                               lipsc_search *s, lipsc_error *err);
void lipsc_search_close(lipsc_search *s);

lipsc_status lipsc_spot_new(const lipsc_search *s, lipsc_spot *spot);
void lipsc_spot_free(lipsc_spot *spot);
void lipsc_spot_copy(const lipsc_search *s, const lipsc_spot *from, lipsc_spot *to);

/* ---- point.c ---- */

/* How carefully a value is computed: near the vector of a point close by and with few
 * products, or from a random start until it converges; then with several pairs. */
typedef enum { LIPSC_LOOK_NEAR, LIPSC_LOOK_FRESH, LIPSC_LOOK_PAIRS } lipsc_look;

/* One input looked at: sigma[] with pairs in search->u, v, valid until the next look. */
typedef struct {
    lipsc_attn *attn;
    size_t pairs;
    double sigma[LIPSC_PAIRS];
} lipsc_view;

/* near (in): for LIPSC_LOOK_NEAR.  LIPSC_E_NONFIN where scores or products overflow.  Close
 * on success. */
lipsc_status lipsc_view_open(lipsc_search *s, const double *y, lipsc_look look,
                             const double *near, lipsc_view *view);
void lipsc_view_close(lipsc_view *view);

/* How many inputs are worth one batch. */
size_t lipsc_spots_together(const lipsc_search *s);
/* sigma and v of spots, from their y: each what LIPSC_LOOK_FRESH would find of them one
 * after the other, their products made together.  LIPSC_E_NONFIN where one of them
 * overflows. */
lipsc_status lipsc_spots_look(lipsc_search *s, size_t count, lipsc_spot *const *spots);

/* g = d log sigma / d parameters, tangent to the region at y.  Where several values agree
 * sigma is their maximum: of the gradients of all their combinations the steepest is taken.
 */
lipsc_status lipsc_view_gradient(lipsc_search *s, const lipsc_view *view, const double *y,
                                 double *g);
/* The same for pair number k alone. */
lipsc_status lipsc_view_branch(lipsc_search *s, const lipsc_view *view, const double *y,
                               size_t k, double *g);

/* ---- ascent.c ---- */

typedef struct {
    lipsc_spot spot;
    double *g;   /* (size) tangent gradient of log sigma at the spot                */
    double step; /* to try next; 0: not known                                       */
    int begun, finished;
    size_t iterations;
    double mark; /* log sigma when `marked` iterations had been made                */
    size_t marked;
} lipsc_climb;

lipsc_status lipsc_climb_new(const lipsc_search *s, lipsc_climb *climb);
void lipsc_climb_free(lipsc_climb *climb);

/* Climbs on until `iterations` have been made in all, or nothing is gained any more; keeps
 * search->best.  LIPSC_E_STOPPED when the stop callback says so. */
lipsc_status lipsc_climb_advance(lipsc_search *s, lipsc_climb *climb, size_t iterations);

/* ---- starts.c ---- */

/* Fills count climbs with starts, and search->construction with the best construction. */
lipsc_status lipsc_starts_find(lipsc_search *s, size_t count, lipsc_climb *climbs);

/* light.c: a token that cannot decide between itself and n - 1 others at one point; n = 0:
 * two Diracs.  LIPSC_E_REFUSED where there is none. */
lipsc_status lipsc_construct_light(const lipsc_head_facts *f, double R, size_t n,
                                   int sphere, lipsc_worst *out);

/* joint.c: two outliers for each of several heads, begun with head `first`; facts (heads)
 * of the layer. */
lipsc_status lipsc_construct_joint(const lipsc_layer *layer, const lipsc_head_facts *facts,
                                   double R, size_t n, size_t first, lipsc_worst *out);

/* ---- certify.c ---- */

/* X, weights, u, v, sigma, residual, converged of *out at a spot, in double. */
lipsc_status lipsc_search_certify(lipsc_search *s, const lipsc_spot *spot,
                                  lipsc_attack_result *out, lipsc_error *err);
/* upper and log_upper of *out, which has been certified. */
lipsc_status lipsc_search_bound(const lipsc_search *s, lipsc_attack_result *out,
                                lipsc_error *err);

/* ---- attack.c ---- */

/* dtype, and the gain that is more than its rounding. */
void lipsc_search_precision(lipsc_search *s, lipsc_dtype dtype);
int lipsc_search_stopped(const lipsc_search *s);
void lipsc_search_tell(const lipsc_search *s);
/* Raises search->best. */
void lipsc_search_keep(lipsc_search *s, const lipsc_spot *spot);

#endif
