/* host.c - a GPU as a device: the table of the plugin (cuda_api.h) behind that of devices.
 *
 * The plugin lies beside the library or the program, or where LIPSCOPE_CUDA_PLUGIN says; it
 * is loaded when a GPU is first asked for and stays.  What the plugin does not have is left
 * NULL and done by the device's CPU: projections in twice the precision. */
#define _GNU_SOURCE /* dladdr */
#include "backend/cuda/host.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/cuda/host_parts.h"
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

/* ---- What it says
 * ---------------------------------------------------------------------- */

/* The plugin's word for a device that cannot is LIPSC_E_REFUSED, which is one of bounds
 * here. */
static lipsc_status told(lipsc_status status) {
    return status == LIPSC_E_REFUSED ? LIPSC_E_BACKEND : status;
}

static pthread_mutex_t why_lock = PTHREAD_MUTEX_INITIALIZER;

lipsc_status lipsc_gpu_said(const lipsc_device *device, lipsc_status status,
                            const lipsc_error *err) {
    lipsc_gpu *gpu = lipsc_gpu_of(device);
    pthread_mutex_lock(&why_lock);
    snprintf(gpu->why, sizeof gpu->why, "%s", err->text);
    pthread_mutex_unlock(&why_lock);
    return told(status);
}

static const char *failure(const lipsc_device *device) {
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    return gpu->why[0] ? gpu->why : NULL;
}

static lipsc_status busy(const lipsc_device *device, double seconds, double *part) {
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    return gpu->api->busy ? gpu->api->busy(gpu->there, seconds, part, NULL)
                          : LIPSC_E_REFUSED;
}

static int is_ready(const lipsc_device *device) {
    const lipsc_gpu *gpu = lipsc_gpu_of(device);
    return gpu->api->ready(gpu->there);
}

/* ---- Life ------------------------------------------------------------------------------
 */

static void close_gpu(lipsc_device *device) {
    lipsc_gpu *gpu = lipsc_gpu_of(device);
    gpu->api->close(gpu->there);
    lipsc_release(gpu);
}

/* Constants are folded into weights and values: log2(e) into queries, ln 2 into values; at
 * most eight roundings of a factor more than the definition has.  exp2 of the kernels is
 * zero below 2^-1000. */
static const lipsc_device_ops cuda_ops = {.name = "cuda",
                                          .concurrent = 1,
                                          .proved = 1,
                                          .coarse_f32 = 1,
                                          .half = 4096,
                                          .speed = 1e14,
                                          .room = (size_t)1 << 35,
                                          .folds = 8.0,
                                          .least = 0x1p-1000,
                                          .rows_alone = 1,
                                          .tokens_there = 1,
                                          .batch_tokens = 3072,
                                          .weights_new = lipsc_gpu_weights_new,
                                          .weights_free = lipsc_gpu_weights_free,
                                          .input_new = lipsc_gpu_input_new,
                                          .input_free = lipsc_gpu_input_free,
                                          .product = lipsc_gpu_product,
                                          .bytes = lipsc_gpu_bytes,
                                          .part = &lipsc_gpu_parts,
                                          .close = close_gpu,
                                          .ready = is_ready,
                                          .busy = busy,
                                          .failure = failure,
                                          .batch_new = lipsc_gpu_batch_new,
                                          .products = lipsc_gpu_products,
                                          .gradient = lipsc_gpu_gradient,
                                          .projections = lipsc_gpu_projections,
                                          .spread = lipsc_gpu_spread,
                                          .output = lipsc_gpu_output,
                                          .linear_new = lipsc_gpu_linear_new,
                                          .linear_free = lipsc_gpu_linear_free,
                                          .linear_apply = lipsc_gpu_linear_apply,
                                          .rowwise = lipsc_gpu_rowwise};

/* By this variable cuBLAS makes products in double of integers. */
static const char emulation[] = "CUBLAS_EMULATE_DOUBLE_PRECISION";

/* Threads that wait for the GPU spin, which is a tenth faster, or leave their cores. */
static int waits_asleep(void) {
    const char *how = getenv("LIPSCOPE_CUDA_WAIT");
    return how && !strcmp(how, "sleep");
}

lipsc_status lipsc_cuda_open(int index, int threads, lipsc_device *device,
                             lipsc_error *err) {
    lipsc_gpu *gpu;
    if (!get_plugin()) return lipsc_fail(err, LIPSC_E_BACKEND, "cuda: %s", plugin.why);
    lipsc_error why = {.text = ""};
    int count = 0;
    lipsc_status status = plugin.api->count(&count, &why);
    if (!status && index >= count)
        return lipsc_fail(err, LIPSC_E_BACKEND, "there is no cuda:%d: %d in all", index,
                          count);
    if (status) return lipsc_fail(err, LIPSC_E_BACKEND, "cuda: %s", why.text);
    if (getenv(emulation))
        return lipsc_fail(err, LIPSC_E_BACKEND,
                          "cuda: with %s set, products in double are not those that values "
                          "are proved with",
                          emulation);
    gpu = lipsc_alloc_zero(1, sizeof *gpu);
    if (!gpu) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a device");
    gpu->api = plugin.api;
    status = gpu->api->open(index, waits_asleep(), &gpu->there, &why);
    if (status) {
        lipsc_release(gpu);
        return lipsc_fail(err, LIPSC_E_BACKEND, "cuda: %s", why.text);
    }
    lipsc_device_fill(device, &cuda_ops, &lipsc_gpu_space, gpu, threads);
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
