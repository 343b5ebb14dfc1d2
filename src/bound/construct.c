/* construct.c - constructions in general: their settings and memory, and the value that
 * they reach. */
#include "bound/construct.h"

#include <math.h>
#include <string.h>

#include "attn/attn.h"
#include "core/error.h"
#include "core/mem.h"

/* ---- Which of them ------------------------------------------------------------------- */

static const struct {
    const char *name;
    int of_measures, on_spheres;
} kinds[] = {[LIPSC_CONSTRUCT_OUTLIER] = {"one-outlier", 0, 1},
             [LIPSC_CONSTRUCT_EIGENVECTOR] = {"eigenvector", 0, 0},
             [LIPSC_CONSTRUCT_ADAPTED] = {"n-adapted", 0, 0},
             [LIPSC_CONSTRUCT_TWO] = {"two-outliers", 0, 1},
             [LIPSC_CONSTRUCT_LINEAR] = {"linear-in-a", 0, 0},
             [LIPSC_CONSTRUCT_DIRACS] = {"two-diracs", 1, 0},
             [LIPSC_CONSTRUCT_SCALES] = {"every-scale", 1, 0}};

const char *lipsc_construction_name(lipsc_construction which) {
    return (size_t)which < sizeof kinds / sizeof *kinds ? kinds[which].name : NULL;
}

void lipsc_construct_defaults(lipsc_construct_settings *set) {
    *set = (lipsc_construct_settings){
        .radius = 1.0, .along = NAN, .fibres = 100, .growth = 1.5};
}

/* Scores must be (A x_i + c).x_j, and the mask one that constructions know. */
static lipsc_status check_layer(const lipsc_layer *layer, lipsc_error *err) {
    const char *why = lipsc_scores_turned(layer);
    if (!why && layer->bias_rule != LIPSC_BIAS_NONE) why = "a bias of the scores";
    if (!why && (layer->mask == LIPSC_MASK_SLIDING || layer->mask == LIPSC_MASK_LOCAL))
        why = "a sliding window";
    return why ? lipsc_fail(err, LIPSC_E_REFUSED, "%s", why) : LIPSC_OK;
}

static lipsc_status check_settings(const lipsc_layer *layer,
                                   const lipsc_construct_settings *set, lipsc_error *err) {
    enum { MOST_FIBRES = 1 << 20 };
    const char *name = lipsc_construction_name(set->which);
    if (!name)
        return lipsc_fail(err, LIPSC_E_ARG, "there is no construction %d", (int)set->which);
    if (set->head >= layer->heads)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "the layer has %zu heads, so there is no head %zu", layer->heads,
                          set->head);
    if (!(set->radius > 0.0) || !isfinite(set->radius))
        return lipsc_fail(err, LIPSC_E_ARG, "a radius of %g", set->radius);
    if (set->sphere && !kinds[set->which].on_spheres)
        return lipsc_fail(err, LIPSC_E_ARG, "%s is not made on spheres", name);
    if (set->which == LIPSC_CONSTRUCT_TWO && !isnan(set->along) &&
        !(set->along >= 0.0 && set->along < 1.0))
        return lipsc_fail(err, LIPSC_E_ARG, "%s: along %g is not in [0, 1)", name,
                          set->along);
    if (set->which == LIPSC_CONSTRUCT_SCALES &&
        (!set->fibres || set->fibres > MOST_FIBRES || !(set->growth > 0.0) ||
         !isfinite(set->growth)))
        return lipsc_fail(err, LIPSC_E_ARG, "%s: %zu cells that grow by %g", name,
                          set->fibres, set->growth);
    return LIPSC_OK;
}

/* Which masks, beyond check_layer. */
static lipsc_status check_mask(const lipsc_layer *layer,
                               const lipsc_construct_settings *set, lipsc_error *err) {
    const char *name = lipsc_construction_name(set->which);
    if (set->which == LIPSC_CONSTRUCT_SCALES)
        return layer->mask != LIPSC_MASK_NONE
                   ? LIPSC_OK
                   : lipsc_fail(err, LIPSC_E_REFUSED, "%s needs a mask by times", name);
    if (layer->mask == LIPSC_MASK_NONE) return LIPSC_OK;
    if (kinds[set->which].of_measures || layer->mask == LIPSC_MASK_TIMES || set->sphere)
        return lipsc_fail(err, LIPSC_E_REFUSED, "%s%s is stated without a mask", name,
                          set->sphere ? " on spheres" : "");
    return LIPSC_OK;
}

