/* bpe.c - byte pair encoding: its merges read, and one word encoded: of all neighbours that
 * may merge, the pair of the lowest rank, leftmost first, until none is left.
 *
 * The symbols are a doubly linked list, the candidate pairs a heap: O(n log n) for a word
 * of n characters.  A model that does not cut at spaces sees a whole text as one word; it
 * is cut here, exactly, between two symbols that no merge can ever join: those that are not
 * the last of a left part and the first of the right part of any merge.  The runs that
 * remain are short and repeat, so those already seen are kept with their ids. */
#include "token/parts.h"

#include "core/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t left, right; /* ids */
    uint32_t rank, merged;
    int used;
} bpe_pair;

typedef struct {
    uint32_t id;
    uint32_t previous, next; /* NO_ID at the ends */
    int gone;
} bpe_symbol;

typedef struct {
    uint32_t rank, at, merged;
} bpe_candidate;

/* A word, or a run of symbols, seen before: its bytes in keys, its ids in seen_ids. */
typedef struct {
    size_t key, ids;
    uint32_t len, count;
    uint64_t hash; /* its lowest bit says which of the two it is */
} bpe_memory;

enum {
    NO_ID = UINT32_MAX,
    CACHE_SLOTS = 1 << 16,
    CACHE_MOST = CACHE_SLOTS / 2,
    CACHE_LONGEST = 256, /* bytes of a key */
    SMALL = 0x800        /* characters of one or two bytes */
};

struct lipsc_bpe {
    const lipsc_vocab *vocab;
    bpe_pair *merges; /* open addressing, mask + 1 slots */
    size_t mask;
    int has_unknown, fuse_unknown, byte_fallback, ignore_merges;
    lipsc_text unknown, prefix, suffix;
    int has_byte[256]; /* the tokens <0x00> ... <0xFF> */
    uint32_t byte_id[256];
    uint32_t small_id[SMALL]; /* tokens of one small character, NO_ID: no
                                           such token */
    /* Pairs of symbols that a merge can join, left << 32 | right, plus 1.  NULL: all. */
    uint64_t *joins;
    size_t joins_mask;
    bpe_symbol *symbols;
    size_t symbols_room;
    bpe_candidate *heap;
    size_t heap_count, heap_room;
    lipsc_text spelled; /* a character with its prefix and suffix */
    bpe_memory *cache;  /* CACHE_SLOTS, len 0: free */
    size_t cached;
    lipsc_text keys;
    lipsc_ids seen_ids;
};

/* The slot of a pair of neighbours: theirs when it is used, otherwise free. */
static bpe_pair *merge_slot(const lipsc_bpe *bpe, uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(h ^ h >> 32) & bpe->mask;
    while (bpe->merges[slot].used &&
           (bpe->merges[slot].left != left || bpe->merges[slot].right != right))
        slot = (slot + 1) & bpe->mask;
    return &bpe->merges[slot];
}

/* The slot of a key in joins. */
static size_t join_slot(const lipsc_bpe *bpe, uint64_t key) {
    const uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(h ^ h >> 32) & bpe->joins_mask;
    while (bpe->joins[slot] && bpe->joins[slot] != key) slot = (slot + 1) & bpe->joins_mask;
    return slot;
}

/* ---- Reading ----------------------------------------------------------------- */

void lipsc_bpe_free(lipsc_bpe *bpe) {
    if (!bpe) return;
    free(bpe->merges);
    free(bpe->joins);
    free(bpe->symbols);
    free(bpe->heap);
    free(bpe->cache);
    lipsc_text_free(&bpe->unknown);
    lipsc_text_free(&bpe->prefix);
    lipsc_text_free(&bpe->suffix);
    lipsc_text_free(&bpe->spelled);
    lipsc_text_free(&bpe->keys);
    lipsc_ids_free(&bpe->seen_ids);
    free(bpe);
}

static lipsc_status missing_token(const lipsc_json_place *place, size_t rank,
                                  const char *token, size_t len) {
    char shown[LIPSC_SHOWN_NAME];
    lipsc_show_token(token, len, shown);
    return lipsc_place_fail(place,
                            "merge %zu needs the token '%s', which the vocabulary "
                            "does not have",
                            rank + 1, shown);
}

