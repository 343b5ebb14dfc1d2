/* side.c - threads side by side: windows that go together, and their cells.
 *
 * Whoever has run windows takes their cells first, so that values come early; then it helps
 * another; then it begins windows.  So no more windows are under way than threads. OpenMP's
 * tasks would be the words for this, but LLVM's runtime (14) aborts when several threads of
 * a caller have teams that make tasks; hence a list under a lock. */
#define _POSIX_C_SOURCE 200809L /* pthread_mutex_t */
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "core/error.h"
#include "core/mem.h"
#include "study/sweep.h"

typedef study_sweep sweep;

/* Their products are made together up to that many windows and tokens: a weight that was
 * read serves all of them, and there is enough of them to fill the register kernels. */
enum { MOST_WINDOWS = 16, MOST_TOKENS = 512 };
typedef struct {
    size_t windows, tokens;
} limit;

/* Few enough that every thread has several batches, or as many as keep a device busy whose
 * products no thread makes. */
static limit most_together(const sweep *s, size_t open) {
    const lipsc_map_kind map = s->study->set.map;
    const size_t wanted = lipsc_device_table(s->study->set.device)->batch_tokens;
    const size_t fair = open / (4 * (size_t)s->study->threads);
    if (map != LIPSC_MAP_HEADS && map != LIPSC_MAP_ATTENTION) return (limit){1, SIZE_MAX};
    if (wanted) return (limit){SIZE_MAX, wanted};
    return (limit){fair < MOST_WINDOWS ? fair : MOST_WINDOWS, MOST_TOKENS};
}

/* Whether one more of so many tokens is too much for a batch, which has one at least. */
static int is_full(limit most, size_t windows, size_t tokens) {
    return windows && (windows >= most.windows || tokens > most.tokens);
}

/* First by layer and head; windows keep their order. */
static int by_layer_and_head(const void *a, const void *b) {
    const study_cell *c = ((const study_job *)a)->cell, *d = ((const study_job *)b)->cell;
    if (c->layer != d->layer) return c->layer < d->layer ? -1 : 1;
    if (c->head != d->head) return c->head < d->head ? -1 : 1;
    return c < d ? -1 : c > d;
}

/* The open cells of these windows, room for all of them. */
static size_t collect(sweep *s, size_t count, const study_group *groups, study_span at,
                      study_job *job) {
    size_t found = 0;
    for (size_t g = 0; g < count; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            study_cell *cell = &s->study->cells[groups[g].first + i];
            if (lipsc_group_cell_open(cell, at))
                job[found++] = (study_job){.cell = cell, .acts = groups[g].acts};
        }
    qsort(job, found, sizeof *job, by_layer_and_head);
    return found;
}

/* How many, from the first on, have its layer and head and fit into one batch. */
static size_t same_place(size_t count, const study_job *job, limit most) {
    size_t same = 0, tokens = 0;
    for (; same < count && job[same].cell->layer == job->cell->layer &&
           job[same].cell->head == job->cell->head;
         same++) {
        tokens += job[same].cell->n;
        if (is_full(most, same, tokens)) break;
    }
    return same;
}

/* How many of the groups, from the first on, go together: those of a batch, and what is
 * left of the windows that begin where its last one does. */
static size_t windows_together(const sweep *s, size_t count, const study_group *groups,
                               limit most) {
    size_t tokens = 0, found = 0;
    for (; found < count && !groups[found].alone; found++) {
        const int follower =
            found && s->beginnings && groups[found].start == groups[found - 1].start;
        tokens += groups[found].n;
        if (!follower && is_full(most, found, tokens)) break;
    }
    return found;
}

/* ---- Who does what ------------------------------------------------------------------- */

/* Windows that go together, and their cells of the span when they have passed it. */
typedef struct {
    size_t windows;
    study_group *groups;
    size_t cells, taken;
    study_job *job;
    size_t busy; /* threads that are at it */
    int through;
} bundle;

typedef struct {
    sweep *sweep;
    limit most;
    study_span at;
    size_t count, begun, through; /* bundles                               */
    size_t passed;                /* all before this one are through       */
    bundle *bundles;
    pthread_mutex_t lock; /* of all that changes here, not held while computing */
    pthread_cond_t news;  /* there are cells to take, or all are through        */
} side;

