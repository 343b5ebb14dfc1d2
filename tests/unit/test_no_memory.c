/* test_no_memory.c - layers, measures and their files where memory runs out. */
#include "no_memory.h"

#include "io/gauss_file.h"
#include "io/layer_file.h"
#include "io/measure_file.h"

/* ---- Files: the seeds of the fuzzers ------------------------------------------------ */

static void layer_file(const given *g, answer *a) {
    lipsc_st *st = NULL;
    lipsc_layer_file file;
    a->status = lipsc_st_parse(g->bytes, g->size, "it", &st, &a->err);
    if (!a->status) a->status = lipsc_layer_whole_from_st(st, &file, &a->err);
    if (!a->status) {
        a->value = (double)lipsc_layer_file_record(&file)->input.n;
        lipsc_layer_file_free(&file);
    }
    lipsc_st_free(st);
}

static void measure_file(const given *g, answer *a) {
    lipsc_measure_file file;
    a->status = lipsc_measure_from_bytes(g->bytes, g->size, "it", 1, &file, &a->err);
    if (a->status) return;
    a->value = file.measure.points[0] + (double)file.measure.n;
    lipsc_measure_file_free(&file);
}

static void gauss_file(const given *g, answer *a) {
    lipsc_st *st = NULL;
    lipsc_gauss_file file;
    a->status = lipsc_st_parse(g->bytes, g->size, "it", &st, &a->err);
    if (!a->status) a->status = lipsc_gauss_from_st(st, &file, &a->err);
    if (!a->status) {
        a->value = file.gauss.mean[0] + (double)file.gauss.parts;
        lipsc_gauss_file_free(&file);
    }
    lipsc_st_free(st);
}

static void test_files(void **state) {
    (void)state;
    sweep_seeds("layer_file", layer_file);
    sweep_seeds("measure_file", measure_file);
    sweep_seeds("gauss_file", gauss_file);
}

/* ---- Layers ------------------------------------------------------------------------- */

static lipsc_attn *open_layer(const given *g, lipsc_dtype dtype, answer *a) {
    lipsc_attn *attn = NULL;
    a->status =
        lipsc_attn_new(&g->layer.layer, &g->layer.input, dtype, NULL, &attn, &a->err);
    return attn;
}

static void sigma_by(const given *g, lipsc_dtype dtype, lipsc_method method, answer *a) {
    lipsc_attn *attn = open_layer(g, dtype, a);
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    set.method = method;
    set.max_products = 20;
    if (!a->status) a->status = lipsc_attn_sigma(attn, &set, &a->value, NULL, NULL, &info);
    lipsc_attn_free(attn);
}

static void lanczos(const given *g, answer *a) { sigma_by(g, LIPSC_F64, LIPSC_LANCZOS, a); }
static void lanczos_f32(const given *g, answer *a) {
    sigma_by(g, LIPSC_F32, LIPSC_LANCZOS, a);
}
static void power_f32(const given *g, answer *a) { sigma_by(g, LIPSC_F32, LIPSC_POWER, a); }

static void upper(const given *g, answer *a) {
    lipsc_attn *attn = open_layer(g, LIPSC_F64, a);
    lipsc_upper bound;
    if (!a->status) a->status = lipsc_attn_upper(attn, &bound, &a->err);
    if (!a->status) a->value = bound.value;
    lipsc_attn_free(attn);
}

static void around(const given *g, answer *a) {
    lipsc_attn *attn = open_layer(g, LIPSC_F64, a);
    lipsc_around bound;
    if (!a->status) a->status = lipsc_attn_around(attn, 0.125, &bound, &a->err);
    if (!a->status) a->value = bound.value;
    lipsc_attn_free(attn);
}

static void certified(const given *g, answer *a) {
    lipsc_attn *attn = open_layer(g, LIPSC_F64, a);
    lipsc_certificate found = {.upper = 0};
    if (!a->status) a->status = lipsc_attn_certify(attn, NULL, NULL, &found, &a->err);
    if (!a->status) a->value = found.upper;
    lipsc_attn_free(attn);
}

static void bounds(const given *g, answer *a) {
    lipsc_attn *attn = open_layer(g, LIPSC_F64, a);
    lipsc_bounds found;
    if (!a->status) a->status = lipsc_attn_bounds(attn, NULL, &found, &a->err);
    if (!a->status) {
        a->value = found.sigma + (double)found.count;
        for (size_t i = 0; i < found.count; i++)
            if (!*found.at[i].refused) a->value += found.at[i].value;
        lipsc_bounds_free(&found);
    }
    lipsc_attn_free(attn);
}

static void attack(const given *g, answer *a) {
    lipsc_attack_settings set;
    lipsc_attack_result found;
    lipsc_attack_defaults(&set);
    set.n = g->layer.input.n;
    set.domain = LIPSC_ATTACK_BALL;
    set.radius = 2;
    set.restarts = 1;
    set.iterations = 2;
    a->status = lipsc_attack_run(&g->layer.layer, &set, &found, &a->err);
    if (a->status) return;
    a->value = found.sigma;
    lipsc_attack_result_free(&found);
}

static void slopes(const given *g, answer *a) {
    const lipsc_layer *l = &g->layer.layer;
    const lipsc_measure mu = {.n = g->layer.input.n, .d = l->d, .points = g->layer.input.X};
    lipsc_slope_settings set;
    lipsc_slopes found;
    lipsc_slope_defaults(&set);
    set.restarts = 1;
    a->status = lipsc_slopes_find(l, &mu, &set, &found, &a->err);
    if (a->status) return;
    a->value = found.split;
    lipsc_slopes_free(&found);
}

