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

static void release(const lipsc_space *self, lipsc_buffer b) {
    const lipsc_gpu *gpu = lipsc_gpu_of(self->device);
    gpu->api->release(gpu->there, b.at);
}

/* The arguments that come first in every call. */
#define HERE                                   \
    const lipsc_device *device = self->device; \
    lipsc_cuda_device *there = lipsc_gpu_of(device)->there

static lipsc_status upload(const lipsc_space *self, size_t elements, const double *host,
                           lipsc_buffer dst) {
    HERE;
    LIPSC_GPU_CALL(put, there, wide(self), elements, host, dst.at);
}

static lipsc_status download(const lipsc_space *self, size_t elements, lipsc_buffer src,
                             double *host) {
    HERE;
    LIPSC_GPU_CALL(get, there, wide(self), elements, src.at, host);
}

static lipsc_status copy(const lipsc_space *self, size_t elements, lipsc_buffer src,
                         lipsc_buffer dst) {
    HERE;
    LIPSC_GPU_CALL(copy, there, elements * self->item, src.at, dst.at);
}

static lipsc_status scale(const lipsc_space *self, size_t elements, double s,
                          lipsc_buffer x) {
    HERE;
    LIPSC_GPU_CALL(times, there, wide(self), elements, s, x.at);
}

static lipsc_status random_numbers(const lipsc_space *self, uint64_t seed, uint64_t first,
                                   size_t elements, lipsc_buffer dst) {
    HERE;
    LIPSC_GPU_CALL(random, there, wide(self), seed, first, elements, dst.at);
}

static lipsc_status gram(const lipsc_space *self, size_t len, size_t ka, lipsc_buffer a,
                         size_t kb, lipsc_buffer b, double *c) {
    HERE;
    LIPSC_GPU_CALL(dots, there, wide(self), len, ka, a.at, kb, b.at, c);
}

static lipsc_status combine(const lipsc_space *self, size_t len, size_t ka, lipsc_buffer a,
                            size_t kb, const double *c, double beta, lipsc_buffer b) {
    HERE;
    LIPSC_GPU_CALL(mix, there, wide(self), len, ka, a.at, kb, c, beta, b.at);
}

static lipsc_status make_grams(const lipsc_space *self, size_t count,
                               const lipsc_cuda_gram *given) {
    HERE;
    LIPSC_GPU_CALL(dots_of, there, wide(self), count, given);
}

static lipsc_status grams(const lipsc_space *self, size_t count, const lipsc_gram *gram_) {
    lipsc_cuda_gram *all = lipsc_alloc(count, sizeof *all);
    if (!all) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const lipsc_gram *g = &gram_[i];
        all[i] = (lipsc_cuda_gram){g->len, g->ka, g->a.at, g->kb, g->b.at, g->c};
    }
    const lipsc_status status = make_grams(self, count, all);
    lipsc_release(all);
    return status;
}

static lipsc_status make_combines(const lipsc_space *self, size_t count,
                                  const lipsc_cuda_combination *given) {
    HERE;
    LIPSC_GPU_CALL(mix_of, there, wide(self), count, given);
}

static lipsc_status combines(const lipsc_space *self, size_t count,
                             const lipsc_combination *combination) {
    lipsc_cuda_combination *all = lipsc_alloc(count, sizeof *all);
    if (!all) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < count; i++) {
        const lipsc_combination *m = &combination[i];
        all[i] =
            (lipsc_cuda_combination){m->len, m->ka, m->a.at, m->kb, m->c, m->beta, m->b.at};
    }
    const lipsc_status status = make_combines(self, count, all);
    lipsc_release(all);
    return status;
}

static lipsc_status widen(const lipsc_space *self, size_t elements, lipsc_buffer src,
                          lipsc_buffer dst) {
    HERE;
    LIPSC_GPU_CALL(widen, there, elements, src.at, dst.at);
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
                                         .combines = combines,
                                         .widen = widen};
