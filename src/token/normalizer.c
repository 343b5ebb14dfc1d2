/* normalizer.c - what is done to a text before it is cut into words: a list of steps. */
#include "token/parts.h"

#include "core/error.h"
#include "token/pattern.h"
#include "token/text.h"

#include <stdlib.h>
#include <string.h>

typedef enum {
    BERT,
    BERT_SHORT, /* the same under another name */
    NFC,
    NFD,
    NFKC,
    NFKD,
    LOWERCASE,
    STRIP_ACCENTS,
    STRIP,
    REPLACE,
    PREPEND
} kind;

static const char *const kind_names[] = {
    "BertNormalizer", "Bert",         "NFC",   "NFD",     "NFKC",    "NFKD",
    "Lowercase",      "StripAccents", "Strip", "Replace", "Prepend", NULL};

typedef struct {
    kind kind;
    int clean, ideographs, accents, lowercase; /* BERT                      */
    int left, right;                           /* STRIP                     */
    lipsc_pattern *pattern;                    /* REPLACE                   */
    lipsc_text content;                        /* REPLACE and PREPEND       */
} step;

struct lipsc_normalizer {
    lipsc_steps steps; /* of kind step */
};

void lipsc_normalizer_free(lipsc_normalizer *normalizer) {
    if (!normalizer) return;
    step *steps = normalizer->steps.at;
    for (size_t i = 0; i < normalizer->steps.count; i++) {
        lipsc_pattern_free(steps[i].pattern);
        lipsc_text_free(&steps[i].content);
    }
    free(steps);
    free(normalizer);
}

static lipsc_status read_bert(const lipsc_json_place *place, json_t *object, step *s) {
    lipsc_status status = lipsc_field_bool(place, object, "clean_text", &s->clean);
    if (!status)
        status = lipsc_field_bool(place, object, "handle_chinese_chars", &s->ideographs);
    if (!status) status = lipsc_field_bool(place, object, "lowercase", &s->lowercase);
    s->accents = s->lowercase;
    if (!status) status = lipsc_field_bool_or(place, object, "strip_accents", &s->accents);
    return status;
}

static lipsc_status read_step(const lipsc_json_place *place, json_t *object, int index,
                              void *made) {
    step *s = made;
    lipsc_status status;
    *s = (step){.kind = (kind)index};
    switch (s->kind) {
    case BERT:
    case BERT_SHORT:
        return read_bert(place, object, s);
    case STRIP:
        status = lipsc_field_bool(place, object, "strip_left", &s->left);
        return status ? status : lipsc_field_bool(place, object, "strip_right", &s->right);
    case REPLACE:
        status = lipsc_pattern_read(place, object, &s->pattern);
        return status ? status : lipsc_field_text(place, object, "content", &s->content);
    case PREPEND:
        return lipsc_field_text(place, object, "prepend", &s->content);
    default:
        return LIPSC_OK;
    }
}

lipsc_status lipsc_normalizer_read(const lipsc_json_place *place, json_t *object,
                                   lipsc_normalizer **out) {
    lipsc_normalizer *normalizer = calloc(1, sizeof *normalizer);
    if (!normalizer) return lipsc_place_nomem(place);
    normalizer->steps.size = sizeof(step);
    const lipsc_status status = lipsc_steps_read(place, object, "normalizers", kind_names,
                                                 read_step, &normalizer->steps);
    if (status)
        lipsc_normalizer_free(normalizer);
    else
        *out = normalizer;
    return status;
}

/* ---- Steps, from text to out, with a count of what stems from the first character - */

typedef void (*character_fn)(uint32_t code, lipsc_text *out);

static void each_character(const lipsc_text *text, lipsc_text *out, size_t *origin,
                           character_fn write) {
    size_t from_first = 0;
    for (size_t at = 0, width; at < text->len; at += width) {
        const uint32_t code = lipsc_utf8_read(text->data + at, &width);
        write(code, out);
        if (at < *origin) from_first = out->len;
    }
    *origin = from_first;
}

static void write_clean(uint32_t code, lipsc_text *out) {
    if (code == 0 || code == 0xfffd || lipsc_is_control(code)) return;
    lipsc_text_put_code(out, lipsc_is_space(code) ? ' ' : code);
}

static void write_apart(uint32_t code, lipsc_text *out) {
    const int apart = lipsc_is_ideograph(code);
    if (apart) lipsc_text_put(out, " ", 1);
    lipsc_text_put_code(out, code);
    if (apart) lipsc_text_put(out, " ", 1);
}

static void write_lowercase(uint32_t code, lipsc_text *out) {
    uint32_t lower[2];
    const size_t count = lipsc_lowercase(code, lower);
    for (size_t i = 0; i < count; i++) lipsc_text_put_code(out, lower[i]);
}

static void write_spacing(uint32_t code, lipsc_text *out) {
    if (!lipsc_is_nonspacing(code)) lipsc_text_put_code(out, code);
}

static void write_unmarked(uint32_t code, lipsc_text *out) {
    if (!lipsc_is_mark(code)) lipsc_text_put_code(out, code);
}

