/* test_batch.c - products of several inputs at once: each input gets, to the last bit, what
 * it gets alone, whatever stands beside it, in whatever order, on any number of threads. */
#include "attn/attn.h"
#include "backend/cpu/cpu.h"
#include "chosen.h"
#include "core/extreme.h"
#include "layers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h wants the above */
#include <cmocka.h>

enum { MOST = 7, VECTORS = 10 };

/* A layer with windows of several lengths out of one row of tokens. */
typedef struct {
    test_layer all;
    lipsc_packed *packed;
    size_t count;
    lipsc_input input[MOST];
} scene;

static scene new_scene(uint64_t seed, unsigned features, layer_sizes sizes) {
    stream s = {seed + 77, 0};
    scene c = {.all = random_layer_of(seed, features, sizes)};
    lipsc_error err = {0};
    if (lipsc_packed_new(&c.all.layer, 1, &c.packed, &err)) fail_msg("%s", err.text);
    c.count = draw(&s, 2, MOST);
    for (size_t i = 0; i < c.count; i++) {
        const lipsc_input *from = &c.all.input;
        const size_t n = i ? draw(&s, 1, from->n) : from->n, at = draw(&s, 0, from->n - n);
        c.input[i] = (lipsc_input){.n = n, .X = from->X + at * c.all.layer.d};
        if (from->times) c.input[i].times = from->times + at;
        if (from->positions && draw(&s, 0, 1)) c.input[i].positions = from->positions + at;
        if (from->weights && draw(&s, 0, 1)) c.input[i].weights = from->weights + at;
    }
    return c;
}

static void scene_free(scene *c) {
    lipsc_packed_free(c->packed);
    test_layer_free(&c->all);
}

static lipsc_attn *alone(const scene *c, size_t i, lipsc_dtype dtype) {
    lipsc_attn *attn;
    lipsc_error err = {0};
    if (lipsc_attn_at(c->packed, NULL, &c->input[i], dtype, lipsc_cpu_of(1), &attn, &err))
        fail_msg("%s", err.text);
    return attn;
}

static void open_batch(const scene *c, lipsc_dtype dtype, int threads, lipsc_attn **attn) {
    lipsc_error err = {0};
    if (lipsc_attn_batch_at(c->packed, NULL, c->count, c->input, dtype,
                            lipsc_cpu_of(threads), attn, &err))
        fail_msg("%s", err.text);
}

/* k random vectors for each handle, in one piece of memory with `gap` elements between. */
typedef struct {
    lipsc_product product[MOST];
    lipsc_buffer x, y;
} vectors;

static vectors new_vectors(const scene *c, lipsc_attn **attn, int trans, size_t parts,
                           const size_t *at, const size_t *k, size_t gap) {
    const lipsc_space *space = lipsc_space_host(attn[0]->dtype);
    vectors v;
    size_t from[MOST + 1] = {0}, to[MOST + 1] = {0};
    for (size_t p = 0; p < parts; p++) {
        const lipsc_linop op = lipsc_attn_linop(attn[at[p]]);
        from[p + 1] = from[p] + k[p] * (trans ? op.m : op.n) + gap;
        to[p + 1] = to[p] + k[p] * (trans ? op.n : op.m) + gap;
    }
    v.x = lipsc_space_alloc(space, from[parts] + 1);
    v.y = lipsc_space_alloc(space, to[parts] + 1);
    assert_true(v.x.at && v.y.at);
    assert_int_equal(lipsc_space_random(space, c->count + parts, 0, from[parts], v.x),
                     LIPSC_OK);
    for (size_t p = 0; p < parts; p++)
        v.product[p] =
            (lipsc_product){.of = attn[at[p]],
                            .k = k[p],
                            .x = lipsc_slice(space, v.x, from[p], from[p + 1] - from[p]),
                            .y = lipsc_slice(space, v.y, to[p], to[p + 1] - to[p])};
    return v;
}

