/* layer_save.h - what commands say and copy when they write layer files. */
#ifndef LIPSC_CLI_LAYER_SAVE_H
#define LIPSC_CLI_LAYER_SAVE_H

#include "source.h"
#include "study/save.h"

typedef lipsc_save_room cli_save_room;
#define cli_save_model  lipsc_save_model
#define cli_save_window lipsc_save_window
#define cli_save_free   lipsc_save_free

/* A layer that came from a file says what that file said of its origin. */
void cli_save_origin(lipsc_layer_record *record, const lipsc_layer_file *file);

/* On standard error: how the file is read. */
void cli_save_say(const cli_command *self, const char *path);

#endif
