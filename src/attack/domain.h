/* domain.h - where inputs are sought, and how they are parametrised: inside attack/ only.
 *
 *     ball, around   x_i = c_i + R y_i          |y_i| <= 1     (ball: c = 0)
 *     sphere         x_i = R y_i                |y_i| = 1
 *     norm           x_i = sqrt(d) g o y_i + b  |y_i| = 1, with sum y_i = 0 for a LayerNorm
 *     masses         a_i proportional to e^{t_i},  -LIPSC_MASS_SPAN <= t_i <= 0
 *
 * In y all lengths are of order one, whatever the radius.  The parameters of a point are
 * y (n, d), followed by t (n) when masses are free. */
#ifndef LIPSC_ATTACK_DOMAIN_H
#define LIPSC_ATTACK_DOMAIN_H

#include "lipscope/attack.h"

/* e^-100: the lightest atom beside the heaviest, within what f32 takes. */
#define LIPSC_MASS_SPAN 100.0

typedef struct {
    lipsc_attack_domain kind;
    size_t n, d;
    size_t size; /* parameters of a point                        */
    int masses;
    double radius;
    const double *centre;       /* (n, d); around only                          */
    const double *gain, *shift; /* (d); norm only, shift may be NULL            */
    int centred;
} lipsc_region;

/* LIPSC_E_ARG: the sentence says which setting is missing or wrong. */
lipsc_status lipsc_region_make(const lipsc_attack_settings *set, size_t d,
                               lipsc_region *out, lipsc_error *err);

/* The largest |x_i| of the region, from above. */
double lipsc_region_reach(const lipsc_region *r);

/* Parameters to X (n, d) and, with masses, weights (n) whose largest is one. */
void lipsc_region_place(const lipsc_region *r, const double *y, double *X, double *weights);
/* Parameters of the point of the region nearest to X; log_weights NULL: all equal. */
void lipsc_region_enter(const lipsc_region *r, const double *X, const double *log_weights,
                        double *y);
/* g = gradient with respect to the parameters, from those with respect to X (destroyed) and
 * to the log weights. */
void lipsc_region_pull(const lipsc_region *r, double *grad_X, const double *grad_log_weight,
                       double *g);
/* to = the point of the region nearest to y + step g. */
void lipsc_region_move(const lipsc_region *r, const double *y, double step, const double *g,
                       double *to);
/* Takes off g (in place) what leads out of the region at y: the part along y_i on a sphere,
 * and at the wall of a ball where it points outwards. */
void lipsc_region_tangent(const lipsc_region *r, const double *y, double *g);

#endif
