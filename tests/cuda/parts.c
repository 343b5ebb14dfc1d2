/* parts.c - vectors, dense layers, norms and activations of the CUDA plugin against plain
 * loops in double.
 *
 * Tolerances: f64 sums of up to 10^6 terms of size one lose about 1e-13 of their length;
 * f32 rounds operands and results to 6e-8, and cuBLAS sums up to 512 products in f32. */
#include "parts.h"
#include "plugin.h"

#include "core/extreme.h"
#include "core/rng.h"

#include <math.h>

static const lipsc_cuda_api *api;
static lipsc_cuda_device *device;
static part_check *check;

/* ---- Vectors that are on both machines ---- */

typedef struct {
    size_t count;
    double *host; /* as the device has it, rounded to its precision */
    void *there;
} pair;

static pair pair_of(int wide, uint64_t seed, size_t count) {
    lipsc_error err;
    pair p = {.count = count, .host = malloc((count ? count : 1) * sizeof *p.host)};
    if (!p.host) abort();
    for (size_t i = 0; i < count; i++) {
        const double x = lipsc_rng_normal(seed, i);
        p.host[i] = wide ? x : (double)(float)x;
    }
    must(api->alloc(device, count * (wide ? 8 : 4), &p.there, &err), &err);
    must(api->put(device, wide, count, p.host, p.there, &err), &err);
    return p;
}

static void pair_free(pair *p) {
    free(p->host);
    api->release(device, p->there);
}

/* |got - want| / |want| of what the device holds. */
static double distance_to(int wide, const void *there, size_t count, const double *want) {
    lipsc_error err;
    double *got = malloc((count ? count : 1) * sizeof *got), apart = 0, size = 0;
    if (!got) abort();
    must(api->get(device, wide, count, there, got, &err), &err);
    for (size_t i = 0; i < count; i++) {
        apart += (got[i] - want[i]) * (got[i] - want[i]);
        size += want[i] * want[i];
    }
    free(got);
    return sqrt(apart) / (size > 0 ? sqrt(size) : 1);
}

static void expect(int wide, const char *name, const void *there, size_t count,
                   const double *want, double limit64, double limit32) {
    const double limit = wide ? limit64 : limit32;
    const double e = distance_to(wide, there, count, want);
    check(e <= limit, name, wide ? "f64" : "f32", e, limit);
}

/* ---- Vectors ---- */

static void test_random(int wide) {
    lipsc_error err;
    const size_t count = 100003;
    const uint64_t seed = 11, first = 7;
    pair p = pair_of(wide, 1, count);
    must(api->random(device, wide, seed, first, count, p.there, &err), &err);
    for (size_t i = 0; i < count; i++) p.host[i] = lipsc_rng_normal(seed, first + i);
    expect(wide, "random", p.there, count, p.host, 1e-14, 4e-8);
    must(api->times(device, wide, count, -0.37, p.there, &err), &err);
    for (size_t i = 0; i < count; i++) p.host[i] *= -0.37;
    expect(wide, "times", p.there, count, p.host, 1e-14, 8e-8);
    pair q = pair_of(wide, 2, count);
    must(api->copy(device, count * (wide ? 8 : 4), p.there, q.there, &err), &err);
    expect(wide, "copy", q.there, count, p.host, 1e-14, 8e-8);
    const size_t item = wide ? 8 : 4, half = count / 2;
    must(api->fill(device, count * item, 0xff, q.there, &err), &err);
    const lipsc_cuda_piece piece[2] = {{half * item, p.there, q.there},
                                       {(count - half) * item,
                                        (char *)p.there + half * item,
                                        (char *)q.there + half * item}};
    must(api->copies(device, 2, piece, &err), &err);
    expect(wide, "copies", q.there, count, p.host, 1e-14, 8e-8);
    pair_free(&p);
    pair_free(&q);
}

