/* tokenizer_gguf.c - the tokenizer inside a GGUF file, written as the tokenizer.json that
 * means the same.
 *
 * GGUF keeps vocabulary, merges or scores, and the kind of each token; how a text is cut
 * into words is only named ("qwen2", "smollm").  The rules behind those names are those of
 * the published tokenizer.json of the models that carry them. */
#include "token/parts.h"

#include "core/error.h"
#include "core/json.h"
#include "core/mem.h"
#include "io/gguf.h"
#include "io/show.h"
#include "token/text.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CONTROL = 3, USER_DEFINED = 4 }; /* of tokenizer.ggml.token_type */

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|"
#define REST         "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* How a text is cut before byte-level BPE. */
static const struct cut {
    const char *name;
    const char *pattern; /* NULL: GPT-2's own          */
    int digits;          /* each digit stands alone    */
    int compose;         /* the text is put into NFC   */
    int whole_words; /* a word that is a token is taken whole, whatever the merges say */
} cuts[] = {
    {"gpt-2", NULL, 0, 0, 0},
    {"phi-2", NULL, 0, 0, 0},
    {"smollm", NULL, 1, 0, 0},
    {"starcoder", NULL, 1, 0, 0},
    {"qwen2", CONTRACTIONS "\\p{N}" REST, 0, 1, 0},
    {"deepseek-r1-qwen", CONTRACTIONS "\\p{N}" REST, 0, 1, 0},
    {"llama-bpe", CONTRACTIONS "\\p{N}{1,3}" REST, 0, 0, 1},
    {"llama3", CONTRACTIONS "\\p{N}{1,3}" REST, 0, 0, 1},
    {"llama-v3", CONTRACTIONS "\\p{N}{1,3}" REST, 0, 0, 1},
};

typedef struct {
    const lipsc_gguf *gguf;
    const char *shown;
    json_t *tokens; /* array of strings, the id is the place */
    json_t *vocab;  /* object: token -> id                   */
    json_t *added;  /* added_tokens                          */
    lipsc_error *err;
} source;

static lipsc_status fail(const source *s, const char *reason) {
    return lipsc_fail(s->err, LIPSC_E_FORMAT, "%s: %s", s->shown, reason);
}

static lipsc_status no_memory(const source *s) {
    return lipsc_fail(s->err, LIPSC_E_NOMEM, "%s: out of memory for its tokenizer",
                      s->shown);
}

static int equal(lipsc_gguf_text text, const char *word) {
    return text.size == strlen(word) && !memcmp(text.bytes, word, text.size);
}

static int flag(const source *s, const char *key, int otherwise) {
    double value;
    return lipsc_gguf_number(s->gguf, key, &value) ? value != 0 : otherwise;
}

/* ---- Vocabulary ---------------------------------------------------------------------- */

/* The strings of a list; NULL with the reason given. */
static lipsc_status strings(const source *s, const char *key, json_t **out) {
    lipsc_gguf_list list;
    lipsc_gguf_text text;
    if (!lipsc_gguf_array(s->gguf, key, &list))
        return lipsc_fail(s->err, LIPSC_E_FORMAT, "%s: has no %s, so it has no tokenizer",
                          s->shown, key);
    json_t *words = json_array();
    while (lipsc_gguf_next_string(&list, &text))
        if (memchr(text.bytes, '\0', text.size) ||
            json_array_append_new(words, json_stringn(text.bytes, text.size))) {
            const lipsc_status status =
                lipsc_json_incomplete() ? no_memory(s)
                                        : lipsc_fail(s->err, LIPSC_E_FORMAT,
                                                     "%s: entry %zu of %s is no UTF-8 text",
                                                     s->shown, json_array_size(words), key);
            json_decref(words);
            return status;
        }
    if (list.left) { /* entries that are no texts */
        json_decref(words);
        return lipsc_fail(s->err, LIPSC_E_FORMAT, "%s: %s is no list of texts", s->shown,
                          key);
    }
    *out = words;
    return words ? LIPSC_OK : no_memory(s);
}

