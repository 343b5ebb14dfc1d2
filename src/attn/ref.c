/* ref.c - the definition of attention and of its Jacobian, in plain double loops.
 *
 * Never optimised and sharing no code with any back end: this is what every fast path
 * is compared with, and what a reader should read first.  Three stages per head:
 *
 *   project   q_i = scale Rot_i Norm_q(Q x_i + bq)    k_j = Rot_j Norm_k(K x_j + bk)
 *             z_j = V x_j + bv
 *   core      P_i = softmax over the visible j of (q_i.k_j + log a_j)
 *             o_i = sum_j P_ij z_j
 *   output    f_i = sum over the heads of O_h o_i, + bo
 *
 * With weights a, D = diag(a): the operator is D^{1/2} J D^{-1/2}.
 * O(n^2) time, O(n d) memory: rows of P are made again whenever they are needed. */
#include "attn/attn.h"
#include "core/error.h"
#include "core/mem.h"

#include <math.h>
#include <string.h>

/* One head at one input.  Arrays have one row per token. */
typedef struct {
    const lipsc_layer *layer;
    const lipsc_input *input;
    const double *Q, *K, *V, *bq, *bk, *bv; /* rows of this head; K NULL: identity    */
    const double *O;                        /* first column of this head, or NULL     */
    size_t first;                           /* first output component, without O      */
    double *raw_q, *raw_k;                  /* (n, key_dim) before norm and rotation  */
    double *q, *k, *z;                      /* (n, key_dim) twice, (n, value_dim)     */
    double *dq, *dk, *dz;                   /* directions or gradients of these       */
    double *p, *ds;                         /* (n) a row of P and of dS               */
    double *token, *value;                  /* (d) and (value_dim)                    */
} head;

static double dot(size_t n, const double *a, const double *b) {
    double sum = 0.0;
    for (size_t l = 0; l < n; l++) sum += a[l] * b[l];
    return sum;
}

/* y = W x + b, W (rows, cols); W NULL: the identity; b NULL: none */
static void affine(size_t rows, size_t cols, const double *W, const double *b,
                   const double *x, double *y) {
    for (size_t r = 0; r < rows; r++) {
        y[r] = W ? dot(cols, W + r * cols, x) : x[r];
        if (b) y[r] += b[r];
    }
}

/* x += W^T y */
static void add_transposed(size_t rows, size_t cols, const double *W, const double *y,
                           double *x) {
    for (size_t r = 0; r < rows; r++) {
        if (!W) x[r] += y[r];
        for (size_t c = 0; W && c < cols; c++) x[c] += W[r * cols + c] * y[r];
    }
}

/* ---- Norm and rotation of one query or key ---------------------------------- */

/* Norm(x) = g o sqrt(k) x / r,  r = sqrt(|x|^2 + k eps) */
static double norm_radius(size_t k, double eps, const double *x) {
    return sqrt(dot(k, x, x) + (double)k * eps);
}

/* y := g o sqrt(k) y / r, for y = x itself */
static void norm(size_t k, const double *gain, double eps, double *y) {
    const double factor = sqrt((double)k) / norm_radius(k, eps, y);
    for (size_t l = 0; l < k; l++) y[l] *= factor * gain[l];
}

/* h := (sqrt(k)/r) g o (h - u (u.h)),  u = x/r */
static void norm_jvp(size_t k, const double *gain, double eps, const double *x, double *h) {
    const double r = norm_radius(k, eps, x), along = dot(k, x, h) / (r * r);
    for (size_t l = 0; l < k; l++)
        h[l] = sqrt((double)k) / r * gain[l] * (h[l] - x[l] * along);
}

/* w := (sqrt(k)/r) (t - u (u.t)),  t = g o w */
static void norm_vjp(size_t k, const double *gain, double eps, const double *x, double *w) {
    const double r = norm_radius(k, eps, x);
    for (size_t l = 0; l < k; l++) w[l] *= gain[l];
    const double along = dot(k, x, w) / (r * r);
    for (size_t l = 0; l < k; l++) w[l] = sqrt((double)k) / r * (w[l] - x[l] * along);
}

