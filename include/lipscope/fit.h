/* fit.h - growth laws: value ~ coefficient * x^exponent over lengths, with intervals. */
#ifndef LIPSCOPE_FIT_H
#define LIPSCOPE_FIT_H

#include "lipscope/row.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- One law ----------------------------------------------------------------------- */

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
LIPSC_API lipsc_status lipsc_fit_power(size_t count, const lipsc_fit_point *points,
                                       uint64_t seed, lipsc_fit *out, double *slopes,
                                       lipsc_error *err);

/* ---- The laws of rows of sigma ----------------------------------------------------- */

/* X(member, kind, part, shown, unit, what it says); the exponents as in fit.h */
#define LIPSC_GROWTH_LIST(X)                                                  \
    X(layer, COUNT, 0, 1, "", "of the rows")                                  \
    X(head, COUNT, 0, 1, "", "of the rows; null: all heads together")         \
    X(map, TEXT, 0, 0, "", "of the rows")                                     \
    X(text, TEXT, 0, 0, "", "its hash; null: all texts of the rows together") \
    X(against, TEXT, 0, 1, "", "n or radius")                                 \
    X(exponent, REAL, 0, 1, "", "slope of ln(median sigma) against ln x")     \
    X(exponent_low, REAL, 0, 1, "", "lower end of its 95 % interval")         \
    X(exponent_high, REAL, 0, 1, "", "upper end")                             \
    X(coefficient, REAL, 0, 1, "", "sigma ~ coefficient x^exponent")          \
    X(lengths, COUNT, 0, 1, "", "that entered")                               \
    X(starts, COUNT, 0, 1, "", "that have every length")                      \
    X(texts, COUNT, 0, 0, "", "that entered")                                 \
    X(law, FLAG, 0, 0, "", "a straight line fits")                            \
    X(lack_of_fit, REAL, 0, 1, "", "p value of a straight line")              \
    X(slopes, REALS, 0, 1, "", "from each length to the next")                \
    X(refused, TEXT, 0, 0, "", "why there is no exponent")

typedef struct {
    LIPSC_GROWTH_LIST(LIPSC_FIELD_MEMBER)
} lipsc_growth;

LIPSC_API lipsc_fields lipsc_growth_fields(void);

typedef struct {
    size_t count;
    lipsc_growth *at;
    lipsc_pool pool;
} lipsc_growths;

/* For each layer and head of the sorted rows the laws sigma ~ coefficient x^exponent
 * against n and against the radius.  With several texts (text_hash) those of each text
 * follow the joint ones.  Windows that begin at the same token are one start; tiled ones do
 * so too rarely for an interval.  Fewer than three lengths: nothing.  LIPSC_E_NOMEM; free
 * with lipsc_growths_free either way.  The texts of the rows must outlive the laws. */
LIPSC_API lipsc_status lipsc_rows_fit(size_t count, const lipsc_row *const *rows,
                                      uint64_t seed, lipsc_growths *out);
LIPSC_API void lipsc_growths_free(lipsc_growths *laws);

/* The verdict in a few words: "power law"; "no power law", with "shown" behind it where
 * there are too few starts for a test; or why there is no exponent. */
LIPSC_API const char *lipsc_growth_verdict(const lipsc_growth *law);

#ifdef __cplusplus
}
#endif
#endif
