/* search.h - what the parts of an attack share: inside attack/ only.
 *
 *     domain.c    where inputs are sought
 *     point.c     sigma and its gradients at inputs, several at once
 *     ascent.c    a climb: one start followed upwards; curvature.c what it remembers
 *     climbs.c    climbs side by side; team.c those that several ranks share
 *     starts.c    where climbs begin; light.c, joint.c constructions for them
 *     certify.c   the value found in double, and what bounds it from above
 *     attack.c    the order of things */
#ifndef LIPSC_ATTACK_SEARCH_H
#define LIPSC_ATTACK_SEARCH_H

#include "attack/domain.h"
#include "attn/attn.h"
#include "bound/construct.h"
#include "ranks/ranks.h"

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

/* How carefully a value is computed: near the vector of a point close by and with few
 * products, or from a random start until it converges; then with several pairs. */
typedef enum {
    LIPSC_LOOK_NEAR,
    LIPSC_LOOK_FRESH,
    LIPSC_LOOK_PAIRS,
    LIPSC_LOOKS
} lipsc_look;

/* An input that is looked at, and what is found there. */
typedef struct {
    const double *y;    /* (size) its parameters                                   */
    const double *near; /* (in): for LIPSC_LOOK_NEAR                               */
    lipsc_look look;
    uint64_t seed; /* beside that of the settings                             */

    lipsc_status status; /* LIPSC_OK, or LIPSC_E_NONFIN: something overflows        */
    lipsc_attn *attn;
    size_t pairs, tied; /* found; and of the largest value, as far as can be told  */
    double sigma[LIPSC_PAIRS];
    double *u, *v; /* (LIPSC_FORMS) the pairs, and later their mixtures       */
    size_t slopes; /* pairs whose gradients are asked for                     */
    double *forms; /* (LIPSC_FORMS, size) gradients                           */

    double *X, *weights, *grad_X, *grad_t; /* work memory */
} lipsc_view;

typedef struct {
    const lipsc_attack_settings *set;
    lipsc_ranks *ranks; /* that share the climbs; NULL: nobody does                  */
    lipsc_packed *packed;
    const lipsc_layer *layer; /* resolved; scores as they are, or tempered            */
    lipsc_layer whole;        /* resolved, scores as they are                         */
    int tempered;             /* values are not those of the layer itself             */
    double largest_score;     /* max_h (|A_h| R + |c_h|) R                            */
    lipsc_region region;
    size_t in, out;    /* n d, n width                                               */
    int dense;         /* so small that all pairs are found at once                  */
    lipsc_dtype dtype; /* of the products                                            */
    double least_gain; /* of log sigma that is no rounding                           */
    size_t together;   /* inputs that are worth one batch                            */
    lipsc_view *views; /* (together)                                                 */
    lipsc_spot best, construction; /* construction.sigma 0: none                    */
    double highest; /* value so far, that of best or of a climb that goes on          */
    const char *doing;
    long evaluations;
    size_t planned, passed; /* iterations: at most, and over                          */
} lipsc_search;

/* LIPSC_E_NOMEM; free also on failure. */
lipsc_status lipsc_search_open(const lipsc_layer *layer, const lipsc_attack_settings *set,
                               lipsc_search *s, lipsc_error *err);
void lipsc_search_close(lipsc_search *s);

lipsc_status lipsc_spot_new(const lipsc_search *s, lipsc_spot *spot);
void lipsc_spot_free(lipsc_spot *spot);
void lipsc_spot_copy(const lipsc_search *s, const lipsc_spot *from, lipsc_spot *to);

/* ---- point.c ---- */

/* LIPSC_E_NOMEM; free also on failure. */
lipsc_status lipsc_view_new(const lipsc_search *s, lipsc_view *view);
void lipsc_view_free(lipsc_view *view);

/* sigma, pairs and status of views of one kind of look, from y, near and seed, their
 * products made together: each is what it would be alone.  Returns what is wrong with all
 * of them; close them also then. */
lipsc_status lipsc_views_look(lipsc_search *s, size_t count, lipsc_view *const *views);
void lipsc_view_close(lipsc_view *view);

