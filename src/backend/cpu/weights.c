/* weights.c - packs a layer's matrices into panels, once per layer and precision.
 *
 * A projection C = A W^T reads W^T in panels of NR output columns.  J needs W^T of the
 * query, key and value weights and O^T; J^T needs the same matrices the other way round.
 * Packing costs one pass over the weights and makes every later product stream them in
 * order. */
#include "backend/cpu/cpu.h"
#include "core/error.h"
#include "core/extreme.h"
#include "core/mem.h"

#include <stdlib.h>
#include <string.h>

/* A matrix (blocks*dim, cols) given row-major, its blocks padded from dim to pad rows; the
 * identity when data is NULL. */
typedef struct {
    const double *data;
    size_t blocks, dim, pad, cols;
    double factor;
} padded;

/* Row of the padded matrix, NULL where it is padding; for the identity *unit is its column.
 */
static int find_row(const padded *m, size_t row, const double **data, size_t *unit) {
    const size_t block = row / m->pad, r = row % m->pad;
    if (r >= m->dim || block >= m->blocks) return 0;
    *unit = block * m->dim + r;
    *data = m->data ? m->data + *unit * m->cols : NULL;
    return 1;
}

/* Panels of M^T (inner = columns of M, columns = padded rows of M) or, transposed, of M. */
static void *pack(const lipsc_cpu_weights *w, const padded *m, int transposed) {
    const size_t nr = w->kernels->nr, prows = m->blocks * m->pad;
    const size_t inner = transposed ? prows : m->cols,
                 columns = transposed ? m->cols : prows;
    const size_t panels = (columns + nr - 1) / nr;
    size_t count;
    if (!lipsc_mul_size(panels * nr, inner, &count)) return NULL;
    char *dst = lipsc_cpu_alloc(w->space, count);
    double *panel = lipsc_alloc(inner, nr * sizeof(double));
    for (size_t p = 0; dst && panel && p < panels; p++) {
        const size_t first = p * nr, end = first + nr < columns ? first + nr : columns;
        memset(panel, 0, inner * nr * sizeof(double));
        const double *row;
        size_t unit;
        if (transposed) { /* entry (l, column) = M[l][column] */
            for (size_t l = 0; l < inner; l++)
                if (find_row(m, l, &row, &unit))
                    for (size_t c = first; c < end; c++)
                        panel[l * nr + c - first] = m->factor * (row ? row[c] : c == unit);
        } else { /* entry (l, column) = M[column][l] */
            for (size_t c = first; c < end; c++)
                if (find_row(m, c, &row, &unit))
                    for (size_t l = 0; l < inner; l++)
                        panel[l * nr + c - first] = m->factor * (row ? row[l] : l == unit);
        }
        lipsc_cpu_upload(w->space, inner * nr, panel,
                         dst + p * inner * nr * w->space->item);
    }
    if (!panel) {
        lipsc_cpu_release(w->space, dst);
        dst = NULL;
    }
    lipsc_release(panel);
    return dst;
}

/* The first and the last element of row r of the matrix that is not zero: [from, end). */
static void row_ends(const padded *m, size_t r, size_t *from, size_t *end) {
    const double *row;
    size_t unit;
    *from = m->cols;
    *end = 0;
    if (!find_row(m, r, &row, &unit)) return;
    for (size_t c = 0; c < m->cols; c++)
        if (row ? row[c] != 0.0 : c == unit) {
            if (*end == 0) *from = c;
            *end = c + 1;
        }
}

/* Of the panels that pack makes, where they are not zero; NULL with *ok where all begin and
 * end with numbers. */
static size_t (*spans_of(const lipsc_cpu_weights *w, const padded *m, int transposed,
                         int *ok))[2] {
    const size_t nr = w->kernels->nr, prows = m->blocks * m->pad;
    const size_t columns = transposed ? m->cols : prows,
                 inner = transposed ? prows : m->cols;
    const size_t panels = ceil_div(columns, nr);
    size_t(*span)[2] = lipsc_alloc(panels, sizeof *span), shorter = 0;
    *ok = *ok && span;
    for (size_t p = 0; span && p < panels; p++) span[p][0] = inner, span[p][1] = 0;
    for (size_t r = 0; span && r < prows; r++) {
        size_t from, end;
        row_ends(m, r, &from, &end);
        for (size_t p = transposed ? from / nr : r / nr;
             end && p < (transposed ? ceil_div(end, nr) : r / nr + 1); p++) {
            span[p][0] = min_size(span[p][0], transposed ? r : from);
            span[p][1] = max_size(span[p][1], transposed ? r + 1 : end);
        }
    }
    for (size_t p = 0; span && p < panels; p++)
        shorter += span[p][0] >= nr || span[p][1] + nr <= inner;
    if (!shorter) {
        lipsc_release(span);
        span = NULL;
    }
    return span;
}

