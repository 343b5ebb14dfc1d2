/* lanczos.h - the spaces of one Lanczos solve (lanczos_space.c), as its steps (lanczos.c)
 * see them. */
#ifndef LIPSC_SVD_LANCZOS_H
#define LIPSC_SVD_LANCZOS_H

#include "svd/orth.h"
#include "svd/solve.h"

/* What the product that is waited for belongs to. */
typedef enum { EXTEND_U, EXTEND_V, EVALUATE } phase;

typedef struct lipsc_lanczos {
    lipsc_svd_run *run;
    phase at;
    size_t rank, width; /* of the new block of U, and of the block of V before it     */
    int stop;           /* somebody asked for the end                                 */
    int ends;           /* with `outcome`, once the answer is evaluated               */
    lipsc_status outcome;
    size_t m, n;
    size_t cap;     /* most columns of V before a restart */
    size_t block;   /* most columns of V_next             */
    lipsc_buffer V; /* cap + block vectors: V, V_next     */
    lipsc_buffer U; /* cap vectors; lean: the last two, the newest in the second place    */
    size_t jv, ju, next;
    size_t newest; /* lean: column of U in the second place */

    double *B;        /* cap x cap, zero outside ju x jv                           */
    double *S;        /* block x cap; columns before s_from are zero               */
    size_t s_from;    /* first column of U whose product reaches V_next            */
    double *theta;    /* jv Ritz values, descending                                */
    double *estimate; /* their residuals                                           */
    double *P, *Qt;   /* jv x jv                                                   */
    double *coef;     /* of one orthogonalisation, ld x block                      */
    size_t ld;        /* cap + block                                               */
    double *small;    /* scratch, (ld + 1) x ld                                    */

    size_t started;     /* random vectors used                                       */
    size_t steps, hold; /* no estimate is believed before step `hold`                 */
    size_t first_steps; /* of the first, uninterrupted space, and its largest value   */
    double first_theta;
    int first_over, exhausted;
    double scale; /* lower estimate of |A|: what rounding is measured against  */
    double tol;   /* of the estimates: set.tol, or less after they misled      */
    int evaluated;
    int waits; /* for `orth`, which others may have at the same time */
    lipsc_orth orth;
} lipsc_lanczos;
typedef lipsc_lanczos lanczos;

static inline lipsc_buffer lipsc_lanczos_column(const lanczos *z, lipsc_buffer vectors,
                                                size_t len, size_t i) {
    return lipsc_svd_at(z->run, vectors, len, i);
}

/* Column i of U; lean: the one before the newest, or that. */
static inline lipsc_buffer lipsc_lanczos_u(const lanczos *z, size_t i) {
    return lipsc_lanczos_column(z, z->U, z->m, z->run->lean ? (i == z->newest) : i);
}

/* Memory for run, m, n and block; close also where that failed. */
lipsc_status lipsc_lanczos_open(lipsc_lanczos *z);
void lipsc_lanczos_close(lipsc_lanczos *z);

/* Random vectors orthogonal to V become V_next; none when V is all of R^n. */
lipsc_status lipsc_lanczos_start(lipsc_lanczos *z);

/* From A V_next, or A^T of the last block of U: what is to be made orthonormal, z->orth;
 * then what it says of the space. */
void lipsc_lanczos_ask_u(lipsc_lanczos *z);
void lipsc_lanczos_extend_u(lipsc_lanczos *z);
void lipsc_lanczos_ask_v(lipsc_lanczos *z);
void lipsc_lanczos_extend_v(lipsc_lanczos *z);

/* A step is made: what its space says. */
lipsc_status lipsc_lanczos_conclude(lipsc_lanczos *z);

/* Columns (jv x k) of the coefficients of the k best Ritz vectors, in z->small. */
const double *lipsc_lanczos_best(lipsc_lanczos *z, size_t k);

/* A full basis gives way to its best Ritz vectors. */
lipsc_status lipsc_lanczos_restart(lipsc_lanczos *z);

#endif
