/* bench_table.h - timings on standard output, each as soon as it is measured. */
#ifndef LIPSC_CLI_BENCH_TABLE_H
#define LIPSC_CLI_BENCH_TABLE_H

#include "rows.h"

typedef struct {
    cli_rows rows; /* for programs */
    int people;
    size_t shown; /* lines so far */
    size_t repeats;
    unsigned parts;
} bench_table;

/* parts: LIPSC_BENCH_ columns; repeats: samples of each figure. */
void bench_table_begin(bench_table *table, const cli_command *self,
                       const cli_common *common, size_t repeats, unsigned parts);
void bench_table_row(bench_table *table, const lipsc_bench_row *row);
/* Prints the rest, unless the work has failed.  The exit code. */
int bench_table_end(bench_table *table, int done);

#endif
