/* error.c - fills a lipsc_error with place and reason. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>

static lipsc_status fill(lipsc_error *err, lipsc_status code, uint64_t offset,
                         const char *format, va_list args) {
    if (err) {
        err->code = code;
        err->offset = offset;
        vsnprintf(err->text, sizeof err->text, format, args);
    }
    return code;
}

lipsc_status lipsc_fail(lipsc_error *err, lipsc_status code, const char *format, ...) {
    va_list args;
    va_start(args, format);
    lipsc_status status = fill(err, code, 0, format, args);
    va_end(args);
    return status;
}

lipsc_status lipsc_fail_at(lipsc_error *err, lipsc_status code, uint64_t offset,
                           const char *format, ...) {
    va_list args;
    va_start(args, format);
    lipsc_status status = fill(err, code, offset, format, args);
    va_end(args);
    return status;
}
