/* csv.c - a table of numbers from text. */
#include "io/csv.h"

#include "core/error.h"
#include "core/mem.h"
#include "core/real.h"
#include "io/show.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 63 }; /* characters of a number, or of a name that is compared */

typedef struct {
    const char *at, *end;
} span;

typedef struct {
    span text; /* what is left */
    size_t line;
    char separator; /* ' ': any run of spaces */
    size_t room;    /* numbers that values can hold */
    const char *shown;
    lipsc_csv table;
    lipsc_error *err;
} reader;

static int is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

static span trimmed(span s) {
    while (s.at < s.end && is_blank(*s.at)) s.at++;
    while (s.at < s.end && is_blank(s.end[-1])) s.end--;
    return s;
}

/* The next line that is not empty and no remark; 0 at the end. */
static int next_line(reader *r, span *line) {
    while (r->text.at < r->text.end) {
        const size_t left = (size_t)(r->text.end - r->text.at);
        const char *stop = memchr(r->text.at, '\n', left);
        *line = trimmed((span){r->text.at, stop ? stop : r->text.end});
        r->text.at = stop ? stop + 1 : r->text.end;
        r->line++;
        if (line->at < line->end && *line->at != '#') return 1;
    }
    return 0;
}

static char separator_of(span line) {
    static const char candidates[] = ";,\t";
    for (const char *c = candidates; *c; c++)
        if (memchr(line.at, *c, (size_t)(line.end - line.at))) return *c;
    return ' ';
}

/* Takes the next field off a line; 0 when there is none.  A separator at the end of a line
 * leaves an empty field behind it. */
static int next_field(span *line, char separator, span *field, int *more) {
    if (!*more) return 0;
    if (separator == ' ')
        while (line->at < line->end && is_blank(*line->at)) line->at++;
    field->at = line->at;
    while (line->at < line->end &&
           (separator == ' ' ? !is_blank(*line->at) : *line->at != separator))
        line->at++;
    field->end = line->at;
    *more = line->at < line->end;
    if (*more) line->at++;
    *field = trimmed(*field);
    return 1;
}

/* Of ASCII letters, whatever the locale. */
static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* Lower-case copy without quotes; 0 when it is too long. */
static int copy_field(span field, char text[LONGEST + 1]) {
    if (field.end - field.at >= 2 && *field.at == '"' && field.end[-1] == '"') {
        field.at++;
        field.end--;
    }
    const size_t length = (size_t)(field.end - field.at);
    if (length > LONGEST) return 0;
    for (size_t k = 0; k < length; k++) text[k] = lower(field.at[k]);
    text[length] = '\0';
    return 1;
}

/* Decimal numbers only: no 0x1p3.  "nan" and "inf" are numbers, to be refused later. */
static int read_number(span field, double *value) {
    char text[LONGEST + 1], *stop;
    if (!copy_field(field, text) || !*text || strchr(text, 'x')) return 0;
    *value = lipsc_real_parse(text, &stop);
    return stop != text && *stop == '\0';
}

static lipsc_status push(reader *r, size_t used, double value) {
    lipsc_csv *t = &r->table;
    if (used == r->room) {
        const size_t room = r->room ? 2 * r->room : 256;
        double *values = lipsc_alloc(room, sizeof *values);
        if (!values)
            return lipsc_fail(r->err, LIPSC_E_NOMEM, "%s: no memory for its numbers",
                              r->shown);
        if (used) memcpy(values, t->values, used * sizeof *values);
        lipsc_release(t->values);
        t->values = values;
        r->room = room;
    }
    t->values[used] = value;
    return LIPSC_OK;
}

static lipsc_status refuse_field(const reader *r, span field) {
    char text[LONGEST + 1] = "", shown[LIPSC_SHOWN_NAME];
    const size_t length = (size_t)(field.end - field.at);
    memcpy(text, field.at, length < LONGEST ? length : LONGEST);
    lipsc_show_name(text, shown);
    return lipsc_fail(r->err, LIPSC_E_FORMAT, "%s: line %zu: '%s' is not a number",
                      r->shown, r->line, shown);
}

static lipsc_status read_row(reader *r, span line) {
    lipsc_csv *t = &r->table;
    size_t count = 0;
    span field;
    for (int more = 1; next_field(&line, r->separator, &field, &more); count++) {
        double value;
        if (!read_number(field, &value)) return refuse_field(r, field);
        if (!isfinite(value))
            return lipsc_fail(r->err, LIPSC_E_NONFIN, "%s: line %zu: holds %s", r->shown,
                              r->line, isnan(value) ? "a NaN" : "an infinity");
        const lipsc_status status = push(r, t->rows * t->columns + count, value);
        if (status) return status;
        if (t->columns && count == t->columns) { /* one too many: refused below */
            count++;
            break;
        }
    }
    if (t->columns == 0) t->columns = count;
    if (count != t->columns)
        return lipsc_fail(r->err, LIPSC_E_FORMAT,
                          "%s: line %zu: %s than %zu number%s, as on the first line",
                          r->shown, r->line, count < t->columns ? "fewer" : "more",
                          t->columns, t->columns == 1 ? "" : "s");
    t->rows++;
    return LIPSC_OK;
}

/* 1 when the line is no row of numbers; then names and number of columns are known. */
static int read_header(reader *r, span line) {
    lipsc_csv *t = &r->table;
    span field, again = line;
    int numbers = 1;
    double value;
    for (int more = 1; next_field(&again, r->separator, &field, &more);)
        numbers &= read_number(field, &value);
    if (numbers) return 0;
    for (int more = 1; next_field(&line, r->separator, &field, &more); t->columns++) {
        char name[LONGEST + 1];
        if (!copy_field(field, name)) continue;
        if (!strcmp(name, "weight") || !strcmp(name, "weights"))
            t->weights = (long)t->columns;
        if (!strcmp(name, "time") || !strcmp(name, "times")) t->times = (long)t->columns;
    }
    return 1;
}

lipsc_status lipsc_csv_parse(const uint8_t *bytes, size_t length, const char *shown,
                             lipsc_csv *out, lipsc_error *err) {
    reader r = {.text = {(const char *)bytes, (const char *)bytes + length},
                .shown = shown,
                .table = {.weights = LIPSC_CSV_NONE, .times = LIPSC_CSV_NONE},
                .err = err};
    if (length >= 3 && !memcmp(bytes, "\xef\xbb\xbf", 3)) r.text.at += 3;
    if (memchr(bytes, '\0', length))
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "%s: is neither a safetensors file nor a .npy file nor a text",
                          shown);
    lipsc_status status = LIPSC_OK;
    span line;
    for (int first = 1; !status && next_line(&r, &line); first = 0) {
        if (first) {
            r.separator = separator_of(line);
            if (read_header(&r, line)) continue;
        }
        status = read_row(&r, line);
    }
    if (!status && r.table.rows == 0)
        status = lipsc_fail(err, LIPSC_E_FORMAT, "%s: holds no points", shown);
    if (status)
        lipsc_release(r.table.values);
    else
        *out = r.table;
    return status;
}
