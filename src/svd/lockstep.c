/* lockstep.c - many solves side by side: their products are made together.
 *
 * Each solve has its own space, stop rule and restarts and does what it would do alone; in
 * turn, all that wait for A get their products at once, then all that wait for A^T.  One
 * that is done leaves the others, whose products become smaller.  Where making products
 * together does not change their bits, no solve sees its neighbours. */
#include "core/clock.h"
#include "core/mem.h"
#include "svd/solve.h"

/* Products of one turn. */
typedef struct {
    size_t count;
    size_t *who; /* (count) among the runs */
    lipsc_product *product;
    size_t waiting;
    lipsc_orth **orth; /* (waiting) what these products gave, to be made orthonormal */
    size_t *whose;     /* (waiting) among the runs */
} turn;

static void collect(size_t count, const lipsc_svd_run *runs, int trans, turn *t) {
    t->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (!runs[i].wish.k || runs[i].trans != trans) continue;
        t->who[t->count] = i;
        t->product[t->count++] = runs[i].wish;
    }
}

/* Elements that a product reads: its share of the time. */
static double share(const lipsc_svd_run *run) {
    return (double)run->wish.k * (double)(run->op->n + run->op->m);
}

static lipsc_status make(lipsc_svd_run *runs, int trans, const turn *t,
                         lipsc_products *products) {
    const double start = lipsc_seconds();
    const lipsc_linop *op = runs[t->who[0]].op;
    const lipsc_product *p = t->product;
    const lipsc_status status = products ? products(trans, t->count, p)
                                         : op->apply(op->ctx, trans, p->k, p->x, p->y);
    const double seconds = lipsc_seconds() - start;
    double all = 0.0;
    for (size_t i = 0; i < t->count; i++) all += share(&runs[t->who[i]]);
    for (size_t i = 0; i < t->count; i++) {
        lipsc_svd_run *run = &runs[t->who[i]];
        lipsc_svd_count(run, seconds * share(run) / all);
    }
    return status;
}

static void begin(lipsc_svd_run *run, lipsc_lanczos **z) {
    const double start = lipsc_seconds();
    *z = lipsc_lanczos_begin(run);
    run->own_seconds += lipsc_seconds() - start;
}

/* A run alone, after its product. */
static void next(lipsc_svd_run *run, lipsc_lanczos *z, lipsc_status made) {
    const double start = lipsc_seconds();
    lipsc_orth *orth = lipsc_lanczos_next(z, made);
    if (orth) {
        lipsc_svd_orths(1, &orth);
        lipsc_lanczos_orthed(z);
    }
    run->own_seconds += lipsc_seconds() - start;
}

/* All of the turn, their sums together. */
static void next_together(lipsc_svd_run *runs, lipsc_lanczos **z, turn *t,
                          lipsc_status made) {
    const double start = lipsc_seconds();
    t->waiting = 0;
    for (size_t i = 0; i < t->count; i++) {
        t->orth[t->waiting] = lipsc_lanczos_next(z[t->who[i]], made);
        t->whose[t->waiting] = t->who[i];
        t->waiting += t->orth[t->waiting] != NULL;
    }
    lipsc_svd_orths(t->waiting, t->orth);
    for (size_t i = 0; i < t->waiting; i++) lipsc_lanczos_orthed(z[t->whose[i]]);
    const double each = (lipsc_seconds() - start) / (double)t->count;
    for (size_t i = 0; i < t->count; i++) runs[t->who[i]].own_seconds += each;
}

/* Each by a thread of its own, or one after the other and then outside of any region: what
 * is parallel inside a region, be it one of a single thread, makes its threads anew. */
static void begin_all(size_t count, lipsc_svd_run *runs, lipsc_lanczos **z, int threads) {
    if (threads == 1) {
        for (size_t i = 0; i < count; i++) begin(&runs[i], &z[i]);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (size_t i = 0; i < count; i++) begin(&runs[i], &z[i]);
}

static void next_all(lipsc_svd_run *runs, lipsc_lanczos **z, const turn *t,
                     lipsc_status made, int threads) {
    if (threads == 1) {
        for (size_t i = 0; i < t->count; i++) next(&runs[t->who[i]], z[t->who[i]], made);
        return;
    }
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (size_t i = 0; i < t->count; i++) next(&runs[t->who[i]], z[t->who[i]], made);
}

static void go(size_t count, lipsc_svd_run *runs, lipsc_lanczos **z, turn *t,
               lipsc_products *products, int threads) {
    const int together = threads == 1 && lipsc_svd_sums_together(runs->space);
    begin_all(count, runs, z, threads);
    for (int trans = 0, idle = 0; idle < 2; trans = !trans) {
        collect(count, runs, trans, t);
        idle = t->count ? 0 : idle + 1;
        if (!t->count) continue;
        const lipsc_status made = make(runs, trans, t, products);
        if (together)
            next_together(runs, z, t, made);
        else
            next_all(runs, z, t, made, threads);
    }
}

void lipsc_svd_lockstep(size_t count, lipsc_svd_run *runs, lipsc_products *products,
                        int threads) {
    lipsc_lanczos **z = lipsc_alloc_zero(count, sizeof *z);
    turn t = {.who = lipsc_alloc(count, sizeof *t.who),
              .product = lipsc_alloc(count, sizeof *t.product),
              .orth = lipsc_alloc(count + 1, sizeof *t.orth),
              .whose = lipsc_alloc(count + 1, sizeof *t.whose)};
    const int ready = z && t.who && t.product && t.orth && t.whose;
    if (ready) go(count, runs, z, &t, products, count > 1 ? threads : 1);
    for (size_t i = 0; i < count; i++)
        runs[i].status = ready && z[i] ? lipsc_lanczos_end(z[i]) : LIPSC_E_NOMEM;
    lipsc_release(z);
    lipsc_release(t.who);
    lipsc_release(t.product);
    lipsc_release(t.orth);
    lipsc_release(t.whose);
}
