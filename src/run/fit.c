/* fit.c - least squares on logarithms of medians, with an interval over starts.
 *
 *     Y_n = ln median y(n, start),   X_n = ln median x(n, start),   n >= 8,
 *           with several texts the means of those of the texts
 *     exponent = sum (X_n - mean X)(Y_n - mean Y) / sum (X_n - mean X)^2
 *     coefficient = exp(mean Y - exponent mean X)
 *
 * A resampling draws starts with replacement, and a start brings all its lengths, because
 * its windows share their beginning.  The interval is exponent +- 0.95 t s with s the
 * standard deviation over resamplings and t Student's quantile: percentiles of so few
 * starts are too narrow, and the factor is what simulations ask for (docs/maths.md 9). */
#include "lipscope/fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/rng.h"
#include "run/distribution.h"
#include "run/straight.h"

enum { SHORTEST = 8, FEWEST_LENGTHS = 3, RESAMPLINGS = 1000 };

static const double calibration = 0.95, outside = 0.05;
static const double close_slopes = 0.15, least_p = 0.05;
static const double least_spread = 1.25; /* of medians of a measured x, most over least */

typedef struct {
    double value; /* infinite: no such window */
    size_t start;
} ranked;

typedef struct {
    size_t count; /* points that are used, at last by text and start               */
    lipsc_fit_point *points;
    size_t lengths, starts, texts;
    int measured;  /* x is not n itself                                             */
    size_t *n;     /* (lengths) increasing                                          */
    size_t *begin; /* (texts + 1) of each text among the starts                     */
    double *x, *y; /* (starts, lengths) NaN: no such window                         */
    /* (lengths, starts) the starts of each text by value */
    ranked *by_x, *by_y;
    size_t *times; /* (starts) how often each was drawn                             */
    size_t *drawn; /* (texts) the same of the texts                                 */
    double *X, *Y; /* (lengths)                                                     */
} work;

/* ---- Medians ----------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    const size_t x = *(const size_t *)a, y = *(const size_t *)b;
    return (x > y) - (x < y);
}

static int by_value(const void *a, const void *b) {
    const double x = ((const ranked *)a)->value, y = ((const ranked *)b)->value;
    return (x > y) - (x < y);
}

static int by_length(const void *a, const void *b) {
    const lipsc_fit_point *p = a, *q = b;
    if (p->text != q->text) return p->text < q->text ? -1 : 1;
    return (p->n > q->n) - (p->n < q->n);
}

static int by_start(const void *a, const void *b) {
    const lipsc_fit_point *p = a, *q = b;
    if (p->text != q->text) return p->text < q->text ? -1 : 1;
    return (p->start > q->start) - (p->start < q->start);
}

/* Median of ranked values, each counted as often as its start was drawn: a walk in place of
 * a sort for each resampling.  NaN when none was drawn. */
static double drawn_median(size_t count, const ranked *values, const size_t *times) {
    size_t total = 0, at = 0, passed = 0;
    for (size_t i = 0; i < count && values[i].value < INFINITY; i++)
        total += times[values[i].start];
    if (!total) return NAN;
    while ((passed += times[values[at].start]) <= (total - 1) / 2) at++;
    const double below = values[at].value;
    if (passed > total / 2) return below;
    do at++;
    while (!times[values[at].start]);
    return 0.5 * (below + values[at].value);
}

/* The mean over the drawn texts of the logarithm of the median in each. */
static double mean_log(const work *w, const ranked *values) {
    double sum = 0.0, texts = 0.0;
    for (size_t t = 0; t < w->texts; t++) {
        if (!w->drawn[t]) continue;
        const size_t first = w->begin[t], own = w->begin[t + 1] - first;
        sum += (double)w->drawn[t] * log(drawn_median(own, values + first, w->times));
        texts += (double)w->drawn[t];
    }
    return sum / texts;
}

/* X and Y of what was drawn; 0 when a length has no window. */
static int set_medians(work *w) {
    for (size_t l = 0; l < w->lengths; l++) {
        const size_t row = l * w->starts;
        w->X[l] = w->measured ? mean_log(w, w->by_x + row) : log((double)w->n[l]);
        w->Y[l] = mean_log(w, w->by_y + row);
        if (!isfinite(w->X[l]) || !isfinite(w->Y[l])) return 0;
    }
    return 1;
}

/* Everything once. */
static void draw_all(work *w) {
    for (size_t s = 0; s < w->starts; s++) w->times[s] = 1;
    for (size_t t = 0; t < w->texts; t++) w->drawn[t] = 1;
}

