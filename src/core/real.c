/* real.c - decimal numbers, whatever locale the host program has chosen.
 *
 * strtod reads "0.5" as 0 where a program has asked for a locale with a decimal comma.  The
 * C locale is put in force for this thread and this call alone. */
#define _POSIX_C_SOURCE 200809L /* newlocale, uselocale */
#include "core/real.h"

#include <locale.h>
#include <stdlib.h>

double lipsc_real_parse(const char *text, char **end) {
    const locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!plain) { /* no memory: nothing was read */
        *end = (char *)text;
        return 0.0;
    }
    const locale_t before = uselocale(plain);
    const double value = strtod(text, end);
    uselocale(before);
    freelocale(plain);
    return value;
}
