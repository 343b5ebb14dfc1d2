/* numbers.h - numbers, lists and ranges as people type them.
 *
 * Every function returns 0, or -1 when the text is not entirely such a number or lies
 * outside the limits (both included). */
#ifndef LIPSC_CLI_NUMBERS_H
#define LIPSC_CLI_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

int cli_number_size(const char *text, size_t min, size_t max, size_t *out);
int cli_number_seed(const char *text, uint64_t *out);
int cli_number_real(const char *text, double min, double max, double *out);

typedef struct {
    size_t count;
    size_t *items; /* owned; free with cli_sizes_free */
} cli_sizes;

/* Elements separated by commas, each one of
 *     16           one number
 *     2:98:2       2, 4, ..., 98 (the step is 1 when left out)
 *     8:512:x2     8, 16, ..., 512
 * Ranges go up and include both ends.  *out is replaced, what it held is freed. */
int cli_sizes_parse(const char *text, size_t min, size_t max, cli_sizes *out);
void cli_sizes_free(cli_sizes *sizes);

#endif
