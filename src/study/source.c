/* source.c - reads texts, ids and images. */
#include "lipscope/source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "io/safetensors.h"
#include "io/show.h"
#include "token/token.h"
#include "study/window.h"

static const char *shown(const char *path, char room[LIPSC_SHOWN_PATH]) {
    if (!strcmp(path, "-")) return "standard input";
    lipsc_show_path(path, room);
    return room;
}

static int is_text(const lipsc_source_options *o) { return o->text || o->text_bytes; }

static int is_image(const lipsc_source_options *o) { return o->pixels || o->pixel_list; }

static void hash_of(const void *bytes, size_t size, char hash[65]) {
    lipsc_sha256 sha;
    lipsc_sha256_begin(&sha);
    lipsc_sha256_add(&sha, bytes, size);
    lipsc_sha256_end(&sha, hash);
}

/* ---- Tokens ------------------------------------------------------------------------ */

/* A missing tokenizer is no dead end. */
static lipsc_status open_tokenizer(const lipsc_source_options *options, const char *spec,
                                   const lipsc_model_info *info, lipsc_tokenizer **out,
                                   lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    lipsc_error why = {.text = ""};
    const char *from = options->tokenizer ? options->tokenizer : spec;
    lipsc_status status = lipsc_tokenizer_open(from, out, &why);
    if (status == LIPSC_E_IO && !options->tokenizer)
        return lipsc_fail(
            err, status, "%s; one that lies elsewhere can be named as the tokenizer%s",
            why.text, is_text(options) ? ", or ids given in place of a text" : "");
    if (status) return lipsc_fail(err, status, "%s", why.text);
    const size_t vocab = lipsc_tokenizer_vocab_size(*out);
    if (vocab <= info->vocab) return LIPSC_OK;
    lipsc_tokenizer_free(*out);
    return lipsc_fail(err, LIPSC_E_FORMAT,
                      "%s: the tokenizer makes ids up to %zu, the model's embedding has "
                      "%zu rows",
                      shown(from, room), vocab - 1, info->vocab);
}

/* Ids of the text where there is one, and the special tokens that are asked for. */
static lipsc_status encode(const lipsc_source_options *options, const char *spec,
                           const lipsc_model_info *info, const char *bytes, size_t size,
                           lipsc_source *out, lipsc_error *err) {
    lipsc_tokenizer *tokenizer;
    lipsc_status status = open_tokenizer(options, spec, info, &tokenizer, err);
    if (status) return status;
    if (is_text(options)) {
        out->size = size;
        out->malformed = lipsc_tokenizer_malformed(bytes, size);
        status =
            lipsc_tokenizer_encode(tokenizer, bytes, size, 0, &out->ids, &out->count, err);
    }
    if (!status && options->special)
        status =
            lipsc_tokenizer_around(tokenizer, &out->around, &out->before, &out->after, err);
    out->tokenizer = tokenizer;
    return status;
}

/* ---- Images ------------------------------------------------------------------------ */

static lipsc_status read_pixels(const char *path, lipsc_source *out, lipsc_error *err) {
    lipsc_st *st;
    lipsc_status status = lipsc_st_open(path, &st, err);
    if (status) return status;
    const lipsc_st_tensor *t = lipsc_st_find(st, "pixel_values");
    if (!t) {
        status = lipsc_fail(err, LIPSC_E_FORMAT, "%s: tensor 'pixel_values' is missing",
                            lipsc_st_path(st));
    } else if (t->ndim != 3 || t->count == 0) {
        char shape[LIPSC_SHOWN_SHAPE];
        lipsc_show_shape(t->ndim, t->shape, shape);
        status =
            lipsc_fail(err, LIPSC_E_FORMAT,
                       "%s: tensor 'pixel_values' has shape %s, not (channels, height, "
                       "width)",
                       lipsc_st_path(st), shape);
    } else {
        memcpy(out->shape, t->shape, sizeof out->shape);
        out->pixels = lipsc_alloc(t->count, sizeof *out->pixels);
        status = out->pixels ? lipsc_st_read_f64(st, t, 0, t->count, out->pixels, err)
                             : lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an image");
    }
    lipsc_st_free(st);
    return status;
}

