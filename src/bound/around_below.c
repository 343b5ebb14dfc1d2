/* around_below.c - the largest neighbourhood of an input over which |J| is proved to stay
 * below a limit: radii are tried, each with the bound of around.c. */
#include <math.h>

#include "bound/zoo.h"
#include "core/error.h"

/* value <= limit; a neighbourhood whose bounds overflow is above. */
static lipsc_status is_below(const lipsc_zoo_case *z, double r, double limit,
                             lipsc_around *best, int *below, lipsc_error *err) {
    lipsc_around found;
    const lipsc_status status = lipsc_around_at(z, r, &found, err);
    *below = !status && found.value <= limit;
    if (*below) *best = found;
    return status == LIPSC_E_RANGE ? LIPSC_OK : status;
}

/* From radii that do and do not by halves; a bracket that is not found yet takes one more
 * and spans the factor of eight. */
static size_t radii_left(double does, double does_not, double close) {
    const int found = does > 0.0 && does_not < INFINITY;
    const double halves = ceil(log2(log(found ? does_not / does : 8.0) / log(close)));
    return (found ? 0 : 1) + (halves > 0.0 ? (size_t)halves : 0);
}

lipsc_status lipsc_around_below(const lipsc_zoo_case *z, double limit, lipsc_around *out,
                                lipsc_error *err) {
    enum { STEPS = 40 }; /* of a factor of eight, from a thousandth upwards or down */
    const double close = 1.002; /* to the smallest radius that was seen not to do */
    const double mean = lipsc_mean_token(z->n, z->layer->d, z->attn->input.X);
    double r = (mean > 0.0 ? mean : 1.0) * 0x1p-10, above = INFINITY;
    int below = 0;
    if (!(limit > 0.0 && limit < INFINITY))
        return lipsc_fail(err, LIPSC_E_ARG, "the limit is not a positive number");
    lipsc_around best = {0};
    lipsc_zoo_expect(z, 2 + radii_left(0.0, above, close));
    lipsc_status status = lipsc_around_at(z, 0.0, &best, err);
    if (status) return status;
    if (!(best.value <= limit))
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "the bound at the input itself, %.6g, is above %.6g already",
                          best.value, limit);
    for (int step = 0; !status && step < STEPS; step++) {
        lipsc_zoo_expect(z, 1 + radii_left(best.radius, above, close));
        status = is_below(z, r, limit, &best, &below, err);
        if (!below) above = r;
        if (best.radius > 0.0 && above < INFINITY) break;
        r = below ? 8.0 * r : r / 8.0;
    }
    while (!status && best.radius > 0.0 && above > close * best.radius &&
           above < INFINITY) {
        lipsc_zoo_expect(z, radii_left(best.radius, above, close));
        r = sqrt(best.radius * above);
        status = is_below(z, r, limit, &best, &below, err);
        if (!below) above = r;
    }
    if (!status) *out = best;
    return status;
}

/* ---- Both questions about a layer and its input ------------------------------------- */

typedef lipsc_status (*question)(const lipsc_zoo_case *z, double number, lipsc_around *out,
                                 lipsc_error *err);

static lipsc_status ask(lipsc_attn *attn, question about, double number, lipsc_around *out,
                        lipsc_error *err) {
    lipsc_zoo_case zoo;
    if (!attn || !out) return lipsc_fail(err, LIPSC_E_ARG, "attn or out is NULL");
    lipsc_status status = lipsc_zoo_case_make(attn, NAN, 2.0, NULL, &zoo, err);
    if (!status) status = about(&zoo, number, out, err);
    lipsc_zoo_case_free(&zoo);
    return status;
}

lipsc_status lipsc_attn_around(lipsc_attn *attn, double radius, lipsc_around *out,
                               lipsc_error *err) {
    return ask(attn, lipsc_around_at, radius, out, err);
}

lipsc_status lipsc_attn_below(lipsc_attn *attn, double limit, lipsc_around *out,
                              lipsc_error *err) {
    return ask(attn, lipsc_around_below, limit, out, err);
}
