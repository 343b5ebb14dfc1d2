/* dealer.h - rank 0 hands work to whoever asks, until every other rank has said BYE.
 *
 *     ASK   to 0    for work
 *     WORK  from 0  some
 *     STOP  from 0  nothing is left, or it shall end
 *     BYE   to 0    the last of each rank
 *     END   from 0  what came of it, when all have said BYE: nobody begins what comes next
 *                   while rank 0 still hears of this
 *
 * What else they tell rank 0 has tags of its own, from LIPSC_DEAL_MORE on. */
#ifndef LIPSC_RANKS_DEALER_H
#define LIPSC_RANKS_DEALER_H

#include <pthread.h>

#include "ranks/ranks.h"

enum {
    LIPSC_DEAL_ASK = 1,
    LIPSC_DEAL_WORK,
    LIPSC_DEAL_STOP,
    LIPSC_DEAL_BYE,
    LIPSC_DEAL_END,
    LIPSC_DEAL_MORE
};

/* ---- Rank 0 ------------------------------------------------------------------------- */

/* All but work are called by one thread, which mostly sleeps. */
typedef struct {
    lipsc_ranks *ranks;
    int (*over)(void *ctx); /* it has failed, or shall stop */
    /* The next work as bytes, to be lipsc_released; NULL: nothing is left. */
    void *(*next)(void *ctx, size_t *bytes);
    void (*hear)(void *ctx, const lipsc_message *word); /* all but ASK, BYE among them */
    void (*fail)(void *ctx, lipsc_status status, const char *why); /* it cannot go on */
    void (*work)(void *ctx);            /* rank 0's own, beside the answers; NULL: none */
    lipsc_status (*outcome)(void *ctx); /* when all is done, for all to know */
    void *ctx;
} lipsc_dealer;

/* Whether all have said BYE and know the outcome; once it is over they are not waited for
 * much longer. */
int lipsc_deal_out(const lipsc_dealer *dealer);

/* ---- The others --------------------------------------------------------------------- */

typedef struct {
    lipsc_ranks *ranks;
    pthread_mutex_t looking; /* whoever does               */
    double asked;            /* when it was looked for last */
    int over;                /* STOP has come, or rank 0 is out of reach */
} lipsc_follower;

void lipsc_follower_new(lipsc_follower *f, lipsc_ranks *ranks);
void lipsc_follower_end(lipsc_follower *f);

/* Asks and waits: whether work has come, whose bytes the caller releases. */
int lipsc_follower_work(lipsc_follower *f, lipsc_message *work);
/* Whether rank 0 has said STOP; any thread may ask, and does not wait. */
int lipsc_follower_told(lipsc_follower *f);
/* Waits for STOP where it has not come, says BYE with these bytes, and waits for the
 * outcome. */
lipsc_status lipsc_follower_bye(lipsc_follower *f, size_t bytes, const void *data);

#endif
