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

/* What a curve keeps of a row. */
struct lipsc_growth_seen {
    size_t n, start, text; /* text: number of it */
    double radius, sigma;
};

/* The curve that a fitter has, and room for one fit. */
typedef struct {
    const lipsc_fitter *of;
    lipsc_fit_point *points; /* (count) */
    double *slopes;          /* (count) */
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
static lipsc_status fit_against(const curve *c, size_t text, int radius) {
    lipsc_growths *out = c->of->out;
    lipsc_fit fit;
    size_t used = 0;
    for (size_t i = 0; i < c->of->count; i++) {
        const struct lipsc_growth_seen *seen = &c->of->seen[i];
        if (text != LIPSC_NONE && text != seen->text) continue;
        c->points[used++] = (lipsc_fit_point){.n = seen->n,
                                              .start = seen->start,
                                              .text = seen->text,
                                              .x = radius ? seen->radius : (double)seen->n,
                                              .y = seen->sigma};
    }
    const lipsc_status status =
        lipsc_fit_power(used, c->points, c->of->seed, &fit, c->slopes, NULL);
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
    law->layer = c->of->layer;
    law->head = c->of->head;
    law->map = c->of->map;
    law->text = text == LIPSC_NONE ? NULL : c->of->hashes[text];
    law->against = radius ? "radius" : "n";
    lipsc_growth_set(law, &fit, slopes, refused);
    return LIPSC_OK;
}

static lipsc_status fit_text(const curve *c, size_t text) {
    const lipsc_status status = fit_against(c, text, 0);
    return status ? status : fit_against(c, text, 1);
}

/* The laws of one layer and head: of all texts, and of each where there are several. */
static lipsc_status fit_curve(const lipsc_fitter *f) {
    curve c = {.of = f,
               .points = lipsc_alloc(f->count, sizeof *c.points),
               .slopes = lipsc_alloc(f->count, sizeof *c.slopes)};
    lipsc_status status = c.points && c.slopes ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) status = fit_text(&c, LIPSC_NONE);
    for (size_t t = 0; t < f->texts && f->texts > 1 && !status; t++)
        status = fit_text(&c, t);
    lipsc_release(c.points);
    lipsc_release(c.slopes);
    return status;
}

/* ---- One row after the other -------------------------------------------------------- */

/* Room for one more of `count`; NULL: as it was. */
static void *grown(void *old, size_t count, size_t *room, size_t size) {
    const size_t larger = *room ? 2 * *room : 16;
    if (count < *room) return old;
    void *made = larger > SIZE_MAX / size ? NULL : realloc(old, larger * size);
    if (made) *room = larger;
    return made;
}

/* Its number; LIPSC_NONE when memory is short. */
static size_t find_text(lipsc_fitter *f, const char *hash) {
    size_t t = 0;
    while (t < f->texts && strcmp(f->hashes[t], hash)) t++;
    if (t < f->texts) return t;
    const char **larger = grown(f->hashes, f->texts, &f->text_room, sizeof *larger);
    if (!larger) return LIPSC_NONE;
    f->hashes = larger;
    larger[t] = lipsc_pool_text(&f->out->pool, hash);
    if (!larger[t]) return LIPSC_NONE;
    f->texts++;
    return t;
}

/* Another layer or head: the curve of the last one is whole. */
static lipsc_status turn(lipsc_fitter *f, const lipsc_row *row) {
    const lipsc_status status = f->count ? fit_curve(f) : LIPSC_OK;
    if (status) return status;
    f->count = f->texts = 0;
    f->layer = row->layer;
    f->head = row->head;
    f->map = row->map ? lipsc_pool_text(&f->out->pool, row->map) : NULL;
    return row->map && !f->map ? LIPSC_E_NOMEM : LIPSC_OK;
}

lipsc_status lipsc_fitter_add(lipsc_fitter *f, const lipsc_row *row) {
    if (row->n == LIPSC_NONE) return LIPSC_OK;
    if (!f->count || row->layer != f->layer || row->head != f->head) {
        const lipsc_status status = turn(f, row);
        if (status) return status;
    }
    struct lipsc_growth_seen *larger = grown(f->seen, f->count, &f->room, sizeof *larger);
    if (!larger) return LIPSC_E_NOMEM;
    f->seen = larger;
    const size_t text = find_text(f, row->text_hash ? row->text_hash : "");
    if (text == LIPSC_NONE) return LIPSC_E_NOMEM;
    larger[f->count++] =
        (struct lipsc_growth_seen){.n = row->n,
                                   .start = row->start == LIPSC_NONE ? 0 : row->start,
                                   .text = text,
                                   .radius = row->radius_rms,
                                   .sigma = row->sigma};
    return LIPSC_OK;
}

lipsc_status lipsc_fitter_end(lipsc_fitter *f) {
    const lipsc_status status = f->count ? fit_curve(f) : LIPSC_OK;
    free(f->seen);
    free(f->hashes);
    *f = (lipsc_fitter){.out = f->out};
    return status;
}

/* ---- All of them -------------------------------------------------------------------- */

lipsc_status lipsc_rows_fit(size_t count, const lipsc_row *const *rows, uint64_t seed,
                            lipsc_growths *out) {
    lipsc_fitter fitter = {.out = out, .seed = seed};
    lipsc_status status = LIPSC_OK;
    *out = (lipsc_growths){0};
    for (size_t i = 0; !status && i < count; i++)
        status = lipsc_fitter_add(&fitter, rows[i]);
    if (status) fitter.count = 0;
    const lipsc_status last = lipsc_fitter_end(&fitter);
    return status ? status : last;
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