/* Turns the pairs (l, l + rotary_dim/2) by direction * position * freq[l].  The
 * transposed rotation is the one by the opposite angle: direction -1. */
static void rotate(const head *h, size_t token, double direction, double *y) {
    const size_t half = h->layer->rotary_dim / 2;
    const double position =
        h->input->positions ? h->input->positions[token] : (double)token;
    for (size_t l = 0; l < half; l++) {
        const double angle = position * h->layer->rotary_freq[l];
        const double c = cos(angle), s = direction * sin(angle);
        const double a = y[l], b = y[l + half];
        y[l] = a * c - b * s;
        y[l + half] = b * c + a * s;
    }
}

/* ---- Project ----------------------------------------------------------------- */

static void project(const head *h) {
    const lipsc_layer *layer = h->layer;
    const size_t d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    for (size_t i = 0; i < h->input->n; i++) {
        const double *x = h->input->X + i * d;
        double *q = h->q + i * k, *key = h->k + i * k;
        affine(k, d, h->Q, h->bq, x, q);
        affine(k, d, h->K, h->bk, x, key);
        affine(dv, d, h->V, h->bv, x, h->z + i * dv);
        memcpy(h->raw_q + i * k, q, k * sizeof *q);
        memcpy(h->raw_k + i * k, key, k * sizeof *key);
        if (layer->q_gain) norm(k, layer->q_gain, layer->norm_eps, q);
        if (layer->k_gain) norm(k, layer->k_gain, layer->norm_eps, key);
        rotate(h, i, 1.0, q);
        rotate(h, i, 1.0, key);
        for (size_t l = 0; l < k; l++) q[l] *= layer->scale;
    }
}

/* Direction x of the tokens -> dq, dk, dz. */
static void project_jvp(const head *h, const double *x) {
    const lipsc_layer *layer = h->layer;
    const size_t d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    for (size_t i = 0; i < h->input->n; i++) {
        double *dq = h->dq + i * k, *dk = h->dk + i * k;
        const double root = h->input->weights ? sqrt(h->input->weights[i]) : 1.0;
        for (size_t c = 0; c < d; c++) h->token[c] = x[i * d + c] / root;
        affine(k, d, h->Q, NULL, h->token, dq);
        affine(k, d, h->K, NULL, h->token, dk);
        affine(dv, d, h->V, NULL, h->token, h->dz + i * dv);
        if (layer->q_gain)
            norm_jvp(k, layer->q_gain, layer->norm_eps, h->raw_q + i * k, dq);
        if (layer->k_gain)
            norm_jvp(k, layer->k_gain, layer->norm_eps, h->raw_k + i * k, dk);
        rotate(h, i, 1.0, dq);
        rotate(h, i, 1.0, dk);
        for (size_t l = 0; l < k; l++) dq[l] *= layer->scale;
    }
}

/* Gradients dq, dk, dz -> added to the gradient x of the tokens. */
static void project_vjp(const head *h, double *x) {
    const lipsc_layer *layer = h->layer;
    const size_t d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    for (size_t i = 0; i < h->input->n; i++) {
        double *dq = h->dq + i * k, *dk = h->dk + i * k;
        for (size_t l = 0; l < k; l++) dq[l] *= layer->scale;
        rotate(h, i, -1.0, dq);
        rotate(h, i, -1.0, dk);
        if (layer->q_gain)
            norm_vjp(k, layer->q_gain, layer->norm_eps, h->raw_q + i * k, dq);
        if (layer->k_gain)
            norm_vjp(k, layer->k_gain, layer->norm_eps, h->raw_k + i * k, dk);
        memset(h->token, 0, d * sizeof *h->token);
        add_transposed(k, d, h->Q, dq, h->token);
        add_transposed(k, d, h->K, dk, h->token);
        add_transposed(dv, d, h->V, h->dz + i * dv, h->token);
        const double root = h->input->weights ? sqrt(h->input->weights[i]) : 1.0;
        for (size_t c = 0; c < d; c++) x[i * d + c] += h->token[c] / root;
    }
}

