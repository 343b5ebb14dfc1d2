/* side.c - threads side by side: windows that go together, and their cells.
 *
 * Windows that go together pass a stretch of layers; then their cells of it can be computed
 * while they pass the next.  On a CPU a stretch is the whole span.  A device waits for its
 * threads, so there stretches are short, and the weights of the next are made while cells
 * of this one are computed.
 *
 * Whoever has run windows takes their cells first, so that values come early; then it helps
 * another; then it begins windows.  So no more windows are under way than threads.  Where a
 * device would have to wait for windows, some begin before there are no more cells.
 * OpenMP's tasks would be the words for this, but LLVM's runtime (14) aborts when several
 * threads of a caller have teams that make tasks; hence a list under a lock. */
#define _POSIX_C_SOURCE 200809L /* pthread_mutex_t */
#include <omp.h>
#include <pthread.h>
#include <stdlib.h>

#include "backend/backend.h"
#include "core/error.h"
#include "core/extreme.h"
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

/* The open cells of these windows at what they saw, room for all of them. */
static size_t collect(sweep *s, size_t count, const study_group *groups,
                      lipsc_acts *const *acts, study_span at, study_job *job) {
    size_t found = 0;
    for (size_t g = 0; g < count; g++)
        for (size_t i = 0; i < groups[g].count; i++) {
            study_cell *cell = &s->study->cells[groups[g].first + i];
            if (lipsc_group_cell_open(cell, at))
                job[found++] = (study_job){.cell = cell, .acts = acts[g]};
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

/* Windows that go together, and their cells of a stretch when they have passed it. */
typedef struct {
    size_t windows;
    study_group *groups;
    study_span at;
    lipsc_acts **acts; /* (windows): what they saw there */
    size_t cells, taken;
    study_job *job;
    size_t busy; /* threads that are at it */
    int begun, passed, through;
} bundle;

/* Which weights have been made, layer by layer, each in parts. */
typedef struct {
    size_t last;         /* layer that is needed              */
    size_t begun, under; /* parts: from the first on; at work */
    size_t read;         /* and whose numbers were taken to be read */
    int *done;           /* (stretches) parts that are ready  */
} warmth;

typedef struct {
    sweep *sweep;
    limit most;
    study_span at;
    size_t step;           /* layers of a stretch                             */
    size_t row, stretches; /* bundles are row after row, a row for a stretch  */
    size_t through;
    size_t open, begun; /* all before are through; none from here on has begun */
    bundle *bundles;
    /* windows that begin otherwise than those before them in their bundle: all, taken,
     * read */
    size_t led, leading, has_led;
    study_group **leaders;
    int queued;
    warmth warm;
    pthread_mutex_t lock; /* of all that changes here, not held while computing */
    pthread_cond_t news;  /* there is something to do, or all are through       */
} side;

static int is_last(const side *q, const bundle *b) { return b->at.to == q->at.to; }

static void no_memory(const side *q, size_t count, const char *what) {
    lipsc_error err;
    lipsc_sweep_fail(
        q->sweep, lipsc_fail(&err, LIPSC_E_NOMEM, "out of memory for %zu %s", count, what),
        &err);
}

/* What window g saw in the stretch; before the last one it goes on without it. */
static void pass_window(const side *q, bundle *b, size_t g, size_t leader) {
    study_group *at = &b->groups[g];
    lipsc_acts *whole = leader < g ? b->acts[leader] : NULL;
    if (whole && lipsc_sweep_follows(q->sweep, at, &b->groups[leader])) {
        b->acts[g] = lipsc_sweep_beginning(q->sweep, at, whole);
        return;
    }
    lipsc_sweep_window(q->sweep, at, b->at, 1);
    if (!is_last(q, b) && at->last >= b->at.to) {
        b->acts[g] = lipsc_sweep_behind(q->sweep, at);
    } else {
        b->acts[g] = at->acts;
        at->acts = NULL;
    }
}

/* The longest of the windows before g that g may begin like; g itself: none. */
static size_t leader_of(const side *q, const bundle *b, size_t g, size_t leader) {
    return lipsc_sweep_follows(q->sweep, &b->groups[g], &b->groups[leader]) ? leader : g;
}

static void pass_windows(const side *q, bundle *b) {
    size_t leader = 0, room = 0;
    b->acts = lipsc_alloc_zero(b->windows, sizeof *b->acts);
    for (size_t g = 0; g < b->windows; g++) room += b->groups[g].count;
    b->job = lipsc_alloc(room, sizeof *b->job);
    if (!b->acts || !b->job) {
        no_memory(q, room, "cells");
        return;
    }
    for (size_t g = 0; g < b->windows; g++) {
        if (b->groups[g].last < b->at.from) continue; /* it is at its end */
        pass_window(q, b, g, leader);
        leader = leader_of(q, b, g, leader);
    }
}

static void leave_windows(const side *q, bundle *b) {
    lipsc_release(b->job);
    for (size_t g = 0; b->acts && g < b->windows; g++)
        if (is_last(q, b) && b->acts[g])
            lipsc_sweep_leave(&b->groups[g], b->acts[g], q->at);
        else
            lipsc_acts_free(b->acts[g]);
    lipsc_release(b->acts);
}

/* Under the lock: a bundle with cells that nobody has taken, own if that has some. */
static bundle *with_cells(side *q, bundle *own) {
    if (own && own->taken < own->cells) return own;
    while (q->open < q->begun && q->bundles[q->open].through) q->open++;
    for (size_t i = q->open; i < q->begun; i++)
        if (q->bundles[i].taken < q->bundles[i].cells) return &q->bundles[i];
    return NULL;
}

/* Under the lock: windows that can go on. */
static bundle *to_begin(side *q) {
    if (q->has_led < q->led) return NULL;
    const size_t next = q->begun + q->row, all = q->row * q->stretches;
    for (size_t i = q->open; i < (next < all ? next : all); i++) {
        bundle *b = &q->bundles[i];
        const size_t stretch = i / q->row;
        const int ready =
            !q->queued ||
            q->warm.done[stretch] == (int)(LIPSC_WARM_PARTS * (b->at.to - b->at.from));
        if (!ready) return NULL; /* neither are those that come later */
        if (!b->begun && (!stretch || q->bundles[i - q->row].passed)) return b;
    }
    return NULL;
}

/* Under the lock: whether a device may soon have no cells to compute, since few windows are
 * under way; others then begin first. */
static int runs_dry(const side *q) {
    size_t in_sight = 0;
    if (!q->queued) return 0;
    for (size_t i = q->open; i < q->begun; i++) {
        const bundle *b = &q->bundles[i];
        in_sight += b->begun && (!b->passed || b->taken < b->cells);
    }
    return 2 * in_sight < (size_t)q->sweep->study->threads;
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
    if (q->through == q->row * q->stretches) pthread_cond_broadcast(&q->news);
}

/* In the beginning and at the end of a device's work there are few bundles: their batches
 * are halved, so that there are enough of them. */
static limit limit_of(const side *q, const bundle *b) {
    limit most = q->most;
    if (q->queued && (b->at.from == q->at.from || is_last(q, b))) most.tokens /= 2;
    return most;
}

/* Under the lock, which is open while it computes. */
static void compute_cells(side *q, bundle *b) {
    study_job *job = &b->job[b->taken];
    const size_t together = same_place(b->cells - b->taken, job, limit_of(q, b));
    b->taken += together;
    b->busy++;
    pthread_mutex_unlock(&q->lock);
    lipsc_sweep_cells(q->sweep, together, job, 1);
    pthread_mutex_lock(&q->lock);
    leave(q, b);
}

/* Under the lock, which is open while it computes. */
static void begin_windows(side *q, bundle *b) {
    const size_t behind = (size_t)(b - q->bundles) + 1;
    if (q->begun < behind) q->begun = behind;
    b->begun = 1;
    b->busy++;
    pthread_mutex_unlock(&q->lock);
    pass_windows(q, b);
    const size_t cells =
        b->acts && b->job && !lipsc_sweep_ended(q->sweep)
            ? collect(q->sweep, b->windows, b->groups, b->acts, b->at, b->job)
            : 0;
    pthread_mutex_lock(&q->lock);
    b->cells = cells;
    b->passed = 1;
    pthread_cond_broadcast(&q->news);
}

/* ---- Weights ------------------------------------------------------------------------- */

/* Under the lock: whether a part of the weights waits.  While there are cells, few threads
 * are spared for it, else those that no windows will need as soon as they can go on. */
static int is_cold(const side *q, int spared) {
    const size_t parts = LIPSC_WARM_PARTS * (q->at.to - q->at.from);
    const size_t threads = (size_t)q->sweep->study->threads, few = (threads + 3) / 4;
    const size_t rest = threads > q->row ? threads - q->row : 0;
    const size_t most = spared || rest < few ? few : rest;
    return q->queued && q->warm.begun < parts && q->warm.under < most;
}

/* Under the lock, which is open while it is made. */
static void warm_part(side *q) {
    const size_t part = q->warm.begun++;
    q->warm.under++;
    pthread_mutex_unlock(&q->lock);
    lipsc_sweep_warm(q->sweep, q->at.from * LIPSC_WARM_PARTS + part, q->warm.last);
    pthread_mutex_lock(&q->lock);
    q->warm.under--;
    q->warm.done[part / LIPSC_WARM_PARTS / q->step]++;
    pthread_cond_broadcast(&q->news);
}

/* Under the lock: whether numbers can be read for a device that still begins. */
static int can_read(const side *q) {
    const lipsc_device *device = q->sweep->study->set.device;
    const size_t parts = LIPSC_WARM_PARTS * (q->at.to - q->at.from);
    const size_t next = q->warm.read > q->warm.begun ? q->warm.read : q->warm.begun;
    return next < parts && lipsc_device_table(device)->ready &&
           !lipsc_device_table(device)->ready(device);
}

/* Under the lock, which is open while they are read. */
static void read_part(side *q) {
    if (q->warm.read < q->warm.begun) q->warm.read = q->warm.begun;
    const size_t part = q->warm.read++;
    q->warm.under++;
    pthread_mutex_unlock(&q->lock);
    lipsc_sweep_read(q->sweep, q->at.from * LIPSC_WARM_PARTS + part, q->warm.last);
    pthread_mutex_lock(&q->lock);
    q->warm.under--;
}

/* A thread's first call of a device takes long, and the device waits if it is at work. */
static void wake(const side *q) {
    const lipsc_study_settings *set = &q->sweep->study->set;
    const lipsc_space *space = lipsc_device_space(set->device, set->dtype);
    if (q->queued) lipsc_space_release(space, lipsc_space_alloc(space, 1));
}

/* ---- Together ------------------------------------------------------------------------ */

/* Under the lock, which is open meanwhile. */
static void read_leader(side *q) {
    study_group *leader = q->leaders[q->leading++];
    pthread_mutex_unlock(&q->lock);
    lipsc_sweep_read_window(q->sweep, leader);
    pthread_mutex_lock(&q->lock);
    q->has_led++;
    pthread_cond_broadcast(&q->news);
}

/* Under the lock: what a device waits for in the beginning; 0: nothing any more.  Weights
 * of the first stretch come first: it learns from them what else to make ready, and whoever
 * has made some waits for it.  Meanwhile the others read, tokens and what comes after. */
static int begins(side *q) {
    if (!q->queued) return 0;
    if (q->warm.begun < min_size(q->step, q->at.to - q->at.from) * LIPSC_WARM_PARTS)
        warm_part(q);
    else if (q->leading < q->led)
        read_leader(q);
    else if (can_read(q))
        read_part(q);
    else
        return 0;
    return 1;
}

static void work(side *q) {
    bundle *own = NULL, *b;
    wake(q);
    pthread_mutex_lock(&q->lock);
    while (q->through < q->row * q->stretches) {
        if (begins(q)) continue;
        if (runs_dry(q) && (b = to_begin(q))) {
            begin_windows(q, b);
            leave(q, b);
        } else if (is_cold(q, 1)) {
            warm_part(q);
        } else if ((b = with_cells(q, own))) {
            compute_cells(q, b);
        } else if ((own = to_begin(q))) {
            begin_windows(q, own);
            if (own->cells) compute_cells(q, own);
            leave(q, own);
        } else if (is_cold(q, 0)) {
            warm_part(q);
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

/* Those that pass the layers themselves, of the first stretch. */
static void find_leaders(side *q) {
    for (size_t i = 0; q->queued && i < q->row; i++) {
        const bundle *b = &q->bundles[i];
        for (size_t g = 0, leader = 0; g < b->windows; g++) {
            const size_t before = leader;
            leader = leader_of(q, b, g, leader);
            if (!g || leader != before) q->leaders[q->led++] = &b->groups[g];
        }
    }
}

/* The same windows in every stretch. */
static void stretch_out(side *q) {
    for (size_t i = q->row * q->stretches; i-- > 0;) {
        const size_t from = q->at.from + i / q->row * q->step;
        q->bundles[i] = q->bundles[i % q->row];
        q->bundles[i].at.from = from;
        q->bundles[i].at.to = q->at.to - from > q->step ? from + q->step : q->at.to;
    }
}

/* Layers that a device's windows pass before their cells are computed. */
enum { STRETCH = 2 };

void lipsc_sweep_side_by_side(sweep *s, size_t count, study_group *groups, size_t open,
                              study_span at) {
    const lipsc_study_settings *set = &s->study->set;
    side q = {.sweep = s,
              .most = most_together(s, open),
              .at = at,
              .step = at.to - at.from,
              .queued = lipsc_device_table(set->device)->batch_tokens != 0,
              .warm = {.last = lipsc_groups_last(count, groups)},
              .lock = PTHREAD_MUTEX_INITIALIZER,
              .news = PTHREAD_COND_INITIALIZER};
    if (q.queued && set->map != LIPSC_MAP_MODEL) q.step = STRETCH;
    q.stretches = (at.to - at.from + q.step - 1) / q.step;
    q.bundles = lipsc_alloc(count * q.stretches, sizeof *q.bundles);
    q.warm.done = lipsc_alloc_zero(q.stretches, sizeof *q.warm.done);
    q.leaders = lipsc_alloc(count, sizeof *q.leaders);
    if (q.bundles && q.warm.done && q.leaders) {
        q.row = bundle_up(s, count, groups, q.most, q.bundles);
        find_leaders(&q);
        stretch_out(&q);
#pragma omp parallel num_threads(s->study->threads)
        {
            omp_set_num_threads(1); /* of regions inside, vector sums for instance */
            work(&q);
        }
    } else {
        no_memory(&q, count, "windows");
    }
    pthread_cond_destroy(&q.news);
    pthread_mutex_destroy(&q.lock);
    lipsc_release(q.leaders);
    lipsc_release(q.warm.done);
    lipsc_release(q.bundles);
}
