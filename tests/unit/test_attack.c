/* test_attack.c - the search for the worst input: values that others found by search are
 * met or beaten, what it returns lies in its domain and is what the definition says, and
 * what cannot be searched ends as it should. */
#include "lipscope/attack.h"
#include "attack/domain.h"
#include "attack/search.h"
#include "layers.h"
#include "small_layer.h"
#include "svd/solver.h"
#include "test_device.h"

#include <string.h>

static lipsc_attack_settings settings(size_t n, double R, lipsc_attack_domain domain) {
    lipsc_attack_settings set;
    lipsc_attack_defaults(&set);
    set.n = n;
    set.radius = R;
    set.domain = domain;
    set.device = test_device(1);
    return set;
}

static double token_length(size_t d, const double *x) {
    double sum = 0.0;
    for (size_t c = 0; c < d; c++) sum += x[c] * x[c];
    return sqrt(sum);
}

/* sigma and the residual of the returned direction by the definition in plain loops, and
 * the order construction <= found <= upper.  1e-9: rounding of sums of a few hundred terms,
 * and of the residual, which an f64 solve leaves below 1e-8. */
static void check_result(const lipsc_layer *layer, const lipsc_attack_settings *set,
                         const lipsc_attack_result *r) {
    const size_t in = r->n * r->d, out = r->n * r->width;
    const lipsc_input input = {
        .n = r->n, .X = r->X, .weights = r->weights ? r->weights : set->weights};
    double *y = malloc((in + out) * sizeof *y), *back = y + out, reached, gap = 0.0;
    assert_non_null(y);
    assert_int_equal(lipsc_ref_apply(layer, &input, 0, 1, r->v, y, NULL), LIPSC_OK);
    assert_int_equal(lipsc_ref_apply(layer, &input, 1, 1, y, back, NULL), LIPSC_OK);
    reached = token_length(out, y);
    assert_true(fabs(token_length(in, r->v) - 1.0) < 1e-12);
    assert_true(fabs(reached - r->sigma) <= 1e-9 * r->sigma);
    for (size_t e = 0; e < in; e++) back[e] -= reached * reached * r->v[e];
    gap = token_length(in, back);
    assert_true(gap <= 1e-7 * reached * reached);
    assert_true(isnan(r->best_construction) || r->sigma >= r->best_construction);
    assert_true(isnan(r->upper) || r->sigma <= r->upper * (1.0 + 1e-12));
    free(y);
}

static lipsc_attack_result attack(const lipsc_layer *layer,
                                  const lipsc_attack_settings *set) {
    lipsc_attack_result r;
    lipsc_error err = {.text = ""};
    const lipsc_status status = lipsc_attack_run(layer, set, &r, &err);
    if (status) print_message("%s\n", err.text);
    assert_int_equal(status, LIPSC_OK);
    check_result(layer, set, &r);
    return r;
}

/* ---- Values found by search (docs/maths.md 4 and 5) --------------------------------- */

static double identity_attack(size_t d, double factor, const lipsc_attack_settings *set) {
    small_layer s;
    small_identity(&s, d, factor);
    lipsc_attack_result r = attack(&s.layer, set);
    const double sigma = r.sigma;
    lipsc_attack_result_free(&r);
    lipsc_head_facts_free(&s.facts);
    return sigma;
}

/* A = -I, d = 2, R = 2, n = 24: at least sqrt(2(n-2)) p |Ax| |b|, the two outliers of 5.2
 */
static void test_two_outliers(void **state) {
    (void)state;
    lipsc_attack_settings set = settings(24, 2.0, LIPSC_ATTACK_BALL);
    set.restarts = 8;
    const double promised = sqrt(2.0 * 22.0) / (2.0 + 22.0 * exp(-4.0)) * 4.0;
    const double sigma = identity_attack(2, -1.0, &set);
    assert_true(sigma > promised && sigma > 12.9399); /* 12.939945 when this was written */
}

/* A = +gI, measures: the table of 4 (three weighted atoms, best of many runs of another
 * optimiser, four decimals), and 3a/2 + 1/2 + 1/(24a) of src/attack/light.c */
