/* host_attention.c - weights, inputs and products of attention on a GPU, by the plugin's.
 *
 * f16 is computed in f16, f32 in f16 x 3, or in bf16 x 3 where an input has numbers beyond
 * f16's, f64 in double.  Inputs of one batch share the plugin's, whose vectors are those of
 * its inputs one after the other; the solver's are each cell's own. */
#include <pthread.h>
#include <string.h>

#include "backend/cuda/host_parts.h"
#include "core/error.h"
#include "core/mem.h"

/* Directions of one call of the plugin; more go in turns.  Few tokens take more of them, so
 * that there is enough to do, and so many that memory is short take one. */
enum { DIRECTIONS = 4, MOST_DIRECTIONS = 32, ENOUGH_TOKENS = 8192, MANY_TOKENS = 65536 };

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

/* Inputs that share the plugin's batch; x, y: DIRECTIONS vectors of all of them, where
 * there are several.  dirs: those that the plugin's batch has room for. */
typedef struct {
    lipsc_cuda_batch *there;
    size_t users, count, tokens, dirs;
    size_t item, d, width;
    int *active, *told;       /* who is worked on; what the plugin was told of that last */
    lipsc_cuda_piece *pieces; /* (DIRECTIONS count) */
    void *x, *y;
} batch;

typedef struct {
    batch *of;
    size_t place, first, n; /* number in the batch, its first token, tokens */
} input;

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

/* The rows of the products' inputs to or from their places in a vector of the batch. */
static lipsc_status move(const lipsc_device *device, const batch *b, size_t count,
                         const lipsc_product *product, size_t dir, size_t dirs,
                         size_t width, int in) {
    for (size_t i = 0; i < count; i++) {
        const input *of = product[i].of;
        const size_t bytes = of->n * width * b->item;
        for (size_t k = 0; k < dirs; k++) {
            char *all =
                (char *)(in ? b->x : b->y) + (k * b->tokens + of->first) * width * b->item;
            char *own =
                (char *)(in ? (uintptr_t)product[i].x.at : (uintptr_t)product[i].y.at) +
                (dir + k) * bytes;
            b->pieces[i * dirs + k] =
                (lipsc_cuda_piece){bytes, in ? own : all, in ? all : own};
        }
    }
    LIPSC_GPU_CALL(copies, lipsc_gpu_of(device)->there, count * dirs, b->pieces);
}

static lipsc_status tell_active(const lipsc_device *device, const batch *b,
                                const int *active) {
    LIPSC_GPU_CALL(activate, b->there, active);
}

/* Whoever has a product is worked on; the plugin hears of it where that changed. */
static lipsc_status activate(const lipsc_device *device, batch *b, size_t count,
                             const lipsc_product *product) {
    const size_t bytes = b->count * sizeof *b->active;
    memset(b->active, 0, bytes);
    for (size_t i = 0; i < count; i++) b->active[((const input *)product[i].of)->place] = 1;
    if (!memcmp(b->active, b->told, bytes)) return LIPSC_OK;
    const lipsc_status status =
        tell_active(device, b, count == b->count ? NULL : b->active);
    if (!status) memcpy(b->told, b->active, bytes);
    return status;
}

static lipsc_status multiply(const lipsc_device *device, const batch *b, int trans,
                             size_t k, const void *x, void *y) {
    LIPSC_GPU_CALL(product, b->there, trans, k, x, y, 0);
}

/* Products of the same number of directions with inputs of one batch. */
static lipsc_status together(const lipsc_device *device, int trans, size_t count,
                             const lipsc_product *product) {
    batch *b = ((const input *)product[0].of)->of;
    const size_t from = trans ? b->width : b->d, to = trans ? b->d : b->width;
    lipsc_status status = activate(device, b, count, product);
    for (size_t dir = 0; !status && dir < product[0].k; dir += DIRECTIONS) {
        const size_t left = product[0].k - dir,
                     dirs = left < DIRECTIONS ? left : DIRECTIONS;
        status = move(device, b, count, product, dir, dirs, from, 1);
        if (!status) status = multiply(device, b, trans, dirs, b->x, b->y);
        if (!status) status = move(device, b, count, product, dir, dirs, to, 0);
    }
    return status;
}

lipsc_status lipsc_gpu_product(const lipsc_device *device, void *made, int trans, size_t k,
                               lipsc_buffer x, lipsc_buffer y) {
    input *in = made;
    batch *b = in->of;
    if (b->count > 1) {
        const lipsc_product one = {.of = made, .k = k, .x = x, .y = y};
        return together(device, trans, 1, &one);
    }
    const size_t from = in->n * (trans ? b->width : b->d) * b->item;
    const size_t to = in->n * (trans ? b->d : b->width) * b->item;
    lipsc_status status = LIPSC_OK;
    for (size_t dir = 0; !status && dir < k; dir += b->dirs)
        status = multiply(device, b, trans, k - dir < b->dirs ? k - dir : b->dirs,
                          (const char *)x.at + dir * from, (char *)y.at + dir * to);
    return status;
}

static int go_together(const lipsc_product *p, const lipsc_product *q) {
    return p->k == q->k && ((const input *)p->of)->of == ((const input *)q->of)->of;
}

/* Those that go with the first of all that are left, moved before the others. */
static size_t gather(size_t count, lipsc_product *left) {
    size_t found = 1;
    for (size_t i = 1; i < count; i++)
        if (go_together(&left[0], &left[i])) {
            const lipsc_product moved = left[found];
            left[found++] = left[i];
            left[i] = moved;
        }
    return found;
}

