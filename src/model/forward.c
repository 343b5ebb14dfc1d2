/* forward.c - one window run through the model, block by block. */
#include "model/acts.h"
#include "model/block.h"

#include "core/error.h"
#include "core/mem.h"

#include <math.h>
#include <string.h>

/* ---- The run ------------------------------------------------------------------------ */

lipsc_status lipsc_acts_check(const lipsc_model *m, size_t count, const double *output,
                              size_t layer, lipsc_error *err) {
    for (size_t e = 0; e < count; e++)
        if (!isfinite(output[e]))
            return lipsc_fail(err, LIPSC_E_NONFIN,
                              "%s: the output of block %zu is not finite", m->shown, layer);
    return LIPSC_OK;
}

/* A sum of squares says that all are finite; where it is not, the numbers themselves do. */
lipsc_status lipsc_acts_check_there(const lipsc_model *m, const lipsc_space *space,
                                    size_t count, lipsc_buffer x, size_t layer,
                                    lipsc_error *err) {
    double square;
    lipsc_status status = lipsc_space_gram(space, count, 1, x, 1, x, &square);
    if (status || isfinite(square)) return status;
    double *host = lipsc_alloc(count, sizeof *host);
    if (!host) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", m->shown);
    status = lipsc_space_download(space, count, x, host);
    if (!status) status = lipsc_acts_check(m, count, host, layer, err);
    lipsc_release(host);
    return status;
}

/* y (n, d) = norm(x) */
static lipsc_status normed(lipsc_model *m, const lipsc_norm *norm, lipsc_dtype dtype,
                           const lipsc_device *device, size_t n, lipsc_buffer x,
                           lipsc_buffer y, lipsc_error *err) {
    lipsc_norm_point point = {0};
    const lipsc_status status = lipsc_norm_at(m, norm, dtype, device, n, x, y, &point, err);
    lipsc_norm_free(m, dtype, &point);
    return status;
}

/* The next block; what is seen of it stays where it is made. */
static lipsc_status pass_block(lipsc_model *m, lipsc_acts *a, const lipsc_device *device,
                               lipsc_error *err) {
    const size_t l = a->passed;
    lipsc_kept *y = &a->inputs[l + 1], *in = &a->attn_in[l], *out = &a->attn_out[l];
    lipsc_role role;
    const int normed_in = lipsc_config_norm(&m->config, l, LIPSC_NORM_ATTN, &role);
    int room = lipsc_acts_room(a, y) && lipsc_acts_room(a, out);
    if (normed_in && !in->there.at) room = room && lipsc_acts_room(a, in);
    lipsc_status status = room ? LIPSC_OK : lipsc_short_of_tokens(m, a->n, err);
    const lipsc_block_seen seen = {in->there, out->there};
    if (!status)
        status = lipsc_block_at(m, l, LIPSC_UP_TO_BLOCK, NULL, a->dtype, device, a->n,
                                a->inputs[l].there, 0, NULL, y->there, &seen, err);
    if (!status) status = lipsc_acts_check_there(m, a->space, a->count, y->there, l, err);
    if (!status) {
        a->attended = a->passed = l + 1;
        return LIPSC_OK;
    }
    lipsc_acts_drop(a, y);
    lipsc_acts_drop(a, out);
    if (a->attended <= l) lipsc_acts_drop(a, in);
    return status;
}

static lipsc_status follow(const lipsc_model *m, lipsc_acts *a, lipsc_error *err) {
    return lipsc_acts_follow(m, a) ? lipsc_short_of_tokens(m, a->n, err) : LIPSC_OK;
}

lipsc_status lipsc_acts_pass(lipsc_model *m, lipsc_acts *a, int threads, size_t blocks,
                             lipsc_error *err) {
    lipsc_device device;
    if (blocks > a->blocks) blocks = a->blocks;
    if (a->passed >= blocks) return LIPSC_OK;
    lipsc_device_lend(m->home, threads, &device);
    lipsc_status status = follow(m, a, err);
    while (!status && a->passed < blocks) status = pass_block(m, a, &device, err);
    return status;
}

/* to = norm(where the window is) */
static lipsc_status norm_into(lipsc_model *m, lipsc_acts *a, const lipsc_norm *norm,
                              int threads, lipsc_kept *to, lipsc_error *err) {
    lipsc_device device;
    lipsc_device_lend(m->home, threads, &device);
    lipsc_status status = follow(m, a, err);
    if (!status && !lipsc_acts_room(a, to)) status = lipsc_short_of_tokens(m, a->n, err);
    if (!status)
        status = normed(m, norm, a->dtype, &device, a->n, a->inputs[a->passed].there,
                        to->there, err);
    if (!status) status = lipsc_acts_settle(a, to);
    if (status) lipsc_acts_drop(a, to);
    return status;
}

lipsc_status lipsc_acts_attend(lipsc_model *m, lipsc_acts *a, int threads,
                               lipsc_error *err) {
    const size_t l = a->passed;
    const lipsc_norm *norm;
    if (l == a->blocks || a->attended > l) return LIPSC_OK;
    lipsc_model_hold(m, l);
    lipsc_status status = lipsc_model_norm(m, l, LIPSC_NORM_ATTN, a->dtype, &norm, err);
    if (!status && norm) status = norm_into(m, a, norm, threads, &a->attn_in[l], err);
    lipsc_model_let_go(m, l);
    if (!status) a->attended = l + 1;
    return status;
}

