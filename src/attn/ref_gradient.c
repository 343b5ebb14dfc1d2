/* ref_gradient.c - the definition of the gradient of <u, J(X) v> in X and in the logarithms
 * of the weights, u and v held fixed, in plain double loops.
 *
 * Never optimised and sharing no code with any back end; ref.c has the notation.  Per head,
 * with the directions dq, dk, dz of q, k, z that v makes, and g_i = O_h^T u_i:
 *
 *   <u, J v> = sum_ij P_ij ((dS_ij - r_i) B_ij + B'_ij)
 *              dS_ij = dq_i.k_j + q_i.dk_j,  B_ij = g_i.z_j,  B'_ij = g_i.dz_j,
 *              r_i = sum_j P_ij dS_ij,       b_i = sum_j P_ij B_ij
 *   in dS_ij        E_ij = P_ij (B_ij - b_i)
 *   in the score    F_ij = P_ij (D_ij - sum_l P_il D_il),
 *                   D_ij = (B_ij - b_i) (dS_ij - r_i) + B'_ij
 *   in q_i          sum_j E_ij dk_j + F_ij k_j      in dq_i   sum_j E_ij k_j
 *   in k_j          sum_i E_ij dq_i + F_ij q_i      in dk_j   sum_i E_ij q_i
 *   in z_j          sum_i P_ij (dS_ij - r_i) g_i
 *
 * With a sink of mass t_i the row of P sums to 1 - t_i, and sum_l P_il D_il becomes
 * sum_l P_il D_il + t_i r_i b_i.  With capped scores dS_ij = c'_ij du_ij, du_ij = dq_i.k_j
 * + q_i.dk_j, so that E_ij becomes c'_ij E_ij, and F_ij, the gradient in q_i.k_j, becomes
 * c'_ij F_ij + c''_ij du_ij E_ij.
 *
 * dq and dk depend on the input only through the norms of queries and keys.  A constant
 * added to a row of dS, of B or of B' changes nothing, so the value at the row's largest
 * entry is taken off each first: nearly one-hot rows keep their digits. */
#include "attn/ref_head.h"

/* Gradients at one head and pair, and rows of it. */
typedef struct {
    double *q, *k, *z; /* in q, k (n, key_dim) and z (n, value_dim)                */
    double *dq, *dk;   /* in dq, dk (n, key_dim)                                   */
    double *score;     /* (n) in the scores of key j, all rows together            */
    double *B, *slope; /* (n) a row of B and of B'                                 */
    double *du;        /* (n) a row of dS before the cap                           */
    double *direction; /* (width) a direction of a query or key, before its norm   */
    double *t;         /* (width) the gradient of what the norm makes of it        */
} gradient;

static lipsc_status gradient_alloc(gradient *g, const lipsc_layer *layer, size_t n) {
    const size_t k = layer->key_dim, wide = layer->heads * k;
    double **const arrays[] = {&g->q, &g->k,     &g->z,         &g->dq, &g->dk, &g->score,
                               &g->B, &g->slope, &g->direction, &g->t,  &g->du};
    const size_t counts[] = {
        n * k, n * k, n * layer->value_dim, n * k, n * k, n, n, n, wide, wide, n};
    int short_of_memory = 0;
    for (size_t a = 0; a < sizeof counts / sizeof counts[0]; a++) {
        *arrays[a] = lipsc_alloc(counts[a], sizeof(double));
        short_of_memory |= !*arrays[a];
    }
    return short_of_memory ? LIPSC_E_NOMEM : LIPSC_OK;
}

static void gradient_release(gradient *g) {
    double *const arrays[] = {g->q, g->k,     g->z,         g->dq, g->dk, g->score,
                              g->B, g->slope, g->direction, g->t,  g->du};
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) lipsc_release(arrays[a]);
}

