/* pairs.h - windows of a layer, vectors for them, and the time that pairs of products take.
 */
#ifndef LIPSC_TRIAL_PAIRS_H
#define LIPSC_TRIAL_PAIRS_H

#include "attn/attn.h"
#include "lipscope/trial.h"
#include "trial/sample.h"

/* Windows of one layer, one after the other. */
typedef struct {
    size_t count;
    lipsc_packed *packed;
    lipsc_attn **attn;
    lipsc_attn **from; /* whose rows they borrow; NULL: nobody's */
} lipsc_windows;

/* sample: as many tokens as the s->batch windows of s->n have together */
lipsc_status lipsc_windows_new(const lipsc_bench_settings *s, const lipsc_sample *sample,
                               const lipsc_device *device, lipsc_windows *w,
                               lipsc_error *err);
void lipsc_windows_free(lipsc_windows *w);
/* Threads that the products use. */
int lipsc_windows_threads(const lipsc_windows *w);

/* Windows with vectors for them. */
typedef struct {
    const lipsc_windows *on;
    lipsc_linop op; /* of each window */
    lipsc_product *there, *back;
    lipsc_buffer x, y, z;
} lipsc_bed;

lipsc_status lipsc_bed_new(const lipsc_bench_settings *s, const lipsc_windows *on,
                           lipsc_bed *b);
void lipsc_bed_free(lipsc_bed *b);

/* *seconds of a pair, of so many in turn. */
lipsc_status lipsc_time_pairs(const lipsc_bed *b, long pairs, double *seconds);

#endif
