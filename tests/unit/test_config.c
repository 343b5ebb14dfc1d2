/* test_config.c - config.json: what is read, and the sentence for everything that is not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka.h wants the above */
#include <cmocka.h>

#include "model/config.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define GPT2                                                                              \
    "\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":8,\"n_head\":2,\"n_positions\":16," \
    "\"vocab_size\":10"
#define BERT                                                                \
    "\"model_type\":\"bert\",\"num_hidden_layers\":2,\"hidden_size\":8,"    \
    "\"num_attention_heads\":2,\"intermediate_size\":16,\"vocab_size\":10," \
    "\"max_position_embeddings\":16,\"type_vocab_size\":2"
#define ROBERTA                                                             \
    "\"model_type\":\"roberta\",\"num_hidden_layers\":2,\"hidden_size\":8," \
    "\"num_attention_heads\":2,\"intermediate_size\":16,\"vocab_size\":10," \
    "\"max_position_embeddings\":16,\"type_vocab_size\":1"
#define DISTILBERT                                                          \
    "\"model_type\":\"distilbert\",\"n_layers\":2,\"dim\":8,\"n_heads\":2," \
    "\"hidden_dim\":16,\"vocab_size\":10,\"max_position_embeddings\":16"
#define LLAMA_SIZES                                                         \
    "\"num_hidden_layers\":4,\"hidden_size\":16,\"num_attention_heads\":4," \
    "\"intermediate_size\":16,\"vocab_size\":10"
#define LLAMA   "\"model_type\":\"llama\"," LLAMA_SIZES
#define MISTRAL "\"model_type\":\"mistral\",\"num_key_value_heads\":2," LLAMA_SIZES
#define QWEN2   "\"model_type\":\"qwen2\",\"num_key_value_heads\":2," LLAMA_SIZES
#define QWEN3   "\"model_type\":\"qwen3\",\"num_key_value_heads\":2," LLAMA_SIZES
#define T5                                                                  \
    "\"model_type\":\"t5\",\"num_layers\":2,\"d_model\":8,\"num_heads\":2," \
    "\"d_kv\":4,\"d_ff\":16,\"vocab_size\":10,\"feed_forward_proj\":\"relu\""
#define VIT                                                                \
    "\"model_type\":\"vit\",\"num_hidden_layers\":2,\"hidden_size\":8,"    \
    "\"num_attention_heads\":2,\"intermediate_size\":16,\"image_size\":8," \
    "\"patch_size\":4"

static lipsc_config read(const char *fields) {
    char json[2048];
    lipsc_config c;
    lipsc_error err = {0};
    snprintf(json, sizeof json, "{%s}", fields);
    if (lipsc_config_parse(json, strlen(json), "config.json", LIPSC_PART_WHOLE, &c, &err))
        fail_msg("%s", err.text);
    return c;
}

/* The file is named first, and the sentence has every one of the words. */
static void refused(const char *fields, const char *first, const char *second) {
    char json[2048];
    lipsc_config c;
    lipsc_error err = {0};
    snprintf(json, sizeof json, "{%s}", fields);
    const lipsc_status status = lipsc_config_parse(json, strlen(json), "dir/config.json",
                                                   LIPSC_PART_WHOLE, &c, &err);
    if (!status) {
        lipsc_config_free(&c);
        fail_msg("accepted: %s", json);
    }
    if (strncmp(err.text, "dir/config.json: ", 17) || !strstr(err.text, first) ||
        !strstr(err.text, second))
        fail_msg("%s\n    gives: %s", json, err.text);
}

static void test_defaults(void **state) {
    (void)state;
    lipsc_config c = read(GPT2);
    assert_true(c.ffn == 32 && c.head_dim == 4 && c.norm_eps == 1e-5 && c.causal);
    assert_true(c.activation == LIPSC_ACT_GELU_TANH && c.scale == 0.5 && !c.scale_by_layer);
    lipsc_config_free(&c);
    c = read(BERT);
    assert_true(c.norm_eps == 1e-12 && c.activation == LIPSC_ACT_GELU && !c.causal);
    lipsc_config_free(&c);
    c = read(ROBERTA);
    assert_true(c.pad == 1);
    lipsc_config_free(&c);
    c = read(DISTILBERT);
    assert_true(c.norm_eps == 1e-12 && c.ffn == 16 && !c.types);
    lipsc_config_free(&c);
    c = read(LLAMA);
    assert_true(c.kv_heads == 4 && c.head_dim == 4 && c.rope[0].dim == 4);
    assert_true(fabs(c.rope[0].freq[1] - 0.01) < 1e-16);
    assert_true(c.norm_eps == 1e-6 && !c.qkv_bias && !c.out_bias && !c.mlp_bias);
    lipsc_config_free(&c);
    c = read(MISTRAL); /* as transformers has it: 4096 where the field is absent */
    assert_true(c.window == 4096 && c.sliding[0] && c.sliding[3]);
    lipsc_config_free(&c);
    c = read(QWEN2);
    assert_true(c.qkv_bias && !c.out_bias && !c.window && !c.sliding[3]);
    lipsc_config_free(&c);
    c = read(QWEN3);
    assert_true(c.head_dim == 128 && !c.qkv_bias);
    lipsc_config_free(&c);
    c = read(VIT);
    assert_true(c.positions == 5 && c.qkv_bias && c.channels == 3);
    lipsc_config_free(&c);
}

