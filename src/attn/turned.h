/* turned.h - operators in coordinates that make their products cheaper (turned.c). */
#ifndef LIPSC_ATTN_TURNED_H
#define LIPSC_ATTN_TURNED_H

#include "attn/attn.h"

/* A layer in such coordinates. */
typedef struct lipsc_turned lipsc_turned;
lipsc_status lipsc_turned_new(const lipsc_layer *layer, lipsc_turned **out,
                              lipsc_error *err);
void lipsc_turned_free(lipsc_turned *turned); /* NULL does nothing */
/* That of packed, made when first asked for and valid as long as packed. */
lipsc_status lipsc_packed_turned(lipsc_packed *packed, const lipsc_turned **turned,
                                 lipsc_error *err);

/* Whether a solve is made there: a question of layer, precision and device, so that no
 * value depends on what else is asked for. */
int lipsc_attn_turns(const lipsc_attn *attn);
/* The same of layers with tokens of d numbers, for who counts memory. */
int lipsc_width_turns(const lipsc_device *device, lipsc_dtype dtype, size_t d);

/* Handles of one batch there, of handles of one batch that turn; each to be freed, also
 * after a failure. */
lipsc_status lipsc_attns_turned(size_t count, lipsc_attn *const *attn, lipsc_attn **out);

/* k vectors that such a handle of attn multiplies, or with `image` its products, turned
 * back to those of attn. */
lipsc_status lipsc_attn_turn_back(lipsc_attn *attn, int image, size_t k, double *x);

#endif
