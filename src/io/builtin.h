/* builtin.h - what comes with the library, a model and a text, found from any directory.
 *
 * Where a model folder or a text is expected, `builtin:NAME` names one of these:
 *
 *     builtin:gpt2-nano     a small GPT-2, trained for this project
 *     builtin:lighthouse    an English text of 4900 words, written for it */
#ifndef LIPSC_IO_BUILTIN_H
#define LIPSC_IO_BUILTIN_H

#include "lipscope/status.h"

enum { LIPSC_PATH_ROOM = 4096 };

/* Where `name` ("gpt2-nano", "lighthouse") lies.  Looked for in the folder that the
 * environment variable LIPSCOPE_DATA names and nowhere else when it is set; otherwise in
 * share/lipscope beside the bin/ of the program or the lib/ of this library, in data/
 * beside either (a build tree), and where it was configured to be installed.  LIPSC_E_IO
 * names these places. */
lipsc_status lipsc_builtin_path(const char *name, char path[LIPSC_PATH_ROOM],
                                lipsc_error *err);

int lipsc_is_builtin(const char *word); /* begins with builtin: */

/* *path is word itself, or what builtin:NAME means, in room. */
lipsc_status lipsc_path_resolve(const char *word, char room[LIPSC_PATH_ROOM],
                                const char **path, lipsc_error *err);

/* The same for a model, which may also be a hub name that the local cache has. */
lipsc_status lipsc_model_resolve(const char *word, char room[LIPSC_PATH_ROOM],
                                 const char **path, lipsc_error *err);

#endif
