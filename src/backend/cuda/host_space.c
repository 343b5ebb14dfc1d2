/* host_space.c - vectors of a GPU: the operations of a space by the plugin's. */
#include "backend/cuda/host_parts.h"
#include "core/mem.h"

static int wide(const lipsc_space *self) { return self->dtype == LIPSC_F64; }

static void *alloc(const lipsc_space *self, size_t elements) {
    const lipsc_gpu *gpu = lipsc_gpu_of(self->device);
    lipsc_error err = {.text = ""};
    size_t bytes;
    void *p = NULL;
    if (!lipsc_mul_size(elements, self->item, &bytes)) return NULL;
    const lipsc_status status = gpu->api->alloc(gpu->there, bytes, &p, &err);
    if (!status) return p;
    (void)!lipsc_gpu_said(self->device, status, &err);
    return NULL;
}

static void release(const lipsc_space *self, void *p) {
    const lipsc_gpu *gpu = lipsc_gpu_of(self->device);
    gpu->api->release(gpu->there, p);
}

/* The arguments that come first in every call. */
#define HERE                                   \
    const lipsc_device *device = self->device; \
    lipsc_cuda_device *there = lipsc_gpu_of(device)->there

static lipsc_status upload(const lipsc_space *self, size_t elements, const double *host,
                           void *dst) {
    HERE;
    LIPSC_GPU_CALL(put, there, wide(self), elements, host, dst);
}

static lipsc_status download(const lipsc_space *self, size_t elements, const void *src,
                             double *host) {
    HERE;
    LIPSC_GPU_CALL(get, there, wide(self), elements, src, host);
}

static lipsc_status copy(const lipsc_space *self, size_t elements, const void *src,
                         void *dst) {
    HERE;
    LIPSC_GPU_CALL(copy, there, elements * self->item, src, dst);
}

static lipsc_status scale(const lipsc_space *self, size_t elements, double s, void *x) {
    HERE;
    LIPSC_GPU_CALL(times, there, wide(self), elements, s, x);
}

static lipsc_status random_numbers(const lipsc_space *self, uint64_t seed, uint64_t first,
                                   size_t elements, void *dst) {
    HERE;
    LIPSC_GPU_CALL(random, there, wide(self), seed, first, elements, dst);
}

static lipsc_status gram(const lipsc_space *self, size_t len, size_t ka, const void *a,
                         size_t kb, const void *b, double *c) {
    HERE;
    LIPSC_GPU_CALL(dots, there, wide(self), len, ka, a, kb, b, c);
}

static lipsc_status combine(const lipsc_space *self, size_t len, size_t ka, const void *a,
                            size_t kb, const double *c, double beta, void *b) {
    HERE;
    LIPSC_GPU_CALL(mix, there, wide(self), len, ka, a, kb, c, beta, b);
}

static lipsc_status grams(const lipsc_space *self, size_t count, const lipsc_gram *gram_) {
    HERE;
    LIPSC_GPU_CALL(dots_of, there, wide(self), count, gram_);
}

static lipsc_status combines(const lipsc_space *self, size_t count,
                             const lipsc_combination *combination) {
    HERE;
    LIPSC_GPU_CALL(mix_of, there, wide(self), count, combination);
}

const lipsc_space_ops lipsc_gpu_space = {.alloc = alloc,
                                         .release = release,
                                         .upload = upload,
                                         .download = download,
                                         .copy = copy,
                                         .scale = scale,
                                         .random = random_numbers,
                                         .gram = gram,
                                         .combine = combine,
                                         .grams = grams,
                                         .combines = combines};
