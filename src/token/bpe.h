/* bpe.h - byte pair encoding inside: the merges as bpe_read.c makes them, and the room in
 * which bpe.c encodes. */
#ifndef LIPSC_TOKEN_BPE_H
#define LIPSC_TOKEN_BPE_H

#include "token/parts.h"

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
static inline bpe_pair *merge_slot(const lipsc_bpe *bpe, uint32_t left, uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(h ^ h >> 32) & bpe->mask;
    while (bpe->merges[slot].used &&
           (bpe->merges[slot].left != left || bpe->merges[slot].right != right))
        slot = (slot + 1) & bpe->mask;
    return &bpe->merges[slot];
}

/* The slot of a key in joins. */
static inline size_t join_slot(const lipsc_bpe *bpe, uint64_t key) {
    const uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(h ^ h >> 32) & bpe->joins_mask;
    while (bpe->joins[slot] && bpe->joins[slot] != key) slot = (slot + 1) & bpe->joins_mask;
    return slot;
}

#endif
