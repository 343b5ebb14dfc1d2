/* groups.h - the windows of a sweep: which are open, and which go together. */
#ifndef LIPSC_STUDY_GROUPS_H
#define LIPSC_STUDY_GROUPS_H

#include "study/needs.h"
#include "study/study.h"

/* Cells first .. first+count-1 share a window and a length. */
typedef struct {
    size_t first, count;
    size_t n, start;
    size_t last;    /* layer of its last open cell */
    double cost;    /* of one pair of products     */
    int alone;      /* all threads work for it     */
    double *tokens; /* what it begins with, if that was read before */
    lipsc_acts *acts;
} study_group;

/* Layers from .. to-1, which all windows pass before the next. */
typedef struct {
    size_t from, to;
} study_span;

/* Whether the cell is to be computed in this span. */
int lipsc_group_cell_open(const study_cell *cell, study_span at);

/* The groups in which a cell is open; how many.  groups: room for all cells. */
size_t lipsc_groups_find(const lipsc_study *study, study_group *groups);

/* A window stands before those that are its beginnings; behind all that go side by side are
 * those that do not. */
void lipsc_groups_by_start(size_t count, study_group *groups);
void lipsc_groups_longest_first(size_t count, study_group *groups);

/* Which groups get all threads: of large ones what does not fill the threads one by one, or
 * all where that many do not fit into memory. */
void lipsc_groups_choose_alone(const lipsc_study *study, const study_kind *kind,
                               size_t count, study_group *groups);
/* The open cells of those that do not. */
size_t lipsc_groups_count_shared(const lipsc_study *study, size_t count,
                                 const study_group *groups, study_span at);

/* The layer of their last open cell. */
size_t lipsc_groups_last(size_t count, const study_group *groups);

/* Groups that are through go behind the others, whose number is returned. */
size_t lipsc_groups_move_through(size_t count, study_group *groups, study_span at);

#endif
