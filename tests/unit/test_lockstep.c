/* test_lockstep.c - many solves side by side: each finds, to the last bit, what it finds
 * alone, whatever its neighbours do, and so does its evaluation in double; and LAPACK
 * agrees with it.  A solve by two threads is not for ever making them. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "attn/attn.h"
#include "core/extreme.h"
#include "layers.h"
#include "linalg/dense.h"
#include "svd/solver.h"
#include "value/value.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka.h wants the above */
#include <cmocka.h>

enum { MOST = 6, VALUES = 3 };

typedef struct {
    double sigma[VALUES];
    lipsc_buffer u, v;
    lipsc_svd_info info;
    lipsc_status status;
} found;

static void new_room(const lipsc_linop *op, found *f) {
    f->u = lipsc_space_alloc(op->space, VALUES * op->m);
    f->v = lipsc_space_alloc(op->space, VALUES * op->n);
    assert_true(f->u.at && f->v.at);
}

static void same(const lipsc_linop *op, size_t count, const found *a, const found *b) {
    assert_int_equal(a->status, b->status);
    assert_memory_equal(a->sigma, b->sigma, count * sizeof(double));
    assert_memory_equal(a->u.at, b->u.at, count * op->m * op->space->item);
    assert_memory_equal(a->v.at, b->v.at, count * op->n * op->space->item);
    assert_int_equal(a->info.products, b->info.products);
    assert_int_equal(a->info.restarts, b->info.restarts);
    assert_memory_equal(&a->info.residual, &b->info.residual, sizeof(double));
    assert_true(a->info.upper_prob == b->info.upper_prob ||
                (isnan(a->info.upper_prob) && isnan(b->info.upper_prob)));
}

/* The largest singular value of the definition, by LAPACK. */
static double lapack(const lipsc_attn *attn) {
    const lipsc_linop op = lipsc_attn_linop((lipsc_attn *)attn);
    const size_t least = op.m < op.n ? op.m : op.n;
    double *x = calloc(op.n * op.n, sizeof *x), *J = malloc(op.m * op.n * sizeof *J);
    double *s = malloc(least * sizeof *s);
    assert_true(x && J && s);
    for (size_t i = 0; i < op.n; i++) x[i * op.n + i] = 1.0;
    assert_int_equal(lipsc_ref_apply(&attn->layer, &attn->input, 0, op.n, x, J, NULL),
                     LIPSC_OK);
    assert_int_equal(lipsc_dense_svd(op.m, op.n, J, s, NULL, NULL), LIPSC_OK);
    const double largest = s[0];
    free(x), free(J), free(s);
    return largest;
}

static lipsc_svd_settings draw_settings(stream *s, uint64_t seed) {
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    set.seed = seed;
    set.count = draw(s, 1, VALUES);
    set.block = draw(s, 0, 2);
    if (draw(s, 0, 1)) set.basis = 8;                           /* restarts */
    if (!draw(s, 0, 3)) set.max_products = (long)draw(s, 3, 9); /* too few */
    return set;
}

