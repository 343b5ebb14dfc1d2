/* table.c - every bound of the zoo beside the exact value, as one table. */
#include <math.h>
#include <string.h>

#include "bound/zoo.h"
#include "core/error.h"
#include "core/mem.h"

#define FIELDS(list) \
    (lipsc_fields) { sizeof list / sizeof *list, list }

lipsc_fields lipsc_bound_fields(void) {
    typedef lipsc_bound record;
    static const lipsc_field list[] = {LIPSC_BOUND_LIST(LIPSC_FIELD_ENTRY)};
    return FIELDS(list);
}

lipsc_fields lipsc_regime_fields(void) {
    typedef lipsc_regime record;
    static const lipsc_field list[] = {LIPSC_REGIME_LIST(LIPSC_FIELD_ENTRY)};
    return FIELDS(list);
}

lipsc_fields lipsc_neighbourhood_fields(void) {
    typedef lipsc_neighbourhood record;
    static const lipsc_field list[] = {LIPSC_NEIGHBOURHOOD_LIST(LIPSC_FIELD_ENTRY)};
    return FIELDS(list);
}

void lipsc_bounds_defaults(lipsc_bounds_settings *set) {
    *set = (lipsc_bounds_settings){.radius = NAN, .p = 4.0, .around = NAN, .below = NAN};
}

void lipsc_bounds_free(lipsc_bounds *bounds) {
    lipsc_release(bounds->at);
    lipsc_release(bounds->storage);
    *bounds = (lipsc_bounds){0};
}

/* ---- The neighbourhood --------------------------------------------------------------- */

double lipsc_mean_token(size_t n, size_t d, const double *X) {
    double sum = 0.0;
    for (size_t i = 0; i < n; i++) {
        double length = 0.0;
        for (size_t c = 0; c < d; c++) length = hypot(length, X[i * d + c]);
        sum += length / (double)n; /* a sum of lengths may overflow */
    }
    return sum;
}

/* The ball of the case becomes the one that holds the neighbourhood. */
static lipsc_status find_around(const lipsc_bounds_settings *set, lipsc_zoo_case *zoo,
                                lipsc_bounds *out, lipsc_error *err) {
    const lipsc_input *input = &zoo->attn->input;
    lipsc_around found;
    lipsc_status status;
    if (isnan(set->around) && isnan(set->below)) return LIPSC_OK;
    const double mean = lipsc_mean_token(input->n, zoo->layer->d, input->X);
    if (isnan(set->below))
        status =
            lipsc_around_at(zoo, set->around * (set->relative ? mean : 1.0), &found, err);
    else
        status = lipsc_around_below(zoo, set->below, &found, err);
    if (status) return status;
    out->has_around = 1;
    out->around = (lipsc_neighbourhood){.radius = found.radius,
                                        .relative = found.radius / mean,
                                        .value = found.value,
                                        .ends = found.ends,
                                        .change = found.change,
                                        .point = found.point,
                                        .ball = found.ball,
                                        .below = set->below};
    zoo->radius += found.radius; /* that of the longest token before */
    return LIPSC_OK;
}

/* Whether the row of the neighbourhood stands before this one. */
static int stands_before(double value, const lipsc_zoo_row *row) {
    return *row->refused || row->rule->kind != LIPSC_KIND_UPPER || !row->comparable ||
           log(value) <= row->log_value;
}

static lipsc_bound around_bound(const lipsc_neighbourhood *a, const lipsc_zoo_row *data) {
    return (lipsc_bound){.name = "around",
                         .source = "maths 3.15",
                         .kind = lipsc_bound_kind_name(LIPSC_KIND_UPPER),
                         .norm = lipsc_bound_norm_name(data->norm),
                         .domain = "around",
                         .radius = a->radius,
                         .value = a->value,
                         .log_value = a->value > 0.0 ? log(a->value) : NAN,
                         .sigma = data->sigma,
                         .ratio = data->sigma > 0.0 ? a->value / data->sigma : NAN};
}

/* ---- The rows ------------------------------------------------------------------------ */

static lipsc_bound one_bound(const lipsc_zoo_case *zoo, const lipsc_zoo_row *row) {
    const int compared = row->comparable && row->sigma > 0.0 && !*row->refused;
    const double ratio =
        isnan(row->log_value) ? 0.0 : exp(row->log_value - log(row->sigma));
    return (lipsc_bound){.name = row->rule->name,
                         .source = row->rule->source,
                         .kind = lipsc_bound_kind_name(row->rule->kind),
                         .norm = lipsc_bound_norm_name(row->norm),
                         .domain = lipsc_bound_domain_name(row->rule->domain),
                         .radius =
                             row->rule->domain == LIPSC_DOMAIN_BALL ? zoo->radius : NAN,
                         .value = row->value,
                         .log_value = row->log_value,
                         .sigma = row->sigma,
                         .ratio = compared ? ratio : NAN,
                         .refused = *row->refused ? row->refused : NULL};
}

