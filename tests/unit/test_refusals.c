/* test_refusals.c - what a caller of the library can ask for and a command cannot: each is
 * refused with its code and one sentence, and nothing is handed out. */
#include "lipscope.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
/* cmocka.h wants the above */
#include <cmocka.h>

#define REFUSED(call, status, sentence)          \
    do {                                         \
        lipsc_error err;                         \
        memset(&err, 0, sizeof err);             \
        assert_int_equal(call, status);          \
        assert_int_equal(err.code, status);      \
        assert_string_equal(err.text, sentence); \
    } while (0)

static const double one[] = {1.0, 0.0, 0.0, 1.0};
static const double points[] = {0.0, 0.0, 1.0, 0.0, 0.0, 1.0};
static const double times[] = {0.0, 0.5, 1.0};
static const lipsc_measure three = {.n = 3, .d = 2, .points = points};
static const lipsc_measure timed = {.n = 3, .d = 2, .points = points, .times = times};
static const lipsc_measure narrow = {.n = 3, .d = 1, .points = points};

/* One head of width 2 with A = V = I. */
static lipsc_layer plain(void) {
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.d = layer.key_dim = layer.value_dim = 2;
    layer.Q = layer.V = one;
    return layer;
}

/* ---- Measures ---------------------------------------------------------------------- */

static void maps_of_measures(void **state) {
    (void)state;
    const lipsc_layer layer = plain();
    lipsc_layer turned = layer;
    double y[6];
    turned.rotary_dim = 2, turned.rotary_freq = one;
    lipsc_cloud cloud;
    lipsc_slopes slopes;
    REFUSED(lipsc_measure_map(&layer, &narrow, 1, points, NULL, y, &err), LIPSC_E_ARG,
            "the points of the measure have width 1, the layer takes 2");
    REFUSED(lipsc_measure_map(&layer, &three, 1, points, times, y, &err), LIPSC_E_ARG,
            "the measure and the points must both have times, or neither");
    REFUSED(lipsc_measure_map(&turned, &three, 1, points, NULL, y, &err), LIPSC_E_REFUSED,
            "rotary positions or query/key norms: scores are not linear in the tokens");
    const double early = -1.0; /* before all atoms: it sees none */
    REFUSED(lipsc_measure_map(&layer, &timed, 1, points, &early, y, &err), LIPSC_E_REFUSED,
            "attention at this point: it stands before all tokens and sees none");
    REFUSED(lipsc_slopes_find(&turned, &three, NULL, &slopes, &err), LIPSC_E_REFUSED,
            "rotary positions: scores depend on places, which the atoms of a measure do "
            "not have");
    REFUSED(lipsc_measure_push(&turned, &three, NULL, &cloud, &err), LIPSC_E_REFUSED,
            "rotary positions: scores depend on places, which the atoms of a measure do "
            "not have");
}

static void tokens_of_measures(void **state) {
    (void)state;
    const double weights[] = {0.5, 0.5 - 1e-10, 1e-10};
    const lipsc_measure uneven = {.n = 3, .d = 2, .points = points, .weights = weights};
    double X[8];
    REFUSED(lipsc_measure_tokens(&three, 4, X, &err), LIPSC_E_REFUSED,
            "weight 0 of the measure is no multiple of 1/4");
    REFUSED(lipsc_measure_tokens(&uneven, 4, X, &err), LIPSC_E_REFUSED,
            "weight 2 of the measure is no multiple of 1/4");
}

