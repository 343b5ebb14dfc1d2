/* mapfile.h - read-only mapping of a file, with its length. */
#ifndef LIPSC_IO_MAPFILE_H
#define LIPSC_IO_MAPFILE_H

#include "lipscope.h"

/* The file must not shrink while it is mapped: the system then ends the process. */
typedef struct {
    const uint8_t *data; /* never NULL while open, also for an empty file */
    size_t size;
} lipsc_mapfile;

/* Regular files only: a directory, a pipe or a device is refused, and opening a pipe
 * does not wait for its writer. */
lipsc_status lipsc_mapfile_open(const char *path, lipsc_mapfile *out, lipsc_error *err);
void lipsc_mapfile_close(lipsc_mapfile *map); /* twice is fine */

/* The pages of `size` bytes at `from` are not needed for a while: they leave the memory of
 * the process and come back when they are read again.  Bytes outside the mapping, of a
 * caller for instance, are left alone. */
void lipsc_mapfile_forget(const lipsc_mapfile *map, const void *from, size_t size);

#endif
