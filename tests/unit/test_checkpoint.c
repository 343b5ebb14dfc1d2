/* test_checkpoint.c - folders written here and read back: whole, in shards, under prefixes
 * and old names, with odd options; and the sentence for every way they can be wrong. */
#define _XOPEN_SOURCE 700 /* mkdtemp, nftw */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the above */
#include <cmocka.h>

#include "core/rng.h"
#include "model/block.h"
#include "test_device.h"

#include <ftw.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_SIZE = 512, MOST_ITEMS = 256, TOKENS = 6 };

/* Options that no published model of the family has, so that no default hides a mistake. */
static const char *const configs[] = {
    "{\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":12,\"n_head\":3,\"n_positions\":9,"
    "\"vocab_size\":11,\"n_inner\":20,\"activation_function\":\"gelu_fast\","
    "\"scale_attn_weights\":false,\"scale_attn_by_inverse_layer_idx\":true,"
    "\"layer_norm_epsilon\":0.01,\"initializer_range\":0.4}",
    "{\"model_type\":\"bert\",\"num_hidden_layers\":2,\"hidden_size\":12,"
    "\"num_attention_heads\":2,\"intermediate_size\":18,\"vocab_size\":11,"
    "\"max_position_embeddings\":9,\"type_vocab_size\":3,\"is_decoder\":true,"
    "\"hidden_act\":\"quick_gelu\",\"layer_norm_eps\":0.02,\"initializer_range\":0.4}",
    "{\"model_type\":\"roberta\",\"num_hidden_layers\":2,\"hidden_size\":12,"
    "\"num_attention_heads\":4,\"intermediate_size\":18,\"vocab_size\":11,"
    "\"max_position_embeddings\":12,\"type_vocab_size\":1,\"pad_token_id\":3,"
    "\"hidden_act\":\"gelu_new\",\"layer_norm_eps\":0.01,\"initializer_range\":0.4}",
    "{\"model_type\":\"distilbert\",\"n_layers\":2,\"dim\":12,\"n_heads\":3,\"hidden_dim\":"
    "18,"
    "\"vocab_size\":11,\"max_position_embeddings\":9,\"activation\":\"tanh\","
    "\"initializer_range\":0.4}",
    "{\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":12,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":6,"
    "\"intermediate_size\":18,\"vocab_size\":11,\"max_position_embeddings\":9,"
    "\"attention_bias\":true,\"mlp_bias\":true,\"hidden_act\":\"gelu\",\"rope_theta\":50,"
    "\"rms_norm_eps\":0.01,\"initializer_range\":0.4}",
    "{\"model_type\":\"mistral\",\"num_hidden_layers\":2,\"hidden_size\":12,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":1,\"intermediate_size\":18,"
    "\"head_dim\":4,\"vocab_size\":11,\"sliding_window\":3,\"initializer_range\":0.4}",
    "{\"model_type\":\"qwen2\",\"num_hidden_layers\":3,\"hidden_size\":16,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"intermediate_size\":18,"
    "\"vocab_size\":11,\"use_sliding_window\":true,\"sliding_window\":2,"
    "\"layer_types\":[\"full_attention\",\"sliding_attention\",\"full_attention\"],"
    "\"initializer_range\":0.4}",
    "{\"model_type\":\"qwen3\",\"num_hidden_layers\":2,\"hidden_size\":12,"
    "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"head_dim\":8,"
    "\"intermediate_size\":18,\"vocab_size\":11,\"attention_bias\":true,"
    "\"rms_norm_eps\":0.01,\"initializer_range\":0.4}",
    "{\"model_type\":\"vit\",\"num_hidden_layers\":2,\"hidden_size\":12,"
    "\"num_attention_heads\":3,\"intermediate_size\":18,\"image_size\":[6,9],"
    "\"patch_size\":[3,2],\"num_channels\":2,\"qkv_bias\":false,\"hidden_act\":\"relu\","
    "\"layer_norm_eps\":0.01,\"initializer_range\":0.4}"};
enum { FAMILIES = sizeof configs / sizeof configs[0] };

/* ---- Folders ------------------------------------------------------------------------ */

static int remove_entry(const char *path, const struct stat *info, int kind,
                        struct FTW *at) {
    (void)info, (void)kind, (void)at;
    return remove(path);
}

static void remove_folder(const char *dir) {
    assert_int_equal(nftw(dir, remove_entry, 8, FTW_DEPTH | FTW_PHYS), 0);
}

static void write_text(const char *dir, const char *name, const char *text) {
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%.400s/%.64s", dir, name);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, strlen(text), file), strlen(text));
    fclose(file);
}

