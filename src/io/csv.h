/* csv.h - a table of numbers from text. */
#ifndef LIPSC_IO_CSV_H
#define LIPSC_IO_CSV_H

#include "lipscope.h"

enum { LIPSC_CSV_NONE = -1 };

typedef struct {
    size_t rows, columns;
    double *values;      /* (rows, columns), to be released                    */
    long weights, times; /* columns that the header calls so, or LIPSC_CSV_NONE */
} lipsc_csv;

/* Lines of numbers, all of one length, separated by semicolons, commas, tabs or spaces:
 * whichever of these, in this order, the first line has.  Empty lines and lines that begin
 * with # are passed over; a first line that is not all numbers is a header, in which
 * "weight(s)" and "time(s)" mark columns.  A NaN or an infinity is refused. */
lipsc_status lipsc_csv_parse(const uint8_t *bytes, size_t length, const char *shown,
                             lipsc_csv *out, lipsc_error *err);

#endif