/* ---- Does it fit the model ----------------------------------------------------------- */

static lipsc_status out_of_range(const lipsc_source *source, uint32_t id, const char *where,
                                 const lipsc_model_info *info, lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    return lipsc_fail(err, LIPSC_E_RANGE,
                      "%s: id %lu %s is out of range: the model's embedding has %zu rows",
                      shown(source->path, room), (unsigned long)id, where, info->vocab);
}

static lipsc_status check_ids(const lipsc_source *source, const lipsc_model_info *info,
                              lipsc_error *err) {
    char where[40];
    for (size_t i = 0; i < source->count; i++) {
        if (source->ids[i] < info->vocab) continue;
        snprintf(where, sizeof where, "at place %zu", i);
        return out_of_range(source, source->ids[i], where, info, err);
    }
    for (size_t i = 0; i < source->before + source->after; i++)
        if (source->around[i] >= info->vocab)
            return out_of_range(source, source->around[i], "of a special token", info, err);
    return LIPSC_OK;
}

static lipsc_status check_kind(const lipsc_source_options *options, const char *spec,
                               const lipsc_model_info *info, lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    lipsc_show_path(spec, room);
    if (!info->has_embeddings)
        return lipsc_fail(err, LIPSC_E_FORMAT,
                          "%s: no embeddings are stored, only layers: it can read no %s",
                          room, info->has_pixels ? "image" : "text");
    if (info->has_pixels && !is_image(options))
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: reads images: give one", room);
    if (!info->has_pixels && is_image(options))
        return lipsc_fail(err, LIPSC_E_FORMAT, "%s: reads tokens, not images: give a text",
                          room);
    return LIPSC_OK;
}

static lipsc_status check_pixels(const lipsc_source *source, lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    const size_t count = source->shape[0] * source->shape[1] * source->shape[2];
    for (size_t i = 0; i < count; i++)
        if (!isfinite(source->pixels[i]))
            return lipsc_fail(err, LIPSC_E_NONFIN,
                              "%s: tensor 'pixel_values' holds a NaN or an infinity",
                              shown(source->path, room));
    return LIPSC_OK;
}

/* ---- In memory ----------------------------------------------------------------------- */

static lipsc_status take_ids(const lipsc_source_options *o, lipsc_source *out,
                             lipsc_error *err) {
    out->ids = lipsc_alloc(o->id_count, sizeof *out->ids);
    if (!out->ids) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ids");
    if (o->id_count) memcpy(out->ids, o->id_list, o->id_count * sizeof *out->ids);
    out->count = o->id_count;
    lipsc_ids_hash(out->count, out->ids, out->hash);
    return LIPSC_OK;
}

static lipsc_status take_pixels(const lipsc_source_options *o, lipsc_source *out,
                                lipsc_error *err) {
    size_t count;
    if (!lipsc_mul_size(o->pixel_shape[0], o->pixel_shape[1], &count) ||
        !lipsc_mul_size(count, o->pixel_shape[2], &count) || !count)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "an image has channels, height and width, none of them zero");
    out->pixels = lipsc_alloc(count, sizeof *out->pixels);
    if (!out->pixels) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for an image");
    memcpy(out->pixels, o->pixel_list, count * sizeof *out->pixels);
    memcpy(out->shape, o->pixel_shape, sizeof out->shape);
    hash_of(out->pixels, count * sizeof *out->pixels, out->hash);
    return LIPSC_OK;
}

/* ---- Together ------------------------------------------------------------------------ */

static const char *name_of(const lipsc_source_options *o) {
    return o->text         ? o->text
           : o->ids        ? o->ids
           : o->pixels     ? o->pixels
           : o->text_bytes ? "the text"
           : o->id_list    ? "the ids"
                           : "the image";
}

