/* results.c - the run file of claims to lines, curves and worst cases. */
#include <math.h>
#include <stdlib.h>

#include "claims/claims.h"
#include "core/error.h"
#include "core/mem.h"
#include "core/pool.h"

/* ---- Lists of fields ----------------------------------------------------------------- */

#define FIELDS(name, list)                                             \
    lipsc_fields name(void) {                                          \
        static const lipsc_field fields[] = {list(LIPSC_FIELD_ENTRY)}; \
        return (lipsc_fields){sizeof fields / sizeof *fields, fields}; \
    }

#define record lipsc_claim_line
FIELDS(lipsc_claim_line_fields, LIPSC_CLAIM_LINE_LIST)
#undef record
#define record lipsc_claim_fit
FIELDS(lipsc_claim_fit_fields, LIPSC_CLAIM_FIT_LIST)
#undef record
#define record lipsc_claim_worst
FIELDS(lipsc_claim_worst_fields, LIPSC_CLAIM_WORST_LIST)
#undef record

void claims_store_worst(claims_work *r, const char *key, const lipsc_claim_worst *of) {
    json_t *row = lipsc_fields_json(lipsc_claim_worst_fields(), of, 0);
    json_object_set_new(row, "domain", json_string("ball"));
    if (isnan(of->upper_paper)) json_object_del(row, "upper_paper");
    claims_store(r, key, row);
}

/* ---- Laws ---------------------------------------------------------------------------- */

void claims_fit_add(claims_work *r, const lipsc_claim_fit *fit) {
    lipsc_claims *out = r->out;
    lipsc_claim_fit *more = lipsc_alloc(out->fit_count + 1, sizeof *more);
    lipsc_claim_fit copy = *fit;
    copy.experiment = lipsc_pool_text(&out->pool, fit->experiment);
    copy.model = lipsc_pool_text(&out->pool, fit->model);
    if (!more || !copy.experiment || !copy.model) {
        lipsc_release(more);
        claims_fail(r, LIPSC_E_NOMEM, NULL);
        return;
    }
    for (size_t i = 0; i < out->fit_count; i++) more[i] = out->fits[i];
    more[out->fit_count++] = copy;
    lipsc_release(out->fits);
    out->fits = more;
}

/* ---- Rows ---------------------------------------------------------------------------- */

static int by_order(const void *a, const void *b) {
    const long long x = ((const lipsc_claim_line *)a)->order;
    const long long y = ((const lipsc_claim_line *)b)->order;
    return (x > y) - (x < y);
}

/* A row is what its field says: a line, a worst case, a cell. */
static lipsc_status read_row(const json_t *row, lipsc_claims *out, lipsc_error *err) {
    unsigned parts;
    lipsc_status status = LIPSC_OK;
    if (json_object_get(row, "claim"))
        status = lipsc_fields_read(lipsc_claim_line_fields(), row, &out->pool,
                                   &out->lines[out->line_count++], &parts, err);
    if (!status && json_object_get(row, "best_construction"))
        status = lipsc_fields_read(lipsc_claim_worst_fields(), row, &out->pool,
                                   &out->worst[out->worst_count++], &parts, err);
    if (!status && json_object_get(row, "converged")) {
        lipsc_row *cell = &out->curves[out->curve_count++];
        status =
            lipsc_fields_read(lipsc_row_fields(), row, &out->pool, cell, &cell->parts, err);
    }
    return status;
}

lipsc_status claims_results_read(const char *run_file, lipsc_claims *out,
                                 lipsc_error *err) {
    json_t *head = NULL, *rows = NULL;
    const json_t *row;
    size_t i;
    lipsc_status status = lipsc_run_read(run_file, &head, &rows, err);
    if (status) return status;
    const size_t count = json_array_size(rows);
    out->lines = lipsc_alloc(count, sizeof *out->lines);
    out->worst = lipsc_alloc(count, sizeof *out->worst);
    out->curves = lipsc_alloc(count, sizeof *out->curves);
    if (!out->lines || !out->worst || !out->curves)
        status = lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", run_file);
    json_array_foreach(rows, i, row) {
        if (!status) status = read_row(row, out, err);
    }
    if (!status && out->line_count)
        qsort(out->lines, out->line_count, sizeof *out->lines, by_order);
    json_decref(head);
    json_decref(rows);
    return status;
}

void lipsc_claims_free(lipsc_claims *claims) {
    lipsc_release(claims->lines);
    lipsc_release(claims->worst);
    lipsc_release(claims->curves);
    lipsc_release(claims->fits);
    lipsc_pool_free(&claims->pool);
    *claims = (lipsc_claims){0};
}