/* One product of some of the handles against each alone, in bytes. */
static void same_bits(const scene *c, lipsc_attn **attn, int trans, stream *s) {
    size_t at[MOST], k[MOST], parts = 0;
    for (size_t i = 0; i < c->count; i++)
        if (draw(s, 0, 3))
            at[parts] = i, k[parts++] = draw(s, 0, 3) ? 1 : draw(s, 0, VECTORS);
    for (size_t p = parts; p-- > 1;) { /* in any order */
        const size_t q = draw(s, 0, p), swap = at[p];
        at[p] = at[q], at[q] = swap;
    }
    if (!parts) return;
    const lipsc_space *space = lipsc_space_host(attn[0]->dtype);
    vectors v = new_vectors(c, attn, trans, parts, at, k, draw(s, 0, 1));
    assert_int_equal(lipsc_attn_products(trans, parts, v.product), LIPSC_OK);
    for (size_t p = 0; p < parts; p++) {
        lipsc_attn *lone = alone(c, at[p], attn[0]->dtype);
        const lipsc_linop op = lipsc_attn_linop(lone);
        const size_t len = k[p] * (trans ? op.n : op.m);
        const lipsc_buffer y = lipsc_space_alloc(space, len + 1);
        assert_non_null(y.at);
        assert_int_equal(op.apply(op.ctx, trans, k[p], v.product[p].x, y), LIPSC_OK);
        assert_memory_equal(y.at, v.product[p].y.at, len * space->item);
        lipsc_space_release(space, y);
        lipsc_attn_free(lone);
    }
    lipsc_space_release(space, v.x);
    lipsc_space_release(space, v.y);
}

/* Values, gradients and the definition's products at each handle of a batch. */
static void same_handles(const scene *c, lipsc_attn **attn) {
    const int f32 = attn[0]->dtype == LIPSC_F32;
    for (size_t i = 0; i < c->count; i++) {
        lipsc_attn *lone = alone(c, i, attn[0]->dtype);
        const lipsc_op op = lipsc_attn_op(lone);
        double *v = random_vectors(i + 1, op.n), *u = random_vectors(i + 2, op.m);
        double *y[3], *g[2];
        for (int j = 0; j < 3; j++) assert_non_null(y[j] = malloc(op.m * sizeof(double)));
        for (int j = 0; j < 2; j++) assert_non_null(g[j] = malloc(op.n * sizeof(double)));
        assert_int_equal(lipsc_attn_output(lone, y[0]), LIPSC_OK);
        assert_int_equal(lipsc_attn_output(attn[i], y[1]), LIPSC_OK);
        assert_memory_equal(y[0], y[1], op.m * sizeof(double));
        assert_int_equal(lipsc_attn_gradient(lone, 1, u, v, g[0], NULL, NULL), LIPSC_OK);
        assert_int_equal(lipsc_attn_gradient(attn[i], 1, u, v, g[1], NULL, NULL), LIPSC_OK);
        assert_memory_equal(g[0], g[1], op.n * sizeof(double));
        assert_int_equal(lipsc_attn_apply(attn[i], 0, 1, v, y[1]), LIPSC_OK);
        lipsc_ref_apply(&lone->layer, &lone->input, 0, 1, v, y[2], NULL);
        const double error = vector_distance(op.m, y[1], y[2]),
                     size = vector_norm(op.m, y[2]) + vector_norm(op.n, v);
        if (!(error <= (f32 ? 2e-4 : 1e-12) * size)) fail_msg("input %zu: %.2e", i, error);
        for (int j = 0; j < 3; j++) free(y[j]);
        for (int j = 0; j < 2; j++) free(g[j]);
        free(v), free(u);
        lipsc_attn_free(lone);
    }
}

