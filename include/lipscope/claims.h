/* claims.h - what is claimed of the Lipschitz constant of attention, in the paper and here,
 * computed and judged: what `lipscope reproduce` does.
 *
 * The claims are a table: whose each is, what it says and where, under which hypotheses,
 * how it is computed and compared.  A claim whose hypotheses do not hold is not judged,
 * with the reason; a value that is not finite holds nowhere.
 *
 *     lipsc_claims_settings set;
 *     lipsc_claims_defaults(&set);
 *     set.run_file = "claims.db";                   // kept there, and continued
 *     lipsc_claims found;
 *     if (lipsc_claims_run(&set, &found, &err))
 *         fprintf(stderr, "%s\n", err.text);
 *     for (size_t i = 0; i < found.line_count; i++)
 *         printf("%s: %s\n", found.lines[i].name, found.lines[i].holds);
 *     lipsc_claims_free(&found); */
#ifndef LIPSCOPE_CLAIMS_H
#define LIPSCOPE_CLAIMS_H

#include "lipscope/study.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- The table --------------------------------------------------------------------- */

/* Whose claim it is.  A theorem or a regression that does not hold is an error of somebody;
 * a figure of the paper that comes out otherwise is a finding. */
typedef enum {
    LIPSC_CLAIM_PAPER_THEOREM,
    LIPSC_CLAIM_PAPER_FIGURE,
    LIPSC_CLAIM_PROVED_HERE,
    LIPSC_CLAIM_REGRESSION,
    LIPSC_CLAIM_SOURCES
} lipsc_claim_source;
LIPSC_API const char *lipsc_claim_source_name(lipsc_claim_source source);

/* In the order of the table. */
typedef enum {
    LIPSC_CLAIM_SPLIT,
    LIPSC_CLAIM_BASICS,
    LIPSC_CLAIM_BOUNDS,
    LIPSC_CLAIM_LEMMAS,
    LIPSC_CLAIM_WORST,
    LIPSC_CLAIM_MEAN_FIELD,
    LIPSC_CLAIM_REGIMES,
    LIPSC_CLAIM_LAYERS,
    LIPSC_CLAIM_RELEASED,
    LIPSC_CLAIM_TEXT,
    LIPSC_CLAIM_ADVERSARIAL,
    LIPSC_CLAIM_PARTS
} lipsc_claim_part;

typedef struct {
    const char *id;
    const char *section; /* of docs/maths.md                                             */
    lipsc_claim_part part;
    lipsc_claim_source source;
    const char *statement;
    const char *origin;     /* where it stands, and what of that was not seen            */
    const char *hypothesis; /* what must hold for a verdict; NULL: nothing else          */
    int many;               /* one line for each model, layer, bound, ...                */
} lipsc_claim;

LIPSC_API size_t lipsc_claim_count(void);
LIPSC_API lipsc_claim lipsc_claim_at(size_t i);

/* ---- What is asked ----------------------------------------------------------------- */

enum { LIPSC_CLAIM_TEXTS = 16 }; /* at most */

typedef struct {
    size_t count;
    const char *const *at;
} lipsc_claim_texts;

/* What it points to must stay as it is until the results are freed. */
typedef struct {
    const char *bert; /* a pretrained encoder; NULL: a small random BERT                 */
    const char *gpt2; /* a pretrained GPT-2; one that holds the attention of some layers
                       * only serves the adversarial inputs.  NULL: builtin:gpt2-nano    */
    lipsc_claim_texts texts; /* files.  Default: builtin:lighthouse                      */
    int quick;     /* few lengths, windows and random layers: shows that everything runs; a
                    * counterexample counts, nothing is confirmed                            */
    int only;      /* a lipsc_claim_part; -1, the default: all.  The lines are those of all
                    * that the run file has                                                  */
    uint64_t seed; /* of start vectors, random layers and models, resampling         */
    const char *spoil; /* a line whose promise is made 1000 times stronger, so that it must
                        * not hold; NULL: none                                           */
    lipsc_device *device; /* NULL: the CPU                                               */
    const char *run_file; /* made or continued: what is there is not computed again      */
    const char *command_line; /* told there, for people; or NULL                         */

    /* who is told; each may be NULL.  stop is asked often and by several threads: nonzero
     * ends the work with LIPSC_E_STOPPED, and the same settings go on from there. */
    int (*stop)(void *ctx);
    void (*plan)(void *ctx, double seconds);      /* before all: what is not in the run file
                                                   * will take, roughly; not exact to a factor
                                                   * of two or three                          */
    void (*part)(void *ctx, const char *title);   /* a part, or a sweep of one, begins    */
    void (*doing)(void *ctx, const char *what);   /* NULL: nothing at the moment          */
    void (*sweep)(void *ctx, lipsc_study *study); /* is planned and begins               */
    void (*progress)(void *ctx, const lipsc_study_progress *progress); /* of the sweep   */
    void (*remark)(void *ctx, const char *sentence);
    void *ctx;
    lipsc_ranks *ranks; /* who share it, all with the same settings; rank 0 alone keeps the
                         * run file and has results.  NULL: nobody                       */
} lipsc_claims_settings;

