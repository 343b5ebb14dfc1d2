/* judge.c - a line of the closing table: what is promised against what was
 * measured, compared here and nowhere else. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/clock.h"
#include "core/error.h"
#include "core/extreme.h"
#include "claims/claims.h"
#include "ranks/deal.h"

/* A spoilt line makes a promise so much stronger. */
static const double spoil_factor = 1000.0;

void claims_fail(claims_work *r, lipsc_status status, const lipsc_error *err) {
    if (r->status) return;
    r->status = status;
    if (err && *err->text)
        r->err = *err;
    else
        lipsc_fail(&r->err, status, "%s", lipsc_strerror(status));
}

/* Between works that are shared a rank does not leave because it was told to end: rank 0
 * says for all whether it goes on, and hears of it in the next one. */
int claims_stopped(claims_work *r) {
    const lipsc_claims_settings *set = r->set;
    const int alone = claims_leads(r) || r->held;
    if (!r->status &&
        ((alone && set->stop && set->stop(set->ctx)) || lipsc_deal_over(set->ranks)))
        claims_fail(r, LIPSC_E_STOPPED, NULL);
    return r->status != LIPSC_OK;
}

/* Of pieces that ranks share: how many are done, and the time that is left by them. */
static void add_pieces(const claims_work *r, size_t room, char *text) {
    size_t settled;
    if (lipsc_ranks_count(r->set->ranks) < 2 || !r->pieces) return;
#pragma omp atomic read
    settled = r->settled;
    const size_t used = strlen(text), left = r->pieces - settled;
    snprintf(text + used, room - used, "  %zu of %zu pieces", settled, r->pieces);
    const size_t more = strlen(text);
    if (settled)
        snprintf(text + more, room - more, "  about %.0f s left",
                 (lipsc_seconds() - r->dealt) * (double)left / (double)settled);
}

void claims_doing(claims_work *r, const char *what, ...) {
    char text[480];
    va_list args;
    if (!r->set->doing) return;
    va_start(args, what);
    vsnprintf(text, sizeof text, what, args);
    va_end(args);
    add_pieces(r, sizeof text, text);
    r->set->doing(r->set->ctx, text);
}

int claims_going(claims_work *r, size_t t, size_t trials) {
    const double now = lipsc_seconds();
    if (t >= trials || claims_stopped(r)) return 0;
    if (!t)
        r->counting = now;
    else if (lipsc_ranks_count(r->set->ranks) > 1) /* the time of one piece says little */
        claims_doing(r, "%s: %zu of %zu trials", r->part, t, trials);
    else
        claims_doing(r, "%s: %zu of %zu trials  %.0f s left", r->part, t, trials,
                     (now - r->counting) * (double)(trials - t) / (double)t);
    return 1;
}

void claims_store(claims_work *r, const char *key, json_t *row) {
    lipsc_error err = {.text = ""};
    lipsc_status status = LIPSC_OK;
    if (!r->status && !row) status = LIPSC_E_NOMEM;
    if (!r->status && row && r->held)
        status = json_object_set(r->held, key, row) ? LIPSC_E_NOMEM : LIPSC_OK;
    else if (!r->status && row && r->run)
        status = lipsc_run_put(r->run, key, row, &err);
    if (status) claims_fail(r, status, &err);
    json_decref(row);
}

static void key_of(const char *name, char *key, size_t room) {
    snprintf(key, room, "line: %s", name);
}

int claims_known(claims_work *r, const char *name) {
    char key[160];
    key_of(name, key, sizeof key);
    json_t *row = r->held ? json_incref(json_object_get(r->held, key)) : claims_get(r, key);
    const int known = row != NULL;
    json_decref(row);
    return known;
}

void claims_raise(double *most, double value) { *most = lipsc_max(*most, value); }

void claims_lower(double *least, double value) { *least = lipsc_min(*least, value); }

claims_line claims_line_of(const char *id) {
    const claims_entry *c = claims_find(id);
    claims_line line = {.claim = c,
                        .section = c->section,
                        .statement = c->statement,
                        .origin = c->origin,
                        .promised = c->promised,
                        .tolerance = c->tolerance};
    snprintf(line.name, sizeof line.name, "%s", id);
    return line;
}

