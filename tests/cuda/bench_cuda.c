/* bench_cuda.c - the CUDA plugin's speed: pairs of J and J^T of one GPT-2-sized layer.
 *
 *     bench_cuda liblipscope_cuda.so [longest | quick | core | million]
 *
 * d 768, 12 heads of 64, causal, projections included; medians over replays of a recorded
 * pair; errors by comparison with f64.  core: in f16 without the projections, as fused
 * kernels are compared.  million: one pair at 2^20 tokens, once. */
#include "core/rng.h"
#include "plugin.h"

#include <math.h>

enum { HEADS = 12, W = 64, REPS = 21, D = 768 };

static const lipsc_cuda_api *api;
static lipsc_cuda_device *device;
static const char *const precision_names[] = {"f16", "f16x3", "f64", "bf16x3"};

static double *normals(uint64_t seed, size_t count, double size) {
    double *x = malloc(count * sizeof *x);
    if (!x) abort();
#pragma omp parallel for
    for (size_t i = 0; i < count; i++) x[i] = size * lipsc_rng_normal(seed, i);
    return x;
}

typedef struct {
    lipsc_layer layer;
    double *storage[4];
} bench_layer;

static bench_layer layer_make(void) {
    bench_layer b;
    const double unit = 1.0 / sqrt(D);
    for (int i = 0; i < 4; i++)
        b.storage[i] = normals(7 + (uint64_t)i, HEADS * W * D, unit);
    memset(&b.layer, 0, sizeof b.layer);
    b.layer.d = b.layer.out_dim = D;
    b.layer.heads = b.layer.kv_heads = HEADS;
    b.layer.key_dim = b.layer.value_dim = W;
    b.layer.Q = b.storage[0];
    b.layer.K = b.storage[1];
    b.layer.V = b.storage[2];
    b.layer.O = b.storage[3];
    b.layer.scale = 0.125;
    b.layer.mask = LIPSC_MASK_CAUSAL;
    return b;
}

static int by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* median milliseconds of a recorded piece of work */
static double replayed(lipsc_cuda_graph *graph, int reps) {
    lipsc_error err;
    double ms[REPS];
    must(api->replay(graph, &err), &err);
    for (int i = 0; i < reps; i++) {
        must(api->mark(device, 0, &err), &err);
        must(api->replay(graph, &err), &err);
        must(api->mark(device, 1, &err), &err);
        must(api->between(device, 0, 1, &ms[i], &err), &err);
    }
    qsort(ms, (size_t)reps, sizeof *ms, by_value);
    return ms[reps / 2];
}

typedef struct {
    double j, jt, pair, mib; /* ms, ms, ms, MiB beyond weights and vectors */
    double *yj, *yt;         /* results */
} timing;

static double recorded(lipsc_cuda_batch *batch, int which, const void *x, void *y,
                       int reps) {
    lipsc_error err;
    lipsc_cuda_graph *graph = NULL;
    must(api->record(device, &err), &err);
    if (which & 1) must(api->product(batch, 0, 1, x, y, 0, &err), &err);
    if (which & 2) must(api->product(batch, 1, 1, x, y, 0, &err), &err);
    must(api->recorded(device, &graph, &err), &err);
    const double ms = replayed(graph, reps);
    api->graph_free(graph);
    return ms;
}

/* A batch and its vectors on the device. */
typedef struct {
    lipsc_cuda_weights *weights;
    lipsc_cuda_batch *batch;
    size_t len;
    void *x, *y;
} subject;

static subject subject_make(const bench_layer *b, size_t inputs, size_t n,
                            lipsc_cuda_precision precision) {
    lipsc_error err;
    subject s = {.len = inputs * n * D};
    double *X = normals(1, s.len, 1.0), *v = normals(2, s.len, 1.0 / sqrt((double)s.len));
    size_t *lo = calloc(n, sizeof *lo), *hi = malloc(n * sizeof *hi);
    lipsc_rows *rows = calloc(inputs, sizeof *rows);
    if (!lo || !hi || !rows) abort();
    for (size_t i = 0; i < n; i++) hi[i] = i + 1;
    for (size_t i = 0; i < inputs; i++)
        rows[i] = (lipsc_rows){
            .n = n, .X = lipsc_host_view(n * D, X + i * n * D), .lo = lo, .hi = hi};
    must(api->weights_new(device, &b->layer, precision, &s.weights, &err), &err);
    must(api->batch_new(s.weights, inputs, rows, 1, &s.batch, &err), &err);
    s.x = vector_up(api, device, precision, s.len, v);
    s.y = vector_up(api, device, precision, s.len, NULL);
    free(X);
    free(v);
    free(lo);
    free(hi);
    free(rows);
    return s;
}

