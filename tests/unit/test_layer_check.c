/* test_layer_check.c - every bad layer and input is refused with a sentence that names
 * the thing; a good one has its defaults resolved. */
#include "attn/attn.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
/* cmocka.h wants the above */
#include <cmocka.h>

enum { TOKENS = 5, WIDTH = 4 };

/* Two query heads on one key/value head, everything switched on.  Every array is one
 * long enough for any use here. */
typedef struct {
    lipsc_layer layer;
    lipsc_input input;
    double Q[16], K[8], V[8], O[12], bq[4], bk[2], bv[2], bo[3], freq[1], q_gain[2],
        k_gain[2];
    double X[TOKENS * WIDTH], weights[TOKENS], times[TOKENS], positions[TOKENS];
} good;

static void fill(size_t count, double *a) {
    for (size_t e = 0; e < count; e++) a[e] = 1.0 + (double)e;
}

static void good_make(good *g) {
    memset(g, 0, sizeof *g);
    fill(16, g->Q), fill(8, g->K), fill(8, g->V), fill(12, g->O);
    fill(4, g->bq), fill(2, g->bk), fill(2, g->bv), fill(3, g->bo);
    fill(1, g->freq), fill(2, g->q_gain), fill(2, g->k_gain), fill(TOKENS * WIDTH, g->X);
    fill(TOKENS, g->weights), fill(TOKENS, g->times), fill(TOKENS, g->positions);
    lipsc_layer *l = &g->layer;
    lipsc_layer_defaults(l);
    l->d = WIDTH, l->heads = 2, l->kv_heads = 1, l->key_dim = 2, l->value_dim = 2;
    l->out_dim = 3;
    l->Q = g->Q, l->K = g->K, l->V = g->V, l->O = g->O;
    l->bq = g->bq, l->bk = g->bk, l->bv = g->bv, l->bo = g->bo;
    l->rotary_dim = 2, l->rotary_freq = g->freq;
    l->q_gain = g->q_gain, l->k_gain = g->k_gain, l->norm_eps = 1e-6;
    l->mask = LIPSC_MASK_TIMES;
    g->input = (lipsc_input){.n = TOKENS,
                             .X = g->X,
                             .weights = g->weights,
                             .times = g->times,
                             .positions = g->positions};
}

static lipsc_status check(const good *g, lipsc_layer *resolved, lipsc_error *err) {
    lipsc_status status = lipsc_layer_check(&g->layer, resolved, err);
    return status ? status : lipsc_input_check(resolved, &g->input, err);
}

/* One change to the good layer, what must come of it, and the whole sentence. */
#define REFUSED(change, status, sentence)              \
    do {                                               \
        good g;                                        \
        lipsc_layer r;                                 \
        lipsc_error err;                               \
        good_make(&g);                                 \
        lipsc_layer *l = &g.layer;                     \
        lipsc_input *in = &g.input;                    \
        (void)l, (void)in;                             \
        change;                                        \
        memset(&err, 0, sizeof err);                   \
        assert_int_equal(check(&g, &r, &err), status); \
        assert_int_equal(err.code, status);            \
        assert_string_equal(err.text, sentence);       \
        assert_int_equal(check(&g, &r, NULL), status); \
    } while (0)

static void good_layer(void **state) {
    (void)state;
    good g;
    lipsc_layer r;
    lipsc_error err;
    good_make(&g);
    assert_int_equal(check(&g, &r, &err), LIPSC_OK);
    assert_true(r.scale == 1.0 / sqrt(2.0));
    assert_int_equal(r.out_dim, 3);
    assert_int_equal(lipsc_layer_width(&r), 3);

    g.layer.O = g.layer.bo = NULL, g.layer.kv_heads = 0, g.layer.scale = 0.25;
    g.layer.heads = 1;
    assert_int_equal(check(&g, &r, &err), LIPSC_OK);
    assert_int_equal(r.kv_heads, 1);
    assert_int_equal(r.out_dim, 2);
    assert_true(r.scale == 0.25);

    lipsc_layer again; /* a resolved layer stays what it is */
    assert_int_equal(lipsc_layer_check(&r, &again, &err), LIPSC_OK);
    assert_memory_equal(&r, &again, sizeof r);
}

