/* place_norm.c - the norm in front of a layer, as numbers. */
#include <math.h>

#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "model/state.h"
#include "study/place.h"

/* The norm whose output attention receives: its own in pre-norm models, that behind the
 * block before (or behind the embedding) in post-norm ones. */
static lipsc_status norm_in_front(lipsc_model *model, size_t layer, const lipsc_norm **norm,
                                  lipsc_error *err) {
    if (lipsc_model_describe(model)->pre_norm)
        return lipsc_model_norm(model, layer, LIPSC_NORM_ATTN, LIPSC_F64, norm, err);
    if (layer > 0)
        return lipsc_model_norm(model, layer - 1, LIPSC_NORM_MLP_SUM, LIPSC_F64, norm, err);
    return lipsc_model_embed_norm(model, LIPSC_F64, norm, err);
}

lipsc_status place_norm_read(lipsc_place *place, place_norm *out, lipsc_error *err) {
    lipsc_model *model = place->model;
    const lipsc_norm *norm = NULL;
    const lipsc_space *space = lipsc_device_space(model->home, LIPSC_F64);
    const size_t d = model->config.d;
    *out = (place_norm){.rms = model->config.family->rms, .eps = model->config.norm_eps};
    lipsc_status status = norm_in_front(model, place->set.layer, &norm, err);
    if (status) return status;
    if (!norm) return lipsc_fail(err, LIPSC_E_REFUSED, "the layer has no norm in front");
    out->gain = lipsc_alloc_zero(d, 2 * sizeof *out->gain);
    if (!out->gain) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a norm");
    out->shift = out->gain + d;
    status = lipsc_space_download(space, d, norm->gain, out->gain);
    if (!status && norm->bias.at)
        status = lipsc_space_download(space, d, norm->bias, out->shift);
    if (status) {
        lipsc_release(out->gain);
        return lipsc_fail(err, status, "%s", lipsc_strerror(status));
    }
    double shift = 0.0;
    for (size_t c = 0; c < d; c++) {
        out->largest = lipsc_max(out->largest, fabs(out->gain[c]));
        shift = hypot(shift, out->shift[c]);
    }
    out->radius = sqrt((double)d) * out->largest + shift;
    return LIPSC_OK;
}
