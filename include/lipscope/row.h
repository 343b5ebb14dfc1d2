/* row.h - the row of one cell: a value, what it is the value of, and how it was reached.
 *
 * One list says all: the struct, the table on the screen, TSV, JSON, the run file with its
 * view and docs/row.md are made from it.  Whoever shows or converts rows walks the list of
 * fields and needs not know the struct. */
#ifndef LIPSCOPE_ROW_H
#define LIPSCOPE_ROW_H

#include "lipscope/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Fields ------------------------------------------------------------------------ */

/* A member that has no value holds its kind's empty value, and is null in JSON:
 *
 *     TEXT   const char *    NULL
 *     COUNT  size_t          LIPSC_NONE
 *     WHOLE  long long       LIPSC_NO_WHOLE
 *     REAL   double          not finite
 *     FLAG   int             negative
 *     REALS  lipsc_reals     .at NULL; items that are not finite are null in the list */
#define LIPSC_NONE     SIZE_MAX
#define LIPSC_NO_WHOLE (-9223372036854775807LL - 1)

typedef struct {
    size_t count;
    const double *at;
} lipsc_reals;

typedef enum {
    LIPSC_FIELD_TEXT,
    LIPSC_FIELD_COUNT,
    LIPSC_FIELD_WHOLE,
    LIPSC_FIELD_REAL,
    LIPSC_FIELD_FLAG,
    LIPSC_FIELD_REALS
} lipsc_field_kind;

typedef struct {
    const char *name;
    lipsc_field_kind kind;
    size_t offset;    /* of the member in its struct                                    */
    unsigned part;    /* 0: in every record, else the bit of the part that it belongs to */
    int shown;        /* in tables for people, which have no room for what is the same in
                       * every row or said twice                                        */
    const char *unit; /* "", or what its numbers count                                */
    const char *says; /* one line on what it is                                       */
} lipsc_field;

typedef struct {
    size_t count;
    const lipsc_field *at;
} lipsc_fields;

/* A list of fields is a macro of lines X(member, kind, part, shown, unit, what it says).
 * LIPSC_FIELD_MEMBER makes the struct of it, LIPSC_FIELD_ENTRY the list, in a file where
 * `record` is that struct. */
