/* pattern.c - compiles and runs the regular expressions of tokenizer files with PCRE2; sets
 * of characters as items of its brackets: what PCRE2 knows by name, with what Oniguruma
 * counts to it beyond that (pattern_tables.h). */
#define PCRE2_CODE_UNIT_WIDTH 8
#include "token/pattern.h"

#include "core/error.h"
#include "token/pattern_tables.h"

#include <pcre2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct lipsc_pattern {
    pcre2_code *code;
    pcre2_match_data *data;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
    char *where;
};

void lipsc_spans_put(lipsc_spans *spans, size_t begin, size_t end, int match) {
    void *data = spans->data;
    if (spans->failed ||
        !lipsc_grow(&data, &spans->room, spans->count + 1, sizeof *spans->data)) {
        spans->failed = 1;
        return;
    }
    spans->data = data;
    spans->data[spans->count++] = (lipsc_span){begin, end, match};
}

void lipsc_spans_free(lipsc_spans *spans) {
    free(spans->data);
    *spans = (lipsc_spans){0};
}

void lipsc_pattern_free(lipsc_pattern *pattern) {
    if (!pattern) return;
    pcre2_code_free(pattern->code);
    pcre2_match_data_free(pattern->data);
    pcre2_match_context_free(pattern->context);
    pcre2_jit_stack_free(pattern->stack);
    free(pattern->where);
    free(pattern);
}

static pcre2_code *compile(const char *source, size_t len, uint32_t options, int *error) {
    pcre2_code *code = NULL;
    PCRE2_SIZE offset;
    pcre2_compile_context *context = pcre2_compile_context_create(NULL);
    *error = PCRE2_ERROR_NOMEMORY;
    if (!context) return NULL;
    pcre2_set_newline(context, PCRE2_NEWLINE_LF);
    code = pcre2_compile((PCRE2_SPTR)source, len, options, error, &offset, context);
    pcre2_compile_context_free(context);
    return code;
}

/* Faster, where this machine allows it; without it pcre2_match interprets. */
static void prepare_fast_path(lipsc_pattern *pattern) {
    enum { STACK_START = 32 * 1024, STACK_MOST = 8 * 1024 * 1024 };
    if (pcre2_jit_compile(pattern->code, PCRE2_JIT_COMPLETE)) return;
    pattern->stack = pcre2_jit_stack_create(STACK_START, STACK_MOST, NULL);
    if (pattern->stack) pcre2_jit_stack_assign(pattern->context, NULL, pattern->stack);
}

lipsc_status lipsc_pattern_compile(const char *source, size_t len,
                                   lipsc_pattern_language language, const char *where,
                                   lipsc_pattern **out, lipsc_error *err) {
    /* Of memory that an expression can ask for while it matches, in KiB. */
    enum { LONGEST = 1 << 16, HEAP_KIB = 1 << 19 };
    const char *reason = NULL;
    PCRE2_UCHAR words[128];
    lipsc_text translated = {0};
    lipsc_status status = LIPSC_E_NOMEM;
    int error = 0;
    lipsc_pattern *pattern = calloc(1, sizeof *pattern);
    if (!pattern) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", where);
    pattern->where = calloc(strlen(where) + 1, 1);
    pattern->context = pcre2_match_context_create(NULL);
    if (!pattern->where || !pattern->context) goto fail;
    memcpy(pattern->where, where, strlen(where));
    pcre2_set_heap_limit(pattern->context, HEAP_KIB);
    if (len > LONGEST) {
        status = LIPSC_E_FORMAT;
        reason = "is too long";
        goto fail;
    }
    if (language == LIPSC_PATTERN_LITERAL) {
        pattern->code = compile(source, len, PCRE2_UTF | PCRE2_LITERAL, &error);
    } else {
        reason = lipsc_pattern_translate(source, len, language == LIPSC_PATTERN_RUST,
                                         &translated);
        if (!reason && !translated.failed)
            pattern->code = compile(translated.data ? translated.data : "", translated.len,
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &error);
        if (reason) status = LIPSC_E_FORMAT;
    }
    if (!pattern->code && error && error != PCRE2_ERROR_NOMEMORY && !reason) {
        status = LIPSC_E_FORMAT;
        pcre2_get_error_message(error, words, sizeof words);
        reason = (const char *)words;
    }
    if (!pattern->code) goto fail;
    pattern->data = pcre2_match_data_create(1, NULL);
    if (!pattern->data) goto fail;
    prepare_fast_path(pattern);
    lipsc_text_free(&translated);
    *out = pattern;
    return LIPSC_OK;

fail:
    if (status == LIPSC_E_NOMEM)
        lipsc_fail(err, status, "%s: out of memory", where);
    else
        lipsc_fail(err, status, "%s: the regular expression cannot be used: %s", where,
                   reason);
    lipsc_text_free(&translated);
    lipsc_pattern_free(pattern);
    return status;
}

