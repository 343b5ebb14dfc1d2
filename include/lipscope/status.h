/* status.h - what every part shares: status, error, precision. */
#ifndef LIPSCOPE_STATUS_H
#define LIPSCOPE_STATUS_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define LIPSC_API __attribute__((visibility("default")))
#else
#define LIPSC_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define LIPSC_VERSION_STRING "0.1.0"
#define LIPSC_SCHEMA         1 /* of files and output fields */

LIPSC_API const char *lipsc_version(void);

/* One list; the enum, the names and the sentences are expanded from it.
 * Values are part of the ABI: append, never reorder. */
#define LIPSC_STATUS_LIST(X)                                                   \
    X(OK, 0, "success")                                                        \
    X(E_ARG, 1, "invalid argument")                                            \
    X(E_NOMEM, 2, "out of memory")                                             \
    X(E_IO, 3, "cannot read or write file")                                    \
    X(E_FORMAT, 4, "malformed file")                                           \
    X(E_RANGE, 5, "size out of range")                                         \
    X(E_BACKEND, 6, "back end not available in this build or on this machine") \
    X(E_NOCONV, 7, "iteration limit reached before the tolerance")             \
    X(E_NONFIN, 8, "a NaN or an infinity appeared")                            \
    X(E_CALLBACK, 9, "a user callback reported failure")                       \
    X(E_STOPPED, 10, "stopped by the stop callback")                           \
    X(E_REFUSED, 11, "the hypotheses of this bound do not hold")

typedef enum {
#define LIPSC_EXPAND(name, value, text) LIPSC_##name = value,
    LIPSC_STATUS_LIST(LIPSC_EXPAND)
#undef LIPSC_EXPAND
} lipsc_status;

LIPSC_API const char *lipsc_strerror(lipsc_status s);    /* a sentence, never NULL */
LIPSC_API const char *lipsc_status_name(lipsc_status s); /* "E_FORMAT", never NULL */

/* Where and why.  text is one sentence that names the file, the thing and the
 * reason, for instance
 *     layer.safetensors: tensor 'Q': shape and offsets disagree */
typedef struct {
    lipsc_status code;
    uint64_t offset; /* byte in the file, 0 where that has no meaning */
    char text[800];
} lipsc_error;

/* Frees what a function handed out with these words; NULL does nothing. */
LIPSC_API void lipsc_release(void *p);

/* Precision of the products and of the vectors of a solve. */
typedef enum { LIPSC_F64 = 0, LIPSC_F32 = 1 } lipsc_dtype;
LIPSC_API const char *lipsc_dtype_name(lipsc_dtype dtype); /* "f64", "f32" */

#ifdef __cplusplus
}
#endif
#endif
