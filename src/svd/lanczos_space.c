/* lanczos_space.c - the spaces of block Golub-Kahan-Lanczos: started, extended with
 * reorthogonalisation, looked at, restarted.
 *
 * V (n x jv) and U (m x ju) have orthonormal columns and
 *
 *     A V = U B                      B (ju x jv), host doubles
 *     A^T U = V B^T + V_next S       V_next: the next block, orthogonal to V
 *
 * A step applies A to V_next: what sticks out of U becomes the next block of U, the
 * coefficients become columns of B.  U^T A V_next = S^T is known already, so only
 * rounding is left for the pass of reorthogonalisation.  Then A^T goes to the new block
 * of U and gives the next V_next and S in the same way.
 *
 * With B = P diag(theta) Q^T the vectors v = V q, u = U p satisfy
 *
 *     A v = theta u,    A^T u - theta v = V_next S p,
 *
 * so |S p| / theta estimates the residual |A^T A v - theta^2 v| / theta^2 without a
 * product.
 *
 * A full basis is replaced by its best Ritz vectors, for which B is diag(theta) and S is
 * S P: the equations above stay true, and the next step needs no special case.
 *
 * When V_next vanishes, V and U are invariant and the Ritz values exact.  From b random
 * vectors such a space holds every singular value, but at most b copies of each; if more
 * values were asked for, fresh random vectors enter as V_next with S = 0.
 *
 * V is kept orthonormal by passes over all of it.  U need not be where only the largest
 * value is asked for: column j of B comes from A v_j, with the coefficients u_i^T A v_j for
 * i < j. Those left out are (A^T u_i)^T v_j, zero up to rounding since V is orthonormal. So
 * U B is A V by modified Gram-Schmidt, whose triangle is that of a matrix within rounding
 * of A V however far its vectors are from orthogonal (Bjorck 1967; for this recurrence
 * Simon and Zha 2000, Barlow 2013): B^T B is V^T A^T A V up to eps |A|^2, and with it theta
 * and q, of which the answer v = V q is made.
 *
 * Where memory is short (run->lean) U is not kept then: its last vector is all that the
 * next step needs, and a full basis is left for its best Ritz vector, from which the space
 * begins anew.
 *
 * Squares of lengths are formed: singular values between 1e-150 and 1e150. */
#include "svd/lanczos.h"

#include <math.h>
#include <string.h>

#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"

/* Vectors that a solve has which keeps all of the smallest basis, and the basis of one that
 * does not. */
enum { LEAST_VECTORS = 26, LEAN_BASIS = 12 };

int lipsc_lanczos_lean(const lipsc_svd_run *run) {
    const lipsc_linop *op = run->op;
    const double longest = (double)max_size(op->m, op->n) * (double)run->space->item;
    return run->set.method == LIPSC_LANCZOS && run->set.count == 1 && run->set.block == 1 &&
           run->space->room && longest * LEAST_VECTORS > (double)run->space->room;
}

/* Enough that a typical solve (10 to 40 steps) never restarts, within 1 GiB; never so
 * little that a restart could not keep the values and add two blocks. */
static size_t choose_basis(const lipsc_svd_run *run) {
    const size_t count = run->set.count, block = run->set.block;
    const size_t least = count + max_size(8, 2 * block + 2);
    size_t basis = run->set.basis;
    if (run->lean) return min_size(basis ? max_size(basis, 2) : LEAN_BASIS, run->op->n);
    if (!basis) {
        const double vector_pair =
            ((double)run->op->m + (double)run->op->n) * (double)run->space->item;
        const double affordable = 0x1p30 / vector_pair;
        basis = max_size(2 * count + 20, 40);
        if ((double)basis > affordable) basis = (size_t)affordable;
    }
    return min_size(max_size(basis, least), run->op->n);
}

static lipsc_buffer new_vectors(const lanczos *z, size_t len, size_t k) {
    size_t elements;
    return lipsc_mul_size(len, k, &elements) ? lipsc_space_alloc(z->run->space, elements)
                                             : LIPSC_NOWHERE;
}

