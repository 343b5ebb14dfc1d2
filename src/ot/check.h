/* check.h - what a measure has to be before anything is computed with it. */
#ifndef LIPSC_OT_CHECK_H
#define LIPSC_OT_CHECK_H

#include "lipscope.h"

/* Finite points, positive weights that sum to 1 within 1e-9, times in [0, 1]; `which`
 * tells measures apart in the sentence: "first", "given". */
lipsc_status lipsc_measure_check(const lipsc_measure *of, const char *which,
                                 lipsc_error *err);

#endif
