/* pretokenizer.c - cuts a normalized text into words: a list of steps, each from pieces to
 * pieces. */
#include "token/parts.h"

#include "core/error.h"
#include "token/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- Pieces, and what a split makes of its delimiters ------------------------ */

void lipsc_pieces_put(lipsc_pieces *pieces, lipsc_piece piece) {
    void *data = pieces->data;
    if (!piece.len) return;
    if (pieces->failed ||
        !lipsc_grow(&data, &pieces->room, pieces->count + 1, sizeof *pieces->data)) {
        pieces->failed = 1;
        return;
    }
    pieces->data = data;
    pieces->data[pieces->count++] = piece;
}

void lipsc_pieces_free(lipsc_pieces *pieces) {
    lipsc_text_free(&pieces->bytes);
    free(pieces->data);
    *pieces = (lipsc_pieces){0};
}

static void put_part(lipsc_pieces *pieces, const lipsc_piece *piece, size_t begin,
                     size_t end) {
    const size_t known = piece->origin < end ? piece->origin : end;
    lipsc_pieces_put(pieces, (lipsc_piece){.begin = piece->begin + begin,
                                           .len = end - begin,
                                           .origin = known > begin ? known - begin : 0});
}

/* A delimiter joins the part before it (delimiter_first 0) or after it; of two in a row the
 * second stands alone, or the first. */
static void merge_delimiters(lipsc_pieces *pieces, const lipsc_piece *piece,
                             const lipsc_spans *spans, int delimiter_first) {
    for (size_t i = 0, last; i < spans->count; i = last + 1) {
        const lipsc_span *of = &spans->data[i];
        const int joins = i + 1 < spans->count && (of[0].match != 0) == delimiter_first &&
                          (of[1].match != 0) != delimiter_first;
        last = joins ? i + 1 : i;
        put_part(pieces, piece, of->begin, spans->data[last].end);
    }
}

static void join_alike(lipsc_pieces *pieces, const lipsc_piece *piece,
                       const lipsc_spans *spans) {
    size_t i = 0;
    while (i < spans->count) {
        size_t last = i;
        while (last + 1 < spans->count &&
               spans->data[last + 1].match == spans->data[i].match)
            last++;
        put_part(pieces, piece, spans->data[i].begin, spans->data[last].end);
        i = last + 1;
    }
}

void lipsc_pieces_put_split(lipsc_pieces *pieces, const lipsc_piece *piece,
                            const lipsc_spans *spans, lipsc_behavior behavior) {
    switch (behavior) {
    case LIPSC_REMOVED:
    case LIPSC_ISOLATED:
        for (size_t i = 0; i < spans->count; i++)
            if (behavior == LIPSC_ISOLATED || !spans->data[i].match)
                put_part(pieces, piece, spans->data[i].begin, spans->data[i].end);
        break;
    case LIPSC_MERGED_WITH_PREVIOUS:
        merge_delimiters(pieces, piece, spans, 0);
        break;
    case LIPSC_MERGED_WITH_NEXT:
        merge_delimiters(pieces, piece, spans, 1);
        break;
    case LIPSC_CONTIGUOUS:
        join_alike(pieces, piece, spans);
        break;
    }
}

/* ---- GPT-2's alphabet: every byte as a printable character ------------------- */

