/* paths.c - the query path of every token alone, with the same products as the whole
 * Jacobian: tokens get a second half from which keys and values are made.
 *
 * With tokens (y | x), Q' = [Q 0], K' = [0 K] and V' = [0 V], the derivative in the first
 * half is blockdiag(V C_i A): keys and values do not see it.  No kernel has to know. */
#include "core/error.h"
#include "core/mem.h"
#include "meanfield/meanfield.h"

#include <math.h>
#include <string.h>

/* to (rows, 2 d) = [from 0] or, behind, [0 from]; from NULL: the identity. */
static void widen(size_t rows, size_t d, const double *from, int behind, double *to) {
    memset(to, 0, rows * 2 * d * sizeof *to);
    for (size_t r = 0; r < rows; r++) {
        double *row = to + r * 2 * d + (behind ? d : 0);
        if (from)
            memcpy(row, from + r * d, d * sizeof *to);
        else
            row[r] = 1.0;
    }
}

lipsc_status lipsc_paths_new(const lipsc_layer *resolved, lipsc_packed **out,
                             lipsc_error *err) {
    const lipsc_layer *r = resolved;
    const size_t queries = r->heads * r->key_dim, keys = r->kv_heads * r->key_dim;
    const size_t values = r->kv_heads * r->value_dim;
    size_t row, all;
    if (!lipsc_mul_size(2 * sizeof(double), r->d, &row) ||
        !lipsc_mul_size(queries + keys + values, row, &all))
        return lipsc_fail(err, LIPSC_E_RANGE, "the layer is too large");
    double *storage = lipsc_alloc(all, 1);
    if (!storage) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a layer");
    double *Q = storage, *K = Q + queries * 2 * r->d, *V = K + keys * 2 * r->d;
    widen(queries, r->d, r->Q, 0, Q);
    widen(keys, r->d, r->K, 1, K);
    widen(values, r->d, r->V, 1, V);

    lipsc_layer wide = *r; /* scale is resolved already */
    wide.d = 2 * r->d;
    wide.Q = Q;
    wide.K = K;
    wide.V = V;
    const lipsc_status status = lipsc_packed_new(&wide, 1, out, err);
    lipsc_release(storage);
    return status;
}

lipsc_status lipsc_paths_at(lipsc_packed *paths, lipsc_mask mask, const lipsc_input *atoms,
                            const double *queries, const lipsc_device *device,
                            lipsc_attn **out, lipsc_error *err) {
    const size_t d = lipsc_packed_layer(paths)->d / 2;
    lipsc_input input = *atoms;
    double *X = lipsc_alloc(atoms->n, 2 * d * sizeof *X);
    if (!X) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu atoms", atoms->n);
    for (size_t i = 0; i < atoms->n; i++) {
        const double *x = atoms->X + i * d;
        memcpy(X + i * 2 * d, queries ? queries + i * d : x, d * sizeof *X);
        memcpy(X + i * 2 * d + d, x, d * sizeof *X);
    }
    input.X = X;
    const lipsc_status status =
        lipsc_attn_at(paths, &mask, &input, LIPSC_F64, device, out, err);
    lipsc_release(X);
    return status;
}

lipsc_status lipsc_paths_apply(lipsc_attn *attn, int trans, const double *x, double *room,
                               double *y) {
    const size_t n = attn->input.n, d = attn->layer.d / 2;
    if (trans) {
        const lipsc_status status = lipsc_attn_apply(attn, 1, 1, x, room);
        for (size_t i = 0; !status && i < n; i++)
            memcpy(y + i * d, room + i * 2 * d, d * sizeof *y);
        return status;
    }
    memset(room, 0, n * 2 * d * sizeof *room);
    for (size_t i = 0; i < n; i++) memcpy(room + i * 2 * d, x + i * d, d * sizeof *room);
    return lipsc_attn_apply(attn, 0, 1, room, y);
}

lipsc_status lipsc_acting_new(const lipsc_layer *resolved, lipsc_acting *out,
                              lipsc_error *err) {
    *out = (lipsc_acting){NULL, NULL};
    const lipsc_status status = lipsc_packed_new(resolved, 0, &out->whole, err);
    return status ? status : lipsc_paths_new(resolved, &out->paths, err);
}

void lipsc_acting_free(lipsc_acting *acting) {
    lipsc_packed_free(acting->whole);
    lipsc_packed_free(acting->paths);
}
