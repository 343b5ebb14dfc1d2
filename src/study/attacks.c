/* attacks.c - the worst input of every length: searches, which ranks may share, rows that
 * are kept, and how sigma grows. */
#include <math.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>

#include "backend/backend.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "row/pack.h"
#include "ranks/deal.h"
#include "run/growth.h"
#include "study/attacks.h"

lipsc_fields lipsc_attack_fields(void) {
    typedef lipsc_attack_row record;
    static const lipsc_field list[] = {LIPSC_ATTACK_LIST(LIPSC_FIELD_ENTRY)};
    return (lipsc_fields){sizeof list / sizeof *list, list};
}

void lipsc_attacks_defaults(lipsc_attacks_settings *set) {
    lipsc_attack_settings one;
    lipsc_attack_defaults(&one);
    *set = (lipsc_attacks_settings){.radius = NAN,
                                    .dtype = -1,
                                    .restarts = one.restarts,
                                    .iterations = one.iterations,
                                    .seed = one.seed};
}

typedef struct {
    lipsc_pool pool;
    double *slopes;
} storage;

/* ---- How sigma grows ----------------------------------------------------------------- */

static void fit(attacks *a) {
    lipsc_attacks *out = a->out;
    const lipsc_place *p = a->place;
    lipsc_fit_point *points = lipsc_alloc(out->count, sizeof *points);
    double *slopes = a->slopes;
    lipsc_fit found;
    size_t used = 0;
    for (size_t i = 0; points && i < out->count; i++)
        if (out->rows[i].n != LIPSC_NONE)
            points[used++] = (lipsc_fit_point){
                .n = a->lengths[i], .x = (double)a->lengths[i], .y = out->rows[i].sigma};
    out->has_law = points && slopes &&
                   !lipsc_fit_power(used, points, a->set->seed, &found, slopes, NULL);
    lipsc_release(points);
    if (!out->has_law) return;
    lipsc_fields_clear(lipsc_growth_fields(), &out->law);
    if (p->info) out->law.layer = p->set.layer;
    if (p->info && p->set.head >= 0) out->law.head = (size_t)p->set.head;
    out->law.map = p->layer.O ? "attention" : "heads";
    out->law.against = "n";
    lipsc_growth_set(&out->law, &found, slopes, NULL);
}

/* ---- Lengths, which ranks may share ----------------------------------------------------
 */

/* An input on its way to rank 0, which writes its file. */
static lipsc_status pack(const attack_find *find, lipsc_yield *out) {
    const lipsc_attack_result *r = &find->found;
    const size_t in = r->n * r->d;
    lipsc_packet to = {.at = NULL};
    lipsc_pack_record(&to, lipsc_attack_fields(), &find->row);
    lipsc_pack(&to, sizeof find->finished, &find->finished);
    lipsc_pack(&to, sizeof r->sigma, &r->sigma);
    lipsc_pack_reals(&to, in, r->X);
    lipsc_pack_reals(&to, r->n, r->weights);
    lipsc_pack_reals(&to, r->n * r->width, r->u);
    lipsc_pack_reals(&to, in, r->v);
    *out = (lipsc_yield){to.bytes, to.at};
    return to.bad ? LIPSC_E_NOMEM : LIPSC_OK;
}

/* Its arrays are the pool's. */
static int unpack(const lipsc_yield *from, lipsc_pool *pool, attack_find *find) {
    lipsc_unpacking at = {from->at, (const char *)from->at + from->bytes, 0};
    lipsc_attack_result *r = &find->found;
    size_t count;
    *find = (attack_find){.finished = 0};
    lipsc_unpack_record(&at, lipsc_attack_fields(), pool, &find->row);
    lipsc_unpack(&at, sizeof find->finished, &find->finished);
    lipsc_unpack(&at, sizeof r->sigma, &r->sigma);
    r->X = (double *)(uintptr_t)lipsc_unpack_reals(&at, pool, &count);
    r->weights = (double *)(uintptr_t)lipsc_unpack_reals(&at, pool, &count);
    r->u = (double *)(uintptr_t)lipsc_unpack_reals(&at, pool, &count);
    r->v = (double *)(uintptr_t)lipsc_unpack_reals(&at, pool, &count);
    r->n = find->row.n;
    return !at.bad;
}

static int is_open(void *ctx, size_t i) { return !((const attacks *)ctx)->known[i]; }

static lipsc_status compute(void *ctx, size_t i, lipsc_yield *out, lipsc_error *err) {
    attack_find find;
    lipsc_status status = attack_search(ctx, i, &find, err);
    if (status == LIPSC_E_NOMEM) lipsc_fail(err, status, "out of memory for an attack");
    if (find.row.n != LIPSC_NONE && pack(&find, out))
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an input");
    attack_find_free(&find);
    return status;
}

static lipsc_status take(void *ctx, size_t i, const lipsc_yield *from, lipsc_error *err) {
    attacks *a = ctx;
    lipsc_pool pool = {NULL};
    attack_find find;
    const lipsc_status status =
        unpack(from, &pool, &find)
            ? attack_keep(a, i, &find, err)
            : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an input");
    lipsc_pool_free(&pool);
#pragma omp atomic
    a->done++;
    return status;
}

static int asked_to_stop(void *ctx) {
    const lipsc_attacks_settings *set = ((const attacks *)ctx)->set;
    return set->stop && set->stop(set->ctx);
}

/* Of a GPU nothing is known before. */
static void tell_plan(const attacks *a) {
    const lipsc_place *p = a->place;
    const int of_cpu = !lipsc_device_table(p->set.device)->batch_tokens;
    if (a->set->plan && of_cpu && !lipsc_ranks_number(p->set.ranks))
        a->set->plan(a->set->ctx, attack_seconds(a));
}