/* A list that says something of every token: another number of entries, or one that is no
 * number, would leave out merges or special tokens without a word. */
static lipsc_status one_each(const source *s, const char *key) {
    lipsc_gguf_list list;
    double value;
    size_t count = 0, numbers = 0;
    if (!lipsc_gguf_array(s->gguf, key, &list)) return LIPSC_OK;
    for (; lipsc_gguf_next_number(&list, &value); count++) numbers += !isnan(value);
    if (count == json_array_size(s->tokens) && numbers == count && !list.left)
        return LIPSC_OK;
    return lipsc_fail(s->err, LIPSC_E_FORMAT, "%s: %s is not one number for each token",
                      s->shown, key);
}

/* Of equal tokens the first keeps its id. */
static json_t *vocabulary(json_t *tokens) {
    json_t *vocab = json_object(), *token;
    size_t id;
    json_array_foreach(tokens, id, token) {
        const char *text = json_string_value(token);
        if (!json_object_get(vocab, text))
            json_object_set_new(vocab, text, json_integer((json_int_t)id));
    }
    return vocab;
}

/* Tokens that are found in the text before anything is cut. */
static json_t *added_tokens(const source *s) {
    json_t *added = json_array();
    lipsc_gguf_list kinds;
    double kind;
    if (!lipsc_gguf_array(s->gguf, "tokenizer.ggml.token_type", &kinds)) return added;
    for (size_t id = 0; lipsc_gguf_next_number(&kinds, &kind); id++) {
        json_t *token = json_array_get(s->tokens, id);
        if ((kind != CONTROL && kind != USER_DEFINED) || !token ||
            !json_string_length(token))
            continue;
        json_array_append_new(added, json_pack("{s:i, s:O, s:b, s:b, s:b, s:b, s:b}", "id",
                                               (int)id, "content", token, "single_word", 0,
                                               "lstrip", 0, "rstrip", 0, "normalized", 0,
                                               "special", kind == CONTROL));
    }
    return added;
}

/* ---- What the model expects around a text -------------------------------------------- */

/* NULL for what is no id: notes hold any number. */
static json_t *token_of(const source *s, double id) {
    const int there = id >= 0 && id < (double)json_array_size(s->tokens);
    return there ? json_array_get(s->tokens, (size_t)id) : NULL;
}

/* Appends the token of that note to a template; nothing without it. */
static void add_special(const source *s, const char *key, json_t *single, json_t *known) {
    double id;
    if (!lipsc_gguf_number(s->gguf, key, &id)) return;
    json_t *token = token_of(s, id);
    if (!token) return;
    json_array_append_new(
        single, json_pack("{s:{s:O, s:i}}", "SpecialToken", "id", token, "type_id", 0));
    json_object_set_new(
        known, json_string_value(token),
        json_pack("{s:O, s:[i], s:[O]}", "id", token, "ids", (int)id, "tokens", token));
}

static json_t *around(const source *s, int first, const char *first_key, int last,
                      const char *last_key) {
    json_t *single = json_array(), *known = json_object();
    if (first) add_special(s, first_key, single, known);
    json_array_append_new(single,
                          json_pack("{s:{s:s, s:i}}", "Sequence", "id", "A", "type_id", 0));
    if (last) add_special(s, last_key, single, known);
    return json_pack("{s:s, s:o, s:o}", "type", "TemplateProcessing", "single", single,
                     "special_tokens", known);
}

static json_t *begin_and_end(const source *s, int begins) {
    return around(s, flag(s, "tokenizer.ggml.add_bos_token", begins),
                  "tokenizer.ggml.bos_token_id", flag(s, "tokenizer.ggml.add_eos_token", 0),
                  "tokenizer.ggml.eos_token_id");
}

/* ---- Byte-level BPE ------------------------------------------------------------------ */

