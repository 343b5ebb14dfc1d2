/* orth.c - block Gram-Schmidt, repeated where a vector lost most of its length.
 *
 * One pass leaves errors of eps |x_before| along Q; relative to what remains that is
 * eps |x_before| / |x_after|, so another pass is needed exactly when the length dropped
 * ("twice is enough": Kahan and Parlett; Daniel, Gragg, Kaufman and Stewart 1976).
 * Coefficients are double in any precision of the vectors. */
#include "svd/orth.h"

#include <math.h>
#include <string.h>

/* More passes than a vector outside the span of Q can need. */
enum { MAX_PASSES = 5 };

static void *at(const lipsc_space *space, void *vectors, size_t len, size_t i) {
    return lipsc_space_at(space, vectors, i * len);
}

/* Takes the vectors base .. j+rank-1 out of x, which stands right behind them, again and
 * again until its length stays.  First only base = j, the vectors accepted from the
 * same block; later passes take all.  *length is 0 when x lies in their span. */
static lipsc_status finish_vector(const lipsc_space *space, size_t len, size_t j, void *q,
                                  size_t rank, double before, double least, double *coef,
                                  double *work, double *length) {
    void *x = at(space, q, len, j + rank);
    lipsc_status status = LIPSC_OK;
    *length = 0.0;
    for (int pass = 0; pass < MAX_PASSES; pass++) {
        const size_t base = pass ? 0 : j, vectors = j + rank - base;
        double square;
        void *basis = at(space, q, len, base);
        if (vectors) {
            status = lipsc_space_gram(space, len, vectors, basis, 1, x, work);
            if (status) return status;
            for (size_t i = 0; i < vectors; i++) {
                coef[base + i] += work[i];
                work[i] = -work[i];
            }
            status = lipsc_space_combine(space, len, vectors, basis, 1, work, 1.0, x);
        }
        if (!status) status = lipsc_space_gram(space, len, 1, x, 1, x, &square);
        if (status) return status;
        const double after = sqrt(square);
        if (!(after > least)) return LIPSC_OK;
        if (after > 0.7 * before) {
            *length = after;
            return LIPSC_OK;
        }
        before = after;
    }
    return LIPSC_OK;
}

lipsc_status lipsc_svd_orth(const lipsc_space *space, double eps, size_t len, size_t j,
                            void *q, size_t k, size_t known, double *scale, double *coef,
                            size_t ldc, double *work, size_t *rank) {
    void *x = at(space, q, len, j);
    lipsc_status status = LIPSC_OK;
    *rank = 0;
    for (size_t c = 0; c < k; c++) {
        double *column = coef + c * ldc;
        memset(column, 0, known * sizeof *column);
        memset(column + j, 0, k * sizeof *column);
        for (size_t i = known; i < j; i++) work[c * (j - known) + i - known] = -column[i];
    }
    if (known < j)
        status = lipsc_space_combine(space, len, j - known, at(space, q, len, known), k,
                                     work, 1.0, x);

    /* [Q X]^T X: the coefficients and, on the diagonal of X^T X, the lengths */
    const size_t rows = j + k;
    if (!status) status = lipsc_space_gram(space, len, rows, q, k, x, work);
    if (status) return status;
    double *before = work + rows * k;
    for (size_t c = 0; c < k; c++) {
        before[c] = sqrt(work[c * rows + j + c]);
        if (!isfinite(before[c])) return LIPSC_E_NONFIN;
        if (before[c] > *scale) *scale = before[c];
    }
    for (size_t c = 0; c < k; c++)
        for (size_t i = 0; i < j; i++) {
            const double g = work[c * rows + i];
            coef[c * ldc + i] += g;
            work[c * j + i] = -g; /* never ahead of what is still to be read */
        }
    if (j) status = lipsc_space_combine(space, len, j, q, k, work, 1.0, x);

    const double least = 16.0 * eps * *scale;
    for (size_t c = 0; c < k && !status; c++) {
        void *place = at(space, x, len, *rank);
        double length = 0.0;
        if (c != *rank) status = lipsc_space_copy(space, len, at(space, x, len, c), place);
        if (!status)
            status = finish_vector(space, len, j, q, *rank, before[c], least,
                                   coef + c * ldc, work, &length);
        if (!status && length > 0.0 && j + *rank < len) {
            status = lipsc_space_scale(space, len, 1.0 / length, place);
            coef[c * ldc + j + *rank] = length;
            ++*rank;
        }
    }
    return status;
}
