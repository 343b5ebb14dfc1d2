/* demo.h - the parts of `lipscope demo`.
 *
 *     cmd_demo.c       options, the order of things
 *     demo_outlier.c   one outlier
 *     demo_models.c    three models, their studies and the page
 *     demo_model.c     the table of one of them
 *     demo_words.c     what is said of them */
#ifndef LIPSC_CLI_DEMO_H
#define LIPSC_CLI_DEMO_H

#include "screen.h"

enum { DEMO_TRAINED, DEMO_UNTRAINED, DEMO_ENCODER, DEMO_MODELS };

/* CLI_RUN, or the exit code after a sentence. */
int demo_go_on(const cli_command *self, lipsc_status status, const lipsc_error *err);

lipsc_status demo_outlier(const cli_screen *style, lipsc_device *device, lipsc_error *err);

/* An exit code. */
int demo_models(const cli_command *self, int quick, lipsc_device *device, const char *page,
                const cli_screen *style);

/* A line of lengths, then a line for each layer; at most 80 columns. */
void demo_model_print(const lipsc_summary *model, const cli_screen *style);

void demo_heading(const cli_screen *style, const char *text);
void demo_explain(const cli_screen *style, const lipsc_summary models[DEMO_MODELS]);
void demo_next(const cli_screen *style, const char *page);

#endif
