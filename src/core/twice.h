/* twice.h - sums of products in twice the precision of a double, by error-free
 * transformations.
 *
 * A sum s = fl(a + b) and a product p = fl(a b) leave an error that is itself a double
 * (Knuth; the product needs one fused multiply-add), so that it can be summed beside them.
 * A number is hi + lo, not added up: a . b of n terms is then known to gamma_n^2 |a| . |b|
 * (Ogita, Rump, Oishi, Accurate Sum and Dot Product, 2005, proposition 5.5), however much
 * of it cancels, where plain double knows it to gamma_n |a| . |b|.  Exact only without
 * overflow and contraction (-ffp-contract=off); a product that underflows is off by the
 * smallest number. */
#ifndef LIPSC_CORE_TWICE_H
#define LIPSC_CORE_TWICE_H

#include <math.h>
#include <stddef.h>

typedef struct {
    double hi, lo;
} lipsc_twice;

/* hi + lo = a + b */
static inline lipsc_twice lipsc_twice_sum(double a, double b) {
    const double hi = a + b, of_b = hi - a;
    return (lipsc_twice){hi, (a - (hi - of_b)) + (b - of_b)};
}

/* start + sum_l a_l b_l */
static inline lipsc_twice lipsc_twice_dot(double start, size_t n, const double *a,
                                          const double *b) {
    lipsc_twice sum = {start, 0.0};
    for (size_t l = 0; l < n; l++) {
        const double product = a[l] * b[l], lost = fma(a[l], b[l], -product);
        const lipsc_twice next = lipsc_twice_sum(sum.hi, product);
        sum = (lipsc_twice){next.hi, sum.lo + (next.lo + lost)};
    }
    return sum;
}

/* a - b, as a double */
static inline double lipsc_twice_minus(lipsc_twice a, double b) {
    const lipsc_twice difference = lipsc_twice_sum(a.hi, -b);
    return difference.hi + (difference.lo + a.lo);
}

#endif
