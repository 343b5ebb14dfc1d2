/* test_layer_fixtures.c - attention of a GPT-2 and a BERT given as a layer: all listed
 * singular values against those of Hugging Face transformers (dense SVD, float64), and how
 * far 20 pairs of products come. */
#include "core/rng.h"
#include "fixture.h"
#include "lipscope.h"
#include "test_device.h"

static double *tensor(const lipsc_st *st, const char *name, size_t *rows) {
    const lipsc_st_tensor *t = lipsc_st_find(st, name);
    if (!t) fail_msg("no tensor %s", name);
    size_t count = 1;
    for (size_t i = 0; i < t->ndim; i++) count *= t->shape[i];
    double *x = malloc(count * sizeof *x);
    assert_non_null(x);
    assert_int_equal(lipsc_st_read_f64(st, t, 0, count, x, NULL), LIPSC_OK);
    if (rows) *rows = t->shape[0];
    return x;
}

/* (in, out) columns from .. from+count-1 as rows: GPT-2 stores the transpose */
static double *columns(const double *w, size_t in, size_t out, size_t from, size_t count) {
    double *m = malloc(in * count * sizeof *m);
    assert_non_null(m);
    for (size_t r = 0; r < count; r++)
        for (size_t c = 0; c < in; c++) m[r * in + c] = w[c * out + from + r];
    return m;
}

typedef struct {
    lipsc_layer layer;
    double *owned[8];
} fixture_layer;

static fixture_layer load_gpt2(const lipsc_st *st, size_t l, size_t d, size_t heads) {
    fixture_layer f = {0};
    char name[96];
    snprintf(name, sizeof name, "h.%zu.attn.c_attn.weight", l);
    double *w = tensor(st, name, NULL);
    snprintf(name, sizeof name, "h.%zu.attn.c_attn.bias", l);
    double *b = tensor(st, name, NULL);
    snprintf(name, sizeof name, "h.%zu.attn.c_proj.weight", l);
    double *o = tensor(st, name, NULL);
    snprintf(name, sizeof name, "h.%zu.attn.c_proj.bias", l);
    lipsc_layer_defaults(&f.layer);
    f.layer.Q = f.owned[0] = columns(w, d, 3 * d, 0, d);
    f.layer.K = f.owned[1] = columns(w, d, 3 * d, d, d);
    f.layer.V = f.owned[2] = columns(w, d, 3 * d, 2 * d, d);
    f.layer.O = f.owned[3] = columns(o, d, d, 0, d);
    f.owned[4] = b;
    f.layer.bq = b;
    f.layer.bk = b + d;
    f.layer.bv = b + 2 * d;
    f.layer.bo = f.owned[5] = tensor(st, name, NULL);
    f.layer.mask = LIPSC_MASK_CAUSAL;
    f.layer.heads = heads;
    free(w);
    free(o);
    return f;
}

static fixture_layer load_bert(const lipsc_st *st, size_t l, size_t heads) {
    fixture_layer f = {0};
    static const char *const names[8] = {
        "self.query.weight", "self.key.weight", "self.value.weight", "output.dense.weight",
        "self.query.bias",   "self.key.bias",   "self.value.bias",   "output.dense.bias"};
    for (int i = 0; i < 8; i++) {
        char name[96];
        snprintf(name, sizeof name, "encoder.layer.%zu.attention.%s", l, names[i]);
        f.owned[i] = tensor(st, name, NULL);
    }
    lipsc_layer_defaults(&f.layer);
    f.layer.Q = f.owned[0], f.layer.K = f.owned[1], f.layer.V = f.owned[2];
    f.layer.O = f.owned[3];
    f.layer.bq = f.owned[4], f.layer.bk = f.owned[5], f.layer.bv = f.owned[6];
    f.layer.bo = f.owned[7];
    f.layer.heads = heads;
    return f;
}

/* value[0] after at most 20 pairs, f32: within 1e-3 of `exact`, and not above it */
static void twenty_pairs(const lipsc_layer *layer, const lipsc_input *input, double exact) {
    lipsc_attn *attn = NULL;
    lipsc_error err;
    if (lipsc_attn_new(layer, input, LIPSC_F32, test_device(2), &attn, &err))
        fail_msg("%s", err.text);
    lipsc_svd_settings set;
    lipsc_svd_info info;
    double sigma;
    lipsc_svd_defaults(&set);
    set.tol = 1e-9; /* out of reach: it must go to the limit */
    set.max_products = 20;
    lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info);
    assert_true(info.products <= 20);
    if (!(sigma >= exact * (1 - 1e-3) && sigma <= exact * (1 + 1e-12)))
        fail_msg("20 pairs: %.12g, exact %.12g (n %zu)", sigma, exact, input->n);
    lipsc_attn_free(attn);
}

/* The first fixture of the family. */
static void find_family(const char *family, char dir[PATH_SIZE]) {
    char names[MOST_FIXTURES][64];
    const size_t count = list_fixtures(names);
    for (size_t i = 0; i < count; i++)
        if (!strncmp(names[i], family, strlen(family)) && names[i][strlen(family)] == '-') {
            fixture_path(names[i], dir);
            return;
        }
    fail_msg("no %s in %s", family, fixtures_dir());
}

