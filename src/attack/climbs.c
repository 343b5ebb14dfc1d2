/* climbs.c - climbs side by side: the inputs that they wait for are looked at together, and
 * so are their gradients.
 *
 * As many go on at once as are worth one batch; one that is over makes room for the next.
 * Each has its own random numbers and its own memory, so that it goes the way that it
 * would go alone. */
#include "attack/search.h"
#include "core/extreme.h"
#include "core/mem.h"

/* The climbs that go on, and those that wait for one of them to be over. */
typedef struct {
    size_t count, next, until;
    lipsc_climb *climbs;
    size_t places;
    lipsc_walk *walks;  /* (places) */
    lipsc_view **views; /* (places) of one kind of look */
    lipsc_walk **whose; /* (places) */
} party;

static void party_free(party *p) {
    for (size_t i = 0; p->walks && i < p->places; i++) lipsc_walk_free(&p->walks[i]);
    lipsc_release(p->walks);
    lipsc_release(p->views);
    lipsc_release(p->whose);
}

static lipsc_status party_new(const lipsc_search *s, party *p) {
    p->places = min_size(s->together, p->count);
    p->walks = lipsc_alloc_zero(p->places, sizeof *p->walks);
    p->views = lipsc_alloc(p->places, sizeof *p->views);
    p->whose = lipsc_alloc(p->places, sizeof *p->whose);
    lipsc_status status = p->walks && p->views && p->whose ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < p->places && !status; i++)
        status = lipsc_walk_new(s, &s->views[i], &p->walks[i]);
    return status;
}

/* Free places are filled; whether anybody waits. */
static int gather(lipsc_search *s, party *p) {
    int waiting = 0;
    for (size_t i = 0; i < p->places; i++) {
        lipsc_walk *w = &p->walks[i];
        while (!w->climb && p->next < p->count)
            lipsc_walk_begin(s, w, &p->climbs[p->next++], p->until);
        waiting |= w->waits;
    }
    return waiting;
}

/* Those that wait for one kind of look. */
static lipsc_status look(lipsc_search *s, party *p, lipsc_look kind) {
    size_t count = 0, steep = 0;
    for (size_t i = 0; i < p->places; i++) {
        lipsc_walk *w = &p->walks[i];
        if (!w->waits || w->view->look != kind) continue;
        p->whose[count] = w;
        p->views[count++] = w->view;
    }
    if (!count) return LIPSC_OK;
    lipsc_status status = lipsc_views_look(s, count, p->views);
    for (size_t i = 0; i < count && !status; i++) {
        lipsc_walk_seen(s, p->whose[i]);
        if (p->whose[i]->climb && p->views[i]->slopes) p->whose[steep++] = p->whose[i];
    }
    for (size_t i = 0; i < steep; i++) p->views[i] = p->whose[i]->view;
    if (!status) status = lipsc_views_differentiate(s, steep, p->views);
    for (size_t i = 0; i < steep && !status; i++) lipsc_walk_differentiated(s, p->whose[i]);
    return status;
}

/* Whoever waits sees what it waits for; one that then wants to look around does so, too. */
static lipsc_status turn(lipsc_search *s, party *p) {
    lipsc_status status = LIPSC_OK;
    for (int kind = 0; kind < LIPSC_LOOKS && !status; kind++)
        status = look(s, p, (lipsc_look)kind);
    for (size_t i = 0; i < p->places; i++) lipsc_view_close(&s->views[i]);
    lipsc_search_tell(s);
    return status;
}

lipsc_status lipsc_climbs_go(lipsc_search *s, size_t count, lipsc_climb *climbs,
                             size_t iterations) {
    party p = {.count = count, .until = iterations, .climbs = climbs};
    lipsc_status status = party_new(s, &p);
    while (!status && gather(s, &p))
        status = lipsc_search_stopped(s) ? LIPSC_E_STOPPED : turn(s, &p);
    party_free(&p);
    return status;
}

lipsc_status lipsc_climbs_advance(lipsc_search *s, size_t count, lipsc_climb *climbs,
                                  size_t iterations) {
    const lipsc_status status = lipsc_team_climb(s, count, climbs, iterations);
    for (size_t i = 0; i < count; i++)
        if (climbs[i].begun) lipsc_search_keep(s, &climbs[i].spot);
    return status;
}