/* A folder with that config.json alone. */
static void new_folder(char dir[PATH_SIZE], const char *config) {
    const char *base = getenv("TMPDIR");
    snprintf(dir, PATH_SIZE, "%s/lipscope-XXXXXX", base ? base : "/tmp");
    assert_non_null(mkdtemp(dir));
    write_text(dir, "config.json", config);
}

static lipsc_model *open_random(const char *dir, uint64_t seed) {
    char spec[PATH_SIZE + 16];
    lipsc_model *model;
    lipsc_error err = {0};
    snprintf(spec, sizeof spec, "random:%s", dir);
    if (lipsc_model_open(spec, seed, &model, &err)) fail_msg("%s", err.text);
    return model;
}

/* The tensors of a model, as the writer wants them. */
typedef struct {
    size_t count;
    lipsc_tensor tensors[MOST_ITEMS];
    char names[MOST_ITEMS][128];
    lipsc_st_item items[MOST_ITEMS];
    double *data[MOST_ITEMS];
} contents;

/* Norms get gains and biases that are not 1 and 0. */
static contents *list_contents(const lipsc_model *model, const char *prefix) {
    contents *c = calloc(1, sizeof *c);
    assert_non_null(c);
    for (size_t l = 0; l < model->config.layers; l++)
        for (int role = l ? LIPSC_LAYER_ROLES : 0; role < LIPSC_ROLES; role++) {
            lipsc_tensor *t = &c->tensors[c->count];
            if (!lipsc_tensor_describe(&model->config, (lipsc_role)role, l, t)) continue;
            double *data = malloc(t->count * sizeof *data);
            assert_non_null(data);
            assert_int_equal(
                lipsc_tensors_read(&model->tensors, t, 0, t->count, data, NULL), LIPSC_OK);
            for (size_t e = 0; t->deviation == 0 && e < t->count; e++)
                data[e] += (float)(0.3 * lipsc_rng_normal(c->count, e));
            const size_t room = sizeof c->names[0], size = strlen(prefix);
            memcpy(c->names[c->count], prefix, size);
            memcpy(c->names[c->count] + size, t->name, strlen(t->name) + 1);
            assert_true(size + strlen(t->name) < room);
            c->data[c->count] = data;
            c->items[c->count] = (lipsc_st_item){.name = c->names[c->count],
                                                 .dtype = LIPSC_F32,
                                                 .ndim = t->ndim,
                                                 .shape = t->shape,
                                                 .data = data};
            c->count++;
            assert_true(c->count < MOST_ITEMS);
        }
    return c;
}

static void free_contents(contents *c) {
    for (size_t i = 0; i < c->count; i++) free(c->data[i]);
    free(c);
}

static size_t find(const contents *c, const char *part) {
    size_t i = 0;
    while (i < c->count && !strstr(c->names[i], part)) i++;
    assert_true(i < c->count);
    return i;
}

static void write_tensors(const char *dir, const char *name, const contents *c,
                          size_t first, size_t end) {
    char path[PATH_SIZE];
    lipsc_error err = {0};
    snprintf(path, sizeof path, "%.400s/%.64s", dir, name);
    if (lipsc_st_write(path, c->items + first, end - first, NULL, 0, &err))
        fail_msg("%s", err.text);
}

static void write_shards(const char *dir, const contents *c) {
    char *index = calloc(c->count + 1, 256);
    assert_non_null(index);
    size_t used = (size_t)snprintf(index, 256, "{\"metadata\":{},\"weight_map\":{");
    const size_t half = c->count / 2;
    for (size_t i = 0; i < c->count; i++)
        used += (size_t)snprintf(index + used, 256, "%s\"%s\":\"part-%d.safetensors\"",
                                 i ? "," : "", c->names[i], i < half ? 1 : 2);
    snprintf(index + used, 256, "}}");
    write_text(dir, "model.safetensors.index.json", index);
    write_tensors(dir, "part-1.safetensors", c, 0, half);
    write_tensors(dir, "part-2.safetensors", c, half, c->count);
    free(index);
}

/* ---- Running ------------------------------------------------------------------------ */

