/* model.c - opens a folder, or a random model, and checks that files and configuration
 * agree. */
#define _POSIX_C_SOURCE 200809L /* pthread_mutex_t, stat */
#include "model/state.h"

#include "core/error.h"
#include "core/mem.h"
#include "io/builtin.h"
#include "io/mapfile.h"
#include "io/safetensors.h"
#include "io/show.h"
#include "model/gguf_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- The configuration and the files ------------------------------------------------ */

static lipsc_status read_config(lipsc_model *m, const char *json, size_t size,
                                const char *name, lipsc_sha256 *sha, lipsc_error *err) {
    static const char *const marks[] = {"", "text part", "vision part"};
    lipsc_sha256_add(sha, json, size);
    lipsc_sha256_add(sha, marks[m->part], strlen(marks[m->part]));
    return lipsc_config_parse(json, size, name, m->part, &m->config, err);
}

static lipsc_status read_config_file(lipsc_model *m, const char *dir, lipsc_sha256 *sha,
                                     lipsc_error *err) {
    lipsc_mapfile map;
    char *path = lipsc_path_join(dir, "config.json");
    if (!path) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a model");
    lipsc_status status = lipsc_mapfile_open(path, &map, err);
    if (!status) {
        status = read_config(m, (const char *)map.data, map.size, path, sha, err);
        lipsc_mapfile_close(&map);
    }
    lipsc_release(path);
    return status;
}

/* FAMILY[:SIZE], or a folder whose configuration is taken */
static lipsc_status read_random(lipsc_model *m, const char *rest, lipsc_sha256 *sha,
                                lipsc_error *err) {
    const char *colon = strchr(rest, ':');
    const size_t length = colon ? (size_t)(colon - rest) : strlen(rest);
    const char *json = lipsc_published_config(rest, length, colon ? colon + 1 : NULL);
    lipsc_status status;
    if (json)
        status = read_config(m, json, strlen(json), m->shown, sha, err);
    else if (lipsc_published_config(rest, length, NULL))
        status =
            lipsc_fail(err, LIPSC_E_ARG, "%s: no published size of that name", m->shown);
    else if (strchr(rest, '/') || strchr(rest, '.'))
        status = read_config_file(m, rest, sha, err);
    else {
        status = read_config_file(m, rest, sha, err);
        if (status == LIPSC_E_IO)
            status = lipsc_fail(err, LIPSC_E_ARG,
                                "%s: neither a family (gpt2, bert, roberta, distilbert, "
                                "llama, mistral, qwen2, qwen3, vit) nor a folder with "
                                "config.json",
                                m->shown);
    }
    if (!status && m->config.sinusoidal)
        status =
            lipsc_fail(err, LIPSC_E_FORMAT,
                       "%s: field 'sinusoidal_pos_embds' is true, which random weights "
                       "do not support",
                       m->shown);
    uint8_t seed[8];
    for (int i = 0; i < 8; i++) seed[i] = (uint8_t)(m->tensors.seed >> 8 * i);
    lipsc_sha256_add(sha, "random", 6);
    lipsc_sha256_add(sha, seed, sizeof seed);
    return status;
}

/* ---- Which tensors are there -------------------------------------------------------- */

/* Checks the tensors first .. end-1 of a layer that are there, or with `all` that should
 * be; *complete is whether none is absent. */
static lipsc_status check_roles(const lipsc_model *m, size_t layer, int first, int end,
                                int all, int *complete, lipsc_error *err) {
    *complete = 1;
    for (int role = first; role < end; role++) {
        const size_t copies = lipsc_tensor_copies(&m->config, (lipsc_role)role);
        lipsc_tensor tensor;
        for (size_t e = 0; e < copies; e++) {
            if (!lipsc_tensor_expert(&m->config, (lipsc_role)role, layer, e, &tensor))
                break;
            const int there = lipsc_tensors_has(&m->tensors, &tensor);
            if (there || all) {
                const lipsc_status status = lipsc_tensors_check(&m->tensors, &tensor, err);
                if (status) return status;
            }
            *complete = *complete && there;
        }
    }
    return LIPSC_OK;
}

/* A file with embeddings is a whole model and must have everything; one without them may
 * hold the attention of some layers only. */
static lipsc_status check_tensors(lipsc_model *m, lipsc_error *err) {
    const lipsc_config *c = &m->config;
    lipsc_tensor first;
    lipsc_tensor_describe(c, c->family->pixels ? LIPSC_PATCH : LIPSC_TOKENS, 0, &first);
    const int whole = lipsc_tensors_has(&m->tensors, &first);
    int complete, any = 0;
    lipsc_status status = check_roles(m, 0, 0, LIPSC_LAYER_ROLES, whole, &complete, err);
    for (size_t l = 0; !status && l < c->layers; l++) {
        lipsc_block *block = &m->blocks[l];
        status = check_roles(m, l, LIPSC_ATTN_ROLES, LIPSC_MLP_ROLES, whole,
                             &block->has_attention, err);
        if (!status)
            status =
                check_roles(m, l, LIPSC_LAYER_ROLES, LIPSC_ROLES, whole, &complete, err);
        any = any || block->has_attention;
    }
    if (!status && !any)
        status =
            lipsc_fail(err, LIPSC_E_FORMAT,
                       "%s: has the attention weights of no layer under the names that "
                       "%s has ('%s')",
                       m->shown, c->family->name, first.name);
    m->info.has_embeddings = whole;
    return status;
}

