/* test_neighbourhood.c - the bound over a neighbourhood on trained models that lie beside
 * the repository. */
#include "../model/neighbourhood.h"

#include "core/mem.h"
#include "io/mapfile.h"
#include "token/token.h"
#include "test_device.h"

#define MODELS LIPSC_SHARED_DIR "/models/"

static void check_model(const char *name, const uint32_t *ids, size_t count,
                        const size_t *layers) {
    char dir[PATH_SIZE], path[PATH_SIZE];
    snprintf(dir, sizeof dir, MODELS "%s", name);
    snprintf(path, sizeof path, MODELS "%s/config.json", name);
    FILE *there = fopen(path, "rb");
    if (!there) {
        print_message("skipped: no %s\n", dir);
        skip();
    }
    fclose(there);
    snprintf(path, sizeof path, LIPSC_SHARED_DIR "/references/%s.json", name);
    check_neighbourhood(name, dir, ids, path, count, layers);
}

static void test_minilm(void **state) {
    (void)state;
    check_model("all-MiniLM-L6-v2", NULL, 1, (const size_t[]){3});
}

/* Rotary positions, grouped heads: no bound over a ball. */
static void test_stories(void **state) {
    (void)state;
    static const uint32_t ids[LENGTH] = {1, 403, 407, 261, 378, 432, 383, 286, 261, 376};
    check_model("stories260K", ids, 2, (const size_t[]){0, 4});
}

/* The ids of a text; NULL: no such text. */
static uint32_t *ids_of(const char *model, const char *text, size_t *count) {
    lipsc_tokenizer *tokenizer = NULL;
    lipsc_mapfile map;
    lipsc_error err = {0};
    uint32_t *ids = NULL;
    if (lipsc_mapfile_open(text, &map, NULL)) return NULL;
    if (lipsc_tokenizer_open(model, &tokenizer, &err) ||
        lipsc_tokenizer_encode(tokenizer, (const char *)map.data, map.size, 0, &ids, count,
                               &err))
        fail_msg("%s", err.text);
    lipsc_tokenizer_free(tokenizer);
    lipsc_mapfile_close(&map);
    return ids;
}

/* One layer at R = 1e-3 of the mean token: at most 1.2 times the bound at the point, and
 * above where a climb leads to. */
static double check_ratio(const lipsc_layer *layer, size_t n, const double *X, int climbs) {
    const lipsc_input input = {.n = n, .X = X};
    lipsc_attn *attn = NULL;
    lipsc_around found;
    lipsc_error err = {0};
    double mean = 0.0;
    for (size_t i = 0; i < n; i++)
        mean += length_of(layer->d, X + i * layer->d) / (double)n;
    if (lipsc_attn_new(layer, &input, LIPSC_F64, test_device(2), &attn, &err) ||
        lipsc_attn_around(attn, 1e-3 * mean, &found, &err))
        fail_msg("%s", err.text);
    lipsc_attn_free(attn);
    assert_true(found.value <= 1.2 * found.point);
    if (climbs) assert_true(climb(layer, n, X, 1e-3 * mean) <= found.value);
    return found.value / found.point;
}

/* At the lengths of measurements every head counts, and so do the sinks. */
static void test_lengths(void **state) {
    (void)state;
    static const struct {
        size_t length, layers[6], count;
    } cases[] = {{24, {0, 1, 2, 3, 4, 5}, 6},
                 {64, {0, 1, 2, 3, 4, 5}, 6},
                 {128, {0, 1, 2, 3, 4, 5}, 6},
                 {512, {0, 4}, 2}}; /* the two that are worst */
    const char *dir = MODELS "all-MiniLM-L6-v2";
    lipsc_error err = {0};
    lipsc_model *model = NULL;
    size_t count = 0;
    if (lipsc_model_open(dir, 1, &model, &err)) {
        print_message("skipped: %s\n", err.text);
        skip();
    }
    uint32_t *ids = ids_of(dir, LIPSC_SHARED_DIR "/texts/alice29.txt", &count);
    if (!ids || count < 512) {
        print_message("skipped: no alice29.txt\n");
        skip();
    }
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const size_t n = cases[c].length;
        lipsc_acts *acts = NULL;
        if (lipsc_acts_new(model, LIPSC_F64, test_device(2), n, ids, 0, &acts, &err))
            fail_msg("%s", err.text);
        for (size_t l = 0; l < cases[c].count; l++) {
            const size_t index = cases[c].layers[l];
            lipsc_layer layer;
            if (lipsc_model_layer(model, index, -1, LIPSC_MAP_ATTENTION, NULL, &layer,
                                  &err))
                fail_msg("%s", err.text);
            const double *X = lipsc_acts_attention_input(acts, index);
            print_message("n %zu, layer %zu: %.4f times the bound at the point\n", n, index,
                          check_ratio(&layer, n, X, n == 64));
        }
        lipsc_acts_free(acts);
    }
    lipsc_release(ids);
    lipsc_model_free(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_minilm),
        cmocka_unit_test(test_stories),
        cmocka_unit_test(test_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
