/* straight.c - Hotelling's test of the curvature of a mean curve.
 *
 * Each curve is reduced to its parts along the orthonormal polynomials of degree 2, 3, 4 in
 * X, as many as there are data for: a straight line has none.  Values of one start at
 * different lengths may depend on each other in any way: only the curves are taken to be
 * independent.  With z_s the parts of curve s, m curves in T texts, S their covariance
 * within texts with f = m - T degrees of freedom and q parts,
 *
 *     m zbar^T S^-1 zbar (f - q + 1) / (f q)
 *
 * follows Fisher's law with q and f - q + 1 degrees of freedom when the mean is straight.
 */
#include "run/straight.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "run/distribution.h"

enum { PARTS = 3, DEGREES = PARTS + 2 };

/* ---- Polynomials ------------------------------------------------------------------- */

static double dot(size_t count, const double *x, const double *y) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += x[i] * y[i];
    return sum;
}

/* Orthonormal polynomials of degree 0, 1, ... at X, rows of P; how many are independent.
 * Each next one is X times the last, made orthogonal twice. */
static size_t polynomials(size_t count, const double *X, size_t wanted, double *P) {
    double mean = 0.0, spread = 0.0;
    for (size_t i = 0; i < count; i++) mean += X[i] / (double)count;
    for (size_t i = 0; i < count; i++) spread = fmax(spread, fabs(X[i] - mean));
    for (size_t i = 0; i < count; i++) P[i] = 1.0 / sqrt((double)count);
    for (size_t k = 1; k < wanted; k++) {
        double *row = P + k * count;
        for (size_t i = 0; i < count; i++) row[i] = (X[i] - mean) / spread * row[i - count];
        for (size_t again = 0; again < 2; again++)
            for (size_t j = 0; j < k; j++) {
                const double part = dot(count, P + j * count, row);
                for (size_t i = 0; i < count; i++) row[i] -= part * P[j * count + i];
            }
        const double size = sqrt(dot(count, row, row));
        if (!(size > 1e-6)) return k; /* fewer distinct places than degrees */
        for (size_t i = 0; i < count; i++) row[i] /= size;
    }
    return wanted;
}

/* ---- The test ---------------------------------------------------------------------- */

/* zbar^T S^-1 zbar by Cholesky's factor; infinite where S is singular. */
static double mahalanobis(size_t q, double S[PARTS][PARTS], const double *mean) {
    double y[PARTS], sum = 0.0;
    for (size_t i = 0; i < q; i++) {
        for (size_t j = 0; j <= i; j++) {
            double value = S[i][j];
            for (size_t k = 0; k < j; k++) value -= S[i][k] * S[j][k];
            if (i == j && !(value > 1e-14 * S[i][i])) return INFINITY;
            S[i][j] = i == j ? sqrt(value) : value / S[j][j];
        }
        y[i] = mean[i];
        for (size_t k = 0; k < i; k++) y[i] -= S[i][k] * y[k];
        y[i] /= S[i][i];
        sum += y[i] * y[i];
    }
    return sum;
}

/* z: (begin[texts], q).  The mean over all, and the covariance about the mean of each text;
 * returns its degrees of freedom. */
static size_t moments(const double *z, size_t q, size_t texts, const size_t *begin,
                      double *mean, double S[PARTS][PARTS]) {
    const size_t m = begin[texts], freedom = m - texts;
    memset(S, 0, PARTS * sizeof *S);
    memset(mean, 0, q * sizeof *mean);
    for (size_t t = 0; t < texts; t++) {
        double own[PARTS] = {0};
        const size_t first = begin[t], end = begin[t + 1];
        for (size_t s = first; s < end; s++)
            for (size_t i = 0; i < q; i++) {
                own[i] += z[s * q + i] / (double)(end - first);
                mean[i] += z[s * q + i] / (double)m;
            }
        for (size_t s = first; s < end; s++)
            for (size_t i = 0; i < q; i++)
                for (size_t j = 0; j <= i; j++)
                    S[i][j] +=
                        (z[s * q + i] - own[i]) * (z[s * q + j] - own[j]) / (double)freedom;
    }
    return freedom;
}

static double test(const double *z, size_t q, size_t texts, const size_t *begin,
                   double rounding) {
    double mean[PARTS], S[PARTS][PARTS];
    const double f = (double)moments(z, q, texts, begin, mean, S), parts = (double)q;
    if (dot(q, mean, mean) <= rounding * rounding) return 1.0; /* straight as can be */
    const double t = (double)begin[texts] * mahalanobis(q, S, mean);
    return lipsc_fisher_tail(parts, f - parts + 1.0, t * (f - parts + 1.0) / (f * parts));
}

/* One mean curve for each text in place of its starts; z is overwritten. */
static void average_texts(double *z, size_t q, size_t texts, const size_t *begin) {
    for (size_t t = 0; t < texts; t++)
        for (size_t i = 0; i < q; i++) {
            double sum = 0.0;
            for (size_t s = begin[t]; s < begin[t + 1]; s++) sum += z[s * q + i];
            z[t * q + i] = sum / (double)(begin[t + 1] - begin[t]);
        }
}

static double run(const lipsc_straight *in, double *P, double *z) {
    const size_t L = in->lengths, starts = in->begin[in->texts];
    const size_t all[] = {0, in->texts};
    const size_t freedom = in->whole_texts ? in->texts - 1 : starts - in->texts;
    size_t q = freedom / 2 < PARTS ? freedom / 2 : PARTS;
    const size_t degrees = polynomials(L, in->X, q + 2 < L ? q + 2 : L, P);
    double largest = 0.0;
    if (degrees < 3) return NAN;
    q = degrees - 2;
    for (size_t s = 0; s < starts; s++)
        for (size_t i = 0; i < q; i++)
            z[s * q + i] = dot(L, P + (i + 2) * L, in->curves + s * L);
    for (size_t i = 0; i < starts * L; i++) largest = fmax(largest, fabs(in->curves[i]));
    const double rounding = 1e-13 * (double)L * (1.0 + largest);
    if (!in->whole_texts) return test(z, q, in->texts, in->begin, rounding);
    average_texts(z, q, in->texts, in->begin);
    return test(z, q, 1, all, rounding);
}

double lipsc_straight_test(const lipsc_straight *in) {
    const size_t starts = in->begin[in->texts];
    const size_t freedom = in->whole_texts ? in->texts - 1 : starts - in->texts;
    if (freedom < 2 || in->lengths < 3) return NAN;
    double *P = lipsc_alloc(in->lengths, DEGREES * sizeof *P);
    double *z = lipsc_alloc(starts, PARTS * sizeof *z);
    const double p = P && z ? run(in, P, z) : NAN;
    lipsc_release(P);
    lipsc_release(z);
    return p;
}