static double *new_matrix(size_t rows, size_t columns) {
    size_t elements;
    return lipsc_mul_size(rows, columns, &elements)
               ? lipsc_alloc_zero(elements, sizeof(double))
               : NULL;
}

lipsc_status lipsc_lanczos_open(lanczos *z) {
    const size_t block = z->block, cap = z->cap = choose_basis(z->run);
    z->ld = cap + block;
    z->V = new_vectors(z, z->n, cap + block);
    z->U = z->run->lean ? z->run->u : new_vectors(z, z->m, cap);
    z->B = new_matrix(cap, cap);
    z->S = new_matrix(block, cap);
    z->P = new_matrix(cap, cap);
    z->Qt = new_matrix(cap, cap);
    z->theta = new_matrix(cap, 1);
    z->estimate = new_matrix(cap, 1);
    z->coef = new_matrix(z->ld, block);
    z->small = new_matrix(z->ld + 1, z->ld);
    return z->V.at && z->U.at && z->B && z->S && z->P && z->Qt && z->theta && z->estimate &&
                   z->coef && z->small
               ? LIPSC_OK
               : LIPSC_E_NOMEM;
}

void lipsc_lanczos_close(lanczos *z) {
    lipsc_space_release(z->run->space, z->V);
    if (!z->run->lean) lipsc_space_release(z->run->space, z->U);
    lipsc_release(z->B);
    lipsc_release(z->S);
    lipsc_release(z->P);
    lipsc_release(z->Qt);
    lipsc_release(z->theta);
    lipsc_release(z->estimate);
    lipsc_release(z->coef);
    lipsc_release(z->small);
}

/* k new columns behind the j columns of `basis`, to be made orthonormal. */
static lipsc_orth orth_of(lanczos *z, size_t len, size_t j, lipsc_buffer basis, size_t k,
                          size_t known, size_t *rank) {
    return (lipsc_orth){.space = z->run->space,
                        .eps = z->run->eps,
                        .len = len,
                        .j = j,
                        .q = basis,
                        .k = k,
                        .known = known,
                        .scale = &z->scale,
                        .coef = z->coef,
                        .ldc = z->ld,
                        .work = z->small,
                        .rank = rank};
}

/* What a given start vector is mixed with: enough that a direction which has become the
 * top one since is found within a few steps. */
static const double start_noise = 0.05;

/* Random vectors orthogonal to V become V_next; none when V is all of R^n. */
lipsc_status lipsc_lanczos_start(lanczos *z) {
    const lipsc_svd_run *run = z->run;
    const size_t count = run->set.count;
    const size_t k = z->started ? min_size(z->block, count - z->started) : z->block;
    double length = 0.0; /* of random vectors: says nothing of |A| */
    lipsc_status status =
        lipsc_vectors_random(run->space, run->set.seed, (uint64_t)z->started * z->n, z->n,
                             k, lipsc_lanczos_column(z, z->V, z->n, z->jv));
    if (run->start.at &&
        !z->started) { /* start_noise times a random unit vector is added */
        const double one = 1.0, noise = start_noise / sqrt((double)z->n);
        if (!status) status = lipsc_space_scale(run->space, z->n, noise, z->V);
        if (!status)
            status =
                lipsc_space_combine(run->space, z->n, 1, run->start, 1, &one, 1.0, z->V);
    }
    if (status) return status;
    z->started += k;
    z->s_from = z->ju;
    memset(z->S, 0, z->block * z->cap * sizeof *z->S);
    lipsc_orth orth = orth_of(z, z->n, z->jv, z->V, k, z->jv, &z->next);
    orth.scale = &length;
    return lipsc_svd_orth(&orth);
}

/* Whether U is left to what is known of it, the coefficients S: until the first restart no
 * pass is made over it.  For the largest value alone that is enough (head of this file). */
static int trusts_u(const lanczos *z) { return z->run->set.count == 1; }

