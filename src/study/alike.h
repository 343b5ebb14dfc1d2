/* alike.h - whether ranks that share a work were given the same: each works with its own
 * copy, and what they find of two is that of neither.
 *
 * By digests of 64 bits: against a file that is stale on one machine, or options that
 * differ, not against an adversary. */
#ifndef LIPSC_STUDY_ALIKE_H
#define LIPSC_STUDY_ALIKE_H

#include "lipscope/layer_row.h"
#include "lipscope/place.h"
#include "study/study.h"

/* Which cells, and everything else that decides a value. */
uint64_t lipsc_study_cells_digest(const lipsc_study *study);
uint64_t lipsc_study_options_digest(const lipsc_study *study);

/* What is bounded or attacked, and where: a layer of a file with its input, or which window
 * of which layer of a model. */
uint64_t lipsc_place_digest(const lipsc_place_options *set, const lipsc_layer *layer,
                            const lipsc_input *input);
uint64_t lipsc_bounds_digest(const lipsc_bounds_settings *set, int radius_of_norm);
uint64_t lipsc_sizes_digest(lipsc_sizes sizes);

/* Of the ranks that share set->device, all of which call it: LIPSC_E_RANGE, with a
 * sentence, on each of them where one has another layer, another input or other settings.
 */
lipsc_status lipsc_layer_row_alike(const lipsc_layer *layer, const lipsc_input *input,
                                   const lipsc_layer_row_settings *set, lipsc_error *err);

#endif
