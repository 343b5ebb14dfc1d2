/* attn.h - what value/ and bound/ may know of an attention operator. */
#ifndef LIPSC_ATTN_ATTN_H
#define LIPSC_ATTN_ATTN_H

#include "backend/backend.h"
#include "lipscope.h"

/* Owns copies of the layer and the input as given, in double, so that a value found
 * in f32 can be re-evaluated with them. */
struct lipsc_attn {
    lipsc_layer layer;  /* checked, defaults resolved; arrays owned by storage */
    lipsc_input input;  /* the caller's order; arrays owned by storage         */
    lipsc_rows rows;    /* the back end's order                                */
    void *storage;      /* every array above                                   */
    lipsc_dtype dtype;
    int threads;
    const lipsc_backend *backend;
    void *weights, *state; /* of the back end, in dtype */
};

/* Sizes, finite values, positive weights, windows: the sentence names what is wrong.
 * Resolves defaults (kv_heads, scale, out_dim) into *resolved. */
lipsc_status lipsc_layer_check(const lipsc_layer *layer, lipsc_layer *resolved,
                               lipsc_error *err);
lipsc_status lipsc_input_check(const lipsc_layer *resolved, const lipsc_input *input,
                               lipsc_error *err);

/* Row i of the sorted order sees keys lo[i] .. hi[i]-1; order[i] is the token that
 * stands at place i.  *identity is 1 when no token moves. */
lipsc_status lipsc_mask_ranges(const lipsc_layer *layer, const lipsc_input *input,
                               size_t *order, size_t *lo, size_t *hi, int *identity);

/* J as an operator on back-end vectors; valid as long as attn. */
lipsc_linop lipsc_attn_linop(lipsc_attn *attn);

#endif