static void slopes_of_measures(void **state) {
    (void)state;
    const lipsc_layer layer = plain();
    lipsc_slope_settings set;
    lipsc_slopes slopes;
    lipsc_cloud cloud;
    lipsc_slope_defaults(&set);
    set.step = 1.0;
    REFUSED(lipsc_slopes_find(&layer, &three, &set, &slopes, &err), LIPSC_E_ARG,
            "a setting is out of range");
    set.step = NAN;
    REFUSED(lipsc_slopes_find(&layer, &three, &set, &slopes, &err), LIPSC_E_ARG,
            "a setting is out of range");
    set.step = 0.0, set.restarts = 0;
    assert_int_equal(lipsc_slopes_find(&layer, &three, &set, &slopes, NULL), LIPSC_OK);
    REFUSED(lipsc_slopes_perturb(&slopes, &narrow, LIPSC_PERTURB_MOVE, 1e-4, &cloud, &err),
            LIPSC_E_ARG, "these slopes are those of another measure");
    REFUSED(lipsc_slopes_perturb(&slopes, &three, LIPSC_PERTURB_MOVE, NAN, &cloud, &err),
            LIPSC_E_ARG, "the step must lie between 0 and 1");
    REFUSED(
        lipsc_slopes_perturb(&slopes, &three, (lipsc_perturbation)9, 1e-4, &cloud, &err),
        LIPSC_E_ARG, "kind = 9 is no perturbation");
    lipsc_slopes_free(&slopes);
}

static void pairs_of_measures(void **state) {
    (void)state;
    lipsc_layer layer = plain();
    lipsc_pairs_settings set;
    lipsc_pairs pairs;
    lipsc_pairs_defaults(&set);
    set.radius = INFINITY;
    REFUSED(lipsc_pairs_find(&layer, &set, &pairs, &err), LIPSC_E_ARG,
            "a setting is out of range");
    set.radius = 1.0, set.atoms = 1;
    REFUSED(lipsc_pairs_find(&layer, &set, &pairs, &err), LIPSC_E_ARG,
            "a setting is out of range");
    set.atoms = 2, layer.mask = LIPSC_MASK_SLIDING, layer.window = 2;
    REFUSED(lipsc_pairs_find(&layer, &set, &pairs, &err), LIPSC_E_REFUSED,
            "a sliding window counts tokens, which a measure does not have");
}

static void distances(void **state) {
    (void)state;
    lipsc_distance_settings set;
    lipsc_distance distance;
    lipsc_distance_proof proof;
    lipsc_distance_defaults(&set);
    set.sinkhorn = -1.0;
    REFUSED(lipsc_distance_between(&three, &three, &set, &distance, &err), LIPSC_E_ARG,
            "epsilon must be positive");
    set.sinkhorn = 0.0, set.plan = 1;
    assert_int_equal(lipsc_distance_between(&three, &timed, &set, &distance, NULL),
                     LIPSC_OK);
    REFUSED(lipsc_distance_certify(&three, &narrow, &distance, &proof, &err), LIPSC_E_ARG,
            "no potentials, or measures of two widths");
    distance.conditional = 1;
    REFUSED(lipsc_distance_certify(&three, &timed, &distance, &proof, &err), LIPSC_E_ARG,
            "a conditional distance needs times");
    distance.conditional = 0;
    assert_true(distance.moves > 0);
    distance.plan[0].to = 3; /* there are three atoms, from 0 on */
    REFUSED(lipsc_distance_certify(&three, &timed, &distance, &proof, &err), LIPSC_E_ARG,
            "the plan cannot be checked: invalid argument");
    lipsc_distance_free(&distance);
}

static void gaussians(void **state) {
    (void)state;
    static const double mean[4], masses[] = {0.5, 0.6}, covs[] = {1, 0, 0, 1, 1, 0, 0, 1};
    const lipsc_layer layer = plain();
    const lipsc_gauss wide = {.parts = 1, .d = 2, .mean = mean, .cov = one};
    const lipsc_gauss thin = {.parts = 1, .d = 1, .mean = mean, .cov = one};
    lipsc_gauss two = {.parts = 2, .d = 2, .mean = mean, .cov = covs};
    const size_t lengths[] = {8};
    double value, exponent;
    REFUSED(lipsc_gauss_distance(&wide, &thin, &value, &err), LIPSC_E_ARG,
            "the first Gaussian has width 2, the second 1");
    REFUSED(lipsc_gauss_distance(&wide, &two, &value, &err), LIPSC_E_REFUSED,
            "mixtures have no closed distance: sample them");
    two.mass = masses;
    REFUSED(lipsc_gauss_check(&two, &err), LIPSC_E_ARG,
            "the masses mix sum to 1.1000000000000001, not to 1");
    two.parts = SIZE_MAX / 2;
    REFUSED(lipsc_gauss_check(&two, &err), LIPSC_E_RANGE, "the Gaussian is too large");
    REFUSED(lipsc_gauss_rate(&layer, &wide, 1, lengths, 0, 1, &value, &exponent, &err),
            LIPSC_E_ARG, "no lengths or no repeats");
}

