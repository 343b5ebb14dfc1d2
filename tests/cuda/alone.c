/* alone.c - what a GPU finds for an input is, to the last bit, what it finds for it alone:
 * the products and outputs of inputs in a batch, in another order, and one by one; the
 * first rows of a longer input's output; rows of a dense layer.  And how attention is
 * spread, against the CPU. */
#include "alone.h"

#include "attn/attn.h"
#include "bound/spread.h"
#include "layers.h"
#include "plugin.h"

enum { DIRS = 2, MOST = 9 };

typedef struct {
    const char *name;
    unsigned features;
    layer_sizes z;
    double pull;    /* what query biases are multiplied by: all rows look at one key */
    int looks_back; /* no row sees a later one */
} kind;

static const kind kinds[] = {
    {"alone, causal",
     FEATURE_CAUSAL,
     {.d = 64, .heads = 4, .kv_heads = 2, .key_dim = 64, .value_dim = 64, .out_dim = 72},
     0,
     1},
    {"alone, SmolLM2's shape",
     FEATURE_CAUSAL | FEATURE_ROTARY,
     {.d = 576, .heads = 9, .kv_heads = 3, .key_dim = 64, .value_dim = 64, .out_dim = 576},
     0,
     1},
    {"alone, sliding",
     FEATURE_SLIDING,
     {.d = 40, .heads = 3, .key_dim = 32, .value_dim = 32, .out_dim = 40, .window = 70},
     0,
     1},
    {"alone, odd sizes",
     FEATURE_CAUSAL | FEATURE_BIASES | FEATURE_SINKS,
     {.d = 37, .heads = 3, .key_dim = 17, .value_dim = 45, .out_dim = 29},
     0,
     1},
    {"alone, width 128, norms",
     FEATURE_CAUSAL | FEATURE_QK_NORM | FEATURE_ALIBI,
     {.d = 256, .heads = 2, .key_dim = 128, .value_dim = 128, .out_dim = 256},
     0,
     1},
    {"alone, all but times",
     FEATURE_WEIGHTS | FEATURE_BIASES | FEATURE_ROTARY | FEATURE_QK_NORM | FEATURE_LOCAL |
         FEATURE_BUCKETS | FEATURE_SOFT_CAP | FEATURE_SCALE,
     {.d = 64, .heads = 4, .kv_heads = 2, .key_dim = 64, .value_dim = 64, .out_dim = 72},
     0,
     0},
    {"alone, times",
     FEATURE_TIMES,
     {.d = 64, .heads = 4, .kv_heads = 2, .key_dim = 32, .value_dim = 32, .out_dim = 72},
     0,
     0},
    {"alone, a key that all look at",
     FEATURE_BIASES,
     {.d = 48, .heads = 2, .key_dim = 64, .value_dim = 64, .out_dim = 40},
     16,
     0},
};

static const lipsc_cuda_api *api;
static lipsc_cuda_device *device;
static part_check *check;

/* ---- Inputs, and what is found for them -----------------------------------------------
 */

typedef struct {
    size_t n;
    lipsc_attn *attn; /* for its rows */
    double *x[2];     /* DIRS vectors of J and of J^T */
} one_input;

/* of one input: J, J^T, output */
typedef struct {
    double *of[3];
} found;

static double *numbers(size_t count) {
    double *p = malloc((count ? count : 1) * sizeof *p);
    if (!p) abort();
    for (size_t i = 0; i < count; i++) p[i] = NAN;
    return p;
}

static one_input input_of(const test_layer *t, size_t n) {
    lipsc_error err;
    one_input in = {.n = n};
    lipsc_input input = t->input;
    input.n = n;
    must(lipsc_attn_new(&t->layer, &input, LIPSC_F64, NULL, &in.attn, &err), &err);
    in.x[0] = random_vectors(n, DIRS * n * t->layer.d);
    in.x[1] = random_vectors(n + 7, DIRS * n * lipsc_layer_width(&t->layer));
    return in;
}

static void input_free(one_input *in) {
    lipsc_attn_free(in->attn);
    free(in->x[0]);
    free(in->x[1]);
}

