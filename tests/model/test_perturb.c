/* test_perturb.c - changes of finite size: ratios under their proved bounds, small steps as
 * the derivative says, and windows with a token less or more as the model computes them. */
#include <inttypes.h>

#include "fixture.h"
#include "lipscope/perturb.h"

/* Every row of a model: what holds for all changes. */
static void check_rows(const char *name, const lipsc_perturbation_rows *rows,
                       size_t *bounded) {
    for (size_t i = 0; i < rows->count; i++) {
        const lipsc_perturbed *r = &rows->at[i];
        const char *change = lipsc_change_name(r->change);
        if (isnan(r->step)) { /* lengths differ */
            if (r->change != LIPSC_CHANGE_DROP && r->change != LIPSC_CHANGE_DUPLICATE)
                fail_msg("%s: row %zu, %s: no step", name, i, change);
            assert_true(r->others >= 0);
            continue;
        }
        if (!(r->step > 0)) continue;
        /* 1e-6: sigma is found to 1e-8 of its residual, and rounds */
        if (!(r->first <= r->sigma * (1 + 1e-6)))
            fail_msg("%s: row %zu, %s: |J v| %g above sigma %g", name, i, change, r->first,
                     r->sigma);
        if (!isnan(r->upper)) {
            ++*bounded;
            if (!(r->ratio <= r->upper))
                fail_msg("%s: row %zu, %s, layer %zu: ratio %g above the bound %g", name, i,
                         change, r->layer, r->ratio, r->upper);
        }
        if (r->change == LIPSC_CHANGE_NOISE && r->step < 2e-3 &&
            !(fabs(r->ratio - r->first) <= 0.05 * r->first))
            fail_msg("%s: layer %zu: ratio %g, predicted %g", name, r->layer, r->ratio,
                     r->first);
    }
}

#define NANO LIPSC_TEST_DATA "/../../data/gpt2-nano"

static lipsc_model *open_model(const char *spec) {
    lipsc_model *model;
    lipsc_error err = {0};
    if (lipsc_model_open(spec, 1, &model, &err)) fail_msg("%s", err.text);
    return model;
}

static void test_built_in(void **state) {
    (void)state;
    lipsc_model *model = open_model(NANO);
    lipsc_tokenizer *tokenizer;
    lipsc_error err = {0};
    if (lipsc_tokenizer_open(NANO, &tokenizer, &err)) fail_msg("%s", err.text);
    const char *text = "The keeper of the lighthouse went up the stairs every evening and "
                       "lit the lamp before the fog came in from the sea.";
    uint32_t *ids;
    size_t count, bounded = 0;
    assert_int_equal(
        lipsc_tokenizer_encode(tokenizer, text, strlen(text), 0, &ids, &count, &err), 0);
    assert_true(count >= 16);
    lipsc_perturbation_rows rows;
    if (lipsc_perturb(model, 16, ids, NULL, &rows, &err)) fail_msg("%s", err.text);
    const size_t layers = lipsc_model_describe(model)->layers;
    assert_int_equal(rows.count, layers * (4 * 2 + 3) + 4 * 4);
    check_rows("gpt2-nano", &rows, &bounded);
    assert_true(bounded > 0);
    lipsc_perturbation_free(&rows);
    lipsc_release(ids);
    lipsc_tokenizer_free(tokenizer);
    lipsc_model_free(model);
}

