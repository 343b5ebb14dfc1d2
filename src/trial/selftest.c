/* selftest.c - does this build compute correctly on this machine?
 *
 * Every check compares with an answer that the fast paths had no part in: known digits,
 * the definition in plain loops, the adjoint identity, central differences, LAPACK. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/extreme.h"
#include "core/mem.h"
#include "core/rng.h"
#include "core/vector.h"
#include "io/safetensors.h"
#include "lipscope/bound.h"
#include "lipscope/trial.h"
#include "trial/known.h"
#include "trial/sample.h"

typedef struct {
    void (*told)(void *ctx, const lipsc_trial *trial);
    void *ctx;
    size_t trials, failures;
} tally;

/* A NaN, which also stands for "could not be computed", fails. */
static void report(tally *t, const char *name, double error, double tolerance) {
    const lipsc_trial trial = {name, error, tolerance, error <= tolerance};
    t->trials++;
    t->failures += !trial.passed;
    if (t->told) t->told(t->ctx, &trial);
}

/* The larger error, and a NaN once there was one. */
static double worse(double a, double b) { return lipsc_max(a, b); }

/* |a - b| / |b| */
static double distance(size_t count, const double *a, const double *b) {
    double sum = 0.0;
    for (size_t i = 0; i < count; i++) sum += (a[i] - b[i]) * (a[i] - b[i]);
    return sqrt(sum) / lipsc_length(count, b);
}

static double solve(const lipsc_layer *layer, const lipsc_input *input, lipsc_dtype dtype,
                    int threads, lipsc_method method, double tol, lipsc_svd_info *info) {
    lipsc_svd_settings set;
    lipsc_attn *attn;
    double sigma = NAN;
    lipsc_svd_defaults(&set);
    set.method = method;
    set.tol = tol;
    if (method == LIPSC_POWER) set.max_products = 20000;
    lipsc_device *device;
    if (lipsc_device_open("cpu", threads, &device, NULL)) return NAN;
    if (lipsc_attn_new(layer, input, dtype, device, &attn, NULL)) {
        lipsc_device_close(device);
        return NAN;
    }
    if (lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, info)) sigma = NAN;
    lipsc_attn_free(attn);
    lipsc_device_close(device);
    return sigma;
}

/* ---- Known values ----------------------------------------------------------------- */

static void check_known(tally *t) {
    lipsc_svd_info info;
    for (int g = 0; g < LIPSC_KNOWN_COUNT; g++) {
        lipsc_known known;
        char name[64];
        lipsc_known_make(g, &known);
        const double f64 =
            solve(&known.layer, &known.input, LIPSC_F64, 0, LIPSC_LANCZOS, 0, &info);
        const double f32 =
            solve(&known.layer, &known.input, LIPSC_F32, 0, LIPSC_LANCZOS, 1e-4, &info);
        snprintf(name, sizeof name, "known value %s, f64", known.name);
        report(t, name, fabs(f64 / known.sigma - 1.0), 1e-10);
        snprintf(name, sizeof name, "known value %s, f32 solve", known.name);
        report(t, name, fabs(f32 / known.sigma - 1.0), 1e-5);
    }
}

/* ---- The operator ----------------------------------------------------------------- */

/* Layers of odd sizes that reach every path: remainders of tiles and register blocks,
 * grouped heads, biases, weights, each mask; the last has rows that lead by 40 and more. */