static int prints(unsigned byte) {
    return (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

/* Bytes below this one that do not print: 0..32, 127..160, 173. */
static unsigned hidden_below(unsigned byte) {
    if (byte <= 0x20) return byte;
    if (byte <= 0x7f) return 0x21;
    if (byte <= 0xa0) return 0x21 + (byte - 0x7f);
    return byte <= 0xad ? 0x21 + 0x22 : 0x21 + 0x22 + 1;
}

uint32_t lipsc_byte_to_code(unsigned char byte) {
    return prints(byte) ? byte : 0x100 + hidden_below(byte);
}

int lipsc_code_to_byte(uint32_t code) {
    if (code < 0x100) return prints(code) ? (int)code : -1;
    const uint32_t place = code - 0x100;
    if (place <= 0x20) return (int)place;
    if (place <= 0x20 + 0x22) return (int)(place - 0x21 + 0x7f);
    return place == 0x20 + 0x22 + 1 ? 0xad : -1;
}

/* ---- Steps ------------------------------------------------------------------- */

typedef enum {
    BYTE_LEVEL,
    METASPACE,
    SPLIT,
    WHITESPACE,
    WHITESPACE_SPLIT,
    PUNCTUATION,
    DIGITS,
    BERT
} kind;

static const char *const kind_names[] = {"ByteLevel",  "Metaspace",        "Split",
                                         "Whitespace", "WhitespaceSplit",  "Punctuation",
                                         "Digits",     "BertPreTokenizer", NULL};

typedef struct {
    kind kind;
    lipsc_pattern *pattern;  /* BYTE_LEVEL with use_regex, SPLIT, WHITESPACE            */
    lipsc_behavior behavior; /* SPLIT, PUNCTUATION, DIGITS                              */
    int invert;              /* SPLIT: what does not match is the delimiter             */
    int prefix_space;        /* BYTE_LEVEL                                              */
    uint32_t replacement;    /* METASPACE                                               */
    lipsc_prepend prepend;   /* METASPACE                                               */
    int split;               /* METASPACE                                               */
} step;

struct lipsc_pretokenizer {
    lipsc_steps steps; /* of kind step */
};

void lipsc_pretokenizer_free(lipsc_pretokenizer *pretokenizer) {
    if (!pretokenizer) return;
    step *steps = pretokenizer->steps.at;
    for (size_t i = 0; i < pretokenizer->steps.count; i++)
        lipsc_pattern_free(steps[i].pattern);
    free(steps);
    free(pretokenizer);
}

/* ---- Reading --------------------------------------------------------------- */

static lipsc_status compile(const lipsc_json_place *place, const char *source,
                            lipsc_pattern_language language, lipsc_pattern **out) {
    char where[LIPSC_SHOWN_PATH + LIPSC_SHOWN_NAME];
    snprintf(where, sizeof where, "%s: %s", place->file, place->part);
    return lipsc_pattern_compile(source, strlen(source), language, where, out, place->err);
}

static lipsc_status read_byte_level(const lipsc_json_place *place, json_t *object,
                                    step *s) {
    static const char words[] = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+|"
                                " ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"; /* GPT-2's */
    int use_regex = 1;
    lipsc_status status =
        lipsc_field_bool(place, object, "add_prefix_space", &s->prefix_space);
    if (!status) status = lipsc_field_bool_or(place, object, "use_regex", &use_regex);
    if (!status && use_regex)
        status = compile(place, words, LIPSC_PATTERN_ONIGURUMA, &s->pattern);
    return status;
}

static lipsc_status read_behavior(const lipsc_json_place *place, json_t *object,
                                  lipsc_behavior *behavior) {
    static const char *const names[] = {"Removed", "Isolated", "MergedWithPrevious",
                                        "MergedWithNext", "Contiguous"};
    char shown[LIPSC_SHOWN_NAME];
    const char *name;
    size_t len;
    const lipsc_status status = lipsc_field_string(place, object, "behavior", &name, &len);
    if (status) return status;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (!strcmp(name, names[i])) {
            *behavior = (lipsc_behavior)i;
            return LIPSC_OK;
        }
    lipsc_show_name(name, shown);
    return lipsc_place_fail(place, "behavior '%s' is not supported", shown);
}

lipsc_status lipsc_metaspace_read(const lipsc_json_place *place, json_t *object,
                                  uint32_t *replacement, lipsc_prepend *prepend,
                                  int *split) {
    char shown[LIPSC_SHOWN_NAME];
    const char *scheme;
    size_t len;
    int prefix = 1;
    lipsc_status status = lipsc_field_character(place, object, "replacement", replacement);
    if (!status) status = lipsc_field_bool_or(place, object, "add_prefix_space", &prefix);
    if (!status)
        status = lipsc_field_string_or_null(place, object, "prepend_scheme", &scheme, &len);
    *split = 1;
    if (!status) status = lipsc_field_bool_or(place, object, "split", split);
    if (status) return status;
    if (!scheme) /* files from before there were schemes */
        *prepend = prefix ? LIPSC_PREPEND_ALWAYS : LIPSC_PREPEND_NEVER;
    else if (!strcmp(scheme, "always"))
        *prepend = LIPSC_PREPEND_ALWAYS;
    else if (!strcmp(scheme, "first"))
        *prepend = LIPSC_PREPEND_FIRST;
    else if (!strcmp(scheme, "never"))
        *prepend = LIPSC_PREPEND_NEVER;
    else {
        lipsc_show_name(scheme, shown);
        return lipsc_place_fail(place, "prepend_scheme '%s' is not supported", shown);
    }
    if (!prefix && *prepend != LIPSC_PREPEND_NEVER)
        return lipsc_place_fail(place, "add_prefix_space contradicts prepend_scheme");
    return LIPSC_OK;
}

static lipsc_status read_step(const lipsc_json_place *place, json_t *object, int index,
                              void *made) {
    step *s = made;
    lipsc_status status;
    int individual;
    *s = (step){.kind = (kind)index, .behavior = LIPSC_ISOLATED};
    switch (s->kind) {
    case BYTE_LEVEL:
        return read_byte_level(place, object, s);
    case METASPACE:
        return lipsc_metaspace_read(place, object, &s->replacement, &s->prepend, &s->split);
    case SPLIT:
        status = lipsc_pattern_read(place, object, &s->pattern);
        if (!status) status = read_behavior(place, object, &s->behavior);
        return status ? status : lipsc_field_bool(place, object, "invert", &s->invert);
    case WHITESPACE:
        return compile(place, "\\w+|[^\\w\\s]+", LIPSC_PATTERN_RUST, &s->pattern);
    case PUNCTUATION:
        return json_object_get(object, "behavior")
                   ? read_behavior(place, object, &s->behavior)
                   : LIPSC_OK;
    case DIGITS:
        status = lipsc_field_bool(place, object, "individual_digits", &individual);
        if (!status && !individual) s->behavior = LIPSC_CONTIGUOUS;
        return status;
    default:
        return LIPSC_OK;
    }
}

lipsc_status lipsc_pretokenizer_read(const lipsc_json_place *place, json_t *object,
                                     lipsc_pretokenizer **out) {
    lipsc_pretokenizer *pretokenizer = calloc(1, sizeof *pretokenizer);
    if (!pretokenizer) return lipsc_place_nomem(place);
    pretokenizer->steps.size = sizeof(step);
    const lipsc_status status = lipsc_steps_read(place, object, "pretokenizers", kind_names,
                                                 read_step, &pretokenizer->steps);
    if (status)
        lipsc_pretokenizer_free(pretokenizer);
    else
        *out = pretokenizer;
    return status;
}

/* ---- Cutting --------------------------------------------------------------- */

/* Everything that a step needs while it goes through the pieces. */
typedef struct {
    lipsc_pieces *pieces; /* as they are; its bytes also take what is new */
    lipsc_pieces next;    /* as they will be; its own bytes stay empty    */
    lipsc_spans spans;
    lipsc_error *err;
} work;

static const char *bytes_of(const work *w, const lipsc_piece *piece) {
    return w->pieces->bytes.data + piece->begin;
}

static lipsc_status split_by_pattern(work *w, lipsc_pattern *pattern,
                                     const lipsc_piece *piece, lipsc_behavior behavior,
                                     int invert) {
    const lipsc_status status =
        lipsc_pattern_spans(pattern, bytes_of(w, piece), piece->len, &w->spans, w->err);
    if (status) return status;
    for (size_t i = 0; invert && i < w->spans.count; i++)
        w->spans.data[i].match = !w->spans.data[i].match;
    lipsc_pieces_put_split(&w->next, piece, &w->spans, behavior);
    return LIPSC_OK;
}

/* Each character of the class is a delimiter. */
static void split_by_class(work *w, int (*in_class)(uint32_t), const lipsc_piece *piece,
                           lipsc_behavior behavior) {
    const char *bytes = bytes_of(w, piece);
    size_t done = 0;
    w->spans.count = 0;
    for (size_t at = 0, width; at < piece->len; at += width) {
        if (!in_class(lipsc_utf8_read(bytes + at, &width))) continue;
        if (done < at) lipsc_spans_put(&w->spans, done, at, 0);
        lipsc_spans_put(&w->spans, at, at + width, 1);
        done = at + width;
    }
    if (done < piece->len) lipsc_spans_put(&w->spans, done, piece->len, 0);
    lipsc_pieces_put_split(&w->next, piece, &w->spans, behavior);
}

/* A copy of piece with text in front of it.  What is in front counts as the first
 * character's when that character's own beginning is in piece. */
static lipsc_piece prefixed(work *w, const lipsc_piece *piece, const char *text,
                            size_t len) {
    lipsc_text *bytes = &w->pieces->bytes;
    lipsc_piece copy = *piece;
    copy.begin = bytes->len;
    copy.len += len;
    if (copy.origin) copy.origin += len;
    lipsc_text_put(bytes, text, len);
    lipsc_text_repeat(bytes, piece->begin, piece->len);
    return copy;
}

static lipsc_status cut_byte_level(work *w, step *s, const lipsc_piece *original) {
    lipsc_piece piece = *original;
    lipsc_text *bytes = &w->pieces->bytes;
    if (s->prefix_space && *bytes_of(w, &piece) != ' ') piece = prefixed(w, &piece, " ", 1);
    if (bytes->failed) return LIPSC_OK;
    const size_t first = w->next.count;
    if (s->pattern) {
        const lipsc_status status =
            split_by_pattern(w, s->pattern, &piece, LIPSC_ISOLATED, 0);
        if (status) return status;
    } else {
        lipsc_pieces_put(&w->next, piece);
    }
    for (size_t k = first; k < w->next.count && !bytes->failed; k++) {
        lipsc_piece *part = &w->next.data[k];
        const size_t begin = bytes->len;
        size_t origin = 0;
        for (size_t i = 0; i < part->len && !bytes->failed; i++) {
            lipsc_text_put_code(
                bytes, lipsc_byte_to_code((unsigned char)bytes->data[part->begin + i]));
            if (i < part->origin) origin = bytes->len - begin;
        }
        part->begin = begin;
        part->len = bytes->len - begin;
        part->origin = origin;
    }
    return LIPSC_OK;
}

static void cut_metaspace(work *w, const step *s, const lipsc_piece *original) {
    lipsc_text *bytes = &w->pieces->bytes;
    lipsc_piece piece = {.begin = bytes->len};
    char mark[4];
    size_t width, done = 0;
    const size_t len = lipsc_utf8_write(s->replacement, mark);
    for (size_t i = 0; i < original->len && !bytes->failed; i++) {
        const char byte = bytes->data[original->begin + i];
        if (byte == ' ')
            lipsc_text_put(bytes, mark, len);
        else
            lipsc_text_put(bytes, &byte, 1);
        if (i < original->origin) piece.origin = bytes->len - piece.begin;
    }
    piece.len = bytes->len - piece.begin;
    if (bytes->failed) return;
    const int marked = piece.len >= len && !memcmp(bytes_of(w, &piece), mark, len);
    if (!marked && (s->prepend == LIPSC_PREPEND_ALWAYS ||
                    (s->prepend == LIPSC_PREPEND_FIRST && piece.origin)))
        piece = prefixed(w, &piece, mark, len);
    if (bytes->failed) return;
    if (!s->split) {
        lipsc_pieces_put(&w->next, piece);
        return;
    }
    w->spans.count = 0;
    for (size_t at = 0; at < piece.len; at += width) {
        if (lipsc_utf8_read(bytes_of(w, &piece) + at, &width) != s->replacement) continue;
        if (done < at) lipsc_spans_put(&w->spans, done, at, 0);
        lipsc_spans_put(&w->spans, at, at + width, 1);
        done = at + width;
    }
    if (done < piece.len) lipsc_spans_put(&w->spans, done, piece.len, 0);
    lipsc_pieces_put_split(&w->next, &piece, &w->spans, LIPSC_MERGED_WITH_NEXT);
}

/* At white space, which goes, and around punctuation, which stays. */
static void cut_bert(work *w, const lipsc_piece *piece) {
    const char *bytes = bytes_of(w, piece);
    size_t done = 0;
    w->spans.count = 0;
    for (size_t at = 0, width; at < piece->len; at += width) {
        const uint32_t code = lipsc_utf8_read(bytes + at, &width);
        const int space = lipsc_is_space(code);
        if (!space && !lipsc_is_punctuation(code)) continue;
        if (done < at) lipsc_spans_put(&w->spans, done, at, 0);
        lipsc_spans_put(&w->spans, at, at + width, space);
        done = at + width;
    }
    if (done < piece->len) lipsc_spans_put(&w->spans, done, piece->len, 0);
    lipsc_pieces_put_split(&w->next, piece, &w->spans, LIPSC_REMOVED);
}

static lipsc_status cut(work *w, step *s, const lipsc_piece *piece) {
    switch (s->kind) {
    case BYTE_LEVEL:
        return cut_byte_level(w, s, piece);
    case METASPACE:
        cut_metaspace(w, s, piece);
        break;
    case SPLIT:
        return split_by_pattern(w, s->pattern, piece, s->behavior, s->invert);
    case WHITESPACE:
        return split_by_pattern(w, s->pattern, piece, LIPSC_REMOVED, 1);
    case WHITESPACE_SPLIT:
        split_by_class(w, lipsc_is_space, piece, LIPSC_REMOVED);
        break;
    case PUNCTUATION:
        split_by_class(w, lipsc_is_punctuation, piece, s->behavior);
        break;
    case DIGITS:
        split_by_class(w, lipsc_is_numeric, piece, s->behavior);
        break;
    case BERT:
        cut_bert(w, piece);
        break;
    }
    return LIPSC_OK;
}

static lipsc_status apply_step(step *s, lipsc_pieces *pieces, lipsc_error *err) {
    work w = {.pieces = pieces, .err = err};
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < pieces->count && !status; i++) {
        if (pieces->data[i].is_token)
            lipsc_pieces_put(&w.next, pieces->data[i]);
        else
            status = cut(&w, s, &pieces->data[i]);
    }
    if (!status && (w.next.failed || w.spans.failed || pieces->bytes.failed))
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    lipsc_spans_free(&w.spans);
    free(pieces->data);
    pieces->data = w.next.data;
    pieces->count = w.next.count;
    pieces->room = w.next.room;
    return status;
}

lipsc_status lipsc_pretokenizer_apply(lipsc_pretokenizer *pretokenizer,
                                      lipsc_pieces *pieces, lipsc_error *err) {
    step *steps = pretokenizer->steps.at;
    for (size_t i = 0; i < pretokenizer->steps.count; i++) {
        const lipsc_status status = apply_step(&steps[i], pieces, err);
        if (status) return status;
    }
    return LIPSC_OK;
}
