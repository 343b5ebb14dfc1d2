/* records.c - what a bound of the zoo met on a batch of inputs: how near the
 * exact value came to it, and where it was refused. */
#include <math.h>

#include "claims/claims.h"
#include "core/extreme.h"

/* exact / bound, of a lower bound its inverse; zero over zero is no violation. */
static double ratio_of(const lipsc_zoo_row *row, double exact) {
    const int lower = row->rule->kind == LIPSC_KIND_LOWER;
    const double bound = isnan(row->log_value) ? 0.0 : exp(row->log_value);
    if (isnan(exact)) return NAN;
    if (exact == 0.0 || bound == 0.0)
        return (lower ? exact : bound) > 0.0 || exact == bound ? 0.0 : INFINITY;
    return exp((lower ? -1.0 : 1.0) * (log(exact) - row->log_value));
}

/* The largest |A| R^2 of the heads, query bias included. */
static double size_of_scores(const lipsc_zoo_case *z) {
    double a = 0.0;
    for (size_t h = 0; h < z->layer->heads; h++) a = lipsc_max(a, lipsc_a2(z, h));
    return a;
}

/* n >= 2, a >= 0.5, and scores that differ by as much at this input: elsewhere, and where
 * no token sees another, every bound is reached. */
static int tells(const lipsc_zoo_case *z) {
    double spread = 0.0;
    for (size_t h = 0; h < z->layer->heads; h++)
        spread = lipsc_max(spread, z->local[h].spread);
    return z->n >= 2 && size_of_scores(z) >= 0.5 && spread >= 0.5;
}

void claims_record_add(claims_record *record, const lipsc_zoo_case *z,
                       const lipsc_zoo_row *row, double exact) {
    if (*row->refused) {
        const int applies = !row->rule->refuse(z);
        if (applies || !record->refused)
            snprintf(record->reason, sizeof record->reason, "%.150s", row->refused);
        record->refused += (size_t)applies;
        return;
    }
    const double ratio = ratio_of(row, exact);
    record->inputs++;
    record->lower = row->rule->kind == LIPSC_KIND_LOWER;
    claims_raise(&record->largest, ratio);
    if (!tells(z)) return;
    record->telling++;
    claims_raise(&record->tight, ratio);
}

void claims_record_say(claims_work *r, const claims_line *line,
                       const claims_record *record) {
    claims_line told = *line;
    char unmet[320];
    if (!record->inputs) {
        claims_leave(r, line, "refused at every input: %s", record->reason);
        return;
    }
    if (record->refused) {
        snprintf(unmet, sizeof unmet, "refused at %zu inputs where its hypotheses hold: %s",
                 record->refused, record->reason);
        told.unmet = unmet;
    }
    claims_judge(r, &told, record->largest,
                 "largest %s %.4f where n >= 2 and a >= 0.5 (%zu of %zu inputs)",
                 record->lower ? "bound / exact" : "exact / bound",
                 floor(1e4 * record->tight) /
                     1e4, /* what is not reached is not called so */
                 record->telling, record->inputs);
}
