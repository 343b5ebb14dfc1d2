/* host_attention.c - weights and inputs of attention on a GPU, by the plugin's.
 *
 * f16 is computed in f16, f32 in f16 x 3, or in bf16 x 3 where an input has numbers beyond
 * f16's, f64 in double.  Inputs of one batch share the plugin's. */
#include <pthread.h>

#include "backend/cuda/host_batch.h"
#include "core/error.h"
#include "core/mem.h"

/* Few tokens take more directions at once, so that there is enough to do, and so many that
 * memory is short take one. */
enum { MOST_DIRECTIONS = 32, ENOUGH_TOKENS = 8192, MANY_TOKENS = 65536 };

static size_t directions(size_t inputs, size_t tokens) {
    if (inputs == 1 && tokens >= MANY_TOKENS) return 1;
    const size_t wanted = inputs == 1 ? ENOUGH_TOKENS / (tokens ? tokens : 1) : DIRECTIONS;
    return wanted < DIRECTIONS ? DIRECTIONS
                               : (wanted < MOST_DIRECTIONS ? wanted : MOST_DIRECTIONS);
}

typedef struct {
    lipsc_cuda_weights *there;
    lipsc_cuda_weights *far; /* of f32: in bf16 x 3, when first needed */
    pthread_mutex_t lock;    /* of far */
    const lipsc_layer *layer;
    lipsc_dtype dtype;
    size_t item, d, width;
} weights;

/* The plugin's sentence in err is also the device's. */
static lipsc_status said(const lipsc_device *device, lipsc_status status,
                         const lipsc_error *err) {
    return status ? lipsc_gpu_said(device, status, err) : LIPSC_OK;
}

static lipsc_status weights_in(const lipsc_device *device, const lipsc_layer *layer,
                               lipsc_cuda_precision precision, lipsc_cuda_weights **out,
                               lipsc_error *err) {
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    lipsc_error why = {.text = ""};
    const lipsc_status status =
        said(device, gpu->api->weights_new(gpu->there, layer, precision, out, &why), &why);
    return status ? lipsc_fail(err, status, "%s", why.text) : LIPSC_OK;
}

lipsc_status lipsc_gpu_weights_new(const lipsc_device *device, const lipsc_layer *layer,
                                   lipsc_dtype dtype, void **out, lipsc_error *err) {
    weights *w = lipsc_alloc_zero(1, sizeof *w);
    if (!w || pthread_mutex_init(&w->lock, NULL)) {
        lipsc_release(w);
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for the packed weights");
    }
    w->layer = layer;
    w->dtype = dtype;
    w->item = lipsc_device_space(device, dtype)->item;
    w->d = layer->d;
    w->width = lipsc_layer_width(layer);
    const lipsc_status status = weights_in(device, layer,
                                           dtype == LIPSC_F64   ? LIPSC_CUDA_F64
                                           : dtype == LIPSC_F16 ? LIPSC_CUDA_F16
                                                                : LIPSC_CUDA_F16X3,
                                           &w->there, err);
    if (status)
        lipsc_gpu_weights_free(device, w);
    else
        *out = w;
    return status;
}

void lipsc_gpu_weights_free(const lipsc_device *device, void *made) {
    const lipsc_cuda_api *api = lipsc_gpu_of(device)->api;
    weights *w = made;
    if (w->there) api->weights_free(w->there);
    if (w->far) api->weights_free(w->far);
    pthread_mutex_destroy(&w->lock);
    lipsc_release(w);
}

/* The weights for an input that f16 refused; LIPSC_E_NONFIN: there are none. */
static lipsc_status reach_further(const lipsc_device *device, weights *w,
                                  lipsc_cuda_weights **far, lipsc_error *err) {
    if (w->dtype != LIPSC_F32) return LIPSC_E_NONFIN;
    pthread_mutex_lock(&w->lock);
    const lipsc_status status =
        w->far ? LIPSC_OK : weights_in(device, w->layer, LIPSC_CUDA_BF16X3, &w->far, err);
    *far = w->far;
    pthread_mutex_unlock(&w->lock);
    return status;
}

static void batch_free(const lipsc_device *device, batch *b) {
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    gpu->api->batch_free(b->there);
    if (b->x) gpu->api->release(gpu->there, b->x);
    if (b->y) gpu->api->release(gpu->there, b->y);
    lipsc_release(b->active);
    lipsc_release(b->told);
    lipsc_release(b->pieces);
    lipsc_release(b);
}

void lipsc_gpu_input_free(const lipsc_device *device, void *made) {
    input *in = made;
    if (!--in->of->users) batch_free(device, in->of);
    lipsc_release(in);
}

