/* added.c - the tokens that no model makes: added ones, found written out in a text.
 *
 * Two tries of bytes, one for the text as it is and one for it normalized.  The leftmost
 * match counts, of several there the longest. */
#include "token/parts.h"

#include "token/text.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    size_t child, sibling; /* nodes, 0: none */
    size_t value;          /* token + 1, 0: none ends here */
    unsigned char byte;
} node;

typedef struct {
    node *nodes; /* the first is the root */
    size_t count, room;
} trie;

typedef struct {
    lipsc_text content, pattern; /* pattern: content as it is looked for */
    uint32_t id;
    int single_word, lstrip, rstrip, normalized, special;
} token;

struct lipsc_added {
    token *tokens;
    size_t count, room;
    size_t *by_id; /* tokens by ascending id */
    trie contents, patterns[2];
    lipsc_pattern *word; /* \w, when a token is single_word */
};

/* ---- Tries ----------------------------------------------------------------- */

static size_t child_of(const trie *t, size_t at, unsigned char byte) {
    size_t child = t->nodes[at].child;
    while (child && t->nodes[child].byte != byte) child = t->nodes[child].sibling;
    return child;
}

/* Where the value of a key stands, or NULL when memory runs out. */
static size_t *trie_value(trie *t, const char *key, size_t len) {
    void *nodes = t->nodes;
    if (!lipsc_grow(&nodes, &t->room, t->count + len + 1, sizeof(node))) return NULL;
    t->nodes = nodes;
    if (!t->count) t->nodes[t->count++] = (node){0};
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        size_t child = child_of(t, at, (unsigned char)key[i]);
        if (!child) {
            child = t->count++;
            t->nodes[child] =
                (node){.sibling = t->nodes[at].child, .byte = (unsigned char)key[i]};
            t->nodes[at].child = child;
        }
        at = child;
    }
    return &t->nodes[at].value;
}

/* The value of the longest key that begins text, and its length; 0: none does. */
static size_t trie_longest(const trie *t, const char *text, size_t len, size_t *matched) {
    size_t at = 0, value = 0;
    for (size_t i = 0; i < len; i++) {
        at = child_of(t, at, (unsigned char)text[i]);
        if (!at) break;
        if (t->nodes[at].value) {
            value = t->nodes[at].value;
            *matched = i + 1;
        }
    }
    return value;
}

static size_t trie_find(const trie *t, const char *key, size_t len) {
    size_t at = 0;
    if (!t->count) return 0;
    for (size_t i = 0; i < len; i++) {
        at = child_of(t, at, (unsigned char)key[i]);
        if (!at) return 0;
    }
    return t->nodes[at].value;
}

/* ---- Reading --------------------------------------------------------------- */

void lipsc_added_free(lipsc_added *added) {
    if (!added) return;
    for (size_t i = 0; i < added->count; i++) {
        lipsc_text_free(&added->tokens[i].content);
        lipsc_text_free(&added->tokens[i].pattern);
    }
    free(added->tokens);
    free(added->by_id);
    free(added->contents.nodes);
    free(added->patterns[0].nodes);
    free(added->patterns[1].nodes);
    lipsc_pattern_free(added->word);
    free(added);
}

static lipsc_status read_flags(const lipsc_json_place *place, json_t *object, token *t) {
    const struct {
        const char *key;
        int *flag;
    } flags[] = {{"single_word", &t->single_word},
                 {"lstrip", &t->lstrip},
                 {"rstrip", &t->rstrip},
                 {"normalized", &t->normalized},
                 {"special", &t->special}};
    for (size_t i = 0; i < sizeof flags / sizeof flags[0]; i++) {
        const lipsc_status status =
            lipsc_field_bool(place, object, flags[i].key, flags[i].flag);
        if (status) return status;
    }
    return LIPSC_OK;
}