/* Lean: the new vector behind the last one alone, whose coefficient is the only one. */
static void keep_last(lanczos *z) {
    const size_t old = min_size(z->ju, 1), gone = z->ju - old;
    memset(z->coef, 0, gone * sizeof *z->coef);
    z->orth.q = lipsc_lanczos_column(z, z->U, z->m, 1 - old);
    z->orth.coef += gone;
    z->orth.j = z->orth.from = old;
    z->orth.known = 0;
}

/* From A V_next: columns of B and a new block of U, z->rank its width. */
void lipsc_lanczos_ask_u(lanczos *z) {
    for (size_t c = 0; c < z->next; c++)
        for (size_t i = z->s_from; i < z->ju; i++)
            z->coef[c * z->ld + i] = z->S[i * z->block + c];
    z->orth = orth_of(z, z->m, z->ju, z->U, z->next, z->s_from, &z->rank);
    if (z->run->lean)
        keep_last(z);
    else if (trusts_u(z) && !z->run->restarts)
        z->orth.from = z->ju;
    z->waits = 1;
}

void lipsc_lanczos_extend_u(lanczos *z) {
    const size_t ld = z->ld;
    for (size_t c = 0; c < z->next; c++)
        memcpy(z->B + (z->jv + c) * z->cap, z->coef + c * ld,
               (z->ju + z->rank) * sizeof *z->B);
    z->ju += z->rank;
    z->jv += z->next;
    z->width = z->next;
    memset(z->S, 0, z->block * z->cap * sizeof *z->S);
    z->s_from = z->ju - z->rank;
    z->next = 0;
}

/* From A^T of the last `rank` columns of U: S and V_next.  Of V^T A^T U = B^T only the last
 * block of V, `width` columns, is not zero. */
void lipsc_lanczos_ask_v(lanczos *z) {
    const size_t from = z->jv - z->width;
    for (size_t c = 0; c < z->rank; c++)
        for (size_t i = from; i < z->jv; i++)
            z->coef[c * z->ld + i] = z->B[i * z->cap + z->s_from + c];
    z->orth = orth_of(z, z->n, z->jv, z->V, z->rank, from, &z->next);
    z->waits = 1;
}

void lipsc_lanczos_extend_v(lanczos *z) {
    for (size_t c = 0; c < z->rank; c++)
        memcpy(z->S + (z->s_from + c) * z->block, z->coef + c * z->ld + z->jv,
               z->next * sizeof *z->S);
}

/* theta, P, Q and the estimated residuals.  B is filled up with zero rows to a square
 * matrix, so that Q has a vector for every column of V also when ju < jv. */
static lipsc_status find_ritz(lanczos *z) {
    const size_t j = z->jv;
    for (size_t c = 0; c < j; c++)
        memcpy(z->small + c * j, z->B + c * z->cap, j * sizeof *z->small);
    lipsc_status status = lipsc_dense_svd(j, j, z->small, z->theta, z->P, z->Qt);
    if (status) return status;
    if (z->theta[0] > z->scale) z->scale = z->theta[0];
    for (size_t i = 0; i < j; i++) {
        double square = 0.0;
        for (size_t r = 0; r < z->next; r++) {
            double sum = 0.0;
            for (size_t l = z->s_from; l < z->ju; l++)
                sum += z->S[l * z->block + r] * z->P[i * j + l];
            square += sum * sum;
        }
        z->estimate[i] = square > 0.0 ? sqrt(square) / z->theta[i] : 0.0;
    }
    return LIPSC_OK;
}

/* A step is made: what its space says. */
lipsc_status lipsc_lanczos_conclude(lanczos *z) {
    lipsc_status status = find_ritz(z);
    if (status) return status;
    z->steps++;
    z->evaluated = 0;
    if (!z->first_over) {
        z->first_steps = z->steps;
        z->first_theta = z->theta[0];
    }
    if (z->next == 0) {
        z->exhausted = z->first_over = 1;
        if (z->started < z->run->set.count && z->jv < z->n) {
            z->hold = z->steps + z->first_steps;
            status = lipsc_lanczos_start(z);
        }
    }
    return status;
}

