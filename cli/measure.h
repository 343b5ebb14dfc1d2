/* measure.h - the parts of `lipscope measure`: what was asked, its cells, their rows.
 *
 *     cmd_measure.c      options, and the order of things
 *     measure_plan.c     which cells there are
 *     measure_shard.c    and which of them are this part's
 *     measure_sweep.c    computes them, on all cores, and stores each
 *     measure_cell.c     one cell: a solve and its row
 *     measure_print.c    rows and fits */
#ifndef LIPSC_CLI_MEASURE_H
#define LIPSC_CLI_MEASURE_H

#include "args.h"
#include "certify.h"
#include "model/model.h"
#include "row/row.h"
#include "run/run.h"
#include "window.h"

enum { MEASURE_MASK_MODEL, MEASURE_MASK_NONE, MEASURE_MASK_CAUSAL };

typedef struct {
    cli_common common;
    cli_source_options source;
    cli_sizes lengths;
    const char *windows, *layers, *heads; /* as typed; NULL: default          */
    int map;                              /* lipsc_map_kind                   */
    int part;                             /* lipsc_part                       */
    int mask, dtype;                      /* dtype: 0 f32, 1 f64              */
    int solver;                           /* lipsc_method                     */
    double tol, probability, max_sigma;
    size_t count, max_products;
    int upper, as_released, details, sink, timing;
    uint64_t seed;
    const char *run, *save_direction;
    const char *shard; /* "I/K": the I-th of K parts; NULL: all          */
    cli_certify certify;
} measure_settings;

/* One value to be found.  Without a layer: the map `model`. */
typedef struct {
    size_t layer; /* MEASURE_NONE: no layer   */
    size_t head;  /* MEASURE_NONE: all heads  */
    size_t n, window;
    size_t start;         /* its first token */
    double cost;          /* floating-point operations of one pair of products, roughly */
    const lipsc_row *row; /* of measure_job.rows; NULL: not finished              */
    int passing; /* the row is printed but not stored: its certificate was refused */
} measure_cell;

#define MEASURE_NONE SIZE_MAX

/* For --timing: seconds, summed over threads. */
typedef struct {
    double forward, prepare, solve, extras, products;
} measure_times;

typedef struct {
    const cli_command *self;
    const measure_settings *set;
    const char *spec;       /* MODEL */
    const char *experiment; /* of `reproduce`: told in key and row; NULL: none */
    lipsc_model *model;
    const lipsc_model_info *info;
    cli_source source;
    lipsc_mask mask;                 /* where --mask says one */
    const lipsc_mask *mask_override; /* NULL: the model's own */
    lipsc_dtype dtype;
    int threads;
    size_t cell_count;
    measure_cell *cells; /* in the order of the computation       */
    lipsc_row *rows;     /* (cell_count) room for a row of each   */
    lipsc_pool pool;     /* what is written in them               */
    size_t stride;       /* from window to window; 0: tiled, or one window only */
    lipsc_run *run;      /* NULL without --run */
    measure_times times;
} measure_job;

extern const char *const measure_map_names[];
const char *measure_mask_name(const measure_job *job); /* model, none or causal */

/* cmd_measure.c: settings as when no option is given. */
void measure_defaults(measure_settings *set);
/* Opens model, text and run file (line: the words as typed, told there), and plans the
 * cells.  CLI_RUN, or the exit code after a sentence on standard error; measure_end either
 * way. */
int measure_begin(measure_job *job, const cli_command *self, const measure_settings *set,
                  const char *spec, const char *line);
void measure_end(measure_job *job);

/* measure_plan.c: whether there is one window only: an image, or ids without a length. */
int measure_single(const measure_settings *set);
/* Fills cells; a stride that is set already is that of the run
 * file.  Wrong values of options are said on standard error.  CLI_RUN, or the exit code. */
int measure_plan(measure_job *job);
void measure_cells_free(measure_job *job); /* with their rows */

enum { MEASURE_FIELDS = 64 }; /* of a row at most */

/* What a row says that belongs to no other than this one. */
typedef struct {
    char rounding[sizeof((lipsc_svd_info *)0)->unknown];
    double *sigmas;
} measure_room;

/* measure_shard.c: keeps the cells of the part that --shard asks for.  CLI_RUN, or the exit
 * code after a sentence. */
int measure_shard(measure_job *job);

/* measure_cell.c */
double measure_tol(const measure_job *job);       /* residual to stop at              */
double measure_value_tol(const measure_job *job); /* value's error to stop at; 0: any */
enum { MEASURE_KEY = 128 };
void measure_key(const measure_job *job, const measure_cell *cell, char key[MEASURE_KEY]);
/* The window of a cell, before the first block. */
lipsc_status measure_window(measure_job *job, const measure_cell *cell, lipsc_acts **acts,
                            lipsc_error *err);
/* Safe to call from several threads.  *row is the finished row, whose texts are the job's
 * or stand in room; cell->passing says that it shall not be stored. */
lipsc_status measure_compute(const measure_job *job, measure_cell *cell,
                             const lipsc_acts *acts, int threads, measure_times *times,
                             measure_room *room, lipsc_row *row, lipsc_error *err);
/* The row is finished: keeps it with what stands in its room.  One thread at a time. */
lipsc_status measure_keep(measure_job *job, measure_cell *cell, const lipsc_row *row,
                          lipsc_error *err);
/* The row that an earlier call has stored, if there is one. */
lipsc_status measure_restore(measure_job *job, measure_cell *cell, lipsc_error *err);
/* Which parts a row of these settings has. */
unsigned measure_parts(const measure_settings *set);
/* The file that --save-direction makes of this cell.  0 when memory is short. */
int measure_direction_path(const measure_job *job, const measure_cell *cell, char *path,
                           size_t room);

/* measure_sweep.c: computes every cell that has no row.  LIPSC_E_STOPPED: interrupted. */
lipsc_status measure_sweep(measure_job *job, lipsc_error *err);

/* measure_print.c: rows in their order, and fits.  CLI_DONE or the exit code. */
int measure_print(const measure_job *job);

#endif
