/* kept.c - products at short inputs whose probabilities are kept.
 *
 * Where a row of P, in whole panels, is no longer than a token in all heads together, P
 * takes no more memory than the tokens.  Then P, keys and values in panels are kept with
 * the input, and J and J^T multiply 16 n^2 d elements where the plain products, which make
 * the scores again, multiply 20 n^2 d.  What comes before and after is as for all inputs:
 * rotations, norms, weights, biases of the scores and sinks; not a cap, whose slopes would
 * have to be kept as well.  Only in f32: what is proved in double is proved of the plain
 * products.  Whether an input's are kept depends on its length and the layer alone, and so
 * does every order of a sum: its bits do not depend on its neighbours. */
#include "backend/cpu/cpu.h"

#include "core/extreme.h"
#include "core/mem.h"

#include <string.h>

/* Tokens in whole panels. */
static size_t padded(const lipsc_cpu_weights *w, size_t n) {
    return ceil_div(n, w->kernels->nr) * w->kernels->nr;
}

int lipsc_cpu_keeps(const lipsc_cpu_batch *b, const lipsc_cpu_member *of) {
    const lipsc_cpu_weights *w = b->w;
    const lipsc_layer *l = w->layer;
    return w->dtype == LIPSC_F32 && !(l->soft_cap > 0) && of->n <= w->kernels->kept->most &&
           padded(w, of->n) <= l->d / l->heads;
}

lipsc_kept lipsc_cpu_kept_head(const lipsc_cpu_weights *w, const lipsc_cpu_member *of,
                               size_t h) {
    const size_t n = of->n, row = padded(w, n), item = w->kernels->item;
    const size_t g = h * w->layer->kv_heads / w->layer->heads;
    char *k = of->kept_k; /* NULL: composed */
    return (lipsc_kept){.p = (char *)of->kept_p + h * n * row * item,
                        .k = k ? k + g * row * w->kw * item : NULL,
                        .z = (char *)of->kept_z + g * row * w->vw * item};
}

static void keep_head(const lipsc_cpu_batch *b, const lipsc_cpu_member *of, size_t h) {
    const lipsc_cpu_weights *w = b->w;
    const lipsc_head head = lipsc_cpu_head(b, of, h);
    const lipsc_kept kept = lipsc_cpu_kept_head(w, of, h);
    const size_t share = w->layer->heads / w->layer->kv_heads;
    w->kernels->kept->probabilities(&head, kept.p, lipsc_cpu_thread_scratch(b));
    if (h % share) return;
    if (kept.k) w->kernels->kept->panels(head.k, head.n, w->kw, kept.k);
    w->kernels->kept->panels(head.z, head.n, w->vw, kept.z);
}

lipsc_status lipsc_cpu_keep(lipsc_cpu_batch *b) {
    const lipsc_cpu_weights *w = b->w;
    const size_t heads = w->layer->heads, kv = w->layer->kv_heads;
    if (b->kept) return LIPSC_OK;
    for (size_t i = 0; i < b->inputs; i++) {
        lipsc_cpu_member *of = &b->member[i];
        if (of->way == LIPSC_CPU_PLAIN) continue;
        const int keys = of->way == LIPSC_CPU_KEPT;
        const size_t row = padded(w, of->n), count = heads * of->n * row;
        /* some may be there, from a call that found no memory for the others */
        if (!of->kept_p) of->kept_p = lipsc_cpu_alloc(w->space, count);
        if (keys && !of->kept_k) of->kept_k = lipsc_cpu_alloc(w->space, kv * row * w->kw);
        if (!of->kept_z) of->kept_z = lipsc_cpu_alloc(w->space, kv * row * w->vw);
        if (!of->kept_p || (keys && !of->kept_k) || !of->kept_z) return LIPSC_E_NOMEM;
        b->bytes += (count + kv * row * (keys * w->kw + w->vw)) * w->kernels->item;
    }
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < b->inputs * heads; t++)
        if (b->member[t / heads].way != LIPSC_CPU_PLAIN)
            keep_head(b, &b->member[t / heads], t % heads);
    b->kept = 1;
    return LIPSC_OK;
}

void lipsc_cpu_kept_free(lipsc_cpu_batch *b) {
    for (size_t i = 0; b->member && i < b->inputs; i++) {
        lipsc_cpu_release(b->w->space, b->member[i].kept_p);
        lipsc_cpu_release(b->w->space, b->member[i].kept_k);
        lipsc_cpu_release(b->w->space, b->member[i].kept_z);
    }
}

void lipsc_cpu_kept_forward(const lipsc_cpu_pass *pass) {
    const lipsc_cpu_batch *b = pass->batch;
    const size_t heads = b->w->layer->heads;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < pass->pieces * heads; t++) {
        const lipsc_cpu_piece *p = &pass->piece[t / heads];
        const size_t h = t % heads;
        const lipsc_head head = lipsc_cpu_head(b, p->of, h);
        const lipsc_head_dirs d = lipsc_cpu_head_dirs(b, pass->rows, p->base, p->dirs, h);
        const lipsc_kept kept = lipsc_cpu_kept_head(b->w, p->of, h);
        b->w->kernels->kept->forward(&head, &d, &kept, lipsc_cpu_thread_scratch(b));
    }
}

void lipsc_cpu_kept_adjoint(const lipsc_cpu_pass *pass) {
    const lipsc_cpu_batch *b = pass->batch;
    const size_t kv = b->w->layer->kv_heads, share = b->w->layer->heads / kv;
#pragma omp parallel for num_threads(b->threads) schedule(dynamic, 1)
    for (size_t t = 0; t < pass->pieces * kv; t++) {
        const lipsc_cpu_piece *p = &pass->piece[t / kv];
        for (size_t s = 0; s < share; s++) { /* the query heads of a key head */
            const size_t h = t % kv * share + s;
            const lipsc_head head = lipsc_cpu_head(b, p->of, h);
            const lipsc_head_dirs d =
                lipsc_cpu_head_dirs(b, pass->rows, p->base, p->dirs, h);
            const lipsc_kept kept = lipsc_cpu_kept_head(b->w, p->of, h);
            b->w->kernels->kept->adjoint(&head, &d, &kept, s > 0,
                                         lipsc_cpu_thread_scratch(b));
        }
    }
}
