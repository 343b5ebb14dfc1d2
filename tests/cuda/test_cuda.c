/* test_cuda.c - the CUDA plugin against the definition (attn/ref.c).
 *
 *     test_cuda liblipscope_cuda.so [short | race [NAME]]
 *
 * Every case is a batch of inputs of different lengths that share a layer.  In each
 * precision J and J^T of two directions are compared with the definition; the fused kernels
 * also with their plain twins on the same stored operands, and with themselves: a second
 * run must give the same bits.  Ends with one line of counts.  short: fewer and shorter
 * inputs, for a sanitizer; race: each family of kernels at a handful of tokens, without the
 * plain twins, for one that takes a thousand times as long, all of them or the named one.
 */
#include "alone.h"
#include "attn/attn.h"
#include "core/extreme.h"
#include "layers.h"
#include "parts.h"
#include "plugin.h"

enum { DIRS = 2, MOST = 9 };

typedef struct {
    const char *name;
    unsigned features;
    layer_sizes z; /* z.n is the longest input */
    double score;  /* largest scores, about; 0: about 4 */
    size_t n[MOST];
    double pull; /* what query biases are multiplied by: all rows look at one key */
} test_case;

enum { PRECISIONS = 4 };
static const char *const precision_names[PRECISIONS] = {"f16", "f16x3", "f64", "bf16x3"};
static const lipsc_cuda_api *api;
static lipsc_cuda_device *device;
static long passed, failed;
static int short_form, race_form;

/* the larger one; a NaN stays */
static double larger(double a, double b) { return b > a || isnan(b) ? b : a; }

static void check(int ok, const char *name, const char *what, double value, double limit) {
    if (ok) {
        passed++;
        return;
    }
    failed++;
    printf("FAILED %-28s %-34s %.3g, allowed %.3g\n", name, what, value, limit);
}

/* Relative errors that the precision explains.  The definition itself rounds its scores:
 * a score of size s has an error of about s 2^-53, and so has every probability.  f32 sums
 * of scores cost s 2^-24, rounded operands of f16 far more: there only the plain twin,
 * which has the same operands, can be compared.  Heads of a few components do not average
 * the roundings of f16. */
static double limit_reference(int precision, const test_case *c) {
    const double s = lipsc_max(c->score, 4.0);
    if (precision == LIPSC_CUDA_F64) return lipsc_max(1e-12, 4e-15 * s);
    if (precision == LIPSC_CUDA_F16X3) return c->score > 0 ? 3e-6 * s : 1e-5;
    if (precision == LIPSC_CUDA_BF16X3) return c->score > 0 ? 0.1 : 3e-4;
    return c->score > 0 ? INFINITY : c->z.n ? 4e-3 : 2e-2;
}
static double limit_plain(int precision, const test_case *c) {
    const double s = lipsc_max(c->score, 4.0);
    if (precision == LIPSC_CUDA_F64) return lipsc_max(1e-12, 4e-15 * s);
    if (precision == LIPSC_CUDA_F16X3) return lipsc_max(1e-5, 2e-6 * s);
    if (precision == LIPSC_CUDA_BF16X3) return lipsc_max(1e-4, 2e-5 * s);
    return lipsc_max(c->z.n ? 3e-3 : 1e-2, 3e-6 * s);
}

/* ---- One case -------------------------------------------------------------------------
 */

typedef struct {
    size_t inputs, n[MOST], tokens;
    lipsc_input input[MOST];
    lipsc_attn *attn[MOST]; /* for its rows */
    lipsc_rows rows[MOST];
    size_t d, width;
    double *x[2], *ref[2]; /* DIRS batch vectors of J and of J^T: arguments, results */
    double *output;
} fixture;

static void fixture_reference(const test_layer *t, fixture *f) {
    const size_t from[2] = {f->d, f->width}, to[2] = {f->width, f->d};
    size_t first = 0;
    size_t start[MOST];
    for (size_t i = 0; i < f->inputs; i++) {
        start[i] = first;
        first += f->n[i];
    }
#pragma omp parallel for collapse(2) schedule(dynamic, 1)
    for (size_t i = 0; i < f->inputs; i++)
        for (int trans = 0; trans < 3; trans++) {
            const size_t n = f->n[i];
            if (trans == 2) {
                lipsc_ref_output(&t->layer, &f->input[i], f->output + start[i] * f->width,
                                 NULL);
                continue;
            }
            for (size_t k = 0; k < DIRS; k++)
                lipsc_ref_apply(&t->layer, &f->input[i], trans, 1,
                                f->x[trans] + (k * f->tokens + start[i]) * from[trans],
                                f->ref[trans] + (k * f->tokens + start[i]) * to[trans],
                                NULL);
            (void)n;
        }
}

