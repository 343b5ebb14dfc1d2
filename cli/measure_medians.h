/* measure_medians.h - a study by layer and length: medians over windows, found while the
 * rows go by, of which only those of one layer, head and length are in memory. */
#ifndef LIPSC_CLI_MEASURE_MEDIANS_H
#define LIPSC_CLI_MEASURE_MEDIANS_H

#include "measure.h"

/* ---- What is told of the longest windows besides sigma ------------------------------ */

typedef enum {
    MEASURE_REAL,
    MEASURE_SHARE, /* of the tokens, in percent                    */
    MEASURE_WORD,  /* a token of the window where sigma is largest */
    MEASURE_CERTIFIED,
    MEASURE_SIGMAS
} measure_extra_kind;

typedef struct {
    unsigned part; /* LIPSC_ROW_ bit of what it belongs to                           */
    const char *name;
    measure_extra_kind kind;
    size_t offset; /* of the member of a row, where it is one                        */
} measure_extra;

enum { MEASURE_EXTRAS = 13 };
extern const measure_extra measure_extras[MEASURE_EXTRAS];

/* ---- Medians ------------------------------------------------------------------------ */

/* The rows of one layer and head, of one window where windows were named. */
typedef struct {
    size_t layer, head, window; /* window LIPSC_NONE: all                             */
    struct {
        double sigma; /* NaN: there is none, or one is not finite                      */
        size_t windows;
    } * at;         /* (lengths)                                                */
    double bound;   /* at the longest windows, like what follows                */
    double *sigmas; /* (settings' count) of each singular value                 */
    double largest; /* sigma of a window, whose tokens those below are:         */
    size_t start;
    union {
        double median;
        size_t token; /* LIPSC_NONE: none                                              */
    } extra[MEASURE_EXTRAS];
    size_t cells, closed; /* all of them, and those with a certificate                */
} measure_line;

typedef struct {
    size_t length_count, *lengths; /* ascending                                        */
    size_t line_count;
    measure_line *lines; /* by layer, head and window                                  */
    int by_head, by_window;
    char *model, *map, *mask; /* of the first row                                      */
    int mixed_masks;
    double probability; /* of its bound                                               */
    size_t row_count, loose;
} measure_medians;

/* Whether what bounds sigma is proved, or holds with a probability. */
int measure_proves(const measure_settings *set);

/* Handed the rows of a study in the order of lipsc_study_each. */
typedef struct measure_collector measure_collector;

/* For the finished cells of a study; NULL when memory is short. */
measure_collector *measure_collector_new(const measure_settings *set,
                                         const lipsc_study *study);
void measure_collect(measure_collector *c, const lipsc_row *row);
/* What was handed over, valid until it is freed; NULL when memory was short. */
const measure_medians *measure_collected(measure_collector *c);
void measure_collector_free(measure_collector *c);

/* measure_table.c: LIPSC_E_NOMEM. */
lipsc_status measure_table(const measure_settings *set, unsigned parts,
                           const lipsc_study *study, const measure_medians *of,
                           const lipsc_growths *laws);

#endif