lipsc_status lipsc_gpu_products(const lipsc_device *device, int trans, size_t count,
                                const lipsc_product *product) {
    lipsc_product *left = lipsc_alloc(count, sizeof *left);
    lipsc_status status = left ? LIPSC_OK : LIPSC_E_NOMEM;
    if (left) memcpy(left, product, count * sizeof *left);
    for (size_t done = 0, now; done < count && !status; done += now) {
        const lipsc_product *first = &left[done];
        now = gather(count - done, &left[done]);
        status = now > 1 ? together(device, trans, now, first)
                         : lipsc_gpu_product(device, first->of, trans, first->k, first->x,
                                             first->y);
    }
    lipsc_release(left);
    return status;
}

size_t lipsc_gpu_bytes(const lipsc_device *device, const void *made) {
    return lipsc_gpu_of(device)->api->batch_bytes(((const input *)made)->of->there);
}

lipsc_status lipsc_gpu_projections(const lipsc_device *device, const void *made,
                                   size_t head, double *q, double *key, double *z,
                                   double *q_over, double *k_over) {
    const input *in = made;
    LIPSC_GPU_CALL(projections, in->of->there, in->place, head, q, key, z, q_over, k_over);
}

lipsc_status lipsc_gpu_spread(const lipsc_device *device, void *made, double *entropy,
                              double *columns) {
    const input *in = made;
    LIPSC_GPU_CALL(spread, in->of->there, in->place, entropy, columns);
}

static lipsc_status write_output(const lipsc_device *device, const input *in,
                                 lipsc_buffer y) {
    LIPSC_GPU_CALL(output, in->of->there, in->place, y.type == LIPSC_F64, y.at);
}

lipsc_status lipsc_gpu_output(const lipsc_device *device, void *made, lipsc_buffer y) {
    const input *in = made;
    const size_t count = in->n * in->of->width;
    if (y.home) return write_output(device, in, y);
    if (!lipsc_buffer_fits(y, NULL, LIPSC_F64, 1, count)) return LIPSC_E_ARG;
    const lipsc_space *wide = lipsc_device_space(device, LIPSC_F64);
    const lipsc_buffer there = lipsc_space_alloc(wide, count);
    lipsc_status status = there.at ? write_output(device, in, there) : LIPSC_E_NOMEM;
    if (!status) status = lipsc_space_download(wide, count, there, y.at);
    lipsc_space_release(wide, there);
    return status;
}

/* ---- Gradients, in f64 --------------------------------------------------------------- */

static lipsc_status pair_gradient(const lipsc_device *device, const batch *b, const void *u,
                                  const void *v, void *grad, void *grad_score) {
    LIPSC_GPU_CALL(gradient, b->there, u, v, grad, grad_score);
}

/* A vector of the batch with rows of `width` numbers, zero but for those of `in`, which are
 * x; NULL: there is no memory. */
static void *spread_rows(const lipsc_device *device, const input *in, size_t width,
                         const void *x) {
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    const batch *b = in->of;
    const size_t row = width * b->item;
    double *zeros = lipsc_alloc_zero(b->tokens * width, sizeof *zeros);
    lipsc_error why = {.text = ""};
    void *all = NULL;
    if (!zeros) return NULL;
    lipsc_status status = gpu->api->alloc(gpu->there, b->tokens * row, &all, &why);
    if (!status)
        status = gpu->api->put(gpu->there, b->item == sizeof(double), b->tokens * width,
                               zeros, all, &why);
    lipsc_release(zeros);
    if (!status && x)
        status =
            gpu->api->copy(gpu->there, in->n * row, x, (char *)all + in->first * row, &why);
    if (status) (void)!lipsc_gpu_said(device, status, &why);
    if (status && all) gpu->api->release(gpu->there, all);
    return status ? NULL : all;
}

/* The rows of `in` back from a vector of the batch. */
static lipsc_status take_rows(const lipsc_device *device, const input *in, size_t width,
                              const void *all, void *y) {
    const size_t row = width * in->of->item;
    LIPSC_GPU_CALL(copy, lipsc_gpu_of(device)->there, in->n * row,
                   (const char *)all + in->first * row, y);
}

/* One input of several: the plugin's gradients are those of the whole batch. */
static lipsc_status member_gradient(const lipsc_device *device, const input *in,
                                    const void *u, const void *v, void *grad,
                                    void *grad_score) {
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    const batch *b = in->of;
    void *all[] = {spread_rows(device, in, b->width, u), spread_rows(device, in, b->d, v),
                   spread_rows(device, in, b->d, NULL),
                   grad_score ? spread_rows(device, in, 1, NULL) : NULL};
    lipsc_status status =
        all[0] && all[1] && all[2] && (all[3] || !grad_score) ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = pair_gradient(device, b, all[0], all[1], all[2], all[3]);
    if (!status) status = take_rows(device, in, b->d, all[2], grad);
    if (!status && grad_score) status = take_rows(device, in, 1, all[3], grad_score);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i]) gpu->api->release(gpu->there, all[i]);
    return status;
}

lipsc_status lipsc_gpu_gradient(const lipsc_device *device, void *made, size_t k,
                                lipsc_buffer u, lipsc_buffer v, lipsc_buffer grad,
                                lipsc_buffer grad_score) {
    const input *in = made;
    const batch *b = in->of;
    const size_t wide = in->n * b->width * b->item, deep = in->n * b->d * b->item;
    lipsc_status status = LIPSC_OK;
    for (size_t p = 0; p < k && !status; p++) {
        const void *u_p = (const char *)u.at + p * wide,
                   *v_p = (const char *)v.at + p * deep;
        void *to = (char *)grad.at + p * deep,
             *score = grad_score.at ? (char *)grad_score.at + p * in->n * b->item : NULL;
        status = b->count == 1 ? pair_gradient(device, b, u_p, v_p, to, score)
                               : member_gradient(device, in, u_p, v_p, to, score);
    }
    return status;
}