static void identity_key(void **state) {
    (void)state;
    good g;
    lipsc_layer r;
    lipsc_error err;
    good_make(&g);
    g.layer.K = NULL, g.layer.heads = 1, g.layer.kv_heads = 0, g.layer.key_dim = WIDTH;
    g.layer.bq = g.layer.bk = g.layer.q_gain = g.layer.k_gain = NULL;
    assert_int_equal(check(&g, &r, &err), LIPSC_OK);
    assert_true(r.scale == 1.0);
}

static void identity_key_refused(void **state) {
    (void)state;
    REFUSED(l->K = NULL, LIPSC_E_ARG, "without K key_dim = 2 must be equal to d = 4");
    REFUSED((l->K = NULL, l->kv_heads = 0), LIPSC_E_ARG,
            "without K kv_heads must be 1, not 2");
}

static void layer_sizes_refused(void **state) {
    (void)state;
    REFUSED(l->d = 0, LIPSC_E_ARG, "d is zero");
    REFUSED(l->heads = 0, LIPSC_E_ARG, "heads is zero");
    REFUSED((l->heads = 0, l->kv_heads = 0), LIPSC_E_ARG, "heads is zero");
    REFUSED(l->key_dim = 0, LIPSC_E_ARG, "key_dim is zero");
    REFUSED(l->value_dim = 0, LIPSC_E_ARG, "value_dim is zero");
    REFUSED(l->out_dim = 0, LIPSC_E_ARG, "out_dim is zero");
    REFUSED((l->heads = 3, l->kv_heads = 2), LIPSC_E_ARG,
            "kv_heads = 2 does not divide heads = 3");
    REFUSED(l->kv_heads = 4, LIPSC_E_ARG, "kv_heads = 4 does not divide heads = 2");
    REFUSED(l->rotary_dim = 1, LIPSC_E_ARG, "rotary_dim = 1 is odd");
    REFUSED(l->rotary_dim = 4, LIPSC_E_ARG, "rotary_dim = 4 is above key_dim = 2");
    REFUSED((l->mask = LIPSC_MASK_SLIDING, in->times = NULL), LIPSC_E_ARG,
            "window is zero");
    REFUSED(l->mask = (lipsc_mask)7, LIPSC_E_ARG, "mask = 7 is not a mask");
}

static void score_rules_refused(void **state) {
    (void)state;
    const double bias[8] = {0.0};
#define PLACES(change) \
    (l->mask = LIPSC_MASK_CAUSAL, in->times = NULL, l->score_bias = bias, change)
    REFUSED(l->soft_cap = NAN, LIPSC_E_NONFIN, "soft_cap is not finite");
    REFUSED(l->soft_cap = -1.0, LIPSC_E_ARG, "soft_cap = -1 is negative");
    REFUSED(l->bias_rule = LIPSC_BIAS_LINEAR, LIPSC_E_ARG, "score_bias is NULL");
    REFUSED((l->bias_rule = LIPSC_BIAS_LINEAR, l->score_bias = bias), LIPSC_E_ARG,
            "a bias of the scores counts places, which a mask by times does not have");
    REFUSED(PLACES((l->bias_rule = LIPSC_BIAS_BUCKETS, l->bias_buckets = 6)), LIPSC_E_ARG,
            "6 buckets up to a distance of 0 have no meaning");
    REFUSED(PLACES(l->bias_rule = (lipsc_bias_rule)9), LIPSC_E_ARG,
            "bias_rule = 9 is not a rule");
    REFUSED(PLACES(l->bias_rule = LIPSC_BIAS_LINEAR), LIPSC_E_ARG,
            "positions are given, but the bias of the scores counts places");
    REFUSED(l->sinks = bias, LIPSC_E_ARG,
            "weights are given, of which only ratios count, but beside sinks their size "
            "would");
#undef PLACES
}

static void overflow_refused(void **state) {
    (void)state;
    REFUSED(l->d = (size_t)1 << 61, LIPSC_E_RANGE,
            "the size of Q, 2 x 2 x 2305843009213693952, is too large");
    REFUSED(l->value_dim = (size_t)1 << 60, LIPSC_E_RANGE,
            "the size of V, 1 x 1152921504606846976 x 4, is too large");
    REFUSED(l->out_dim = (size_t)1 << 60, LIPSC_E_RANGE,
            "the size of O, 1152921504606846976 x 2 x 2, is too large");
    REFUSED(in->n = (size_t)1 << 60, LIPSC_E_RANGE,
            "the size of X, 1152921504606846976 x 4 x 1, is too large");
}