/* columns (jv x k) of the coefficients of the k best Ritz vectors, in z->small */
const double *lipsc_lanczos_best(lanczos *z, size_t k) {
    for (size_t i = 0; i < k; i++)
        for (size_t l = 0; l < z->jv; l++) z->small[i * z->jv + l] = z->Qt[l * z->jv + i];
    return z->small;
}

static const double *best_left(lanczos *z, size_t k) {
    for (size_t i = 0; i < k; i++)
        memcpy(z->small + i * z->ju, z->P + i * z->jv, z->ju * sizeof *z->small);
    return z->small;
}

/* How many Ritz vectors survive: the values asked for, and some more that speed up
 * what follows; never one whose theta is rounding, nor one whose vector in U, A v / theta,
 * may lean on others since no pass was made over U. */
static size_t choose_keep(const lanczos *z) {
    const size_t count = z->run->set.count;
    size_t keep = count + max_size(2, (z->cap - count) / 4);
    keep = min_size(keep, min_size(z->cap - 2 * z->block, z->ju));
    const double least = trusts_u(z) ? 1.0 / 32.0 : 16.0 * z->run->eps;
    while (keep > 0 && !(z->theta[keep - 1] > least * z->theta[0])) keep--;
    return keep;
}

/* Lean: the best Ritz vector, made in the answer's place, is all that is left. */
static lipsc_status begin_anew(lanczos *z) {
    const lipsc_svd_run *run = z->run;
    lipsc_status status = lipsc_space_combine(run->space, z->n, z->jv, z->V, 1,
                                              lipsc_lanczos_best(z, 1), 0.0, run->v);
    if (!status) status = lipsc_space_copy(run->space, z->n, run->v, z->V);
    memset(z->S, 0, z->block * z->cap * sizeof *z->S);
    memset(z->B, 0, z->cap * z->cap * sizeof *z->B);
    z->jv = z->ju = z->s_from = 0;
    z->first_over = 1;
    z->run->restarts++;
    if (status) return status;
    lipsc_orth orth = orth_of(z, z->n, 0, z->V, 1, 0, &z->next);
    double length = 0.0;
    orth.scale = &length;
    return lipsc_svd_orth(&orth);
}

static lipsc_status keep_best(lanczos *z) {
    const lipsc_space *space = z->run->space;
    const size_t keep = choose_keep(z), j = z->jv, b = z->block;
    const lipsc_buffer buffer = new_vectors(z, max_size(z->m, z->n), keep);
    if (!buffer.at) return LIPSC_E_NOMEM;

    lipsc_status status = lipsc_space_combine(space, z->n, j, z->V, keep,
                                              lipsc_lanczos_best(z, keep), 0.0, buffer);
    if (!status) status = lipsc_space_copy(space, keep * z->n, buffer, z->V);
    for (size_t i = 0; i < z->next && !status; i++) /* one by one: places may overlap */
        status = lipsc_space_copy(space, z->n, lipsc_lanczos_column(z, z->V, z->n, j + i),
                                  lipsc_lanczos_column(z, z->V, z->n, keep + i));
    if (!status)
        status = lipsc_space_combine(space, z->m, z->ju, z->U, keep, best_left(z, keep),
                                     0.0, buffer);
    if (!status) status = lipsc_space_copy(space, keep * z->m, buffer, z->U);
    lipsc_space_release(space, buffer);
    if (status) return status;

    lipsc_dense_gemm(0, 0, b, keep, z->ju, 1.0, z->S, b, z->P, j, 0.0, z->small, b);
    memset(z->S, 0, b * z->cap * sizeof *z->S);
    memcpy(z->S, z->small, b * keep * sizeof *z->S);
    memset(z->B, 0, z->cap * z->cap * sizeof *z->B);
    for (size_t i = 0; i < keep; i++) z->B[i * z->cap + i] = z->theta[i];
    z->jv = z->ju = keep;
    z->s_from = 0;
    z->first_over = 1;
    z->run->restarts++;
    return LIPSC_OK;
}

lipsc_status lipsc_lanczos_restart(lanczos *z) {
    return z->run->lean ? begin_anew(z) : keep_best(z);
}