static void test_sums(int wide, size_t len, size_t ka, size_t kb) {
    lipsc_error err;
    pair a = pair_of(wide, 3, len * ka), b = pair_of(wide, 4, len * kb);
    double *c = malloc(ka * kb * sizeof *c), worst = 0;
    double *again = malloc(ka * kb * sizeof *again);
    if (!c || !again) abort();
    must(api->dots(device, wide, len, ka, a.there, kb, b.there, c, &err), &err);
    if (!wide) { /* exact */
        pair doubles = pair_of(1, 6, ka * len);
        must(api->widen(device, ka * len, a.there, doubles.there, &err), &err);
        expect(1, "widen", doubles.there, ka * len, a.host, 0.0, 0.0);
        pair_free(&doubles);
    }
    must(api->dots(device, wide, len, ka, a.there, kb, b.there, again, &err), &err);
    check(memcmp(c, again, ka * kb * sizeof *c) == 0, "dots", "same bits", 1, 0);
    double one[2] = {NAN, NAN};
    const lipsc_cuda_gram several[3] = {{len, 1, a.there, 1, b.there, &one[0]},
                                        {len, ka, a.there, kb, b.there, again},
                                        {0, 1, a.there, 1, b.there, &one[1]}};
    memset(again, 0xff, ka * kb * sizeof *again);
    must(api->dots_of(device, wide, 3, several, &err), &err);
    check(memcmp(c, again, ka * kb * sizeof *c) == 0 && one[0] == c[0] && one[1] == 0.0,
          "dots of several", "bits of each alone", 1, 0);
    for (size_t j = 0; j < kb; j++)
        for (size_t i = 0; i < ka; i++) {
            long double sum = 0;
            for (size_t e = 0; e < len; e++)
                sum += (long double)a.host[i * len + e] * (long double)b.host[j * len + e];
            const double off = fabs(c[j * ka + i] - (double)sum) / (double)len;
            worst = lipsc_max(worst, off);
        }
    check(worst <= 1e-15, "dots", wide ? "f64" : "f32", worst, 1e-15);
    for (int add = 0; add < 2; add++) {
        double *want = malloc(len * kb * sizeof *want);
        pair into = pair_of(wide, 5, len * kb);
        if (!want) abort();
        for (size_t j = 0; j < kb; j++)
            for (size_t e = 0; e < len; e++) {
                double sum = add ? into.host[j * len + e] : 0;
                for (size_t i = 0; i < ka; i++) sum += c[j * ka + i] * a.host[i * len + e];
                want[j * len + e] = sum;
            }
        must(api->mix(device, wide, len, ka, a.there, kb, c, add, into.there, &err), &err);
        expect(wide, "mix", into.there, len * kb, want, 1e-14, 1e-7);
        pair_free(&into);
        into = pair_of(wide, 5, len * kb);
        pair scaled = pair_of(wide, 5, len);
        const double half = 0.5;
        const lipsc_cuda_combination both[2] = {
            {len, 1, scaled.there, 1, &half, 0.0, scaled.there},
            {len, ka, a.there, kb, c, (double)add, into.there}};
        must(api->mix_of(device, wide, 2, both, &err), &err);
        expect(wide, "mix of several", into.there, len * kb, want, 1e-14, 1e-7);
        for (size_t e = 0; e < len; e++) scaled.host[e] *= half;
        expect(wide, "in place", scaled.there, len, scaled.host, 1e-14, 1e-7);
        pair_free(&scaled);
        pair_free(&into);
        free(want);
    }
    free(c);
    free(again);
    pair_free(&a);
    pair_free(&b);
}

/* ---- Dense layers ---- */

static void test_linear(int wide, size_t rows, size_t in, size_t out, int transposed) {
    lipsc_error err;
    pair w = pair_of(wide, 6, in * out), bias = pair_of(wide, 7, out);
    pair x = pair_of(wide, 8, rows * in);
    lipsc_cuda_linear *linear = NULL;
    double *want = malloc(rows * out * sizeof *want);
    if (!want) abort();
    must(api->linear_new(device, wide, in, out, w.host, transposed, bias.host, &linear,
                         &err),
         &err);
    for (int form = 0; form < 4; form++) {
        const int with = form & 1, add = form >> 1;
        pair y = pair_of(wide, 9, rows * out);
        for (size_t r = 0; r < rows; r++)
            for (size_t o = 0; o < out; o++) {
                double sum = (add ? y.host[r * out + o] : 0) + (with ? bias.host[o] : 0);
                for (size_t i = 0; i < in; i++)
                    sum +=
                        x.host[r * in + i] * w.host[transposed ? i * out + o : o * in + i];
                want[r * out + o] = sum;
            }
        must(api->linear_apply(linear, rows, x.there, with, add, y.there, &err), &err);
        expect(wide, "linear", y.there, rows * out, want, 1e-14, 2e-6);
        pair_free(&y);
    }
    api->linear_free(linear);
    free(want);
    pair_free(&w);
    pair_free(&bias);
    pair_free(&x);
}

/* ---- Norms ---- */

