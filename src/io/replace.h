/* replace.h - a file that is written whole or not at all. */
#ifndef LIPSC_IO_REPLACE_H
#define LIPSC_IO_REPLACE_H

#include "lipscope.h"

/* Writes what a file shall hold to fd.  0, or -1 with errno. */
typedef int lipsc_file_content(int fd, const void *ctx);

/* The bytes go to a temporary file beside the target, are flushed to the disk, and take the
 * target's name in one step; a link stays, and what it names is replaced.  Devices, pipes
 * and standard output are written directly.  A sentence about a failure begins with path.
 */
lipsc_status lipsc_file_replace(const char *path, lipsc_file_content *content,
                                const void *ctx, lipsc_error *err);

/* All of bytes, also where the system takes them in pieces.  0, or -1 with errno. */
int lipsc_write_all(int fd, const void *bytes, size_t count);

#endif
