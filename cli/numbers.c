/* numbers.c - numbers, lists and ranges as people type them. */
#include "numbers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITEMS = 100000 }; /* of a list: more is a slip of the finger */

int cli_number_seed(const char *text, uint64_t *out) {
    char *end;
    if (text[0] < '0' || text[0] > '9') return -1; /* strtoull takes " 1" and "-1" */
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (errno || *end || v > UINT64_MAX) return -1;
    *out = v;
    return 0;
}

int cli_number_size(const char *text, size_t min, size_t max, size_t *out) {
    uint64_t v;
    if (cli_number_seed(text, &v) || v < min || v > max) return -1;
    *out = (size_t)v;
    return 0;
}

int cli_number_real(const char *text, double min, double max, double *out) {
    char *end;
    if (!text[0] || !strchr("+-.0123456789", text[0])) return -1; /* no "nan", no " 1" */
    double v = strtod(text, &end);
    if (*end || end == text || !isfinite(v) || v < min || v > max) return -1;
    *out = v;
    return 0;
}

static int append(cli_sizes *list, size_t value) {
    if (list->count == MAX_ITEMS) return -1;
    if ((list->count & (list->count - 1)) == 0) { /* a power of two: full */
        size_t room = list->count ? 2 * list->count : 1;
        size_t *larger = realloc(list->items, room * sizeof *larger);
        if (!larger) return -1;
        list->items = larger;
    }
    list->items[list->count++] = value;
    return 0;
}

/* One element, cut in place at its colons. */
static int append_element(char *text, size_t min, size_t max, cli_sizes *list) {
    char *to = strchr(text, ':'), *step_text = NULL;
    size_t first, last, step = 1;
    int times = 0;
    if (to) {
        *to++ = '\0';
        step_text = strchr(to, ':');
        if (step_text) *step_text++ = '\0';
    }
    if (cli_number_size(text, min, max, &first)) return -1;
    if (!to) return append(list, first);
    if (cli_number_size(to, min, max, &last) || last < first) return -1;
    if (step_text) {
        times = step_text[0] == 'x';
        if (cli_number_size(step_text + times, times ? 2 : 1, SIZE_MAX, &step)) return -1;
    }
    if (times && first == 0) return -1;
    for (size_t v = first;;) {
        if (append(list, v)) return -1;
        if (times ? v > last / step : last - v < step) return 0;
        v = times ? v * step : v + step;
    }
}

int cli_sizes_parse(const char *text, size_t min, size_t max, cli_sizes *out) {
    cli_sizes list = {0};
    const size_t length = strlen(text);
    char *copy = malloc(length + 1);
    int bad = copy == NULL;
    if (copy) memcpy(copy, text, length + 1);
    for (char *element = copy; element && !bad;) {
        char *comma = strchr(element, ',');
        if (comma) *comma = '\0';
        bad = append_element(element, min, max, &list);
        element = comma ? comma + 1 : NULL;
    }
    free(copy);
    if (bad) {
        cli_sizes_free(&list);
        return -1;
    }
    cli_sizes_free(out);
    *out = list;
    return 0;
}

void cli_sizes_free(cli_sizes *sizes) {
    free(sizes->items);
    *sizes = (cli_sizes){0};
}
