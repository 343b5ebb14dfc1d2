/* vocab.c - tokens and their ids, a hash table one way, a list sorted by id the other; and
 * WordPiece, the model that needs nothing else: the longest token that begins the word,
 * then the longest that continues it, and so on; one unknown token for a word that cannot
 * be covered. */
#include "token/parts.h"

#include "core/error.h"
#include "token/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    const char *token; /* in the vocabulary's own memory */
    size_t len;
    uint32_t id;
} entry;

struct lipsc_vocab {
    entry *entries; /* ascending ids */
    size_t count, longest;
    size_t *slots; /* index + 1, 0: free; the number of slots is mask + 1 */
    size_t mask;
    char *memory;
};

void lipsc_vocab_free(lipsc_vocab *vocab) {
    if (!vocab) return;
    free(vocab->entries);
    free(vocab->slots);
    free(vocab->memory);
    free(vocab);
}

size_t lipsc_vocab_count(const lipsc_vocab *vocab) { return vocab->count; }
size_t lipsc_vocab_longest(const lipsc_vocab *vocab) { return vocab->longest; }
size_t lipsc_vocab_end(const lipsc_vocab *vocab) {
    return vocab->count ? (size_t)vocab->entries[vocab->count - 1].id + 1 : 0;
}

static int by_id(const void *a, const void *b) {
    const uint32_t x = ((const entry *)a)->id, y = ((const entry *)b)->id;
    return (x > y) - (x < y);
}

static size_t slot_of(const lipsc_vocab *vocab, const char *token, size_t len) {
    size_t slot = (size_t)lipsc_hash(token, len) & vocab->mask;
    for (; vocab->slots[slot]; slot = (slot + 1) & vocab->mask) {
        const entry *e = &vocab->entries[vocab->slots[slot] - 1];
        /* the empty token may come without an address, which memcmp must not see */
        if (e->len == len && (!len || !memcmp(e->token, token, len))) break;
    }
    return slot;
}

int lipsc_vocab_find(const lipsc_vocab *vocab, const char *token, size_t len,
                     uint32_t *id) {
    if (len > vocab->longest) return 0;
    const size_t index = vocab->slots[slot_of(vocab, token, len)];
    if (!index) return 0;
    *id = vocab->entries[index - 1].id;
    return 1;
}

const char *lipsc_vocab_token(const lipsc_vocab *vocab, uint32_t id, size_t *len) {
    const entry key = {.id = id};
    const entry *found = NULL;
    if (vocab->count)
        found = bsearch(&key, vocab->entries, vocab->count, sizeof key, by_id);
    if (!found) return NULL;
    *len = found->len;
    return found->token;
}

static lipsc_status copy_tokens(const lipsc_json_place *place, json_t *object,
                                lipsc_vocab *vocab) {
    const char *key;
    json_t *value;
    size_t bytes = 0, used = 0;
    json_object_foreach(object, key, value) bytes += strlen(key);
    vocab->memory = malloc(bytes ? bytes : 1);
    if (!vocab->memory) return lipsc_place_nomem(place);
    json_object_foreach(object, key, value) {
        entry *e = &vocab->entries[vocab->count];
        const lipsc_status status = lipsc_value_id(place, value, key, &e->id);
        if (status) return status;
        e->len = strlen(key);
        e->token = vocab->memory + used;
        memcpy(vocab->memory + used, key, e->len);
        used += e->len;
        if (e->len > vocab->longest) vocab->longest = e->len;
        vocab->count++;
    }
    return LIPSC_OK;
}

static lipsc_status check_ids(const lipsc_json_place *place, const lipsc_vocab *vocab) {
    char first[LIPSC_SHOWN_NAME], second[LIPSC_SHOWN_NAME];
    for (size_t i = 1; i < vocab->count; i++) {
        const entry *a = &vocab->entries[i - 1], *b = &vocab->entries[i];
        if (a->id != b->id) continue;
        lipsc_show_token(a->token, a->len, first);
        lipsc_show_token(b->token, b->len, second);
        return lipsc_place_fail(place, "gives '%s' and '%s' the same id %lu", first, second,
                                (unsigned long)a->id);
    }
    return LIPSC_OK;
}

lipsc_status lipsc_vocab_read(const lipsc_json_place *place, json_t *object,
                              lipsc_vocab **out) {
    if (!json_is_object(object))
        return lipsc_place_fail(place, "has no vocab that maps tokens to ids");
    const size_t count = json_object_size(object);
    lipsc_vocab *vocab = calloc(1, sizeof *vocab);
    lipsc_status status = LIPSC_OK;
    if (!vocab) return lipsc_place_nomem(place);
    vocab->mask = 15;
    while (vocab->mask < 2 * count) vocab->mask = 2 * vocab->mask + 1;
    vocab->entries = calloc(count ? count : 1, sizeof *vocab->entries);
    vocab->slots = calloc(vocab->mask + 1, sizeof *vocab->slots);
    if (!vocab->entries || !vocab->slots)
        status = lipsc_place_nomem(place);
    else
        status = copy_tokens(place, object, vocab);
    if (!status) {
        qsort(vocab->entries, vocab->count, sizeof *vocab->entries, by_id);
        status = check_ids(place, vocab);
    }
    if (status) {
        lipsc_vocab_free(vocab);
        return status;
    }
    for (size_t i = 0; i < vocab->count; i++)
        vocab->slots[slot_of(vocab, vocab->entries[i].token, vocab->entries[i].len)] =
            i + 1;
    *out = vocab;
    return LIPSC_OK;
}

/* ---- WordPiece --------------------------------------------------------------- */

lipsc_status lipsc_wordpiece_read(const lipsc_json_place *place, json_t *object,
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