static void test_options(void **state) {
    (void)state;
    lipsc_config c = read(GPT2 ",\"n_inner\":20,\"activation_function\":\"relu\","
                               "\"scale_attn_weights\":false,\"layer_norm_epsilon\":1e-3,"
                               "\"scale_attn_by_inverse_layer_idx\":true");
    assert_true(c.ffn == 20 && c.activation == LIPSC_ACT_RELU && c.scale == 1 &&
                c.scale_by_layer && c.norm_eps == 1e-3);
    lipsc_config_free(&c);
    c = read(BERT ",\"is_decoder\":true,\"position_embedding_type\":\"absolute\"");
    assert_true(c.causal);
    lipsc_config_free(&c);
    c = read(LLAMA ",\"attention_bias\":true,\"mlp_bias\":true,\"head_dim\":6,"
                   "\"num_key_value_heads\":2,\"rope_theta\":500.0,\"rope_scaling\":null");
    assert_true(c.qkv_bias && c.out_bias && c.mlp_bias && c.head_dim == 6 &&
                c.kv_heads == 2);
    assert_true(fabs(c.rope[0].freq[1] - pow(500.0, -1.0 / 3.0)) < 1e-16);
    lipsc_config_free(&c);
    /* transformers 5 writes the rotary base inside an object */
    c = read(LLAMA ",\"rope_parameters\":{\"rope_theta\":700,\"rope_type\":\"default\"}");
    assert_true(fabs(c.rope[0].freq[1] - 1 / sqrt(700.0)) < 1e-16);
    lipsc_config_free(&c);
    c = read(MISTRAL ",\"sliding_window\":null");
    assert_true(!c.window && !c.sliding[0]);
    lipsc_config_free(&c);
    c = read(QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":5,"
                   "\"max_window_layers\":2");
    assert_true(c.window == 5 && !c.sliding[1] && c.sliding[2]);
    lipsc_config_free(&c);
    c = read(QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":5,\"layer_types\":["
                   "\"sliding_attention\",\"full_attention\",\"full_attention\","
                   "\"sliding_attention\"]");
    assert_true(c.sliding[0] && !c.sliding[1] && c.sliding[3]);
    lipsc_config_free(&c);
    c = read(VIT ",\"qkv_bias\":false,\"num_channels\":1");
    assert_true(!c.qkv_bias && c.channels == 1);
    lipsc_config_free(&c);
}

static void test_missing(void **state) {
    (void)state;
    refused("\"n_layer\":2", "'model_type'", "missing");
    refused("\"model_type\":\"mamba\"", "'model_type'", "mamba");
    refused("\"model_type\":7", "'model_type'", "7");
    refused("\"model_type\":\"gpt2\",\"n_layer\":2,\"n_head\":2", "'n_embd'", "missing");
    refused("\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":8,"
            "\"num_attention_heads\":2,\"vocab_size\":9",
            "'intermediate_size'", "missing");
    refused("\"model_type\":\"mistral\"," LLAMA_SIZES, "'num_key_value_heads'", "missing");
}

