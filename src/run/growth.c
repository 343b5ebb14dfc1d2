/* growth.c - rows of sigma in their order, and the growth laws fitted to them. */
#include "run/growth.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "run/fit.h"

/* ---- Order ------------------------------------------------------------------------- */

/* -1 where there is none, as for all heads together. */
static json_int_t place(const json_t *row, const char *name) {
    const json_t *value = json_object_get(row, name);
    return json_is_integer(value) ? json_integer_value(value) : -1;
}

static int by_place(const void *a, const void *b) {
    static const char *const names[] = {"layer", "head", "n", "window"};
    const json_t *const *left = a, *const *right = b;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const json_int_t x = place(*left, names[i]), y = place(*right, names[i]);
        if (x != y) return x < y ? -1 : 1;
    }
    return 0;
}

void lipsc_rows_sort(size_t count, json_t **rows) {
    if (count) qsort(rows, count, sizeof *rows, by_place);
}

/* ---- Fits -------------------------------------------------------------------------- */

static double number(const json_t *row, const char *name) {
    return json_number_value(json_object_get(row, name));
}

static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *reals(size_t count, const double *values) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) json_array_append_new(list, real(values[i]));
    return list;
}

/* What is fitted to which of the rows. */
typedef struct {
    size_t count;
    json_t *const *rows; /* of one layer and head                                    */
    size_t *text;        /* (count) number of the text of each                       */
    size_t texts;
    const char **hashes; /* (texts)                                                  */
    lipsc_fit_point *points;
    double *slopes;
} curve;

static json_t *fit_row(const curve *c, const char *text, const char *against) {
    static const char *const same[] = {"layer", "head", "map"};
    json_t *out = json_object();
    for (size_t i = 0; i < 3; i++)
        json_object_set(out, same[i], json_object_get(c->rows[0], same[i]));
    json_object_set_new(out, "text", text ? json_string(text) : json_null());
    json_object_set_new(out, "against", json_string(against));
    return out;
}

void lipsc_fit_set(json_t *out, const lipsc_fit *fit, const double *slopes,
                   const char *refused) {
    const int good = !refused;
    json_object_set_new(out, "exponent", real(good ? fit->exponent : NAN));
    json_object_set_new(out, "exponent_low", real(good ? fit->low : NAN));
    json_object_set_new(out, "exponent_high", real(good ? fit->high : NAN));
    json_object_set_new(out, "coefficient", real(good ? fit->coefficient : NAN));
    json_object_set_new(out, "lengths", json_integer((json_int_t)fit->lengths));
    json_object_set_new(out, "starts", json_integer((json_int_t)fit->starts));
    json_object_set_new(out, "texts", json_integer((json_int_t)fit->texts));
    json_object_set_new(out, "law", good ? json_boolean(fit->law) : json_null());
    json_object_set_new(out, "lack_of_fit", real(good ? fit->lack_of_fit : NAN));
    json_object_set_new(out, "slopes",
                        good ? reals(fit->lengths - 1, slopes) : json_null());
    json_object_set_new(out, "refused", good ? json_null() : json_string(refused));
}

/* Where the window begins; rows of the first edition do not say it: their windows lie one
 * behind the other. */
static size_t start_of(const json_t *row, json_int_t n) {
    const json_int_t start = place(row, "start"), window = place(row, "window");
    if (start >= 0) return (size_t)start;
    return window > 0 && n > 0 ? (size_t)window * (size_t)n : 0;
}

/* Of text number `text`, or of all with SIZE_MAX. */
static void fit_texts(const curve *c, size_t text, uint64_t seed, json_t *fits) {
    static const char *const against[] = {"n", "radius"};
    for (size_t a = 0; a < 2; a++) {
        lipsc_fit fit;
        size_t used = 0;
        for (size_t i = 0; i < c->count; i++) {
            const json_int_t n = place(c->rows[i], "n");
            if (text != SIZE_MAX && text != c->text[i]) continue;
            c->points[used++] =
                (lipsc_fit_point){.n = n > 0 ? (size_t)n : 0,
                                  .start = start_of(c->rows[i], n),
                                  .text = c->text[i],
                                  .x = a ? number(c->rows[i], "radius_rms") : (double)n,
                                  .y = number(c->rows[i], "sigma")};
        }
        const lipsc_status status =
            lipsc_fit_power(used, c->points, seed, &fit, c->slopes, NULL);
        if (status && (status != LIPSC_E_REFUSED || fit.lengths < 3)) continue;
        char reason[96];
        snprintf(reason, sizeof reason, "the %s varies only by a factor %.3f",
                 a ? "radius" : "length", fit.spread);
        json_t *row = fit_row(c, text == SIZE_MAX ? NULL : c->hashes[text], against[a]);
        lipsc_fit_set(row, &fit, c->slopes, status ? reason : NULL);
        json_array_append_new(fits, row);
    }
}

static void find_texts(curve *c) {
    for (size_t i = 0; i < c->count; i++) {
        const char *hash = json_string_value(json_object_get(c->rows[i], "text_hash"));
        size_t t = 0;
        while (t < c->texts && strcmp(c->hashes[t], hash ? hash : "")) t++;
        if (t == c->texts) c->hashes[c->texts++] = hash ? hash : "";
        c->text[i] = t;
    }
}

/* One layer and head; 0 when memory is short. */
static int fit_curve(size_t count, json_t *const *rows, uint64_t seed, json_t *fits) {
    curve c = {.count = count,
               .rows = rows,
               .text = lipsc_alloc(count, sizeof *c.text),
               .hashes = lipsc_alloc(count, sizeof *c.hashes),
               .points = lipsc_alloc(count, sizeof *c.points),
               .slopes = lipsc_alloc(count, sizeof *c.slopes)};
    const int good = c.text && c.hashes && c.points && c.slopes;
    if (good) {
        find_texts(&c);
        fit_texts(&c, SIZE_MAX, seed, fits);
        for (size_t t = 0; t < c.texts && c.texts > 1; t++) fit_texts(&c, t, seed, fits);
    }
    lipsc_release(c.text);
    lipsc_release(c.hashes);
    lipsc_release(c.points);
    lipsc_release(c.slopes);
    return good;
}

json_t *lipsc_rows_fit(size_t count, json_t *const *rows, uint64_t seed) {
    json_t *fits = json_array();
    int good = 1;
    for (size_t at = 0, length; good && at < count; at += length) {
        const json_int_t layer = place(rows[at], "layer"), head = place(rows[at], "head");
        for (length = 1; at + length < count; length++)
            if (place(rows[at + length], "layer") != layer ||
                place(rows[at + length], "head") != head)
                break;
        good = fit_curve(length, rows + at, seed, fits);
    }
    if (!good) {
        json_decref(fits);
        fits = NULL;
    }
    return fits;
}

const char *lipsc_fit_verdict(const json_t *fit) {
    const char *refused = json_string_value(json_object_get(fit, "refused"));
    if (refused) return refused;
    if (json_is_true(json_object_get(fit, "law"))) return "power law";
    /* without a test the slopes may differ by chance */
    return json_is_number(json_object_get(fit, "lack_of_fit")) ? "no power law"
                                                               : "no power law shown";
}
