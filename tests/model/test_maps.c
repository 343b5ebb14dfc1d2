/* test_maps.c - products with the Jacobian of every map: against central differences of the
 * forward pass, the adjoint identity, and the definition of attention. */
#include "core/extreme.h"
#include "attn/attn.h"
#include "core/rng.h"
#include "fixture.h"
#include "model/block.h"
#include "test_device.h"

/* A map of host doubles. */
static void apply(lipsc_map *map, int trans, size_t k, const double *x, double *y) {
    const lipsc_linop op = lipsc_map_linop(map);
    assert_int_equal(lipsc_linop_host(&op, trans, k, x, y), LIPSC_OK);
}

static void random_vector(size_t n, uint64_t seed, double *x) {
    for (size_t i = 0; i < n; i++) x[i] = lipsc_rng_normal(seed, i) / sqrt((double)n);
}

static double dot(size_t n, const double *x, const double *y) {
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += x[i] * y[i];
    return sum;
}

static double *read_tensor(const fixture *f, const char *name) {
    char path[PATH_SIZE + 32];
    lipsc_st *st;
    lipsc_error err = {0};
    snprintf(path, sizeof path, "%s/model.safetensors", f->dir);
    if (lipsc_st_open(path, &st, &err)) fail_msg("%s", err.text);
    const lipsc_st_tensor *t = lipsc_st_find(st, name);
    if (!t) fail_msg("%s: %s", path, name);
    double *values = malloc(t->count * sizeof *values);
    assert_non_null(values);
    assert_int_equal(lipsc_st_read_f64(st, t, 0, t->count, values, NULL), LIPSC_OK);
    lipsc_st_free(st);
    return values;
}

/* The block up to its first addition by the forward pass, whose end the fixtures check. */
static void residual_forward(const fixture *f, size_t n, const double *x, double *y) {
    const size_t count = n * lipsc_model_describe(f->model)->d;
    const lipsc_space *space = lipsc_device_space(f->model->home, LIPSC_F64);
    const lipsc_buffer bx = lipsc_space_alloc(space, count),
                       by = lipsc_space_alloc(space, count);
    assert_true(bx.at && by.at);
    assert_int_equal(lipsc_space_upload(space, count, x, bx), LIPSC_OK);
    assert_int_equal(lipsc_block_at(f->model, 0, LIPSC_UP_TO_RESIDUAL, NULL, LIPSC_F64,
                                    f->model->home, n, bx, 0, NULL, by, NULL, NULL),
                     LIPSC_OK);
    assert_int_equal(lipsc_space_download(space, count, by, y), LIPSC_OK);
    lipsc_space_release(space, bx);
    lipsc_space_release(space, by);
}

/* Models whose residual is written out below. */
static int is_plain(const fixture *f) {
    static const char *const plain[] = {"gpt2",       "bert",  "roberta",
                                        "distilbert", "llama", "mistral",
                                        "qwen2",      "qwen3", "vit"};
    for (size_t i = 0; i < sizeof plain / sizeof plain[0]; i++)
        if (!strcmp(plain[i], lipsc_model_describe(f->model)->architecture)) return 1;
    return 0;
}

/* y = x + attention output, and for post-norm models the LayerNorm behind it, written out
 * here once more. */
static void residual(const fixture *f, size_t n, const double *x, const double *attention,
                     double *y) {
    const lipsc_model_info *info = lipsc_model_describe(f->model);
    const size_t d = info->d;
    if (!is_plain(f)) {
        residual_forward(f, n, x, y);
        return;
    }
    for (size_t e = 0; e < n * d; e++) y[e] = x[e] + attention[e];
    if (info->pre_norm) return;
    const int distil = !strcmp(info->architecture, "distilbert");
    double *gain =
        read_tensor(f, distil ? "transformer.layer.0.sa_layer_norm.weight"
                              : "encoder.layer.0.attention.output.LayerNorm.weight");
    double *bias =
        read_tensor(f, distil ? "transformer.layer.0.sa_layer_norm.bias"
                              : "encoder.layer.0.attention.output.LayerNorm.bias");
    for (size_t i = 0; i < n; i++) {
        double mean = 0, variance = 0;
        for (size_t c = 0; c < d; c++) mean += y[i * d + c] / (double)d;
        for (size_t c = 0; c < d; c++)
            variance += (y[i * d + c] - mean) * (y[i * d + c] - mean) / (double)d;
        for (size_t c = 0; c < d; c++)
            y[i * d + c] =
                gain[c] * (y[i * d + c] - mean) / sqrt(variance + 1e-12) + bias[c];
    }
    free(gain);
    free(bias);
}

