/* worst.c - the constructions as lower bounds over a ball: the value that the whole layer
 * reaches at the worst case of its head of largest a. */
#include "bound/zoo.h"

#include <math.h>

#include "bound/construct.h"
#include "core/error.h"
#include "core/extreme.h"

const char *lipsc_worst_refuse(const lipsc_zoo_case *z) {
    const char *why = lipsc_refuse_biased(z);
    if (!why) why = lipsc_refuse_weights(z);
    if (why) return why;
    return z->layer->mask == LIPSC_MASK_NONE || z->layer->mask == LIPSC_MASK_CAUSAL
               ? NULL
               : "stated without a mask and for a causal one";
}

static const lipsc_head_facts *largest_head(const lipsc_zoo_case *z) {
    size_t largest = 0;
    for (size_t h = 1; h < z->layer->heads; h++)
        if (lipsc_a2(z, h) > lipsc_a2(z, largest)) largest = h;
    return &z->head[largest];
}

static int is_causal(const lipsc_zoo_case *z) {
    return z->layer->mask == LIPSC_MASK_CAUSAL;
}

/* Raises *log_value to what the construction reaches, and frees it. */
static lipsc_status raise(const lipsc_zoo_case *z, lipsc_worst *worst, double *log_value,
                          lipsc_error *err) {
    double sigma;
    const lipsc_status status = lipsc_worst_reach_until(
        z->layer, worst, lipsc_cpu_of(lipsc_attn_threads(z->attn)), z->given, &sigma, err);
    lipsc_worst_free(worst);
    if (!status) *log_value = lipsc_max(*log_value, log(sigma));
    return status;
}

lipsc_status lipsc_worst_one(const lipsc_zoo_case *z, double *log_value, lipsc_error *err) {
    lipsc_worst worst;
    lipsc_status status = lipsc_construct_outlier(largest_head(z), z->radius, z->n,
                                                  is_causal(z), 0, &worst, err);
    *log_value = -INFINITY;
    return status ? status : raise(z, &worst, log_value, err);
}

lipsc_status lipsc_worst_eigen(const lipsc_zoo_case *z, double *log_value,
                               lipsc_error *err) {
    const lipsc_head_facts *f = largest_head(z);
    *log_value = -INFINITY;
    lipsc_status status = LIPSC_OK;
    for (int sign = 1; !status && sign >= (f->norm_c > 0.0 ? -1 : 1); sign -= 2) {
        lipsc_worst worst;
        status = lipsc_construct_eigenvector(f, z->radius, z->n, sign, is_causal(z), &worst,
                                             err);
        if (!status) status = raise(z, &worst, log_value, err);
    }
    return status;
}

/* The bulk where it was is one of the choices: other heads may like it better. */
lipsc_status lipsc_worst_fit(const lipsc_zoo_case *z, double *log_value, lipsc_error *err) {
    lipsc_worst worst;
    lipsc_status status = lipsc_worst_one(z, log_value, err);
    if (!status)
        status = lipsc_construct_adapted(largest_head(z), z->radius, z->n, is_causal(z),
                                         &worst, err);
    return status ? status : raise(z, &worst, log_value, err);
}

lipsc_status lipsc_worst_two(const lipsc_zoo_case *z, double *log_value, lipsc_error *err) {
    lipsc_worst worst;
    lipsc_status status =
        lipsc_construct_two(largest_head(z), z->radius, z->n, NAN, 0, &worst, err);
    *log_value = -INFINITY;
    return status ? status : raise(z, &worst, log_value, err);
}

lipsc_status lipsc_worst_line(const lipsc_zoo_case *z, double *log_value,
                              lipsc_error *err) {
    lipsc_worst worst;
    lipsc_status status =
        lipsc_construct_linear(largest_head(z), z->radius, z->n, &worst, err);
    *log_value = -INFINITY;
    return status ? status : raise(z, &worst, log_value, err);
}

lipsc_status lipsc_worst_diracs(const lipsc_zoo_case *z, double *log_value,
                                lipsc_error *err) {
    lipsc_worst worst;
    lipsc_status status = lipsc_construct_diracs(largest_head(z), z->radius, &worst, err);
    *log_value = -INFINITY;
    return status ? status : raise(z, &worst, log_value, err);
}

lipsc_status lipsc_worst_scales(const lipsc_zoo_case *z, double *log_value,
                                lipsc_error *err) {
    enum { FIBRES = 100 }; /* with growth 1.5 the cells span 17 decades */
    lipsc_worst worst;
    lipsc_status status =
        lipsc_construct_scales(largest_head(z), z->radius, FIBRES, 1.5, &worst, err);
    *log_value = -INFINITY;
    return status ? status : raise(z, &worst, log_value, err);
}
