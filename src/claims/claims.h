/* claims.h - the claims of lipscope/claims.h inside: a table of claims, the computations
 * that measure them, and the verdicts.
 *
 *     run.c              what is worked on, the run file, which computations run
 *     results.c          the run file to lines, curves and worst cases
 *     claims.c           THE TABLE: whose claim, what it says, how it is judged, by whom
 *     judge.c            promised against measured, in one place
 *     small.c            small layers and random ones, Jacobians, bounds of a ball
 *     split.c            maths 2: moving, splitting, teleporting
 *     basics.c           maths 1.4, 5.2, 3.14: sequences as measures, no global constant
 *     records.c          a bound on a batch of inputs
 *     bounds.c           maths 3: every bound on a batch of random layers
 *     lemmas.c           maths 3: lemmas, norms in front, distances of measures
 *     worst.c            maths 4 and 5: constructions for n tokens
 *     mean_field.c       maths 5.3, 5.5: two Diracs, few atoms, spheres
 *     masked.c           maths 1.4, 5.4: causal masks
 *     regimes.c          maths 3.5 and 6: crossover, large radius
 *     layers.c           maths 3: bounds of layers of real size
 *     text.c             maths 2 and 3.11 on a window of text: LayerNorm, duplicated tokens
 *     released.c         maths 8: what the published scripts return
 *     law.c              maths 8, 9: growth laws, their intervals against what is drawn
 *     growth.c           maths 8: real text against the length
 *     adversarial.c      maths 8: the authors' adversarial inputs
 *
 * A computation reports every claim that the table gives it: with a value, or with the
 * reason why there is none.  What goes wrong is kept in the repro; everything after it does
 * nothing. */
#ifndef LIPSC_CLAIMS_CLAIMS_H
#define LIPSC_CLAIMS_CLAIMS_H

#include <jansson.h>

#include "attn/attn.h"
#include "bound/construct.h"
#include "bound/zoo.h"
#include "lipscope/claims.h"
#include "model/model.h"
#include "row/field.h"
#include "run/run.h"
#include "study/place.h"

typedef struct {
    const lipsc_claims_settings *set;
    lipsc_claims *out;
    const char *decoder;     /* the pretrained decoder that can read text: a folder, or
                              * builtin:gpt2-nano                                          */
    lipsc_claim_texts texts; /* given or built in                                      */
    struct {
        const char *spec;
        lipsc_model *model;
    } kept[3]; /* the models that were given, open: their files are hashed once         */
    int threads;
    lipsc_run *run;
    size_t order; /* of the line that comes next                                      */
    int spoiled;  /* the line to be spoilt has come                                   */
    lipsc_status status;
    lipsc_error err;
} repro;

/* ---- The table: claims.c ------------------------------------------------------------- */

typedef enum {
    REPRO_AT_MOST,  /* measured <= promised (1 + tolerance)       */
    REPRO_AT_LEAST, /* measured >= promised (1 - tolerance)       */
    REPRO_EQUALS    /* |measured - promised| <= tolerance         */
} repro_relation;

typedef struct {
    const char *id;      /* its key in the run file                    */
    const char *section; /* of docs/maths.md                                            */
    lipsc_claim_part part;
    lipsc_claim_source source;
    const char *statement; /* what is claimed                                           */
    const char *origin;    /* where it stands, and what of that was not seen            */
    repro_relation relation;
    double promised, tolerance;
    void (*compute)(repro *r); /* reports this claim, and its neighbours with the same  */
    const char *hypothesis;    /* what must hold for a verdict; NULL: nothing else      */
    int many;                  /* one line for each model, layer, bound, ...            */
} repro_claim;

extern const repro_claim repro_claims[];
extern const size_t repro_claim_count;
const repro_claim *repro_claim_find(const char *id); /* NULL: none */
const char *repro_part_title(lipsc_claim_part part);

/* ---- Verdicts: judge.c --------------------------------------------------------------- */

/* A claim where it is judged; what differs from the table is filled in by the caller. */
typedef struct {
    const repro_claim *claim;
    char name[128];
    const char *section, *statement, *origin;
    double promised, tolerance;
    const char
        *unmet;       /* the hypothesis fails, in these words: shown, not judged; or NULL */
    const char *says; /* a paragraph in plain words, or NULL                              */
} repro_line;

repro_line repro_line_of(const char *id);

#if defined(__GNUC__)
#define REPRO_PRINTF(at) __attribute__((format(printf, at, at + 1)))
#else
#define REPRO_PRINTF(at)
#endif

/* Compares, stores.  words: the measurement for people.  What is not finite holds nowhere.
 */
void repro_judge(repro *r, const repro_line *line, double measured, const char *words, ...)
    REPRO_PRINTF(4);
