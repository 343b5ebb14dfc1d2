/* screen.c - the width of the screen, numbers of few digits, paragraphs. */
#define _DEFAULT_SOURCE
#include "screen.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { USUAL = 80, LEAST = 40, MOST = 1000, PROSE = 100 };

size_t cli_screen_width(int fd) {
    const char *said = getenv("COLUMNS");
    struct winsize size;
    size_t width;
    if (said && !cli_number_size(said, 1, MOST, &width))
        return width < LEAST ? LEAST : width;
    if (!isatty(fd) || ioctl(fd, TIOCGWINSZ, &size) || !size.ws_col) return USUAL;
    return size.ws_col < LEAST ? LEAST : size.ws_col;
}

cli_screen cli_screen_open(void) {
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    const size_t width = cli_screen_width(STDOUT_FILENO);
    if (!isatty(STDOUT_FILENO) || (no_colour && *no_colour) || !term ||
        !strcmp(term, "dumb"))
        return (cli_screen){width, "", "", "", ""};
    return (cli_screen){width, "\033[1m", "\033[36m", "\033[2m", "\033[0m"};
}

/* ---- Numbers ------------------------------------------------------------------------ */

/* Where %e would put the point, after rounding to these digits. */
static int power_of(double x, int digits) {
    char text[CLI_NUMBER];
    snprintf(text, sizeof text, "%.*e", digits - 1, x);
    return (int)strtol(strchr(text, 'e') + 1, NULL, 10);
}

const char *cli_digits(double x, int digits, char text[CLI_NUMBER]) {
    if (!isfinite(x)) return "-";
    if (x == 0.0) return "0";
    const int power = power_of(x, digits);
    if (power < -3 || power > 5)
        snprintf(text, CLI_NUMBER, "%.*e", digits - 1, x);
    else
        snprintf(text, CLI_NUMBER, "%.*f", power < digits - 1 ? digits - 1 - power : 0, x);
    return text;
}

/* side: 1 for what may only be rounded up, -1 for what may only be rounded down. */
static const char *digits_toward(double x, int digits, int side, char text[CLI_NUMBER]) {
    const char *first = cli_digits(x, digits, text);
    if (!isfinite(x) || side * (x - strtod(first, NULL)) <= 0.0) return first;
    const int power = power_of(x, digits), whole = power >= digits - 1 && power <= 5;
    const double unit = whole ? 1.0 : pow(10.0, power - digits + 1);
    return cli_digits(x + side * 0.75 * unit, digits, text); /* rounds to the next one */
}

const char *cli_digits_up(double x, char text[CLI_NUMBER]) {
    return digits_toward(x, 3, 1, text);
}

const char *cli_digits_down(double x, int digits, char text[CLI_NUMBER]) {
    return digits_toward(x, digits, -1, text);
}

const char *cli_decimals(double x, int decimals, char text[CLI_NUMBER]) {
    if (!isfinite(x)) return "-";
    if (fabs(x) >= 1e9) return cli_digits(x, 3, text);
    snprintf(text, CLI_NUMBER, "%.*f", decimals,
             fabs(x) < 0.5 * pow(10.0, -decimals) ? 0.0 : x);
    return text;
}

const char *cli_duration(double seconds, char text[CLI_NUMBER]) {
    if (!(seconds < 1e12)) return "unknown time";
    if (seconds < 100.0)
        snprintf(text, CLI_NUMBER, "%.0f s", seconds);
    else if (seconds < 6000.0)
        snprintf(text, CLI_NUMBER, "%.0f min", seconds / 60.0);
    else
        snprintf(text, CLI_NUMBER, "%.1f h", seconds / 3600.0);
    return text;
}

const char *cli_bytes(double bytes, char text[CLI_NUMBER]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    char digits[CLI_NUMBER];
    size_t unit = 0;
    while (bytes >= 999.5 && unit + 1 < sizeof units / sizeof *units)
        bytes /= 1024.0, unit++;
    snprintf(text, CLI_NUMBER, "%.20s %s",
             unit ? cli_digits(bytes, 3, digits) : cli_decimals(bytes, 0, digits),
             units[unit]);
    return text;
}

/* ---- Sentences ---------------------------------------------------------------------- */

/* Columns that a word takes: continuation bytes of UTF-8 take none. */
static size_t columns_of(const char *text, size_t size) {
    size_t columns = 0;
    for (size_t i = 0; i < size; i++) columns += ((unsigned char)text[i] & 0xC0) != 0x80;
    return columns;
}

/* Up to the next space; a token in quotes, which may begin with one, stays in one piece. */
static size_t word_size(const char *text) {
    enum { TOKEN = 48 }; /* bytes; what is longer is a sentence */
    const char *close = *text == '"' ? strchr(text + 1, '"') : NULL;
    const size_t quoted = close && close - text < TOKEN ? (size_t)(close - text) : 0;
    return quoted + strcspn(text + quoted, " \n");
}

void cli_put_words(FILE *to, const char *text, size_t width, size_t used, size_t indent,
                   const char *end) {
    char word[512];
    int begun = used > 0;
    while (*(text += strspn(text, " \n"))) {
        size_t size = word_size(text);
        if (*end && !strncmp(text, "--", 2) && text[size] == ' ' && text[size + 1] != '-')
            size += 1 + strcspn(text + size + 1, " \n"); /* an option with its value */
        const int last = !text[size + strspn(text + size, " \n")];
        if (size >= sizeof word) size = sizeof word - 1;
        memcpy(word, text, size);
        word[size] = '\0';
        const size_t columns = columns_of(word, size);
        if (begun && used + 1 + columns + (last ? 0 : strlen(end)) > width) {
            fprintf(to, "%s\n%*s", end, (int)indent, "");
            used = indent;
        } else if (begun) {
            fputc(' ', to);
            used++;
        }
        lipsc_put_plain(to, word);
        used += columns;
        begun = 1;
        text += size;
    }
    fputc('\n', to);
}

void cli_say(const cli_screen *screen, const char *format, ...) {
    va_list args, again;
    va_start(args, format);
    va_copy(again, args);
    const int size = vsnprintf(NULL, 0, format, again);
    va_end(again);
    char *text = size < 0 ? NULL : malloc((size_t)size + 1);
    if (text) {
        vsnprintf(text, (size_t)size + 1, format, args);
        cli_put_words(stdout, text, screen->width < PROSE ? screen->width : PROSE, 0, 0,
                      "");
        free(text);
    }
    va_end(args);
}
