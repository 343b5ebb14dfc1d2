/* deal.c - pieces of a work, handed out by rank 0 (dealer.h): WORK is the number of a
 * piece,
 *
 *     DONE  to 0    what came of it */
#include "ranks/deal.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "ranks/dealer.h"

enum { DEAL_DONE = LIPSC_DEAL_MORE };

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
    int over;
    lipsc_follower follower; /* of a rank that follows */
} dealing;

/* ---- The order ---------------------------------------------------------------------- */

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

/* ---- How it goes on ----------------------------------------------------------------- */

static void fail_locked(dealing *d, lipsc_status status, const lipsc_error *err) {
    d->over = 1;
    if (d->status) return;
    d->status = status;
    d->err = *err;
}

static void fail(void *ctx, lipsc_status status, const char *why) {
    dealing *d = ctx;
    lipsc_error err;
    lipsc_fail(&err, status, "%s", why);
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
static int over(void *ctx) {
    dealing *d = ctx;
    lipsc_error err;
    pthread_mutex_lock(&d->turn);
    if (!d->over && d->deal->stop && d->deal->stop(d->deal->ctx))
        fail_locked(d, lipsc_fail(&err, LIPSC_E_STOPPED, "stopped"), &err);
    const int yes = d->over;
    pthread_mutex_unlock(&d->turn);
    return yes;
}

/* ---- Rank 0 ------------------------------------------------------------------------- */

static void *next_work(void *ctx, size_t *bytes) {
    size_t piece;
    uint64_t *word = lipsc_alloc(1, sizeof *word);
    *bytes = sizeof *word;
    if (!word) fail(ctx, LIPSC_E_NOMEM, "out of memory for ranks");
    if (word && next_piece(ctx, &piece)) {
        *word = piece;
        return word;
    }
    lipsc_release(word);
    return NULL;
}

static void take_done(void *ctx, const lipsc_message *word) {
    dealing *d = ctx;
    done_head head;
    lipsc_error err;
    if (word->tag != DEAL_DONE) return;
    if (word->bytes < sizeof head) {
        fail(d, LIPSC_E_FORMAT, "a rank has sent what nobody asked for");
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

static void work_alone(void *ctx) {
    dealing *d = ctx;
    size_t piece;
    while (!over(d) && next_piece(d, &piece)) {
        lipsc_yield out = {0, NULL};
        lipsc_error err = {.text = ""};
        const lipsc_status status = d->deal->compute(d->deal->ctx, piece, &out, &err);
        settle(d, piece, &out, status, &err);
        lipsc_release(out.at);
    }
}

static lipsc_status outcome(void *ctx) { return ((const dealing *)ctx)->status; }

static void lead(dealing *d) {
    const lipsc_dealer dealer = {.ranks = d->ranks,
                                 .over = over,
                                 .next = next_work,
                                 .hear = take_done,
                                 .fail = fail,
                                 .work = work_alone,
                                 .outcome = outcome,
                                 .ctx = d};
    if (lipsc_deal_out(&dealer)) lipsc_ranks_busy(d->ranks, 0); /* or they are awaited */
}

/* ---- One that follows --------------------------------------------------------------- */

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

/* Whether rank 0 could be told. */
static int compute_one(dealing *d, size_t piece) {
    lipsc_yield out = {0, NULL};
    lipsc_error err = {.text = ""};
    const lipsc_status status = d->deal->compute(d->deal->ctx, piece, &out, &err);
    const int sent = send_done(d, piece, &out, status, &err);
    lipsc_release(out.at);
    return sent;
}

/* The piece, which the word may not name. */
static size_t piece_of(const dealing *d, const lipsc_message *word) {
    uint64_t piece = d->deal->count;
    if (word->bytes == sizeof piece) memcpy(&piece, word->at, sizeof piece);
    return piece < d->deal->count ? (size_t)piece : d->deal->count;
}

static void follow(dealing *d) {
    lipsc_message word;
    int going = 1;
    while (going && lipsc_follower_work(&d->follower, &word)) {
        const size_t piece = piece_of(d, &word);
        lipsc_release(word.at);
        going = piece < d->deal->count && compute_one(d, piece);
    }
    d->status = lipsc_follower_bye(&d->follower, 0, "");
    lipsc_ranks_busy(d->ranks, 0);
}

int lipsc_deal_over(lipsc_ranks *ranks) {
    dealing *d = lipsc_ranks_dealing(ranks);
    if (!d) return 0;
    if (lipsc_ranks_number(ranks)) return lipsc_follower_told(&d->follower);
    pthread_mutex_lock(&d->turn);
    const int yes = d->over;
    pthread_mutex_unlock(&d->turn);
    return yes;
}

/* ---- Together ----------------------------------------------------------------------- */

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
                 .err = {.text = "stopped"}};
    pthread_mutex_init(&d.turn, NULL);
    lipsc_follower_new(&d.follower, ranks);
    if (d.order) {
        sort_pieces(deal, d.order);
        run(&d);
    } else {
        d.status = lipsc_fail(&d.err, LIPSC_E_NOMEM, "out of memory for ranks");
    }
    lipsc_follower_end(&d.follower);
    pthread_mutex_destroy(&d.turn);
    lipsc_release(d.order);
    return d.status ? lipsc_fail(err, d.status, "%s", d.err.text) : LIPSC_OK;
}

/* ---- All meet ----------------------------------------------------------------------- */

typedef struct {
    uint64_t status;
    char text[sizeof((lipsc_error *)0)->text];
    char version[32], said[LIPSC_RANKS_SAID];
} hello;

/* The name of the first line that differs, at the end of what rank 0 has said. */
static const char *differs_at(const char *own, const char *other, int *length) {
    size_t at = 0, line = 0;
    for (; own[at] && own[at] == other[at]; at++)
        if (own[at] == '\n') line = at + 1;
    *length = (int)strcspn(own + line, ":\n");
    return own + line;
}

static lipsc_status compare(const hello *own, const hello *other, size_t rank,
                            lipsc_error *err) {
    int length;
    if (other->status && rank)
        return lipsc_fail(err, (lipsc_status)other->status, "rank %zu: %s", rank,
                          other->text);
    if (other->status)
        return lipsc_fail(err, (lipsc_status)other->status, "%s", other->text);
    if (strcmp(own->version, other->version))
        return lipsc_fail(err, LIPSC_E_RANGE,
                          "rank %zu has another version of lipscope than rank 0", rank);
    if (!strcmp(own->said, other->said)) return LIPSC_OK;
    const char *what = differs_at(own->said, other->said, &length);
    return lipsc_fail(err, LIPSC_E_RANGE, "rank %zu has another %.*s than rank 0", rank,
                      length, what);
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
