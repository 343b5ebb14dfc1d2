/* source.c - reads texts, ids and images. */
#include "source.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "io/safetensors.h"
#include "io/show.h"

static const char *shown(const char *path, char room[LIPSC_SHOWN_PATH]) {
    if (!strcmp(path, "-")) return "standard input";
    lipsc_show_path(path, room);
    return room;
}

/* ---- Tokens ------------------------------------------------------------------------ */

/* A missing tokenizer is no dead end. */
static lipsc_status open_tokenizer(const cli_source_options *options, const char *spec,
                                   const lipsc_model_info *info, lipsc_tokenizer **out,
                                   lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    lipsc_error why = {.text = ""};
    lipsc_status status =
        lipsc_tokenizer_open(options->tokenizer ? options->tokenizer : spec, out, &why);
    if (status == LIPSC_E_IO && !options->tokenizer)
        return lipsc_fail(
            err, status, "%s; --tokenizer PATH names one that lies elsewhere%s", why.text,
            options->text ? ", --ids FILE gives token ids in place of a text" : "");
    if (status) return lipsc_fail(err, status, "%s", why.text);
    const size_t vocab = lipsc_tokenizer_vocab_size(*out);
    if (vocab <= info->vocab) return LIPSC_OK;
    lipsc_tokenizer_free(*out);
    return lipsc_fail(err, LIPSC_E_FORMAT,
                      "%s: the tokenizer makes ids up to %zu, the model's embedding has "
                      "%zu rows",
                      shown(options->tokenizer ? options->tokenizer : spec, room),
                      vocab - 1, info->vocab);
}

/* Ids of the text where there is one, and the special tokens that are asked for. */
static lipsc_status encode(const cli_source_options *options, const char *spec,
                           const lipsc_model_info *info, const char *bytes, size_t size,
                           cli_source *out, lipsc_error *err) {
    lipsc_tokenizer *tokenizer;
    lipsc_status status = open_tokenizer(options, spec, info, &tokenizer, err);
    if (status) return status;
    if (options->text) {
        out->size = size;
        out->malformed = lipsc_tokenizer_malformed(bytes, size);
        status =
            lipsc_tokenizer_encode(tokenizer, bytes, size, 0, &out->ids, &out->count, err);
    }
    if (!status && options->special)
        status =
            lipsc_tokenizer_around(tokenizer, &out->around, &out->before, &out->after, err);
    lipsc_tokenizer_free(tokenizer);
    return status;
}

/* ---- Images ------------------------------------------------------------------------ */

static lipsc_status read_pixels(const char *path, cli_source *out, lipsc_error *err) {
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
    for (size_t i = 0; !status && i < t->count; i++)
        if (!isfinite(out->pixels[i]))
            status = lipsc_fail(err, LIPSC_E_NONFIN,
                                "%s: tensor 'pixel_values' holds a NaN or an infinity",
                                lipsc_st_path(st));
    lipsc_st_free(st);
    return status;
}

/* ---- Together ---------------------------------------------------------------------- */

int cli_source_check(const cli_command *self, const cli_source_options *o) {
    if (o->special && !o->text && !o->ids)
        return cli_wrong_use(self, "'--special' has no meaning without --text or --ids");
    if (o->tokenizer && !o->text && !o->special)
        return cli_wrong_use(self, "'--tokenizer' has no meaning without --text");
    return CLI_RUN;
}

void cli_utf8_say(const cli_command *self, const char *path, size_t malformed,
                  size_t size) {
    char room[LIPSC_SHOWN_PATH];
    if (!malformed) return;
    fprintf(stderr,
            "lipscope %s: %s: not all of it is UTF-8: %zu of %zu bytes (%.2g %%) are read "
            "as U+FFFD\n",
            self->name, shown(path, room), malformed, size,
            100.0 * (double)malformed / (double)size);
}

void cli_source_say(const cli_command *self, const char *spec,
                    const cli_source_options *options, const cli_source *source) {
    char room[LIPSC_SHOWN_PATH];
    cli_utf8_say(self, source->path, source->malformed, source->size);
    if (options->special && !source->before && !source->after)
        fprintf(stderr, "lipscope %s: %s: the tokenizer has no special tokens to add\n",
                self->name, shown(options->tokenizer ? options->tokenizer : spec, room));
}

static lipsc_status out_of_range(const cli_source *source, uint32_t id, const char *where,
                                 const lipsc_model_info *info, lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    return lipsc_fail(err, LIPSC_E_RANGE,
                      "%s: id %lu %s is out of range: the model's embedding has %zu rows",
                      shown(source->path, room), (unsigned long)id, where, info->vocab);
}

static lipsc_status check_ids(const cli_source *source, const lipsc_model_info *info,
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

static lipsc_status check_kind(const cli_source_options *options, const char *spec,
                               const lipsc_model_info *info, lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    lipsc_show_path(spec, room);
    if (!info->has_embeddings)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "%s: no embeddings are stored, only layers: it can read no %s",
                          room, info->has_pixels ? "image" : "text");
    if (info->has_pixels && !options->pixels)
        return lipsc_fail(err, LIPSC_E_ARG, "%s: reads images: give one with --pixels",
                          room);
    if (!info->has_pixels && options->pixels)
        return lipsc_fail(err, LIPSC_E_ARG,
                          "%s: reads tokens, not images: give a text with --text", room);
    return LIPSC_OK;
}

lipsc_status cli_source_read(const cli_source_options *options, const char *spec,
                             const lipsc_model_info *info, cli_source *out,
                             lipsc_error *err) {
    char *bytes, room[LIPSC_SHOWN_PATH];
    size_t size;
    *out = (cli_source){.path = options->text  ? options->text
                                : options->ids ? options->ids
                                               : options->pixels};
    lipsc_status status = check_kind(options, spec, info, err);
    if (!status) status = lipsc_bytes_read(out->path, &bytes, &size, err);
    if (status) return status;
    lipsc_sha256 sha;
    lipsc_sha256_begin(&sha);
    lipsc_sha256_add(&sha, bytes, size);
    lipsc_sha256_end(&sha, out->hash);
    if (options->ids)
        status = lipsc_ids_parse(shown(out->path, room), bytes, size, &out->ids,
                                 &out->count, err);
    else if (options->pixels)
        status = read_pixels(out->path, out, err);
    if (!status && (options->text || options->special))
        status = encode(options, spec, info, bytes, size, out, err);
    lipsc_release(bytes);
    if (!status && out->ids && out->count == 0)
        status =
            lipsc_fail(err, LIPSC_E_FORMAT, "%s: no tokens in it", shown(out->path, room));
    if (!status && out->ids) {
        status = check_ids(out, info, err);
        lipsc_ids_hash(out->count, out->ids, out->ids_hash);
    }
    if (status) cli_source_free(out);
    return status;
}

void cli_source_free(cli_source *source) {
    lipsc_release(source->ids);
    lipsc_release(source->around);
    lipsc_release(source->pixels);
    source->ids = source->around = NULL;
    source->pixels = NULL;
}