static lipsc_acts *run(lipsc_model *model) {
    lipsc_acts *acts;
    lipsc_error err = {0};
    const lipsc_model_info *info = lipsc_model_describe(model);
    if (info->has_pixels) {
        const size_t shape[3] = {2, 6, 9};
        double pixels[2 * 6 * 9];
        for (size_t e = 0; e < 108; e++) pixels[e] = lipsc_rng_normal(5, e);
        if (lipsc_acts_new_pixels(model, LIPSC_F64, test_device(0), shape, pixels, 0, &acts,
                                  &err))
            fail_msg("%s", err.text);
    } else {
        const uint32_t ids[TOKENS] = {4, 10, 3, 7, 3, 0}; /* 3 is roberta's padding here */
        if (lipsc_acts_new(model, LIPSC_F64, test_device(0), TOKENS, ids, 0, &acts, &err))
            fail_msg("%s", err.text);
    }
    return acts;
}

static lipsc_model *open_folder(const char *dir) {
    lipsc_model *model;
    lipsc_error err = {0};
    if (lipsc_model_open(dir, 1, &model, &err)) fail_msg("%s", err.text);
    return model;
}

static double *output_of(const char *dir, size_t *count, char hash[65]) {
    lipsc_model *model = open_folder(dir);
    lipsc_acts *acts = run(model);
    *count = lipsc_acts_length(acts) * lipsc_model_describe(model)->d;
    double *y = malloc(*count * sizeof *y);
    assert_non_null(y);
    memcpy(y, lipsc_acts_output(acts), *count * sizeof *y);
    memcpy(hash, lipsc_model_describe(model)->hash, 65);
    lipsc_acts_free(acts);
    lipsc_model_free(model);
    return y;
}

/* One file, two shards, and the names of a wrapping model hold the same numbers. */
static void test_layouts(void **state) {
    (void)state;
    static const char *const prefixes[FAMILIES] = {"transformer.", "bert.",  "roberta.",
                                                   "distilbert.",  "model.", "model.",
                                                   "model.",       "model.", "vit."};
    for (size_t f = 0; f < FAMILIES; f++) {
        char one[PATH_SIZE], two[PATH_SIZE], hash[2][65];
        new_folder(one, configs[f]);
        new_folder(two, configs[f]);
        lipsc_model *model = open_random(one, 7);
        contents *plain = list_contents(model, ""),
                 *wrapped = list_contents(model, prefixes[f]);
        write_tensors(one, "model.safetensors", plain, 0, plain->count);
        write_shards(two, wrapped);
        size_t count, other;
        double *a = output_of(one, &count, hash[0]), *b = output_of(two, &other, hash[1]);
        assert_int_equal(count, other);
        assert_memory_equal(a, b, count * sizeof *a);
        assert_string_not_equal(hash[0], hash[1]);
        free(a);
        free(b);
        free_contents(plain);
        free_contents(wrapped);
        lipsc_model_free(model);
        remove_folder(one);
        remove_folder(two);
    }
}

/* LayerNorm.gamma and beta of files from 2018 */
static void test_old_names(void **state) {
    (void)state;
    char dir[PATH_SIZE], hash[65];
    new_folder(dir, configs[1]);
    lipsc_model *model = open_random(dir, 7);
    contents *c = list_contents(model, "bert.");
    size_t count;
    write_tensors(dir, "model.safetensors", c, 0, c->count);
    double *now = output_of(dir, &count, hash);
    for (size_t i = 0; i < c->count; i++) {
        char *at = strstr(c->names[i], "LayerNorm.");
        if (at) memcpy(at + 10, strstr(at, "weight") ? "gamma" : "beta\0", 6);
    }
    write_tensors(dir, "model.safetensors", c, 0, c->count);
    double *old = output_of(dir, &count, hash);
    assert_memory_equal(now, old, count * sizeof *now);
    free(now);
    free(old);
    free_contents(c);
    lipsc_model_free(model);
    remove_folder(dir);
}

/* ---- Odd options: J against central differences of the forward pass ----------------- */

static void evaluate(lipsc_model *model, size_t n, const double *x, double *y) {
    lipsc_acts *acts;
    lipsc_error err = {0};
    if (lipsc_acts_new_from(model, LIPSC_F64, test_device(0), n, x, 0, &acts, &err))
        fail_msg("%s", err.text);
    memcpy(y, lipsc_acts_output(acts), n * lipsc_model_describe(model)->d * sizeof *y);
    lipsc_acts_free(acts);
}

