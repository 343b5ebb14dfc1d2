/* reach.c - how far the queries, keys and values of a head move when every token moves by
 * at most r, and how far the computed ones are from the exact ones.
 *
 * Without a norm a query is affine in its token: slope = scale |Q|, bend = 0; rotations are
 * orthogonal and change no length.  With Norm(y) = gain o y / rho, rho^2 = |y|^2/k + eps,
 *
 *     |DNorm(y)| <= max|gain| / rho,      |D^2 Norm(y)| <= sqrt2 max|gain| / (sqrt(k)
 * rho^2)
 *
 * (docs/maths.md 3.15), with the smallest rho that y reaches: |y| less |Q| r.  These two
 * are for what is small anyway, rounding and the like; what counts is in norm_move.c.
 *
 * Rounding.  A computed sum of m products is wrong by at most m eps times the sum of their
 * sizes, in any order: |Q x + b| by (d + 2) eps (|Q|_F |x| + |b|).  Where they were found
 * in twice the precision, by the square of that factor, and by their rounding once. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "bound/around.h"
#include "bound/psd.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

static double length_of(size_t count, const double *x) {
    const double length = lipsc_length(count, x);
    return length < INFINITY ? length : INFINITY; /* a NaN too */
}

/* One projection y = scale Rot Norm(W x + b); W and b of all heads where they share the
 * norm */
typedef struct {
    const double *W, *bias; /* W NULL: the identity */
    size_t width;           /* rows of W            */
    double norm, scale;     /* |W|                  */
    const lipsc_factor *F;  /* of W^T of the head   */
    const double *fine;     /* (n, k) W x + b in twice the precision; NULL: plain */
    const lipsc_turn *turn;
    double eps; /* of the norm */
} projection;

/* Of a sum whose terms have the size `most`, found as a vector of this length. */
static double fine_error(size_t d, double most, double length) {
    const double gamma = ((double)d + 4.0) * DBL_EPSILON;
    return 2.0 * DBL_EPSILON * length + gamma * gamma * most;
}

static void side_make(const lipsc_head_at *head, const projection *p, double r,
                      const double *y, lipsc_side *side) {
    const size_t n = head->n, d = head->d, k = head->k;
    const double sizes = p->W ? length_of(p->width * d, p->W) : 0.0;
    const double bias = p->bias ? length_of(p->width, p->bias) : 0.0;
    double gain = 1.0;
    for (size_t l = 0; p->turn->gain && l < k; l++)
        gain = l ? lipsc_max(gain, fabs(p->turn->gain[l])) : fabs(p->turn->gain[0]);
    side->largest_error = side->largest_length = 0.0;
    side->largest_slope = side->largest_bend = side->largest_balanced = 0.0;
    const lipsc_norm_of of = {p->F, p->norm, p->scale, p->eps, r};
    for (size_t i = 0; i < n; i++) {
        const double x = length_of(d, head->X + i * d);
        const double all = p->turn->pull ? lipsc_norm_length(&of, p->turn, i) : 0.0;
        const double raw_error =
            p->fine ? fine_error(d, sizes * x + bias,
                                 all > 0.0 ? all : length_of(k, p->fine + i * k))
                    : ((double)d + 4.0) * DBL_EPSILON * (sizes * x + bias) +
                          (p->W ? 0.0 : DBL_EPSILON * (x + bias));
        double stretch = 1.0, bend = 0.0, rounding = 16.0 * DBL_EPSILON;
        if (p->turn->gain) {
            const double mean = (double)p->turn->norm_width;
            lipsc_norm_move_make(&of, p->turn, i, raw_error, side->norm + i);
            const double rho = side->norm[i].least;
            stretch = rho > 0.0 ? gain / rho : INFINITY;
            bend = rho > 0.0 ? sqrt(2.0 / mean) * gain / rho / rho : INFINITY;
            rounding *= mean;
        }
        side->length[i] = length_of(k, y + i * k);
        side->error[i] = p->scale * stretch * raw_error + rounding * side->length[i];
        side->slope[i] = p->scale * stretch * p->norm;
        side->bend[i] = p->scale * bend * p->norm * p->norm;
        side->largest_error = lipsc_max(side->largest_error, side->error[i]);
        side->largest_length = lipsc_max(side->largest_length, side->length[i]);
        side->largest_slope = lipsc_max(side->largest_slope, side->slope[i]);
        side->largest_bend = lipsc_max(side->largest_bend, side->bend[i]);
    }
}

