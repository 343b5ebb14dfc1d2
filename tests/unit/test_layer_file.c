/* test_layer_file.c - layer files: what each tensor becomes, and one sentence for each
 * way in which a file can be wrong. */
#define _POSIX_C_SOURCE 200809L /* mkstemp */
#include "io/layer_file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

enum { MOST = 16, VALUES = 96 };

/* One tensor of a test file: a vector when columns is 0.  Entry i is first + i. */
typedef struct {
    const char *name;
    size_t rows, columns;
    double first;
} piece;

static double ramp[MOST][VALUES];
static size_t shapes[MOST][2];
static char path[] = "/tmp/lipscope-layer-XXXXXX";

static int make_path(void **state) {
    (void)state;
    const int fd = mkstemp(path);
    return fd < 0 ? -1 : close(fd);
}

static int remove_path(void **state) {
    (void)state;
    return unlink(path);
}

static void write_pieces(const piece *pieces, lipsc_dtype dtype) {
    lipsc_st_item items[MOST];
    size_t count = 0;
    for (; pieces[count].name; count++) {
        const piece *p = &pieces[count];
        assert_true(count < MOST && p->rows * (p->columns ? p->columns : 1) <= VALUES);
        for (int i = 0; i < VALUES; i++) ramp[count][i] = p->first + i;
        shapes[count][0] = p->rows;
        shapes[count][1] = p->columns;
        items[count] =
            (lipsc_st_item){p->name, dtype, p->columns ? 2 : 1, shapes[count], ramp[count]};
    }
    assert_int_equal(lipsc_st_write(path, items, count, NULL, 0, NULL), LIPSC_OK);
}

static lipsc_status read_pieces(const piece *pieces, lipsc_layer_options options,
                                lipsc_layer_file *out, lipsc_error *err) {
    write_pieces(pieces, LIPSC_F64);
    return lipsc_layer_file_read(path, &options, out, err);
}

/* d 3, 4 heads over 2 key/value heads, key 2, value 1, output 5, n 2 */
static const piece full[] = {
    {"X", 2, 3, 100},     {"Q", 8, 3, 200},    {"K", 4, 3, 300},  {"V", 2, 3, 400},
    {"O", 5, 4, 500},     {"bq", 8, 0, 600},   {"bk", 4, 0, 700}, {"bv", 2, 0, 800},
    {"bo", 5, 0, 900},    {"u", 2, 5, NAN},    {"v", 2, 3, NAN},  {"sigma", 1, 0, 7},
    {"weights", 2, 0, 3}, {"info.x", 1, 0, 0}, {NULL, 0, 0, 0},
};

static void check_ramp(const double *values, size_t count, double first) {
    assert_non_null(values);
    for (size_t i = 0; i < count; i++) assert_true(values[i] == first + (double)i);
}

static void test_full(void **state) {
    (void)state;
    /* All numbers are small integers: F32 holds them exactly. */
    for (int dtype = LIPSC_F64; dtype <= LIPSC_F32; dtype++) {
        const lipsc_layer_options options = {.heads = 4,
                                             .kv_heads = 2,
                                             .scale = 0.25,
                                             .mask = LIPSC_MASK_SLIDING,
                                             .window = 3,
                                             .need_input = 1};
        lipsc_layer_file f;
        lipsc_error err;
        write_pieces(full, (lipsc_dtype)dtype);
        assert_int_equal(lipsc_layer_file_read(path, &options, &f, &err), LIPSC_OK);
        const lipsc_layer *l = &f.layer;
        assert_int_equal(l->d, 3);
        assert_int_equal(l->heads, 4);
        assert_int_equal(l->kv_heads, 2);
        assert_int_equal(l->key_dim, 2);
        assert_int_equal(l->value_dim, 1);
        assert_int_equal(l->out_dim, 5);
        assert_true(l->scale == 0.25);
        assert_int_equal(l->mask, LIPSC_MASK_SLIDING);
        assert_int_equal(l->window, 3);
        assert_int_equal(l->rotary_dim, 0);
        assert_null(l->q_gain);
        check_ramp(l->Q, 24, 200);
        check_ramp(l->K, 12, 300);
        check_ramp(l->V, 6, 400);
        check_ramp(l->O, 20, 500);
        check_ramp(l->bq, 8, 600);
        check_ramp(l->bk, 4, 700);
        check_ramp(l->bv, 2, 800);
        check_ramp(l->bo, 5, 900);
        assert_int_equal(f.input.n, 2);
        check_ramp(f.input.X, 6, 100);
        check_ramp(f.input.weights, 2, 3);
        assert_null(f.input.times);
        assert_null(f.input.positions);
        lipsc_layer_file_free(&f);
        lipsc_layer_file_free(&f);
    }
    lipsc_layer_file_free(NULL);
}