static void test_wrong_values(void **state) {
    (void)state;
    refused("\"model_type\":\"gpt2\",\"n_layer\":-2", "'n_layer'", "-2");
    refused("\"model_type\":\"gpt2\",\"n_layer\":\"two\"", "'n_layer'", "two");
    refused("\"model_type\":\"gpt2\",\"n_layer\":2.5", "'n_layer'", "2.5");
    refused("\"model_type\":\"gpt2\",\"n_layer\":99999999999", "'n_layer'", "99999999999");
    refused(GPT2 ",\"n_head\":3", "n_head", "duplicate");
    refused("\"model_type\":\"gpt2\",\"n_layer\":2,\"n_embd\":8,\"n_head\":3,"
            "\"n_positions\":16,\"vocab_size\":10",
            "n_embd = 8", "n_head = 3");
    refused(GPT2 ",\"layer_norm_epsilon\":-1", "'layer_norm_epsilon'", "-1");
    refused(GPT2 ",\"scale_attn_weights\":1", "'scale_attn_weights'", "true or false");
    refused(LLAMA ",\"num_key_value_heads\":3", "num_key_value_heads = 3",
            "does not divide");
    refused(LLAMA ",\"head_dim\":5", "head of 5", "rotary");
    /* its frequencies would be gigabytes of a file of 200 bytes */
    refused(LLAMA ",\"head_dim\":67108864", "67108864 components of a head", "most");
    refused("\"model_type\":\"llama\",\"num_hidden_layers\":2,\"hidden_size\":2,"
            "\"num_attention_heads\":6,\"intermediate_size\":8,\"vocab_size\":9",
            "hidden_size = 2", "num_attention_heads = 6");
    refused(LLAMA ",\"rope_theta\":0", "'rope_theta'", "positive");
    refused(QWEN2 ",\"layer_types\":[\"full_attention\"]", "'layer_types'", "4 names");
    refused(ROBERTA ",\"pad_token_id\":15", "'pad_token_id'", "positions");
    refused(VIT ",\"num_channels\":0", "'num_channels'", "0");
}

/* Counts that are no whole numbers would be cut off, and the mask be another one. */
static void test_counts(void **state) {
    (void)state;
    static const char window[] =
        QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":4,\"max_window_layers\":";
    static const char turns[] =
        "\"model_type\":\"smollm3\",\"num_key_value_heads\":2," LLAMA_SIZES
        ",\"no_rope_layer_interval\":";
    static const char buckets[] = T5 ",\"relative_attention_num_buckets\":";
    static const char *const bad[] = {"2.5", "1e300", "268435457"};
    static const char *const begin[] = {window, turns, buckets};
    static const char *const field[] = {"'max_window_layers'", "'no_rope_layer_interval'",
                                        "'relative_attention_num_buckets'"};
    for (size_t i = 0; i < 3; i++)
        for (size_t k = 0; k < 3; k++) {
            char fields[1024];
            snprintf(fields, sizeof fields, "%s%s", begin[i], bad[k]);
            refused(fields, field[i], "not supported");
        }
    lipsc_config c = read(QWEN2 ",\"use_sliding_window\":true,\"sliding_window\":4,"
                                "\"max_window_layers\":2.0");
    assert_false(c.sliding[1]);
    assert_true(c.sliding[2]);
    lipsc_config_free(&c);
    refused(LLAMA ",\"max_position_embeddings\":8,\"rope_scaling\":{\"rope_type\":"
                  "\"longrope\",\"short_factor\":[1,1],\"long_factor\":[1,1],"
                  "\"original_max_position_embeddings\":0.5}",
            "'rope_scaling'", "original_max_position_embeddings");
}

static void test_unsupported(void **state) {
    (void)state;
    refused(GPT2 ",\"activation_function\":\"mish\"", "'activation_function'", "mish");
    refused(GPT2 ",\"add_cross_attention\":true", "'add_cross_attention'", "not supported");
    refused(GPT2 ",\"pruned_heads\":{\"0\":[1]}", "'pruned_heads'", "not supported");
    refused(BERT ",\"position_embedding_type\":\"relative_key\"",
            "'position_embedding_type'", "relative_key");
    refused(LLAMA ",\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":8.0}",
            "'rope_scaling'", "'low_freq_factor' is missing");
    refused(LLAMA ",\"rope_scaling\":{\"type\":\"linear\"}", "'rope_scaling'",
            "'factor' is missing");
    refused(LLAMA ",\"rope_parameters\":{\"rope_theta\":1e4,\"rope_type\":\"yarn\"}",
            "'rope_parameters'", "original_max_position_embeddings");
    refused(LLAMA ",\"rope_parameters\":{\"rope_theta\":1e4,\"rope_type\":\"spiral\"}",
            "'rope_parameters'", "spiral");
    refused(LLAMA ",\"rope_parameters\":{\"rope_type\":\"default\"},\"rope_scaling\":{"
                  "\"type\":\"linear\",\"factor\":2.0}",
            "'rope_parameters'", "'rope_scaling' differ");
    refused(LLAMA ",\"rope_parameters\":{\"full_attention\":{\"rope_theta\":1e4}}",
            "'rope_parameters'", "full_attention");
    refused(LLAMA ",\"partial_rotary_factor\":0.5", "'partial_rotary_factor'", "0.5");
    refused(LLAMA ",\"attn_logit_softcapping\":50.0", "'attn_logit_softcapping'", "50.0");
    refused(LLAMA ",\"quantization_config\":{\"bits\":4}", "'quantization_config'", "bits");
    refused(LLAMA ",\"use_sliding_window\":true", "'use_sliding_window'", "not supported");
    refused(LLAMA ",\"is_causal\":false", "'is_causal'", "false");
    refused(QWEN2 ",\"layer_types\":[\"sliding_attention\",\"full_attention\","
                  "\"full_attention\",\"full_attention\"]",
            "layer 0", "sliding_window");
    refused(QWEN2 ",\"layer_types\":[\"linear_attention\",\"full_attention\","
                  "\"full_attention\",\"full_attention\"]",
            "'layer_types'", "linear_attention");
}