/* Room for the vectors of several inputs one after the other. */
static lipsc_status reserve(const lipsc_device *device, batch *b, lipsc_error *err) {
    const size_t widest = b->d > b->width ? b->d : b->width;
    size_t bytes;
    if (!lipsc_mul_size(DIRECTIONS * b->tokens, widest * b->item, &bytes))
        return lipsc_fail(err, LIPSC_E_RANGE, "%zu tokens at once", b->tokens);
    b->active = lipsc_alloc_zero(b->count, sizeof *b->active);
    b->told = lipsc_alloc_zero(b->count, sizeof *b->told);
    b->pieces = lipsc_alloc_zero(b->count * DIRECTIONS, sizeof *b->pieces);
    for (size_t i = 0; b->told && i < b->count; i++) b->told[i] = 1;
    if (!b->active || !b->told || !b->pieces)
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a batch");
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    lipsc_error why = {.text = ""};
    lipsc_status status = gpu->api->alloc(gpu->there, bytes, &b->x, &why);
    if (!status) status = gpu->api->alloc(gpu->there, bytes, &b->y, &why);
    if (!status) return LIPSC_OK;
    return lipsc_fail(err, said(device, status, &why), "%s", why.text);
}

static lipsc_status fill_inputs(batch *b, const lipsc_rows *rows, void **inputs,
                                lipsc_error *err) {
    size_t first = 0;
    for (size_t i = 0; i < b->count; i++) {
        input *in = lipsc_alloc_zero(1, sizeof *in);
        if (!in) {
            while (i--) lipsc_release(inputs[i]);
            return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an input");
        }
        *in = (input){.of = b, .place = i, .first = first, .n = rows[i].n};
        first += rows[i].n;
        inputs[i] = in;
    }
    return LIPSC_OK;
}

/* Inputs that share a batch of the plugin, which has these weights of w. */
static lipsc_status share_batch(const lipsc_device *device, const weights *w,
                                lipsc_cuda_weights *there, size_t count,
                                const lipsc_rows *rows, void **inputs, lipsc_error *err) {
    batch *b = lipsc_alloc_zero(1, sizeof *b);
    if (!b) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a batch");
    *b = (batch){
        .users = count, .count = count, .item = w->item, .d = w->d, .width = w->width};
    for (size_t i = 0; i < count; i++) b->tokens += rows[i].n;
    b->dirs = directions(count, b->tokens);
    lipsc_error why = {.text = ""};
    lipsc_status status = said(
        device,
        lipsc_gpu_of(device)->api->batch_new(there, count, rows, b->dirs, &b->there, &why),
        &why);
    if (status) lipsc_fail(err, status, "%s", why.text);
    if (status) {
        lipsc_release(b);
        return status;
    }
    if (count > 1) status = reserve(device, b, err);
    if (!status) status = fill_inputs(b, rows, inputs, err);
    if (status) batch_free(device, b);
    return status;
}

static void free_inputs(const lipsc_device *device, size_t count, void **inputs) {
    for (size_t i = 0; i < count; i++)
        if (inputs[i]) lipsc_gpu_input_free(device, inputs[i]);
}

/* The same, but that an input which f16 refuses has a batch and weights of its own: which
 * they are does not depend on the others. */
static lipsc_status batch_in_reach(const lipsc_device *device, weights *w, size_t count,
                                   const lipsc_rows *rows, void **inputs,
                                   lipsc_error *err) {
    lipsc_cuda_weights *far;
    lipsc_status status = share_batch(device, w, w->there, count, rows, inputs, err);
    if (status != LIPSC_E_NONFIN || w->dtype != LIPSC_F32) return status;
    if (count == 1) {
        status = reach_further(device, w, &far, err);
        return status ? status : share_batch(device, w, far, 1, rows, inputs, err);
    }
    for (size_t i = 0; i < count; i++) inputs[i] = NULL;
    status = LIPSC_OK;
    for (size_t i = 0; i < count && !status; i++)
        status = batch_in_reach(device, w, 1, &rows[i], &inputs[i], err);
    if (status) free_inputs(device, count, inputs);
    return status;
}

/* Those that are short share one, the others have one each. */
static lipsc_status part_batch(const lipsc_device *device, weights *w, size_t count,
                               const lipsc_rows *rows, lipsc_rows *some, void **made,
                               void **inputs, lipsc_error *err) {
    size_t found = 0, next = 0;
    for (size_t i = 0; i < count; i++)
        if (rows[i].n < LIPSC_CUDA_SHORT) some[found++] = rows[i];
    lipsc_status status =
        found ? batch_in_reach(device, w, found, some, made, err) : LIPSC_OK;
    for (size_t i = 0; i < count; i++) {
        inputs[i] = NULL;
        if (!status && rows[i].n < LIPSC_CUDA_SHORT) inputs[i] = made[next++];
    }
    for (size_t i = 0; i < count && !status; i++)
        if (!inputs[i]) status = batch_in_reach(device, w, 1, &rows[i], &inputs[i], err);
    if (status) free_inputs(device, count, inputs);
    return status;
}

