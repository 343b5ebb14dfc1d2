/* claims.h - the claims of lipscope/claims.h inside: a table of claims, the computations
 * that measure them, and the verdicts.
 *
 *     run.c              what is worked on, the run file, which computations run
 *     share.c            ranks that share computations, and rows on their way to rank 0
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
 * reason why there is none.  What goes wrong is kept in the claims_work; everything after
 * it does nothing. */
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
    lipsc_run *run; /* NULL: that of another rank                                       */
    json_t *held;   /* rows of a computation, by key, that rank 0 will store; or NULL    */
    int told;       /* the titles of parts up to this have been told                     */
    int agreed;     /* all ranks know of the status                                      */
    int lost;       /* of rank 0: not all could be told in time, and they wait still     */
    size_t order;   /* of the line that comes next                                      */
    int spoiled;    /* the line to be spoilt has come                                   */
    const char *part; /* of the table that is computed                                  */
    double counting;  /* since when trials are counted                                  */
    size_t pieces, settled; /* that ranks share at the moment, and those that are done  */
    double dealt;           /* since when                                               */
    lipsc_status status;
    lipsc_error err;
} claims_work;

/* ---- The table: claims.c ------------------------------------------------------------- */

typedef enum {
    CLAIMS_AT_MOST,  /* measured <= promised (1 + tolerance)       */
    CLAIMS_AT_LEAST, /* measured >= promised (1 - tolerance)       */
    CLAIMS_EQUALS    /* |measured - promised| <= tolerance         */
} claims_relation;

typedef struct {
    const char *id;      /* its key in the run file                    */
    const char *section; /* of docs/maths.md                                            */
    lipsc_claim_part part;
    lipsc_claim_source source;
    const char *statement; /* what is claimed                                           */
    const char *origin;    /* where it stands, and what of that was not seen            */
    claims_relation relation;
    double promised, tolerance;
    void (*compute)(
        claims_work *r);    /* reports this claim, and its neighbours with the same  */
    const char *hypothesis; /* what must hold for a verdict; NULL: nothing else      */
    int many;               /* one line for each model, layer, bound, ...            */
} claims_entry;

extern const claims_entry claims_table[];
extern const size_t claims_count;
const claims_entry *claims_find(const char *id); /* NULL: none */
const char *claims_part_title(lipsc_claim_part part);

/* ---- Verdicts: judge.c --------------------------------------------------------------- */

/* A claim where it is judged; what differs from the table is filled in by the caller. */
typedef struct {
    const claims_entry *claim;
    char name[128];
    const char *section, *statement, *origin;
    double promised, tolerance;
    const char
        *unmet;       /* the hypothesis fails, in these words: shown, not judged; or NULL */
    const char *says; /* a paragraph in plain words, or NULL                              */
} claims_line;

claims_line claims_line_of(const char *id);

#if defined(__GNUC__)
#define CLAIMS_PRINTF(at) __attribute__((format(printf, at, at + 1)))
#else
#define CLAIMS_PRINTF(at)
#endif

/* Compares, stores.  words: the measurement for people.  What is not finite holds nowhere.
 */
void claims_judge(claims_work *r, const claims_line *line, double measured,
                  const char *words, ...) CLAIMS_PRINTF(4);
/* The line is not judged, with the reason. */
void claims_leave(claims_work *r, const claims_line *line, const char *reason, ...)
    CLAIMS_PRINTF(3);
/* The same for a claim as it stands in the table. */
void claims_say(claims_work *r, const char *id, double measured, const char *words, ...)
    CLAIMS_PRINTF(4);
void claims_pass(claims_work *r, const char *id, const char *reason, ...) CLAIMS_PRINTF(3);

/* 1: this line is in the run file already. */
int claims_known(claims_work *r, const char *name);
/* A row that is no line, such as a cell of a table; takes over row. */
void claims_store(claims_work *r, const char *key, json_t *row);
/* One input in the ball; upper_paper may be NAN: none. */
void claims_store_worst(claims_work *r, const char *key, const lipsc_claim_worst *of);
void claims_fail(claims_work *r, lipsc_status status, const lipsc_error *err);
int claims_stopped(claims_work *r); /* failed or interrupted: leave */
/* What is worked on. */
void claims_doing(claims_work *r, const char *what, ...) CLAIMS_PRINTF(2);
/* plan.c: what the parts that are open will take, roughly. */
double claims_seconds(claims_work *r, const char open[LIPSC_CLAIM_PARTS]);
/* Whether trial t of so many is made; tells how far they are, and what time is left. */
int claims_going(claims_work *r, size_t t, size_t trials);

/* The larger, the smaller of what was met; a NaN stays one. */
void claims_raise(double *most, double value);
void claims_lower(double *least, double value);

/* ---- Bounds on a batch of inputs: records.c ------------------------------------------ */

typedef struct {
    double largest; /* exact / bound; of a lower bound its inverse                       */
    double tight;   /* the same where n >= 2, a >= 0.5 and the scores differ: towards a = 0
                     * every bound is reached, which says nothing                       */
    size_t inputs, telling; /* that entered these two                                   */
    size_t refused;         /* inputs where it was refused though its hypotheses hold   */
    char reason[160];       /* of a refusal                                             */
    int lower;              /* a lower bound                                            */
} claims_record;

void claims_record_add(claims_record *record, const lipsc_zoo_case *z,
                       const lipsc_zoo_row *row, double exact);
/* Not judged where the bound was refused though its hypotheses hold, or at every input. */
void claims_record_say(claims_work *r, const claims_line *line,
                       const claims_record *record);

