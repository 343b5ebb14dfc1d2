/* construct.c - constructions in general: their memory, and the value that they reach. */
#include "bound/construct.h"

#include <math.h>
#include <string.h>

#include "attn/attn.h"
#include "core/error.h"
#include "core/mem.h"

void lipsc_worst_free(lipsc_worst *worst) {
    lipsc_release(worst->X);
    lipsc_release(worst->count);
    lipsc_release(worst->times);
    memset(worst, 0, sizeof *worst);
}

lipsc_status lipsc_worst_tokens(const lipsc_worst *worst, double *X) {
    size_t i = 0;
    if (worst->n == 0) return LIPSC_E_ARG;
    for (size_t q = 0; q < worst->points; q++)
        for (size_t copy = 0; copy < (size_t)worst->count[q]; copy++, i++)
            memcpy(X + i * worst->d, worst->X + q * worst->d, worst->d * sizeof *X);
    return LIPSC_OK;
}

/* J restricted to moves along the spheres: J blockdiag(I - x x^T / |x|^2). */
typedef struct {
    lipsc_op jacobian;
    const double *X;
    size_t n, d;
    double *room; /* (n d) */
} tangent_op;

static void to_tangent(const tangent_op *t, const double *x, double *y) {
    for (size_t i = 0; i < t->n; i++) {
        const double *token = t->X + i * t->d;
        double along = 0.0, square = 0.0;
        for (size_t c = 0; c < t->d; c++) {
            along += token[c] * x[i * t->d + c];
            square += token[c] * token[c];
        }
        const double factor = square > 0.0 ? along / square : 0.0;
        for (size_t c = 0; c < t->d; c++)
            y[i * t->d + c] = x[i * t->d + c] - factor * token[c];
    }
}

static int apply_tangent(void *ctx, int trans, size_t k, const double *x, double *y) {
    tangent_op *t = ctx;
    const size_t in = t->n * t->d, out = t->jacobian.m;
    for (size_t v = 0; v < k; v++) {
        int failed;
        if (!trans) {
            to_tangent(t, x + v * in, t->room);
            failed = t->jacobian.apply(t->jacobian.ctx, 0, 1, t->room, y + v * out);
        } else {
            failed = t->jacobian.apply(t->jacobian.ctx, 1, 1, x + v * out, t->room);
            to_tangent(t, t->room, y + v * in);
        }
        if (failed) return failed;
    }
    return 0;
}

static lipsc_status solve(lipsc_attn *attn, const double *X, int sphere, double *sigma) {
    enum { DENSE_ORDER = 160 };
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    set.max_products = 4000;
    set.tol = 1e-7; /* the value's error is about the square of that */
    const lipsc_op op = lipsc_attn_op(attn);
    if (op.m <= DENSE_ORDER && op.n <= DENSE_ORDER) set.method = LIPSC_DENSE;
    lipsc_status status;
    if (sphere) {
        tangent_op t = {op, X, attn->input.n, attn->layer.d, NULL};
        t.room = lipsc_alloc(op.n, sizeof *t.room);
        if (!t.room) return LIPSC_E_NOMEM;
        const lipsc_op tangent = {op.m, op.n, apply_tangent, &t};
        status = lipsc_svd(&tangent, &set, sigma, NULL, NULL, &info);
        lipsc_release(t.room);
    } else {
        status = lipsc_attn_sigma(attn, &set, sigma, NULL, NULL, &info);
    }
    return status == LIPSC_E_NOCONV ? LIPSC_OK : status; /* a lower bound all the same */
}

/* n equal tokens on few points are a measure with the counts as weights, except that equal
 * tokens may move apart.  Splitting an atom in two halves gives just that (docs/maths.md
 * 2): every cluster of more than one token stands here twice. */
static size_t as_atoms(const lipsc_worst *worst, double *X, double *weight, double *time) {
    size_t atoms = 0;
    for (size_t q = 0; q < worst->points; q++) {
        const int halves = worst->n > 0 && worst->count[q] > 1.0 ? 2 : 1;
        for (int half = 0; half < halves; half++, atoms++) {
            memcpy(X + atoms * worst->d, worst->X + q * worst->d, worst->d * sizeof *X);
            weight[atoms] = worst->count[q] / halves;
            if (worst->times) time[atoms] = worst->times[q];
        }
    }
    return atoms;
}

lipsc_status lipsc_worst_reach(const lipsc_layer *layer, const lipsc_worst *worst,
                               int causal, int threads, double *sigma, lipsc_error *err) {
    enum { WRITTEN_OUT = 20000 };
    if (causal && worst->n > WRITTEN_OUT)
        return lipsc_fail(err, LIPSC_E_REFUSED,
                          "%zu tokens under a causal mask are too many to write out",
                          worst->n);
    const size_t room = causal ? worst->n : 2 * worst->points;
    lipsc_layer masked = *layer;
    lipsc_input input = {0};
    size_t numbers;
    if (!lipsc_mul_size(room, worst->d + 2, &numbers))
        return lipsc_fail(err, LIPSC_E_RANGE, "%s", lipsc_strerror(LIPSC_E_RANGE));
    double *X = lipsc_alloc(numbers, sizeof *X);
    if (!X) return lipsc_fail(err, LIPSC_E_NOMEM, "%s", lipsc_strerror(LIPSC_E_NOMEM));
    double *weight = X + room * worst->d, *time = weight + room;
    input.X = X;
    if (causal) {
        lipsc_worst_tokens(worst, X);
        input.n = worst->n;
        masked.mask = LIPSC_MASK_CAUSAL;
    } else {
        input.n = as_atoms(worst, X, weight, time);
        input.weights = weight;
        input.times = worst->times ? time : NULL;
        masked.mask = worst->times ? LIPSC_MASK_TIMES : LIPSC_MASK_NONE;
    }
    lipsc_attn *attn = NULL;
    lipsc_status status =
        lipsc_attn_new(&masked, &input, LIPSC_F64, lipsc_cpu_of(threads), &attn, err);
    if (!status) {
        status = solve(attn, X, worst->sphere, sigma);
        if (status) lipsc_fail(err, status, "%s", lipsc_strerror(status));
    }
    lipsc_attn_free(attn);
    lipsc_release(X);
    return status;
}