static void test_options(void **state) {
    (void)state;
    for (size_t f = 0; f < FAMILIES; f++) {
        char dir[PATH_SIZE];
        new_folder(dir, configs[f]);
        lipsc_model *source = open_random(dir, 9);
        contents *c = list_contents(source, "");
        write_tensors(dir, "model.safetensors", c, 0, c->count);
        lipsc_model *model = open_folder(dir);
        lipsc_acts *acts = run(model);
        const size_t n = lipsc_acts_length(acts), len = n * lipsc_model_describe(model)->d;
        const double *x = lipsc_acts_block_input(acts, 0);
        double *v = malloc(6 * len * sizeof *v), *jv = v + len, *at = jv + len;
        double *plus = at + len, *minus = plus + len, *w = minus + len;
        assert_non_null(v);
        const lipsc_map_options o = {.map = LIPSC_MAP_MODEL,
                                     .head = -1,
                                     .dtype = LIPSC_F64,
                                     .device = test_device(1)};
        lipsc_map *map;
        lipsc_error err = {0};
        if (lipsc_map_new(model, acts, &o, &map, &err)) fail_msg("%s", err.text);
        const lipsc_linop op = lipsc_map_linop(map);
        for (size_t e = 0; e < len; e++) {
            v[e] = lipsc_rng_normal(41, e) / sqrt((double)len);
            w[e] = lipsc_rng_normal(42, e) / sqrt((double)len);
        }
        assert_int_equal(lipsc_linop_host(&op, 0, 1, v, jv), LIPSC_OK);
        /* h^2 of truncation and 1e-16 / h of rounding meet near 1e-5: about 1e-9 remains */
        const double h = 1e-5;
        for (size_t e = 0; e < len; e++) at[e] = x[e] + h * v[e];
        evaluate(model, n, at, plus);
        for (size_t e = 0; e < len; e++) at[e] = x[e] - h * v[e];
        evaluate(model, n, at, minus);
        double difference = 0, size = 0, left = 0, right = 0;
        for (size_t e = 0; e < len; e++) {
            const double fd = (plus[e] - minus[e]) / (2 * h);
            difference += (jv[e] - fd) * (jv[e] - fd);
            size += fd * fd;
            left += jv[e] * w[e];
        }
        assert_int_equal(lipsc_linop_host(&op, 1, 1, w, jv), LIPSC_OK);
        for (size_t e = 0; e < len; e++) right += jv[e] * v[e];
        print_message("%-10s J by differences %.1e, adjoint %.1e\n",
                      lipsc_model_describe(model)->architecture, sqrt(difference / size),
                      fabs(left - right));
        assert_true(sqrt(difference / size) < 1e-7);
        assert_true(fabs(left - right) < 1e-12 * (1 + sqrt(size)));
        free(v);
        lipsc_map_free(map);
        lipsc_acts_free(acts);
        lipsc_model_free(model);
        free_contents(c);
        lipsc_model_free(source);
        remove_folder(dir);
    }
}

/* roberta: padding stands at position pad, the others count from pad + 1 without it */
static void test_padding(void **state) {
    (void)state;
    char dir[PATH_SIZE];
    new_folder(dir, configs[2]);
    lipsc_model *model = open_random(dir, 3);
    const uint32_t ids[TOKENS] = {4, 10, 3, 7, 3, 0};
    static const size_t position[TOKENS] = {4, 5, 3, 6, 3, 7};
    const size_t d = model->config.d;
    double x[TOKENS * 12], sum[TOKENS * 12] = {0}, row[12];
    assert_int_equal(lipsc_embed_ids(model, TOKENS, ids, x, NULL), LIPSC_OK);
    static const lipsc_role roles[] = {LIPSC_TOKENS, LIPSC_POSITIONS, LIPSC_TYPES};
    for (size_t i = 0; i < TOKENS; i++)
        for (int r = 0; r < 3; r++) {
            lipsc_tensor t;
            const size_t at = r == 0 ? ids[i] : r == 1 ? position[i] : 0;
            assert_true(lipsc_tensor_describe(&model->config, roles[r], 0, &t));
            assert_int_equal(lipsc_tensors_read(&model->tensors, &t, at * d, d, row, NULL),
                             LIPSC_OK);
            for (size_t c = 0; c < d; c++) sum[i * d + c] += row[c];
        }
    for (size_t i = 0; i < TOKENS; i++) { /* the norm behind the sum has gain 1, bias 0 */
        double mean = 0, square = 0;
        for (size_t c = 0; c < d; c++) mean += sum[i * d + c] / (double)d;
        for (size_t c = 0; c < d; c++) square += pow(sum[i * d + c] - mean, 2) / (double)d;
        for (size_t c = 0; c < d; c++)
            assert_true(fabs(x[i * d + c] - (sum[i * d + c] - mean) /
                                                sqrt(square + model->config.norm_eps)) <
                        1e-13);
    }
    lipsc_model_free(model);
    remove_folder(dir);
}

/* ---- Random weights ----------------------------------------------------------------- */

/* Every number is that of the stream that seed and name (FNV-1a) make, to the last bit,
 * though many are made at a time and otherwise. */
