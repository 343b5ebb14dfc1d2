/* norm_move.c - how far a query or key norm bends when its token moves (docs/maths.md 3.15,
 * "Norms").
 *
 *     D^2 phi = W^T ( -(u c^T + c u^T) - (c.u) (I - 3 u u^T) ) W / (sqrt(k) rho^2),
 *     |D^2 phi| <= ( 2 |W^T u| |W^T c| + |c.u| max(|W|^2, 2 |W^T u|^2) ) / (sqrt(k) rho^2),
 *
 * with the largest |W^T u|, |c.u| and 1/rho of the neighbourhood: u moves by at most
 * r |W| / (sqrt(k) rho).  What W does to u and to c is what counts, not |W| |c|: a gain
 * with one large component costs nothing where the keys have little there. */
#include "bound/norm_move.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "bound/psd.h"
#include "core/extreme.h"
#include "core/mem.h"
#include "core/vector.h"
#include "linalg/dense.h"

enum { SQUARINGS = 4 };

/* What a sum of m products may have lost of the sum of their sizes, with room to spare. */
static double loss(size_t m) { return 64.0 * (double)(m + 16) * DBL_EPSILON; }

/* |F u| of u = y inverse / sqrt(k), in norm: F (rank, k) */
static double pulled(const lipsc_factor *F, const double *y, double inverse) {
    const double factor = inverse / sqrt((double)F->cols);
    double square = 0.0;
    for (size_t a = 0; a < F->rank; a++) {
        double sum = 0.0;
        for (size_t l = 0; l < F->cols; l++) sum += F->values[a + l * F->rank] * y[l];
        square += factor * sum * (factor * sum);
    }
    return sqrt(square) + loss(F->cols) * F->norm;
}

double lipsc_norm_length(const lipsc_norm_of *of, const lipsc_turn *turn, size_t token) {
    if (!turn->pull) return lipsc_length(turn->width, turn->raw + token * turn->width);
    const double rho = 1.0 / turn->inverse[token];
    return sqrt(lipsc_max(rho * rho * (1.0 - 1e-13) - of->eps, 0.0) *
                (double)turn->norm_width);
}

void lipsc_norm_move_make(const lipsc_norm_of *of, const lipsc_turn *turn, size_t token,
                          double raw_error, lipsc_norm_move *move) {
    const size_t k = turn->norm_width;
    const double root = sqrt((double)k), inverse = turn->inverse[token];
    const double least =
        lipsc_norm_length(of, turn, token) * (1.0 - 1e-12) - of->r * of->norm - raw_error;
    const double rho = sqrt((least > 0.0 ? least * least / (double)k : 0.0) + of->eps);
    const double turned = (of->r * of->norm + raw_error) / (root * rho) + loss(k);
    memset(move, 0, sizeof *move);
    move->rho = 1.0 / inverse;
    move->least = rho;
    move->twist = INFINITY;
    if (!(rho > 0.0)) return;
    move->pull = turn->pull ? turn->pull[token] / root
                            : pulled(of->F, turn->raw + token * k, inverse);
    move->most = lipsc_min(move->pull + of->norm * turned, of->norm);
    move->square = lipsc_max(of->norm * of->norm, 2.0 * move->most * move->most);
    move->twist = of->scale / (root * rho) / rho;
    move->step = of->r / (root * rho);
    move->lost = raw_error / (root * rho) + loss(k);
    /* |D^2 Norm| <= sqrt(2) / (sqrt(k) rho^2), and the rounding of Norm' itself */
    move->blur =
        of->norm * (sqrt(2.0) * move->twist * raw_error + loss(k) * of->scale / rho);
}

double lipsc_norm_bend(const lipsc_norm_move *move, double pull, double along,
                       double length) {
    if (!(move->twist < INFINITY)) return INFINITY;
    double most = length; /* |c . u| of every u, which is shorter than 1 */
    const double rest = 1.0 - move->step * move->most;
    const double near = fabs(along) + move->step * pull + move->lost * length;
    if (rest > 0.0 && near < most * rest) most = near / rest;
    return move->twist * (2.0 * move->most * pull + most * move->square);
}

