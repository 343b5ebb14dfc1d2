/* checkpoint.c - the weight files of a model as one set of named tensors. */
#define _POSIX_C_SOURCE 200809L /* access, stat */
#include "io/checkpoint.h"

#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "io/mapfile.h"
#include "io/show.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 4096, NAME = 256 }; /* most shards; longest tensor name looked for */

struct lipsc_checkpoint {
    char shown[LIPSC_SHOWN_PATH];
    size_t count;
    struct {
        char *path;
        lipsc_st *st; /* one of the two */
        lipsc_gguf *gguf;
    } * files;
    lipsc_given_set memory; /* in place of files */
};

/* What a model adds in front of the names of the model that it wraps. */
static const char *const prefixes[] = {
    "",          "transformer.", "model.",        "bert.",       "roberta.", "distilbert.",
    "vit.",      "base_model.",  "0.auto_model.", "auto_model.", "module.",  "_orig_mod.",
    "gpt_neox.", "electra.",     "esm.",          "deit.",       "dinov2.",  "mpnet.",
    "albert."};

/* Names of tensors in files written before 2019: LayerNorm.gamma, LayerNorm.beta. */
static const char *const renamed[][2] = {{"LayerNorm.weight", "LayerNorm.gamma"},
                                         {"LayerNorm.bias", "LayerNorm.beta"}};

char *lipsc_path_join(const char *dir, const char *name) {
    const size_t size = strlen(dir) + strlen(name) + 2;
    char *path = lipsc_alloc(size, 1);
    if (path) snprintf(path, size, "%s/%s", dir, name);
    return path;
}

static lipsc_status no_memory(lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for a checkpoint");
}

/* Opens a file as the next one and takes its path; NULL: no memory was left for it. */
static lipsc_status add_path(lipsc_checkpoint *c, char *path, lipsc_error *err) {
    if (!path) return no_memory(err);
    const lipsc_status status = lipsc_gguf_recognised(path)
                                    ? lipsc_gguf_open(path, &c->files[c->count].gguf, err)
                                    : lipsc_st_open(path, &c->files[c->count].st, err);
    if (status) {
        lipsc_release(path);
        return status;
    }
    c->files[c->count++].path = path;
    return LIPSC_OK;
}

static lipsc_status add_file(lipsc_checkpoint *c, const char *dir, const char *name,
                             lipsc_error *err) {
    return add_path(c, lipsc_path_join(dir, name), err);
}

/* ---- Shards ------------------------------------------------------------------------- */

static lipsc_status index_fail(const lipsc_checkpoint *c, lipsc_error *err,
                               const char *reason) {
    return lipsc_fail(err, LIPSC_E_FORMAT, "%s/model.safetensors.index.json: %s", c->shown,
                      reason);
}

/* A shard stands in the folder itself: its name must not lead out of it. */
static int plain_name(const char *name) {
    return *name && *name != '.' && !strchr(name, '/') && strlen(name) < NAME;
}

/* Opens the shard that holds `tensor` unless it is open, and looks whether it does. */
static lipsc_status add_shard(lipsc_checkpoint *c, const char *dir, const char *tensor,
                              json_t *value, lipsc_error *err) {
    const char *name = json_string_value(value);
    if (!name || !plain_name(name))
        return index_fail(c, err,
                          "weight_map names something that is no file of the folder");
    const size_t start = strlen(dir) + 1;
    size_t f = 0;
    while (f < c->count && strcmp(c->files[f].path + start, name)) f++;
    if (f == FILES) return index_fail(c, err, "names too many files");
    if (f == c->count) {
        const lipsc_status status = add_file(c, dir, name, err);
        if (status) return status;
    }
    const lipsc_st *st = c->files[f].st;
    if (st && lipsc_st_find(st, tensor)) return LIPSC_OK;
    char shown[LIPSC_SHOWN_NAME];
    lipsc_show_name(tensor, shown);
    return lipsc_fail(
        err, LIPSC_E_FORMAT,
        "%s: has no tensor '%s', which model.safetensors.index.json says it has",
        st ? lipsc_st_path(st) : c->shown, shown);
}