static void same_as_one_by_one(const lipsc_tensor *t, uint64_t seed, size_t first,
                               size_t count, const double *x) {
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (const char *c = t->name; *c; c++)
        hash = (hash ^ (unsigned char)*c) * UINT64_C(0x100000001b3);
    const uint64_t stream = lipsc_rng_bits(seed, hash);
    for (size_t i = 0; i < count; i++)
        if (x[i] != (double)(float)(t->deviation * lipsc_rng_normal(stream, first + i)))
            fail_msg("%s: number %zu", t->name, first + i);
}

static void moments(const lipsc_model *model, lipsc_role role, size_t layer,
                    double deviation) {
    lipsc_tensor t;
    assert_true(lipsc_tensor_describe(&model->config, role, layer, &t));
    double *x = malloc(t.count * sizeof *x), sum = 0, square = 0;
    assert_non_null(x);
    assert_int_equal(lipsc_tensors_read(&model->tensors, &t, 0, t.count, x, NULL),
                     LIPSC_OK);
    same_as_one_by_one(&t, model->tensors.seed, 0, t.count, x);
    const size_t odd = 4097, some = 5003; /* a part that begins within a pair */
    assert_int_equal(lipsc_tensors_read(&model->tensors, &t, odd, some, x, NULL), LIPSC_OK);
    same_as_one_by_one(&t, model->tensors.seed, odd, some, x);
    assert_int_equal(lipsc_tensors_read(&model->tensors, &t, 0, t.count, x, NULL),
                     LIPSC_OK);
    for (size_t e = 0; e < t.count; e++) sum += x[e], square += x[e] * x[e];
    /* five standard errors of the mean and of the deviation */
    const double n = (double)t.count;
    assert_true(fabs(sum / n) < 5 * deviation / sqrt(n));
    assert_true(fabs(sqrt(square / n) / deviation - 1) < 5 / sqrt(2 * n));
    free(x);
}

static void test_random(void **state) {
    (void)state;
    lipsc_model *model, *again, *other;
    lipsc_error err = {0};
    assert_int_equal(lipsc_model_open("random:gpt2:nano", 1, &model, &err), LIPSC_OK);
    assert_int_equal(lipsc_model_open("random:gpt2:nano", 1, &again, &err), LIPSC_OK);
    assert_int_equal(lipsc_model_open("random:gpt2:nano", 2, &other, &err), LIPSC_OK);
    const lipsc_model_info *info = lipsc_model_describe(model);
    assert_string_equal(info->hash, lipsc_model_describe(again)->hash);
    assert_string_not_equal(info->hash, lipsc_model_describe(other)->hash);
    assert_string_equal(info->stored, "random");
    /* (2048 + 512) d for the embeddings, 12 d^2 + 13 d per layer, 2 d for the last norm */
    assert_int_equal(info->parameters, 2560 * 192 + 6 * (12 * 192 * 192 + 13 * 192) + 384);
    moments(model, LIPSC_QKV, 3, 0.02);
    moments(model, LIPSC_OUT, 3, 0.02 / sqrt(12.0)); /* 0.02 / sqrt(2 layers) */
    moments(model, LIPSC_DOWN, 0, 0.02 / sqrt(12.0));
    moments(model, LIPSC_TOKENS, 0, 0.02);
    const uint32_t ids[3] = {1, 2, 3};
    lipsc_acts *a, *b, *c;
    assert_int_equal(lipsc_acts_new(model, LIPSC_F64, test_device(0), 3, ids, 2, &a, &err),
                     LIPSC_OK);
    assert_int_equal(lipsc_acts_new(again, LIPSC_F64, test_device(0), 3, ids, 2, &b, &err),
                     LIPSC_OK);
    assert_int_equal(lipsc_acts_new(other, LIPSC_F64, test_device(0), 3, ids, 2, &c, &err),
                     LIPSC_OK);
    const size_t bytes = 3 * 192 * sizeof(double);
    assert_memory_equal(lipsc_acts_attention_input(a, 1), lipsc_acts_attention_input(b, 1),
                        bytes);
    assert_memory_not_equal(lipsc_acts_attention_input(a, 1),
                            lipsc_acts_attention_input(c, 1), bytes);
    lipsc_acts *whole; /* ends where it was told to, with what the whole pass has there */
    assert_int_equal(
        lipsc_acts_new(model, LIPSC_F64, test_device(0), 3, ids, 0, &whole, &err),
        LIPSC_OK);
    assert_memory_equal(lipsc_acts_attention_input(a, 1),
                        lipsc_acts_attention_input(whole, 1), bytes);
    assert_memory_equal(lipsc_acts_block_input(a, 1), lipsc_acts_block_output(whole, 0),
                        bytes);
    lipsc_acts_free(whole);
    assert_null(lipsc_acts_attention_input(a, 2));
    assert_null(lipsc_acts_attention_output(a, 1));
    assert_null(lipsc_acts_block_output(a, 1));
    assert_null(lipsc_acts_output(a));
    lipsc_acts_free(a);
    lipsc_acts_free(b);
    lipsc_acts_free(c);
    lipsc_model_free(model);
    lipsc_model_free(again);
    lipsc_model_free(other);

    /* numbers of parameters as published: 124 M (GPT-2), 109 M without the pooler (BERT) */
    assert_int_equal(lipsc_model_open("random:gpt2", 1, &model, &err), LIPSC_OK);
    assert_int_equal(lipsc_model_describe(model)->parameters, 124439808);
    lipsc_model_free(model);
    assert_int_equal(lipsc_model_open("random:bert", 1, &model, &err), LIPSC_OK);
    assert_int_equal(lipsc_model_describe(model)->parameters, 108891648);
    lipsc_model_free(model);
    assert_int_equal(lipsc_model_open("random:gpt2:huge", 1, &model, &err), LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "no published size"));
    assert_int_equal(lipsc_model_open("random:gpt5", 1, &model, &err), LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "neither a family"));
}

