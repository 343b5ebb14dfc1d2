/* host.c - a GPU as a device: the table of the plugin (cuda_api.h) behind that of devices.
 *
 * The plugin lies beside the library or the program, or where LIPSCOPE_CUDA_PLUGIN says; it
 * is loaded when a GPU is first asked for and stays.  f32 is computed in f16 x 3, f64 in
 * double.  What the plugin does not have is left NULL and done by the device's CPU: dense
 * layers and maps of single tokens, gradients, outputs; values are evaluated there too,
 * because the bounds of their rounding are those of the CPU's products. */
#define _GNU_SOURCE /* dladdr */
#include "backend/cuda/host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/cuda_api.h"
#include "core/error.h"
#include "core/mem.h"

/* ---- The plugin ------------------------------------------------------------------------
 */

static struct {
    const lipsc_cuda_api *api; /* NULL: there is none, and why */
    char why[400];
} plugin;

static void *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) snprintf(plugin.why, sizeof plugin.why, "%.390s", dlerror());
    return library;
}

/* Beside what this function is part of. */
static void *load_beside(void) {
    Dl_info here;
    char path[1024];
    const char *slash;
    if (!dladdr((void *)(uintptr_t)&lipsc_device_open, &here) || !here.dli_fname)
        return NULL;
    slash = strrchr(here.dli_fname, '/');
    const int length = slash ? (int)(slash - here.dli_fname) : 1;
    static const char *const folders[] = {"", "/../lib"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        FILE *file;
        if (snprintf(path, sizeof path, "%.*s%s/liblipscope_cuda.so", length,
                     slash ? here.dli_fname : ".", folders[i]) >= (int)sizeof path ||
            !(file = fopen(path, "rb")))
            continue;
        fclose(file);
        return load(path);
    }
    snprintf(
        plugin.why, sizeof plugin.why,
        "the plugin liblipscope_cuda.so is not beside the program (`make cuda` builds it, "
        "LIPSCOPE_CUDA_PLUGIN names it)");
    return NULL;
}

static void find_plugin(void) {
    const char *named = getenv("LIPSCOPE_CUDA_PLUGIN");
    void *library = named && *named ? load(named) : load_beside();
    const lipsc_cuda_api *(*entry)(void) = NULL;
    if (!library) return;
    *(void **)&entry = dlsym(library, LIPSC_CUDA_PLUGIN);
    const lipsc_cuda_api *api = entry ? entry() : NULL;
    if (api && api->abi == LIPSC_CUDA_ABI && api->size == sizeof *api)
        plugin.api = api;
    else
        snprintf(plugin.why, sizeof plugin.why,
                 "the plugin liblipscope_cuda.so is of another build");
}

static const lipsc_cuda_api *get_plugin(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_plugin);
    return plugin.api;
}

/* The plugin's word for a device that cannot is LIPSC_E_REFUSED, which is one of bounds
 * here. */
static lipsc_status told(lipsc_status status) {
    return status == LIPSC_E_REFUSED ? LIPSC_E_BACKEND : status;
}

/* ---- Vectors ---------------------------------------------------------------------------
 */

static lipsc_cuda_device *gpu(const lipsc_device *device) { return device->state; }
static int wide(const lipsc_space *self) { return self->dtype == LIPSC_F64; }

static void *alloc(const lipsc_space *self, size_t elements) {
    size_t bytes;
    void *p = NULL;
    if (!lipsc_mul_size(elements, self->item, &bytes) ||
        plugin.api->alloc(gpu(self->device), bytes, &p, NULL))
        return NULL;
    return p;
}

static void release(const lipsc_space *self, void *p) {
    plugin.api->release(gpu(self->device), p);
}

static lipsc_status upload(const lipsc_space *self, size_t elements, const double *host,
                           void *dst) {
    return told(plugin.api->put(gpu(self->device), wide(self), elements, host, dst, NULL));
}

static lipsc_status download(const lipsc_space *self, size_t elements, const void *src,
                             double *host) {
    return told(plugin.api->get(gpu(self->device), wide(self), elements, src, host, NULL));
}

static lipsc_status copy(const lipsc_space *self, size_t elements, const void *src,
                         void *dst) {
    return told(plugin.api->copy(gpu(self->device), elements * self->item, src, dst, NULL));
}

static lipsc_status scale(const lipsc_space *self, size_t elements, double s, void *x) {
    return told(plugin.api->times(gpu(self->device), wide(self), elements, s, x, NULL));
}

static lipsc_status random_numbers(const lipsc_space *self, uint64_t seed, uint64_t first,
                                   size_t elements, void *dst) {
    return told(plugin.api->random(gpu(self->device), wide(self), seed, first, elements,
                                   dst, NULL));
}

static lipsc_status gram(const lipsc_space *self, size_t len, size_t ka, const void *a,
                         size_t kb, const void *b, double *c) {
    return told(
        plugin.api->dots(gpu(self->device), wide(self), len, ka, a, kb, b, c, NULL));
}

