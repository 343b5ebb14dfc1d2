/* ref.c - the definition of attention and of its Jacobian, in plain double loops.
 *
 * Never optimised and sharing no code with any back end: this is what every fast path
 * is compared with, and what a reader should read first.  Three stages per head:
 *
 *   project   q_i = scale Rot_i Norm_q(Q x_i + bq)    k_j = Rot_j Norm_k(K x_j + bk)
 *             z_j = V x_j + bv
 *   core      P_i = softmax over the visible j of (cap(q_i.k_j) + bias_ij + log a_j)
 *             o_i = sum_j P_ij z_j
 *   output    f_i = sum over the heads of O_h o_i, + bo
 *
 * With weights a, D = diag(a): the operator is D^{1/2} J D^{-1/2}.
 * O(n^2) time, O(n d) memory: rows of P are made again whenever they are needed. */
#include "attn/ref_head.h"

/* ---- Core --------------------------------------------------------------------- */

/* value = o_i = sum_j P_ij z_j */
static void core_output(const head *h, size_t i) {
    const size_t dv = h->layer->value_dim;
    core_row(h, i);
    memset(h->value, 0, dv * sizeof *h->value);
    for (size_t j = 0; j < h->input->n; j++)
        for (size_t c = 0; c < dv; c++) h->value[c] += h->p[j] * h->z[j * dv + c];
}

/* value = do_i = sum_j dP_ij z_j + P_ij dz_j,  dP_ij = P_ij (ds_ij - sum_l P_il ds_il),
 *         ds_ij = cap'(q_i.k_j) (dq_i.k_j + q_i.dk_j).
 * In a nearly one-hot row ds_i,top - sum_l P_il ds_il cancels completely.  dP does not
 * see a constant added to ds_i, so ds_i,top is taken off first: the sum that remains is
 * small and keeps its digits.  Where a sink has a part of the row, the constant c leaves c
 * times that part. */
static void core_jvp(const head *h, size_t i) {
    const size_t n = h->input->n, k = h->layer->key_dim, dv = h->layer->value_dim;
    const size_t top = core_row(h, i);
    for (size_t j = 0; j < n; j++)
        h->ds[j] = h->slope[j] * (dot(k, h->dq + i * k, h->k + j * k) +
                                  dot(k, h->q + i * k, h->dk + j * k));
    const double shift = h->ds[top];
    double mean = -shift * *h->sink;
    for (size_t j = 0; j < n; j++) {
        h->ds[j] -= shift;
        mean += h->p[j] * h->ds[j];
    }
    memset(h->value, 0, dv * sizeof *h->value);
    for (size_t j = 0; j < n; j++) {
        const double dp = h->p[j] * (h->ds[j] - mean);
        const double *z = h->z + j * dv, *dz = h->dz + j * dv;
        for (size_t c = 0; c < dv; c++) h->value[c] += dp * z[c] + h->p[j] * dz[c];
    }
}

/* From g = value, the gradient of o_i:
 *     dz_j += P_ij g,   ds_ij = P_ij cap'(q_i.k_j) (g.z_j - sum_l P_il g.z_l),
 *     dq_i  = sum_j ds_ij k_j,   dk_j += ds_ij q_i.
 * As above, g.z at the largest entry is taken off first. */
static void core_vjp(const head *h, size_t i) {
    const size_t n = h->input->n, k = h->layer->key_dim, dv = h->layer->value_dim;
    const size_t top = core_row(h, i);
    const double shift = dot(dv, h->value, h->z + top * dv);
    double mean = -shift * *h->sink;
    for (size_t j = 0; j < n; j++) {
        h->ds[j] = dot(dv, h->value, h->z + j * dv) - shift;
        mean += h->p[j] * h->ds[j];
    }
    const double *q = h->q + i * k;
    double *dq = h->dq + i * k;
    for (size_t j = 0; j < n; j++) {
        const double ds = h->slope[j] * h->p[j] * (h->ds[j] - mean);
        const double *key = h->k + j * k;
        for (size_t c = 0; c < dv; c++) h->dz[j * dv + c] += h->p[j] * h->value[c];
        for (size_t l = 0; l < k; l++) {
            dq[l] += ds * key[l];
            h->dk[j * k + l] += ds * q[l];
        }
    }
}

