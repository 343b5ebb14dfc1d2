/* wordpiece.c - WordPiece: the longest token that begins the word, then the longest that
 * continues it, and so on; one unknown token for a word that cannot be covered. */
#include "token/model.h"

#include "core/error.h"

lipsc_status lipsc_wordpiece_read(const lipsc_place *place, json_t *object,
                                  const lipsc_vocab *vocab, lipsc_wordpiece *out) {
    const char *unknown, *prefix;
    size_t unknown_len, prefix_len;
    lipsc_wordpiece w = {.vocab = vocab};
    lipsc_status status =
        lipsc_field_string(place, object, "unk_token", &unknown, &unknown_len);
    if (!status)
        status = lipsc_field_string(place, object, "continuing_subword_prefix", &prefix,
                                    &prefix_len);
    if (!status)
        status =
            lipsc_field_size(place, object, "max_input_chars_per_word", &w.most_characters);
    if (status) return status;
    lipsc_text_put(&w.unknown, unknown, unknown_len);
    lipsc_text_put(&w.prefix, prefix, prefix_len);
    lipsc_text_put(&w.buffer, prefix, prefix_len);
    *out = w;
    if (!w.unknown.failed && !w.prefix.failed && !w.buffer.failed) return LIPSC_OK;
    return lipsc_place_nomem(place);
}

void lipsc_wordpiece_free(lipsc_wordpiece *wordpiece) {
    lipsc_text_free(&wordpiece->unknown);
    lipsc_text_free(&wordpiece->prefix);
    lipsc_text_free(&wordpiece->buffer);
}

static lipsc_status put_unknown(const lipsc_wordpiece *w, lipsc_ids *ids,
                                lipsc_error *err) {
    uint32_t id;
    if (!lipsc_vocab_find(w->vocab, w->unknown.data, w->unknown.len, &id))
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "the tokenizer's unknown token is not in its vocabulary");
    lipsc_ids_put(ids, id);
    return LIPSC_OK;
}

/* The longest token at `begin`: its length in the word, 0 for none. */
static size_t longest(lipsc_wordpiece *w, const char *word, size_t begin, size_t len,
                      uint32_t *id) {
    const size_t prefix = begin ? w->prefix.len : 0, most = lipsc_vocab_longest(w->vocab);
    size_t end = len;
    if (most < prefix) return 0;
    if (end - begin > most - prefix) end = begin + (most - prefix);
    w->buffer.len = w->prefix.len;
    lipsc_text_put(&w->buffer, word + begin, end - begin);
    if (w->buffer.failed) return 0;
    const char *candidate = w->buffer.data + (begin ? 0 : w->prefix.len);
    for (; end > begin; end--) {
        /* only whole characters */
        if (end < len && ((unsigned char)word[end] & 0xc0) == 0x80) continue;
        if (lipsc_vocab_find(w->vocab, candidate, prefix + end - begin, id))
            return end - begin;
    }
    return 0;
}

lipsc_status lipsc_wordpiece_encode(lipsc_wordpiece *w, const char *word, size_t len,
                                    lipsc_ids *ids, lipsc_error *err) {
    const size_t before = ids->count;
    if (lipsc_utf8_count(word, len) > w->most_characters) return put_unknown(w, ids, err);
    for (size_t at = 0; at < len;) {
        uint32_t id;
        const size_t step = longest(w, word, at, len, &id);
        if (!step) {
            ids->count = before;
            if (w->buffer.failed) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
            return put_unknown(w, ids, err);
        }
        lipsc_ids_put(ids, id);
        at += step;
    }
    return LIPSC_OK;
}
