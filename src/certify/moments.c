/* moments.c - traces of powers of J^T J by products with unit vectors (docs/maths.md 7.8).
 *
 * With A = J or J^T, whichever has fewer columns, x_0 = e_i and x_(j+1) = A x_j, A^T x_j in
 * turn, sum_i |x_p|^2 = tr (J^T J)^p.  The error of x_(j+1), over all i in the Frobenius
 * norm, is at most that of x_j times |J| and eta |x_j|. */
#include "certify/certify.h"

#include <math.h>

#include "core/extreme.h"

/* The squares of x_1 .. x_power for the k vectors x, added to square.  room: two blocks */
static lipsc_status add_block(lipsc_certifier *c, int power, size_t k, lipsc_buffer x,
                              const lipsc_buffer room[2], double *square) {
    lipsc_status status = LIPSC_OK;
    for (int p = 1; p <= power && !status; p++) {
        double sum;
        status = lipsc_certify_apply(c, c->flip ^ ((p - 1) & 1), k, x, room[p & 1], &sum);
        if (!status) square[p] += sum;
        x = room[p & 1];
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
    lipsc_buffer units = LIPSC_NOWHERE, room[2] = {LIPSC_NOWHERE, LIPSC_NOWHERE};
    lipsc_status status = lipsc_units_new(c, &units);
    for (int p = 0; p <= LIPSC_MOST_POWER; p++) out->root[p] = INFINITY;
    for (size_t i = 0; i < 2 && !status; i++)
        status = lipsc_certify_vectors(c, longest, LIPSC_CERTIFY_BLOCK, &room[i]);
    for (size_t first = 0; first < c->side && !status; first += LIPSC_CERTIFY_BLOCK) {
        const size_t left = c->side - first;
        const size_t k = left < LIPSC_CERTIFY_BLOCK ? left : LIPSC_CERTIFY_BLOCK;
        status = add_block(c, power, k, lipsc_units_from(c, units, first), room, square);
        if (!status)
            lipsc_certify_tell(c, c->done + c->total * (double)k / (double)c->side);
    }
    if (!status) bound_roots(c, power, square, out);
    lipsc_space_release(c->op->space, units);
    for (size_t i = 0; i < 2; i++) lipsc_space_release(c->op->space, room[i]);
    return status;
}

double lipsc_moments_bound(const lipsc_moments *moments) {
    double bound = INFINITY;
    for (int p = 1; p <= LIPSC_MOST_POWER; p++)
        bound = lipsc_min(bound, lipsc_up(pow(moments->root[p], 1.0 / p), 16));
    return bound;
}
