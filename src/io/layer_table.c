/* layer_table.c - the tensors and the metadata of layer files, as tables. */
#include "io/layer_record.h"

#include <stddef.h>

const char *const lipsc_layer_maps[] = {
    "heads", "attention", "norm-attention", "residual", "block", "model", NULL};
const char *const lipsc_layer_masks[] = {"none",  "causal", "sliding",
                                         "times", "local",  NULL};

const char *const lipsc_layer_bias_rules[] = {"none", "linear", "buckets", NULL};
const char *const lipsc_layer_norm_spans[] = {"head", "token", NULL};

const struct lipsc_extent_words lipsc_extent_words[] = {
    [LIPSC_ONE] = {"it must have", "number"},
    [LIPSC_TOKEN_COUNT] = {"X has", "row"},
    [LIPSC_TOKEN_WIDTH] = {"a token has", "number"},
    [LIPSC_QUERY_ROWS] = {"Q has", "row"},
    [LIPSC_KEY_ROWS] = {"K has", "row"},
    [LIPSC_VALUE_ROWS] = {"V has", "row"},
    [LIPSC_JOINED_WIDTH] = {"all heads together have", "number"},
    [LIPSC_OUTPUT_ROWS] = {"O has", "row"},
    [LIPSC_IMAGE_WIDTH] = {"an output token has", "number"},
    [LIPSC_SCORE_ROWS] = {"A has", "row"},
    [LIPSC_QUERY_NORM_WIDTH] = {"what is normed of queries has", "number"},
    [LIPSC_KEY_NORM_WIDTH] = {"what is normed of keys has", "number"},
    [LIPSC_ROTARY_PAIRS] = {"there are", "rotary pair"},
    [LIPSC_HEAD_COUNT] = {"there are", "head"},
    [LIPSC_BIAS_WIDTH] = {"a head's bias has", "number"},
    [LIPSC_PIXEL_SHAPE] = {"the image has", "number"},
};

void lipsc_layer_sizes(const lipsc_layer_record *record, size_t size[LIPSC_EXTENTS]) {
    const lipsc_layer *l = &record->layer;
    const size_t joined = l->heads * l->value_dim;
    size[LIPSC_ONE] = 1;
    size[LIPSC_TOKEN_COUNT] = record->input.n;
    size[LIPSC_TOKEN_WIDTH] = size[LIPSC_SCORE_ROWS] = l->d;
    size[LIPSC_QUERY_ROWS] = l->heads * l->key_dim;
    size[LIPSC_KEY_ROWS] = l->kv_heads * l->key_dim;
    size[LIPSC_VALUE_ROWS] = l->kv_heads * l->value_dim;
    size[LIPSC_JOINED_WIDTH] = joined;
    size[LIPSC_OUTPUT_ROWS] = l->out_dim;
    size[LIPSC_IMAGE_WIDTH] = !l->Q ? l->d : l->O ? l->out_dim : joined;
    size[LIPSC_QUERY_NORM_WIDTH] = l->key_dim * (l->norm_whole ? l->heads : 1);
    size[LIPSC_KEY_NORM_WIDTH] = l->key_dim * (l->norm_whole ? l->kv_heads : 1);
    size[LIPSC_ROTARY_PAIRS] = l->rotary_dim / 2;
    size[LIPSC_HEAD_COUNT] = l->heads;
    size[LIPSC_BIAS_WIDTH] = l->bias_rule == LIPSC_BIAS_BUCKETS ? l->bias_buckets : 1;
    size[LIPSC_PIXEL_SHAPE] = 0;
}

#define AT(member) offsetof(lipsc_layer_record, member)

const lipsc_layer_tensor lipsc_layer_tensors[] = {
#define LIPSC_EXPAND(id, name, rows, columns, member, use) \
    {name, LIPSC_##rows, LIPSC_##columns, AT(member), LIPSC_##use},
    LIPSC_TENSOR_LIST(LIPSC_EXPAND)
#undef LIPSC_EXPAND
};

const lipsc_layer_note lipsc_layer_notes[] = {
#define LIPSC_EXPAND(id, key, kind, member, with, names) \
    {key, LIPSC_NOTE_##kind, AT(member), AT(with), names},
    LIPSC_NOTE_LIST(LIPSC_EXPAND)
#undef LIPSC_EXPAND
};