static void subject_free(subject *s) {
    api->batch_free(s->batch);
    api->weights_free(s->weights);
    api->release(device, s->x);
    api->release(device, s->y);
}

static timing measure(const bench_layer *b, size_t inputs, size_t n,
                      lipsc_cuda_precision precision, int keep) {
    subject s = subject_make(b, inputs, n, precision);
    const size_t len = s.len;
    lipsc_cuda_batch *batch = s.batch;
    void *x = s.x, *y = s.y;
    const int slow = n >= 65536 || precision == LIPSC_CUDA_F64;
    const int one = n >= 524288 || (n >= 16384 && precision == LIPSC_CUDA_F64);
    const int reps = one ? 1 : slow ? 5 : REPS;
    timing t = {.mib = (double)api->batch_bytes(batch) / 1048576.0};
    t.j = recorded(batch, 1, x, y, reps);
    if (keep)
        vector_down(api, device, precision, len, y, t.yj = malloc(len * sizeof(double)));
    t.jt = recorded(batch, 2, x, y, reps);
    if (keep)
        vector_down(api, device, precision, len, y, t.yt = malloc(len * sizeof(double)));
    t.pair = recorded(batch, 3, x, y, reps);
    subject_free(&s);
    return t;
}

/* Both products as they are, so that the core finds numbers of their size. */
static void both_products(const subject *s) {
    lipsc_error err;
    must(api->product(s->batch, 0, 1, s->x, s->y, 0, &err), &err);
    must(api->product(s->batch, 1, 1, s->x, s->y, 0, &err), &err);
}

/* which: 1 the core of J, 2 that of J^T, 3 both; median of recorded ones */
static double core_alone(const subject *s, int which) {
    lipsc_error err;
    lipsc_cuda_graph *graph = NULL;
    double ms[REPS];
    must(api->record(device, &err), &err);
    if (which & 1) must(api->core(s->batch, 0, 1, &err), &err);
    if (which & 2) must(api->core(s->batch, 1, 1, &err), &err);
    must(api->recorded(device, &graph, &err), &err);
    must(api->replay(graph, &err), &err);
    for (int i = 0; i < REPS; i++) {
        both_products(s);
        must(api->mark(device, 0, &err), &err);
        must(api->replay(graph, &err), &err);
        must(api->mark(device, 1, &err), &err);
        must(api->between(device, 0, 1, &ms[i], &err), &err);
    }
    api->graph_free(graph);
    qsort(ms, REPS, sizeof *ms, by_value);
    return ms[REPS / 2];
}

static void core(const bench_layer *b, size_t n) {
    subject s = subject_make(b, 1, n, LIPSC_CUDA_F16);
    both_products(&s);
    const double j = core_alone(&s, 1), jt = core_alone(&s, 2), pair = core_alone(&s, 3);
    printf("%6zu f16, the core alone: J %7.4f  J^T %7.4f  both %7.4f ms\n", n, j, jt, pair);
    fflush(stdout);
    subject_free(&s);
}

/* One J and one J^T as they come, nothing repeated. */
static void once(const bench_layer *b, size_t n) {
    lipsc_error err;
    double ms[2];
    subject s = subject_make(b, 1, n, LIPSC_CUDA_F16);
    for (int trans = 0; trans < 2; trans++) {
        must(api->mark(device, 0, &err), &err);
        must(api->product(s.batch, trans, 1, s.x, s.y, 0, &err), &err);
        must(api->mark(device, 1, &err), &err);
        must(api->between(device, 0, 1, &ms[trans], &err), &err);
    }
    printf("%zu f16 J %.0f  J^T %.0f ms, %.0f MiB\n", n, ms[0], ms[1],
           (double)api->batch_bytes(s.batch) / 1048576.0);
    fflush(stdout);
    subject_free(&s);
}

static double distance(size_t count, const double *a, const double *b) {
    double diff = 0, size = 0;
    for (size_t i = 0; i < count; i++) {
        diff += (a[i] - b[i]) * (a[i] - b[i]);
        size += b[i] * b[i];
    }
    return sqrt(diff / size);
}