static void test_not_json(void **state) {
    (void)state;
    static const char *const bad[] = {"", "{", "[1]", "{\"model_type\":\"gpt2\",}", "\xff"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        lipsc_config c;
        lipsc_error err = {0};
        assert_int_equal(
            lipsc_config_parse(bad[i], strlen(bad[i]), "x", LIPSC_PART_WHOLE, &c, &err),
            LIPSC_E_FORMAT);
        assert_int_equal(strncmp(err.text, "x: ", 3), 0);
    }
}

#define ROPE_LONG                                                                        \
    ",\"max_position_embeddings\":64,\"rope_scaling\":{\"type\":\"longrope\","           \
    "\"short_factor\":[1,2],\"long_factor\":[3,4],\"original_max_position_embeddings\":" \
    "32}"

/* The ways in which transformers 5.22 reads a field; tools/mutate_configs.py found them. */
static void test_as_transformers(void **state) {
    (void)state;
    lipsc_config c = read("\"model_type\":\"gemma2\"," LLAMA_SIZES);
    assert_true(c.soft_cap == 50 && c.scale == 1.0 / 16);
    lipsc_config_free(&c);
    c = read("\"model_type\":\"gemma2\",\"attn_logit_softcapping\":null," LLAMA_SIZES);
    assert_true(c.soft_cap == 0);
    lipsc_config_free(&c);
    refused("\"model_type\":\"gemma2\",\"attn_logit_softcapping\":0," LLAMA_SIZES,
            "'attn_logit_softcapping'", "0");
    c = read("\"model_type\":\"gemma\",\"hidden_act\":\"gelu\"," LLAMA_SIZES);
    assert_true(c.activation == LIPSC_ACT_GELU_TANH);
    lipsc_config_free(&c);
    /* null is false, absent what the published code takes */
    c = read("\"model_type\":\"falcon\",\"parallel_attn\":null," LLAMA_SIZES);
    assert_true(!c.parallel);
    lipsc_config_free(&c);
    c = read("\"model_type\":\"falcon\"," LLAMA_SIZES);
    assert_true(c.parallel);
    lipsc_config_free(&c);
    /* a rotary base that the family has of its own */
    c = read("\"model_type\":\"mixtral\",\"num_key_value_heads\":2,"
             "\"num_local_experts\":4,\"num_experts_per_tok\":2," LLAMA_SIZES);
    assert_true(fabs(c.rope[0].freq[1] - 1e-3) < 1e-16 && c.norm_eps == 1e-5);
    lipsc_config_free(&c);
    refused("\"model_type\":\"gpt_oss\",\"num_key_value_heads\":2,"
            "\"num_local_experts\":4,\"num_experts_per_tok\":2," LLAMA_SIZES,
            "'rope_scaling'", "missing");
    refused("\"model_type\":\"gpt_neox\",\"head_dim\":6," LLAMA_SIZES, "'head_dim'", "6");
    /* layers behind a window are stretched as the others */
    c = read("\"model_type\":\"phi3\",\"sliding_window\":5,"
             "\"original_max_position_embeddings\":16" ROPE_LONG "," LLAMA_SIZES);
    assert_true(c.rope[0].factor == sqrt(1 + log(4) / log(16)) &&
                c.rope[1].factor == c.rope[0].factor && c.positions == 16);
    lipsc_config_free(&c);
    /* without it the factor of the angles would be a guess */
    refused(LLAMA ",\"max_position_embeddings\":8,\"rope_scaling\":{\"rope_type\":"
                  "\"longrope\",\"short_factor\":[1,1],\"long_factor\":[1,1],"
                  "\"original_max_position_embeddings\":0.5}",
            "'rope_scaling'", "original_max_position_embeddings");
}

static void refused_part(const char *json, lipsc_part part, const char *word) {
    lipsc_config c;
    lipsc_error err = {0};
    if (!lipsc_config_parse(json, strlen(json), "c", part, &c, &err))
        fail_msg("accepted: %s", json);
    if (!strstr(err.text, word)) fail_msg("no '%s' in: %s", word, err.text);
}

