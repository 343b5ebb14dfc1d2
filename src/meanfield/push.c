/* push.c - the image of a measure: F(mu) = sum_i a_i delta_{f(X)_i} (docs/maths.md 1.4). */
#include "core/mem.h"
#include "meanfield/meanfield.h"

#include <string.h>

/* Outputs of the different atoms, (atoms, width). */
static lipsc_status outputs(const lipsc_atom_field *field, const lipsc_device *device,
                            double *y, lipsc_error *err) {
    const lipsc_input input = lipsc_atom_field_input(field);
    lipsc_attn *attn;
    lipsc_status status =
        lipsc_attn_new(&field->layer, &input, LIPSC_F64,
                       lipsc_atom_field_device(field, device), &attn, err);
    if (status) return status;
    status = lipsc_attn_output(attn, y);
    lipsc_attn_free(attn);
    return status;
}

lipsc_status lipsc_measure_push(const lipsc_layer *layer, const lipsc_measure *mu,
                                const lipsc_device *device, lipsc_cloud *out,
                                lipsc_error *err) {
    lipsc_atom_field field;
    lipsc_cloud image = {.storage = NULL};
    lipsc_cloud_parts parts = {0};
    lipsc_status status = lipsc_atom_field_new(layer, mu, &field, err);
    if (status) return status;
    const size_t width = lipsc_layer_width(&field.layer);
    double *y = lipsc_alloc(field.atoms.measure.n, width * sizeof *y);
    if (!y) status = LIPSC_E_NOMEM;
    if (!status)
        status = lipsc_cloud_new(mu->n, width, mu->times != NULL, &image, &parts, err);
    if (!status) status = outputs(&field, device, y, err);
    for (size_t i = 0; !status && i < mu->n; i++) {
        memcpy(parts.points + i * width, y + field.place[i] * width, width * sizeof *y);
        parts.weights[i] = mu->weights ? mu->weights[i] : 1.0 / (double)mu->n;
        if (mu->times) parts.times[i] = mu->times[i];
    }
    lipsc_release(y);
    lipsc_atom_field_free(&field);
    if (status)
        lipsc_cloud_free(&image);
    else
        *out = image;
    return status;
}
