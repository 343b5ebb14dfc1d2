/* layers.h - random attention layers for the tests, every feature behind a flag.
 *
 *     test_layer t = random_layer(7, FEATURE_CAUSAL | FEATURE_BIASES);
 *     ... t.layer, t.input, t.in, t.out ...
 *     test_layer_free(&t);
 *
 * The same seed and features give the same layer on every machine. */
#ifndef LIPSC_TEST_LAYERS_H
#define LIPSC_TEST_LAYERS_H

#include "core/rng.h"
#include "lipscope.h"
#include "longdouble.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEATURE_CAUSAL = 1 << 0,
    FEATURE_SLIDING = 1 << 1,       /* wins over causal                                  */
    FEATURE_TIMES = 1 << 2,         /* wins over both: unsorted, with ties               */
    FEATURE_WEIGHTS = 1 << 3,       /* between 1/20 and 20                               */
    FEATURE_BIASES = 1 << 4,        /* all four (bo only with O)                         */
    FEATURE_GROUPED = 1 << 5,       /* fewer key/value heads than query heads            */
    FEATURE_NO_OUTPUT = 1 << 6,     /* heads concatenated                                */
    FEATURE_A_FORM = 1 << 7,        /* K is the identity: scores (A x_i + c).x_j         */
    FEATURE_ROTARY = 1 << 8,        /* part of the key turns, at odd positions           */
    FEATURE_QK_NORM = 1 << 9,       /* gains on queries and keys                         */
    FEATURE_SATURATED = 1 << 10,    /* every row leads by 40 or more                    */
    FEATURE_EQUAL_TOKENS = 1 << 11, /* tokens come in equal pairs                    */
    FEATURE_SCALE = 1 << 12,        /* not 1/sqrt(k)                                     */
    FEATURE_ONE_TOKEN = 1 << 13,    /* n = 1                                            */
    FEATURES = 14,                  /* number of flags above                             */
    /* what bounds over a ball do not cover */
    FEATURE_LOCAL = 1 << 14,      /* a window on both sides; wins over sliding         */
    FEATURE_WHOLE_NORM = 1 << 15, /* query and key norms over all heads                */
    FEATURE_ALIBI = 1 << 16,      /* a bias by distance; not with times                */
    FEATURE_BUCKETS = 1 << 17,    /* a table by bucket of distance; wins over ALiBi    */
    FEATURE_SOFT_CAP = 1 << 18,   /* scores within 0.7 to 3                            */
    FEATURE_SINKS = 1 << 19,      /* between almost nothing and almost all             */
    ALL_FEATURES = 20
};

static const char *const feature_names[ALL_FEATURES] = {
    "causal", "sliding",    "times",   "weights",   "biases",       "grouped", "no output",
    "A form", "rotary",     "qk norm", "saturated", "equal tokens", "scale",   "one token",
    "local",  "whole norm", "alibi",   "buckets",   "soft cap",     "sinks"};

/* Zero: drawn from the seed, small. */
typedef struct {
    size_t n, d, heads, kv_heads, key_dim, value_dim, out_dim, window;
} layer_sizes;

typedef struct {
    lipsc_layer layer;
    lipsc_input input;
    size_t in, out; /* lengths of a direction and of a result: n d, n width */
    double *storage[20];
    size_t arrays;
} test_layer;

/* Numbers of one seed, one after the other. */
typedef struct {
    uint64_t seed, next;
} stream;

static inline size_t draw(stream *s, size_t low, size_t high) {
    return low + (size_t)(lipsc_rng_bits(s->seed, s->next++) % (high - low + 1));
}

static inline void test_layer_free(test_layer *t) {
    for (size_t a = 0; a < t->arrays; a++) free(t->storage[a]);
    t->arrays = 0;
}

static inline double *array_new(test_layer *t, size_t count) {
    double *a = malloc((count ? count : 1) * sizeof *a);
    if (!a) abort();
    t->storage[t->arrays++] = a;
    return a;
}

static inline void fill_normal(stream *s, size_t count, double size, double *x) {
    s->next += s->next & 1; /* normal numbers come in pairs */
    for (size_t e = 0; e < count; e++) x[e] = size * lipsc_rng_normal(s->seed, s->next++);
}