/* A file of any kind, with its hash; a text is tokenized. */
static lipsc_status read_file(const lipsc_source_options *o, const char *spec,
                              const lipsc_model_info *info, lipsc_source *out,
                              lipsc_error *err) {
    char *bytes, room[LIPSC_SHOWN_PATH];
    size_t size;
    lipsc_status status = lipsc_bytes_read(out->path, &bytes, &size, err);
    if (status) return status;
    hash_of(bytes, size, out->hash);
    if (o->ids)
        status = lipsc_ids_parse(shown(out->path, room), bytes, size, &out->ids,
                                 &out->count, err);
    else if (o->pixels)
        status = read_pixels(out->path, out, err);
    if (!status && (o->text || o->special))
        status = encode(o, spec, info, bytes, size, out, err);
    lipsc_release(bytes);
    return status;
}

static lipsc_status read_memory(const lipsc_source_options *o, const char *spec,
                                const lipsc_model_info *info, lipsc_source *out,
                                lipsc_error *err) {
    lipsc_status status = LIPSC_OK;
    if (o->text_bytes)
        hash_of(o->text_bytes, o->text_size, out->hash);
    else
        status = o->id_list ? take_ids(o, out, err) : take_pixels(o, out, err);
    if (!status && (o->text_bytes || o->special))
        status = encode(o, spec, info, o->text_bytes, o->text_size, out, err);
    return status;
}

void lipsc_source_malformed(const char *path, size_t malformed, size_t size,
                            char remark[LIPSC_SOURCE_REMARK]) {
    char room[LIPSC_SHOWN_PATH];
    snprintf(remark, LIPSC_SOURCE_REMARK,
             "%s: not all of it is UTF-8: %zu of %zu bytes (%.2g %%) are read as U+FFFD",
             shown(path, room), malformed, size, 100.0 * (double)malformed / (double)size);
}

static void add_remarks(const lipsc_source_options *o, const char *spec,
                        lipsc_source *out) {
    char room[LIPSC_SHOWN_PATH];
    if (out->malformed)
        lipsc_source_malformed(out->path, out->malformed, out->size,
                               out->remarks[out->remark_count++]);
    if (o->special && !out->before && !out->after)
        snprintf(out->remarks[out->remark_count++], LIPSC_SOURCE_REMARK,
                 "%s: the tokenizer has no special tokens to add",
                 shown(o->tokenizer ? o->tokenizer : spec, room));
}

static lipsc_status check_options(const lipsc_source_options *o, lipsc_error *err) {
    const int given = !!o->text + !!o->ids + !!o->pixels + !!o->text_bytes + !!o->id_list +
                      !!o->pixel_list;
    if (given != 1)
        return lipsc_fail(err, LIPSC_E_ARG,
                          given ? "only one of text, ids and pixels can be read"
                                : "a text, ids or pixels must be given");
    if (o->special && is_image(o))
        return lipsc_fail(err, LIPSC_E_ARG, "special tokens stand around text or ids only");
    return LIPSC_OK;
}

lipsc_status lipsc_source_read(const lipsc_source_options *options, const char *spec,
                               const lipsc_model_info *info, lipsc_source *out,
                               lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    const int in_memory = options->text_bytes || options->id_list || options->pixel_list;
    *out = (lipsc_source){.path = name_of(options)};
    lipsc_status status = check_options(options, err);
    if (!status) status = check_kind(options, spec, info, err);
    if (!status)
        status = in_memory ? read_memory(options, spec, info, out, err)
                           : read_file(options, spec, info, out, err);
    if (!status && out->ids && out->count == 0)
        status =
            lipsc_fail(err, LIPSC_E_FORMAT, "%s: no tokens in it", shown(out->path, room));
    if (!status && out->ids) {
        status = check_ids(out, info, err);
        lipsc_ids_hash(out->count, out->ids, out->ids_hash);
    }
    if (!status && out->pixels) status = check_pixels(out, err);
    if (status)
        lipsc_source_free(out);
    else
        add_remarks(options, spec, out);
    return status;
}

void lipsc_source_free(lipsc_source *source) {
    if (!source) return;
    lipsc_release(source->ids);
    lipsc_release(source->around);
    lipsc_release(source->pixels);
    lipsc_tokenizer_free(source->tokenizer);
    source->ids = source->around = NULL;
    source->tokenizer = NULL;
    source->pixels = NULL;
}
