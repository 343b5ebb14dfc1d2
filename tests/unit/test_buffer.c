/* test_buffer.c - every operation refuses memory of another device, of another type and
 * shorter than it will go, on the CPU and on the guard; slices never reach beyond. */
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "backend/backend.h"
#include "core/extreme.h"
#include "layers.h"
#include "lipscope.h"

enum { MOST = 8 };

/* A device, and one with other memory. */
typedef struct {
    lipsc_device *own, *other;
} pair;

static lipsc_device *open_one(const char *name) {
    lipsc_device *device;
    lipsc_error err;
    if (lipsc_device_open(name, 2, &device, &err)) fail_msg("%s", err.text);
    return device;
}

/* One operation with its buffers: count of them, each with so many numbers. */
typedef struct {
    const lipsc_device *device;
    lipsc_dtype type;
    const void *ctx;
    size_t count, length[MOST];
    lipsc_status (*make)(const void *ctx, const lipsc_device *device,
                         const lipsc_buffer *b);
} operation;

static lipsc_buffer ones(const lipsc_space *space, size_t count) {
    const lipsc_buffer b = lipsc_space_alloc(space, count);
    double *host = malloc(count * sizeof *host);
    assert_true(b.at && host);
    for (size_t i = 0; i < count; i++) host[i] = 1.0;
    assert_int_equal(lipsc_space_upload(space, count, host, b), LIPSC_OK);
    free(host);
    return b;
}

/* The operation is made with its own buffers, and with none that is not: each in turn is of
 * the other device, of the other type, one number short, and cut beyond its end. */
static void refuses(const operation *of, const lipsc_device *other) {
    const lipsc_space *space = lipsc_device_space(of->device, of->type);
    const lipsc_space *wrong[] = {
        lipsc_device_space(other, of->type),
        lipsc_device_space(of->device, of->type == LIPSC_F64 ? LIPSC_F32 : LIPSC_F64)};
    lipsc_buffer b[MOST];
    for (size_t i = 0; i < of->count; i++) b[i] = ones(space, of->length[i]);
    assert_int_equal(of->make(of->ctx, of->device, b), LIPSC_OK);
    for (size_t i = 0; i < of->count; i++) {
        const lipsc_buffer right = b[i];
        for (int w = 0; w < 2; w++) {
            b[i] = ones(wrong[w], of->length[i]);
            assert_int_equal(of->make(of->ctx, of->device, b), LIPSC_E_ARG);
            lipsc_space_release(wrong[w], b[i]);
        }
        b[i] = lipsc_slice(space, right, 0, of->length[i] - 1);
        assert_int_equal(of->make(of->ctx, of->device, b), LIPSC_E_ARG);
        b[i] = lipsc_slice(space, right, 1, of->length[i]);
        assert_int_equal(of->make(of->ctx, of->device, b), LIPSC_E_ARG);
        b[i] = right;
    }
    assert_int_equal(of->make(of->ctx, of->device, b), LIPSC_OK);
    for (size_t i = 0; i < of->count; i++) lipsc_space_release(space, b[i]);
}

/* ---- Vectors ------------------------------------------------------------------------ */

enum { LEN = 7, KA = 3, KB = 2, BLOCK = KA * LEN };

static const lipsc_space *space_of(const lipsc_device *device, const void *ctx) {
    return lipsc_device_space(device, *(const lipsc_dtype *)ctx);
}

