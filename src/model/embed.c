/* embed.c - the input of block 0: token, position and type embeddings with their norm, or
 * the patches of an image. */
#include "model/state.h"

#include "core/error.h"
#include "core/mem.h"
#include "linalg/dense.h"

#include <string.h>

/* x += row `index` of an embedding table */
static lipsc_status add_row(const lipsc_model *m, lipsc_role role, size_t index,
                            double *scratch, double *x, lipsc_error *err) {
    const size_t d = m->config.d;
    lipsc_tensor table;
    if (!lipsc_tensor_describe(&m->config, role, 0, &table)) return LIPSC_OK;
    const lipsc_status status =
        lipsc_tensors_read(&m->tensors, &table, index * d, d, scratch, err);
    for (size_t c = 0; !status && c < d; c++) x[c] += scratch[c];
    return status;
}

static lipsc_status check_ids(const lipsc_model *m, size_t n, const uint32_t *ids,
                              lipsc_error *err) {
    if (m->config.family->pixels)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: a %s reads images, not text", m->shown,
                          m->config.family->name);
    if (!m->info.has_embeddings)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "%s: has no embeddings, only the attention of some layers, so it "
                          "cannot read text",
                          m->shown);
    if (n == 0) return lipsc_fail(err, LIPSC_E_ARG, "a window of no tokens");
    if (m->info.positions && n > m->info.positions)
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "%s: %zu tokens are more than the model's %zu positions",
                          m->shown, n, m->info.positions);
    for (size_t i = 0; i < n; i++)
        if (ids[i] >= m->config.vocab)
            return lipsc_fail(err, LIPSC_E_RANGE,
                              "%s: token %zu has id %lu, but the embedding has %zu rows",
                              m->shown, i, (unsigned long)ids[i], m->config.vocab);
    return LIPSC_OK;
}

lipsc_status lipsc_embed_ids(lipsc_model *m, size_t n, const uint32_t *ids, double *x,
                             lipsc_error *err) {
    const lipsc_config *c = &m->config;
    lipsc_status status = check_ids(m, n, ids, err);
    if (status) return status;
    double *scratch = lipsc_alloc(c->d, sizeof *scratch);
    if (!scratch) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a token");
    memset(x, 0, n * c->d * sizeof *x);
    size_t seen = 0; /* roberta counts the tokens that are not padding, from pad + 1 */
    for (size_t i = 0; !status && i < n; i++) {
        size_t position = i;
        if (c->family->position_after_pad)
            position = ids[i] == c->pad ? c->pad : c->pad + ++seen;
        double *row = x + i * c->d;
        status = add_row(m, LIPSC_TOKENS, ids[i], scratch, row, err);
        if (!status) status = add_row(m, LIPSC_TYPES, 0, scratch, row, err);
        if (!status) status = add_row(m, LIPSC_POSITIONS, position, scratch, row, err);
    }
    lipsc_release(scratch);
    return status;
}

/* ---- Images
 * ------------------------------------------------------------------------------------ */

static lipsc_status check_image(const lipsc_model *m, const size_t shape[3],
                                lipsc_error *err) {
    const lipsc_config *c = &m->config;
    if (!c->family->pixels)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: a %s reads text, not images", m->shown,
                          c->family->name);
    if (!m->info.has_embeddings)
        return lipsc_fail(
            err, LIPSC_E_ARG,
            "%s: has no patch embedding, only the attention of some layers, so "
            "it cannot read images",
            m->shown);
    if (shape[0] == c->channels && shape[1] == c->image[0] && shape[2] == c->image[1])
        return LIPSC_OK;
    return lipsc_fail(
        err, LIPSC_E_RANGE,
        "%s: an image of (%zu, %zu, %zu), but the model reads (%zu, %zu, %zu)", m->shown,
        shape[0], shape[1], shape[2], c->channels, c->image[0], c->image[1]);
}

/* patches (count, channels * height * width): each patch as the convolution sees it */
static void cut_patches(const lipsc_config *c, const double *pixels, double *patches) {
    const size_t ph = c->patch[0], pw = c->patch[1], W = c->image[1], H = c->image[0];
    for (size_t py = 0; py < H / ph; py++)
        for (size_t px = 0; px < W / pw; px++)
            for (size_t ch = 0; ch < c->channels; ch++)
                for (size_t y = 0; y < ph; y++, patches += pw)
                    memcpy(patches, pixels + (ch * H + py * ph + y) * W + px * pw,
                           pw * sizeof *patches);
}

lipsc_status lipsc_embed_pixels(lipsc_model *m, const size_t shape[3], const double *pixels,
                                double *x, lipsc_error *err) {
    const lipsc_config *c = &m->config;
    lipsc_status status = check_image(m, shape, err);
    if (status) return status;
    const size_t d = c->d, count = c->positions - 1;
    const size_t inner = c->channels * c->patch[0] * c->patch[1];
    lipsc_tensor weight;
    lipsc_tensor_describe(c, LIPSC_PATCH, 0, &weight);
    double *w = lipsc_alloc(weight.count, sizeof *w);
    double *patches = lipsc_alloc(count, inner * sizeof *patches);
    double *scratch = lipsc_alloc(d, sizeof *scratch);
    if (!w || !patches || !scratch)
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an image");
    if (!status) status = lipsc_tensors_read(&m->tensors, &weight, 0, weight.count, w, err);
    if (!status) {
        cut_patches(c, pixels, patches);
        memset(x, 0, d * sizeof *x);
        /* column-major: x^T (d, count) = w (d, inner) patches^T, all row-major on our side
         */
        lipsc_dense_gemm(1, 0, d, count, inner, 1.0, w, inner, patches, inner, 0.0, x + d,
                         d);
        status = add_row(m, LIPSC_CLASS_TOKEN, 0, scratch, x, err);
    }
    for (size_t i = 0; !status && i <= count; i++) {
        if (i) status = add_row(m, LIPSC_PATCH_BIAS, 0, scratch, x + i * d, err);
        if (!status) status = add_row(m, LIPSC_POSITIONS, i, scratch, x + i * d, err);
    }
    lipsc_release(w);
    lipsc_release(patches);
    lipsc_release(scratch);
    return status;
}
