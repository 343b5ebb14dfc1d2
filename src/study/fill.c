/* fill.c - the row of a cell: what was found, of what, and how it was reached. */
#include <math.h>
#include <string.h>

#include "attn/attn.h"
#include "core/extreme.h"
#include "study/result.h"

static void set_spread(lipsc_row *row, const study_result *r) {
    row->entropy = r->spread.entropy;
    row->sink = r->spread.sink;
    row->sink_token = r->spread.sink_token;
    row->sink_norm = r->share.alone;
    row->rest_norm = r->share.rest;
}

/* To nine binary digits, which are far below the error of an estimate: lists stay short in
 * files. */
static double few_digits(double x) {
    int exponent;
    const double part = frexp(x, &exponent);
    return isfinite(x) ? ldexp(nearbyint(ldexp(part, 9)), exponent - 9) : x;
}

static void set_influence(lipsc_row *row, size_t n, double *strengths) {
    for (size_t j = 0; j < n; j++) strengths[j] = few_digits(strengths[j]);
    row->influence = (lipsc_reals){n, strengths};
}

static void set_details(lipsc_row *row, const study_result *r) {
    row->token = r->influence.token;
    row->token_norm = r->influence.token_norm;
    row->pair_from = r->influence.pair_from;
    row->pair_to = r->influence.pair_to;
    row->pair_norm = r->influence.pair_norm;
}

void lipsc_row_set_certificate(lipsc_row *row, const lipsc_certificate *found) {
    row->certified = found->certified;
    row->certificate = found->rung;
    row->certify_products = found->products;
}

/* What the row says of its origin, so that it can stand alone. */
static void set_origin(const lipsc_study *study, lipsc_row *row) {
    row->experiment = study->set.experiment;
    row->model = study->set.model;
    row->architecture = study->info->architecture;
    row->version = lipsc_version();
    row->model_hash = study->info->hash;
    row->text_hash = study->source.hash;
    row->seed = (long long)study->set.seed;
    row->tol = lipsc_study_tol(&study->set);
}

void lipsc_row_set_radius(lipsc_row *row, size_t n, size_t d, const double *X) {
    double sum = 0.0, largest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double square = 0.0;
        for (size_t c = 0; c < d; c++) square += X[i * d + c] * X[i * d + c];
        sum += square;
        largest = lipsc_max(largest, square);
    }
    row->radius_rms = sqrt(sum / (double)n);
    row->radius_max = sqrt(largest);
}

void lipsc_row_set_solve(lipsc_row *row, double sigma, const lipsc_svd_info *info) {
    row->sigma = sigma;
    row->lower = info->lower;
    row->upper_prob = info->upper_prob;
    row->probability = info->probability;
    row->residual = info->residual;
    row->products = info->products;
    row->converged = info->converged;
}

static void set_value(const study_result *r, lipsc_row *row) {
    lipsc_row_set_solve(row, r->sigma[0], &r->info);
    row->lower = r->lower;
    row->upper = r->upper;
    row->released = r->released;
    row->routing_gap = r->routing_gap;
    row->seconds = r->seconds;
}

unsigned lipsc_study_parts(const lipsc_study_settings *s) {
    return LIPSC_ROW_UPPER | (s->count ? LIPSC_ROW_COUNT : 0) |
           (s->as_released ? LIPSC_ROW_RELEASED : 0) |
           (s->details ? LIPSC_ROW_DETAILS : 0) |
           (s->details || s->sink ? LIPSC_ROW_SPREAD : 0) | (s->sink ? LIPSC_ROW_SINK : 0) |
           (s->certify > 0.0 ? LIPSC_ROW_CERTIFY : 0) |
           (s->experiment ? LIPSC_ROW_EXPERIMENT : 0);
}

static void set_place(const lipsc_study *study, const study_cell *cell, lipsc_attn *attn,
                      lipsc_row *row) {
    const lipsc_mask *other = study->set.mask_override;
    row->layer = cell->layer;
    row->head = cell->head;
    row->map = lipsc_map_name(study->set.map);
    row->mask = lipsc_mask_name(attn    ? attn->layer.mask
                                : other ? *other
                                        : study->info->mask);
    row->n = cell->n;
    row->window = cell->window;
    row->start = cell->start;
    row->special = study->set.source.special;
    row->dtype = lipsc_dtype_name(study->set.dtype);
    row->device = lipsc_device_name(study->set.device);
}

void lipsc_study_fill(const lipsc_study *study, const study_cell *cell,
                      const lipsc_acts *acts, lipsc_attn *attn, const study_result *r,
                      study_room *room, lipsc_row *row) {
    const lipsc_study_settings *s = &study->set;
    lipsc_fields_clear(lipsc_row_fields(), row);
    row->parts = lipsc_study_parts(s);
    set_place(study, cell, attn, row);
    set_value(r, row);
    lipsc_row_set_radius(row, cell->n, study->info->d,
                         lipsc_study_input(study, cell, acts));
    if (*r->info.unknown) {
        memcpy(room->rounding, r->info.unknown, sizeof room->rounding);
        row->rounding = room->rounding;
    }
    if (s->count) row->sigmas = (lipsc_reals){s->count, room->sigmas};
    if (r->has_spread) set_spread(row, r);
    if (s->details) {
        set_details(row, r);
        set_influence(row, cell->n, room->influence);
    }
    if (s->certify > 0.0) lipsc_row_set_certificate(row, &r->certificate);
    set_origin(study, row);
}