/* Weights are made ready by whoever comes first, and the values do not depend on who. */
static void test_threads(void **state) {
    (void)state;
    char dir[PATH_SIZE];
    enum { WORKERS = 4 };
    double sigma[1 + WORKERS] = {0};
    new_folder(dir, configs[7]);
    for (int parallel = 0; parallel < 2; parallel++) {
        lipsc_model *model = open_random(dir, 5);
#pragma omp parallel for num_threads(parallel ? WORKERS : 1)
        for (int w = parallel; w < (parallel ? 1 + WORKERS : 1); w++) {
            const uint32_t ids[TOKENS] = {4, 10, 3, 7, 3, 0};
            const lipsc_map_options o = {.map = LIPSC_MAP_MODEL,
                                         .head = -1,
                                         .dtype = LIPSC_F32,
                                         .device = test_device(1)};
            lipsc_svd_settings set;
            lipsc_svd_defaults(&set);
            lipsc_acts *acts = NULL;
            lipsc_map *map = NULL;
            if (!lipsc_acts_new(model, LIPSC_F32, test_device(0), TOKENS, ids, 0, &acts,
                                NULL) &&
                !lipsc_map_new(model, acts, &o, &map, NULL))
                lipsc_map_sigma(map, &set, &sigma[w], NULL, NULL, NULL);
            lipsc_map_free(map);
            lipsc_acts_free(acts);
        }
        lipsc_model_free(model);
    }
    assert_true(sigma[0] > 0);
    for (int w = 1; w <= WORKERS; w++) assert_true(sigma[w] == sigma[0]);
    remove_folder(dir);
}

/* ---- What is wrong ------------------------------------------------------------------ */

static void expect(const char *dir, lipsc_status status, const char *first,
                   const char *second) {
    lipsc_model *model;
    lipsc_error err = {0};
    const lipsc_status got = lipsc_model_open(dir, 1, &model, &err);
    if (!got) {
        lipsc_model_free(model);
        fail_msg("opened, but expected: %s", first);
    }
    if (got != status || !strstr(err.text, first) || !strstr(err.text, second))
        fail_msg("%s (%s)", err.text, lipsc_status_name(got));
}

static void test_wrong_files(void **state) {
    (void)state;
    char dir[PATH_SIZE], path[PATH_SIZE];
    new_folder(dir, configs[0]);
    lipsc_model *source = open_random(dir, 7);
    contents *c = list_contents(source, "");
    snprintf(path, sizeof path, "%.400s/model.safetensors", dir);

    expect("/nonexistent/folder", LIPSC_E_IO, "config.json", "cannot open");
    expect(dir, LIPSC_E_IO, "neither model.safetensors", dir);
    write_text(dir, "pytorch_model.bin", "x");
    expect(dir, LIPSC_E_IO, "pytorch_model.bin", "save_pretrained(NEW)");

    write_tensors(dir, "model.safetensors", c, 0, c->count - 1);
    expect(dir, LIPSC_E_FORMAT, c->names[c->count - 1], "missing");
    const size_t up = find(c, "h.1.mlp.c_fc.weight");
    const size_t right[2] = {12, 20}, wrong[2] = {20, 12};
    c->items[up].shape = wrong;
    write_tensors(dir, "model.safetensors", c, 0, c->count);
    expect(dir, LIPSC_E_FORMAT, "(20, 12)", "(12, 20)");
    c->items[up].shape = right;
    write_tensors(dir, "model.safetensors", c, 0, c->count);
    lipsc_model_free(open_folder(dir));
    assert_int_equal(truncate(path, 3000), 0);
    expect(dir, LIPSC_E_FORMAT, "model.safetensors", "");
    free_contents(c);
    lipsc_model_free(source);
    remove_folder(dir);
}