static lipsc_status combine(const lipsc_space *self, size_t len, size_t ka, const void *a,
                            size_t kb, const double *c, double beta, void *b) {
    return told(
        plugin.api->mix(gpu(self->device), wide(self), len, ka, a, kb, c, beta, b, NULL));
}

static const lipsc_space_ops space_ops = {.alloc = alloc,
                                          .release = release,
                                          .upload = upload,
                                          .download = download,
                                          .copy = copy,
                                          .scale = scale,
                                          .random = random_numbers,
                                          .gram = gram,
                                          .combine = combine};

/* ---- Attention -------------------------------------------------------------------------
 */

enum { DIRECTIONS = 4 }; /* of one call of the plugin; more go in turns */

typedef struct {
    lipsc_cuda_weights *there;
    size_t item, d, width;
} weights;

/* Inputs that share the plugin's batch; x, y: DIRECTIONS vectors of all of them, where
 * there are several. */
typedef struct {
    lipsc_cuda_batch *there;
    size_t users, count, tokens;
    size_t item, d, width;
    int *active;
    void *x, *y;
} batch;

typedef struct {
    batch *of;
    size_t place, first, n; /* number in the batch, its first token, tokens */
} input;

static lipsc_status weights_new(const lipsc_device *device, const lipsc_layer *layer,
                                lipsc_dtype dtype, void **out, lipsc_error *err) {
    weights *w = lipsc_alloc_zero(1, sizeof *w);
    if (!w) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for the packed weights");
    *w = (weights){.item = device->space[dtype].item,
                   .d = layer->d,
                   .width = lipsc_layer_width(layer)};
    const lipsc_status status = told(plugin.api->weights_new(
        gpu(device), layer, dtype == LIPSC_F64 ? LIPSC_CUDA_F64 : LIPSC_CUDA_F16X3,
        &w->there, err));
    if (status)
        lipsc_release(w);
    else
        *out = w;
    return status;
}

static void weights_free(const lipsc_device *device, void *made) {
    weights *w = made;
    (void)device;
    plugin.api->weights_free(w->there);
    lipsc_release(w);
}

static void batch_free(const lipsc_device *device, batch *b) {
    plugin.api->batch_free(b->there);
    if (b->x) plugin.api->release(gpu(device), b->x);
    if (b->y) plugin.api->release(gpu(device), b->y);
    lipsc_release(b->active);
    lipsc_release(b);
}

static void input_free(const lipsc_device *device, void *made) {
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
    if (!b->active) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a batch");
    lipsc_status status = plugin.api->alloc(gpu(device), bytes, &b->x, err);
    if (!status) status = plugin.api->alloc(gpu(device), bytes, &b->y, err);
    return told(status);
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

static lipsc_status batch_new(const lipsc_device *device, const void *made, size_t count,
                              const lipsc_rows *rows, void **inputs, lipsc_error *err) {
    const weights *w = made;
    for (size_t i = 0; i < count; i++)
        if (rows[i].raw.q)
            return lipsc_fail(err, LIPSC_E_BACKEND,
                              "a GPU takes no projections that were found elsewhere");
    batch *b = lipsc_alloc_zero(1, sizeof *b);
    if (!b) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a batch");
    *b = (batch){
        .users = count, .count = count, .item = w->item, .d = w->d, .width = w->width};
    for (size_t i = 0; i < count; i++) b->tokens += rows[i].n;
    lipsc_status status =
        told(plugin.api->batch_new(w->there, count, rows, DIRECTIONS, &b->there, err));
    if (status) {
        lipsc_release(b);
        return status;
    }
    if (count > 1) status = reserve(device, b, err);
    if (!status) status = fill_inputs(b, rows, inputs, err);
    if (status) batch_free(device, b);
    return status;
}

static lipsc_status input_new(const lipsc_device *device, const void *made,
                              const lipsc_rows *rows, void **out, lipsc_error *err) {
    return batch_new(device, made, 1, rows, out, err);
}

/* The rows of the products' inputs to or from their places in a vector of the batch. */
static lipsc_status move(const lipsc_device *device, const batch *b, size_t count,
                         const lipsc_product *product, size_t dir, size_t dirs,
                         size_t width, int in) {
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; !status && i < count; i++) {
        const input *of = product[i].of;
        const size_t bytes = of->n * width * b->item;
        for (size_t k = 0; !status && k < dirs; k++) {
            char *all =
                (char *)(in ? b->x : b->y) + (k * b->tokens + of->first) * width * b->item;
            const size_t own = (dir + k) * bytes;
            status = in ? plugin.api->copy(gpu(device), bytes,
                                           (const char *)product[i].x + own, all, NULL)
                        : plugin.api->copy(gpu(device), bytes, all,
                                           (char *)product[i].y + own, NULL);
        }
    }
    return told(status);
}