static lipsc_status upload(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    const double host[BLOCK] = {0.0};
    return lipsc_space_upload(space_of(d, ctx), BLOCK, host, b[0]);
}
static lipsc_status download(const void *ctx, const lipsc_device *d,
                             const lipsc_buffer *b) {
    double host[BLOCK];
    return lipsc_space_download(space_of(d, ctx), BLOCK, b[0], host);
}
static lipsc_status copy(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    return lipsc_space_copy(space_of(d, ctx), BLOCK, b[0], b[1]);
}
static lipsc_status scale(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    return lipsc_space_scale(space_of(d, ctx), BLOCK, 0.5, b[0]);
}
static lipsc_status draw_numbers(const void *ctx, const lipsc_device *d,
                                 const lipsc_buffer *b) {
    return lipsc_space_random(space_of(d, ctx), 1, 0, BLOCK, b[0]);
}
static lipsc_status gram(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    double c[KA * KB];
    return lipsc_space_gram(space_of(d, ctx), LEN, KA, b[0], KB, b[1], c);
}
static lipsc_status combine(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    const double c[KA * KB] = {1.0};
    return lipsc_space_combine(space_of(d, ctx), LEN, KA, b[0], KB, c, 1.0, b[1]);
}
static lipsc_status vectors(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    double host[BLOCK];
    const lipsc_status status =
        lipsc_vectors_download(space_of(d, ctx), LEN, KA, b[0], host);
    return status ? status : lipsc_vectors_upload(space_of(d, ctx), LEN, KA, host, b[0]);
}

