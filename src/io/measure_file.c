/* measure_file.c - a measure from a safetensors file, a .npy array or a CSV table.
 *
 *     safetensors   points (n,d), optional weights (n) and times (n)
 *     .npy          points (n,d), or (n): d = 1
 *     CSV           a point per line; a header may call a column weights or times */
#include "io/measure_file.h"

#include "core/error.h"
#include "core/mem.h"
#include "io/csv.h"
#include "io/mapfile.h"
#include "io/npy.h"
#include "io/safetensors.h"
#include "io/show.h"

#include <math.h>
#include <string.h>

static const double sum_tolerance = 1e-9; /* of numbers that stand there in double */

/* Points, weights and times in one block. */
typedef struct {
    size_t n, d;
    int has_weights, has_times;
    double rounding; /* of the type in which weights are stored; 0: double */
    double *storage, *points, *weights, *times; /* the last two: NULL when absent */
} parts;

static lipsc_status allocate(parts *p, const char *shown, lipsc_error *err) {
    if (p->n == 0 || p->d == 0)
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: the measure is empty", shown);
    if (p->d > SIZE_MAX - 2 ||
        !(p->storage = lipsc_alloc(p->n, (p->d + 2) * sizeof(double))))
        return lipsc_fail(err, LIPSC_E_NOMEM, "%s: no memory for the measure", shown);
    p->points = p->storage;
    p->weights = p->has_weights ? p->storage + p->n * p->d : NULL;
    p->times = p->has_times ? p->storage + p->n * (p->d + 1) : NULL;
    return LIPSC_OK;
}

/* ---- What the numbers have to be ---- */

/* Weights that were divided by their sum in the type in which they are stored: that sum,
 * taken in pairs as is usual, is off by a rounding for each doubling, and so is theirs. */
static double tolerance_of(const parts *p) {
    const double own = 2.0 * p->rounding * (2.0 + log2((double)p->n));
    return own > sum_tolerance ? own : sum_tolerance;
}

static void divide(const parts *p, double sum) {
    for (size_t i = 0; i < p->n; i++) p->weights[i] /= sum;
}

static lipsc_status check_weights(const parts *p, int normalise, const char *shown,
                                  lipsc_error *err) {
    double sum = 0.0;
    for (size_t i = 0; i < p->n; i++) {
        if (!isfinite(p->weights[i]))
            return lipsc_fail(err, LIPSC_E_NONFIN, "%s: weight %zu is not finite", shown,
                              i);
        if (!(p->weights[i] > 0))
            return lipsc_fail(err, LIPSC_E_FORMAT,
                              "%s: weight %zu is %.17g, but weights must be positive",
                              shown, i, p->weights[i]);
        sum += p->weights[i];
    }
    if (normalise) {
        if (!isfinite(sum))
            return lipsc_fail(err, LIPSC_E_RANGE, "%s: the sum of the weights overflows",
                              shown);
        divide(p, sum);
        for (size_t i = 0; i < p->n; i++)
            if (!(p->weights[i] > 0))
                return lipsc_fail(err, LIPSC_E_RANGE,
                                  "%s: weight %zu vanishes beside the others", shown, i);
    } else if (!(fabs(sum - 1.0) <= tolerance_of(p))) {
        return lipsc_fail(
            err, LIPSC_E_FORMAT,
            "%s: the weights sum to %.17g, not to 1; they can be divided by it "
            "(normalise)",
            shown, sum);
    } else if (!(fabs(sum - 1.0) <= sum_tolerance)) {
        divide(p, sum);
    }
    return LIPSC_OK;
}

static lipsc_status check_parts(const parts *p, int normalise, const char *shown,
                                lipsc_error *err) {
    for (size_t i = 0; i < p->n * p->d; i++)
        if (!isfinite(p->points[i]))
            return lipsc_fail(err, LIPSC_E_NONFIN, "%s: point %zu holds %s", shown,
                              i / p->d, isnan(p->points[i]) ? "a NaN" : "an infinity");
    for (size_t i = 0; p->times && i < p->n; i++)
        if (!(p->times[i] >= 0 && p->times[i] <= 1))
            return lipsc_fail(err, LIPSC_E_FORMAT,
                              "%s: time %zu is %.17g, but times lie in [0, 1]", shown, i,
                              p->times[i]);
    return p->weights ? check_weights(p, normalise, shown, err) : LIPSC_OK;
}

/* ---- The three kinds of file ---- */

static lipsc_status check_vector(const lipsc_st_tensor *t, size_t n, const char *shown,
                                 lipsc_error *err) {
    if (!t || (t->ndim == 1 && t->count == n)) return LIPSC_OK;
    char shape[LIPSC_SHOWN_SHAPE];
    lipsc_show_shape(t->ndim, t->shape, shape);
    return lipsc_fail(err, LIPSC_E_FORMAT,
                      "%s: tensor '%s' has shape %s, but there are %zu points", shown,
                      t->name, shape, n);
}