/* One merge of the file: "left right", or ["left", "right"]. */
static lipsc_status split_merge(const lipsc_json_place *place, json_t *pair, size_t rank,
                                const char *part[2], size_t len[2]) {
    if (json_is_string(pair)) {
        const char *line = json_string_value(pair);
        const size_t size = json_string_length(pair);
        const char *space = memchr(line, ' ', size);
        if (space && !memchr(space + 1, ' ', size - (size_t)(space + 1 - line))) {
            part[0] = line;
            len[0] = (size_t)(space - line);
            part[1] = space + 1;
            len[1] = size - len[0] - 1;
            return LIPSC_OK;
        }
    } else if (json_array_size(pair) == 2 && json_is_string(json_array_get(pair, 0)) &&
               json_is_string(json_array_get(pair, 1))) {
        for (size_t i = 0; i < 2; i++) {
            part[i] = json_string_value(json_array_get(pair, i));
            len[i] = json_string_length(json_array_get(pair, i));
        }
        return LIPSC_OK;
    }
    return lipsc_place_fail(place, "merge %zu is not a pair of tokens", rank + 1);
}

static lipsc_status read_merge(const lipsc_json_place *place, lipsc_bpe *bpe, json_t *pair,
                               size_t rank) {
    const char *part[2];
    size_t len[2];
    uint32_t id[2], merged;
    lipsc_text *joined = &bpe->spelled;
    const lipsc_status status = split_merge(place, pair, rank, part, len);
    if (status) return status;
    for (size_t i = 0; i < 2; i++)
        if (!lipsc_vocab_find(bpe->vocab, part[i], len[i], &id[i]))
            return missing_token(place, rank, part[i], len[i]);
    if (len[1] < bpe->prefix.len)
        return lipsc_place_fail(place,
                                "merge %zu has a second token shorter than "
                                "continuing_subword_prefix",
                                rank + 1);
    joined->len = 0;
    lipsc_text_put(joined, part[0], len[0]);
    lipsc_text_put(joined, part[1] + bpe->prefix.len, len[1] - bpe->prefix.len);
    if (joined->failed) return lipsc_place_nomem(place);
    if (!lipsc_vocab_find(bpe->vocab, joined->data, joined->len, &merged))
        return missing_token(place, rank, joined->data, joined->len);
    *merge_slot(bpe, id[0], id[1]) =
        (bpe_pair){id[0], id[1], (uint32_t)rank, merged, 1}; /* of two the later holds */
    return LIPSC_OK;
}

/* ---- Where a word can be cut ----------------------------------------------- */

/* The symbols that a token can begin (end 0) or end (end 1) with: its outermost character,
 * or a byte or the unknown token when its spelling ends like one.  Returns how many. */
static size_t outermost(const lipsc_bpe *bpe, uint32_t id, int end, uint32_t out[3]) {
    size_t len = 0, width = 0, count = 0;
    const char *token = lipsc_vocab_token(bpe->vocab, id, &len);
    const char *edge = token;
    uint32_t found;
    if (!token) return 0;
    if (len) {
        if (end) edge = lipsc_utf8_before(token, token + len);
        lipsc_utf8_read(edge, &width);
        if (lipsc_vocab_find(bpe->vocab, edge, width, &found)) out[count++] = found;
    }
    if (len >= 6 && lipsc_vocab_find(bpe->vocab, end ? token + len - 6 : token, 6, &found))
        out[count++] = found;
    if (bpe->has_unknown && len >= bpe->unknown.len &&
        lipsc_vocab_find(bpe->vocab, bpe->unknown.data, bpe->unknown.len, &found) &&
        (!bpe->unknown.len || !memcmp(end ? token + len - bpe->unknown.len : token,
                                      bpe->unknown.data, bpe->unknown.len)))
        out[count++] = found;
    return count;
}

