/* gauss_file.h - Gaussians from the tensors of a parsed file, so that the reader can be
 * given bytes as well as a path. */
#ifndef LIPSC_IO_GAUSS_FILE_H
#define LIPSC_IO_GAUSS_FILE_H

#include "io/safetensors.h"
#include "lipscope/meanfield.h"

/* As lipsc_gauss_file_read.  Everything is copied: st may be freed afterwards. */
lipsc_status lipsc_gauss_from_st(const lipsc_st *st, lipsc_gauss_file *out,
                                 lipsc_error *err);

#endif