/* ---- The line ---------------------------------------------------------------------- */

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

static double spread(const work *w) {
    double low = w->X[0], high = w->X[0];
    for (size_t l = 1; l < w->lengths; l++) {
        low = lipsc_min(low, w->X[l]);
        high = lipsc_max(high, w->X[l]);
    }
    return exp(high - low);
}

static void local_slopes(const work *w, lipsc_fit *out, double *slopes) {
    out->slope_least = INFINITY;
    out->slope_most = -INFINITY;
    for (size_t l = 0; l + 1 < w->lengths; l++) {
        const double step = w->X[l + 1] - w->X[l];
        const double slope =
            fabs(step) > 1e-6 ? (w->Y[l + 1] - w->Y[l]) / step : (double)NAN;
        if (slopes) slopes[l] = slope;
        /* a slope that is not known makes both NaN, and then nothing counts as close */
        out->slope_least = lipsc_min(out->slope_least, slope);
        out->slope_most = lipsc_max(out->slope_most, slope);
    }
}

/* ---- Starts ------------------------------------------------------------------------ */

static size_t draw_one(size_t count, uint64_t seed, uint64_t *counter) {
    const size_t i = (size_t)(lipsc_rng_uniform(seed, (*counter)++) * (double)count);
    return i < count ? i : count - 1; /* the product may round up */
}

/* As many texts as there are, or in each text as many starts as it has. */
static void resample(work *w, int whole_texts, uint64_t seed, uint64_t *counter) {
    if (whole_texts) {
        memset(w->drawn, 0, w->texts * sizeof *w->drawn);
        for (size_t t = 0; t < w->texts; t++) w->drawn[draw_one(w->texts, seed, counter)]++;
        return;
    }
    memset(w->times, 0, w->starts * sizeof *w->times);
    for (size_t t = 0; t < w->texts; t++) {
        const size_t first = w->begin[t], own = w->begin[t + 1] - first;
        for (size_t i = 0; i < own; i++) w->times[first + draw_one(own, seed, counter)]++;
    }
}

/* What resamplings say: how the exponent scatters, and the parts of the curve that bend. */
typedef struct {
    size_t parts;
    double *P;             /* (parts, lengths)                      */
    double mean, squares;  /* of the exponent                       */
    double z[LIPSC_BENDS]; /* parts of the curve itself             */
    double middle[LIPSC_BENDS], S[LIPSC_BENDS][LIPSC_BENDS]; /* of resampled parts */
    double made; /* resamplings that say something        */
} scatter;

/* Parts of Y - exponent X: of X itself they are 0, but not of a resampled one. */
static void bent_parts(const work *w, const scatter *s, double exponent, double *z) {
    for (size_t i = 0; i < s->parts; i++) {
        z[i] = 0.0;
        for (size_t l = 0; l < w->lengths; l++)
            z[i] += s->P[i * w->lengths + l] * (w->Y[l] - exponent * w->X[l]);
    }
}

/* Means and sums of squares after Welford, one resampling more. */
static void add_scatter(const work *w, scatter *s, double exponent, double slope) {
    double z[LIPSC_BENDS], step[LIPSC_BENDS];
    bent_parts(w, s, exponent, z);
    s->made += 1.0;
    const double move = slope - s->mean;
    s->mean += move / s->made;
    s->squares += move * (slope - s->mean);
    for (size_t i = 0; i < s->parts; i++) {
        step[i] = z[i] - s->middle[i];
        s->middle[i] += step[i] / s->made;
        for (size_t j = 0; j <= i; j++) s->S[i][j] += step[i] * (z[j] - s->middle[j]);
    }
}

/* X and Y are lost. */
static void resample_all(work *w, int whole_texts, uint64_t seed, double exponent,
                         scatter *s) {
    uint64_t counter = 0;
    for (size_t r = 0; r < RESAMPLINGS; r++) {
        double slope, intercept;
        resample(w, whole_texts, seed, &counter);
        /* otherwise a length got no window, or the radii fell together */
        if (set_medians(w) && least_squares(w->lengths, w->X, w->Y, &slope, &intercept))
            add_scatter(w, s, exponent, slope);
    }
    const double scale = calibration * calibration / (s->made - 1.0);
    s->squares *= scale;
    for (size_t i = 0; i < s->parts; i++)
        for (size_t j = 0; j <= i; j++) s->S[i][j] *= scale;
}

