/* perturb.h - what changes of finite size do, beside what sigma says of small ones.
 *
 *     lipsc_perturb_settings set;
 *     lipsc_perturb_defaults(&set);
 *     lipsc_perturbation_rows rows;
 *     lipsc_perturb(model, n, ids, &set, &rows, &err);
 *
 * The window of n tokens is run through the model as it is and with a change: tokens are
 * swapped for those whose embeddings are nearest, noise is added to what a layer's
 * attention receives, a token is left out or written twice.  Everything is computed in
 * double. */
#ifndef LIPSCOPE_PERTURB_H
#define LIPSCOPE_PERTURB_H

#include "lipscope/model.h"
#include "lipscope/row.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
    LIPSC_CHANGE_SWAP,     /* a token becomes one with a near embedding              */
    LIPSC_CHANGE_NOISE,    /* normal numbers, added to the input of attention        */
    LIPSC_CHANGE_DROP,     /* a token is left out                                    */
    LIPSC_CHANGE_DUPLICATE /* a token is written twice                               */
} lipsc_change_kind;

LIPSC_API const char *lipsc_change_name(lipsc_change_kind kind); /* "swap", ... */

typedef struct {
    lipsc_device *device; /* NULL: the CPU                                          */
    const size_t *layers; /* (layer_count) whose attention is looked at; NULL: all  */
    size_t layer_count;
    size_t tokens;       /* how many tokens are swapped, left out, written twice,
                          * spread over the window.  Default 4                     */
    size_t neighbours;   /* tokens that each is swapped for.  Default 2            */
    const double *noise; /* (noise_count) sizes relative to |X|; NULL: 1e-3, 1e-2
                          * and 1e-1                                               */
    size_t noise_count;
    int whole;              /* 1: the whole model as well.  Default 1                 */
    int bounds;             /* 1: the proved bound over the neighbourhood.  Default 1 */
    uint64_t seed;          /* default 1                                              */
    int (*stop)(void *ctx); /* as in lipsc_svd_settings, asked for each head of a bound */
    void (*progress)(void *ctx, size_t done, size_t total); /* of rows; may be NULL     */
    void *ctx;
} lipsc_perturb_settings;

LIPSC_API void lipsc_perturb_defaults(lipsc_perturb_settings *set);

/* One change seen by one map: that of `attention` in a layer, or the whole model from the
 * embeddings to the last hidden state. */
typedef struct {
    lipsc_change_kind change;
    size_t layer;      /* SIZE_MAX: the whole model                                      */
    size_t token;      /* which was changed; SIZE_MAX: all (noise)                       */
    uint32_t from, to; /* ids of a swap                                                */
    double step;       /* |X' - X| / |X| at the map's input; NaN where lengths differ    */
    double ratio;      /* |f(X') - f(X)| / |X' - X|; NaN there                           */
    double first;      /* |J(X) (X' - X)| / |X' - X|: what the derivative predicts       */
    double sigma;      /* at X: no direction does more, for small changes                */
    double upper;      /* proved: >= ratio, from a bound of sigma at every input between;
                        * NaN where there is none                                        */
    double others;     /* |f(X') - f(X)| / |f(X)| over the tokens that were not changed  */
    double logits;     /* of the whole model: the same of what it says of the next tokens,
                        * L the logits; NaN where it says nothing of them                */
} lipsc_perturbed;

/* Rows of a layer follow each other; the whole model comes last.  Free with
 * lipsc_perturbation_free. */
typedef struct {
    size_t count;
    lipsc_perturbed *at;
} lipsc_perturbation_rows;

/* LIPSC_E_ARG: fewer than two tokens.  LIPSC_E_STOPPED: *out has what was finished. */
LIPSC_API lipsc_status lipsc_perturb(lipsc_model *model, size_t n, const uint32_t *ids,
                                     const lipsc_perturb_settings *set,
                                     lipsc_perturbation_rows *out, lipsc_error *err);
LIPSC_API void lipsc_perturbation_free(lipsc_perturbation_rows *rows);

/* The same for programs and pages, with words in place of ids.
 * X(member, kind, part, shown, unit, what it says) */
#define LIPSC_PERTURBED_LIST(X)                                                          \
    X(change, TEXT, 0, 1, "", "swap, noise, drop or duplicate")                          \
    X(layer, COUNT, 0, 1, "", "whose attention is looked at; null: the whole model")     \
    X(token, COUNT, 0, 1, "", "which was changed; null: all")                            \
    X(from, TEXT, 0, 1, "", "its word")                                                  \
    X(to, TEXT, 0, 1, "", "the word that it became; null: none")                         \
    X(step, REAL, 0, 1, "", "|X' - X| / |X| at the input of the map")                    \
    X(ratio, REAL, 0, 1, "", "|f(X') - f(X)| / |X' - X|")                                \
    X(first_order, REAL, 0, 1, "", "what the derivative predicts for it")                \
    X(sigma, REAL, 0, 1, "", "at X: no direction does more, for small changes")          \
    X(upper, REAL, 0, 1, "", "proved: no less than ratio")                               \
    X(others, REAL, 0, 1, "", "how far the outputs of the other tokens moved, relative") \
    X(logits, REAL, 0, 1, "", "the same of their logits; null: it says nothing of them")

typedef struct {
    LIPSC_PERTURBED_LIST(LIPSC_FIELD_MEMBER)
} lipsc_perturbed_row;

LIPSC_API lipsc_fields lipsc_perturbed_fields(void);
/* from, to: words of its ids, kept where the change has such tokens. */
LIPSC_API lipsc_perturbed_row lipsc_perturbed_row_of(const lipsc_perturbed *perturbed,
                                                     const char *from, const char *to);

/* The `count` tokens whose embeddings are nearest to that of id, nearest first, itself and
 * those with the same embedding left out; distance (count) or NULL.  *found may be less
 * than count. */
LIPSC_API lipsc_status lipsc_model_nearest(lipsc_model *model, uint32_t id, size_t count,
                                           uint32_t *ids, double *distance, size_t *found,
                                           lipsc_error *err);

/* Logits of the tokens first .. first+count-1 of the vocabulary behind n last hidden states
 * (n, d): out (n, count), up to a constant factor of all of them that some models have.
 * LIPSC_E_REFUSED for a model that predicts no next token or stores no table for it. */
LIPSC_API lipsc_status lipsc_model_logits(lipsc_model *model, size_t n,
                                          const double *hidden, size_t first, size_t count,
                                          double *out, lipsc_error *err);

#ifdef __cplusplus
}
#endif
#endif