static const struct {
    const char *name;
    lipsc_sample_shape shape;
} cases[] = {
    {"no mask, grouped heads, biases",
     {.n = 131,
      .d = 52,
      .heads = 4,
      .kv_heads = 2,
      .key_dim = 13,
      .value_dim = 11,
      .out_dim = 37,
      .query_spread = 0.3,
      .output_spread = 0.2,
      .biases = 1,
      .seed = 11}},
    {"causal",
     {.n = 203,
      .d = 40,
      .heads = 2,
      .kv_heads = 2,
      .key_dim = 20,
      .value_dim = 20,
      .out_dim = 40,
      .query_spread = 0.3,
      .output_spread = 0.2,
      .biases = 1,
      .mask = LIPSC_MASK_CAUSAL,
      .seed = 12}},
    {"sliding window, heads only",
     {.n = 150,
      .d = 24,
      .heads = 3,
      .kv_heads = 1,
      .key_dim = 8,
      .value_dim = 9,
      .query_spread = 0.4,
      .mask = LIPSC_MASK_SLIDING,
      .window = 17,
      .seed = 13}},
    {"times, weights",
     {.n = 77,
      .d = 18,
      .heads = 2,
      .kv_heads = 2,
      .key_dim = 6,
      .value_dim = 7,
      .out_dim = 18,
      .query_spread = 0.4,
      .output_spread = 0.3,
      .weights = 1,
      .mask = LIPSC_MASK_TIMES,
      .seed = 14}},
    {"saturated rows",
     {.n = 96,
      .d = 32,
      .heads = 2,
      .kv_heads = 2,
      .key_dim = 16,
      .value_dim = 16,
      .out_dim = 32,
      .query_spread = 1.5,
      .output_spread = 0.2,
      .seed = 15}},
};
enum { CASES = sizeof cases / sizeof *cases };

/* Vectors of one case; in = n d, out = n width. */
typedef struct {
    size_t in, out;
    double *v, *jv, *jv_ref, *w, *jtw, *jtw_ref, *moved, *f_plus, *f_minus;
    double *storage;
} vectors;

static int vectors_new(const lipsc_sample *s, vectors *x) {
    const size_t in = s->input.n * s->layer.d;
    const size_t out = s->input.n * lipsc_layer_width(&s->layer);
    double *p = lipsc_alloc_zero(4 * in + 5 * out, sizeof *p);
    *x = (vectors){.in = in, .out = out, .storage = p};
    if (!p) return -1;
    x->v = p;
    x->jtw = p + in;
    x->jtw_ref = p + 2 * in;
    x->moved = p + 3 * in;
    p += 4 * in;
    x->w = p;
    x->jv = p + out;
    x->jv_ref = p + 2 * out;
    x->f_plus = p + 3 * out;
    x->f_minus = p + 4 * out;
    for (size_t i = 0; i < in; i++) x->v[i] = lipsc_rng_normal(21, i);
    for (size_t i = 0; i < out; i++) x->w[i] = lipsc_rng_normal(22, i);
    return 0;
}

/* (f(X + h D) - f(X - h D)) / 2h by the definition of f; with weights the direction and
 * the result are scaled as D^{1/2} J D^{-1/2} asks. */
static lipsc_status central_difference(const lipsc_sample *s, vectors *x, double *out) {
    /* Truncation falls with step^2, rounding grows with 1/step.  On the saturated case
     * the former is 7e-7 at 1e-5 and 7e-9 here; rounding stays below 1e-9. */
    const double step = 1e-6;
    const size_t d = s->layer.d, width = lipsc_layer_width(&s->layer);
    const double *a = s->input.weights;
    lipsc_input moved = s->input;
    moved.X = x->moved;
    for (int side = 0; side < 2; side++) {
        for (size_t i = 0; i < x->in; i++)
            x->moved[i] = s->input.X[i] +
                          (side ? -step : step) * x->v[i] / (a ? sqrt(a[i / d]) : 1.0);
        const lipsc_status status =
            lipsc_ref_output(&s->layer, &moved, side ? x->f_minus : x->f_plus, NULL);
        if (status) return status;
    }
    for (size_t i = 0; i < x->out; i++)
        out[i] =
            (x->f_plus[i] - x->f_minus[i]) / (2 * step) * (a ? sqrt(a[i / width]) : 1.0);
    return LIPSC_OK;
}

typedef struct {
    double definition, adjoint, difference;
} operator_errors;

