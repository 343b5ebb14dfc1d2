/* fit.h - growth laws: value ~ coefficient * x^exponent over lengths. */
#ifndef LIPSC_RUN_FIT_H
#define LIPSC_RUN_FIT_H

#include "lipscope.h"

/* One value: the window of length n that belongs to `start` of `text` gave y; x is what it
 * is fitted against, n itself or a radius.  Starts and texts are told apart by their
 * numbers; windows of one start share their beginning, so their values go together. */
typedef struct {
    size_t n, start, text;
    double x, y;
} lipsc_fit_point;

typedef struct {
    double exponent, coefficient;
    double low, high;   /* 95 % interval of the exponent; NaN below 6 starts   */
    double lack_of_fit; /* p value of a straight line; NaN below 6 starts      */
    int law;            /* it fits: p >= 0.05, or local slopes within 0.15     */
    double slope_least, slope_most; /* of the local slopes */
    double spread;        /* of x: its greatest median over the least            */
    size_t lengths;       /* that entered                                        */
    size_t starts, texts; /* starts: those that have every length                */
} lipsc_fit;

enum { LIPSC_FIT_STARTS = 6 /* fewest for an interval, and fewest texts to resample */ };

/* Least squares of ln(median over windows of y) on ln(median over windows of x), one point
 * for each length n >= 8 that every text has; with several texts the mean over texts of the
 * logarithms, so that the exponent is the mean of theirs.  Points whose x or y is not
 * positive and finite are left out.  slopes: NULL, or room for `count` numbers, whose first
 * lengths - 1 become the slopes between one length and the next (NaN where x does not
 * move).
 *
 * The interval is exponent +- 0.95 t s (docs/maths.md 9): s is the standard deviation over
 * 1000 seeded resamplings of the starts, each with all of its lengths, within each text; of
 * whole texts when there are six.  There is none where less than half of the starts have
 * every length.  LIPSC_E_REFUSED: fewer than three lengths, or an x
 * other than n whose medians lie within a factor 1.25: they say nothing of a law. */
lipsc_status lipsc_fit_power(size_t count, const lipsc_fit_point *points, uint64_t seed,
                             lipsc_fit *out, double *slopes, lipsc_error *err);

#endif
