/* joint_moments.h - second moments under many rows of weights at once: inside joint*.c
 * only.
 */
#ifndef LIPSC_BOUND_JOINT_MOMENTS_H
#define LIPSC_BOUND_JOINT_MOMENTS_H

#include "lipscope.h"

/* Vectors of the keys, times a power of two that brings the largest entry near 1. */
typedef struct {
    const double *x; /* (keys, width) */
    size_t width;
    double unit;
} lipsc_vectors;

/* sum_l p_l a_l b_l^T for each row p of a tile; a symmetric one (a is b) as its half,
 * entries (c, e >= c), else whole, both row by row. */
typedef struct {
    double *storage;
    double *pack, *sums; /* (cols, chunk), (cols, rows)                               */
    float *pack32, *sums32, *p32;
    size_t cols;
    int coarse;   /* the last ones were taken in f32                            */
    double unit;  /* and are unit times what they stand for                     */
    double error; /* off by at most error sum_l p_l |a_l| |b_l|, in norm        */
    double lost;  /* and by this, whatever their size                           */
} lipsc_moments;

/* For up to `rows` rows of weights of up to `keys` keys. */
lipsc_status lipsc_moments_new(size_t keys, size_t rows, size_t cols, lipsc_moments *m);
void lipsc_moments_free(lipsc_moments *m);

/* p (keys, rows) column-major, leading dimension keys, between 0 and 1.  coarse: in f32. */
void lipsc_moments_make(int coarse, size_t keys, size_t rows, const lipsc_vectors *a,
                        const lipsc_vectors *b, const double *p, lipsc_moments *m);
/* Those of row t, whole: to (a's width, b's width). */
void lipsc_moments_row(const lipsc_moments *m, size_t t, size_t width_a, size_t width_b,
                       int symmetric, double *to);

#endif