LIPSC_API void lipsc_claims_defaults(lipsc_claims_settings *set);

/* ---- What came out ----------------------------------------------------------------- */

/* A claim with its verdict.  X(member, kind, part, shown, unit, what it says) */
#define LIPSC_CLAIM_LINE_LIST(X)                                                     \
    X(section, TEXT, 0, 1, "", "of docs/maths.md")                                   \
    X(name, TEXT, 0, 1, "", "its id, with a colon and more where it has many lines") \
    X(source, TEXT, 0, 1, "", "whose claim it is")                                   \
    X(claim, TEXT, 0, 1, "", "what it says")                                         \
    X(origin, TEXT, 0, 1, "", "where it stands")                                     \
    X(measured, TEXT, 0, 1, "", "for people")                                        \
    X(holds, TEXT, 0, 1, "", "yes, no or not judged")                                \
    X(hypothesis, TEXT, 0, 1, "", "what must hold for a verdict")                    \
    X(unmet, TEXT, 0, 1, "", "why there is none")                                    \
    X(promised, REAL, 0, 1, "", "what is compared with")                             \
    X(value, REAL, 0, 1, "", "what was measured")                                    \
    X(says, TEXT, LIPSC_CLAIM_SAYS, 1, "", "a paragraph in plain words")             \
    X(order, WHOLE, LIPSC_CLAIM_ORDER, 0, "", "of the line in the table")

enum { LIPSC_CLAIM_SAYS = 1, LIPSC_CLAIM_ORDER = 2 };

typedef struct {
    LIPSC_CLAIM_LINE_LIST(LIPSC_FIELD_MEMBER)
} lipsc_claim_line;

LIPSC_API lipsc_fields lipsc_claim_line_fields(void);

/* A growth law of the part on text. */
#define LIPSC_CLAIM_FIT_LIST(X)                                       \
    X(experiment, TEXT, 0, 1, "", "the sweep")                        \
    X(model, TEXT, 0, 1, "", "its model")                             \
    X(map, TEXT, 0, 1, "", "what was differentiated")                 \
    X(layer, COUNT, 0, 1, "", "from 0")                               \
    X(value, TEXT, 0, 1, "", "sigma, released or radius_rms")         \
    X(against, TEXT, 0, 1, "", "n or radius_rms")                     \
    X(exponent, REAL, 0, 1, "", "slope of ln(median value)")          \
    X(exponent_low, REAL, 0, 1, "", "lower end of its 95 % interval") \
    X(exponent_high, REAL, 0, 1, "", "upper end")                     \
    X(coefficient, REAL, 0, 1, "", "value ~ coefficient x^exponent")  \
    X(law, FLAG, 0, 1, "", "a straight line fits")                    \
    X(lack_of_fit, REAL, 0, 1, "", "p value of a straight line")      \
    X(lengths, COUNT, 0, 1, "", "that entered")                       \
    X(starts, COUNT, 0, 1, "", "that have every length")

typedef struct {
    LIPSC_CLAIM_FIT_LIST(LIPSC_FIELD_MEMBER)
} lipsc_claim_fit;

LIPSC_API lipsc_fields lipsc_claim_fit_fields(void);

/* A worst case for n tokens. */
#define LIPSC_CLAIM_WORST_LIST(X)                                   \
    X(experiment, TEXT, 0, 1, "", "the construction")               \
    X(mask, TEXT, 0, 1, "", "who sees whom")                        \
    X(radius, REAL, 0, 1, "", "of the ball")                        \
    X(n, COUNT, 0, 1, "tokens", "of the input")                     \
    X(sigma, REAL, 0, 1, "", "reached")                             \
    X(best_construction, REAL, 0, 1, "", "promised by its formula") \
    X(upper, REAL, 0, 1, "", "proved for the ball")                 \
    X(upper_paper, REAL, 0, 1, "", "that of the paper")

typedef struct {
    LIPSC_CLAIM_WORST_LIST(LIPSC_FIELD_MEMBER)
} lipsc_claim_worst;

LIPSC_API lipsc_fields lipsc_claim_worst_fields(void);

typedef struct {
    size_t line_count, curve_count, worst_count, fit_count;
    lipsc_claim_line *lines; /* in the order of the table                            */
    lipsc_row *curves;       /* every cell of the sweeps and of adversarial inputs   */
    lipsc_claim_worst *worst;
    lipsc_claim_fit *fits; /* of this call: none unless the part on text was asked */
    size_t loose;          /* values of this call that did not converge            */
    lipsc_pool pool;
} lipsc_claims;

/* Computes what the run file does not have, and reads all that it then has.  LIPSC_E_ARG: a
 * model that cannot stand for BERT or GPT-2, a text from standard input, a line to spoil
 * that is not there; a run file of other settings is refused.  Free it in any case. */
LIPSC_API lipsc_status lipsc_claims_run(const lipsc_claims_settings *set, lipsc_claims *out,
                                        lipsc_error *err);
LIPSC_API void lipsc_claims_free(lipsc_claims *claims);

#ifdef __cplusplus
}
#endif
#endif