static void test_positive(void **state) {
    (void)state;
    static const double table[][2] = {
        {1, 2.0437}, {4, 6.5105}, {8, 12.5052}, {16, 21.7055}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const double a = table[i][0];
        lipsc_attack_settings set = settings(6, sqrt(a), LIPSC_ATTACK_BALL);
        set.masses = 1;
        const double sigma = identity_attack(1, 1.0, &set);
        assert_true(sigma > table[i][1] - 5e-5); /* half of the last digit printed */
        assert_true(sigma > 1.5 * a + 0.5 + 1.0 / (24.0 * a) - 1e-7);
    }
    /* three atoms beat both families of one head from a = 20 on: 44.466201 and 278.853305
     * are what Nelder and Mead find in numpy */
    lipsc_attack_settings set = settings(6, sqrt(20.0), LIPSC_ATTACK_BALL);
    set.masses = 1;
    assert_true(identity_attack(1, 1.0, &set) > 44.46);
    set.radius = sqrt(32.0);
    assert_true(identity_attack(1, 1.0, &set) > 278.8);
}

/* A = -gI, measures: the last column of the table of 5.3 */
static void test_negative_measures(void **state) {
    (void)state;
    static const double table[][2] = {{0.25, 1.0000}, {0.5, 1.3148}, {1, 3.0687},
                                      {2, 12.9963},   {3, 48.0676},  {4, 165.8455}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        lipsc_attack_settings set = settings(4, sqrt(table[i][0]), LIPSC_ATTACK_BALL);
        set.masses = 1;
        assert_true(identity_attack(1, -1.0, &set) > table[i][1] - 5e-5);
    }
}

/* On the sphere, A = +gI, R = 2, d = 3: 5.5 prints 1.70, 1.82, 1.83 for moves along it */
static void test_sphere(void **state) {
    (void)state;
    static const double table[][2] = {{4, 1.6970}, {8, 1.8176}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        lipsc_attack_settings set = settings((size_t)table[i][0], 2.0, LIPSC_ATTACK_SPHERE);
        assert_true(identity_attack(3, 1.0, &set) > table[i][1]);
    }
}

/* ---- Domains ------------------------------------------------------------------------ */

/* Small random layers: with and without a mask, several heads, biases. */
static void test_domains(void **state) {
    (void)state;
    static const unsigned features[] = {0, FEATURE_CAUSAL | FEATURE_BIASES,
                                        FEATURE_SLIDING | FEATURE_NO_OUTPUT,
                                        FEATURE_ROTARY | FEATURE_QK_NORM};
    for (size_t f = 0; f < sizeof features / sizeof *features; f++) {
        test_layer t = random_layer(11 + f, features[f]);
        lipsc_layer layer;
        assert_int_equal(lipsc_layer_check(&t.layer, &layer, NULL), LIPSC_OK);
        const size_t n = 4, d = layer.d;
        double *gain = malloc(2 * d * sizeof *gain), *shift = gain + d;
        assert_non_null(gain);
        for (size_t c = 0; c < d; c++) {
            gain[c] = 0.5 + 0.1 * (double)(c % 5);
            shift[c] = 0.1 * (double)(c % 3);
        }
        for (int domain = LIPSC_ATTACK_BALL; domain <= LIPSC_ATTACK_AROUND; domain++) {
            lipsc_attack_settings set = settings(n, 0.7, (lipsc_attack_domain)domain);
            set.centre = set.data = t.input.X;
            set.gain = gain;
            set.shift = shift;
            set.centred = 1;
            set.restarts = 4;
            set.iterations = 12;
            lipsc_attack_result r = attack(&layer, &set);
            for (size_t i = 0; i < n; i++) {
                const double *x = r.X + i * d;
                double sum = 0.0, square = 0.0, away = 0.0;
                for (size_t c = 0; c < d; c++) {
                    const double z = (x[c] - shift[c]) / gain[c] / sqrt((double)d);
                    sum += z;
                    square += z * z;
                    away += (x[c] - t.input.X[i * d + c]) * (x[c] - t.input.X[i * d + c]);
                }
                const double length = token_length(d, x), eps = 1e-12;
                if (domain == LIPSC_ATTACK_BALL) assert_true(length <= 0.7 + eps);
                if (domain == LIPSC_ATTACK_SPHERE) assert_true(fabs(length - 0.7) < eps);
                if (domain == LIPSC_ATTACK_AROUND) assert_true(sqrt(away) <= 0.7 + eps);
                if (domain == LIPSC_ATTACK_NORM)
                    assert_true(fabs(sum) < eps && fabs(square - 1.0) < eps);
            }
            lipsc_attack_result_free(&r);
        }
        free(gain);
        test_layer_free(&t);
    }
}

