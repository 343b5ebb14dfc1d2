/* layer_record.h - all that a layer file can say, as one struct; one list of its tensors
 * and one of its metadata, by which it is written and read.
 *
 * Something new that a layer can have is a member of lipsc_layer_record and a line of
 * LIPSC_TENSOR_LIST or LIPSC_NOTE_LIST. */
#ifndef LIPSC_IO_LAYER_RECORD_H
#define LIPSC_IO_LAYER_RECORD_H

#include "io/safetensors.h"

/* Names, each list ended by NULL; maps in the order of lipsc_map_kind, masks in that of
 * lipsc_mask. */
enum {
    LIPSC_FILE_HEADS,
    LIPSC_FILE_ATTENTION,
    LIPSC_FILE_NORM_ATTENTION,
    LIPSC_FILE_RESIDUAL,
    LIPSC_FILE_BLOCK,
    LIPSC_FILE_MODEL
};
extern const char *const lipsc_layer_maps[], *const lipsc_layer_masks[],
                                                 *const lipsc_layer_norm_spans[],
                                                     *const lipsc_layer_bias_rules[];

/* Absent arrays and texts are NULL. */
typedef struct {
    lipsc_layer layer; /* with its defaults resolved; only d for the maps behind
                        * attention, which are those of a model                      */
    lipsc_input input; /* where the map is differentiated                            */
    int map;           /* LIPSC_FILE_...                                             */
    const char *model, *model_hash;   /* where the layer comes from                  */
    const char *place, *head;         /* its layer in the model, its head or "all"   */
    const char *mask_override;        /* the same maps: a mask in place of the model's */
    const char *text_hash, *ids_hash; /* of the whole text, of `ids`                 */
    const char *dtype;                /* of the search                               */
    const double *ids;                /* (n) the tokens                              */
    const double *pixels;             /* or the image                                */
    size_t pixel_shape[3];
    const double *sigma, *u, *v; /* (1), (n, width), (n, d): the direction found     */
} lipsc_layer_record;

/* Sizes that tensors share. */
typedef enum {
    LIPSC_ONE,
    LIPSC_TOKEN_COUNT,
    LIPSC_TOKEN_WIDTH,
    LIPSC_QUERY_ROWS,
    LIPSC_KEY_ROWS,
    LIPSC_VALUE_ROWS,
    LIPSC_JOINED_WIDTH,
    LIPSC_OUTPUT_ROWS,
    LIPSC_IMAGE_WIDTH, /* of an output token, with or without O */
    LIPSC_SCORE_ROWS,  /* of A                                  */
    LIPSC_QUERY_NORM_WIDTH,
    LIPSC_KEY_NORM_WIDTH,
    LIPSC_ROTARY_PAIRS,
    LIPSC_HEAD_COUNT,
    LIPSC_BIAS_WIDTH,  /* of a row of score_bias                 */
    LIPSC_PIXEL_SHAPE, /* three sizes of their own              */
    LIPSC_EXTENTS,
    LIPSC_VECTOR = LIPSC_EXTENTS /* in place of columns */
} lipsc_extent_of;

/* has[i] and unit[i]: "X has", "row" for the sentence "X has 12 rows". */
extern const struct lipsc_extent_words {
    const char *has, *unit;
} lipsc_extent_words[LIPSC_EXTENTS];

void lipsc_layer_sizes(const lipsc_layer_record *record, size_t size[LIPSC_EXTENTS]);

/* Who wants a tensor. */
typedef enum {
    LIPSC_FOR_LAYER,
    LIPSC_FOR_LAYER_QK, /* only where there is no A */
    LIPSC_FOR_LAYER_A,  /* only with A              */
    LIPSC_FOR_CHECK     /* not needed by a layer    */
} lipsc_tensor_use;

/* The one list of tensors: identifier, name in the file, rows, columns, member of
 * lipsc_layer_record, use. */
