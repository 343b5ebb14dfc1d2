/* sample.c - random layers with an input, for trials that need no file. */
#include "trial/sample.h"

#include <math.h>

#include "core/mem.h"
#include "core/rng.h"

lipsc_sample_shape lipsc_sample_gpt2(size_t n, lipsc_mask mask) {
    return (lipsc_sample_shape){.n = n,
                                .d = 768,
                                .heads = 12,
                                .kv_heads = 12,
                                .key_dim = 64,
                                .value_dim = 64,
                                .out_dim = 768,
                                .query_spread = 0.06,
                                .output_spread = 0.02,
                                .mask = mask,
                                .seed = 1};
}

/* The next part of the storage and of the stream of random numbers. */
typedef struct {
    double *next;
    uint64_t seed, drawn;
} source;

static const double *draw(source *s, size_t rows, size_t columns, double spread) {
    double *part = s->next;
    const size_t count = rows * columns;
    for (size_t i = 0; i < count; i++)
        part[i] = spread * lipsc_rng_normal(s->seed, s->drawn + i);
    s->drawn += count + (count & 1); /* normal numbers come in pairs */
    s->next += count;
    return part;
}

/* Each row: minus its mean, over its standard deviation. */
static void normalise(size_t n, size_t d, double *x) {
    for (size_t i = 0; i < n; i++, x += d) {
        double mean = 0.0, square = 0.0;
        for (size_t c = 0; c < d; c++) mean += x[c] / (double)d;
        for (size_t c = 0; c < d; c++) square += (x[c] - mean) * (x[c] - mean) / (double)d;
        for (size_t c = 0; c < d; c++) x[c] = (x[c] - mean) / sqrt(square);
    }
}

lipsc_sample lipsc_sample_new(const lipsc_sample_shape *p) {
    const size_t queries = p->heads * p->key_dim, keys = p->kv_heads * p->key_dim;
    const size_t values = p->kv_heads * p->value_dim, joined = p->heads * p->value_dim;
    const size_t total = p->n * (p->d + 2) + (queries + keys + values) * (p->d + 1) +
                         p->out_dim * (joined + 1);
    lipsc_sample s = {.storage = lipsc_alloc(total, sizeof(double))};
    if (!s.storage) return s;
    source from = {.next = s.storage, .seed = p->seed};
    lipsc_layer_defaults(&s.layer);
    lipsc_layer *l = &s.layer;
    l->d = p->d;
    l->heads = p->heads;
    l->kv_heads = p->kv_heads;
    l->key_dim = p->key_dim;
    l->value_dim = p->value_dim;
    l->out_dim = p->out_dim;
    l->mask = p->mask;
    l->window = p->window;
    l->Q = draw(&from, queries, p->d, p->query_spread);
    l->K = draw(&from, keys, p->d, p->query_spread);
    l->V = draw(&from, values, p->d, p->query_spread);
    if (p->out_dim) l->O = draw(&from, p->out_dim, joined, p->output_spread);
    if (p->biases) {
        l->bq = draw(&from, queries, 1, p->query_spread);
        l->bk = draw(&from, keys, 1, p->query_spread);
        l->bv = draw(&from, values, 1, p->query_spread);
        if (p->out_dim) l->bo = draw(&from, p->out_dim, 1, p->output_spread);
    }
    s.input.n = p->n;
    s.input.X = draw(&from, p->n, p->d, 1.0);
    if (p->d > 1) normalise(p->n, p->d, from.next - p->n * p->d);
    if (p->weights || p->mask == LIPSC_MASK_TIMES) {
        double *extra = from.next;
        for (size_t i = 0; i < p->n; i++) {
            extra[i] = 0.2 + lipsc_rng_uniform(p->seed, 2 * i);
            /* few different times: some tokens share theirs */
            extra[p->n + i] = (double)(lipsc_rng_bits(p->seed, i) % (p->n / 2 + 1));
        }
        if (p->weights) s.input.weights = extra;
        if (p->mask == LIPSC_MASK_TIMES) s.input.times = extra + p->n;
    }
    return s;
}

void lipsc_sample_free(lipsc_sample *sample) {
    lipsc_release(sample->storage);
    sample->storage = NULL;
}
