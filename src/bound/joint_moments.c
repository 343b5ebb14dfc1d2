/* joint_moments.c - second moments under many rows of weights at once (docs/maths.md 3.10).
 *
 * Products of P with the products a_c b_e of components of each key: one large matrix
 * product in the place of one small one for each row.  In f32 it takes half the time.
 * Conversions, the product and keys additions, u = 2^-24 each, are off by at most
 *     (keys + 8) u sum_l p_l |a_lc| |b_le|
 * in every entry, so by (keys + 8) u sum_l p_l |a_l| |b_l| in norm; weights below FAINT and
 * what underflows are counted apart. */
#include "bound/joint_moments.h"

#include <math.h>
#include <string.h>

#include "core/mem.h"
#include "linalg/dense.h"

enum { CHUNK = 64 };               /* keys packed at once: they stay in the cache         */
static const double FAINT = 1e-30; /* weights below it are zero in f32: no subnormals     */

lipsc_status lipsc_moments_new(size_t keys, size_t rows, size_t cols, lipsc_moments *m) {
    const size_t pack = cols * CHUNK, sums = cols * rows, p = keys * rows;
    memset(m, 0, sizeof *m);
    /* floats behind the doubles, two in the place of one */
    m->storage =
        lipsc_alloc(pack + sums + pack / 2 + sums / 2 + p / 2 + 3, sizeof *m->pack);
    if (!m->storage) return LIPSC_E_NOMEM;
    m->pack = m->storage;
    m->sums = m->pack + pack;
    m->pack32 = (float *)(m->sums + sums);
    m->sums32 = m->pack32 + pack;
    m->p32 = m->sums32 + sums;
    return LIPSC_OK;
}

void lipsc_moments_free(lipsc_moments *m) { lipsc_release(m->storage); }

static size_t columns_of(const lipsc_vectors *a, const lipsc_vectors *b) {
    return a == b ? a->width * (a->width + 1) / 2 : a->width * b->width;
}

static void pack64(const lipsc_vectors *a, const lipsc_vectors *b, size_t key, double *to) {
    const double *x = a->x + key * a->width, *z = b->x + key * b->width;
    for (size_t c = 0; c < a->width; c++)
        for (size_t e = a == b ? c : 0; e < b->width; e++) *to++ = x[c] * z[e];
}

static void pack32(const lipsc_vectors *a, const lipsc_vectors *b, size_t key, float *to) {
    const double *x = a->x + key * a->width, *z = b->x + key * b->width;
    float other[256]; /* of b, a piece at a time */
    for (size_t e0 = 0; e0 < b->width; e0 += 256) {
        const size_t count = b->width - e0 < 256 ? b->width - e0 : 256;
        for (size_t e = 0; e < count; e++) other[e] = (float)(b->unit * z[e0 + e]);
        float *row = to;
        for (size_t c = 0; c < a->width; c++) {
            const float own = (float)(a->unit * x[c]);
            const size_t begin = a == b ? c : 0; /* row c holds entries begin .. */
            for (size_t e = begin > e0 ? begin - e0 : 0; e < count; e++)
                row[e0 + e - begin] = own * other[e];
            row += b->width - begin;
        }
    }
}

static void make64(size_t keys, size_t rows, const lipsc_vectors *a, const lipsc_vectors *b,
                   const double *p, lipsc_moments *m) {
    for (size_t l0 = 0; l0 < keys; l0 += CHUNK) {
        const size_t count = keys - l0 < CHUNK ? keys - l0 : CHUNK;
        for (size_t l = 0; l < count; l++) pack64(a, b, l0 + l, m->pack + l * m->cols);
        lipsc_dense_gemm(0, 0, m->cols, rows, count, 1.0, m->pack, m->cols, p + l0, keys,
                         l0 ? 1.0 : 0.0, m->sums, m->cols);
    }
    m->unit = 1.0;
    m->error = m->lost = 0.0;
}

static void make32(size_t keys, size_t rows, const lipsc_vectors *a, const lipsc_vectors *b,
                   const double *p, lipsc_moments *m) {
    for (size_t e = 0; e < keys * rows; e++) m->p32[e] = p[e] >= FAINT ? (float)p[e] : 0.0f;
    for (size_t l0 = 0; l0 < keys; l0 += CHUNK) {
        const size_t count = keys - l0 < CHUNK ? keys - l0 : CHUNK;
        for (size_t l = 0; l < count; l++) pack32(a, b, l0 + l, m->pack32 + l * m->cols);
        lipsc_dense_sgemm(m->cols, rows, count, m->pack32, m->cols, m->p32 + l0, keys,
                          l0 > 0, m->sums32, m->cols);
    }
    m->unit = a->unit * b->unit;
    m->error = 1.01 * ldexp((double)keys + 8.0, -24);
    m->lost = 2.0 * FAINT * (double)keys * (double)a->width * (double)b->width / m->unit;
}

void lipsc_moments_make(int coarse, size_t keys, size_t rows, const lipsc_vectors *a,
                        const lipsc_vectors *b, const double *p, lipsc_moments *m) {
    const double unit = a->unit * b->unit;
    m->cols = columns_of(a, b);
    m->coarse = coarse && unit > 1e-200 && unit < 1e200; /* and so is its inverse */
    (m->coarse ? make32 : make64)(keys, rows, a, b, p, m);
}

void lipsc_moments_row(const lipsc_moments *m, size_t t, size_t width_a, size_t width_b,
                       int symmetric, double *to) {
    const double *from = m->sums + t * m->cols, over = 1.0 / m->unit;
    const float *from32 = m->sums32 + t * m->cols;
    for (size_t c = 0; c < width_a; c++) {
        const size_t begin = symmetric ? c : 0, count = width_b - begin;
        double *row = to + c * width_b + begin;
        for (size_t e = 0; e < count; e++)
            row[e] = m->coarse ? over * (double)from32[e] : from[e];
        from += count;
        from32 += count;
        for (size_t e = 1; symmetric && e < count; e++) to[(c + e) * width_b + c] = row[e];
    }
}
