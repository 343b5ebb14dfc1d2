/* fit.c - least squares on logarithms of medians, with a bootstrap over windows.
 *
 *     Y_n = ln median_w y(n, w),   X_n = ln median_w x(n, w),   n >= 8
 *     exponent = sum (X_n - mean X)(Y_n - mean Y) / sum (X_n - mean X)^2
 *     coefficient = exp(mean Y - exponent mean X)
 *
 * A resampling draws, for every length, as many windows as it has, with replacement; the
 * interval holds the exponents between the 2.5 % and the 97.5 % quantile.  x and y of a
 * window stay together. */
#include "run/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/rng.h"

enum { SHORTEST = 8, FEWEST_LENGTHS = 3, RESAMPLINGS = 2000 };

typedef struct {
    size_t count; /* points that are used, sorted by n              */
    lipsc_fit_point *points;
    size_t lengths;
    size_t *begin;     /* (lengths + 1) of each length in points         */
    double *X, *Y;     /* (lengths)                                      */
    double *x, *y;     /* (count) windows of one length                  */
    double *exponents; /* (RESAMPLINGS)                                  */
} work;

static int by_length(const void *a, const void *b) {
    const size_t m = ((const lipsc_fit_point *)a)->n, n = ((const lipsc_fit_point *)b)->n;
    return (m > n) - (m < n);
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Hoare's selection: afterwards values[k] is what a sort would put there, and nothing
 * before it is larger.  Linear where a sort is not; the bootstrap is nothing but medians.
 */
static void select_nth(size_t count, double *values, size_t k) {
    for (size_t low = 0, high = count - 1; low < high;) {
        const double pivot = values[low + (high - low) / 2];
        size_t i = low, j = high;
        for (;;) {
            while (values[i] < pivot) i++;
            while (values[j] > pivot) j--;
            if (i >= j) break;
            const double keep = values[i];
            values[i++] = values[j];
            values[j--] = keep;
        }
        if (k <= j)
            high = j;
        else
            low = j + 1;
    }
}

/* values change their places */
static double median(size_t count, double *values) {
    const size_t half = count / 2;
    select_nth(count, values, half);
    if (count % 2) return values[half];
    double below = values[0];
    for (size_t i = 1; i < half; i++)
        if (values[i] > below) below = values[i];
    return 0.5 * (below + values[half]);
}

/* Linear between neighbours of the sorted values, the usual definition. */
static double quantile(size_t count, const double *sorted, double q) {
    const double at = q * (double)(count - 1);
    const size_t below = (size_t)at;
    if (below + 1 >= count) return sorted[count - 1];
    return sorted[below] + (at - (double)below) * (sorted[below + 1] - sorted[below]);
}

/* Slope and intercept of Y on X; 0 when all X are equal. */
static int least_squares(size_t count, const double *X, const double *Y, double *slope,
                         double *intercept) {
    double mean_x = 0.0, mean_y = 0.0, xx = 0.0, xy = 0.0;
    for (size_t i = 0; i < count; i++) {
        mean_x += X[i] / (double)count;
        mean_y += Y[i] / (double)count;
    }
    for (size_t i = 0; i < count; i++) {
        xx += (X[i] - mean_x) * (X[i] - mean_x);
        xy += (X[i] - mean_x) * (Y[i] - mean_y);
    }
    /* below this the differences of X are rounding */
    if (!(xx > 1e-24 * (1.0 + mean_x * mean_x))) return 0;
    *slope = xy / xx;
    *intercept = mean_y - *slope * mean_x;
    return 1;
}

/* Medians of length l, of its windows or of a resampling: draw(i) is the i-th window. */
static void set_medians(work *w, size_t l, uint64_t seed, uint64_t *counter) {
    const lipsc_fit_point *points = w->points + w->begin[l];
    const size_t windows = w->begin[l + 1] - w->begin[l];
    for (size_t i = 0; i < windows; i++) {
        size_t chosen = i;
        if (counter) {
            chosen = (size_t)(lipsc_rng_uniform(seed, (*counter)++) * (double)windows);
            if (chosen == windows) chosen--; /* the product may round up */
        }
        w->x[i] = points[chosen].x;
        w->y[i] = points[chosen].y;
    }
    w->X[l] = log(median(windows, w->x));
    w->Y[l] = log(median(windows, w->y));
}

static void bootstrap(work *w, uint64_t seed, lipsc_fit *out) {
    uint64_t counter = 0;
    size_t made = 0;
    for (size_t r = 0; r < RESAMPLINGS; r++) {
        double intercept;
        for (size_t l = 0; l < w->lengths; l++) set_medians(w, l, seed, &counter);
        /* resampled radii may all fall together: such a draw says nothing */
        made +=
            (size_t)least_squares(w->lengths, w->X, w->Y, &w->exponents[made], &intercept);
    }
    if (made == 0) return;
    qsort(w->exponents, made, sizeof *w->exponents, by_value);
    out->low = quantile(made, w->exponents, 0.025);
    out->high = quantile(made, w->exponents, 0.975);
}

/* Usable points sorted by length, and where each length begins. */
static void sort_points(work *w, size_t count, const lipsc_fit_point *points) {
    for (size_t i = 0; i < count; i++) {
        const lipsc_fit_point *p = &points[i];
        if (p->n >= SHORTEST && p->x > 0.0 && p->y > 0.0 && isfinite(p->x) &&
            isfinite(p->y))
            w->points[w->count++] = *p;
    }
    if (w->count) qsort(w->points, w->count, sizeof *w->points, by_length);
    for (size_t i = 0; i < w->count; i++)
        if (i == 0 || w->points[i].n != w->points[i - 1].n) w->begin[w->lengths++] = i;
    w->begin[w->lengths] = w->count;
}

static lipsc_status fit(work *w, uint64_t seed, lipsc_fit *out, lipsc_error *err) {
    double intercept;
    if (w->lengths < FEWEST_LENGTHS)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "a fit needs three lengths from %d on, there are %zu", SHORTEST,
                          w->lengths);
    for (size_t l = 0; l < w->lengths; l++) set_medians(w, l, seed, NULL);
    *out = (lipsc_fit){.low = NAN, .high = NAN, .lengths = w->lengths};
    if (!least_squares(w->lengths, w->X, w->Y, &out->exponent, &intercept))
        return lipsc_fail(err, LIPSC_E_REFUSED, "nothing to fit against: all are equal");
    out->coefficient = exp(intercept);
    if (w->count > w->lengths) bootstrap(w, seed, out);
    return LIPSC_OK;
}

lipsc_status lipsc_fit_power(size_t count, const lipsc_fit_point *points, uint64_t seed,
                             lipsc_fit *out, lipsc_error *err) {
    if ((count && !points) || !out) return lipsc_fail(err, LIPSC_E_ARG, "nothing to fit");
    work w = {.points = lipsc_alloc(count, sizeof *w.points),
              .begin = lipsc_alloc(count + 1, sizeof *w.begin),
              .X = lipsc_alloc(count, sizeof *w.X),
              .Y = lipsc_alloc(count, sizeof *w.Y),
              .x = lipsc_alloc(count, sizeof *w.x),
              .y = lipsc_alloc(count, sizeof *w.y),
              .exponents = lipsc_alloc(RESAMPLINGS, sizeof *w.exponents)};
    lipsc_status status;
    if (w.points && w.begin && w.X && w.Y && w.x && w.y && w.exponents) {
        sort_points(&w, count, points);
        status = fit(&w, seed, out, err);
    } else {
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a fit");
    }
    lipsc_release(w.points);
    lipsc_release(w.begin);
    lipsc_release(w.X);
    lipsc_release(w.Y);
    lipsc_release(w.x);
    lipsc_release(w.y);
    lipsc_release(w.exponents);
    return status;
}
