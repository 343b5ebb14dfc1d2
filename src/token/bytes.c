/* bytes.c - whole files of bytes: texts, and what is read as ids. */
#include "token/token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "io/builtin.h"
#include "io/show.h"

static lipsc_status read_stream(FILE *from, const char *name, char **bytes, size_t *size,
                                lipsc_error *err) {
    size_t room = 1 << 16, used = 0;
    char *all = lipsc_alloc(room, 1);
    while (all) {
        used += fread(all + used, 1, room - used, from);
        if (used < room) break;
        char *larger = room <= SIZE_MAX / 2 ? lipsc_alloc(2 * room, 1) : NULL;
        if (larger) memcpy(larger, all, used);
        lipsc_release(all);
        all = larger;
        room *= 2;
    }
    if (!all) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", name);
    if (ferror(from)) {
        const int why = errno;
        lipsc_release(all);
        return lipsc_fail_system(err, name, "read", why);
    }
    *bytes = all;
    *size = used;
    return LIPSC_OK;
}

lipsc_status lipsc_bytes_read(const char *path, char **bytes, size_t *size,
                              lipsc_error *err) {
    char room[LIPSC_PATH_ROOM];
    if (!strcmp(path, "-")) return read_stream(stdin, "standard input", bytes, size, err);
    lipsc_status status = lipsc_path_resolve(path, room, &path, err);
    if (status) return status;
    FILE *from = fopen(path, "rb");
    if (!from) return lipsc_fail_system(err, path, "open", errno);
    status = read_stream(from, path, bytes, size, err);
    fclose(from);
    return status;
}

lipsc_status lipsc_ids_read(const char *path, uint32_t **ids, size_t *count,
                            lipsc_error *err) {
    char *bytes, shown[LIPSC_SHOWN_PATH] = "standard input";
    size_t size;
    lipsc_status status = lipsc_bytes_read(path, &bytes, &size, err);
    if (status) return status;
    if (strcmp(path, "-")) lipsc_show_path(path, shown);
    status = lipsc_ids_parse(shown, bytes, size, ids, count, err);
    lipsc_release(bytes);
    return status;
}
