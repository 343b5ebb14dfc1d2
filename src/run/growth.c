/* growth.c - the growth laws fitted to rows of sigma. */
#include "run/growth.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mem.h"
#include "lipscope/fit.h"

typedef lipsc_growth record;
static const lipsc_field fields[] = {LIPSC_GROWTH_LIST(LIPSC_FIELD_ENTRY)};

lipsc_fields lipsc_growth_fields(void) {
    return (lipsc_fields){sizeof fields / sizeof *fields, fields};
}

void lipsc_growth_set(lipsc_growth *out, const lipsc_fit *fit, const double *slopes,
                      const char *refused) {
    out->lengths = fit->lengths;
    out->starts = fit->starts;
    out->texts = fit->texts;
    out->refused = refused;
    if (refused) return;
    out->exponent = fit->exponent;
    out->exponent_low = fit->low;
    out->exponent_high = fit->high;
    out->coefficient = fit->coefficient;
    out->law = fit->law;
    out->lack_of_fit = fit->lack_of_fit;
    out->slopes = (lipsc_reals){fit->lengths - 1, slopes};
}

/* ---- One curve ---------------------------------------------------------------------- */

/* What is fitted to which of the rows. */
typedef struct {
    size_t count;
    const lipsc_row *const *rows; /* of one layer and head            */
    size_t *text;                 /* (count) number of the text of each */
    size_t texts;
    const char **hashes; /* (texts) */
    lipsc_fit_point *points;
    double *slopes;
} curve;

static lipsc_growth *add(lipsc_growths *out) {
    if (!(out->count & (out->count - 1))) { /* 0 or a power of two: full */
        const size_t room = out->count ? 2 * out->count : 1;
        lipsc_growth *larger = room > SIZE_MAX / sizeof *larger
                                   ? NULL
                                   : realloc(out->at, room * sizeof *larger);
        if (!larger) return NULL;
        out->at = larger;
    }
    lipsc_growth *law = &out->at[out->count++];
    lipsc_fields_clear(lipsc_growth_fields(), law);
    return law;
}

/* Of text number `text`, or of all with LIPSC_NONE. */
static lipsc_status fit_against(const curve *c, size_t text, int radius, uint64_t seed,
                                lipsc_growths *out) {
    lipsc_fit fit;
    size_t used = 0;
    for (size_t i = 0; i < c->count; i++) {
        const lipsc_row *row = c->rows[i];
        if (row->n == LIPSC_NONE || (text != LIPSC_NONE && text != c->text[i])) continue;
        c->points[used++] =
            (lipsc_fit_point){.n = row->n,
                              .start = row->start == LIPSC_NONE ? 0 : row->start,
                              .text = c->text[i],
                              .x = radius ? row->radius_rms : (double)row->n,
                              .y = row->sigma};
    }
    const lipsc_status status =
        lipsc_fit_power(used, c->points, seed, &fit, c->slopes, NULL);
    if (status == LIPSC_E_NOMEM) return status;
    if (status && (status != LIPSC_E_REFUSED || fit.lengths < 3)) return LIPSC_OK;
    char reason[96];
    snprintf(reason, sizeof reason, "the %s varies only by a factor %.3f",
             radius ? "radius" : "length", fit.spread);
    lipsc_growth *law = add(out);
    const char *refused = status ? lipsc_pool_text(&out->pool, reason) : NULL;
    const double *slopes =
        status ? NULL : lipsc_pool_reals(&out->pool, fit.lengths - 1, c->slopes);
    if (!law || !(refused || slopes)) return LIPSC_E_NOMEM;
    law->layer = c->rows[0]->layer;
    law->head = c->rows[0]->head;
    law->map = c->rows[0]->map;
    law->text = text == LIPSC_NONE ? NULL : c->hashes[text];
    law->against = radius ? "radius" : "n";
    lipsc_growth_set(law, &fit, slopes, refused);
    return LIPSC_OK;
}

static lipsc_status fit_text(const curve *c, size_t text, uint64_t seed,
                             lipsc_growths *out) {
    const lipsc_status status = fit_against(c, text, 0, seed, out);
    return status ? status : fit_against(c, text, 1, seed, out);
}

static void find_texts(curve *c) {
    for (size_t i = 0; i < c->count; i++) {
        const char *hash = c->rows[i]->text_hash ? c->rows[i]->text_hash : "";
        size_t t = 0;
        while (t < c->texts && strcmp(c->hashes[t], hash)) t++;
        if (t == c->texts) c->hashes[c->texts++] = hash;
        c->text[i] = t;
    }
}

/* One layer and head. */
static lipsc_status fit_curve(size_t count, const lipsc_row *const *rows, uint64_t seed,
                              lipsc_growths *out) {
    curve c = {.count = count,
               .rows = rows,
               .text = lipsc_alloc(count, sizeof *c.text),
               .hashes = lipsc_alloc(count, sizeof *c.hashes),
               .points = lipsc_alloc(count, sizeof *c.points),
               .slopes = lipsc_alloc(count, sizeof *c.slopes)};
    lipsc_status status =
        c.text && c.hashes && c.points && c.slopes ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) {
        find_texts(&c);
        status = fit_text(&c, LIPSC_NONE, seed, out);
    }
    for (size_t t = 0; t < c.texts && c.texts > 1 && !status; t++)
        status = fit_text(&c, t, seed, out);
    lipsc_release(c.text);
    lipsc_release(c.hashes);
    lipsc_release(c.points);
    lipsc_release(c.slopes);
    return status;
}

/* ---- All of them -------------------------------------------------------------------- */

lipsc_status lipsc_rows_fit(size_t count, const lipsc_row *const *rows, uint64_t seed,
                            lipsc_growths *out) {
    lipsc_status status = LIPSC_OK;
    *out = (lipsc_growths){0};
    for (size_t at = 0, length; !status && at < count; at += length) {
        for (length = 1; at + length < count; length++)
            if (rows[at + length]->layer != rows[at]->layer ||
                rows[at + length]->head != rows[at]->head)
                break;
        status = fit_curve(length, rows + at, seed, out);
    }
    return status;
}

void lipsc_growths_free(lipsc_growths *laws) {
    free(laws->at);
    lipsc_pool_free(&laws->pool);
    *laws = (lipsc_growths){0};
}

json_t *lipsc_growths_json(const lipsc_growths *laws) {
    json_t *all = json_array();
    for (size_t i = 0; all && i < laws->count; i++)
        if (json_array_append_new(
                all, lipsc_fields_json(lipsc_growth_fields(), &laws->at[i], 0))) {
            json_decref(all);
            all = NULL;
        }
    return all;
}

const char *lipsc_growth_verdict(const lipsc_growth *law) {
    if (law->refused) return law->refused;
    if (law->law > 0) return "power law";
    /* without a test the slopes may differ by chance */
    return isfinite(law->lack_of_fit) ? "no power law" : "no power law shown";
}
