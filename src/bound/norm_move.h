/* norm_move.h - how far a query or key norm bends when its token moves: inside bound/ only.
 *
 * For a vector c of the head, phi(x) = c . Norm(W x + b) with Norm(y) = y / rho, rho^2 =
 * |y|^2/k + eps and u = y / (sqrt(k) rho) (docs/maths.md 3.15, "Norms"). */
#ifndef LIPSC_BOUND_NORM_MOVE_H
#define LIPSC_BOUND_NORM_MOVE_H

#include "bound/head.h"

/* One token, for all of its inputs within r. */
typedef struct {
    double rho;    /* here                                                        */
    double least;  /* rho, at least                                               */
    double pull;   /* |W^T u| here                                                */
    double most;   /* |W^T u|, at most                                            */
    double square; /* |W^T (I - 3 u u^T) W|, at most                              */
    double twist;  /* scale / (sqrt(k) rho^2), at most; infinite where rho may be 0 */
    double step;   /* r / (sqrt(k) rho), at most                                  */
    double lost;   /* |computed u - exact u|, at most                             */
    double blur;   /* what that does to a gradient, per |c|                       */
} lipsc_norm_move;

/* What does not depend on the token.  Where all heads share a norm, W, b and y are those of
 * all of them, and c has zeros but in one. */
typedef struct {
    const lipsc_factor *F; /* of W^T, of the head */
    double norm, scale;    /* |W|, of the result */
    double eps, r;
} lipsc_norm_of;

/* |W x + b| of a token as computed, nearly */
double lipsc_norm_length(const lipsc_norm_of *of, const lipsc_turn *turn, size_t token);
/* W x + b is wrong by raw_error at most. */
void lipsc_norm_move_make(const lipsc_norm_of *of, const lipsc_turn *turn, size_t token,
                          double raw_error, lipsc_norm_move *move);

/* scale |D^2 phi| at every input within r: pull >= |W^T c|, along = c . u here, length =
 * |c|. */
double lipsc_norm_bend(const lipsc_norm_move *move, double pull, double along,
                       double length);

/* ---- Queries against keys ----------------------------------------------------------- */

/* balance (k, and room for k more), the same for two components that are turned together,
 * so that |Dk_j^T Dq_i| <= |balance^-1 Dq_i| |balance Dk_j| for any turns: roots of the
 * lengths of gain o W of queries over those of keys. */
void lipsc_balance(const lipsc_head_at *head, double *balance);

/* norm[i] (n) >= scale |diag(stretch) Norm'(y'_i) W| at every input within r; stretch (k)
 * holds the gain.  move NULL: no norm, and Norm' is the identity. */
lipsc_status lipsc_stretched_norms(const lipsc_head_at *head, const lipsc_norm_of *of,
                                   const lipsc_turn *turn, const lipsc_norm_move *move,
                                   const double *stretch, double *norm);

#endif
