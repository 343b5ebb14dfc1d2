/* paper.c - the bounds of "How Smooth Is Attention?" over a ball (docs/maths.md 3.1, 3.7).
 */
#include "bound/zoo.h"

#include <math.h>

const char *lipsc_paper_finite_refuse(const lipsc_zoo_case *z) {
    const char *why = lipsc_refuse_turned(z);
    return why ? why : lipsc_refuse_weights(z);
}

/* sqrt(3) (a1^2 + 4 n a2^2 + n)^{1/2}, with any mask */
double lipsc_paper_finite(const lipsc_zoo_case *z, size_t h) {
    const double log_n = log((double)z->n);
    const double rest = lipsc_log_add(log(4.0) + log_n + 2.0 * lipsc_log_a2(z, h), log_n);
    return 0.5 * (log(3.0) + lipsc_log_add(2.0 * lipsc_log_a1(z, h), rest));
}

/* With a mask the same formula is no bound: A = 0 gives 1, but causal averaging has a
 * constant that grows to Hardy's 2. */
const char *lipsc_paper_mean_field_refuse(const lipsc_zoo_case *z) {
    const char *why = lipsc_refuse_biased(z);
    return why ? why : lipsc_refuse_masked(z);
}

/* (1 + 2 a2 + a1) e^{2 a2}: (1 + 3a) e^{2a} without a query bias */
double lipsc_paper_mean_field(const lipsc_zoo_case *z, size_t h) {
    const double linear = lipsc_log_add(lipsc_log_add(0.0, log(2.0) + lipsc_log_a2(z, h)),
                                        lipsc_log_a1(z, h));
    return linear + 2.0 * lipsc_a2(z, h);
}
