/* head.c - projections and factors of one head: what the bounds need to know of it.
 *
 * A norm |A g| of a wide matrix is taken through a factor F of A with |A g| = |F g| for
 * every g.  It comes from the singular values of A, not from A^T A: squaring would lose
 * the small directions, and with them the digits of a product that lies in them. */
#include "bound/head.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "linalg/dense.h"

#include <float.h>
#include <math.h>
#include <string.h>

enum { ROW_BLOCK = 64 }; /* tokens projected at once by one thread */

/* ---- Norm and rotation -------------------------------------------------------- */

/* 1 / sqrt(mean(y^2) + eps) */
static double inverse_radius(size_t count, const double *y, double eps) {
    double square = 0.0;
    for (size_t l = 0; l < count; l++) square += y[l] * y[l];
    const double radius = sqrt(square / (double)count + eps);
    return radius < INFINITY ? 1.0 / radius : NAN;
}

/* y := Rot Norm(y); keeps what turn_back needs.  A norm of zero or of infinity shows as
 * a number that is not finite. */
static void turn_forward(const lipsc_turn *turn, size_t token, double eps, double *y) {
    const size_t k = turn->width, half = turn->half;
    if (turn->gain) {
        memcpy(turn->raw + token * k, y, k * sizeof *y);
        if (!turn->pull) turn->inverse[token] = inverse_radius(k, y, eps);
        for (size_t l = 0; l < k; l++) y[l] *= turn->gain[l] * turn->inverse[token];
    }
    for (size_t l = 0; l < half; l++) {
        const double c = turn->cosine[token * half + l], s = turn->sine[token * half + l];
        const double a = y[l], b = y[l + half];
        y[l] = a * c - b * s;
        y[l + half] = b * c + a * s;
    }
}

static void rotate_back(const lipsc_turn *turn, size_t token, double *v) {
    const size_t half = turn->half;
    for (size_t l = 0; l < half; l++) {
        const double c = turn->cosine[token * half + l], s = turn->sine[token * half + l];
        const double a = v[l], b = v[l + half];
        v[l] = a * c + b * s;
        v[l + half] = b * c - a * s;
    }
}

/* Norm'(y) = diag(gain) (I - y y^T / (k r^2)) / r */
void lipsc_turn_back_from(const lipsc_turn *turn, size_t token, double *v, double *along,
                          double *length) {
    const size_t k = turn->width;
    double sum = 0.0, square = 0.0;
    rotate_back(turn, token, v);
    *along = *length = 0.0;
    if (!turn->gain) return;
    const double *y = turn->raw + token * k;
    const double inverse = turn->inverse[token];
    for (size_t l = 0; l < k; l++) {
        v[l] *= turn->gain[l];
        sum += y[l] * inverse * v[l];
        square += v[l] * v[l];
    }
    *along = sum / sqrt((double)turn->norm_width);
    *length = sqrt(square);
    sum = turn->pull ? 0.0 : sum / (double)k;
    for (size_t l = 0; l < k; l++) v[l] = inverse * (v[l] - y[l] * inverse * sum);
}

void lipsc_turn_back(const lipsc_turn *turn, size_t token, double *v) {
    double along, length;
    lipsc_turn_back_from(turn, token, v, &along, &length);
}

/* Of all heads: W^T (gain o v, - y (y . (gain o v)) / (m r^2)) / r, y and r of all, v and
 * gain of one; here is the part with W^T y, by |y_head . (gain o v)|. */
double lipsc_turn_beside(const lipsc_turn *turn, size_t token, const double *v) {
    if (!turn->pull) return 0.0;
    const size_t k = turn->width, half = turn->half;
    const double *y = turn->raw + token * k, inverse = turn->inverse[token];
    double along = 0.0, size = 0.0;
    for (size_t l = 0; l < half; l++) {
        const double c = turn->cosine[token * half + l], s = turn->sine[token * half + l];
        const double a = (v[l] * c + v[l + half] * s) * turn->gain[l] * y[l];
        const double b = (v[l + half] * c - v[l] * s) * turn->gain[l + half] * y[l + half];
        along += a + b;
        size += fabs(a) + fabs(b);
    }
    for (size_t l = 2 * half; l < k; l++) {
        along += v[l] * turn->gain[l] * y[l];
        size += fabs(v[l] * turn->gain[l] * y[l]);
    }
    const double most = fabs(along) + 8.0 * (double)(k + 8) * DBL_EPSILON * size;
    return most * inverse * inverse * turn->pull[token] / (double)turn->norm_width;
}

