/* demo.h - the parts of `lipscope demo`.
 *
 *     cmd_demo.c       options, the order of things, what is said
 *     demo_model.c     its table */
#ifndef LIPSC_CLI_DEMO_H
#define LIPSC_CLI_DEMO_H

#include "lipscope/study.h"

typedef struct {
    const char *strong, *accent, *faint, *plain; /* escape sequences, or empty */
} demo_style;

/* A line of lengths, then a line for each layer; at most 80 columns. */
void demo_model_print(const lipsc_summary *model, const demo_style *style);

#endif
