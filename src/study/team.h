/* team.h - a study that several ranks share.
 *
 * All of them read model and text and plan the same cells.  Rank 0 owns the run file: it
 * hands out the cells that have no row, large ones first, computes like the others, and
 * takes the rows that they send (ranks/dealer.h).  WORK is cells, BYE brings a rank's
 * times:
 *
 *     HELLO   to 0    what is read, or why it could not be
 *     PLAN    from 0  whether all could, and the stride of the windows
 *     DEVICE  from 0  the kind of device on which all compute
 *     ROW     to 0    a finished one
 *     REMARK  to 0    to be told
 *     FAIL    to 0    why this rank cannot go on */
#ifndef LIPSC_STUDY_TEAM_H
#define LIPSC_STUDY_TEAM_H

#include "ranks/dealer.h"
#include "study/study.h"

enum {
    TEAM_HELLO = LIPSC_DEAL_MORE,
    TEAM_PLAN,
    TEAM_DEVICE,
    TEAM_ROW,
    TEAM_REMARK,
    TEAM_FAIL
};

typedef struct {
    uint64_t first, count;
} study_part; /* cells first .. first+count-1; WORK is an array of them */

typedef struct {
    uint64_t cell;
    uint64_t passing; /* behind it: the row as JSON */
} study_sent;

typedef struct {
    uint64_t status;
    char text[sizeof((lipsc_error *)0)->text];
} study_failure;

/* The sweep that a team runs. */
typedef struct study_sweep study_sweep;

/* sweep.c: the cells that are open and not elsewhere. */
void lipsc_sweep_run(study_sweep *s);
/* A row that another rank has found, as JSON. */
void lipsc_sweep_take(study_sweep *s, study_cell *cell, const char *text);
void lipsc_sweep_fail(study_sweep *s, lipsc_status status, const lipsc_error *err);
/* Of who has all rows, at the end: where cells are left, it was interrupted. */
lipsc_status lipsc_sweep_outcome(study_sweep *s);
lipsc_status lipsc_sweep_status(const study_sweep *s, lipsc_error *err);
/* Whether a window sees the beginning of a longer one as that does. */
int lipsc_study_beginnings(const lipsc_study *study);
int lipsc_sweep_ended(study_sweep *s); /* it has failed, or shall stop */

/* team.c ------------------------------------------------------------------------------- */

/* Before anything is read. */
lipsc_status lipsc_team_new(lipsc_study *study, lipsc_error *err);
/* When all is read, or could not be: read is what came of it here.  All ranks go on, or
 * none. */
lipsc_status lipsc_team_meet(lipsc_study *study, lipsc_status read, lipsc_error *err);
/* An end before a sweep, whose status is given; it does nothing after one. */
void lipsc_team_part(lipsc_study *study, lipsc_status status, const lipsc_error *err);
void lipsc_team_free(study_team *team);

int lipsc_team_leads(const lipsc_study *study);
/* Of rank 0: tells all others the kind of its device; of another: hears it. */
enum { TEAM_KIND = 16 };
lipsc_status lipsc_team_device(lipsc_study *study, char kind[TEAM_KIND], lipsc_error *err);
/* Of a rank that does not lead: to rank 0. */
lipsc_status lipsc_team_send_row(const lipsc_study *study, const study_cell *cell,
                                 lipsc_error *err);
/* Computes what rank 0 hands out, to the end. */
void lipsc_team_follow(lipsc_study *study, study_sweep *s);

/* lead.c: hands out, computes, takes rows, to the end. */
void lipsc_team_lead(lipsc_study *study, study_sweep *s);
/* Ends it before a sweep: waits until every other rank has said BYE. */
void lipsc_team_dismiss(lipsc_study *study);

struct study_team {
    lipsc_ranks *ranks;
    int over; /* all have said BYE                          */
    /* of a rank that does not lead: */
    lipsc_follower follower;
    int (*stop)(void *ctx); /* what the caller of this rank gave */
    void *ctx;
};

#endif