/* ---- Worst cases ------------------------------------------------------------------- */

static void worst_cases(void **state) {
    (void)state;
    lipsc_layer layer = plain();
    lipsc_construct_settings set;
    lipsc_worst worst;
    double X[4] = {1.0, 0.0, 0.0, 1.0}, count[] = {1.0, 1.5}, sigma;
    lipsc_construct_defaults(&set);
    set.which = LIPSC_CONSTRUCT_TWO, set.n = 4, set.along = 1.0;
    REFUSED(lipsc_construct(&layer, &set, &worst, &err), LIPSC_E_ARG,
            "two-outliers: along 1 is not in [0, 1)");
    lipsc_worst mine = {.n = 3, .d = 2, .points = 2, .X = X, .count = count};
    REFUSED(lipsc_worst_reach(&layer, &mine, NULL, &sigma, &err), LIPSC_E_ARG,
            "point 1 stands for 1.5 tokens");
    count[1] = 30000.0, mine.n = 30001, layer.mask = LIPSC_MASK_CAUSAL;
    REFUSED(lipsc_worst_reach(&layer, &mine, NULL, &sigma, &err), LIPSC_E_REFUSED,
            "30001 tokens under a causal mask are too many to write out");
    mine.n = 0, count[0] = count[1] = 0.5;
    REFUSED(lipsc_worst_reach(&layer, &mine, NULL, &sigma, &err), LIPSC_E_REFUSED,
            "a mask by times, and points without them");
}

/* ---- Models, windows, studies ------------------------------------------------------- */

static const uint32_t ids[] = {1, 2, 3, 4, 5, 6, 7, 8};

static void models(void **state) {
    (void)state;
    lipsc_model *model = NULL;
    uint32_t near;
    size_t found;
    REFUSED(lipsc_model_open(NULL, 1, &model, &err), LIPSC_E_ARG,
            "a model needs a name, a part and a place");
    REFUSED(lipsc_model_open_part("random:gpt2:nano", (lipsc_part)9, 1, &model, &err),
            LIPSC_E_ARG, "a model needs a name, a part and a place");
    REFUSED(lipsc_model_from_memory("it", NULL, 0, LIPSC_PART_WHOLE, 0, NULL, &model, &err),
            LIPSC_E_ARG, "a model needs a configuration, tensors, a part and a place");
    assert_int_equal(lipsc_model_open("random:gpt2:nano", 1, &model, NULL), LIPSC_OK);
    lipsc_error why;
    assert_int_equal(lipsc_model_nearest(model, UINT32_MAX, 1, &near, NULL, &found, &why),
                     LIPSC_E_RANGE);
    assert_non_null(strstr(why.text, "id 4294967295, but the embedding has"));
    lipsc_acts *acts = NULL;
    assert_int_equal(lipsc_acts_new(model, LIPSC_F64, NULL, 4, ids, 99, &acts, &why),
                     LIPSC_E_ARG);
    assert_non_null(strstr(why.text, "blocks, not 99"));
    assert_int_equal(lipsc_acts_new(model, LIPSC_F64, NULL, 4, ids, 1, &acts, NULL),
                     LIPSC_OK);
    const lipsc_map_options late = {.map = LIPSC_MAP_ATTENTION, .layer = 2, .head = -1};
    lipsc_map *map = NULL;
    REFUSED(lipsc_map_new(model, acts, &late, &map, &err), LIPSC_E_ARG,
            "the window was not run as far as layer 2");
    lipsc_acts_free(acts);
    const size_t beyond = 99;
    lipsc_perturb_settings changes;
    lipsc_perturbation_rows rows;
    lipsc_perturb_defaults(&changes);
    changes.layers = &beyond, changes.layer_count = 1;
    REFUSED(lipsc_perturb(model, 4, ids, &changes, &rows, &err), LIPSC_E_RANGE,
            "there is no layer 99: 6 in all");
    lipsc_model_free(model);
}

