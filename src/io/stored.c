/* stored.c - the tensors of a file or a model, as rows. */
#define _POSIX_C_SOURCE 200809L /* stat */
#include <string.h>
#include <sys/stat.h>

#include "core/error.h"
#include "core/mem.h"
#include "io/builtin.h"
#include "io/checkpoint.h"
#include "io/show.h"
#include "lipscope/file.h"

typedef lipsc_stored_row record;
static const lipsc_field fields[] = {LIPSC_STORED_LIST(LIPSC_FIELD_ENTRY)};

lipsc_fields lipsc_stored_fields(void) {
    return (lipsc_fields){sizeof fields / sizeof *fields, fields};
}

int lipsc_stored_alone(const char *spec) {
    char room[LIPSC_PATH_ROOM];
    const char *path;
    struct stat info;
    return !lipsc_model_resolve(spec, room, &path, NULL) && !stat(path, &info) &&
           S_ISREG(info.st_mode) && !lipsc_gguf_recognised(path);
}

/* Rows with their shapes as texts, and the files that all other texts stand in. */
typedef struct {
    lipsc_checkpoint *files;
    char (*shapes)[LIPSC_SHOWN_SHAPE];
} storage;

static lipsc_status fill(storage *from, lipsc_stored_rows *out, lipsc_error *err) {
    lipsc_stored tensor;
    while (lipsc_checkpoint_at(from->files, out->count, &tensor)) out->count++;
    from->shapes = lipsc_alloc(out->count, sizeof *from->shapes);
    out->at = lipsc_alloc(out->count, sizeof *out->at);
    if (!from->shapes || !out->at)
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a list of tensors");
    for (size_t i = 0; lipsc_checkpoint_at(from->files, i, &tensor); i++) {
        lipsc_show_shape(tensor.ndim, tensor.shape, from->shapes[i]);
        out->at[i] = (lipsc_stored_row){.tensor = tensor.name,
                                        .dtype = tensor.dtype,
                                        .shape = from->shapes[i],
                                        .bytes = tensor.bytes,
                                        .file = tensor.file};
    }
    return LIPSC_OK;
}

lipsc_status lipsc_stored_read_all(const char *spec, lipsc_stored_rows *out,
                                   lipsc_error *err) {
    char room[LIPSC_PATH_ROOM];
    const char *path;
    *out = (lipsc_stored_rows){0};
    lipsc_status status = lipsc_model_resolve(spec, room, &path, err);
    if (!status && !strncmp(spec, "random:", 7))
        status = lipsc_fail(err, LIPSC_E_ARG, "%s: a random model stores no tensors", spec);
    if (status) return status;
    storage *from = lipsc_alloc_zero(1, sizeof *from);
    if (!from) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    out->storage = from;
    status = lipsc_checkpoint_open(path, &from->files, err);
    return status ? status : fill(from, out, err);
}

void lipsc_stored_rows_free(lipsc_stored_rows *rows) {
    storage *from = rows->storage;
    if (!from) return;
    lipsc_checkpoint_free(from->files);
    lipsc_release(from->shapes);
    lipsc_release(from);
    lipsc_release(rows->at);
    *rows = (lipsc_stored_rows){0};
}
