/* share.c - claims that several ranks share: every rank goes through the same computations;
 * pieces are dealt, and their rows go to rank 0, which owns the run file. */
#include <string.h>

#include "claims/claims.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "ranks/deal.h"

int claims_leads(const claims_work *r) { return !lipsc_ranks_number(r->set->ranks); }

int claims_together(claims_work *r) {
    lipsc_ranks *ranks = r->set->ranks;
    uint64_t word = r->status;
    lipsc_error err;
    if (lipsc_ranks_count(ranks) < 2) return !r->status;
    if (!claims_leads(r) && r->status) return 0; /* this rank ends all */
    lipsc_ranks_busy(ranks, 1);
    if (lipsc_ranks_tell(ranks, sizeof word, &word))
        claims_fail(r, lipsc_fail(&err, LIPSC_E_IO, "another rank is out of reach"), &err);
    else if (word)
        r->agreed = 1;
    if (word) claims_fail(r, LIPSC_E_STOPPED, NULL);
    return !r->status;
}

void claims_agree(claims_work *r, lipsc_status status, const lipsc_error *err) {
    if (!status) return;
    r->agreed = 1;
    r->lost = claims_leads(r) && lipsc_ranks_awaited(r->set->ranks);
    claims_fail(r, status, err);
}

json_t *claims_get(claims_work *r, const char *key) {
    json_t *row = NULL;
    lipsc_error err;
    const lipsc_status status = r->run ? lipsc_run_get(r->run, key, &row, &err) : LIPSC_OK;
    if (status) claims_fail(r, status, &err);
    return row;
}

/* ---- Pieces ------------------------------------------------------------------------- */

typedef struct {
    claims_work *r;
    const char *known;
    claims_piece *compute;
    void *ctx;
} pieces;

static int is_open(void *ctx, size_t piece) {
    const pieces *p = ctx;
    return !p->known || !p->known[piece];
}

static lipsc_status compute(void *ctx, size_t piece, lipsc_yield *out, lipsc_error *err) {
    const pieces *p = ctx;
    claims_work *r = p->r;
    r->held = json_object();
    if (!r->held) claims_fail(r, LIPSC_E_NOMEM, NULL);
    if (!r->status) p->compute(r, p->ctx, piece);
    char *text =
        r->held ? lipsc_json_dumps(r->held, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (!text) claims_fail(r, LIPSC_E_NOMEM, NULL);
    *out = (lipsc_yield){text ? strlen(text) + 1 : 0, text};
    json_decref(r->held);
    r->held = NULL;
    return r->status ? lipsc_fail(err, r->status, "%s", r->err.text) : LIPSC_OK;
}

static lipsc_status take(void *ctx, size_t piece, const lipsc_yield *from,
                         lipsc_error *err) {
    const pieces *p = ctx;
    int memory;
    json_t *rows = lipsc_json_load(from->at, from->bytes - 1, 0, NULL, &memory), *row;
    const char *key;
    lipsc_status status =
        rows ? LIPSC_OK : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for rows");
    (void)piece;
    json_object_foreach(rows, key, row) {
        if (!status) status = lipsc_run_put(p->r->run, key, row, err);
    }
    json_decref(rows);
#pragma omp atomic
    p->r->settled++;
    return status;
}

static int stopped(void *ctx) {
    const lipsc_claims_settings *set = ((const pieces *)ctx)->r->set;
    return set->stop && set->stop(set->ctx);
}

void claims_deal(claims_work *r, size_t count, const char *known, claims_piece *piece,
                 void *ctx) {
    pieces p = {r, known, piece, ctx};
    const lipsc_deal deal = {.count = count,
                             .open = is_open,
                             .compute = compute,
                             .take = take,
                             .stop = stopped,
                             .ctx = &p};
    lipsc_error err;
    if (!claims_together(r)) return;
    for (size_t i = 0; i < count; i++) r->pieces += (size_t)is_open(&p, i);
    r->dealt = lipsc_seconds();
    const lipsc_status status = lipsc_ranks_deal(r->set->ranks, &deal, &err);
    r->pieces = r->settled = 0;
    claims_agree(r, status, &err);
}