static void pass_windows(const side *q, bundle *b) {
    sweep *s = q->sweep;
    const study_group *leader = NULL; /* the longest that begins where the next may */
    size_t room = 0;
    for (size_t g = 0; g < b->windows; g++) {
        lipsc_sweep_window(s, &b->groups[g], leader, q->at, 1);
        if (!lipsc_sweep_follows(s, &b->groups[g], leader)) leader = &b->groups[g];
        room += b->groups[g].count;
    }
    b->job = lipsc_alloc(room, sizeof *b->job);
    if (!b->job) {
        lipsc_error err;
        lipsc_sweep_fail(
            s, lipsc_fail(&err, LIPSC_E_NOMEM, "out of memory for %zu cells", room), &err);
    }
}

static void leave_windows(const side *q, bundle *b) {
    lipsc_release(b->job);
    for (size_t g = 0; g < b->windows; g++) lipsc_sweep_leave(&b->groups[g], q->at);
}

/* Under the lock: a bundle with cells that nobody has taken, own if that has some. */
static bundle *with_cells(side *q, bundle *own) {
    if (own && own->taken < own->cells) return own;
    while (q->passed < q->begun && q->bundles[q->passed].through) q->passed++;
    for (size_t i = q->passed; i < q->begun; i++)
        if (q->bundles[i].taken < q->bundles[i].cells) return &q->bundles[i];
    return NULL;
}

/* Under the lock, behind what a thread did for b: the last one ends it. */
static void leave(side *q, bundle *b) {
    b->busy--;
    if (b->busy || b->taken < b->cells) return;
    pthread_mutex_unlock(&q->lock);
    leave_windows(q, b);
    pthread_mutex_lock(&q->lock);
    b->through = 1;
    q->through++;
    if (q->through == q->count) pthread_cond_broadcast(&q->news);
}

/* Under the lock, which is open while it computes. */
static void compute_cells(side *q, bundle *b) {
    study_job *job = &b->job[b->taken];
    const size_t together = same_place(b->cells - b->taken, job, q->most);
    b->taken += together;
    b->busy++;
    pthread_mutex_unlock(&q->lock);
    lipsc_sweep_cells(q->sweep, together, job, 1);
    pthread_mutex_lock(&q->lock);
    leave(q, b);
}

/* Under the lock, which is open while it computes. */
static bundle *begin_windows(side *q) {
    bundle *b = &q->bundles[q->begun++];
    b->busy++;
    pthread_mutex_unlock(&q->lock);
    pass_windows(q, b);
    const size_t cells = b->job && !lipsc_sweep_ended(q->sweep)
                             ? collect(q->sweep, b->windows, b->groups, q->at, b->job)
                             : 0;
    pthread_mutex_lock(&q->lock);
    b->cells = cells;
    if (cells) pthread_cond_broadcast(&q->news);
    return b;
}

static void work(side *q) {
    bundle *own = NULL;
    pthread_mutex_lock(&q->lock);
    while (q->through < q->count) {
        bundle *b = with_cells(q, own);
        if (b) {
            compute_cells(q, b);
        } else if (q->begun < q->count) {
            own = begin_windows(q);
            if (own->cells) compute_cells(q, own);
            leave(q, own);
        } else {
            pthread_cond_wait(&q->news, &q->lock);
        }
    }
    pthread_mutex_unlock(&q->lock);
}

/* Which windows go together: room for as many bundles as groups. */
static size_t bundle_up(const sweep *s, size_t count, study_group *groups, limit most,
                        bundle *bundles) {
    size_t found = 0;
    for (size_t i = 0, together; i < count; i += together) {
        together = 1;
        if (groups[i].alone) continue;
        together = windows_together(s, count - i, groups + i, most);
        bundles[found++] = (bundle){.windows = together, .groups = groups + i};
    }
    return found;
}

void lipsc_sweep_side_by_side(sweep *s, size_t count, study_group *groups, size_t open,
                              study_span at) {
    side q = {.sweep = s,
              .most = most_together(s, open),
              .at = at,
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .news = PTHREAD_COND_INITIALIZER};
    q.bundles = lipsc_alloc(count, sizeof *q.bundles);
    if (!q.bundles) {
        lipsc_error err;
        lipsc_sweep_fail(
            s, lipsc_fail(&err, LIPSC_E_NOMEM, "out of memory for %zu windows", count),
            &err);
        return;
    }
    q.count = bundle_up(s, count, groups, q.most, q.bundles);
#pragma omp parallel num_threads(s->study->threads)
    {
        omp_set_num_threads(1); /* of regions inside, vector sums for instance */
        work(&q);
    }
    pthread_cond_destroy(&q.news);
    pthread_mutex_destroy(&q.lock);
    lipsc_release(q.bundles);
}
