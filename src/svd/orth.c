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
    return (char *)vectors + i * len * space->item;
}

/* Takes the vectors base .. j+rank-1 out of x, which stands right behind them, again and
 * again until its length stays.  First only base = j, the vectors accepted from the
 * same block; later passes take all.  Returns the length, 0 when x lies in their span. */
static double finish_vector(const lipsc_space *space, size_t len, size_t j, void *q,
                            size_t rank, double before, double least, double *coef,
                            double *work) {
    void *x = at(space, q, len, j + rank);
    for (int pass = 0; pass < MAX_PASSES; pass++) {
        const size_t base = pass ? 0 : j, vectors = j + rank - base;
        double square;
        void *basis = at(space, q, len, base);
        if (vectors) {
            space->gram(len, vectors, basis, 1, x, work);
            for (size_t i = 0; i < vectors; i++) {
                coef[base + i] += work[i];
                work[i] = -work[i];
            }
            space->combine(len, vectors, basis, 1, work, 1.0, x);
        }
        space->gram(len, 1, x, 1, x, &square);
        const double after = sqrt(square);
        if (!(after > least)) return 0.0;
        if (after > 0.7 * before) return after;
        before = after;
    }
    return 0.0;
}

lipsc_status lipsc_svd_orth(const lipsc_space *space, double eps, size_t len, size_t j,
                            void *q, size_t k, size_t known, double *scale, double *coef,
                            size_t ldc, double *work, size_t *rank) {
    void *x = at(space, q, len, j);
    *rank = 0;
    for (size_t c = 0; c < k; c++) {
        double *column = coef + c * ldc;
        memset(column, 0, known * sizeof *column);
        memset(column + j, 0, k * sizeof *column);
        for (size_t i = known; i < j; i++) work[c * (j - known) + i - known] = -column[i];
    }
    if (known < j)
        space->combine(len, j - known, at(space, q, len, known), k, work, 1.0, x);

    /* [Q X]^T X: the coefficients and, on the diagonal of X^T X, the lengths */
    const size_t rows = j + k;
    space->gram(len, rows, q, k, x, work);
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
    if (j) space->combine(len, j, q, k, work, 1.0, x);

    const double least = 16.0 * eps * *scale;
    for (size_t c = 0; c < k; c++) {
        void *place = at(space, x, len, *rank);
        if (c != *rank) space->copy(len, at(space, x, len, c), place);
        const double length =
            finish_vector(space, len, j, q, *rank, before[c], least, coef + c * ldc, work);
        if (length > 0.0 && j + *rank < len) {
            space->scale(len, 1.0 / length, place);
            coef[c * ldc + j + *rank] = length;
            ++*rank;
        }
    }
    return LIPSC_OK;
}
