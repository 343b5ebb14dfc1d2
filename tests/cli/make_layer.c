/* make_layer.c - writes the files that the tests of the program read.
 *
 *     make_layer KIND FILE            see `kinds` below, or G1 ... G13: known values
 *     make_layer tamper FROM FILE     a direction file with sigma raised by 1e-6 of it
 *     make_layer shift FROM FILE      ... with X longer by 1e-6 of it
 *     make_layer swap FROM FILE       ... with its first two ids exchanged
 *     make_layer gauss|mixture|skew FILE   N(0.3, 0.8); two of them; a covariance that is
 *                                     not symmetric, of width 2
 *     make_layer pixels32|pixels24 FILE    an image of 3 x 32 x 32, or of 3 x 24 x 24
 *     make_layer double FROM FILE NAME     a safetensors file with one F16 tensor doubled
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/mem.h"
#include "trial/known.h"
#include "io/layer_file.h"
#include "io/safetensors.h"
#include "trial/sample.h"

enum { MAX_TENSORS = 12 };

typedef struct {
    lipsc_st_item items[MAX_TENSORS];
    size_t shapes[MAX_TENSORS][2];
    size_t count;
} tensors;

static void add(tensors *t, const char *name, const double *data, size_t rows,
                size_t columns) {
    if (!data) return;
    size_t *shape = t->shapes[t->count];
    shape[0] = rows;
    shape[1] = columns;
    t->items[t->count++] = (lipsc_st_item){.name = name,
                                           .dtype = LIPSC_F64,
                                           .ndim = columns ? 2 : 1,
                                           .shape = shape,
                                           .data = data};
}

static int write_file(const char *path, const tensors *t) {
    lipsc_error err;
    if (!lipsc_st_write(path, t->items, t->count, NULL, 0, &err)) return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}

static int write_golden(int which, const char *path) {
    lipsc_known g;
    tensors t = {.count = 0};
    lipsc_known_make(which, &g);
    add(&t, "X", g.X, g.input.n, g.layer.d);
    add(&t, "A", g.A, g.layer.d, g.layer.d);
    add(&t, "V", g.V, g.layer.d, g.layer.d);
    add(&t, "weights", g.input.weights, g.input.n, 0);
    return write_file(path, &t);
}

/* Four query heads, two key/value heads, every bias; what each kind does to it: */
static const char *const kinds[] = {
    "multi",       /* nothing                                 */
    "heads",       /* no O                                    */
    "times",       /* a mask by times                         */
    "nan",         /* a NaN in V                              */
    "zero-weight", /* a weight that is zero                   */
    "bad-shape",   /* K with a row too few                    */
    "no-value",    /* V missing                               */
    "no-input",    /* X missing                               */
    "long",        /* many tokens                             */
    "vast"         /* and wide heads: a solve takes minutes   */
};

static int write_random(const char *kind, const char *path) {
    const size_t wide = strcmp(kind, "vast") ? 1 : 8;
    const size_t size = strcmp(kind, "long") && wide == 1 ? 1 : 8;
    const size_t n = size > 1 ? 12001 : 21;
    const lipsc_sample_shape shape = {.n = n,
                                      .d = 10 * size,
                                      .heads = 4,
                                      .kv_heads = 2,
                                      .key_dim = 5 * wide,
                                      .value_dim = 3 * wide,
                                      .out_dim = 8 * size,
                                      .query_spread = 0.5,
                                      .output_spread = 0.4,
                                      .biases = 1,
                                      .mask = !strcmp(kind, "times") ? LIPSC_MASK_TIMES
                                                                     : LIPSC_MASK_NONE,
                                      .weights = !strcmp(kind, "zero-weight"),
                                      .seed = 5};
    lipsc_sample s = lipsc_sample_new(&shape);
    if (!s.storage) return 1;
    const lipsc_layer *l = &s.layer;
    const int no_output = !strcmp(kind, "heads");
    tensors t = {.count = 0};
    /* samples own their arrays, which are not const there */
    if (!strcmp(kind, "nan")) s.storage[l->V - s.storage + 7] = NAN;
    if (!strcmp(kind, "zero-weight")) s.storage[s.input.weights - s.storage + 3] = 0.0;
    if (strcmp(kind, "no-input")) add(&t, "X", s.input.X, s.input.n, l->d);
    add(&t, "Q", l->Q, l->heads * l->key_dim, l->d);
    add(&t, "K", l->K, l->kv_heads * l->key_dim - !strcmp(kind, "bad-shape"), l->d);
    if (strcmp(kind, "no-value")) add(&t, "V", l->V, l->kv_heads * l->value_dim, l->d);
    add(&t, "O", no_output ? NULL : l->O, l->out_dim, l->heads * l->value_dim);
    add(&t, "bq", l->bq, l->heads * l->key_dim, 0);
    add(&t, "bv", l->bv, l->kv_heads * l->value_dim, 0);
    add(&t, "bo", no_output ? NULL : l->bo, l->out_dim, 0);
    add(&t, "times", s.input.times, s.input.n, 0);
    add(&t, "weights", s.input.weights, s.input.n, 0);
    const int code = write_file(path, &t);
    lipsc_sample_free(&s);
    return code;
}

