/* forward.c - one window run through the model, block by block. */
#include "model/block.h"

#include "core/error.h"
#include "core/mem.h"

#include <math.h>
#include <string.h>

struct lipsc_acts {
    size_t n, blocks; /* tokens; blocks that were reached */
    int whole;        /* 1: all blocks were run; 0: the last one to its attention's input */
    double **inputs;  /* (blocks + 1): input of block l; the last is the last output  */
    double **attn_in; /* (blocks); NULL entries where attention sees the block's input */
    double **attn_out;
    double *output; /* last hidden state, NULL when not run through                  */
};

void lipsc_acts_free(lipsc_acts *a) {
    if (!a) return;
    for (size_t l = 0; l <= a->blocks; l++) {
        if (a->inputs) lipsc_release(a->inputs[l]);
        if (a->attn_in && l < a->blocks) lipsc_release(a->attn_in[l]);
        if (a->attn_out && l < a->blocks) lipsc_release(a->attn_out[l]);
    }
    lipsc_release(a->inputs);
    lipsc_release(a->attn_in);
    lipsc_release(a->attn_out);
    lipsc_release(a->output);
    lipsc_release(a);
}

size_t lipsc_acts_length(const lipsc_acts *a) { return a->n; }

const double *lipsc_acts_block_input(const lipsc_acts *a, size_t layer) {
    return layer < a->blocks ? a->inputs[layer] : NULL;
}
const double *lipsc_acts_block_output(const lipsc_acts *a, size_t layer) {
    return layer < a->blocks ? a->inputs[layer + 1] : NULL;
}
const double *lipsc_acts_attention_input(const lipsc_acts *a, size_t layer) {
    if (layer >= a->blocks) return NULL;
    return a->attn_in[layer] ? a->attn_in[layer] : a->inputs[layer];
}
const double *lipsc_acts_attention_output(const lipsc_acts *a, size_t layer) {
    return layer < a->blocks ? a->attn_out[layer] : NULL;
}
const double *lipsc_acts_output(const lipsc_acts *a) { return a->output; }

/* ---- The run
 * ------------------------------------------------------------------------------- */

static lipsc_status no_memory(const lipsc_model *m, size_t n, lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory for %zu tokens", m->shown, n);
}

static lipsc_status check_finite(const lipsc_model *m, size_t count, const double *x,
                                 const char *what, size_t layer, lipsc_error *err) {
    for (size_t e = 0; e < count; e++)
        if (!isfinite(x[e]))
            return lipsc_fail(err, LIPSC_E_NONFIN, "%s: the %s of block %zu is not finite",
                              m->shown, what, layer);
    return LIPSC_OK;
}

/* An array (n, d) with the numbers of back-end vector x. */
static lipsc_status keep(const lipsc_model *m, const lipsc_space *space, size_t n,
                         const void *x, double **out, lipsc_error *err) {
    *out = lipsc_alloc(n * m->config.d, sizeof **out);
    if (!*out) return no_memory(m, n, err);
    space->download(n * m->config.d, x, *out);
    return LIPSC_OK;
}

/* y (n, d) = norm(x) */
static lipsc_status normed(lipsc_model *m, const lipsc_norm *norm, lipsc_dtype dtype,
                           int threads, size_t n, const void *x, void *y,
                           lipsc_error *err) {
    lipsc_norm_point point = {0};
    const lipsc_status status =
        lipsc_norm_at(m, norm, dtype, threads, n, x, y, &point, err);
    lipsc_norm_free(m, dtype, &point);
    return status;
}

/* The last block that is asked for: nothing behind its attention's input is needed. */
static lipsc_status reach_attention(lipsc_model *m, lipsc_dtype dtype, int threads,
                                    lipsc_acts *a, const void *x, void *y,
                                    lipsc_error *err) {
    const size_t l = a->blocks - 1;
    const lipsc_norm *norm;
    lipsc_status status = lipsc_model_norm(m, l, LIPSC_NORM_ATTN, dtype, &norm, err);
    if (status || !norm) return status;
    status = normed(m, norm, dtype, threads, a->n, x, y, err);
    if (!status) status = keep(m, m->backend->space(dtype), a->n, y, &a->attn_in[l], err);
    return status;
}

