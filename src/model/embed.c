/* embed.c - the input of block 0: token, position and type embeddings with their norm, or
 * the patches of an image. */
#include "model/state.h"

#include "core/error.h"
#include "core/mem.h"
#include "linalg/dense.h"

#include <math.h>
#include <string.h>

/* x += factor * row `index` of an embedding table */
static lipsc_status add_row(const lipsc_model *m, lipsc_role role, size_t index,
                            double factor, double *scratch, double *x, lipsc_error *err) {
    lipsc_tensor table;
    if (!lipsc_tensor_describe(&m->config, role, 0, &table)) return LIPSC_OK;
    const size_t d = table.shape[table.ndim - 1];
    const lipsc_status status =
        lipsc_tensors_read(&m->tensors, &table, index * d, d, scratch, err);
    for (size_t c = 0; !status && c < d; c++) x[c] += factor * scratch[c];
    return status;
}

/* ---- Behind the sum: a norm, and a projection to the width of the blocks ------------ */

static void norm_row(const lipsc_config *c, const double *gain, const double *bias,
                     double *x) {
    const size_t d = c->embed_width;
    double mean = 0, square = 0;
    for (size_t e = 0; !c->family->rms && e < d; e++) mean += x[e] / (double)d;
    for (size_t e = 0; e < d; e++) square += (x[e] - mean) * (x[e] - mean);
    const double r = sqrt(square / (double)d + c->norm_eps);
    for (size_t e = 0; e < d; e++)
        x[e] = (r > 0 ? (x[e] - mean) / r : 0) * gain[e] + (bias ? bias[e] : 0);
}

static lipsc_status normalise(const lipsc_model *m, size_t n, double *x, lipsc_error *err) {
    double *gain = NULL, *bias = NULL;
    lipsc_status status = lipsc_model_load(m, LIPSC_EMBED_NORM, 0, &gain, err);
    if (!status) status = lipsc_model_load(m, LIPSC_EMBED_NORM_BIAS, 0, &bias, err);
    for (size_t i = 0; !status && gain && i < n; i++)
        norm_row(&m->config, gain, bias, x + i * m->config.embed_width);
    lipsc_release(gain);
    lipsc_release(bias);
    return status;
}

/* x (n, d) from e (n, embed_width) */
static lipsc_status project(const lipsc_model *m, size_t n, const double *e, double *x,
                            lipsc_error *err) {
    const size_t d = m->config.d, width = m->config.embed_width;
    double *weight = NULL, *bias = NULL;
    lipsc_status status = lipsc_model_load(m, LIPSC_EMBED_PROJECT, 0, &weight, err);
    if (!status) status = lipsc_model_load(m, LIPSC_EMBED_PROJECT_BIAS, 0, &bias, err);
    if (!status) /* column-major: x^T (d, n) = W (d, width) e^T, all row-major on our side
                  */
        lipsc_dense_gemm(1, 0, d, n, width, 1.0, weight, width, e, width, 0.0, x, d);
    for (size_t i = 0; !status && bias && i < n * d; i++) x[i] += bias[i % d];
    lipsc_release(weight);
    lipsc_release(bias);
    return status;
}

/* ---- Text --------------------------------------------------------------------------- */

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

/* esm leaves masked tokens out and makes the others as large as they were in training,
 * where 0.15 * 0.8 of the tokens were masked. */
static double dropout_factor(const lipsc_config *c, size_t n, const uint32_t *ids) {
    size_t masked = 0;
    if (!c->mask_dropout) return 1;
    for (size_t i = 0; i < n; i++) masked += ids[i] == c->mask_token;
    return masked == n ? 0 : (1 - 0.15 * 0.8) / (1 - (double)masked / (double)n);
}

/* x (n, width) += the position of each token */
static lipsc_status add_positions(lipsc_model *m, size_t n, const uint32_t *ids,
                                  size_t width, double *x, lipsc_error *err) {
    const lipsc_config *c = &m->config;
    double *scratch = lipsc_alloc(width, sizeof *scratch);
    lipsc_status status = LIPSC_OK;
    if (!scratch) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a token");
    size_t seen = 0; /* roberta counts the tokens that are not padding, from pad + 1 */
    for (size_t i = 0; !status && i < n; i++) {
        size_t position = i + c->family->position_offset;
        if (c->family->position_after_pad)
            position = ids[i] == c->pad ? c->pad : c->pad + ++seen;
        status = add_row(m, LIPSC_POSITIONS, position, 1, scratch, x + i * width, err);
    }
    lipsc_release(scratch);
    return status;
}

