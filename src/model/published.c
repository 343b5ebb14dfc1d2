/* published.c - configurations as their authors published them, for random:FAMILY[:SIZE].
 */
#include "model/config.h"

#include <string.h>

#define GPT2(layers, width, heads)                                            \
    "{\"model_type\":\"gpt2\",\"n_layer\":" layers ",\"n_embd\":" width       \
    ",\"n_head\":" heads                                                      \
    ",\"n_positions\":1024,\"vocab_size\":50257,\"layer_norm_epsilon\":1e-5," \
    "\"activation_function\":\"gelu_new\",\"initializer_range\":0.02}"

#define BERT(type, layers, width, heads, ffn, vocab, positions, types, pad, eps)           \
    "{\"model_type\":\"" type "\",\"num_hidden_layers\":" layers ",\"hidden_size\":" width \
    ",\"num_attention_heads\":" heads ",\"intermediate_size\":" ffn                        \
    ",\"vocab_size\":" vocab ",\"max_position_embeddings\":" positions                     \
    ",\"type_vocab_size\":" types ",\"pad_token_id\":" pad ",\"layer_norm_eps\":" eps      \
    ",\"hidden_act\":\"gelu\",\"initializer_range\":0.02}"

#define LLAMA(type, layers, width, heads, kv, ffn, vocab, positions, eps, theta, more)     \
    "{\"model_type\":\"" type "\",\"num_hidden_layers\":" layers ",\"hidden_size\":" width \
    ",\"num_attention_heads\":" heads ",\"num_key_value_heads\":" kv                       \
    ",\"intermediate_size\":" ffn ",\"vocab_size\":" vocab                                 \
    ",\"max_position_embeddings\":" positions ",\"rms_norm_eps\":" eps                     \
    ",\"rope_theta\":" theta more ",\"hidden_act\":\"silu\",\"initializer_range\":0.02}"

#define VIT(layers, width, heads, ffn)                                                \
    "{\"model_type\":\"vit\",\"num_hidden_layers\":" layers ",\"hidden_size\":" width \
    ",\"num_attention_heads\":" heads ",\"intermediate_size\":" ffn                   \
    ",\"image_size\":224,\"patch_size\":16,\"num_channels\":3,\"qkv_bias\":true,"     \
    "\"layer_norm_eps\":1e-12,\"hidden_act\":\"gelu\",\"initializer_range\":0.02}"

/* The first size of a family is its usual one. */
static const struct {
    const char *family, *size, *json;
} published[] = {
    {"gpt2", "small", GPT2("12", "768", "12")},
    {"gpt2", "medium", GPT2("24", "1024", "16")},
    {"gpt2", "large", GPT2("36", "1280", "20")},
    {"gpt2", "xl", GPT2("48", "1600", "25")},
    /* the shape of the small model that this project trained */
    {"gpt2", "nano",
     "{\"model_type\":\"gpt2\",\"n_layer\":6,\"n_embd\":192,\"n_head\":6,\"n_positions\":"
     "512,"
     "\"vocab_size\":2048,\"layer_norm_epsilon\":1e-5,\"activation_function\":\"gelu_new\","
     "\"initializer_range\":0.02}"},
    {"bert", "base",
     BERT("bert", "12", "768", "12", "3072", "30522", "512", "2", "0", "1e-12")},
    {"bert", "nano",
     BERT("bert", "6", "192", "6", "768", "2048", "512", "2", "0", "1e-12")},
    {"bert", "large",
     BERT("bert", "24", "1024", "16", "4096", "30522", "512", "2", "0", "1e-12")},
    {"roberta", "base",
     BERT("roberta", "12", "768", "12", "3072", "50265", "514", "1", "1", "1e-5")},
    {"roberta", "large",
     BERT("roberta", "24", "1024", "16", "4096", "50265", "514", "1", "1", "1e-5")},
    {"distilbert", "base",
     "{\"model_type\":\"distilbert\",\"n_layers\":6,\"dim\":768,\"n_heads\":12,"
     "\"hidden_dim\":3072,\"vocab_size\":30522,\"max_position_embeddings\":512,"
     "\"pad_token_id\":0,\"activation\":\"gelu\",\"initializer_range\":0.02}"},
    /* TinyLlama 1.1B and Llama 2 7B */
    {"llama", "1.1b",
     LLAMA("llama", "22", "2048", "32", "4", "5632", "32000", "2048", "1e-5", "10000", "")},
    {"llama", "7b",
     LLAMA("llama", "32", "4096", "32", "32", "11008", "32000", "4096", "1e-5", "10000",
           "")},
    {"mistral", "7b",
     LLAMA("mistral", "32", "4096", "32", "8", "14336", "32000", "32768", "1e-5", "10000",
           ",\"sliding_window\":4096")},
    {"qwen2", "0.5b",
     LLAMA("qwen2", "24", "896", "14", "2", "4864", "151936", "131072", "1e-6", "1000000",
           ",\"use_sliding_window\":false")},
    {"qwen3", "0.6b",
     LLAMA("qwen3", "28", "1024", "16", "8", "3072", "151936", "40960", "1e-6", "1000000",
           ",\"head_dim\":128,\"use_sliding_window\":false")},
    {"vit", "base", VIT("12", "768", "12", "3072")},
    {"vit", "large", VIT("24", "1024", "16", "4096")},
};

const char *lipsc_published_config(const char *family, size_t family_length,
                                   const char *size) {
    for (size_t i = 0; i < sizeof published / sizeof published[0]; i++) {
        if (strlen(published[i].family) != family_length ||
            strncmp(published[i].family, family, family_length))
            continue;
        if (!size || !*size || !strcmp(size, published[i].size)) return published[i].json;
    }
    return NULL;
}
