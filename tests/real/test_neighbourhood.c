/* test_neighbourhood.c - the bound over a neighbourhood on trained models that lie beside
 * the repository. */
#include "../model/neighbourhood.h"

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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_minilm),
        cmocka_unit_test(test_stories),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
