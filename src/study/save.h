/* save.h - what is written as layer files: where the layer comes from, and the tokens at
 * which it stands. */
#ifndef LIPSC_STUDY_SAVE_H
#define LIPSC_STUDY_SAVE_H

#include "io/layer_record.h"
#include "lipscope/file.h"
#include "lipscope/source.h"

/* Texts and numbers that a record points to. */
typedef struct {
    char place[24], head[24], ids_hash[65];
    double *ids;
} lipsc_save_room;

/* Layer `layer` of a model (SIZE_MAX: none), head (-1: all). */
void lipsc_save_model(lipsc_layer_record *record, const char *spec,
                      const lipsc_model_info *info, size_t layer, long head,
                      lipsc_save_room *room);

/* The window that the activations come from: record->input.n ids from `start` on, or the
 * image. */
lipsc_status lipsc_save_window(lipsc_layer_record *record, const lipsc_source *source,
                               size_t start, lipsc_save_room *room, lipsc_error *err);
/* A layer that came from a file says what that file said of its origin. */
void lipsc_save_origin(lipsc_layer_record *record, const lipsc_layer_file *file);

void lipsc_save_free(lipsc_save_room *room);

#endif