/* Products of the same number of directions with inputs of one batch. */
static lipsc_status together(const lipsc_device *device, int trans, size_t count,
                             const lipsc_product *product) {
    batch *b = ((const input *)product[0].of)->of;
    const size_t from = trans ? b->width : b->d, to = trans ? b->d : b->width;
    memset(b->active, 0, b->count * sizeof *b->active);
    for (size_t i = 0; i < count; i++) b->active[((const input *)product[i].of)->place] = 1;
    lipsc_status status =
        told(plugin.api->activate(b->there, count == b->count ? NULL : b->active, NULL));
    for (size_t dir = 0; !status && dir < product[0].k; dir += DIRECTIONS) {
        const size_t left = product[0].k - dir,
                     dirs = left < DIRECTIONS ? left : DIRECTIONS;
        status = move(device, b, count, product, dir, dirs, from, 1);
        if (!status)
            status = told(plugin.api->product(b->there, trans, dirs, b->x, b->y, 0, NULL));
        if (!status) status = move(device, b, count, product, dir, dirs, to, 0);
    }
    return status;
}

static lipsc_status product_of(const lipsc_device *device, void *made, int trans, size_t k,
                               const void *x, void *y) {
    input *in = made;
    batch *b = in->of;
    if (b->count > 1) {
        const lipsc_product one = {.of = made, .k = k, .x = x, .y = y};
        return together(device, trans, 1, &one);
    }
    const size_t from = in->n * (trans ? b->width : b->d) * b->item;
    const size_t to = in->n * (trans ? b->d : b->width) * b->item;
    lipsc_status status = LIPSC_OK;
    for (size_t dir = 0; !status && dir < k; dir += DIRECTIONS)
        status = told(plugin.api->product(
            b->there, trans, k - dir < DIRECTIONS ? k - dir : DIRECTIONS,
            (const char *)x + dir * from, (char *)y + dir * to, 0, NULL));
    return status;
}

static lipsc_status products(const lipsc_device *device, int trans, size_t count,
                             const lipsc_product *product) {
    int alike = count > 0;
    for (size_t i = 0; i < count; i++)
        alike &= product[i].k == product[0].k &&
                 ((const input *)product[i].of)->of == ((const input *)product[0].of)->of;
    if (alike && count > 1) return together(device, trans, count, product);
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; !status && i < count; i++)
        status = product_of(device, product[i].of, trans, product[i].k, product[i].x,
                            product[i].y);
    return status;
}

static size_t bytes_of(const lipsc_device *device, const void *made) {
    (void)device;
    return plugin.api->batch_bytes(((const input *)made)->of->there);
}

/* ---- Life ------------------------------------------------------------------------------
 */

static void close_gpu(lipsc_device *device) { plugin.api->close(gpu(device)); }

static const lipsc_device_ops cuda_ops = {.name = "cuda",
                                          .weights_new = weights_new,
                                          .weights_free = weights_free,
                                          .input_new = input_new,
                                          .input_free = input_free,
                                          .product = product_of,
                                          .bytes = bytes_of,
                                          .close = close_gpu,
                                          .batch_new = batch_new,
                                          .products = products};

lipsc_status lipsc_cuda_open(int index, int threads, lipsc_device *device,
                             lipsc_error *err) {
    lipsc_cuda_device *there = NULL;
    if (!get_plugin()) return lipsc_fail(err, LIPSC_E_BACKEND, "cuda: %s", plugin.why);
    lipsc_error why = {.text = ""};
    int count = 0;
    lipsc_status status = plugin.api->count(&count, &why);
    if (!status && index >= count)
        return lipsc_fail(err, LIPSC_E_BACKEND, "there is no cuda:%d: %d in all", index,
                          count);
    if (!status) status = plugin.api->open(index, &there, &why);
    if (status) return lipsc_fail(err, LIPSC_E_BACKEND, "cuda: %s", why.text);
    lipsc_device_fill(device, &cuda_ops, &space_ops, there, threads);
    return LIPSC_OK;
}

size_t lipsc_cuda_count(void) {
    int devices = 0;
    if (!get_plugin() || plugin.api->count(&devices, NULL) || devices < 1) return 1;
    return (size_t)devices;
}

void lipsc_cuda_describe(int index, lipsc_device_info *out) {
    lipsc_cuda_about about;
    lipsc_error why = {.text = ""};
    if (!get_plugin()) {
        snprintf(out->about, sizeof out->about, "%.191s", plugin.why);
        return;
    }
    if (plugin.api->about(index, &about, &why)) {
        snprintf(out->about, sizeof out->about, "%.191s", why.text);
        return;
    }
    out->memory = about.memory;
    out->usable = about.usable;
    snprintf(out->about, sizeof out->about, "%.127s, CUDA %d.%d%s", about.name,
             about.driver / 1000, about.driver % 1000 / 10,
             about.usable ? "" : ", for which the plugin has no code");
}
