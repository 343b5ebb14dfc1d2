/* slices.c - heads together behind their slices of O (docs/maths.md 3.15, "Ends").
 *
 * J = sum_h U_h (F_h J_h) = [sqrt(c_1) U_1, ...] [F_1 J_1 / sqrt(c_1); ...] for any weights
 * c_h > 0, so that
 *
 *     |value and key path| <= |[sqrt(c_h) U_h]| ( max_j sum_h column_hj / c_h )^{1/2},
 *     |query path|         <= max_i min( sum_h query_hi, |[U_h]| (sum_h query_hi^2)^{1/2}
 * ).
 *
 * Slices of O point in different directions: |[U_h]| is far below sqrt(H).  With a sink s
 * its column of blocks is taken apart: |J|^2 <= |J_s|^2 + |J_rest|^2, |J_s| from the point
 * and from what it moves by. */
#include "bound/slices.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "bound/psd.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"

enum { WIDEST = 1024 }; /* heads rank: beyond, its cube is more than the rows themselves */

lipsc_status lipsc_slices_new(const lipsc_layer *layer, size_t n, lipsc_slices *out) {
    const size_t rank = min_size(layer->out_dim, layer->value_dim), heads = layer->heads;
    size_t rows, bases;
    memset(out, 0, sizeof *out);
    if (!layer->O || heads * rank > WIDEST) return LIPSC_OK;
    if (!lipsc_mul_size(3 * heads, n, &rows) ||
        !lipsc_mul_size(layer->out_dim, heads * rank, &bases))
        return LIPSC_E_NOMEM;
    out->storage = lipsc_alloc_zero(rows + bases, sizeof *out->storage);
    if (!out->storage) return LIPSC_E_NOMEM;
    out->n = n;
    out->heads = heads;
    out->rank = rank;
    out->out_dim = layer->out_dim;
    out->column[0] = out->storage;
    out->column[1] = out->column[0] + heads * n;
    out->query = out->column[1] + heads * n;
    out->bases = out->query + heads * n;
    return LIPSC_OK;
}

void lipsc_slices_free(lipsc_slices *slices) { lipsc_release(slices->storage); }

/* U_h: left singular vectors of the slice. */
static lipsc_status find_basis(const lipsc_layer *layer, const lipsc_head_at *head,
                               size_t h, double *basis) {
    const size_t rows = layer->out_dim, cols = layer->value_dim;
    double *slice = lipsc_alloc(rows, cols * sizeof *slice);
    double *s = lipsc_alloc(min_size(rows, cols), sizeof *s);
    lipsc_status status = slice && s ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t r = 0; !status && r < rows; r++)
        for (size_t c = 0; c < cols; c++)
            slice[r + c * rows] =
                head->out_unit * layer->O[r * layer->heads * cols + h * cols + c];
    if (!status) status = lipsc_dense_svd(rows, cols, slice, s, basis, NULL);
    lipsc_release(slice);
    lipsc_release(s);
    return status;
}

lipsc_status lipsc_slices_keep(const lipsc_layer *layer, const lipsc_head_at *head,
                               size_t h, const double *const column[2], const double *query,
                               lipsc_slices *slices) {
    if (slices->heads == 0) return LIPSC_OK;
    if (h == 0) slices->unit = head->unit * head->out_unit;
    /* at least 1e-140: its square stays a number, and a larger one does no harm */
    const double ratio = lipsc_max(slices->unit / head->unit / head->out_unit, 1e-140);
    for (size_t j = 0; j < slices->n; j++) {
        for (int k = 0; k < 2; k++)
            slices->column[k][h * slices->n + j] = ratio * ratio * column[k][j];
        slices->query[h * slices->n + j] = ratio * query[j];
    }
    return find_basis(layer, head, h, slices->bases + h * slices->rank * slices->out_dim);
}