static void check(uint64_t seed, unsigned features, lipsc_dtype dtype) {
    stream s = {seed + 31, 0};
    test_layer all = random_layer_of(seed, features, (layer_sizes){.n = draw(&s, 2, 14)});
    const lipsc_svd_settings set = draw_settings(&s, seed);
    const size_t count = draw(&s, 2, MOST);
    lipsc_input input[MOST];
    lipsc_packed *packed;
    lipsc_attn *attn[MOST];
    lipsc_linop op[MOST];
    lipsc_svd_task task[MOST];
    found together[MOST], alone;
    lipsc_error err = {0};
    for (size_t i = 0; i < count; i++) {
        input[i] = all.input;
        if (i) input[i].n = draw(&s, 1, all.input.n);
    }
    if (lipsc_packed_new(&all.layer, 1, &packed, &err) ||
        lipsc_attn_batch_at(packed, NULL, count, input, dtype, lipsc_cpu_of(2), attn, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < count; i++) {
        op[i] = lipsc_attn_linop(attn[i]);
        new_room(&op[i], &together[i]);
        task[i] = (lipsc_svd_task){.op = &op[i],
                                   .sigma = together[i].sigma,
                                   .u = together[i].u,
                                   .v = together[i].v,
                                   .info = &together[i].info};
    }
    lipsc_svd_batch(count, task, &set, lipsc_attn_products, (int)draw(&s, 1, 2));
    for (size_t i = 0; i < count; i++) {
        together[i].status = task[i].status;
        new_room(&op[i], &alone);
        alone.status =
            lipsc_svd_linop(&op[i], &set, alone.sigma, alone.u, alone.v, &alone.info);
        same(&op[i], set.count, &together[i], &alone);
        /* a residual of 1e-8 leaves at most that of the value, 1e-2 in f32 mostly its
         * square; what is not converged is a lower bound all the same */
        const double sigma = together[i].sigma[0], limit = lapack(attn[i]);
        const double slack = dtype == LIPSC_F32 ? 1e-4 : 1e-8;
        assert_true(sigma <= limit * (1.0 + slack) + 1e-12);
        if (together[i].status == LIPSC_OK)
            assert_true(sigma >=
                        limit * (1.0 - (dtype == LIPSC_F32 ? 1e-2 : 1e-8)) - 1e-12);
        lipsc_space_release(op[i].space, alone.u);
        lipsc_space_release(op[i].space, alone.v);
    }
    for (size_t i = 0; i < count; i++) {
        lipsc_space_release(op[i].space, together[i].u);
        lipsc_space_release(op[i].space, together[i].v);
        lipsc_attn_free(attn[i]);
    }
    lipsc_packed_free(packed);
    test_layer_free(&all);
}

static void test_random(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 600; seed++) {
        stream s = {seed + 900, 0};
        const unsigned all = ((1u << ALL_FEATURES) - 1) & ~(unsigned)FEATURE_SATURATED;
        const unsigned features = seed % 4 ? (unsigned)draw(&s, 0, all) & all : 0;
        check(seed, features, seed % 2 ? LIPSC_F64 : LIPSC_F32);
    }
}

/* Values, directions and enclosures of a batch and of a handle on its own. */
static void check_values(uint64_t seed, unsigned features, lipsc_dtype dtype) {
    stream s = {seed + 57, 0};
    test_layer all = random_layer_of(seed, features, (layer_sizes){.n = draw(&s, 2, 24)});
    const lipsc_svd_settings set = draw_settings(&s, seed);
    const size_t count = draw(&s, 2, MOST), room = VALUES * all.input.n;
    const size_t width = lipsc_layer_width(&all.layer), d = all.layer.d;
    lipsc_input input[MOST];
    lipsc_packed *packed;
    lipsc_attn *attn[MOST], *one;
    double sigma[MOST][VALUES], one_sigma[VALUES];
    lipsc_svd_info info[MOST], one_info;
    lipsc_sigma_task task[MOST];
    lipsc_error err = {0};
    for (size_t i = 0; i < count; i++) {
        input[i] = all.input;
        if (i) input[i].n = draw(&s, 1, all.input.n);
    }
    if (lipsc_packed_new(&all.layer, 1, &packed, &err) ||
        lipsc_attn_batch_at(packed, NULL, count, input, dtype, lipsc_cpu_of(2), attn, &err))
        fail_msg("%s", err.text);
    double *u = malloc(MOST * room * width * sizeof *u), *one_u = malloc(room * width * 8);
    double *v = malloc(MOST * room * d * sizeof *v), *one_v = malloc(room * d * 8);
    assert_true(u && v && one_u && one_v);
    for (size_t i = 0; i < count; i++)
        task[i] = (lipsc_sigma_task){.sigma = sigma[i],
                                     .u = u + i * room * width,
                                     .v = v + i * room * d,
                                     .info = &info[i]};
    assert_int_equal(lipsc_attn_sigmas(count, attn, &set, task), LIPSC_OK);
    for (size_t i = 0; i < count; i++) {
        const size_t values = set.count * input[i].n;
        assert_int_equal(
            lipsc_attn_at(packed, NULL, &input[i], dtype, lipsc_cpu_of(1), &one, &err),
            LIPSC_OK);
        assert_int_equal(lipsc_attn_sigma(one, &set, one_sigma, one_u, one_v, &one_info),
                         task[i].status);
        assert_memory_equal(sigma[i], one_sigma, set.count * sizeof(double));
        assert_memory_equal(task[i].u, one_u, values * width * sizeof(double));
        assert_memory_equal(task[i].v, one_v, values * d * sizeof(double));
        assert_memory_equal(&info[i].lower, &one_info.lower, sizeof(double));
        assert_memory_equal(&info[i].rounding, &one_info.rounding, sizeof(double));
        assert_true(info[i].upper_prob == one_info.upper_prob ||
                    (isnan(info[i].upper_prob) && isnan(one_info.upper_prob)));
        if (input[i].n <= 8) /* LAPACK's own rounding beside ours */
            assert_true(info[i].lower <= lapack(one) * (1.0 + 1e-12) + 1e-300);
        lipsc_attn_free(one);
    }
    for (size_t i = 0; i < count; i++) lipsc_attn_free(attn[i]);
    free(u), free(v), free(one_u), free(one_v);
    lipsc_packed_free(packed);
    test_layer_free(&all);
}