static lipsc_status read_token(const lipsc_json_place *place, json_t *object,
                               const lipsc_vocab *vocab, uint32_t *next_id,
                               lipsc_added *added) {
    const char *content;
    size_t len;
    uint32_t written;
    token t = {0};
    if (!json_is_object(object))
        return lipsc_place_fail(place, "has an entry that is no object");
    lipsc_status status = lipsc_field_string(place, object, "content", &content, &len);
    if (!status) status = read_flags(place, object, &t);
    if (!status) {
        json_t *id = json_object_get(object, "id");
        if (!id) return lipsc_place_fail(place, "has no field 'id'");
        status = lipsc_value_id(place, id, content, &written);
    }
    if (status || !len) return status;
    size_t *value = trie_value(&added->contents, content, len);
    void *tokens = added->tokens;
    if (!value || !lipsc_grow(&tokens, &added->room, added->count + 1, sizeof t))
        return lipsc_place_nomem(place);
    added->tokens = tokens;
    if (*value) { /* again: the later flags hold */
        token *known = &added->tokens[*value - 1];
        t.content = known->content;
        t.id = known->id;
        t.special |= known->special;
        *known = t;
        return LIPSC_OK;
    }
    if (!lipsc_vocab_find(vocab, content, len, &t.id)) {
        if (*next_id > INT32_MAX) return lipsc_place_fail(place, "runs out of ids");
        t.id = (*next_id)++;
    }
    lipsc_text_put(&t.content, content, len);
    added->tokens[added->count++] = t;
    *value = added->count;
    return t.content.failed ? lipsc_place_nomem(place) : LIPSC_OK;
}

static lipsc_status shown_fail(const lipsc_json_place *place, const token *t,
                               const char *reason) {
    char shown[LIPSC_SHOWN_NAME];
    lipsc_show_token(t->content.data, t->content.len, shown);
    return lipsc_place_fail(place, "token '%s' %s", shown, reason);
}

/* What each token looks like in the text, and the tries over that. */
static lipsc_status make_patterns(const lipsc_json_place *place,
                                  lipsc_normalizer *normalizer, lipsc_added *added) {
    for (size_t i = 0; i < added->count; i++) {
        token *t = &added->tokens[i];
        lipsc_text_put(&t->pattern, t->content.data, t->content.len);
        if (t->pattern.failed) return lipsc_place_nomem(place);
        if (t->normalized) {
            size_t origin = 0;
            const lipsc_status status =
                lipsc_normalizer_apply(normalizer, &t->pattern, &origin, place->err);
            if (status) return status;
        }
        if (!t->pattern.len) return shown_fail(place, t, "is normalized to nothing");
        size_t *value =
            trie_value(&added->patterns[t->normalized], t->pattern.data, t->pattern.len);
        if (!value) return lipsc_place_nomem(place);
        if (*value) return shown_fail(place, t, "is normalized to what another is");
        *value = i + 1;
        if (t->single_word && !added->word) {
            const lipsc_status status = lipsc_pattern_compile(
                "\\w", 2, LIPSC_PATTERN_RUST, place->part, &added->word, place->err);
            if (status) return status;
        }
    }
    return LIPSC_OK;
}