static double *numbers(size_t count) {
    double *p = malloc((count ? count : 1) * sizeof *p);
    if (!p) abort();
    for (size_t i = 0; i < count; i++) p[i] = NAN;
    return p;
}

static void fixture_make(const test_layer *t, const test_case *c, fixture *f) {
    lipsc_error err;
    memset(f, 0, sizeof *f);
    f->d = t->layer.d;
    f->width = lipsc_layer_width(&t->layer);
    for (size_t i = 0; i < MOST && c->n[i]; i++) {
        f->n[i] = c->n[i];
        f->input[i] = t->input;
        f->input[i].n = c->n[i];
        f->tokens += c->n[i];
        must(lipsc_attn_new(&t->layer, &f->input[i], LIPSC_F64, NULL, &f->attn[i], &err),
             &err);
        f->rows[i] = f->attn[i]->rows;
        f->inputs++;
    }
    for (int trans = 0; trans < 2; trans++) {
        f->x[trans] = random_vectors((uint64_t)(trans + 17),
                                     DIRS * f->tokens * (trans ? f->width : f->d));
        f->ref[trans] = numbers(DIRS * f->tokens * (trans ? f->d : f->width));
    }
    f->output = numbers(f->tokens * f->width);
    fixture_reference(t, f);
}

static void fixture_free(fixture *f) {
    for (size_t i = 0; i < f->inputs; i++) lipsc_attn_free(f->attn[i]);
    for (int trans = 0; trans < 2; trans++) {
        free(f->x[trans]);
        free(f->ref[trans]);
    }
    free(f->output);
}

/* largest over the inputs and directions of |a - b| / |b| */
static double batch_error(const fixture *f, size_t dirs, size_t width, const double *a,
                          const double *b) {
    double most = 0;
    for (size_t k = 0; k < dirs; k++) {
        size_t at = k * f->tokens * width;
        for (size_t i = 0; i < f->inputs; i++) {
            const size_t count = f->n[i] * width;
            const double size = vector_norm(count, b + at);
            const double e = vector_distance(count, a + at, b + at) / (size > 0 ? size : 1);
            if (!(e <= most)) most = e; /* a NaN stays */
            if (isnan(e)) return e;
            at += count;
        }
    }
    return most;
}

static void case_product(const test_case *c, const fixture *f, lipsc_cuda_batch *batch,
                         int precision, int trans, double *worst) {
    lipsc_error err;
    const size_t from = DIRS * f->tokens * (trans ? f->width : f->d);
    const size_t width = trans ? f->d : f->width, to = DIRS * f->tokens * width;
    const lipsc_cuda_precision p = (lipsc_cuda_precision)precision;
    void *x = vector_up(api, device, p, from, f->x[trans]);
    void *y = vector_up(api, device, p, to, NULL);
    double *fast = numbers(to), *again = numbers(to), *plain = numbers(to);
    for (int room = 0; room <= 12; room += 6) { /* f16 overflows: more room at the top */
        api->headroom(batch, room);
        must(api->product(batch, trans, DIRS, x, y, 0, &err), &err);
        vector_down(api, device, p, to, y, fast);
        if (isfinite(vector_norm(to, fast))) break;
    }
    must(api->product(batch, trans, DIRS, x, y, 0, &err), &err);
    vector_down(api, device, p, to, y, again);
    if (!race_form) must(api->product(batch, trans, DIRS, x, y, 1, &err), &err);
    vector_down(api, device, p, to, y, plain);

    char what[64];
    const char *op = trans ? "J^T" : "J", *name = precision_names[precision];
    const double e = batch_error(f, DIRS, width, fast, f->ref[trans]);
    const double q = batch_error(f, DIRS, width, plain, f->ref[trans]);
    const double twin = batch_error(f, DIRS, width, fast, plain);
    snprintf(what, sizeof what, "%s %s, definition", name, op);
    check(e <= limit_reference(precision, c), c->name, what, e,
          limit_reference(precision, c));
    if (precision == LIPSC_CUDA_F64 && !race_form) {
        snprintf(what, sizeof what, "%s %s, plain, definition", name, op);
        check(q <= limit_reference(precision, c), c->name, what, q,
              limit_reference(precision, c));
    }
    snprintf(what, sizeof what, "%s %s, plain twin", name, op);
    if (!race_form)
        check(twin <= limit_plain(precision, c), c->name, what, twin,
              limit_plain(precision, c));
    snprintf(what, sizeof what, "%s %s, same bits", name, op);
    check(memcmp(fast, again, to * sizeof *fast) == 0, c->name, what, 1, 0);
    *worst = larger(*worst, e);
    api->release(device, x);
    api->release(device, y);
    free(fast);
    free(again);
    free(plain);
}