/* |[sqrt(c_h) U_h]|^2 from the Gram matrix of [U_h]; room for two of its size */
static lipsc_status weighted_bases(const lipsc_slices *s, const double *gram,
                                   const double *c, double *room, double *square) {
    const size_t width = s->heads * s->rank;
    for (size_t a = 0; a < width; a++)
        for (size_t b = 0; b < width; b++)
            room[b + a * width] =
                sqrt(c[a / s->rank]) * sqrt(c[b / s->rank]) * gram[b + a * width];
    return lipsc_psd_norm(width, room, 12, room + width * width, square);
}

static double largest_column(const lipsc_slices *s, const double *column, const double *c) {
    double largest = 0.0;
    for (size_t j = 0; j < s->n; j++) {
        double sum = 0.0;
        for (size_t h = 0; h < s->heads; h++) sum += column[h * s->n + j] / c[h];
        largest = lipsc_max(largest, sum);
    }
    return largest;
}

/* The query term of token i, all heads. */
static double query_of(const lipsc_slices *s, size_t i, double bases) {
    double sum = 0.0, square = 0.0;
    for (size_t h = 0; h < s->heads; h++) {
        const double q = s->query[h * s->n + i];
        sum += q;
        square += q * q;
    }
    const double root = bases * sqrt(square);
    return root < sum ? root : sum;
}

/* Of all tokens but one; n: of all. */
static double largest_query(const lipsc_slices *s, size_t but, double bases) {
    double largest = 0.0;
    for (size_t i = 0; i < s->n; i++)
        if (i != but) largest = lipsc_max(largest, query_of(s, i, bases));
    return largest;
}

/* c_h = (largest column of head h)^power, at most 1 */
static void choose_weights(const lipsc_slices *s, const double *column, double power,
                           double *c) {
    double most = DBL_MIN;
    for (size_t h = 0; h < s->heads; h++) {
        c[h] = 0.0;
        for (size_t j = 0; j < s->n; j++) c[h] = lipsc_max(c[h], column[h * s->n + j]);
        most = lipsc_max(most, c[h]);
    }
    for (size_t h = 0; h < s->heads; h++)
        c[h] = lipsc_max(pow(c[h] / most, power), 1e-6); /* any weights will do */
}

lipsc_status lipsc_slices_bound(const lipsc_slices *s, const lipsc_sink *sink,
                                double sink_column, double *value) {
    static const double powers[] = {0.0, 0.25, 0.5, 0.75, 1.0};
    enum { POWERS = sizeof powers / sizeof *powers };
    const size_t width = s->heads * s->rank;
    *value = NAN;
    if (s->heads == 0) return LIPSC_OK;
    double *gram = lipsc_alloc(width, 3 * width * sizeof *gram);
    double *c = lipsc_alloc(s->heads, sizeof *c), bases = INFINITY;
    double path[2] = {INFINITY, INFINITY}, moved = INFINITY;
    lipsc_status status = gram && c ? LIPSC_OK : LIPSC_E_NOMEM;
    if (!status)
        lipsc_dense_gemm(1, 0, width, width, s->out_dim, 1.0, s->bases, s->out_dim,
                         s->bases, s->out_dim, 0.0, gram, width);
    for (size_t p = 0; !status && p < 2 * POWERS; p++) {
        const double *column = s->column[p / POWERS];
        double square;
        choose_weights(s, column, powers[p % POWERS], c);
        status = weighted_bases(s, gram, c, gram + width * width, &square);
        if (p == 0) bases = sqrt(square);
        const double found = sqrt(square) * sqrt(largest_column(s, column, c));
        double *best = &path[p / POWERS];
        if (!(found >= *best)) *best = found; /* a NaN stays */
        if (status || sink->heads == 0 || p < POWERS) continue;
        double moves;
        status = lipsc_sink_bound(sink, c, &moves);
        moves *= sqrt(square);
        if (!(moves >= moved)) moved = moves;
    }
    if (!status) {
        const double whole = path[0] + largest_query(s, s->n, bases);
        const double own =
            sink->heads ? s->unit * sink_column + moved + query_of(s, sink->sink, bases)
                        : 0.0;
        const double apart = hypot(own, path[1] + largest_query(s, sink->sink, bases));
        *value = (apart <= whole ? apart : whole) / s->unit;
    }
    lipsc_release(gram);
    lipsc_release(c);
    return status;
}
