/* layer_save.c - what commands say and copy when they write layer files. */
#include "layer_save.h"

#include <stdio.h>

#include "io/layer_file.h"

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