static void case_output(const test_case *c, const fixture *f, lipsc_cuda_batch *batch,
                        int precision) {
    double *y = numbers(f->tokens * f->width);
    for (size_t i = 0, first = 0; i < f->inputs; first += f->n[i++])
        output_down(api, device, batch, i, f->n[i] * f->width, y + first * f->width);
    const double e = batch_error(f, 1, f->width, y, f->output);
    const double limit = limit_reference(precision, c);
    char what[64];
    snprintf(what, sizeof what, "%s output, definition", precision_names[precision]);
    check(e <= limit, c->name, what, e, limit);
    free(y);
}

/* What the products of a head work with, against the CPU's; refused where it is rounded. */
static void tells(const test_layer *t, const fixture *f, lipsc_cuda_batch *batch,
                  lipsc_cuda_precision p, const char *name) {
    const lipsc_layer *l = &t->layer;
    for (size_t i = 0; i < f->inputs; i++)
        for (size_t h = 0; h < l->heads; h++) {
            const size_t n = f->n[i], all = n * (2 * l->key_dim + l->value_dim + 2);
            double *side[2] = {numbers(all), numbers(all)}, apart = 0, size = 0;
            lipsc_status status[2];
            for (int s = 0; s < 2; s++) {
                double *q = side[s], *key = q + n * l->key_dim, *z = key + n * l->key_dim,
                       *q_over = z + n * l->value_dim, *k_over = q_over + n;
                status[s] =
                    s ? lipsc_attn_projections(f->attn[i], h, q, key, z, q_over, k_over)
                      : api->projections(batch, i, h, q, key, z, q_over, k_over, NULL);
            }
            if (p != LIPSC_CUDA_F64) {
                check(status[0] == LIPSC_E_REFUSED, name, "projections are refused", 0, 0);
            } else {
                for (size_t e = 0; e < all; e++) {
                    apart = larger(apart, fabs(side[0][e] - side[1][e]));
                    size = larger(size, fabs(side[1][e]));
                }
                check(!status[0] && !status[1] && apart <= 1e-13 * size, name,
                      "projections", apart / size, 1e-13);
            }
            free(side[0]);
            free(side[1]);
        }
}

/* What the definition says of <u, J v> for the first pair: gradients in the tokens, and in
 * the scores of single keys, which the log weight has less what stands outside of J. */
static void gradient_reference(const test_layer *t, const fixture *f, double *grad,
                               double *score) {
    const size_t d = f->d, width = f->width;
#pragma omp parallel for schedule(dynamic, 1)
    for (size_t i = 0; i < f->inputs; i++) {
        size_t first = 0;
        for (size_t l = 0; l < i; l++) first += f->n[l];
        const double *v = f->x[0] + first * d, *u = f->x[1] + first * width;
        const double *Jv = f->ref[0] + first * width, *Jtu = f->ref[1] + first * d;
        lipsc_ref_gradient(&t->layer, &f->input[i], 1, u, v, grad + first * d,
                           score + first, NULL);
        for (size_t r = 0; r < f->n[i]; r++) {
            double outside = 0;
            for (size_t e = 0; e < width; e++)
                outside += u[r * width + e] * Jv[r * width + e];
            for (size_t e = 0; e < d; e++) outside -= v[r * d + e] * Jtu[r * d + e];
            score[first + r] -= 0.5 * outside;
        }
    }
}

/* Gradients against the definition; twice the same bits; refused where they are not made.
 * Each entry is a sum of products of two factors that are as good as an entry of J x. */