/* ---- Core --------------------------------------------------------------------- */

static int visible(const lipsc_layer *layer, const lipsc_input *input, size_t i, size_t j) {
    switch (layer->mask) {
    case LIPSC_MASK_NONE:
        return 1;
    case LIPSC_MASK_CAUSAL:
        return j <= i;
    case LIPSC_MASK_SLIDING:
        return j <= i && i - j < layer->window;
    case LIPSC_MASK_TIMES:
        return input->times[j] <= input->times[i];
    }
    return 0;
}

/* p = P_i; returns the place of its largest entry.  An entry that is hidden, or too
 * small for a double, is zero. */
static size_t core_row(const head *h, size_t i) {
    const size_t n = h->input->n, k = h->layer->key_dim;
    size_t top = i; /* a token always sees itself */
    for (size_t j = 0; j < n; j++) {
        if (!visible(h->layer, h->input, i, j)) {
            h->p[j] = -INFINITY;
            continue;
        }
        h->p[j] = dot(k, h->q + i * k, h->k + j * k);
        if (h->input->weights) h->p[j] += log(h->input->weights[j]);
    }
    for (size_t j = 0; j < n; j++)
        if (h->p[j] > h->p[top]) top = j;
    const double largest = h->p[top];
    double sum = 0.0;
    for (size_t j = 0; j < n; j++) sum += h->p[j] = exp(h->p[j] - largest);
    for (size_t j = 0; j < n; j++) h->p[j] /= sum;
    return top;
}

/* value = o_i = sum_j P_ij z_j */
static void core_output(const head *h, size_t i) {
    const size_t dv = h->layer->value_dim;
    core_row(h, i);
    memset(h->value, 0, dv * sizeof *h->value);
    for (size_t j = 0; j < h->input->n; j++)
        for (size_t c = 0; c < dv; c++) h->value[c] += h->p[j] * h->z[j * dv + c];
}

/* value = do_i = sum_j dP_ij z_j + P_ij dz_j,  dP_ij = P_ij (ds_ij - sum_l P_il ds_il),
 *         ds_ij = dq_i.k_j + q_i.dk_j.
 * In a nearly one-hot row ds_i,top - sum_l P_il ds_il cancels completely.  dP does not
 * see a constant added to ds_i, so ds_i,top is taken off first: the sum that remains is
 * small and keeps its digits. */
