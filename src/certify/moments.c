/* moments.c - traces of powers of J^T J by products with unit vectors (docs/maths.md 7.8).
 *
 * With A = J or J^T, whichever has fewer columns, x_0 = e_i and x_(j+1) = A x_j, A^T x_j in
 * turn, sum_i |x_p|^2 = tr (J^T J)^p.  The error of x_(j+1), over all i in the Frobenius
 * norm, is at most that of x_j times |J| and eta |x_j|. */
#include "certify/certify.h"

#include <math.h>
#include <string.h>

#include "core/extreme.h"
#include "core/mem.h"

/* The squares of x_1 .. x_power for unit vectors first .. first+k-1, added to square. */
static lipsc_status add_block(lipsc_certifier *c, int power, size_t first, size_t k,
                              double *x, double *y, double *square) {
    const size_t length = c->side;
    lipsc_status status = LIPSC_OK;
    memset(x, 0, k * length * sizeof *x);
    for (size_t j = 0; j < k; j++) x[j * length + first + j] = 1.0;
    for (int p = 1; p <= power && !status; p++) {
        const int trans = c->flip ^ ((p - 1) & 1);
        status = lipsc_certify_apply(c, trans, k, x, y);
        if (!status)
            square[p] += lipsc_sum_squares(k * lipsc_certify_length(c, trans, 1), y);
        double *swap = x;
        x = y;
        y = swap;
    }
    return status;
}

static void bound_roots(const lipsc_certifier *c, int power, const double *square,
                        lipsc_moments *out) {
    const size_t roundings = (c->op->m + c->op->n) * LIPSC_CERTIFY_BLOCK + c->side;
    double before = sqrt((double)c->side), error = 0.0, norm = c->upper;
    for (int p = 1; p <= power; p++) {
        const double size = lipsc_up(sqrt(square[p]), roundings);
        error = lipsc_up(c->eta * before + (p > 1 ? norm * error : 0.0), 8);
        out->root[p] = lipsc_up(size + error, 4);
        norm = lipsc_min(norm, lipsc_up(pow(out->root[p], 1.0 / p), 16));
        before = size;
    }
}

lipsc_status lipsc_moments_find(lipsc_certifier *c, int power, lipsc_moments *out) {
    const size_t longest = c->op->m > c->op->n ? c->op->m : c->op->n;
    double square[LIPSC_MOST_POWER + 1] = {0};
    double *x = lipsc_alloc(longest, LIPSC_CERTIFY_BLOCK * sizeof *x);
    double *y = lipsc_alloc(longest, LIPSC_CERTIFY_BLOCK * sizeof *y);
    lipsc_status status = x && y ? LIPSC_OK : LIPSC_E_NOMEM;
    for (int p = 0; p <= LIPSC_MOST_POWER; p++) out->root[p] = INFINITY;
    for (size_t first = 0; first < c->side && !status; first += LIPSC_CERTIFY_BLOCK) {
        const size_t left = c->side - first;
        const size_t k = left < LIPSC_CERTIFY_BLOCK ? left : LIPSC_CERTIFY_BLOCK;
        status = add_block(c, power, first, k, x, y, square);
        if (!status)
            lipsc_certify_tell(c, c->done + c->total * (double)k / (double)c->side);
    }
    if (!status) bound_roots(c, power, square, out);
    lipsc_release(x);
    lipsc_release(y);
    return status;
}

double lipsc_moments_bound(const lipsc_moments *moments) {
    double bound = INFINITY;
    for (int p = 1; p <= LIPSC_MOST_POWER; p++)
        bound = lipsc_min(bound, lipsc_up(pow(moments->root[p], 1.0 / p), 16));
    return bound;
}