static void test_vectors(void **state) {
    const pair *p = *state;
    static const struct {
        size_t count, length[2];
        lipsc_status (*make)(const void *, const lipsc_device *, const lipsc_buffer *);
    } all[] = {{1, {BLOCK, 0}, upload},
               {1, {BLOCK, 0}, download},
               {2, {BLOCK, BLOCK}, copy},
               {1, {BLOCK, 0}, scale},
               {1, {BLOCK, 0}, draw_numbers},
               {2, {KA * LEN, KB * LEN}, gram},
               {2, {KA * LEN, KB * LEN}, combine},
               {1, {BLOCK, 0}, vectors}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (int t = 0; t < 2; t++) {
            const lipsc_dtype type = (lipsc_dtype)t;
            const operation of = {.device = p->own,
                                  .type = type,
                                  .ctx = &type,
                                  .count = all[i].count,
                                  .length = {all[i].length[0], all[i].length[1]},
                                  .make = all[i].make};
            refuses(&of, p->other);
        }
}

/* A slice holds what it says or nothing, and what is cut from it stays inside. */
static void test_slices(void **state) {
    const pair *p = *state;
    const lipsc_space *s = lipsc_device_space(p->own, LIPSC_F64);
    const lipsc_buffer b = lipsc_space_alloc(s, 5);
    const double host[5] = {0.0, 1.0, 2.0, 3.0, 4.0};
    double back[5];
    assert_non_null(b.at);
    assert_int_equal(b.count, 5);
    assert_int_equal(b.type, LIPSC_F64);
    assert_ptr_equal(b.home, lipsc_device_home(p->own));
    assert_int_equal(lipsc_space_upload(s, 5, host, b), LIPSC_OK);
    for (size_t from = 0; from <= 6; from++)
        for (size_t count = 0; count <= 6; count++) {
            const lipsc_buffer part = lipsc_slice(s, b, from, count);
            const int inside = from + count <= 5;
            assert_int_equal(part.count, inside ? count : 0);
            const lipsc_status status = lipsc_space_download(s, count, part, back);
            assert_int_equal(status, inside || !count ? LIPSC_OK : LIPSC_E_ARG);
            for (size_t i = 0; inside && i < count; i++)
                assert_true(back[i] == host[from + i]);
            assert_int_equal(lipsc_slice(s, part, 0, part.count + 1).count, 0);
        }
    const size_t far[] = {SIZE_MAX, SIZE_MAX - 2, SIZE_MAX / 8, SIZE_MAX / 8 + 2};
    for (size_t i = 0; i < sizeof far / sizeof *far; i++) {
        assert_int_equal(lipsc_slice(s, b, far[i], 5).count, 0);
        assert_int_equal(lipsc_slice(s, b, 5, far[i]).count, 0);
        assert_int_equal(lipsc_slice(s, b, far[i], far[i]).count, 0);
        assert_int_equal(lipsc_space_scale(s, far[i], 1.0, b), LIPSC_E_ARG);
        assert_int_equal(lipsc_space_gram(s, far[i], 8, b, 8, b, back), LIPSC_E_ARG);
    }
    assert_int_equal(lipsc_space_at(s, b, 2).count, 3);
    assert_int_equal(lipsc_space_at(s, b, 6).count, 0);
    assert_int_equal(lipsc_slice(lipsc_device_space(p->own, LIPSC_F32), b, 0, 1).count, 0);
    assert_int_equal(lipsc_slice(lipsc_device_space(p->other, LIPSC_F64), b, 0, 1).count,
                     0);
    lipsc_space_release(s, b);
}

/* Memory of a device is that of whoever it is lent to. */
static void test_lent(void **state) {
    const pair *p = *state;
    lipsc_device lent;
    lipsc_device_lend(p->own, 1, &lent);
    const lipsc_space *s = lipsc_device_space(&lent, LIPSC_F64);
    const lipsc_buffer b = lipsc_space_alloc(s, 4);
    assert_non_null(b.at);
    assert_int_equal(lipsc_space_scale(lipsc_device_space(p->own, LIPSC_F64), 4, 2.0, b),
                     LIPSC_OK);
    assert_int_equal(lipsc_space_scale(s, 4, 2.0, b), LIPSC_OK);
    lipsc_space_release(lipsc_device_space(p->own, LIPSC_F64), b);
}

/* ---- Attention ---------------------------------------------------------------------- */

enum { PAIRS = 2 };

static lipsc_status forth(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    (void)d;
    const lipsc_linop op = lipsc_attn_linop((lipsc_attn *)(uintptr_t)ctx);
    return op.apply(op.ctx, 0, PAIRS, b[0], b[1]);
}
static lipsc_status back(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    (void)d;
    const lipsc_linop op = lipsc_attn_linop((lipsc_attn *)(uintptr_t)ctx);
    return op.apply(op.ctx, 1, PAIRS, b[1], b[0]);
}
/* By the table itself, which checks on its own. */
static lipsc_status alone(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    const lipsc_attn *attn = ctx;
    return lipsc_device_table(d)->product(d, attn->state, 0, PAIRS, b[0], b[1]);
}
static lipsc_status together(const void *ctx, const lipsc_device *d,
                             const lipsc_buffer *b) {
    const lipsc_attn *attn = ctx;
    const lipsc_product one = {.of = attn->state, .k = PAIRS, .x = b[0], .y = b[1]};
    return lipsc_device_table(d)->products(d, 0, 1, &one);
}
static lipsc_status gradient(const void *ctx, const lipsc_device *d,
                             const lipsc_buffer *b) {
    const lipsc_attn *attn = ctx;
    return lipsc_device_table(d)->gradient(d, attn->state, PAIRS, b[1], b[0], b[2], b[3]);
}
static lipsc_status gradients(const void *ctx, const lipsc_device *d,
                              const lipsc_buffer *b) {
    const lipsc_attn *attn = ctx;
    const lipsc_gradient_product one = {attn->state, PAIRS, b[1], b[0], b[2], b[3]};
    return lipsc_device_table(d)->gradients(d, 1, &one);
}

/* f(X) in memory of the device has the bits that the host is told, in either precision. */
static void output(lipsc_attn *attn, const pair *p) {
    const size_t count = lipsc_attn_linop(attn).m;
    double *want = malloc(count * sizeof *want), *got = malloc(count * sizeof *got);
    assert_true(want && got);
    assert_int_equal(lipsc_attn_output(attn, want), LIPSC_OK);
    for (int t = 0; t < 2; t++) {
        const lipsc_space *space = lipsc_device_space(p->own, (lipsc_dtype)t);
        const lipsc_space *other = lipsc_device_space(p->other, (lipsc_dtype)t);
        const lipsc_buffer y = ones(space, count), wrong = ones(other, count);
        assert_int_equal(lipsc_attn_output_to(attn, wrong), LIPSC_E_ARG);
        assert_int_equal(lipsc_attn_output_to(attn, lipsc_slice(space, y, 0, count - 1)),
                         LIPSC_E_ARG);
        assert_int_equal(lipsc_attn_output_to(attn, LIPSC_NOWHERE), LIPSC_E_ARG);
        assert_int_equal(lipsc_attn_output_to(attn, y), LIPSC_OK);
        assert_int_equal(lipsc_space_download(space, count, y, got), LIPSC_OK);
        for (size_t i = 0; i < count; i++)
            assert_true(got[i] == (t == LIPSC_F32 ? (double)(float)want[i] : want[i]));
        lipsc_space_release(space, y);
        lipsc_space_release(other, wrong);
    }
    free(want);
    free(got);
}

static void test_attention(void **state) {
    const pair *p = *state;
    for (int t = 0; t < 2; t++) {
        test_layer layer = random_layer(3, FEATURE_CAUSAL | FEATURE_BIASES);
        lipsc_packed *packed;
        lipsc_attn *attn = NULL;
        lipsc_error err;
        if (lipsc_packed_new(&layer.layer, 1, &packed, &err) ||
            lipsc_attn_at(packed, NULL, &layer.input, (lipsc_dtype)t, p->own, &attn, &err))
            fail_msg("%s", err.text);
        const lipsc_linop op = lipsc_attn_linop(attn);
        operation of = {
            .device = p->own,
            .type = (lipsc_dtype)t,
            .ctx = attn,
            .count = 2,
            .length = {PAIRS * op.n, PAIRS * op.m, PAIRS * op.n, PAIRS * layer.input.n}};
        of.make = forth;
        refuses(&of, p->other);
        of.make = back;
        refuses(&of, p->other);
        of.make = alone;
        refuses(&of, p->other);
        of.make = together;
        refuses(&of, p->other);
        of.count = 4;
        of.make = gradient;
        refuses(&of, p->other);
        of.make = gradients;
        refuses(&of, p->other);
        output(attn, p);
        lipsc_attn_free(attn);
        lipsc_packed_free(packed);
        test_layer_free(&layer);
    }
}

/* ---- Tokens ------------------------------------------------------------------------- */

/* J v and f(X) of a handle, one behind the other. */
static double *seen_of(lipsc_attn *attn) {
    const lipsc_linop op = lipsc_attn_linop(attn);
    double *v = malloc(op.n * sizeof *v), *seen = malloc(2 * op.m * sizeof *seen);
    assert_true(v && seen);
    for (size_t i = 0; i < op.n; i++) v[i] = 1.0 / (double)(i + 1);
    assert_int_equal(lipsc_attn_apply(attn, 0, 1, v, seen), LIPSC_OK);
    assert_int_equal(lipsc_attn_output(attn, seen + op.m), LIPSC_OK);
    free(v);
    return seen;
}

/* Whatever two handles of one input see has the same bits. */
static void agree(lipsc_attn *a, lipsc_attn *b) {
    double *of_a = seen_of(a), *of_b = seen_of(b);
    assert_memory_equal(of_a, of_b, 2 * lipsc_attn_linop(a).m * sizeof *of_a);
    free(of_a);
    free(of_b);
}

/* An input cannot be made of tokens elsewhere, nor of fewer than it has. */
static void refuses_tokens(const pair *p, lipsc_packed *packed, lipsc_dtype dtype,
                           const lipsc_attn *attn) {
    const lipsc_buffer X = attn->rows.X;
    const lipsc_space *other = lipsc_device_space(p->other, X.type);
    const lipsc_buffer away = ones(other, X.count),
                       less = lipsc_slice(lipsc_device_space(p->own, X.type), X, 0,
                                          X.count - 1);
    const lipsc_buffer wrong[] = {away, less, LIPSC_NOWHERE};
    const lipsc_device_ops *ops = lipsc_device_table(p->own);
    const void *weights;
    assert_int_equal(lipsc_packed_weights(packed, p->own, dtype, &weights, NULL), LIPSC_OK);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        lipsc_rows rows[2] = {attn->rows, attn->rows};
        void *made[2];
        rows[1].X = wrong[i];
        assert_int_equal(ops->input_new(p->own, weights, &rows[1], made, NULL),
                         LIPSC_E_ARG);
        assert_int_equal(ops->batch_new(p->own, weights, 2, rows, made, NULL), LIPSC_E_ARG);
    }
    lipsc_space_release(other, away);
}