static void check_family(const char *folder, int gpt2) {
    char dir[PATH_SIZE], path[PATH_SIZE + 32];
    lipsc_st *weights = NULL, *reference = NULL;
    lipsc_error err;
    find_family(folder, dir);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    if (lipsc_st_open(path, &weights, &err)) fail_msg("%s", err.text);
    snprintf(path, sizeof path, "%s/reference.safetensors", dir);
    assert_int_equal(lipsc_st_open(path, &reference, &err), LIPSC_OK);
    snprintf(path, sizeof path, "%s/reference.json", dir);
    json_t *expected = load_json(path);
    snprintf(path, sizeof path, "%s/config.json", dir);
    json_t *config = load_json(path);
    const size_t d = (size_t)json_integer_value(
        json_object_get(config, gpt2 ? "n_embd" : "hidden_size"));
    const size_t heads = (size_t)json_integer_value(
        json_object_get(config, gpt2 ? "n_head" : "num_attention_heads"));

    size_t c, l, checked = 0;
    json_t *input, *layer_values;
    json_array_foreach(json_object_get(expected, "inputs"), c, input) {
        json_array_foreach(json_object_get(input, "layers"), l, layer_values) {
            fixture_layer f =
                gpt2 ? load_gpt2(weights, l, d, heads) : load_bert(weights, l, heads);
            f.layer.d = f.layer.out_dim = d;
            f.layer.key_dim = f.layer.value_dim = d / heads;
            char name[64];
            lipsc_input in = {0};
            snprintf(name, sizeof name, "%zu.%zu.attention_input", c, l);
            double *X = tensor(reference, name, &in.n);
            in.X = X;
            snprintf(name, sizeof name, "%zu.%zu.attention_output", c, l);
            double *Y = tensor(reference, name, NULL);

            lipsc_attn *attn = NULL;
            if (lipsc_attn_new(&f.layer, &in, LIPSC_F64, test_device(1), &attn, &err))
                fail_msg("%s", err.text);
            double *y = malloc(in.n * d * sizeof *y);
            assert_non_null(y);
            assert_int_equal(lipsc_attn_output(attn, y), LIPSC_OK);
            for (size_t i = 0; i < in.n * d; i++) /* float64 on both sides */
                assert_true(fabs(y[i] - Y[i]) <= 1e-10 * (1 + fabs(Y[i])));

            json_t *values = json_object_get(layer_values, "attention_singular_values");
            const size_t count = json_array_size(values);
            double sigma[16];
            assert_true(count >= 6 && count <= 16);
            lipsc_svd_settings set;
            lipsc_svd_info info;
            lipsc_svd_defaults(&set);
            set.count = count;
            assert_int_equal(lipsc_attn_sigma(attn, &set, sigma, NULL, NULL, &info),
                             LIPSC_OK);
            for (size_t i = 0; i < count; i++, checked++) {
                const double exact = json_real_value(json_array_get(values, i));
                if (!(fabs(sigma[i] - exact) <= 1e-8 * exact))
                    fail_msg("%s input %zu layer %zu value %zu: %.14g, reference %.14g",
                             folder, c, l, i, sigma[i], exact);
            }
            twenty_pairs(&f.layer, &in, json_real_value(json_array_get(values, 0)));
            lipsc_attn_free(attn);
            free(X), free(Y), free(y);
            for (int i = 0; i < 8; i++) free(f.owned[i]);
        }
    }
    print_message("%s: %zu singular values\n", folder, checked);
    assert_true(checked > 0);
    json_decref(expected);
    json_decref(config);
    lipsc_st_free(weights);
    lipsc_st_free(reference);
}

static void test_gpt2(void **state) {
    (void)state;
    check_family("gpt2", 1);
}

static void test_bert(void **state) {
    (void)state;
    check_family("bert", 0);
}

/* Random layers of GPT-2 size (d 768, 12 heads); the truth is the same operator in f64,
 * solved to a residual of 1e-7, hence to about 1e-14 in the value. */
static void test_random_gpt2_size(void **state) {
    (void)state;
    const size_t d = 768, n = 48;
    double *w[4], *X = malloc(n * d * sizeof *X);
    for (size_t m = 0; m < 4; m++) {
        w[m] = malloc(d * d * sizeof *w[m]);
        assert_true(w[m] && X);
        for (size_t i = 0; i < d * d; i++)
            w[m][i] = (m == 3 ? 0.02 : 0.06) * lipsc_rng_normal(m + 1, i);
    }
    for (size_t i = 0; i < n * d; i++) X[i] = lipsc_rng_normal(9, i);
    for (int causal = 0; causal < 2; causal++) {
        lipsc_layer layer;
        lipsc_layer_defaults(&layer);
        layer.d = layer.out_dim = d;
        layer.heads = 12;
        layer.key_dim = layer.value_dim = 64;
        layer.Q = w[0], layer.K = w[1], layer.V = w[2], layer.O = w[3];
        layer.mask = causal ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE;
        const lipsc_input input = {.n = n, .X = X};
        lipsc_attn *attn = NULL;
        lipsc_error err;
        if (lipsc_attn_new(&layer, &input, LIPSC_F64, test_device(2), &attn, &err))
            fail_msg("%s", err.text);
        lipsc_svd_settings set;
        lipsc_svd_info info;
        double sigma;
        lipsc_svd_defaults(&set);
        set.tol = 1e-7;
        assert_int_equal(lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info), LIPSC_OK);
        lipsc_attn_free(attn);
        twenty_pairs(&layer, &input, sigma);
    }
    for (size_t m = 0; m < 4; m++) free(w[m]);
    free(X);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gpt2),
        cmocka_unit_test(test_bert),
        cmocka_unit_test(test_random_gpt2_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
