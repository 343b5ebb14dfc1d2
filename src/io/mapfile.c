/* mapfile.c - read-only mapping of a file, with its length. */
#define _DEFAULT_SOURCE /* open, fstat, mmap, madvise */
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

void lipsc_mapfile_forget(const lipsc_mapfile *map, const void *from, size_t size) {
#ifdef MADV_DONTNEED
    const uintptr_t first = (uintptr_t)from, base = (uintptr_t)map->data;
    const long page = sysconf(_SC_PAGESIZE);
    if (page <= 0 || !map->size || first < base || first - base > map->size ||
        size > map->size - (first - base))
        return;
    const uintptr_t start = first / (uintptr_t)page * (uintptr_t)page;
    madvise((void *)start, first + size - start, MADV_DONTNEED); /* a hint: may fail */
#else
    (void)map, (void)from, (void)size;
#endif
}
