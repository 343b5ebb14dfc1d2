/* fuzz_api.c - the public calls on random layers: spoilt fields and weights, sequences of
 * calls, callbacks that fail or stop, allocations that fail at the k-th call.
 *
 * Whatever comes in: no crash, no leak; a call that succeeds gives numbers that hold
 * together. The first bytes draw the layer, the next spoil it, the others are calls. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../unit/layers.h"
#include "lipscope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* ---- Allocations (the linker's --wrap) ----------------------------------------------- */

static _Thread_local long until; /* 0: none fails */

void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    if (until && --until == 0) return NULL;
    return __real_aligned_alloc(alignment, size);
}

/* ---- Bytes --------------------------------------------------------------------------- */

typedef struct {
    const uint8_t *at;
    size_t left;
} bytes;

static unsigned take(bytes *b) {
    if (!b->left) return 0;
    b->left--;
    return *b->at++;
}

static double number(bytes *b) {
    static const double odd[] = {0.0, -0.0, 1e-310, 1e300, -1e300, NAN, INFINITY, 1e30};
    const unsigned kind = take(b);
    if (kind < 8) return odd[kind];
    return ((double)take(b) - 128.0) * pow(2.0, (double)(kind % 41) - 20.0);
}

static void expect(int holds) {
    if (!holds) abort();
}

/* ---- The layer ----------------------------------------------------------------------- */

static void spoil(bytes *b, test_layer *t) {
    lipsc_layer *l = &t->layer;
    double *array = t->arrays ? t->storage[take(b) % t->arrays] : NULL;
    switch (take(b) % 14) {
    case 0:
        l->scale = number(b);
        break;
    case 1:
        l->soft_cap = number(b);
        break;
    case 2:
        l->norm_eps = number(b);
        break;
    case 3:
        l->mask = (lipsc_mask)take(b);
        break;
    case 4:
        l->window = take(b);
        break;
    case 5:
        l->heads = take(b) % 3 ? l->heads : 0;
        break;
    case 6:
        l->kv_heads = l->heads + 1; /* 0 would ask for larger arrays than there are */
        break;
    case 7:
        l->Q = NULL;
        break;
    case 8:
        l->V = NULL;
        break;
    case 9:
        t->input.X = NULL;
        break;
    case 10:
        l->bias_rule = (lipsc_bias_rule)take(b);
        break;
    default:
        if (array) array[0] = number(b); /* every array has one number at least */
    }
}

/* ---- Calls --------------------------------------------------------------------------- */

typedef struct {
    long until;
} patience;

static int stop(void *ctx) { return --((patience *)ctx)->until == 0; }

static int failing(void *ctx, int trans, size_t k, const double *x, double *y) {
    (void)trans;
    for (size_t i = 0; i < 3 * k; i++) y[i] = x[i];
    return stop(ctx);
}

static void solve(bytes *b, lipsc_attn *attn) {
    double sigma[3];
    patience p = {take(b)};
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    set.count = 1 + take(b) % 3;
    set.max_products = 1 + take(b) % 40;
    set.method = take(b) % 2 ? LIPSC_LANCZOS : LIPSC_POWER;
    set.seed = take(b);
    set.stop = stop;
    set.ctx = &p;
    const lipsc_status status = lipsc_attn_sigma(attn, &set, sigma, NULL, NULL, &info);
    if (status) return;
    for (size_t i = 0; i < set.count; i++)
        expect(sigma[i] >= 0 && (i == 0 || sigma[i] <= sigma[i - 1] * 1.01));
    expect(info.lower >= 0 && info.lower <= sigma[0] * (1 + 1e-9));
}

static void call(bytes *b, const test_layer *t, lipsc_attn *attn) {
    lipsc_error err;
    lipsc_upper upper;
    lipsc_around around;
    double value, *x = calloc(t->in + t->out + 1, sizeof *x);
    switch (take(b) % 8) {
    case 0:
        solve(b, attn);
        break;
    case 1:
        lipsc_attn_apply(attn, 0, 1, x, x + t->in);
        break;
    case 2:
        lipsc_attn_apply(attn, 1, 1, x + t->in, x);
        break;
    case 3:
        lipsc_attn_output(attn, x);
        break;
    case 4:
        lipsc_attn_released(attn, &value);
        break;
    case 5:
        if (!lipsc_attn_upper(attn, &upper, &err)) expect(!(upper.value < 0));
        break;
    case 6:
        if (!lipsc_attn_around(attn, fabs(number(b)), &around, &err))
            expect(!(around.value < 0)); /* NaN: none */
        break;
    default: {
        patience p = {take(b)};
        lipsc_svd_settings set;
        lipsc_svd_info info;
        const lipsc_op op = {3, 3, failing, &p};
        lipsc_svd_defaults(&set);
        if (!lipsc_svd(&op, &set, &value, NULL, NULL, &info))
            expect(fabs(value - 1.0) < 1e-6); /* the identity */
    }
    }
    free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    bytes b = {data, size};
    if (size < 8) return 0;
    const uint64_t seed = take(&b) + 256u * take(&b);
    unsigned features = take(&b) + 256u * take(&b) + 65536u * (take(&b) & 15u);
    features &= (1u << (seed % ALL_FEATURES)) | (1u << (features % ALL_FEATURES));
    test_layer t = random_layer_of(seed, features, (layer_sizes){.n = 1 + take(&b) % 6});
    for (unsigned i = take(&b) % 3; i; i--) spoil(&b, &t);
    lipsc_attn *attn = NULL;
    lipsc_error err;
    until = take(&b) % 64;
    const lipsc_status status = lipsc_attn_new(
        &t.layer, &t.input, seed % 2 ? LIPSC_F32 : LIPSC_F64, NULL, &attn, &err);
    expect(status ? attn == NULL && err.text[0] : attn != NULL);
    while (!status && b.left) {
        until = take(&b) % 64;
        call(&b, &t, attn);
    }
    until = 0;
    lipsc_attn_free(attn);
    test_layer_free(&t);
    return 0;
}