static void pointers_refused(void **state) {
    (void)state;
    REFUSED(l->Q = NULL, LIPSC_E_ARG, "Q is NULL");
    REFUSED(l->V = NULL, LIPSC_E_ARG, "V is NULL");
    REFUSED(l->O = NULL, LIPSC_E_ARG, "bo is given without O");
    REFUSED(l->rotary_freq = NULL, LIPSC_E_ARG, "rotary_freq is NULL");
    REFUSED(in->X = NULL, LIPSC_E_ARG, "X is NULL");
    REFUSED(in->n = 0, LIPSC_E_ARG, "n is zero");
    REFUSED(in->times = NULL, LIPSC_E_ARG, "times is NULL");
    REFUSED(l->mask = LIPSC_MASK_CAUSAL, LIPSC_E_ARG,
            "times are given, but the mask is another one");
}

static void null_refused(void **state) {
    (void)state;
    lipsc_error err;
    lipsc_layer r;
    assert_int_equal(lipsc_layer_check(NULL, &r, &err), LIPSC_E_ARG);
    assert_string_equal(err.text, "layer is NULL");
    good g;
    good_make(&g);
    assert_int_equal(lipsc_layer_check(&g.layer, &r, &err), LIPSC_OK);
    assert_int_equal(lipsc_input_check(&r, NULL, &err), LIPSC_E_ARG);
    assert_string_equal(err.text, "input is NULL");
}

static void values_refused(void **state) {
    (void)state;
    REFUSED(g.Q[3 * WIDTH + 2] = NAN, LIPSC_E_NONFIN, "Q[3,2] is not finite");
    REFUSED(g.K[1 * WIDTH + 3] = INFINITY, LIPSC_E_NONFIN, "K[1,3] is not finite");
    REFUSED(g.V[0] = -INFINITY, LIPSC_E_NONFIN, "V[0,0] is not finite");
    REFUSED(g.O[2 * 4 + 1] = NAN, LIPSC_E_NONFIN, "O[2,1] is not finite");
    REFUSED(g.bq[3] = NAN, LIPSC_E_NONFIN, "bq[3] is not finite");
    REFUSED(g.bk[1] = NAN, LIPSC_E_NONFIN, "bk[1] is not finite");
    REFUSED(g.bv[0] = NAN, LIPSC_E_NONFIN, "bv[0] is not finite");
    REFUSED(g.bo[2] = NAN, LIPSC_E_NONFIN, "bo[2] is not finite");
    REFUSED(g.freq[0] = NAN, LIPSC_E_NONFIN, "rotary_freq[0] is not finite");
    REFUSED(g.q_gain[1] = NAN, LIPSC_E_NONFIN, "q_gain[1] is not finite");
    REFUSED(g.k_gain[0] = NAN, LIPSC_E_NONFIN, "k_gain[0] is not finite");
    REFUSED(l->scale = NAN, LIPSC_E_NONFIN, "scale is not finite");
    REFUSED(l->norm_eps = INFINITY, LIPSC_E_NONFIN, "norm_eps is not finite");
    REFUSED(l->norm_eps = -1.0, LIPSC_E_ARG, "norm_eps = -1 is negative");
    REFUSED(g.X[4 * WIDTH + 1] = NAN, LIPSC_E_NONFIN, "X[4,1] is not finite");
    REFUSED(g.times[2] = NAN, LIPSC_E_NONFIN, "times[2] is not finite");
    REFUSED(g.positions[1] = INFINITY, LIPSC_E_NONFIN, "positions[1] is not finite");
    REFUSED(g.weights[4] = INFINITY, LIPSC_E_NONFIN, "weights[4] is not finite");
    REFUSED(g.weights[4] = -1.0, LIPSC_E_ARG, "weights[4] = -1 is not positive");
    REFUSED(g.weights[0] = 0.0, LIPSC_E_ARG, "weights[0] = 0 is not positive");
    REFUSED(g.weights[1] = 1e-302, LIPSC_E_RANGE,
            "weights differ by more than a factor of 1e+300");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_layer),           cmocka_unit_test(identity_key),
        cmocka_unit_test(identity_key_refused), cmocka_unit_test(layer_sizes_refused),
        cmocka_unit_test(score_rules_refused),  cmocka_unit_test(overflow_refused),
        cmocka_unit_test(pointers_refused),     cmocka_unit_test(null_refused),
        cmocka_unit_test(values_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
