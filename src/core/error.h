/* error.h - fills a lipsc_error with place and reason. */
#ifndef LIPSC_CORE_ERROR_H
#define LIPSC_CORE_ERROR_H

#include "lipscope.h"

/* Writes code and sentence into err (NULL is fine) and returns code, so that a
 * failing function can end with `return lipsc_fail(err, ...)`. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
lipsc_status
lipsc_fail(lipsc_error *err, lipsc_status code, const char *format, ...);

/* The same with the byte of the file at which it went wrong. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
lipsc_status
lipsc_fail_at(lipsc_error *err, lipsc_status code, uint64_t offset, const char *format,
              ...);

#endif
