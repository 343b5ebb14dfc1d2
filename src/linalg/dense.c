/* dense.c - small dense problems by LAPACK, products by cblas; their int limits end here.
 */
#include "linalg/dense.h"

#include <cblas.h>
#include <lapacke.h>
#include <limits.h>
#include <math.h>
#include <omp.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/extreme.h"
#include "core/median.h"
#include "core/mem.h"

/* LAPACK's work arrays hold up to about 4 r^2 numbers, counted in int. */
enum { MAX_LENGTH = 1 << 30, MAX_ORDER = 1 << 14, ONE_THREAD_ORDER = 256, PIECE = 192 };

/* Fewer multiplications than these are done before a second thread has begun. */
static const double WORTH_THREADS = 1e6;

/* OpenBLAS built on OpenMP, which tools/deps.sh installs, asks OpenMP how many threads the
 * caller may start; that number belongs to the calling thread, and is set back afterwards.
 * openblas_set_num_threads would change it for the whole process, so it is never called: a
 * BLAS with threads of its own keeps as many as its user gave it (OPENBLAS_NUM_THREADS).
 * Returns what to hand back to set_threads. */
static int set_threads(int wanted) {
    const int before = omp_get_max_threads();
    omp_set_num_threads(wanted);
    return before;
}

/* Inside a parallel region, also one of a single thread, BLAS gets one: OpenBLAS does not
 * see such a region, asks for more threads than the region can give, and waits for them
 * for ever (seen with clang's OpenMP). */
static int threads_here(void) { return omp_get_level() > 0 ? 1 : omp_get_max_threads(); }

/* With one thread the result does not depend on how many there are: BLAS cuts sums where a
 * thread begins, and LAPACK's last bits follow.  Singular vectors and bounds are made of
 * them, and an attack climbs from there. */
static int one_thread(void) { return set_threads(1); }

/* LAPACKE says: below zero a NaN among the arguments or no memory for its work, above
 * zero an iteration that found no end (never seen on finite input). */
static lipsc_status status_of(lapack_int info) {
    if (info == 0) return LIPSC_OK;
    if (info == LAPACK_WORK_MEMORY_ERROR || info == LAPACK_TRANSPOSE_MEMORY_ERROR)
        return LIPSC_E_NOMEM;
    return LIPSC_E_NONFIN;
}

lipsc_status lipsc_dense_svd(size_t m, size_t n, double *a, double *s, double *u,
                             double *vt) {
    const size_t r = min_size(m, n), order = max_size(m, n);
    if (order > MAX_LENGTH || r > MAX_ORDER) return LIPSC_E_RANGE;
    if (r == 0) return LIPSC_OK;

    /* dgesdd makes both sides or none */
    const char job = u || vt ? 'S' : 'N';
    double *spare = NULL;
    if (job == 'S' && (!u || !vt)) {
        size_t elements;
        if (!lipsc_mul_size(r, u ? n : m, &elements)) return LIPSC_E_RANGE;
        if (!(spare = lipsc_alloc(elements, sizeof *spare))) return LIPSC_E_NOMEM;
    }
    const int before = one_thread();
    lapack_int info = LAPACKE_dgesdd(LAPACK_COL_MAJOR, job, (lapack_int)m, (lapack_int)n, a,
                                     (lapack_int)m, s, u ? u : spare, (lapack_int)m,
                                     vt ? vt : spare, (lapack_int)r);
    set_threads(before);
    lipsc_release(spare);
    return status_of(info);
}

lipsc_status lipsc_dense_norm(size_t m, size_t n, const double *a, double *norm) {
    size_t elements;
    if (!lipsc_mul_size(m, n, &elements)) return LIPSC_E_RANGE;
    double *copy = lipsc_alloc(elements, sizeof *copy);
    double *s = lipsc_alloc(min_size(m, n), sizeof *s);
    lipsc_status status = LIPSC_E_NOMEM;
    if (copy && s) {
        memcpy(copy, a, elements * sizeof *copy);
        s[0] = 0.0; /* of an empty matrix */
        status = lipsc_dense_svd(m, n, copy, s, NULL, NULL);
        if (!status) *norm = s[0];
    }
    lipsc_release(copy);
    lipsc_release(s);
    return status;
}

