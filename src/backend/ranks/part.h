/* part.h - what one rank's CPU has of an input: its own rows, and of one key head after the
 * other the keys and values of all.
 *
 * Rows of queries, statistics, vectors and their projections are those of split.h, one
 * after the other; memory falls with the number of ranks.  Keys and values travel when they
 * are needed, `kv_heads / ranks` heads at a time. */
#ifndef LIPSC_BACKEND_RANKS_PART_H
#define LIPSC_BACKEND_RANKS_PART_H

#include "backend/ranks/split.h"

typedef struct {
    lipsc_row_split *split;
    const lipsc_cpu_weights *w;
    int threads;
    /* own rows, head layout (heads, own, width) */
    void *q, *k, *z, *excess;
    void *rowmax, *rowinv, *top_slope, *sink_mass; /* (heads, own)                       */
    size_t *top;                                   /* (heads, own), a place among all     */
    void *q_unit, *q_inverse, *k_unit, *k_inverse; /* norms                              */
    void *cosine, *sine;                           /* (own, rotary_dim / 2)               */
    void *root, *inverse_root;                     /* (own) or NULL                       */
    /* of all tokens */
    size_t *lo, *hi; /* (n)                                                      */
    void *key_bias;  /* (n) or NULL                                              */
    void *distance;  /* (heads, distances) or NULL                               */
    /* work memory: own rows of a direction */
    void *dq, *dk, *dz, *heads, *rows;
    void *shift, *mean;
    /* keys, values and their directions of everybody, (some heads, n, width) */
    size_t some;
    void *all_k, *all_z, *all_dk, *all_dz;
    char *scratch;
    size_t scratch_bytes, bytes;
} lipsc_rank_part;

/* Projections and statistics of own rows; every rank calls it.  On failure *out is NULL.
 * LIPSC_E_NONFIN: a score of an own row overflows. */
lipsc_status lipsc_part_new(lipsc_row_split *split, const lipsc_cpu_weights *w,
                            const lipsc_rows *rows, int threads, lipsc_rank_part **out,
                            lipsc_error *err);
void lipsc_part_free(lipsc_rank_part *part);

/* Keys and values of all, of key heads g .. g+count-1. */
lipsc_status lipsc_part_fetch(lipsc_rank_part *part, size_t g, size_t count);
/* Every head of an array: own (count, own rows, width) to all (count, n, width). */
lipsc_status lipsc_part_gather(const lipsc_rank_part *part, size_t count, size_t width,
                               const void *own, void *all);

/* The kernels' view of own rows of query head h, in the first or second block of own rows;
 * keys are those of the head g0 + ... that was fetched. */
lipsc_head lipsc_part_head(const lipsc_rank_part *part, size_t h, size_t g0, int block);
lipsc_head_dirs lipsc_part_dirs(const lipsc_rank_part *part, size_t h, size_t g0,
                                int block);
void *lipsc_part_scratch(const lipsc_rank_part *part);

/* Norms and rotations of directions of queries and keys, or their transposes. */
void lipsc_part_turn(const lipsc_rank_part *part, int trans, void *dq, void *dk);

/* Cuts of own rows, none of more than `size`: how many, and the c-th, whose block is
 * returned. */
size_t lipsc_part_cuts(const lipsc_rank_part *part, size_t size);
int lipsc_part_cut(const lipsc_rank_part *part, size_t size, size_t c, size_t *i0,
                   size_t *i1);

/* product.c: k vectors, of which x and y hold the own rows. */
lipsc_status lipsc_part_product(lipsc_rank_part *part, int trans, size_t k, const void *x,
                                void *y);

#endif