/* Around an input the value at the input itself is the least that is returned. */
static void test_around(void **state) {
    (void)state;
    small_layer s;
    small_identity(&s, 2, -1.0);
    const double X[] = {1, 0.5, -0.3, 0.2, 0.1, -1, 0.4, 0.4};
    const lipsc_input input = {.n = 4, .X = X};
    const double here = small_sigma(&s, LIPSC_MASK_NONE, &input);
    lipsc_attack_settings set = settings(4, 0.0, LIPSC_ATTACK_AROUND);
    set.centre = set.data = X;
    set.restarts = 3;
    lipsc_attack_result r = attack(&s.layer, &set);
    assert_true(fabs(r.sigma - here) < 1e-12 * here); /* radius 0 */
    lipsc_attack_result_free(&r);
    set.radius = 0.25;
    r = attack(&s.layer, &set);
    assert_true(r.sigma > 1.05 * here);
    lipsc_attack_result_free(&r);
    lipsc_head_facts_free(&s.facts);
}

/* ---- Ends --------------------------------------------------------------------------- */

static void test_ends(void **state) {
    (void)state;
    lipsc_attack_settings set = settings(1, 2.0, LIPSC_ATTACK_BALL);
    set.restarts = 4;
    assert_true(fabs(identity_attack(2, -1.0, &set) - 1.0) < 1e-12); /* n = 1: |V| */
    set.n = 5;
    set.radius = 0.0;
    assert_true(fabs(identity_attack(2, -1.0, &set) - 1.0) < 1e-12); /* averaging */
    set.radius = 2.0;
    assert_true(fabs(identity_attack(2, 0.0, &set) - 1.0) < 1e-12); /* A = 0 */

    small_layer s;
    small_identity(&s, 2, 1.0);
    memset(s.V, 0, sizeof s.V);
    lipsc_attack_result r = attack(&s.layer, &set); /* V = 0 */
    assert_true(r.sigma == 0.0 && r.upper == 0.0);
    lipsc_attack_result_free(&r);

    lipsc_error err;
    set.radius = 1e80; /* scores of 1e160: rounding would decide */
    assert_int_equal(lipsc_attack_run(&s.layer, &set, &r, &err), LIPSC_E_RANGE);
    set.radius = 1e200;
    assert_int_equal(lipsc_attack_run(&s.layer, &set, &r, &err), LIPSC_E_RANGE);
    set.radius = NAN;
    assert_int_equal(lipsc_attack_run(&s.layer, &set, &r, &err), LIPSC_E_ARG);
    set = settings(3, 1.0, LIPSC_ATTACK_NORM);
    assert_int_equal(lipsc_attack_run(&s.layer, &set, &r, &err), LIPSC_E_ARG);
    set = settings(3, 1.0, LIPSC_ATTACK_AROUND);
    assert_int_equal(lipsc_attack_run(&s.layer, &set, &r, &err), LIPSC_E_ARG);
    set = settings(0, 1.0, LIPSC_ATTACK_BALL);
    assert_int_equal(lipsc_attack_run(&s.layer, &set, &r, &err), LIPSC_E_ARG);
    lipsc_head_facts_free(&s.facts);
}

typedef struct {
    long calls, after;
} stopper;

static int stop(void *ctx) {
    stopper *s = ctx;
    return ++s->calls > s->after;
}