/* side->balanced: of the derivatives, seen through diag(balance)^power. */
static lipsc_status side_balance(const lipsc_head_at *head, const projection *p, double r,
                                 const double *balance, double power, lipsc_side *side) {
    const size_t k = head->k;
    const lipsc_norm_of of = {p->F, p->norm, p->scale, p->eps, r};
    double *stretch = lipsc_alloc(k, sizeof *stretch);
    if (!stretch) return LIPSC_E_NOMEM;
    for (size_t l = 0; l < k; l++)
        stretch[l] = pow(balance[l], power) * (p->turn->gain ? p->turn->gain[l] : 1.0);
    const lipsc_status status = lipsc_stretched_norms(
        head, &of, p->turn, p->turn->gain ? side->norm : NULL, stretch, side->balanced);
    for (size_t i = 0; i < head->n; i++)
        side->largest_balanced = lipsc_max(side->largest_balanced, side->balanced[i]);
    lipsc_release(stretch);
    return status;
}

static lipsc_status balance_sides(const lipsc_head_at *head, const projection *query,
                                  const projection *key, lipsc_reach *reach) {
    double *balance = lipsc_alloc(head->k, 2 * sizeof *balance);
    if (!balance) return LIPSC_E_NOMEM;
    lipsc_balance(head, balance);
    lipsc_status status = side_balance(head, query, reach->r, balance, -1.0, &reach->query);
    if (!status) status = side_balance(head, key, reach->r, balance, 1.0, &reach->key);
    lipsc_release(balance);
    return status;
}

/* |A| = scale |F_Q F_K^T| */
static lipsc_status score_norm(const lipsc_head_at *head, double *norm) {
    const size_t k = head->k, q = head->Qt.rank, c = head->Kt.rank;
    double *product = lipsc_alloc(q, c * sizeof *product);
    if (!product) return LIPSC_E_NOMEM;
    lipsc_dense_gemm(0, 1, q, c, k, fabs(head->scale), head->Qt.values, q, head->Kt.values,
                     c, 0.0, product, q);
    const lipsc_status status = lipsc_dense_norm(q, c, product, norm);
    *norm += 64.0 * (double)(head->d + k) * DBL_EPSILON * fabs(head->scale) *
             head->Qt.norm * head->Kt.norm;
    lipsc_release(product);
    return status;
}

/* |V| and |W V| from V V^T, in the units of the head. */
static lipsc_status value_norms(const lipsc_head_at *head, double *norm) {
    const size_t dv = head->dv, rank = head->out.rank, room = dv * dv;
    double *a = lipsc_alloc(room, 3 * sizeof *a), square = 0.0;
    if (!a) return LIPSC_E_NOMEM;
    memcpy(a, head->VVt, room * sizeof *a);
    lipsc_status status = lipsc_psd_norm(dv, a, 40, a + room, &square);
    norm[0] = sqrt(square);
    norm[1] = 0.0;
    if (!status && rank) {
        const double *F = head->out.values;
        lipsc_dense_gemm(0, 0, rank, dv, dv, 1.0, F, rank, head->VVt, dv, 0.0, a + room,
                         rank);
        lipsc_dense_gemm(0, 1, rank, rank, dv, 1.0, a + room, rank, F, rank, 0.0, a, rank);
        status = lipsc_psd_norm(rank, a, 40, a + room, &square);
        norm[1] = sqrt(square + 8.0 * (double)(head->d + dv) * DBL_EPSILON * norm[0] *
                                    norm[0] * head->out.norm * head->out.norm);
    }
    norm[0] *= 1.0 + 8.0 * (double)(head->d + dv) * (double)dv * DBL_EPSILON;
    lipsc_release(a);
    return status;
}

/* What a computed z_j - z_l may have lost. */
static void value_errors(const lipsc_head_at *head, const double *V, lipsc_reach *reach) {
    const size_t n = head->n, d = head->d, dv = head->dv;
    const double sizes = head->unit * length_of(dv * d, V);
    double token = 0.0, z = 0.0;
    for (size_t i = 0; i < n; i++) {
        token = lipsc_max(token, length_of(d, head->X + i * d));
        z = lipsc_max(z, length_of(dv, head->z + i * dv));
    }
    const double error = head->rows->raw.q
                             ? fine_error(d, sizes * token, z)
                             : ((double)d + 4.0) * DBL_EPSILON * sizes * token;
    reach->value_error[0] = 2.0 * error + 8.0 * DBL_EPSILON * z;
    reach->value_error[1] = head->out.norm * reach->value_error[0];
}