static json_t *byte_level(int use_regex) {
    return json_pack("{s:s, s:b, s:b, s:b}", "type", "ByteLevel", "add_prefix_space", 0,
                     "trim_offsets", 1, "use_regex", use_regex);
}

static json_t *pre_tokenizer(const struct cut *cut) {
    json_t *steps = json_array();
    if (cut->digits)
        json_array_append_new(
            steps, json_pack("{s:s, s:b}", "type", "Digits", "individual_digits", 1));
    if (cut->pattern)
        json_array_append_new(steps, json_pack("{s:s, s:{s:s}, s:s, s:b}", "type", "Split",
                                               "pattern", "Regex", cut->pattern, "behavior",
                                               "Isolated", "invert", 0));
    json_array_append_new(steps, byte_level(!cut->pattern));
    return json_pack("{s:s, s:o}", "type", "Sequence", "pretokenizers", steps);
}

static lipsc_status find_cut(const source *s, const struct cut **out) {
    lipsc_gguf_text name = {"", 0};
    char shown[LIPSC_SHOWN_NAME], raw[64] = "";
    lipsc_gguf_string(s->gguf, "tokenizer.ggml.pre", &name);
    for (size_t c = 0; c < sizeof cuts / sizeof cuts[0]; c++)
        if (equal(name, cuts[c].name)) {
            *out = &cuts[c];
            return LIPSC_OK;
        }
    snprintf(raw, sizeof raw, "%.*s", (int)(name.size < 40 ? name.size : 40), name.bytes);
    lipsc_show_name(raw, shown);
    return lipsc_fail(s->err, LIPSC_E_FORMAT,
                      "%s: tokenizer.ggml.pre is '%s', a way to cut words that is not "
                      "known; known are gpt-2, phi-2, smollm, starcoder, qwen2, "
                      "deepseek-r1-qwen, llama-bpe, llama3, llama-v3",
                      s->shown, shown);
}

static lipsc_status describe_byte_level(const source *s, json_t **root) {
    const struct cut *cut = NULL;
    json_t *merges = NULL;
    lipsc_status status = find_cut(s, &cut);
    if (!status) status = strings(s, "tokenizer.ggml.merges", &merges);
    if (status) return status;
    json_t *normalizer = cut->compose ? json_pack("{s:s}", "type", "NFC") : json_null();
    *root = json_pack("{s:O, s:o, s:o, s:o, s:o, s:{s:s, s:O, s:o, s:b}}", "added_tokens",
                      s->added, "normalizer", normalizer, "pre_tokenizer",
                      pre_tokenizer(cut), "post_processor", begin_and_end(s, 0), "decoder",
                      byte_level(1), "model", "type", "BPE", "vocab", s->vocab, "merges",
                      merges, "ignore_merges", cut->whole_words);
    return LIPSC_OK;
}

/* ---- Sentencepiece BPE: merges follow from the scores -------------------------------- */

typedef struct {
    double score;     /* of what the pair becomes */
    size_t whole, at; /* its token, cut after `at` bytes */
    json_int_t left_id, right_id;
} merge;

/* Higher scores first; within one token as the converters order them. */
static int by_score(const void *a, const void *b) {
    const merge *x = a, *y = b;
    if (x->score != y->score) return x->score < y->score ? 1 : -1;
    if (x->whole != y->whole) return x->whole < y->whole ? -1 : 1;
    if (x->left_id != y->left_id) return x->left_id < y->left_id ? -1 : 1;
    return (x->right_id > y->right_id) - (x->right_id < y->right_id);
}

static json_int_t id_of(const source *s, const char *text, size_t size) {
    const json_t *id = json_object_getn(s->vocab, text, size);
    return id ? json_integer_value(id) : -1;
}

/* All ways to put a token together from two others; counts them, and notes them unless
 * list is NULL. */