/* The map at x by the forward pass. */
static void evaluate(const fixture *f, lipsc_map_kind map, size_t n, const double *x,
                     double *y) {
    lipsc_error err = {0};
    lipsc_acts *acts;
    if (lipsc_acts_new_from(f->model, LIPSC_F64, test_device(0), n, x, 0, &acts, &err))
        fail_msg("%s", err.text);
    const size_t count = n * lipsc_model_describe(f->model)->d;
    const double *attention = lipsc_acts_attention_output(acts, 0);
    if (map == LIPSC_MAP_RESIDUAL)
        residual(f, n, x, attention, y);
    else
        memcpy(y,
               map == LIPSC_MAP_MODEL   ? lipsc_acts_output(acts)
               : map == LIPSC_MAP_BLOCK ? lipsc_acts_block_output(acts, 0)
                                        : attention,
               count * sizeof *y);
    lipsc_acts_free(acts);
}

/* (f(x + h v) - f(x - h v)) / 2h */
static void difference(const fixture *f, lipsc_map_kind map, size_t n, const double *x,
                       const double *v, double h, double *out) {
    const size_t count = n * lipsc_model_describe(f->model)->d;
    double *at = malloc(3 * count * sizeof *at), *plus = at + count, *minus = plus + count;
    assert_non_null(at);
    for (size_t e = 0; e < count; e++) at[e] = x[e] + h * v[e];
    evaluate(f, map, n, at, plus);
    for (size_t e = 0; e < count; e++) at[e] = x[e] - h * v[e];
    evaluate(f, map, n, at, minus);
    for (size_t e = 0; e < count; e++) out[e] = (plus[e] - minus[e]) / (2 * h);
    free(at);
}

static double check_map(const fixture *f, const lipsc_acts *acts, lipsc_map_kind kind) {
    const size_t n = lipsc_acts_length(acts), count = n * lipsc_model_describe(f->model)->d;
    const double *x = lipsc_acts_block_input(acts, 0);
    const lipsc_map_options options = {
        .map = kind, .head = -1, .dtype = LIPSC_F64, .device = test_device(2)};
    lipsc_error err = {0};
    lipsc_map *map;
    if (lipsc_map_new(f->model, acts, &options, &map, &err)) fail_msg("%s", err.text);
    enum { K = 10 }; /* more than one pass of directions */
    double *v = malloc(4 * K * count * sizeof *v), *jv = v + K * count;
    double *w = jv + K * count, *jw = w + K * count;
    assert_non_null(v);
    random_vector(K * count, 11, v);
    random_vector(K * count, 12, w);
    apply(map, 0, K, v, jv);
    apply(map, 1, K, w, jw);
    for (size_t k = 0; k < K; k++) { /* <J v, w> = <v, J^T w>, up to rounding */
        const double left = dot(count, jv + k * count, w + k * count);
        const double right = dot(count, v + k * count, jw + k * count);
        const double size = sqrt(dot(count, jv + k * count, jv + k * count));
        if (!(fabs(left - right) < 1e-12 * (1 + size)))
            fail_msg("%s map %d: <Jv,w> %.16g, <v,J^T w> %.16g", f->name, (int)kind, left,
                     right);
    }
    /* Steps h and h/2 extrapolated (Richardson): h^4 of truncation, 1e-16 / h of rounding.
     * The directions are small against x, and h = 1e-3 leaves about 1e-9. */
    double *coarse = malloc(2 * count * sizeof *coarse), *fine = coarse + count;
    assert_non_null(coarse);
    const double h = 1e-3;
    difference(f, kind, n, x, v, h, coarse);
    difference(f, kind, n, x, v, h / 2, fine);
    for (size_t e = 0; e < count; e++) fine[e] = (4 * fine[e] - coarse[e]) / 3;
    const double error = relative(count, jv, fine);
    free(coarse);
    free(v);
    lipsc_map_free(map);
    return error;
}

static void one_differences(fixture *f) {
    static const lipsc_map_kind kinds[] = {LIPSC_MAP_NORM_ATTENTION, LIPSC_MAP_RESIDUAL,
                                           LIPSC_MAP_BLOCK, LIPSC_MAP_MODEL};
    lipsc_acts *acts = fixture_run(f, 0, LIPSC_F64);
    double worst[4] = {0};
    for (int k = 0; k < 4; k++) {
        if (kinds[k] == LIPSC_MAP_NORM_ATTENTION &&
            !lipsc_model_describe(f->model)->pre_norm)
            continue;
        worst[k] = check_map(f, acts, kinds[k]);
    }
    print_message("%-14s central differences: norm-attention %.1e residual %.1e block "
                  "%.1e model %.1e\n",
                  f->name, worst[0], worst[1], worst[2], worst[3]);
    for (int k = 0; k < 4; k++)
        if (!(worst[k] < 1e-7))
            fail_msg("%s: map %d error %.3g", f->name, (int)kinds[k], worst[k]);
    lipsc_acts_free(acts);
}

