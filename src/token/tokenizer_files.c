/* tokenizer_files.c - the files of a tokenizer folder.  vocab.json with merges.txt, and
 * vocab.txt, are first written as the tokenizer.json that means the same. */
#define _POSIX_C_SOURCE 200809L /* access, stat */
#include "token/parts.h"

#include "core/error.h"
#include "core/json.h"
#include "io/mapfile.h"
#include "io/show.h"
#include "token/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

lipsc_status lipsc_json_read(const char *json, size_t size, const char *file, json_t **out,
                             lipsc_error *err) {
    char shown[LIPSC_SHOWN_NAME];
    json_error_t where;
    int memory;
    *out = lipsc_json_load(json, size, JSON_ALLOW_NUL | JSON_DECODE_ANY, &where, &memory);
    if (*out) return LIPSC_OK;
    if (memory) return lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", file);
    lipsc_show_name(where.text, shown);
    return lipsc_fail_at(err, LIPSC_E_FORMAT,
                         where.position > 0 ? (uint64_t)where.position : 0,
                         "%s: line %d: not JSON: %s", file, where.line, shown);
}

/* ---- A folder -------------------------------------------------------------- */

typedef struct {
    char *path;
    char shown[LIPSC_SHOWN_PATH];
    lipsc_mapfile map;
} folder_file;

static int file_path(const char *dir, const char *name, folder_file *f) {
    const size_t size = strlen(dir) + strlen(name) + 2;
    *f = (folder_file){.path = malloc(size)};
    if (!f->path) return 0;
    snprintf(f->path, size, "%s/%s", dir, name);
    lipsc_show_path(f->path, f->shown);
    return 1;
}

static void file_close(folder_file *f) {
    if (f->map.data) lipsc_mapfile_close(&f->map);
    free(f->path);
}

static lipsc_status file_open(const char *dir, const char *name, folder_file *f,
                              lipsc_error *err) {
    if (!file_path(dir, name, f)) return lipsc_fail(err, LIPSC_E_NOMEM, "out of memory");
    return lipsc_mapfile_open(f->path, &f->map, err);
}

static int file_exists(const char *dir, const char *name) {
    folder_file f;
    const int found = file_path(dir, name, &f) && !access(f.path, F_OK);
    free(f.path);
    return found;
}

static lipsc_status json_file(const char *dir, const char *name, json_t **out,
                              lipsc_error *err) {
    folder_file f;
    lipsc_status status = file_open(dir, name, &f, err);
    if (!status) {
        status = lipsc_json_read((const char *)f.map.data, f.map.size, f.shown, out, err);
        if (!status && !json_is_object(*out)) {
            json_decref(*out);
            *out = NULL;
            status = lipsc_fail(err, LIPSC_E_FORMAT, "%s: is not a JSON object", f.shown);
        }
    }
    file_close(&f);
    return status;
}

/* The next line without its end, as Rust's lines(): "\n" or "\r\n". */
static int next_line(const lipsc_mapfile *map, size_t *at, const char **line, size_t *len) {
    if (*at >= map->size) return 0;
    const char *begin = (const char *)map->data + *at;
    const char *end = memchr(begin, '\n', map->size - *at);
    *line = begin;
    *len = end ? (size_t)(end - begin) : map->size - *at;
    *at += *len + 1;
    if (end && *len && begin[*len - 1] == '\r') --*len;
    return 1;
}

static lipsc_status lines_of(const char *dir, const char *name, int keep_ends, json_t *list,
                             lipsc_error *err) {
    folder_file f;
    const char *line;
    size_t len, at = 0, number = 0;
    lipsc_status status = file_open(dir, name, &f, err);
    while (!status && next_line(&f.map, &at, &line, &len)) {
        number++;
        size_t width;
        if (lipsc_utf8_sound(line, len) != len || memchr(line, '\0', len)) {
            status = lipsc_fail(err, LIPSC_E_FORMAT, "%s: line %zu is not UTF-8 text",
                                f.shown, number);
            break;
        }
        while (!keep_ends && len) {
            const char *last = lipsc_utf8_before(line, line + len);
            if (!lipsc_is_space(lipsc_utf8_read(last, &width))) break;
            len = (size_t)(last - line);
        }
        if (json_array_append_new(list, json_stringn(line, len)))
            status = lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", f.shown);
    }
    file_close(&f);
    return status;
}