lipsc_status lipsc_pattern_read(const lipsc_json_place *place, json_t *object,
                                lipsc_pattern **out) {
    char where[LIPSC_SHOWN_PATH + LIPSC_SHOWN_NAME];
    json_t *pattern = json_object_get(object, "pattern");
    json_t *literal = json_object_get(pattern, "String");
    json_t *regex = json_object_get(pattern, "Regex");
    json_t *source = literal ? literal : regex;
    if (!json_is_string(source) || (literal && regex))
        return lipsc_place_fail(place, "has no pattern that is a String or a Regex");
    snprintf(where, sizeof where, "%s: %s", place->file, place->part);
    return lipsc_pattern_compile(json_string_value(source), json_string_length(source),
                                 literal ? LIPSC_PATTERN_LITERAL : LIPSC_PATTERN_ONIGURUMA,
                                 where, out, place->err);
}

/* The first match at or after `at`: 1, 0 for none, or a negative PCRE2 error. */
static int find(lipsc_pattern *pattern, const char *text, size_t len, size_t at,
                uint32_t options) {
    const uint32_t always = PCRE2_NO_UTF_CHECK | options;
    int rc = pcre2_match(pattern->code, (PCRE2_SPTR)text, len, at, always, pattern->data,
                         pattern->context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) /* the interpreter has the whole heap */
        rc = pcre2_match(pattern->code, (PCRE2_SPTR)text, len, at, always | PCRE2_NO_JIT,
                         pattern->data, pattern->context);
    if (rc == PCRE2_ERROR_NOMATCH) return 0;
    return rc < 0 ? rc : 1;
}

int lipsc_pattern_begins(lipsc_pattern *pattern, const char *text, size_t len) {
    return find(pattern, text, len, 0, PCRE2_ANCHORED) == 1;
}

lipsc_status lipsc_pattern_spans(lipsc_pattern *pattern, const char *text, size_t len,
                                 lipsc_spans *spans, lipsc_error *err) {
    size_t at = 0, done = 0, last_end = SIZE_MAX;
    spans->count = 0;
    while (at <= len) {
        const int found = find(pattern, text, len, at, 0);
        if (found < 0) {
            PCRE2_UCHAR words[128];
            pcre2_get_error_message(found, words, sizeof words);
            return lipsc_fail(err, LIPSC_E_RANGE,
                              "%s: the regular expression gave up on this text: %s",
                              pattern->where, (const char *)words);
        }
        if (!found) break;
        const PCRE2_SIZE *ends = pcre2_get_ovector_pointer(pattern->data);
        const size_t begin = ends[0], end = ends[1];
        if (begin == end && end == last_end) {
            size_t width = 1;
            if (at < len) lipsc_utf8_read(text + at, &width);
            at += width;
            continue;
        }
        if (done < begin) lipsc_spans_put(spans, done, begin, 0);
        lipsc_spans_put(spans, begin, end, 1);
        done = at = last_end = end;
    }
    if (done < len) lipsc_spans_put(spans, done, len, 0);
    if (spans->failed) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    return LIPSC_OK;
}

/* ---- Sets of characters -------------------------------------------------------------- */

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

void lipsc_set_code(lipsc_text *t, uint32_t code) {
    char shown[16];
    snprintf(shown, sizeof shown, "\\x{%x}", (unsigned)code);
    lipsc_text_put_string(t, shown);
}

