/* mean_field.c - bounds over all measures on a ball (docs/maths.md 3.6, 3.9). */
#include "bound/zoo.h"

#include <math.h>

const char *lipsc_mean_field_refuse(const lipsc_zoo_case *z) {
    const char *why = lipsc_refuse_biased(z);
    return why ? why : lipsc_refuse_masked(z);
}

/* a1 + (1 + 2 a) e^{2a/p} */
static double unmasked(const lipsc_zoo_case *z, size_t h, double p) {
    return lipsc_log_add(lipsc_log_a1(z, h),
                         lipsc_log_add(0.0, log(2.0) + lipsc_log_a2(z, h)) +
                             2.0 * lipsc_a2(z, h) / p);
}

double lipsc_mean_field_w1(const lipsc_zoo_case *z, size_t h) {
    return unmasked(z, h, 1.0);
}
double lipsc_mean_field_wp(const lipsc_zoo_case *z, size_t h) {
    return unmasked(z, h, z->p);
}

/* a1 + e^a sqrt(1 + a^2) */
double lipsc_mean_field_w2(const lipsc_zoo_case *z, size_t h) {
    return lipsc_log_add(lipsc_log_a1(z, h),
                         lipsc_a2(z, h) + lipsc_log_root_1_a2(lipsc_log_a2(z, h)));
}

const char *lipsc_masked_uniform_refuse(const lipsc_zoo_case *z) {
    const char *why = lipsc_refuse_biased(z);
    return why ? why : lipsc_refuse_unmasked(z);
}

const char *lipsc_masked_dp_refuse(const lipsc_zoo_case *z) {
    if (!(z->p > 1.0)) return "p = 1: causal averaging alone has no d_1 bound for all n";
    return lipsc_masked_uniform_refuse(z);
}

/* a1 + p/(p-1) (1 + 2a) (1 + (e^{2a} - 1)^{1/p}) */
static double masked(const lipsc_zoo_case *z, size_t h, double p) {
    const double a = lipsc_a2(z, h);
    const double log_growth =
        a > 20.0 ? 2.0 * a + log1p(-exp(-2.0 * a)) : log(expm1(2.0 * a));
    return lipsc_log_add(lipsc_log_a1(z, h),
                         log(p / (p - 1.0)) +
                             lipsc_log_add(0.0, log(2.0) + lipsc_log_a2(z, h)) +
                             lipsc_log_add(0.0, log_growth / p));
}

double lipsc_masked_uniform(const lipsc_zoo_case *z, size_t h) { return masked(z, h, 2.0); }
double lipsc_masked_dp(const lipsc_zoo_case *z, size_t h) { return masked(z, h, z->p); }
