/* layer_save.c - fills the records that are written as layer files. */
#include "layer_save.h"

#include <stdio.h>

#include "core/error.h"
#include "core/mem.h"
#include "io/layer_file.h"
#include "window.h"

void cli_save_model(lipsc_layer_record *record, const char *spec,
                    const lipsc_model_info *info, size_t layer, long head,
                    cli_save_room *room) {
    record->model = spec;
    record->model_hash = info->hash;
    if (layer == SIZE_MAX) return;
    snprintf(room->place, sizeof room->place, "%zu", layer);
    snprintf(room->head, sizeof room->head, "%ld", head);
    record->place = room->place;
    record->head = head < 0 ? "all" : room->head;
}

lipsc_status cli_save_window(lipsc_layer_record *record, const cli_source *source,
                             size_t start, cli_save_room *room, lipsc_error *err) {
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
        room->ids[i] = ids[i] = cli_window_id(source, start, n, i);
    if (ids && room->ids) lipsc_ids_hash(n, ids, room->ids_hash);
    const int failed = !ids || !room->ids;
    lipsc_release(ids);
    if (failed) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ids");
    record->ids = room->ids;
    record->ids_hash = room->ids_hash;
    return LIPSC_OK;
}

void cli_save_free(cli_save_room *room) {
    lipsc_release(room->ids);
    room->ids = NULL;
}

void cli_save_origin(lipsc_layer_record *record, const lipsc_layer_file *file) {
    const lipsc_layer_record *from = lipsc_layer_file_record(file);
    record->model = from->model;
    record->model_hash = from->model_hash;
    record->place = from->place;
    record->head = from->head;
}

void cli_save_say(const cli_command *self, const char *path) {
    cli_note(self, "read it with: lipscope layer %s", path);
}