/* ---- Options ------------------------------------------------------------------- */

/* A field of tokenizer_config.json that is true or false, and its default. */
static int option(json_t *config, const char *key, int otherwise) {
    json_t *value = json_object_get(config, key);
    return json_is_boolean(value) ? json_is_true(value) : otherwise;
}

/* The special tokens of the list that the vocabulary has, as added_tokens. */
static json_t *specials(json_t *vocab, const char *const *names) {
    json_t *list = json_array();
    for (; *names; names++) {
        if (!json_object_get(vocab, *names)) continue;
        json_array_append_new(list, json_pack("{s:i, s:s, s:b, s:b, s:b, s:b, s:b}", "id",
                                              0, "content", *names, "single_word", 0,
                                              "lstrip", !strcmp(*names, "<mask>"), "rstrip",
                                              0, "normalized", 0, "special", 1));
    }
    return list;
}

/* cls, the text, sep; null when the vocabulary lacks one of them. */
static json_t *around(json_t *vocab, const char *cls, const char *sep) {
    json_t *first = json_object_get(vocab, cls), *last = json_object_get(vocab, sep);
    if (!json_is_integer(first) || !json_is_integer(last)) return json_null();
    return json_pack("{s:s, s:[s, O], s:[s, O]}", "type", "BertProcessing", "cls", cls,
                     first, "sep", sep, last);
}

/* GPT-2's files; without its one special token they are RoBERTa's, which marks the ends of
 * a text. */
static json_t *describe_bpe(json_t *vocab, json_t *merges, json_t *config) {
    static const char *const gpt2[] = {"<|endoftext|>", NULL};
    static const char *const roberta[] = {"<s>", "<pad>", "</s>", "<unk>", "<mask>", NULL};
    const int is_gpt2 = json_object_get(vocab, gpt2[0]) != NULL;
    json_t *part =
        json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space",
                  option(config, "add_prefix_space", 0), "trim_offsets", 1, "use_regex", 1);
    json_t *added = specials(vocab, is_gpt2 ? gpt2 : roberta);
    json_t *post = is_gpt2 ? json_null() : around(vocab, "<s>", "</s>");
    return json_pack("{s:o, s:o, s:O, s:o, s:{s:s, s:O, s:O}}", "added_tokens", added,
                     "post_processor", post, "pre_tokenizer", part, "decoder", part,
                     "model", "type", "BPE", "vocab", vocab, "merges", merges);
}

static json_t *describe_wordpiece(json_t *vocab, json_t *config) {
    static const char *const tokens[] = {"[PAD]", "[UNK]",  "[CLS]",
                                         "[SEP]", "[MASK]", NULL};
    json_t *accents = json_object_get(config, "strip_accents");
    json_t *normalizer =
        json_pack("{s:s, s:b, s:b, s:b, s:O}", "type", "BertNormalizer", "clean_text", 1,
                  "handle_chinese_chars", option(config, "tokenize_chinese_chars", 1),
                  "lowercase", option(config, "do_lower_case", 1), "strip_accents",
                  accents ? accents : json_null());
    json_t *added = specials(vocab, tokens), *post = around(vocab, "[CLS]", "[SEP]");
    return json_pack(
        "{s:o, s:o, s:{s:s}, s:o, s:{s:s, s:s, s:b}, s:{s:s, s:s, s:s, s:i, s:O}}",
        "added_tokens", added, "normalizer", normalizer, "pre_tokenizer", "type",
        "BertPreTokenizer", "post_processor", post, "decoder", "type", "WordPiece",
        "prefix", "##", "cleanup", 1, "model", "type", "WordPiece", "unk_token", "[UNK]",
        "continuing_subword_prefix", "##", "max_input_chars_per_word", 100, "vocab", vocab);
}

/* ---- Opening ------------------------------------------------------------------- */