/* Vectors of the inputs one after the other, (DIRS, tokens, width), or back. */
static void line_up(size_t count, const one_input *const *in, size_t tokens, size_t width,
                    int back, double *const *own, double *all) {
    size_t first = 0;
    for (size_t i = 0; i < count; first += in[i++]->n)
        for (size_t k = 0; k < DIRS; k++) {
            const size_t size = in[i]->n * width;
            double *here = own[i] + k * size, *there = all + (k * tokens + first) * width;
            memcpy(back ? here : there, back ? there : here, size * sizeof *all);
        }
}

static void multiply(lipsc_cuda_batch *batch, lipsc_cuda_precision p, int trans,
                     size_t count, const one_input *const *in, size_t tokens, size_t from,
                     size_t to, found *out) {
    lipsc_error err;
    double *x = numbers(DIRS * tokens * from), *y = numbers(DIRS * tokens * to), *own[MOST];
    for (size_t i = 0; i < count; i++) own[i] = in[i]->x[trans];
    line_up(count, in, tokens, from, 0, own, x);
    void *dx = vector_up(api, device, p, DIRS * tokens * from, x);
    void *dy = vector_up(api, device, p, DIRS * tokens * to, NULL);
    must(api->product(batch, trans, DIRS, dx, dy, 0, &err), &err);
    vector_down(api, device, p, DIRS * tokens * to, dy, y);
    for (size_t i = 0; i < count; i++)
        own[i] = out[i].of[trans] = numbers(DIRS * in[i]->n * to);
    line_up(count, in, tokens, to, 1, own, y);
    api->release(device, dx);
    api->release(device, dy);
    free(x);
    free(y);
}

static void find(lipsc_cuda_weights *weights, lipsc_cuda_precision p, size_t d,
                 size_t width, size_t count, const one_input *const *in, found *out) {
    lipsc_error err;
    lipsc_cuda_batch *batch = NULL;
    lipsc_rows rows[MOST];
    size_t tokens = 0;
    for (size_t i = 0; i < count; i++) {
        rows[i] = in[i]->attn->rows;
        tokens += in[i]->n;
    }
    must(api->batch_new(weights, count, rows, DIRS, &batch, &err), &err);
    multiply(batch, p, 0, count, in, tokens, d, width, out);
    multiply(batch, p, 1, count, in, tokens, width, d, out);
    for (size_t i = 0; i < count; i++) {
        out[i].of[2] = numbers(in[i]->n * width);
        output_down(api, device, batch, i, in[i]->n * width, out[i].of[2]);
    }
    api->batch_free(batch);
}

static void found_free(size_t count, found *f) {
    for (size_t i = 0; i < count; i++)
        for (int e = 0; e < 3; e++) free(f[i].of[e]);
}

/* ---- The same bits ---------------------------------------------------------------------
 */

static void same(const char *name, const char *precision, const char *with, size_t n,
                 size_t d, size_t width, const found *a, const found *b) {
    static const char *const of[] = {"J", "J^T", "output"};
    const size_t count[] = {DIRS * n * width, DIRS * n * d, n * width};
    for (int e = 0; e < 3; e++) {
        char what[96];
        double apart = 0, size = 0;
        for (size_t i = 0; i < count[e]; i++) {
            const double off = fabs(a->of[e][i] - b->of[e][i]);
            if (!(off <= apart)) apart = off;
            if (fabs(b->of[e][i]) > size) size = fabs(b->of[e][i]);
        }
        snprintf(what, sizeof what, "%s %s, n = %zu, %s", precision, of[e], n, with);
        check(memcmp(a->of[e], b->of[e], count[e] * sizeof(double)) == 0, name, what,
              apart / size, 0);
    }
}

