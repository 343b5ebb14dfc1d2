/* forward.c - one window run through the model, block by block. */
#include "model/block.h"

#include "core/error.h"
#include "core/mem.h"

#include <math.h>
#include <string.h>

struct lipsc_acts {
    size_t n, blocks; /* tokens; blocks of the model                                   */
    size_t passed;    /* blocks that are behind: inputs[passed] is where the window is */
    size_t attended;  /* blocks whose attention's input is known                       */
    lipsc_dtype dtype;
    double **inputs;  /* (blocks + 1): input of block l; the last is the last output   */
    double **attn_in; /* (blocks); NULL entries where attention sees the block's input */
    double **attn_out;
    double *output; /* last hidden state, NULL when not run through                    */
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

void lipsc_acts_forget(lipsc_acts *a) {
    for (size_t l = 0; l < a->passed; l++) {
        double **arrays[] = {&a->inputs[l], &a->attn_in[l], &a->attn_out[l]};
        for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
            lipsc_release(*arrays[i]);
            *arrays[i] = NULL;
        }
    }
}

size_t lipsc_acts_length(const lipsc_acts *a) { return a->n; }

const double *lipsc_acts_block_input(const lipsc_acts *a, size_t layer) {
    return layer < a->blocks ? a->inputs[layer] : NULL;
}
const double *lipsc_acts_block_output(const lipsc_acts *a, size_t layer) {
    return layer < a->blocks ? a->inputs[layer + 1] : NULL;
}
const double *lipsc_acts_attention_input(const lipsc_acts *a, size_t layer) {
    if (layer >= a->attended) return NULL;
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

/* An array (n, d) with the numbers of device vector x. */
static lipsc_status keep(const lipsc_model *m, const lipsc_space *space, size_t n,
                         lipsc_buffer x, double **out, lipsc_error *err) {
    *out = lipsc_alloc(n * m->config.d, sizeof **out);
    if (!*out) return no_memory(m, n, err);
    return lipsc_space_download(space, n * m->config.d, x, *out);
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

/* Two vectors of the device, the first with what the window is at. */
static lipsc_status take_up(const lipsc_model *m, const lipsc_acts *a, lipsc_buffer *x,
                            lipsc_buffer *y, lipsc_error *err) {
    const lipsc_space *space = lipsc_device_space(m->home, a->dtype);
    const size_t count = a->n * m->config.d;
    *x = lipsc_space_alloc(space, count);
    *y = lipsc_space_alloc(space, count);
    if (!x->at || !y->at) return no_memory(m, a->n, err);
    return lipsc_space_upload(space, count, a->inputs[a->passed], *x);
}

static void put_down(const lipsc_model *m, const lipsc_acts *a, lipsc_buffer x,
                     lipsc_buffer y) {
    lipsc_space_release(lipsc_device_space(m->home, a->dtype), x);
    lipsc_space_release(lipsc_device_space(m->home, a->dtype), y);
}

/* y = the next block of x; what is asked for of it goes to the host. */
static lipsc_status pass_block(lipsc_model *m, lipsc_acts *a, const lipsc_device *device,
                               lipsc_buffer x, lipsc_buffer y, lipsc_error *err) {
    const size_t l = a->passed, count = a->n * m->config.d;
    lipsc_role role;
    const int normed_in = lipsc_config_norm(&m->config, l, LIPSC_NORM_ATTN, &role);
    if (normed_in && !a->attn_in[l]) a->attn_in[l] = lipsc_alloc(count, sizeof(double));
    a->attn_out[l] = lipsc_alloc(count, sizeof(double));
    if ((normed_in && !a->attn_in[l]) || !a->attn_out[l]) return no_memory(m, a->n, err);
    const lipsc_block_seen seen = {a->attn_in[l], a->attn_out[l]};
    lipsc_status status = lipsc_block_at(m, l, LIPSC_UP_TO_BLOCK, NULL, a->dtype, device,
                                         a->n, x, 0, NULL, y, &seen, err);
    if (!status)
        status =
            keep(m, lipsc_device_space(m->home, a->dtype), a->n, y, &a->inputs[l + 1], err);
    if (!status) status = lipsc_acts_check(m, count, a->inputs[l + 1], l, err);
    if (!status) a->attended = a->passed = l + 1;
    return status;
}

lipsc_status lipsc_acts_pass(lipsc_model *m, lipsc_acts *a, int threads, size_t blocks,
                             lipsc_error *err) {
    lipsc_device device;
    lipsc_buffer stream[2] = {LIPSC_NOWHERE, LIPSC_NOWHERE};
    if (blocks > a->blocks) blocks = a->blocks;
    if (a->passed >= blocks) return LIPSC_OK;
    lipsc_device_lend(m->home, threads, &device);
    lipsc_status status = take_up(m, a, &stream[0], &stream[1], err);
    for (int at = 0; !status && a->passed < blocks; at = !at)
        status = pass_block(m, a, &device, stream[at], stream[!at], err);
    put_down(m, a, stream[0], stream[1]);
    return status;
}

lipsc_status lipsc_acts_attend(lipsc_model *m, lipsc_acts *a, int threads,
                               lipsc_error *err) {
    const size_t l = a->passed;
    const lipsc_norm *norm;
    lipsc_device device;
    lipsc_device_lend(m->home, threads, &device);
    lipsc_buffer x = LIPSC_NOWHERE, y = LIPSC_NOWHERE;
    if (l == a->blocks || a->attended > l) return LIPSC_OK;
    lipsc_model_hold(m, l);
    lipsc_status status = lipsc_model_norm(m, l, LIPSC_NORM_ATTN, a->dtype, &norm, err);
    if (!status && norm) {
        status = take_up(m, a, &x, &y, err);
        if (!status) status = normed(m, norm, a->dtype, &device, a->n, x, y, err);
        if (!status)
            status = keep(m, lipsc_device_space(m->home, a->dtype), a->n, y, &a->attn_in[l],
                          err);
        put_down(m, a, x, y);
    }
    lipsc_model_let_go(m, l);
    if (!status) a->attended = l + 1;
    return status;
}

/* Behind the last block. */
static lipsc_status find_output(lipsc_model *m, lipsc_acts *a, int threads,
                                lipsc_error *err) {
    const lipsc_norm *final;
    lipsc_buffer x = LIPSC_NOWHERE, y = LIPSC_NOWHERE;
    lipsc_device device;
    lipsc_device_lend(m->home, threads, &device);
    lipsc_status status = lipsc_model_final_norm(m, a->dtype, &final, err);
    if (!status) status = take_up(m, a, &x, &y, err);
    if (!status && final) status = normed(m, final, a->dtype, &device, a->n, x, y, err);
    if (!status)
        status = keep(m, lipsc_device_space(m->home, a->dtype), a->n, final ? y : x,
                      &a->output, err);
    put_down(m, a, x, y);
    return status;
}

/* ---- Beginnings
 * ------------------------------------------------------------------------------- */

/* A window of which nothing is known; NULL: out of memory. */
static lipsc_acts *new_acts(const lipsc_model *m, lipsc_dtype dtype, size_t n) {
    lipsc_acts *a = lipsc_alloc_zero(1, sizeof *a);
    if (!a) return NULL;
    a->n = n;
    a->dtype = dtype;
    a->blocks = m->config.layers;
    a->inputs = lipsc_alloc_zero(a->blocks + 1, sizeof *a->inputs);
    a->attn_in = lipsc_alloc_zero(a->blocks, sizeof *a->attn_in);
    a->attn_out = lipsc_alloc_zero(a->blocks, sizeof *a->attn_out);
    if (a->inputs && a->attn_in && a->attn_out) return a;
    lipsc_acts_free(a);
    return NULL;
}

/* to = from as dtype has it; long inputs by all threads, whose pages are new. */
static void round_to(lipsc_dtype dtype, size_t count, const double *from, double *to) {
    enum { MANY = 1 << 24 };
#pragma omp parallel for schedule(static) if (count >= MANY)
    for (size_t e = 0; e < count; e++)
        to[e] = dtype == LIPSC_F32 ? (double)(float)from[e] : from[e];
}

/* x0 (n, d): the input of block 0, which is rounded to the precision of the run. */
static lipsc_status begin(lipsc_model *m, lipsc_dtype dtype, size_t n, const double *x0,
                          lipsc_acts **out, lipsc_error *err) {
    const size_t count = n * m->config.d;
    lipsc_acts *a = new_acts(m, dtype, n);
    if (a) a->inputs[0] = lipsc_alloc(count, sizeof(double));
    const lipsc_status status = a && a->inputs[0] ? LIPSC_OK : no_memory(m, n, err);
    if (!status) round_to(dtype, count, x0, a->inputs[0]);
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

/* *to = the first count numbers of from, where there are any; 0: out of memory. */
static int copy_first(size_t count, const double *from, double **to) {
    if (!from) return 1;
    *to = lipsc_alloc(count, sizeof **to);
    if (*to) memcpy(*to, from, count * sizeof **to);
    return *to != NULL;
}

lipsc_status lipsc_acts_first(const lipsc_model *m, const lipsc_acts *whole, size_t n,
                              lipsc_acts **first, lipsc_error *err) {
    const size_t count = n * m->config.d;
    lipsc_acts *a = new_acts(m, whole->dtype, n);
    if (!a) return no_memory(m, n, err);
    int ok = copy_first(count, whole->inputs[a->blocks], &a->inputs[a->blocks]) &&
             copy_first(count, whole->output, &a->output);
    for (size_t l = 0; l < a->blocks && ok; l++)
        ok = copy_first(count, whole->inputs[l], &a->inputs[l]) &&
             copy_first(count, whole->attn_in[l], &a->attn_in[l]) &&
             copy_first(count, whole->attn_out[l], &a->attn_out[l]);
    a->passed = whole->passed;
    a->attended = whole->attended;
    if (!ok) {
        lipsc_acts_free(a);
        return no_memory(m, n, err);
    }
    *first = a;
    return LIPSC_OK;
}

lipsc_status lipsc_acts_part(const lipsc_model *m, lipsc_acts *a, lipsc_acts **behind,
                             lipsc_error *err) {
    lipsc_acts *b = new_acts(m, a->dtype, a->n);
    if (!b) return no_memory(m, a->n, err);
    for (size_t l = 0; l < a->passed; l++) {
        double **from[] = {&a->inputs[l], &a->attn_in[l], &a->attn_out[l]};
        double **to[] = {&b->inputs[l], &b->attn_in[l], &b->attn_out[l]};
        for (size_t i = 0; i < sizeof to / sizeof *to; i++) {
            *to[i] = *from[i];
            *from[i] = NULL;
        }
    }
    b->passed = b->attended = a->passed;
    *behind = b;
    return LIPSC_OK;
}

/* Room for (n, d) numbers: the sizes come from outside. */
static double *room(const lipsc_model *m, size_t n) {
    size_t count;
    return lipsc_mul_size(n, m->config.d, &count) ? lipsc_alloc(count, sizeof(double))
                                                  : NULL;
}

lipsc_status lipsc_acts_begin(lipsc_model *m, lipsc_dtype dtype, size_t n,
                              const uint32_t *ids, lipsc_acts **out, lipsc_error *err) {
    double *x = room(m, n);
    lipsc_status status = x ? lipsc_embed_ids(m, n, ids, x, err) : no_memory(m, n, err);
    if (!status) status = begin(m, dtype, n, x, out, err);
    lipsc_release(x);
    return status;
}

lipsc_status lipsc_acts_begin_pixels(lipsc_model *m, lipsc_dtype dtype,
                                     const size_t shape[3], const double *pixels,
                                     lipsc_acts **out, lipsc_error *err) {
    const size_t n = m->config.family->pixels ? m->config.positions : 1;
    double *x = room(m, n);
    lipsc_status status =
        x ? lipsc_embed_pixels(m, shape, pixels, x, err) : no_memory(m, n, err);
    if (!status) status = begin(m, dtype, n, x, out, err);
    lipsc_release(x);
    return status;
}

/* ---- All at once
 * ------------------------------------------------------------------------------ */

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
    const lipsc_status status = begin(m, dtype, n, x, &a, err);
    return status ? status : run(m, a, device, through, out, err);
}
