/* mask.c - every mask as one range of visible keys per row.
 *
 * Causal and sliding masks are ranges as they stand.  A mask by times becomes one when
 * the tokens are sorted by time: row i then sees all places before the end of its
 * group of equal times.  A back end needs to know nothing else. */
#include "attn/attn.h"
#include "core/mem.h"
#include "core/order.h"

static lipsc_status ranges_by_time(const lipsc_input *input, size_t *order, size_t *lo,
                                   size_t *hi) {
    const size_t n = input->n;
    lipsc_placed *stamps = lipsc_alloc(n, sizeof *stamps);
    if (!stamps) return LIPSC_E_NOMEM;
    lipsc_order_up(n, input->times, stamps);
    for (size_t i = n, end = n; i-- > 0;) {
        if (i + 1 < n && stamps[i].at != stamps[i + 1].at) end = i + 1;
        order[i] = stamps[i].index;
        lo[i] = 0;
        hi[i] = end;
    }
    lipsc_release(stamps);
    return LIPSC_OK;
}

lipsc_status lipsc_mask_ranges(const lipsc_layer *layer, const lipsc_input *input,
                               size_t *order, size_t *lo, size_t *hi, int *identity) {
    const size_t n = input->n;
    *identity = 1;
    if (layer->mask == LIPSC_MASK_TIMES) {
        lipsc_status status = ranges_by_time(input, order, lo, hi);
        for (size_t i = 0; !status && i < n; i++) *identity &= order[i] == i;
        return status;
    }
    for (size_t i = 0; i < n; i++) {
        order[i] = i;
        lo[i] = 0;
        hi[i] = layer->mask == LIPSC_MASK_NONE ? n : i + 1;
        if (layer->mask == LIPSC_MASK_LOCAL)
            hi[i] = layer->window < n - i ? i + layer->window : n;
        if ((layer->mask == LIPSC_MASK_SLIDING || layer->mask == LIPSC_MASK_LOCAL) &&
            i >= layer->window)
            lo[i] = i + 1 - layer->window;
    }
    return LIPSC_OK;
}
