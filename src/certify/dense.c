/* dense.c - the assembled matrix: one Cholesky factorisation proves a bound of sigma.
 *
 * The only place that stores a matrix of the operator's size (docs/maths.md 7.8). */
#include "certify/certify.h"

#include <math.h>

#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"

enum { PANEL = 256 };

static size_t longer_side(const lipsc_certifier *c) {
    return c->op->m > c->op->n ? c->op->m : c->op->n;
}

size_t lipsc_dense_proof_bytes(const lipsc_certifier *c) {
    size_t rows = longer_side(c) + c->side, bytes;
    if (rows < c->side || !lipsc_mul_size(rows, c->side, &rows) ||
        !lipsc_mul_size(rows, sizeof(double), &bytes))
        return SIZE_MAX;
    return bytes;
}

/* Columns of A = J or J^T, rows x side.  Half of the announced work, a little more. */
static lipsc_status assemble(lipsc_certifier *c, size_t rows, double *A) {
    lipsc_buffer units = LIPSC_NOWHERE, y = LIPSC_NOWHERE;
    lipsc_status status = lipsc_units_new(c, &units);
    if (!status) status = lipsc_certify_vectors(c, rows, LIPSC_CERTIFY_BLOCK, &y);
    for (size_t first = 0; first < c->side && !status; first += LIPSC_CERTIFY_BLOCK) {
        const size_t left = c->side - first;
        const size_t k = left < LIPSC_CERTIFY_BLOCK ? left : LIPSC_CERTIFY_BLOCK;
        status =
            lipsc_certify_apply(c, c->flip, k, lipsc_units_from(c, units, first), y, NULL);
        if (!status)
            status = lipsc_space_download(c->op->space, k * rows, y, A + first * rows);
        if (!status)
            lipsc_certify_tell(c, 0.5 * c->total * (double)(first + k) / (double)c->side);
    }
    lipsc_space_release(c->op->space, units);
    lipsc_space_release(c->op->space, y);
    return status;
}

/* The lower triangle of G = A^T A, panel by panel. */
static lipsc_status make_gram(lipsc_certifier *c, size_t rows, const double *A, double *G) {
    const size_t side = c->side;
    for (size_t first = 0; first < side; first += PANEL) {
        const size_t k = side - first < PANEL ? side - first : PANEL;
        if (c->set->stop && c->set->stop(c->set->ctx)) return LIPSC_E_STOPPED;
        lipsc_dense_gemm(1, 0, side - first, k, rows, 1.0, A + first * rows, rows,
                         A + first * rows, rows, 0.0, G + first * side + first, side);
        const double rest = (double)(side - first - k) / (double)side;
        lipsc_certify_tell(c, c->total * (0.5 + 0.35 * (1.0 - rest * rest)));
    }
    return LIPSC_OK;
}

/* What the root of mu leaves of the goal: rounding of the columns, of the Gram matrix, of
 * the factorisation.  0: nothing is left. */
static double largest_mu(const lipsc_certifier *c, size_t rows, double square) {
    const double side = (double)c->side;
    const double goal = lipsc_down(c->goal - lipsc_up(sqrt(side) * c->eta, 4), 4);
    if (!(goal > 0.0)) return 0.0;
    const double trace = side * goal * goal;
    const double lost = lipsc_cholesky_margin(c->side, trace) +
                        2.0 * ((double)rows + 4.0) * DBL_EPSILON * square +
                        8.0 * DBL_EPSILON * goal * goal;
    return lipsc_down(goal * goal - lipsc_up(lost, 8), 4);
}

lipsc_status lipsc_dense_prove(lipsc_certifier *c, double *bound) {
    const size_t rows = longer_side(c), side = c->side;
    int definite = 0;
    *bound = INFINITY;
    if (lipsc_dense_proof_bytes(c) == SIZE_MAX) return LIPSC_E_RANGE;
    double *A = lipsc_alloc(rows * side, sizeof *A),
           *G = lipsc_alloc(side * side, sizeof *G);
    lipsc_status status = A && G ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = assemble(c, rows, A);
    if (!status) {
        const double square = lipsc_up(lipsc_sum_squares(rows * side, A), rows * side);
        const double mu = largest_mu(c, rows, square);
        c->upper =
            lipsc_min(c->upper, lipsc_up(sqrt(square) + sqrt((double)side) * c->eta, 8));
        status = make_gram(c, rows, A, G);
        for (size_t j = 0; !status && j < side; j++) {
            for (size_t i = j; i < side; i++) G[j * side + i] = -G[j * side + i];
            G[j * side + j] += mu;
        }
        if (!status && mu > 0.0) status = lipsc_dense_cholesky(side, G, &definite);
    }
    if (!status && definite) *bound = c->goal;
    lipsc_release(A);
    lipsc_release(G);
    return status;
}