static void core_jvp(const head *h, size_t i) {
    const size_t n = h->input->n, k = h->layer->key_dim, dv = h->layer->value_dim;
    const size_t top = core_row(h, i);
    for (size_t j = 0; j < n; j++)
        h->ds[j] =
            dot(k, h->dq + i * k, h->k + j * k) + dot(k, h->q + i * k, h->dk + j * k);
    const double shift = h->ds[top];
    double mean = 0.0;
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
 *     dz_j += P_ij g,   ds_ij = P_ij (g.z_j - sum_l P_il g.z_l),
 *     dq_i  = sum_j ds_ij k_j,   dk_j += ds_ij q_i.
 * As above, g.z at the largest entry is taken off first. */
static void core_vjp(const head *h, size_t i) {
    const size_t n = h->input->n, k = h->layer->key_dim, dv = h->layer->value_dim;
    const size_t top = core_row(h, i);
    const double shift = dot(dv, h->value, h->z + top * dv);
    double mean = 0.0;
    for (size_t j = 0; j < n; j++) {
        h->ds[j] = dot(dv, h->value, h->z + j * dv) - shift;
        mean += h->p[j] * h->ds[j];
    }
    const double *q = h->q + i * k;
    double *dq = h->dq + i * k;
    for (size_t j = 0; j < n; j++) {
        const double ds = h->p[j] * (h->ds[j] - mean);
        const double *key = h->k + j * k;
        for (size_t c = 0; c < dv; c++) h->dz[j * dv + c] += h->p[j] * h->value[c];
        for (size_t l = 0; l < k; l++) {
            dq[l] += ds * key[l];
            h->dk[j * k + l] += ds * q[l];
        }
    }
}

/* ---- Output -------------------------------------------------------------------- */

/* y += factor O_h value; without O the head has its own components */
static void output_add(const head *h, double factor, double *y) {
    const lipsc_layer *layer = h->layer;
    const size_t dv = layer->value_dim, stride = layer->heads * dv;
    if (!h->O)
        for (size_t c = 0; c < dv; c++) y[h->first + c] += factor * h->value[c];
    else
        for (size_t r = 0; r < layer->out_dim; r++)
            y[r] += factor * dot(dv, h->O + r * stride, h->value);
}

/* value = factor O_h^T y */
static void output_vjp(const head *h, double factor, const double *y) {
    const lipsc_layer *layer = h->layer;
    const size_t dv = layer->value_dim, stride = layer->heads * dv;
    for (size_t c = 0; c < dv; c++) {
        h->value[c] = h->O ? 0.0 : factor * y[h->first + c];
        for (size_t r = 0; h->O && r < layer->out_dim; r++)
            h->value[c] += factor * h->O[r * stride + c] * y[r];
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

/* Points h at the weights of query head `index` and projects the input. */
static void head_enter(head *h, size_t index) {
    const lipsc_layer *layer = h->layer;
    const size_t d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    const size_t g = index * layer->kv_heads / layer->heads;
    h->Q = layer->Q + index * k * d;
    h->K = layer->K ? layer->K + g * k * d : NULL;
    h->V = layer->V + g * dv * d;
    h->O = layer->O ? layer->O + index * dv : NULL;
    h->bq = layer->bq ? layer->bq + index * k : NULL;
    h->bk = layer->bk ? layer->bk + g * k : NULL;
    h->bv = layer->bv ? layer->bv + g * dv : NULL;
    h->first = index * dv;
    project(h);
}

static lipsc_status head_alloc(head *h, const lipsc_layer *layer,
                               const lipsc_input *input) {
    const size_t n = input->n, k = layer->key_dim, dv = layer->value_dim;
    double **const arrays[] = {&h->raw_q, &h->raw_k, &h->q, &h->k,  &h->dq,    &h->dk,
                               &h->z,     &h->dz,    &h->p, &h->ds, &h->value, &h->token};
    const size_t counts[] = {n * k,  n * k,  n * k, n * k, n * k, n * k,
                             n * dv, n * dv, n,     n,     dv,    layer->d};
    int short_of_memory = 0;
    for (size_t a = 0; a < sizeof counts / sizeof counts[0]; a++) {
        *arrays[a] = lipsc_alloc(counts[a], sizeof(double));
        short_of_memory |= !*arrays[a];
    }
    h->layer = layer;
    h->input = input;
    return short_of_memory ? LIPSC_E_NOMEM : LIPSC_OK;
}

static void head_release(head *h) {
    double *const arrays[] = {h->raw_q, h->raw_k, h->q, h->k,  h->dq,    h->dk,
                              h->z,     h->dz,    h->p, h->ds, h->value, h->token};
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) lipsc_release(arrays[a]);
}

static lipsc_status finite_or_fail(size_t count, const double *y, lipsc_error *err) {
    for (size_t e = 0; e < count; e++)
        if (!isfinite(y[e]))
            return lipsc_fail(
                err, LIPSC_E_NONFIN,
                "attention at this input: a score or a product is not finite");
    return LIPSC_OK;
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

lipsc_status lipsc_ref_apply(const lipsc_layer *layer, const lipsc_input *input, int trans,
                             size_t k, const double *x, double *y, lipsc_error *err) {
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