/* In a batch, in the reverse order, and each alone. */
static void beside_others(const char *name, const test_layer *t, lipsc_cuda_precision p,
                          const char *precision, lipsc_cuda_weights *weights) {
    static const size_t n[MOST] = {200, 1, 129, 63, 900, 2, 64, 127, 65};
    const size_t d = t->layer.d, width = lipsc_layer_width(&t->layer);
    one_input in[MOST];
    const one_input *order[MOST], *back[MOST];
    found first[MOST], second[MOST], own;
    for (size_t i = 0; i < MOST; i++) in[i] = input_of(t, n[i]);
    for (size_t i = 0; i < MOST; i++) {
        order[i] = &in[i];
        back[i] = &in[MOST - 1 - i];
    }
    find(weights, p, d, width, MOST, order, first);
    find(weights, p, d, width, MOST, back, second);
    for (size_t i = 0; i < MOST; i++) {
        same(name, precision, "reversed", n[i], d, width, &second[MOST - 1 - i], &first[i]);
        find(weights, p, d, width, 1, &order[i], &own);
        same(name, precision, "one by one", n[i], d, width, &own, &first[i]);
        found_free(1, &own);
    }
    found_free(MOST, first);
    found_free(MOST, second);
    for (size_t i = 0; i < MOST; i++) input_free(&in[i]);
}

/* Rows that see no later ones have the output that they have without those. */
static void beginnings(const char *name, const test_layer *t, const char *precision,
                       lipsc_cuda_weights *weights) {
    static const size_t n[] = {1500, 1024, 512, 129, 64, 8, 1};
    const size_t width = lipsc_layer_width(&t->layer);
    double *whole = NULL;
    for (size_t i = 0; i < sizeof n / sizeof *n; i++) {
        lipsc_error err;
        one_input in = input_of(t, n[i]);
        lipsc_cuda_batch *batch = NULL;
        double *y = numbers(n[i] * width);
        must(api->batch_new(weights, 1, &in.attn->rows, 1, &batch, &err), &err);
        output_down(api, device, batch, 0, n[i] * width, y);
        char what[96];
        snprintf(what, sizeof what, "%s, output of the first %zu", precision, n[i]);
        if (whole)
            check(memcmp(y, whole, n[i] * width * sizeof *y) == 0, name, what, 1, 0);
        else
            whole = y;
        if (y != whole) free(y);
        api->batch_free(batch);
        input_free(&in);
    }
    free(whole);
}

/* ---- Entropy and columns ---------------------------------------------------------------
 */

/* against the CPU, which unit.spread judges by closed forms and plain loops; P sums to one
 * in every row but for a sink */
static void spreads(const char *name, const test_layer *t, lipsc_cuda_precision p,
                    lipsc_cuda_weights *weights) {
    static const size_t n[] = {65, 1, 200};
    const size_t heads = t->layer.heads;
    one_input in[3];
    lipsc_rows rows[3];
    lipsc_error err;
    lipsc_cuda_batch *batch = NULL;
    for (size_t i = 0; i < 3; i++) {
        in[i] = input_of(t, n[i]);
        rows[i] = in[i].attn->rows;
    }
    must(api->batch_new(weights, 3, rows, 1, &batch, &err), &err);
    for (size_t i = 0; i < 3; i++) {
        double *entropy = numbers(heads * n[i]), *columns = numbers(heads * n[i]);
        const lipsc_status status = api->spread(batch, i, entropy, columns, &err);
        if (p != LIPSC_CUDA_F64) {
            check(status == LIPSC_E_REFUSED, name, "spread is refused", 0, 0);
        } else {
            lipsc_spread want;
            double mean = 0, most = -1, all = 0, there = -1;
            must(status, &err);
            must(lipsc_attn_spread(in[i].attn, &want), &err);
            for (size_t e = 0; e < heads * n[i]; e++) {
                mean += entropy[e] / (double)(heads * n[i]);
                all += columns[e];
                if (columns[e] > most) most = columns[e];
            }
            for (size_t j = 0; j < n[i];
                 j++) /* where the CPU has the largest, or as large */
                if ((rows[i].order ? rows[i].order[j] : j) == want.sink_token)
                    there = columns[want.sink_head * n[i] + j];
            check(fabs(mean - want.entropy) <= 1e-12 * (1 + want.entropy), name, "entropy",
                  mean - want.entropy, 1e-12);
            check(fabs(most - want.sink) <= 1e-12 * want.sink, name, "largest column",
                  most - want.sink, 1e-12);
            check(most - there <= 1e-12 * most, name, "whose column", most - there, 1e-12);
            if (!t->layer.sinks)
                check(fabs(all / (double)(heads * n[i]) - 1) <= 1e-12, name,
                      "rows sum to one", all, 1e-12);
        }
        free(entropy);
        free(columns);
    }
    api->batch_free(batch);
    for (size_t i = 0; i < 3; i++) input_free(&in[i]);
}

