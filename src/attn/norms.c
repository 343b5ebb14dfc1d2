/* norms.c - norms of the weights of a layer, head by head. */
#include "attn/norms.h"

#include "core/mem.h"
#include "core/vector.h"
#include "linalg/space.h"

#include <math.h>

double lipsc_safe_length(size_t n, const double *x) {
    double sum = 0.0;
#pragma omp simd reduction(+ : sum)
    for (size_t e = 0; e < n; e++) sum += x[e] * x[e];
    if (sum > 1e-200 && sum < 1e200) return sqrt(sum);
    const double largest = lipsc_largest(n, x); /* squares do not fit: relative to it */
    if (!(largest > 0.0 && largest < INFINITY)) return largest;
    sum = 0.0;
    for (size_t e = 0; e < n; e++) sum += (x[e] / largest) * (x[e] / largest);
    return largest * sqrt(sum);
}

/* out (size, size) = A A^T of A (size, d), by the kernels for this machine: OpenBLAS takes
 * its slowest on processors that it does not know, and many of these are small. */
static void multiply(size_t size, size_t d, const double *A, double *out) {
    const lipsc_buffer a = lipsc_host_view(size * d, A);
    (void)!lipsc_space_gram(lipsc_space_host(LIPSC_F64), d, size, a, size, a, out);
}

/* A (size, d).  Squares of extreme numbers do not fit into a double: there the Frobenius
 * norm has to do.  room: twice size^2. */
static lipsc_norms norms_of(double frobenius, size_t size, size_t d, const double *A,
                            double *room) {
    double *gram = room, *square = room + size * size;
    if (!(frobenius > 1e-70 && frobenius < 1e70))
        return (lipsc_norms){frobenius, frobenius};
    multiply(size, d, A, gram);
    multiply(size, size, gram, square); /* it is symmetric */
    const double schatten = 1.0001 * sqrt(sqrt(lipsc_safe_length(size * size, square)));
    return (lipsc_norms){frobenius, schatten < frobenius ? schatten : frobenius};
}

/* W (size, d), or NULL: the identity. */
static lipsc_norms weight_norms(size_t size, size_t d, const double *W, double *room) {
    if (!W) return (lipsc_norms){1.0, 1.0};
    return norms_of(lipsc_safe_length(size * d, W), size, d, W, room);
}

/* columns: room for those of a head, one after the other. */
static lipsc_norms slice_norms(const lipsc_layer *l, size_t h, double *room,
                               double *columns) {
    if (!l->O) return (lipsc_norms){1.0, 1.0};
    const size_t size = l->value_dim, rows = l->out_dim, stride = l->heads * size;
    const double *O = l->O + h * size;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < size; c++) columns[c * rows + r] = O[r * stride + c];
    return norms_of(lipsc_safe_length(size * rows, columns), size, rows, columns, room);
}

lipsc_norms lipsc_side_norms(const lipsc_layer *l, const lipsc_head_norms *norms, int keys,
                             size_t index) {
    const size_t heads = keys ? l->kv_heads : l->heads;
    const int whole = l->norm_whole && (keys ? l->k_gain : l->q_gain);
    const size_t first = whole ? 0 : index, end = whole ? heads : index + 1;
    lipsc_norms all = {0.0, 0.0};
    for (size_t i = first; i < end; i++) {
        const lipsc_head_norms *of = &norms[i * (l->heads / heads)];
        const lipsc_norms own = keys ? of->key : of->query;
        all.frobenius = hypot(all.frobenius, own.frobenius);
        all.spectral = hypot(all.spectral, own.spectral);
    }
    return all;
}

lipsc_status lipsc_layer_norms(const lipsc_layer *l, lipsc_head_norms *norms) {
    const size_t d = l->d, k = l->key_dim, dv = l->value_dim, largest = k > dv ? k : dv;
    double *room = lipsc_alloc(2 * largest, largest * sizeof *room);
    double *columns = lipsc_alloc(dv, l->out_dim * sizeof *columns);
    const lipsc_status status = room && columns ? LIPSC_OK : LIPSC_E_NOMEM;
    for (size_t h = 0; !status && h < l->heads; h++) {
        const size_t g = h * l->kv_heads / l->heads;
        const int shared = h && g == (h - 1) * l->kv_heads / l->heads;
        norms[h] = (lipsc_head_norms){
            .query = weight_norms(k, d, l->Q + h * k * d, room),
            .key = shared ? norms[h - 1].key
                          : weight_norms(k, d, l->K ? l->K + g * k * d : NULL, room),
            .value =
                shared ? norms[h - 1].value : weight_norms(dv, d, l->V + g * dv * d, room),
            .out = slice_norms(l, h, room, columns)};
    }
    lipsc_release(room);
    lipsc_release(columns);
    return status;
}