static void test_values(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        stream s = {seed + 1900, 0};
        const unsigned all = ((1u << ALL_FEATURES) - 1) & ~(unsigned)FEATURE_SATURATED;
        const unsigned features = seed % 4 ? (unsigned)draw(&s, 0, all) & all : 0;
        check_values(seed, features, seed % 2 ? LIPSC_F32 : LIPSC_F64);
    }
}

/* ---- Threads ------------------------------------------------------------------------- */

static atomic_int made;

/* In the place of the library's: OpenMP's threads are counted where they are made. */
__attribute__((visibility("default"))) int pthread_create(pthread_t *thread,
                                                          const pthread_attr_t *attr,
                                                          void *(*run)(void *), void *ctx) {
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    atomic_fetch_add(&made, 1);
    return real(thread, attr, run, ctx);
}

/* Long enough that vector sums are worth two threads. */
static void test_threads(void **state) {
    (void)state;
    test_layer all = random_layer_of(1, 0, (layer_sizes){.n = 64, .d = 768, .heads = 4});
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    lipsc_packed *packed;
    lipsc_attn *attn;
    lipsc_error err = {0};
    double sigma;
    if (lipsc_packed_new(&all.layer, 2, &packed, &err) ||
        lipsc_attn_at(packed, NULL, &all.input, LIPSC_F32, lipsc_cpu_of(2), &attn, &err))
        fail_msg("%s", err.text);
    int before = 0;
    for (int time = 0; time < 2; time++) { /* the first solve may make its threads */
        before = atomic_load(&made);
        const lipsc_status status = lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, NULL);
        assert_true(status == LIPSC_OK || status == LIPSC_E_NOCONV);
    }
    assert_true(before > 0);
    assert_int_equal(atomic_load(&made), before);
    lipsc_attn_free(attn);
    lipsc_packed_free(packed);
    test_layer_free(&all);
}

/* Settings that no solve can have are refused for all. */
static void test_refused(void **state) {
    (void)state;
    double sigma;
    lipsc_linop op = {.m = 0, .n = 1, .space = lipsc_space_host(LIPSC_F64)};
    lipsc_svd_settings set;
    lipsc_svd_defaults(&set);
    lipsc_svd_task task[2] = {{.op = &op, .sigma = &sigma}, {.op = &op, .sigma = &sigma}};
    lipsc_svd_batch(2, task, &set, NULL, 1);
    assert_int_equal(task[0].status, LIPSC_E_ARG);
    assert_int_equal(task[1].status, LIPSC_E_ARG);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
