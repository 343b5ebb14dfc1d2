/* sweep.h - a sweep on its way: what the threads that work for it share. */
#ifndef LIPSC_STUDY_SWEEP_H
#define LIPSC_STUDY_SWEEP_H

#include "study/groups.h"
#include "study/team.h"

struct study_sweep {
    lipsc_study *study;
    double begin;
    size_t done, open;           /* cells of this run: finished, and all of them */
    double done_cost, open_cost; /* the same in operations                       */
    study_kind kind;
    int beginnings; /* of a window are what windows of these tokens alone are   */
    int status;     /* lipsc_status of the first failure, which ends it         */
    lipsc_error err;
};

/* Whether what g needs is the beginning of what the leader does. */
int lipsc_sweep_follows(const study_sweep *s, const study_group *g,
                        const study_group *leader);
/* Reads the window's tokens, of which a device hears nothing yet. */
void lipsc_sweep_read_window(study_sweep *s, study_group *g);
/* Runs the window through a span. */
void lipsc_sweep_window(study_sweep *s, study_group *g, study_span at, int threads);
/* What g saw, from what its leader did; NULL: the sweep has ended. */
lipsc_acts *lipsc_sweep_beginning(study_sweep *s, const study_group *g,
                                  const lipsc_acts *whole);
/* What the window saw so far, which it has no more; NULL: the sweep has ended. */
lipsc_acts *lipsc_sweep_behind(study_sweep *s, const study_group *g);
/* Computes cells of the same layer and head, and keeps their rows. */
void lipsc_sweep_cells(study_sweep *s, size_t count, study_job *job, int threads);
/* Behind the cells of a span: g goes on from acts, or they are freed. */
void lipsc_sweep_leave(study_group *g, lipsc_acts *acts, study_span at);

/* Reads what a part of the weights will be made of, for a device that still begins. */
void lipsc_sweep_read(study_sweep *s, size_t part, size_t last);
/* Makes a part of the weights, LIPSC_WARM_PARTS to a layer, counted from layer 0; nothing
 * where cells up to layer last need none of it, or the sweep has ended. */
void lipsc_sweep_warm(study_sweep *s, size_t part, size_t last);

/* side.c: one thread for each batch of groups that are not alone; open: their cells. */
void lipsc_sweep_side_by_side(study_sweep *s, size_t count, study_group *groups,
                              size_t open, study_span at);

#endif