static void case_gradient(const test_case *c, const test_layer *t, const fixture *f,
                          lipsc_cuda_batch *batch, lipsc_cuda_precision p) {
    lipsc_error err;
    const size_t all = f->tokens * f->d;
    void *u = vector_up(api, device, p, f->tokens * f->width, f->x[1]);
    void *v = vector_up(api, device, p, all, f->x[0]);
    void *grad = vector_up(api, device, p, all, NULL),
         *score = vector_up(api, device, p, f->tokens, NULL);
    const lipsc_status status = api->gradient(batch, u, v, grad, score, &err);
    if (p != LIPSC_CUDA_F64) {
        check(status == LIPSC_E_REFUSED, c->name, "gradients are refused", 0, 0);
    } else {
        double *got = numbers(all), *again = numbers(all), *want = numbers(all);
        double *keys = numbers(f->tokens), *keys_want = numbers(f->tokens);
        const double limit = 10.0 * limit_reference(p, c);
        must(status, &err);
        vector_down(api, device, p, all, grad, got);
        vector_down(api, device, p, f->tokens, score, keys);
        must(api->gradient(batch, u, v, grad, NULL, &err), &err);
        vector_down(api, device, p, all, grad, again);
        gradient_reference(t, f, want, keys_want);
        const double e = batch_error(f, 1, f->d, got, want);
        double most = 0, size = 0; /* of a key's: beside the largest of all */
        for (size_t i = 0; i < f->tokens; i++) {
            most = larger(most, fabs(keys[i] - keys_want[i]));
            size = larger(size, fabs(keys_want[i]));
        }
        check(e <= limit, c->name, "gradient, definition", e, limit);
        check(most <= limit * (size > 1 ? size : 1), c->name, "gradient in the scores",
              most, limit);
        check(memcmp(got, again, all * sizeof *got) == 0, c->name, "gradient, same bits", 1,
              0);
        double *const made[] = {got, again, want, keys, keys_want};
        for (size_t i = 0; i < sizeof made / sizeof *made; i++) free(made[i]);
    }
    void *const there[] = {u, v, grad, score};
    for (size_t i = 0; i < sizeof there / sizeof *there; i++)
        api->release(device, there[i]);
}

static void run_case(const test_case *c, uint64_t seed) {
    lipsc_error err;
    test_layer t = random_layer_of(seed, c->features, c->z);
    lipsc_layer *layer = &t.layer, resolved;
    must(lipsc_layer_check(layer, &resolved, &err), &err);
    *layer = resolved;
    if (c->score > 0) layer->scale *= c->score / 4.0;
    for (size_t i = 0; c->pull > 0 && i < layer->heads * layer->key_dim; i++)
        ((double *)layer->bq)[i] *= c->pull;
    fixture f;
    fixture_make(&t, c, &f);
    double worst[PRECISIONS] = {0};
    for (int p = 0; p < PRECISIONS; p++) {
        lipsc_cuda_weights *weights = NULL;
        lipsc_cuda_batch *batch = NULL;
        must(api->weights_new(device, layer, (lipsc_cuda_precision)p, &weights, &err),
             &err);
        const lipsc_status status =
            api->batch_new(weights, f.inputs, f.rows, DIRS, &batch, &err);
        check(status == LIPSC_OK, c->name, status ? err.text : "", (double)status, 0);
        if (status == LIPSC_OK) {
            case_product(c, &f, batch, p, 0, &worst[p]);
            case_product(c, &f, batch, p, 1, &worst[p]);
            case_output(c, &f, batch, p);
            tells(&t, &f, batch, (lipsc_cuda_precision)p, c->name);
            case_gradient(c, &t, &f, batch, (lipsc_cuda_precision)p);
        }
        api->batch_free(batch);
        api->weights_free(weights);
    }
    printf("%-28s", c->name);
    for (int p = 0; p < PRECISIONS; p++) printf(" %s %8.1e", precision_names[p], worst[p]);
    printf("\n");
    fflush(stdout);
    fixture_free(&f);
    test_layer_free(&t);
}

/* ---- The cases --------------------------------------------------------------------------
 */

#define LENGTHS .n = {1, 2, 63, 64, 65, 127, 129, 200}
#define SIZES(w)          \
    .z = {.n = 200,       \
          .d = 64,        \
          .heads = 4,     \
          .kv_heads = 2,  \
          .key_dim = w,   \
          .value_dim = w, \
          .out_dim = 72}
#define ORDINARY(w) SIZES(w), LENGTHS
#define HEADS(count, w, length) \
    .z = {.n = length, .d = 48, .heads = count, .key_dim = w, .value_dim = w, .out_dim = 40}
#define WINDOWED(w, length, size) \
    .z = {.n = length,            \
          .d = 40,                \
          .heads = 3,             \
          .key_dim = w,           \
          .value_dim = w,         \
          .out_dim = 40,          \
          .window = size}