static lipsc_status open_shards(lipsc_checkpoint *c, const char *dir, const char *path,
                                lipsc_error *err) {
    lipsc_mapfile map;
    lipsc_status status = lipsc_mapfile_open(path, &map, err);
    if (status) return status;
    json_error_t bad;
    int memory;
    json_t *root = lipsc_json_load((const char *)map.data, map.size, JSON_REJECT_DUPLICATES,
                                   &bad, &memory);
    json_t *weights = json_object_get(root, "weight_map"), *value;
    const char *tensor;
    if (memory) {
        status = lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", c->shown);
    } else if (!root) {
        char reason[LIPSC_SHOWN_NAME];
        lipsc_show_name(bad.text, reason);
        status = lipsc_fail_at(err, LIPSC_E_FORMAT, (uint64_t)bad.position,
                               "%s/model.safetensors.index.json: not valid JSON: %s",
                               c->shown, reason);
    } else if (!json_is_object(weights) || !json_object_size(weights)) {
        status = index_fail(c, err, "has no weight_map");
    }
    if (!status) json_object_foreach(weights, tensor, value) {
            status = add_shard(c, dir, tensor, value, err);
            if (status) break;
        }
    json_decref(root);
    lipsc_mapfile_close(&map);
    return status;
}

/* ---- Life --------------------------------------------------------------------------- */

static int exists(const char *dir, const char *name) {
    char *path = lipsc_path_join(dir, name);
    const int there = path && !access(path, F_OK);
    lipsc_release(path);
    return there;
}

static int is_folder(const char *path) {
    struct stat info;
    return !stat(path, &info) && S_ISDIR(info.st_mode);
}

static char *copied(const char *text) {
    const size_t size = strlen(text) + 1;
    char *copy = lipsc_alloc(size, 1);
    return copy ? memcpy(copy, text, size) : NULL;
}

static int is_pickle(const char *path) {
    const char *dot = strrchr(path, '.');
    return dot && (!strcmp(dot, ".bin") || !strcmp(dot, ".pt") || !strcmp(dot, ".pth")) &&
           !is_folder(path) && !access(path, F_OK);
}

static lipsc_status refuse_pickle(const lipsc_checkpoint *c, const char *why,
                                  lipsc_error *err) {
    return lipsc_fail(err, LIPSC_E_IO,
                      "%s: %s, a pickle, which is not read; "
                      "AutoModel.from_pretrained(DIR).save_pretrained(NEW) of "
                      "transformers writes it as model.safetensors",
                      c->shown, why);
}

static lipsc_status open_files(lipsc_checkpoint *c, const char *dir, lipsc_error *err) {
    static const char index_name[] = "model.safetensors.index.json";
    if (is_pickle(dir)) return refuse_pickle(c, "is a file of PyTorch", err);
    if (!is_folder(dir)) return add_path(c, copied(dir), err);
    if (exists(dir, "model.safetensors")) return add_file(c, dir, "model.safetensors", err);
    if (exists(dir, index_name)) {
        char *path = lipsc_path_join(dir, index_name);
        if (!path) return no_memory(err);
        const lipsc_status status = open_shards(c, dir, path, err);
        lipsc_release(path);
        return status;
    }
    if (exists(dir, "pytorch_model.bin"))
        return refuse_pickle(c, "has pytorch_model.bin", err);
    return lipsc_fail(err, LIPSC_E_IO,
                      "%s: has neither model.safetensors nor model.safetensors.index.json",
                      c->shown);
}

lipsc_status lipsc_checkpoint_open(const char *dir, lipsc_checkpoint **out,
                                   lipsc_error *err) {
    lipsc_checkpoint *c = lipsc_alloc_zero(1, sizeof *c);
    if (!c) return no_memory(err);
    lipsc_show_path(dir, c->shown);
    c->files = lipsc_alloc_zero(FILES, sizeof *c->files);
    const lipsc_status status = c->files ? open_files(c, dir, err) : no_memory(err);
    if (status)
        lipsc_checkpoint_free(c);
    else
        *out = c;
    return status;
}