static void test_differences(void **state) {
    (void)state;
    each_fixture(one_differences);
}

/* What the published scripts return: J^T, tested above, applied to the output of the
 * forward pass.  An f32 map is evaluated in double all the same. */
static void test_released(void **state) {
    (void)state;
    char names[MOST_FIXTURES][64];
    const size_t fixtures = list_fixtures(names);
    static const lipsc_map_kind kinds[] = {LIPSC_MAP_NORM_ATTENTION, LIPSC_MAP_RESIDUAL,
                                           LIPSC_MAP_BLOCK, LIPSC_MAP_MODEL};
    double worst = 0;
    for (size_t i = 0; i < fixtures; i++) {
        fixture f;
        fixture_open(&f, names[i]);
        lipsc_acts *acts = fixture_run(&f, 0, LIPSC_F64);
        const lipsc_model_info *info = lipsc_model_describe(f.model);
        const size_t n = lipsc_acts_length(acts), count = n * info->d;
        const double *x = lipsc_acts_block_input(acts, 0);
        double *y = malloc(2 * count * sizeof *y), *g = y + count, value;
        assert_non_null(y);
        for (size_t k = !info->pre_norm; k < 4; k++)
            for (int dtype = LIPSC_F64; dtype <= LIPSC_F32; dtype++) {
                const lipsc_map_options options = {.map = kinds[k],
                                                   .head = -1,
                                                   .dtype = (lipsc_dtype)dtype,
                                                   .device = test_device(1)};
                lipsc_error err = {0};
                lipsc_map *map;
                if (lipsc_map_new(f.model, acts, &options, &map, &err))
                    fail_msg("%s", err.text);
                if (dtype == LIPSC_F64) {
                    evaluate(&f, kinds[k], n, x, y);
                    apply(map, 1, 1, y, g);
                }
                assert_int_equal(lipsc_map_released(map, &value), LIPSC_OK);
                worst = lipsc_max(worst, fabs(value / sqrt(sqrt(dot(count, g, g))) - 1));
                lipsc_map_free(map);
            }
        free(y);
        lipsc_acts_free(acts);
        fixture_close(&f);
    }
    print_message("as released, worst error %.1e\n", worst);
    assert_true(worst < 1e-11); /* both in double; they differ in the order of sums */
}

/* One head and the override of the mask: what the map applies is what the definition says
 * of the layer that lipsc_model_layer describes, and the heads add up. */
static void check_heads(const fixture *f, const lipsc_mask *mask) {
    const lipsc_model_info *info = lipsc_model_describe(f->model);
    const size_t layer = info->layers - 1;
    lipsc_acts *acts = fixture_run(f, 1, LIPSC_F64);
    const size_t n = lipsc_acts_length(acts), count = n * info->d;
    const size_t joined = n * info->heads * info->head_dim,
                 most = joined > count ? joined : count;
    double *v = calloc(5 * most, sizeof *v), *ours = v + most, *theirs = ours + most;
    double *sum = theirs + most, *all = sum + most;
    assert_non_null(v);
    random_vector(count, 21, v);
    const lipsc_input input = {.n = n, .X = lipsc_acts_attention_input(acts, layer)};
    for (long head = -1; head < (long)info->heads; head++)
        for (int kind = LIPSC_MAP_HEADS; kind <= LIPSC_MAP_ATTENTION; kind++) {
            const lipsc_map_options options = {.map = (lipsc_map_kind)kind,
                                               .layer = layer,
                                               .head = head,
                                               .mask_override = mask,
                                               .dtype = LIPSC_F64,
                                               .device = test_device(1)};
            lipsc_error err = {0};
            lipsc_map *map;
            lipsc_layer l;
            if (lipsc_map_new(f->model, acts, &options, &map, &err) ||
                lipsc_model_layer(f->model, layer, head, options.map, mask, &l, &err))
                fail_msg("%s", err.text);
            const size_t out = n * lipsc_layer_width(&l);
            assert_true(out <= most);
            assert_int_equal(lipsc_map_linop(map).m, out);
            if (mask) assert_int_equal(lipsc_map_attn(map)->layer.mask, *mask);
            apply(map, 0, 1, v, ours);
            assert_int_equal(lipsc_ref_apply(&l, &input, 0, 1, v, theirs, &err), LIPSC_OK);
            assert_true(relative(out, ours, theirs) < 1e-12); /* rounding of double */
            if (kind == LIPSC_MAP_ATTENTION && head < 0)
                memcpy(all, ours, out * sizeof *all);
            if (kind == LIPSC_MAP_ATTENTION && head >= 0)
                for (size_t e = 0; e < out; e++) sum[e] += ours[e];
            lipsc_map_free(map);
        }
    assert_true(relative(count, sum, all) < 1e-12);
    free(v);
    lipsc_acts_free(acts);
}

