/* stages.c - token order and weights, query/key norms, rotary positions, row by row.
 * Compiled once per precision (LIPSC_TYPE_f32 or LIPSC_TYPE_f64); O(n d) work. */
#include "backend/cpu/stages.h"

#include <math.h>
#include <string.h>

#if defined(LIPSC_TYPE_f32)
typedef float T;
#define TABLE lipsc_stages_f32
#else
typedef double T;
#define TABLE lipsc_stages_f64
#endif

static void scaled_row(size_t width, T factor, const T *src, T *dst) {
    for (size_t c = 0; c < width; c++) dst[c] = factor * src[c];
}

static void gather(size_t n, size_t width, const size_t *order, const void *factor,
                   const void *src, void *dst) {
    for (size_t i = 0; i < n; i++)
        scaled_row(width, factor ? ((const T *)factor)[i] : 1,
                   (const T *)src + (order ? order[i] : i) * width, (T *)dst + i * width);
}

static void scatter(size_t n, size_t width, const size_t *order, const void *factor,
                    const void *src, void *dst) {
    for (size_t i = 0; i < n; i++)
        scaled_row(width, factor ? ((const T *)factor)[i] : 1, (const T *)src + i * width,
                   (T *)dst + (order ? order[i] : i) * width);
}

static void rotate(size_t rows, size_t n, size_t w, size_t half, const void *cosine,
                   const void *sine, int sign, void *x) {
    for (size_t i = 0; i < rows; i++) {
        T *row = (T *)x + i * w;
        const T *c = (const T *)cosine + i % n * half, *s = (const T *)sine + i % n * half;
        for (size_t l = 0; l < half; l++) {
            const T a = row[l], b = row[l + half], t = (T)sign * s[l];
            row[l] = a * c[l] - b * t;
            row[l + half] = b * c[l] + a * t;
        }
    }
}

static void norm(size_t n, size_t w, size_t dim, size_t span, double eps, const void *gain,
                 void *x, void *unit, void *inverse) {
    const double all = (double)(span * dim), root = sqrt(all);
    for (size_t i = 0; i < n; i++) {
        double square = 0;
        for (size_t h = 0; h < span; h++) {
            const T *row = (T *)x + (h * n + i) * w;
            for (size_t c = 0; c < dim; c++) square += (double)row[c] * (double)row[c];
        }
        const double r = sqrt(square + all * eps);
        const double over = r > 0 ? 1 / r : 0; /* a zero row with eps 0 stays zero */
        for (size_t h = 0; h < span; h++) {
            T *row = (T *)x + (h * n + i) * w, *u = (T *)unit + (h * n + i) * w;
            const T *g = (const T *)gain + h * w;
            memset(u, 0, w * sizeof(T));
            for (size_t c = 0; c < dim; c++) {
                u[c] = (T)((double)row[c] * over);
                row[c] = g[c] * (T)(root * over * (double)row[c]);
            }
        }
        ((T *)inverse)[i] = (T)(root * over);
    }
}

static void norm_derivative(size_t rows, size_t n, size_t x_head, size_t unit_head,
                            size_t w, size_t dim, size_t span, const void *gain,
                            const void *unit, const void *inverse, int trans, void *x) {
    for (size_t i = 0; i < rows; i++) {
        const T scale = ((const T *)inverse)[i % n];
        T dot = 0;
        for (size_t h = 0; h < span; h++) {
            T *row = (T *)x + (h * x_head + i) * w;
            const T *u = (const T *)unit + (h * unit_head + i % n) * w,
                    *g = (const T *)gain + h * w;
            if (trans)
                for (size_t c = 0; c < dim; c++) row[c] *= g[c];
            for (size_t c = 0; c < dim; c++) dot += u[c] * row[c];
        }
        for (size_t h = 0; h < span; h++) {
            T *row = (T *)x + (h * x_head + i) * w;
            const T *u = (const T *)unit + (h * unit_head + i % n) * w,
                    *g = (const T *)gain + h * w;
            for (size_t c = 0; c < dim; c++) row[c] = scale * (row[c] - u[c] * dot);
            if (!trans)
                for (size_t c = 0; c < dim; c++) row[c] *= g[c];
        }
    }
}

static void norm_second(size_t rows, size_t n, size_t x_head, size_t unit_head, size_t w,
                        size_t dim, size_t span, const void *gain, const void *unit,
                        const void *inverse, const void *e_rows, const void *t_rows,
                        void *grad) {
    const T root = (T)sqrt((double)(span * dim));
    for (size_t i = 0; i < rows; i++) {
        const T over = ((const T *)inverse)[i % n];
        T ue = 0, ut = 0, te = 0;
        for (size_t h = 0; h < span; h++) {
            const T *u = (const T *)unit + (h * unit_head + i % n) * w,
                    *g = (const T *)gain + h * w;
            const T *e = (const T *)e_rows + (h * x_head + i) * w;
            const T *t = (const T *)t_rows + (h * x_head + i) * w;
            for (size_t c = 0; c < dim; c++) {
                ue += u[c] * e[c];
                ut += u[c] * g[c] * t[c];
                te += g[c] * t[c] * e[c];
            }
        }
        const T factor = over * over / root, along = te - 3 * ut * ue;
        for (size_t h = 0; h < span; h++) {
            const T *u = (const T *)unit + (h * unit_head + i % n) * w,
                    *g = (const T *)gain + h * w;
            const T *e = (const T *)e_rows + (h * x_head + i) * w;
            const T *t = (const T *)t_rows + (h * x_head + i) * w;
            T *out = (T *)grad + (h * x_head + i) * w;
            for (size_t c = 0; c < dim; c++)
                out[c] -= factor * (along * u[c] + ue * g[c] * t[c] + ut * e[c]);
        }
    }
}

const lipsc_stages TABLE = {gather, scatter, rotate, norm, norm_derivative, norm_second};