static void test_not_finite(void **state) {
    (void)state;
    char dir[PATH_SIZE];
    new_folder(dir, configs[0]);
    lipsc_model *source = open_random(dir, 7), *model;
    contents *c = list_contents(source, "");
    c->data[find(c, "h.1.mlp.c_fc.weight")][5] = NAN;
    write_tensors(dir, "model.safetensors", c, 0, c->count);
    model = open_folder(dir);
    const uint32_t ids[2] = {1, 2};
    lipsc_acts *acts;
    lipsc_error err = {0};
    assert_int_equal(
        lipsc_acts_new(model, LIPSC_F32, test_device(0), 2, ids, 0, &acts, &err),
        LIPSC_E_NONFIN);
    assert_non_null(strstr(err.text, "h.1.mlp.c_fc.weight"));
    lipsc_model_free(model);
    free_contents(c);
    lipsc_model_free(source);
    remove_folder(dir);
}

static void test_wrong_shards(void **state) {
    (void)state;
    char dir[PATH_SIZE];
    new_folder(dir, configs[0]);
    lipsc_model *source = open_random(dir, 7);
    contents *c = list_contents(source, "");
    static const char index[] = "model.safetensors.index.json";
    write_tensors(dir, "part.safetensors", c, 0, c->count);
    write_text(dir, index, "{\"weight_map\":");
    expect(dir, LIPSC_E_FORMAT, index, "JSON");
    write_text(dir, index, "{}");
    expect(dir, LIPSC_E_FORMAT, index, "weight_map");
    write_text(dir, index, "{\"weight_map\":{\"wte.weight\":\"../part.safetensors\"}}");
    expect(dir, LIPSC_E_FORMAT, index, "no file of the folder");
    write_text(dir, index, "{\"weight_map\":{\"wte.weight\":\"absent.safetensors\"}}");
    expect(dir, LIPSC_E_IO, "absent.safetensors", "cannot open");
    write_text(dir, index, "{\"weight_map\":{\"nothing\":\"part.safetensors\"}}");
    expect(dir, LIPSC_E_FORMAT, "part.safetensors", "'nothing'");
    free_contents(c);
    lipsc_model_free(source);
    remove_folder(dir);
}

static void test_wrong_inputs(void **state) {
    (void)state;
    char dir[PATH_SIZE];
    lipsc_acts *acts;
    lipsc_error err = {0};
    uint32_t ids[16] = {0};
    new_folder(dir, configs[0]);
    lipsc_model *text = open_random(dir, 1);
    remove_folder(dir);
    new_folder(dir, configs[8]);
    lipsc_model *image = open_random(dir, 1);
    remove_folder(dir);

    assert_int_equal(
        lipsc_acts_new(text, LIPSC_F32, test_device(0), 0, ids, 0, &acts, &err),
        LIPSC_E_ARG);
    assert_int_equal(
        lipsc_acts_new(text, LIPSC_F32, test_device(0), 10, ids, 0, &acts, &err),
        LIPSC_E_RANGE);
    assert_non_null(strstr(err.text, "9 positions"));
    ids[1] = 11;
    assert_int_equal(
        lipsc_acts_new(text, LIPSC_F32, test_device(0), 2, ids, 0, &acts, &err),
        LIPSC_E_RANGE);
    assert_non_null(strstr(err.text, "id 11"));
    assert_int_equal(
        lipsc_acts_new(image, LIPSC_F32, test_device(0), 2, ids, 0, &acts, &err),
        LIPSC_E_ARG);
    assert_non_null(strstr(err.text, "images"));
    const size_t shape[3] = {3, 6, 9};
    const double pixels[3 * 6 * 9] = {0};
    assert_int_equal(lipsc_acts_new_pixels(image, LIPSC_F32, test_device(0), shape, pixels,
                                           0, &acts, &err),
                     LIPSC_E_RANGE);
    assert_non_null(strstr(err.text, "(2, 6, 9)"));
    assert_int_equal(lipsc_acts_new_pixels(text, LIPSC_F32, test_device(0), shape, pixels,
                                           0, &acts, &err),
                     LIPSC_E_ARG);
    lipsc_model_free(text);
    lipsc_model_free(image);
}