/* b (blocks*dim) with blocks padded to pad, times factor */
static void *pack_vector(const lipsc_cpu_weights *w, const double *b, size_t blocks,
                         size_t dim, size_t pad, double factor) {
    double *host = lipsc_alloc_zero(blocks * pad, sizeof(double));
    void *dst = lipsc_cpu_alloc(w->space, blocks * pad);
    if (host && dst) {
        for (size_t h = 0; h < blocks; h++)
            for (size_t c = 0; c < dim; c++) host[h * pad + c] = factor * b[h * dim + c];
        lipsc_cpu_upload(w->space, blocks * pad, host, dst);
    }
    if (!host) {
        lipsc_cpu_release(w->space, dst);
        dst = NULL;
    }
    lipsc_release(host);
    return dst;
}

void lipsc_cpu_weights_free(void *weights) {
    lipsc_cpu_weights *w = weights;
    if (!w) return;
    void *all[] = {w->q_in,  w->k_in,   w->v_in,   w->q_out,  w->k_out,  w->v_out, w->o_in,
                   w->o_out, w->q_bias, w->k_bias, w->v_bias, w->q_gain, w->k_gain};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        lipsc_cpu_release(w->space, all[i]);
    lipsc_release(w->v_in_span);
    lipsc_release(w->v_out_span);
    lipsc_release(w->o_in_span);
    lipsc_release(w->o_out_span);
    free(w);
}

lipsc_status lipsc_cpu_weights_new(const lipsc_layer *layer, lipsc_dtype dtype,
                                   void **weights, lipsc_error *err) {
    lipsc_cpu_weights *w = calloc(1, sizeof *w);
    if (!w) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for the packed weights");
    w->layer = layer;
    w->dtype = dtype;
    w->kernels = lipsc_kernels_best(dtype == LIPSC_F32);
    w->stages = dtype == LIPSC_F32 ? &lipsc_stages_f32 : &lipsc_stages_f64;
    w->space = lipsc_space_host(dtype);
    w->width = lipsc_layer_width(layer);
    const size_t nr = w->kernels->nr, d = layer->d;
    const size_t heads = layer->heads, kv = layer->kv_heads;
    w->kw = (layer->key_dim + nr - 1) / nr * nr;
    w->vw = (layer->value_dim + nr - 1) / nr * nr;
    const double q_factor = layer->q_gain ? 1 : layer->scale;

    const padded q = {layer->Q, heads, layer->key_dim, w->kw, d, q_factor};
    const padded k = {layer->K, kv, layer->key_dim, w->kw, d, 1};
    const padded v = {layer->V, kv, layer->value_dim, w->vw, d, 1};
    w->q_in = pack(w, &q, 0);
    w->k_in = pack(w, &k, 0);
    w->v_in = pack(w, &v, 0);
    w->q_out = pack(w, &q, 1);
    w->k_out = pack(w, &k, 1);
    w->v_out = pack(w, &v, 1);
    int ok = w->q_in && w->k_in && w->v_in && w->q_out && w->k_out && w->v_out;
    w->v_in_span = spans_of(w, &v, 0, &ok);
    w->v_out_span = spans_of(w, &v, 1, &ok);
    if (layer->O) {
        /* O is (width, heads*value_dim): its columns are the padded side, so transpose once
         */
        const size_t inner = heads * layer->value_dim;
        double *ot = lipsc_alloc(inner, w->width * sizeof(double));
        if (ot) {
            for (size_t r = 0; r < w->width; r++)
                for (size_t c = 0; c < inner; c++)
                    ot[c * w->width + r] = layer->O[r * inner + c];
            const padded o = {ot, heads, layer->value_dim, w->vw, w->width, 1};
            w->o_in = pack(w, &o, 1);
            w->o_out = pack(w, &o, 0);
            w->o_in_span = spans_of(w, &o, 1, &ok);
            w->o_out_span = spans_of(w, &o, 0, &ok);
        }
        lipsc_release(ot);
        ok = ok && w->o_in && w->o_out;
    }
    if (layer->bq) {
        w->q_bias = pack_vector(w, layer->bq, heads, layer->key_dim, w->kw, q_factor);
        ok = ok && w->q_bias;
    }
    if (layer->bk) {
        w->k_bias = pack_vector(w, layer->bk, kv, layer->key_dim, w->kw, 1);
        ok = ok && w->k_bias;
    }
    if (layer->bv) {
        w->v_bias = pack_vector(w, layer->bv, kv, layer->value_dim, w->vw, 1);
        ok = ok && w->v_bias;
    }
    if (layer->q_gain) {
        w->q_gain = pack_vector(w, layer->q_gain, layer->norm_whole ? heads : 1,
                                layer->key_dim, w->kw, layer->scale);
        ok = ok && w->q_gain;
    }
    if (layer->k_gain) {
        w->k_gain = pack_vector(w, layer->k_gain, layer->norm_whole ? kv : 1,
                                layer->key_dim, w->kw, 1);
        ok = ok && w->k_gain;
    }
    if (!ok) {
        lipsc_cpu_weights_free(w);
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for the packed weights");
    }
    *weights = w;
    return LIPSC_OK;
}