static void norm_row(size_t d, int centre, double eps, const double *gain,
                     const double *bias, const double *x, double *y) {
    double mean = 0, square = 0;
    for (size_t c = 0; centre && c < d; c++) mean += x[c] / (double)d;
    for (size_t c = 0; c < d; c++) square += (x[c] - mean) * (x[c] - mean);
    const double over = sqrt((double)d) / sqrt(square + (double)d * eps);
    for (size_t c = 0; c < d; c++)
        y[c] = gain[c] * over * (x[c] - mean) + (bias ? bias[c] : 0);
}

/* The derivative against central differences, its adjoint against the derivative. */
static void test_norm(int wide, size_t n, size_t d, int centre, int with) {
    lipsc_error err;
    const double eps = 1e-5, step = 1e-5;
    const size_t dirs = 2, all = n * d;
    pair gain = pair_of(wide, 10, d), bias = pair_of(wide, 11, d);
    pair x = pair_of(wide, 12, all), y = pair_of(wide, 13, all), z = pair_of(wide, 14, all);
    pair over = pair_of(wide, 15, n), h = pair_of(wide, 16, dirs * all);
    pair g = pair_of(wide, 17, dirs * all), slope = pair_of(wide, 18, dirs * all);
    pair back = pair_of(wide, 19, dirs * all);
    double *want = malloc(dirs * all * sizeof *want),
           *moved = malloc(3 * d * sizeof *moved);
    if (!want || !moved) abort();
    must(api->norm(device, wide, n, d, centre, eps, gain.there, with ? bias.there : NULL,
                   x.there, y.there, z.there, over.there, &err),
         &err);
    for (size_t i = 0; i < n; i++)
        norm_row(d, centre, eps, gain.host, with ? bias.host : NULL, x.host + i * d,
                 want + i * d);
    expect(wide, "norm", y.there, all, want, 1e-14, 1e-7);

    for (size_t i = 0; i < dirs * n; i++) {
        const double *row = x.host + i % n * d, *dir = h.host + i * d;
        double *at = moved, *up = moved + d, *down = moved + 2 * d;
        for (int side = 1; side >= -1; side -= 2) {
            for (size_t c = 0; c < d; c++) at[c] = row[c] + side * step * dir[c];
            norm_row(d, centre, eps, gain.host, NULL, at, side > 0 ? up : down);
        }
        for (size_t c = 0; c < d; c++) want[i * d + c] = (up[c] - down[c]) / (2 * step);
    }
    must(api->norm_derivative(device, wide, dirs * n, n, d, centre, gain.there, z.there,
                              over.there, 0, h.there, slope.there, &err),
         &err);
    expect(wide, "norm, derivative", slope.there, dirs * all, want, 2e-9, 1e-6);
    must(api->norm_derivative(device, wide, dirs * n, n, d, centre, gain.there, z.there,
                              over.there, 1, g.there, back.there, &err),
         &err);
    double sums[2], size[2];
    must(api->dots(device, wide, dirs * all, 1, g.there, 1, slope.there, &sums[0], &err),
         &err);
    must(api->dots(device, wide, dirs * all, 1, back.there, 1, h.there, &sums[1], &err),
         &err);
    must(
        api->dots(device, wide, dirs * all, 1, slope.there, 1, slope.there, &size[0], &err),
        &err);
    must(api->dots(device, wide, dirs * all, 1, g.there, 1, g.there, &size[1], &err), &err);
    const double gap = fabs(sums[0] - sums[1]) / sqrt(size[0] * size[1]);
    check(gap <= (wide ? 1e-14 : 1e-6), "norm", "adjoint", gap, wide ? 1e-14 : 1e-6);

    pair *pairs[] = {&gain, &bias, &x, &y, &z, &over, &h, &g, &slope, &back};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) pair_free(pairs[i]);
    free(want);
    free(moved);
}

/* ---- Activations ---- */

static double activation(lipsc_activation kind, double x) {
    static const double root = 0.79788456080286535588;
    switch (kind) {
    case LIPSC_ACT_GELU:
        return 0.5 * x * erfc(-x / sqrt(2.0));
    case LIPSC_ACT_GELU_TANH:
        return 0.5 * x * (1 + tanh(root * (x + 0.044715 * x * x * x)));
    case LIPSC_ACT_GELU_FAST:
        return 0.5 * x * (1 + tanh(0.7978845608 * x * (1 + 0.044715 * x * x)));
    case LIPSC_ACT_GELU_BLOOM:
        return 0.5 * x * (1 + tanh(0.79788456 * x * (1 + 0.044715 * x * x)));
    case LIPSC_ACT_GELU_QUICK:
        return x / (1 + exp(-1.702 * x));
    case LIPSC_ACT_RELU:
        return x > 0 ? x : 0;
    case LIPSC_ACT_SILU:
        return x / (1 + exp(-x));
    case LIPSC_ACT_TANH:
        return tanh(x);
    default:
        return 1 / (1 + exp(-x));
    }
}

