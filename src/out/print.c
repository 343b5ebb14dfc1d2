/* print.c - tables for people, TSV and JSON for programs. */
#include "out/print.h"

#include "core/plain.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Cells as text ---------------------------------------------------------------- */

typedef struct {
    char *text; /* malloc'ed, NULL when memory ran out */
    size_t length, room;
    int failed;
} buffer;

static void append(buffer *b, const char *s, size_t length) {
    if (b->failed) return;
    if (b->length + length + 1 > b->room) {
        size_t room = 2 * (b->length + length + 1);
        char *larger = realloc(b->text, room);
        if (!larger) {
            free(b->text);
            *b = (buffer){.failed = 1}; /* a text without its end would be another text */
            return;
        }
        b->text = larger;
        b->room = room;
    }
    memcpy(b->text + b->length, s, length);
    b->length += length;
    b->text[b->length] = '\0';
}

/* A character that could end a line or a column, or disturb the terminal, is shown as an
 * escape.  Everything else passes as it is; what is longer than `most` bytes is cut. */
static void append_escaped(buffer *b, const char *s, size_t most) {
    static const char named[] = "\\\t\n\r", letters[] = "\\tnr";
    size_t left = strlen(s), width;
    for (; left && b->length < most; s += width, left -= width) {
        const char *const known = strchr(named, *s);
        const size_t hostile = known ? 0 : lipsc_hostile_at(s, left);
        uint32_t code;
        char escape[8];
        width = hostile ? hostile : lipsc_utf8_at(s, left, &code);
        if (known)
            append(b, escape,
                   (size_t)snprintf(escape, sizeof escape, "\\%c", letters[known - named]));
        for (size_t i = 0; i < hostile; i++)
            append(b, escape,
                   (size_t)snprintf(escape, sizeof escape, "\\x%02x", (unsigned char)s[i]));
        if (!known && !hostile) append(b, s, width);
    }
    if (left) append(b, "...", 3);
}

static void append_real(buffer *b, const json_t *cell, int digits) {
    char number[40];
    append(b, number,
           (size_t)snprintf(number, sizeof number, "%.*g", digits, json_real_value(cell)));
}

/* Which way a column is rounded: 1 up, -1 down, 0 to the nearest.  What is proved of a
 * number must hold for the digits that are read. */
static int side_of(const char *column) {
    return strstr(column, "upper") ? 1 : strcmp(column, "lower") == 0 ? -1 : 0;
}

/* x, or where rounding to the nearest goes to the wrong side, what rounds to the next. */
static double moved(double x, int digits, int side) {
    char number[40];
    snprintf(number, sizeof number, "%.*g", digits, x);
    if (!isfinite(x) || side * (x - strtod(number, NULL)) <= 0.0) return x;
    return x + side * pow(10.0, floor(log10(fabs(x))) - digits + 1);
}

/* The caller frees the result; NULL when memory is short. */
static char *cell_text(const json_t *cell, const char *null_text, int digits, size_t most) {
    buffer b = {0};
    char number[40];
    append(&b, "", 0);
    switch (json_typeof(cell)) {
    case JSON_STRING:
        append_escaped(&b, json_string_value(cell), most);
        break;
    case JSON_INTEGER:
        append(&b, number,
               (size_t)snprintf(number, sizeof number, "%lld",
                                (long long)json_integer_value(cell)));
        break;
    case JSON_REAL:
        append_real(&b, cell, digits);
        break;
    case JSON_TRUE:
        append(&b, "true", 4);
        break;
    case JSON_FALSE:
        append(&b, "false", 5);
        break;
    case JSON_ARRAY:
        for (size_t i = 0; i < json_array_size(cell); i++) {
            const json_t *item = json_array_get(cell, i);
            if (i) append(&b, ",", 1);
            if (json_is_real(item))
                append_real(&b, item, digits);
            else
                append(&b, null_text, strlen(null_text));
        }
        break;
    default:
        append(&b, null_text, strlen(null_text));
        break;
    }
    return b.text;
}

/* Bytes of a text and digits of a number in a table for people. */
enum { WIDEST = 400, FEW = 6 };

static char *row_text(lipsc_table *t, size_t row, size_t column) {
    const int exact = t->format == LIPSC_FORMAT_TSV;
    const char *name = t->columns[column].name;
    const json_t *cell = json_object_get(json_array_get(t->rows, row), name);
    json_t *side = NULL;
    if (!exact && side_of(name) && json_is_real(cell))
        side = json_real(moved(json_real_value(cell), FEW, side_of(name)));
    char *text = cell_text(side ? side : cell, exact ? "" : "-", exact ? 17 : FEW,
                           exact ? SIZE_MAX : WIDEST);
    json_decref(side);
    if (!text) t->status = LIPSC_E_NOMEM;
    return text;
}

/* Columns on the screen: continuation bytes of UTF-8 take none. */
static size_t screen_width(const char *s) {
    size_t width = 0;
    for (; *s; s++) width += ((unsigned char)*s & 0xC0) != 0x80;
    return width;
}

static void pad(FILE *to, size_t spaces) {
    while (spaces--) fputc(' ', to);
}

/* ---- table ------------------------------------------------------------------------ */

