/* layer_save.h - what commands write as layer files: where the layer comes from, and the
 * tokens at which it stands. */
#ifndef LIPSC_CLI_LAYER_SAVE_H
#define LIPSC_CLI_LAYER_SAVE_H

#include "io/layer_record.h"
#include "model/model.h"
#include "source.h"

/* Texts and numbers that a record points to. */
typedef struct {
    char place[24], head[24], ids_hash[65];
    double *ids;
} cli_save_room;

/* Layer `layer` of a model (SIZE_MAX: none), head (-1: all). */
void cli_save_model(lipsc_layer_record *record, const char *spec,
                    const lipsc_model_info *info, size_t layer, long head,
                    cli_save_room *room);

/* The window that the activations come from: record->input.n ids from `start` on, or the
 * image. */
lipsc_status cli_save_window(lipsc_layer_record *record, const cli_source *source,
                             size_t start, cli_save_room *room, lipsc_error *err);
void cli_save_free(cli_save_room *room);

/* A layer that came from a file says what that file said of its origin. */
void cli_save_origin(lipsc_layer_record *record, const lipsc_layer_file *file);

/* On standard error: how the file is read. */
void cli_save_say(const cli_command *self, const char *path);

#endif