/* Starts that have every length, and the fewest of them that one text has. */
static size_t complete(const work *w, size_t *fewest) {
    size_t found = 0;
    *fewest = w->starts;
    for (size_t t = 0; t < w->texts; t++) {
        const size_t before = found;
        for (size_t s = w->begin[t]; s < w->begin[t + 1]; s++) {
            size_t l = 0;
            while (l < w->lengths && !isnan(w->y[s * w->lengths + l])) l++;
            found += l == w->lengths;
        }
        if (found - before < *fewest) *fewest = found - before;
    }
    return found;
}

/* Whether the parts are 0 but for rounding of logarithms. */
static int no_parts(const work *w, const scatter *s) {
    double largest = 1.0, size = 0.0;
    for (size_t l = 0; l < w->lengths; l++) largest = lipsc_max(largest, fabs(w->Y[l]));
    for (size_t i = 0; i < s->parts; i++) size = lipsc_max(size, fabs(s->z[i]));
    return size <= 1e-13 * (double)w->lengths * largest;
}

static lipsc_status judge(work *w, int whole_texts, uint64_t seed, lipsc_fit *out) {
    const size_t freedom = (whole_texts ? w->texts : out->starts - w->texts + 1) - 1;
    scatter s = {.parts = 0};
    double *room = lipsc_alloc(w->lengths, (LIPSC_BENDS + 2) * sizeof *room);
    if (!room) return LIPSC_E_NOMEM;
    s.parts = lipsc_bends(w->lengths, w->X, room, &s.P);
    bent_parts(w, &s, out->exponent, s.z);
    const int straight = no_parts(w, &s);
    resample_all(w, whole_texts, seed, out->exponent, &s);
    if (s.made >= 0.95 * RESAMPLINGS) {
        const double t = lipsc_student_quantile((double)freedom, outside);
        out->low = out->exponent - t * sqrt(s.squares);
        out->high = out->exponent + t * sqrt(s.squares);
        if (straight)
            out->lack_of_fit = 1.0;
        else if (s.parts)
            out->lack_of_fit = lipsc_bend_test(s.parts, s.z, s.S, (double)freedom);
    }
    lipsc_release(room);
    return LIPSC_OK;
}

static lipsc_status fit(work *w, uint64_t seed, lipsc_fit *out, double *slopes,
                        lipsc_error *err) {
    double intercept;
    size_t fewest;
    *out = (lipsc_fit){.low = NAN,
                       .high = NAN,
                       .lack_of_fit = NAN,
                       .lengths = w->lengths,
                       .texts = w->texts};
    out->starts = complete(w, &fewest);
    if (w->lengths < FEWEST_LENGTHS)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "a fit needs three lengths from %d on, there are %zu", SHORTEST,
                          w->lengths);
    draw_all(w);
    set_medians(w);
    out->spread = spread(w);
    if ((w->measured && !(out->spread >= least_spread)) ||
        !least_squares(w->lengths, w->X, w->Y, &out->exponent, &intercept))
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "x varies by a factor %.3f over the lengths, a law needs %g",
                          out->spread, least_spread);
    out->coefficient = exp(intercept);
    local_slopes(w, out, slopes);
    const int whole_texts = w->texts >= LIPSC_FIT_STARTS;
    /* starts of few lengths only are other passages, which share tokens with these */
    if ((whole_texts ? fewest > 0 : fewest >= LIPSC_FIT_STARTS) &&
        2 * out->starts >= w->starts && judge(w, whole_texts, seed, out))
        return LIPSC_E_NOMEM;
    out->law =
        out->lack_of_fit >= least_p || out->slope_most - out->slope_least <= close_slopes;
    return LIPSC_OK;
}

/* ---- Points to a table ------------------------------------------------------------- */

static int usable(const lipsc_fit_point *p) {
    return p->n >= SHORTEST && p->x > 0.0 && p->y > 0.0 && isfinite(p->x) && isfinite(p->y);
}

static void take_points(work *w, size_t count, const lipsc_fit_point *points) {
    for (size_t i = 0; i < count; i++) {
        if (!usable(&points[i])) continue;
        w->measured |= points[i].x != (double)points[i].n;
        w->points[w->count++] = points[i];
    }
}

/* Keeps the lengths that every text has: means over different texts at different lengths
 * would take the difference of the texts for growth. */