lipsc_status lipsc_checkpoint_from_memory(const char *name, size_t count,
                                          const lipsc_model_tensor *tensors,
                                          lipsc_checkpoint **out, lipsc_error *err) {
    lipsc_checkpoint *c = lipsc_alloc_zero(1, sizeof *c);
    if (!c) return no_memory(err);
    lipsc_show_path(name, c->shown);
    const lipsc_status status = lipsc_given_make(name, count, tensors, &c->memory, err);
    if (status)
        lipsc_checkpoint_free(c);
    else
        *out = c;
    return status;
}

void lipsc_checkpoint_free(lipsc_checkpoint *c) {
    if (!c) return;
    lipsc_given_free(&c->memory);
    for (size_t f = 0; f < c->count; f++) {
        lipsc_st_free(c->files[f].st);
        lipsc_gguf_free(c->files[f].gguf);
        lipsc_release(c->files[f].path);
    }
    lipsc_release(c->files);
    lipsc_release(c);
}

const char *lipsc_checkpoint_shown(const lipsc_checkpoint *c) { return c->shown; }

const lipsc_gguf *lipsc_checkpoint_gguf(const lipsc_checkpoint *c) {
    return c->count ? c->files[0].gguf : NULL;
}

/* ---- Tensors ------------------------------------------------------------------------ */

static int in_safetensors(const lipsc_st *st, const lipsc_st_tensor *t, lipsc_stored *out) {
    if (!t) return 0;
    *out = (lipsc_stored){.name = t->name,
                          .dtype = t->dtype,
                          .file = lipsc_st_path(st),
                          .readable = t->type != LIPSC_ST_OTHER,
                          .ndim = t->ndim,
                          .shape = t->shape,
                          .count = t->count,
                          .bytes = t->bytes,
                          .st = st,
                          .in_st = t};
    return 1;
}

static int in_gguf(const lipsc_gguf *gguf, const lipsc_gguf_tensor *t, lipsc_stored *out) {
    if (!t) return 0;
    *out = (lipsc_stored){.name = t->name,
                          .dtype = t->type ? t->type->name : "unknown",
                          .file = lipsc_gguf_path(gguf),
                          .readable = t->type && t->type->unpack,
                          .ndim = t->ndim,
                          .shape = t->shape,
                          .count = t->count,
                          .bytes = t->bytes,
                          .gguf = gguf,
                          .in_gguf = t};
    return 1;
}

static int in_memory(const lipsc_checkpoint *c, const lipsc_given_tensor *t,
                     lipsc_stored *out) {
    if (!t) return 0;
    *out = (lipsc_stored){.name = t->name,
                          .dtype = t->dtype,
                          .file = c->shown,
                          .readable = t->item != 0,
                          .ndim = t->ndim,
                          .shape = t->shape,
                          .count = t->count,
                          .bytes = t->count * t->item,
                          .in_memory = t};
    return 1;
}

lipsc_status lipsc_stored_read(const lipsc_stored *s, size_t first, size_t count,
                               double *out, lipsc_error *err) {
    if (s->in_memory) return lipsc_given_read(s->in_memory, first, count, out, err);
    return s->st ? lipsc_st_read_f64(s->st, s->in_st, first, count, out, err)
                 : lipsc_gguf_read(s->gguf, s->in_gguf, first, count, out, err);
}

void lipsc_stored_forget(const lipsc_stored *s) {
    if (s->st) lipsc_st_forget(s->st, s->in_st);
    if (s->gguf) lipsc_gguf_forget(s->gguf, s->in_gguf);
}

int lipsc_checkpoint_at(const lipsc_checkpoint *c, size_t i, lipsc_stored *out) {
    for (size_t f = 0; f < c->count; f++) {
        const lipsc_st *st = c->files[f].st;
        const lipsc_gguf *gguf = c->files[f].gguf;
        const size_t count = st ? lipsc_st_count(st) : lipsc_gguf_count(gguf);
        if (i < count)
            return st ? in_safetensors(st, lipsc_st_at(st, i), out)
                      : in_gguf(gguf, lipsc_gguf_at(gguf, i), out);
        i -= count;
    }
    return i < c->memory.count && in_memory(c, &c->memory.at[i], out);
}