typedef const char *lipsc_type_TEXT;
typedef size_t lipsc_type_COUNT;
typedef long long lipsc_type_WHOLE;
typedef double lipsc_type_REAL;
typedef int lipsc_type_FLAG;
typedef lipsc_reals lipsc_type_REALS;
#define LIPSC_FIELD_MEMBER(name, kind, part, shown, unit, says) lipsc_type_##kind name;
#define LIPSC_FIELD_ENTRY(name, kind, part, shown, unit, says) \
    {#name, LIPSC_FIELD_##kind, offsetof(record, name), part, shown, unit, says},

/* Every member empty. */
LIPSC_API void lipsc_fields_clear(lipsc_fields fields, void *record);

/* ---- What texts and lists of records stand in -------------------------------------- */

typedef struct lipsc_pool_block lipsc_pool_block;

/* Freed together; {NULL} is empty.  One thread at a time. */
typedef struct {
    lipsc_pool_block *newest;
} lipsc_pool;

LIPSC_API void lipsc_pool_free(lipsc_pool *pool); /* and empties it */

/* ---- The row ----------------------------------------------------------------------- */

/* Parts of a row that are there only when asked for. */
enum {
    LIPSC_ROW_EXPERIMENT = 1,
    LIPSC_ROW_COUNT = 2,
    LIPSC_ROW_RELEASED = 4,
    LIPSC_ROW_DETAILS = 8,
    LIPSC_ROW_CERTIFY = 16,
    LIPSC_ROW_UPPER = 32,  /* stored in every row, shown when asked for */
    LIPSC_ROW_SPREAD = 64, /* with details or with the sink */
    LIPSC_ROW_SINK = 128
};

/* X(member, kind, part, shown, unit, what it says) */
#define LIPSC_ROW_LIST(X)                                                                  \
    X(experiment, TEXT, LIPSC_ROW_EXPERIMENT, 0, "", "figure of `reproduce`")              \
    X(model, TEXT, 0, 0, "", "the checkpoint as named on the command line")                \
    X(architecture, TEXT, 0, 0, "", "its family")                                          \
    X(layer, COUNT, 0, 1, "", "from 0; null for the map `model`")                          \
    X(head, COUNT, 0, 1, "", "from 0; null: all heads together")                           \
    X(map, TEXT, 0, 1, "", "what was differentiated")                                      \
    X(mask, TEXT, 0, 1, "", "who sees whom")                                               \
    X(n, COUNT, 0, 1, "tokens", "length of the window")                                    \
    X(window, COUNT, 0, 1, "", "number of the window, from 0")                             \
    X(sigma, REAL, 0, 1, "", "largest singular value: reached by a direction, in double")  \
    X(lower, REAL, 0, 0, "", "proved: sigma of the exact function is not below")           \
    X(upper, REAL, LIPSC_ROW_UPPER, 1, "",                                                 \
      "proved, with rounding: no direction does more")                                     \
    X(upper_prob, REAL, 0, 1, "", "no direction does more, with this probability")         \
    X(probability, REAL, 0, 0, "", "of upper_prob")                                        \
    X(residual, REAL, 0, 1, "", "of the direction, relative to sigma")                     \
    X(products, WHOLE, 0, 1, "pairs", "products with J and its transpose")                 \
    X(converged, FLAG, 0, 1, "", "whether the residual met the tolerance")                 \
    X(dtype, TEXT, 0, 1, "", "precision of the search")                                    \
    X(radius_rms, REAL, 0, 1, "", "root mean square of the lengths of the input's tokens") \
    X(radius_max, REAL, 0, 1, "", "the longest of them")                                   \
    X(seconds, REAL, 0, 1, "s", "of this cell, without the shared forward pass")           \
    X(start, COUNT, 0, 0, "", "first token of the window in the text")                     \
    X(special, FLAG, 0, 0, "", "special tokens stand around it, and n counts them")        \
    X(rounding, TEXT, 0, 0, "", "why nothing is known, where scores cannot be told apart") \
    X(routing_gap, REAL, 0, 0, "", "least lead of an expert that a token takes")           \
    X(sigmas, REALS, LIPSC_ROW_COUNT, 1, "", "the largest singular values")                \
    X(released, REAL, LIPSC_ROW_RELEASED, 1, "", "what the paper's scripts return here")   \
    X(entropy, REAL, LIPSC_ROW_SPREAD, 1, "nats", "mean over rows of the attention")       \
    X(sink, REAL, LIPSC_ROW_SPREAD, 1, "", "largest column sum of an attention matrix")    \
    X(sink_token, COUNT, LIPSC_ROW_SPREAD, 1, "", "its token")                             \
    X(sink_norm, REAL, LIPSC_ROW_SINK, 1, "", "what moving the sink token alone does")     \
    X(rest_norm, REAL, LIPSC_ROW_SINK, 1, "", "what all others do while it is held fixed") \
    X(token, COUNT, LIPSC_ROW_DETAILS, 1, "", "the token that alone does most")            \
    X(token_norm, REAL, LIPSC_ROW_DETAILS, 1, "", "what it does")                          \
    X(pair_from, COUNT, LIPSC_ROW_DETAILS, 1, "", "the strongest single block: from")      \
    X(pair_to, COUNT, LIPSC_ROW_DETAILS, 1, "", "this token to this one")                  \
    X(pair_norm, REAL, LIPSC_ROW_DETAILS, 1, "", "its norm")                               \
    X(influence, REALS, LIPSC_ROW_DETAILS, 0, "",                                          \
      "what each token does alone: estimates, Frobenius norms")                            \
    X(certified, FLAG, LIPSC_ROW_CERTIFY, 1, "", "upper is at most 1 + EPS times lower")   \
    X(certificate, TEXT, LIPSC_ROW_CERTIFY, 1, "", "the proof that says so")               \
    X(certify_products, WHOLE, LIPSC_ROW_CERTIFY, 0, "pairs", "what it cost")              \
    X(version, TEXT, 0, 0, "", "of lipscope")                                              \
    X(model_hash, TEXT, 0, 0, "", "SHA-256 of the checkpoint")                             \
    X(text_hash, TEXT, 0, 0, "", "SHA-256 of the text")                                    \
    X(seed, WHOLE, 0, 0, "", "of start vectors and random weights")                        \
    X(tol, REAL, 0, 0, "", "residual to stop at")                                          \
    X(device, TEXT, 0, 0, "", "where it was computed")

typedef struct {
    LIPSC_ROW_LIST(LIPSC_FIELD_MEMBER)
    unsigned parts; /* those that it has */
} lipsc_row;

LIPSC_API lipsc_fields lipsc_row_fields(void);

/* By layer, head, length n, window; none comes first, so all heads before single ones. */
LIPSC_API void lipsc_rows_sort(size_t count, const lipsc_row **rows);

#ifdef __cplusplus
}
#endif
#endif