static void find_lengths(work *w) {
    size_t places = 0, texts = 0, kept = 0;
    if (w->count) qsort(w->points, w->count, sizeof *w->points, by_length);
    for (size_t i = 0; i < w->count; i++) {
        const lipsc_fit_point *p = &w->points[i], *last = p - 1;
        const int text = !i || p->text != last->text;
        texts += (size_t)text;
        if (text || p->n != last->n) w->n[places++] = p->n; /* once for each text */
    }
    if (places) qsort(w->n, places, sizeof *w->n, by_size);
    for (size_t i = 0, j; i < places; i = j) {
        for (j = i; j < places && w->n[j] == w->n[i]; j++) continue;
        if (j - i == texts) w->n[w->lengths++] = w->n[i];
    }
    for (size_t i = 0; i < w->count; i++)
        if (bsearch(&w->points[i].n, w->n, w->lengths, sizeof *w->n, by_size))
            w->points[kept++] = w->points[i];
    w->count = kept;
}

static void find_starts(work *w) {
    if (w->count) qsort(w->points, w->count, sizeof *w->points, by_start);
    for (size_t i = 0; i < w->count; i++) {
        const lipsc_fit_point *p = &w->points[i], *last = p - 1;
        const int text = !i || p->text != last->text;
        if (text) w->begin[w->texts++] = w->starts;
        w->starts += text || p->start != last->start;
    }
    w->begin[w->texts] = w->starts;
}

/* The values in their places; of two in one place only one counts. */
static void fill_table(work *w) {
    size_t start = 0;
    for (size_t i = 0; i < w->starts * w->lengths; i++) w->x[i] = w->y[i] = NAN;
    for (size_t i = 0; i < w->count; i++) {
        const lipsc_fit_point *p = &w->points[i], *last = p - 1;
        start += i && (p->text != last->text || p->start != last->start);
        const size_t *at = bsearch(&p->n, w->n, w->lengths, sizeof *w->n, by_size);
        const size_t place = start * w->lengths + (size_t)(at - w->n);
        w->x[place] = p->x;
        w->y[place] = p->y;
    }
}

static void rank(const work *w, const double *values, ranked *by) {
    for (size_t l = 0; l < w->lengths; l++, by += w->starts) {
        for (size_t s = 0; s < w->starts; s++) {
            const double value = values[s * w->lengths + l];
            by[s] = (ranked){isnan(value) ? (double)INFINITY : value, s};
        }
        for (size_t t = 0; t < w->texts; t++)
            qsort(by + w->begin[t], w->begin[t + 1] - w->begin[t], sizeof *by, by_value);
    }
}

static int make_table(work *w) {
    size_t cells;
    if (!lipsc_mul_size(w->starts, w->lengths, &cells)) return 0;
    w->x = lipsc_alloc(cells, sizeof *w->x);
    w->y = lipsc_alloc(cells, sizeof *w->y);
    w->by_x = lipsc_alloc(cells, sizeof *w->by_x);
    w->by_y = lipsc_alloc(cells, sizeof *w->by_y);
    w->X = lipsc_alloc(w->lengths, sizeof *w->X);
    w->Y = lipsc_alloc(w->lengths, sizeof *w->Y);
    w->times = lipsc_alloc(w->starts, sizeof *w->times);
    w->drawn = lipsc_alloc(w->texts, sizeof *w->drawn);
    if (!w->x || !w->y || !w->by_x || !w->by_y || !w->X || !w->Y || !w->times || !w->drawn)
        return 0;
    fill_table(w);
    rank(w, w->x, w->by_x);
    rank(w, w->y, w->by_y);
    return 1;
}

static void work_free(work *w) {
    void *const parts[] = {w->points, w->n,     w->begin, w->x, w->y, w->by_x,
                           w->by_y,   w->times, w->drawn, w->X, w->Y};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) lipsc_release(parts[i]);
}

lipsc_status lipsc_fit_power(size_t count, const lipsc_fit_point *points, uint64_t seed,
                             lipsc_fit *out, double *slopes, lipsc_error *err) {
    if ((count && !points) || !out) return lipsc_fail(err, LIPSC_E_ARG, "nothing to fit");
    work w = {.points = lipsc_alloc(count, sizeof *w.points),
              .n = lipsc_alloc(count, sizeof *w.n),
              .begin = lipsc_alloc(count + 1, sizeof *w.begin)};
    lipsc_status status = LIPSC_E_NOMEM;
    if (w.points && w.n && w.begin) {
        take_points(&w, count, points);
        find_lengths(&w);
        find_starts(&w);
        if (make_table(&w)) status = fit(&w, seed, out, slopes, err);
    }
    if (status == LIPSC_E_NOMEM) lipsc_fail(err, status, "out of memory for a fit");
    work_free(&w);
    return status;
}
