/* show.c - paths, names and system errors as they stand in an error sentence. */
#define _POSIX_C_SOURCE 200809L /* strerror_r */
#include "io/show.h"

#include "core/error.h"

#include <stdio.h>
#include <string.h>

enum { ESCAPED = 4 }; /* bytes of \xNN */

static size_t put_escaped(char *to, unsigned char byte) {
    static const char hex[] = "0123456789abcdef";
    to[0] = '\\';
    to[1] = 'x';
    to[2] = hex[byte >> 4];
    to[3] = hex[byte & 15];
    return ESCAPED;
}

/* Paths keep bytes of 0x80 and above: they are UTF-8 letters of the user's own. */
static int plain_in_path(unsigned char byte) { return byte >= 0x20 && byte != 0x7f; }
static int plain_in_name(unsigned char byte) {
    return byte >= 0x20 && byte < 0x7f && byte != '\\';
}

void lipsc_show_path(const char *path, char shown[LIPSC_SHOWN_PATH]) {
    const size_t length = strlen(path), room = LIPSC_SHOWN_PATH - 1 - 3;
    size_t start = length, width = 0, used = 0;
    while (start > 0) {
        width += plain_in_path((unsigned char)path[start - 1]) ? 1 : ESCAPED;
        if (width > room) break;
        start--;
    }
    if (start > 0) {
        while (((unsigned char)path[start] & 0xc0) == 0x80) start++; /* whole letters */
        memcpy(shown, "...", 3);
        used = 3;
    }
    for (size_t i = start; i < length; i++) {
        const unsigned char byte = (unsigned char)path[i];
        if (plain_in_path(byte))
            shown[used++] = path[i];
        else
            used += put_escaped(shown + used, byte);
    }
    shown[used] = '\0';
}

void lipsc_show_name(const char *name, char shown[LIPSC_SHOWN_NAME]) {
    const size_t room = LIPSC_SHOWN_NAME - 1 - 3;
    size_t used = 0;
    for (; *name; name++) {
        const unsigned char byte = (unsigned char)*name;
        if (used + (plain_in_name(byte) ? 1 : ESCAPED) > room) {
            memcpy(shown + used, "...", 3);
            used += 3;
            break;
        }
        if (plain_in_name(byte))
            shown[used++] = *name;
        else
            used += put_escaped(shown + used, byte);
    }
    shown[used] = '\0';
}

void lipsc_show_shape(size_t ndim, const size_t *shape, char shown[LIPSC_SHOWN_SHAPE]) {
    enum { WIDEST = 22 + 4 + 1 }; /* ", " and 20 digits; "..." and ")"; the end */
    size_t used = 0;
    shown[used++] = '(';
    for (size_t i = 0; i < ndim; i++) {
        if (used + WIDEST > LIPSC_SHOWN_SHAPE) {
            memcpy(shown + used, "...", 3);
            used += 3;
            break;
        }
        used += (size_t)snprintf(shown + used, LIPSC_SHOWN_SHAPE - used, "%s%zu",
                                 i ? ", " : "", shape[i]);
    }
    shown[used++] = ')';
    shown[used] = '\0';
}

lipsc_status lipsc_fail_system(lipsc_error *err, const char *path, const char *doing,
                               int errnum) {
    char shown[LIPSC_SHOWN_PATH], reason[128];
    lipsc_show_path(path, shown);
    if (strerror_r(errnum, reason, sizeof reason))
        snprintf(reason, sizeof reason, "system error %d", errnum);
    return lipsc_fail(err, LIPSC_E_IO, "%s: cannot %s: %s", shown, doing, reason);
}
