/* device.c - what is opened and passed to whatever computes. */
#define _POSIX_C_SOURCE 200809L /* pthread_once */
#include "lipscope/device.h"

#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend/backend.h"
#include "core/error.h"
#include "core/mem.h"

static void make_cpu(int threads, lipsc_device *device) {
    *device = (lipsc_device){.ops = &lipsc_cpu_ops, .threads = threads};
    snprintf(device->name, sizeof device->name, "cpu");
    for (int t = 0; t < 2; t++) {
        device->space[t] = *lipsc_space_host((lipsc_dtype)t);
        device->space[t].device = device;
    }
    device->cpu = device;
}

lipsc_status lipsc_device_open(const char *name, int threads, lipsc_device **out,
                               lipsc_error *err) {
    if (!out || threads < 0)
        return lipsc_fail(err, LIPSC_E_ARG, "a device needs a place and 0 or more threads");
    if (name && strcmp(name, "cpu") != 0)
        return lipsc_fail(err, LIPSC_E_BACKEND, "there is no device '%s' here", name);
    lipsc_device *device = lipsc_alloc(1, sizeof *device);
    if (!device) return lipsc_fail(err, LIPSC_E_NOMEM, "no memory for a device");
    make_cpu(threads, device);
    *out = device;
    return LIPSC_OK;
}

void lipsc_device_close(lipsc_device *device) {
    if (device && device->ops->close) device->ops->close(device);
    lipsc_release(device);
}

const char *lipsc_device_name(const lipsc_device *device) {
    return device ? device->name : "cpu";
}

int lipsc_device_threads(const lipsc_device *device) {
    return device && device->threads ? device->threads : omp_get_max_threads();
}

/* ---- Inside the library ------------------------------------------------------------- */

const lipsc_device_ops *lipsc_device_table(const lipsc_device *device) {
    return device ? device->ops : &lipsc_cpu_ops;
}

const lipsc_space *lipsc_device_space(const lipsc_device *device, lipsc_dtype dtype) {
    return device ? &device->space[dtype] : lipsc_space_host(dtype);
}

const lipsc_device *lipsc_device_home(const lipsc_device *device) {
    return device ? device->home : NULL;
}

const lipsc_device *lipsc_device_cpu(const lipsc_device *device) {
    return device ? device->cpu : NULL;
}

void lipsc_device_lend(const lipsc_device *device, int threads, lipsc_device *out) {
    if (!device || device->ops == &lipsc_cpu_ops) {
        make_cpu(threads, out);
        return;
    }
    *out = *device;
    out->threads = threads;
    for (int t = 0; t < 2; t++) out->space[t].device = out;
}

enum { MOST_KEPT = 512 };
static lipsc_device cpus[MOST_KEPT];

static void make_cpus(void) {
    for (int t = 0; t < MOST_KEPT; t++) make_cpu(t, &cpus[t]);
}

const lipsc_device *lipsc_cpu_of(int threads) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (threads <= 0) return NULL;
    pthread_once(&once, make_cpus);
    return &cpus[threads < MOST_KEPT ? threads : MOST_KEPT - 1];
}

const lipsc_device *lipsc_device_dense(const lipsc_device *device) {
    const lipsc_device_ops *ops = lipsc_device_table(device);
    return ops->linear_new && ops->rowwise ? device : device->cpu;
}

const lipsc_device *lipsc_device_proved(const lipsc_device *device) {
    return lipsc_device_table(device)->proved ? device : device->cpu;
}

int lipsc_device_useful_threads(const lipsc_device *device, const lipsc_layer *layer,
                                size_t n) {
    const double small_pair = 1e6; /* floating-point operations */
    const double tokens = (double)n, width = (double)layer->heads * (double)layer->key_dim;
    const double pair =
        16.0 * tokens * (double)layer->d * width + 16.0 * tokens * tokens * width;
    return pair < small_pair ? 1 : lipsc_device_threads(device);
}

const char *lipsc_backends(void) { return "cpu"; }