/* Spoils one thing of a direction file. */
static int spoil(const char *how, const char *from, const char *path) {
    lipsc_st *st;
    lipsc_layer_file file;
    lipsc_error err = {.text = ""};
    lipsc_status status = lipsc_st_open(from, &st, &err);
    if (!status) {
        status = lipsc_layer_whole_from_st(st, &file, &err);
        lipsc_st_free(st);
    }
    if (!status) {
        lipsc_layer_record record = *lipsc_layer_file_record(&file);
        const double raised = *record.sigma * (1 + 1e-6);
        const size_t n = record.input.n, count = n * record.layer.d;
        double *copy = lipsc_alloc(count, sizeof *copy);
        if (!copy) return 1;
        if (!strcmp(how, "tamper")) record.sigma = &raised;
        if (!strcmp(how, "shift")) {
            for (size_t i = 0; i < count; i++) copy[i] = record.input.X[i] * (1 + 1e-6);
            record.input.X = copy;
        }
        if (!strcmp(how, "swap")) {
            for (size_t i = 0; i < n; i++) copy[i] = record.ids[i < 2 ? 1 - i : i];
            record.ids = copy;
        }
        status = lipsc_layer_write(path, &record, &err);
        lipsc_layer_file_free(&file);
        lipsc_release(copy);
    }
    if (status) fprintf(stderr, "%s\n", err.text);
    return status != LIPSC_OK;
}

static int write_gauss(const char *kind, const char *path) {
    static const double mean[] = {0.3, -1.0}, cov[] = {0.8, 0.5, 0.1, 0.8},
                        mix[] = {0.3, 0.7};
    static const size_t one[] = {1, 1}, two[] = {2, 1, 1}, square[] = {2, 2};
    const lipsc_st_item gauss[] = {{"mean", LIPSC_F64, 1, one, mean},
                                   {"cov", LIPSC_F64, 2, one, cov}};
    const lipsc_st_item mixture[] = {{"mean", LIPSC_F64, 2, two, mean},
                                     {"cov", LIPSC_F64, 3, two, cov},
                                     {"mix", LIPSC_F64, 1, two, mix}};
    const lipsc_st_item skew[] = {{"mean", LIPSC_F64, 1, two, mean},
                                  {"cov", LIPSC_F64, 2, square, cov}};
    lipsc_error err;
    const int three = !strcmp(kind, "mixture");
    if (!lipsc_st_write(path,
                        three                   ? mixture
                        : !strcmp(kind, "skew") ? skew
                                                : gauss,
                        three ? 3 : 2, NULL, 0, &err))
        return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}

/* An image for the models of images of tests/fuzz/corpus/config. */
static int write_pixels(size_t size, const char *path) {
    enum { MOST = 3 * 32 * 32 };
    static double pixels[MOST];
    const size_t shape[] = {3, size, size};
    const lipsc_st_item item = {"pixel_values", LIPSC_F64, 3, shape, pixels};
    lipsc_error err;
    for (int i = 0; i < MOST; i++) pixels[i] = sin(0.37 * i) + 0.5 * cos(0.011 * i * i);
    if (!lipsc_st_write(path, &item, 1, NULL, 0, &err)) return 0;
    fprintf(stderr, "%s\n", err.text);
    return 1;
}

/* One more in the exponent of every number of the tensor but zeros and subnormals, which
 * are shifted: twice as much, exactly. */
static int double_tensor(const char *from, const char *to, const char *name) {
    lipsc_error err;
    lipsc_st *st = NULL;
    if (lipsc_st_open(from, &st, &err)) return fprintf(stderr, "%s\n", err.text), 1;
    const lipsc_st_tensor *tensor = lipsc_st_find(st, name);
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    int bad = !tensor || tensor->type != LIPSC_ST_F16 || !in || !out;
    for (uint64_t at = 0; !bad; at += 2) {
        unsigned char b[2];
        const size_t got = fread(b, 1, 2, in);
        if (got < 2) {
            bad = fwrite(b, 1, got, out) != got;
            break;
        }
        if (at >= tensor->offset && at < tensor->offset + tensor->bytes) {
            unsigned v = b[0] | (unsigned)b[1] << 8;
            v = v & 0x7c00 ? v + 0x400 : (v & 0x8000) | (v & 0x7fff) << 1;
            b[0] = (unsigned char)v;
            b[1] = (unsigned char)(v >> 8);
        }
        bad = fwrite(b, 1, 2, out) != 2;
    }
    if (in) fclose(in);
    if (out && fclose(out)) bad = 1;
    lipsc_st_free(st);
    return bad;
}

int main(int argc, char **argv) {
    if (argc == 5) return double_tensor(argv[2], argv[3], argv[4]);
    if (argc == 4) return spoil(argv[1], argv[2], argv[3]);
    if (argc != 3) return 2;
    if (!strcmp(argv[1], "pixels32")) return write_pixels(32, argv[2]);
    if (!strcmp(argv[1], "pixels24")) return write_pixels(24, argv[2]);
    if (!strcmp(argv[1], "gauss") || !strcmp(argv[1], "mixture") ||
        !strcmp(argv[1], "skew"))
        return write_gauss(argv[1], argv[2]);
    for (int g = 0; g < LIPSC_KNOWN_COUNT; g++) {
        lipsc_known golden;
        lipsc_known_make(g, &golden);
        if (!strcmp(argv[1], golden.name)) return write_golden(g, argv[2]);
    }
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        if (!strcmp(argv[1], kinds[k])) return write_random(argv[1], argv[2]);
    fprintf(stderr, "make_layer: unknown kind '%s'\n", argv[1]);
    return 2;
}
