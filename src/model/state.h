/* state.h - what the files of model/ share: the open model and its weights, made ready when
 * they are first needed. */
#ifndef LIPSC_MODEL_STATE_H
#define LIPSC_MODEL_STATE_H

#include "attn/attn.h"
#include "model/model.h"
#include "model/tensors.h"

#include <pthread.h>

/* A norm's gain and bias (NULL: none) in device memory. */
typedef struct {
    lipsc_buffer gain, bias;
} lipsc_norm;

/* Dense layers of an MLP and, behind them, the same the other way round. */
typedef enum {
    LIPSC_DENSE_UP,
    LIPSC_DENSE_GATE,
    LIPSC_DENSE_DOWN,
    LIPSC_DENSE_UP_BACK,
    LIPSC_DENSE_GATE_BACK,
    LIPSC_DENSE_DOWN_BACK,
    LIPSC_DENSE_COUNT,
    LIPSC_ROUTER_FORTH = LIPSC_DENSE_COUNT, /* only of experts */
    LIPSC_ROUTER_BACK,
    LIPSC_DENSE_OF_EXPERT
} lipsc_dense;

/* How large a dense layer is: |W|_F, a bound of |W|, |b|; zero: not known yet. */
typedef struct {
    double frobenius, spectral, bias;
} lipsc_dense_size;

/* The two things that a block adds to its input. */
typedef enum { LIPSC_BRANCH_ATTN, LIPSC_BRANCH_MLP, LIPSC_BRANCHES } lipsc_branch;

/* One block.  Arrays of two are indexed by lipsc_dtype. */
typedef struct {
    int has_attention;
    lipsc_layer layer;     /* all heads, with O; Q is NULL until it is loaded */
    double *storage;       /* its arrays                                      */
    double **out_slices;   /* (2 heads) O of one head, without and with the
                            * output projection, or NULL                      */
    lipsc_packed **packed; /* (2 (heads + 1)): see lipsc_model_packed       */
    void *dense[2][LIPSC_DENSE_COUNT];
    double *ahead[LIPSC_DENSE_UP_BACK]; /* dense layers that are read, not made yet */
    void **experts[2]; /* (experts, LIPSC_DENSE_OF_EXPERT) or NULL        */
    lipsc_norm norm[2][LIPSC_NORM_COUNT];
    lipsc_buffer factor[2][LIPSC_BRANCHES];
    lipsc_dense_size dense_size[LIPSC_DENSE_UP_BACK]; /* see rounding.c */
    size_t holders;                                   /* see hold.c     */
    uint64_t bytes;                                   /* of its weights */
} lipsc_block;

struct lipsc_model {
    lipsc_model_info info;
    char shown[164]; /* the spec, for sentences */
    lipsc_part part;
    lipsc_config config;
    lipsc_checkpoint *files;
    lipsc_tensors tensors;
    const lipsc_device *home; /* whose memory dense layers, norms and factors are in */
    pthread_mutex_t lock;     /* of everything below */
    lipsc_block *blocks;
    uint64_t ready; /* bytes of the weights of all blocks */
    uint64_t ahead; /* and of what is read ahead          */
    lipsc_norm embed_norm[2], final_norm[2];
};

/* Which tokens see which in a layer: the model's own mask, or the override. */
lipsc_status lipsc_model_mask(const lipsc_model *model, size_t layer,
                              const lipsc_mask *mask_override, lipsc_mask *mask,
                              lipsc_error *err);

/* Weights of `bytes` bytes were made ready for a block; the lock is held. */
void lipsc_model_count(lipsc_model *model, size_t layer, uint64_t bytes);

/* What was read ahead of a dense layer, or NULL; the lock is held. */
double *lipsc_model_take_ahead(lipsc_model *model, lipsc_block *block, int what);

/* Each is made once and then shared, as long as somebody holds the block; all may be
 * called from several threads. */
lipsc_status lipsc_model_packed(lipsc_model *model, size_t layer, long head,
                                int with_output, lipsc_packed **out, lipsc_error *err);
lipsc_status lipsc_model_dense(lipsc_model *model, size_t layer, lipsc_dense which,
                               lipsc_dtype dtype, const void **out, lipsc_error *err);
/* The same of one expert; the router stands with expert 0. */
lipsc_status lipsc_model_expert(lipsc_model *model, size_t layer, lipsc_dense which,
                                size_t expert, lipsc_dtype dtype, const void **out,
                                lipsc_error *err);
/* *out NULL: the layer has no norm there. */
lipsc_status lipsc_model_norm(lipsc_model *model, size_t layer, lipsc_norm_place place,
                              lipsc_dtype dtype, const lipsc_norm **out, lipsc_error *err);
/* (d) factors of what a branch adds; *out nowhere: none. */
lipsc_status lipsc_model_factor(lipsc_model *model, size_t layer, lipsc_branch branch,
                                lipsc_dtype dtype, lipsc_buffer *out, lipsc_error *err);
/* *out NULL: none of the width of the blocks. */
lipsc_status lipsc_model_embed_norm(lipsc_model *model, lipsc_dtype dtype,
                                    const lipsc_norm **out, lipsc_error *err);
/* *out NULL: the family's last hidden state has no norm of its own. */
lipsc_status lipsc_model_final_norm(lipsc_model *model, lipsc_dtype dtype,
                                    const lipsc_norm **out, lipsc_error *err);
void lipsc_model_weights_free(lipsc_model *model); /* hold.c */

/* attention.c: layer `layer` with all heads or one; the lock is held. */
/* Reads the attention of a layer in advance, several layers side by side: the lock is not
 * held, and what fails is said by who asks for it. */
void lipsc_attention_warm(lipsc_model *model, size_t layer);
lipsc_status lipsc_attention_layer(lipsc_model *model, size_t layer, long head,
                                   int with_output, lipsc_layer *out, lipsc_error *err);

/* LIPSC_E_NOMEM, said of the weights and of a window of n tokens. */
lipsc_status lipsc_short_of_weights(const lipsc_model *model, lipsc_error *err);
lipsc_status lipsc_short_of_tokens(const lipsc_model *model, size_t n, lipsc_error *err);

/* A whole tensor in double; *out stays NULL when the model has none in that role. */
lipsc_status lipsc_model_load(const lipsc_model *model, lipsc_role role, size_t layer,
                              double **out, lipsc_error *err);

/* A matrix of the MLP in double, or its bias; what: LIPSC_DENSE_UP, _GATE or _DOWN. */
lipsc_status lipsc_model_load_mlp(const lipsc_model *model, size_t layer, int what,
                                  int bias, double **out, lipsc_error *err);

/* The same of one expert; *transposed: stored (in, out). */
lipsc_status lipsc_model_load_expert(const lipsc_model *model, size_t layer, size_t expert,
                                     int what, int bias, double **out, int *transposed,
                                     lipsc_error *err);

/* Whether the output of a block is finite: forward.c. */
lipsc_status lipsc_acts_check(const lipsc_model *model, size_t count, const double *output,
                              size_t layer, lipsc_error *err);
lipsc_status lipsc_acts_check_there(const lipsc_model *model, const lipsc_space *space,
                                    size_t count, lipsc_buffer output, size_t layer,
                                    lipsc_error *err);

/* ---- Input of block 0, its norm included: embed.c.  x (n, d) host doubles. ---- */
lipsc_status lipsc_embed_ids(lipsc_model *model, size_t n, const uint32_t *ids, double *x,
                             lipsc_error *err);
lipsc_status lipsc_embed_pixels(lipsc_model *model, const size_t shape[3],
                                const double *pixels, double *x, lipsc_error *err);

#endif