static lipsc_study_settings study_of_ids(void) {
    lipsc_study_settings set;
    lipsc_study_defaults(&set);
    set.model = "random:gpt2:nano";
    set.source.id_list = ids;
    set.source.id_count = sizeof ids / sizeof *ids;
    return set;
}

static void windows(void **state) {
    (void)state;
    const double pixel = 0.5;
    const lipsc_model_info image = {.has_embeddings = 1, .has_pixels = 1};
    lipsc_source_options options = {.pixel_list = &pixel, .pixel_shape = {1, 0, 1}};
    lipsc_source source;
    REFUSED(lipsc_source_read(&options, "it", &image, &source, &err), LIPSC_E_ARG,
            "an image has channels, height and width, none of them zero");
    options.special = 1;
    REFUSED(lipsc_source_read(&options, "it", &image, &source, &err), LIPSC_E_ARG,
            "special tokens stand around text or ids only");
    options = (lipsc_source_options){.id_list = ids, .id_count = 1};
    REFUSED(lipsc_source_read(&options, "it", &image, &source, &err), LIPSC_E_FORMAT,
            "it: reads images: give one");
}

static void studies(void **state) {
    (void)state;
    const size_t zero = 0, far = SIZE_MAX, four = 4;
    const lipsc_mask sliding = LIPSC_MASK_SLIDING;
    lipsc_study *study = NULL;
    lipsc_summary summary;
    lipsc_study_settings set = study_of_ids();
    REFUSED(lipsc_study_open(NULL, &study, &err), LIPSC_E_ARG,
            "a study needs settings and a place");
    set.mask_override = &sliding;
    REFUSED(lipsc_study_open(&set, &study, &err), LIPSC_E_ARG,
            "another mask can be none or causal");
    set = study_of_ids(), set.map = LIPSC_MAP_MODEL, set.layers = (lipsc_sizes){1, &zero};
    REFUSED(lipsc_study_open(&set, &study, &err), LIPSC_E_ARG,
            "the map model has no layers to choose from");
    set = study_of_ids(), set.lengths = (lipsc_sizes){1, &four};
    set.windows = (lipsc_sizes){1, &far};
    REFUSED(lipsc_study_open(&set, &study, &err), LIPSC_E_ARG,
            "there is no window 18446744073709551615");
    assert_null(study);
    set = study_of_ids(), set.each_head = 1, set.layers = (lipsc_sizes){1, &zero};
    assert_int_equal(lipsc_study_open(&set, &study, NULL), LIPSC_OK);
    assert_int_equal(lipsc_study_run(study, NULL), LIPSC_OK);
    REFUSED(lipsc_study_summary(study, &summary, &err), LIPSC_E_ARG,
            "a summary is of all heads together");
    lipsc_study_close(study);
}

static void places(void **state) {
    (void)state;
    lipsc_place_options options;
    lipsc_place *place = NULL;
    lipsc_bounds_settings bounds_set;
    lipsc_bounds bounds;
    lipsc_perturb_settings changes;
    lipsc_perturbation_rows rows;
    lipsc_place_defaults(&options);
    options.from = "random:gpt2:nano", options.head = 99;
    lipsc_error why;
    assert_int_equal(lipsc_place_open(&options, &place, &why), LIPSC_E_ARG);
    assert_non_null(strstr(why.text, "head 99: expected all, or one head from 0 to"));
    options.head = -1;
    assert_int_equal(lipsc_place_open(&options, &place, NULL), LIPSC_OK);
    lipsc_bounds_defaults(&bounds_set);
    REFUSED(lipsc_place_bounds(place, 0, &bounds_set, &bounds, &err), LIPSC_E_ARG,
            "a model needs a text, ids or an image");
    lipsc_perturb_defaults(&changes);
    REFUSED(lipsc_place_perturb(place, &changes, &rows, &err), LIPSC_E_ARG,
            "there are no tokens to change: a model needs a text or ids");
    lipsc_place_close(place);
}

