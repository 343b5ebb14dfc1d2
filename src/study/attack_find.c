/* attack_find.c - attacks: the search of one length, and what it is held against. */
#include <math.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "ranks/deal.h"
#include "attack/plan.h"
#include "study/attacks.h"
#include "study/needs.h"

/* ---- What is told and asked meanwhile ------------------------------------------------ */

static void tell(void *ctx, const char *doing, long evaluations, double best) {
    attacks *a = ctx;
    if (best > 0.0) a->found = 1;
    if (a->set->progress) a->set->progress(a->set->ctx, a->n, doing, evaluations, best);
}

/* Lengths count alike. */
static void tell_share(void *ctx, double done) {
    attacks *a = ctx;
    size_t over;
#pragma omp atomic read
    over = a->done;
    const double share = ((double)over + done) / (double)a->out->count;
    if (a->set->share) a->set->share(a->set->ctx, lipsc_min(1.0, share));
}

/* By whoever asks, or because another rank has failed. */
static int interrupted(void *ctx) {
    const attacks *a = ctx;
    return (a->set->stop && a->set->stop(a->set->ctx)) ||
           lipsc_deal_over(a->place->set.ranks);
}

static int stopped(void *ctx) {
    attacks *a = ctx;
    if (interrupted(a)) return 1;
    if (a->found && lipsc_seconds() >= a->deadline) a->late = 1;
    return a->late;
}

/* How many searches one after the other are left, this one included. */
static size_t turns_left(const attacks *a, size_t i) {
    const size_t ranks = a->climbs ? 1 : lipsc_ranks_count(a->place->set.ranks);
    size_t left = 1;
    for (size_t j = 0; j < a->out->count; j++) {
        const int later =
            ranks == 1 || !(a->cost[j] > a->cost[i] || a->cost[j] < a->cost[i])
                ? j > i
                : a->cost[j] < a->cost[i];
        left += later && !a->known[j];
    }
    return (left + ranks - 1) / ranks;
}

/* What is left of the time is shared by the lengths that are left. */
static void begin_clock(attacks *a, size_t i) {
    const double now = lipsc_seconds();
    a->n = a->lengths[i];
    a->found = a->late = 0;
    a->deadline = a->set->seconds > 0.0
                      ? now + lipsc_max(0.0, a->start + a->set->seconds - now) /
                                  (double)turns_left(a, i)
                      : INFINITY;
}

/* ---- Ranks that share a search --------------------------------------------------------
 */

typedef struct {
    int status, late, ended;
} standing;

lipsc_status attack_agree(attacks *a, lipsc_status own, lipsc_error *err) {
    lipsc_ranks *ranks = a->place->set.ranks;
    const size_t count = lipsc_ranks_count(ranks);
    const standing here = {(int)own, a->late, interrupted(a)};
    standing *all = lipsc_alloc(count, sizeof *all);
    if (!all || lipsc_ranks_gather(ranks, sizeof here, &here, all)) {
        lipsc_release(all);
        return lipsc_fail(err, LIPSC_E_IO, "another rank is out of reach");
    }
    int late = 0, ended = 0, other = 0;
    for (size_t r = 0; r < count; r++) {
        late |= all[r].late;
        ended |= all[r].ended;
        if (!other) other = all[r].status;
    }
    a->late = late && !ended; /* the deadline of one is that of all */
    lipsc_release(all);
    if (own || !other) return own;
    return lipsc_fail(err, (lipsc_status)other, "another rank: %s",
                      lipsc_strerror((lipsc_status)other));
}

/* ---- What it is to be held against --------------------------------------------------- */

/* sigma of the input that was given. */
static lipsc_status find_given(attacks *a, const lipsc_attack_settings *aim, double *sigma,
                               lipsc_error *err) {
    lipsc_attn *attn = NULL;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    const lipsc_input input = {.n = aim->n,
                               .X = aim->data,
                               .weights = aim->weights,
                               .times = aim->times,
                               .positions = aim->positions};
    *sigma = NAN;
    if (!aim->data || aim->masses) return LIPSC_OK;
    lipsc_svd_defaults(&set);
    set.stop = interrupted;
    set.ctx = a;
    lipsc_status status = lipsc_attn_new(&a->place->layer, &input, LIPSC_F64,
                                         a->place->set.device, &attn, err);
    if (!status) status = lipsc_attn_sigma(attn, &set, sigma, NULL, NULL, &info);
    lipsc_attn_free(attn);
    if (status && status != LIPSC_E_STOPPED) *sigma = NAN; /* it may lie where none is */
    return status == LIPSC_E_STOPPED || status == LIPSC_E_NOMEM ? status : LIPSC_OK;
}