static void apply_form(const lipsc_text *text, lipsc_text *out, size_t *origin,
                       lipsc_form form) {
    lipsc_text first = {0};
    lipsc_normal_form(out, text->data, text->len, form);
    if (*origin) { /* a mark that joins the first character counts to it */
        lipsc_normal_form(&first, text->data, *origin, form);
        *origin = first.len < out->len ? first.len : out->len;
        lipsc_text_free(&first);
    }
}

static void apply_strip(const step *s, const lipsc_text *text, lipsc_text *out,
                        size_t *origin) {
    const char *begin = text->data, *end = text->data + text->len;
    size_t width;
    while (s->left && begin < end && lipsc_is_space(lipsc_utf8_read(begin, &width)))
        begin += width;
    while (s->right && begin < end) {
        const char *last = lipsc_utf8_before(begin, end);
        if (!lipsc_is_space(lipsc_utf8_read(last, &width))) break;
        end = last;
    }
    const size_t cut = (size_t)(begin - text->data);
    lipsc_text_put(out, begin, (size_t)(end - begin));
    *origin = *origin > cut ? *origin - cut : 0;
    if (*origin > out->len) *origin = out->len;
}

/* New characters stem from the last character that was replaced. */
static lipsc_status apply_replace(step *s, const lipsc_text *text, lipsc_text *out,
                                  size_t *origin, lipsc_error *err) {
    lipsc_spans spans = {0};
    size_t from_first = 0;
    const lipsc_status status =
        lipsc_pattern_spans(s->pattern, text->data, text->len, &spans, err);
    for (size_t i = 0; !status && i < spans.count; i++) {
        const lipsc_span *span = &spans.data[i];
        if (span->match) {
            lipsc_text_put(out, s->content.data, s->content.len);
            if (*origin && (span->end ? span->end - 1 : 0) < *origin) from_first = out->len;
        } else {
            lipsc_text_put(out, text->data + span->begin, span->end - span->begin);
            if (span->begin < *origin)
                from_first =
                    out->len - (span->end - span->begin) +
                    (*origin < span->end ? *origin - span->begin : span->end - span->begin);
        }
    }
    *origin = from_first;
    lipsc_spans_free(&spans);
    return status;
}

/* The steps of BERT follow each other, each on the result of the one before. */
static void apply_bert(const step *s, lipsc_text *text, lipsc_text *out, size_t *origin) {
    lipsc_text swap;
#define NEXT (swap = *text, *text = *out, *out = swap, out->len = 0)
    if (s->clean) {
        each_character(text, out, origin, write_clean);
        NEXT;
    }
    if (s->ideographs) {
        each_character(text, out, origin, write_apart);
        NEXT;
    }
    if (s->accents) {
        apply_form(text, out, origin, LIPSC_NFD);
        NEXT;
        each_character(text, out, origin, write_spacing);
        NEXT;
    }
    if (s->lowercase) {
        each_character(text, out, origin, write_lowercase);
        NEXT;
    }
#undef NEXT
    lipsc_text_put(out, text->data, text->len);
}

static lipsc_status apply_step(step *s, lipsc_text *text, lipsc_text *out, size_t *origin,
                               lipsc_error *err) {
    switch (s->kind) {
    case BERT:
    case BERT_SHORT:
        apply_bert(s, text, out, origin);
        break;
    case NFC:
        apply_form(text, out, origin, LIPSC_NFC);
        break;
    case NFD:
        apply_form(text, out, origin, LIPSC_NFD);
        break;
    case NFKC:
        apply_form(text, out, origin, LIPSC_NFKC);
        break;
    case NFKD:
        apply_form(text, out, origin, LIPSC_NFKD);
        break;
    case LOWERCASE:
        each_character(text, out, origin, write_lowercase);
        break;
    case STRIP_ACCENTS:
        each_character(text, out, origin, write_unmarked);
        break;
    case STRIP:
        apply_strip(s, text, out, origin);
        break;
    case REPLACE:
        return apply_replace(s, text, out, origin, err);
    case PREPEND:
        if (text->len) lipsc_text_put(out, s->content.data, s->content.len);
        lipsc_text_put(out, text->data, text->len);
        if (*origin) *origin += s->content.len;
        break;
    }
    return LIPSC_OK;
}

lipsc_status lipsc_normalizer_apply(lipsc_normalizer *normalizer, lipsc_text *text,
                                    size_t *origin, lipsc_error *err) {
    lipsc_text out = {0};
    step *steps = normalizer->steps.at;
    for (size_t i = 0; i < normalizer->steps.count && text->len; i++) {
        out.len = 0;
        const lipsc_status status = apply_step(&steps[i], text, &out, origin, err);
        const lipsc_text swap = *text;
        *text = out;
        out = swap;
        if (status || text->failed || out.failed) {
            lipsc_text_free(&out);
            return status ? status : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
        }
    }
    lipsc_text_free(&out);
    return LIPSC_OK;
}