/* Tensors without a number of a layer in their name are those of all layers. */
static uint64_t count_parameters(const lipsc_config *c) {
    uint64_t sum = 0;
    lipsc_tensor tensor;
    for (int role = 0; role < LIPSC_ROLES; role++) {
        const char *name = c->family->tensor[role];
        const size_t layers = name && strchr(name, '#') ? c->layers : 1;
        for (size_t l = 0; l < layers; l++)
            if (lipsc_tensor_describe(c, (lipsc_role)role, l, &tensor))
                sum += tensor.count * lipsc_tensor_copies(c, (lipsc_role)role);
    }
    return sum;
}

/* ---- Life ---------------------------------------------------------------------------- */

static void describe(lipsc_model *m) {
    const lipsc_config *c = &m->config;
    lipsc_model_info *info = &m->info;
    info->architecture = lipsc_family_shown(c->family);
    info->layers = c->layers;
    info->d = c->d;
    info->heads = c->heads;
    info->kv_heads = c->kv_heads;
    info->head_dim = c->head_dim;
    info->ffn = c->ffn;
    info->experts = c->experts;
    info->vocab = c->vocab;
    info->positions = c->positions - (c->family->position_after_pad ? c->pad + 1 : 0);
    info->pre_norm = c->family->tensor[LIPSC_ATTN_NORM] && !c->norm_last;
    info->has_pixels = c->family->pixels;
    info->mask = c->causal ? LIPSC_MASK_CAUSAL : LIPSC_MASK_NONE;
    for (size_t l = 0; l < c->layers; l++)
        if (c->sliding[l]) info->mask = lipsc_config_mask(c, l);
    info->window = c->window;
    info->parameters = m->files ? lipsc_checkpoint_numbers(m->files) : count_parameters(c);
    info->stored = m->files ? lipsc_checkpoint_dtype(m->files) : "random";
}

/* The folder that a file lies in, or NULL; free with lipsc_release. */
static char *folder_of(const char *path) {
    const char *slash = strrchr(path, '/');
    const size_t size = slash && slash != path ? (size_t)(slash - path) : 1;
    char *folder = lipsc_alloc_zero(size + 1, 1);
    if (folder) memcpy(folder, slash ? path : ".", size);
    return folder;
}

static int is_file(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISREG(info.st_mode);
}

/* A safetensors file has its configuration beside it. */
static lipsc_status read_config_beside(lipsc_model *m, const char *path, lipsc_sha256 *sha,
                                       lipsc_error *err) {
    if (!is_file(path)) return read_config_file(m, path, sha, err);
    char *folder = folder_of(path);
    if (!folder) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a model");
    const lipsc_status status = read_config_file(m, folder, sha, err);
    lipsc_release(folder);
    return status;
}

/* The weights of a layer, or where a map was measured. */
static int holds_layer(const char *path) {
    lipsc_st *st;
    if (lipsc_st_open(path, &st, NULL)) return 1; /* who reads it says what is wrong */
    const int holds = lipsc_st_find(st, "V") || lipsc_st_find(st, "X");
    lipsc_st_free(st);
    return holds;
}

int lipsc_model_recognised(const char *path) {
    if (!is_file(path)) return 0;
    if (lipsc_gguf_recognised(path)) return 1;
    char *folder = folder_of(path);
    char *config = folder ? lipsc_path_join(folder, "config.json") : NULL;
    const int found = config && is_file(config) && !holds_layer(path);
    lipsc_release(folder);
    lipsc_release(config);
    return found;
}

static lipsc_status read_config_gguf(lipsc_model *m, lipsc_sha256 *sha, lipsc_error *err) {
    char *json;
    lipsc_status status = lipsc_gguf_config(lipsc_checkpoint_gguf(m->files), &json, err);
    if (status) return status;
    status = read_config(m, json, strlen(json), m->shown, sha, err);
    free(json);
    return status;
}

static lipsc_status read_files(lipsc_model *m, const char *path, lipsc_sha256 *sha,
                               lipsc_error *err) {
    const int gguf = lipsc_gguf_recognised(path);
    lipsc_status status = gguf ? LIPSC_OK : read_config_beside(m, path, sha, err);
    if (!status) status = lipsc_checkpoint_open(path, &m->files, err);
    if (!status && gguf) status = read_config_gguf(m, sha, err);
    return status ? status : lipsc_checkpoint_hash(m->files, sha, err);
}