static lipsc_status construct(const lipsc_head_facts *f, const lipsc_construct_settings *s,
                              int causal, lipsc_worst *out, lipsc_error *err) {
    const double R = s->radius;
    lipsc_status status;
    switch (s->which) {
    case LIPSC_CONSTRUCT_OUTLIER:
        return lipsc_construct_outlier(f, R, s->n, causal, s->sphere, out, err);
    case LIPSC_CONSTRUCT_EIGENVECTOR:
        return lipsc_construct_eigenvector(f, R, s->n, s->backwards ? -1 : 1, causal, out,
                                           err);
    case LIPSC_CONSTRUCT_ADAPTED:
        return lipsc_construct_adapted(f, R, s->n, causal, out, err);
    case LIPSC_CONSTRUCT_TWO:
        status = lipsc_construct_two(f, R, s->n, s->along, s->sphere, out, err);
        if (!status && causal) out->log_promised = -INFINITY; /* stated without a mask */
        return status;
    case LIPSC_CONSTRUCT_LINEAR: /* the last token sees all, mask or not */
        return lipsc_construct_linear(f, R, s->n, out, err);
    case LIPSC_CONSTRUCT_DIRACS:
        return lipsc_construct_diracs(f, R, out, err);
    default:
        return lipsc_construct_scales(f, R, s->fibres, s->growth, out, err);
    }
}

lipsc_status lipsc_construct(const lipsc_layer *layer, const lipsc_construct_settings *set,
                             lipsc_worst *out, lipsc_error *err) {
    lipsc_layer resolved;
    lipsc_head_facts facts;
    lipsc_status status = lipsc_layer_check(layer, &resolved, err);
    if (!status) status = check_settings(&resolved, set, err);
    if (!status) status = check_layer(&resolved, err);
    if (!status) status = check_mask(&resolved, set, err);
    if (status) return status;
    status = lipsc_head_facts_make(&resolved, set->head, &facts);
    if (status)
        lipsc_fail(err, status, "%s", lipsc_strerror(status));
    else
        status = construct(&facts, set, resolved.mask == LIPSC_MASK_CAUSAL, out, err);
    lipsc_head_facts_free(&facts);
    return status;
}

/* ---- What they are ------------------------------------------------------------------ */

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

static lipsc_status solve(lipsc_attn *attn, const double *X, int sphere,
                          const lipsc_attn *asked, double *sigma) {
    enum { DENSE_ORDER = 160 };
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    set.max_products = 4000;
    set.stop = asked ? asked->stop : NULL;
    set.ctx = asked ? asked->stop_ctx : NULL;
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

/* One that is the caller's own may not be what it says. */
static lipsc_status check_worst(const lipsc_layer *layer, const lipsc_worst *worst,
                                lipsc_error *err) {
    double sum = 0.0;
    if (worst->d != layer->d || !worst->points)
        return lipsc_fail(err, LIPSC_E_ARG, "%zu points of width %zu, the layer's is %zu",
                          worst->points, worst->d, layer->d);
    if (!worst->times && (layer->mask == LIPSC_MASK_TIMES ||
                          (layer->mask == LIPSC_MASK_CAUSAL && !worst->n)))
        return lipsc_fail(err, LIPSC_E_REFUSED, "a mask by times, and points without them");
    for (size_t q = 0; q < worst->points; q++) {
        const double count = worst->count[q];
        if (!(count > 0.0) || (worst->n && count != floor(count)))
            return lipsc_fail(err, LIPSC_E_ARG, "point %zu stands for %g tokens", q, count);
        sum += count;
    }
    if (worst->n && sum != (double)worst->n)
        return lipsc_fail(err, LIPSC_E_ARG, "points for %.17g tokens, not %zu", sum,
                          worst->n);
    return LIPSC_OK;
}

lipsc_status lipsc_worst_reach(const lipsc_layer *layer, const lipsc_worst *worst,
                               const lipsc_device *device, double *sigma,
                               lipsc_error *err) {
    return lipsc_worst_reach_until(layer, worst, device, NULL, sigma, err);
}

lipsc_status lipsc_worst_reach_until(const lipsc_layer *layer, const lipsc_worst *worst,
                                     const lipsc_device *device, const lipsc_attn *asked,
                                     double *sigma, lipsc_error *err) {
    enum { WRITTEN_OUT = 20000 };
    const int causal = worst->n > 0 && layer->mask == LIPSC_MASK_CAUSAL;
    lipsc_status refused = check_layer(layer, err);
    if (!refused) refused = check_worst(layer, worst, err);
    if (refused) return refused;
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
    } else {
        input.n = as_atoms(worst, X, weight, time);
        input.weights = weight;
        input.times = worst->times ? time : NULL;
        masked.mask = worst->times ? LIPSC_MASK_TIMES : LIPSC_MASK_NONE;
    }
    lipsc_attn *attn = NULL;
    lipsc_status status = lipsc_attn_new(&masked, &input, LIPSC_F64, device, &attn, err);
    if (!status) {
        status = solve(attn, X, worst->sphere, asked, sigma);
        if (status) lipsc_fail(err, status, "%s", lipsc_strerror(status));
    }
    lipsc_attn_free(attn);
    lipsc_release(X);
    return status;
}
