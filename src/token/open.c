/* open.c - what is found by its name: the tokenizer of a model, texts, files of ids. */
#include "token/token.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "io/builtin.h"
#include "io/show.h"

/* ---- Tokenizers -------------------------------------------------------------------- */

/* data/tokenizer.json, compiled in */
extern const unsigned char lipsc_builtin_tokenizer[];
extern const size_t lipsc_builtin_tokenizer_size;

/* Where the tokenizer of a model lies: of a single safetensors file in its folder. */
static const char *beside(const char *spec, char room[LIPSC_PATH_ROOM]) {
    static const char ending[] = ".safetensors";
    const size_t length = strlen(spec), end = sizeof ending - 1;
    if (length <= end || strcmp(spec + length - end, ending)) return spec;
    const char *slash = strrchr(spec, '/');
    const size_t folder = slash ? (size_t)(slash - spec) + 1 : 0;
    if (folder + 2 > LIPSC_PATH_ROOM) return spec;
    memmove(room, spec, folder);
    memcpy(room + folder, ".", 2);
    return room;
}

lipsc_status lipsc_tokenizer_open(const char *spec, lipsc_tokenizer **out,
                                  lipsc_error *err) {
    static const char random[] = "random:";
    char room[LIPSC_PATH_ROOM];
    lipsc_status status = lipsc_model_resolve(spec, room, &spec, err);
    if (status) return status;
    if (strncmp(spec, random, sizeof random - 1))
        return lipsc_tokenizer_read(beside(spec, room), out, err);
    status = lipsc_tokenizer_read(spec + sizeof random - 1, out, err);
    if (status == LIPSC_E_IO) /* there are no such files */
        status = lipsc_tokenizer_parse((const char *)lipsc_builtin_tokenizer,
                                       lipsc_builtin_tokenizer_size,
                                       "the built-in tokenizer", out, err);
    return status;
}

/* ---- Bytes and ids ------------------------------------------------------------------ */

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