/* ---- Factors ------------------------------------------------------------------- */

/* A = U S W^T: F = S W^T */
lipsc_status lipsc_factor_make(size_t rows, size_t cols, double *a, lipsc_factor *factor) {
    const size_t rank = min_size(rows, cols);
    for (size_t e = 0; e < rows * cols; e++)
        if (!isfinite(a[e])) return LIPSC_E_RANGE;
    double *s = lipsc_alloc(rank, sizeof *s);
    if (!s) return LIPSC_E_NOMEM;
    lipsc_status status = lipsc_dense_svd(rows, cols, a, s, NULL, factor->values);
    if (!status) {
        for (size_t c = 0; c < cols; c++)
            for (size_t r = 0; r < rank; r++) factor->values[r + c * rank] *= s[r];
        factor->rank = rank;
        factor->cols = cols;
        factor->norm = s[0];
    }
    lipsc_release(s);
    return status;
}

/* The power of two that brings the largest entry of a (rows, cols; row stride ld) into
 * [1/2, 1), and *copy, column-major cols x rows, of the matrix times it. */
static double copy_scaled(size_t rows, size_t cols, const double *a, size_t ld,
                          double *copy) {
    double size = 0.0;
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) size = lipsc_max(size, fabs(a[r * ld + c]));
    int exponent = 0;
    if (size > 0.0) frexp(size, &exponent);
    const double unit = ldexp(1.0, -(exponent < -1000 ? -1000 : exponent));
    for (size_t r = 0; r < rows; r++)
        for (size_t c = 0; c < cols; c++) copy[r * cols + c] = unit * a[r * ld + c];
    return unit;
}

/* ---- Projections ----------------------------------------------------------------- */

/* y (n, width) = X W^T + b, then norm and rotation.  W NULL: the identity; raw: what has
 * been found already of X W^T + b, or NULL.  Blocks of tokens, so that the sums do not
 * depend on the number of threads. */
static void project(const lipsc_head_at *head, size_t width, const double *W,
                    const double *b, const double *raw, const lipsc_turn *turn, double eps,
                    double *y) {
    const size_t n = head->n, d = head->d;
    const double *X = head->X;
    if (raw || !W) memcpy(y, raw ? raw : X, n * width * sizeof *y);
    if (raw) W = b = NULL;
#pragma omp parallel for schedule(static) num_threads(head->threads)
    for (size_t first = 0; first < n; first += ROW_BLOCK) {
        const size_t count = min_size(ROW_BLOCK, n - first);
        if (W)
            lipsc_dense_gemm(1, 0, width, count, d, 1.0, W, d, X + first * d, d, 0.0,
                             y + first * width, width);
        for (size_t i = first; i < first + count; i++) {
            for (size_t l = 0; b && l < width; l++) y[i * width + l] += b[l];
            if (turn) turn_forward(turn, i, eps, y + i * width);
        }
    }
}

static double longest_row(size_t n, size_t width, const double *y) {
    double longest = 0.0;
    for (size_t i = 0; i < n; i++) {
        double square = 0.0;
        for (size_t l = 0; l < width; l++) square += y[i * width + l] * y[i * width + l];
        if (!(square < INFINITY)) return INFINITY; /* a NaN too */
        longest = lipsc_max(longest, sqrt(square));
    }
    return longest;
}

/* F of K^T for K the identity */
static void factor_identity(size_t k, lipsc_factor *factor) {
    memset(factor->values, 0, k * k * sizeof *factor->values);
    for (size_t l = 0; l < k; l++) factor->values[l + l * k] = 1.0;
    factor->rank = factor->cols = k;
    factor->norm = 1.0;
}