static void fill(const lipsc_zoo_case *zoo, const lipsc_zoo_row *rows, lipsc_bounds *out) {
    int open = out->has_around;
    const lipsc_zoo_row *data = rows; /* a row in the norm of sigma */
    while (data->rule->norm != LIPSC_NORM_OF_SIGMA) data++;
    for (size_t r = 0; r < lipsc_zoo_count; r++) {
        if (open && stands_before(out->around.value, &rows[r])) {
            out->at[out->count++] = around_bound(&out->around, data);
            open = 0;
        }
        out->at[out->count++] = one_bound(zoo, &rows[r]);
    }
}

static lipsc_status find_regime(const lipsc_zoo_case *zoo, lipsc_bounds *out,
                                lipsc_error *err) {
    const lipsc_status status = lipsc_zoo_regime(zoo, &out->regime, err);
    out->has_regime = !status;
    return status == LIPSC_E_REFUSED || status == LIPSC_E_RANGE ? LIPSC_OK : status;
}

static lipsc_status solve(lipsc_attn *attn, const lipsc_bounds_settings *set,
                          lipsc_bounds *out, lipsc_error *err) {
    lipsc_svd_settings how;
    lipsc_svd_defaults(&how);
    if (attn->dtype == LIPSC_F32) how.tol = 1e-3; /* six digits of sigma */
    how.stop = set->stop;
    how.progress = set->progress;
    how.ctx = set->ctx;
    const lipsc_status status =
        lipsc_attn_sigma(attn, &how, &out->sigma, NULL, NULL, &out->info);
    if (status && status != LIPSC_E_NOCONV)
        lipsc_fail(err, status, "%s", lipsc_strerror(status));
    return status;
}

enum { BELOW_RADII = 14 }; /* until lipsc_around_below knows better */

/* The case costs as much as one radius of a neighbourhood. */
static void count_steps(const lipsc_bounds_settings *set, lipsc_zoo_steps *steps,
                        lipsc_zoo_case *zoo) {
    zoo->steps = steps;
    steps->after = lipsc_zoo_slow_count(zoo) * zoo->layer->heads;
    lipsc_zoo_expect(zoo, 1 + (isnan(set->below) ? !isnan(set->around) : BELOW_RADII));
    lipsc_zoo_step(zoo, zoo->layer->heads);
}

lipsc_status lipsc_zoo_bounds(lipsc_attn *attn, const lipsc_zoo_norm *norm,
                              const lipsc_bounds_settings *set, lipsc_bounds *out,
                              lipsc_error *err) {
    lipsc_zoo_case zoo;
    lipsc_zoo_steps steps = {.told = set->steps, .ctx = set->ctx};
    lipsc_error why = {.text = ""};
    *out = (lipsc_bounds){0};
    memset(&zoo, 0, sizeof zoo);
    const lipsc_status solved = solve(attn, set, out, err);
    if (solved && solved != LIPSC_E_NOCONV) return solved;
    lipsc_zoo_row *rows = out->storage = lipsc_alloc(lipsc_zoo_count, sizeof *rows);
    out->at = lipsc_alloc(lipsc_zoo_count + 1, sizeof *out->at);
    lipsc_status status = rows && out->at ? LIPSC_OK : LIPSC_E_NOMEM;
    if (set->steps) set->steps(set->ctx, 0, 1);
    if (!status)
        status = lipsc_zoo_case_until(attn, set->radius, set->p, norm, set->stop, set->ctx,
                                      &zoo, &why);
    if (!status) count_steps(set, &steps, &zoo);
    if (!status) status = find_around(set, &zoo, out, &why);
    lipsc_zoo_expect(&zoo, 0);
    if (!status) status = lipsc_zoo_evaluate_all(&zoo, out->sigma, rows);
    if (!status) fill(&zoo, rows, out);
    if (!status) status = find_regime(&zoo, out, &why);
    out->n = zoo.n;
    out->radius = zoo.radius;
    out->p = zoo.p;
    lipsc_zoo_case_free(&zoo);
    if (!status) return solved;
    lipsc_bounds_free(out);
    return lipsc_fail(err, status, "%s", *why.text ? why.text : lipsc_strerror(status));
}

lipsc_status lipsc_attn_bounds(lipsc_attn *attn, const lipsc_bounds_settings *set,
                               lipsc_bounds *out, lipsc_error *err) {
    if (!attn || !set || !out) return lipsc_fail(err, LIPSC_E_ARG, "a pointer is NULL");
    return lipsc_zoo_bounds(attn, NULL, set, out, err);
}
