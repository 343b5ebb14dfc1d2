/* attack.h - the input of given length in a given domain at which sigma is largest, as far
 * as a search finds it.
 *
 * Starts: the constructions of docs/maths.md 5 for every head, random inputs, a given
 * input.  From the best of them projected ascent along the gradient of sigma.  Whatever
 * comes out is an input with a direction that certifies its value: a lower bound of the
 * largest sigma over the domain, and never less than the best construction. */
#ifndef LIPSCOPE_ATTACK_H
#define LIPSCOPE_ATTACK_H

#include "lipscope/layer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    LIPSC_ATTACK_BALL,   /* every |x_i| <= radius                                       */
    LIPSC_ATTACK_SPHERE, /* every |x_i| = radius                                        */
    LIPSC_ATTACK_NORM,   /* x_i = sqrt(d) gain o z_i + shift, |z_i| = 1: what a norm gives
                          * for tokens large against its eps                            */
    LIPSC_ATTACK_AROUND  /* every |x_i - centre_i| <= radius                            */
} lipsc_attack_domain;

LIPSC_API const char *lipsc_attack_domain_name(lipsc_attack_domain domain);

typedef struct {
    size_t n;
    lipsc_attack_domain domain;
    double radius;              /* NaN for norm                                          */
    const double *centre;       /* (n, d): around                                        */
    const double *gain, *shift; /* (d): norm; shift may be NULL                          */
    int centred;                /* norm: LayerNorm, sum z_i = 0                          */
    int masses;              /* the masses of the n atoms are sought too                  */
    const double *weights;   /* (n) or NULL: masses that stay as they are                 */
    const double *times;     /* (n): LIPSC_MASK_TIMES                                     */
    const double *positions; /* (n) or NULL: rotary positions, as in lipsc_input        */
    const double *data;      /* (n, d) or NULL: an input to start from                    */

    size_t restarts; /* starts that are climbed from.  Default 0: 8, for small layers 32 */
    size_t iterations; /* of the longest climb.  Default 200                            */
    uint64_t seed;     /* Default 1                                                     */
    lipsc_dtype dtype; /* of the search; the value found is computed in double           */
    lipsc_device *device; /* NULL: the CPU                                               */
    double tol; /* residual of the final value.  Default 0: 1e-8                        */
    int (*stop)(void *ctx); /* nonzero: end with LIPSC_E_STOPPED and the best so far     */
    void (*progress)(void *ctx, const char *doing, long evaluations, double best);
    void (*share)(void *ctx,
                  double done); /* 0 to 1: how much of the iterations that are
                                 * planned is over; climbs may end before; or NULL */
    void *ctx;
} lipsc_attack_settings;

typedef struct {
    size_t n, d, width;
    double *X;       /* (n, d)                                                          */
    double *weights; /* (n), the largest is one; NULL unless masses were sought          */
    double *u, *v;   /* (n, width), (n, d): the direction that reaches sigma             */
    double sigma, residual;
    double lower;             /* sigma less the rounding of its evaluation              */
    int converged;            /* residual <= tol                                        */
    double best_construction; /* sigma of the best construction; NaN: none applies, as
                               * around a given input                                     */
    double upper, log_upper;  /* proved for the whole domain; NaN: none, or too large     */
    char start[64];           /* where the climb began                                    */
    long evaluations;         /* inputs whose sigma was computed                          */
    double seconds;
} lipsc_attack_result;

LIPSC_API void lipsc_attack_defaults(lipsc_attack_settings *set);

/* Free *out on LIPSC_OK and LIPSC_E_STOPPED.  LIPSC_E_RANGE: scores as large as this radius
 * allows have no digits left behind the point. */
LIPSC_API lipsc_status lipsc_attack_run(const lipsc_layer *layer,
                                        const lipsc_attack_settings *set,
                                        lipsc_attack_result *out, lipsc_error *err);
LIPSC_API void lipsc_attack_result_free(lipsc_attack_result *result);

#ifdef __cplusplus
}
#endif
#endif
