/* decoder.c - tokens back to text: a list of steps, each from strings to strings. */
#include "token/parts.h"

#include "core/error.h"
#include "token/pattern.h"

#include <stdlib.h>
#include <string.h>

typedef enum {
    BYTE_LEVEL,
    WORDPIECE,
    METASPACE,
    BPE,
    REPLACE,
    BYTE_FALLBACK,
    FUSE,
    STRIP
} kind;

static const char *const kind_names[] = {"ByteLevel",  "WordPiece", "Metaspace",
                                         "BPEDecoder", "Replace",   "ByteFallback",
                                         "Fuse",       "Strip",     NULL};

typedef struct {
    kind kind;
    lipsc_text text;        /* WORDPIECE prefix, BPE suffix, REPLACE content */
    int cleanup;            /* WORDPIECE                                     */
    uint32_t code;          /* METASPACE replacement, STRIP content          */
    lipsc_prepend prepend;  /* METASPACE                                     */
    lipsc_pattern *pattern; /* REPLACE                                       */
    size_t start, stop;     /* STRIP: at most this many at each end          */
} step;

struct lipsc_decoder {
    lipsc_steps steps; /* of kind step */
    int given;
};

void lipsc_strings_end(lipsc_strings *list) {
    void *ends = list->ends;
    if (list->failed || list->bytes.failed ||
        !lipsc_grow(&ends, &list->room, list->count + 1, sizeof *list->ends)) {
        list->failed = 1;
        return;
    }
    list->ends = ends;
    list->ends[list->count++] = list->bytes.len;
}

void lipsc_strings_free(lipsc_strings *list) {
    lipsc_text_free(&list->bytes);
    free(list->ends);
    *list = (lipsc_strings){0};
}

void lipsc_decoder_free(lipsc_decoder *decoder) {
    if (!decoder) return;
    step *steps = decoder->steps.at;
    for (size_t i = 0; i < decoder->steps.count; i++) {
        lipsc_text_free(&steps[i].text);
        lipsc_pattern_free(steps[i].pattern);
    }
    free(steps);
    free(decoder);
}

/* ---- Reading --------------------------------------------------------------- */

static lipsc_status read_step(const lipsc_json_place *place, json_t *object, int index,
                              void *made) {
    step *s = made;
    lipsc_status status;
    int split;
    *s = (step){.kind = (kind)index};
    switch (s->kind) {
    case WORDPIECE:
        status = lipsc_field_text(place, object, "prefix", &s->text);
        return status ? status : lipsc_field_bool(place, object, "cleanup", &s->cleanup);
    case METASPACE:
        return lipsc_metaspace_read(place, object, &s->code, &s->prepend, &split);
    case BPE:
        return lipsc_field_text(place, object, "suffix", &s->text);
    case REPLACE:
        status = lipsc_pattern_read(place, object, &s->pattern);
        return status ? status : lipsc_field_text(place, object, "content", &s->text);
    case STRIP:
        status = lipsc_field_character(place, object, "content", &s->code);
        if (!status) status = lipsc_field_size(place, object, "start", &s->start);
        return status ? status : lipsc_field_size(place, object, "stop", &s->stop);
    default:
        return LIPSC_OK;
    }
}

lipsc_status lipsc_decoder_read(const lipsc_json_place *place, json_t *object,
                                lipsc_decoder **out) {
    lipsc_decoder *decoder = calloc(1, sizeof *decoder);
    if (!decoder) return lipsc_place_nomem(place);
    decoder->steps.size = sizeof(step);
    decoder->given = object && !json_is_null(object);
    const lipsc_status status =
        lipsc_steps_read(place, object, "decoders", kind_names, read_step, &decoder->steps);
    if (status)
        lipsc_decoder_free(decoder);
    else
        *out = decoder;
    return status;
}

/* ---- Steps on one string --------------------------------------------------- */

/* Every `from` in text, left to right, becomes `to`. */
static void replace_all(lipsc_text *out, const char *text, size_t len, const char *from,
                        const char *to) {
    const size_t from_len = strlen(from), to_len = strlen(to);
    size_t done = 0, at = 0;
    while (at + from_len <= len) {
        if (memcmp(text + at, from, from_len)) {
            at++;
            continue;
        }
        lipsc_text_put(out, text + done, at - done);
        lipsc_text_put(out, to, to_len);
        done = at += from_len;
    }
    if (done < len) lipsc_text_put(out, text + done, len - done);
}

