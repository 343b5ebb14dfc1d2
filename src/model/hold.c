/* hold.c - how long the weights of a block stay in memory.
 *
 * They are made ready from the mapped file when they are first needed.  Whoever works with
 * them holds the block.  When nobody does any more, they stay for the next one as long as
 * all that is ready takes no more than `most_idle`; beyond that they are freed, so that a
 * large model costs the blocks that are worked with and a small one is unpacked once. */
#define _POSIX_C_SOURCE 200809L /* pthread_mutex_t */
#include "model/state.h"

#include "attn/turned.h"
#include "core/error.h"
#include "core/mem.h"

#include <string.h>

static const uint64_t most_idle = UINT64_C(256) << 20; /* bytes */

void lipsc_model_count(lipsc_model *m, size_t layer, uint64_t bytes) {
    m->blocks[layer].bytes += bytes;
    m->ready += bytes;
}

static void free_norm(const lipsc_space *space, lipsc_norm *norm) {
    lipsc_space_release(space, norm->gain);
    lipsc_space_release(space, norm->bias);
}

static void free_block(lipsc_model *m, lipsc_block *block) {
    const lipsc_device_ops *ops = lipsc_device_table(m->home);
    const size_t heads = m->config.heads;
    for (size_t i = 0; block->packed && i < 2 * (heads + 1); i++)
        lipsc_packed_free(block->packed[i]);
    for (size_t h = 0; block->out_slices && h < 2 * heads; h++)
        lipsc_release(block->out_slices[h]);
    for (int t = 0; t < 2; t++) {
        const lipsc_space *space = lipsc_device_space(m->home, (lipsc_dtype)t);
        for (int i = 0; i < LIPSC_DENSE_COUNT; i++)
            ops->linear_free(m->home, block->dense[t][i]);
        for (size_t i = 0;
             block->experts[t] && i < m->config.experts * LIPSC_DENSE_OF_EXPERT; i++)
            ops->linear_free(m->home, block->experts[t][i]);
        lipsc_release(block->experts[t]);
        for (int i = 0; i < LIPSC_NORM_COUNT; i++) free_norm(space, &block->norm[t][i]);
        for (int i = 0; i < LIPSC_BRANCHES; i++)
            lipsc_space_release(space, block->factor[t][i]);
    }
    for (int what = 0; what < LIPSC_DENSE_UP_BACK; what++)
        lipsc_release(lipsc_model_take_ahead(m, block, what));
    lipsc_release(block->packed);
    lipsc_release(block->out_slices);
    lipsc_release(block->storage);
}

/* Frees what is ready; what is known of the block stays. */
static void empty_block(lipsc_model *m, lipsc_block *block) {
    lipsc_block empty = {.has_attention = block->has_attention};
    memcpy(empty.dense_size, block->dense_size, sizeof empty.dense_size);
    free_block(m, block);
    m->ready -= block->bytes;
    *block = empty;
}

void lipsc_model_hold(lipsc_model *m, size_t layer) {
    pthread_mutex_lock(&m->lock);
    m->blocks[layer].holders++;
    pthread_mutex_unlock(&m->lock);
}

void lipsc_model_let_go(lipsc_model *m, size_t layer) {
    pthread_mutex_lock(&m->lock);
    lipsc_block *block = &m->blocks[layer];
    if (--block->holders == 0 && m->ready > most_idle) empty_block(m, block);
    pthread_mutex_unlock(&m->lock);
}

static void free_ends(lipsc_model *m) {
    for (int t = 0; t < 2; t++) {
        free_norm(lipsc_device_space(m->home, (lipsc_dtype)t), &m->embed_norm[t]);
        free_norm(lipsc_device_space(m->home, (lipsc_dtype)t), &m->final_norm[t]);
        m->embed_norm[t] = m->final_norm[t] = (lipsc_norm){0};
    }
}

void lipsc_model_weights_free(lipsc_model *m) {
    for (size_t l = 0; l < m->config.layers; l++) free_block(m, &m->blocks[l]);
    free_ends(m);
}

/* The lock is held. */
static lipsc_status move_home(lipsc_model *m, const lipsc_device *device,
                              lipsc_error *err) {
    for (size_t l = 0; l < m->config.layers; l++)
        if (m->blocks[l].holders)
            return lipsc_fail(
                err, LIPSC_E_ARG, "%s: block %zu is in use on %s and cannot move to %s",
                m->shown, l, lipsc_device_name(m->home), lipsc_device_name(device));
    for (size_t l = 0; l < m->config.layers; l++) empty_block(m, &m->blocks[l]);
    free_ends(m);
    return LIPSC_OK;
}

lipsc_status lipsc_model_use(lipsc_model *m, const lipsc_device *device, lipsc_error *err) {
    const lipsc_device *home = lipsc_device_home(lipsc_device_dense(device));
    lipsc_status status = LIPSC_OK;
    pthread_mutex_lock(&m->lock);
    if (home != m->home) status = move_home(m, device, err);
    if (!status) m->home = home;
    pthread_mutex_unlock(&m->lock);
    return status;
}

/* ---- How much that is --------------------------------------------------------------- */

static uint64_t count_numbers(const lipsc_config *c, size_t layer, int first, int end) {
    uint64_t sum = 0;
    lipsc_tensor tensor;
    for (int role = first; role < end; role++)
        if (lipsc_tensor_describe(c, (lipsc_role)role, layer, &tensor))
            sum += tensor.count * lipsc_tensor_copies(c, (lipsc_role)role);
    return sum;
}

/* Attention is kept as it is and packed both ways round, where it is solved for in other
 * coordinates (attn/turned.h) once more, with half as many numbers to turn back; an MLP
 * packed forwards and, where it is differentiated, backwards; what is differentiated in f32
 * is in double as well. */
uint64_t lipsc_model_block_bytes(const lipsc_model *m, lipsc_map_kind map,
                                 lipsc_dtype dtype) {
    const uint64_t item = lipsc_device_space(m->home, dtype)->item;
    const uint64_t judge = dtype == LIPSC_F64 ? 0 : sizeof(double);
    const int mlp = map == LIPSC_MAP_BLOCK || map == LIPSC_MAP_MODEL;
    const int turns = (map == LIPSC_MAP_ATTENTION || map == LIPSC_MAP_HEADS) &&
                      lipsc_width_turns(m->home, dtype, m->config.d);
    const uint64_t there = turns ? sizeof(double) + sizeof(double) / 2 + 2 * item : 0;
    uint64_t largest = 0;
    for (size_t l = 0; l < m->config.layers; l++) {
        const uint64_t bytes =
            count_numbers(&m->config, l, LIPSC_LAYER_ROLES, LIPSC_MLP_ROLES) *
                (sizeof(double) + 2 * (item + judge) + there) +
            count_numbers(&m->config, l, LIPSC_MLP_ROLES, LIPSC_ROLES) *
                (mlp ? 2 * (item + judge) : item);
        if (bytes > largest) largest = bytes;
    }
    return largest;
}

uint64_t lipsc_model_reading_bytes(const lipsc_model *m) {
    const lipsc_config *c = &m->config;
    uint64_t largest = 0;
    lipsc_tensor tensor;
    for (size_t l = 0; l < c->layers; l++)
        for (int role = LIPSC_LAYER_ROLES; role < LIPSC_ROLES; role++) {
            if (!lipsc_tensor_describe(c, (lipsc_role)role, l, &tensor)) continue;
            const int stacked = c->experts && tensor.ndim == 3; /* read one by one */
            const uint64_t count = tensor.count / (stacked ? c->experts : 1);
            if (count > largest) largest = count;
        }
    return largest * sizeof(double);
}
