/* layer_row.c - the row of one layer at one input. */
#include "lipscope/layer_row.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attn/attn.h"
#include "core/clock.h"
#include "core/error.h"
#include "core/mem.h"
#include "lipscope/bound.h"
#include "study/alike.h"
#include "study/needs.h"
#include "study/result.h"
#include "study/save.h"

void lipsc_layer_row_defaults(lipsc_layer_row_settings *set) {
    *set = (lipsc_layer_row_settings){.name = "layer"};
    lipsc_svd_defaults(&set->solve);
}

/* What was found, and what the row's texts and lists stand in. */
typedef struct {
    double *sigma, *u, *v; /* the directions, or NULL */
    lipsc_svd_info info;
    lipsc_certificate certificate;
    double upper, released;
} result;

static int usable(lipsc_status status) {
    return status == LIPSC_OK || status == LIPSC_E_NOCONV || status == LIPSC_E_STOPPED;
}

/* ---- The solve ----------------------------------------------------------------------- */

static lipsc_status make_room(const lipsc_layer_row_settings *set, const lipsc_attn *attn,
                              result *r) {
    size_t rows;
    r->sigma = lipsc_alloc_zero(set->solve.count, sizeof *r->sigma);
    if (!r->sigma) return LIPSC_E_NOMEM;
    if (!set->save_direction && !set->certify) return LIPSC_OK;
    if (!lipsc_mul_size(set->solve.count, attn->input.n, &rows)) return LIPSC_E_NOMEM;
    r->u = lipsc_alloc(rows, lipsc_layer_width(&attn->layer) * sizeof *r->u);
    r->v = lipsc_alloc(rows, attn->layer.d * sizeof *r->v);
    return r->u && r->v ? LIPSC_OK : LIPSC_E_NOMEM;
}

static lipsc_status save(const lipsc_layer_row_settings *set, const lipsc_attn *attn,
                         const result *r, lipsc_error *err) {
    lipsc_layer_record record = lipsc_layer_record_of(&attn->layer, &attn->input);
    if (set->from) lipsc_save_origin(&record, set->from);
    record.dtype = lipsc_dtype_name(attn->dtype);
    record.sigma = r->sigma;
    record.u = r->u;
    record.v = r->v;
    return lipsc_layer_write(set->save_direction, &record, err);
}

/* The solve itself, and the direction where it is to be saved. */
static lipsc_status solve(const lipsc_layer_row_settings *set, lipsc_attn *attn, result *r,
                          lipsc_error *err) {
    lipsc_svd_settings how = set->solve;
    /* A residual of 1e-2, the default in f32, may leave an error that a table shows: unless
     * a tolerance was asked for, the solve goes on until the error is estimated to be
     * below its digits. */
    if (how.tol == 0.0 && how.value_tol == 0.0 && set->dtype == LIPSC_F32)
        how.value_tol = 1e-6;
    lipsc_status status = make_room(set, attn, r);
    if (!status) status = lipsc_attn_sigma(attn, &how, r->sigma, r->u, r->v, &r->info);
    if (!usable(status)) return lipsc_fail(err, status, "%s", lipsc_strerror(status));
    if (!set->save_direction) return status;
    const lipsc_status saved = save(set, attn, r, err);
    return saved ? saved : status;
}

/* ---- What is asked for besides ------------------------------------------------------- */

static lipsc_status certify(const lipsc_layer_row_settings *set, lipsc_attn *attn,
                            result *r, lipsc_layer_row *out, lipsc_error *err) {
    lipsc_certify_settings how = *set->certify;
    if (r->info.lower > 0.0) how.lower = r->info.lower; /* not a NaN */
    if (!isnan(r->upper)) how.upper = r->upper;
    const lipsc_status status =
        lipsc_attn_certify(attn, r->v, &how, &r->certificate, &out->why);
    r->upper = r->certificate.upper;
    if (status && status != LIPSC_E_NOCONV && status != LIPSC_E_REFUSED) {
        if (err) *err = out->why;
        return status;
    }
    out->certificate = status;
    return LIPSC_OK;
}

