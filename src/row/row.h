/* row.h - the row of one cell: a value, what it is the value of, and how it was reached.
 *
 * One list says all: the struct, the table on the screen, TSV, JSON, the run file with its
 * view and docs/row.md are made from it. */
#ifndef LIPSC_ROW_ROW_H
#define LIPSC_ROW_ROW_H

#include "row/field.h"

/* Parts of a row that are there only when asked for. */
enum {
    LIPSC_PART_EXPERIMENT = 1,
    LIPSC_PART_COUNT = 2,
    LIPSC_PART_RELEASED = 4,
    LIPSC_PART_DETAILS = 8,
    LIPSC_PART_CERTIFY = 16,
    LIPSC_PART_UPPER = 32,  /* stored in every row, shown when asked for */
    LIPSC_PART_SPREAD = 64, /* with details or with the sink */
    LIPSC_PART_SINK = 128
};

/* X(member, kind, part, shown, unit, what it says) */
#define LIPSC_ROW_LIST(X)                                                                  \
    X(experiment, TEXT, LIPSC_PART_EXPERIMENT, 0, "", "figure of `reproduce`")             \
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
    X(upper, REAL, LIPSC_PART_UPPER, 1, "",                                                \
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
    X(sigmas, REALS, LIPSC_PART_COUNT, 1, "", "the largest singular values")               \
    X(released, REAL, LIPSC_PART_RELEASED, 1, "", "what the paper's scripts return here")  \
    X(entropy, REAL, LIPSC_PART_SPREAD, 1, "nats", "mean over rows of the attention")      \
    X(sink, REAL, LIPSC_PART_SPREAD, 1, "", "largest column sum of an attention matrix")   \
    X(sink_token, COUNT, LIPSC_PART_SPREAD, 1, "", "its token")                            \
    X(sink_norm, REAL, LIPSC_PART_SINK, 1, "", "what moving the sink token alone does")    \
    X(rest_norm, REAL, LIPSC_PART_SINK, 1, "",                                             \
      "what all others do while it is held fixed")                                         \
    X(token, COUNT, LIPSC_PART_DETAILS, 1, "", "the token that alone does most")           \
    X(token_norm, REAL, LIPSC_PART_DETAILS, 1, "", "what it does")                         \
    X(pair_from, COUNT, LIPSC_PART_DETAILS, 1, "", "the strongest single block: from")     \
    X(pair_to, COUNT, LIPSC_PART_DETAILS, 1, "", "this token to this one")                 \
    X(pair_norm, REAL, LIPSC_PART_DETAILS, 1, "", "its norm")                              \
    X(certified, FLAG, LIPSC_PART_CERTIFY, 1, "", "upper is at most 1 + EPS times lower")  \
    X(certificate, TEXT, LIPSC_PART_CERTIFY, 1, "", "the proof that says so")              \
    X(certify_products, WHOLE, LIPSC_PART_CERTIFY, 0, "pairs", "what it cost")             \
    X(version, TEXT, 0, 0, "", "of lipscope")                                              \
    X(model_hash, TEXT, 0, 0, "", "SHA-256 of the checkpoint")                             \
    X(text_hash, TEXT, 0, 0, "", "SHA-256 of the text")                                    \
    X(seed, WHOLE, 0, 0, "", "of start vectors and random weights")                        \
    X(tol, REAL, 0, 0, "", "residual to stop at")

typedef struct {
    LIPSC_ROW_LIST(LIPSC_FIELD_MEMBER)
    unsigned parts; /* those that it has */
} lipsc_row;

lipsc_fields lipsc_row_fields(void);

/* -1, 0 or 1; LIPSC_NONE comes first. */
int lipsc_place_order(size_t a, size_t b);

/* By layer, head, length n, window; none comes first, so all heads before single ones. */
void lipsc_rows_sort(size_t count, const lipsc_row **rows);

/* A stored row.  Rows of the first edition do not say where their window starts: they were
 * tiled. */
lipsc_status lipsc_row_read(const json_t *object, lipsc_pool *pool, lipsc_row *row,
                            lipsc_error *err);
json_t *lipsc_row_json(const lipsc_row *row); /* NULL when memory is short */

#endif