static void attacks(void **state) {
    (void)state;
    const size_t four = 4;
    lipsc_place_options options;
    lipsc_place *place = NULL;
    lipsc_attacks_settings set;
    lipsc_attacks found;
    lipsc_place_defaults(&options);
    options.from = "random:gpt2:nano";
    assert_int_equal(lipsc_place_open(&options, &place, NULL), LIPSC_OK);
#define ATTACK(change, sentence)                                                       \
    do {                                                                               \
        lipsc_attacks_defaults(&set);                                                  \
        set.lengths = (lipsc_sizes){1, &four};                                         \
        change;                                                                        \
        REFUSED(lipsc_place_attack(place, &set, &found, &err), LIPSC_E_ARG, sentence); \
        lipsc_attacks_free(&found);                                                    \
    } while (0)
    ATTACK((set.domain = LIPSC_ATTACK_NORM, set.radius = 1.0),
           "the domain norm has the radius of the norm: leave it out");
    ATTACK((set.domain = LIPSC_ATTACK_AROUND, set.radius = NAN),
           "the domain around needs a radius, a number");
    ATTACK((set.domain = LIPSC_ATTACK_BALL, set.radius = 1.0, set.relative = 1),
           "relative goes with the domain around");
    ATTACK((set.domain = LIPSC_ATTACK_BALL, set.radius = 1.0, set.atoms = 2),
           "atoms are the length: leave out lengths");
    ATTACK((set.domain = LIPSC_ATTACK_BALL, set.radius = 1.0, set.lengths.count = 0),
           "give a length");
    lipsc_place_close(place);
}

/* ---- Files and figures -------------------------------------------------------------- */

static void files(void **state) {
    (void)state;
    const char *const runs[] = {"a.db"};
    lipsc_merged merged;
    lipsc_run *run = NULL;
    REFUSED(lipsc_run_merge(0, runs, "b.db", NULL, &merged, &err), LIPSC_E_ARG,
            "a merge needs run files and a result");
    REFUSED(lipsc_run_begin("a.db", "measure", NULL, NULL, &run, &err), LIPSC_E_ARG,
            "a run file needs a path, a command and settings");
    lipsc_error why;
    assert_int_equal(lipsc_run_begin("a.db", "measure", NULL, "[1]", &run, &why),
                     LIPSC_E_ARG);
    assert_non_null(strstr(why.text, "a.db: settings are no JSON object"));
    assert_null(run);
    if (!lipsc_report_is_built()) return;
    REFUSED(lipsc_report_write(0, runs, "page.html", &err), LIPSC_E_ARG,
            "a report needs a run and a path");
    REFUSED(lipsc_report_perturbed(NULL, NULL, "page.html", &err), LIPSC_E_ARG,
            "a page of changes needs rows and a path");
}

static void claims(void **state) {
    (void)state;
    lipsc_claims_settings set;
    lipsc_claims found;
    lipsc_claims_defaults(&set);
    set.run_file = NULL;
    REFUSED(lipsc_claims_run(&set, &found, &err), LIPSC_E_ARG,
            "claims are kept in a run file: name one");
    lipsc_claims_free(&found);
}

static void figures(void **state) {
    (void)state;
    lipsc_bench_settings set;
    lipsc_bench_row row;
    lipsc_bench_defaults(&set);
    set.n = 0;
    REFUSED(lipsc_bench(&set, &row, &err), LIPSC_E_ARG,
            "n, block, batch and repeats are at least 1, the mask is none or causal");
    set.n = SIZE_MAX, set.batch = 2, set.block = set.repeats = 1;
    REFUSED(lipsc_bench(&set, &row, &err), LIPSC_E_RANGE, "too many tokens");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps_of_measures),
        cmocka_unit_test(tokens_of_measures),
        cmocka_unit_test(slopes_of_measures),
        cmocka_unit_test(pairs_of_measures),
        cmocka_unit_test(distances),
        cmocka_unit_test(gaussians),
        cmocka_unit_test(worst_cases),
        cmocka_unit_test(models),
        cmocka_unit_test(studies),
        cmocka_unit_test(places),
        cmocka_unit_test(attacks),
        cmocka_unit_test(files),
        cmocka_unit_test(figures),
        cmocka_unit_test(claims),
        cmocka_unit_test(windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