static void one_heads(fixture *f) {
    const lipsc_mask none = LIPSC_MASK_NONE, causal = LIPSC_MASK_CAUSAL;
    check_heads(f, NULL);
    check_heads(f, &none);
    check_heads(f, &causal);
}

static void test_heads(void **state) {
    (void)state;
    each_fixture(one_heads);
}

/* The composed maps in f32: products agree with f64 up to f32 rounding through two or three
 * blocks, and a value found in f32 is |J v| in double. */
static void one_f32(fixture *f) {
    lipsc_acts *acts = fixture_run(f, 1, LIPSC_F64);
    const size_t len = lipsc_acts_length(acts) * lipsc_model_describe(f->model)->d;
    double *v = malloc(3 * len * sizeof *v), *a = v + len, *b = a + len;
    assert_non_null(v);
    random_vector(len, 31, v);
    double worst = 0, gap = 0;
    for (int kind = LIPSC_MAP_RESIDUAL; kind <= LIPSC_MAP_MODEL; kind++) {
        lipsc_map *map[2];
        for (int t = 0; t < 2; t++) {
            const lipsc_map_options options = {.map = (lipsc_map_kind)kind,
                                               .head = -1,
                                               .dtype = (lipsc_dtype)t,
                                               .device = test_device(1)};
            assert_int_equal(lipsc_map_new(f->model, acts, &options, &map[t], NULL),
                             LIPSC_OK);
        }
        for (int trans = 0; trans < 2; trans++) {
            apply(map[0], trans, 1, v, a);
            apply(map[1], trans, 1, v, b);
            worst = lipsc_max(worst, relative(len, b, a));
        }
        lipsc_svd_settings set;
        double f64, f32;
        lipsc_svd_defaults(&set);
        assert_int_equal(lipsc_map_sigma(map[0], &set, &f64, NULL, NULL, NULL), LIPSC_OK);
        set.tol = 1e-4; /* the default may end at the second value: a short random start */
        assert_int_equal(lipsc_map_sigma(map[1], &set, &f32, NULL, a, NULL), LIPSC_OK);
        apply(map[0], 0, 1, a, b);
        assert_true(fabs(sqrt(dot(len, b, b)) / f32 - 1) < 1e-12); /* double both times */
        assert_true(f32 < f64 * (1 + 1e-12));                      /* a lower bound */
        gap = lipsc_max(gap, 1 - f32 / f64);
        lipsc_map_free(map[0]);
        lipsc_map_free(map[1]);
    }
    print_message("%-14s f32: products %.1e, sigma below f64 by %.1e\n", f->name, worst,
                  gap);
    assert_true(worst < 1e-4);
    /* a residual of 1e-4 leaves about its square over the gap */
    assert_true(gap < 1e-6);
    free(v);
    lipsc_acts_free(acts);
}

static void test_f32(void **state) {
    (void)state;
    each_fixture(one_f32);
}

static void one_refusals(fixture *f) {
    lipsc_acts *acts = fixture_run(f, 0, LIPSC_F64);
    lipsc_map *map;
    lipsc_error err = {0};
    lipsc_map_options o = {.map = LIPSC_MAP_BLOCK, .head = 0, .device = test_device(1)};
    assert_int_equal(lipsc_map_new(f->model, acts, &o, &map, &err), LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "one head"));
    o = (lipsc_map_options){.layer = 99, .head = -1, .device = test_device(1)};
    assert_int_equal(lipsc_map_new(f->model, acts, &o, &map, &err), LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "no layer 99"));
    o = (lipsc_map_options){
        .map = LIPSC_MAP_ATTENTION, .head = 99, .device = test_device(1)};
    assert_int_equal(lipsc_map_new(f->model, acts, &o, &map, &err), LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "no head 99"));
    o = (lipsc_map_options){
        .map = LIPSC_MAP_NORM_ATTENTION, .head = -1, .device = test_device(1)};
    if (!lipsc_model_describe(f->model)->pre_norm) {
        assert_int_equal(lipsc_map_new(f->model, acts, &o, &map, &err), LIPSC_E_ARG);
        assert_non_null(strstr(err.text, "pre-norm"));
    }
    lipsc_acts_free(acts);
}

static void test_refusals(void **state) {
    (void)state;
    each_fixture(one_refusals);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_differences), cmocka_unit_test(test_released),
        cmocka_unit_test(test_heads), cmocka_unit_test(test_f32),
        cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
