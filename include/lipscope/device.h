/* device.h - where numbers are computed. */
#ifndef LIPSCOPE_DEVICE_H
#define LIPSCOPE_DEVICE_H

#include "lipscope/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A device is opened once and passed to whatever computes; it owns its memory and its
 * threads.  Two threads may use two devices at once, never one. */
typedef struct lipsc_device lipsc_device;

/* name: "cpu", or NULL for it.  threads: of the CPU, 0 means as many as OpenMP gives.
 * LIPSC_E_BACKEND with a sentence about what is missing. */
LIPSC_API lipsc_status lipsc_device_open(const char *name, int threads, lipsc_device **out,
                                         lipsc_error *err);
LIPSC_API void lipsc_device_close(lipsc_device *device);

/* NULL, here and wherever a device is asked for, is the CPU with the threads that OpenMP
 * gives. */
LIPSC_API const char *lipsc_device_name(const lipsc_device *device);
LIPSC_API int lipsc_device_threads(const lipsc_device *device);

/* Comma separated names compiled in, best first, for instance "cuda,cpu", and the
 * instruction set that the CPU products chose on this machine. */
LIPSC_API const char *lipsc_backends(void);
LIPSC_API const char *lipsc_cpu_isa(void);

#ifdef __cplusplus
}
#endif
#endif
