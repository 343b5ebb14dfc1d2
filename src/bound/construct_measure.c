/* construct_measure.c - measures: two Diracs of very unequal mass, and outliers at every
 * time scale (docs/maths.md 5.3, 5.4). */
#include <math.h>
#include <string.h>

#include "bound/construct.h"
#include "bound/outlier.h"
#include "core/error.h"
#include "core/mem.h"

static double phi(double delta, double z) {
    return sqrt(z) / (1.0 + z) * (1.0 + z * delta / (1.0 + z));
}

/* With s = sqrt(z), phi = s/(1+s^2) + Delta s^3/(1+s^2)^2, and phi' = 0 becomes
 *     (1 - z)(1 + z) + Delta z (3 - z) = 0:
 * positive at z = 1, negative at z = 3 (zero at 1 when Delta = 0). */
double lipsc_best_phi(double delta, double *z) {
    const double half = 1.5 * delta / (1.0 + delta); /* (1+D) z^2 - 3 D z - 1 = 0 */
    *z = half + sqrt(half * half + 1.0 / (1.0 + delta));
    return phi(delta, *z);
}

/* The pair of the best Delta, with the mass ratio e = e^{-Delta}/z* of outlier to bulk. */
static lipsc_status best_pair(const lipsc_head_facts *f, double R, lipsc_outlier *o,
                              double *z, double *log_phi, lipsc_error *err) {
    lipsc_status status = lipsc_outlier_new(f, o);
    if (!status) status = lipsc_outlier_best(f, R, 0, o);
    if (status) {
        lipsc_outlier_free(o);
        return lipsc_fail(err, status, "%s", lipsc_strerror(status));
    }
    *log_phi = log(lipsc_best_phi(o->delta, z));
    if (o->delta > 650.0) {
        const double delta = o->delta;
        lipsc_outlier_free(o);
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "its mass ratio e^-%.6g is too small for a double", delta);
    }
    return LIPSC_OK;
}

lipsc_status lipsc_construct_diracs(const lipsc_head_facts *f, double R, lipsc_worst *out,
                                    lipsc_error *err) {
    lipsc_outlier o;
    double z, log_phi, norm = 0.0;
    lipsc_status status = best_pair(f, R, &o, &z, &log_phi, err);
    if (status) return status;
    status = lipsc_worst_new(2, f->d, 0, out);
    if (!status) {
        const double ratio = exp(-o.delta) / z, p = 1.0 / (1.0 + z);
        out->count[0] = ratio / (1.0 + ratio);
        out->count[1] = 1.0 / (1.0 + ratio);
        memcpy(out->X, o.y, f->d * sizeof *o.y);
        memcpy(out->X + f->d, o.x, f->d * sizeof *o.x);
        out->delta = o.delta;
        /* e^{Delta/2} sqrt(z)/(1+z) |V (I + (1-p) b w^T)|, at least e^{Delta/2} phi gain */
        status = lipsc_head_facts_stretch(f, 1.0, 1.0 - p, o.b, o.w, &norm);
        out->log_promised = 0.5 * o.delta + 0.5 * log(z) - log1p(z) + log(norm);
        if (status) lipsc_worst_free(out);
    }
    lipsc_outlier_free(&o);
    return status ? lipsc_fail(err, status, "%s", lipsc_strerror(status)) : LIPSC_OK;
}

lipsc_status lipsc_construct_scales(const lipsc_head_facts *f, double R, size_t fibres,
                                    double growth, lipsc_worst *out, lipsc_error *err) {
    lipsc_outlier o;
    double z, log_phi;
    lipsc_status status = best_pair(f, R, &o, &z, &log_phi, err);
    if (status) return status;
    status = lipsc_worst_new(2 * fibres, f->d, 1, out);
    if (!status) {
        const double ratio = exp(-o.delta) / z;
        double mass = 0.0;
        for (size_t t = 0; t < fibres; t++) mass += pow(growth, (double)t - (double)fibres);
        for (size_t t = 0; t < fibres; t++) {
            const double cell = pow(growth, (double)t - (double)fibres) / mass;
            out->count[2 * t] = cell * ratio / (1.0 + ratio);
            out->count[2 * t + 1] = cell / (1.0 + ratio);
            out->times[2 * t] = out->times[2 * t + 1] = (double)(t + 1) / (double)fibres;
            memcpy(out->X + 2 * t * f->d, o.y, f->d * sizeof *o.y);
            memcpy(out->X + (2 * t + 1) * f->d, o.x, f->d * sizeof *o.x);
        }
        out->delta = o.delta;
        out->log_promised = log(2.0) + 0.5 * o.delta + log_phi + log(o.gain);
    }
    lipsc_outlier_free(&o);
    return status ? lipsc_fail(err, status, "%s", lipsc_strerror(status)) : LIPSC_OK;
}