/* Space for rows that have not come yet: "-1.23457e-05" is rare, 9 characters hold six
 * digits with a point and a sign, or an exponent of four digits. */
static size_t usual_width(lipsc_column_kind kind) {
    switch (kind) {
    case LIPSC_COLUMN_REAL:
        return 9;
    case LIPSC_COLUMN_INTEGER:
        return 5;
    case LIPSC_COLUMN_STRING:
        return 6;
    default:
        return 5;
    }
}

static void find_widths(lipsc_table *t, int more) {
    for (size_t c = 0; c < t->count; c++) {
        size_t width = screen_width(t->columns[c].name);
        if (more && width < usual_width(t->columns[c].kind))
            width = usual_width(t->columns[c].kind);
        for (size_t r = 0; r < json_array_size(t->rows); r++) {
            char *text = row_text(t, r, c);
            if (text && screen_width(text) > width) width = screen_width(text);
            free(text);
        }
        t->width[c] = width;
    }
}

/* Numbers to the right, words to the left; no spaces at the end of a line. */
static void print_cell(const lipsc_table *t, size_t c, const char *text) {
    const lipsc_column_kind kind = t->columns[c].kind;
    const int words = kind == LIPSC_COLUMN_STRING || kind == LIPSC_COLUMN_BOOL;
    const size_t used = screen_width(text);
    const size_t spare = used < t->width[c] ? t->width[c] - used : 0;
    if (c) fputs("  ", t->to);
    if (!words) pad(t->to, spare);
    fputs(text, t->to);
    if (words && c + 1 < t->count) pad(t->to, spare);
    if (c + 1 == t->count) fputc('\n', t->to);
}

static void print_wide(lipsc_table *t, int more) {
    if (!t->header_out) {
        find_widths(t, more);
        for (size_t c = 0; c < t->count; c++) print_cell(t, c, t->columns[c].name);
        t->header_out = 1;
    }
    for (; t->printed < json_array_size(t->rows); t->printed++)
        for (size_t c = 0; c < t->count; c++) {
            char *text = row_text(t, t->printed, c);
            print_cell(t, c, text ? text : "");
            free(text);
        }
}

static int is_empty(const lipsc_table *t, size_t row, size_t column) {
    const json_t *cells = json_array_get(t->rows, row);
    return json_is_null(json_object_get(cells, t->columns[column].name));
}

/* What is empty has no line. */
static void print_upright(lipsc_table *t) {
    size_t width = 0;
    for (size_t c = 0; c < t->count; c++) {
        const size_t length = screen_width(t->columns[c].name);
        if (length > width) width = length;
    }
    for (; t->printed < json_array_size(t->rows); t->printed++) {
        if (t->printed) fputc('\n', t->to);
        for (size_t c = 0; c < t->count; c++) {
            if (is_empty(t, t->printed, c)) continue;
            char *text = row_text(t, t->printed, c);
            fputs(t->columns[c].name, t->to);
            pad(t->to, width - screen_width(t->columns[c].name) + 2);
            fprintf(t->to, "%s\n", text ? text : "");
            free(text);
        }
    }
}

void lipsc_print_table(lipsc_table *t, int more) {
    if (t->layout == LIPSC_LAYOUT_UPRIGHT)
        print_upright(t);
    else
        print_wide(t, more);
}

/* ---- tsv -------------------------------------------------------------------------- */

void lipsc_print_tsv(lipsc_table *t) {
    for (size_t c = 0; c < t->count && !t->header_out; c++)
        fprintf(t->to, "%s%c", t->columns[c].name, c + 1 < t->count ? '\t' : '\n');
    t->header_out = 1;
    for (; t->printed < json_array_size(t->rows); t->printed++)
        for (size_t c = 0; c < t->count; c++) {
            char *text = row_text(t, t->printed, c);
            fprintf(t->to, "%s%c", text ? text : "", c + 1 < t->count ? '\t' : '\n');
            free(text);
        }
}

/* ---- json ------------------------------------------------------------------------- */

/* What jansson writes as it is and a terminal would not is a \\u escape here: the same
 * string.  Its pieces hold whole characters. */
static int write_plain(const char *text, size_t size, void *to) {
    uint32_t code;
    for (size_t width; size; text += width, size -= width) {
        width = lipsc_utf8_at(text, size, &code);
        if (code >= 0x7f && code < 0x10000 && lipsc_is_hostile(code))
            fprintf(to, "\\u%04x", (unsigned)code);
        else
            fwrite(text, 1, width, to);
    }
    return ferror(to) ? -1 : 0;
}

void lipsc_print_json(lipsc_table *t) {
    json_t *all = json_object();
    int bad = !all || json_object_set_new(all, "lipscope", json_string(lipsc_version())) ||
              json_object_set_new(all, "schema", json_integer(LIPSC_SCHEMA)) ||
              json_object_set_new(all, "command", json_string(t->command)) ||
              json_object_set(all, "rows", t->rows) || json_object_update(all, t->members);
    if (bad)
        t->status = LIPSC_E_NOMEM;
    else if (json_dump_callback(all, write_plain, t->to,
                                JSON_INDENT(2) | JSON_REAL_PRECISION(17)) &&
             !ferror(t->to))
        t->status = LIPSC_E_NOMEM;
    fputc('\n', t->to);
    json_decref(all);
}
