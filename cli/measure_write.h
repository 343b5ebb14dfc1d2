/* measure_write.h - a measure as a safetensors file that every command reads back. */
#ifndef LIPSC_CLI_MEASURE_WRITE_H
#define LIPSC_CLI_MEASURE_WRITE_H

#include "lipscope.h"

/* points, weights, times where there are any, then at most 8 further tensors and any notes,
 * which readers of measures ignore. */
lipsc_status cli_measure_write(const char *path, const lipsc_measure *mu,
                               const lipsc_st_item *more, size_t more_count,
                               const lipsc_st_note *notes, size_t note_count,
                               lipsc_error *err);

#endif
