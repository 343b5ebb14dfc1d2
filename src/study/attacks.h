/* attacks.h - attacks of several lengths inside.
 *
 *     attacks.c      the lengths, which ranks may share, and how sigma grows
 *     attack_aim.c   what is asked for: domain, lengths, the search of each
 *     attack_find.c  one length: the search, and what it is held against
 *     attack_keep.c  rows of the run file, inputs as layer files */
#ifndef LIPSC_STUDY_ATTACKS_H
#define LIPSC_STUDY_ATTACKS_H

#include "core/pool.h"
#include "run/run.h"
#include "study/place.h"

enum { ATTACK_PATH = 4096 };

typedef struct {
    lipsc_place *place;
    const lipsc_attacks_settings *set;
    lipsc_dtype dtype;
    place_norm norm; /* gain NULL: not asked for */
    char hash[65];   /* of the model, or of the file */
    size_t *lengths, longest;
    double *cost; /* of each length, in some unit                      */
    char *known;  /* of each length: the run file has it already       */
    lipsc_run *run;
    lipsc_attacks *out;
    lipsc_pool *pool;
    double *slopes;
    double start;    /* of all, seconds of the clock                   */
    size_t done;     /* lengths, wherever they were computed           */
    int climbs;      /* ranks share the climbs of each length          */
    size_t n;        /* that is worked on, and of it:                  */
    double deadline; /* infinite: none                                 */
    int found;       /* an input has a value                           */
    int late;        /* the deadline has ended the search              */
} attacks;

static inline const char *attack_name(const attacks *a) { return a->place->set.from; }

/* ---- attack_aim.c ---- */

/* What contradicts itself, the norm, lengths with room for their rows; hash. */
lipsc_status attack_plan(attacks *a, lipsc_error *err);
/* The search of length n: domain, centre, data, masses. */
lipsc_status attack_aim(attacks *a, size_t n, lipsc_attack_settings *aim, lipsc_error *err);

/* What all ranks must have alike, for lipsc_ranks_meet. */
void attack_say(const attacks *a, size_t room, char *said);

/* ---- attack_find.c ---- */

/* What a length came to; texts of the row are those of the rest. */
typedef struct {
    lipsc_attack_row row; /* n LIPSC_NONE: stopped before the first value */
    lipsc_attack_result found;
    double *moved;
    int finished;
} attack_find;

/* Also LIPSC_E_STOPPED, with the best so far.  Free it in any case. */
lipsc_status attack_search(attacks *a, size_t i, attack_find *out, lipsc_error *err);
/* What failed on any rank of a search that they share, or was stopped there, has on all;
 * so has a deadline, unless one was interrupted. */
lipsc_status attack_agree(attacks *a, lipsc_status own, lipsc_error *err);
/* That the lengths which are not known will take on the CPU, roughly. */
double attack_seconds(const attacks *a);
void attack_find_free(attack_find *find);

/* ---- attack_keep.c ---- */

lipsc_status attack_open_run(attacks *a, lipsc_error *err);
/* A search takes minutes: whether its file can be made is better known before. */
lipsc_status attack_check_folder(const attacks *a, lipsc_error *err);
/* The file of length n: `out`, with the length in its name when there are several.  0 when
 * it does not fit; empty: none is asked for. */
int attack_path(const attacks *a, size_t n, char path[ATTACK_PATH]);
/* The row of an earlier call, when its file is still there. */
lipsc_status attack_restore(attacks *a, size_t i, lipsc_error *err);
/* Writes the input, and where the length is finished stores the row. */
lipsc_status attack_keep(attacks *a, size_t i, attack_find *find, lipsc_error *err);

#endif