/* Adds what row i says; value = g_i. */
static void core_gradient(const head *h, const gradient *g, size_t i) {
    const size_t n = h->input->n, k = h->layer->key_dim, dv = h->layer->value_dim;
    const size_t top = core_row(h, i);
    const double *q = h->q + i * k, *dq = h->dq + i * k;
    for (size_t j = 0; j < n; j++) {
        g->du[j] = dot(k, dq, h->k + j * k) + dot(k, q, h->dk + j * k);
        h->ds[j] = h->slope[j] * g->du[j];
        g->B[j] = dot(dv, h->value, h->z + j * dv);
        g->slope[j] = dot(dv, h->value, h->dz + j * dv);
    }
    const double ds_top = h->ds[top], B_top = g->B[top], slope_top = g->slope[top];
    double r = -ds_top * *h->sink, b = -B_top * *h->sink;
    for (size_t j = 0; j < n; j++) {
        r += h->p[j] * (h->ds[j] -= ds_top);
        b += h->p[j] * (g->B[j] -= B_top);
        g->slope[j] -= slope_top;
    }
    /* sum_l P_il D_il, from what the shifts leave of it where a sink has mass */
    double mean = *h->sink * ((r + ds_top) * (b + B_top) - slope_top);
    for (size_t j = 0; j < n; j++)
        mean += h->p[j] * ((g->B[j] - b) * (h->ds[j] - r) + g->slope[j]);

    for (size_t j = 0; j < n; j++) {
        const double E = h->p[j] * (g->B[j] - b), dP = h->p[j] * (h->ds[j] - r);
        const double F = h->p[j] * ((g->B[j] - b) * (h->ds[j] - r) + g->slope[j] - mean);
        const double *key = h->k + j * k, *dk = h->dk + j * k;
        const double most = h->layer->soft_cap;
        const double bend = most > 0.0 ? -2.0 * h->cap[j] * h->slope[j] / most : 0.0;
        const double Eu = h->slope[j] * E, Fu = h->slope[j] * F + bend * g->du[j] * E;
        for (size_t l = 0; l < k; l++) {
            g->q[i * k + l] += Eu * dk[l] + Fu * key[l];
            g->k[j * k + l] += Eu * dq[l] + Fu * q[l];
            g->dq[i * k + l] += Eu * key[l];
            g->dk[j * k + l] += Eu * q[l];
        }
        for (size_t c = 0; c < dv; c++) g->z[j * dv + c] += dP * h->value[c];
        g->score[j] += F;
    }
}

/* The gradient w of a query or key y = Norm(x) and the gradient t of its direction
 * Norm'(x) e, both turned back -> w := the gradient of x:
 *     Norm'(x)^T w - sqrt(k)/r^3 ((t.e) x + (x.e) t + (x.t) e - 3 (x.t)(x.e)/r^2 x)
 * where t already has the gains, and r = sqrt(|x|^2 + k eps). */
static void norm_gradient(size_t k, const double *gain, double eps, const double *x,
                          const double *e, double *t, double *w) {
    norm_vjp(k, gain, eps, x, w);
    for (size_t l = 0; l < k; l++) t[l] *= gain[l];
    const double r = norm_radius(k, eps, x);
    const double xe = dot(k, x, e), xt = dot(k, x, t), te = dot(k, t, e);
    for (size_t l = 0; l < k; l++)
        w[l] -= sqrt((double)k) / (r * r * r) *
                (te * x[l] + xe * t[l] + xt * e[l] - 3.0 * xt * xe / (r * r) * x[l]);
}

/* Gradients w of a query or key of token i and t of its direction, scaled and turned back
 * -> added to the gradient of the token; h->token is the token's direction. */
static void side_gradient(const head *h, const side *s, const gradient *g, size_t i,
                          const double *w, const double *t, double *grad) {
    const size_t d = h->layer->d, k = h->layer->key_dim;
    if (!s->gain) {
        add_transposed(s->width, d, s->W, w, grad);
        return;
    }
    memset(h->wide, 0, s->width * sizeof *h->wide);
    memset(g->t, 0, s->width * sizeof *g->t);
    memcpy(h->wide + s->first, w, k * sizeof *w);
    memcpy(g->t + s->first, t, k * sizeof *t);
    affine(s->width, d, s->W, NULL, h->token, g->direction);
    norm_gradient(s->width, s->gain, h->layer->norm_eps, s->raw + i * s->width,
                  g->direction, g->t, h->wide);
    add_transposed(s->width, d, s->W, h->wide, grad);
}

/* Gradients of q, k, z and of dq, dk -> added to the gradient of the tokens. */
static void project_gradient(const head *h, const gradient *g, const double *v,
                             double *grad) {
    const lipsc_layer *layer = h->layer;
    const size_t d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    for (size_t i = 0; i < h->input->n; i++) {
        const double root = h->input->weights ? sqrt(h->input->weights[i]) : 1.0;
        for (size_t c = 0; c < d; c++) h->token[c] = v[i * d + c] / root;
        for (int key = 0; key < 2; key++) {
            double *w = (key ? g->k : g->q) + i * k, *t = (key ? g->dk : g->dq) + i * k;
            for (size_t l = 0; !key && l < k; l++) {
                w[l] *= layer->scale;
                t[l] *= layer->scale;
            }
            rotate(h, i, -1.0, w);
            rotate(h, i, -1.0, t);
            side_gradient(h, key ? &h->key : &h->query, g, i, w, t, grad + i * d);
        }
        add_transposed(dv, d, h->V, g->z + i * dv, grad + i * d);
    }
}

