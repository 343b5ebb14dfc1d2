/* layer_file.h - a layer with its input from the tensors of a parsed file, so that the
 * reader can be given bytes as well as a path. */
#ifndef LIPSC_IO_LAYER_FILE_H
#define LIPSC_IO_LAYER_FILE_H

#include "io/layer_record.h"

/* As lipsc_layer_file_read.  Everything is copied: st may be freed afterwards. */
lipsc_status lipsc_layer_from_st(const lipsc_st *st, const lipsc_layer_options *options,
                                 lipsc_layer_file *out, lipsc_error *err);

/* The file of any map with all that `check` needs of it.  Without a direction v is NULL. */
lipsc_status lipsc_layer_whole_from_st(const lipsc_st *st, lipsc_layer_file *out,
                                       lipsc_error *err);

/* All that the file said; valid as long as file. */
const lipsc_layer_record *lipsc_layer_file_record(const lipsc_layer_file *file);

#endif
