/* attack_cell.c - one length of an attack: the search, the input found as a file, its row.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attack.h"
#include "core/error.h"
#include "direction.h"
#include "interrupt.h"
#include "io/safetensors.h"
#include "progress.h"

int attack_path(const attack_job *job, size_t n, char *path, size_t room) {
    const char *out = job->set->out;
    if (job->count == 1) return (size_t)snprintf(path, room, "%s", out) < room;
    const char *slash = strrchr(out, '/'), *dot = strrchr(out, '.');
    const size_t stem = dot && (!slash || dot > slash + 1) && dot != out
                            ? (size_t)(dot - out)
                            : strlen(out);
    return stem < room &&
           (size_t)snprintf(path, room, "%.*s-%zu%s", (int)stem, out, n, out + stem) < room;
}

typedef struct {
    cli_progress line;
    size_t n;
} watcher;

static void tell(void *ctx, const char *doing, long evaluations, double best) {
    watcher *w = ctx;
    cli_progress_say(&w->line, "n %zu  %s  %ld inputs  best sigma %.6g", w->n, doing,
                     evaluations, best);
}

/* A layer that a layer file cannot hold is left out: X with its direction alone. */
static lipsc_status write_input(const char *path, const attack_job *job,
                                const lipsc_attack_settings *aim,
                                const lipsc_attack_result *r, lipsc_error *err) {
    const lipsc_input input = {.n = r->n,
                               .X = r->X,
                               .weights = r->weights ? r->weights : aim->weights,
                               .times = aim->times};
    if (!cli_direction_beyond(&job->layer))
        return cli_direction_write(path, &job->layer, &input, job->dtype, r->sigma, r->u,
                                   r->v, err);
    const size_t x[] = {r->n, r->d}, u[] = {r->n, r->width}, one[] = {1}, n[] = {r->n};
    const lipsc_st_item items[] = {
        {.name = "X", .dtype = LIPSC_F64, .ndim = 2, .shape = x, .data = r->X},
        {.name = "v", .dtype = LIPSC_F64, .ndim = 2, .shape = x, .data = r->v},
        {.name = "u", .dtype = LIPSC_F64, .ndim = 2, .shape = u, .data = r->u},
        {.name = "sigma", .dtype = LIPSC_F64, .ndim = 1, .shape = one, .data = &r->sigma},
        {.name = "weights", .dtype = LIPSC_F64, .ndim = 1, .shape = n, .data = r->weights}};
    const lipsc_st_note note = {"lipscope", lipsc_version()};
    return lipsc_st_write(path, items, r->weights ? 5 : 4, &note, 1, err);
}

static json_t *real(double x) { return isfinite(x) ? json_real(x) : json_null(); }

static json_t *make_row(const lipsc_attack_settings *aim, const lipsc_attack_result *r,
                        const char *path) {
    return json_pack(
        "{s:I, s:o, s:s, s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:I, s:o, s:o}", "n",
        (json_int_t)r->n, "radius", real(aim->radius), "domain",
        attack_domain_names[aim->domain], "start", r->start, "sigma", real(r->sigma),
        "lower", real(r->lower), "residual", real(r->residual), "converged", r->converged,
        "best_construction", real(r->best_construction), "upper", real(r->upper),
        "log_upper", real(r->log_upper), "evaluations", (json_int_t)r->evaluations, "input",
        lipsc_json_text(path), "seconds", real(r->seconds));
}

static void say_file(const attack_job *job, const char *path) {
    const char *beyond = cli_direction_beyond(&job->layer);
    if (job->set->from.common.quiet) return;
    if (beyond)
        fprintf(stderr,
                "lipscope %s: %s holds X and its direction alone: the layer has %s, which "
                "a layer file cannot hold\n",
                job->self->name, path, beyond);
    else
        cli_direction_how(job->self->name, path, &job->layer);
}

lipsc_status attack_cell(attack_job *job, size_t n, const lipsc_attack_settings *aim,
                         json_t **row, lipsc_error *err) {
    char path[4096];
    watcher w = {.n = n};
    lipsc_attack_settings set = *aim;
    lipsc_attack_result found;
    *row = NULL;
    if (!attack_path(job, n, path, sizeof path))
        return lipsc_fail(err, LIPSC_E_ARG, "%s: this name is too long", job->set->out);
    cli_progress_begin(&w.line, &job->set->from.common);
    set.progress = tell;
    set.stop = cli_interrupted;
    set.ctx = &w;
    const lipsc_status outcome = lipsc_attack_run(&job->layer, &set, &found, err);
    cli_progress_end(&w.line);
    if (outcome && outcome != LIPSC_E_STOPPED) return outcome;
    if (!found.X) return outcome; /* stopped before the first value */
    const lipsc_status written = write_input(path, job, aim, &found, err);
    *row = make_row(aim, &found, written ? NULL : path);
    if (!written) say_file(job, path);
    lipsc_attack_result_free(&found);
    if (!*row) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    return written ? written : outcome;
}
