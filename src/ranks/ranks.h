/* ranks.h - messages between ranks (lipscope/ranks.h says what ranks are). */
#ifndef LIPSC_RANKS_RANKS_H
#define LIPSC_RANKS_RANKS_H

#include "lipscope/ranks.h"

/* A message that has come; lipsc_release its bytes, behind which stands a 0. */
typedef struct {
    size_t from;
    int tag;
    size_t bytes;
    char *at;
} lipsc_message;

/* Any thread may send and take.  LIPSC_E_IO: MPI has failed. */
lipsc_status lipsc_ranks_send(lipsc_ranks *ranks, size_t to, int tag, size_t bytes,
                              const void *data);
/* The same of data that lipsc_alloc has made, and that are the ranks' from now on: they go
 * while the caller does, who waits where too many are on their way.  What is sent later
 * comes later; it goes on with any call here. */
lipsc_status lipsc_ranks_post(lipsc_ranks *ranks, size_t to, int tag, size_t bytes,
                              void *data);
/* Whether there was one; it does not wait. */
lipsc_status lipsc_ranks_take(lipsc_ranks *ranks, int *there, lipsc_message *out);

/* The next one, however long it takes; who waits sleeps. */
lipsc_status lipsc_ranks_hear(lipsc_ranks *ranks, lipsc_message *out);

/* Calls that all ranks make together, and that wait for each other. */

/* all (count, bytes) = own (bytes) of every rank, in their order. */
lipsc_status lipsc_ranks_gather(lipsc_ranks *ranks, size_t bytes, const void *own,
                                void *all);
/* The same with parts of bytes[r], one after the other. */
lipsc_status lipsc_ranks_gather_parts(lipsc_ranks *ranks, const int *bytes, const void *own,
                                      void *all);
/* bytes_out[r] of out go to rank r, bytes_in[r] come from it. */
lipsc_status lipsc_ranks_exchange(lipsc_ranks *ranks, const int *bytes_out, const void *out,
                                  const int *bytes_in, void *in);

/* Whether the two before take addresses of a GPU's memory; LIPSCOPE_MPI_DIRECT=0: no. */
int lipsc_ranks_direct(const lipsc_ranks *ranks);

/* bytes of rank 0's word to everybody, who sleep until it comes: their cores are free. */
enum { LIPSC_RANKS_TELL = 100 }; /* its tag, above all others */
lipsc_status lipsc_ranks_tell(lipsc_ranks *ranks, size_t bytes, void *word);
/* The cores of all ranks of the machine for this one, or its own again: threads that begin
 * meanwhile may use them. */
void lipsc_ranks_widen(const lipsc_ranks *ranks, int all);

/* A moment, longer and longer while nothing happens; *quiet: how often in turn. */
void lipsc_ranks_rest(unsigned *quiet);

/* A work that is shared has begun, or ended: what lipsc_ranks_awaited says. */
void lipsc_ranks_busy(lipsc_ranks *ranks, int busy);

/* What is dealt at the moment (deal.h), or NULL. */
struct lipsc_dealing;
void lipsc_ranks_set_dealing(lipsc_ranks *ranks, struct lipsc_dealing *dealing);
struct lipsc_dealing *lipsc_ranks_dealing(const lipsc_ranks *ranks);

#endif