/* clang-format off */
static const test_case cases[] = {
    {.name = "width 8, causal", .features = FEATURE_CAUSAL, ORDINARY(8)},
    {.name = "width 32, causal", .features = FEATURE_CAUSAL, ORDINARY(32)},
    {.name = "width 64, causal", .features = FEATURE_CAUSAL, ORDINARY(64)},
    {.name = "width 80, causal", .features = FEATURE_CAUSAL, ORDINARY(80)},
    {.name = "width 96, causal", .features = FEATURE_CAUSAL, ORDINARY(96)},
    {.name = "width 128, causal", .features = FEATURE_CAUSAL, ORDINARY(128)},
    {.name = "width 256, causal", .features = FEATURE_CAUSAL, ORDINARY(256)},
    {.name = "width 256, soft cap", .features = FEATURE_CAUSAL | FEATURE_SOFT_CAP, ORDINARY(256)},
    {.name = "width 128, ALiBi", .features = FEATURE_LOCAL | FEATURE_ALIBI, ORDINARY(128)},
    {.name = "n = 1000, causal", .features = FEATURE_CAUSAL, HEADS(2, 64, 1000), .n = {1000, 999}},
    {.name = "n = 1000, full", .features = 0, HEADS(2, 64, 1000), .n = {1000, 65}},
    {.name = "a key that all look at", .features = FEATURE_BIASES, HEADS(2, 64, 1000),
     .n = {1000, 300}, .pull = 16},
    {.name = "sliding", .features = FEATURE_SLIDING, WINDOWED(64, 300, 70), .n = {300, 71, 129}},
    {.name = "sliding, window 1", .features = FEATURE_SLIDING, WINDOWED(64, 130, 1), .n = {130, 1}},
    {.name = "local", .features = FEATURE_LOCAL, WINDOWED(32, 300, 90), .n = {300, 71, 129}},
    {.name = "times", .features = FEATURE_TIMES, ORDINARY(64)},
    {.name = "times, weights", .features = FEATURE_TIMES | FEATURE_WEIGHTS, ORDINARY(32)},
    {.name = "weights", .features = FEATURE_WEIGHTS, ORDINARY(64)},
    {.name = "biases", .features = FEATURE_BIASES | FEATURE_CAUSAL, ORDINARY(64)},
    {.name = "no output", .features = FEATURE_NO_OUTPUT, ORDINARY(24)},
    {.name = "A form", .features = FEATURE_A_FORM, LENGTHS,
     .z = {.n = 200, .d = 61, .heads = 3, .kv_heads = 1, .value_dim = 20, .out_dim = 33}},
    {.name = "odd sizes", .features = FEATURE_CAUSAL | FEATURE_BIASES, LENGTHS,
     .z = {.n = 200, .d = 37, .heads = 3, .key_dim = 17, .value_dim = 45, .out_dim = 29}},
    {.name = "rotary", .features = FEATURE_ROTARY | FEATURE_CAUSAL, ORDINARY(64)},
    {.name = "norms", .features = FEATURE_QK_NORM | FEATURE_CAUSAL, ORDINARY(64)},
    {.name = "norms, rotary", .features = FEATURE_QK_NORM | FEATURE_ROTARY, ORDINARY(96)},
    {.name = "whole norms, rotary", .features = FEATURE_WHOLE_NORM | FEATURE_ROTARY, ORDINARY(32)},
    {.name = "ALiBi", .features = FEATURE_ALIBI | FEATURE_CAUSAL, ORDINARY(64)},
    {.name = "buckets", .features = FEATURE_BUCKETS, ORDINARY(64)},
    {.name = "soft cap", .features = FEATURE_SOFT_CAP | FEATURE_CAUSAL, ORDINARY(64)},
    {.name = "sinks", .features = FEATURE_SINKS | FEATURE_CAUSAL, ORDINARY(64)},
    {.name = "sinks, cap, ALiBi",
     .features = FEATURE_SINKS | FEATURE_SOFT_CAP | FEATURE_ALIBI, ORDINARY(80)},
    {.name = "all but times",
     .features = FEATURE_WEIGHTS | FEATURE_BIASES | FEATURE_ROTARY | FEATURE_QK_NORM |
                 FEATURE_LOCAL | FEATURE_BUCKETS | FEATURE_SOFT_CAP | FEATURE_SCALE,
     ORDINARY(64)},
    {.name = "equal tokens", .features = FEATURE_EQUAL_TOKENS | FEATURE_CAUSAL, ORDINARY(64)},
    {.name = "scores of 100", .features = FEATURE_CAUSAL, ORDINARY(64), .score = 100},
    {.name = "scores of 1e4", .features = FEATURE_CAUSAL, ORDINARY(64), .score = 1e4},
    {.name = "scores of 1e4, full", .features = 0, ORDINARY(32), .score = 1e4},
    {.name = "scores of 1e4, sinks", .features = FEATURE_SINKS, ORDINARY(64), .score = 1e4},
};
/* clang-format on */

/* ---- Small random layers with any features
 * ------------------------------------------------- */

