/* dealer.c - rank 0 hands work to whoever asks; one that follows asks. */
#include "ranks/dealer.h"

#include <string.h>

#include "core/clock.h"
#include "core/mem.h"

/* How long others may take to end, in seconds: a launcher that ends a job waits a second
 * before it kills. */
static const double patience = 0.6;
/* How often one that computes looks for a word, in seconds. */
static const double between_looks = 0.02;

/* ---- Rank 0 ------------------------------------------------------------------------- */

typedef struct {
    const lipsc_dealer *by;
    size_t others, byes;
    char *told; /* (ranks) that it is over */
} serving;

static void lose(const serving *s) {
    s->by->fail(s->by->ctx, LIPSC_E_IO, "another rank is out of reach");
}

static void send(const serving *s, size_t to, int tag, size_t bytes, const void *data) {
    if (lipsc_ranks_send(s->by->ranks, to, tag, bytes, data)) lose(s);
}

static void tell_end(serving *s, size_t rank) {
    if (s->told[rank]) return;
    s->told[rank] = 1;
    send(s, rank, LIPSC_DEAL_STOP, 0, "");
}

static void answer(serving *s, size_t rank) {
    size_t bytes = 0;
    void *work = s->by->over(s->by->ctx) ? NULL : s->by->next(s->by->ctx, &bytes);
    if (work)
        send(s, rank, LIPSC_DEAL_WORK, bytes, work);
    else
        tell_end(s, rank);
    lipsc_release(work);
}

static void hear(serving *s, const lipsc_message *word) {
    if (word->tag == LIPSC_DEAL_ASK) {
        answer(s, word->from);
        return;
    }
    s->by->hear(s->by->ctx, word);
    s->byes += word->tag == LIPSC_DEAL_BYE;
}

static void *serve(void *ctx) {
    serving *s = ctx;
    unsigned quiet = 0;
    double ended = 0.0;
    while (s->byes < s->others) {
        lipsc_message word;
        int there = 0;
        if (!(ended > 0.0) && s->by->over(s->by->ctx)) {
            ended = lipsc_seconds();
            for (size_t rank = 1; rank <= s->others; rank++) tell_end(s, rank);
        }
        if (lipsc_ranks_take(s->by->ranks, &there, &word)) {
            lose(s);
            break;
        }
        if (there) {
            hear(s, &word);
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

static void tell_outcome(serving *s) {
    const uint64_t end = (uint64_t)s->by->outcome(s->by->ctx);
    for (size_t rank = 1; rank <= s->others; rank++)
        send(s, rank, LIPSC_DEAL_END, sizeof end, &end);
}

int lipsc_deal_out(const lipsc_dealer *dealer) {
    serving s = {dealer, lipsc_ranks_count(dealer->ranks) - 1, 0, NULL};
    pthread_t server;
    s.told = lipsc_alloc_zero(s.others + 1, 1);
    if (!s.told) {
        dealer->fail(dealer->ctx, LIPSC_E_NOMEM, "out of memory for ranks");
        return 0;
    }
    if (!dealer->work) {
        serve(&s);
    } else if (pthread_create(&server, NULL, serve, &s)) {
        dealer->fail(dealer->ctx, LIPSC_E_NOMEM, "no thread for other ranks");
        serve(&s);
    } else {
        dealer->work(dealer->ctx);
        pthread_join(server, NULL);
    }
    lipsc_release(s.told);
    if (s.byes < s.others) return 0;
    tell_outcome(&s);
    return 1;
}

/* ---- One that follows --------------------------------------------------------------- */

void lipsc_follower_new(lipsc_follower *f, lipsc_ranks *ranks) {
    *f = (lipsc_follower){.ranks = ranks};
    pthread_mutex_init(&f->looking, NULL);
}

void lipsc_follower_end(lipsc_follower *f) { pthread_mutex_destroy(&f->looking); }

static void set_over(lipsc_follower *f) {
#pragma omp atomic write
    f->over = 1;
}

int lipsc_follower_work(lipsc_follower *f, lipsc_message *work) {
    if (f->over) return 0;
    if (lipsc_ranks_send(f->ranks, 0, LIPSC_DEAL_ASK, 0, "") ||
        lipsc_ranks_hear(f->ranks, work)) {
        set_over(f);
        return 0;
    }
    if (work->tag == LIPSC_DEAL_WORK) return 1;
    lipsc_release(work->at);
    set_over(f);
    return 0;
}

/* Several threads ask, one looks now and then. */
int lipsc_follower_told(lipsc_follower *f) {
    int over, there = 0;
    lipsc_message word;
#pragma omp atomic read
    over = f->over;
    if (over || pthread_mutex_trylock(&f->looking)) return over;
    const double now = lipsc_seconds();
    if (now - f->asked > between_looks) {
        f->asked = now;
        over = lipsc_ranks_take(f->ranks, &there, &word) != LIPSC_OK;
        if (!over && there) {
            over = word.tag == LIPSC_DEAL_STOP;
            lipsc_release(word.at);
        }
        if (over) set_over(f);
    }
    pthread_mutex_unlock(&f->looking);
    return over;
}

lipsc_status lipsc_follower_bye(lipsc_follower *f, size_t bytes, const void *data) {
    lipsc_message word;
    uint64_t end = LIPSC_E_IO;
    while (!f->over) {
        if (lipsc_ranks_hear(f->ranks, &word)) break;
        f->over = word.tag == LIPSC_DEAL_STOP;
        lipsc_release(word.at);
    }
    if (lipsc_ranks_send(f->ranks, 0, LIPSC_DEAL_BYE, bytes, data)) return LIPSC_E_IO;
    while (!lipsc_ranks_hear(f->ranks, &word)) { /* a STOP may be on its way */
        const int last = word.tag == LIPSC_DEAL_END && word.bytes == sizeof end;
        if (last) memcpy(&end, word.at, sizeof end);
        lipsc_release(word.at);
        if (last) break;
    }
    return (lipsc_status)end;
}
