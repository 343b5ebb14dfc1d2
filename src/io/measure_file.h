/* measure_file.h - a measure from bytes, so that the reader can be given more than a path.
 */
#ifndef LIPSC_IO_MEASURE_FILE_H
#define LIPSC_IO_MEASURE_FILE_H

#include "lipscope.h"

/* As lipsc_measure_file_read.  Everything is copied. */
lipsc_status lipsc_measure_from_bytes(const uint8_t *bytes, size_t length,
                                      const char *name_for_errors, int normalise,
                                      lipsc_measure_file *out, lipsc_error *err);

#endif