/* The nearest tokens by the table itself, read as it stands in the file. */
static void test_nearest(void **state) {
    (void)state;
    enum { COUNT = 3 };
    lipsc_model *model = open_model(LIPSC_TEST_DATA "/fixtures/gpt2-1");
    const size_t vocab = lipsc_model_describe(model)->vocab;
    const size_t d = lipsc_model_describe(model)->d;
    /* embeddings by windows of one token: all at position 0, so that differences are those
     * of the table */
    double *table = malloc(vocab * d * sizeof *table);
    assert_non_null(table);
    for (uint32_t id = 0; id < vocab; id++) {
        lipsc_acts *acts;
        assert_int_equal(lipsc_acts_new(model, LIPSC_F64, NULL, 1, &id, 1, &acts, NULL), 0);
        memcpy(table + id * d, lipsc_acts_block_input(acts, 0), d * sizeof *table);
        lipsc_acts_free(acts);
    }
    for (uint32_t id = 0; id < vocab; id += (uint32_t)(vocab / 5)) {
        uint32_t near[COUNT];
        double distance[COUNT];
        size_t found;
        assert_int_equal(
            lipsc_model_nearest(model, id, COUNT, near, distance, &found, NULL), LIPSC_OK);
        assert_int_equal(found, COUNT);
        for (size_t k = 0; k < COUNT; k++) {
            size_t closer = 0;
            double own = 0;
            for (size_t c = 0; c < d; c++) {
                const double by = table[near[k] * d + c] - table[id * d + c];
                own += by * by;
            }
            assert_true(fabs(sqrt(own) - distance[k]) <= 1e-12 * distance[k]);
            for (size_t other = 0; other < vocab; other++) {
                double square = 0;
                if (other == id) continue;
                for (size_t c = 0; c < d; c++) {
                    const double by = table[other * d + c] - table[id * d + c];
                    square += by * by;
                }
                closer += sqrt(square) < distance[k] * (1 - 1e-12);
            }
            assert_int_equal(closer, k);
        }
    }
    free(table);
    lipsc_model_free(model);
}

/* Rows about a token left out: the hidden states of the shorter window, aligned here. */
static void test_drop(void **state) {
    (void)state;
    enum { N = 9 };
    lipsc_model *model = open_model(NANO);
    const size_t d = lipsc_model_describe(model)->d;
    uint32_t ids[N], fewer[N - 1];
    for (uint32_t i = 0; i < N; i++) ids[i] = 7 + 13 * i;
    lipsc_perturb_settings set;
    lipsc_perturb_defaults(&set);
    const size_t layer = 0;
    set.layers = &layer;
    set.layer_count = 1;
    set.tokens = 1;
    set.neighbours = 0;
    set.noise_count = 0;
    lipsc_perturbation_rows rows;
    lipsc_error err = {0};
    if (lipsc_perturb(model, N, ids, &set, &rows, &err)) fail_msg("%s", err.text);
    assert_int_equal(rows.count, 2);
    assert_int_equal(rows.at[0].change, LIPSC_CHANGE_DROP);
    const size_t token = rows.at[0].token;
    for (size_t i = 0; i + 1 < N; i++) fewer[i] = ids[i < token ? i : i + 1];
    lipsc_acts *before, *after;
    assert_int_equal(lipsc_acts_new(model, LIPSC_F64, NULL, N, ids, 0, &before, NULL), 0);
    assert_int_equal(lipsc_acts_new(model, LIPSC_F64, NULL, N - 1, fewer, 0, &after, NULL),
                     0);
    const double *a = lipsc_acts_output(before), *b = lipsc_acts_output(after);
    double moved = 0, size = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t c = 0; i != token && c < d; c++) {
            const double by = b[(i < token ? i : i - 1) * d + c] - a[i * d + c];
            moved += by * by;
            size += a[i * d + c] * a[i * d + c];
        }
    assert_true(fabs(rows.at[0].others - sqrt(moved / size)) <= 1e-12);
    /* by GPT2LMHeadModel of transformers, in double; its tanh and ours differ by an ulp */
    assert_int_equal(token, 5);
    assert_true(fabs(rows.at[0].others - 0.0837683580483804) <= 1e-11);
    assert_true(fabs(rows.at[0].logits - 0.03671566254610238) <= 1e-11);
    assert_true(fabs(rows.at[1].logits - 0.020901265630025867) <= 1e-11);
    lipsc_acts_free(before);
    lipsc_acts_free(after);
    lipsc_perturbation_free(&rows);
    lipsc_model_free(model);
}

