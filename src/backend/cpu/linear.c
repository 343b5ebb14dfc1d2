/* linear.c - one direction of a dense layer, packed into panels for the register kernels.
 */
#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "core/mem.h"

#include <string.h>

typedef struct {
    const lipsc_kernels *kernels;
    const lipsc_space *space;
    size_t in, out;
    void *panels; /* W^T (in, out) as panels of NR outputs */
    void *bias;   /* (out padded to panels) or NULL        */
} dense;

void lipsc_cpu_linear_free(void *linear) {
    dense *l = linear;
    if (!l) return;
    lipsc_cpu_release(l->space, l->panels);
    lipsc_cpu_release(l->space, l->bias);
    lipsc_release(l);
}

/* One panel (in, nr): outputs first .. end-1, the rest zero.  Rows of w are read in order.
 */
static void fill_panel(const dense *l, const double *w, int transposed, size_t first,
                       size_t end, double *panel) {
    const size_t nr = l->kernels->nr;
    memset(panel, 0, l->in * nr * sizeof *panel);
    if (transposed)
        for (size_t i = 0; i < l->in; i++)
            memcpy(panel + i * nr, w + i * l->out + first, (end - first) * sizeof *panel);
    else
        for (size_t o = first; o < end; o++)
            for (size_t i = 0; i < l->in; i++) panel[i * nr + o - first] = w[o * l->in + i];
}

static int pack(dense *l, const double *w, int transposed, const double *bias) {
    const size_t nr = l->kernels->nr, panels = (l->out + nr - 1) / nr, step = l->in * nr;
    size_t count;
    if (!lipsc_mul_size(panels * nr, l->in, &count)) return 0;
    l->panels = lipsc_cpu_alloc(l->space, count);
    double *panel = lipsc_alloc(step > panels * nr ? step : panels * nr, sizeof *panel);
    int ok = l->panels && panel;
    for (size_t p = 0; ok && p < panels; p++) {
        const size_t first = p * nr, end = first + nr < l->out ? first + nr : l->out;
        fill_panel(l, w, transposed, first, end, panel);
        lipsc_cpu_upload(l->space, step, panel,
                         (char *)l->panels + p * step * l->space->item);
    }
    if (ok && bias) {
        memset(panel, 0, panels * nr * sizeof *panel);
        memcpy(panel, bias, l->out * sizeof *panel);
        l->bias = lipsc_cpu_alloc(l->space, panels * nr);
        ok = l->bias != NULL;
        if (ok) lipsc_cpu_upload(l->space, panels * nr, panel, l->bias);
    }
    lipsc_release(panel);
    return ok;
}

lipsc_status lipsc_cpu_linear_new(size_t in, size_t out, const double *w, int transposed,
                                  const double *bias, lipsc_dtype dtype, void **linear,
                                  lipsc_error *err) {
    dense *l = lipsc_alloc_zero(1, sizeof *l);
    if (l) {
        l->kernels = lipsc_kernels_best(dtype == LIPSC_F32);
        l->space = lipsc_space_host(dtype);
        l->in = in;
        l->out = out;
    }
    if (!l || !pack(l, w, transposed, bias)) {
        lipsc_cpu_linear_free(l);
        return lipsc_fail(err, LIPSC_E_NOMEM,
                          "out of memory for a dense layer of %zu x %zu", out, in);
    }
    *linear = l;
    return LIPSC_OK;
}

lipsc_status lipsc_cpu_linear_apply(const void *linear, int threads, size_t rows,
                                    lipsc_buffer x, int bias, int add, lipsc_buffer y) {
    /* below, waking threads costs more than the work, which takes microseconds */
    const double worth_threads = 5e5; /* floating-point operations */
    const dense *l = linear;
    if (!lipsc_space_fits(l->space, x, rows, l->in) ||
        !lipsc_space_fits(l->space, y, rows, l->out))
        return LIPSC_E_ARG;
    const lipsc_gemm g = {.a = x.at,
                          .a_row = l->in,
                          .segs = 1,
                          .seg_len = l->in,
                          .b = l->panels,
                          .c = y.at,
                          .c_row = l->out,
                          .group = 1,
                          .c_group = l->kernels->nr,
                          .columns = l->out,
                          .bias = bias ? l->bias : NULL,
                          .add = add};
    if (2.0 * (double)rows * (double)l->in * (double)l->out < worth_threads) threads = 1;
    lipsc_cpu_gemms(l->kernels, threads, rows, 1, &g, 0);
    return LIPSC_OK;
}