static double rounding_of(lipsc_st_type type) {
    switch (type) {
    case LIPSC_ST_F32:
        return 0x1p-24;
    case LIPSC_ST_F16:
        return 0x1p-11;
    case LIPSC_ST_BF16:
        return 0x1p-8;
    default:
        return 0.0;
    }
}

static lipsc_status take_tensors(const lipsc_st *st, const char *shown, parts *p,
                                 lipsc_error *err) {
    const lipsc_st_tensor *points = lipsc_st_find(st, "points");
    const lipsc_st_tensor *weights = lipsc_st_find(st, "weights");
    const lipsc_st_tensor *times = lipsc_st_find(st, "times");
    if (!points)
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: tensor 'points' is missing", shown);
    if (points->ndim != 2)
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: tensor 'points' must be a matrix",
                          shown);
    p->n = points->shape[0];
    p->d = points->shape[1];
    p->has_weights = weights != NULL;
    p->has_times = times != NULL;
    lipsc_status status = check_vector(weights, p->n, shown, err);
    if (!status) status = check_vector(times, p->n, shown, err);
    if (!status) status = allocate(p, shown, err);
    if (!status) status = lipsc_st_read_f64(st, points, 0, points->count, p->points, err);
    if (weights) p->rounding = rounding_of(weights->type);
    if (!status && weights)
        status = lipsc_st_read_f64(st, weights, 0, p->n, p->weights, err);
    if (!status && times) status = lipsc_st_read_f64(st, times, 0, p->n, p->times, err);
    return status;
}

static lipsc_status take_array(const uint8_t *bytes, size_t length, const char *shown,
                               parts *p, lipsc_error *err) {
    double *values;
    lipsc_status status = lipsc_npy_parse(bytes, length, shown, &p->n, &p->d, &values, err);
    if (status) return status;
    status = allocate(p, shown, err);
    if (!status) memcpy(p->points, values, p->n * p->d * sizeof *values);
    lipsc_release(values);
    return status;
}

static lipsc_status take_table(const uint8_t *bytes, size_t length, const char *shown,
                               parts *p, lipsc_error *err) {
    lipsc_csv table;
    lipsc_status status = lipsc_csv_parse(bytes, length, shown, &table, err);
    if (status) return status;
    p->has_weights = table.weights != LIPSC_CSV_NONE;
    p->has_times = table.times != LIPSC_CSV_NONE;
    p->n = table.rows;
    p->d = table.columns - (size_t)p->has_weights - (size_t)p->has_times;
    status = allocate(p, shown, err);
    for (size_t i = 0, to = 0; !status && i < table.rows; i++)
        for (size_t c = 0; c < table.columns; c++) {
            const double value = table.values[i * table.columns + c];
            if ((long)c == table.weights)
                p->weights[i] = value;
            else if ((long)c == table.times)
                p->times[i] = value;
            else
                p->points[to++] = value;
        }
    lipsc_release(table.values);
    return status;
}

/* Eight bytes of header length, then JSON. */
static int looks_like_safetensors(const uint8_t *bytes, size_t length) {
    return length > 8 && bytes[8] == '{' && (bytes[7] == 0 || bytes[0] == 0);
}

lipsc_status lipsc_measure_from_bytes(const uint8_t *bytes, size_t length,
                                      const char *name_for_errors, int normalise,
                                      lipsc_measure_file *out, lipsc_error *err) {
    char shown[LIPSC_SHOWN_PATH];
    parts p = {0};
    lipsc_status status;
    lipsc_show_path(name_for_errors, shown);
    if (lipsc_npy_recognised(bytes, length)) {
        status = take_array(bytes, length, shown, &p, err);
    } else if (looks_like_safetensors(bytes, length)) {
        lipsc_st *st;
        status = lipsc_st_parse(bytes, length, name_for_errors, &st, err);
        if (!status) {
            status = take_tensors(st, shown, &p, err);
            lipsc_st_free(st);
        }
    } else {
        status = take_table(bytes, length, shown, &p, err);
    }
    if (!status) status = check_parts(&p, normalise, shown, err);
    if (status) {
        lipsc_release(p.storage);
        return status;
    }
    out->measure = (lipsc_measure){p.n, p.d, p.points, p.weights, p.times};
    out->storage = p.storage;
    return LIPSC_OK;
}

lipsc_status lipsc_measure_file_read(const char *path, int normalise,
                                     lipsc_measure_file *out, lipsc_error *err) {
    lipsc_mapfile map;
    lipsc_status status = lipsc_mapfile_open(path, &map, err);
    if (status) return status;
    status = lipsc_measure_from_bytes(map.data, map.size, path, normalise, out, err);
    lipsc_mapfile_close(&map);
    return status;
}

void lipsc_measure_file_free(lipsc_measure_file *file) {
    if (!file) return;
    lipsc_release(file->storage);
    *file = (lipsc_measure_file){0};
}
