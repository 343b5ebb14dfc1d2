/* save.c - what is written as layer files: where the layer comes from, the tokens at which
 * it stands, and the direction of a cell. */
#define _POSIX_C_SOURCE 200809L
#include "study/save.h"

#include <stdio.h>
#include <sys/stat.h>

#include "attn/attn.h"
#include "core/error.h"
#include "core/mem.h"
#include "io/layer_file.h"
#include "study/result.h"
#include "token/token.h"

/* ---- Origin -------------------------------------------------------------------------- */

void lipsc_save_model(lipsc_layer_record *record, const char *spec,
                      const lipsc_model_info *info, size_t layer, long head,
                      lipsc_save_room *room) {
    record->model = spec;
    record->model_hash = info->hash;
    if (layer == LIPSC_NONE) return;
    snprintf(room->place, sizeof room->place, "%zu", layer);
    snprintf(room->head, sizeof room->head, "%ld", head);
    record->place = room->place;
    record->head = head < 0 ? "all" : room->head;
}

lipsc_status lipsc_save_window(lipsc_layer_record *record, const lipsc_source *source,
                               size_t start, lipsc_save_room *room, lipsc_error *err) {
    const size_t n = record->input.n;
    record->text_hash = source->hash;
    if (source->pixels) {
        record->pixels = source->pixels;
        for (int i = 0; i < 3; i++) record->pixel_shape[i] = source->shape[i];
        return LIPSC_OK;
    }
    uint32_t *ids = lipsc_alloc(n, sizeof *ids);
    room->ids = lipsc_alloc(n, sizeof *room->ids);
    for (size_t i = 0; ids && room->ids && i < n; i++)
        room->ids[i] = ids[i] = lipsc_window_id(source, start, n, i);
    if (ids && room->ids) lipsc_ids_hash(n, ids, room->ids_hash);
    const int failed = !ids || !room->ids;
    lipsc_release(ids);
    if (failed) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ids");
    record->ids = room->ids;
    record->ids_hash = room->ids_hash;
    return LIPSC_OK;
}

void lipsc_save_free(lipsc_save_room *room) {
    lipsc_release(room->ids);
    room->ids = NULL;
}

/* ---- The direction of a cell --------------------------------------------------------- */

int lipsc_study_direction_path(const lipsc_study *study, const study_cell *cell, char *path,
                               size_t room) {
    const char *base = study->set.save_direction;
    char layer[32] = "model", head[32] = "";
    int length;
    if (cell->layer != LIPSC_NONE) snprintf(layer, sizeof layer, "layer%zu", cell->layer);
    if (cell->head != LIPSC_NONE) snprintf(head, sizeof head, "-head%zu", cell->head);
    if (study->cell_count == 1)
        length = snprintf(path, room, "%s", base);
    else
        length = snprintf(path, room, "%s/%s%s-n%zu-window%zu.safetensors", base, layer,
                          head, cell->n, cell->window);
    return length > 0 && (size_t)length < room;
}

lipsc_status lipsc_study_prepare_directions(const lipsc_study *study, lipsc_error *err) {
    const char *path = study->set.save_direction;
    struct stat info;
    if (!path || study->cell_count == 1) return LIPSC_OK;
    if (mkdir(path, 0777) && (stat(path, &info) || !S_ISDIR(info.st_mode)))
        return lipsc_fail(err, LIPSC_E_IO, "%s: cannot make this folder for %zu directions",
                          path, study->cell_count);
    return LIPSC_OK;
}

/* Heads and attention go with their layer; of the other maps only the model has all that
 * they are made of. */
static lipsc_layer_record make_record(const lipsc_study *study, const study_cell *cell,
                                      const lipsc_acts *acts, const lipsc_attn *attn) {
    const lipsc_study_settings *s = &study->set;
    if (s->map == LIPSC_MAP_HEADS || s->map == LIPSC_MAP_ATTENTION)
        return lipsc_layer_record_of(&attn->layer, &attn->input);
    return (lipsc_layer_record){
        .layer = {.d = study->info->d},
        .input = {.n = cell->n, .X = lipsc_study_input(study, cell, acts)},
        .map = s->map,
        .mask_override = s->mask_override ? lipsc_mask_name(*s->mask_override) : NULL};
}

lipsc_status lipsc_study_save_direction(const lipsc_study *study, const study_cell *cell,
                                        const lipsc_acts *acts, const lipsc_attn *attn,
                                        const study_result *r, lipsc_error *err) {
    char path[4096];
    lipsc_save_room room = {.ids = NULL};
    if (!lipsc_study_direction_path(study, cell, path, sizeof path))
        return lipsc_fail(err, LIPSC_E_RANGE, "%s: the path is too long",
                          study->set.save_direction);
    lipsc_layer_record record = make_record(study, cell, acts, attn);
    lipsc_save_model(&record, study->set.model, study->info, cell->layer,
                     cell->head == LIPSC_NONE ? -1 : (long)cell->head, &room);
    record.dtype = lipsc_dtype_name(study->set.dtype);
    record.sigma = r->sigma;
    record.u = r->u;
    record.v = r->v;
    lipsc_status status =
        lipsc_save_window(&record, &study->source, cell->start, &room, err);
    if (!status) status = lipsc_layer_write(path, &record, err);
    lipsc_save_free(&room);
    return status;
}

void lipsc_save_origin(lipsc_layer_record *record, const lipsc_layer_file *file) {
    const lipsc_layer_record *from = lipsc_layer_file_record(file);
    record->model = from->model;
    record->model_hash = from->model_hash;
    record->place = from->place;
    record->head = from->head;
}