/* sigma of a map of layer 3 at the window's activations */
static double sigma_at(lipsc_model *model, const lipsc_acts *acts, lipsc_map_kind kind) {
    const lipsc_map_options o = {
        .map = kind, .layer = 3, .head = -1, .dtype = LIPSC_F32, .device = test_device(1)};
    lipsc_svd_settings set;
    lipsc_map *map;
    double sigma;
    lipsc_svd_defaults(&set);
    assert_int_equal(lipsc_map_new(model, acts, &o, &map, NULL), LIPSC_OK);
    assert_int_equal(lipsc_map_sigma(map, &set, &sigma, NULL, NULL, NULL), LIPSC_OK);
    lipsc_map_free(map);
    return sigma;
}

/* A window in steps, through blocks that are freed as soon as nobody holds them, sees the
 * same bits as one at once, through blocks that stay. */
static void test_steps(void **state) {
    (void)state;
    const uint32_t ids[5] = {9, 8, 7, 1, 30};
    const size_t bytes = 5 * 192 * sizeof(double);
    lipsc_model *roomy, *tight;
    lipsc_acts *whole, *steps;
    assert_int_equal(lipsc_model_open("random:gpt2:nano", 1, &roomy, NULL), LIPSC_OK);
    assert_int_equal(lipsc_model_open("random:gpt2:nano", 1, &tight, NULL), LIPSC_OK);
    tight->ready = UINT64_C(1) << 40; /* so much that nothing may stay */
    assert_int_equal(
        lipsc_acts_new(roomy, LIPSC_F32, test_device(0), 5, ids, 0, &whole, NULL),
        LIPSC_OK);
    assert_int_equal(lipsc_acts_begin(tight, LIPSC_F32, 5, ids, &steps, NULL), LIPSC_OK);
    assert_null(lipsc_acts_attention_input(steps, 0));
    assert_int_equal(lipsc_acts_pass(tight, steps, 1, 3, NULL), LIPSC_OK);
    assert_memory_equal(lipsc_acts_attention_output(steps, 2),
                        lipsc_acts_attention_output(whole, 2), bytes);
    lipsc_acts_forget(steps);
    assert_null(lipsc_acts_block_input(steps, 2));
    assert_null(lipsc_acts_attention_input(steps, 2));
    assert_null(lipsc_acts_attention_input(steps, 3)); /* not its block's */
    assert_int_equal(lipsc_acts_attend(tight, steps, 1, NULL), LIPSC_OK);
    assert_memory_equal(lipsc_acts_attention_input(steps, 3),
                        lipsc_acts_attention_input(whole, 3), bytes);
    for (int kind = LIPSC_MAP_HEADS; kind <= LIPSC_MAP_BLOCK; kind++)
        assert_true(sigma_at(tight, steps, (lipsc_map_kind)kind) ==
                    sigma_at(roomy, whole, (lipsc_map_kind)kind));
    assert_int_equal(lipsc_acts_pass(tight, steps, 1, 99, NULL), LIPSC_OK);
    assert_memory_equal(lipsc_acts_block_output(steps, 5),
                        lipsc_acts_block_output(whole, 5), bytes);
    for (size_t l = 0; l < 6; l++) {
        assert_null(tight->blocks[l].layer.Q);
        assert_non_null(roomy->blocks[l].layer.Q);
    }
    assert_true(tight->ready == UINT64_C(1) << 40); /* all that was counted is gone */
    lipsc_layer layer;                              /* what is handed out stays */
    assert_int_equal(
        lipsc_model_layer(tight, 2, -1, LIPSC_MAP_ATTENTION, NULL, &layer, NULL), LIPSC_OK);
    lipsc_model_hold(tight, 2);
    lipsc_model_let_go(tight, 2);
    assert_ptr_equal(tight->blocks[2].layer.Q, layer.Q);
    lipsc_acts_free(whole);
    lipsc_acts_free(steps);
    lipsc_model_free(roomy);
    lipsc_model_free(tight);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps),       cmocka_unit_test(test_layouts),
        cmocka_unit_test(test_old_names),   cmocka_unit_test(test_options),
        cmocka_unit_test(test_padding),     cmocka_unit_test(test_random),
        cmocka_unit_test(test_threads),     cmocka_unit_test(test_wrong_files),
        cmocka_unit_test(test_not_finite),  cmocka_unit_test(test_wrong_shards),
        cmocka_unit_test(test_wrong_inputs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
