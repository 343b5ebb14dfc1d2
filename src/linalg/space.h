/* space.h - vectors that live in a device's memory, in one precision.
 *
 * A solver works on blocks of k vectors of length len, stored one after the other
 * (vector j starts at element j * len), and touches them only through these functions: the
 * host may not read or write what they point to.  Small matrices of coefficients are host
 * doubles, column-major.  Sums are made in double, in an order that does not depend on the
 * number of threads.
 *
 * Every operation may fail.  One that is only queued may fail after it returned: the device
 * then fails in every later call, download and gram at the latest.
 *
 * Vectors may be shared by several ranks, who all make the same calls: gram adds over all
 * of them, in one order, so that every rank sees the same numbers and decides alike. */
#ifndef LIPSC_LINALG_SPACE_H
#define LIPSC_LINALG_SPACE_H

#include "lipscope.h"

typedef struct lipsc_space lipsc_space;

/* One of several that are made together, each with vectors of its own: see gram and combine
 * below.  a may be b where ka and kb are one. */
typedef struct {
    size_t len, ka;
    const void *a;
    size_t kb;
    const void *b;
    double *c;
} lipsc_gram;
typedef struct {
    size_t len, ka;
    const void *a;
    size_t kb;
    const double *c;
    double beta;
    void *b;
} lipsc_combination;

/* What a device does with its vectors; all but the last two, which are both or none, are
 * required.  self is the space asked. */
typedef struct {
    void *(*alloc)(const lipsc_space *self, size_t elements);
    void (*release)(const lipsc_space *self, void *p);
    lipsc_status (*upload)(const lipsc_space *self, size_t elements, const double *host,
                           void *dst);
    lipsc_status (*download)(const lipsc_space *self, size_t elements, const void *src,
                             double *host);
    lipsc_status (*copy)(const lipsc_space *self, size_t elements, const void *src,
                         void *dst);
    lipsc_status (*scale)(const lipsc_space *self, size_t elements, double s, void *x);
    lipsc_status (*random)(const lipsc_space *self, uint64_t seed, uint64_t first,
                           size_t elements, void *dst);
    lipsc_status (*gram)(const lipsc_space *self, size_t len, size_t ka, const void *a,
                         size_t kb, const void *b, double *c);
    lipsc_status (*combine)(const lipsc_space *self, size_t len, size_t ka, const void *a,
                            size_t kb, const double *c, double beta, void *b);
    lipsc_status (*grams)(const lipsc_space *self, size_t count, const lipsc_gram *gram);
    lipsc_status (*combines)(const lipsc_space *self, size_t count,
                             const lipsc_combination *combination);
} lipsc_space_ops;

/* Vectors that several ranks share, each with `own` of `rows` rows (backend/ranks): lengths
 * are those of whole vectors everywhere, and a rank's memory holds its rows. */
typedef struct {
    size_t rows, own, ranks;
} lipsc_split;

struct lipsc_space {
    const lipsc_space_ops *ops;
    const lipsc_split *split;   /* NULL: vectors are whole                             */
    const lipsc_space *part;    /* of what is here of shared vectors; NULL: this one   */
    const lipsc_device *device; /* NULL: the CPU with the threads that OpenMP gives */
    lipsc_dtype dtype;
    size_t item; /* bytes of one element */
    size_t room; /* bytes beyond which a solve keeps only the vectors that it must; 0: none
                  * are too many                                                        */
};

/* Vectors in host memory; a vector of host doubles is one of the f64 space as it stands. */
const lipsc_space *lipsc_space_host(lipsc_dtype dtype);

#define LIPSC_CHECKED __attribute__((warn_unused_result)) static inline

/* NULL when memory is short or the device has failed, which the next operation says. */
static inline void *lipsc_space_alloc(const lipsc_space *s, size_t elements) {
    return s->ops->alloc(s, elements);
}
static inline void lipsc_space_release(const lipsc_space *s, void *p) { /* NULL is fine */
    if (p) s->ops->release(s, p);
}

/* Element i of an array: the only arithmetic on places in device memory.  Of vectors that
 * are shared i is where one begins. */
static inline void *lipsc_space_at(const lipsc_space *s, const void *array, size_t i) {
    if (s->split) i = i / s->split->rows * s->split->own;
    return (char *)(uintptr_t)array + i * s->item;
}