static void random_zoo(long count) {
    for (long i = 0; i < count; i++) {
        const uint64_t seed = 1000 + (uint64_t)i;
        unsigned features = (unsigned)(lipsc_rng_bits(seed, 77) & lipsc_rng_bits(seed, 78) &
                                       ((1u << ALL_FEATURES) - 1));
        features &= ~(unsigned)(FEATURE_SATURATED);
        test_layer t = random_layer(seed, features);
        test_case c = {.name = "small", .features = features, .n = {t.input.n}};
        char name[64];
        snprintf(name, sizeof name, "small %llu, %x", (unsigned long long)seed, features);
        c.name = name;
        test_layer_free(&t);
        run_case(&c, seed);
    }
}

/* ---- Vectors
 * ------------------------------------------------------------------------------- */

static void vectors_of(lipsc_cuda_batch *batch, const fixture *f, lipsc_cuda_precision p) {
    enum { KA = 3, KB = 2 };
    lipsc_error err;
    const size_t len = f->tokens * f->d;
    double *a = random_vectors(3, KA * len), *b = random_vectors(4, KB * len);
    double *back = numbers(KB * len);
    for (size_t i = 0; p != LIPSC_CUDA_F64 && i < KA * len; i++) a[i] = (double)(float)a[i];
    for (size_t i = 0; p != LIPSC_CUDA_F64 && i < KB * len; i++) b[i] = (double)(float)b[i];
    void *da = vector_up(api, device, p, KA * len, a),
         *db = vector_up(api, device, p, KB * len, b);
    void *dc = NULL;
    double c[MOST * KA * KB];
    must(api->alloc(device, sizeof c, &dc, &err), &err);
    must(api->gram(batch, 0, KA, da, KB, db, dc, &err), &err);
    must(api->download(device, f->inputs * KA * KB * sizeof *c, dc, c, &err), &err);
    must(api->combine(batch, 0, KA, da, KB, dc, 1.0, db, &err), &err);
    vector_down(api, device, p, KB * len, db, back);
    double worst = 0, worst_combined = 0;
    size_t at = 0;
    for (size_t i = 0; i < f->inputs; i++) {
        const size_t count = f->n[i] * f->d;
        for (size_t j = 0; j < KB; j++)
            for (size_t l = 0; l < KA; l++) {
                const double want = vector_dot(count, a + l * len + at, b + j * len + at);
                const double size = vector_norm(count, a + l * len + at) *
                                    vector_norm(count, b + j * len + at);
                worst = larger(worst, fabs(want - c[i * KA * KB + j * KA + l]) / size);
            }
        for (size_t j = 0; j < KB; j++)
            for (size_t e = 0; e < count; e++) {
                double want = b[j * len + at + e], size = fabs(want);
                for (size_t l = 0; l < KA; l++) {
                    const double term = c[i * KA * KB + j * KA + l] * a[l * len + at + e];
                    want += term;
                    size += fabs(term);
                }
                worst_combined =
                    larger(worst_combined, fabs(want - back[j * len + at + e]) / size);
            }
        at += count;
    }
    const double eps = p == LIPSC_CUDA_F64 ? 1e-14 : 1e-7;
    check(worst <= 1e-14, "vectors", "dot products", worst, 1e-14);
    check(worst_combined <= eps, "vectors", "combinations", worst_combined, eps);
    must(api->gram(batch, 0, 1, db, 1, db, dc, &err), &err);
    must(api->scale(batch, 0, dc, 1, db, &err), &err);
    must(api->gram(batch, 0, 1, db, 1, db, dc, &err), &err);
    must(api->download(device, f->inputs * sizeof *c, dc, c, &err), &err);
    for (size_t i = 0; i < f->inputs; i++)
        check(fabs(c[i] - 1) <= 10 * eps, "vectors", "unit length", c[i] - 1, 10 * eps);
    api->release(device, da);
    api->release(device, db);
    api->release(device, dc);
    free(a);
    free(b);
    free(back);
}

/* ---- What must be refused, and what must be left alone
 * --------------------------------------- */

