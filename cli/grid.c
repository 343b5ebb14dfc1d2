/* grid.c - cells of text under each other: aligned, broken into what the screen holds. */
#define _POSIX_C_SOURCE 200809L
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "screen.h"

struct cli_grid {
    size_t count;             /* columns                                     */
    cli_grid_column *columns; /* (count), names are copies                   */
    size_t used, room;        /* cells                                       */
    char **cells;             /* by rows                                     */
    int lost;                 /* memory was short                            */
};

/* What a column takes: before the point, and from it on. */
typedef struct {
    size_t left, right;
} span;

/* ---- Cells --------------------------------------------------------------------------- */

void cli_grid_free(cli_grid *g) {
    if (!g) return;
    for (size_t i = 0; i < g->used; i++) free(g->cells[i]);
    for (size_t c = 0; g->columns && c < g->count; c++) free((char *)g->columns[c].name);
    free(g->columns);
    free(g->cells);
    free(g);
}

cli_grid *cli_grid_new(size_t count, const cli_grid_column *columns) {
    cli_grid *g = calloc(1, sizeof *g);
    if (!g) return NULL;
    g->count = count;
    g->columns = calloc(count, sizeof *g->columns);
    for (size_t c = 0; g->columns && c < count; c++) {
        g->columns[c] = (cli_grid_column){strdup(columns[c].name), columns[c].align};
        g->lost |= !g->columns[c].name;
    }
    if (g->columns && !g->lost) return g;
    cli_grid_free(g);
    return NULL;
}

static void keep(cli_grid *g, char *text) {
    if (g->used == g->room) {
        const size_t room = 2 * g->room + 64;
        char **more = realloc(g->cells, room * sizeof *more);
        if (more) g->cells = more, g->room = room;
    }
    if (!text || g->used == g->room) {
        g->lost = 1;
        free(text);
    } else {
        g->cells[g->used++] = text;
    }
}

/* Safe for a terminal, and on one line. */
static char *made_safe(const char *text) {
    char *safe = NULL;
    size_t size;
    FILE *to = open_memstream(&safe, &size);
    if (!to) return NULL;
    lipsc_put_plain(to, text);
    if (fclose(to)) return free(safe), NULL;
    for (char *c = safe; *c; c++)
        if (*c == '\n' || *c == '\t') *c = ' ';
    return safe;
}

void cli_grid_text(cli_grid *g, const char *format, ...) {
    char text[1024];
    va_list args;
    if (!g) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    keep(g, made_safe(text));
}

void cli_grid_number(cli_grid *g, double x) {
    char text[CLI_NUMBER];
    cli_grid_text(g, "%s", cli_digits(x, 3, text));
}

void cli_grid_up(cli_grid *g, double x) {
    char text[CLI_NUMBER];
    cli_grid_text(g, "%s", cli_digits_up(x, text));
}

void cli_grid_down(cli_grid *g, double x) {
    char text[CLI_NUMBER];
    cli_grid_text(g, "%s", cli_digits_down(x, 3, text));
}

void cli_grid_decimals(cli_grid *g, double x, int decimals) {
    char text[CLI_NUMBER];
    cli_grid_text(g, "%s", cli_decimals(x, decimals, text));
}

/* ---- Widths -------------------------------------------------------------------------- */

/* Columns on the screen: continuation bytes take none, wide characters two. */
static size_t width_of(const char *text, size_t size) {
    size_t width = 0;
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)text[i];
        width += (byte & 0xC0) != 0x80;
        width += byte == 0xF0 || (byte >= 0xE1 && byte <= 0xED && byte != 0xE2);
    }
    return width;
}

static size_t whole_width(const char *text) { return width_of(text, strlen(text)); }

/* Of a number the part in front of its point, of all else, 1e+60 too, everything. */
static size_t left_width(const char *text, cli_align align) {
    const size_t front = strspn(text, "-+0123456789");
    return align == CLI_POINT && front && !strchr(text, 'e') ? width_of(text, front)
                                                             : whole_width(text);
}

static const char *cell(const cli_grid *g, size_t row, size_t c) {
    const size_t i = row * g->count + c;
    return i < g->used ? g->cells[i] : "";
}

static size_t rows_of(const cli_grid *g) { return (g->used + g->count - 1) / g->count; }

static span column_span(const cli_grid *g, size_t c) {
    const cli_align align = g->columns[c].align;
    span s = {0, 0};
    for (size_t r = 0; r < rows_of(g); r++) {
        const char *text = cell(g, r, c);
        const size_t left = left_width(text, align), right = whole_width(text) - left;
        if (left > s.left) s.left = left;
        if (right > s.right) s.right = right;
    }
    const size_t name = whole_width(g->columns[c].name);
    if (name > s.left + s.right) s.left = name - s.right;
    return s;
}