static lipsc_status open_bpe(const char *dir, const char *shown, json_t *config,
                             lipsc_tokenizer **out, lipsc_error *err) {
    lipsc_json_begin();
    json_t *vocab = NULL, *merges = json_array(), *root = NULL;
    lipsc_status status = json_file(dir, "vocab.json", &vocab, err);
    if (!status) status = lines_of(dir, "merges.txt", 1, merges, err);
    /* an empty last line is no merge */
    while (!status && json_array_size(merges) &&
           !json_string_length(json_array_get(merges, json_array_size(merges) - 1)))
        json_array_remove(merges, json_array_size(merges) - 1);
    if (!status) {
        root = describe_bpe(vocab, merges, config);
        status = root && !lipsc_json_incomplete()
                     ? lipsc_tokenizer_assemble(root, shown, out, err)
                     : lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", shown);
    }
    json_decref(root);
    json_decref(merges);
    json_decref(vocab);
    return status;
}

/* The line is the id; of two equal tokens the later holds. */
static lipsc_status open_wordpiece(const char *dir, const char *shown, json_t *config,
                                   lipsc_tokenizer **out, lipsc_error *err) {
    lipsc_json_begin();
    json_t *lines = json_array(), *vocab = json_object(), *line, *root = NULL;
    size_t i;
    lipsc_status status = lines_of(dir, "vocab.txt", 0, lines, err);
    json_array_foreach(lines, i, line)
        json_object_set_new(vocab, json_string_value(line), json_integer((json_int_t)i));
    if (!status) {
        root = describe_wordpiece(vocab, config);
        status = root && !lipsc_json_incomplete()
                     ? lipsc_tokenizer_assemble(root, shown, out, err)
                     : lipsc_fail(err, LIPSC_E_NOMEM, "%s: out of memory", shown);
    }
    json_decref(root);
    json_decref(vocab);
    json_decref(lines);
    return status;
}

static lipsc_status open_described(const char *dir, lipsc_tokenizer **out,
                                   lipsc_error *err) {
    folder_file f;
    lipsc_status status = file_open(dir, "tokenizer.json", &f, err);
    if (!status)
        status =
            lipsc_tokenizer_parse((const char *)f.map.data, f.map.size, f.path, out, err);
    file_close(&f);
    return status;
}

static lipsc_status open_file(const char *path, lipsc_tokenizer **out, lipsc_error *err) {
    lipsc_mapfile map;
    lipsc_status status = lipsc_mapfile_open(path, &map, err);
    if (status) return status;
    status = lipsc_tokenizer_parse((const char *)map.data, map.size, path, out, err);
    lipsc_mapfile_close(&map);
    return status;
}

static int is_json_file(const char *path) {
    static const char ending[] = ".json";
    const size_t length = strlen(path), end = sizeof ending - 1;
    struct stat info;
    return length > end && !strcmp(path + length - end, ending) && !stat(path, &info) &&
           S_ISREG(info.st_mode);
}

static lipsc_status open_gguf(const char *path, lipsc_tokenizer **out, lipsc_error *err) {
    lipsc_gguf *gguf;
    lipsc_status status = lipsc_gguf_open(path, &gguf, err);
    if (status) return status;
    status = lipsc_tokenizer_from_gguf(gguf, out, err);
    lipsc_gguf_free(gguf);
    return status;
}

lipsc_status lipsc_tokenizer_read(const char *dir, lipsc_tokenizer **out,
                                  lipsc_error *err) {
    char shown[LIPSC_SHOWN_PATH];
    json_t *config = NULL;
    lipsc_status status = LIPSC_OK;
    lipsc_show_path(dir, shown);
    if (lipsc_gguf_recognised(dir)) return open_gguf(dir, out, err);
    if (is_json_file(dir)) return open_file(dir, out, err);
    if (file_exists(dir, "tokenizer.json")) return open_described(dir, out, err);
    const int bpe = file_exists(dir, "vocab.json") && file_exists(dir, "merges.txt");
    if (!bpe && !file_exists(dir, "vocab.txt"))
        return lipsc_fail(err, LIPSC_E_IO,
                          "%s: no tokenizer.json, no vocab.json with merges.txt and no "
                          "vocab.txt there",
                          shown);
    if (file_exists(dir, "tokenizer_config.json"))
        status = json_file(dir, "tokenizer_config.json", &config, err);
    if (!status) status = (bpe ? open_bpe : open_wordpiece)(dir, shown, config, out, err);
    json_decref(config);
    return status;
}
