/* push_table.h - the image of a measure, on standard output. */
#ifndef LIPSC_CLI_PUSH_TABLE_H
#define LIPSC_CLI_PUSH_TABLE_H

#include "gauss.h"

/* file: that holds the image; rate: NULL where the measure was no sample.  The exit code.
 */
int push_print(const cli_command *self, const cli_common *common, const layer_source *from,
               const lipsc_measure *image, const char *file, double seconds,
               const gauss_rate *rate);

#endif