static lipsc_status extras(const lipsc_layer_row_settings *set, lipsc_attn *attn, result *r,
                           lipsc_layer_row *out, lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    lipsc_upper upper;
    if (set->upper && !*r->info.unknown) {
        status = lipsc_attn_upper(attn, &upper, err);
        if (!status) r->upper = upper.value;
    }
    if (!status && set->as_released) status = lipsc_attn_released(attn, &r->released);
    if (!status && set->certify) status = certify(set, attn, r, out, err);
    return status;
}

/* ---- Together ------------------------------------------------------------------------ */

static void fill(const lipsc_layer_row_settings *set, const lipsc_attn *attn,
                 const result *r, lipsc_row *row) {
    const lipsc_layer *layer = &attn->layer;
    row->parts = LIPSC_ROW_UPPER | (set->sigmas ? LIPSC_ROW_COUNT : 0) |
                 (set->as_released ? LIPSC_ROW_RELEASED : 0) |
                 (set->certify ? LIPSC_ROW_CERTIFY : 0);
    row->model = set->name;
    row->architecture = "layer";
    row->map = lipsc_map_name(layer->O ? LIPSC_MAP_ATTENTION : LIPSC_MAP_HEADS);
    row->mask = lipsc_mask_name(layer->mask);
    row->n = attn->input.n;
    row->dtype = lipsc_dtype_name(attn->dtype);
    row->device = lipsc_device_name(set->device);
    row->seed = (long long)set->solve.seed;
    row->tol = lipsc_row_tol(set->solve.tol, set->dtype);
    row->version = lipsc_version();
    row->upper = r->upper;
    row->released = r->released;
    lipsc_row_set_solve(row, r->sigma[0], &r->info);
    if (*r->info.unknown) row->rounding = r->info.unknown;
    if (set->sigmas) row->sigmas = (lipsc_reals){set->solve.count, r->sigma};
    if (set->certify) lipsc_row_set_certificate(row, &r->certificate);
}

/* What needs the tokens is found now, or keeps them. */
static void settle_in(const lipsc_layer_row_settings *set, lipsc_attn *attn,
                      lipsc_row *row) {
    lipsc_row_set_radius(row, attn->input.n, attn->layer.d, attn->input.X);
    if (set->save_direction) return; /* with the file's words */
    if (!set->upper && !set->as_released && !set->certify) lipsc_attn_forget_tokens(attn);
    lipsc_layer_file_free(set->spent);
}

lipsc_status lipsc_layer_row_find(const lipsc_layer *layer, const lipsc_input *input,
                                  const lipsc_layer_row_settings *set, lipsc_layer_row *out,
                                  lipsc_error *err) {
    const double begin = lipsc_seconds();
    lipsc_attn *attn = NULL;
    lipsc_error why = {.text = ""};
    memset(out, 0, sizeof *out);
    lipsc_fields_clear(lipsc_row_fields(), &out->row);
    result *r = lipsc_alloc_zero(1, sizeof *r);
    if (!r) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", set->name);
    out->storage = r;
    r->upper = r->released = NAN;
    lipsc_status status = lipsc_layer_row_alike(layer, input, set, &why);
    if (!status)
        status = lipsc_attn_new(layer, input, set->dtype, set->device, &attn, &why);
    if (!status) settle_in(set, attn, &out->row);
    if (!status) status = solve(set, attn, r, &why);
    if (usable(status)) {
        const lipsc_status more = extras(set, attn, r, out, &why);
        if (more) status = more;
    }
    if (usable(status)) {
        fill(set, attn, r, &out->row);
        out->row.seconds = lipsc_seconds() - begin;
    } else {
        lipsc_fail(err, status, "%s: %s", set->name,
                   *why.text ? why.text : lipsc_strerror(status));
    }
    lipsc_attn_free(attn);
    return status;
}

void lipsc_layer_row_free(lipsc_layer_row *row) {
    result *r = row->storage;
    if (!r) return;
    lipsc_release(r->sigma);
    lipsc_release(r->u);
    lipsc_release(r->v);
    lipsc_release(r);
    row->storage = NULL;
}

double lipsc_layer_row_seconds(const lipsc_layer *layer, const lipsc_input *input,
                               const lipsc_layer_row_settings *set) {
    return lipsc_study_solve_seconds(layer, input->n, set->dtype,
                                     lipsc_device_threads(set->device));
}
