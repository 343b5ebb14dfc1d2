/* attack_cell.c - one length of an attack: the search, the input found as a file, its row.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attack.h"
#include "core/error.h"
#include "interrupt.h"
#include "layer_save.h"
#include "names.h"
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

static lipsc_status write_input(const char *path, const attack_job *job,
                                const lipsc_attack_settings *aim,
                                const lipsc_attack_result *r, lipsc_error *err) {
    const lipsc_input input = {.n = r->n,
                               .X = r->X,
                               .weights = r->weights ? r->weights : aim->weights,
                               .times = aim->times,
                               .positions = aim->positions};
    lipsc_layer_record record = lipsc_layer_record_of(&job->layer, &input);
    cli_save_room room = {.ids = NULL};
    if (job->source.has_file)
        cli_save_origin(&record, &job->source.file);
    else
        cli_save_model(&record, job->what, lipsc_model_describe(job->source.model),
                       job->set->from.layer, job->source.head, &room);
    record.dtype = lipsc_dtype_name(job->dtype);
    record.sigma = &r->sigma;
    record.u = r->u;
    record.v = r->v;
    return lipsc_layer_write(path, &record, err);
}

static json_t *make_row(const lipsc_attack_settings *aim, const lipsc_attack_result *r,
                        const char *path) {
    return json_pack(
        "{s:I, s:o, s:s, s:s, s:o, s:o, s:o, s:b, s:o, s:o, s:o, s:I, s:o, s:o}", "n",
        (json_int_t)r->n, "radius", lipsc_json_real(aim->radius), "domain",
        attack_domain_names[aim->domain], "start", r->start, "sigma",
        lipsc_json_real(r->sigma), "lower", lipsc_json_real(r->lower), "residual",
        lipsc_json_real(r->residual), "converged", r->converged, "best_construction",
        lipsc_json_real(r->best_construction), "upper", lipsc_json_real(r->upper),
        "log_upper", lipsc_json_real(r->log_upper), "evaluations",
        (json_int_t)r->evaluations, "input", lipsc_json_text(path), "seconds",
        lipsc_json_real(r->seconds));
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
    if (!written && !job->set->from.common.quiet) cli_save_say(job->self, path);
    lipsc_attack_result_free(&found);
    if (!*row) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a row");
    return written ? written : outcome;
}
