/* straight.c - orthogonal polynomials, and Hotelling's test that a curve has no part along
 * those that bend (docs/maths.md 9.3). */
#include "run/straight.h"

#include <math.h>

#include "core/extreme.h"
#include "core/vector.h"
#include "run/distribution.h"

/* Each next polynomial is X times the last, made orthogonal twice. */
size_t lipsc_bends(size_t count, const double *X, double *room, double **P) {
    double mean = 0.0, spread = 0.0;
    const size_t degrees = LIPSC_BENDS + 2 < count ? LIPSC_BENDS + 2 : count;
    size_t k = 1;
    *P = room + 2 * count;
    for (size_t i = 0; i < count; i++) mean += X[i] / (double)count;
    for (size_t i = 0; i < count; i++) spread = lipsc_max(spread, fabs(X[i] - mean));
    for (size_t i = 0; i < count; i++) room[i] = 1.0 / sqrt((double)count);
    for (; k < degrees; k++) {
        double *row = room + k * count;
        for (size_t i = 0; i < count; i++) row[i] = (X[i] - mean) / spread * row[i - count];
        for (size_t again = 0; again < 2; again++)
            for (size_t j = 0; j < k; j++) {
                const double part = lipsc_dot(count, room + j * count, row);
                for (size_t i = 0; i < count; i++) row[i] -= part * room[j * count + i];
            }
        const double size = sqrt(lipsc_dot(count, row, row));
        if (!(size > 1e-6)) break; /* fewer distinct places than degrees */
        for (size_t i = 0; i < count; i++) row[i] /= size;
    }
    return k > 2 ? k - 2 : 0;
}

/* z^T S^-1 z by Cholesky's factor; infinite where S is singular. */
static double mahalanobis(size_t q, const double *z, double S[LIPSC_BENDS][LIPSC_BENDS]) {
    double y[LIPSC_BENDS], sum = 0.0;
    for (size_t i = 0; i < q; i++) {
        for (size_t j = 0; j <= i; j++) {
            double value = S[i][j];
            for (size_t k = 0; k < j; k++) value -= S[i][k] * S[j][k];
            if (i == j && !(value > 1e-14 * S[i][i])) return INFINITY;
            S[i][j] = i == j ? sqrt(value) : value / S[j][j];
        }
        y[i] = z[i];
        for (size_t k = 0; k < i; k++) y[i] -= S[i][k] * y[k];
        y[i] /= S[i][i];
        sum += y[i] * y[i];
    }
    return sum;
}

double lipsc_bend_test(size_t q, const double *z, double S[LIPSC_BENDS][LIPSC_BENDS],
                       double freedom) {
    const double parts = (double)q, below = freedom - parts + 1.0;
    const double t = mahalanobis(q, z, S);
    return lipsc_fisher_tail(parts, below, t * below / (freedom * parts));
}