static void distance(const given *g, answer *a) {
    const lipsc_measure mu = {
        .n = g->layer.input.n / 2, .d = g->layer.layer.d, .points = g->layer.input.X};
    const lipsc_measure nu = {
        .n = g->layer.input.n - mu.n, .d = mu.d, .points = g->layer.input.X + mu.n * mu.d};
    lipsc_distance_settings set;
    lipsc_distance found;
    lipsc_distance_defaults(&set);
    set.plan = 1;
    a->status = lipsc_distance_between(&mu, &nu, &set, &found, &a->err);
    if (a->status) return;
    a->value = found.distance;
    lipsc_distance_free(&found);
}

static void pairs(const given *g, answer *a) {
    lipsc_pairs_settings set;
    lipsc_pairs found;
    lipsc_pairs_defaults(&set);
    set.radius = 1;
    set.evaluations = 2;
    a->status = lipsc_pairs_find(&g->layer.layer, &set, &found, &a->err);
    if (a->status) return;
    a->value = found.best;
    lipsc_pairs_free(&found);
}

static void gaussian(const given *g, answer *a) {
    enum { D = 3 };
    static const double cov[D * D] = {2, 1, 0, 1, 2, 0, 0, 0, 1};
    const lipsc_gauss one = {.parts = 1, .d = D, .mean = g->layer.input.X, .cov = cov};
    const lipsc_gauss two = {.parts = 1, .d = D, .mean = g->layer.input.X + D, .cov = cov};
    const size_t lengths[] = {8, 16};
    double tokens[5 * D], slope, error[2], exponent;
    a->status = lipsc_gauss_check(&one, &a->err);
    if (!a->status) a->status = lipsc_gauss_distance(&one, &two, &a->value, &a->err);
    if (!a->status) a->status = lipsc_gauss_sample(&one, 5, 1, tokens, &a->err);
    if (!a->status)
        a->status = lipsc_gauss_push(&g->layer.layer, &one, NULL, NULL, &slope, &a->err);
    if (!a->status)
        a->status = lipsc_gauss_rate(&g->layer.layer, &one, 2, lengths, 2, 1, error,
                                     &exponent, &a->err);
    if (!a->status) a->value += slope + error[1] + tokens[4];
}

static void constructed(const given *g, answer *a) {
    double sigma = 0;
    for (int which = 0; lipsc_construction_name((lipsc_construction)which); which++) {
        lipsc_construct_settings set;
        lipsc_worst worst;
        lipsc_construct_defaults(&set);
        set.which = (lipsc_construction)which;
        set.n = 4;
        a->status = lipsc_construct(&g->layer.layer, &set, &worst, &a->err);
        if (a->status == LIPSC_E_NOMEM) return;
        if (a->status) continue;
        a->status = lipsc_worst_reach(&g->layer.layer, &worst, NULL, &sigma, &a->err);
        lipsc_worst_free(&worst);
        if (a->status == LIPSC_E_NOMEM) return;
        a->value += sigma;
    }
}

typedef struct {
    const char *name;
    call *what;
    long most; /* faults: those of slow calls are spread */
} named;

static void sweep_layers_of(const named *calls, size_t count, unsigned features,
                            uint64_t seed, layer_sizes sizes) {
    char name[64];
    const given g = {.layer = random_layer_of(seed, features, sizes)};
    for (size_t i = 0; i < count; i++) {
        snprintf(name, sizeof name, "%s, features %u", calls[i].name, features);
        sweep(name, calls[i].what, &g, calls[i].most);
    }
    test_layer freed = g.layer;
    test_layer_free(&freed);
}

static void sweep_layers(const named *calls, size_t count, unsigned features,
                         uint64_t seed) {
    sweep_layers_of(calls, count, features, seed, (layer_sizes){.n = 4, .d = 3});
}

/* So wide that it is solved for in other coordinates. */
static void test_wide(void **state) {
    static const named calls[] = {{"lanczos in f32", lanczos_f32, 60}};
    const layer_sizes wide = {.n = 4,
                              .d = 256,
                              .heads = 2,
                              .kv_heads = 2,
                              .key_dim = 8,
                              .value_dim = 40,
                              .out_dim = 64};
    (void)state;
    sweep_layers_of(calls, 1, 0, 11, wide);
}

static void test_layers(void **state) {
    static const named calls[] = {
        {"lanczos", lanczos, 100},  {"power in f32", power_f32, 100},
        {"upper", upper, 100},      {"around", around, 100},
        {"certify", certified, 40}, {"bounds", bounds, 40}};
    static const unsigned features[] = {
        0,
        FEATURE_CAUSAL | FEATURE_BIASES | FEATURE_GROUPED,
        FEATURE_TIMES | FEATURE_WEIGHTS | FEATURE_NO_OUTPUT,
        FEATURE_SLIDING | FEATURE_ROTARY | FEATURE_QK_NORM,
        FEATURE_ALIBI | FEATURE_SOFT_CAP | FEATURE_SINKS,
        FEATURE_BUCKETS | FEATURE_WHOLE_NORM | FEATURE_LOCAL,
    };
    (void)state;
    for (size_t i = 0; i < sizeof features / sizeof *features; i++)
        sweep_layers(calls, sizeof calls / sizeof *calls, features[i], i);
}

static void test_measures(void **state) {
    static const named calls[] = {
        {"attack", attack, 12}, {"slopes", slopes, 40},  {"distance", distance, 100},
        {"pairs", pairs, 12},   {"gauss", gaussian, 60}, {"construct", constructed, 60}};
    (void)state;
    sweep_layers(calls, sizeof calls / sizeof *calls, 0, 7);
    sweep_layers(calls, sizeof calls / sizeof *calls, FEATURE_CAUSAL, 8);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_layers),
        cmocka_unit_test(test_wide),
        cmocka_unit_test(test_measures),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
