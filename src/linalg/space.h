/* space.h - vectors that live in a device's memory, in one precision.
 *
 * A solver works on blocks of k vectors of length len, stored one after the other
 * (vector j starts at element j * len), and touches them only through these functions: the
 * host may not read or write what is in a buffer.  Small matrices of coefficients are host
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

/* Memory of a device: whose, of which type, how much and where.  Made by a space, passed by
 * value, cut by lipsc_space_at and lipsc_slice.  Whoever computes with buffers says how far
 * it goes, and every operation refuses (LIPSC_E_ARG) memory of another device, another type
 * and fewer elements than that.  LIPSC_NOWHERE: none. */
typedef struct {
    const lipsc_device *home; /* lipsc_device_home; NULL: the CPU's, which all share   */
    lipsc_dtype type;
    size_t count; /* elements; of shared vectors those of whole ones                    */
    void *at;     /* for the device alone; NULL: no memory                              */
} lipsc_buffer;

#define LIPSC_NOWHERE ((lipsc_buffer){.home = NULL})

/* One of several that are made together, each with vectors of its own: see gram and combine
 * below.  a may be b where ka and kb are one. */
typedef struct {
    size_t len, ka;
    lipsc_buffer a;
    size_t kb;
    lipsc_buffer b;
    double *c;
} lipsc_gram;
typedef struct {
    size_t len, ka;
    lipsc_buffer a;
    size_t kb;
    const double *c;
    double beta;
    lipsc_buffer b;
} lipsc_combination;

/* What a device does with its vectors; all but the last three, of which grams and combines
 * are both or none, are required.  self is the space asked.  They are called by the
 * functions below, which have looked at the buffers: what comes here is of this device and
 * type, and long enough. */
typedef struct {
    void *(*alloc)(const lipsc_space *self, size_t elements);
    void (*release)(const lipsc_space *self, lipsc_buffer b);
    lipsc_status (*upload)(const lipsc_space *self, size_t elements, const double *host,
                           lipsc_buffer dst);
    lipsc_status (*download)(const lipsc_space *self, size_t elements, lipsc_buffer src,
                             double *host);
    lipsc_status (*copy)(const lipsc_space *self, size_t elements, lipsc_buffer src,
                         lipsc_buffer dst);
    lipsc_status (*scale)(const lipsc_space *self, size_t elements, double s,
                          lipsc_buffer x);
    lipsc_status (*random)(const lipsc_space *self, uint64_t seed, uint64_t first,
                           size_t elements, lipsc_buffer dst);
    lipsc_status (*gram)(const lipsc_space *self, size_t len, size_t ka, lipsc_buffer a,
                         size_t kb, lipsc_buffer b, double *c);
    lipsc_status (*combine)(const lipsc_space *self, size_t len, size_t ka, lipsc_buffer a,
                            size_t kb, const double *c, double beta, lipsc_buffer b);
    lipsc_status (*grams)(const lipsc_space *self, size_t count, const lipsc_gram *gram);
    lipsc_status (*combines)(const lipsc_space *self, size_t count,
                             const lipsc_combination *combination);
    lipsc_status (*widen)(const lipsc_space *self, size_t elements, lipsc_buffer src,
                          lipsc_buffer dst); /* self: of doubles */
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
    const lipsc_space *kept;    /* host doubles that are shared like its vectors, or NULL */
    const lipsc_device *device; /* NULL: the CPU with the threads that OpenMP gives    */
    const lipsc_device *home;   /* of its buffers                                      */
    lipsc_dtype dtype;
    size_t item; /* bytes of one element */
    size_t room; /* bytes beyond which a solve keeps only the vectors that it must; 0: none
                  * are too many                                                        */
};

/* Vectors in host memory; a vector of host doubles is one of the f64 space as it stands. */
const lipsc_space *lipsc_space_host(lipsc_dtype dtype);

#define LIPSC_CHECKED __attribute__((warn_unused_result)) static inline

/* The buffer of so many elements that lie there. */
static inline lipsc_buffer lipsc_space_view(const lipsc_space *s, size_t elements,
                                            const void *at) {
    const lipsc_buffer b = {s->home, s->dtype, elements, (void *)(uintptr_t)at};
    return b;
}

