/* mapfile.c - read-only mapping of a file, with its length. */
#define _POSIX_C_SOURCE 200809L /* open, fstat, mmap */
#include "io/mapfile.h"

#include "core/error.h"
#include "io/show.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* An empty file cannot be mapped; its data points here. */
static const uint8_t nothing[1];

static lipsc_status map_descriptor(int fd, const char *path, lipsc_mapfile *out,
                                   lipsc_error *err) {
    struct stat info;
    char shown[LIPSC_SHOWN_PATH];
    lipsc_show_path(path, shown);
    if (fstat(fd, &info)) return lipsc_fail_system(err, path, "read", errno);
    if (S_ISDIR(info.st_mode))
        return lipsc_fail(err, LIPSC_E_IO, "%s: is a directory, not a file", shown);
    if (!S_ISREG(info.st_mode))
        return lipsc_fail(err, LIPSC_E_IO, "%s: is not a regular file", shown);
    if ((uintmax_t)info.st_size > PTRDIFF_MAX)
        return lipsc_fail(err, LIPSC_E_RANGE, "%s: is too large to be mapped", shown);

    const size_t size = (size_t)info.st_size;
    const void *data = nothing;
    if (size) {
        data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (data == MAP_FAILED) return lipsc_fail_system(err, path, "map", errno);
    }
    *out = (lipsc_mapfile){.data = data, .size = size};
    return LIPSC_OK;
}

lipsc_status lipsc_mapfile_open(const char *path, lipsc_mapfile *out, lipsc_error *err) {
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return lipsc_fail_system(err, path, "open", errno);
    const lipsc_status status = map_descriptor(fd, path, out, err);
    close(fd); /* the mapping stays */
    return status;
}

void lipsc_mapfile_close(lipsc_mapfile *map) {
    if (map->size) munmap((void *)(uintptr_t)map->data, map->size);
    *map = (lipsc_mapfile){.data = nothing, .size = 0};
}