lipsc_status lipsc_dense_eigen(size_t n, double *a, double *w, int vectors) {
    if (n > MAX_ORDER) return LIPSC_E_RANGE;
    if (n == 0) return LIPSC_OK;
    const int before = one_thread();
    lapack_int info = LAPACKE_dsyevd(LAPACK_COL_MAJOR, vectors ? 'V' : 'N', 'L',
                                     (lapack_int)n, a, (lapack_int)n, w);
    set_threads(before);
    return status_of(info);
}

lipsc_status lipsc_dense_cholesky(size_t n, double *a, int *definite) {
    *definite = 0;
    if (n > MAX_ORDER) return LIPSC_E_RANGE;
    /* what is asked is a yes or no that allows for every order of the sums */
    const int before = set_threads(n <= ONE_THREAD_ORDER ? 1 : threads_here());
    const lapack_int info =
        n ? LAPACKE_dpotrf(LAPACK_COL_MAJOR, 'L', (lapack_int)n, a, (lapack_int)n) : 0;
    set_threads(before);
    *definite = info == 0;
    return info > 0 ? LIPSC_OK : status_of(info);
}

/* The reflectors of a (m x r), which become q; r stays behind. */
static lapack_int make_qr(size_t m, size_t n, double *a, double *q, double *tau) {
    const size_t r = min_size(m, n);
    const lapack_int rows = (lapack_int)m, order = (lapack_int)r;
    lapack_int info = LAPACKE_dgeqrf(LAPACK_COL_MAJOR, rows, (lapack_int)n, a, rows, tau);
    memcpy(q, a, m * r * sizeof *q);
    memset(q + m * r, 0, m * (m - r) * sizeof *q);
    if (!info) info = LAPACKE_dorgqr(LAPACK_COL_MAJOR, rows, rows, order, q, rows, tau);
    for (size_t j = 0; j < n; j++)
        for (size_t i = j + 1; i < m; i++) a[j * m + i] = 0.0;
    return info;
}

lipsc_status lipsc_dense_qr(size_t m, size_t n, double *a, double *q) {
    if (max_size(m, n) > MAX_ORDER) return LIPSC_E_RANGE;
    if (m == 0 || n == 0) return LIPSC_E_ARG;
    double *tau = lipsc_alloc(min_size(m, n), sizeof *tau);
    if (!tau) return LIPSC_E_NOMEM;
    const int before = one_thread();
    const lapack_int info = make_qr(m, n, a, q, tau);
    set_threads(before);
    lipsc_release(tau);
    return status_of(info);
}

/* What cblas cannot count: any size, one sum after the other. */
static void gemm_any_size(int ta, int tb, size_t m, size_t n, size_t k, double alpha,
                          const double *a, size_t lda, const double *b, size_t ldb,
                          double beta, double *c, size_t ldc) {
    for (size_t j = 0; j < n; j++)
        for (size_t i = 0; i < m; i++) {
            double sum = 0.0;
            for (size_t l = 0; l < k; l++)
                sum +=
                    a[ta ? i * lda + l : l * lda + i] * b[tb ? l * ldb + j : j * ldb + l];
            double *out = &c[j * ldc + i];
            *out = alpha * sum + (beta == 0.0 ? 0.0 : beta * *out);
        }
}

/* A product as pieces of at most PIECE x PIECE, whatever the number of threads: each is one
 * thread's, so that no bit depends on how many there are. */
typedef void piece_of(const void *product, size_t i, size_t rows, size_t j, size_t cols);

static void one_piece(size_t m, size_t n, size_t down, size_t p, piece_of *piece,
                      const void *product) {
    const size_t i = p % down * PIECE, j = p / down * PIECE;
    piece(product, i, min_size(PIECE, m - i), j, min_size(PIECE, n - j));
}

static void in_pieces(size_t m, size_t n, size_t k, piece_of *piece, const void *product) {
    const size_t down = (m + PIECE - 1) / PIECE, pieces = down * ((n + PIECE - 1) / PIECE);
    const double work = (double)m * (double)n * (double)k;
    const int threads = pieces > 1 && work > WORTH_THREADS ? threads_here() : 1;
    const int before = one_thread();
    if (threads == 1) {
        for (size_t p = 0; p < pieces; p++) one_piece(m, n, down, p, piece, product);
    } else {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
        for (size_t p = 0; p < pieces; p++) {
            one_thread(); /* a thread's own number */
            one_piece(m, n, down, p, piece, product);
        }
    }
    set_threads(before);
}