/* |Q|, |K| of all heads, once, where they share a norm. */
static lipsc_status whole_norms(const lipsc_layer *l, const lipsc_head_at *head,
                                lipsc_reach *reach) {
    lipsc_status status = LIPSC_OK;
    if (head->query_turn.pull && reach->whole[0] == 0.0)
        status = lipsc_dense_norm(l->heads * head->k, l->d, l->Q, &reach->whole[0]);
    if (!status && head->key_turn.pull && l->K && reach->whole[1] == 0.0)
        status = lipsc_dense_norm(l->kv_heads * head->k, l->d, l->K, &reach->whole[1]);
    return status;
}

lipsc_status lipsc_reach_make(const lipsc_attn *attn, size_t index,
                              const lipsc_head_at *head, double r, lipsc_reach *reach) {
    const lipsc_layer *layer = &attn->layer;
    const size_t d = head->d, k = head->k;
    const size_t group = index * layer->kv_heads / layer->heads;
    const double up = 1.0 + 64.0 * (double)(d + k) * DBL_EPSILON; /* of LAPACK's norms */
    const lipsc_raw raw = head->rows->raw;
    const size_t q_first = head->query_turn.pull ? 0 : index * k;
    const size_t k_first = head->key_turn.pull ? 0 : group * k;
    lipsc_status status = whole_norms(layer, head, reach);
    if (status) return status;
    const projection query = {.W = layer->Q + q_first * d,
                              .bias = layer->bq ? layer->bq + q_first : NULL,
                              .width = head->query_turn.pull ? layer->heads * k : k,
                              .norm = up * lipsc_max(head->Qt.norm, reach->whole[0]),
                              .scale = fabs(head->scale),
                              .F = &head->Qt,
                              .fine = raw.q ? raw.q + index * head->n * k : NULL,
                              .turn = &head->query_turn,
                              .eps = layer->norm_eps};
    const projection key = {.W = layer->K ? layer->K + k_first * d : NULL,
                            .bias = layer->bk ? layer->bk + k_first : NULL,
                            .width = head->key_turn.pull ? layer->kv_heads * k : k,
                            .norm = up * lipsc_max(head->Kt.norm, reach->whole[1]),
                            .scale = 1.0,
                            .F = &head->Kt,
                            .fine = raw.q ? raw.key + group * head->n * k : NULL,
                            .turn = &head->key_turn,
                            .eps = layer->norm_eps};
    const int turned = key.turn->half || key.turn->gain || query.turn->gain;
    const size_t n = head->n;
    reach->r = r;
    reach->query.norm = query.turn->gain ? reach->norms : NULL;
    reach->key.norm = key.turn->gain ? reach->norms + n : NULL;
    for (size_t i = 0; i < n; i++)
        reach->query.balanced[i] = reach->key.balanced[i] = INFINITY;
    reach->factor = 64.0 * (double)(d + k) * DBL_EPSILON;
    reach->cross = NAN;
    side_make(head, &query, r, head->q, &reach->query);
    side_make(head, &key, r, head->key, &reach->key);
    value_errors(head, layer->V + group * head->dv * d, reach);
    status = value_norms(head, reach->value);
    if (!status && !turned) status = score_norm(head, &reach->cross);
    if (!status && turned && r > 0.0) status = balance_sides(head, &query, &key, reach);
    return status;
}

lipsc_status lipsc_reach_new(size_t n, lipsc_reach *reach) {
    memset(reach, 0, sizeof *reach);
    reach->storage = lipsc_alloc(n, 10 * sizeof *reach->storage);
    reach->norms = lipsc_alloc(n, 2 * sizeof *reach->norms);
    if (!reach->storage || !reach->norms) return LIPSC_E_NOMEM;
    lipsc_side *const sides[] = {&reach->query, &reach->key};
    for (size_t s = 0; s < 2; s++) {
        double *at = reach->storage + 5 * s * n;
        sides[s]->error = at;
        sides[s]->length = at + n;
        sides[s]->slope = at + 2 * n;
        sides[s]->bend = at + 3 * n;
        sides[s]->balanced = at + 4 * n;
    }
    return LIPSC_OK;
}

void lipsc_reach_free(lipsc_reach *reach) {
    lipsc_release(reach->storage);
    lipsc_release(reach->norms);
}