static inline const double *normal_new(test_layer *t, stream *s, size_t count,
                                       double size) {
    double *a = array_new(t, count);
    fill_normal(s, count, size, a);
    return a;
}

static inline void choose_sizes(stream *s, unsigned features, layer_sizes *z) {
    const int grouped = (features & FEATURE_GROUPED) != 0;
    const int a_form = (features & FEATURE_A_FORM) != 0;
    if (features & FEATURE_ONE_TOKEN) z->n = 1;
    if (!z->n) z->n = features & FEATURE_SATURATED ? draw(s, 3, 6) : draw(s, 2, 12);
    if (!z->d) z->d = draw(s, 2, 8);
    if (!z->heads) z->heads = grouped ? 2 * draw(s, 1, 2) : a_form ? 1 : draw(s, 1, 3);
    if (!z->kv_heads) z->kv_heads = a_form ? 1 : grouped ? z->heads / 2 : z->heads;
    if (!z->key_dim) z->key_dim = draw(s, 2, 5);
    if (a_form) z->key_dim = z->d;
    if (!z->value_dim) z->value_dim = draw(s, 1, 5);
    if (!z->out_dim) z->out_dim = draw(s, 1, 8);
    if (!z->window) z->window = draw(s, 1, (z->n + 1) / 2);
}

static inline void fill_tokens(stream *s, unsigned features, size_t n, size_t d,
                               double *X) {
    fill_normal(s, n * d, 1.0, X);
    if (features & FEATURE_EQUAL_TOKENS)
        for (size_t i = 1; i < n; i += 2) memcpy(X + i * d, X + (i - 1) * d, d * sizeof *X);
}

