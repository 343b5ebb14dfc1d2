/* test_certify_layers.c - certificates of attention layers with every option that they may
 * have, judged by LAPACK's norm of the Jacobian assembled from the definition. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "exact_norm.h"
#include "layers.h"
#include "test_device.h"

/* Features that can stand together, each new one in a third of the layers. */
static unsigned draw_features(stream *s) {
    unsigned features = (unsigned)draw(s, 0, (1u << FEATURES) - 1);
    features &= ~(unsigned)(FEATURE_SATURATED | FEATURE_ONE_TOKEN);
    for (unsigned f = FEATURES; f < ALL_FEATURES; f++)
        if (!draw(s, 0, 2)) features |= 1u << f;
    if (features & FEATURE_WHOLE_NORM) features |= FEATURE_QK_NORM;
    if (features & (FEATURE_ALIBI | FEATURE_BUCKETS)) features &= ~(unsigned)FEATURE_TIMES;
    return features;
}

/* sigma of the definition is LAPACK's, good to 1e-12. */
static void check_layer(const test_layer *t, lipsc_dtype dtype, uint64_t seed,
                        unsigned features) {
    const double sigma = exact_norm(&t->layer, &t->input);
    double *v = doubles(t->in), found;
    lipsc_attn *attn;
    lipsc_svd_settings solver;
    lipsc_svd_info info;
    lipsc_certify_settings set;
    lipsc_certificate got;
    lipsc_error err = {0};
    lipsc_svd_defaults(&solver);
    solver.tol = 1e-5; /* within half of 1e-3, in f32 too */
    lipsc_certify_defaults(&set);
    assert_int_equal(
        lipsc_attn_new(&t->layer, &t->input, dtype, test_device(1), &attn, &err), LIPSC_OK);
    assert_int_equal(lipsc_attn_sigma(attn, &solver, &found, NULL, v, &info), LIPSC_OK);
    if (lipsc_attn_certify(attn, v, &set, &got, &err))
        fail_msg("seed %llu, features %x: %s", (unsigned long long)seed, features,
                 err.text);
    if (!(got.certified && got.upper <= 1.001 * got.lower &&
          got.lower <= sigma * (1.0 + 1e-12) && sigma * (1.0 - 1e-12) <= got.upper))
        fail_msg("seed %llu, features %x: [%.17g, %.17g] for %.17g",
                 (unsigned long long)seed, features, got.lower, got.upper, sigma);
    lipsc_attn_free(attn);
    free(v);
}

static void every_layer_closes(void **state) {
    (void)state;
    enum { LAYERS = 250 };
    for (uint64_t seed = 1; seed <= LAYERS; seed++) {
        stream s = {seed + 90000, 0};
        const unsigned features = draw_features(&s);
        test_layer t = random_layer_of(seed, features, (layer_sizes){.n = draw(&s, 2, 16)});
        check_layer(&t, seed % 4 ? LIPSC_F64 : LIPSC_F32, seed, features);
        test_layer_free(&t);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_layer_closes)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
