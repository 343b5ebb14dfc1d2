/* model.h - what the rest of the library may do with a model beyond lipscope/model.h: a
 * window in steps, and a map as an operator on the back end's vectors. */
#ifndef LIPSC_MODEL_MODEL_H
#define LIPSC_MODEL_MODEL_H

#include "linalg/space.h"
#include "lipscope/model.h"

/* From now on the model is worked with on device, which must outlive it: what was made
 * ready in the memory of another is freed.  LIPSC_E_ARG where somebody holds a block there.
 */
lipsc_status lipsc_model_use(lipsc_model *model, const lipsc_device *device,
                             lipsc_error *err);

/* Makes a part of what products with the attention of a block (part 0) and passing it (all
 * of LIPSC_WARM_PARTS) need on a device, before many windows ask for it at once and wait
 * for one.  What cannot be made is said when it is needed. */
enum { LIPSC_WARM_PARTS = 4 };
void lipsc_model_warm(lipsc_model *model, size_t layer, int part, lipsc_dtype dtype,
                      const lipsc_device *device);
/* Reads the numbers that such a part will be made of, for a device that still begins. */
void lipsc_model_read(lipsc_model *model, size_t layer, int part);

/* lipsc_acts_new in steps, so that many windows can pass a block together.  A window begins
 * before block 0; it passes blocks until `blocks` of them are behind, which makes their
 * inputs and outputs known; attend finds the input of attention in the block that it stands
 * before. What belongs to blocks that are behind stays until it is forgotten. */
lipsc_status lipsc_acts_begin(lipsc_model *model, lipsc_dtype dtype, size_t n,
                              const uint32_t *ids, lipsc_acts **out, lipsc_error *err);
/* The same in two: its tokens (n, d), lipsc_release, and the window that begins with them.
 */
lipsc_status lipsc_acts_read(lipsc_model *model, size_t n, const uint32_t *ids, double **x,
                             lipsc_error *err);
lipsc_status lipsc_acts_begin_at(lipsc_model *model, lipsc_dtype dtype, size_t n,
                                 const double *x, lipsc_acts **out, lipsc_error *err);
lipsc_status lipsc_acts_begin_pixels(lipsc_model *model, lipsc_dtype dtype,
                                     const size_t shape[3], const double *pixels,
                                     lipsc_acts **out, lipsc_error *err);
lipsc_status lipsc_acts_pass(lipsc_model *model, lipsc_acts *acts, int threads,
                             size_t blocks, lipsc_error *err);
lipsc_status lipsc_acts_attend(lipsc_model *model, lipsc_acts *acts, int threads,
                               lipsc_error *err);
void lipsc_acts_forget(lipsc_acts *acts);
/* Doubles of all that is known of a layer, and of the last hidden state: who asks for them
 * afterwards gets them.  LIPSC_E_NOMEM. */
lipsc_status lipsc_acts_ask(const lipsc_acts *acts, size_t layer, lipsc_error *err);
/* The inputs of the blocks that are behind go to *behind, without the last output; the
 * window, which has not attended, goes on without them. */
lipsc_status lipsc_acts_part(const lipsc_model *model, lipsc_acts *acts,
                             lipsc_acts **behind, lipsc_error *err);

/* Whether tokens see none behind them, so that the first tokens of a window are, to the
 * last bit, what a window of these alone is: its beginning is then `first`, n tokens as far
 * on their way as the whole. */
int lipsc_model_looks_back(const lipsc_model *model);
lipsc_status lipsc_acts_first(const lipsc_model *model, const lipsc_acts *whole, size_t n,
                              lipsc_acts **first, lipsc_error *err);

lipsc_linop lipsc_map_linop(lipsc_map *map);

/* lipsc_map_new at several windows.  Those of heads and attention are handles of one batch
 * (attn/attn.h): one thread at a time may use any of them.  Each is freed on its own. */
lipsc_status lipsc_map_batch_new(lipsc_model *m, size_t count,
                                 const lipsc_acts *const *acts,
                                 const lipsc_map_options *options, lipsc_map **out,
                                 lipsc_error *err);

#endif
