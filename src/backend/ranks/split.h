/* split.h - which rows of an input are whose, and how they travel.
 *
 * Rows are cut into 2 K blocks; rank r of K has the r-th from the front and the r-th from
 * the back, so that under a causal mask all have about as many pairs.  Nobody has more than
 * one row above another, and some have none where there are fewer rows than ranks. */
#ifndef LIPSC_BACKEND_RANKS_SPLIT_H
#define LIPSC_BACKEND_RANKS_SPLIT_H

#include "backend/cpu/cpu.h"
#include "ranks/ranks.h"

/* Bytes of heads that travel together, about: long beside the latency of a call, and little
 * memory beside all that is shared. */
enum { LIPSC_SPLIT_MESSAGE = 4 << 20 };

typedef struct {
    lipsc_split rows;  /* what the space knows: all rows, and how many are here */
    lipsc_share share; /* what a device is told that computes with them         */
    lipsc_ranks *ranks;
    size_t users;       /* inputs that are made of it                                     */
    size_t own[4];      /* rows own[0]..own[1]-1 and own[2]..own[3]-1               */
    size_t *place;      /* (rows.own) where they are in the caller's order              */
    int *bytes;         /* (ranks) room for the sizes of parts, twice                   */
    size_t (*block)[4]; /* (ranks) own of everybody                                  */
    char *room;         /* what is sent and received                                    */
    size_t room_bytes;
} lipsc_row_split;

/* Of rank r. */
void lipsc_split_own(size_t n, size_t ranks, size_t r, size_t own[4]);
/* For an input in this order; split->ranks is set. */
lipsc_status lipsc_split_begin(lipsc_row_split *split, size_t n, const size_t *order);
void lipsc_split_end(lipsc_row_split *split);

/* all (n) of everybody's own rows. */
lipsc_status lipsc_split_gather(lipsc_row_split *split, size_t row, const void *own,
                                void *all);
/* The same of several heads, all (count, n) of own (count, own rows), in one call where MPI
 * can count them. */
lipsc_status lipsc_split_gather_heads(lipsc_row_split *split, size_t count, size_t row,
                                      const void *own, void *all);
/* Of everybody's own rows one of so many cuts, one after the other; *rows: how many. */
lipsc_status lipsc_split_gather_cut(lipsc_row_split *split, size_t cut, size_t cuts,
                                    size_t row, const void *own, void *all, size_t *rows);
size_t lipsc_split_most_of_cut(const lipsc_row_split *split, size_t cuts);
/* own = the sum of everybody's rows `all` at these places, in the order of the ranks; of
 * floats or doubles, of so many heads. */
lipsc_status lipsc_split_reduce_heads(lipsc_row_split *split, size_t count, size_t row,
                                      size_t item, const void *all, void *own);

/* What failed on any rank has failed on all. */
lipsc_status lipsc_split_agree(const lipsc_row_split *split, lipsc_status own,
                               lipsc_error *err);
/* The largest of what they say. */
double lipsc_split_largest(const lipsc_row_split *split, double own);

#endif
