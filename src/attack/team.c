/* team.c - climbs of one search that several ranks share.
 *
 * Every rank has all of them, and goes on with every K-th; then they tell each other where
 * theirs have come to.  A climb does not depend on its neighbours: all that is found, and
 * the order in which it is compared, is that of one process. */
#include "attack/search.h"
#include "core/mem.h"

#include <string.h>

static int is_shared(const lipsc_search *s) { return lipsc_ranks_count(s->ranks) > 1; }

/* What is told of a climb, before its arrays. */
typedef struct {
    double sigma, step, mark;
    uint64_t begun, finished, iterations, marked, looks;
    char start[sizeof((lipsc_spot *)0)->start];
} heading;

static size_t record_bytes(const lipsc_search *s) {
    return sizeof(heading) + (2 * s->region.size + s->in) * sizeof(double);
}

static void write_record(const lipsc_search *s, const lipsc_climb *from, char *to) {
    const size_t size = s->region.size * sizeof(double), in = s->in * sizeof(double);
    heading head = {.sigma = from->spot.sigma,
                    .step = from->step,
                    .mark = from->mark,
                    .begun = (uint64_t)from->begun,
                    .finished = (uint64_t)from->finished,
                    .iterations = from->iterations,
                    .marked = from->marked,
                    .looks = from->looks};
    memcpy(head.start, from->spot.start, sizeof head.start);
    memcpy(to, &head, sizeof head);
    to += sizeof head;
    memcpy(to, from->spot.y, size);
    memcpy(to + size, from->g, size);
    memcpy(to + 2 * size, from->spot.v, in);
}

static void read_record(const lipsc_search *s, const char *from, lipsc_climb *to) {
    const size_t size = s->region.size * sizeof(double), in = s->in * sizeof(double);
    heading head;
    memcpy(&head, from, sizeof head);
    from += sizeof head;
    to->spot.sigma = head.sigma;
    to->step = head.step;
    to->mark = head.mark;
    to->begun = head.begun != 0;
    to->finished = head.finished != 0;
    to->iterations = (size_t)head.iterations;
    to->marked = (size_t)head.marked;
    to->looks = head.looks;
    memcpy(to->spot.start, head.start, sizeof head.start);
    memcpy(to->spot.y, from, size);
    memcpy(to->g, from + size, size);
    memcpy(to->spot.v, from + 2 * size, in);
}

/* Climbs row K .. row K + K - 1, of which each rank tells one. */
static lipsc_status exchange_row(lipsc_search *s, size_t count, lipsc_climb *climbs,
                                 size_t row, char *own, char *all) {
    const size_t ranks = lipsc_ranks_count(s->ranks), bytes = record_bytes(s);
    const size_t mine = row * ranks + lipsc_ranks_number(s->ranks);
    if (mine < count) write_record(s, &climbs[mine], own);
    const lipsc_status status = lipsc_ranks_gather(s->ranks, bytes, own, all);
    for (size_t r = 0; r < ranks && !status; r++)
        if (row * ranks + r < count && row * ranks + r != mine)
            read_record(s, all + r * bytes, &climbs[row * ranks + r]);
    return status;
}

static lipsc_status exchange(lipsc_search *s, size_t count, lipsc_climb *climbs) {
    const size_t ranks = lipsc_ranks_count(s->ranks);
    char *room = lipsc_alloc_zero(ranks + 1, record_bytes(s));
    lipsc_status status = lipsc_team_agree(s, room ? LIPSC_OK : LIPSC_E_NOMEM);
    for (size_t row = 0; row * ranks < count && !status; row++)
        status = exchange_row(s, count, climbs, row, room, room + record_bytes(s));
    lipsc_release(room);
    return status;
}

/* Looks and iterations of all ranks. */
static lipsc_status add_up(lipsc_search *s, long evaluations, size_t passed) {
    const size_t ranks = lipsc_ranks_count(s->ranks);
    const uint64_t own[2] = {(uint64_t)(s->evaluations - evaluations), s->passed - passed};
    uint64_t *all = lipsc_alloc(ranks, sizeof own);
    lipsc_status status = lipsc_team_agree(s, all ? LIPSC_OK : LIPSC_E_NOMEM);
    if (!status) status = lipsc_ranks_gather(s->ranks, sizeof own, own, all);
    s->evaluations = evaluations;
    s->passed = passed;
    for (size_t r = 0; r < ranks && !status; r++) {
        s->evaluations += (long)all[2 * r];
        s->passed += (size_t)all[2 * r + 1];
    }
    lipsc_release(all);
    return status;
}

lipsc_status lipsc_team_agree(const lipsc_search *s, lipsc_status own) {
    const size_t ranks = lipsc_ranks_count(s->ranks);
    const int mine = (int)own;
    if (!is_shared(s)) return own;
    int *all = lipsc_alloc_zero(ranks, sizeof *all);
    if (!all) return LIPSC_E_NOMEM; /* a few bytes: the process is at its end */
    lipsc_status status = lipsc_ranks_gather(s->ranks, sizeof mine, &mine, all);
    for (size_t r = 0; r < ranks && !status; r++) status = (lipsc_status)all[r];
    lipsc_release(all);
    return status;
}

/* Every K-th of them. */
static lipsc_status climb_own(lipsc_search *s, size_t count, lipsc_climb *climbs,
                              size_t iterations) {
    const size_t ranks = lipsc_ranks_count(s->ranks), number = lipsc_ranks_number(s->ranks);
    lipsc_climb *own = lipsc_alloc(count / ranks + 1, sizeof *own);
    lipsc_status status = own ? LIPSC_OK : LIPSC_E_NOMEM;
    size_t mine = 0;
    for (size_t i = number; i < count && !status; i += ranks) own[mine++] = climbs[i];
    if (mine) status = lipsc_climbs_go(s, mine, own, iterations);
    for (size_t i = 0; i < mine; i++) climbs[number + i * ranks] = own[i];
    lipsc_release(own);
    return status;
}

lipsc_status lipsc_team_climb(lipsc_search *s, size_t count, lipsc_climb *climbs,
                              size_t iterations) {
    const long evaluations = s->evaluations;
    const size_t passed = s->passed;
    if (!is_shared(s)) return lipsc_climbs_go(s, count, climbs, iterations);
    if (count < 2) /* each the same */
        return lipsc_team_agree(s, lipsc_climbs_go(s, count, climbs, iterations));
    const lipsc_status climbed = climb_own(s, count, climbs, iterations);
    lipsc_status status = exchange(s, count, climbs);
    if (!status) status = add_up(s, evaluations, passed);
    return lipsc_team_agree(s, status ? status : climbed);
}