static void test_activation(int wide, lipsc_activation kind) {
    lipsc_error err;
    const size_t count = 4097;
    const double step = 1e-5;
    pair x = pair_of(wide, 20, count), y = pair_of(wide, 21, count);
    pair slope = pair_of(wide, 22, count);
    double *value = malloc(count * sizeof *value), *bend = malloc(count * sizeof *bend);
    if (!value || !bend) abort();
    for (size_t i = 0; i < count; i++) { /* numbers about -6 to 6, none close to 0 */
        x.host[i] = (double)(float)(2 * x.host[i] + copysign(0.01, x.host[i]));
        value[i] = activation(kind, x.host[i]);
        bend[i] =
            (activation(kind, x.host[i] + step) - activation(kind, x.host[i] - step)) /
            (2 * step);
    }
    must(api->put(device, wide, count, x.host, x.there, &err), &err);
    must(api->activation(device, wide, kind, count, x.there, y.there, slope.there, &err),
         &err);
    expect(wide, "activation", y.there, count, value, 1e-14, 1e-7);
    expect(wide, "activation, slope", slope.there, count, bend, 1e-9, 1e-7);
    const double far[] = {1e30, -1e30, NAN, 0};
    double got[4], steep[4];
    must(api->put(device, wide, 4, far, x.there, &err), &err);
    must(api->activation(device, wide, kind, 4, x.there, y.there, slope.there, &err), &err);
    must(api->get(device, wide, 4, y.there, got, &err), &err);
    must(api->get(device, wide, 4, slope.there, steep, &err), &err);
    check(isnan(got[2]), "activation", "a NaN stays one", (double)kind, 0);
    check(isfinite(got[0]) && isfinite(got[1]) && isfinite(steep[0]) && isfinite(steep[1]),
          "activation", "far away", got[0], 1e30);
    pair_free(&x);
    pair_free(&y);
    pair_free(&slope);
    free(value);
    free(bend);
}

static void test_elements(int wide) {
    lipsc_error err;
    const size_t period = 321, count = period * 5;
    pair factor = pair_of(wide, 23, period), x = pair_of(wide, 24, count);
    pair y = pair_of(wide, 25, count);
    double *want = malloc(count * sizeof *want);
    if (!want) abort();
    for (int add = 0; add < 2; add++) {
        must(api->put(device, wide, count, y.host, y.there, &err), &err);
        for (size_t i = 0; i < count; i++)
            want[i] = (add ? y.host[i] : 0) + factor.host[i % period] * x.host[i];
        must(api->multiply(device, wide, count, period, factor.there, x.there, add, y.there,
                           &err),
             &err);
        expect(wide, "multiply", y.there, count, want, 1e-15, 1e-7);
    }
    for (size_t i = 0; i < count; i++) want[i] += x.host[i];
    must(api->add(device, wide, count, x.there, y.there, &err), &err);
    expect(wide, "add", y.there, count, want, 1e-15, 1e-7);
    pair_free(&factor);
    pair_free(&x);
    pair_free(&y);
    free(want);
}

void test_parts(const lipsc_cuda_api *plugin, lipsc_cuda_device *on, part_check *report) {
    api = plugin;
    device = on;
    check = report;
    for (int wide = 0; wide < 2; wide++) {
        test_random(wide);
        test_elements(wide);
        test_sums(wide, 1, 1, 1);
        test_sums(wide, 4097, 5, 3);
        test_sums(wide, 300007, 2, 4);
        for (int transposed = 0; transposed < 2; transposed++) {
            test_linear(wide, 1, 3, 5, transposed);
            test_linear(wide, 65, 96, 130, transposed);
            test_linear(wide, 300, 512, 77, transposed);
        }
        for (int form = 0; form < 4; form++) {
            test_norm(wide, 3, 5, form & 1, form >> 1);
            test_norm(wide, 67, 768, form & 1, form >> 1);
        }
        for (int kind = LIPSC_ACT_GELU; kind <= LIPSC_ACT_SIGMOID; kind++)
            test_activation(wide, (lipsc_activation)kind);
    }
}