/* ---- Rows of an input that ranks share ------------------------------------------------
 */

/* A batch of one input of own rows, one direction at a time. */
static lipsc_status new_part(const weights *w, size_t own, void **part, lipsc_error *err) {
    batch *b = lipsc_alloc_zero(1, sizeof *b);
    const lipsc_rows rows = {.n = own};
    lipsc_status status = LIPSC_E_NOMEM;
    if (b) {
        *b = (batch){.users = 1,
                     .count = 1,
                     .tokens = own,
                     .dirs = 1,
                     .item = w->item,
                     .d = w->d,
                     .width = w->width};
        status = fill_inputs(b, &rows, part, err);
    }
    if (status) lipsc_release(b);
    return status ? lipsc_fail(err, status, "out of memory for an input") : LIPSC_OK;
}

static lipsc_status part_in(const lipsc_device *device, lipsc_cuda_weights *there,
                            const lipsc_rows *rows, const lipsc_share *share, input *in,
                            lipsc_error *err) {
    lipsc_error why = {.text = ""};
    const lipsc_status status =
        said(device,
             lipsc_gpu_of(device)->api->part_new(there, rows, share, &in->of->there, &why),
             &why);
    return status ? lipsc_fail(err, status, "%s", why.text) : LIPSC_OK;
}

static lipsc_status part_make(const lipsc_device *device, const void *made,
                              const lipsc_rows *rows, const lipsc_share *share, void **part,
                              lipsc_error *err) {
    weights *w = (weights *)made; /* shared, behind its lock */
    lipsc_cuda_weights *far = NULL;
    *part = NULL;
    lipsc_status status = share->agree(share->ctx, new_part(w, share->own, part, err), err);
    input *in = *part;
    if (!status) status = part_in(device, w->there, rows, share, in, err);
    if (status == LIPSC_E_NONFIN && in && w->dtype == LIPSC_F32) {
        status = share->agree(share->ctx, reach_further(device, w, &far, err), err);
        if (!status) status = part_in(device, far, rows, share, in, err);
    }
    if (status && in) {
        lipsc_release(in->of);
        lipsc_release(in);
        *part = NULL;
    }
    return status;
}

const lipsc_part_ops lipsc_gpu_parts = {.make = part_make,
                                        .free = lipsc_gpu_input_free,
                                        .product = lipsc_gpu_product,
                                        .bytes = lipsc_gpu_bytes,
                                        .projections = lipsc_gpu_projections};

/* ---- Several inputs --------------------------------------------------------------------
 */

static int is_input(const lipsc_device *device, lipsc_buffer X, size_t n, size_t d) {
    const lipsc_device *home = X.home ? lipsc_device_home(device) : NULL;
    return lipsc_buffer_fits(X, home, home ? X.type : LIPSC_F64, n, d);
}

/* What is found for an input does not depend on the others: the plugin says so of short
 * ones, and each of the others fills a GPU. */
lipsc_status lipsc_gpu_batch_new(const lipsc_device *device, const void *made, size_t count,
                                 const lipsc_rows *rows, void **inputs, lipsc_error *err) {
    weights *w = (weights *)made; /* shared, behind its lock */
    int same = 1;
    for (size_t i = 0; i < count; i++) {
        same = same && rows[i].n < LIPSC_CUDA_SHORT;
        if (!is_input(device, rows[i].X, rows[i].n, w->d))
            return lipsc_fail(
                err, LIPSC_E_ARG,
                "a GPU takes tokens of its own memory or doubles of the host");
        if (rows[i].raw.q)
            return lipsc_fail(err, LIPSC_E_BACKEND,
                              "a GPU takes no projections that were found elsewhere");
    }
    if (same || count == 1) return batch_in_reach(device, w, count, rows, inputs, err);
    lipsc_rows *some = lipsc_alloc(count, sizeof *some);
    void **short_ones = lipsc_alloc(count, sizeof *short_ones);
    const lipsc_status status =
        some && short_ones
            ? part_batch(device, w, count, rows, some, short_ones, inputs, err)
            : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a batch");
    lipsc_release(some);
    lipsc_release(short_ones);
    return status;
}

lipsc_status lipsc_gpu_input_new(const lipsc_device *device, const void *made,
                                 const lipsc_rows *rows, void **out, lipsc_error *err) {
    return lipsc_gpu_batch_new(device, made, 1, rows, out, err);
}
