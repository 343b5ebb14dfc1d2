/* bench_table.h - timings for people: a line as soon as it is measured. */
#ifndef LIPSC_CLI_BENCH_TABLE_H
#define LIPSC_CLI_BENCH_TABLE_H

#include "args.h"

/* parts: those of LIPSC_BENCH_LIST that the rows have.  What all rows share is said in a
 * sentence above the first one. */
void bench_table_row(const lipsc_bench_row *row, int first, unsigned parts, size_t repeats);

#endif