static operator_errors operator_case(const lipsc_sample *s, vectors *x, lipsc_dtype dtype) {
    operator_errors e = {NAN, NAN, NAN};
    lipsc_attn *attn;
    if (lipsc_attn_new(&s->layer, &s->input, dtype, NULL, &attn, NULL)) return e;
    if (!lipsc_attn_apply(attn, 0, 1, x->v, x->jv) &&
        !lipsc_attn_apply(attn, 1, 1, x->w, x->jtw) &&
        !lipsc_ref_apply(&s->layer, &s->input, 0, 1, x->v, x->jv_ref, NULL) &&
        !lipsc_ref_apply(&s->layer, &s->input, 1, 1, x->w, x->jtw_ref, NULL)) {
        e.definition =
            worse(distance(x->out, x->jv, x->jv_ref), distance(x->in, x->jtw, x->jtw_ref));
        e.adjoint = fabs(lipsc_dot(x->out, x->jv, x->w) - lipsc_dot(x->in, x->v, x->jtw)) /
                    (lipsc_length(x->out, x->jv) * lipsc_length(x->out, x->w));
        if (!central_difference(s, x, x->jv_ref))
            e.difference = distance(x->out, x->jv, x->jv_ref);
    }
    lipsc_attn_free(attn);
    return e;
}

static void check_operator(tally *t) {
    for (int dtype = LIPSC_F64; dtype <= LIPSC_F32; dtype++)
        for (size_t c = 0; c < CASES; c++) {
            lipsc_sample s = lipsc_sample_new(&cases[c].shape);
            vectors x = {0};
            operator_errors e = {NAN, NAN, NAN};
            char name[96];
            if (s.storage && !vectors_new(&s, &x))
                e = operator_case(&s, &x, (lipsc_dtype)dtype);
            const char *type = lipsc_dtype_name((lipsc_dtype)dtype);
            const int f32 = dtype == LIPSC_F32;
            /* A score s carries a rounding error of 6e-8 |s| in f32, and its exponential
             * the same relative one: 2e-5 for the scores near 300 of the last case. */
            const double loose = f32 && c == CASES - 1 ? 10.0 : 1.0;
            snprintf(name, sizeof name, "definition, %s, %s", type, cases[c].name);
            report(t, name, e.definition, (f32 ? 1e-5 : 1e-12) * loose);
            snprintf(name, sizeof name, "adjoint, %s, %s", type, cases[c].name);
            report(t, name, e.adjoint, f32 ? 1e-5 : 1e-13);
            snprintf(name, sizeof name, "differences, %s, %s", type, cases[c].name);
            report(t, name, e.difference, f32 ? 1e-5 * loose : 1e-7);
            lipsc_release(x.storage);
            lipsc_sample_free(&s);
        }
}

/* ---- The solver ------------------------------------------------------------------- */

static void check_solver(tally *t) {
    double lanczos = 0.0, power = 0.0, single = 0.0, above = 0.0;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        const lipsc_sample_shape shape = {.n = 8 + seed,
                                          .d = 6,
                                          .heads = 2,
                                          .kv_heads = seed % 2 + 1,
                                          .key_dim = 4,
                                          .value_dim = 3,
                                          .out_dim = seed % 3 ? 7 : 0,
                                          .query_spread = 0.6,
                                          .output_spread = 0.5,
                                          .biases = 1,
                                          .weights = seed % 3 == 1,
                                          .mask = (lipsc_mask)(seed % 4),
                                          .window = 3,
                                          .seed = seed};
        lipsc_svd_info info;
        lipsc_upper upper = {.value = NAN};
        lipsc_attn *attn = NULL;
        lipsc_sample s = lipsc_sample_new(&shape);
        const double exact = solve(&s.layer, &s.input, LIPSC_F64, 1, LIPSC_DENSE, 0, &info);
        lanczos = worse(
            lanczos,
            fabs(solve(&s.layer, &s.input, LIPSC_F64, 0, LIPSC_LANCZOS, 0, &info) / exact -
                 1.0));
        above = worse(above, exact / info.upper_prob - 1.0);
        power = worse(
            power,
            fabs(solve(&s.layer, &s.input, LIPSC_F64, 0, LIPSC_POWER, 1e-6, &info) / exact -
                 1.0));
        single =
            worse(single,
                  fabs(solve(&s.layer, &s.input, LIPSC_F32, 0, LIPSC_LANCZOS, 1e-4, &info) /
                           exact -
                       1.0));
        if (!lipsc_attn_new(&s.layer, &s.input, LIPSC_F64, NULL, &attn, NULL) &&
            lipsc_attn_upper(attn, &upper, NULL))
            upper.value = NAN;
        above = worse(above, exact / upper.value - 1.0);
        lipsc_attn_free(attn);
        lipsc_sample_free(&s);
    }
    report(t, "Lanczos against LAPACK's SVD, f64", lanczos, 1e-9);
    report(t, "Lanczos against LAPACK's SVD, f32 solve", single, 1e-5);
    report(t, "power iteration against LAPACK's SVD", power, 1e-9);
    report(t, "exact value above a bound by", above, 0.0);
}