/* Doubles of the host. */
static inline lipsc_buffer lipsc_host_view(size_t elements, const double *at) {
    return lipsc_space_view(lipsc_space_host(LIPSC_F64), elements, at);
}

/* at is NULL when memory is short or the device has failed, which the next operation says.
 */
static inline lipsc_buffer lipsc_space_alloc(const lipsc_space *s, size_t elements) {
    void *at = s->ops->alloc(s, elements);
    return lipsc_space_view(s, at ? elements : 0, at);
}
/* LIPSC_NOWHERE is fine. */
static inline void lipsc_space_release(const lipsc_space *s, lipsc_buffer b) {
    if (b.at) s->ops->release(s, b);
}

/* Whether b is memory of this device and type, and holds k times len elements. */
static inline int lipsc_buffer_fits(lipsc_buffer b, const lipsc_device *home,
                                    lipsc_dtype type, size_t k, size_t len) {
    if (!k || !len) return 1;
    return b.at && b.home == home && b.type == type && k <= b.count / len;
}
static inline int lipsc_space_fits(const lipsc_space *s, lipsc_buffer b, size_t k,
                                   size_t len) {
    return lipsc_buffer_fits(b, s->home, s->dtype, k, len);
}

/* Elements from .. from+count-1 of b, or an empty buffer, which every operation refuses,
 * where b does not hold them: the only arithmetic on places in device memory.  Of vectors
 * that are shared `from` is where one begins. */
static inline lipsc_buffer lipsc_slice(const lipsc_space *s, lipsc_buffer b, size_t from,
                                       size_t count) {
    const int inside = b.at && from <= b.count && count <= b.count - from;
    if (!inside || b.home != s->home || b.type != s->dtype) {
        b.count = 0;
        return b;
    }
    if (s->split) from = from / s->split->rows * s->split->own;
    return lipsc_space_view(s, count, (char *)b.at + from * s->item);
}
/* All of b from element i on. */
static inline lipsc_buffer lipsc_space_at(const lipsc_space *s, lipsc_buffer b, size_t i) {
    return lipsc_slice(s, b, i, i < b.count ? b.count - i : 0);
}

/* Of so many elements of vectors those that are here: all, where nobody shares them. */
static inline size_t lipsc_space_here(const lipsc_space *s, size_t elements) {
    if (!s->split) return elements;
    return s->split->rows ? elements / s->split->rows * s->split->own : 0;
}
/* The space of these, and what of a buffer is here. */
static inline const lipsc_space *lipsc_space_part(const lipsc_space *s) {
    return s->part ? s->part : s;
}
static inline lipsc_buffer lipsc_space_own(const lipsc_space *s, lipsc_buffer b) {
    return lipsc_space_view(lipsc_space_part(s), lipsc_space_here(s, b.count), b.at);
}
/* Vectors that are host doubles, as they stand, shared as those of s are. */
static inline const lipsc_space *lipsc_space_kept(const lipsc_space *s) {
    return s->kept ? s->kept : lipsc_space_host(LIPSC_F64);
}

/* conversions from and to host doubles; of shared vectors all of it, and who gives NULL for
 * host only lets the others have what is here */
LIPSC_CHECKED lipsc_status lipsc_space_upload(const lipsc_space *s, size_t elements,
                                              const double *host, lipsc_buffer dst) {
    if (!lipsc_space_fits(s, dst, 1, elements)) return LIPSC_E_ARG;
    return s->ops->upload(s, elements, host, dst);
}
LIPSC_CHECKED lipsc_status lipsc_space_download(const lipsc_space *s, size_t elements,
                                                lipsc_buffer src, double *host) {
    if (!lipsc_space_fits(s, src, 1, elements)) return LIPSC_E_ARG;
    return s->ops->download(s, elements, src, host);
}

LIPSC_CHECKED lipsc_status lipsc_space_copy(const lipsc_space *s, size_t elements,
                                            lipsc_buffer src, lipsc_buffer dst) {
    if (!lipsc_space_fits(s, src, 1, elements) || !lipsc_space_fits(s, dst, 1, elements))
        return LIPSC_E_ARG;
    return s->ops->copy(s, elements, src, dst);
}
LIPSC_CHECKED lipsc_status lipsc_space_scale(const lipsc_space *s, size_t elements,
                                             double factor, lipsc_buffer x) {
    if (!lipsc_space_fits(s, x, 1, elements)) return LIPSC_E_ARG;
    return s->ops->scale(s, elements, factor, x);
}