/* ---- Printing ------------------------------------------------------------------------ */

static void pad(size_t spaces) {
    while (spaces--) putchar(' ');
}

/* A cell with the gap in front of it; spaces behind it wait in *behind for more. */
static void put_cell(const char *text, cli_align align, span s, size_t gap,
                     size_t *behind) {
    const size_t width = whole_width(text), left = left_width(text, align);
    const size_t front = align == CLI_LEFT    ? 0
                         : align == CLI_POINT ? s.left - left
                                              : s.left + s.right - width;
    if (*text) {
        pad(*behind + gap + front);
        fputs(text, stdout);
        *behind = 0;
    } else {
        *behind += gap + front;
    }
    *behind += s.left + s.right -
               (front + width < s.left + s.right ? front + width : s.left + s.right);
}

/* A text too long for what is left of the line goes on below, under its beginning. */
static void put_broken(const char *text, size_t gap, size_t indent, size_t width,
                       size_t *behind) {
    const size_t room = width > indent + 16 ? width - indent : 16;
    pad(*behind + gap);
    *behind = 0;
    for (const char *line = text; *line;) {
        const char *end = line + strlen(line), *stop = end;
        if (whole_width(line) > room) {
            for (stop = line; width_of(line, (size_t)(stop - line)) < room; stop++) {}
            while (((unsigned char)*stop & 0xC0) == 0x80) stop++;
            const char *space = stop;
            while (space > line && *space != ' ') space--;
            if (space > line) stop = space;
        }
        if (line != text) {
            putchar('\n');
            pad(indent);
        }
        printf("%.*s", (int)(stop - line), line);
        line = stop + strspn(stop, " ");
    }
}

typedef struct {
    const cli_grid *grid;
    const cli_screen *screen;
    const span *spans;
    size_t keep, first, last; /* columns 0 .. keep-1 and first .. last-1 */
    int broken;               /* the last column may take several lines  */
} block;

static size_t block_width(const block *b, size_t last) {
    size_t width = 0;
    for (size_t c = 0; c < last; c++)
        if (c < b->keep || c >= b->first)
            width += b->spans[c].left + b->spans[c].right + (width ? 2 : 0);
    return width;
}

static void put_line(const block *b, size_t row) {
    const cli_grid *g = b->grid;
    const int header = row == SIZE_MAX;
    size_t behind = 0, begun = 0;
    if (header) fputs(b->screen->faint, stdout);
    for (size_t c = 0; c < b->last; c++) {
        if (c >= b->keep && c < b->first) continue;
        const cli_align align = g->columns[c].align;
        const char *text = header ? g->columns[c].name : cell(g, row, c);
        const size_t gap = begun++ ? 2 : 0;
        if (b->broken && c + 1 == b->last)
            put_broken(text, gap, block_width(b, c) + gap, b->screen->width, &behind);
        else
            put_cell(text, header && align == CLI_POINT ? CLI_RIGHT : align, b->spans[c],
                     gap, &behind);
    }
    if (header) fputs(b->screen->plain, stdout);
    putchar('\n');
}

lipsc_status cli_grid_print(const cli_screen *screen, const cli_grid *g,
                            size_t keep_count) {
    if (!g || g->lost) return LIPSC_E_NOMEM;
    span *spans = calloc(g->count, sizeof *spans);
    if (!spans) return LIPSC_E_NOMEM;
    for (size_t c = 0; c < g->count; c++) spans[c] = column_span(g, c);
    block b = {.grid = g, .screen = screen, .spans = spans, .keep = keep_count};
    for (size_t first = keep_count; first < g->count; first = b.last) {
        b.first = first;
        b.last = first + 1;
        while (b.last < g->count && block_width(&b, b.last + 1) <= screen->width) b.last++;
        /* words at the end are broken rather than put below */
        b.broken = 0;
        if (b.last + 1 == g->count && g->columns[b.last].align == CLI_LEFT &&
            block_width(&b, b.last) + 18 <= screen->width)
            b.last++, b.broken = 1;
        else if (b.last == g->count)
            b.broken = g->columns[b.last - 1].align == CLI_LEFT;
        if (first > keep_count) putchar('\n');
        put_line(&b, SIZE_MAX);
        for (size_t r = 0; r < rows_of(g); r++) put_line(&b, r);
    }
    free(spans);
    return LIPSC_OK;
}
