/* study.h - a study inside: what was asked, its cells, their rows.
 *
 *     study.c     opens and closes one; what came out
 *     source.c    what is read: a text, ids, an image
 *     window.c    how windows are cut from it
 *     plan.c      which cells there are
 *     shard.c     and which of them are this part's
 *     store.c     the run file: what is there already, what is added
 *     words.c     and the texts of its windows
 *     needs.c     the memory that a sweep keeps to, and the time
 *     where.c     the device: what `auto` takes, what follows a GPU that fails
 *     groups.c    the windows of a sweep, and which go together
 *     sweep.c     computes the cells, on all cores
 *     team.c      the ranks that share a sweep: who begins, talks, ends
 *     lead.c      rank 0 hands cells out, and takes rows
 *     cell.c      one cell: the map at a window and its solve
 *     fill.c      its row
 *     save.c      its direction, as a layer file */
#ifndef LIPSC_STUDY_STUDY_H
#define LIPSC_STUDY_STUDY_H

#include "core/pool.h"
#include "lipscope/study.h"
#include "model/model.h"
#include "row/row.h"
#include "run/run.h"
#include "study/window.h"

typedef struct {
    size_t layer; /* LIPSC_NONE: no layer  */
    size_t head;  /* LIPSC_NONE: all heads */
    size_t n, window, start;
    double cost;           /* floating-point operations of a pair of products, roughly */
    const lipsc_row *row;  /* of lipsc_study.rows; NULL: not finished, or stored         */
    unsigned char stored;  /* finished, its row is in the run file alone (rows_stay)   */
    unsigned char passing; /* told but not stored: its certificate was refused        */
    unsigned char elsewhere; /* another rank has it, or nobody yet                      */
} study_cell;

typedef struct study_team study_team; /* team.h */

struct lipsc_study {
    lipsc_study_settings set;
    lipsc_model *model;
    const lipsc_model_info *info;
    lipsc_source source;
    lipsc_device *fallback; /* the CPU where the device of the settings has failed      */
    int threads;
    size_t cell_count;
    study_cell *cells; /* in the order of the computation                              */
    lipsc_row *rows;   /* (cell_count) room for a row of each                           */
    lipsc_pool pool;   /* what is written in them                                       */
    size_t stride;     /* from window to window; 0: tiled, or one window only           */
    lipsc_run *run;    /* NULL: none                                                    */
    int looked_for_words; /* a tokenizer, for the texts of ids                          */
    study_team *team; /* NULL: alone                                                   */
    const lipsc_row **sorted;
    lipsc_study_times times;
};

static inline int lipsc_cell_done(const study_cell *cell) {
    return cell->row || cell->stored;
}

/* study.c */
int lipsc_study_stopped(const lipsc_study *study);
/* To whoever listens, one at a time. */
#if defined(__GNUC__)
__attribute__((format(printf, 2, 3)))
#endif
void lipsc_study_remark(const lipsc_study *study, const char *format, ...);

/* plan.c: whether there is one window only: an image, or ids without a length. */
int lipsc_study_is_single(const lipsc_study_settings *set);
/* Fills cells; a stride that is set already is that of the run file. */
lipsc_status lipsc_study_plan(lipsc_study *study, lipsc_error *err);

/* shard.c: keeps the cells of this part. */
lipsc_status lipsc_study_shard(lipsc_study *study, lipsc_error *err);

/* store.c: what a run file says of its stride is taken over before the plan. */
lipsc_status lipsc_study_take_stride(lipsc_study *study, lipsc_error *err);
/* Opens the run file, and takes the rows that are there. */
lipsc_status lipsc_study_open_run(lipsc_study *study, lipsc_error *err);
lipsc_status lipsc_study_store(lipsc_study *study, const study_cell *cell,
                               lipsc_error *err);
/* The row of a stored cell, which the run file must have; its texts go into the pool. */
lipsc_status lipsc_study_fetch(lipsc_study *study, const study_cell *cell, lipsc_pool *pool,
                               lipsc_row *row, lipsc_error *err);

/* words.c: before its first cell is stored. */
lipsc_status lipsc_study_store_words(lipsc_study *study, const study_cell *cell,
                                     lipsc_error *err);

/* where.c: decides for the cells that are open, before anything is made on the device. */
lipsc_status lipsc_study_choose_device(lipsc_study *study, lipsc_error *err);
/* Whether a run that ended with this status shall go on, now on the CPU: only where the
 * device was not asked for by name.  err: what is said. */
int lipsc_study_falls_back(lipsc_study *study, lipsc_status status, lipsc_error *err);

/* cell.c */
double lipsc_study_tol(const lipsc_study_settings *set); /* residual to stop at */
double lipsc_study_value_tol(
    const lipsc_study_settings *set); /* value's error to stop at; 0: any */
void lipsc_study_cell_key(const lipsc_study *study, const study_cell *cell,
                          char key[LIPSC_CELL_KEY]);

/* What a row says that belongs to no other than this one. */
typedef struct {
    char rounding[sizeof((lipsc_svd_info *)0)->unknown];
    double *sigmas, *influence; /* lipsc_release */
} study_room;

/* One of several cells of the same layer and head. */
typedef struct {
    study_cell *cell;
    const lipsc_acts *acts;
    int told; /* whoever wants to know hears of its solve */
    /* what became of it: the finished row, whose texts are the study's or stand in room;
     * cell->passing says that it shall not be stored */
    lipsc_status status;
    lipsc_error err;
    lipsc_row row;
    study_room room;
    lipsc_study_times times;
} study_job;

/* Computes them together; each is, to the last bit, what it would be alone.  Safe to call
 * from several threads. */
void lipsc_study_compute(const lipsc_study *study, size_t count, study_job *job,
                         int threads);

/* save.c: the file for the direction of this cell.  0: the path is too long. */
int lipsc_study_direction_path(const lipsc_study *study, const study_cell *cell, char *path,
                               size_t room);
/* Makes the folder for several of them. */
lipsc_status lipsc_study_prepare_directions(const lipsc_study *study, lipsc_error *err);

#endif
