/* growth.h - the growth laws fitted to rows of sigma. */
#ifndef LIPSC_RUN_GROWTH_H
#define LIPSC_RUN_GROWTH_H

#include "row/row.h"
#include "run/fit.h"

/* X(member, kind, part, shown, unit, what it says); the exponents as in fit.h */
#define LIPSC_GROWTH_LIST(X)                                                  \
    X(layer, COUNT, 0, 1, "", "of the rows")                                  \
    X(head, COUNT, 0, 1, "", "of the rows; null: all heads together")         \
    X(map, TEXT, 0, 0, "", "of the rows")                                     \
    X(text, TEXT, 0, 0, "", "its hash; null: all texts of the rows together") \
    X(against, TEXT, 0, 1, "", "n or radius")                                 \
    X(exponent, REAL, 0, 1, "", "slope of ln(median sigma) against ln x")     \
    X(exponent_low, REAL, 0, 1, "", "lower end of its 95 % interval")         \
    X(exponent_high, REAL, 0, 1, "", "upper end")                             \
    X(coefficient, REAL, 0, 1, "", "sigma ~ coefficient x^exponent")          \
    X(lengths, COUNT, 0, 1, "", "that entered")                               \
    X(starts, COUNT, 0, 1, "", "that have every length")                      \
    X(texts, COUNT, 0, 0, "", "that entered")                                 \
    X(law, FLAG, 0, 0, "", "a straight line fits")                            \
    X(lack_of_fit, REAL, 0, 1, "", "p value of a straight line")              \
    X(slopes, REALS, 0, 1, "", "from each length to the next")                \
    X(refused, TEXT, 0, 0, "", "why there is no exponent")

typedef struct {
    LIPSC_GROWTH_LIST(LIPSC_FIELD_MEMBER)
} lipsc_growth;

lipsc_fields lipsc_growth_fields(void);

typedef struct {
    size_t count;
    lipsc_growth *at;
    lipsc_pool pool;
} lipsc_growths;

/* For each layer and head of the sorted rows the laws sigma ~ coefficient x^exponent
 * against n and against the radius.  With several texts (text_hash) those of each text
 * follow the joint ones.  Windows that begin at the same token are one start; tiled ones do
 * so too rarely for an interval.  Fewer than three lengths: nothing.  LIPSC_E_NOMEM; free
 * with lipsc_growths_free either way.  The texts of the rows must outlive the laws. */
lipsc_status lipsc_rows_fit(size_t count, const lipsc_row *const *rows, uint64_t seed,
                            lipsc_growths *out);
void lipsc_growths_free(lipsc_growths *laws);

/* The members of one fit, from exponent to refused (NULL: it is not).  slopes: lengths - 1
 * of them, as lipsc_fit_power gives them; kept, not copied. */
void lipsc_growth_set(lipsc_growth *out, const lipsc_fit *fit, const double *slopes,
                      const char *refused);

json_t *lipsc_growths_json(const lipsc_growths *laws); /* NULL when memory is short */

/* The verdict in a few words: "power law"; "no power law", with "shown" behind it where
 * there are too few starts for a test; or why there is no exponent. */
const char *lipsc_growth_verdict(const lipsc_growth *law);

#endif
