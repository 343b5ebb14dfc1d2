/* exact_norm.h - the judge of bounds: the norm of J, assembled column by column from the
 * definition, by LAPACK. */
#ifndef LIPSC_TESTS_EXACT_NORM_H
#define LIPSC_TESTS_EXACT_NORM_H

#include "linalg/dense.h"
#include "lipscope.h"

#include <math.h>
#include <stdlib.h>

static inline double *doubles(size_t count) {
    double *a = calloc(count ? count : 1, sizeof *a);
    assert_non_null(a);
    return a;
}

/* |J|, with weights |D^{1/2} J D^{-1/2}| */
static inline double exact_norm(const lipsc_layer *layer, const lipsc_input *input) {
    const size_t in = input->n * layer->d, out = input->n * lipsc_layer_width(layer);
    double *eye = doubles(in * in), *J = doubles(in * out), sigma = NAN;
    for (size_t e = 0; e < in; e++) eye[e * in + e] = 1.0;
    assert_int_equal(lipsc_ref_apply(layer, input, 0, in, eye, J, NULL), LIPSC_OK);
    assert_int_equal(lipsc_dense_norm(out, in, J, &sigma), LIPSC_OK);
    free(eye);
    free(J);
    return sigma;
}

#endif