/* one length in each precision, errors against f64 */
static void compare(const bench_layer *b, size_t inputs, size_t n) {
    timing exact = {0};
    static const int order[] = {LIPSC_CUDA_F64, LIPSC_CUDA_BF16X3, LIPSC_CUDA_F16X3,
                                LIPSC_CUDA_F16};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const int p = order[i];
        timing t = measure(b, inputs, n, (lipsc_cuda_precision)p, 1);
        printf("%5zu x %-6zu %-6s J %9.4f  J^T %9.4f  pair %9.4f ms  %7.2f us/window %7.0f "
               "MiB",
               inputs, n, precision_names[p], t.j, t.jt, t.pair,
               1e3 * t.pair / (double)inputs, t.mib);
        if (p == LIPSC_CUDA_F64) {
            exact = t;
            printf("\n");
        } else {
            printf("  error %.1e %.1e\n", distance(inputs * n * D, t.yj, exact.yj),
                   distance(inputs * n * D, t.yt, exact.yt));
            free(t.yj);
            free(t.yt);
        }
        fflush(stdout);
    }
    free(exact.yj);
    free(exact.yt);
}

/* one length in one precision; the gap of <x, J x> and <J^T x, x> */
static void alone(const bench_layer *b, size_t inputs, size_t n, int precision) {
    const timing t = measure(b, inputs, n, (lipsc_cuda_precision)precision, 1);
    const size_t len = inputs * n * D;
    double *v = normals(2, len, 1.0 / sqrt((double)len));
    double left = 0, right = 0, size = 0;
#pragma omp parallel for reduction(+ : left, right, size)
    for (size_t i = 0; i < len; i++) {
        left += v[i] * t.yj[i];
        right += v[i] * t.yt[i];
        size += t.yj[i] * t.yj[i];
    }
    printf(
        "%5zu x %-6zu %-6s J %9.4f  J^T %9.4f  pair %9.4f ms  %7.2f us/window %7.0f MiB  "
        "adjoint %.1e\n",
        inputs, n, precision_names[precision], t.j, t.jt, t.pair,
        1e3 * t.pair / (double)inputs, t.mib, fabs(left - right) / sqrt(size));
    fflush(stdout);
    free(v);
    free(t.yj);
    free(t.yt);
}

int main(int argc, char **argv) {
    lipsc_error err;
    if (argc < 2) {
        fprintf(stderr,
                "bench_cuda liblipscope_cuda.so [longest | quick | core | million]\n");
        return 2;
    }
    const size_t longest = argc > 2 ? (size_t)strtoull(argv[2], NULL, 10) : 65536;
    const char *what = argc > 2 ? argv[2] : "";
    api = plugin_open(argv[1]);
    lipsc_cuda_about about;
    must(api->about(0, &about, &err), &err);
    must(api->open(0, 0, &device, &err), &err);
    printf(
        "%s, CUDA driver %d; one layer d %zu, %d heads of %d, causal, a pair J, J^T with "
        "its "
        "projections\n",
        about.name, about.driver, (size_t)D, HEADS, W);
    bench_layer b = layer_make();
    if (!strcmp(what, "core")) {
        for (size_t n = 1024; n <= 16384; n *= 2) core(&b, n);
        return 0;
    }
    if (!strcmp(what, "million")) {
        once(&b, (size_t)1 << 20);
        return 0;
    }
    if (!strcmp(what, "quick")) {
        const size_t lengths[] = {256, 4096, 16384};
        for (int i = 0; i < 3; i++) alone(&b, 1, lengths[i], LIPSC_CUDA_F16);
        alone(&b, 256, 64, LIPSC_CUDA_F16);
        return 0;
    }
    compare(&b, 1, 256);
    compare(&b, 1, 1024);
    compare(&b, 1, 4096);
    compare(&b, 256, 64);
    compare(&b, 256, 256);
    if (longest >= 16384) compare(&b, 1, 16384);
    if (longest >= 65536) compare(&b, 1, 65536);
    if (longest >= 262144) alone(&b, 1, 262144, LIPSC_CUDA_F16);
    if (longest >= 1048576) alone(&b, 1, 1048576, LIPSC_CUDA_F16);
    api->close(device);
    for (int i = 0; i < 4; i++) free(b.storage[i]);
    return 0;
}