/* Stopped anywhere, it returns the best so far, or says that there is nothing yet. */
static void stop_everywhere(double R, double least) {
    small_layer s;
    small_identity(&s, 2, -1.0);
    double last = 0.0;
    for (long after = 0; after < 400; after = 2 * after + 1) {
        stopper when = {.after = after};
        lipsc_attack_settings set = settings(8, R, LIPSC_ATTACK_BALL);
        lipsc_attack_result r;
        lipsc_error err;
        set.stop = stop;
        set.ctx = &when;
        assert_int_equal(lipsc_attack_run(&s.layer, &set, &r, &err), LIPSC_E_STOPPED);
        if (!r.X) continue;
        check_result(&s.layer, &set, &r);
        assert_true(r.sigma >= last * (1.0 - 1e-12)); /* more time, no less */
        last = r.sigma;
        lipsc_attack_result_free(&r);
    }
    assert_true(last > least);
    lipsc_head_facts_free(&s.facts);
}

/* R = 12 is a = 144: there scores are made smaller on the way. */
static void test_stop(void **state) {
    (void)state;
    stop_everywhere(2.0, 7.9);
    stop_everywhere(12.0, 249.4); /* sqrt(2(n-2)) a / 2 */
}

/* Large scores: at least the two outliers, a sqrt((n-2)/2), and no more than is proved. */
static void test_large_scores(void **state) {
    (void)state;
    lipsc_attack_settings set = settings(12, 15.0, LIPSC_ATTACK_BALL);
    set.restarts = 4;
    set.iterations = 40;
    assert_true(identity_attack(2, -1.0, &set) > 225.0 * sqrt(5.0) - 1e-6);
    set.dtype = LIPSC_F32;
    assert_true(identity_attack(2, -1.0, &set) > 225.0 * sqrt(5.0) - 1e-6);
}

/* The same seed gives the same input, bit by bit; f32 finds what f64 finds to its own
 * precision and is re-evaluated in double. */
static void test_repeats(void **state) {
    (void)state;
    small_layer s;
    small_identity(&s, 2, -1.0);
    lipsc_attack_settings set = settings(6, 1.5, LIPSC_ATTACK_BALL);
    set.restarts = 6;
    lipsc_attack_result a = attack(&s.layer, &set), b = attack(&s.layer, &set);
    assert_memory_equal(a.X, b.X, 12 * sizeof *a.X);
    assert_true(a.sigma == b.sigma);
    lipsc_attack_result_free(&b);
    set.dtype = LIPSC_F32;
    b = attack(&s.layer, &set);
    assert_true(b.sigma > 0.999 * a.sigma); /* another path, the same hill */
    lipsc_attack_result_free(&a);
    lipsc_attack_result_free(&b);
    lipsc_head_facts_free(&s.facts);
}

/* Inputs looked at in one batch have the bits, values, directions and gradients, of each
 * one alone, with any number of threads. */
enum { SPOTS = 5, TOKENS = 70 };

static void same_views(lipsc_search *s, lipsc_view *const *together) {
    for (size_t i = 0; i < SPOTS; i++) {
        lipsc_view view, *alone = &view;
        assert_int_equal(lipsc_view_new(s, &view), LIPSC_OK);
        view.y = together[i]->y;
        view.look = together[i]->look;
        view.near = together[i]->near;
        view.seed = together[i]->seed;
        assert_int_equal(lipsc_views_look(s, 1, &alone), LIPSC_OK);
        view.slopes = together[i]->slopes;
        assert_true(view.sigma[0] > 0.0);
        assert_int_equal(lipsc_views_differentiate(s, 1, &alone), LIPSC_OK);
        const size_t pairs = together[i]->pairs, size = s->region.size;
        assert_memory_equal(view.sigma, together[i]->sigma, pairs * sizeof(double));
        assert_memory_equal(view.v, together[i]->v, pairs * s->in * sizeof(double));
        assert_memory_equal(view.forms, together[i]->forms,
                            view.slopes * size * sizeof(double));
        lipsc_view_free(&view);
    }
}