/* How far the search moved each token of the input that was given. */
static lipsc_status find_moved(const attacks *a, const lipsc_attack_settings *aim,
                               attack_find *out) {
    const size_t n = aim->n, d = a->place->layer.d;
    const double *X = out->found.X;
    if (!aim->data || aim->masses) return LIPSC_OK;
    double *moved = out->moved = lipsc_alloc(n, sizeof *moved);
    if (!moved) return LIPSC_E_NOMEM;
    for (size_t i = 0; i < n; i++) {
        moved[i] = 0.0;
        for (size_t c = 0; c < d; c++)
            moved[i] = hypot(moved[i], X[i * d + c] - aim->data[i * d + c]);
    }
    out->row.moved = (lipsc_reals){n, moved};
    out->row.relative = aim->radius / lipsc_mean_token(n, d, aim->data);
    return LIPSC_OK;
}

/* ---- Together ------------------------------------------------------------------------ */

static void fill(const lipsc_attack_settings *aim, double given, attack_find *out) {
    const lipsc_attack_result *r = &out->found;
    out->row = (lipsc_attack_row){.n = r->n,
                                  .given = given,
                                  .relative = NAN,
                                  .radius = aim->radius,
                                  .domain = lipsc_attack_domain_name(aim->domain),
                                  .start = r->start,
                                  .sigma = r->sigma,
                                  .lower = r->lower,
                                  .residual = r->residual,
                                  .converged = r->converged,
                                  .best_construction = r->best_construction,
                                  .upper = r->upper,
                                  .log_upper = r->log_upper,
                                  .evaluations = r->evaluations,
                                  .seconds = r->seconds};
}

/* LIPSC_OK also where the deadline has ended it. */
static lipsc_status search(attacks *a, lipsc_attack_settings *aim, attack_find *out,
                           lipsc_error *err) {
    aim->progress = tell;
    aim->share = tell_share;
    aim->stop = stopped;
    aim->ctx = a;
    lipsc_status status = lipsc_attack_run_shared(
        &a->place->layer, aim, a->climbs ? a->place->set.ranks : NULL, &out->found, err);
    if (a->climbs) status = attack_agree(a, status, err);
    return status == LIPSC_E_STOPPED && a->late && out->found.X ? LIPSC_OK : status;
}

static lipsc_attack_settings wanted(const attacks *a, size_t n) {
    const lipsc_attacks_settings *s = a->set;
    lipsc_attack_settings aim;
    lipsc_attack_defaults(&aim);
    aim.n = n;
    aim.seed = s->seed;
    aim.device = a->place->set.device;
    aim.dtype = a->dtype;
    aim.tol = s->tol;
    aim.iterations = s->iterations;
    aim.restarts = s->restarts;
    return aim;
}

/* Ranks take a length each, of which the longest is nobody's share but one's, or climbs. */
double attack_seconds(const attacks *a) {
    const int threads = lipsc_device_threads(a->place->set.device);
    double all = 0.0, longest = 0.0;
    for (size_t i = 0; i < a->out->count; i++) {
        const lipsc_attack_settings aim = wanted(a, a->lengths[i]);
        if (a->known[i]) continue;
        const double one = lipsc_study_attack_seconds(&a->place->layer, &aim, threads);
        all += one;
        longest = lipsc_max(longest, one);
    }
    if (a->climbs) longest = 0.0;
    return lipsc_max(longest, all / (double)lipsc_ranks_count(a->place->set.ranks));
}

lipsc_status attack_search(attacks *a, size_t i, attack_find *out, lipsc_error *err) {
    lipsc_attack_settings aim = wanted(a, a->lengths[i]);
    double given;
    *out = (attack_find){.row.n = LIPSC_NONE};
    begin_clock(a, i);
    lipsc_status status = attack_aim(a, a->n, &aim, err);
    if (!status) status = find_given(a, &aim, &given, err);
    if (a->climbs) status = attack_agree(a, status, err);
    if (status) return status;
    status = search(a, &aim, out, err);
    if ((status && status != LIPSC_E_STOPPED) || !out->found.X) return status;
    fill(&aim, given, out);
    out->finished = !status;
    if (find_moved(a, &aim, out))
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    return status;
}

void attack_find_free(attack_find *find) {
    lipsc_attack_result_free(&find->found);
    lipsc_release(find->moved);
    find->moved = NULL;
}