lipsc_status lipsc_head_enter(const lipsc_attn *attn, size_t index, lipsc_head_at *head) {
    const lipsc_layer *layer = &attn->layer;
    const size_t n = head->n, d = head->d, k = head->k, dv = head->dv;
    const size_t g = index * layer->kv_heads / layer->heads;
    const double *Q = layer->Q + index * k * d;
    const double *K = layer->K ? layer->K + g * k * d : NULL;
    const double eps = layer->norm_eps;

    const lipsc_raw raw = head->rows->raw;
    head->index = index;
    head->bias = attn->rows.distance ? attn->rows.distance + index * (2 * n - 1) : NULL;
    head->sink = layer->sinks ? layer->sinks[index] : -INFINITY;
    if (head->query_turn.pull) head->query_turn.gain = layer->q_gain + index * k;
    if (head->key_turn.pull) head->key_turn.gain = layer->k_gain + g * k;
    project(head, k, Q, layer->bq ? layer->bq + index * k : NULL,
            raw.q ? raw.q + index * n * k : NULL, &head->query_turn, eps, head->q);
    for (size_t e = 0; e < n * k; e++) head->q[e] *= head->scale;
    project(head, k, K, layer->bk ? layer->bk + g * k : NULL,
            raw.q ? raw.key + g * n * k : NULL, &head->key_turn, eps, head->key);
    head->score_size = longest_row(n, k, head->q) * longest_row(n, k, head->key);

    /* V is (dv, d) row-major: as a column-major matrix it is V^T (d x dv). */
    double *V = head->scratch;
    head->unit = copy_scaled(dv, d, layer->V + g * dv * d, d, V);
    project(head, dv, V, NULL, raw.q ? raw.z + g * n * dv : NULL, NULL, eps, head->z);
    for (size_t e = 0; raw.q && e < n * dv; e++) head->z[e] *= head->unit;
    for (size_t e = 0; layer->sinks && layer->bv && !raw.q && e < n * dv; e++)
        head->z[e] += head->unit * layer->bv[g * dv + e % dv];
    if (!(head->score_size < INFINITY && longest_row(n, dv, head->z) < INFINITY))
        return LIPSC_E_RANGE;
    lipsc_dense_gemm(1, 0, dv, dv, d, 1.0, V, d, V, d, 0.0, head->VVt, dv);
    if (K) {
        lipsc_dense_gemm(1, 0, dv, k, d, 1.0, V, d, K, d, 0.0, head->VKt, dv);
    } else {
        for (size_t c = 0; c < dv; c++)
            for (size_t l = 0; l < k; l++) head->VKt[c + l * dv] = V[c * d + l];
    }

    memcpy(head->scratch, Q, k * d * sizeof *Q);
    lipsc_status status = lipsc_factor_make(d, k, head->scratch, &head->Qt);
    if (!status && K) {
        memcpy(head->scratch, K, k * d * sizeof *K);
        status = lipsc_factor_make(d, k, head->scratch, &head->Kt);
    } else if (!status) {
        factor_identity(k, &head->Kt);
    }
    if (!status && layer->O && head->sliced) {
        /* the slice (out_dim, dv) transposed, as column-major wants it */
        double *slice = head->scratch, *turned = slice + layer->out_dim * dv;
        head->out_unit = copy_scaled(layer->out_dim, dv, layer->O + index * dv,
                                     layer->heads * dv, turned);
        for (size_t r = 0; r < layer->out_dim; r++)
            for (size_t c = 0; c < dv; c++)
                slice[r + c * layer->out_dim] = turned[r * dv + c];
        status = lipsc_factor_make(layer->out_dim, dv, slice, &head->out);
    }
    return status;
}

double lipsc_head_rounding(size_t n, size_t d, size_t k, size_t dv) {
    return 8.0 * sqrt((double)n + 1.0) * (double)(n + d + 4 * (k + dv) + 64) * DBL_EPSILON;
}

