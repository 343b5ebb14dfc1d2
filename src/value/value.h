/* value.h - evaluation in double of what a solve found in any precision. */
#ifndef LIPSC_VALUE_VALUE_H
#define LIPSC_VALUE_VALUE_H

#include "attn/attn.h"
#include "lipscope.h"

/* The operator of an attn in double, with its layer and input as they were given: the
 * definition where that is cheap, the f64 operator otherwise.  Borrows from attn, which
 * must outlive it. */
typedef struct {
    lipsc_attn *attn; /* the f64 operator; NULL: the definition     */
    lipsc_attn own;   /* that operator, where attn itself is in f32 */
    const lipsc_layer *layer;
    const lipsc_input *input;
} lipsc_exact;

/* products: how many vectors will be multiplied, which decides what is cheap.  On
 * failure nothing needs to be closed. */
lipsc_status lipsc_exact_open(lipsc_attn *attn, size_t products, lipsc_exact *exact);
lipsc_status lipsc_exact_apply(lipsc_exact *exact, int trans, size_t k, const double *x,
                               double *y);
lipsc_status lipsc_exact_output(lipsc_exact *exact, double *y);
void lipsc_exact_close(lipsc_exact *exact);

/* y = J x in double for handles of one batch, the `of` of at most one product each: their
 * operators in double are opened and multiplied together.  x and y are host vectors, or of
 * the operators' own space; those that ranks share, what is here of them.  What is found
 * for a handle does not depend on the others. */
lipsc_status lipsc_exact_products(size_t count, const lipsc_product *product);

/* What re-evaluates the directions that a solve found. */
typedef struct {
    /* y (k vectors of m) = J x (k vectors of n) in double, with weights and input as
     * stored, for several judges of one kind: of is the ctx of each */
    lipsc_status (*apply)(size_t count, const lipsc_product *product);
    /* *eps: |y - J x| <= eps |x| for what apply computes, possibly infinite; it need not be
     * smaller than enough.  Where that is
     * so because nothing is known of the attention, why (room for size characters) is a
     * sentence; else it is left empty.  NULL: nobody knows. */
    lipsc_status (*rounding)(void *ctx, double enough, double *eps, char *why, size_t size);
    void *ctx;
    int parts; /* of vectors that ranks share apply takes what is here; 0: whole ones */
    /* doubles that apply takes as well as host vectors, that can be made of an operator's
     * floats where these are, and whose space makes several grams at once; or NULL */
    const lipsc_space *wide;
} lipsc_judge;

/* lipsc_attn_sigma for any operator: solved with op, re-evaluated by judge. */
lipsc_status lipsc_linop_sigma(const lipsc_linop *op, const lipsc_judge *judge,
                               const lipsc_svd_settings *set, double *sigma, double *u,
                               double *v, lipsc_svd_info *info);

/* One of several values that are sought together. */
typedef struct {
    const lipsc_linop *op;
    const lipsc_judge *judge;
    double *sigma, *u, *v; /* as above; u, v may be NULL */
    lipsc_svd_info *info;
    lipsc_status status; /* what became of it */
    int unprobed;        /* no look at the difference between op and double, and no
                          * upper_prob of an op in f32                                  */
    /* or NULL: op is the judge's in other coordinates, and this turns k vectors of op, with
     * `image` its products, back to the judge's; ctx is the judge's */
    lipsc_status (*turn)(void *ctx, int image, size_t k, double *x);
    void (*solved)(void *ctx); /* or NULL; called with op->ctx when op is not needed any
                                * more, before the judge needs memory                   */
} lipsc_sigma_task;

/* lipsc_linop_sigma for operators in one precision, solved side by side (svd/solver.h) and
 * judged together: their judges differ in ctx only. */
void lipsc_linops_sigma(size_t count, lipsc_sigma_task *task, const lipsc_svd_settings *set,
                        lipsc_products *products, int threads);

/* lipsc_attn_sigma for handles of one batch: of a task sigma, u, v and info are given, info
 * not NULL.  Each value is, to the last bit, what it would be alone. */
lipsc_status lipsc_attn_sigmas(size_t count, lipsc_attn *const *attn,
                               const lipsc_svd_settings *set, lipsc_sigma_task *task);

#endif