/* Tokens in a device's memory: no double of the host before it is asked for, and every bit
 * that the same tokens have as doubles, in both precisions and on another device. */
static void tokens(const pair *p, lipsc_dtype dtype, lipsc_dtype type) {
    const lipsc_space *space = lipsc_device_space(p->own, type);
    test_layer t = random_layer(7, FEATURE_CAUSAL | FEATURE_BIASES);
    const size_t n = t.input.n, count = n * t.layer.d;
    double *X = (double *)(uintptr_t)t.input.X;
    const lipsc_buffer b = lipsc_space_alloc(space, count);
    lipsc_packed *packed;
    lipsc_attn *host = NULL, *there = NULL, *host_double = NULL, far;
    lipsc_error err;
    for (size_t i = 0; type == LIPSC_F32 && i < count; i++) X[i] = (double)(float)X[i];
    assert_int_equal(lipsc_space_upload(space, count, X, b), LIPSC_OK);
    if (lipsc_packed_new(&t.layer, 1, &packed, &err) ||
        lipsc_attn_at(packed, NULL, &t.input, dtype, p->own, &host, &err) ||
        lipsc_attn_there(packed, NULL, n, b, dtype, p->own, &there, &err) ||
        lipsc_attn_at(packed, NULL, &t.input, LIPSC_F64, p->other, &host_double, &err))
        fail_msg("%s", err.text);
    assert_null(there->input.X);
    agree(host, there);
    refuses_tokens(p, packed, dtype, there);
    assert_int_equal(lipsc_attn_as(there, LIPSC_F64, p->other, &far), LIPSC_OK);
    agree(host_double, &far);
    lipsc_attn_close(&far);
    assert_null(there->input.X);
    assert_int_equal(lipsc_attn_tokens(there), LIPSC_OK);
    assert_memory_equal(there->input.X, X, count * sizeof *X);
    lipsc_attn_free(there);
    /* tokens that the host has as well are taken from where they are, and said by it */
    there = NULL;
    if (lipsc_attn_batch_there(packed, NULL, 1, &t.input, &b, dtype, p->own, &there, &err))
        fail_msg("%s", err.text);
    assert_ptr_equal(there->input.X, X);
    assert_ptr_not_equal(there->rows.X.at, b.at); /* which may be given back */
    assert_ptr_equal(there->rows.X.home, b.home);
    agree(host, there);
    lipsc_attn_free(there);

    X[count / 2] = NAN;
    there = NULL;
    assert_int_equal(lipsc_space_upload(space, count, X, b), LIPSC_OK);
    assert_int_equal(lipsc_attn_there(packed, NULL, n, b, dtype, p->own, &there, &err),
                     LIPSC_E_NONFIN);
    assert_null(there);
    /* also where the host has them as well */
    assert_int_equal(
        lipsc_attn_batch_there(packed, NULL, 1, &t.input, &b, dtype, p->own, &there, &err),
        LIPSC_E_NONFIN);
    assert_null(there);
    assert_non_null(strstr(err.text, "X[")); /* it is said of the tokens, and where */
    lipsc_attn_free(host);
    lipsc_attn_free(host_double);
    lipsc_packed_free(packed);
    lipsc_space_release(space, b);
    test_layer_free(&t);
}