void lipsc_head_finish(const lipsc_head_at *head, size_t i, double *s, double *slope) {
    const size_t lo = head->rows->lo[i], count = head->rows->hi[i] - lo;
    const double *log_weight = head->rows->log_weight, c = head->cap;
    for (size_t j = 0; j < count; j++) {
        if (slope) slope[j] = 1.0;
        if (c > 0.0) {
            const double width = slope ? cosh(s[j] / c) : 1.0;
            if (slope) slope[j] = 1.0 / width / width;
            s[j] = c * tanh(s[j] / c);
        }
        if (head->bias) s[j] += head->bias[head->n - 1 + lo + j - i];
        if (log_weight) s[j] += log_weight[lo + j];
    }
}

double lipsc_head_pull(const lipsc_head_at *head, const double *g) {
    const size_t k = head->k, rank = head->Kt.rank;
    const double *F = head->Kt.values;
    double square = 0.0, own = 0.0;
    for (size_t r = 0; r < rank; r++) {
        double sum = 0.0;
        for (size_t l = 0; l < k; l++) sum += F[r + l * rank] * g[l];
        square += sum * sum;
    }
    for (size_t l = 0; l < k; l++) own += g[l] * g[l];
    return sqrt(square) + head->rounding * head->Kt.norm * sqrt(own);
}

/* ---- Memory ------------------------------------------------------------------------ */

static double *doubles(size_t a, size_t b, int *failed) {
    size_t count;
    double *p = lipsc_mul_size(a, b, &count) ? lipsc_alloc(count, sizeof *p) : NULL;
    *failed |= !p;
    return p;
}

static void rotation_tables(const lipsc_attn *attn, lipsc_head_at *head) {
    const size_t half = attn->layer.rotary_dim / 2;
    for (size_t i = 0; i < head->n; i++)
        for (size_t l = 0; l < half; l++) {
            const double angle = attn->rows.positions[i] * attn->layer.rotary_freq[l];
            head->cosine[i * half + l] = cos(angle);
            head->sine[i * half + l] = sin(angle);
        }
}

int lipsc_equal_weights(const lipsc_input *input) {
    for (size_t i = 1; input->weights && i < input->n; i++)
        if (input->weights[i] != input->weights[0]) return 0;
    return 1;
}

/* y (n, heads, k) from raw (heads, n, k) */
static void gather(size_t n, size_t heads, size_t k, const double *raw, double *y) {
    for (size_t i = 0; i < n; i++)
        for (size_t h = 0; h < heads; h++)
            memcpy(y + (i * heads + h) * k, raw + (h * n + i) * k, k * sizeof *y);
}

/* The norm that all heads of queries or keys share: 1/r and |W^T y| / r of every token. */
static lipsc_status share_norm(const lipsc_head_at *head, size_t heads, const double *W,
                               const double *b, const double *raw, double eps,
                               lipsc_turn *turn) {
    const size_t n = head->n, d = head->d, width = heads * head->k;
    int failed = 0;
    double *y = doubles(n, width, &failed), *x = doubles(n, d, &failed);
    if (!failed) {
        if (raw)
            gather(n, heads, head->k, raw, y);
        else
            project(head, width, W, b, NULL, NULL, eps, y);
        if (W)
            lipsc_dense_gemm(0, 0, d, n, width, 1.0, W, d, y, width, 0.0, x, d);
        else
            memcpy(x, y, n * d * sizeof *x);
    }
    /* an error of W^T y is one of |W|_F |y| */
    double weights = 0.0;
    for (size_t e = 0; W && e < width * d; e++) weights = hypot(weights, W[e]);
    for (size_t i = 0; !failed && i < n; i++) {
        const double inverse = inverse_radius(width, y + i * width, eps);
        turn->inverse[i] = inverse;
        turn->pull[i] = inverse * (longest_row(1, d, x + i * d) +
                                   head->rounding * (W ? weights : 1.0) *
                                       longest_row(1, width, y + i * width));
    }
    turn->norm_width = width;
    lipsc_release(y);
    lipsc_release(x);
    return failed ? LIPSC_E_NOMEM : LIPSC_OK;
}