static void looked_at_together(lipsc_dtype dtype, int threads, int masses) {
    small_layer layer;
    lipsc_search s;
    lipsc_view *views[SPOTS];
    double *y[SPOTS], *near[SPOTS];
    small_identity(&layer, 2, -1.0);
    lipsc_attack_settings set = settings(TOKENS, 2.0, LIPSC_ATTACK_BALL);
    set.dtype = dtype;
    set.masses = masses;
    set.device = test_device(threads);
    assert_int_equal(lipsc_search_open(&layer.layer, &set, &s, NULL), LIPSC_OK);
    assert_false(s.dense);
    assert_int_equal(s.together, 512 / TOKENS);
    for (size_t i = 0; i < SPOTS; i++) {
        views[i] = &s.views[i];
        y[i] = random_vectors(40 + i, s.region.size);
        near[i] = random_vectors(60 + i, s.in);
        const double length = token_length(s.in, near[i]);
        for (size_t e = 0; e < s.in; e++) near[i][e] /= length;
        lipsc_region_move(&s.region, y[i], 0.0, y[i], y[i]);
    }
    for (int look = 0; look < LIPSC_LOOKS; look++) {
        for (size_t i = 0; i < SPOTS; i++) {
            views[i]->y = y[i];
            views[i]->near = near[i];
            views[i]->look = (lipsc_look)look;
            views[i]->seed = 7 + i;
        }
        assert_int_equal(lipsc_views_look(&s, SPOTS, views), LIPSC_OK);
        for (size_t i = 0; i < SPOTS; i++) views[i]->slopes = 1 + i % views[i]->pairs;
        assert_int_equal(lipsc_views_differentiate(&s, SPOTS, views), LIPSC_OK);
        same_views(&s, views);
    }
    assert_int_equal(s.evaluations, 2 * LIPSC_LOOKS * SPOTS);
    for (size_t i = 0; i < SPOTS; i++) free(y[i]), free(near[i]);
    lipsc_search_close(&s);
    lipsc_head_facts_free(&layer.facts);
}

static void test_batches(void **state) {
    (void)state;
    for (int threads = 1; threads <= 2; threads++)
        for (int masses = 0; masses <= 1; masses++) {
            looked_at_together(LIPSC_F32, threads, masses);
            looked_at_together(LIPSC_F64, threads, masses);
        }
}

/* Climbs from random inputs: where they are after `iterations`, all of them in one call or
 * in two, `together` at once. */
static lipsc_climb *climb(const lipsc_layer *layer, lipsc_dtype dtype, int threads,
                          size_t together, int halves, lipsc_search *s) {
    enum { ITERATIONS = 6 };
    static lipsc_attack_settings set; /* as long as the search */
    set = settings(TOKENS, 2.0, LIPSC_ATTACK_BALL);
    set.dtype = dtype;
    set.device = test_device(threads);
    assert_int_equal(lipsc_search_open(layer, &set, s, NULL), LIPSC_OK);
    assert_true(together <= s->together);
    while (s->together > together) lipsc_view_free(&s->views[--s->together]);
    lipsc_climb *climbs = calloc(SPOTS, sizeof *climbs);
    assert_non_null(climbs);
    for (size_t i = 0; i < SPOTS; i++) {
        assert_int_equal(lipsc_climb_new(s, &climbs[i]), LIPSC_OK);
        double *tokens = random_vectors(80 + i, s->region.size);
        memcpy(climbs[i].spot.y, tokens, s->region.size * sizeof *tokens);
        lipsc_region_move(&s->region, climbs[i].spot.y, 0.0, tokens, climbs[i].spot.y);
        snprintf(climbs[i].spot.start, sizeof climbs[i].spot.start, "%zu", i);
        climbs[i].number = i;
        free(tokens);
    }
    const size_t first = halves ? 2 : SPOTS;
    assert_int_equal(lipsc_climbs_advance(s, first, climbs, ITERATIONS), LIPSC_OK);
    assert_int_equal(lipsc_climbs_advance(s, SPOTS - first, climbs + first, ITERATIONS),
                     LIPSC_OK);
    return climbs;
}

static void climbs_free(lipsc_search *s, lipsc_climb *climbs) {
    for (size_t i = 0; i < SPOTS; i++) lipsc_climb_free(&climbs[i]);
    free(climbs);
    lipsc_search_close(s);
}

/* A climb goes its way to the last bit whoever climbs beside it, with any number of
 * threads, however many go on at once. */
