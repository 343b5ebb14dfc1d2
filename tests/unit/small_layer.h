/* small_layer.h - one head given as A and V, for the tests that know their layer. */
#ifndef LIPSC_TEST_SMALL_LAYER_H
#define LIPSC_TEST_SMALL_LAYER_H

#include "attn/attn.h"
#include "bound/construct.h"
#include "bound/facts.h"
#include "test_device.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

/* A = factor I and V = I of width d <= 3, or as filled in by the test. */
typedef struct {
    double A[9], V[9], c[3];
    lipsc_layer layer; /* resolved */
    lipsc_head_facts facts;
} small_layer;

static inline void small_ready(small_layer *s, size_t d, int biased) {
    lipsc_layer raw;
    lipsc_layer_defaults(&raw);
    raw.d = raw.key_dim = raw.value_dim = d;
    raw.Q = s->A;
    raw.V = s->V;
    if (biased) raw.bq = s->c;
    assert_int_equal(lipsc_layer_check(&raw, &s->layer, NULL), LIPSC_OK);
    assert_int_equal(lipsc_head_facts_make(&s->layer, 0, &s->facts), LIPSC_OK);
}

static inline void small_identity(small_layer *s, size_t d, double factor) {
    for (size_t r = 0; r < d; r++)
        for (size_t c = 0; c < d; c++) {
            s->A[r * d + c] = r == c ? factor : 0.0;
            s->V[r * d + c] = r == c ? 1.0 : 0.0;
        }
    small_ready(s, d, 0);
}

static inline double small_sigma(const small_layer *s, lipsc_mask mask,
                                 const lipsc_input *input) {
    lipsc_layer layer = s->layer;
    layer.mask = mask;
    lipsc_attn *attn = NULL;
    lipsc_svd_settings set;
    lipsc_svd_info info;
    double sigma = NAN;
    lipsc_svd_defaults(&set);
    set.method = LIPSC_DENSE;
    assert_int_equal(lipsc_attn_new(&layer, input, LIPSC_F64, test_device(1), &attn, NULL),
                     LIPSC_OK);
    assert_int_equal(lipsc_attn_sigma(attn, &set, &sigma, NULL, NULL, &info), LIPSC_OK);
    lipsc_attn_free(attn);
    return sigma;
}

/* sigma of sum(count) tokens on few points of width d. */
static inline double small_clusters(const small_layer *s, size_t points, double *X,
                                    double *count) {
    lipsc_worst worst = {.d = s->layer.d, .points = points, .X = X, .count = count};
    double sigma = NAN;
    for (size_t q = 0; q < points; q++) worst.n += (size_t)count[q];
    assert_int_equal(lipsc_worst_reach(&s->layer, &worst, NULL, &sigma, NULL), LIPSC_OK);
    return sigma;
}

/* As good as its printed digits: half a unit of the last one, and rounding. */
#define assert_printed(value, expected, unit)                           \
    do {                                                                \
        const double got_ = (value), want_ = (expected);                \
        if (!(fabs(got_ - want_) <= 0.5000001 * (unit)))                \
            fail_msg("%s = %.12g, printed %.12g", #value, got_, want_); \
    } while (0)

#endif
