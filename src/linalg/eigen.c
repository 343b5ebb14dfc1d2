/* eigen.c - real eigenpairs of a general real matrix by LAPACK. */
#include "linalg/eigen.h"

#include <lapacke.h>
#include <math.h>
#include <string.h>

#include "core/mem.h"

enum { MAX_ORDER = 1 << 14 };

lipsc_status lipsc_real_eigenpairs(size_t n, double *a, size_t *count, double *lambda,
                                   double *vectors) {
    *count = 0;
    if (n == 0) return LIPSC_OK;
    if (n > MAX_ORDER) return LIPSC_E_RANGE;
    for (size_t e = 0; e < n * n; e++)
        if (!isfinite(a[e])) return LIPSC_E_NONFIN;
    double *imaginary = lipsc_alloc(n, sizeof *imaginary);
    if (!imaginary) return LIPSC_E_NOMEM;
    const lapack_int order = (lapack_int)n;
    const lapack_int info = LAPACKE_dgeev(LAPACK_COL_MAJOR, 'N', 'V', order, a, order,
                                          lambda, imaginary, NULL, 1, vectors, order);
    for (size_t c = 0; info == 0 && c < n; c++) {
        if (imaginary[c] != 0.0) continue; /* LAPACK marks a real one by an exact zero */
        lambda[*count] = lambda[c];
        memmove(vectors + *count * n, vectors + c * n, n * sizeof *vectors);
        ++*count;
    }
    lipsc_release(imaginary);
    if (info == LAPACK_WORK_MEMORY_ERROR) return LIPSC_E_NOMEM;
    return info == 0 ? LIPSC_OK : LIPSC_E_NOCONV;
}