/* Tables of their own, shared ones, biases, a cap: as transformers computes them.  Its
 * norms round to float on the way (1e-7), which a few layers multiply. */
static void test_logits(void **state) {
    (void)state;
    enum { N = 5, VOCAB = 19 };
    static const char *const names[] = {"llama", "llama_tied", "phi", "gpt_neox", "gemma2"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[512];
        double want[N][VOCAB], got[N * VOCAB];
        uint32_t ids[N];
        lipsc_error err = {0};
        snprintf(path, sizeof path, LIPSC_TEST_DATA "/logits/%s/logits.txt", names[k]);
        FILE *from = fopen(path, "r");
        assert_non_null(from);
        for (size_t i = 0; i < N; i++)
            assert_int_equal(fscanf(from, "%" SCNu32, &ids[i]), 1);
        for (size_t i = 0; i < N; i++)
            for (size_t v = 0; v < VOCAB; v++)
                assert_int_equal(fscanf(from, "%lf", &want[i][v]), 1);
        fclose(from);
        *strrchr(path, '/') = 0;
        lipsc_model *model = open_model(path);
        lipsc_acts *acts;
        if (lipsc_acts_new(model, LIPSC_F64, NULL, N, ids, 0, &acts, &err))
            fail_msg("%s", err.text);
        /* in two parts, of which the first ends within the table */
        for (size_t first = 0, count = 7; first < VOCAB;
             first += count, count = VOCAB - 7) {
            if (lipsc_model_logits(model, N, lipsc_acts_output(acts), first, count, got,
                                   &err))
                fail_msg("%s: %s", names[k], err.text);
            for (size_t i = 0; i < N; i++)
                for (size_t v = 0; v < count; v++)
                    if (!(fabs(got[i * count + v] - want[i][first + v]) <= 1e-5))
                        fail_msg("%s: logit %zu of token %zu is %.9g, not %.9g", names[k],
                                 first + v, i, got[i * count + v], want[i][first + v]);
        }
        assert_int_equal(
            lipsc_model_logits(model, 1, lipsc_acts_output(acts), 12, 8, got, &err),
            LIPSC_E_RANGE);
        lipsc_acts_free(acts);
        lipsc_model_free(model);
    }
}

/* What predicts no next token has none: an encoder, a text tower, a decoder without its
 * table. */
static void test_no_logits(void **state) {
    (void)state;
    static const char *const names[] = {"bert-1", "clip_text_model-1", "llama-1"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        char path[512];
        double hidden[4096] = {0}, got;
        lipsc_error err = {0};
        snprintf(path, sizeof path, LIPSC_TEST_DATA "/fixtures/%s", names[k]);
        lipsc_model *model = open_model(path);
        assert_true(lipsc_model_describe(model)->d <= 4096);
        const lipsc_status status = lipsc_model_logits(model, 1, hidden, 0, 1, &got, &err);
        assert_int_equal(status, LIPSC_E_REFUSED);
        assert_true(strlen(err.text) > 10);
        lipsc_model_free(model);
    }
}

static int stop_at_once(void *ctx) {
    (void)ctx;
    return 1;
}

typedef struct {
    long asked, last; /* from which question on the answer is yes; 0: never */
} patience;

static int count_questions(void *ctx) {
    patience *p = ctx;
    return ++p->asked >= p->last && p->last;
}

