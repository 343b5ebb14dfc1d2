/* reproduce_line.c - a line of the closing table: what is promised against what was
 * measured, compared here and nowhere else. */
#include <math.h>
#include <stdarg.h>
#include <string.h>

#include "core/error.h"
#include "interrupt.h"
#include "reproduce.h"

/* --spoil makes a promise so much stronger. */
static const double spoil_factor = 1000.0;

void repro_fail(repro *r, lipsc_status status, const lipsc_error *err) {
    if (r->status) return;
    r->status = status;
    if (err && *err->text)
        r->err = *err;
    else
        lipsc_fail(&r->err, status, "%s", lipsc_strerror(status));
}

int repro_stopped(repro *r) {
    if (!r->status && cli_interrupted(NULL)) repro_fail(r, LIPSC_E_STOPPED, NULL);
    return r->status != LIPSC_OK;
}

json_t *repro_real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

void repro_store(repro *r, const char *key, json_t *row) {
    lipsc_error err = {.text = ""};
    lipsc_status status = LIPSC_OK;
    if (!r->status) status = row ? lipsc_run_put(r->run, key, row, &err) : LIPSC_E_NOMEM;
    if (status) repro_fail(r, status, &err);
    json_decref(row);
}

static void key_of(const char *name, char *key, size_t room) {
    snprintf(key, room, "line: %s", name);
}

int repro_known(repro *r, const char *name) {
    char key[128];
    json_t *row = NULL;
    lipsc_error err;
    key_of(name, key, sizeof key);
    const lipsc_status status = lipsc_run_get(r->run, key, &row, &err);
    if (status) repro_fail(r, status, &err);
    const int known = row != NULL;
    json_decref(row);
    return known;
}

static double promise(repro *r, const repro_line *line) {
    if (!r->set->spoil || strcmp(r->set->spoil, line->name)) return line->promised;
    switch (line->relation) {
    case REPRO_AT_MOST:
        return line->promised / spoil_factor;
    case REPRO_AT_LEAST:
        return line->promised * spoil_factor;
    default:
        return line->promised + spoil_factor * line->tolerance;
    }
}

/* A NaN holds nowhere. */
static int compare(const repro_line *line, double promised, double measured) {
    switch (line->relation) {
    case REPRO_AT_MOST:
        return measured <= promised * (1.0 + line->tolerance);
    case REPRO_AT_LEAST:
        return measured >= promised * (1.0 - line->tolerance);
    default:
        return fabs(measured - promised) <= line->tolerance;
    }
}

static void add(repro *r, const repro_line *line, const char *measured, const char *holds,
                double promised, double value) {
    static const char *const kinds[] = {"theorem", "experiment", "stand-in"};
    char key[128];
    key_of(line->name, key, sizeof key);
    r->spoiled |= r->set->spoil && !strcmp(r->set->spoil, line->name);
    json_t *row = json_object();
    json_object_set_new(row, "order", json_integer(1000 * r->group + r->lines++));
    json_object_set_new(row, "section", json_string(line->section));
    json_object_set_new(row, "name", json_string(line->name));
    json_object_set_new(row, "kind", json_string(kinds[line->kind]));
    json_object_set_new(row, "claim", json_string(line->claim));
    json_object_set_new(row, "paper", json_string(line->paper));
    json_object_set_new(row, "measured", json_string(measured));
    json_object_set_new(row, "holds", json_string(holds));
    json_object_set_new(row, "promised", repro_real(promised));
    json_object_set_new(row, "value", repro_real(value));
    if (line->says) json_object_set_new(row, "says", json_string(line->says));
    repro_store(r, key, row);
    cli_progress_say(&r->progress, "%s", line->claim);
}

void repro_judge(repro *r, const repro_line *line, double measured, const char *words,
                 ...) {
    char text[320];
    va_list args;
    if (r->status) return;
    va_start(args, words);
    vsnprintf(text, sizeof text, words, args);
    va_end(args);
    const double promised = promise(r, line);
    add(r, line, isnan(measured) ? "could not be computed" : text,
        compare(line, promised, measured) ? "yes" : "no", promised, measured);
}

void repro_leave(repro *r, const repro_line *line, const char *reason, ...) {
    char text[320];
    va_list args;
    if (r->status) return;
    va_start(args, reason);
    vsnprintf(text, sizeof text, reason, args);
    va_end(args);
    add(r, line, text, "not tested", NAN, NAN);
}
