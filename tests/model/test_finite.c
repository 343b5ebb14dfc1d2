/* test_finite.c - what `perturb` says of the map attention, judged by its definition in
 * long double, written apart from the library: f(X') - f(X) is computed anew from the
 * weights and the two inputs, the derivative by central differences, sigma by LAPACK from
 * those. */
#include "core/extreme.h"
#include "core/rng.h"
#include "fixture.h"
#include "linalg/dense.h"
#include "lipscope/perturb.h"
#include "unit/longdouble.h"

enum { N = 6 };

/* One step of one layer, by the definition alone. */
typedef struct {
    lipsc_layer layer;
    double *from, *step; /* (N, d) each */
} question;

static double norm_of(size_t count, const double *x) {
    long double sum = 0.0L;
    for (size_t e = 0; e < count; e++) sum += (long double)x[e] * (long double)x[e];
    return (double)sqrtl(sum);
}

/* |f(X + step) - f(X)| / |step| */
static double finite_ratio(const question *q) {
    const size_t out = N * lipsc_layer_width(&q->layer), in = N * q->layer.d;
    const lipsc_input at = {.n = N, .X = q->from};
    longdouble_point p = {&q->layer, &at, q->step, 0.0L};
    long double *before = malloc(2 * out * sizeof *before), *after = before + out,
                sum = 0.0L;
    assert_non_null(before);
    longdouble_output(&p, before);
    p.step = 1.0L;
    longdouble_output(&p, after);
    for (size_t e = 0; e < out; e++) {
        const long double by = after[e] - before[e];
        sum += by * by;
    }
    free(before);
    return (double)sqrtl(sum) / norm_of(in, q->step);
}

/* |J step| / |step| by central differences of f: at this size of the difference the third
 * derivative adds about 1e-10, rounding 1e-13. */
static const long double small = 1e-5L;

static double predicted_ratio(const question *q) {
    const size_t in = N * q->layer.d, out = N * lipsc_layer_width(&q->layer);
    const lipsc_input at = {.n = N, .X = q->from};
    double *y = malloc(out * sizeof *y);
    assert_non_null(y);
    longdouble_jvp(&q->layer, &at, small * norm_of(in, q->from) / norm_of(in, q->step),
                   q->step, y);
    const double ratio = norm_of(out, y) / norm_of(in, q->step);
    free(y);
    return ratio;
}

/* The largest singular value of the whole Jacobian at the far end of the step. */
static double sigma_there(const question *q) {
    const size_t in = N * q->layer.d, out = N * lipsc_layer_width(&q->layer);
    double *there = malloc((2 * in + in * out) * sizeof *there), *unit = there + in,
           *jacobian = unit + in, sigma = NAN;
    assert_non_null(there);
    for (size_t e = 0; e < in; e++) {
        there[e] = q->from[e] + q->step[e];
        unit[e] = 0.0;
    }
    const lipsc_input at = {.n = N, .X = there};
    for (size_t e = 0; e < in; e++) {
        unit[e] = 1.0;
        longdouble_jvp(&q->layer, &at, small * norm_of(in, there), unit,
                       jacobian + e * out);
        unit[e] = 0.0;
    }
    assert_int_equal(lipsc_dense_norm(out, in, jacobian, &sigma), LIPSC_OK);
    free(there);
    return sigma;
}

/* Where the change leads: of a swap the window with the other token, of noise the draw that
 * `perturb` makes. */
static void find_step(lipsc_model *model, const uint32_t *ids, const lipsc_perturbed *r,
                      size_t which, double noise, question *q) {
    const size_t length = N * q->layer.d;
    if (r->change == LIPSC_CHANGE_NOISE) {
        for (size_t e = 0; e < length; e++)
            q->step[e] = lipsc_rng_normal(1 + 1000003u * (r->layer + 1) + which, e);
        const double size = noise * norm_of(length, q->from) / norm_of(length, q->step);
        for (size_t e = 0; e < length; e++)
            q->step[e] = q->from[e] + size * q->step[e] - q->from[e];
        return;
    }
    uint32_t other[N];
    lipsc_acts *acts;
    memcpy(other, ids, sizeof other);
    other[r->token] = r->to;
    assert_int_equal(lipsc_acts_new(model, LIPSC_F64, NULL, N, other, 0, &acts, NULL), 0);
    for (size_t e = 0; e < length; e++)
        q->step[e] = lipsc_acts_attention_input(acts, r->layer)[e] - q->from[e];
    lipsc_acts_free(acts);
}

static size_t judged, bounded, small_steps;