/* Gradients of all handles at once, one to three pairs each. */
static void same_gradients(const scene *c, lipsc_attn **attn, int weights) {
    lipsc_gradient_task *task = calloc(c->count, sizeof *task);
    assert_non_null(task);
    for (size_t i = 0; i < c->count; i++) {
        const lipsc_op op = lipsc_attn_op(attn[i]);
        const size_t k = 1 + i % 3;
        double *found = calloc(k * (op.n + attn[i]->input.n), sizeof *found);
        assert_non_null(found);
        task[i] =
            (lipsc_gradient_task){.attn = attn[i],
                                  .k = k,
                                  .u = random_vectors(i + 5, k * op.m),
                                  .v = random_vectors(i + 6, k * op.n),
                                  .grad = found,
                                  .grad_log_weight = weights ? found + k * op.n : NULL};
    }
    assert_int_equal(lipsc_attn_gradients(c->count, task), LIPSC_OK);
    for (size_t i = 0; i < c->count; i++) {
        lipsc_attn *lone = alone(c, i, attn[0]->dtype);
        const size_t k = task[i].k, in = lipsc_attn_op(lone).n, n = lone->input.n;
        double *found = calloc(k * (in + n), sizeof *found);
        assert_non_null(found);
        assert_int_equal(task[i].status, LIPSC_OK);
        assert_int_equal(lipsc_attn_gradient(lone, k, task[i].u, task[i].v, found,
                                             weights ? found + k * in : NULL, NULL),
                         LIPSC_OK);
        assert_memory_equal(found, task[i].grad, k * (in + n) * sizeof *found);
        free(found), free(task[i].grad);
        free((void *)(uintptr_t)task[i].u), free((void *)(uintptr_t)task[i].v);
        lipsc_attn_free(lone);
    }
    free(task);
}

static void check_sizes(uint64_t seed, unsigned features, layer_sizes sizes) {
    scene c = new_scene(seed, features, sizes);
    stream s = {seed + 99, 0};
    for (int dtype = LIPSC_F64; dtype <= LIPSC_F32; dtype++) {
        lipsc_attn *attn[MOST];
        open_batch(&c, (lipsc_dtype)dtype, (int)draw(&s, 1, 3), attn);
        for (int round = 0; round < 2; round++) {
            same_bits(&c, attn, 0, &s);
            same_bits(&c, attn, 1, &s);
        }
        same_handles(&c, attn);
        same_gradients(&c, attn, (int)(seed + (uint64_t)dtype) % 2);
        for (size_t i = 0; i < c.count; i++) lipsc_attn_free(attn[(i + seed) % c.count]);
    }
    scene_free(&c);
}

static void check(uint64_t seed, unsigned features, size_t longest) {
    check_sizes(seed, features, (layer_sizes){.n = longest});
}

static void test_each_feature(void **state) {
    (void)state;
    uint64_t seed = 1;
    for (unsigned f = 0; f <= ALL_FEATURES; f++, seed++) {
        const unsigned feature = f < ALL_FEATURES ? 1u << f : 0u;
        if (feature != FEATURE_SATURATED) check(seed, feature, 60);
    }
}

static void test_features_together(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        if (!chosen(seed)) continue;
        stream s = {seed + 4000, 0};
        const unsigned all = ((1u << ALL_FEATURES) - 1) & ~(unsigned)FEATURE_SATURATED;
        check(seed + 100, (unsigned)draw(&s, 0, all) & all, draw(&s, 1, 120));
    }
}

/* Several pieces of the parallel cut beside single tokens. */
static void test_long_beside_short(void **state) {
    (void)state;
    static const unsigned masks[] = {0, FEATURE_CAUSAL, FEATURE_SLIDING,
                                     FEATURE_TIMES | FEATURE_GROUPED};
    for (unsigned m = 0; m < 4; m++)
        if (chosen(m)) check(m + 500, masks[m], 900);
}