static void refusals(void) {
    lipsc_error err;
    lipsc_cuda_weights *weights = NULL;
    lipsc_cuda_batch *batch = NULL;
    lipsc_cuda_device *none = NULL;
    test_layer t = random_layer_of(5, 0, (layer_sizes){.n = 4, .d = 8, .key_dim = 257});
    lipsc_layer resolved;
    must(lipsc_layer_check(&t.layer, &resolved, &err), &err);
    check(api->weights_new(device, &resolved, LIPSC_CUDA_F16, &weights, &err) ==
              LIPSC_E_RANGE,
          "refusals", "heads of width 257", 0, 0);
    test_layer_free(&t);
    check(api->open(99, 0, &none, &err) != LIPSC_OK, "refusals", "device 99", 0, 0);
    void *huge = NULL;
    if (!short_form) /* a sanitizer counts it as an error */
        check(api->alloc(device, (size_t)1 << 45, &huge, &err) == LIPSC_E_NOMEM, "refusals",
              "32 TiB", 0, 0);

    t = random_layer_of(5, 0, (layer_sizes){.n = 40, .d = 8, .key_dim = 16});
    must(lipsc_layer_check(&t.layer, &resolved, &err), &err);
    lipsc_attn *attn = NULL;
    must(lipsc_attn_new(&resolved, &t.input, LIPSC_F64, NULL, &attn, &err), &err);
    ((double *)t.input.X)[3] = 1e200;
    lipsc_rows rows = attn->rows;
    rows.X = lipsc_host_view(rows.n * t.layer.d, t.input.X);
    for (int p = 0; p < PRECISIONS; p++) {
        must(api->weights_new(device, &resolved, (lipsc_cuda_precision)p, &weights, &err),
             &err);
        check(api->batch_new(weights, 1, &rows, 1, &batch, &err) == LIPSC_E_NONFIN,
              "refusals", "a score of 1e400", 0, 0);
        api->weights_free(weights);
    }
    lipsc_attn_free(attn);
    test_layer_free(&t);
}

/* Values and keys beyond 65504, with ordinary scores: f16 and f16 x 3 refuse them, bf16 x 3
 * and f64 have the definition's products. */
static void far_numbers(void) {
    lipsc_error err;
    const test_case c = {
        .name = "numbers of 1e7", .features = FEATURE_CAUSAL, ORDINARY(64)};
    test_layer t = random_layer_of(11, c.features, c.z);
    lipsc_layer resolved;
    must(lipsc_layer_check(&t.layer, &resolved, &err), &err);
    t.layer = resolved;
    const size_t keys = t.layer.kv_heads * t.layer.key_dim * t.layer.d;
    const size_t values = t.layer.kv_heads * t.layer.value_dim * t.layer.d;
    for (size_t i = 0; i < keys; i++) ((double *)t.layer.K)[i] *= 1e7;
    for (size_t i = 0; i < values; i++) ((double *)t.layer.V)[i] *= 1e7;
    t.layer.scale *= 1e-7;
    fixture f;
    fixture_make(&t, &c, &f);
    for (int p = 0; p < PRECISIONS; p++) {
        const int reaches = p == LIPSC_CUDA_F64 || p == LIPSC_CUDA_BF16X3;
        lipsc_cuda_weights *weights = NULL;
        lipsc_cuda_batch *batch = NULL;
        double worst = 0;
        must(api->weights_new(device, &t.layer, (lipsc_cuda_precision)p, &weights, &err),
             &err);
        const lipsc_status status =
            api->batch_new(weights, f.inputs, f.rows, DIRS, &batch, &err);
        check(status == (reaches ? LIPSC_OK : LIPSC_E_NONFIN), c.name, precision_names[p],
              (double)status, 0);
        for (int trans = 0; !status && trans < 2; trans++)
            case_product(&c, &f, batch, p, trans, &worst);
        if (!status) case_output(&c, &f, batch, p);
        if (!status) printf("%-28s %s %8.1e\n", c.name, precision_names[p], worst);
        if (!status) api->batch_free(batch);
        api->weights_free(weights);
    }
    fixture_free(&f);
    test_layer_free(&t);
}

/* A poisoned direction of one input must show there and nowhere else. */
static void poison(const fixture *f, lipsc_cuda_batch *batch, lipsc_cuda_precision p) {
    lipsc_error err;
    for (int trans = 0; trans < 2; trans++) {
        const size_t from = f->tokens * (trans ? f->width : f->d);
        const size_t width = trans ? f->d : f->width, to = f->tokens * width;
        double *x = numbers(from), *y = numbers(to);
        memcpy(x, f->x[trans], from * sizeof *x);
        x[0] = NAN; /* the first token of the first input */
        void *dx = vector_up(api, device, p, from, x),
             *dy = vector_up(api, device, p, to, NULL);
        must(api->product(batch, trans, 1, dx, dy, 0, &err), &err);
        vector_down(api, device, p, to, dy, y);
        int seen = 0, spread = 0;
        for (size_t i = 0; i < to; i++) {
            if (i < f->n[0] * width)
                seen |= isnan(y[i]);
            else
                spread |= !isfinite(y[i]);
        }
        check(seen, "poison", "a NaN is seen", 0, 1);
        check(!spread, "poison", "the neighbours are not touched", 1, 0);
        api->release(device, dx);
        api->release(device, dy);
        free(x);
        free(y);
    }
}

