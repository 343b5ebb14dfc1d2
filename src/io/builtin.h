/* builtin.h - what comes with the library, a model and a text, found from any directory.
 *
 * Where a model folder or a text is expected, `builtin:NAME` names one of these:
 *
 *     builtin:gpt2-nano     a small GPT-2, trained for this project
 *     builtin:lighthouse    an English text of 4900 words, written for it */
#ifndef LIPSC_IO_BUILTIN_H
#define LIPSC_IO_BUILTIN_H

#include "lipscope/model.h" /* LIPSC_PATH_ROOM, lipsc_builtin_path */

int lipsc_is_builtin(const char *word); /* begins with builtin: */

/* *path is word itself, or what builtin:NAME means, in room. */
lipsc_status lipsc_path_resolve(const char *word, char room[LIPSC_PATH_ROOM],
                                const char **path, lipsc_error *err);

/* The same for a model, which may also be a hub name that the local cache has. */
lipsc_status lipsc_model_resolve(const char *word, char room[LIPSC_PATH_ROOM],
                                 const char **path, lipsc_error *err);

#endif
