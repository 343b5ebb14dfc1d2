/* folder.h - a folder in memory for what is only read from files: folder.c stands in for
 * io/mapfile.c and for the system's access and stat.  A mapping is an allocation of exactly
 * the file's size, so that a read past its end is seen. */
#ifndef LIPSC_FUZZ_FOLDER_H
#define LIPSC_FUZZ_FOLDER_H

#include <stddef.h>

#define FOLDER "/in-memory"

void folder_put(const char *name, const void *bytes, size_t size);
void folder_remove(const char *name);

#endif