static double promise(claims_work *r, const claims_line *line) {
    if (!r->set->spoil || strcmp(r->set->spoil, line->name)) return line->promised;
    switch (line->claim->relation) {
    case CLAIMS_AT_MOST:
        return line->promised / spoil_factor;
    case CLAIMS_AT_LEAST:
        return line->promised * spoil_factor;
    default:
        return line->promised + spoil_factor * line->tolerance;
    }
}

/* A NaN holds nowhere, nor does an infinity: nothing was met, or too much. */
static int compare(const claims_line *line, double promised, double measured) {
    if (!isfinite(measured)) return 0;
    switch (line->claim->relation) {
    case CLAIMS_AT_MOST:
        return measured <= promised * (1.0 + line->tolerance);
    case CLAIMS_AT_LEAST:
        return measured >= promised * (1.0 - line->tolerance);
    default:
        return fabs(measured - promised) <= line->tolerance;
    }
}

/* Few lengths and inputs confirm nothing.  A counterexample is one however it was found. */
static const char *verdict(const claims_work *r, const claims_line *line, double promised,
                           double measured) {
    if (line->unmet) return "not judged";
    const int holds = compare(line, promised, measured);
    if (r->set->quick && (holds || line->claim->source == LIPSC_CLAIM_PAPER_FIGURE))
        return "not judged";
    return holds ? "yes" : "no";
}

static void add(claims_work *r, const claims_line *line, const char *measured,
                const char *holds, double promised, double value) {
    char key[160];
    key_of(line->name, key, sizeof key);
    r->spoiled |= r->set->spoil && !strcmp(r->set->spoil, line->name);
    const lipsc_claim_line row = {.order = (long long)r->order++,
                                  .section = line->section,
                                  .name = line->name,
                                  .source = lipsc_claim_source_name(line->claim->source),
                                  .claim = line->statement,
                                  .origin = line->origin,
                                  .measured = measured,
                                  .holds = holds,
                                  .hypothesis = line->claim->hypothesis,
                                  .unmet = line->unmet,
                                  .promised = promised,
                                  .value = value,
                                  .says = line->says};
    claims_store(
        r, key,
        lipsc_fields_json(lipsc_claim_line_fields(), &row,
                          LIPSC_CLAIM_ORDER | (line->says ? LIPSC_CLAIM_SAYS : 0)));
    claims_doing(r, "%s", line->statement);
}

static void judge(claims_work *r, const claims_line *line, double measured,
                  const char *words, va_list args) {
    char text[480];
    vsnprintf(text, sizeof text, words, args);
    const double promised = promise(r, line);
    const size_t used = strlen(text);
    if (line->unmet)
        snprintf(text + used, sizeof text - used, "; not judged: %s", line->unmet);
    add(r, line, isfinite(measured) ? text : "could not be computed",
        verdict(r, line, promised, measured), promised, measured);
}

/* The reason as text, not judged. */
static void leave(claims_work *r, const claims_line *line, const char *reason,
                  va_list args) {
    char text[480];
    claims_line left = *line;
    vsnprintf(text, sizeof text, reason, args);
    left.unmet = text;
    add(r, &left, text, "not judged", NAN, NAN);
}

void claims_judge(claims_work *r, const claims_line *line, double measured,
                  const char *words, ...) {
    va_list args;
    if (r->status) return;
    va_start(args, words);
    judge(r, line, measured, words, args);
    va_end(args);
}

void claims_leave(claims_work *r, const claims_line *line, const char *reason, ...) {
    va_list args;
    if (r->status) return;
    va_start(args, reason);
    leave(r, line, reason, args);
    va_end(args);
}

void claims_say(claims_work *r, const char *id, double measured, const char *words, ...) {
    const claims_line line = claims_line_of(id);
    va_list args;
    if (r->status) return;
    va_start(args, words);
    judge(r, &line, measured, words, args);
    va_end(args);
}

void claims_pass(claims_work *r, const char *id, const char *reason, ...) {
    const claims_line line = claims_line_of(id);
    va_list args;
    if (r->status) return;
    va_start(args, reason);
    leave(r, &line, reason, args);
    va_end(args);
}