/* The spaces that cutting at punctuation put into English. */
static void clean_up(lipsc_text *text, size_t begin) {
    static const char *const changes[][2] = {
        {" .", "."},   {" ?", "?"},     {" !", "!"},    {" ,", ","},
        {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},  {" do not", " don't"},
        {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    lipsc_text next = {0};
    if (text->failed || text->len == begin ||
        !memchr(text->data + begin, ' ', text->len - begin))
        return;
    for (size_t i = 0; i < sizeof changes / sizeof changes[0]; i++) {
        next.len = 0;
        replace_all(&next, text->data + begin, text->len - begin, changes[i][0],
                    changes[i][1]);
        if (next.failed) text->failed = 1;
        if (text->failed) break;
        text->len = begin;
        lipsc_text_put(text, next.data, next.len);
    }
    lipsc_text_free(&next);
}

static void write_wordpiece(const step *s, size_t index, const char *token, size_t len,
                            lipsc_text *out) {
    const size_t begin = out->len, prefix = s->text.len;
    if (index && len >= prefix && (!prefix || !memcmp(token, s->text.data, prefix))) {
        token += prefix;
        len -= prefix;
    } else if (index) {
        lipsc_text_put(out, " ", 1);
    }
    lipsc_text_put(out, token, len);
    if (s->cleanup) clean_up(out, begin);
}

static void write_metaspace(const step *s, size_t index, const char *token, size_t len,
                            lipsc_text *out) {
    for (size_t at = 0, width; at < len; at += width) {
        const uint32_t code = lipsc_utf8_read(token + at, &width);
        if (code != s->code)
            lipsc_text_put(out, token + at, width);
        else if (index || s->prepend == LIPSC_PREPEND_NEVER)
            lipsc_text_put(out, " ", 1);
    }
}

/* The suffix that ends a word is a space, but not after the last token.  An empty suffix
 * stands between all characters. */
static void write_bpe(const step *s, int last, const char *token, size_t len,
                      lipsc_text *out) {
    const size_t suffix = s->text.len;
    for (size_t at = 0, width; at < len; at += width) {
        if (!suffix) {
            if (!last) lipsc_text_put(out, " ", 1);
        } else if (len - at >= suffix && !memcmp(token + at, s->text.data, suffix)) {
            if (!last) lipsc_text_put(out, " ", 1);
            width = suffix;
            continue;
        }
        lipsc_utf8_read(token + at, &width);
        lipsc_text_put(out, token + at, width);
    }
    if (!suffix && !last) lipsc_text_put(out, " ", 1);
}

static void write_strip(const step *s, const char *token, size_t len, lipsc_text *out) {
    const char *begin = token, *end = token + len;
    size_t width;
    for (size_t i = 0; i < s->start && begin < end; i++) {
        if (lipsc_utf8_read(begin, &width) != s->code) break;
        begin += width;
    }
    for (size_t i = 0; i < s->stop && begin < end; i++) {
        const char *last = lipsc_utf8_before(begin, end);
        if (lipsc_utf8_read(last, &width) != s->code) break;
        end = last;
    }
    lipsc_text_put(out, begin, (size_t)(end - begin));
}

static lipsc_status write_replace(const step *s, const char *token, size_t len,
                                  lipsc_spans *spans, lipsc_text *out, lipsc_error *err) {
    if (!len) return LIPSC_OK;
    const lipsc_status status = lipsc_pattern_spans(s->pattern, token, len, spans, err);
    for (size_t i = 0; !status && i < spans->count; i++) {
        const lipsc_span *span = &spans->data[i];
        if (span->match)
            lipsc_text_put(out, s->text.data, s->text.len);
        else
            lipsc_text_put(out, token + span->begin, span->end - span->begin);
    }
    return status;
}

/* ---- Steps on all strings -------------------------------------------------- */

/* The bytes that GPT-2's alphabet stands for; a token with other characters is itself. */
static void join_byte_level(const lipsc_strings *tokens, lipsc_strings *out) {
    lipsc_text bytes = {0};
    for (size_t i = 0, begin = 0; i < tokens->count; begin = tokens->ends[i++]) {
        const size_t before = bytes.len;
        for (size_t at = begin, width; at < tokens->ends[i]; at += width) {
            const int byte =
                lipsc_code_to_byte(lipsc_utf8_read(tokens->bytes.data + at, &width));
            if (byte < 0) {
                bytes.len = before;
                lipsc_text_put(&bytes, tokens->bytes.data + begin, tokens->ends[i] - begin);
                break;
            }
            lipsc_text_put(&bytes, (char[]){(char)byte}, 1);
        }
    }
    lipsc_text_put_repaired(&out->bytes, bytes.data, bytes.len);
    if (bytes.failed) out->failed = 1;
    lipsc_strings_end(out);
    lipsc_text_free(&bytes);
}

/* <0x41> is the byte 0x41; -1 for another token.  "+4" counts as 4, as it does in Rust. */
static int byte_token(const char *token, size_t len) {
    if (len != 6 || memcmp(token, "<0x", 3) != 0 || token[5] != '>') return -1;
    const int high = token[3] == '+' ? 0 : lipsc_hex_digit(token[3]),
              low = lipsc_hex_digit(token[4]);
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

/* Bytes in a row are characters, or one U+FFFD each. */
static void end_bytes(lipsc_text *bytes, lipsc_strings *out) {
    if (!bytes->len) return;
    if (lipsc_utf8_sound(bytes->data, bytes->len) == bytes->len) {
        lipsc_text_put(&out->bytes, bytes->data, bytes->len);
        lipsc_strings_end(out);
    } else {
        for (size_t i = 0; i < bytes->len; i++) {
            lipsc_text_put_code(&out->bytes, 0xfffd);
            lipsc_strings_end(out);
        }
    }
    bytes->len = 0;
}

static void join_fallback(const lipsc_strings *tokens, lipsc_strings *out) {
    lipsc_text bytes = {0};
    for (size_t i = 0, begin = 0; i < tokens->count; begin = tokens->ends[i++]) {
        const size_t len = tokens->ends[i] - begin;
        const char *token = len ? tokens->bytes.data + begin : "";
        const int byte = len ? byte_token(token, len) : -1;
        if (byte >= 0) {
            lipsc_text_put(&bytes, (char[]){(char)byte}, 1);
            continue;
        }
        end_bytes(&bytes, out);
        if (len) lipsc_text_put(&out->bytes, token, len);
        lipsc_strings_end(out);
    }
    end_bytes(&bytes, out);
    if (bytes.failed) out->failed = 1;
    lipsc_text_free(&bytes);
}

static lipsc_status apply_step(const step *s, const lipsc_strings *tokens,
                               lipsc_strings *out, lipsc_spans *spans, lipsc_error *err) {
    if (s->kind == BYTE_LEVEL || s->kind == BYTE_FALLBACK) {
        (s->kind == BYTE_LEVEL ? join_byte_level : join_fallback)(tokens, out);
        return LIPSC_OK;
    }
    if (s->kind == FUSE) {
        if (tokens->bytes.len)
            lipsc_text_put(&out->bytes, tokens->bytes.data, tokens->bytes.len);
        lipsc_strings_end(out);
        return LIPSC_OK;
    }
    for (size_t i = 0, begin = 0; i < tokens->count; begin = tokens->ends[i++]) {
        const size_t len = tokens->ends[i] - begin;
        const char *token = len ? tokens->bytes.data + begin : "";
        lipsc_status status = LIPSC_OK;
        if (s->kind == WORDPIECE)
            write_wordpiece(s, i, token, len, &out->bytes);
        else if (s->kind == METASPACE)
            write_metaspace(s, i, token, len, &out->bytes);
        else if (s->kind == BPE)
            write_bpe(s, i + 1 == tokens->count, token, len, &out->bytes);
        else if (s->kind == STRIP)
            write_strip(s, token, len, &out->bytes);
        else
            status = write_replace(s, token, len, spans, &out->bytes, err);
        if (status) return status;
        lipsc_strings_end(out);
    }
    return LIPSC_OK;
}

static void join_with_spaces(const lipsc_strings *tokens, lipsc_strings *out) {
    for (size_t i = 0, begin = 0; i < tokens->count; begin = tokens->ends[i++]) {
        if (i) lipsc_text_put(&out->bytes, " ", 1);
        if (tokens->ends[i] > begin)
            lipsc_text_put(&out->bytes, tokens->bytes.data + begin,
                           tokens->ends[i] - begin);
    }
    lipsc_strings_end(out);
}

lipsc_status lipsc_decoder_apply(const lipsc_decoder *decoder, lipsc_strings *tokens,
                                 lipsc_error *err) {
    lipsc_strings out = {0};
    lipsc_spans spans = {0};
    lipsc_status status = LIPSC_OK;
    step *steps = decoder->steps.at;
    const size_t count = decoder->given ? decoder->steps.count : 1;
    for (size_t i = 0; i < count && !status; i++) {
        out.bytes.len = out.count = 0;
        if (decoder->given)
            status = apply_step(&steps[i], tokens, &out, &spans, err);
        else
            join_with_spaces(tokens, &out);
        if (!status && (out.failed || out.bytes.failed || spans.failed))
            status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
        const lipsc_strings swap = *tokens;
        *tokens = out;
        out = swap;
    }
    lipsc_strings_free(&out);
    lipsc_spans_free(&spans);
    return status;
}
