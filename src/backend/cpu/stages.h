/* stages.h - what a direction meets before and after the attention core, row by row:
 * token order and weights, query/key norms, rotary positions.  Compiled per precision. */
#ifndef LIPSC_BACKEND_CPU_STAGES_H
#define LIPSC_BACKEND_CPU_STAGES_H

#include <stddef.h>

typedef struct {
    /* dst row i = src row order[i] * factor[i]  (gather), or
     * dst row order[i] = src row i * factor[i]  (scatter).  Either array may be NULL. */
    void (*gather)(size_t n, size_t width, const size_t *order, const void *factor,
                   const void *src, void *dst);
    void (*scatter)(size_t n, size_t width, const size_t *order, const void *factor,
                    const void *src, void *dst);

    /* x (rows, w), rows repeating with period n, turned by +angle (sign 1) or -angle (-1):
     * component l with l + half, cosine and sine (n, half) */
    void (*rotate)(size_t rows, size_t n, size_t w, size_t half, const void *cosine,
                   const void *sine, int sign, void *x);

    /* Norms of `span` heads together: x (span, n, w), its first dim columns, gain (span,
     * w): unit = x / r, inverse (n) = sqrt(span dim) / r with r = sqrt(|x|^2 + span dim
     * eps), x = gain * sqrt(span dim) * unit */
    void (*norm)(size_t n, size_t w, size_t dim, size_t span, double eps, const void *gain,
                 void *x, void *unit, void *inverse);
    /* x (span, rows, w) -> inverse * gain * (x - unit (unit . x)), or its transpose
     * inverse * (y - unit (unit . y)) with y = gain * x; heads of x are x_head rows apart,
     * those of unit unit_head */
    void (*norm_derivative)(size_t rows, size_t n, size_t x_head, size_t unit_head,
                            size_t w, size_t dim, size_t span, const void *gain,
                            const void *unit, const void *inverse, int trans, void *x);
    /* The same derivative's own derivative: to the gradient in x (span, rows, w) before the
     * norm adds that of <t, Norm'(x) e>, e and t like x above, t before the gains:
     *     - inverse^2/sqrt(span dim) ((t'.e) unit + (unit.e) t' + (unit.t') e
     *                            - 3 (unit.t') (unit.e) unit),   t' = gain * t */
    void (*norm_second)(size_t rows, size_t n, size_t x_head, size_t unit_head, size_t w,
                        size_t dim, size_t span, const void *gain, const void *unit,
                        const void *inverse, const void *e, const void *t, void *grad);
} lipsc_stages;

extern const lipsc_stages lipsc_stages_f32, lipsc_stages_f64;

#endif