/* The line is not judged, with the reason. */
void repro_leave(repro *r, const repro_line *line, const char *reason, ...) REPRO_PRINTF(3);
/* The same for a claim as it stands in the table. */
void repro_say(repro *r, const char *id, double measured, const char *words, ...)
    REPRO_PRINTF(4);
void repro_pass(repro *r, const char *id, const char *reason, ...) REPRO_PRINTF(3);

/* 1: this line is in the run file already. */
int repro_known(repro *r, const char *name);
/* A row that is no line, such as a cell of a table; takes over row. */
void repro_store(repro *r, const char *key, json_t *row);
void repro_fail(repro *r, lipsc_status status, const lipsc_error *err);
int repro_stopped(repro *r); /* failed or interrupted: leave */
/* What is worked on. */
void repro_doing(repro *r, const char *what, ...) REPRO_PRINTF(2);

/* The larger, the smaller of what was met; a NaN stays one. */
void repro_raise(double *most, double value);
void repro_lower(double *least, double value);

/* ---- Bounds on a batch of inputs: records.c ------------------------------------------ */

typedef struct {
    double largest; /* exact / bound; of a lower bound its inverse                       */
    double tight;   /* the same where n >= 2, a >= 0.5 and the scores differ: towards a = 0
                     * every bound is reached, which says nothing                       */
    size_t inputs, telling; /* that entered these two                                   */
    size_t refused;         /* inputs where it was refused though its hypotheses hold   */
    char reason[160];       /* of a refusal                                             */
    int lower;              /* a lower bound                                            */
} repro_record;

void repro_record_add(repro_record *record, const lipsc_zoo_case *z,
                      const lipsc_zoo_row *row, double exact);
/* Not judged where the bound was refused though its hypotheses hold, or at every input. */
void repro_record_say(repro *r, const repro_line *line, const repro_record *record);

/* ---- What came out: results.c -------------------------------------------------------- */

/* Lines, curves and worst cases of the run file; r->out. */
lipsc_status repro_results_read(const char *run_file, lipsc_claims *out, lipsc_error *err);
/* A law of this call; its texts are copied. */
void repro_fit_add(repro *r, const lipsc_claim_fit *fit);

/* ---- Small layers: small.c ----------------------------------------------------------- */

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

/* A row of the run: exact value, formula, bound; mean_field.c */
void repro_mean_field_row(repro *r, const char *experiment, const char *what, double a,
                          double sigma, double promised, double upper);

/* ---- Models: run.c ------------------------------------------------------------------ */

/* A model that may be one of the kept ones. */
lipsc_status repro_model_open(repro *r, const char *spec, lipsc_model **out,
                              lipsc_error *err);
void repro_model_close(repro *r, lipsc_model *model); /* NULL does nothing */
/* 1: of the size that the paper took, GPT-2 small or BERT base. */
int repro_is_published(repro *r, const char *spec, const char *architecture);
const char *repro_encoder(const repro *r); /* the given one, or random:bert:nano */

/* The attention of the middle layer at a window of the first text. */
typedef struct {
    lipsc_model *model;
    lipsc_device *device;
    lipsc_place *place;
    place_point point;
} repro_window;

/* mask NULL: the model's own.  0: it failed, which r knows; close it either way.  layers.c
 */
int repro_window_open(repro *r, const char *spec, const lipsc_mask *mask, size_t length,
                      size_t *layer, repro_window *out);
void repro_window_close(repro *r, repro_window *window);

/* ---- Computations -------------------------------------------------------------------- */

void repro_split_theorem(repro *r);
void repro_split_examples(repro *r);
void repro_embedding(repro *r);
void repro_not_lipschitz(repro *r);
void repro_prior(repro *r);
void repro_bounds(repro *r);
void repro_identity(repro *r);
void repro_row_lemma(repro *r);
void repro_hardy_lemma(repro *r);
void repro_behind_norms(repro *r);
void repro_whole_distances(repro *r);
void repro_toolbox(repro *r);
void repro_one_outlier(repro *r);
void repro_adapted(repro *r);
void repro_any_matrix(repro *r);
void repro_two_outliers(repro *r);
void repro_two_diracs(repro *r);
void repro_first_distance(repro *r);
void repro_plateau(repro *r);
void repro_few_atoms(repro *r);
void repro_outlier_first(repro *r);
void repro_many_tokens(repro *r);
void repro_averaging(repro *r);
void repro_sphere(repro *r);
void repro_crossover(repro *r);
void repro_told_apart(repro *r);
void repro_large_radius(repro *r);
void repro_decoder_bounds(repro *r);
void repro_encoder_bounds(repro *r);
void repro_layernorm(repro *r);
void repro_duplication(repro *r);
void repro_known_outlier(repro *r);
void repro_flat_tokens(repro *r);
void repro_growth(repro *r);
void repro_adversarial(repro *r);

#endif
