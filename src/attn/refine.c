/* refine.c - the operator at projections in twice the precision (docs/maths.md 7.6, "Twice
 * the precision").
 *
 * Where W x cancels, double knows it only to (d + 4) u |W| |x|, and the scores to the
 * product of that with the other side: they may not be known at all.  W x + b as a sum of
 * two doubles is known to the square of that, and rounded once it has its own digits.  Keys
 * are taken minus a vector that they have in common where nothing is done to them or to
 * their scores afterwards: scores then differ by a number for each row, which the softmax
 * does not see.
 */
#include "attn/attn.h"
#include "core/mem.h"
#include "core/twice.h"

/* y (heads, n, width) = W x_i + b, W (heads width, d) or NULL: the identity; lo: what hi
 * leaves, in the same order */
static void project(const lipsc_attn *attn, size_t heads, size_t width, const double *W,
                    const double *b, double *hi, double *lo) {
    const size_t n = attn->rows.n, d = attn->layer.d;
#pragma omp parallel for schedule(static) num_threads(lipsc_attn_threads(attn))
    for (size_t i = 0; i < n; i++) {
        const double *x = attn->X + i * d;
        for (size_t r = 0; r < heads * width; r++) {
            const double start = b ? b[r] : 0.0;
            const lipsc_twice y =
                W ? lipsc_twice_dot(start, d, W + r * d, x) : lipsc_twice_sum(start, x[r]);
            const size_t at = (r / width * n + i) * width + r % width;
            hi[at] = y.hi;
            lo[at] = y.lo;
        }
    }
}

/* hi := hi + lo - (the mean of hi over the tokens, or 0) */
static void round_off(size_t heads, size_t n, size_t width, int centre, double *hi,
                      const double *lo) {
    for (size_t h = 0; h < heads; h++)
        for (size_t c = 0; c < width; c++) {
            double mean = 0.0;
            for (size_t i = 0; centre && i < n; i++)
                mean += hi[(h * n + i) * width + c] / (double)n;
            for (size_t i = 0; i < n; i++) {
                const size_t at = (h * n + i) * width + c;
                hi[at] = lipsc_twice_minus((lipsc_twice){hi[at], lo[at]}, mean);
            }
        }
}

/* Fills attn->rows.raw; its arrays are attn->storage. */
static lipsc_status fill(lipsc_attn *attn) {
    const lipsc_layer *l = &attn->layer;
    const size_t n = attn->rows.n, k = l->key_dim, dv = l->value_dim;
    const size_t q_size = l->heads * n * k, k_size = l->kv_heads * n * k;
    const size_t z_size = l->kv_heads * n * dv;
    size_t count;
    if (!lipsc_mul_size(2, q_size + k_size + z_size, &count)) return LIPSC_E_NOMEM;
    double *q = lipsc_alloc(count, sizeof *q);
    attn->storage = q;
    if (!q) return LIPSC_E_NOMEM;
    double *key = q + q_size, *z = key + k_size, *lo = z + z_size;
    const int turned = l->k_gain || l->rotary_dim || l->soft_cap > 0.0 || l->sinks;
    project(attn, l->heads, k, l->Q, l->bq, q, lo);
    round_off(l->heads, n, k, 0, q, lo);
    project(attn, l->kv_heads, k, l->K, l->bk, key, lo);
    round_off(l->kv_heads, n, k, !turned, key, lo);
    project(attn, l->kv_heads, dv, l->V, l->bv, z, lo);
    round_off(l->kv_heads, n, dv, 0, z, lo);
    attn->rows.raw = (lipsc_raw){q, key, z};
    return LIPSC_OK;
}

lipsc_status lipsc_attn_refined(const lipsc_attn *attn, lipsc_attn **out) {
    lipsc_attn *own = lipsc_alloc_zero(1, sizeof *own), raised = *attn;
    double *tokens;
    if (!own) return LIPSC_E_NOMEM;
    raised.storage = NULL;
    lipsc_status status = lipsc_attn_whole_tokens(attn, &tokens);
    if (tokens) {
        raised.input.X = raised.X =
            tokens; /* in one order, or only this one is asked for */
        raised.rows.X = lipsc_host_view(attn->rows.n * attn->layer.d, tokens);
    }
    raised.rows.own_X = NULL;
    if (!status) status = fill(&raised);
    if (!status)
        status = lipsc_attn_as(&raised, LIPSC_F64, lipsc_device_raw(attn->device), own);
    own->storage = raised.storage;
    own->tokens = tokens;
    if (status)
        lipsc_attn_free(own);
    else
        *out = own;
    return status;
}
