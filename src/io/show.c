/* show.c - paths, names and system errors as they stand in an error sentence. */
#define _POSIX_C_SOURCE 200809L /* strerror_r */
#include "io/show.h"

#include "core/error.h"
#include "core/plain.h"

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

static int plain_in_name(unsigned char byte) {
    return byte >= 0x20 && byte < 0x7f && byte != '\\';
}

/* The bytes that a character of a path takes when shown, and in *width those that it has.
 * Letters beyond ASCII are the user's own and stay. */
static size_t shown_in_path(const char *at, size_t *width) {
    const size_t hostile = lipsc_hostile_at(at, strlen(at));
    uint32_t code;
    *width = hostile ? hostile : lipsc_utf8_at(at, strlen(at), &code);
    return hostile ? ESCAPED * hostile : *width;
}

void lipsc_show_path(const char *path, char shown[LIPSC_SHOWN_PATH]) {
    const size_t length = strlen(path), room = LIPSC_SHOWN_PATH - 1 - 3;
    size_t start = length > room ? length - room : 0, total = 0, used = 0, width;
    while (((unsigned char)path[start] & 0xc0) == 0x80) start++; /* whole letters */
    for (size_t i = start; i < length; i += width) total += shown_in_path(path + i, &width);
    for (; total > room; start += width) total -= shown_in_path(path + start, &width);
    if (start > 0) {
        memcpy(shown, "...", 3);
        used = 3;
    }
    for (size_t i = start; i < length; i += width) {
        const int plain = shown_in_path(path + i, &width) == width;
        for (size_t b = 0; b < width && plain; b++) shown[used++] = path[i + b];
        for (size_t b = 0; b < width && !plain; b++)
            used += put_escaped(shown + used, (unsigned char)path[i + b]);
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