static void test_tokens(void **state) {
    for (int dtype = 0; dtype < 2; dtype++)
        for (int type = 0; type < 2; type++)
            tokens(*state, (lipsc_dtype)dtype, (lipsc_dtype)type);
}

/* ---- Around it ---------------------------------------------------------------------- */

enum { ROWS = 3, DIRS = 2, IN = 5, OUT = 4 };

static lipsc_status linear(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    return lipsc_linear_apply(d, ctx, ROWS, b[0], 1, 1, b[1]);
}

static const lipsc_rowwise *row_of(const lipsc_device *d, const void *ctx) {
    return lipsc_device_table(d)->rowwise(*(const lipsc_dtype *)ctx);
}
static lipsc_status norm(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    return row_of(d, ctx)->norm(d, ROWS, IN, 1, 1e-5, b[0], b[1], b[2], b[3], b[4], b[5]);
}
static lipsc_status derivative(const void *ctx, const lipsc_device *d,
                               const lipsc_buffer *b) {
    return row_of(d, ctx)->norm_derivative(d, DIRS * ROWS, ROWS, IN, 1, b[0], b[1], b[2], 0,
                                           b[3], b[4]);
}
static lipsc_status bend(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    return row_of(d, ctx)->activation(d, LIPSC_ACT_SILU, BLOCK, b[0], b[1], b[2]);
}
static lipsc_status times(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    return row_of(d, ctx)->multiply(d, BLOCK, LEN, b[0], b[1], 1, b[2]);
}
static lipsc_status add(const void *ctx, const lipsc_device *d, const lipsc_buffer *b) {
    return row_of(d, ctx)->add(d, BLOCK, b[0], b[1]);
}

