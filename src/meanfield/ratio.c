/* ratio.c - how far the images of two measures are apart, beside the measures. */
#include "core/error.h"
#include "meanfield/meanfield.h"

#include <math.h>

static lipsc_status apart(const lipsc_measure *a, const lipsc_measure *b,
                          const lipsc_distance_settings *set, double *distance, double *gap,
                          const char **method, lipsc_error *err) {
    lipsc_distance found;
    const lipsc_status status = lipsc_distance_between(a, b, set, &found, err);
    if (status) return status;
    *distance = found.distance;
    *gap = found.gap;
    *method = found.method;
    lipsc_distance_free(&found);
    return LIPSC_OK;
}

lipsc_status lipsc_ratio_between(const lipsc_layer *layer, const lipsc_measure *a,
                                 const lipsc_measure *b, const lipsc_distance_settings *set,
                                 const lipsc_device *device, lipsc_ratio *out,
                                 lipsc_error *err) {
    lipsc_ratio r;
    lipsc_cloud image_a, image_b;
    lipsc_distance_settings usual;
    lipsc_distance_defaults(&usual);
    usual.conditional = a->times && b->times;
    if (!set) set = &usual;
    lipsc_status status = apart(a, b, set, &r.before, &r.gap_before, &r.method_before, err);
    if (status) return status;
    if (!(r.before > 0.0))
        return lipsc_fail(err, LIPSC_E_REFUSED, "the two measures are the same");
    if ((status = lipsc_measure_push(layer, a, device, &image_a, err))) return status;
    status = lipsc_measure_push(layer, b, device, &image_b, err);
    if (!status) {
        status = apart(&image_a.measure, &image_b.measure, set, &r.after, &r.gap_after,
                       &r.method_after, err);
        lipsc_cloud_free(&image_b);
    }
    lipsc_cloud_free(&image_a);
    r.ratio = r.after / r.before;
    if (!status) *out = r;
    return status;
}

lipsc_status lipsc_gauss_ratio(const lipsc_layer *layer, const lipsc_gauss *a,
                               const lipsc_gauss *b, lipsc_ratio *out, lipsc_error *err) {
    lipsc_gauss_file to[2] = {{.storage = NULL}, {.storage = NULL}};
    *out = (lipsc_ratio){.gap_before = NAN,
                         .gap_after = NAN,
                         .method_before = "gaussian",
                         .method_after = "gaussian"};
    lipsc_status status = lipsc_gauss_distance(a, b, &out->before, err);
    if (!status) status = lipsc_gauss_image(layer, a, &to[0], NULL, err);
    if (!status) status = lipsc_gauss_image(layer, b, &to[1], NULL, err);
    if (!status)
        status = lipsc_gauss_distance(&to[0].gauss, &to[1].gauss, &out->after, err);
    out->ratio = out->before > 0.0 ? out->after / out->before : NAN;
    lipsc_gauss_file_free(&to[0]);
    lipsc_gauss_file_free(&to[1]);
    return status;
}