static inline test_layer random_layer_of(uint64_t seed, unsigned features, layer_sizes z) {
    test_layer t;
    memset(&t, 0, sizeof t);
    stream s = {seed, 0};
    choose_sizes(&s, features, &z);
    lipsc_layer *l = &t.layer;
    lipsc_layer_defaults(l);
    l->d = z.d, l->heads = z.heads, l->kv_heads = z.kv_heads;
    l->key_dim = z.key_dim, l->value_dim = z.value_dim;

    /* entries of variance 1/d keep queries, keys and values of size one */
    const double unit = 1.0 / sqrt((double)z.d);
    const size_t queries = z.heads * z.key_dim, keys = z.kv_heads * z.key_dim;
    const size_t values = z.kv_heads * z.value_dim, concat = z.heads * z.value_dim;
    l->Q = normal_new(&t, &s, queries * z.d, unit);
    if (!(features & FEATURE_A_FORM)) l->K = normal_new(&t, &s, keys * z.d, unit);
    l->V = normal_new(&t, &s, values * z.d, unit);
    if (!(features & FEATURE_NO_OUTPUT)) {
        l->out_dim = z.out_dim;
        l->O = normal_new(&t, &s, z.out_dim * concat, 1.0 / sqrt((double)concat));
    }
    if (features & FEATURE_BIASES) {
        l->bq = normal_new(&t, &s, queries, 0.5);
        l->bk = normal_new(&t, &s, keys, 0.5);
        l->bv = normal_new(&t, &s, values, 0.5);
        if (l->O) l->bo = normal_new(&t, &s, z.out_dim, 0.5);
    }
    if (features & FEATURE_SCALE) l->scale = 0.3 + lipsc_rng_uniform(seed, s.next++);

    t.input.n = z.n;
    if (features & FEATURE_CAUSAL) l->mask = LIPSC_MASK_CAUSAL;
    if (features & FEATURE_SLIDING) l->mask = LIPSC_MASK_SLIDING, l->window = z.window;
    if (features & FEATURE_LOCAL) l->mask = LIPSC_MASK_LOCAL, l->window = z.window;
    if (features & FEATURE_TIMES) {
        double *times = array_new(&t, z.n);
        for (size_t i = 0; i < z.n; i++)
            times[i] = (double)draw(&s, 0, z.n / 2) / (double)z.n;
        l->mask = LIPSC_MASK_TIMES;
        t.input.times = times;
    }
    if (!(features & FEATURE_TIMES) && features & (FEATURE_ALIBI | FEATURE_BUCKETS)) {
        const int buckets = (features & FEATURE_BUCKETS) != 0;
        l->bias_rule = buckets ? LIPSC_BIAS_BUCKETS : LIPSC_BIAS_LINEAR;
        l->bias_buckets = 8, l->bias_distance = 7;
        l->score_bias = normal_new(&t, &s, z.heads * 8, buckets ? 1.0 : 0.3);
    }
    if (features & FEATURE_SOFT_CAP)
        l->soft_cap = 0.7 + 2.3 * lipsc_rng_uniform(seed, s.next++);
    if (features & FEATURE_SINKS) l->sinks = normal_new(&t, &s, z.heads, 4.0);
    if (features & FEATURE_WEIGHTS && !l->sinks) {
        double *weights = array_new(&t, z.n);
        for (size_t i = 0; i < z.n; i++)
            weights[i] = exp((2.0 * lipsc_rng_uniform(seed, s.next++) - 1.0) * log(20.0));
        t.input.weights = weights;
    }
    if (features & FEATURE_ROTARY) {
        l->rotary_dim = 2 * draw(&s, 1, z.key_dim / 2);
        double *freq = array_new(&t, l->rotary_dim / 2);
        for (size_t p = 0; p < l->rotary_dim / 2; p++)
            freq[p] = pow(100.0, -2.0 * (double)p / (double)l->rotary_dim);
        l->rotary_freq = freq;
        if (draw(&s, 0, 1) &&
            !l->bias_rule) { /* half of the layers keep the default 0, 1, 2, ... */
            double *positions = array_new(&t, z.n);
            for (size_t i = 0; i < z.n; i++) positions[i] = (double)draw(&s, 0, 3 * z.n);
            t.input.positions = positions;
        }
    }
    if (features & (FEATURE_QK_NORM | FEATURE_WHOLE_NORM)) {
        l->norm_whole = (features & FEATURE_WHOLE_NORM) != 0;
        l->q_gain = normal_new(&t, &s, l->norm_whole ? queries : z.key_dim, 1.0);
        l->k_gain = normal_new(&t, &s, l->norm_whole ? keys : z.key_dim, 1.0);
        l->norm_eps = 1e-3;
    }

    double *X = array_new(&t, z.n * z.d);
    t.input.X = X;
    fill_tokens(&s, features, z.n, z.d, X);
    if (features & FEATURE_SATURATED) {
        /* of some draws the one that needs the smallest scale: large scores lose digits */
        double *best = array_new(&t, z.n * z.d), lead = 0.0;
        lipsc_input unweighted = t.input;
        unweighted.weights = NULL;
        for (int attempt = 0; attempt < 30; attempt++) {
            fill_tokens(&s, features, z.n, z.d, X);
            const double this_lead = longdouble_lead(l, &unweighted);
            if (this_lead <= lead) continue;
            lead = this_lead;
            memcpy(best, X, z.n * z.d * sizeof *X);
        }
        if (isfinite(lead) && lead > 0.0) {
            memcpy(X, best, z.n * z.d * sizeof *X);
            /* log weights, at most log 400 = 6 apart, may eat up 6 of these 46 */
            l->scale = longdouble_scale(l) * 46.0 / lead;
        }
    }
    t.in = z.n * z.d;
    t.out = z.n * lipsc_layer_width(l);
    return t;
}

/* Small sizes drawn from the seed. */
static inline test_layer random_layer(uint64_t seed, unsigned features) {
    return random_layer_of(seed, features, (layer_sizes){0});
}

/* count normal numbers of a stream that layers do not use; free() them. */
static inline double *random_vectors(uint64_t seed, size_t count) {
    double *x = malloc((count ? count : 1) * sizeof *x);
    if (!x) abort();
    for (size_t e = 0; e < count; e++) x[e] = lipsc_rng_normal(~seed, e);
    return x;
}

static inline double vector_dot(size_t n, const double *a, const double *b) {
    double sum = 0.0;
    for (size_t e = 0; e < n; e++) sum += a[e] * b[e];
    return sum;
}

static inline double vector_norm(size_t n, const double *a) {
    return sqrt(vector_dot(n, a, a));
}

/* |a - b| */
static inline double vector_distance(size_t n, const double *a, const double *b) {
    double sum = 0.0;
    for (size_t e = 0; e < n; e++) sum += (a[e] - b[e]) * (a[e] - b[e]);
    return sqrt(sum);
}

#endif