static void check_threads(tally *t) {
    const lipsc_sample_shape shape = {.n = 120,
                                      .d = 96,
                                      .heads = 4,
                                      .kv_heads = 4,
                                      .key_dim = 24,
                                      .value_dim = 24,
                                      .out_dim = 96,
                                      .query_spread = 0.2,
                                      .output_spread = 0.1,
                                      .mask = LIPSC_MASK_CAUSAL,
                                      .seed = 31};
    lipsc_svd_info info;
    lipsc_sample s = lipsc_sample_new(&shape);
    for (int dtype = LIPSC_F64; dtype <= LIPSC_F32; dtype++) {
        char name[64];
        const double one =
            solve(&s.layer, &s.input, (lipsc_dtype)dtype, 1, LIPSC_LANCZOS, 0, &info);
        const double two =
            solve(&s.layer, &s.input, (lipsc_dtype)dtype, 2, LIPSC_LANCZOS, 0, &info);
        snprintf(name, sizeof name, "1 and 2 threads, %s",
                 lipsc_dtype_name((lipsc_dtype)dtype));
        report(t, name, fabs(one - two), 0.0);
    }
    lipsc_sample_free(&s);
}

/* ---- Files ------------------------------------------------------------------------ */

/* A safetensors file of one F64 tensor, put together by hand, and the same cut short. */
static void check_reader(tally *t) {
    static const char header[] =
        "{\"__metadata__\":{\"kind\":\"selftest\"},"
        "\"X\":{\"dtype\":\"F64\",\"shape\":[2,3],\"data_offsets\":[0,48]}} ";
    const double numbers[6] = {1.0, -0.5, 1e300, 5e-324, 0.1, -3.0};
    const size_t length = sizeof header - 1;
    uint8_t bytes[8 + sizeof header + sizeof numbers] = {0};
    double back[6], error = NAN;
    for (int b = 0; b < 8; b++) bytes[b] = (uint8_t)(length >> (8 * b));
    memcpy(bytes + 8, header, length);
    for (size_t i = 0; i < 6; i++) {
        uint64_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        for (int b = 0; b < 8; b++)
            bytes[8 + length + 8 * i + (size_t)b] = (uint8_t)(bits >> (8 * b));
    }
    lipsc_st *st = NULL;
    const size_t whole = 8 + length + sizeof numbers;
    if (!lipsc_st_parse(bytes, whole, "selftest", &st, NULL)) {
        const lipsc_st_tensor *x = lipsc_st_find(st, "X");
        if (x && x->count == 6 && !lipsc_st_read_f64(st, x, 0, 6, back, NULL)) {
            error = 0.0;
            for (int i = 0; i < 6; i++) error = worse(error, fabs(back[i] - numbers[i]));
        }
    }
    lipsc_st_free(st);
    report(t, "safetensors reader", error, 0.0);
    st = NULL;
    error = lipsc_st_parse(bytes, whole - 1, "selftest", &st, NULL) ? 0.0 : NAN;
    lipsc_st_free(st);
    report(t, "safetensors reader refuses a truncated file", error, 0.0);
}

/* ---- Together --------------------------------------------------------------------- */

size_t lipsc_selftest(void (*told)(void *ctx, const lipsc_trial *trial), void *ctx,
                      size_t *trials) {
    tally t = {.told = told, .ctx = ctx};
    check_known(&t);
    check_operator(&t);
    check_solver(&t);
    check_threads(&t);
    check_reader(&t);
    if (trials) *trials = t.trials;
    return t.failures;
}
