/* team.c - the ranks that share a study: how they begin and end, and one that follows. */
#include "study/team.h"

#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "study/alike.h"

int lipsc_team_leads(const lipsc_study *study) {
    return !study->team || !lipsc_ranks_number(study->team->ranks);
}

static lipsc_status out_of_reach(lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_IO, "another rank is out of reach");
}

/* ---- A rank that follows: whom it asks and tells --------------------------------------
 */

static int shall_stop(void *ctx) {
    study_team *team = ctx;
    return (team->stop && team->stop(team->ctx)) || lipsc_follower_told(&team->follower);
}

static void send_remark(void *ctx, const char *sentence) {
    study_team *team = ctx;
    lipsc_ranks_send(team->ranks, 0, TEAM_REMARK, strlen(sentence), sentence);
}

lipsc_status lipsc_team_new(lipsc_study *study, lipsc_error *err) {
    lipsc_study_settings *set = &study->set;
    if (lipsc_ranks_count(set->ranks) < 2) return LIPSC_OK;
    study_team *team = lipsc_alloc_zero(1, sizeof *team);
    if (!team) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ranks");
    *team = (study_team){.ranks = set->ranks, .stop = set->stop, .ctx = set->ctx};
    lipsc_follower_new(&team->follower, set->ranks);
    study->team = team;
    if (lipsc_team_leads(study)) return LIPSC_OK;
    set->progress = NULL;
    set->row = NULL;
    set->remark = NULL; /* until all have met: of what they read, rank 0 says the same */
    set->certificate = NULL;
    set->run_file = NULL;
    set->run = NULL;
    set->stop = shall_stop;
    set->ctx = team;
    return LIPSC_OK;
}

void lipsc_team_free(study_team *team) {
    if (!team) return;
    lipsc_follower_end(&team->follower);
    lipsc_release(team);
}

static void end_team(study_team *team) {
    team->over = 1;
    lipsc_ranks_busy(team->ranks, 0);
}

/* ---- All meet ------------------------------------------------------------------------ */

typedef struct {
    study_failure read; /* status 0: it is there, and this is what it is */
    char version[32], model[72], text[72];
    uint64_t cells, options;
} hello;

typedef struct {
    uint64_t status, stride;
} plan;

static hello say_hello(const lipsc_study *study, lipsc_status read,
                       const lipsc_error *err) {
    hello h = {.read.status = (uint64_t)read};
    snprintf(h.read.text, sizeof h.read.text, "%s", read ? err->text : "");
    snprintf(h.version, sizeof h.version, "%s", lipsc_version());
    if (read) return h;
    snprintf(h.model, sizeof h.model, "%s", study->info->hash);
    snprintf(h.text, sizeof h.text, "%s",
             *study->source.ids_hash ? study->source.ids_hash : study->source.hash);
    h.cells = lipsc_study_cells_digest(study);
    h.options = lipsc_study_options_digest(study);
    return h;
}

/* Whether the other can work on what is read here. */
static lipsc_status compare(const hello *own, const hello *other, size_t rank,
                            lipsc_error *err) {
    const char *what = NULL;
    if (other->read.status)
        return lipsc_fail(err, (lipsc_status)other->read.status, "rank %zu: %s", rank,
                          other->read.text);
    if (own->cells != other->cells) what = "choice of cells";
    if (own->options != other->options) what = "set of options";
    if (strcmp(own->version, other->version)) what = "version of lipscope";
    if (strcmp(own->model, other->model)) what = "model";
    if (strcmp(own->text, other->text)) what = "text";
    return what ? lipsc_fail(err, LIPSC_E_RANGE, "rank %zu has another %s than rank 0",
                             rank, what)
                : LIPSC_OK;
}

static lipsc_status hear_hellos(lipsc_study *study, lipsc_status read, lipsc_error *err) {
    const hello own = say_hello(study, read, err);
    lipsc_message word;
    for (size_t left = lipsc_ranks_count(study->team->ranks) - 1; left; left--) {
        if (lipsc_ranks_hear(study->team->ranks, &word)) return out_of_reach(err);
        if (!read && word.tag == TEAM_HELLO && word.bytes == sizeof own)
            read = compare(&own, (const hello *)(const void *)word.at, word.from, err);
        lipsc_release(word.at);
    }
    return read;
}

static lipsc_status lead_meeting(lipsc_study *study, lipsc_status read, lipsc_error *err) {
    const size_t count = lipsc_ranks_count(study->team->ranks);
    read = hear_hellos(study, read, err);
    const plan p = {.status = (uint64_t)read, .stride = study->stride};
    for (size_t rank = 1; rank < count; rank++)
        if (lipsc_ranks_send(study->team->ranks, rank, TEAM_PLAN, sizeof p, &p) && !read)
            read = out_of_reach(err);
    return read;
}

static lipsc_status follow_meeting(lipsc_study *study, lipsc_status read,
                                   lipsc_error *err) {
    const hello h = say_hello(study, read, err);
    lipsc_message word;
    plan p;
    if (lipsc_ranks_send(study->team->ranks, 0, TEAM_HELLO, sizeof h, &h) ||
        lipsc_ranks_hear(study->team->ranks, &word))
        return out_of_reach(err);
    const int good = word.tag == TEAM_PLAN && word.bytes == sizeof p;
    if (good) memcpy(&p, word.at, sizeof p);
    lipsc_release(word.at);
    if (!good) return out_of_reach(err);
    if (p.status) return lipsc_fail(err, LIPSC_E_STOPPED, "rank 0 has ended it");
    study->stride = (size_t)p.stride;
    return LIPSC_OK;
}