static size_t pairs_of(const source *s, size_t id, double score, merge *list) {
    const char *text = json_string_value(json_array_get(s->tokens, id));
    const size_t size = strlen(text);
    size_t count = 0;
    for (size_t at = 1; at < size; at++) {
        if (((unsigned char)text[at] & 0xc0) == 0x80) continue; /* inside a character */
        const json_int_t l = id_of(s, text, at), r = id_of(s, text + at, size - at);
        if (l < 0 || r < 0) continue;
        if (list) list[count] = (merge){score, id, at, l, r};
        count++;
    }
    return count;
}

static size_t all_pairs(const source *s, merge *list) {
    lipsc_gguf_list scores;
    double score;
    size_t count = 0, tokens = json_array_size(s->tokens);
    if (!lipsc_gguf_array(s->gguf, "tokenizer.ggml.scores", &scores)) return 0;
    for (size_t id = 0; id < tokens && lipsc_gguf_next_number(&scores, &score); id++)
        count += pairs_of(s, id, score, list ? list + count : NULL);
    return count;
}

static json_t *merges_by_score(const source *s) {
    const size_t count = all_pairs(s, NULL);
    merge *list = lipsc_alloc(count, sizeof *list);
    if (!list) return NULL;
    json_t *merges = json_array();
    all_pairs(s, list);
    if (count) qsort(list, count, sizeof *list, by_score);
    for (size_t m = 0; m < count; m++) {
        const char *text = json_string_value(json_array_get(s->tokens, list[m].whole));
        json_array_append_new(
            merges, json_pack("[s#, s]", text, (int)list[m].at, text + list[m].at));
    }
    lipsc_release(list);
    return merges;
}

static lipsc_status describe_sentencepiece(const source *s, json_t **root) {
    static const char space[] = "\xe2\x96\x81"; /* U+2581 stands for a space */
    const int prefix = flag(s, "tokenizer.ggml.add_space_prefix", 1);
    double unknown = 0;
    lipsc_gguf_list scores;
    if (!lipsc_gguf_array(s->gguf, "tokenizer.ggml.scores", &scores))
        return fail(s, "has no tokenizer.ggml.scores, so its merges are not known");
    const lipsc_status status = one_each(s, "tokenizer.ggml.scores");
    if (status) return status;
    json_t *merges = merges_by_score(s);
    if (!merges) return no_memory(s);
    json_t *before = json_array(), *after = json_array();
    lipsc_gguf_number(s->gguf, "tokenizer.ggml.unknown_token_id", &unknown);
    json_t *unk = token_of(s, unknown);
    if (prefix)
        json_array_append_new(before,
                              json_pack("{s:s, s:s}", "type", "Prepend", "prepend", space));
    json_array_append_new(before, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace",
                                            "pattern", "String", " ", "content", space));
    json_array_append_new(after, json_pack("{s:s, s:{s:s}, s:s}", "type", "Replace",
                                           "pattern", "String", space, "content", " "));
    json_array_append_new(after, json_pack("{s:s}", "type", "ByteFallback"));
    json_array_append_new(after, json_pack("{s:s}", "type", "Fuse"));
    if (prefix)
        json_array_append_new(after, json_pack("{s:s, s:s, s:i, s:i}", "type", "Strip",
                                               "content", " ", "start", 1, "stop", 0));
    *root = json_pack("{s:O, s:{s:s, s:o}, s:o, s:{s:s, s:o}, "
                      "s:{s:s, s:O, s:o, s:O, s:b, s:b}}",
                      "added_tokens", s->added, "normalizer", "type", "Sequence",
                      "normalizers", before, "post_processor", begin_and_end(s, 1),
                      "decoder", "type", "Sequence", "decoders", after, "model", "type",
                      "BPE", "vocab", s->vocab, "merges", merges, "unk_token",
                      unk ? unk : json_null(), "byte_fallback", 1, "fuse_unk", 1);
    return LIPSC_OK;
}

/* ---- WordPiece ----------------------------------------------------------------------- */

/* GGUF marks the beginning of words where BERT's own files mark continuations.  NULL: no
 * memory. */