/* Where each id stood last, plus one; NULL: the text is too short to ask. */
static size_t *new_places(const lipsc_config *c, size_t n) {
    enum { LONG = 4096 };
    return n < LONG ? NULL : lipsc_alloc_zero(c->vocab, sizeof(size_t));
}

static lipsc_status sum_rows(lipsc_model *m, size_t n, const uint32_t *ids, double *x,
                             lipsc_error *err) {
    const lipsc_config *c = &m->config;
    size_t *place = new_places(c, n);
    const double factor = c->embed_factor * dropout_factor(c, n, ids);
    double *scratch = lipsc_alloc(c->embed_width, sizeof *scratch);
    lipsc_status status = LIPSC_OK;
    if (!scratch) status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a token");
    for (size_t i = 0; !status && i < n; i++) {
        double *row = x + i * c->embed_width;
        const size_t before = place ? place[ids[i]] : 0;
        if (place) place[ids[i]] = i + 1;
        if (before)
            memcpy(row, x + (before - 1) * c->embed_width, c->embed_width * sizeof *x);
        if (before) continue;
        memset(row, 0, c->embed_width * sizeof *x);
        const int dropped = c->mask_dropout && ids[i] == c->mask_token;
        if (!dropped) status = add_row(m, LIPSC_TOKENS, ids[i], factor, scratch, row, err);
        if (!status) status = add_row(m, LIPSC_TYPES, 0, 1, scratch, row, err);
    }
    lipsc_tensor table;
    if (lipsc_tensor_describe(c, LIPSC_TOKENS, 0, &table))
        lipsc_tensors_forget(&m->tensors, &table);
    lipsc_release(scratch);
    lipsc_release(place);
    if (!status && !c->family->position_last)
        status = add_positions(m, n, ids, c->embed_width, x, err);
    return status;
}

lipsc_status lipsc_embed_ids(lipsc_model *m, size_t n, const uint32_t *ids, double *x,
                             lipsc_error *err) {
    const lipsc_config *c = &m->config;
    lipsc_status status = check_ids(m, n, ids, err);
    if (status) return status;
    double *sum = x;
    if (c->embed_projected) sum = lipsc_alloc(n, c->embed_width * sizeof *sum);
    if (!sum) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", n);
    status = sum_rows(m, n, ids, sum, err);
    if (!status) status = normalise(m, n, sum, err);
    if (!status && sum != x) status = project(m, n, sum, x, err);
    if (!status && c->family->position_last)
        status = add_positions(m, n, ids, c->d, x, err);
    if (sum != x) lipsc_release(sum);
    return status;
}

/* ---- Images ------------------------------------------------------------------------- */

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
    const lipsc_role first[] = {LIPSC_CLASS_TOKEN, LIPSC_DISTILLATION_TOKEN};
    size_t extra = 0; /* tokens before the patches */
    for (size_t i = 0; i < 2; i++) extra += c->family->tensor[first[i]] != NULL;
    const size_t d = c->d, count = c->positions - extra;
    const size_t inner = c->channels * c->patch[0] * c->patch[1];
    double *w = NULL, *patches = lipsc_alloc(count, inner * sizeof *patches);
    double *scratch = lipsc_alloc(d, sizeof *scratch);
    if (!patches || !scratch)
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an image");
    if (!status) status = lipsc_model_load(m, LIPSC_PATCH, 0, &w, err);
    if (!status) {
        cut_patches(c, pixels, patches);
        memset(x, 0, extra * d * sizeof *x);
        /* column-major: x^T (d, count) = w (d, inner) patches^T, all row-major on our side
         */
        lipsc_dense_gemm(1, 0, d, count, inner, 1.0, w, inner, patches, inner, 0.0,
                         x + extra * d, d);
    }
    for (size_t i = 0; !status && i < extra; i++)
        status = add_row(m, first[i], 0, 1, scratch, x + i * d, err);
    for (size_t i = 0; !status && i < c->positions; i++) {
        if (i >= extra)
            status = add_row(m, LIPSC_PATCH_BIAS, 0, 1, scratch, x + i * d, err);
        if (!status) status = add_row(m, LIPSC_POSITIONS, i, 1, scratch, x + i * d, err);
    }
    if (!status) status = normalise(m, c->positions, x, err);
    lipsc_release(w);
    lipsc_release(patches);
    lipsc_release(scratch);
    return status;
}
