/* family_macros.h - parts of descriptions that several families share. */
#ifndef LIPSC_MODEL_FAMILY_MACROS_H
#define LIPSC_MODEL_FAMILY_MACROS_H

#include "model/family.h"

#define ALWAYS \
    { NULL, 1 }

/* A tensor with its bias: the roles follow each other. */
#define WITH_BIAS(role, name) [role] = name ".weight", [role + 1] = name ".bias"

/* Query, key, value and output under one prefix. */
#define ATTENTION(prefix, q, k, v, o)                                 \
    WITH_BIAS(LIPSC_QUERY, prefix q), WITH_BIAS(LIPSC_KEY, prefix k), \
        WITH_BIAS(LIPSC_VALUE, prefix v), WITH_BIAS(LIPSC_OUT, prefix o)

#define GATED_MLP(prefix)                                                             \
    WITH_BIAS(LIPSC_UP, prefix "up_proj"), WITH_BIAS(LIPSC_GATE, prefix "gate_proj"), \
        WITH_BIAS(LIPSC_DOWN, prefix "down_proj")

#define MLP(up, down) WITH_BIAS(LIPSC_UP, up), WITH_BIAS(LIPSC_DOWN, down)

#define USUAL_SIZES                                                                        \
    .layers = "num_hidden_layers", .width = "hidden_size", .heads = "num_attention_heads", \
    .ffn = "intermediate_size", .positions = "max_position_embeddings"

#endif
