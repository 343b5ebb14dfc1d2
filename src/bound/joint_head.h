/* joint_head.h - what joint.c keeps of each head: inside joint*.c only. */
#ifndef LIPSC_BOUND_JOINT_HEAD_H
#define LIPSC_BOUND_JOINT_HEAD_H

#include "attn/attn.h"

/* One head.  With O_h = U F, U with orthonormal columns, y_j = F z_j: values as the output
 * sees them, |U y| = |y|.  Without O: F and U are the identity. */
typedef struct {
    double *storage;
    double *q, *key;       /* (n, k)                                                   */
    double *y;             /* (n, dv) minus their mean over the tokens                 */
    double *kappa;         /* (n, k) keys through scale Q^T, minus their mean          */
    double *cross;         /* (n, dv) F V w_i, w_i = K^T q_i                           */
    double *length;        /* (n) |w_i|                                                */
    double *mean;          /* (n, dv) o_i = sum_j P_ij y_j                             */
    double *to_sink;       /* (n) sqrt(a_i/a_s) P_is                                   */
    double *column;        /* (n) sum_i (a_i/a_j) P_ij tau_i^2 / v_j                   */
    double *query;         /* (n) |F Cov_i(z, k) Dq_i|                                 */
    double *FV;            /* (dv, d) row-major                                        */
    double *gram;          /* (dv, dv) F V V^T F^T                                     */
    double *y_square;      /* (n) |y_j|^2                                              */
    double *k_square;      /* (n) |kappa_j|^2                                          */
    double y_unit, k_unit; /* powers of two near 1 / max |y|, 1 / max |kappa|       */
    double *U;             /* (width, dv) column-major; NULL without O                 */
    double value_norm;     /* |F V|^2                                                  */
    const double *bias;    /* (2 n - 1) of the scores, or NULL                        */
} lipsc_joint_head;

typedef struct {
    const lipsc_attn *attn;
    const lipsc_rows *rows;
    size_t n, d, k, dv, heads, width;
    int threads;
    int *stopped;                /* one thread asks, all look here */
    double value_unit, out_unit; /* powers of two: V and O here are the layer's times these,
                                  * so that squares stay within a double's range          */
    double rounding;             /* relative error of sums over tokens and dimensions */
    lipsc_joint_head *head;
    double *v;      /* (n) weights of the keys in Cauchy's inequality, 0 at the sink */
    double *over_v; /* (n) 1 / v, 0 at the sink                            */
    size_t sink;    /* the token whose column is found exactly; n: none    */
    double *gram_U; /* (heads dv)^2: U^T U of all heads side by side       */
} lipsc_joint;

/* Fills mean, to_sink, column and query of a head. */
lipsc_status lipsc_joint_rows(const lipsc_joint *j, lipsc_joint_head *head);
/* What a head adds to the weights v: about its column sums. */
lipsc_status lipsc_joint_weights(const lipsc_joint *j, const lipsc_joint_head *head,
                                 double *v);
/* *norm >= the norm of the column of blocks of the sink, without its query term. */
lipsc_status lipsc_joint_column(const lipsc_joint *j, double *norm);

#endif
