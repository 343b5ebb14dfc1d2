/* distribution.c - the regularised incomplete beta function, and two laws made of it.
 *
 *     I_x(a, b) = x^a (1-x)^b / (a B(a, b)) * 1 / (1 + d_1 / (1 + d_2 / (1 + ...)))
 *     d_{2k}   = k (b-k) x / ((a+2k-1) (a+2k))
 *     d_{2k+1} = -(a+k) (a+b+k) x / ((a+2k) (a+2k+1))
 *
 * which converges fast for x < (a+1) / (a+b+2); beyond, I_x(a, b) = 1 - I_{1-x}(b, a). */
#define _DEFAULT_SOURCE /* lgamma_r */
#include "run/distribution.h"

#include <math.h>

enum { DEPTH = 100, HALVINGS = 60 };

/* From the inside out; the depth is far beyond what degrees of freedom below 1000 need. */
static double fraction(double x, double a, double b) {
    double value = 1.0;
    for (int i = 2 * DEPTH; i > 0; i--) {
        const double k = i / 2, place = a + i; /* k is whole */
        const double d = (i % 2 ? -(a + k) * (a + b + k) : k * (b - k)) * x;
        value = 1.0 + d / ((place - 1.0) * place * value);
    }
    return 1.0 / value;
}

static double log_gamma(double x) {
    int sign;
    return lgamma_r(x, &sign);
}

static double incomplete_beta(double x, double a, double b) {
    if (isnan(x)) return NAN;
    if (x <= 0.0) return 0.0;
    if (x >= 1.0) return 1.0;
    const double front =
        exp(log_gamma(a + b) - log_gamma(a) - log_gamma(b) + a * log(x) + b * log1p(-x));
    if (x < (a + 1.0) / (a + b + 2.0)) return front * fraction(x, a, b) / a;
    return 1.0 - front * fraction(1.0 - x, b, a) / b;
}

double lipsc_fisher_tail(double above, double below, double f) {
    if (!(f > 0.0)) return isnan(f) ? NAN : 1.0;
    return incomplete_beta(below / (below + above * f), below / 2.0, above / 2.0);
}

double lipsc_student_quantile(double freedom, double outside) {
    double low = 0.0, high = 1.0;
    /* T^2 follows Fisher's law with 1 and `freedom` */
    while (lipsc_fisher_tail(1.0, freedom, high * high) > outside && high < 1e100)
        high *= 2.0;
    for (int i = 0; i < HALVINGS; i++) {
        const double middle = 0.5 * (low + high);
        if (lipsc_fisher_tail(1.0, freedom, middle * middle) > outside)
            low = middle;
        else
            high = middle;
    }
    return 0.5 * (low + high);
}