/* Models of two parts: what is left out is what the published code takes, and hostile
 * objects have their sentence. */
static void test_parts(void **state) {
    (void)state;
    static const char siglip[] = "{\"model_type\":\"siglip\",\"text_config\":{},"
                                 "\"vision_config\":{\"hidden_size\":24}}";
    lipsc_config c;
    lipsc_error err = {0};
    if (lipsc_config_parse(siglip, strlen(siglip), "c", LIPSC_PART_TEXT, &c, &err))
        fail_msg("%s", err.text);
    assert_true(c.vocab == 32000 && c.d == 768 && c.positions == 64 && !c.causal);
    lipsc_config_free(&c);
    if (lipsc_config_parse(siglip, strlen(siglip), "c", LIPSC_PART_VISION, &c, &err))
        fail_msg("%s", err.text);
    assert_true(c.d == 24 && c.positions == 196);
    lipsc_config_free(&c);
    refused_part(siglip, LIPSC_PART_WHOLE, "part text or vision");
    refused_part("{\"model_type\":\"gpt2\"}", LIPSC_PART_TEXT, "no text part");
    refused_part("{\"model_type\":\"clip\",\"text_config\":[]}", LIPSC_PART_TEXT,
                 "'text_config' is []");
    refused_part("{\"model_type\":\"clip\",\"text_config\":{\"model_type\":\"clip\"}}",
                 LIPSC_PART_TEXT, "not supported");
    refused_part("{\"model_type\":\"clip\",\"text_config\":{\"hidden_size\":8},"
                 "\"text_config_dict\":{\"hidden_size\":16}}",
                 LIPSC_PART_TEXT, "'text_config_dict'");
    refused_part("{\"model_type\":\"gpt_oss\",\"num_local_experts\":2,\"head_dim\":4,"
                 "\"quantization_config\":{\"quant_method\":\"awq\"},"
                 "\"num_experts_per_tok\":1,\"num_key_value_heads\":2," LLAMA_SIZES "}",
                 LIPSC_PART_WHOLE, "'quantization_config'");
}

/* Sizes as they were published. */
static void test_published(void **state) {
    (void)state;
    static const struct {
        const char *family, *size;
        size_t layers, d, heads, kv, head_dim, ffn, vocab, positions;
    } known[] = {{"gpt2", NULL, 12, 768, 12, 12, 64, 3072, 50257, 1024},
                 {"gpt2", "xl", 48, 1600, 25, 25, 64, 6400, 50257, 1024},
                 {"gpt2", "nano", 6, 192, 6, 6, 32, 768, 2048, 512},
                 {"bert", "", 12, 768, 12, 12, 64, 3072, 30522, 512},
                 {"roberta", NULL, 12, 768, 12, 12, 64, 3072, 50265, 514},
                 {"distilbert", NULL, 6, 768, 12, 12, 64, 3072, 30522, 512},
                 {"llama", "7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096},
                 {"mistral", NULL, 32, 4096, 32, 8, 128, 14336, 32000, 32768},
                 {"qwen2", NULL, 24, 896, 14, 2, 64, 4864, 151936, 131072},
                 {"qwen3", NULL, 28, 1024, 16, 8, 128, 3072, 151936, 40960},
                 {"vit", NULL, 12, 768, 12, 12, 64, 3072, 0, 197}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        const char *json =
            lipsc_published_config(known[i].family, strlen(known[i].family), known[i].size);
        assert_non_null(json);
        lipsc_config c;
        lipsc_error err = {0};
        if (lipsc_config_parse(json, strlen(json), known[i].family, LIPSC_PART_WHOLE, &c,
                               &err))
            fail_msg("%s", err.text);
        assert_true(c.layers == known[i].layers && c.d == known[i].d &&
                    c.heads == known[i].heads && c.kv_heads == known[i].kv &&
                    c.head_dim == known[i].head_dim && c.ffn == known[i].ffn &&
                    c.vocab == known[i].vocab && c.positions == known[i].positions);
        lipsc_config_free(&c);
    }
    assert_null(lipsc_published_config("gpt2", 4, "enormous"));
    assert_null(lipsc_published_config("gpt3", 4, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults), cmocka_unit_test(test_options),
        cmocka_unit_test(test_missing),  cmocka_unit_test(test_wrong_values),
        cmocka_unit_test(test_counts),   cmocka_unit_test(test_unsupported),
        cmocka_unit_test(test_not_json), cmocka_unit_test(test_as_transformers),
        cmocka_unit_test(test_parts),    cmocka_unit_test(test_published)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