static void test_around(void **state) {
    const pair *p = *state;
    static const struct {
        size_t count, length[MOST];
        lipsc_status (*make)(const void *, const lipsc_device *, const lipsc_buffer *);
    } all[] = {{6, {IN, IN, ROWS * IN, ROWS * IN, ROWS * IN, ROWS}, norm},
               {5, {IN, ROWS * IN, ROWS, DIRS * ROWS * IN, DIRS * ROWS * IN}, derivative},
               {3, {BLOCK, BLOCK, BLOCK}, bend},
               {3, {LEN, BLOCK, BLOCK}, times},
               {2, {BLOCK, BLOCK}, add}};
    for (int t = 0; t < 2; t++) {
        const lipsc_dtype type = (lipsc_dtype)t;
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
            operation of = {.device = p->own,
                            .type = type,
                            .ctx = &type,
                            .count = all[i].count,
                            .make = all[i].make};
            memcpy(of.length, all[i].length, sizeof of.length);
            refuses(&of, p->other);
        }
        const double w[IN * OUT] = {1.0};
        void *made;
        assert_int_equal(lipsc_device_table(p->own)->linear_new(p->own, IN, OUT, w, 0, NULL,
                                                                type, &made, NULL),
                         LIPSC_OK);
        const operation of = {.device = p->own,
                              .type = type,
                              .ctx = made,
                              .count = 2,
                              .length = {ROWS * IN, ROWS * OUT},
                              .make = linear};
        refuses(&of, p->other);
        lipsc_device_table(p->own)->linear_free(p->own, made);
    }
}

static int open_pair(void **state, const char *own, const char *other) {
    pair *p = malloc(sizeof *p);
    *p = (pair){open_one(own), open_one(other)};
    *state = p;
    return 0;
}
static int on_cpu(void **state) { return open_pair(state, "cpu", "guard"); }
static int on_guard(void **state) { return open_pair(state, "guard", "guard"); }
static int close_pair(void **state) {
    pair *p = *state;
    lipsc_device_close(p->own);
    lipsc_device_close(p->other);
    free(p);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_vectors), cmocka_unit_test(test_slices),
        cmocka_unit_test(test_lent),    cmocka_unit_test(test_attention),
        cmocka_unit_test(test_tokens),  cmocka_unit_test(test_around),
    };
    const int cpu = cmocka_run_group_tests_name("cpu", tests, on_cpu, close_pair);
    const int guard = cmocka_run_group_tests_name("guard", tests, on_guard, close_pair);
    return cpu || guard;
}