lipsc_status lipsc_team_meet(lipsc_study *study, lipsc_status read, lipsc_error *err) {
    if (!study->team) return read;
    lipsc_ranks_busy(study->team->ranks, 1);
    const lipsc_status status = lipsc_team_leads(study) ? lead_meeting(study, read, err)
                                                        : follow_meeting(study, read, err);
    if (status) end_team(study->team);
    return status;
}

static lipsc_status tell_device(const lipsc_study *study, const char kind[TEAM_KIND],
                                lipsc_error *err) {
    const size_t count = lipsc_ranks_count(study->team->ranks);
    for (size_t rank = 1; rank < count; rank++)
        if (lipsc_ranks_send(study->team->ranks, rank, TEAM_DEVICE, TEAM_KIND, kind))
            return out_of_reach(err);
    return LIPSC_OK;
}

lipsc_status lipsc_team_device(lipsc_study *study, char kind[TEAM_KIND], lipsc_error *err) {
    lipsc_message word;
    if (!study->team) return LIPSC_OK;
    if (lipsc_team_leads(study)) return tell_device(study, kind, err);
    if (lipsc_ranks_hear(study->team->ranks, &word)) return out_of_reach(err);
    const int good = word.tag == TEAM_DEVICE && word.bytes == TEAM_KIND;
    if (good) memcpy(kind, word.at, TEAM_KIND);
    if (word.tag == LIPSC_DEAL_STOP) study->team->follower.over = 1;
    lipsc_release(word.at);
    return good ? LIPSC_OK : lipsc_fail(err, LIPSC_E_STOPPED, "rank 0 has ended it");
}

/* ---- The work of one that follows -----------------------------------------------------
 */

lipsc_status lipsc_team_send_row(const lipsc_study *study, const study_cell *cell,
                                 lipsc_error *err) {
    const study_sent head = {(uint64_t)(cell - study->cells), (uint64_t)cell->passing};
    json_t *row = lipsc_row_json(cell->row);
    char *text = row ? lipsc_json_dumps(row, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    const size_t length = text ? strlen(text) : 0;
    char *bytes = text ? lipsc_alloc(sizeof head + length, 1) : NULL;
    lipsc_status status = bytes ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status) {
        memcpy(bytes, &head, sizeof head);
        memcpy(bytes + sizeof head, text, length);
        status =
            lipsc_ranks_post(study->team->ranks, 0, TEAM_ROW, sizeof head + length, bytes);
    }
    lipsc_release(text);
    json_decref(row);
    if (status == LIPSC_E_NOMEM) return lipsc_fail(err, status, "out of memory for a row");
    return status ? out_of_reach(err) : LIPSC_OK;
}

static void take_work(lipsc_study *study, const lipsc_message *word) {
    study_part part;
    for (size_t at = 0; at + sizeof part <= word->bytes; at += sizeof part) {
        memcpy(&part, word->at + at, sizeof part);
        for (uint64_t i = 0; i < part.count && part.first + i < study->cell_count; i++)
            study->cells[part.first + i].elsewhere = 0;
    }
}

/* Whether there is some. */
static int ask_for_work(lipsc_study *study) {
    lipsc_message word;
    if (!lipsc_follower_work(&study->team->follower, &word)) return 0;
    take_work(study, &word);
    lipsc_release(word.at);
    return 1;
}

/* Says why, where this rank ends before rank 0 does; then rank 0 ends all.  What came of it
 * for all. */
static lipsc_status leave(lipsc_study *study, lipsc_status status, const lipsc_error *err) {
    study_team *team = study->team;
    study_failure why = {.status = (uint64_t)status};
    snprintf(why.text, sizeof why.text, "%s", status ? err->text : "");
    if (status && !team->follower.over)
        lipsc_ranks_send(team->ranks, 0, TEAM_FAIL, sizeof why, &why);
    status = lipsc_follower_bye(&team->follower, sizeof study->times, &study->times);
    end_team(team);
    return status;
}

void lipsc_team_follow(lipsc_study *study, study_sweep *s) {
    lipsc_error err;
    study->set.remark = send_remark;
    for (size_t i = 0; i < study->cell_count; i++) study->cells[i].elsewhere = 1;
    while (!lipsc_sweep_ended(s) && ask_for_work(study)) lipsc_sweep_run(s);
    lipsc_status status = lipsc_sweep_status(s, &err);
    if (!status && !study->team->follower.over && lipsc_study_stopped(study))
        status = lipsc_fail(&err, LIPSC_E_STOPPED, "interrupted");
    status = leave(study, status, &err);
    if (status) lipsc_sweep_fail(s, lipsc_fail(&err, status, "rank 0 has ended it"), &err);
}

void lipsc_team_part(lipsc_study *study, lipsc_status status, const lipsc_error *err) {
    if (!study->team || study->team->over) return;
    if (lipsc_team_leads(study))
        lipsc_team_dismiss(study);
    else
        leave(study, status, err);
}