/* An input whose scores overflow is refused, and leaves nothing behind. */
static void test_overflow(void **state) {
    (void)state;
    scene c = new_scene(3, 0, (layer_sizes){.n = 10});
    double *X = random_vectors(4, c.input[1].n * c.all.layer.d);
    lipsc_attn *attn[MOST];
    lipsc_error err;
    for (size_t e = 0; e < c.input[1].n * c.all.layer.d; e++) X[e] *= 1e25;
    c.input[1].X = X;
    assert_int_equal(lipsc_attn_batch_at(c.packed, NULL, c.count, c.input, LIPSC_F32,
                                         lipsc_cpu_of(1), attn, &err),
                     LIPSC_E_NONFIN);
    assert_non_null(strstr(err.text, "overflow"));
    for (size_t i = 0; i < c.count; i++) assert_null(attn[i]);
    free(X);
    scene_free(&c);
}

/* Both sides of <u, J v> = <J^T u, v> beside the definition in double, where the products
 * of an input go the way that is expected.  2e-5: sums of at most 400 terms in f32. */
static void goes(uint64_t seed, unsigned features, layer_sizes sizes, lipsc_dtype dtype,
                 lipsc_cpu_way expected) {
    test_layer t = random_layer_of(seed, features, sizes);
    lipsc_attn *attn;
    assert_int_equal(
        lipsc_attn_new(&t.layer, &t.input, dtype, lipsc_cpu_of(1), &attn, NULL), LIPSC_OK);
    assert_int_equal(((const lipsc_cpu_member *)attn->state)->way, expected);
    const lipsc_op op = lipsc_attn_op(attn);
    double *v = random_vectors(seed, op.n), *u = random_vectors(seed + 1, op.m);
    double *y[2], *back[2];
    for (int j = 0; j < 2; j++) {
        assert_non_null(y[j] = malloc(op.m * sizeof(double)));
        assert_non_null(back[j] = malloc(op.n * sizeof(double)));
    }
    for (int trans = 0; trans < 2; trans++) {
        const double *x = trans ? u : v;
        double **to = trans ? back : y;
        const size_t len = trans ? op.n : op.m;
        assert_int_equal(lipsc_attn_apply(attn, trans, 1, x, to[0]), LIPSC_OK);
        assert_int_equal(lipsc_ref_apply(&t.layer, &t.input, trans, 1, x, to[1], NULL),
                         LIPSC_OK);
        const double size = vector_norm(len, to[1]) + vector_norm(trans ? op.m : op.n, x);
        assert_true(vector_distance(len, to[0], to[1]) <= 2e-5 * size);
    }
    for (int j = 0; j < 2; j++) free(y[j]), free(back[j]);
    free(u), free(v);
    lipsc_attn_free(attn);
    test_layer_free(&t);
}

/* Composed matrices: by length and mask, in f32, in layers without rotation, norm, cap and
 * sink. */
static void test_composed(void **state) {
    (void)state;
    static const unsigned with[] = {0,
                                    FEATURE_CAUSAL | FEATURE_BIASES,
                                    FEATURE_SLIDING | FEATURE_NO_OUTPUT,
                                    FEATURE_TIMES | FEATURE_WEIGHTS,
                                    FEATURE_GROUPED | FEATURE_ALIBI,
                                    FEATURE_A_FORM | FEATURE_BUCKETS,
                                    FEATURE_EQUAL_TOKENS | FEATURE_LOCAL,
                                    FEATURE_SATURATED};
    static const unsigned without[] = {FEATURE_ROTARY, FEATURE_QK_NORM, FEATURE_SOFT_CAP,
                                       FEATURE_SINKS, FEATURE_WHOLE_NORM};
    for (size_t f = 0; f < sizeof with / sizeof *with; f++) {
        for (size_t n = 1; n <= 3; n++)
            goes(600 + f, with[f], (layer_sizes){.n = n}, LIPSC_F32, LIPSC_CPU_COMPOSED);
        /* several panels and blocks of rows, which masks make shorter */
        goes(650 + f, with[f], (layer_sizes){.n = 29, .d = 56, .key_dim = 56}, LIPSC_F32,
             LIPSC_CPU_COMPOSED);
    }
    for (size_t f = 0; f < sizeof without / sizeof *without; f++)
        goes(700 + f, without[f], (layer_sizes){.n = 3, .d = 6}, LIPSC_F32,
             LIPSC_CPU_PLAIN); /* narrower than any panel */
    goes(800, 0, (layer_sizes){.n = 3}, LIPSC_F64, LIPSC_CPU_PLAIN);
    goes(801, 0, (layer_sizes){.n = 100}, LIPSC_F32, LIPSC_CPU_PLAIN);
    const layer_sizes sizes = {.n = 61, .key_dim = 56};
    goes(802, 0, sizes, LIPSC_F32, LIPSC_CPU_PLAIN); /* its probabilities are too many */
    goes(802, FEATURE_CAUSAL, sizes, LIPSC_F32, LIPSC_CPU_COMPOSED);
}