/* ---- Climbs of one length after the other -----------------------------------------------
 */

/* Whether the longest would keep one rank busy when the others have nothing left. */
static int shares_climbs(const attacks *a) {
    const size_t ranks = lipsc_ranks_count(a->place->set.ranks);
    double all = 0.0, longest = 0.0;
    for (size_t i = 0; i < a->out->count; i++) {
        if (a->known[i]) continue;
        all += a->cost[i];
        longest = lipsc_max(longest, a->cost[i]);
    }
    return ranks > 1 && longest > all / (double)ranks;
}

/* Of a search that all have made: rank 0 keeps it, and tells how it goes on. */
static lipsc_status keep_together(attacks *a, size_t i, attack_find *find,
                                  lipsc_status found, lipsc_error *err) {
    lipsc_ranks *ranks = a->place->set.ranks;
    int end = (int)found;
    if (!lipsc_ranks_number(ranks) && find->row.n != LIPSC_NONE) {
        const lipsc_status kept = attack_keep(a, i, find, err);
        if (kept) end = (int)kept;
        a->done++;
    }
    if (lipsc_ranks_tell(ranks, sizeof end, &end))
        return lipsc_fail(err, LIPSC_E_IO, "another rank is out of reach");
    return (lipsc_status)end;
}

static lipsc_status climb_together(attacks *a, lipsc_error *err) {
    lipsc_ranks *ranks = a->place->set.ranks;
    lipsc_status status = LIPSC_OK;
    for (size_t i = 0; i < a->out->count && !status; i++) {
        attack_find find;
        if (a->known[i]) continue;
        lipsc_status found = attack_search(a, i, &find, err);
        if (found == LIPSC_E_NOMEM) lipsc_fail(err, found, "out of memory for an attack");
        found = attack_agree(a, found, err);
        status = keep_together(a, i, &find, found, err);
        attack_find_free(&find);
    }
    lipsc_ranks_busy(ranks, 0);
    return status == LIPSC_E_STOPPED ? lipsc_fail(err, status, "stopped") : status;
}

static lipsc_status deal_lengths(attacks *a, lipsc_error *err) {
    const lipsc_deal deal = {.count = a->out->count,
                             .cost = lipsc_ranks_count(a->place->set.ranks) > 1 ? a->cost
                                                                                : NULL,
                             .open = is_open,
                             .compute = compute,
                             .take = take,
                             .stop = asked_to_stop,
                             .ctx = a};
    const lipsc_status status = a->climbs
                                    ? climb_together(a, err)
                                    : lipsc_ranks_deal(a->place->set.ranks, &deal, err);
    for (size_t i = a->out->count; status && i-- > 0;)
        if (a->out->rows[i].n == LIPSC_NONE) a->out->missing = a->lengths[i];
    return status;
}

/* ---- Together ------------------------------------------------------------------------ */

/* Rows that are there already. */
static lipsc_status look_up(attacks *a, lipsc_error *err) {
    lipsc_status status = attack_check_folder(a, err);
    if (!status && a->set->run_file) status = attack_open_run(a, err);
    for (size_t i = 0; a->run && i < a->out->count && !status; i++) {
        status = attack_restore(a, i, err);
        a->done += (size_t)a->known[i];
    }
    return status;
}

/* All ranks have read the same, and know what is known. */
static lipsc_status begin(attacks *a, lipsc_error *err) {
    lipsc_ranks *ranks = a->place->set.ranks;
    lipsc_status status = attack_plan(a, err);
    if (!status && !lipsc_ranks_number(ranks)) status = look_up(a, err);
    char said[LIPSC_RANKS_SAID] = "";
    if (!status && ranks) attack_say(a, sizeof said, said);
    status = lipsc_ranks_meet(ranks, status, said, err);
    if (!status && lipsc_ranks_count(ranks) > 1 &&
        lipsc_ranks_tell(ranks, a->out->count, a->known))
        status = lipsc_fail(err, LIPSC_E_IO, "another rank is out of reach");
    return status;
}

lipsc_status lipsc_place_attack(lipsc_place *place, const lipsc_attacks_settings *set,
                                lipsc_attacks *out, lipsc_error *err) {
    *out = (lipsc_attacks){.missing = LIPSC_NONE};
    storage *room = out->storage = lipsc_alloc_zero(1, sizeof *room);
    if (!room) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    attacks a = {.place = place,
                 .set = set,
                 .dtype = set->dtype >= 0 ? (lipsc_dtype)set->dtype
                          : place->info   ? LIPSC_F32
                                          : LIPSC_F64,
                 .out = out,
                 .pool = &room->pool,
                 .start = lipsc_seconds()};
    lipsc_status status = begin(&a, err);
    const int threads = omp_get_max_threads(); /* the dense algebra follows OpenMP */
    omp_set_num_threads(lipsc_device_threads(place->set.device));
    a.climbs = !status && shares_climbs(&a);
    if (!status) tell_plan(&a);
    if (!status) status = deal_lengths(&a, err);
    omp_set_num_threads(threads);
    a.slopes = room->slopes = lipsc_alloc(out->count, sizeof *room->slopes);
    if (out->rows) fit(&a);
    lipsc_run_close(a.run);
    lipsc_release(a.norm.gain);
    lipsc_release(a.lengths);
    lipsc_release(a.cost);
    lipsc_release(a.known);
    return status;
}

void lipsc_attacks_free(lipsc_attacks *found) {
    storage *room = found->storage;
    if (room) {
        lipsc_pool_free(&room->pool);
        lipsc_release(room->slopes);
    }
    lipsc_release(room);
    lipsc_release(found->rows);
    *found = (lipsc_attacks){0};
}
