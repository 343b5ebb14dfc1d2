/* split_search.h - `lipscope split --search`: the worst measures on balls. */
#ifndef LIPSC_CLI_SPLIT_SEARCH_H
#define LIPSC_CLI_SPLIT_SEARCH_H

#include "layer_source.h"

/* radii: numbers separated by commas; atoms: of the measures tried; out: the worst measure
 * of the last radius, or NULL.  Returns the exit code. */
int split_search(const cli_command *self, const layer_settings *s, const char *radii,
                 size_t atoms, double step, const char *out);

#endif
