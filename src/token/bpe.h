/* bpe.h - what bpe_read.c reads and bpe.c uses of a byte pair encoding. */
#ifndef LIPSC_TOKEN_BPE_H
#define LIPSC_TOKEN_BPE_H

#include "token/model.h"

typedef struct {
    uint32_t left, right; /* ids */
    uint32_t rank, merged;
    int used;
} lipsc_bpe_pair;

typedef struct {
    uint32_t id;
    uint32_t previous, next; /* LIPSC_NO_ID at the ends */
    int gone;
} lipsc_bpe_symbol;

typedef struct {
    uint32_t rank, at, merged;
} lipsc_bpe_candidate;

/* A word, or a run of symbols, seen before: its bytes in keys, its ids in seen_ids. */
typedef struct {
    size_t key, ids;
    uint32_t len, count;
    uint64_t hash; /* its lowest bit says which of the two it is */
} lipsc_bpe_memory;

enum {
    LIPSC_NO_ID = UINT32_MAX,
    LIPSC_BPE_CACHE_SLOTS = 1 << 16,
    LIPSC_BPE_CACHE_MOST = LIPSC_BPE_CACHE_SLOTS / 2,
    LIPSC_BPE_CACHE_LONGEST = 256, /* bytes of a key */
    LIPSC_BPE_SMALL = 0x800        /* characters of one or two bytes */
};

struct lipsc_bpe {
    const lipsc_vocab *vocab;
    lipsc_bpe_pair *merges; /* open addressing, mask + 1 slots */
    size_t mask;
    int has_unknown, fuse_unknown, byte_fallback, ignore_merges;
    lipsc_text unknown, prefix, suffix;
    int has_byte[256]; /* the tokens <0x00> ... <0xFF> */
    uint32_t byte_id[256];
    uint32_t small_id[LIPSC_BPE_SMALL]; /* tokens of one small character, LIPSC_NO_ID: no
                                           such token */
    /* Pairs of symbols that a merge can join, left << 32 | right, plus 1.  NULL: all. */
    uint64_t *joins;
    size_t joins_mask;
    lipsc_bpe_symbol *symbols;
    size_t symbols_room;
    lipsc_bpe_candidate *heap;
    size_t heap_count, heap_room;
    lipsc_text spelled;      /* a character with its prefix and suffix */
    lipsc_bpe_memory *cache; /* LIPSC_BPE_CACHE_SLOTS, len 0: free */
    size_t cached;
    lipsc_text keys;
    lipsc_ids seen_ids;
};

/* The slot of a pair of neighbours: theirs when it is used, otherwise free. */
static inline lipsc_bpe_pair *lipsc_bpe_merge(const lipsc_bpe *bpe, uint32_t left,
                                              uint32_t right) {
    uint64_t h = ((uint64_t)left << 32 | right) * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(h ^ h >> 32) & bpe->mask;
    while (bpe->merges[slot].used &&
           (bpe->merges[slot].left != left || bpe->merges[slot].right != right))
        slot = (slot + 1) & bpe->mask;
    return &bpe->merges[slot];
}

/* The slot of a key in joins. */
static inline size_t lipsc_bpe_join(const lipsc_bpe *bpe, uint64_t key) {
    const uint64_t h = key * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(h ^ h >> 32) & bpe->joins_mask;
    while (bpe->joins[slot] && bpe->joins[slot] != key) slot = (slot + 1) & bpe->joins_mask;
    return slot;
}

#endif
