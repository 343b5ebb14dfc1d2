/* plugin.h - loads the CUDA plugin; every failure ends the program with its sentence. */
#ifndef LIPSC_TEST_CUDA_PLUGIN_H
#define LIPSC_TEST_CUDA_PLUGIN_H

#include "backend/cuda/cuda_api.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline const lipsc_cuda_api *plugin_open(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    const lipsc_cuda_api *(*plugin)(void);
    *(void **)&plugin = dlsym(library, LIPSC_CUDA_PLUGIN);
    if (!plugin || plugin()->abi != LIPSC_CUDA_ABI ||
        plugin()->size != sizeof(lipsc_cuda_api)) {
        fprintf(stderr, "%s is not the plugin of this build\n", path);
        exit(2);
    }
    return plugin();
}

static inline void must(lipsc_status status, const lipsc_error *err) {
    if (status == LIPSC_OK) return;
    fprintf(stderr, "%s\n", err->text);
    exit(2);
}

/* count doubles to the device, as elements of a batch in this precision */
static inline void *vector_up(const lipsc_cuda_api *api, lipsc_cuda_device *device,
                              lipsc_cuda_precision precision, size_t count,
                              const double *host) {
    lipsc_error err;
    void *p = NULL;
    const size_t item = precision == LIPSC_CUDA_F64 ? sizeof(double) : sizeof(float);
    must(api->alloc(device, count * item, &p, &err), &err);
    if (!host) {
        must(api->fill(device, count * item, 0xff, p, &err), &err);
        return p;
    }
    float *narrow = malloc(count * sizeof *narrow);
    if (!narrow) abort();
    for (size_t i = 0; i < count; i++) narrow[i] = (float)host[i];
    must(api->upload(device, count * item,
                     precision == LIPSC_CUDA_F64 ? (const void *)host : narrow, p, &err),
         &err);
    free(narrow);
    return p;
}

static inline void vector_down(const lipsc_cuda_api *api, lipsc_cuda_device *device,
                               lipsc_cuda_precision precision, size_t count, const void *p,
                               double *host) {
    lipsc_error err;
    if (precision == LIPSC_CUDA_F64) {
        must(api->download(device, count * sizeof *host, p, host, &err), &err);
        return;
    }
    float *narrow = malloc(count * sizeof *narrow);
    if (!narrow) abort();
    must(api->download(device, count * sizeof *narrow, p, narrow, &err), &err);
    for (size_t i = 0; i < count; i++) host[i] = (double)narrow[i];
    free(narrow);
}

/* count numbers of the output of a batch's input */
static inline void output_down(const lipsc_cuda_api *api, lipsc_cuda_device *device,
                               lipsc_cuda_batch *batch, size_t input, size_t count,
                               double *host) {
    lipsc_error err;
    void *y = vector_up(api, device, LIPSC_CUDA_F64, count, NULL);
    must(api->output(batch, input, 1, y, &err), &err);
    vector_down(api, device, LIPSC_CUDA_F64, count, y, host);
    api->release(device, y);
}

#endif