/* ---- Dense layers ----------------------------------------------------------------------
 */

static void dense(int wide, size_t in, size_t out, int transposed) {
    enum { ROWS = 1500 };
    static const size_t rows[] = {1, 2, 8, 63, 64, 127, 300, 512, 1024};
    const lipsc_cuda_precision p = wide ? LIPSC_CUDA_F64 : LIPSC_CUDA_F16X3;
    lipsc_error err;
    lipsc_cuda_linear *linear = NULL;
    double *w = random_vectors(3, in * out), *x = random_vectors(4, ROWS * in),
           *whole = numbers(ROWS * out), *some = numbers(ROWS * out);
    must(api->linear_new(device, wide, in, out, w, transposed, NULL, &linear, &err), &err);
    void *dx = vector_up(api, device, p, ROWS * in, x),
         *dy = vector_up(api, device, p, ROWS * out, NULL);
    must(api->linear_apply(linear, ROWS, dx, 0, 0, dy, &err), &err);
    vector_down(api, device, p, ROWS * out, dy, whole);
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        char what[96];
        must(api->linear_apply(linear, rows[r], dx, 0, 0, dy, &err), &err);
        vector_down(api, device, p, rows[r] * out, dy, some);
        snprintf(what, sizeof what, "%zu rows of %zu to %zu%s", rows[r], in, out,
                 transposed ? ", transposed" : "");
        check(memcmp(some, whole, rows[r] * out * sizeof *some) == 0,
              wide ? "alone, dense f64" : "alone, dense f32", what, 1, 0);
    }
    api->linear_free(linear);
    api->release(device, dx);
    api->release(device, dy);
    double *const made[] = {w, x, whole, some};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++) free(made[i]);
}

/* ---- All -------------------------------------------------------------------------------
 */

static void run_kind(const kind *k, uint64_t seed) {
    static const char *const names[] = {"f16", "f16x3", "f64", "bf16x3"};
    lipsc_error err;
    layer_sizes z = k->z;
    lipsc_layer resolved;
    z.n = 1500;
    test_layer t = random_layer_of(seed, k->features, z);
    must(lipsc_layer_check(&t.layer, &resolved, &err), &err);
    t.layer = resolved;
    for (size_t i = 0; k->pull > 0 && i < resolved.heads * resolved.key_dim; i++)
        ((double *)t.layer.bq)[i] *= k->pull;
    for (int p = LIPSC_CUDA_F16X3; p <= LIPSC_CUDA_BF16X3; p++) {
        lipsc_cuda_weights *weights = NULL;
        must(api->weights_new(device, &t.layer, (lipsc_cuda_precision)p, &weights, &err),
             &err);
        beside_others(k->name, &t, (lipsc_cuda_precision)p, names[p], weights);
        if (k->looks_back) beginnings(k->name, &t, names[p], weights);
        spreads(k->name, &t, (lipsc_cuda_precision)p, weights);
        api->weights_free(weights);
    }
    test_layer_free(&t);
}

void test_alone(const lipsc_cuda_api *plugin, lipsc_cuda_device *gpu, part_check *judge,
                int short_form) {
    api = plugin;
    device = gpu;
    check = judge;
    for (int wide = 0; wide < 2; wide++)
        for (int transposed = 0; transposed < 2; transposed++) {
            dense(wide, 576, 1536, transposed);
            if (short_form) continue;
            dense(wide, 1536, 576, transposed);
            dense(wide, 37, 29, transposed);
            dense(wide, 768, 3072, transposed);
        }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i += short_form ? 3 : 1)
        run_kind(&kinds[i], 90 + i);
}