static int compare_ids(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static lipsc_status sort_ids(const lipsc_json_place *place, lipsc_added *added) {
    /* id in the upper half, token in the lower */
    uint64_t *keys = malloc((added->count + 1) * sizeof *keys);
    lipsc_status status = LIPSC_OK;
    added->by_id = malloc((added->count + 1) * sizeof *added->by_id);
    if (!keys || !added->by_id || added->count > UINT32_MAX) {
        free(keys);
        return lipsc_place_nomem(place);
    }
    for (size_t i = 0; i < added->count; i++)
        keys[i] = (uint64_t)added->tokens[i].id << 32 | i;
    qsort(keys, added->count, sizeof *keys, compare_ids);
    for (size_t i = 0; i < added->count; i++) {
        added->by_id[i] = (size_t)(keys[i] & UINT32_MAX);
        if (i && keys[i] >> 32 == keys[i - 1] >> 32)
            status = shown_fail(place, &added->tokens[added->by_id[i]],
                                "gets the id of another one");
    }
    free(keys);
    return status;
}

lipsc_status lipsc_added_read(const lipsc_json_place *place, json_t *list,
                              const lipsc_vocab *vocab, lipsc_normalizer *normalizer,
                              lipsc_added **out) {
    lipsc_status status = LIPSC_OK;
    uint32_t next_id = (uint32_t)lipsc_vocab_count(vocab);
    json_t *object;
    size_t i;
    if (list && !json_is_array(list)) return lipsc_place_fail(place, "is not a list");
    lipsc_added *added = calloc(1, sizeof *added);
    if (!added) return lipsc_place_nomem(place);
    json_array_foreach(list, i, object) {
        status = read_token(place, object, vocab, &next_id, added);
        if (status) break;
    }
    if (!status) status = make_patterns(place, normalizer, added);
    if (!status) status = sort_ids(place, added);
    if (status)
        lipsc_added_free(added);
    else
        *out = added;
    return status;
}

/* ---- Looking up ------------------------------------------------------------ */

size_t lipsc_added_end(const lipsc_added *added) {
    return added->count ? (size_t)added->tokens[added->by_id[added->count - 1]].id + 1 : 0;
}

int lipsc_added_find(const lipsc_added *added, const char *content, size_t len,
                     uint32_t *id) {
    const size_t value = trie_find(&added->contents, content, len);
    if (value) *id = added->tokens[value - 1].id;
    return value != 0;
}

int lipsc_added_is_special(const lipsc_added *added, const char *content, size_t len) {
    const size_t value = trie_find(&added->contents, content, len);
    return value && added->tokens[value - 1].special;
}

const char *lipsc_added_token(const lipsc_added *added, uint32_t id, size_t *len) {
    size_t low = 0, high = added->count;
    while (low < high) {
        const size_t mid = low + (high - low) / 2;
        const token *t = &added->tokens[added->by_id[mid]];
        if (t->id == id) {
            *len = t->pattern.len;
            return t->pattern.data;
        }
        if (t->id < id)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

/* ---- Cutting --------------------------------------------------------------- */

static int is_word(lipsc_added *added, const char *at) {
    size_t width;
    lipsc_utf8_read(at, &width);
    return lipsc_pattern_begins(added->word, at, width);
}

static int stands_alone(lipsc_added *added, const char *text, size_t len, size_t begin,
                        size_t end) {
    if (begin && is_word(added, lipsc_utf8_before(text, text + begin))) return 0;
    return end == len || !is_word(added, text + end);
}

static size_t space_before(const char *text, size_t begin) {
    while (begin) {
        size_t width;
        const char *last = lipsc_utf8_before(text, text + begin);
        if (!lipsc_is_space(lipsc_utf8_read(last, &width))) break;
        begin = (size_t)(last - text);
    }
    return begin;
}

static size_t space_after(const char *text, size_t len, size_t end) {
    size_t width;
    while (end < len && lipsc_is_space(lipsc_utf8_read(text + end, &width))) end += width;
    return end;
}

static void put(lipsc_pieces *pieces, size_t base, size_t begin, size_t end, size_t origin,
                const token *t) {
    const size_t known = origin < end ? origin : end;
    lipsc_pieces_put(pieces, (lipsc_piece){.begin = base + begin,
                                           .len = end > begin ? end - begin : 0,
                                           .origin = known > begin ? known - begin : 0,
                                           .is_token = t != NULL,
                                           .id = t ? t->id : 0});
}

void lipsc_added_cut(lipsc_added *added, int normalized, const char *text, size_t len,
                     size_t origin, lipsc_pieces *pieces) {
    const trie *patterns = &added->patterns[normalized];
    const size_t base = pieces->bytes.len;
    size_t done = 0, at = 0;
    lipsc_text_put(&pieces->bytes, text, len);
    while (patterns->count && at < len) {
        size_t matched = 0;
        const size_t value = trie_longest(patterns, text + at, len - at, &matched);
        if (!value) {
            at++;
            continue;
        }
        const token *t = &added->tokens[value - 1];
        size_t begin = at, end = at + matched;
        at = end;
        if (t->single_word && !stands_alone(added, text, len, begin, end)) continue;
        if (t->lstrip) {
            begin = space_before(text, begin);
            if (begin < done) begin = done;
        }
        if (t->rstrip) end = space_after(text, len, end);
        if (done < begin) put(pieces, base, done, begin, origin, NULL);
        put(pieces, base, begin, end, origin, t);
        done = end;
    }
    if (done < len) put(pieces, base, done, len, origin, NULL);
}
