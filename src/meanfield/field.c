/* field.c - a layer as a map of measures: which mask it has, and which atoms are there. */
#include "core/error.h"
#include "core/mem.h"
#include "meanfield/meanfield.h"
#include "ot/check.h"

#include <string.h>

static lipsc_status check_layer(const lipsc_layer *layer, const lipsc_measure *mu,
                                lipsc_layer *resolved, lipsc_error *err) {
    lipsc_status status = lipsc_layer_check(layer, resolved, err);
    if (status) return status;
    if (mu->d != layer->d)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "the points of the measure have width %zu, the layer takes %zu",
                          mu->d, layer->d);
    if (resolved->rotary_dim)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "rotary positions: scores depend on places, which the atoms of a "
                          "measure do not have");
    if (lipsc_layer_beyond(resolved))
        return lipsc_fail(err, LIPSC_E_REFUSED, "%s: not a map of measures",
                          lipsc_layer_beyond(resolved));
    if (resolved->mask == LIPSC_MASK_SLIDING || resolved->mask == LIPSC_MASK_LOCAL)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "a sliding window counts tokens, which a measure does not have");
    if (resolved->mask == LIPSC_MASK_CAUSAL && mu->times)
        return lipsc_fail(
            err, LIPSC_E_REFUSED,
            "the measure has times: they say who sees whom, not a causal mask");
    if (resolved->mask == LIPSC_MASK_TIMES && !mu->times)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "the layer is masked by times, which the measure does not have");
    return LIPSC_OK;
}

double lipsc_time_of(size_t i, size_t n) { return (double)(i + 1) / (double)n; }

static double *times_of_places(size_t n) {
    double *times = lipsc_alloc(n, sizeof *times);
    for (size_t i = 0; times && i < n; i++) times[i] = lipsc_time_of(i, n);
    return times;
}

lipsc_status lipsc_atom_field_new(const lipsc_layer *layer, const lipsc_measure *mu,
                                  lipsc_atom_field *out, lipsc_error *err) {
    lipsc_atom_field field = {0};
    lipsc_measure given = *mu;
    lipsc_status status = lipsc_measure_check(mu, "given", err);
    if (!status) status = check_layer(layer, mu, &field.layer, err);
    if (status) return status;

    double *times = NULL;
    field.sequence = field.layer.mask == LIPSC_MASK_CAUSAL;
    if (field.sequence) given.times = times = times_of_places(mu->n);
    field.layer.mask = given.times ? LIPSC_MASK_TIMES : LIPSC_MASK_NONE;
    field.place = lipsc_alloc(mu->n, 2 * sizeof *field.place);
    if (!field.place || (field.sequence && !times))
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu atoms", mu->n);
    if (!status) status = lipsc_measure_merge(&given, &field.atoms, field.place, err);
    lipsc_release(times);
    if (status) {
        lipsc_atom_field_free(&field);
        return status;
    }
    field.first = field.place + mu->n;
    for (size_t i = mu->n; i-- > 0;) field.first[field.place[i]] = i;
    *out = field;
    return LIPSC_OK;
}

void lipsc_atom_field_free(lipsc_atom_field *field) {
    lipsc_cloud_free(&field->atoms);
    lipsc_release(field->place);
    memset(field, 0, sizeof *field);
}

lipsc_input lipsc_atom_field_input(const lipsc_atom_field *field) {
    const lipsc_measure *m = &field->atoms.measure;
    return (lipsc_input){
        .n = m->n, .X = m->points, .weights = m->weights, .times = m->times};
}

const lipsc_device *lipsc_atom_field_device(const lipsc_atom_field *field,
                                            const lipsc_device *device) {
    const lipsc_layer *l = &field->layer;
    const double n = (double)field->atoms.measure.n;
    const double scores = n * n * (double)l->heads * (double)(l->key_dim + l->value_dim);
    const int free = !lipsc_device_home(device) && (!device || !device->threads);
    return free && scores < 0x1p21 ? lipsc_cpu_of(1) : device;
}
