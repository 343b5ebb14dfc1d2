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
#include "io/safetensors.h"
#include "io/show.h"
#include "numbers.h"

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

static int is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

/* At most one id for every two bytes. */
static lipsc_status parse_ids(const char *path, const char *bytes, size_t size,
                              uint32_t *ids, size_t *count, lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    *count = 0;
    for (size_t at = 0; at < size;) {
        char word[24];
        size_t length = 0, value;
        if (is_space(bytes[at])) {
            at++;
            continue;
        }
        while (at + length < size && !is_space(bytes[at + length])) length++;
        const size_t kept = length < sizeof word ? length : sizeof word - 1;
        memcpy(word, bytes + at, kept);
        word[kept] = '\0';
        if (kept < length || strlen(word) != length ||
            cli_number_size(word, 0, UINT32_MAX, &value)) {
            char name[LIPSC_SHOWN_NAME];
            lipsc_show_name(word, name);
            return lipsc_fail_at(err, LIPSC_E_FORMAT, at,
                                 "%s: '%s' at byte %zu is not an id", shown(path, room),
                                 name, at);
        }
        ids[(*count)++] = (uint32_t)value;
        at += length;
    }
    return LIPSC_OK;
}

static lipsc_status ids_of_bytes(const char *path, const char *bytes, size_t size,
                                 uint32_t **ids, size_t *count, lipsc_error *err) {
    *ids = lipsc_alloc(size / 2 + 1, sizeof **ids);
    if (!*ids) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory for ids");
    lipsc_status status = parse_ids(path, bytes, size, *ids, count, err);
    if (status) {
        lipsc_release(*ids);
        *ids = NULL;
    }
    return status;
}

lipsc_status cli_ids_read(const char *path, uint32_t **ids, size_t *count,
                          lipsc_error *err) {
    char *bytes;
    size_t size;
    lipsc_status status = cli_bytes_read(path, &bytes, &size, err);
    if (status) return status;
    status = ids_of_bytes(path, bytes, size, ids, count, err);
    lipsc_release(bytes);
    return status;
}

/* ---- Models and tokenizers --------------------------------------------------------- */

lipsc_status cli_model_open(const char *spec, uint64_t seed, lipsc_model **out,
                            lipsc_error *err) {
    char room[CLI_DATA_PATH];
    const lipsc_status status = cli_model_resolve(spec, room, &spec, err);
    return status ? status : lipsc_model_open(spec, seed, out, err);
}

/* data/tokenizer.json, compiled in */
extern const unsigned char cli_builtin_tokenizer[];
extern const size_t cli_builtin_tokenizer_size;

lipsc_status cli_tokenizer_open(const char *spec, const char *folder, lipsc_tokenizer **out,
                                lipsc_error *err) {
    static const char random[] = "random:";
    char room[CLI_DATA_PATH];
    if (folder) spec = folder;
    lipsc_status status = cli_model_resolve(spec, room, &spec, err);
    if (status) return status;
    if (folder || strncmp(spec, random, sizeof random - 1))
        return lipsc_tokenizer_open(spec, out, err);
    status = lipsc_tokenizer_open(spec + sizeof random - 1, out, err);
    if (status == LIPSC_E_IO) /* there are no such files */
        status = lipsc_tokenizer_parse((const char *)cli_builtin_tokenizer,
                                       cli_builtin_tokenizer_size, "the built-in tokenizer",
                                       out, err);
    return status;
}

static lipsc_status encode(const cli_source_options *options, const char *spec,
                           const lipsc_model_info *info, const char *bytes, size_t size,
                           cli_source *out, lipsc_error *err) {
    lipsc_tokenizer *tokenizer;
    char room[LIPSC_SHOWN_PATH];
    lipsc_status status = cli_tokenizer_open(spec, options->tokenizer, &tokenizer, err);
    if (status) return status;
    const size_t vocab = lipsc_tokenizer_vocab_size(tokenizer);
    if (vocab > info->vocab)
        status = lipsc_fail(err, LIPSC_E_FORMAT,
                            "%s: the tokenizer makes ids up to %zu, the model's embedding "
                            "has %zu rows",
                            shown(options->tokenizer ? options->tokenizer : spec, room),
                            vocab - 1, info->vocab);
    if (!status)
        status =
            lipsc_tokenizer_encode(tokenizer, bytes, size, 0, &out->ids, &out->count, err);
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

/* ---- Windows ----------------------------------------------------------------------- */

int cli_windows_agree(const cli_source_options *options, size_t longest, lipsc_error *err) {
    if (options->tiled && options->stride) {
        lipsc_fail(err, LIPSC_E_ARG,
                   "--tiled has no stride: leave out one of --tiled and --stride");
        return 0;
    }
    if (options->stride && longest > options->stride) {
        lipsc_fail(err, LIPSC_E_ARG,
                   "length %zu is longer than the stride %zu: its windows would overlap",
                   longest, options->stride);
        return 0;
    }
    return 1;
}

/* Both factors are below 1e8. */
size_t cli_window_start(const cli_source_options *options, size_t longest, size_t n,
                        size_t w) {
    return w * (options->tiled ? n : options->stride ? options->stride : longest);
}

/* ---- Together ---------------------------------------------------------------------- */

void cli_ids_hash(size_t count, const uint32_t *ids, char hash[65]) {
    lipsc_sha256 sha;
    lipsc_sha256_begin(&sha);
    for (size_t i = 0; i < count; i++) {
        const uint32_t id = ids[i];
        const uint8_t little[4] = {(uint8_t)id, (uint8_t)(id >> 8), (uint8_t)(id >> 16),
                                   (uint8_t)(id >> 24)};
        lipsc_sha256_add(&sha, little, sizeof little);
    }
    lipsc_sha256_end(&sha, hash);
}

static lipsc_status check_ids(const cli_source *source, const lipsc_model_info *info,
                              lipsc_error *err) {
    char room[LIPSC_SHOWN_PATH];
    for (size_t i = 0; i < source->count; i++)
        if (source->ids[i] >= info->vocab)
            return lipsc_fail(err, LIPSC_E_RANGE,
                              "%s: id %lu at place %zu is out of range: the model's "
                              "embedding has %zu rows",
                              shown(source->path, room), (unsigned long)source->ids[i], i,
                              info->vocab);
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
    if (options->text)
        status = encode(options, spec, info, bytes, size, out, err);
    else if (options->ids)
        status = ids_of_bytes(out->path, bytes, size, &out->ids, &out->count, err);
    else
        status = read_pixels(out->path, out, err);
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
    lipsc_release(source->pixels);
    source->ids = NULL;
    source->pixels = NULL;
}