/* A bound is long: it asks for every head whether to go on, and ends where it should. */
static void test_stops_in_a_bound(void **state) {
    (void)state;
    lipsc_model *model = open_model(NANO);
    const uint32_t ids[] = {11, 22, 33, 44, 55, 66, 77, 88};
    const size_t layer = 2, n = sizeof ids / sizeof *ids;
    const long heads = (long)lipsc_model_describe(model)->heads;
    const double noise = 1e-2;
    lipsc_perturb_settings set;
    lipsc_perturbation_rows rows;
    lipsc_error err = {0};
    patience p = {0, 0};
    lipsc_perturb_defaults(&set);
    set.layers = &layer;
    set.layer_count = set.noise_count = 1;
    set.noise = &noise;
    set.tokens = set.neighbours = 0;
    set.whole = set.bounds = 0;
    set.stop = count_questions;
    set.ctx = &p;
    assert_int_equal(lipsc_perturb(model, n, ids, &set, &rows, &err), LIPSC_OK);
    lipsc_perturbation_free(&rows);
    const long without = p.asked;
    set.bounds = 1;
    p.asked = 0;
    assert_int_equal(lipsc_perturb(model, n, ids, &set, &rows, &err), LIPSC_OK);
    assert_int_equal(rows.count, 1);
    assert_true(rows.at[0].upper > 0);
    lipsc_perturbation_free(&rows);
    const long with = p.asked;
    assert_true(with - without >= 2 * heads);
    long stopped = 0;
    for (long last = without + 1; last <= with; last += heads / 2) {
        p = (patience){0, last};
        const lipsc_status status = lipsc_perturb(model, n, ids, &set, &rows, &err);
        /* one thread asks for all: how often, the others' speed decides */
        assert_int_equal(status, p.asked >= last ? LIPSC_E_STOPPED : LIPSC_OK);
        assert_int_equal(rows.count, status ? 0 : 1);
        stopped += status != LIPSC_OK;
        lipsc_perturbation_free(&rows);
    }
    assert_true(stopped > 0);
    lipsc_model_free(model);
}

static void test_refused(void **state) {
    (void)state;
    lipsc_model *model = open_model(NANO);
    lipsc_perturb_settings set;
    lipsc_perturbation_rows rows;
    lipsc_error err = {0};
    const uint32_t ids[] = {1, 2, 3};
    lipsc_perturb_defaults(&set);
    assert_int_equal(lipsc_perturb(model, 1, ids, &set, &rows, &err), LIPSC_E_ARG);
    const size_t layer = 99;
    set.layers = &layer;
    set.layer_count = 1;
    assert_int_equal(lipsc_perturb(model, 3, ids, &set, &rows, &err), LIPSC_E_RANGE);
    assert_non_null(strstr(err.text, "99"));
    lipsc_perturb_defaults(&set);
    set.stop = stop_at_once;
    assert_int_equal(lipsc_perturb(model, 3, ids, &set, &rows, &err), LIPSC_E_STOPPED);
    lipsc_perturbation_free(&rows);
    const uint32_t far[] = {1, 1u << 30, 3};
    lipsc_perturb_defaults(&set);
    assert_int_not_equal(lipsc_perturb(model, 3, far, &set, &rows, &err), LIPSC_OK);
    lipsc_model_free(model);
}

/* Every family that reads text. */
static size_t bounded_rows, families;

static void check_family(fixture *f) {
    const lipsc_model_info *info = lipsc_model_describe(f->model);
    enum { N = 7 };
    uint32_t ids[N];
    lipsc_perturb_settings set;
    lipsc_perturbation_rows rows;
    lipsc_error err = {0};
    if (info->has_pixels) return;
    for (size_t i = 0; i < N; i++) ids[i] = (uint32_t)((5 + 11 * i) % info->vocab);
    lipsc_perturb_defaults(&set);
    set.tokens = set.neighbours = set.noise_count = 1;
    if (lipsc_perturb(f->model, N, ids, &set, &rows, &err))
        fail_msg("%s: %s", f->name, err.text);
    check_rows(f->name, &rows, &bounded_rows);
    families++;
    lipsc_perturbation_free(&rows);
}

static void test_families(void **state) {
    (void)state;
    each_fixture(check_family);
    print_message("%zu models, %zu rows with a bound\n", families, bounded_rows);
    assert_true(families > 30 && bounded_rows > families);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_built_in),  cmocka_unit_test(test_nearest),
        cmocka_unit_test(test_drop),      cmocka_unit_test(test_logits),
        cmocka_unit_test(test_no_logits), cmocka_unit_test(test_stops_in_a_bound),
        cmocka_unit_test(test_refused),   cmocka_unit_test(test_families)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
