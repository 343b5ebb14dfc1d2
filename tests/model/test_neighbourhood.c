/* test_neighbourhood.c - the bound over a neighbourhood on a trained model at text, and on
 * one with rotary positions, where there is none over a ball. */
#include "neighbourhood.h"

static void test_gpt2_nano(void **state) {
    (void)state;
    check_neighbourhood("gpt2-nano", LIPSC_DATA_DIR "/gpt2-nano", NULL,
                        LIPSC_TEST_DATA "/references/gpt2-nano.json", 2,
                        (const size_t[]){0, 3});
}

static void test_llama(void **state) {
    (void)state;
    static const uint32_t ids[LENGTH] = {6, 11, 23, 9, 40, 17, 31, 8, 50, 12};
    check_neighbourhood("llama-1", LIPSC_TEST_DATA "/fixtures/llama-1", ids, NULL, 2,
                        (const size_t[]){0, 1});
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_gpt2_nano),
                                       cmocka_unit_test(test_llama)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
