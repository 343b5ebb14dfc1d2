/* compare.h - two sets of rows against each other: how much larger is sigma in the second?
 *
 * The unit that may be resampled is a start (docs/maths.md 9): the windows of all lengths
 * that begin at one token of one text.  Where both sides have the same starts, the
 * logarithms of their ratios are averaged over the lengths of each start, and the interval
 * is Student's over starts; else each side is averaged so on its own, and the interval is
 * Welch's.  Below six starts there is none. */
#ifndef LIPSCOPE_COMPARE_H
#define LIPSCOPE_COMPARE_H

#include "lipscope/row.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(member, kind, part, shown, unit, what it says) */
#define LIPSC_CHANGE_LIST(X)                                                              \
    X(run, TEXT, 0, 0, "", "the second run file")                                         \
    X(layer, COUNT, 0, 1, "", "of the rows")                                              \
    X(head, COUNT, 0, 1, "", "of the rows; null: all heads together")                     \
    X(map, TEXT, 0, 0, "", "of the rows")                                                 \
    X(n, COUNT, 0, 1, "tokens", "longest length that both have")                          \
    X(before, REAL, 0, 1, "", "median over windows of sigma at that length, first run")   \
    X(after, REAL, 0, 1, "", "the same of the second run")                                \
    X(ratio, REAL, 0, 1, "", "second over first: geometric mean over starts and lengths") \
    X(ratio_low, REAL, 0, 1, "", "lower end of its 95 % interval")                        \
    X(ratio_high, REAL, 0, 1, "", "upper end")                                            \
    X(lengths, COUNT, 0, 0, "", "that both have")                                         \
    X(starts, COUNT, 0, 0, "", "that entered, of the side with fewer")                    \
    X(paired, FLAG, 0, 0, "", "both sides have the same starts of the same text")         \
    X(verdict, TEXT, 0, 1, "", "what the interval allows to say")

typedef struct {
    LIPSC_CHANGE_LIST(LIPSC_FIELD_MEMBER)
} lipsc_change;

LIPSC_API lipsc_fields lipsc_change_fields(void);

enum { LIPSC_COMPARE_STARTS = 6 /* fewest for an interval */ };

/* One change for each layer, head and map that both sides have, in the order of the rows;
 * *changes (count of them; lipsc_release it).  Sigmas that are not positive and finite are
 * left out.  Found values are good to about 1e-6, which every interval contains.  Texts of
 * the changes are those of the rows.
 * LIPSC_E_REFUSED: nothing in common. */
LIPSC_API lipsc_status lipsc_rows_compare(size_t before_count, const lipsc_row *before,
                                          size_t after_count, const lipsc_row *after,
                                          size_t *count, lipsc_change **changes,
                                          lipsc_error *err);

/* Two run files. */
typedef struct {
    size_t count;
    lipsc_change *changes;
    char differ[128]; /* what differs of model, text, mask, dtype, heads, stride, tiling and
                       * seed, separated by commas; may be empty                         */
    size_t every;     /* 1, or of long runs: every k-th window entered                   */
    const char *before_line, *after_line; /* command lines as typed, or NULL             */
    void *texts;                          /* what the changes and lines point to         */
} lipsc_comparison;

enum { LIPSC_COMPARE_CELLS = 50000 /* of longer runs about so many enter */ };

/* Refuses files of different maps.  after is kept in the changes, not copied.  Memory is
 * bounded: of a run of more than LIPSC_COMPARE_CELLS cells, the windows 0, k, 2k... with
 * all their lengths and layers enter, and the same windows of the other. */
LIPSC_API lipsc_status lipsc_runs_compare(const char *before, const char *after,
                                          lipsc_comparison *out, lipsc_error *err);
LIPSC_API void lipsc_comparison_free(lipsc_comparison *comparison);

#ifdef __cplusplus
}
#endif
#endif
