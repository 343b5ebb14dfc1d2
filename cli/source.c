/* source.c - reads texts, ids and images. */
#include "source.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/error.h"
#include "core/mem.h"
#include "core/sha256.h"
#include "data.h"
#include "ids.h"
#include "io/safetensors.h"
#include "io/show.h"

/* ---- Files ------------------------------------------------------------------------- */

static lipsc_status read_stream(FILE *from, const char *name, char **bytes, size_t *size,
                                lipsc_error *err) {
    size_t room = 1 << 16, used = 0;
    char *all = lipsc_alloc(room, 1);
    while (all) {
        used += fread(all + used, 1, room - used, from);
        if (used < room) break;
        char *larger = room <= SIZE_MAX / 2 ? lipsc_alloc(2 * room, 1) : NULL;
        if (larger) memcpy(larger, all, used);
        lipsc_release(all);
        all = larger;
        room *= 2;
    }
    if (!all) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", name);
    if (ferror(from)) {
        const int why = errno;
        lipsc_release(all);
        return lipsc_fail_system(err, name, "read", why);
    }
    *bytes = all;
    *size = used;
    return LIPSC_OK;
}

lipsc_status cli_bytes_read(const char *path, char **bytes, size_t *size,
                            lipsc_error *err) {
    char room[CLI_DATA_PATH];
    if (!strcmp(path, "-")) return read_stream(stdin, "standard input", bytes, size, err);
    lipsc_status status = cli_data_resolve(path, room, &path, err);
    if (status) return status;
    FILE *from = fopen(path, "rb");
    if (!from) return lipsc_fail_system(err, path, "open", errno);
    status = read_stream(from, path, bytes, size, err);
    fclose(from);
    return status;
}

static const char *shown(const char *path, char room[LIPSC_SHOWN_PATH]) {
    if (!strcmp(path, "-")) return "standard input";
    lipsc_show_path(path, room);
    return room;
}

lipsc_status cli_ids_read(const char *path, uint32_t **ids, size_t *count,
                          lipsc_error *err) {
    char *bytes, room[LIPSC_SHOWN_PATH];
    size_t size;
    lipsc_status status = cli_bytes_read(path, &bytes, &size, err);
    if (status) return status;
    status = cli_ids_parse(shown(path, room), bytes, size, ids, count, err);
    lipsc_release(bytes);
    return status;
}

/* ---- Models and tokenizers --------------------------------------------------------- */

lipsc_status cli_model_open(const char *spec, int part, uint64_t seed, lipsc_model **out,
                            lipsc_error *err) {
    char room[CLI_DATA_PATH];
    const lipsc_status status = cli_model_resolve(spec, room, &spec, err);
    return status ? status : lipsc_model_open_part(spec, (lipsc_part)part, seed, out, err);
}

/* data/tokenizer.json, compiled in */
extern const unsigned char cli_builtin_tokenizer[];
extern const size_t cli_builtin_tokenizer_size;

/* Where the tokenizer of a model lies: of a single safetensors file in its folder. */
static const char *beside(const char *spec, char room[CLI_DATA_PATH]) {
    static const char ending[] = ".safetensors";
    const size_t length = strlen(spec), end = sizeof ending - 1;
    if (length <= end || strcmp(spec + length - end, ending)) return spec;
    const char *slash = strrchr(spec, '/');
    const size_t folder = slash ? (size_t)(slash - spec) + 1 : 0;
    if (folder >= CLI_DATA_PATH) return spec;
    memmove(room, spec, folder);
    memcpy(room + folder, ".", 2);
    return room;
}

lipsc_status cli_tokenizer_open(const char *spec, const char *folder, lipsc_tokenizer **out,
                                lipsc_error *err) {
    static const char random[] = "random:";
    char room[CLI_DATA_PATH];
    if (folder) spec = folder;
    lipsc_status status = cli_model_resolve(spec, room, &spec, err);
    if (status) return status;
    if (!folder) spec = beside(spec, room);
    if (folder || strncmp(spec, random, sizeof random - 1))
        return lipsc_tokenizer_open(spec, out, err);
    status = lipsc_tokenizer_open(spec + sizeof random - 1, out, err);
    if (status == LIPSC_E_IO) /* there are no such files */
        status = lipsc_tokenizer_parse((const char *)cli_builtin_tokenizer,
                                       cli_builtin_tokenizer_size, "the built-in tokenizer",
                                       out, err);
    return status;
}

/* A missing tokenizer is no dead end. */
static lipsc_status open_tokenizer(const cli_source_options *options, const char *spec,
                                   const lipsc_model_info *info, lipsc_tokenizer **out,
                                   lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    lipsc_error why = {.text = ""};
    lipsc_status status = cli_tokenizer_open(spec, options->tokenizer, out, &why);
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
    if (!status) status = cli_bytes_read(out->path, &bytes, &size, err);
    if (status) return status;
    lipsc_sha256 sha;
    lipsc_sha256_begin(&sha);
    lipsc_sha256_add(&sha, bytes, size);
    lipsc_sha256_end(&sha, out->hash);
    if (options->ids)
        status =
            cli_ids_parse(shown(out->path, room), bytes, size, &out->ids, &out->count, err);
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
        cli_ids_hash(out->count, out->ids, out->ids_hash);
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
