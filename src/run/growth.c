/* growth.c - rows of sigma in their order, and the growth laws fitted to them. */
#include "run/growth.h"

#include <math.h>
#include <stdlib.h>

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

static json_t *fit_row(const json_t *row, const char *against, const lipsc_fit *fit) {
    json_t *out = json_object();
    json_object_set(out, "layer", json_object_get(row, "layer"));
    json_object_set(out, "head", json_object_get(row, "head"));
    json_object_set(out, "map", json_object_get(row, "map"));
    json_object_set_new(out, "against", json_string(against));
    json_object_set_new(out, "exponent", real(fit->exponent));
    json_object_set_new(out, "exponent_low", real(fit->low));
    json_object_set_new(out, "exponent_high", real(fit->high));
    json_object_set_new(out, "coefficient", real(fit->coefficient));
    json_object_set_new(out, "lengths", json_integer((json_int_t)fit->lengths));
    return out;
}

/* One layer and head. */
static void fit_curve(size_t count, json_t *const *rows, uint64_t seed,
                      lipsc_fit_point *points, json_t *fits) {
    static const char *const against[] = {"n", "radius"};
    for (size_t a = 0; a < 2; a++) {
        lipsc_fit fit;
        for (size_t i = 0; i < count; i++) {
            const json_int_t n = place(rows[i], "n");
            points[i] =
                (lipsc_fit_point){.n = n > 0 ? (size_t)n : 0,
                                  .x = a ? number(rows[i], "radius_rms") : (double)n,
                                  .y = number(rows[i], "sigma")};
        }
        if (!lipsc_fit_power(count, points, seed, &fit, NULL))
            json_array_append_new(fits, fit_row(rows[0], against[a], &fit));
    }
}

json_t *lipsc_rows_fit(size_t count, json_t *const *rows, uint64_t seed) {
    json_t *fits = json_array();
    lipsc_fit_point *points = lipsc_alloc(count, sizeof *points);
    for (size_t at = 0, length; points && at < count; at += length) {
        const json_int_t layer = place(rows[at], "layer"), head = place(rows[at], "head");
        for (length = 1; at + length < count; length++)
            if (place(rows[at + length], "layer") != layer ||
                place(rows[at + length], "head") != head)
                break;
        fit_curve(length, rows + at, seed, points, fits);
    }
    if (!points) {
        json_decref(fits);
        fits = NULL;
    }
    lipsc_release(points);
    return fits;
}
