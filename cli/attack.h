/* attack.h - the parts of `lipscope attack`: what was asked, and one search per length.
 *
 *     cmd_attack.c      options, the run file, rows and their fit
 *     attack_source.c   layer, domain and given input, from a file or a model
 *     attack_cell.c     one length: the search, its file and its row */
#ifndef LIPSC_CLI_ATTACK_H
#define LIPSC_CLI_ATTACK_H

#include <jansson.h>

#include "bounds.h"
#include "run/run.h"

enum { ATTACK_DTYPE_DEFAULT, ATTACK_DTYPE_F32, ATTACK_DTYPE_F64 };

typedef struct {
    bounds_settings from; /* where the layer comes from; first, for its option tables */
    cli_sizes lengths;
    size_t atoms;
    int domain; /* lipsc_attack_domain */
    size_t restarts, iterations;
    double tol;
    int dtype;
    const char *out, *run;
} attack_settings;

typedef struct {
    const cli_command *self;
    const attack_settings *set;
    const char *what; /* MODEL or FILE */
    bounds_source source;
    lipsc_layer layer; /* resolved                                                       */
    lipsc_dtype dtype;
    double radius; /* NaN: the longest token of the given input                           */
    bounds_norm norm; /* gain NULL: not asked for                                        */
    char hash[65];    /* of the model, or of the file                                    */
    size_t count;     /* lengths                                                         */
    size_t *lengths;
    json_t **rows;  /* (count) NULL: not finished                                         */
    size_t current; /* the length that is worked on                                       */
    lipsc_run *run; /* NULL without --run                                                */
} attack_job;

extern const char *const attack_domain_names[];

/* attack_source.c.  Each says what is wrong on standard error; CLI_RUN, or the exit code.
 */
int attack_source_open(attack_job *job);
void attack_source_close(attack_job *job);
/* What the search of length n needs of the source: domain, centre, data, masses. */
int attack_source_aim(attack_job *job, size_t n, lipsc_attack_settings *aim);

/* attack_cell.c */
/* The file of length n: --out, with the length in its name when there are several.  0 when
 * it does not fit. */
int attack_path(const attack_job *job, size_t n, char *path, size_t room);
/* One length.  *row also when it returns LIPSC_E_STOPPED, with the best so far, and when
 * the file could not be written (LIPSC_E_IO), then without its path. */
lipsc_status attack_cell(attack_job *job, size_t n, const lipsc_attack_settings *aim,
                         json_t **row, lipsc_error *err);

#endif
