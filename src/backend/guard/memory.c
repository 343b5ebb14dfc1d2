/* memory.c - memory that the host cannot touch, and vectors in it.
 *
 * A buffer is a range of pages without any right, so that whoever follows a pointer to it
 * ends there; the numbers are elsewhere, and only the operations of this device know where.
 * They ask for every place that they are given whether it lies in a buffer of this device,
 * as far as they will go: a pointer of the host, of another device, to memory that was
 * released, or one number too many end the program with a sentence.  New buffers are full
 * of NaN. */
#define _GNU_SOURCE /* MAP_ANONYMOUS */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "backend/guard/parts.h"
#include "core/mem.h"

/* What the host sees of a buffer, and where its numbers are. */
typedef struct {
    char *shown;
    size_t bytes;
    char *real;
} buffer;

typedef struct {
    pthread_mutex_t lock; /* of what follows */
    size_t count, room;
    buffer *buffers; /* in the order of shown */
} guard;

static guard *guard_of(const lipsc_device *device) { return device->state; }
static const lipsc_space *cpu_space(const lipsc_space *self) {
    return lipsc_device_space(self->device->cpu, self->dtype);
}

/* How many buffers begin at or before p. */
static size_t begun(const guard *g, const char *p) {
    size_t low = 0, high = g->count;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if ((uintptr_t)g->buffers[middle].shown <= (uintptr_t)p)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Where the numbers of a place are; the program ends where it is not one of this device. */
static void *reach(const lipsc_device *device, const void *place, size_t bytes) {
    guard *g = guard_of(device);
    const char *p = place;
    char *real = NULL;
    pthread_mutex_lock(&g->lock);
    const size_t found = begun(g, p);
    if (found) {
        const buffer *b = &g->buffers[found - 1];
        const size_t at = (size_t)((uintptr_t)p - (uintptr_t)b->shown);
        if (at <= b->bytes && bytes <= b->bytes - at) real = b->real + at;
    }
    pthread_mutex_unlock(&g->lock);
    if (real) return real;
    fprintf(stderr, "lipscope: guard: %zu bytes at %p are not in a buffer of this device\n",
            bytes, place);
    abort();
}

lipsc_buffer lipsc_guard_there(const lipsc_device *device, lipsc_dtype type, lipsc_buffer b,
                               size_t k, size_t len) {
    const size_t item = device->space[type].item;
    const int fits = lipsc_buffer_fits(b, device->home, type, k, len);
    if (!fits || !k || !len) return (lipsc_buffer){.type = type, .at = b.at};
    return (lipsc_buffer){
        .type = type, .count = k * len, .at = reach(device, b.at, k * len * item)};
}

/* ---- Vectors ------------------------------------------------------------------------- */

static lipsc_buffer at(const lipsc_space *self, lipsc_buffer b, size_t elements) {
    return lipsc_guard_there(self->device, self->dtype, b, 1, elements);
}

/* The lock is held. */
static int remember(guard *g, buffer b) {
    if (g->count == g->room) {
        const size_t room = g->room ? 2 * g->room : 64;
        buffer *more = realloc(g->buffers, room * sizeof *more);
        if (!more) return 0;
        g->buffers = more;
        g->room = room;
    }
    const size_t place = begun(g, b.shown);
    memmove(g->buffers + place + 1, g->buffers + place,
            (g->count - place) * sizeof *g->buffers);
    g->buffers[place] = b;
    g->count++;
    return 1;
}

static void *alloc(const lipsc_space *self, size_t elements) {
    guard *g = guard_of(self->device);
    buffer b;
    if (!lipsc_mul_size(elements ? elements : 1, self->item, &b.bytes)) return NULL;
    b.real = lipsc_alloc(b.bytes, 1);
    b.shown =
        mmap(NULL, b.bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    int ok = b.real && b.shown != MAP_FAILED;
    if (ok) {
        memset(b.real, 0xff, b.bytes); /* NaN in both precisions */
        pthread_mutex_lock(&g->lock);
        ok = remember(g, b);
        pthread_mutex_unlock(&g->lock);
    }
    if (ok) return b.shown;
    if (b.shown != MAP_FAILED) munmap(b.shown, b.bytes);
    lipsc_release(b.real);
    return NULL;
}

static void release(const lipsc_space *self, lipsc_buffer which) {
    guard *g = guard_of(self->device);
    const char *p = which.at;
    pthread_mutex_lock(&g->lock);
    const size_t found = begun(g, p);
    buffer b = {0};
    if (found && g->buffers[found - 1].shown == p) {
        b = g->buffers[found - 1];
        memmove(g->buffers + found - 1, g->buffers + found,
                (g->count - found) * sizeof *g->buffers);
        g->count--;
    }
    pthread_mutex_unlock(&g->lock);
    if (!b.shown) {
        fprintf(stderr, "lipscope: guard: %p is no buffer of this device\n", which.at);
        abort();
    }
    munmap(b.shown, b.bytes);
    lipsc_release(b.real);
}

static lipsc_status upload(const lipsc_space *self, size_t elements, const double *host,
                           lipsc_buffer dst) {
    return lipsc_space_upload(cpu_space(self), elements, host, at(self, dst, elements));
}

static lipsc_status download(const lipsc_space *self, size_t elements, lipsc_buffer src,
                             double *host) {
    return lipsc_space_download(cpu_space(self), elements, at(self, src, elements), host);
}

static lipsc_status copy(const lipsc_space *self, size_t elements, lipsc_buffer src,
                         lipsc_buffer dst) {
    return lipsc_space_copy(cpu_space(self), elements, at(self, src, elements),
                            at(self, dst, elements));
}

static lipsc_status scale(const lipsc_space *self, size_t elements, double s,
                          lipsc_buffer x) {
    return lipsc_space_scale(cpu_space(self), elements, s, at(self, x, elements));
}

static lipsc_status random_numbers(const lipsc_space *self, uint64_t seed, uint64_t first,
                                   size_t elements, lipsc_buffer dst) {
    return lipsc_space_random(cpu_space(self), seed, first, elements,
                              at(self, dst, elements));
}

static lipsc_status gram(const lipsc_space *self, size_t len, size_t ka, lipsc_buffer a,
                         size_t kb, lipsc_buffer b, double *c) {
    return lipsc_space_gram(cpu_space(self), len, ka, at(self, a, ka * len), kb,
                            at(self, b, kb * len), c);
}

static lipsc_status combine(const lipsc_space *self, size_t len, size_t ka, lipsc_buffer a,
                            size_t kb, const double *c, double beta, lipsc_buffer b) {
    return lipsc_space_combine(cpu_space(self), len, ka, at(self, a, ka * len), kb, c, beta,
                               at(self, b, kb * len));
}

static lipsc_status widen(const lipsc_space *self, size_t elements, lipsc_buffer src,
                          lipsc_buffer dst) {
    const lipsc_buffer from = lipsc_guard_there(self->device, LIPSC_F32, src, 1, elements),
                       to = at(self, dst, elements);
    for (size_t e = 0; e < elements; e++)
        ((double *)to.at)[e] = ((const float *)from.at)[e];
    return LIPSC_OK;
}

const lipsc_space_ops lipsc_guard_space_ops = {.alloc = alloc,
                                               .release = release,
                                               .upload = upload,
                                               .download = download,
                                               .copy = copy,
                                               .scale = scale,
                                               .random = random_numbers,
                                               .gram = gram,
                                               .combine = combine,
                                               .widen = widen};

/* ---- Life ---------------------------------------------------------------------------- */

lipsc_status lipsc_guard_memory_new(void **memory) {
    guard *g = lipsc_alloc_zero(1, sizeof *g);
    if (!g || pthread_mutex_init(&g->lock, NULL)) {
        lipsc_release(g);
        return LIPSC_E_NOMEM;
    }
    *memory = g;
    return LIPSC_OK;
}

void lipsc_guard_memory_free(lipsc_device *device) {
    guard *g = guard_of(device);
    for (size_t i = 0; i < g->count; i++) {
        munmap(g->buffers[i].shown, g->buffers[i].bytes);
        lipsc_release(g->buffers[i].real);
    }
    free(g->buffers);
    pthread_mutex_destroy(&g->lock);
    lipsc_release(g);
}
