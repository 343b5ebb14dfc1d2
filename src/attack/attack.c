/* attack.c - starts, climbs, and the best of them: the order of things.
 *
 * Climbs are raced: all of them get a part of the iterations, the better half goes on with
 * twice as many, and so on; the best of a search in f32 then goes on in double. */
#include <math.h>
#include <string.h>

#include "attack/plan.h"
#include "attack/search.h"
#include "backend/backend.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

void lipsc_attack_defaults(lipsc_attack_settings *set) {
    *set = (lipsc_attack_settings){.radius = NAN, .iterations = 200, .seed = 1};
}

const char *lipsc_attack_domain_name(lipsc_attack_domain domain) {
    static const char *const names[] = {"ball", "sphere", "norm", "around"};
    return (size_t)domain < sizeof names / sizeof *names ? names[domain] : "unknown";
}

void lipsc_attack_result_free(lipsc_attack_result *result) {
    lipsc_release(result->X);
    lipsc_release(result->weights);
    lipsc_release(result->u);
    lipsc_release(result->v);
    result->X = result->weights = result->u = result->v = NULL;
}

/* ---- Spots -------------------------------------------------------------------------- */

lipsc_status lipsc_spot_new(const lipsc_search *s, lipsc_spot *spot) {
    *spot = (lipsc_spot){.y = lipsc_alloc_zero(s->region.size, sizeof *spot->y),
                         .v = lipsc_alloc_zero(s->in, sizeof *spot->v)};
    return spot->y && spot->v ? LIPSC_OK : LIPSC_E_NOMEM;
}

void lipsc_spot_free(lipsc_spot *spot) {
    lipsc_release(spot->y);
    lipsc_release(spot->v);
    spot->y = spot->v = NULL;
}

void lipsc_spot_copy(const lipsc_search *s, const lipsc_spot *from, lipsc_spot *to) {
    memcpy(to->y, from->y, s->region.size * sizeof *to->y);
    memcpy(to->v, from->v, s->in * sizeof *to->v);
    memcpy(to->start, from->start, sizeof to->start);
    to->sigma = from->sigma;
}

void lipsc_search_keep(lipsc_search *s, const lipsc_spot *spot) {
    if (s->tempered) return;
    if (spot->sigma > s->best.sigma || !*s->best.start) lipsc_spot_copy(s, spot, &s->best);
    s->highest = lipsc_max(s->highest, s->best.sigma);
}

void lipsc_search_precision(lipsc_search *s, lipsc_dtype dtype) {
    s->dtype = dtype;
    s->least_gain = dtype == LIPSC_F32 ? 2e-6 : 1e-10;
}

int lipsc_search_stopped(const lipsc_search *s) {
    return s->set->stop && s->set->stop(s->set->ctx);
}

void lipsc_search_tell(const lipsc_search *s) {
    if (s->set->share && s->planned > 0)
        s->set->share(s->set->ctx, lipsc_min(1.0, (double)s->passed / (double)s->planned));
    if (s->set->progress)
        s->set->progress(s->set->ctx, s->doing, s->evaluations, s->highest);
}

/* ---- The search --------------------------------------------------------------------- */

int lipsc_attack_dense(const lipsc_layer *layer, size_t n) {
    const size_t order = 100;
    return n <= order && n * layer->d <= order && n * lipsc_layer_width(layer) <= order;
}

static size_t restarts_of(const lipsc_attack_settings *set, int dense) {
    enum { FEW = 8, MANY = 32 };
    return set->restarts ? set->restarts : dense ? MANY : FEW;
}

/* How many are worth one batch; of a long input one fills the memory that they may take. */
static size_t inputs_together(const lipsc_search *s) {
    enum { MOST = 16, MOST_TOKENS = 512 };
    const size_t wanted = lipsc_device_table(s->set->device)->batch_tokens;
    const size_t fit = (wanted ? wanted : MOST_TOKENS) / s->region.n;
    return s->dense || fit < 1 ? 1 : min_size(fit, MOST);
}

lipsc_status lipsc_search_open(const lipsc_layer *layer, const lipsc_attack_settings *set,
                               lipsc_search *s, lipsc_error *err) {
    memset(s, 0, sizeof *s);
    s->set = set;
    s->doing = "";
    lipsc_status status = lipsc_packed_new(layer, 0, &s->packed, err);
    if (!status) {
        s->layer = lipsc_packed_layer(s->packed);
        s->whole = *s->layer;
        status = lipsc_region_make(set, s->layer->d, &s->region, err);
    }
    if (status) return status;
    s->in = set->n * s->layer->d;
    if (!lipsc_mul_size(set->n, lipsc_layer_width(s->layer), &s->out))
        return lipsc_fail(err, LIPSC_E_RANGE, "an input of %zu tokens is too large",
                          set->n);
    s->dense = lipsc_attack_dense(s->layer, set->n);
    lipsc_search_precision(s, set->dtype);
    s->together = inputs_together(s);
    s->views = lipsc_alloc_zero(s->together, sizeof *s->views);
    status = s->views ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; i < s->together && !status; i++)
        status = lipsc_view_new(s, &s->views[i]);
    if (!status) status = lipsc_spot_new(s, &s->best);
    if (!status) status = lipsc_spot_new(s, &s->construction);
    return status
               ? lipsc_fail(err, status, "out of memory for an input of %zu tokens", set->n)
               : LIPSC_OK;
}

