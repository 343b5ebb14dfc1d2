/* host.h - GPUs through the plugin liblipscope_cuda.so, which is looked for at run time. */
#ifndef LIPSC_BACKEND_CUDA_HOST_H
#define LIPSC_BACKEND_CUDA_HOST_H

#include "backend/backend.h"

/* Fills what a kind of device knows of *device; LIPSC_E_BACKEND with a sentence about what
 * is missing: the plugin, a driver, a GPU of this number, code for it. */
lipsc_status lipsc_cuda_open(int index, int threads, lipsc_device *device,
                             lipsc_error *err);

/* GPUs, at least one, so that the list can say why there is none. */
size_t lipsc_cuda_count(void);
void lipsc_cuda_describe(int index, lipsc_device_info *out);

#endif