static lipsc_status run_blocks(lipsc_model *m, lipsc_dtype dtype, int threads,
                               lipsc_acts *a, void *x, void *y, lipsc_error *err) {
    const lipsc_space *space = m->backend->space(dtype);
    const size_t count = a->n * m->config.d, full = a->blocks - !a->whole;
    lipsc_status status = keep(m, space, a->n, x, &a->inputs[0], err);
    for (size_t l = 0; !status && l < full; l++) {
        lipsc_role role;
        const int normed_in = lipsc_config_norm(&m->config, l, LIPSC_NORM_ATTN, &role);
        if (normed_in) a->attn_in[l] = lipsc_alloc(count, sizeof(double));
        a->attn_out[l] = lipsc_alloc(count, sizeof(double));
        if ((normed_in && !a->attn_in[l]) || !a->attn_out[l])
            return no_memory(m, a->n, err);
        const lipsc_block_seen seen = {a->attn_in[l], a->attn_out[l]};
        status = lipsc_block_at(m, l, LIPSC_UP_TO_BLOCK, NULL, dtype, threads, a->n, x, 0,
                                NULL, y, &seen, err);
        if (!status) status = keep(m, space, a->n, y, &a->inputs[l + 1], err);
        if (!status) status = check_finite(m, count, a->inputs[l + 1], "output", l, err);
        void *swap = x;
        x = y;
        y = swap;
    }
    const lipsc_norm *final;
    if (!status && !a->whole) return reach_attention(m, dtype, threads, a, x, y, err);
    if (!status) status = lipsc_model_final_norm(m, dtype, &final, err);
    if (!status && final) {
        status = normed(m, final, dtype, threads, a->n, x, y, err);
        x = y;
    }
    if (!status) status = keep(m, space, a->n, x, &a->output, err);
    return status;
}

/* x0 (n, d): the input of block 0 */
static lipsc_status run(lipsc_model *m, lipsc_dtype dtype, int threads, size_t n,
                        const double *x0, size_t through, lipsc_acts **out,
                        lipsc_error *err) {
    const lipsc_space *space = m->backend->space(dtype);
    const size_t layers = m->config.layers, count = n * m->config.d;
    if (through > layers)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: has %zu blocks, not %zu", m->shown, layers,
                          through);
    lipsc_acts *a = lipsc_alloc_zero(1, sizeof *a);
    if (!a) return no_memory(m, n, err);
    a->n = n;
    a->blocks = through ? through : layers;
    a->whole = !through;
    a->inputs = lipsc_alloc_zero(a->blocks + 1, sizeof *a->inputs);
    a->attn_in = lipsc_alloc_zero(a->blocks, sizeof *a->attn_in);
    a->attn_out = lipsc_alloc_zero(a->blocks, sizeof *a->attn_out);
    void *x = space->alloc(count), *y = space->alloc(count);
    lipsc_status status = LIPSC_OK;
    if (!a->inputs || !a->attn_in || !a->attn_out || !x || !y)
        status = no_memory(m, n, err);
    if (!status) space->upload(count, x0, x);
    if (!status) status = run_blocks(m, dtype, threads, a, x, y, err);
    space->release(x);
    space->release(y);
    if (status)
        lipsc_acts_free(a);
    else
        *out = a;
    return status;
}

/* Room for (n, d) numbers: the sizes come from outside. */
static double *room(const lipsc_model *m, size_t n) {
    size_t count;
    return lipsc_mul_size(n, m->config.d, &count) ? lipsc_alloc(count, sizeof(double))
                                                  : NULL;
}

lipsc_status lipsc_acts_new(lipsc_model *m, lipsc_dtype dtype, int threads, size_t n,
                            const uint32_t *ids, size_t through, lipsc_acts **out,
                            lipsc_error *err) {
    double *x = room(m, n);
    lipsc_status status = x ? lipsc_embed_ids(m, n, ids, x, err) : no_memory(m, n, err);
    if (!status) status = run(m, dtype, threads, n, x, through, out, err);
    lipsc_release(x);
    return status;
}

lipsc_status lipsc_acts_new_pixels(lipsc_model *m, lipsc_dtype dtype, int threads,
                                   const size_t shape[3], const double *pixels,
                                   size_t through, lipsc_acts **out, lipsc_error *err) {
    const size_t n = m->config.family->pixels ? m->config.positions : 1;
    double *x = room(m, n);
    lipsc_status status =
        x ? lipsc_embed_pixels(m, shape, pixels, x, err) : no_memory(m, n, err);
    if (!status) status = run(m, dtype, threads, n, x, through, out, err);
    lipsc_release(x);
    return status;
}

lipsc_status lipsc_acts_new_from(lipsc_model *m, lipsc_dtype dtype, int threads, size_t n,
                                 const double *x, size_t through, lipsc_acts **out,
                                 lipsc_error *err) {
    if (n == 0) return lipsc_fail(err, LIPSC_E_ARG, "a window of no tokens");
    return run(m, dtype, threads, n, x, through, out, err);
}