/* Where a model comes from: spec, or a configuration and tensors in memory. */
typedef struct {
    const char *spec; /* or the name in sentences */
    const char *config;
    size_t config_size, count;
    const lipsc_model_tensor *tensors;
} origin;

static lipsc_status read_memory(lipsc_model *m, const origin *from, lipsc_sha256 *sha,
                                lipsc_error *err) {
    lipsc_status status =
        read_config(m, from->config, from->config_size, m->shown, sha, err);
    if (!status)
        status = lipsc_checkpoint_from_memory(m->shown, from->count, from->tensors,
                                              &m->files, err);
    return status ? status : lipsc_checkpoint_hash(m->files, sha, err);
}

static lipsc_status open_into(lipsc_model *m, const origin *from, lipsc_error *err) {
    static const char random_prefix[] = "random:";
    const size_t prefix = sizeof random_prefix - 1;
    lipsc_sha256 sha;
    lipsc_sha256_begin(&sha);
    lipsc_status status = from->config ? read_memory(m, from, &sha, err)
                          : strncmp(from->spec, random_prefix, prefix)
                              ? read_files(m, from->spec, &sha, err)
                              : read_random(m, from->spec + prefix, &sha, err);
    if (status) return status;
    m->tensors.config = &m->config;
    m->tensors.files = m->files;
    m->blocks = lipsc_alloc_zero(m->config.layers, sizeof *m->blocks);
    if (!m->blocks) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a model");
    status = check_tensors(m, err);
    if (status) return status;
    describe(m);
    lipsc_sha256_end(&sha, m->info.hash);
    return LIPSC_OK;
}

static lipsc_status open_from(const origin *from, lipsc_part part, uint64_t seed,
                              lipsc_model **out, lipsc_error *err) {
    lipsc_model *m = lipsc_alloc_zero(1, sizeof *m);
    if (!m || pthread_mutex_init(&m->lock, NULL)) {
        lipsc_release(m);
        return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a model");
    }
    lipsc_show_path(from->spec, m->shown);
    m->tensors.seed = seed;
    m->part = part;
    const lipsc_status status = open_into(m, from, err);
    if (status)
        lipsc_model_free(m);
    else
        *out = m;
    return status;
}

lipsc_status lipsc_model_open(const char *spec, uint64_t seed, lipsc_model **out,
                              lipsc_error *err) {
    return lipsc_model_open_part(spec, LIPSC_PART_WHOLE, seed, out, err);
}

lipsc_status lipsc_model_open_part(const char *spec, lipsc_part part, uint64_t seed,
                                   lipsc_model **out, lipsc_error *err) {
    char room[LIPSC_PATH_ROOM];
    if (!spec || !out || (unsigned)part >= LIPSC_PARTS)
        return lipsc_fail(err, LIPSC_E_ARG, "a model needs a name, a part and a place");
    const lipsc_status status = lipsc_model_resolve(spec, room, &spec, err);
    return status ? status : open_from(&(origin){.spec = spec}, part, seed, out, err);
}

lipsc_status lipsc_model_from_memory(const char *name, const char *config,
                                     size_t config_size, lipsc_part part, size_t count,
                                     const lipsc_model_tensor *tensors, lipsc_model **out,
                                     lipsc_error *err) {
    if (!config || (count && !tensors) || !out || (unsigned)part >= LIPSC_PARTS)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "a model needs a configuration, tensors, a part and a place");
    const origin from = {.spec = name ? name : "the model",
                         .config = config,
                         .config_size = config_size,
                         .count = count,
                         .tensors = tensors};
    return open_from(&from, part, 1, out, err);
}

void lipsc_model_free(lipsc_model *m) {
    if (!m) return;
    if (m->blocks) lipsc_model_weights_free(m);
    pthread_mutex_destroy(&m->lock);
    lipsc_checkpoint_free(m->files);
    lipsc_config_free(&m->config);
    lipsc_release(m->blocks);
    lipsc_release(m);
}

const lipsc_model_info *lipsc_model_describe(const lipsc_model *m) { return &m->info; }

int lipsc_model_has_layer(const lipsc_model *m, size_t layer) {
    return layer < m->config.layers && m->blocks[layer].has_attention;
}

lipsc_status lipsc_model_mask(const lipsc_model *m, size_t layer,
                              const lipsc_mask *mask_override, lipsc_mask *mask,
                              lipsc_error *err) {
    const lipsc_config *c = &m->config;
    if (!mask_override) {
        *mask = lipsc_config_mask(c, layer);
        return LIPSC_OK;
    }
    if (*mask_override == LIPSC_MASK_TIMES ||
        (*mask_override == LIPSC_MASK_SLIDING && !c->window))
        return lipsc_fail(err, LIPSC_E_ARG, "%s: the model has no such mask", m->shown);
    *mask = *mask_override;
    return LIPSC_OK;
}
