/* distribution.h - Student's and Fisher's laws, as far as intervals and tests need them. */
#ifndef LIPSC_RUN_DISTRIBUTION_H
#define LIPSC_RUN_DISTRIBUTION_H

/* t with P(|T| > t) = outside for Student's law, freedom >= 1. */
double lipsc_student_quantile(double freedom, double outside);

/* P(F > f) for Fisher's law with these degrees of freedom; NaN for f that is NaN. */
double lipsc_fisher_tail(double above, double below, double f);

#endif