/* Behind the last block. */
static lipsc_status find_output(lipsc_model *m, lipsc_acts *a, int threads,
                                lipsc_error *err) {
    const lipsc_norm *final;
    lipsc_status status = lipsc_model_final_norm(m, a->dtype, &final, err);
    if (!status && final) return norm_into(m, a, final, threads, a->output, err);
    if (!status) status = follow(m, a, err);
    if (!status && !lipsc_acts_room(a, a->output))
        status = lipsc_short_of_tokens(m, a->n, err);
    if (!status)
        status = lipsc_space_copy(a->space, a->count, a->inputs[a->passed].there,
                                  a->output->there);
    if (!status) status = lipsc_acts_settle(a, a->output);
    return status;
}

/* ---- Beginnings --------------------------------------------------------------------- */

/* x0 (n, d): the input of block 0, which is rounded to the precision of the run. */
lipsc_status lipsc_acts_begin_at(lipsc_model *m, lipsc_dtype dtype, size_t n,
                                 const double *x0, lipsc_acts **out, lipsc_error *err) {
    lipsc_acts *a = lipsc_acts_empty(m, dtype, n);
    lipsc_status status =
        a && lipsc_acts_room(a, a->inputs) ? LIPSC_OK : lipsc_short_of_tokens(m, n, err);
    if (!status) status = lipsc_space_upload(a->space, a->count, x0, a->inputs->there);
    if (status)
        lipsc_acts_free(a);
    else
        *out = a;
    return status;
}

int lipsc_model_looks_back(const lipsc_model *m) {
    int back = lipsc_device_table(m->home)->rows_alone;
    for (size_t l = 0; l < m->config.layers; l++) {
        const lipsc_mask mask = lipsc_config_mask(&m->config, l);
        back = back && (mask == LIPSC_MASK_CAUSAL || mask == LIPSC_MASK_SLIDING);
    }
    return back;
}

/* Room for (n, d) numbers: the sizes come from outside. */
static double *room(const lipsc_model *m, size_t n) {
    size_t count;
    return lipsc_mul_size(n, m->config.d, &count) ? lipsc_alloc(count, sizeof(double))
                                                  : NULL;
}

lipsc_status lipsc_acts_read(lipsc_model *m, size_t n, const uint32_t *ids, double **x,
                             lipsc_error *err) {
    *x = room(m, n);
    if (!*x) return lipsc_short_of_tokens(m, n, err);
    const lipsc_status status = lipsc_embed_ids(m, n, ids, *x, err);
    if (!status) return LIPSC_OK;
    lipsc_release(*x);
    *x = NULL;
    return status;
}

lipsc_status lipsc_acts_begin(lipsc_model *m, lipsc_dtype dtype, size_t n,
                              const uint32_t *ids, lipsc_acts **out, lipsc_error *err) {
    double *x;
    lipsc_status status = lipsc_acts_read(m, n, ids, &x, err);
    if (status) return status;
    status = lipsc_acts_begin_at(m, dtype, n, x, out, err);
    lipsc_release(x);
    return status;
}

lipsc_status lipsc_acts_begin_pixels(lipsc_model *m, lipsc_dtype dtype,
                                     const size_t shape[3], const double *pixels,
                                     lipsc_acts **out, lipsc_error *err) {
    const size_t n = m->config.family->pixels ? m->config.positions : 1;
    double *x = room(m, n);
    lipsc_status status =
        x ? lipsc_embed_pixels(m, shape, pixels, x, err) : lipsc_short_of_tokens(m, n, err);
    if (!status) status = lipsc_acts_begin_at(m, dtype, n, x, out, err);
    lipsc_release(x);
    return status;
}

/* ---- All at once -------------------------------------------------------------------- */

/* Takes over a, which stands before block 0. */
static lipsc_status run(lipsc_model *m, lipsc_acts *a, const lipsc_device *device,
                        size_t through, lipsc_acts **out, lipsc_error *err) {
    const int threads = lipsc_device_threads(device);
    lipsc_status status = lipsc_model_use(m, device, err);
    if (!status && through > a->blocks)
        status = lipsc_fail(err, LIPSC_E_ARG, "%s: has %zu blocks, not %zu", m->shown,
                            a->blocks, through);
    if (!status)
        status = lipsc_acts_pass(m, a, threads, through ? through - 1 : a->blocks, err);
    if (!status)
        status = through ? lipsc_acts_attend(m, a, threads, err)
                         : find_output(m, a, threads, err);
    if (status)
        lipsc_acts_free(a);
    else
        *out = a;
    return status;
}

lipsc_status lipsc_acts_new(lipsc_model *m, lipsc_dtype dtype, lipsc_device *device,
                            size_t n, const uint32_t *ids, size_t through, lipsc_acts **out,
                            lipsc_error *err) {
    lipsc_acts *a;
    const lipsc_status status = lipsc_acts_begin(m, dtype, n, ids, &a, err);
    return status ? status : run(m, a, device, through, out, err);
}

lipsc_status lipsc_acts_new_pixels(lipsc_model *m, lipsc_dtype dtype, lipsc_device *device,
                                   const size_t shape[3], const double *pixels,
                                   size_t through, lipsc_acts **out, lipsc_error *err) {
    lipsc_acts *a;
    const lipsc_status status = lipsc_acts_begin_pixels(m, dtype, shape, pixels, &a, err);
    return status ? status : run(m, a, device, through, out, err);
}

lipsc_status lipsc_acts_new_from(lipsc_model *m, lipsc_dtype dtype, lipsc_device *device,
                                 size_t n, const double *x, size_t through,
                                 lipsc_acts **out, lipsc_error *err) {
    lipsc_acts *a;
    if (n == 0) return lipsc_fail(err, LIPSC_E_ARG, "a window of no tokens");
    const lipsc_status status = lipsc_acts_begin_at(m, dtype, n, x, &a, err);
    return status ? status : run(m, a, device, through, out, err);
}