void lipsc_search_close(lipsc_search *s) {
    for (size_t i = 0; s->views && i < s->together; i++) lipsc_view_free(&s->views[i]);
    lipsc_release(s->views);
    lipsc_spot_free(&s->best);
    lipsc_spot_free(&s->construction);
    lipsc_packed_free(s->packed);
}

/* Best first. */
static void sort_climbs(size_t count, lipsc_climb *climbs) {
    for (size_t i = 1; i < count; i++)
        for (size_t j = i; j > 0 && climbs[j].spot.sigma > climbs[j - 1].spot.sigma; j--) {
            const lipsc_climb t = climbs[j];
            climbs[j] = climbs[j - 1];
            climbs[j - 1] = t;
        }
}

static size_t race_rounds(size_t count) {
    enum { MOST_ROUNDS = 3 }; /* a slow climb is not always a low one */
    size_t rounds = 0;
    while (rounds < MOST_ROUNDS && (count >> rounds) > 1) rounds++;
    return rounds;
}

/* What a race of so many climbs takes at most. */
static size_t race_iterations(size_t count, size_t iterations) {
    size_t rounds = race_rounds(count), total = 0, before = 0;
    for (size_t alive = count;; alive = (alive + 1) / 2, rounds--) {
        total += alive * ((iterations >> rounds) - before);
        before = iterations >> rounds;
        if (rounds == 0) return total;
    }
}

size_t lipsc_attack_iterations(const lipsc_layer *layer, const lipsc_attack_settings *set) {
    const size_t count = restarts_of(set, lipsc_attack_dense(layer, set->n));
    return race_iterations(count, set->iterations) +
           (set->dtype == LIPSC_F64 ? 0 : set->iterations / 2);
}

static lipsc_status race(lipsc_search *s, size_t count, lipsc_climb *climbs) {
    size_t rounds = race_rounds(count);
    lipsc_status status = LIPSC_OK;
    s->doing = "climbing";
    for (size_t alive = count; !status; alive = (alive + 1) / 2, rounds--) {
        status = lipsc_climbs_advance(s, alive, climbs, s->set->iterations >> rounds);
        sort_climbs(alive, climbs);
        if (rounds == 0) break;
    }
    return status;
}

static void begin_again(lipsc_climb *climb) {
    climb->begun = climb->finished = 0;
    climb->iterations = climb->marked = 0;
}

/* Hills of large scores are steep: near their top f32 sees only its own rounding. */
static lipsc_status polish(lipsc_search *s, lipsc_climb *best) {
    if (s->dtype == LIPSC_F64) return LIPSC_OK;
    lipsc_search_precision(s, LIPSC_F64);
    s->doing = "climbing in double";
    begin_again(best);
    return lipsc_climbs_advance(s, 1, best, s->set->iterations / 2);
}

/* Scores multiplied by factor from here on. */
static lipsc_status temper(lipsc_search *s, double factor) {
    lipsc_layer layer = s->whole;
    lipsc_packed *packed;
    layer.scale *= factor;
    const lipsc_status status =
        lipsc_team_agree(s, lipsc_packed_new(&layer, 0, &packed, NULL));
    if (status) return status;
    lipsc_packed_free(s->packed);
    s->packed = packed;
    s->layer = lipsc_packed_layer(packed);
    s->tempered = factor < 1.0;
    return LIPSC_OK;
}

/* Where scores are as large as those of trained layers, a token that hesitates between two
 * others stops to do so after a step of 1/a, and the ridge is too narrow to climb along.
 * With the scores made smaller the ridge is wide and leads to much the same place: the
 * climbs are raced there, and the best follow it while the scores grow back. */