/* ---- Whole heads ----------------------------------------------------------------- */

static void head_output(const head *h, double *y) {
    const size_t width = lipsc_layer_width(h->layer);
    for (size_t i = 0; i < h->input->n; i++) {
        core_output(h, i);
        output_add(h, 1.0, y + i * width);
    }
}

static void head_jvp(const head *h, const double *x, double *y) {
    const size_t width = lipsc_layer_width(h->layer);
    project_jvp(h, x);
    for (size_t i = 0; i < h->input->n; i++) {
        core_jvp(h, i);
        output_add(h, h->input->weights ? sqrt(h->input->weights[i]) : 1.0, y + i * width);
    }
}

static void head_vjp(const head *h, const double *x, double *y) {
    const size_t n = h->input->n, width = lipsc_layer_width(h->layer);
    memset(h->dq, 0, n * h->layer->key_dim * sizeof *h->dq);
    memset(h->dk, 0, n * h->layer->key_dim * sizeof *h->dk);
    memset(h->dz, 0, n * h->layer->value_dim * sizeof *h->dz);
    for (size_t i = 0; i < n; i++) {
        output_vjp(h, h->input->weights ? sqrt(h->input->weights[i]) : 1.0, x + i * width);
        core_vjp(h, i);
    }
    project_vjp(h, y);
}

/* ---- Public ------------------------------------------------------------------------ */

lipsc_status lipsc_ref_output(const lipsc_layer *layer, const lipsc_input *input, double *y,
                              lipsc_error *err) {
    lipsc_layer resolved;
    lipsc_status status = lipsc_layer_check(layer, &resolved, err);
    if (!status) status = lipsc_input_check(&resolved, input, err);
    if (status) return status;
    if (!y) return lipsc_fail(err, LIPSC_E_ARG, "y is NULL");

    head h;
    const size_t width = lipsc_layer_width(&resolved);
    if (head_alloc(&h, &resolved, input) == LIPSC_OK) {
        for (size_t i = 0; i < input->n; i++)
            for (size_t r = 0; r < width; r++)
                y[i * width + r] = resolved.bo ? resolved.bo[r] : 0.0;
        for (size_t index = 0; index < resolved.heads; index++) {
            head_enter(&h, index);
            head_output(&h, y);
        }
        status = finite_or_fail(input->n * width, y, err);
    } else {
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", input->n);
    }
    head_release(&h);
    return status;
}

static lipsc_status apply(const lipsc_layer *layer, const lipsc_input *input, int twice,
                          int trans, size_t k, const double *x, double *y,
                          lipsc_error *err) {
    lipsc_layer resolved;
    lipsc_status status = lipsc_layer_check(layer, &resolved, err);
    if (!status) status = lipsc_input_check(&resolved, input, err);
    if (status) return status;
    if (trans != 0 && trans != 1)
        return lipsc_fail(err, LIPSC_E_ARG, "trans = %d is neither 0 nor 1", trans);
    if (k && (!x || !y)) return lipsc_fail(err, LIPSC_E_ARG, "x or y is NULL");

    const size_t in = input->n * resolved.d, out = input->n * lipsc_layer_width(&resolved);
    const size_t from = trans ? out : in, to = trans ? in : out;
    head h;
    if (head_alloc(&h, &resolved, input) == LIPSC_OK) {
        h.twice = twice;
        memset(y, 0, k * to * sizeof *y);
        for (size_t index = 0; index < resolved.heads; index++) {
            head_enter(&h, index);
            for (size_t v = 0; v < k; v++)
                (trans ? head_vjp : head_jvp)(&h, x + v * from, y + v * to);
        }
        status = finite_or_fail(k * to, y, err);
    } else {
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", input->n);
    }
    head_release(&h);
    return status;
}

lipsc_status lipsc_ref_apply(const lipsc_layer *layer, const lipsc_input *input, int trans,
                             size_t k, const double *x, double *y, lipsc_error *err) {
    return apply(layer, input, 0, trans, k, x, y, err);
}

lipsc_status lipsc_ref_apply_twice(const lipsc_layer *layer, const lipsc_input *input,
                                   int trans, size_t k, const double *x, double *y,
                                   lipsc_error *err) {
    return apply(layer, input, 1, trans, k, x, y, err);
}