static void test_climbs(void **state) {
    (void)state;
    static const struct {
        int threads, halves;
        size_t together;
    } ways[] = {{1, 0, 1}, {1, 0, 3}, {2, 0, 5}, {1, 1, 7}, {2, 1, 2}};
    small_layer layer;
    small_identity(&layer, 2, -1.0);
    for (int dtype = LIPSC_F64; dtype <= LIPSC_F32; dtype++) {
        lipsc_search s[2];
        lipsc_climb *alone = climb(&layer.layer, (lipsc_dtype)dtype, 1, 1, 1, &s[0]);
        for (size_t i = 0; i < SPOTS; i++) assert_true(alone[i].iterations == 6);
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++) {
            lipsc_climb *beside = climb(&layer.layer, (lipsc_dtype)dtype, ways[w].threads,
                                        ways[w].together, ways[w].halves, &s[1]);
            for (size_t i = 0; i < SPOTS; i++) {
                assert_memory_equal(alone[i].spot.y, beside[i].spot.y,
                                    s[0].region.size * sizeof(double));
                assert_memory_equal(alone[i].g, beside[i].g,
                                    s[0].region.size * sizeof(double));
                assert_memory_equal(alone[i].spot.v, beside[i].spot.v,
                                    s[0].in * sizeof(double));
                assert_true(alone[i].spot.sigma == beside[i].spot.sigma);
            }
            assert_true(s[0].best.sigma == s[1].best.sigma);
            assert_string_equal(s[0].best.start, s[1].best.start);
            assert_int_equal(s[0].evaluations, s[1].evaluations);
            climbs_free(&s[1], beside);
        }
        climbs_free(&s[0], alone);
    }
    lipsc_head_facts_free(&layer.facts);
}

/* ---- A solve begun near an older answer --------------------------------------------- */

enum { ORDER = 50 };

static lipsc_status apply_diagonal(void *ctx, int trans, size_t k, lipsc_buffer x,
                                   lipsc_buffer y) {
    const double *in = x.at;
    double *out = y.at;
    (void)ctx, (void)trans;
    for (size_t e = 0; e < k * ORDER; e++) out[e] = in[e] * (double)(e % ORDER + 1);
    return LIPSC_OK;
}

/* diag(1 ... 50) from the second largest direction: the largest is found all the same. */
static void test_near_start(void **state) {
    (void)state;
    const lipsc_linop op = {.m = ORDER,
                            .n = ORDER,
                            .space = lipsc_space_host(LIPSC_F64),
                            .apply = apply_diagonal};
    double start[ORDER] = {0}, sigma, u[ORDER], v[ORDER];
    lipsc_svd_settings set;
    lipsc_svd_info info;
    lipsc_svd_defaults(&set);
    set.basis = 20;
    start[ORDER - 2] = 1.0;
    assert_int_equal(lipsc_svd_linop_from(&op, &set, lipsc_host_view(ORDER, start), &sigma,
                                          lipsc_host_view(ORDER, u),
                                          lipsc_host_view(ORDER, v), &info),
                     LIPSC_OK);
    assert_true(fabs(sigma - 50.0) < 1e-12 * 50.0);
    assert_true(isnan(info.upper_prob)); /* the start was not random */
    const long from_second = info.products;
    start[ORDER - 2] = 0.0;
    start[ORDER - 1] = 1.0;
    assert_int_equal(lipsc_svd_linop_from(&op, &set, lipsc_host_view(ORDER, start), &sigma,
                                          lipsc_host_view(ORDER, u),
                                          lipsc_host_view(ORDER, v), &info),
                     LIPSC_OK);
    assert_true(fabs(sigma - 50.0) < 1e-12 * 50.0 && info.products <= from_second);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_two_outliers),
                                       cmocka_unit_test(test_positive),
                                       cmocka_unit_test(test_negative_measures),
                                       cmocka_unit_test(test_sphere),
                                       cmocka_unit_test(test_domains),
                                       cmocka_unit_test(test_around),
                                       cmocka_unit_test(test_ends),
                                       cmocka_unit_test(test_stop),
                                       cmocka_unit_test(test_large_scores),
                                       cmocka_unit_test(test_repeats),
                                       cmocka_unit_test(test_batches),
                                       cmocka_unit_test(test_climbs),
                                       cmocka_unit_test(test_near_start)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