static json_t *bert_vocabulary(const source *s) {
    static const char mark[] = "\xe2\x96\x81";
    json_t *vocab = json_object(), *token;
    size_t id;
    json_array_foreach(s->tokens, id, token) {
        const char *text = json_string_value(token);
        const size_t size = strlen(text), marked = sizeof mark - 1;
        char *name = lipsc_alloc(size + 3, 1);
        if (!name) {
            json_decref(vocab);
            return NULL;
        }
        if (!strncmp(text, mark, marked))
            snprintf(name, size + 3, "%s", text + marked);
        else if (text[0] == '[' && text[size - 1] == ']')
            snprintf(name, size + 3, "%s", text);
        else
            snprintf(name, size + 3, "##%s", text);
        json_object_set_new(vocab, name, json_integer((json_int_t)id));
        lipsc_release(name);
    }
    return vocab;
}

/* The file does not say whether texts are lowered; a vocabulary without one capital letter
 * does. */
static int has_capitals(json_t *vocab) {
    const char *token;
    json_t *id;
    json_object_foreach(vocab, token, id) {
        if (*token == '[') continue;
        for (const char *p = token; *p; p++)
            if (*p >= 'A' && *p <= 'Z') return 1;
    }
    return 0;
}

static lipsc_status describe_wordpiece(const source *s, json_t **root) {
    json_t *vocab = bert_vocabulary(s);
    if (!vocab) return no_memory(s);
    const int lower = !has_capitals(vocab);
    json_t *post = around(s, 1, "tokenizer.ggml.cls_token_id", 1,
                          "tokenizer.ggml.seperator_token_id"); /* spelled so there */
    *root = json_pack(
        "{s:O, s:{s:s, s:b, s:b, s:b, s:n}, s:{s:s}, s:o, s:{s:s, s:s, s:b}, "
        "s:{s:s, s:s, s:s, s:i, s:o}}",
        "added_tokens", s->added, "normalizer", "type", "BertNormalizer", "clean_text", 1,
        "handle_chinese_chars", 1, "lowercase", lower, "strip_accents", "pre_tokenizer",
        "type", "BertPreTokenizer", "post_processor", post, "decoder", "type", "WordPiece",
        "prefix", "##", "cleanup", 1, "model", "type", "WordPiece", "unk_token", "[UNK]",
        "continuing_subword_prefix", "##", "max_input_chars_per_word", 100, "vocab", vocab);
    return LIPSC_OK;
}

/* ---- Opening ------------------------------------------------------------------------- */

static lipsc_status describe(const source *s, json_t **root) {
    lipsc_gguf_text model = {"", 0};
    lipsc_gguf_string(s->gguf, "tokenizer.ggml.model", &model);
    if (equal(model, "gpt2")) return describe_byte_level(s, root);
    if (equal(model, "llama")) return describe_sentencepiece(s, root);
    if (equal(model, "bert")) return describe_wordpiece(s, root);
    return fail(s, "tokenizer.ggml.model is none of gpt2, llama, bert");
}

lipsc_status lipsc_tokenizer_from_gguf(const lipsc_gguf *gguf, lipsc_tokenizer **out,
                                       lipsc_error *err) {
    source s = {.gguf = gguf, .shown = lipsc_gguf_path(gguf), .err = err};
    json_t *root = NULL;
    lipsc_json_begin();
    lipsc_status status = strings(&s, "tokenizer.ggml.tokens", &s.tokens);
    if (status) return status;
    s.vocab = vocabulary(s.tokens);
    s.added = added_tokens(&s);
    status = one_each(&s, "tokenizer.ggml.token_type");
    if (!status) status = describe(&s, &root);
    if (!status)
        status = root && !lipsc_json_incomplete()
                     ? lipsc_tokenizer_assemble(root, s.shown, out, err)
                     : no_memory(&s);
    json_decref(root);
    json_decref(s.added);
    json_decref(s.vocab);
    json_decref(s.tokens);
    return status;
}