static void head_gradient(const head *h, const gradient *g, const double *u,
                          const double *v, double *grad, double *grad_score) {
    const size_t n = h->input->n, k = h->layer->key_dim;
    const size_t width = lipsc_layer_width(h->layer);
    double *const per_key[] = {g->q, g->k, g->dq, g->dk};
    for (size_t a = 0; a < 4; a++) memset(per_key[a], 0, n * k * sizeof(double));
    memset(g->z, 0, n * h->layer->value_dim * sizeof *g->z);
    memset(g->score, 0, n * sizeof *g->score);
    project_jvp(h, v);
    for (size_t i = 0; i < n; i++) {
        output_vjp(h, h->input->weights ? sqrt(h->input->weights[i]) : 1.0, u + i * width);
        core_gradient(h, g, i);
    }
    project_gradient(h, g, v, grad);
    for (size_t j = 0; grad_score && j < n; j++) grad_score[j] += g->score[j];
}

/* K = D^{1/2} J D^{-1/2} sees a_i three times: as the mass of key i, in row i of D^{1/2}
 * and in row i of D^{-1/2}.  Adds the last two, (u_i.(K v)_i - v_i.(K^T u)_i) / 2. */
static lipsc_status add_outer_weights(const lipsc_layer *layer, const lipsc_input *input,
                                      const double *u, const double *v, double *grad_weight,
                                      lipsc_error *err) {
    const size_t n = input->n, d = layer->d, width = lipsc_layer_width(layer);
    double *Kv = lipsc_alloc(n * width, sizeof *Kv), *Ktu = lipsc_alloc(n * d, sizeof *Ktu);
    lipsc_status status =
        Kv && Ktu ? LIPSC_OK
                  : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", n);
    if (!status) status = lipsc_ref_apply(layer, input, 0, 1, v, Kv, err);
    if (!status) status = lipsc_ref_apply(layer, input, 1, 1, u, Ktu, err);
    for (size_t i = 0; !status && i < n; i++)
        grad_weight[i] += 0.5 * dot(width, u + i * width, Kv + i * width) -
                          0.5 * dot(d, v + i * d, Ktu + i * d);
    lipsc_release(Kv);
    lipsc_release(Ktu);
    return status;
}

lipsc_status lipsc_ref_gradient(const lipsc_layer *layer, const lipsc_input *input,
                                size_t k, const double *u, const double *v, double *grad,
                                double *grad_log_weight, lipsc_error *err) {
    lipsc_layer resolved;
    lipsc_status status = lipsc_layer_check(layer, &resolved, err);
    if (!status) status = lipsc_input_check(&resolved, input, err);
    if (status) return status;
    if (k && (!u || !v || !grad))
        return lipsc_fail(err, LIPSC_E_ARG, "u, v or grad is NULL");
    if (k == 0) return LIPSC_OK;

    const size_t n = input->n, in = n * resolved.d, out = n * lipsc_layer_width(&resolved);
    head h;
    gradient g;
    int short_of_memory = head_alloc(&h, &resolved, input) != LIPSC_OK;
    if (gradient_alloc(&g, &resolved, n)) short_of_memory = 1;
    if (short_of_memory) {
        status = lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for %zu tokens", n);
    } else {
        memset(grad, 0, k * in * sizeof *grad);
        if (grad_log_weight) memset(grad_log_weight, 0, k * n * sizeof *grad_log_weight);
        for (size_t index = 0; index < resolved.heads; index++) {
            head_enter(&h, index);
            for (size_t p = 0; p < k; p++)
                head_gradient(&h, &g, u + p * out, v + p * in, grad + p * in,
                              grad_log_weight ? grad_log_weight + p * n : NULL);
        }
        for (size_t p = 0; grad_log_weight && !status && p < k; p++)
            status = add_outer_weights(&resolved, input, u + p * out, v + p * in,
                                       grad_log_weight + p * n, err);
        if (!status) status = finite_or_fail(k * in, grad, err);
    }
    head_release(&h);
    gradient_release(&g);
    return status;
}
