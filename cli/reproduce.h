/* reproduce.h - the parts of `lipscope reproduce`: lines of its closing table, and the
 * experiments that fill them.
 *
 *     cmd_reproduce.c            options, the order of things, the run file
 *     reproduce_line.c           one line: promised against measured, judged in one place
 *     reproduce_print.c          closing table, paragraphs, TSV files
 *     reproduce_small.c          small layers and random ones, Jacobians, bounds of a ball
 *     reproduce_split.c          maths 2: moving, splitting, teleporting
 *     reproduce_bounds.c         maths 3: every bound on a batch of random layers
 *     reproduce_lemmas.c         maths 3: lemmas, norms in front, distances of measures
 *     reproduce_worst.c          maths 4 and 5: constructions for n tokens
 *     reproduce_mean_field.c     maths 5: two Diracs, masks, spheres
 *     reproduce_regimes.c        maths 3.5 and 6: crossover, large radius
 *     reproduce_layers.c         maths 3: bounds of layers of real size
 *     reproduce_released.c       maths 8: what the published scripts return
 *     reproduce_growth.c         maths 8: real text
 *     reproduce_adversarial.c    maths 8: the authors' adversarial inputs
 *
 * What goes wrong is kept in the repro; everything after it does nothing. */
#ifndef LIPSC_CLI_REPRODUCE_H
#define LIPSC_CLI_REPRODUCE_H

#include <jansson.h>

#include "args.h"
#include "attn/attn.h"
#include "bound/construct.h"
#include "bound/zoo.h"
#include "model/model.h"
#include "progress.h"
#include "run/run.h"

typedef struct {
    cli_common common;
    const char *out, *run, *bert, *gpt2, *spoil;
    cli_texts texts;
    int quick, only; /* only: 0 all groups, else number of the one */
    uint64_t seed;
} repro_settings;

typedef struct {
    const cli_command *self;
    const repro_settings *set;
    const char *decoder; /* the pretrained decoder that can read text: a folder, or
                          * builtin:gpt2-nano                                          */
    cli_texts texts;     /* given or built in                                          */
    struct {
        const char *spec;
        lipsc_model *model;
    } kept[3]; /* the models that were given, open: their files are hashed once         */
    int threads;
    lipsc_run *run;
    json_t *fits; /* growth laws of this call, as defined and as released            */
    cli_progress progress;
    int group, lines; /* of the line that comes next                                  */
    int spoiled;      /* the line that --spoil names has come                         */
    int loose;        /* values that did not converge                                 */
    lipsc_status status;
    lipsc_error err;
} repro;

/* ---- Lines: reproduce_line.c --------------------------------------------------------- */

typedef enum {
    REPRO_AT_MOST,  /* measured <= promised (1 + tolerance)       */
    REPRO_AT_LEAST, /* measured >= promised (1 - tolerance)       */
    REPRO_EQUALS    /* |measured - promised| <= tolerance         */
} repro_relation;

/* A theorem that does not hold ends the program with exit code 1; an experiment of the
 * paper that comes out otherwise is a finding.  On another model than the paper's own, a
 * stand-in, only its message is tested. */
typedef enum { REPRO_THEOREM, REPRO_EXPERIMENT, REPRO_STAND_IN } repro_kind;

typedef struct {
    const char *name;    /* for --spoil, and its key in the run file  */
    const char *section; /* of docs/maths.md                          */
    const char *claim;   /* what is claimed                           */
    const char *paper;   /* what the paper, or its proof here, says   */
    repro_relation relation;
    double promised, tolerance;
    repro_kind kind;
    const char *says; /* a paragraph in plain words, or NULL       */
} repro_line;

/* Compares, stores.  words: the measurement for people. */
#if defined(__GNUC__)
__attribute__((format(printf, 4, 5)))
#endif
void repro_judge(repro *r, const repro_line *line, double measured, const char *words, ...);
/* The line says "not tested", with the reason. */
#if defined(__GNUC__)
__attribute__((format(printf, 3, 4)))
#endif
void repro_leave(repro *r, const repro_line *line, const char *reason, ...);
/* 1: this line is in the run file already. */
int repro_known(repro *r, const char *name);
/* A row that is no line, such as a cell of a table; takes over row. */
void repro_store(repro *r, const char *key, json_t *row);
json_t *repro_real(double x); /* null for NaN and infinities */
void repro_fail(repro *r, lipsc_status status, const lipsc_error *err);
int repro_stopped(repro *r); /* failed or interrupted: leave */

/* ---- Output: reproduce_print.c ------------------------------------------------------- */

/* All rows of the run: files in the folder, the closing table on standard output.
 * CLI_DONE, or CLI_FAILED when a theorem does not hold. */
int repro_print(repro *r, const json_t *rows);

/* ---- Small layers: reproduce_small.c ------------------------------------------------- */

/* One head given by A and V, of width at most 3. */
typedef struct {
    double A[9], V[9];
    lipsc_layer layer; /* resolved */
    lipsc_head_facts facts;
} repro_small;

lipsc_status repro_small_ready(repro_small *s, size_t d);                  /* A, V filled */
lipsc_status repro_small_identity(repro_small *s, size_t d, double score); /* A = score I */
void repro_small_free(repro_small *s);

/* NaN where something fails: a line then does not hold. */
double repro_reach(const repro_small *s, lipsc_worst *worst, int causal); /* frees worst */
double repro_sigma(const lipsc_layer *layer, const lipsc_input *input);   /* dense       */
/* A bound that needs n and R alone. */
double repro_ball_bound(const repro_small *s, const char *name, size_t n, double R,
                        int causal);

/* A stream of random numbers. */
typedef struct {
    uint64_t seed, next;
} repro_dice;

double repro_uniform(repro_dice *dice);
size_t repro_among(repro_dice *dice, size_t low, size_t high); /* both included */
void repro_normal(repro_dice *dice, size_t count, double size, double *x);
/* A (d, d) of norm about one: 0 Gaussian, 1 -I, 2 I, 3 skew, 4 rank one. */
void repro_score_matrix(repro_dice *dice, size_t kind, size_t d, double *A);
void repro_tokens(repro_dice *dice, size_t n, size_t d, double R, int boundary, double *X);

/* J, column-major (m, n), to be released; NULL where memory is short.  With weights it is
 * D^{1/2} J D^{-1/2}. */
double *repro_jacobian(lipsc_attn *attn);

/* A model that may be one of the kept ones.  cmd_reproduce.c */
lipsc_status repro_model_open(repro *r, const char *spec, lipsc_model **out,
                              lipsc_error *err);
void repro_model_close(repro *r, lipsc_model *model); /* NULL does nothing */
/* 1: of the size that the paper took, GPT-2 small or BERT base. */
int repro_is_published(repro *r, const char *spec, const char *architecture);

/* ---- Groups: each adds its lines ----------------------------------------------------- */

void repro_split(repro *r);
void repro_bounds(repro *r);
void repro_lemmas(repro *r);
void repro_worst(repro *r);
void repro_mean_field(repro *r);
void repro_regimes(repro *r);
void repro_layers(repro *r);
void repro_released(repro *r);
void repro_growth(repro *r);
void repro_adversarial(repro *r);

#endif
