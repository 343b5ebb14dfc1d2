/* parts.h - what the files of this device show each other:
 *     guard.c    the device and its attention
 *     memory.c   its memory, and vectors in it
 *     dense.c    what stands around attention in a model */
#ifndef LIPSC_BACKEND_GUARD_PARTS_H
#define LIPSC_BACKEND_GUARD_PARTS_H

#include "backend/backend.h"

lipsc_status lipsc_guard_memory_new(void **memory);
void lipsc_guard_memory_free(lipsc_device *device);

/* The CPU's buffer of k times len numbers that are in b; one that the CPU refuses where b
 * is of another device or type, or shorter than that. */
lipsc_buffer lipsc_guard_there(const lipsc_device *device, lipsc_dtype type, lipsc_buffer b,
                               size_t k, size_t len);

extern const lipsc_space_ops lipsc_guard_space_ops;

/* As lipsc_device_ops says. */
lipsc_status lipsc_guard_linear_new(const lipsc_device *device, size_t in, size_t out,
                                    const double *w, int transposed, const double *bias,
                                    lipsc_dtype dtype, void **made, lipsc_error *err);
void lipsc_guard_linear_free(const lipsc_device *device, void *made);
lipsc_status lipsc_guard_linear_apply(const lipsc_device *device, const void *made,
                                      size_t rows, lipsc_buffer x, int bias, int add,
                                      lipsc_buffer y);
const lipsc_rowwise *lipsc_guard_rowwise(lipsc_dtype dtype);

#endif