static void test_with_A(void **state) {
    (void)state;
    const piece pieces[] = {{"A", 3, 3, 10}, {"V", 2, 3, 20},    {"c", 3, 0, 30},
                            {"X", 4, 3, 40}, {"times", 4, 0, 0}, {NULL, 0, 0, 0}};
    lipsc_layer_file f;
    lipsc_error err;
    const lipsc_layer_options options = {.need_input = 1};
    assert_int_equal(read_pieces(pieces, options, &f, &err), LIPSC_OK);
    assert_int_equal(f.layer.heads, 1);
    assert_int_equal(f.layer.kv_heads, 1);
    assert_int_equal(f.layer.key_dim, 3);
    assert_int_equal(f.layer.value_dim, 2);
    assert_int_equal(f.layer.mask, LIPSC_MASK_TIMES);
    assert_true(f.layer.scale == 0); /* the library's default: 1 without K */
    check_ramp(f.layer.Q, 9, 10);
    check_ramp(f.layer.bq, 3, 30);
    assert_null(f.layer.K);
    assert_null(f.layer.O);
    check_ramp(f.input.times, 4, 0);
    lipsc_layer_file_free(&f);
}

static void test_without_input(void **state) {
    (void)state;
    const piece pieces[] = {
        {"Q", 4, 3, 0}, {"K", 4, 3, 0}, {"V", 3, 3, 0}, {NULL, 0, 0, 0}};
    lipsc_layer_file f;
    lipsc_error err;
    assert_int_equal(read_pieces(pieces, (lipsc_layer_options){.heads = 1}, &f, &err),
                     LIPSC_OK);
    assert_int_equal(f.input.n, 0);
    assert_null(f.input.X);
    assert_int_equal(f.layer.key_dim, 4);
    lipsc_layer_file_free(&f);
    assert_int_equal(lipsc_layer_file_read(path, NULL, &f, NULL), LIPSC_OK);
    lipsc_layer_file_free(&f);
    assert_int_equal(read_pieces(pieces, (lipsc_layer_options){.need_input = 1}, &f, &err),
                     LIPSC_E_FORMAT);
    assert_non_null(strstr(err.text, ": tensor 'X' is missing"));
}

#define QKV \
    {"Q", 4, 3, 0}, {"K", 4, 3, 0}, { "V", 2, 3, 0 }
#define XQKV    {"X", 2, 3, 0}, QKV
#define CAUSAL  .mask = LIPSC_MASK_CAUSAL
#define SLIDING .mask = LIPSC_MASK_SLIDING

