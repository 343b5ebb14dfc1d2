/* dense_solver.c - all singular values by LAPACK, of the assembled matrix.
 *
 * Column c is the product with the c-th unit vector; set.block columns per product.
 * m n numbers and (m + n) min(m, n)^2 time: for small problems and as a judge.
 * max_products does not bind here: fewer than n products say nothing. */
#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "linalg/dense.h"
#include "svd/solve.h"

static const size_t MAX_ELEMENTS = (size_t)1 << 26;

/* a (m x n) from products.  *columns: how many were made before the stop callback
 * spoke (n: all). */
static lipsc_status assemble(lipsc_svd_run *run, lipsc_buffer y, double *host, double *a,
                             size_t *columns) {
    const lipsc_space *space = run->space;
    const size_t m = run->op->m, n = run->op->n, block = run->set.block;
    *columns = 0;
    while (*columns < n) {
        const size_t left = n - *columns, k = left < block ? left : block;
        memset(host, 0, k * n * sizeof *host);
        for (size_t j = 0; j < k; j++) host[j * n + *columns + j] = 1.0;
        lipsc_status status = lipsc_vectors_upload(space, n, k, host, run->t);
        if (!status) status = lipsc_svd_apply(run, 0, k, run->t, y);
        if (!status) status = lipsc_vectors_download(space, m, k, y, a + *columns * m);
        if (status) return status;
        *columns += k;
        if (lipsc_svd_tell(run, NAN, NAN) && *columns < n) break;
    }
    for (size_t i = 0; i < m * *columns; i++)
        if (!isfinite(a[i])) return LIPSC_E_NONFIN;
    return LIPSC_OK;
}

/* Rows 0 .. found-1 of vt (r x columns) become the vectors v, zero where the matrix was
 * not assembled. */
static lipsc_status take_vectors(lipsc_svd_run *run, size_t found, size_t r, size_t columns,
                                 const double *vt, double *host) {
    const size_t n = run->op->n;
    lipsc_status status = LIPSC_OK;
    memset(host, 0, n * sizeof *host);
    for (size_t i = 0; i < found && !status; i++) {
        for (size_t j = 0; j < columns; j++) host[j] = vt[j * r + i];
        status = lipsc_space_upload(run->space, n, host, lipsc_svd_at(run, run->v, n, i));
    }
    return status;
}

lipsc_status lipsc_svd_dense(lipsc_svd_run *run) {
    const lipsc_space *space = run->space;
    const size_t m = run->op->m, n = run->op->n, block = run->set.block;
    size_t elements, host_elements, columns;
    if (!lipsc_mul_size(m, n, &elements) || elements > MAX_ELEMENTS) return LIPSC_E_RANGE;
    if (!lipsc_mul_size(n, block, &host_elements)) return LIPSC_E_RANGE;

    const size_t order = m < n ? m : n;
    double *a = lipsc_alloc(elements, sizeof *a), *s = lipsc_alloc(order, sizeof *s);
    double *vt = lipsc_alloc(order * n, sizeof *vt);
    double *host = lipsc_alloc(host_elements, sizeof *host);
    const lipsc_buffer y = lipsc_space_alloc(space, m * block);
    lipsc_status status = a && s && vt && host && y.at ? LIPSC_OK : LIPSC_E_NOMEM;

    if (!status) status = assemble(run, y, host, a, &columns);
    if (!status) {
        const size_t r = m < columns ? m : columns;
        const size_t found = r < run->set.count ? r : run->set.count;
        status = lipsc_dense_svd(m, columns, a, s, NULL, vt);
        if (!status) status = take_vectors(run, found, r, columns, vt, host);
        if (!status) status = lipsc_svd_evaluate(run, found);
        if (!status && columns < n) status = LIPSC_E_STOPPED;
        if (!status) {
            const double below = found < r ? s[found] : NAN;
            lipsc_svd_tell(run, run->sigma[0], run->residual[0]);
            if (!lipsc_svd_meets(run, LIPSC_EVALUATED, run->set.tol, run->sigma,
                                 run->residual, below))
                status = LIPSC_E_NOCONV;
        }
    }
    lipsc_release(a);
    lipsc_release(s);
    lipsc_release(vt);
    lipsc_release(host);
    lipsc_space_release(space, y);
    return status;
}
