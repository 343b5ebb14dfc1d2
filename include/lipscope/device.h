/* device.h - where numbers are computed. */
#ifndef LIPSCOPE_DEVICE_H
#define LIPSCOPE_DEVICE_H

#include "lipscope/ranks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A device is opened once and passed to whatever computes; it owns its memory and its
 * threads.  Two threads may use two devices at once, never one. */
typedef struct lipsc_device lipsc_device;

/* name: "cpu", "cuda", "cuda:1", or "guard", a CPU whose memory the host cannot touch, for
 * tests.  NULL and "auto": a CPU that becomes the first GPU when a study is opened on it
 * whose work is worth that, and which goes on as a CPU should the GPU fail.  threads: of
 * the CPU, 0 means as many as OpenMP gives.  LIPSC_E_BACKEND with a sentence about what is
 * missing.  A device is closed after everything that was made on it. */
LIPSC_API lipsc_status lipsc_device_open(const char *name, int threads, lipsc_device **out,
                                         lipsc_error *err);
/* The devices of all ranks as one, on which the rows of one input are shared: products that
 * are too long for one machine.  name: what this rank opens, NULL: its CPU; all of one
 * kind.  All of them open it and make the same calls, one input at a time (others of the
 * same length and order may stand beside it); each has the whole input, and all numbers
 * that come back.  Processors must be of one kind. */
LIPSC_API lipsc_status lipsc_device_share(lipsc_ranks *ranks, const char *name, int threads,
                                          lipsc_device **out, lipsc_error *err);
LIPSC_API void lipsc_device_close(lipsc_device *device);

/* NULL, here and wherever a device is asked for, is the CPU with the threads that OpenMP
 * gives. */
LIPSC_API const char *lipsc_device_name(const lipsc_device *device);
LIPSC_API int lipsc_device_threads(const lipsc_device *device);

/* What there is, best known first; usable or not, and what `about` says of it. */
typedef struct {
    char name[32];   /* what lipsc_device_open takes                      */
    char about[192]; /* threads, the driver, or why it cannot be used     */
    size_t memory;   /* bytes; 0: not known                               */
    int usable;
} lipsc_device_info;
LIPSC_API size_t lipsc_device_count(void);
LIPSC_API lipsc_status lipsc_device_describe(size_t which, lipsc_device_info *out);

/* Comma separated names compiled in, best first, for instance "cuda,cpu", and the
 * instruction set that the CPU products chose on this machine. */
LIPSC_API const char *lipsc_backends(void);
LIPSC_API const char *lipsc_cpu_isa(void);

/* What BLAS says of itself, or "not OpenBLAS". */
LIPSC_API const char *lipsc_blas(void);

#ifdef __cplusplus
}
#endif
#endif