/* ---- Queries against keys ----------------------------------------------------------- */

/* size_l := |gain_l F_l|, F (rank, k); what little it is, at least 1e-6 of the largest. */
static void component_sizes(const lipsc_factor *F, const double *gain, size_t half,
                            double *size) {
    const size_t k = F->cols;
    double largest = 0.0;
    for (size_t l = 0; l < k; l++)
        size[l] =
            (gain ? fabs(gain[l]) : 1.0) * lipsc_length(F->rank, F->values + l * F->rank);
    for (size_t l = 0; l < half; l++)
        size[l] = size[l + half] = hypot(size[l], size[l + half]);
    for (size_t l = 0; l < k; l++) largest = lipsc_max(largest, size[l]);
    for (size_t l = 0; l < k; l++)
        if (!(size[l] > 1e-6 * largest)) size[l] = largest > 0.0 ? 1e-6 * largest : 1.0;
}

void lipsc_balance(const lipsc_head_at *head, double *balance) {
    const size_t k = head->k, half = head->query_turn.half;
    double *keys = balance + k;
    component_sizes(&head->Qt, head->query_turn.gain, half, balance);
    component_sizes(&head->Kt, head->key_turn.gain, half, keys);
    for (size_t l = 0; l < k; l++) {
        const double root = sqrt(balance[l] / keys[l]);
        balance[l] = root > 0.0 && root < INFINITY ? root : 1.0;
    }
}

/* F diag(stretch) and its Gram matrix, (rank, k) and (rank, rank). */
typedef struct {
    const lipsc_factor *F;
    const double *stretch;
    double *values, *gram;
    double trace, largest, norm; /* of the Gram matrix; of stretch; |F diag(stretch)| */
} stretched;

/* u of a token, the part of the head, and stretch o u; returns the length of the latter */
static double unit_of(const stretched *s, const lipsc_turn *turn, size_t token, double *u,
                      double *v) {
    const double factor = turn->inverse[token] / sqrt((double)turn->norm_width);
    for (size_t l = 0; l < turn->width; l++) {
        u[l] = turn->raw[token * turn->width + l] * factor;
        v[l] = s->stretch[l] * u[l];
    }
    return lipsc_length(turn->width, v);
}

/* gram = that of F (I - u u^T) diag(stretch), F diag(stretch) less (F u)(stretch o u)^T;
 * returns what it may have lost.  vectors (4 k): u, stretch o u and room. */
static double token_gram(const stretched *s, double own, double *vectors, double *gram) {
    const size_t k = s->F->cols, rank = s->F->rank;
    double *u = vectors, *v = u + k, *a = v + k, *b = a + k;
    lipsc_dense_gemm(0, 0, rank, 1, k, 1.0, s->F->values, rank, u, k, 0.0, a, rank);
    lipsc_dense_gemm(0, 0, rank, 1, k, 1.0, s->values, rank, v, k, 0.0, b, rank);
    const double square = own * own;
    for (size_t e = 0; e < rank; e++)
        for (size_t c = 0; c < rank; c++)
            gram[c + e * rank] =
                s->gram[c + e * rank] - a[c] * b[e] - b[c] * a[e] + square * a[c] * a[e];
    const double size = sqrt(s->trace) + own * s->F->norm;
    return loss(2 * k) * size * size;
}

/* |diag(stretch) (I - u u^T) W| here.  room (2 k^2 + 4 k), u and stretch o u first */
static lipsc_status norm_here(const stretched *s, const lipsc_turn *turn,
                              const lipsc_norm_move *move, double own, double *room,
                              double *norm) {
    const size_t k = s->F->cols;
    double *gram = room + 4 * k, square = 0.0;
    if (turn->pull) { /* W^T u is not in the space of the head */
        *norm = s->norm + own * move->pull;
        return LIPSC_OK;
    }
    const double slack = token_gram(s, own, room, gram);
    const lipsc_status status =
        lipsc_psd_norm(s->F->rank, gram, SQUARINGS, gram + k * k, &square);
    *norm = sqrt(square + slack);
    return status;
}