static const struct {
    piece pieces[8];
    lipsc_layer_options options;
    lipsc_status status;
    const char *says; /* after "PATH: " */
} wrong[] = {
    /* missing, or not to stand together */
    {{{"X", 2, 3, 0}, {"V", 2, 3, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensors 'Q' and 'K' (or 'A') are missing"},
    {{{"Q", 4, 3, 0}, {"V", 2, 3, 0}}, {0}, LIPSC_E_FORMAT, "tensor 'K' is missing"},
    {{{"K", 4, 3, 0}, {"V", 2, 3, 0}}, {0}, LIPSC_E_FORMAT, "tensor 'Q' is missing"},
    {{{"Q", 4, 3, 0}, {"K", 4, 3, 0}}, {0}, LIPSC_E_FORMAT, "tensor 'V' is missing"},
    {{{"A", 3, 3, 0}}, {0}, LIPSC_E_FORMAT, "tensor 'V' is missing"},
    {{XQKV, {"A", 3, 3, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'Q' cannot stand beside tensor 'A'"},
    {{{"A", 3, 3, 0}, {"K", 3, 3, 0}, {"V", 2, 3, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'K' cannot stand beside tensor 'A'"},
    {{{"A", 3, 3, 0}, {"V", 2, 3, 0}, {"bq", 3, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'bq' cannot stand beside tensor 'A', whose bias is 'c'"},
    {{{"A", 3, 3, 0}, {"V", 2, 3, 0}, {"bk", 3, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'bk' cannot stand beside tensor 'A'"},
    {{XQKV, {"c", 3, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'c' needs tensor 'A', which is missing"},
    {{XQKV, {"bo", 3, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'bo' needs tensor 'O', which is missing"},
    {{QKV, {"weights", 2, 0, 1}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'weights' needs tensor 'X', which is missing"},
    /* almost right names */
    {{{"q", 4, 3, 0}, {"K", 4, 3, 0}, {"V", 2, 3, 0}},
     {0},
     LIPSC_E_FORMAT,
     "unknown tensor 'q'; did you mean 'Q'?"},
    {{XQKV, {"BQ", 4, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "unknown tensor 'BQ'; did you mean 'bq'?"},
    {{XQKV, {"Weights", 2, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "unknown tensor 'Weights'; did you mean 'weights'?"},
    /* shapes */
    {{{"X", 2, 6, 0}, {"Q", 12, 6, 0}, {"K", 12, 8, 0}, {"V", 6, 6, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'K' has shape (12, 8), but X has width 6"},
    {{{"Q", 4, 3, 0}, {"K", 4, 3, 0}, {"V", 2, 2, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'V' has shape (2, 2), but Q has width 3"},
    {{{"A", 2, 3, 0}, {"V", 2, 3, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'A' has shape (2, 3), but it must be square"},
    {{{"X", 3, 0, 0}, QKV},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'X' has shape (3), but it must be a matrix"},
    {{XQKV, {"bq", 4, 1, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'bq' has shape (4, 1), but it must be a vector"},
    {{{"X", 0, 3, 0}, QKV},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'X' has shape (0, 3), but no size may be zero"},
    {{XQKV, {"bv", 0, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'bv' has shape (0), but no size may be zero"},
    {{{"Q", 4, 3, 0}, {"K", 5, 3, 0}, {"V", 2, 3, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'K' has shape (5, 3), but 4 rows are needed for 1 key/value head of width 4"},
    {{{"Q", 4, 3, 0}, {"K", 4, 3, 0}, {"V", 3, 3, 0}},
     {.heads = 2},
     LIPSC_E_FORMAT,
     "tensor 'V' has shape (3, 3), but 2 key/value heads do not divide its rows"},
    {{XQKV, {"O", 3, 4, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'O' has shape (3, 4), but 2 columns are needed for 1 head with values of "
     "width 2"},
    {{XQKV, {"bq", 3, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'bq' has shape (3), but Q has 4 rows"},
    {{XQKV, {"bk", 3, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'bk' has shape (3), but K has 4 rows"},
    {{XQKV, {"bv", 3, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'bv' has shape (3), but V has 2 rows"},
    {{XQKV, {"O", 3, 2, 0}, {"bo", 2, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'bo' has shape (2), but O has 3 rows"},
    {{{"A", 3, 3, 0}, {"V", 2, 3, 0}, {"c", 2, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'c' has shape (2), but A has 3 rows"},
    {{XQKV, {"weights", 3, 0, 1}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'weights' has shape (3), but X has 2 rows"},
    {{XQKV, {"times", 1, 0, 1}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'times' has shape (1), but X has 2 rows"},
    /* options */
    {{XQKV},
     {.heads = 3},
     LIPSC_E_FORMAT,
     "tensor 'Q' has shape (4, 3), but 3 heads do not divide its rows"},
    {{XQKV}, {.heads = SIZE_MAX}, LIPSC_E_FORMAT, "heads do not divide its rows"},
    {{XQKV},
     {.heads = 4, .kv_heads = 3},
     LIPSC_E_ARG,
     "3 key/value heads do not divide 4 heads"},
    {{XQKV},
     {.heads = 2, .kv_heads = 4},
     LIPSC_E_ARG,
     "4 key/value heads do not divide 2 heads"},
    {{{"A", 3, 3, 0}, {"V", 2, 3, 0}},
     {.heads = 2},
     LIPSC_E_ARG,
     "tensor 'A' is for one head, but 2 heads were asked for"},
    {{XQKV}, {.scale = NAN}, LIPSC_E_ARG, "the scale must be finite"},
    {{XQKV}, {SLIDING}, LIPSC_E_ARG, "the window must be at least 1"},
    {{XQKV},
     {.mask = LIPSC_MASK_TIMES},
     LIPSC_E_ARG,
     "a mask by times was asked for, but tensor 'times' is missing"},
    {{XQKV, {"times", 2, 0, 0}},
     {CAUSAL},
     LIPSC_E_ARG,
     "tensor 'times' is a mask of its own and cannot be combined with a causal mask"},
    {{XQKV, {"times", 2, 0, 0}},
     {SLIDING, .window = 2},
     LIPSC_E_ARG,
     "tensor 'times' is a mask of its own and cannot be combined with a sliding mask"},
    /* values */
    {{XQKV, {"times", 2, 0, NAN}},
     {0},
     LIPSC_E_NONFIN,
     "tensor 'times' holds a NaN at index (0)"},
    {{{"X", 2, 3, INFINITY}, QKV},
     {0},
     LIPSC_E_NONFIN,
     "tensor 'X' holds an infinity at index (0, 0)"},
    {{XQKV, {"weights", 2, 0, 0}},
     {0},
     LIPSC_E_FORMAT,
     "tensor 'weights' holds a weight that is not positive at index (0)"},
    {{XQKV, {"weights", 2, 0, -1}}, {0}, LIPSC_E_FORMAT, "not positive at index (0)"},
};

static void test_wrong(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        lipsc_layer_file f;
        lipsc_error err;
        const lipsc_status status =
            read_pieces(wrong[i].pieces, wrong[i].options, &f, &err);
        const size_t prefix = strlen(path);
        if (status != wrong[i].status || strncmp(err.text, path, prefix) != 0 ||
            strncmp(err.text + prefix, ": ", 2) != 0 || !strstr(err.text, wrong[i].says))
            fail_msg("case %zu (%s): status %d, '%s'", i, wrong[i].says, status, err.text);
    }
}

/* ---- Files that describe themselves ---- */

static lipsc_status read_noted(const piece *pieces, const lipsc_st_note *notes,
                               lipsc_layer_options options, lipsc_layer_file *out,
                               lipsc_error *err) {
    lipsc_st_item items[MOST];
    size_t count = 0, said = 0;
    write_pieces(pieces, LIPSC_F64); /* fills ramp and shapes */
    for (; pieces[count].name; count++)
        items[count] =
            (lipsc_st_item){pieces[count].name, LIPSC_F64, pieces[count].columns ? 2 : 1,
                            shapes[count], ramp[count]};
    while (notes[said].key) said++;
    assert_int_equal(lipsc_st_write(path, items, count, notes, said, NULL), LIPSC_OK);
    return lipsc_layer_file_read(path, &options, out, err);
}

/* Everything that a layer can have, written and read back: every number the same. */
static void test_round_trip(void **state) {
    (void)state;
    static double values[VALUES], place[VALUES];
    for (int i = 0; i < VALUES; i++) values[i] = sin(i + 0.1), place[i] = i * 0.37;
    const lipsc_layer layer = {.d = 6,
                               .heads = 2,
                               .kv_heads = 1,
                               .key_dim = 4,
                               .value_dim = 3,
                               .out_dim = 5,
                               .Q = values,
                               .K = values + 1,
                               .V = values + 2,
                               .O = values + 3,
                               .bq = values + 4,
                               .bk = values + 5,
                               .bv = values + 6,
                               .bo = values + 7,
                               .scale = 1.0 / 3.0,
                               .mask = LIPSC_MASK_SLIDING,
                               .window = 3,
                               .rotary_dim = 2,
                               .rotary_freq = values + 8,
                               .q_gain = values + 9,
                               .k_gain = values + 10,
                               .norm_eps = 1.0 / 7e6};
    const double positive[] = {1, 2, 3, 4};
    const lipsc_input input = {
        .n = 4, .X = values + 11, .weights = positive, .positions = place};
    lipsc_layer_record record = lipsc_layer_record_of(&layer, &input);
    record.model = "m\"\\ \xc3\xa9";
    record.model_hash = "00ff";
    lipsc_layer_file f;
    lipsc_error err;
    assert_int_equal(lipsc_layer_write(path, &record, &err), LIPSC_OK);
    assert_int_equal(lipsc_layer_file_read(path, NULL, &f, &err), LIPSC_OK);
    const lipsc_layer *l = &f.layer;
    assert_true(l->d == 6 && l->heads == 2 && l->kv_heads == 1 && l->key_dim == 4 &&
                l->value_dim == 3 && l->out_dim == 5 && l->rotary_dim == 2);
    assert_true(l->scale == layer.scale && l->norm_eps == layer.norm_eps);
    assert_true(l->mask == LIPSC_MASK_SLIDING && l->window == 3 && f.input.n == 4);
    const struct {
        const double *got, *want;
        size_t count;
    } arrays[] = {{l->Q, layer.Q, 48},
                  {l->K, layer.K, 24},
                  {l->V, layer.V, 18},
                  {l->O, layer.O, 30},
                  {l->bq, layer.bq, 8},
                  {l->bk, layer.bk, 4},
                  {l->bv, layer.bv, 3},
                  {l->bo, layer.bo, 5},
                  {l->rotary_freq, layer.rotary_freq, 1},
                  {l->q_gain, layer.q_gain, 4},
                  {l->k_gain, layer.k_gain, 4},
                  {f.input.X, input.X, 24},
                  {f.input.weights, positive, 4},
                  {f.input.positions, place, 4}};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        assert_memory_equal(arrays[i].got, arrays[i].want, arrays[i].count * 8);
    const lipsc_layer_record *said = lipsc_layer_file_record(&f);
    assert_string_equal(said->model, record.model);
    assert_string_equal(said->model_hash, "00ff");
    assert_int_equal(said->map, LIPSC_FILE_ATTENTION);
    lipsc_layer_file_free(&f);

    lipsc_layer wide = layer; /* norms of all heads at once, a window on both sides */
    wide.norm_whole = 1;
    wide.mask = LIPSC_MASK_LOCAL;
    record = lipsc_layer_record_of(&wide, &input);
    assert_int_equal(lipsc_layer_write(path, &record, &err), LIPSC_OK);
    assert_int_equal(lipsc_layer_file_read(path, NULL, &f, &err), LIPSC_OK);
    assert_true(f.layer.norm_whole == 1 && f.layer.mask == LIPSC_MASK_LOCAL &&
                f.layer.window == 3);
    assert_memory_equal(f.layer.q_gain, layer.q_gain, 8 * sizeof(double));
    assert_memory_equal(f.layer.k_gain, layer.k_gain, 4 * sizeof(double));
    lipsc_layer_file_free(&f);
}

#define NOTE(key, text) \
    { key, text }

static const struct {
    piece pieces[8];
    lipsc_st_note notes[6];
    lipsc_layer_options options;
    const char *says; /* NULL: is read */
} noted[] = {
    {{XQKV}, {NOTE("format", "pt"), NOTE("anything", "else")}, {0}, NULL},
    {{XQKV}, {NOTE("heads", "2"), NOTE("mask", "causal")}, {.heads = 2, CAUSAL}, NULL},
    {{XQKV}, {NOTE("scale", "0.25")}, {.scale = 0.25}, NULL},
    /* options that say something else */
    {{XQKV},
     {NOTE("heads", "2")},
     {.heads = 4},
     "its metadata says heads 2, but heads 4 was asked for: leave that out"},
    {{XQKV}, {NOTE("kv_heads", "1")}, {.kv_heads = 2}, "but kv_heads 2 was asked for"},
    {{XQKV},
     {NOTE("mask", "none")},
     {CAUSAL},
     "its metadata says mask none, but mask causal was asked for"},
    {{XQKV},
     {NOTE("mask", "sliding"), NOTE("window", "3")},
     {SLIDING, .window = 4},
     "its metadata says window 3, but window 4 was asked for"},
    {{XQKV}, {NOTE("scale", "0.25")}, {.scale = 0.5}, "but scale 0.5 was asked for"},
    /* hostile values */
    {{XQKV},
     {NOTE("heads", "")},
     {0},
     "metadata 'heads' holds '': expected a whole number"},
    {{XQKV}, {NOTE("heads", "0")}, {0}, "metadata 'heads' holds '0': expected a whole"},
    {{XQKV}, {NOTE("heads", "-1")}, {0}, "metadata 'heads' holds '-1'"},
    {{XQKV}, {NOTE("heads", "0x2")}, {0}, "metadata 'heads' holds '0x2'"},
    {{XQKV}, {NOTE("heads", "18446744073709551617")}, {0}, "metadata 'heads' holds"},
    {{XQKV}, {NOTE("heads", "999999999999999")}, {0}, "heads do not divide its rows"},
    {{XQKV},
     {NOTE("mask", "some")},
     {0},
     "metadata 'mask' holds 'some': expected none, causal, sliding, times or local"},
    {{XQKV}, {NOTE("mask", "\x1b[31m")}, {0}, "metadata 'mask' holds '\\x1b[31m'"},
    {{XQKV}, {NOTE("mask", "sliding")}, {0}, "the window must be at least 1"},
    {{XQKV}, {NOTE("mask", "times")}, {0}, "tensor 'times' is missing"},
    {{XQKV, {"times", 2, 0, 0}},
     {NOTE("mask", "none")},
     {0},
     "its metadata says mask none, but tensor 'times' is there"},
    {{XQKV}, {NOTE("scale", "0")}, {0}, "metadata 'scale' holds '0': expected a number"},
    {{XQKV}, {NOTE("scale", "nan")}, {0}, "metadata 'scale' holds 'nan'"},
    {{XQKV}, {NOTE("scale", "1e999")}, {0}, "metadata 'scale' holds '1e999'"},
    {{XQKV}, {NOTE("scale", "0,5")}, {0}, "metadata 'scale' holds '0,5'"},
    {{XQKV}, {NOTE("norm_eps", "-1e-6")}, {0}, "metadata 'norm_eps' holds '-1e-6'"},
    {{XQKV}, {NOTE("map", "attention")}, {0}, "says map attention, but tensor 'O' is miss"},
    {{XQKV, {"O", 3, 2, 0}}, {NOTE("map", "heads")}, {0}, "map heads, but tensor 'O' is"},
    {{XQKV}, {NOTE("map", "block")}, {0}, "is of the map block, at the input of the block"},
    {{XQKV}, {NOTE("map", "magic")}, {0}, "metadata 'map' holds 'magic': expected heads, "},
    {{XQKV}, {NOTE("schema", "2")}, {0}, "is of schema 2, and version"},
    {{XQKV}, {NOTE("schema", "one")}, {0}, "metadata 'schema' holds 'one'"},
    {{XQKV},
     {NOTE("schema", "1"), NOTE("magic", "50")},
     {0},
     "metadata 'magic' is not known to version"},
    {{XQKV, {"magic", 2, 0, 0}}, {NOTE("schema", "1")}, {0}, "tensor 'magic' is not known"},
    /* tensors of their own */
    {{XQKV, {"rotary_freq", 3, 0, 0}}, {NOTE(NULL, NULL)}, {0}, "has 2 pairs to turn"},
    {{XQKV, {"positions", 2, 0, 0}},
     {NOTE(NULL, NULL)},
     {0},
     "tensor 'positions' needs tensor 'rotary_freq', which is missing"},
    {{XQKV, {"q_norm", 3, 0, 0}},
     {NOTE(NULL, NULL)},
     {0},
     "tensor 'q_norm' has shape (3), but what is normed of queries has 4 numbers"},
    {{XQKV, {"k_norm", 4, 0, INFINITY}}, {NOTE(NULL, NULL)}, {0}, "holds an infinity"},
    {{XQKV, {"Q_norm", 4, 0, 0}}, {NOTE(NULL, NULL)}, {0}, "did you mean 'q_norm'?"},
};

static void test_noted(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof noted / sizeof noted[0]; i++) {
        lipsc_layer_file f;
        lipsc_error err = {.text = ""};
        const lipsc_status status =
            read_noted(noted[i].pieces, noted[i].notes, noted[i].options, &f, &err);
        if (!status != !noted[i].says ||
            (status && (strncmp(err.text, path, strlen(path)) != 0 ||
                        !strstr(err.text, noted[i].says))))
            fail_msg("case %zu (%s): status %d, '%s'", i,
                     noted[i].says ? noted[i].says : "is read", status, err.text);
        if (!status) lipsc_layer_file_free(&f);
    }
}

/* The place of a bad value: row, column and byte of the file. */
static void test_place_of_nan(void **state) {
    (void)state;
    double values[12] = {0};
    values[7] = NAN;
    const size_t shape[2] = {4, 3};
    const lipsc_st_item items[] = {{"Q", LIPSC_F64, 2, shape, values},
                                   {"K", LIPSC_F64, 2, shape, ramp[0]},
                                   {"V", LIPSC_F64, 2, shape, ramp[0]}};
    lipsc_layer_file f;
    lipsc_error err;
    lipsc_st *st;
    assert_int_equal(lipsc_st_write(path, items, 3, NULL, 0, NULL), LIPSC_OK);
    assert_int_equal(lipsc_layer_file_read(path, NULL, &f, &err), LIPSC_E_NONFIN);
    assert_non_null(strstr(err.text, ": tensor 'Q' holds a NaN at index (2, 1)"));
    assert_int_equal(lipsc_st_open(path, &st, NULL), LIPSC_OK);
    assert_int_equal(err.offset, lipsc_st_find(st, "Q")->offset + 7 * 8);
    lipsc_st_free(st);
}

/* Pixels have three axes: every one of them is named. */
static void test_place_in_pixels(void **state) {
    (void)state;
    double values[2 * 3 * 4] = {0};
    values[1 * 12 + 2 * 4 + 3] = NAN;
    const size_t shape[3] = {2, 3, 4}, tokens[2] = {4, 3};
    const lipsc_st_item items[] = {{"X", LIPSC_F64, 2, tokens, ramp[0]},
                                   {"Q", LIPSC_F64, 2, tokens, ramp[0]},
                                   {"K", LIPSC_F64, 2, tokens, ramp[0]},
                                   {"V", LIPSC_F64, 2, tokens, ramp[0]},
                                   {"pixel_values", LIPSC_F64, 3, shape, values}};
    lipsc_layer_file f;
    lipsc_error err;
    lipsc_st *st;
    assert_int_equal(lipsc_st_write(path, items, 5, NULL, 0, NULL), LIPSC_OK);
    assert_int_equal(lipsc_st_open(path, &st, NULL), LIPSC_OK);
    assert_int_equal(lipsc_layer_whole_from_st(st, &f, &err), LIPSC_E_NONFIN);
    assert_non_null(
        strstr(err.text, ": tensor 'pixel_values' holds a NaN at index (1, 2, 3)"));
    assert_int_equal(err.offset, lipsc_st_find(st, "pixel_values")->offset + 23 * 8);
    lipsc_st_free(st);
}

/* F16 and BF16 are read, integers are not; from hand-made bytes. */
static void test_dtypes(void **state) {
    (void)state;
    static const char header[] =
        "{\"A\":{\"dtype\":\"F16\",\"shape\":[1,1],\"data_offsets\":[0,2]},"
        "\"V\":{\"dtype\":\"BF16\",\"shape\":[1,1],\"data_offsets\":[2,4]},"
        "\"c\":{\"dtype\":\"I16\",\"shape\":[1],\"data_offsets\":[4,6]}}";
    uint8_t bytes[8 + sizeof header - 1 + 6] = {sizeof header - 1};
    uint8_t *const data = bytes + 8 + sizeof header - 1;
    lipsc_st *st;
    lipsc_layer_file f;
    lipsc_error err;
    memcpy(bytes + 8, header, sizeof header - 1);
    memcpy(data, "\x00\x3e\x20\xc0\x00\x3c", 6); /* 1.5, -2.5, 1 */
    assert_int_equal(lipsc_st_parse(bytes, sizeof bytes, "mem", &st, &err), LIPSC_OK);
    assert_int_equal(lipsc_layer_from_st(st, NULL, &f, &err), LIPSC_E_FORMAT);
    assert_string_equal(err.text,
                        "mem: tensor 'c' has dtype I16, but F64, F32, F16 or BF16 "
                        "is needed");
    lipsc_st_free(st);
    memcpy(strstr((char *)bytes + 8, "I16"), "F16", 3);
    assert_int_equal(lipsc_st_parse(bytes, sizeof bytes, "mem", &st, &err), LIPSC_OK);
    assert_int_equal(lipsc_layer_from_st(st, NULL, &f, &err), LIPSC_OK);
    lipsc_st_free(st);
    assert_true(f.layer.Q[0] == 1.5 && f.layer.V[0] == -2.5 && f.layer.bq[0] == 1);
    lipsc_layer_file_free(&f);
}

/* Every prefix of a valid file is refused, whatever it was cut in. */
static void test_truncated(void **state) {
    (void)state;
    write_pieces(full, LIPSC_F32);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    uint8_t bytes[4096];
    const size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    assert_true(length > 0 && length < sizeof bytes);
    const lipsc_layer_options options = {.heads = 4, .kv_heads = 2};
    for (size_t cut = 0; cut < length; cut++) {
        lipsc_layer_file f;
        lipsc_error err;
        file = fopen(path, "wb");
        assert_non_null(file);
        assert_int_equal(fwrite(bytes, 1, cut, file), cut);
        assert_int_equal(fclose(file), 0);
        assert_int_equal(lipsc_layer_file_read(path, &options, &f, &err), LIPSC_E_FORMAT);
        assert_int_equal(strncmp(err.text, path, strlen(path)), 0);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),          cmocka_unit_test(test_with_A),
        cmocka_unit_test(test_without_input), cmocka_unit_test(test_wrong),
        cmocka_unit_test(test_place_of_nan),  cmocka_unit_test(test_dtypes),
        cmocka_unit_test(test_truncated),     cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_noted),         cmocka_unit_test(test_place_in_pixels),
    };
    return cmocka_run_group_tests(tests, make_path, remove_path);
}
