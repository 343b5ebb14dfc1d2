/* show.h - paths, names and system errors as they stand in an error sentence: short,
 * and free of bytes that could disturb a terminal or push the reason out of the text. */
#ifndef LIPSC_IO_SHOW_H
#define LIPSC_IO_SHOW_H

#include "lipscope.h"

enum { LIPSC_SHOWN_PATH = 164, LIPSC_SHOWN_NAME = 68, LIPSC_SHOWN_SHAPE = 96 };

/* The end of a path, after "..." when it is long; control characters and marks of direction
 * (core/plain.h) as \xNN. */
void lipsc_show_path(const char *path, char shown[LIPSC_SHOWN_PATH]);

/* The beginning of a name, before "..." when it is long; all but printable ASCII as
 * \xNN. */
void lipsc_show_name(const char *name, char shown[LIPSC_SHOWN_NAME]);

/* "(12, 8)", "()" for a scalar, "(1, 1, ..." when it is long. */
void lipsc_show_shape(size_t ndim, const size_t *shape, char shown[LIPSC_SHOWN_SHAPE]);

/* "PATH: cannot DO: REASON" with the system's words for errnum.  Returns LIPSC_E_IO. */
lipsc_status lipsc_fail_system(lipsc_error *err, const char *path, const char *doing,
                               int errnum);

#endif