#define LIPSC_TENSOR_LIST(T)                                                          \
    T(X, "X", TOKEN_COUNT, TOKEN_WIDTH, input.X, FOR_LAYER)                           \
    T(Q, "Q", QUERY_ROWS, TOKEN_WIDTH, layer.Q, FOR_LAYER_QK)                         \
    T(K, "K", KEY_ROWS, TOKEN_WIDTH, layer.K, FOR_LAYER_QK)                           \
    T(V, "V", VALUE_ROWS, TOKEN_WIDTH, layer.V, FOR_LAYER)                            \
    T(A, "A", SCORE_ROWS, TOKEN_WIDTH, layer.Q, FOR_LAYER_A)                          \
    T(O, "O", OUTPUT_ROWS, JOINED_WIDTH, layer.O, FOR_LAYER)                          \
    T(BQ, "bq", QUERY_ROWS, VECTOR, layer.bq, FOR_LAYER_QK)                           \
    T(BK, "bk", KEY_ROWS, VECTOR, layer.bk, FOR_LAYER_QK)                             \
    T(BV, "bv", VALUE_ROWS, VECTOR, layer.bv, FOR_LAYER)                              \
    T(BO, "bo", OUTPUT_ROWS, VECTOR, layer.bo, FOR_LAYER)                             \
    T(C, "c", SCORE_ROWS, VECTOR, layer.bq, FOR_LAYER_A)                              \
    T(WEIGHTS, "weights", TOKEN_COUNT, VECTOR, input.weights, FOR_LAYER)              \
    T(TIMES, "times", TOKEN_COUNT, VECTOR, input.times, FOR_LAYER)                    \
    T(POSITIONS, "positions", TOKEN_COUNT, VECTOR, input.positions, FOR_LAYER)        \
    T(ROTARY_FREQ, "rotary_freq", ROTARY_PAIRS, VECTOR, layer.rotary_freq, FOR_LAYER) \
    T(Q_NORM, "q_norm", QUERY_NORM_WIDTH, VECTOR, layer.q_gain, FOR_LAYER)            \
    T(K_NORM, "k_norm", KEY_NORM_WIDTH, VECTOR, layer.k_gain, FOR_LAYER)              \
    T(SCORE_BIAS, "score_bias", HEAD_COUNT, BIAS_WIDTH, layer.score_bias, FOR_LAYER)  \
    T(SINKS, "sinks", HEAD_COUNT, VECTOR, layer.sinks, FOR_LAYER)                     \
    T(SIGMA, "sigma", ONE, VECTOR, sigma, FOR_CHECK)                                  \
    T(DIRECTION, "v", TOKEN_COUNT, TOKEN_WIDTH, v, FOR_CHECK)                         \
    T(IMAGE, "u", TOKEN_COUNT, IMAGE_WIDTH, u, FOR_CHECK)                             \
    T(IDS, "ids", TOKEN_COUNT, VECTOR, ids, FOR_CHECK)                                \
    T(PIXELS, "pixel_values", PIXEL_SHAPE, VECTOR, pixels, FOR_CHECK)

enum {
#define LIPSC_EXPAND(id, name, rows, columns, member, use) LIPSC_T_##id,
    LIPSC_TENSOR_LIST(LIPSC_EXPAND)
#undef LIPSC_EXPAND
        LIPSC_TENSORS
};

typedef struct {
    const char *name;
    lipsc_extent_of rows, columns;
    size_t at; /* offset of its pointer in lipsc_layer_record */
    lipsc_tensor_use use;
} lipsc_layer_tensor;

extern const lipsc_layer_tensor lipsc_layer_tensors[LIPSC_TENSORS];

typedef enum {
    LIPSC_NOTE_TEXT,     /* const char *                              */
    LIPSC_NOTE_COUNT,    /* size_t from 0 on; 0: not said             */
    LIPSC_NOTE_FACTOR,   /* double other than zero; 0: not said       */
    LIPSC_NOTE_POSITIVE, /* double, not negative                      */
    LIPSC_NOTE_NAME      /* int: place in `names`                     */
} lipsc_note_kind;

/* The one list of metadata: identifier, key in the file, kind, member, written where this
 * pointer of the record is not NULL, names. */