lipsc_status lipsc_head_new(const lipsc_attn *attn, lipsc_head_at *head) {
    const lipsc_layer *layer = &attn->layer;
    const size_t n = attn->rows.n, d = layer->d, k = layer->key_dim, dv = layer->value_dim;
    const size_t half = layer->rotary_dim / 2;
    memset(head, 0, sizeof *head);
    head->attn = attn;
    head->rows = &attn->rows;
    head->X = attn->X;
    if (!head->X) {
        const lipsc_status status = lipsc_attn_whole_tokens(attn, &head->tokens);
        if (status) return status;
        head->X = head->tokens;
    }
    head->equal = lipsc_equal_weights(&attn->input);
    head->n = n;
    head->d = d;
    head->k = k;
    head->dv = dv;
    head->scale = layer->scale;
    head->out_unit = 1.0;
    head->sliced = 1;
    head->threads = lipsc_attn_threads(attn);
    head->keys_differ = half > 0 || layer->k_gain || layer->soft_cap > 0.0;
    head->cap = layer->soft_cap;
    /* a sink is one token more, a norm over all heads has sums as long */
    head->rounding = lipsc_head_rounding(n + (layer->sinks ? 1 : 0), d,
                                         layer->norm_whole ? k * layer->heads : k, dv);

    int failed = 0;
    head->q = doubles(n, k, &failed);
    head->key = doubles(n, k, &failed);
    head->z = doubles(n, dv, &failed);
    head->VVt = doubles(dv, dv, &failed);
    head->VKt = doubles(dv, k, &failed);
    head->Qt.values = doubles(k, k, &failed);
    head->Kt.values = doubles(k, k, &failed);
    head->scratch = doubles(max_size(2 * layer->out_dim, d), max_size(k, dv), &failed);
    if (layer->O) head->out.values = doubles(dv, dv, &failed);
    if (half) {
        head->cosine = doubles(n, half, &failed);
        head->sine = doubles(n, half, &failed);
    }
    head->query_turn = (lipsc_turn){.width = k,
                                    .half = half,
                                    .cosine = head->cosine,
                                    .sine = head->sine,
                                    .gain = layer->q_gain,
                                    .norm_width = k};
    head->key_turn = head->query_turn;
    head->key_turn.gain = layer->k_gain;
    lipsc_turn *const turns[] = {&head->query_turn, &head->key_turn};
    for (size_t t = 0; t < 2; t++)
        if (turns[t]->gain) {
            turns[t]->raw = doubles(n, k, &failed);
            turns[t]->inverse = doubles(n, 1, &failed);
            if (layer->norm_whole) turns[t]->pull = doubles(n, 1, &failed);
        }
    if (failed) return LIPSC_E_NOMEM;
    if (half) rotation_tables(attn, head);
    lipsc_status status = LIPSC_OK;
    if (head->query_turn.pull)
        status = share_norm(head, layer->heads, layer->Q, layer->bq, attn->rows.raw.q,
                            layer->norm_eps, &head->query_turn);
    if (!status && head->key_turn.pull)
        status = share_norm(head, layer->kv_heads, layer->K, layer->bk, attn->rows.raw.key,
                            layer->norm_eps, &head->key_turn);
    return status;
}

void lipsc_head_free(lipsc_head_at *head) {
    double *const arrays[] = {head->tokens,
                              head->q,
                              head->key,
                              head->z,
                              head->VVt,
                              head->VKt,
                              head->Qt.values,
                              head->Kt.values,
                              head->out.values,
                              head->scratch,
                              head->cosine,
                              head->sine,
                              head->query_turn.raw,
                              head->key_turn.raw,
                              head->query_turn.inverse,
                              head->key_turn.inverse,
                              head->query_turn.pull,
                              head->key_turn.pull};
    for (size_t a = 0; a < sizeof arrays / sizeof arrays[0]; a++) lipsc_release(arrays[a]);
}