static int compare_keys(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* All pairs of the merges, many of them the same: sorted, each once.  NULL: no memory. */
static uint64_t *list_joins(const lipsc_bpe *bpe, size_t *count) {
    uint64_t *keys = NULL;
    size_t used = 0, room = 0, once = 0;
    for (size_t i = 0; i <= bpe->mask; i++) {
        uint32_t lefts[3], rights[3];
        void *data = keys;
        if (!lipsc_grow(&data, &room, used + 9, sizeof *keys)) {
            free(keys);
            return NULL;
        }
        keys = data;
        if (!bpe->merges[i].used) continue;
        const size_t left_count = outermost(bpe, bpe->merges[i].left, 1, lefts);
        const size_t right_count = outermost(bpe, bpe->merges[i].right, 0, rights);
        for (size_t l = 0; l < left_count; l++)
            for (size_t r = 0; r < right_count; r++)
                keys[used++] = ((uint64_t)lefts[l] << 32 | rights[r]) + 1;
    }
    qsort(keys, used, sizeof *keys, compare_keys);
    for (size_t i = 0; i < used; i++)
        if (!i || keys[i] != keys[i - 1]) keys[once++] = keys[i];
    *count = once;
    return keys;
}

/* With a prefix or a suffix symbols are no characters, then nothing is cut. */
static lipsc_status find_joins(const lipsc_json_place *place, lipsc_bpe *bpe) {
    size_t count;
    if (bpe->prefix.len || bpe->suffix.len) return LIPSC_OK;
    uint64_t *keys = list_joins(bpe, &count);
    if (!keys) return lipsc_place_nomem(place);
    bpe->joins_mask = 15;
    while (bpe->joins_mask < 4 * count) bpe->joins_mask = 2 * bpe->joins_mask + 1;
    bpe->joins = calloc(bpe->joins_mask + 1, sizeof *bpe->joins);
    for (size_t i = 0; bpe->joins && i < count; i++)
        bpe->joins[join_slot(bpe, keys[i])] = keys[i];
    free(keys);
    return bpe->joins ? LIPSC_OK : lipsc_place_nomem(place);
}

static void find_small(lipsc_bpe *bpe) {
    for (uint32_t code = 0; code < SMALL; code++) {
        char bytes[4];
        const size_t len = lipsc_utf8_write(code, bytes);
        if (!lipsc_vocab_find(bpe->vocab, bytes, len, &bpe->small_id[code]))
            bpe->small_id[code] = NO_ID;
    }
}

/* In merges.txt's own form each line may also be a comment on the version. */
static int is_version(json_t *pair) {
    return json_is_string(pair) && !strncmp(json_string_value(pair), "#version", 8);
}

static lipsc_status read_merges(const lipsc_json_place *place, lipsc_bpe *bpe,
                                json_t *object) {
    json_t *list, *pair;
    size_t i, rank = 0;
    lipsc_status status = lipsc_field_array(place, object, "merges", &list);
    if (status) return status;
    if (json_array_size(list) >= NO_ID / 4)
        return lipsc_place_fail(place, "has too many merges");
    bpe->mask = 15;
    while (bpe->mask < 2 * json_array_size(list)) bpe->mask = 2 * bpe->mask + 1;
    bpe->merges = calloc(bpe->mask + 1, sizeof *bpe->merges);
    if (!bpe->merges) return lipsc_place_nomem(place);
    json_array_foreach(list, i, pair) {
        if (is_version(pair)) continue;
        status = read_merge(place, bpe, pair, rank++);
        if (status) return status;
    }
    return LIPSC_OK;
}

static lipsc_status read_string(const lipsc_json_place *place, json_t *object,
                                const char *key, lipsc_text *out, int *present) {
    const char *value;
    size_t len;
    const lipsc_status status =
        lipsc_field_string_or_null(place, object, key, &value, &len);
    if (present) *present = value != NULL;
    if (!status && value) lipsc_text_put(out, value, len);
    return !status && out->failed ? lipsc_place_nomem(place) : status;
}

static lipsc_status read_options(const lipsc_json_place *place, lipsc_bpe *bpe,
                                 json_t *object) {
    json_t *dropout = json_object_get(object, "dropout");
    if (dropout && !json_is_null(dropout) && json_number_value(dropout) != 0.0)
        return lipsc_place_fail(place, "dropout is not supported: ids would be random");
    if (dropout && !json_is_null(dropout) && !json_is_number(dropout))
        return lipsc_place_fail(place, "field 'dropout' is not a number");
    lipsc_status status =
        read_string(place, object, "unk_token", &bpe->unknown, &bpe->has_unknown);
    if (!status)
        status =
            read_string(place, object, "continuing_subword_prefix", &bpe->prefix, NULL);
    if (!status)
        status = read_string(place, object, "end_of_word_suffix", &bpe->suffix, NULL);
    if (!status)
        status = lipsc_field_bool_or(place, object, "fuse_unk", &bpe->fuse_unknown);
    if (!status)
        status = lipsc_field_bool_or(place, object, "byte_fallback", &bpe->byte_fallback);
    if (!status)
        status = lipsc_field_bool_or(place, object, "ignore_merges", &bpe->ignore_merges);
    return status;
}

lipsc_status lipsc_bpe_read(const lipsc_json_place *place, json_t *object,
                            const lipsc_vocab *vocab, lipsc_bpe **out) {
    lipsc_bpe *bpe = calloc(1, sizeof *bpe);
    if (!bpe) return lipsc_place_nomem(place);
    bpe->vocab = vocab;
    lipsc_status status = read_options(place, bpe, object);
    if (!status) status = read_merges(place, bpe, object);
    if (!status) status = find_joins(place, bpe);
    find_small(bpe);
    for (unsigned byte = 0; byte < 256; byte++) {
        char token[8];
        snprintf(token, sizeof token, "<0x%02X>", byte);
        bpe->has_byte[byte] = lipsc_vocab_find(vocab, token, 6, &bpe->byte_id[byte]);
    }
    if (!status) {
        bpe->cache = calloc(CACHE_SLOTS, sizeof *bpe->cache);
        if (!bpe->cache) status = lipsc_place_nomem(place);
    }
    if (status)
        lipsc_bpe_free(bpe);
    else
        *out = bpe;
    return status;
}

/* ---- Encoding ---------------------------------------------------------------- */

static int can_join(const lipsc_bpe *bpe, uint32_t left, uint32_t right) {
    const uint64_t key = ((uint64_t)left << 32 | right) + 1;
    return !bpe->joins || bpe->joins[join_slot(bpe, key)];
}

/* ---- The heap of pairs that may merge -------------------------------------- */

static int before(const bpe_candidate *a, const bpe_candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->at < b->at;
}

static int heap_push(lipsc_bpe *bpe, bpe_candidate c) {
    void *data = bpe->heap;
    if (!lipsc_grow(&data, &bpe->heap_room, bpe->heap_count + 1, sizeof c)) return 0;
    bpe->heap = data;
    size_t hole = bpe->heap_count++;
    while (hole && before(&c, &bpe->heap[(hole - 1) / 2])) {
        bpe->heap[hole] = bpe->heap[(hole - 1) / 2];
        hole = (hole - 1) / 2;
    }
    bpe->heap[hole] = c;
    return 1;
}

static bpe_candidate heap_pop(lipsc_bpe *bpe) {
    const bpe_candidate top = bpe->heap[0], last = bpe->heap[--bpe->heap_count];
    const size_t count = bpe->heap_count;
    size_t hole = 0;
    for (size_t child = 1; child < count; child = 2 * hole + 1) {
        if (child + 1 < count && before(&bpe->heap[child + 1], &bpe->heap[child])) child++;
        if (!before(&bpe->heap[child], &last)) break;
        bpe->heap[hole] = bpe->heap[child];
        hole = child;
    }
    if (count) bpe->heap[hole] = last;
    return top;
}

static int offer(lipsc_bpe *bpe, uint32_t at) {
    const bpe_symbol *s = &bpe->symbols[at];
    if (s->next == NO_ID) return 1;
    const bpe_pair *m = merge_slot(bpe, s->id, bpe->symbols[s->next].id);
    return !m->used || heap_push(bpe, (bpe_candidate){m->rank, at, m->merged});
}

/* Merges the symbols from first up to, not including, end. */
static int merge_symbols(lipsc_bpe *bpe, uint32_t first, uint32_t end) {
    bpe->heap_count = 0;
    bpe->symbols[first].previous = bpe->symbols[end - 1].next = NO_ID;
    for (uint32_t i = first; i + 1 < end; i++)
        if (!offer(bpe, i)) return 0;
    while (bpe->heap_count) {
        const bpe_candidate top = heap_pop(bpe);
        bpe_symbol *left = &bpe->symbols[top.at];
        if (left->gone || left->next == NO_ID) continue;
        bpe_symbol *right = &bpe->symbols[left->next];
        const bpe_pair *m = merge_slot(bpe, left->id, right->id);
        if (!m->used || m->merged != top.merged)
            continue; /* overtaken by another bpe_pair */
        left->id = top.merged;
        left->next = right->next;
        right->gone = 1;
        if (right->next != NO_ID) bpe->symbols[right->next].previous = top.at;
        if (left->previous != NO_ID && !offer(bpe, left->previous)) return 0;
        if (!offer(bpe, top.at)) return 0;
    }
    return 1;
}

/* ---- One word -------------------------------------------------------------- */

static int add_symbol(lipsc_bpe *bpe, uint32_t *count, uint32_t id) {
    void *data = bpe->symbols;
    if (!lipsc_grow(&data, &bpe->symbols_room, (size_t)*count + 1, sizeof *bpe->symbols))
        return 0;
    bpe->symbols = data;
    bpe->symbols[*count] = (bpe_symbol){id, *count ? *count - 1 : NO_ID, NO_ID, 0};
    if (*count) bpe->symbols[*count - 1].next = *count;
    ++*count;
    return 1;
}

/* The bytes of a character that is in no token: 1 when there is a token for each. */
static int add_bytes(lipsc_bpe *bpe, uint32_t *count, const char *bytes, size_t len,
                     int *nomem) {
    for (size_t i = 0; i < len; i++)
        if (!bpe->has_byte[(unsigned char)bytes[i]]) return 0;
    for (size_t i = 0; i < len && !*nomem; i++)
        *nomem = !add_symbol(bpe, count, bpe->byte_id[(unsigned char)bytes[i]]);
    return 1;
}

/* The characters of the word as symbols.  An unknown one waits until the next known
 * character, so that it can be fused with others; bytes do not end its wait. */
static lipsc_status spell(lipsc_bpe *bpe, const char *word, size_t len, uint32_t *count,
                          lipsc_error *err) {
    lipsc_text *spelled = &bpe->spelled;
    int waiting = 0, nomem = 0;
    uint32_t unknown = 0;
    *count = 0;
    for (size_t at = 0, width; at < len && !nomem; at += width) {
        uint32_t id;
        const uint32_t code = lipsc_utf8_read(word + at, &width);
        const int plain =
            !(at && bpe->prefix.len) && !(at + width == len && bpe->suffix.len);
        spelled->len = 0;
        if (at) lipsc_text_put(spelled, bpe->prefix.data, bpe->prefix.len);
        lipsc_text_put(spelled, word + at, width);
        if (at + width == len) lipsc_text_put(spelled, bpe->suffix.data, bpe->suffix.len);
        if (spelled->failed) nomem = 1;
        if (nomem) break;
        if (plain && code < SMALL)
            id = bpe->small_id[code];
        else if (!lipsc_vocab_find(bpe->vocab, spelled->data, spelled->len, &id))
            id = NO_ID;
        if (id != NO_ID) {
            if (waiting) nomem = !add_symbol(bpe, count, unknown);
            waiting = 0;
            if (!nomem) nomem = !add_symbol(bpe, count, id);
            continue;
        }
        if (bpe->byte_fallback &&
            add_bytes(bpe, count, spelled->data, spelled->len, &nomem))
            continue;
        if (!bpe->has_unknown) continue;
        if (waiting && bpe->fuse_unknown) continue;
        if (waiting) nomem = !add_symbol(bpe, count, unknown);
        if (!lipsc_vocab_find(bpe->vocab, bpe->unknown.data, bpe->unknown.len, &unknown))
            return lipsc_fail(err, LIPSC_E_FORMAT,
                              "the tokenizer's unknown token is not in its vocabulary");
        waiting = 1;
    }
    if (waiting && !nomem) nomem = !add_symbol(bpe, count, unknown);
    return nomem ? lipsc_fail(err, LIPSC_E_NOMEM, "out of memory") : LIPSC_OK;
}

static bpe_memory *cache_slot(const lipsc_bpe *bpe, const void *key, size_t len,
                              uint64_t hash) {
    size_t slot = (size_t)(hash >> 1) % CACHE_SLOTS;
    for (; bpe->cache[slot].len; slot = (slot + 1) % CACHE_SLOTS) {
        const bpe_memory *m = &bpe->cache[slot];
        if (m->hash == hash && m->len == len && !memcmp(bpe->keys.data + m->key, key, len))
            break;
    }
    return &bpe->cache[slot];
}

/* 1 and the ids, when the key was seen before; otherwise *slot is where it belongs, or NULL
 * when it is not to be kept. */
static int recall(const lipsc_bpe *bpe, const void *key, size_t len, uint64_t hash,
                  bpe_memory **slot, lipsc_ids *ids) {
    *slot = NULL;
    if (!len || len >= CACHE_LONGEST) return 0;
    *slot = cache_slot(bpe, key, len, hash);
    if ((*slot)->len) {
        if ((*slot)->count)
            lipsc_ids_put_all(ids, bpe->seen_ids.data + (*slot)->ids, (*slot)->count);
        return 1;
    }
    if (bpe->cached >= CACHE_MOST) *slot = NULL;
    return 0;
}

/* The ids from `first` on are those of the key. */
static void remember(lipsc_bpe *bpe, bpe_memory *slot, const void *key, size_t len,
                     uint64_t hash, const lipsc_ids *ids, size_t first) {
    const bpe_memory m = {bpe->keys.len, bpe->seen_ids.count, (uint32_t)len,
                          (uint32_t)(ids->count - first), hash};
    if (!slot || ids->failed) return;
    lipsc_text_put(&bpe->keys, key, len);
    for (size_t i = first; i < ids->count; i++) lipsc_ids_put(&bpe->seen_ids, ids->data[i]);
    if (bpe->keys.failed || bpe->seen_ids.failed) return; /* then without the cache */
    *slot = m;
    bpe->cached++;
}

/* The symbols from first up to end, which nothing outside them can join. */
static int encode_run(lipsc_bpe *bpe, uint32_t first, uint32_t end, lipsc_ids *ids) {
    uint32_t key[CACHE_LONGEST / sizeof(uint32_t)];
    const size_t before_count = ids->count, count = end - first;
    size_t len = 0;
    uint64_t hash = 0;
    bpe_memory *slot;
    if (count == 1) {
        lipsc_ids_put(ids, bpe->symbols[first].id);
        return 1;
    }
    if (count < sizeof key / sizeof key[0]) {
        for (size_t i = 0; i < count; i++) key[i] = bpe->symbols[first + i].id;
        len = count * sizeof key[0];
        hash = lipsc_hash((const char *)key, len) | 1;
    }
    if (recall(bpe, key, len, hash, &slot, ids)) return 1;
    if (!merge_symbols(bpe, first, end)) return 0;
    for (uint32_t i = first; i < end; i++)
        if (!bpe->symbols[i].gone) lipsc_ids_put(ids, bpe->symbols[i].id);
    remember(bpe, slot, key, len, hash, ids, before_count);
    return 1;
}

lipsc_status lipsc_bpe_encode(lipsc_bpe *bpe, const char *word, size_t len, lipsc_ids *ids,
                              lipsc_error *err) {
    const size_t before_count = ids->count;
    const uint64_t hash = len < CACHE_LONGEST ? lipsc_hash(word, len) & ~(uint64_t)1 : 0;
    bpe_memory *slot;
    uint32_t count, id;
    if (recall(bpe, word, len, hash, &slot, ids)) return LIPSC_OK;
    if (bpe->ignore_merges && lipsc_vocab_find(bpe->vocab, word, len, &id)) {
        lipsc_ids_put(ids, id);
        return LIPSC_OK;
    }
    if (len >= NO_ID / 8)
        return lipsc_fail(err, LIPSC_E_RANGE, "a word of the text is too long");
    const lipsc_status status = spell(bpe, word, len, &count, err);
    if (status) return status;
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count; end++)
            if (!can_join(bpe, bpe->symbols[end - 1].id, bpe->symbols[end].id)) break;
        if (!encode_run(bpe, first, end, ids))
            return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    }
    if (slot && slot->len) return LIPSC_OK; /* a run took the place */
    remember(bpe, slot, word, len, hash, ids, before_count);
    return LIPSC_OK;
}