#define LIPSC_NOTE_LIST(N)                                                                \
    N(HEADS, "heads", COUNT, layer.heads, layer.Q, NULL)                                  \
    N(KV_HEADS, "kv_heads", COUNT, layer.kv_heads, layer.Q, NULL)                         \
    N(MASK, "mask", NAME, layer.mask, layer.Q, lipsc_layer_masks)                         \
    N(WINDOW, "window", COUNT, layer.window, layer.Q, NULL)                               \
    N(SCALE, "scale", FACTOR, layer.scale, layer.Q, NULL)                                 \
    N(NORM_EPS, "norm_eps", POSITIVE, layer.norm_eps, layer.Q, NULL)                      \
    N(NORM_SPAN, "norm_span", NAME, layer.norm_whole, layer.Q, lipsc_layer_norm_spans)    \
    N(SOFT_CAP, "soft_cap", POSITIVE, layer.soft_cap, layer.Q, NULL)                      \
    N(BIAS_RULE, "bias_rule", NAME, layer.bias_rule, layer.score_bias,                    \
      lipsc_layer_bias_rules)                                                             \
    N(BIAS_BUCKETS, "bias_buckets", COUNT, layer.bias_buckets, layer.score_bias, NULL)    \
    N(BIAS_DISTANCE, "bias_distance", COUNT, layer.bias_distance, layer.score_bias, NULL) \
    N(MAP, "map", NAME, map, input.X, lipsc_layer_maps)                                   \
    N(MODEL, "model", TEXT, model, model, NULL)                                           \
    N(MODEL_HASH, "model_hash", TEXT, model_hash, model_hash, NULL)                       \
    N(LAYER, "layer", TEXT, place, place, NULL)                                           \
    N(HEAD, "head", TEXT, head, head, NULL)                                               \
    N(MASK_OVERRIDE, "mask_override", TEXT, mask_override, mask_override, NULL)           \
    N(TEXT_HASH, "text_hash", TEXT, text_hash, text_hash, NULL)                           \
    N(IDS_HASH, "ids_hash", TEXT, ids_hash, ids_hash, NULL)                               \
    N(DTYPE, "dtype", TEXT, dtype, dtype, NULL)

enum {
#define LIPSC_EXPAND(id, key, kind, member, with, names) LIPSC_N_##id,
    LIPSC_NOTE_LIST(LIPSC_EXPAND)
#undef LIPSC_EXPAND
        LIPSC_NOTES
};

typedef struct {
    const char *key;
    lipsc_note_kind kind;
    size_t at;                /* offset in lipsc_layer_record                  */
    size_t with;              /* written where the pointer there is not NULL   */
    const char *const *names; /* LIPSC_NOTE_NAME                               */
} lipsc_layer_note;

extern const lipsc_layer_note lipsc_layer_notes[LIPSC_NOTES];

static inline int lipsc_mask_has_window(lipsc_mask mask) {
    return mask == LIPSC_MASK_SLIDING || mask == LIPSC_MASK_LOCAL;
}

/* ---- Writing: layer_write.c ---- */

/* Writes what is there, in F64, whole or not at all. */
lipsc_status lipsc_layer_write(const char *path, const lipsc_layer_record *record,
                               lipsc_error *err);

/* A layer (resolved) and its input: the map is heads or attention by its O. */
lipsc_layer_record lipsc_layer_record_of(const lipsc_layer *layer,
                                         const lipsc_input *input);

/* ---- Reading: layer_notes.c, layer_file.c ---- */

/* Metadata into *record, whose texts point into st.  said[i]: note i is there.  Refuses
 * what is malformed and, where the file names its schema, keys that are not known. */
lipsc_status lipsc_layer_read_notes(const lipsc_st *st, lipsc_layer_record *record,
                                    unsigned char said[LIPSC_NOTES], lipsc_error *err);

/* Every option that says something else than the file is refused by its name; those that
 * the file leaves open are taken over into record->layer. */
lipsc_status lipsc_layer_take_options(const lipsc_st *st,
                                      const lipsc_layer_options *options,
                                      const unsigned char said[LIPSC_NOTES],
                                      lipsc_layer_record *record, lipsc_error *err);

#endif