typedef struct {
    int ta, tb;
    size_t k, lda, ldb, ldc;
    double alpha, beta;
    const double *a, *b;
    double *c;
} product64;

static void piece64(const void *product, size_t i, size_t rows, size_t j, size_t cols) {
    const product64 *p = product;
    cblas_dgemm(CblasColMajor, p->ta ? CblasTrans : CblasNoTrans,
                p->tb ? CblasTrans : CblasNoTrans, (int)rows, (int)cols, (int)p->k,
                p->alpha, p->a + (p->ta ? i * p->lda : i), (int)p->lda,
                p->b + (p->tb ? j : j * p->ldb), (int)p->ldb, p->beta,
                p->c + j * p->ldc + i, (int)p->ldc);
}

void lipsc_dense_gemm(int ta, int tb, size_t m, size_t n, size_t k, double alpha,
                      const double *a, size_t lda, const double *b, size_t ldb, double beta,
                      double *c, size_t ldc) {
    if (m == 0 || n == 0) return;
    const size_t largest =
        max_size(max_size(max_size(m, n), k), max_size(max_size(lda, ldb), ldc));
    if (largest > INT_MAX) {
        gemm_any_size(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
        return;
    }
    const product64 product = {ta, tb, k, lda, ldb, ldc, alpha, beta, a, b, c};
    in_pieces(m, n, k, piece64, &product);
}

typedef struct {
    size_t k, lda, ldb, ldc;
    float beta;
    const float *a, *b;
    float *c;
} product32;

static void piece32(const void *product, size_t i, size_t rows, size_t j, size_t cols) {
    const product32 *p = product;
    cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, (int)rows, (int)cols, (int)p->k,
                1.0f, p->a + i, (int)p->lda, p->b + j * p->ldb, (int)p->ldb, p->beta,
                p->c + j * p->ldc + i, (int)p->ldc);
}

void lipsc_dense_sgemm(size_t m, size_t n, size_t k, const float *a, size_t lda,
                       const float *b, size_t ldb, int add, float *c, size_t ldc) {
    if (m == 0 || n == 0) return;
    const product32 product = {k, lda, ldb, ldc, add ? 1.0f : 0.0f, a, b, c};
    in_pieces(m, n, k, piece32, &product);
}

/* Times of one product each, after one that warms up. */
static void time_sgemm(int size, const float *a, const float *b, float *c, int repeats,
                       double *seconds) {
    for (int i = -1; i < repeats; i++) {
        const double begin = lipsc_seconds();
        cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, size, size, size, 1.0f, a,
                    size, b, size, 0.0f, c, size);
        if (i >= 0) seconds[i] = lipsc_seconds() - begin;
    }
}

double lipsc_dense_sgemm_rate(size_t size, int threads, int repeats) {
    size_t elements;
    if (size == 0 || size > INT_MAX || threads < 1 || repeats < 1 ||
        !lipsc_mul_size(size, size, &elements))
        return NAN;
    float *a = lipsc_alloc(elements, sizeof *a), *b = lipsc_alloc(elements, sizeof *b);
    float *c = lipsc_alloc(elements, sizeof *c);
    double *seconds = lipsc_alloc((size_t)repeats, sizeof *seconds);
    double rate = NAN;
    if (a && b && c && seconds) {
        for (size_t i = 0; i < elements; i++) {
            a[i] = (float)(i % 7) - 3.0f; /* small integers: no denormals on the way */
            b[i] = (float)(i % 5) - 2.0f;
        }
        const int before = set_threads(threads);
        time_sgemm((int)size, a, b, c, repeats, seconds);
        set_threads(before);
        const double length = (double)size;
        rate =
            2.0 * length * length * length / lipsc_median((size_t)repeats, seconds) * 1e-9;
    }
    lipsc_release(a);
    lipsc_release(b);
    lipsc_release(c);
    lipsc_release(seconds);
    return rate;
}

/* OpenBLAS tells about itself; another BLAS has no such function. */
#if defined(__GNUC__)
extern char *openblas_get_config(void) __attribute__((weak));
const char *lipsc_blas(void) {
    return openblas_get_config ? openblas_get_config() : "not OpenBLAS";
}
#else
const char *lipsc_blas(void) { return "unknown"; }
#endif
