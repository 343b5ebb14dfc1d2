/* projection.c - products of rows with packed weights: into heads and out of them, for all
 * inputs of a batch at once. */
#include "backend/cpu/cpu.h"

#include "core/extreme.h"

#include <string.h>

/* Rows per task: about 144, so that its activations stay in the L2 cache, and near equal.
 */
static size_t rows_per_task(size_t rows) {
    const size_t per = ceil_div(rows, ceil_div(rows, 144));
    return ceil_div(per, 6) * 6;
}

void lipsc_cpu_gemms(const lipsc_kernels *kernels, int threads, size_t rows, size_t count,
                     const lipsc_gemm *g, int chained) {
    const size_t nr = kernels->nr, chunk = rows_per_task(rows),
                 chunks = ceil_div(rows, chunk);
    const size_t lists = chained ? 1 : count;
    size_t panels[3] = {0}, total = 0;
    for (size_t i = 0; i < lists; i++) total += panels[i] = ceil_div(g[i].columns, nr);
    /* at least four tasks a thread, at most 12 panels a task */
    size_t per = total * chunks / (4 * (size_t)threads);
    per = per < 1 ? 1 : min_size(per, 12);
    size_t first[4] = {0};
    for (size_t i = 0; i < lists; i++)
        first[i + 1] = first[i] + ceil_div(panels[i], per) * chunks;
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
    for (size_t task = 0; task < first[lists]; task++) {
        size_t i = 0;
        while (task >= first[i + 1]) i++;
        const size_t pieces = ceil_div(panels[i], per);
        const size_t r0 = (task - first[i]) / pieces * chunk,
                     r1 = min_size(r0 + chunk, rows);
        const size_t p0 = (task - first[i]) % pieces * per,
                     p1 = min_size(p0 + per, panels[i]);
        for (size_t c = chained ? 0 : i; c < (chained ? count : i + 1); c++)
            kernels->gemm(&g[c], r0, r1, p0, p1);
    }
}

void lipsc_cpu_project(const lipsc_cpu_weights *w, int threads, size_t rows, const void *a,
                       void *q, void *k, void *z, int bias) {
    const size_t nr = w->kernels->nr, d = w->layer->d;
    void *c[3] = {q, k, z};
    const void *b[3] = {w->q_in, w->k_in, w->v_in};
    const size_t(*const spans[3])[2] = {NULL, NULL, (const size_t(*)[2])w->v_in_span};
    const void *biases[3] = {w->q_bias, w->k_bias, w->v_bias};
    const size_t heads[3] = {w->layer->heads, w->layer->kv_heads, w->layer->kv_heads};
    lipsc_gemm g[3];
    size_t count = 0;
    for (int i = 0; i < 3; i++) {
        const size_t hw = i < 2 ? w->kw : w->vw;
        if (!c[i]) continue;
        g[count++] = (lipsc_gemm){.a = a,
                                  .a_row = d,
                                  .segs = 1,
                                  .seg_len = d,
                                  .b = b[i],
                                  .c = c[i],
                                  .c_row = hw,
                                  .group = hw / nr,
                                  .c_group = rows * hw,
                                  .columns = heads[i] * hw,
                                  .bias = bias ? biases[i] : NULL,
                                  .span = spans[i]};
    }
    lipsc_cpu_gemms(w->kernels, threads, rows, count, g, 0);
}

/* Between head layout (heads, rows, vw) and plain rows (rows, heads*dv), without O. */
static void concatenate(const lipsc_cpu_weights *w, size_t rows, char *heads, char *plain,
                        int to_heads) {
    const size_t dv = w->layer->value_dim, H = w->layer->heads, item = w->kernels->item;
    for (size_t h = 0; h < H; h++)
        for (size_t i = 0; i < rows; i++) {
            char *a = heads + (h * rows + i) * w->vw * item,
                 *b = plain + (i * H + h) * dv * item;
            if (to_heads) {
                memcpy(a, b, dv * item);
                memset(a + dv * item, 0, (w->vw - dv) * item);
            } else {
                memcpy(b, a, dv * item);
            }
        }
}

void lipsc_cpu_combine_heads(const lipsc_cpu_weights *w, int threads, size_t rows,
                             const void *heads, void *y) {
    if (!w->o_in) {
        concatenate(w, rows, (char *)heads, y, 0);
        return;
    }
    const lipsc_gemm g = {.a = heads,
                          .a_row = w->vw,
                          .a_seg = rows * w->vw,
                          .segs = w->layer->heads,
                          .seg_len = w->vw,
                          .b = w->o_in,
                          .c = y,
                          .c_row = w->width,
                          .group = 1,
                          .c_group = w->kernels->nr,
                          .columns = w->width,
                          .span = (const size_t(*)[2])w->o_in_span};
    lipsc_cpu_gemms(w->kernels, threads, rows, 1, &g, 0);
}

void lipsc_cpu_split_heads(const lipsc_cpu_weights *w, int threads, size_t rows,
                           const void *x, void *heads) {
    if (!w->o_out) {
        concatenate(w, rows, heads, (char *)x, 1);
        return;
    }
    const lipsc_gemm g = {.a = x,
                          .a_row = w->width,
                          .segs = 1,
                          .seg_len = w->width,
                          .b = w->o_out,
                          .c = heads,
                          .c_row = w->vw,
                          .group = w->vw / w->kernels->nr,
                          .c_group = rows * w->vw,
                          .columns = w->layer->heads * w->vw,
                          .span = (const size_t(*)[2])w->o_out_span};
    lipsc_cpu_gemms(w->kernels, threads, rows, 1, &g, 0);
}

void lipsc_cpu_project_back(const lipsc_cpu_weights *w, int threads, size_t rows,
                            const void *q, const void *k, const void *z, void *y) {
    const size_t d = w->layer->d;
    const void *a[3] = {q, k, z}, *b[3] = {w->q_out, w->k_out, w->v_out};
    const size_t(*const spans[3])[2] = {NULL, NULL, (const size_t(*)[2])w->v_out_span};
    const size_t heads[3] = {w->layer->heads, w->layer->kv_heads, w->layer->kv_heads};
    lipsc_gemm g[3];
    size_t count = 0;
    for (int i = 0; i < 3; i++) {
        const size_t hw = i < 2 ? w->kw : w->vw;
        if (!a[i]) continue;
        const int add = count > 0;
        g[count++] = (lipsc_gemm){.a = a[i],
                                  .a_row = hw,
                                  .a_seg = rows * hw,
                                  .segs = heads[i],
                                  .seg_len = hw,
                                  .b = b[i],
                                  .c = y,
                                  .c_row = d,
                                  .group = 1,
                                  .c_group = w->kernels->nr,
                                  .columns = d,
                                  .add = add,
                                  .span = spans[i]};
    }
    lipsc_cpu_gemms(w->kernels, threads, rows, count, g, 1);
}
