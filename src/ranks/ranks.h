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
/* Whether there was one; it does not wait. */
lipsc_status lipsc_ranks_take(lipsc_ranks *ranks, int *there, lipsc_message *out);

/* A moment, longer and longer while nothing happens; *quiet: how often in turn. */
void lipsc_ranks_rest(unsigned *quiet);

/* A work that is shared has begun, or ended: what lipsc_ranks_awaited says. */
void lipsc_ranks_busy(lipsc_ranks *ranks, int busy);

#endif
