/* pairs.c - windows of a layer, vectors for them, and the time of pairs of products. */
#include "trial/pairs.h"

#include "attn/turned.h"
#include "core/clock.h"
#include "core/mem.h"

void lipsc_windows_free(lipsc_windows *w) {
    for (size_t i = 0; w->attn && i < w->count; i++) lipsc_attn_free(w->attn[i]);
    for (size_t i = 0; w->from && i < w->count; i++) lipsc_attn_free(w->from[i]);
    lipsc_release(w->attn);
    lipsc_release(w->from);
    lipsc_packed_free(w->packed);
}

/* In the coordinates that a solve works in. */
static lipsc_status turn_windows(lipsc_windows *w) {
    lipsc_attn **there = lipsc_alloc_zero(w->count, sizeof *there);
    if (!there) return LIPSC_E_NOMEM;
    w->from = w->attn;
    w->attn = there;
    return lipsc_attns_turned(w->count, w->from, there);
}

lipsc_status lipsc_windows_new(const lipsc_bench_settings *s, const lipsc_sample *sample,
                               const lipsc_device *device, lipsc_windows *w,
                               lipsc_error *err) {
    lipsc_input *input = lipsc_alloc(s->batch, sizeof *input);
    *w = (lipsc_windows){.count = s->batch,
                         .attn = lipsc_alloc_zero(s->batch, sizeof *w->attn)};
    lipsc_status status = input && w->attn ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t i = 0; !status && i < s->batch; i++)
        input[i] =
            (lipsc_input){.n = s->n, .X = sample->input.X + i * s->n * sample->layer.d};
    if (!status) status = lipsc_packed_new(&sample->layer, 1, &w->packed, err);
    if (!status)
        status = lipsc_attn_batch_at(w->packed, NULL, s->batch, input, s->dtype, device,
                                     w->attn, err);
    if (!status && lipsc_attn_turns(w->attn[0])) status = turn_windows(w);
    lipsc_release(input);
    return status;
}

/* What a device has only queued is done when a number comes back. */
static lipsc_status wait_for(const lipsc_bed *b) {
    const lipsc_space *space = b->op.space;
    double any;
    return lipsc_space_here(space, b->op.n)
               ? lipsc_space_download(lipsc_space_part(space), 1,
                                      lipsc_space_own(space, b->z), &any)
               : LIPSC_OK;
}

lipsc_status lipsc_time_pairs(const lipsc_bed *b, long pairs, double *seconds) {
    const double start = lipsc_seconds();
    for (long i = 0; i < pairs; i++) {
        lipsc_status status = lipsc_attn_products(0, b->on->count, b->there);
        if (!status) status = lipsc_attn_products(1, b->on->count, b->back);
        if (status) return status;
    }
    const lipsc_status status = wait_for(b);
    *seconds = (lipsc_seconds() - start) / (double)pairs;
    return status;
}

void lipsc_bed_free(lipsc_bed *b) {
    const lipsc_space *space = b->op.space;
    lipsc_release(b->there);
    lipsc_space_release(space, b->x);
    lipsc_space_release(space, b->y);
    lipsc_space_release(space, b->z);
}

lipsc_status lipsc_bed_new(const lipsc_bench_settings *s, const lipsc_windows *on,
                           lipsc_bed *b) {
    size_t in, out;
    *b = (lipsc_bed){.on = on, .op = lipsc_attn_linop(on->attn[0])};
    const lipsc_space *space = b->op.space;
    b->there = lipsc_alloc(2 * on->count, sizeof *b->there);
    if (lipsc_mul_size(on->count * s->block, b->op.n, &in) &&
        lipsc_mul_size(on->count * s->block, b->op.m, &out)) {
        b->x = lipsc_space_alloc(space, in);
        b->y = lipsc_space_alloc(space, out);
        b->z = lipsc_space_alloc(space, in);
    }
    if (!b->there || !b->x.at || !b->y.at || !b->z.at) return LIPSC_E_NOMEM;
    b->back = b->there + on->count;
    for (size_t i = 0; i < on->count; i++) {
        const size_t from = s->block * b->op.n, to = s->block * b->op.m;
        const lipsc_buffer x = lipsc_slice(space, b->x, i * from, from),
                           y = lipsc_slice(space, b->y, i * to, to),
                           z = lipsc_slice(space, b->z, i * from, from);
        b->there[i] = (lipsc_product){.of = on->attn[i], .k = s->block, .x = x, .y = y};
        b->back[i] = (lipsc_product){.of = on->attn[i], .k = s->block, .x = y, .y = z};
    }
    return lipsc_space_random(space, 1, 0, in, b->x);
}

int lipsc_windows_threads(const lipsc_windows *w) {
    const lipsc_attn *attn = w->attn[0];
    return lipsc_device_useful_threads(attn->device, &attn->layer,
                                       w->count * attn->input.n);
}