void lipsc_set_range(lipsc_text *t, uint32_t first, uint32_t last) {
    lipsc_set_code(t, first);
    if (last == first) return;
    lipsc_text_put(t, "-", 1);
    lipsc_set_code(t, last);
}

static void put_later(lipsc_text *t, const char *category) {
    for (size_t i = 0; i < COUNT(assigned_later); i++)
        if (!strncmp(assigned_later[i].category, category, strlen(category)))
            lipsc_set_range(t, assigned_later[i].first, assigned_later[i].last);
}

static void put_category(lipsc_text *t, const char *category) {
    lipsc_text_put_string(t, "\\p{");
    lipsc_text_put_string(t, category);
    lipsc_text_put_string(t, "}");
    put_later(t, category);
}

static void put_space(lipsc_text *t) {
    lipsc_text_put_string(t,
                          "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}"
                          "\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}");
}

void lipsc_set_word(lipsc_text *t, int rust, int in_bracket) {
    lipsc_text_put_string(t, "\\p{Alphabetic}");
    put_category(t, "M");
    put_category(t, "Nd");
    put_category(t, "Pc");
    put_later(t, "L");
    if (rust)
        lipsc_text_put_string(t, "\\x{200c}\\x{200d}");
    else if (!in_bracket)
        lipsc_text_put_string(t, "\\x{b2}\\x{b3}\\x{b9}\\x{bc}-\\x{be}");
}

int lipsc_set_short(int letter, int rust, int in_bracket, lipsc_text *t, int *negated) {
    *negated = letter >= 'A' && letter <= 'Z';
    switch (letter) {
    case 's':
    case 'S':
        put_space(t);
        return 1;
    case 'd':
    case 'D':
        put_category(t, "Nd");
        return 1;
    case 'w':
    case 'W':
        lipsc_set_word(t, rust, in_bracket);
        return 1;
    case 'h':
    case 'H':
        lipsc_text_put_string(t, "0-9A-Fa-f");
        return 1;
    default:
        return 0;
    }
}

static int put_script(lipsc_text *t, const char *name) {
    int known = 0;
    for (size_t i = 0; i < COUNT(script_later); i++) {
        if (strcmp(script_later[i].script, name)) continue;
        if (!known) {
            lipsc_text_put_string(t, "\\p{sc:");
            lipsc_text_put_string(t, name);
            lipsc_text_put_string(t, "}");
        }
        known = 1;
        if (script_later[i].last)
            lipsc_set_range(t, script_later[i].first, script_later[i].last);
    }
    return known;
}

/* "Letter" for "L"; other names are themselves. */
static const char *short_name(const char *name) {
    static const char *const words[][2] = {
        {"Letter", "L"},
        {"Mark", "M"},
        {"Number", "N"},
        {"Punctuation", "P"},
        {"Symbol", "S"},
        {"Separator", "Z"},
        {"Uppercase_Letter", "Lu"},
        {"Lowercase_Letter", "Ll"},
        {"Decimal_Number", "Nd"},
    };
    for (size_t i = 0; i < COUNT(words); i++)
        if (!strcmp(name, words[i][0])) return words[i][1];
    return name;
}

int lipsc_set_is_cased(const char *name) {
    const char *category = short_name(name);
    return !strcmp(category, "Lu") || !strcmp(category, "Ll") || !strcmp(category, "Lt");
}

/* Not C and Cn: what is unassigned there is not what is unassigned here. */
int lipsc_set_property(lipsc_text *t, const char *name) {
    static const char *const categories[] = {
        "L",  "Lu", "Ll", "Lt", "Lm", "Lo", "M",  "Mn", "Mc", "Me", "N", "Nd",
        "Nl", "No", "P",  "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "S", "Sm",
        "Sc", "Sk", "So", "Z",  "Zs", "Zl", "Zp", "Cc", "Cf", "Co"};
    const char *category = short_name(name);
    for (size_t i = 0; i < COUNT(categories); i++)
        if (!strcmp(category, categories[i])) {
            put_category(t, category);
            return 1;
        }
    return put_script(t, name);
}
