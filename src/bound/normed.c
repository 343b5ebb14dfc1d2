/* normed.c - bounds of a norm followed by the layer (docs/maths.md 3.11).
 *
 *     |J(f o N)(X)| <= bound(f) * max_i |DN(x_i)|,   |DN(x)| <= sqrt(d) max|g| / r(x),
 * with r(x) >= sqrt(d eps), and every N(x) in the ball of radius R_N. */
#include "bound/zoo.h"

#include <math.h>

#include "core/error.h"
#include "core/extreme.h"

const char *lipsc_normed_refuse(const lipsc_zoo_case *z) {
    return z->norm ? NULL : "no norm in front of the layer";
}

/* The sharper of the bounds over the ball of radius R_N, whatever the mask. */
static lipsc_status over_image(const lipsc_zoo_case *z, double *log_value,
                               lipsc_error *err) {
    static const char *const candidates[] = {"finite-n", "masked-finite-n", "rows"};
    lipsc_zoo_case image = *z;
    image.radius = z->norm->radius;
    *log_value = INFINITY;
    lipsc_zoo_row row;
    for (size_t c = 0; c < sizeof candidates / sizeof *candidates; c++) {
        const lipsc_zoo_rule *rule = lipsc_zoo_find(candidates[c]);
        const lipsc_status status = lipsc_zoo_evaluate(&image, rule, &row);
        if (status) return status;
        if (*row.refused) continue;
        *log_value =
            lipsc_min(*log_value, isnan(row.log_value) ? -INFINITY : row.log_value);
    }
    if (*log_value == INFINITY) return lipsc_fail(err, LIPSC_E_REFUSED, "%s", row.refused);
    return LIPSC_OK;
}

lipsc_status lipsc_normed_data(const lipsc_zoo_case *z, double *log_value,
                               lipsc_error *err) {
    const lipsc_status status = lipsc_data_best(z, log_value, err);
    if (!status) *log_value += log(z->norm->here);
    return status;
}

lipsc_status lipsc_normed_here(const lipsc_zoo_case *z, double *log_value,
                               lipsc_error *err) {
    const lipsc_status status = over_image(z, log_value, err);
    if (!status) *log_value += log(z->norm->here);
    return status;
}

lipsc_status lipsc_normed_everywhere(const lipsc_zoo_case *z, double *log_value,
                                     lipsc_error *err) {
    const lipsc_status status = over_image(z, log_value, err);
    if (!status) *log_value += log(z->norm->everywhere);
    return status;
}
