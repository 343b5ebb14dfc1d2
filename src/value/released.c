/* released.c - the value that the authors' released scripts return. */
#include "value/value.h"
#include "core/mem.h"

#include <math.h>

lipsc_status lipsc_attn_released(lipsc_attn *attn, double *value) {
    if (!attn || !value || attn->input.weights) return LIPSC_E_ARG;
    const lipsc_op op = lipsc_attn_op(attn);
    lipsc_exact exact;
    lipsc_status status = lipsc_exact_open(attn, 2, &exact);
    if (status) return status;

    double *f = lipsc_alloc(op.m, sizeof *f), *g = lipsc_alloc(op.n, sizeof *g);
    status = f && g ? lipsc_exact_output(&exact, f) : LIPSC_E_NOMEM;
    if (!status) status = lipsc_exact_apply(&exact, 1, 1, f, g);
    if (!status) {
        double sum = 0.0;
        for (size_t e = 0; e < op.n; e++) sum += g[e] * g[e];
        *value = sqrt(sqrt(sum));
    }
    lipsc_release(f);
    lipsc_release(g);
    lipsc_exact_close(&exact);
    return status;
}
