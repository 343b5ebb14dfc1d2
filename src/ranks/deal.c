/* deal.c - pieces of a work, handed out by rank 0.
 *
 *     ASK   to 0    for a piece
 *     WORK  from 0  its number
 *     DONE  to 0    what came of it
 *     STOP  from 0  nothing is left, or it shall end
 *     BYE   to 0    the last of each rank
 *
 * and when all have said it, rank 0 tells how it ended: nobody begins what comes next while
 * rank 0 still hears of this. */
#include "ranks/deal.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/mem.h"

enum { DEAL_ASK = 20, DEAL_WORK, DEAL_DONE, DEAL_STOP, DEAL_BYE };

/* How long others may take to end, in seconds: a launcher that ends a job waits a second
 * before it kills. */
static const double patience = 0.6;

typedef struct {
    uint64_t piece, status;
    char text[sizeof((lipsc_error *)0)->text];
} done_head; /* behind it: what came of the piece */

typedef struct lipsc_dealing {
    lipsc_ranks *ranks;
    const lipsc_deal *deal;
    pthread_mutex_t turn; /* at what follows */
    size_t *order, next;
    lipsc_status status;
    lipsc_error err;
    double asked; /* of a rank that follows: when it was looked for a word last */
    int over;
    /* of the thread that answers: */
    size_t byes;
    char *told; /* (ranks) */
} dealing;

/* ---- The order ------------------------------------------------------------------------
 */

