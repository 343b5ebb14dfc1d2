/* check.h - a stored value, confirmed without the solver: what `lipscope check` does.
 *
 * A direction file (docs/cli.md, "Layer files") says: at this input this direction v is
 * stretched to sigma.  Two products by the definition in plain double loops tell whether
 * that is true; nothing is iterated.  Values of the maps heads and attention need the file
 * alone; of the maps behind them the file holds where and which way, and the model, told by
 * its hash, the rest.
 *
 *     lipsc_check_settings set;
 *     lipsc_check_defaults(&set);
 *     set.file = "top.safetensors";
 *     lipsc_checked found;
 *     if (lipsc_check(&set, &found, &err))
 *         fprintf(stderr, "%s\n", err.text);
 *     else
 *         printf("%s\n", found.row.agree ? "confirmed" : "not confirmed");
 *     lipsc_checked_free(&found); */
#ifndef LIPSCOPE_CHECK_H
#define LIPSCOPE_CHECK_H

#include "lipscope/model.h"
#include "lipscope/row.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
    const char *file;
    const char *model; /* as lipsc_model_open takes it, for the maps behind attention; the
                        * stored tokens are then run through it as well.  NULL: none     */
    lipsc_part part;
    uint64_t seed; /* of random models.  Default 1                                       */
    /* An upper bound beside it, which takes products with every unit vector; NULL: none.
     * Its lower and upper are ignored. */
    const lipsc_certify_settings *certify;
} lipsc_check_settings;

LIPSC_API void lipsc_check_defaults(lipsc_check_settings *set);

enum { LIPSC_CHECK_MODEL = 1, LIPSC_CHECK_CERTIFY = 2 }; /* parts of a row */

/* X(member, kind, part, shown, unit, what it says) */
#define LIPSC_CHECK_LIST(X)                                                                \
    X(file, TEXT, 0, 1, "", "that was checked")                                            \
    X(n, COUNT, 0, 1, "tokens", "of the input")                                            \
    X(map, TEXT, 0, 1, "", "what was differentiated")                                      \
    X(mask, TEXT, 0, 1, "", "who sees whom; null: as the model has it")                    \
    X(stored, REAL, 0, 1, "", "what the file says: |J v| / |v|")                           \
    X(sigma, REAL, 0, 1, "", "the same by the definition")                                 \
    X(residual, REAL, 0, 1, "", "|J^T J v - sigma^2 v| / (sigma^2 |v|)")                   \
    X(agree, FLAG, 0, 1, "", "both within 1e-9 of sigma")                                  \
    X(input_error, REAL, LIPSC_CHECK_MODEL, 1, "",                                         \
      "|X - X of the model| / |X| at the stored tokens; null: none are stored")            \
    X(lower, REAL, LIPSC_CHECK_CERTIFY, 1, "", "proved")                                   \
    X(upper, REAL, LIPSC_CHECK_CERTIFY, 1, "", "proved")                                   \
    X(certified, FLAG, LIPSC_CHECK_CERTIFY, 1, "", "upper is at most 1 + eps times lower") \
    X(certificate, TEXT, LIPSC_CHECK_CERTIFY, 1, "", "the proof that says so")             \
    X(certify_products, WHOLE, LIPSC_CHECK_CERTIFY, 1, "pairs", "what it cost")

typedef struct {
    LIPSC_CHECK_LIST(LIPSC_FIELD_MEMBER)
} lipsc_check_row;

LIPSC_API lipsc_fields lipsc_check_fields(void);

/* What keeps a file from being checked and can be mended. */
typedef enum {
    LIPSC_CHECK_NEEDS_NOTHING,
    LIPSC_CHECK_NEEDS_DIRECTION, /* the file holds none: lipscope/layer_row.h writes some */
    LIPSC_CHECK_NEEDS_MODEL      /* the one that `model` names                            */
} lipsc_check_need;

typedef struct {
    lipsc_check_row row; /* its texts stand in the settings and in storage          */
    lipsc_check_need needs;
    char model[72];           /* as the file names it, safe for a terminal               */
    lipsc_status certificate; /* LIPSC_E_NOCONV, LIPSC_E_REFUSED: none, `why` says it   */
    lipsc_error why;
    void *storage;
} lipsc_checked;

/* LIPSC_OK says that the row is there; whether the value is confirmed is row.agree.
 * LIPSC_E_REFUSED: the file cannot be checked, see out->needs.  LIPSC_E_FORMAT: it
 * contradicts itself or the model.  Free it in any case. */
LIPSC_API lipsc_status lipsc_check(const lipsc_check_settings *set, lipsc_checked *out,
                                   lipsc_error *err);
LIPSC_API void lipsc_checked_free(lipsc_checked *checked);

#ifdef __cplusplus
}
#endif
#endif