/* ---- Ranks: share.c ------------------------------------------------------------------ */

int claims_leads(const claims_work *r);
/* Whether rank 0 goes on: all ranks ask together, wherever one of them could have ended. */
int claims_together(claims_work *r);
/* What came of a work that all ranks shared, and know. */
void claims_agree(claims_work *r, lipsc_status status, const lipsc_error *err);
/* Makes rows by claims_store, for rank 0 to store. */
typedef void claims_piece(claims_work *r, void *ctx, size_t piece);
/* Every piece that is not known, by one of the ranks; known is rank 0's. */
void claims_deal(claims_work *r, size_t count, const char *known, claims_piece *compute,
                 void *ctx);
/* A stored row, or NULL; of rank 0. */
json_t *claims_get(claims_work *r, const char *key);

/* ---- What came out: results.c -------------------------------------------------------- */

/* Lines, curves and worst cases of the run file; r->out. */
lipsc_status claims_results_read(const char *run_file, lipsc_claims *out, lipsc_error *err);
/* A law of this call; its texts are copied. */
void claims_fit_add(claims_work *r, const lipsc_claim_fit *fit);

/* ---- Small layers: small.c ----------------------------------------------------------- */

/* One head given by A and V, of width at most 3. */
typedef struct {
    double A[9], V[9];
    lipsc_layer layer; /* resolved */
    lipsc_head_facts facts;
} claims_small;

lipsc_status claims_small_ready(claims_small *s, size_t d); /* A, V filled */
lipsc_status claims_small_identity(claims_small *s, size_t d,
                                   double score); /* A = score I */
void claims_small_free(claims_small *s);

/* NaN where something fails: a line then does not hold. */
double claims_reach(const claims_small *s, lipsc_worst *worst,
                    int causal);                                         /* frees worst */
double claims_sigma(const lipsc_layer *layer, const lipsc_input *input); /* dense       */
/* A bound that needs n and R alone. */
double claims_ball_bound(const claims_small *s, const char *name, size_t n, double R,
                         int causal);

/* A stream of random numbers. */
typedef struct {
    uint64_t seed, next;
} claims_dice;

double claims_uniform(claims_dice *dice);
size_t claims_among(claims_dice *dice, size_t low, size_t high); /* both included */
void claims_normal(claims_dice *dice, size_t count, double size, double *x);
/* A (d, d) of norm about one: 0 Gaussian, 1 -I, 2 I, 3 skew, 4 rank one. */
void claims_score_matrix(claims_dice *dice, size_t kind, size_t d, double *A);
void claims_tokens(claims_dice *dice, size_t n, size_t d, double R, int boundary,
                   double *X);

/* J, column-major (m, n), to be released; NULL where memory is short.  With weights it is
 * D^{1/2} J D^{-1/2}. */
double *claims_jacobian(lipsc_attn *attn);

/* A row of the run: exact value, formula, bound; mean_field.c */
void claims_mean_field_row(claims_work *r, const char *experiment, const char *what,
                           double a, double sigma, double promised, double upper);

/* ---- Models: run.c ------------------------------------------------------------------ */

/* A model that may be one of the kept ones. */
lipsc_status claims_model_open(claims_work *r, const char *spec, lipsc_model **out,
                               lipsc_error *err);
void claims_model_close(claims_work *r, lipsc_model *model); /* NULL does nothing */
/* 1: of the size that the paper took, GPT-2 small or BERT base. */
int claims_is_published(claims_work *r, const char *spec, const char *architecture);
const char *claims_encoder(const claims_work *r); /* the given one, or random:bert:nano */

/* The attention of the middle layer at a window of the first text. */
typedef struct {
    lipsc_model *model;
    lipsc_device *device;
    lipsc_place *place;
    place_point point;
} claims_window;

/* mask NULL: the model's own.  0: it failed, which r knows; close it either way.  layers.c
 */
int claims_window_open(claims_work *r, const char *spec, const lipsc_mask *mask,
                       size_t length, size_t *layer, claims_window *out);
void claims_window_close(claims_work *r, claims_window *window);

/* ---- Computations -------------------------------------------------------------------- */

void claims_split_theorem(claims_work *r);
void claims_split_examples(claims_work *r);
void claims_embedding(claims_work *r);
void claims_not_lipschitz(claims_work *r);
void claims_prior(claims_work *r);
void claims_bounds(claims_work *r);
void claims_identity(claims_work *r);
void claims_row_lemma(claims_work *r);
void claims_hardy_lemma(claims_work *r);
void claims_behind_norms(claims_work *r);
void claims_whole_distances(claims_work *r);
void claims_toolbox(claims_work *r);
void claims_one_outlier(claims_work *r);
void claims_adapted(claims_work *r);
void claims_any_matrix(claims_work *r);
void claims_two_outliers(claims_work *r);
void claims_two_diracs(claims_work *r);
void claims_first_distance(claims_work *r);
void claims_plateau(claims_work *r);
void claims_few_atoms(claims_work *r);
void claims_outlier_first(claims_work *r);
void claims_many_tokens(claims_work *r);
void claims_averaging(claims_work *r);
void claims_sphere(claims_work *r);
void claims_crossover(claims_work *r);
void claims_told_apart(claims_work *r);
void claims_large_radius(claims_work *r);
void claims_decoder_bounds(claims_work *r);
void claims_encoder_bounds(claims_work *r);
void claims_layernorm(claims_work *r);
void claims_duplication(claims_work *r);
void claims_known_outlier(claims_work *r);
void claims_flat_tokens(claims_work *r);
void claims_growth(claims_work *r);
void claims_adversarial(claims_work *r);

#endif
