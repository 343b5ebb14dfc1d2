/* length.h - lengths of vectors in double, with the relative error of each. */
#ifndef LIPSC_VALUE_LENGTH_H
#define LIPSC_VALUE_LENGTH_H

#include "linalg/space.h"

/* Of what the ranks have that share such vectors. */
double lipsc_sum_all(const lipsc_space *in, double own);
double lipsc_largest_of_all(const lipsc_space *in, double own);

/* |x| of a vector of length n, of which x is what is here, and its relative error. */
double lipsc_vector_length(const lipsc_space *in, size_t n, const double *x);
double lipsc_vector_error(const lipsc_space *in, size_t n);
/* x := x / |x|; returns |x|.  A zero vector stays one. */
double lipsc_vector_normalise(const lipsc_space *in, size_t n, double *x);

/* The same of vectors of a device, whole ones, that are where they are: gram[i], of a with
 * itself, becomes the length of a. */
lipsc_status lipsc_vector_lengths_there(const lipsc_space *space, size_t count,
                                        const lipsc_gram *gram);
double lipsc_vector_error_there(size_t n);

#endif
