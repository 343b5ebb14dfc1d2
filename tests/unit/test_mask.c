/* test_mask.c - ranges and order against the definition of every mask, pair by pair. */
#include "attn/attn.h"
#include "core/rng.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
/* cmocka.h wants the above */
#include <cmocka.h>

enum { MOST = 40 };

static int defined_visible(const lipsc_layer *layer, const double *times, size_t i,
                           size_t j) {
    switch (layer->mask) {
    case LIPSC_MASK_CAUSAL:
        return j <= i;
    case LIPSC_MASK_SLIDING:
        return j <= i && i - j < layer->window;
    case LIPSC_MASK_TIMES:
        return times[j] <= times[i];
    default:
        return 1;
    }
}

static void check_ranges(const lipsc_layer *layer, size_t n, const double *times) {
    size_t order[MOST], lo[MOST], hi[MOST], seen[MOST] = {0};
    int identity = -1, moved = 0;
    const lipsc_input input = {.n = n, .times = times};
    assert_int_equal(lipsc_mask_ranges(layer, &input, order, lo, hi, &identity), LIPSC_OK);
    for (size_t i = 0; i < n; i++) {
        assert_true(order[i] < n);
        seen[order[i]]++;
        moved |= order[i] != i;
        assert_true(lo[i] <= i && i < hi[i] && hi[i] <= n);
        if (i) assert_true(lo[i - 1] <= lo[i] && hi[i - 1] <= hi[i]);
        if (i && times && times[order[i - 1]] == times[order[i]]) /* the sort is stable */
            assert_true(order[i - 1] < order[i]);
        for (size_t j = 0; j < n; j++)
            assert_int_equal(lo[i] <= j && j < hi[i],
                             defined_visible(layer, times, order[i], order[j]));
    }
    for (size_t i = 0; i < n; i++) assert_int_equal(seen[i], 1);
    assert_int_equal(identity, !moved);
}

static void plain_masks(void **state) {
    (void)state;
    for (size_t n = 1; n <= MOST; n++) {
        lipsc_layer layer;
        lipsc_layer_defaults(&layer);
        check_ranges(&layer, n, NULL);
        layer.mask = LIPSC_MASK_CAUSAL;
        check_ranges(&layer, n, NULL);
        layer.mask = LIPSC_MASK_SLIDING;
        for (size_t window = 1; window <= n + 2; window++) {
            layer.window = window;
            check_ranges(&layer, n, NULL);
        }
        layer.window = SIZE_MAX;
        check_ranges(&layer, n, NULL);
    }
}

static void times_mask(void **state) {
    (void)state;
    lipsc_layer layer;
    lipsc_layer_defaults(&layer);
    layer.mask = LIPSC_MASK_TIMES;
    double times[MOST];
    for (uint64_t seed = 0; seed < 300; seed++) {
        const size_t n = 1 + lipsc_rng_bits(seed, 0) % MOST;
        const uint64_t distinct = 1 + lipsc_rng_bits(seed, 1) % n; /* from one to no ties */
        for (size_t i = 0; i < n; i++)
            times[i] = (double)(lipsc_rng_bits(seed, 2 + i) % distinct) - 3.0;
        check_ranges(&layer, n, times);
    }
    for (size_t i = 0; i < MOST; i++)
        times[i] = (double)i / MOST; /* sorted: nothing moves */
    check_ranges(&layer, MOST, times);
    for (size_t i = 0; i < MOST; i++) times[i] = -(double)i;
    check_ranges(&layer, MOST, times);
    const double zeros[] = {0.0, -0.0, 0.0, -1.0}; /* both zeros are one time */
    check_ranges(&layer, 4, zeros);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(plain_masks),
                                       cmocka_unit_test(times_mask)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