/* standard normal numbers first .. first+elements-1 of stream `seed` */
LIPSC_CHECKED lipsc_status lipsc_space_random(const lipsc_space *s, uint64_t seed,
                                              uint64_t first, size_t elements,
                                              lipsc_buffer dst) {
    if (!lipsc_space_fits(s, dst, 1, elements)) return LIPSC_E_ARG;
    return s->ops->random(s, seed, first, elements, dst);
}

/* c (ka x kb) = A^T B, A: ka vectors, B: kb vectors */
LIPSC_CHECKED lipsc_status lipsc_space_gram(const lipsc_space *s, size_t len, size_t ka,
                                            lipsc_buffer a, size_t kb, lipsc_buffer b,
                                            double *c) {
    if (!lipsc_space_fits(s, a, ka, len) || !lipsc_space_fits(s, b, kb, len))
        return LIPSC_E_ARG;
    return s->ops->gram(s, len, ka, a, kb, b, c);
}

/* y (rows) = M x, M (rows, cols) row-major, of the host: kernels for this machine, and no
 * thread is woken for microseconds of work. */
static inline void lipsc_host_multiply(size_t rows, size_t cols, const double *M,
                                       const double *x, double *y) {
    (void)!lipsc_space_gram(lipsc_space_host(LIPSC_F64), cols, rows,
                            lipsc_host_view(rows * cols, M), 1, lipsc_host_view(cols, x),
                            y);
}

/* B = beta B + A C,  C (ka x kb); beta is 0 (B need not be initialised) or 1 */
LIPSC_CHECKED lipsc_status lipsc_space_combine(const lipsc_space *s, size_t len, size_t ka,
                                               lipsc_buffer a, size_t kb, const double *c,
                                               double beta, lipsc_buffer b) {
    if (!lipsc_space_fits(s, a, ka, len) || !lipsc_space_fits(s, b, kb, len))
        return LIPSC_E_ARG;
    return s->ops->combine(s, len, ka, a, kb, c, beta, b);
}

/* Several of these at once, where the space can: ops->grams is not NULL. */
lipsc_status lipsc_space_grams(const lipsc_space *s, size_t count, const lipsc_gram *gram);
lipsc_status lipsc_space_combines(const lipsc_space *s, size_t count,
                                  const lipsc_combination *combination);

/* dst (doubles) = src (floats) of one device, where the space can: ops->widen is not NULL.
 */
lipsc_status lipsc_space_widen(const lipsc_space *s, size_t elements, lipsc_buffer src,
                               lipsc_buffer dst);

/* An operator on such vectors: what a solver sees.
 * trans 0: y (k vectors of m) = A x (k vectors of n); trans 1: the other way. */
typedef struct {
    size_t m, n;
    const lipsc_space *space;
    lipsc_status (*apply)(void *ctx, int trans, size_t k, lipsc_buffer x, lipsc_buffer y);
    void *ctx;
    double work; /* operations of a product with one vector, roughly; 0: of a full matrix */
} lipsc_linop;

/* One of several products that are made together: of is the ctx of its operator. */
typedef struct {
    void *of;
    size_t k;
    lipsc_buffer x, y;
} lipsc_product;

/* Makes all of them; each operator has at most one. */
typedef lipsc_status lipsc_products(int trans, size_t count, const lipsc_product *product);

/* k vectors of length len, one after the other. */
lipsc_status lipsc_vectors_upload(const lipsc_space *s, size_t len, size_t k,
                                  const double *host, lipsc_buffer dst);
lipsc_status lipsc_vectors_download(const lipsc_space *s, size_t len, size_t k,
                                    lipsc_buffer src, double *host);
/* Those of stream `seed` from number `first` on. */
lipsc_status lipsc_vectors_random(const lipsc_space *s, uint64_t seed, uint64_t first,
                                  size_t len, size_t k, lipsc_buffer dst);

/* op on host vectors, up and down again. */
lipsc_status lipsc_linop_host(const lipsc_linop *op, int trans, size_t k, const double *x,
                              double *y);

#endif
