/* find.c - the tokenizer of a model, wherever that is named from. */
#include "token/token.h"

#include <string.h>

#include "io/builtin.h"

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