/* One token.  room (2 k^2 + 4 k) */
static lipsc_status token_norm(const stretched *s, const lipsc_norm_of *of,
                               const lipsc_turn *turn, size_t token,
                               const lipsc_norm_move *move, double *room, double *norm) {
    const double crude = of->scale * s->largest * of->norm / move->least;
    double here = INFINITY;
    *norm = INFINITY;
    if (!(move->twist < INFINITY)) return LIPSC_OK;
    double own = unit_of(s, turn, token, room, room + turn->width);
    const lipsc_status status = norm_here(s, turn, move, own, room, &here);
    own = lipsc_min(own + s->largest * (move->step * of->norm + move->lost), s->largest);
    const double moved =
        of->r * move->twist * (2.0 * move->most * s->norm + own * move->square);
    const double sum = of->scale * here / move->rho + moved + move->blur * s->largest;
    *norm = !status && sum < crude ? sum : crude; /* no NaN */
    return status == LIPSC_E_RANGE ? LIPSC_OK : status;
}

static lipsc_status all_tokens(const lipsc_head_at *head, const stretched *s,
                               const lipsc_norm_of *of, const lipsc_turn *turn,
                               const lipsc_norm_move *move, double *norm) {
    const size_t k = head->k;
    lipsc_status status = LIPSC_OK;
#pragma omp parallel num_threads(head->threads)
    {
        double *room = lipsc_alloc(k, (2 * k + 4) * sizeof *room);
        lipsc_status mine = room ? LIPSC_OK : LIPSC_E_NOMEM;
#pragma omp for schedule(dynamic)
        for (size_t i = 0; i < head->n; i++)
            if (!mine) mine = token_norm(s, of, turn, i, move + i, room, norm + i);
#pragma omp critical(lipsc_norm_move_merge)
        if (mine && !status) status = mine;
        lipsc_release(room);
    }
    return status;
}

lipsc_status lipsc_stretched_norms(const lipsc_head_at *head, const lipsc_norm_of *of,
                                   const lipsc_turn *turn, const lipsc_norm_move *move,
                                   const double *stretch, double *norm) {
    const size_t k = head->k, rank = of->F->rank;
    double *room = lipsc_alloc(k, 4 * k * sizeof *room), square = 0.0;
    if (!room) return LIPSC_E_NOMEM;
    stretched s = {.F = of->F, .stretch = stretch, .values = room, .gram = room + k * k};
    double *copy = s.gram + k * k;
    for (size_t l = 0; l < k; l++) {
        s.largest = lipsc_max(s.largest, fabs(stretch[l]));
        for (size_t c = 0; c < rank; c++)
            s.values[c + l * rank] = stretch[l] * of->F->values[c + l * rank];
    }
    lipsc_dense_gemm(0, 1, rank, rank, k, 1.0, s.values, rank, s.values, rank, 0.0, s.gram,
                     rank);
    memcpy(copy, s.gram, rank * rank * sizeof *copy);
    lipsc_status status = lipsc_psd_norm(rank, copy, SQUARINGS, copy + k * k, &square);
    for (size_t c = 0; c < rank; c++) s.trace += s.gram[c + c * rank];
    s.norm = sqrt(square + loss(k) * s.trace);
    if (!status && move) status = all_tokens(head, &s, of, turn, move, norm);
    for (size_t i = 0; !status && !move && i < head->n; i++) norm[i] = of->scale * s.norm;
    if (status == LIPSC_E_RANGE) {
        for (size_t i = 0; i < head->n; i++) norm[i] = INFINITY;
        status = LIPSC_OK;
    }
    lipsc_release(room);
    return status;
}
