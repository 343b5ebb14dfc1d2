/* certify.c - the value found in double, with its direction, and what bounds the whole
 * domain from above. */
#include <math.h>
#include <string.h>

#include "attack/search.h"
#include "bound/zoo.h"
#include "core/error.h"
#include "core/mem.h"

/* ---- From above --------------------------------------------------------------------- */

/* Whether the rule bounds sigma at every input of the region.  Free masses need one that
 * holds for all of them: `atoms` counts on those at hand. */
static int covers(const lipsc_search *s, const lipsc_zoo_row *row) {
    if (*row->refused || row->rule->kind != LIPSC_KIND_UPPER ||
        row->rule->domain != LIPSC_DOMAIN_BALL || !row->comparable)
        return 0;
    return !s->region.masses || row->rule->norm == LIPSC_NORM_W2 ||
           row->rule->norm == LIPSC_NORM_D2;
}

static lipsc_status bound_ball(const lipsc_search *s, lipsc_attn *attn,
                               lipsc_attack_result *out) {
    /* the parametrisation rounds: a token may be longer than the radius by an eps */
    const double reach = lipsc_region_reach(&s->region) * (1.0 + 1e-12);
    lipsc_zoo_case zoo;
    lipsc_status status = lipsc_zoo_case_make(attn, reach, 2.0, NULL, &zoo, NULL);
    for (size_t b = 0; !status && b < lipsc_zoo_count; b++) {
        lipsc_zoo_row row;
        const lipsc_zoo_rule *rule = &lipsc_zoo_rules[b];
        if (rule->kind != LIPSC_KIND_UPPER || rule->domain != LIPSC_DOMAIN_BALL) continue;
        status = lipsc_zoo_evaluate(&zoo, rule, &row);
        if (status || !covers(s, &row)) continue;
        const double log_value = isnan(row.log_value) ? -INFINITY : row.log_value;
        if (!(out->log_upper <= log_value)) out->log_upper = log_value;
    }
    lipsc_zoo_case_free(&zoo);
    return status;
}

/* Tokens near a given input: docs/maths.md 3.15, where attn stands at the centre. */
static lipsc_status bound_around(const lipsc_search *s, lipsc_attn *attn,
                                 lipsc_attack_result *out) {
    lipsc_around found;
    const lipsc_status status =
        lipsc_attn_around(attn, s->region.radius * (1.0 + 1e-12), &found, NULL);
    if (!status) out->log_upper = log(found.value);
    return status;
}

lipsc_status lipsc_search_bound(const lipsc_search *s, lipsc_attack_result *out,
                                lipsc_error *err) {
    const int near = s->region.kind == LIPSC_ATTACK_AROUND && !s->region.masses;
    const lipsc_input input = {.n = out->n,
                               .X = near ? s->region.centre : out->X,
                               .weights = out->weights ? out->weights : s->set->weights,
                               .times = s->set->times};
    lipsc_attn *attn = NULL;
    out->upper = out->log_upper = NAN;
    lipsc_status status =
        lipsc_attn_at(s->packed, NULL, &input, LIPSC_F64, s->set->device, &attn, err);
    if (status) return status;
    status = near ? bound_around(s, attn, out) : bound_ball(s, attn, out);
    lipsc_attn_free(attn);
    if (isfinite(exp(out->log_upper))) out->upper = exp(out->log_upper);
    if (!isfinite(out->log_upper)) out->log_upper = NAN; /* a bound of zero */
    /* no bound: none is told */
    return status == LIPSC_E_NOMEM ? lipsc_fail(err, status, "%s", lipsc_strerror(status))
                                   : LIPSC_OK;
}

/* ---- At the input ------------------------------------------------------------------- */

static lipsc_status allocate(const lipsc_search *s, lipsc_attack_result *out) {
    out->n = s->region.n;
    out->d = s->region.d;
    out->width = s->out / s->region.n;
    if (out->X) return LIPSC_OK; /* of a spot certified before */
    out->X = lipsc_alloc(s->in, sizeof *out->X);
    out->v = lipsc_alloc(s->in, sizeof *out->v);
    out->u = lipsc_alloc(s->out, sizeof *out->u);
    if (s->region.masses) out->weights = lipsc_alloc(out->n, sizeof *out->weights);
    return out->X && out->v && out->u && (out->weights || !s->region.masses)
               ? LIPSC_OK
               : LIPSC_E_NOMEM;
}

lipsc_status lipsc_search_certify(lipsc_search *s, const lipsc_spot *spot,
                                  lipsc_attack_result *out, lipsc_error *err) {
    enum { PRODUCTS = 2000 };
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_attn *attn = NULL;
    lipsc_status status = allocate(s, out);
    if (status) return lipsc_fail(err, status, "%s", lipsc_strerror(status));
    lipsc_region_place(&s->region, spot->y, out->X, out->weights);
    const lipsc_input input = {.n = out->n,
                               .X = out->X,
                               .weights = out->weights ? out->weights : s->set->weights,
                               .times = s->set->times,
                               .positions = s->set->positions};
    status = lipsc_attn_at(s->packed, NULL, &input, LIPSC_F64, s->set->device, &attn, err);
    if (status) return status;
    lipsc_svd_defaults(&set);
    set.tol = s->set->tol;
    set.max_products = PRODUCTS;
    set.seed = s->set->seed;
    if (s->dense) set.method = LIPSC_DENSE;
    status = lipsc_attn_sigma(attn, &set, &out->sigma, out->u, out->v, &info);
    out->residual = info.residual;
    out->lower = info.lower;
    out->converged = status == LIPSC_OK;
    memcpy(out->start, spot->start, sizeof out->start);
    if (status == LIPSC_E_NOCONV) status = LIPSC_OK;
    if (status) lipsc_fail(err, status, "%s", lipsc_strerror(status));
    lipsc_attn_free(attn);
    return status;
}