/* Large first; equal ones stay as they are. */
static void sort_pieces(const lipsc_deal *deal, size_t *order) {
    for (size_t i = 0; i < deal->count; i++) {
        size_t at = i;
        for (; deal->cost && at && deal->cost[order[at - 1]] < deal->cost[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}

/* Whether there is one. */
static int next_piece(dealing *d, size_t *piece) {
    int some = 0;
    pthread_mutex_lock(&d->turn);
    while (!d->over && !some && d->next < d->deal->count) {
        *piece = d->order[d->next++];
        some = !d->deal->open || d->deal->open(d->deal->ctx, *piece);
    }
    pthread_mutex_unlock(&d->turn);
    return some;
}

/* ---- How it goes on -------------------------------------------------------------------
 */

static void fail_locked(dealing *d, lipsc_status status, const lipsc_error *err) {
    d->over = 1;
    if (d->status) return;
    d->status = status;
    d->err = *err;
}

static void lose(dealing *d) {
    lipsc_error err;
    const lipsc_status status =
        lipsc_fail(&err, LIPSC_E_IO, "another rank is out of reach");
    pthread_mutex_lock(&d->turn);
    fail_locked(d, status, &err);
    pthread_mutex_unlock(&d->turn);
}

/* What came of a piece, here or elsewhere; why: of a status that is not good. */
static void settle(dealing *d, size_t piece, const lipsc_yield *from, lipsc_status status,
                   const lipsc_error *why) {
    lipsc_error err;
    pthread_mutex_lock(&d->turn);
    if (from->at && d->deal->take) {
        const lipsc_status taken = d->deal->take(d->deal->ctx, piece, from, &err);
        if (taken) fail_locked(d, taken, &err);
    }
    if (status) fail_locked(d, status, why);
    pthread_mutex_unlock(&d->turn);
}

/* Whether it is over, by the caller's wish too. */
static int over(dealing *d) {
    lipsc_error err;
    pthread_mutex_lock(&d->turn);
    if (!d->over && d->deal->stop && d->deal->stop(d->deal->ctx))
        fail_locked(d, lipsc_fail(&err, LIPSC_E_STOPPED, "stopped"), &err);
    const int yes = d->over;
    pthread_mutex_unlock(&d->turn);
    return yes;
}

/* ---- Rank 0 ---------------------------------------------------------------------------
 */

static void send(dealing *d, size_t to, int tag, size_t bytes, const void *data) {
    if (lipsc_ranks_send(d->ranks, to, tag, bytes, data)) lose(d);
}

static void tell_end(dealing *d, size_t rank) {
    if (d->told[rank]) return;
    d->told[rank] = 1;
    send(d, rank, DEAL_STOP, 0, "");
}

static void answer(dealing *d, size_t rank) {
    size_t piece;
    if (next_piece(d, &piece))
        send(d, rank, DEAL_WORK, sizeof(uint64_t), &(uint64_t){piece});
    else
        tell_end(d, rank);
}

static void take_done(dealing *d, const lipsc_message *word) {
    done_head head;
    lipsc_error err;
    if (word->bytes < sizeof head) {
        lose(d);
        return;
    }
    memcpy(&head, word->at, sizeof head);
    head.text[sizeof head.text - 1] = 0;
    const lipsc_yield from = {word->bytes - sizeof head, word->at + sizeof head};
    const lipsc_status status = (lipsc_status)head.status;
    if (status) lipsc_fail(&err, status, "rank %zu: %s", word->from, head.text);
    settle(d, (size_t)head.piece, from.bytes ? &from : &(lipsc_yield){0, NULL}, status,
           &err);
}

static void *serve(void *ctx) {
    dealing *d = ctx;
    const size_t others = lipsc_ranks_count(d->ranks) - 1;
    unsigned quiet = 0;
    double ended = 0.0;
    while (d->byes < others) {
        lipsc_message word;
        int there = 0;
        if (!(ended > 0.0) && over(d)) {
            ended = lipsc_seconds();
            for (size_t rank = 1; rank <= others; rank++) tell_end(d, rank);
        }
        if (lipsc_ranks_take(d->ranks, &there, &word)) {
            lose(d);
            break;
        }
        if (there) {
            if (word.tag == DEAL_ASK) answer(d, word.from);
            if (word.tag == DEAL_DONE) take_done(d, &word);
            if (word.tag == DEAL_BYE) d->byes++;
            lipsc_release(word.at);
            quiet = 0;
        } else if (ended > 0.0 && lipsc_seconds() - ended > patience) {
            break;
        } else {
            lipsc_ranks_rest(&quiet);
        }
    }
    return NULL;
}

static void work_alone(dealing *d) {
    size_t piece;
    while (!over(d) && next_piece(d, &piece)) {
        lipsc_yield out = {0, NULL};
        lipsc_error err = {.text = ""};
        const lipsc_status status = d->deal->compute(d->deal->ctx, piece, &out, &err);
        settle(d, piece, &out, status, &err);
        lipsc_release(out.at);
    }
}

static void lead(dealing *d) {
    pthread_t server;
    uint64_t end = LIPSC_E_STOPPED;
    if (pthread_create(&server, NULL, serve, d)) {
        lose(d);
        serve(d);
    } else {
        work_alone(d);
        pthread_join(server, NULL);
    }
    if (d->byes + 1 < lipsc_ranks_count(d->ranks)) return; /* they are awaited still */
    if (!d->status) end = LIPSC_OK;
    if (lipsc_ranks_tell(d->ranks, sizeof end, &end)) lose(d);
    lipsc_ranks_busy(d->ranks, 0);
}

/* ---- One that follows -----------------------------------------------------------------
 */

/* The next word of rank 0; 0: it is out of reach. */
static int hear(dealing *d, lipsc_message *word) {
    unsigned quiet = 0;
    int there = 0;
    while (!there) {
        if (lipsc_ranks_take(d->ranks, &there, word)) return 0;
        if (!there) lipsc_ranks_rest(&quiet);
    }
    return 1;
}

static int send_done(dealing *d, size_t piece, const lipsc_yield *out, lipsc_status status,
                     const lipsc_error *err) {
    done_head head = {.piece = piece, .status = (uint64_t)status};
    char *bytes = lipsc_alloc(sizeof head + out->bytes, 1);
    if (!bytes) return 0;
    snprintf(head.text, sizeof head.text, "%s", status ? err->text : "");
    memcpy(bytes, &head, sizeof head);
    if (out->at) memcpy(bytes + sizeof head, out->at, out->bytes);
    const int sent = !lipsc_ranks_send(d->ranks, 0, DEAL_DONE,
                                       sizeof head + (out->at ? out->bytes : 0), bytes);
    lipsc_release(bytes);
    return sent;
}

static void compute_one(dealing *d, size_t piece) {
    lipsc_yield out = {0, NULL};
    lipsc_error err = {.text = ""};
    const lipsc_status status = d->deal->compute(d->deal->ctx, piece, &out, &err);
    if (!send_done(d, piece, &out, status, &err)) lose(d);
    lipsc_release(out.at);
}

static void follow(dealing *d) {
    lipsc_message word;
    uint64_t end = LIPSC_E_IO;
    while (!d->over && !lipsc_ranks_send(d->ranks, 0, DEAL_ASK, 0, "") && hear(d, &word)) {
        uint64_t piece = d->deal->count;
        if (word.tag == DEAL_WORK && word.bytes == sizeof piece)
            memcpy(&piece, word.at, sizeof piece);
        lipsc_release(word.at);
        if (piece < d->deal->count)
            compute_one(d, (size_t)piece);
        else
            d->over = 1;
    }
    lipsc_ranks_send(d->ranks, 0, DEAL_BYE, 0, "");
    while (hear(d, &word)) { /* a STOP may be on its way */
        const int last = word.tag == LIPSC_RANKS_TELL && word.bytes == sizeof end;
        if (last) memcpy(&end, word.at, sizeof end);
        lipsc_release(word.at);
        if (last) break;
    }
    if (end) d->status = (lipsc_status)end;
    lipsc_ranks_busy(d->ranks, 0);
}

/* Several threads ask, one looks now and then. */
static int told_to_stop(dealing *d) {
    int there = 0;
    lipsc_message word;
    if (pthread_mutex_trylock(&d->turn)) return 0;
    const double now = lipsc_seconds();
    if (!d->over && now - d->asked > 0.02) {
        d->asked = now;
        if (lipsc_ranks_take(d->ranks, &there, &word)) d->over = 1;
        if (there) {
            d->over |= word.tag == DEAL_STOP;
            lipsc_release(word.at);
        }
    }
    const int yes = d->over;
    pthread_mutex_unlock(&d->turn);
    return yes;
}

int lipsc_deal_over(lipsc_ranks *ranks) {
    dealing *d = lipsc_ranks_dealing(ranks);
    if (!d) return 0;
    if (lipsc_ranks_number(ranks)) return told_to_stop(d);
    pthread_mutex_lock(&d->turn);
    const int yes = d->over;
    pthread_mutex_unlock(&d->turn);
    return yes;
}

/* ---- Together -------------------------------------------------------------------------
 */

static void run(dealing *d) {
    const int shared = lipsc_ranks_count(d->ranks) > 1;
    if (!shared) {
        work_alone(d);
        return;
    }
    lipsc_ranks_busy(d->ranks, 1);
    lipsc_ranks_set_dealing(d->ranks, d);
    if (lipsc_ranks_number(d->ranks))
        follow(d);
    else
        lead(d);
    lipsc_ranks_set_dealing(d->ranks, NULL);
}

lipsc_status lipsc_ranks_deal(lipsc_ranks *ranks, const lipsc_deal *deal,
                              lipsc_error *err) {
    dealing d = {.ranks = ranks,
                 .deal = deal,
                 .order = lipsc_alloc(deal->count + 1, sizeof *d.order),
                 .told = lipsc_alloc_zero(lipsc_ranks_count(ranks), 1),
                 .err = {.text = "stopped"}};
    pthread_mutex_init(&d.turn, NULL);
    if (d.order && d.told) {
        sort_pieces(deal, d.order);
        run(&d);
    } else {
        d.status = lipsc_fail(&d.err, LIPSC_E_NOMEM, "out of memory for ranks");
    }
    pthread_mutex_destroy(&d.turn);
    lipsc_release(d.order);
    lipsc_release(d.told);
    return d.status ? lipsc_fail(err, d.status, "%s", d.err.text) : LIPSC_OK;
}

/* ---- All meet -------------------------------------------------------------------------
 */

typedef struct {
    uint64_t status;
    char text[sizeof((lipsc_error *)0)->text];
    char version[32], said[256];
} hello;

static lipsc_status compare(const hello *own, const hello *other, size_t rank,
                            lipsc_error *err) {
    if (other->status && rank)
        return lipsc_fail(err, (lipsc_status)other->status, "rank %zu: %s", rank,
                          other->text);
    if (other->status)
        return lipsc_fail(err, (lipsc_status)other->status, "%s", other->text);
    if (strcmp(own->version, other->version))
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "rank %zu has another version of lipscope than rank 0", rank);
    if (strcmp(own->said, other->said))
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "rank %zu has read something else than rank 0", rank);
    return LIPSC_OK;
}

lipsc_status lipsc_ranks_meet(lipsc_ranks *ranks, lipsc_status status, const char *said,
                              lipsc_error *err) {
    const size_t count = lipsc_ranks_count(ranks);
    if (count < 2) return status;
    hello own = {.status = (uint64_t)status}, *all = lipsc_alloc(count, sizeof *all);
    if (!all) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ranks");
    snprintf(own.text, sizeof own.text, "%s", status ? err->text : "");
    snprintf(own.version, sizeof own.version, "%s", lipsc_version());
    snprintf(own.said, sizeof own.said, "%s", status ? "" : said);
    status = lipsc_ranks_gather(ranks, sizeof own, &own, all);
    if (status) status = lipsc_fail(err, status, "another rank is out of reach");
    for (size_t r = 0; r < count && !status; r++)
        status = compare(&all[0], &all[r], r, err);
    lipsc_release(all);
    lipsc_ranks_busy(ranks, !status); /* from now on nobody may leave alone */
    return status;
}