/* The numbers of a row, and both promises by the judge's numbers alone. */
static void judge(const char *name, const lipsc_perturbed *r, const question *q,
                  int dense) {
    const double ratio = finite_ratio(q), predicted = predicted_ratio(q);
    /* a difference of outputs in double loses what the step is smaller than the input */
    const double loss = 1e-12 / lipsc_min(1.0, r->step);
    if (!(fabs(r->ratio - ratio) <= loss * ratio))
        fail_msg("%s: layer %zu: ratio %.15g, by the definition %.15g", name, r->layer,
                 r->ratio, ratio);
    if (!(fabs(r->first - predicted) <= 1e-8 * predicted))
        fail_msg("%s: layer %zu: predicted %.15g, by differences %.15g", name, r->layer,
                 r->first, predicted);
    judged++;
    if (!isnan(r->upper)) {
        bounded++;
        if (!(ratio <= r->upper))
            fail_msg("%s: layer %zu: ratio %g above %g", name, r->layer, ratio, r->upper);
        if (dense && !(sigma_there(q) <= r->upper))
            fail_msg("%s: layer %zu: sigma at the end of the step above %g", name, r->layer,
                     r->upper);
    }
    if (r->step <= 1.001e-3) {
        small_steps++;
        if (!(fabs(ratio - predicted) <= 0.05 * ratio))
            fail_msg("%s: layer %zu: ratio %g, predicted %g", name, r->layer, ratio,
                     predicted);
    }
}

/* Every change of the first `layers` layers of a model; dense: with the whole Jacobian. */
static void judge_model(const char *name, lipsc_model *model, size_t layers, int dense) {
    static const size_t which[] = {0, 1, 2};
    static const double noise[] = {1e-3, 1e-2, 1e-1};
    const lipsc_model_info *info = lipsc_model_describe(model);
    uint32_t ids[N];
    lipsc_perturb_settings set;
    lipsc_perturbation_rows rows;
    lipsc_acts *acts;
    lipsc_error err = {0};
    for (size_t i = 0; i < N; i++) ids[i] = (uint32_t)((5 + 11 * i) % info->vocab);
    lipsc_perturb_defaults(&set);
    set.layers = which;
    set.layer_count = info->layers < layers ? info->layers : layers;
    set.tokens = 2;
    set.neighbours = 1;
    set.noise = noise;
    set.whole = 0;
    if (lipsc_perturb(model, N, ids, &set, &rows, &err)) fail_msg("%s: %s", name, err.text);
    assert_int_equal(lipsc_acts_new(model, LIPSC_F64, NULL, N, ids, 0, &acts, NULL), 0);
    double *room = malloc(2 * N * info->d * sizeof *room);
    assert_non_null(room);
    question q = {.from = room, .step = room + N * info->d};
    for (size_t i = 0, draw = 0; i < rows.count; i++) {
        const lipsc_perturbed *r = &rows.at[i];
        draw = r->change == LIPSC_CHANGE_NOISE && i &&
                       rows.at[i - 1].change == LIPSC_CHANGE_NOISE
                   ? draw + 1
                   : 0;
        if (!(r->step > 0)) continue; /* another length, or it does not reach this layer */
        if (lipsc_model_layer(model, r->layer, -1, LIPSC_MAP_ATTENTION, NULL, &q.layer,
                              &err))
            fail_msg("%s: %s", name, err.text);
        memcpy(q.from, lipsc_acts_attention_input(acts, r->layer),
               N * info->d * sizeof *q.from);
        find_step(model, ids, r, draw, noise[draw], &q);
        judge(name, r, &q, dense && i == 0);
    }
    free(room);
    lipsc_acts_free(acts);
    lipsc_perturbation_free(&rows);
}

static void test_built_in(void **state) {
    (void)state;
    lipsc_model *model;
    lipsc_error err = {0};
    if (lipsc_model_open(LIPSC_DATA_DIR "/gpt2-nano", 1, &model, &err))
        fail_msg("%s", err.text);
    judge_model("gpt2-nano", model, 2, 0);
    lipsc_model_free(model);
}

/* Masks, rotations, norms of heads, caps, biases, encoders. */
static void test_families(void **state) {
    (void)state;
    static const char *const names[] = {"gpt2-1",  "llama-1", "bert-1",  "gemma2-1",
                                        "qwen3-1", "bloom-1", "olmo2-1", "gpt_oss-1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fixture f;
        fixture_open(&f, names[i]);
        judge_model(names[i], f.model, 3, 1);
        fixture_close(&f);
    }
    print_message("%zu changes, %zu with a bound, %zu of at most 1e-3\n", judged, bounded,
                  small_steps);
    assert_true(judged > 80 && bounded > 40 && small_steps > 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_built_in),
                                       cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