/* Gradients of the first `slopes` pairs of each view, and of those that are tied: status
 * becomes LIPSC_E_NONFIN where one overflows. */
lipsc_status lipsc_views_differentiate(lipsc_search *s, size_t count,
                                       lipsc_view *const *views);
/* g = d log sigma / d parameters from them, tangent to the region at y.  Where several
 * values agree sigma is their maximum: of the gradients of all their combinations the
 * steepest is taken. */
void lipsc_view_gradient(const lipsc_search *s, const lipsc_view *view, double *g);
/* The same for pair number k alone. */
void lipsc_view_branch(const lipsc_search *s, const lipsc_view *view, size_t k, double *g);

/* ---- ascent.c ---- */

typedef struct {
    lipsc_spot spot;
    double *g;   /* (size) tangent gradient of log sigma at the spot                */
    double step; /* to try next; 0: not known                                       */
    int begun, finished;
    size_t iterations;
    double mark; /* log sigma when `marked` iterations had been made                */
    size_t marked;
    uint64_t number, looks; /* of the climb, and how many it has made: they decide its
                             * random numbers, whatever goes on beside it              */
} lipsc_climb;

lipsc_status lipsc_climb_new(const lipsc_search *s, lipsc_climb *climb);
void lipsc_climb_free(lipsc_climb *climb);

/* What a walk tries: the direction of curvature.c, the gradient, branches near the top. */
typedef enum {
    LIPSC_WALK_NEW,
    LIPSC_WALK_QUICK,
    LIPSC_WALK_STEEP,
    LIPSC_WALK_AROUND,
    LIPSC_WALK_BRANCH
} lipsc_walk_stage;

/* A climb that goes on.  It does not look itself: it says at what (`view`), so that the
 * inputs of several climbs can be looked at together. */
typedef struct {
    lipsc_climb *climb; /* NULL: over                                                  */
    size_t until;       /* iterations in all                                           */
    lipsc_view *view;   /* what it waits for; then view->slopes > 0: gradients          */
    int waits;

    lipsc_walk_stage stage;
    lipsc_curvature memory;
    double *to, *p, *g;   /* (size) the point tried, a direction, the gradient at `to` */
    const double *up;     /* (size) the gradient here, as the line sees it             */
    const double *line;   /* (size) where it leads                                     */
    double step, promise; /* along the line; what the gradient says of the last trial  */
    int trials;           /* left                                                      */
    size_t branch, branches;
    double *branch_g, *branch_v; /* (LIPSC_PAIRS + 1, size), (LIPSC_PAIRS, in)         */
} lipsc_walk;

lipsc_status lipsc_walk_new(const lipsc_search *s, lipsc_view *view, lipsc_walk *walk);
void lipsc_walk_free(lipsc_walk *walk);
/* Goes on with a climb until `until` iterations have been made in all, or nothing is gained
 * any more. */
void lipsc_walk_begin(lipsc_search *s, lipsc_walk *walk, lipsc_climb *climb, size_t until);
/* After view has been looked at; and, where it then has slopes, differentiated. */
void lipsc_walk_seen(lipsc_search *s, lipsc_walk *walk);
void lipsc_walk_differentiated(lipsc_search *s, lipsc_walk *walk);

/* ---- climbs.c ---- */

/* All of them climb on until `iterations` have been made in all by each, or nothing is
 * gained any more; keeps search->best.  What becomes of one depends neither on the others
 * nor on how many go on at once.  LIPSC_E_STOPPED when the stop callback says so. */
lipsc_status lipsc_climbs_advance(lipsc_search *s, size_t count, lipsc_climb *climbs,
                                  size_t iterations);
/* The same here, and without search->best. */
lipsc_status lipsc_climbs_go(lipsc_search *s, size_t count, lipsc_climb *climbs,
                             size_t iterations);

/* ---- team.c ---- */

/* lipsc_climbs_go by all ranks that share them; each then has all climbs. */
lipsc_status lipsc_team_climb(lipsc_search *s, size_t count, lipsc_climb *climbs,
                              size_t iterations);
/* What failed on any rank, or was stopped there, has on all.  Between two calls each rank
 * does the same. */
lipsc_status lipsc_team_agree(const lipsc_search *s, lipsc_status own);

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