/* Of so many elements of vectors those that are here: all, where nobody shares them. */
static inline size_t lipsc_space_here(const lipsc_space *s, size_t elements) {
    if (!s->split) return elements;
    return s->split->rows ? elements / s->split->rows * s->split->own : 0;
}
/* The space of these. */
static inline const lipsc_space *lipsc_space_part(const lipsc_space *s) {
    return s->part ? s->part : s;
}

/* conversions from and to host doubles; of shared vectors all of it, and who gives NULL for
 * host only lets the others have what is here */
LIPSC_CHECKED lipsc_status lipsc_space_upload(const lipsc_space *s, size_t elements,
                                              const double *host, void *dst) {
    return s->ops->upload(s, elements, host, dst);
}
LIPSC_CHECKED lipsc_status lipsc_space_download(const lipsc_space *s, size_t elements,
                                                const void *src, double *host) {
    return s->ops->download(s, elements, src, host);
}

LIPSC_CHECKED lipsc_status lipsc_space_copy(const lipsc_space *s, size_t elements,
                                            const void *src, void *dst) {
    return s->ops->copy(s, elements, src, dst);
}
LIPSC_CHECKED lipsc_status lipsc_space_scale(const lipsc_space *s, size_t elements,
                                             double factor, void *x) {
    return s->ops->scale(s, elements, factor, x);
}

/* standard normal numbers first .. first+elements-1 of stream `seed` */
LIPSC_CHECKED lipsc_status lipsc_space_random(const lipsc_space *s, uint64_t seed,
                                              uint64_t first, size_t elements, void *dst) {
    return s->ops->random(s, seed, first, elements, dst);
}

/* c (ka x kb) = A^T B, A: ka vectors, B: kb vectors */
LIPSC_CHECKED lipsc_status lipsc_space_gram(const lipsc_space *s, size_t len, size_t ka,
                                            const void *a, size_t kb, const void *b,
                                            double *c) {
    return s->ops->gram(s, len, ka, a, kb, b, c);
}

/* y (rows) = M x, M (rows, cols) row-major, of the host: kernels for this machine, and no
 * thread is woken for microseconds of work. */
static inline void lipsc_host_multiply(size_t rows, size_t cols, const double *M,
                                       const double *x, double *y) {
    (void)!lipsc_space_gram(lipsc_space_host(LIPSC_F64), cols, rows, M, 1, x, y);
}

/* B = beta B + A C,  C (ka x kb); beta is 0 (B need not be initialised) or 1 */
LIPSC_CHECKED lipsc_status lipsc_space_combine(const lipsc_space *s, size_t len, size_t ka,
                                               const void *a, size_t kb, const double *c,
                                               double beta, void *b) {
    return s->ops->combine(s, len, ka, a, kb, c, beta, b);
}

/* An operator on such vectors: what a solver sees.
 * trans 0: y (k vectors of m) = A x (k vectors of n); trans 1: the other way. */
typedef struct {
    size_t m, n;
    const lipsc_space *space;
    lipsc_status (*apply)(void *ctx, int trans, size_t k, const void *x, void *y);
    void *ctx;
    double work; /* operations of a product with one vector, roughly; 0: of a full matrix */
} lipsc_linop;

/* One of several products that are made together: of is the ctx of its operator. */
typedef struct {
    void *of;
    size_t k;
    const void *x;
    void *y;
} lipsc_product;

/* Makes all of them; each operator has at most one. */
typedef lipsc_status lipsc_products(int trans, size_t count, const lipsc_product *product);

/* k vectors of length len, one after the other. */
lipsc_status lipsc_vectors_upload(const lipsc_space *s, size_t len, size_t k,
                                  const double *host, void *dst);
lipsc_status lipsc_vectors_download(const lipsc_space *s, size_t len, size_t k,
                                    const void *src, double *host);
/* Those of stream `seed` from number `first` on. */
lipsc_status lipsc_vectors_random(const lipsc_space *s, uint64_t seed, uint64_t first,
                                  size_t len, size_t k, void *dst);

/* op on host vectors, up and down again. */
lipsc_status lipsc_linop_host(const lipsc_linop *op, int trans, size_t k, const double *x,
                              double *y);

#endif
