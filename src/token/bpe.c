/* bpe.c - byte pair encoding of one word: of all neighbours that may merge, the pair of the
 * lowest rank, leftmost first, until none is left.
 *
 * The symbols are a doubly linked list, the candidate pairs a heap: O(n log n) for a word
 * of n characters.  A model that does not cut at spaces sees a whole text as one word; it
 * is cut here, exactly, between two symbols that no merge can ever join: those that are not
 * the last of a left part and the first of the right part of any merge.  The runs that
 * remain are short and repeat, so those already seen are kept with their ids. */
#include "token/bpe.h"

#include "core/error.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