static int find_exactly(const lipsc_checkpoint *c, const char *name, lipsc_stored *out) {
    for (size_t f = 0; f < c->count; f++) {
        const lipsc_st *st = c->files[f].st;
        const lipsc_gguf *gguf = c->files[f].gguf;
        if (st ? in_safetensors(st, lipsc_st_find(st, name), out)
               : in_gguf(gguf, lipsc_gguf_find(gguf, name), out))
            return 1;
    }
    return in_memory(c, lipsc_given_find(&c->memory, name), out);
}

static int find_prefixed(const lipsc_checkpoint *c, const char *name, lipsc_stored *out) {
    char full[NAME];
    for (size_t p = 0; p < sizeof prefixes / sizeof prefixes[0]; p++) {
        snprintf(full, sizeof full, "%s%s", prefixes[p], name);
        if (find_exactly(c, full, out)) return 1;
    }
    return 0;
}

int lipsc_checkpoint_find(const lipsc_checkpoint *c, const char *name, lipsc_stored *out) {
    if (find_prefixed(c, name, out)) return 1;
    for (size_t r = 0; r < sizeof renamed / sizeof renamed[0]; r++) {
        const size_t tail = strlen(renamed[r][0]), size = strlen(name);
        if (size < tail || strcmp(name + size - tail, renamed[r][0])) continue;
        char old[NAME];
        snprintf(old, sizeof old, "%.*s%s", (int)(size - tail), name, renamed[r][1]);
        if (find_prefixed(c, old, out)) return 1;
    }
    return 0;
}

/* Two numbers in each byte: see mxfp4.h. */
static int is_packed(const lipsc_stored *t) {
    static const char tail[] = "_blocks";
    const size_t size = strlen(t->name), end = sizeof tail - 1;
    return !strcmp(t->dtype, "U8") && size > end && !strcmp(t->name + size - end, tail);
}

uint64_t lipsc_checkpoint_numbers(const lipsc_checkpoint *c) {
    uint64_t sum = 0;
    lipsc_stored tensor;
    for (size_t i = 0; lipsc_checkpoint_at(c, i, &tensor); i++)
        if (tensor.readable || is_packed(&tensor))
            sum += is_packed(&tensor) ? 2 * tensor.count : tensor.count;
    return sum;
}

const char *lipsc_checkpoint_dtype(const lipsc_checkpoint *c) {
    const char *dtype = "none";
    lipsc_stored tensor;
    for (size_t i = 0; lipsc_checkpoint_at(c, i, &tensor); i++) {
        const char *stored = is_packed(&tensor) ? "MXFP4" : tensor.dtype;
        if (!tensor.readable && !is_packed(&tensor)) continue;
        if (!strcmp(dtype, "none")) dtype = stored;
        if (strcmp(dtype, stored)) return "mixed";
    }
    return dtype;
}

/* Piece by piece: no more than a piece of a large file is in memory. */
static void add_bytes(const lipsc_mapfile *map, lipsc_sha256 *sha) {
    enum { PIECE = 1 << 24 };
    for (size_t at = 0; at < map->size; at += PIECE) {
        const size_t size = map->size - at < PIECE ? map->size - at : PIECE;
        lipsc_sha256_add(sha, map->data + at, size);
        lipsc_mapfile_forget(map, map->data + at, size);
    }
}

lipsc_status lipsc_checkpoint_hash(const lipsc_checkpoint *c, lipsc_sha256 *sha,
                                   lipsc_error *err) {
    lipsc_given_hash(&c->memory, sha);
    for (size_t f = 0; f < c->count; f++) {
        lipsc_mapfile map;
        const lipsc_status status = lipsc_mapfile_open(c->files[f].path, &map, err);
        if (status) return status;
        uint8_t length[8];
        for (int i = 0; i < 8; i++) length[i] = (uint8_t)((uint64_t)map.size >> 8 * i);
        lipsc_sha256_add(sha, length, sizeof length);
        add_bytes(&map, sha);
        lipsc_mapfile_close(&map);
    }
    return LIPSC_OK;
}