static lipsc_status anneal(lipsc_search *s, size_t count, lipsc_climb *climbs) {
    const size_t followed = min_size(count, 2);
    const double gentle = 25.0, growth = 2.5, enough_for_f32 = 200.0;
    const double first = gentle / s->largest_score;
    s->planned +=
        followed * (size_t)ceil(-log(first) / log(growth)) * (s->set->iterations / 4);
    lipsc_status status = temper(s, first);
    if (!status) status = race(s, count, climbs);
    s->doing = "annealing";
    for (double factor = first * growth, last = first; !status && last < 1.0;
         factor *= growth) {
        last = lipsc_min(factor, 1.0);
        if (last * s->largest_score > enough_for_f32) lipsc_search_precision(s, LIPSC_F64);
        status = temper(s, last);
        for (size_t i = 0; i < followed; i++) begin_again(&climbs[i]);
        if (!status)
            status = lipsc_climbs_advance(s, followed, climbs, s->set->iterations / 4);
    }
    if (!status) lipsc_search_precision(s, s->set->dtype);
    return status;
}

static lipsc_status search(lipsc_search *s) {
    const double narrow = 100.0; /* scores from which ridges are too narrow to climb */
    const size_t count = restarts_of(s->set, s->dense);
    lipsc_climb *climbs = lipsc_alloc_zero(count, sizeof *climbs);
    lipsc_status status = climbs ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; !status && i < count; i++) status = lipsc_climb_new(s, &climbs[i]);
    if (!status) status = lipsc_starts_find(s, count, climbs);
    status = lipsc_team_agree(s, status);
    for (size_t i = 0; !status && i < count; i++) climbs[i].number = i;
    s->planned = race_iterations(count, s->set->iterations);
    if (!status && s->largest_score > narrow) {
        status = anneal(s, count, climbs);
    } else if (!status) {
        if (s->dtype != LIPSC_F64) s->planned += s->set->iterations / 2;
        status = race(s, count, climbs);
        if (!status) status = polish(s, &climbs[0]);
    }
    if (s->tempered) { /* stopped on the way */
        const lipsc_status back = temper(s, 1.0);
        if (back) status = back;
    }
    for (size_t i = 0; climbs && i < count; i++) lipsc_climb_free(&climbs[i]);
    lipsc_release(climbs);
    return status;
}

/* The best spot in double; that of the best construction where, in double, it is better. */
static lipsc_status conclude(lipsc_search *s, lipsc_attack_result *out, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    out->best_construction = NAN;
    double constructed = NAN;
    if (s->construction.sigma > 0.0) {
        status = lipsc_search_certify(s, &s->construction, out, err);
        if (!status) constructed = out->sigma;
    }
    if (!status) status = lipsc_search_certify(s, &s->best, out, err);
    if (!status && out->sigma < constructed)
        status = lipsc_search_certify(s, &s->construction, out, err);
    /* pushed into a small neighbourhood it is a construction no more */
    if (s->set->domain != LIPSC_ATTACK_AROUND) out->best_construction = constructed;
    if (!status) status = lipsc_search_bound(s, out, err);
    out->evaluations = s->evaluations;
    return status;
}

/* A search that could not begin elsewhere. */
static lipsc_status told_all(const lipsc_search *s, lipsc_status own, lipsc_error *err) {
    const lipsc_status status = lipsc_team_agree(s, own);
    return status && !own
               ? lipsc_fail(err, status, "another rank: %s", lipsc_strerror(status))
               : status;
}

lipsc_status lipsc_attack_run(const lipsc_layer *layer, const lipsc_attack_settings *set,
                              lipsc_attack_result *out, lipsc_error *err) {
    return lipsc_attack_run_shared(layer, set, NULL, out, err);
}

lipsc_status lipsc_attack_run_shared(const lipsc_layer *layer,
                                     const lipsc_attack_settings *set, lipsc_ranks *ranks,
                                     lipsc_attack_result *out, lipsc_error *err) {
    const double begin = lipsc_seconds();
    lipsc_search s;
    lipsc_attack_settings used = *set;
    if (used.tol == 0.0) used.tol = 1e-8;
    memset(out, 0, sizeof *out);
    lipsc_status status = lipsc_search_open(layer, &used, &s, err), outcome;
    s.ranks = ranks;
    status = told_all(&s, status, err);
    outcome = status;
    if (!status) {
        outcome = search(&s);
        if (outcome == LIPSC_E_RANGE)
            status = lipsc_fail(err, outcome,
                                "at radius %g scores are too large for double precision to "
                                "tell them apart",
                                lipsc_region_reach(&s.region));
        else if (outcome && outcome != LIPSC_E_STOPPED)
            status = lipsc_fail(err, outcome, "%s", lipsc_strerror(outcome));
        else if (!*s.best.start && outcome)
            status = lipsc_fail(err, outcome, "stopped before the first value");
        else if (!*s.best.start)
            status = lipsc_fail(err, LIPSC_E_NONFIN,
                                "scores or products overflow at every start");
        else
            status = conclude(&s, out, err);
    }
    lipsc_search_close(&s);
    if (status) lipsc_attack_result_free(out);
    out->seconds = lipsc_seconds() - begin;
    return status ? status : outcome;
}