/* A direction times a power of two gives the result times it, to the last bit. */
static void scales(const fixture *f, lipsc_cuda_batch *batch, lipsc_cuda_precision p) {
    lipsc_error err;
    for (int trans = 0; trans < 2; trans++) {
        const size_t in = trans ? f->width : f->d, from = DIRS * f->tokens * in;
        const size_t width = trans ? f->d : f->width, to = DIRS * f->tokens * width;
        double *x = numbers(from), *y = numbers(to), *z = numbers(to);
        for (int exponent = -40; exponent <= 40; exponent += 80) {
            for (int step = 0; step < 2; step++) {
                for (size_t i = 0; i < from; i++)
                    x[i] = ldexp((double)(float)f->x[trans][i], step ? exponent : 0);
                void *dx = vector_up(api, device, p, from, x);
                void *dy = vector_up(api, device, p, to, NULL);
                must(api->product(batch, trans, DIRS, dx, dy, 0, &err), &err);
                vector_down(api, device, p, to, dy, step ? z : y);
                api->release(device, dx);
                api->release(device, dy);
            }
            int same = 1;
            for (size_t i = 0; i < to; i++) same &= z[i] == ldexp(y[i], exponent);
            check(same, "scales", "a power of two, to the last bit", 1, 0);
        }
        free(x);
        free(y);
        free(z);
    }
}

static void batches(void) {
    lipsc_error err;
    const test_case c = {.name = "batch", .features = FEATURE_CAUSAL, ORDINARY(64)};
    test_layer t = random_layer_of(9, c.features, c.z);
    lipsc_layer resolved;
    must(lipsc_layer_check(&t.layer, &resolved, &err), &err);
    fixture f;
    fixture_make(&t, &c, &f);
    for (int p = 0; p < PRECISIONS; p++) {
        lipsc_cuda_weights *weights = NULL;
        lipsc_cuda_batch *batch = NULL;
        must(api->weights_new(device, &resolved, (lipsc_cuda_precision)p, &weights, &err),
             &err);
        must(api->batch_new(weights, f.inputs, f.rows, DIRS, &batch, &err), &err);
        vectors_of(batch, &f, (lipsc_cuda_precision)p);
        poison(&f, batch, (lipsc_cuda_precision)p);
        scales(&f, batch, (lipsc_cuda_precision)p);
        tells(&t, &f, batch, (lipsc_cuda_precision)p, "batch");
        api->batch_free(batch);
        api->weights_free(weights);
    }
    fixture_free(&f);
    test_layer_free(&t);
}

/* What has code of its own: each precision and way of multiplying, biases, norms.  200
 * tokens take a tile more than those that wait in shared memory. */
static void races(const char *name) {
    static const char *const names[] = {"width 64, causal", "width 256, soft cap",
                                        "times, weights", "whole norms, rotary",
                                        "sinks, cap, ALiBi"};
    const size_t count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < count; i++)
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            test_case c = cases[i];
            const size_t few[MOST] = {k ? 70 : 200, 3};
            if (strcmp(c.name, names[k]) || (name && strcmp(name, c.name))) continue;
            c.z.d = 16;
            c.z.out_dim = 16;
            c.z.heads = 2;
            c.z.kv_heads = 1;
            memcpy(c.n, few, sizeof few);
            run_case(&c, 40 + i);
        }
}

int main(int argc, char **argv) {
    lipsc_error err;
    if (argc < 2) {
        fprintf(stderr, "test_cuda liblipscope_cuda.so [short | race [NAME]]\n");
        return 2;
    }
    short_form = argc > 2;
    race_form = short_form && !strcmp(argv[2], "race");
    api = plugin_open(argv[1]);
    lipsc_cuda_about about;
    must(api->about(0, &about, &err), &err);
    printf("%s, %.1f GiB, compute capability %d.%d, CUDA driver %d, runtime %d\n",
           about.name, (double)about.memory / 1073741824.0, about.major, about.minor,
           about.driver, about.runtime);
    must(api->open(0, 0, &device, &err), &err);
    if (race_form) {
        races(argc > 3 ? argv[3] : NULL);
        api->close(device);
        printf("%ld passed, %ld failed\n", passed, failed);
        return failed != 0;
    }
    refusals();
    far_numbers();
    test_parts(api, device, check);
    test_alone(api, device, check, short_form);
    batches();
    const size_t count = sizeof cases / sizeof cases[0];
    for (size_t i = 0; i < count; i += short_form ? 4 : 1) {
        test_case c = cases[i];
        const size_t few[MOST] = {65, 3};
        if (short_form) memcpy(c.n, few, sizeof few);
        run_case(&c, 40 + i);
    }
    random_zoo(short_form ? 5 : 60);
    api->close(device);
    printf("%ld passed, %ld failed\n", passed, failed);
    return failed != 0;
}