/* Kept probabilities: where n in whole panels is at most d / heads, in f32, without a cap;
 * 33 and 61 tokens are no whole panels, 5 of them one that is nearly empty. */
static void test_kept(void **state) {
    (void)state;
    static const unsigned with[] = {FEATURE_ROTARY,
                                    FEATURE_ROTARY | FEATURE_CAUSAL | FEATURE_BIASES,
                                    FEATURE_ROTARY | FEATURE_SLIDING | FEATURE_NO_OUTPUT,
                                    FEATURE_QK_NORM | FEATURE_TIMES | FEATURE_WEIGHTS,
                                    FEATURE_SINKS | FEATURE_GROUPED | FEATURE_ALIBI,
                                    FEATURE_SINKS | FEATURE_CAUSAL,
                                    FEATURE_WHOLE_NORM | FEATURE_GROUPED | FEATURE_BUCKETS,
                                    FEATURE_ROTARY | FEATURE_EQUAL_TOKENS | FEATURE_LOCAL,
                                    FEATURE_ROTARY | FEATURE_GROUPED | FEATURE_WEIGHTS};
    static const size_t lengths[] = {1, 5, 33, 61, 64};
    for (size_t f = 0; f < sizeof with / sizeof *with; f++) {
        const size_t heads = with[f] & FEATURE_GROUPED ? 4 : 2;
        const layer_sizes sizes = {
            .d = 65 * heads, .heads = heads, .key_dim = 7, .value_dim = 37};
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            layer_sizes z = sizes;
            z.n = lengths[i];
            goes(900 + f, with[f], z, LIPSC_F32, LIPSC_CPU_KEPT);
        }
        goes(900 + f, with[f], (layer_sizes){.n = 100, .d = 65 * heads, .heads = heads},
             LIPSC_F32, LIPSC_CPU_PLAIN);
    }
    const layer_sizes sizes = {.n = 61, .d = 140, .heads = 2, .key_dim = 56};
    goes(950, 0, sizes, LIPSC_F32, LIPSC_CPU_KEPT);
    goes(950, FEATURE_CAUSAL, sizes, LIPSC_F32, LIPSC_CPU_COMPOSED);
    goes(950, FEATURE_SOFT_CAP, sizes, LIPSC_F32, LIPSC_CPU_PLAIN);
    goes(950, 0, sizes, LIPSC_F64, LIPSC_CPU_PLAIN);
}

/* Inputs of a batch that go different ways. */
static void test_ways_together(void **state) {
    (void)state;
    static const unsigned features[] = {0, FEATURE_CAUSAL, FEATURE_ROTARY,
                                        FEATURE_SINKS | FEATURE_GROUPED, FEATURE_WEIGHTS};
    for (unsigned f = 0; f < 5; f++)
        check_sizes(f + 600, features[f],
                    (layer_sizes){.n = 110, .d = 260, .heads = 4, .key_dim = 9});
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_composed),          cmocka_unit_test(test_kept),
        cmocka_unit_test(test_ways_together),     cmocka_unit_test(test_each_feature),
        cmocka_unit_test(test_features_together), cmocka_unit_test(test_long_beside_short),
        cmocka_unit_test(test_overflow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
