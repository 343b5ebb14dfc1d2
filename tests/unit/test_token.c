/* test_token.c - tokenizers against Hugging Face's answers (token_cases.h), its character
 * classes over all of Unicode, and one sentence for each way a file can be wrong. */
#include "token/token.h"

#include "core/mem.h"
#include "token/pattern.h"
#include "token/text.h"
#include "token_cases.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* ` becomes the quotation mark.  Free the result. */
static char *quoted(const char *json) {
    const size_t len = strlen(json);
    char *copy = malloc(len + 1);
    assert_non_null(copy);
    for (size_t i = 0; i <= len; i++) copy[i] = json[i] == '`' ? '"' : json[i];
    return copy;
}

static lipsc_status parse(const char *json, lipsc_tokenizer **out, lipsc_error *err) {
    char *real = quoted(json);
    const lipsc_status status =
        lipsc_tokenizer_parse(real, strlen(real), "tokenizer.json", out, err);
    free(real);
    return status;
}

static lipsc_tokenizer *opened(const char *json) {
    lipsc_tokenizer *tokenizer = NULL;
    lipsc_error err = {0};
    if (parse(json, &tokenizer, &err)) fail_msg("%s", err.text);
    return tokenizer;
}

static void check_ids(lipsc_tokenizer *tokenizer, const char *text, size_t size,
                      int special, const uint32_t *want, size_t want_count) {
    uint32_t *ids;
    size_t count;
    lipsc_error err = {0};
    if (lipsc_tokenizer_encode(tokenizer, text, size, special, &ids, &count, &err))
        fail_msg("%s", err.text);
    if (count != want_count || memcmp(ids, want, count * sizeof *ids) != 0) {
        print_error("text '%s', special %d:", text, special);
        for (size_t i = 0; i < count; i++) print_error(" %u", (unsigned)ids[i]);
        fail_msg(" are not the ids");
    }
    lipsc_release(ids);
}

/* The ids that Hugging Face's tokenizers give with special tokens are those without, and
 * what lies around them. */
static void check_around(const lipsc_tokenizer *tokenizer, const uint32_t *plain,
                         size_t plain_count, const uint32_t *special,
                         size_t special_count) {
    uint32_t *around;
    size_t before, after;
    lipsc_error err = {0};
    const lipsc_status status =
        lipsc_tokenizer_around(tokenizer, &around, &before, &after, &err);
    if (status == LIPSC_E_REFUSED) {
        assert_non_null(strstr(err.text, "times"));
        return;
    }
    if (status) fail_msg("%s", err.text);
    assert_int_equal(before + plain_count + after, special_count);
    assert_memory_equal(special, around, before * sizeof *special);
    assert_memory_equal(special + before, plain, plain_count * sizeof *special);
    assert_memory_equal(special + before + plain_count, around + before,
                        after * sizeof *special);
    lipsc_release(around);
}

static void test_encodings(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(encodings); i++) {
        lipsc_tokenizer *tokenizer = opened(encodings[i].json);
        char *text;
        size_t size;
        /* twice: the second time from the cache */
        for (int again = 0; again < 2; again++)
            check_ids(tokenizer, encodings[i].text, encodings[i].size, 0, encodings[i].ids,
                      encodings[i].count);
        check_ids(tokenizer, encodings[i].text, encodings[i].size, 1, encodings[i].special,
                  encodings[i].special_count);
        check_around(tokenizer, encodings[i].ids, encodings[i].count, encodings[i].special,
                     encodings[i].special_count);
        assert_int_equal(lipsc_tokenizer_decode(tokenizer, encodings[i].ids,
                                                encodings[i].count, 0, &text, &size, NULL),
                         LIPSC_OK);
        assert_string_equal(text, encodings[i].decoded);
        assert_int_equal(size, strlen(encodings[i].decoded));
        lipsc_release(text);
        lipsc_tokenizer_free(tokenizer);
    }
}

/* A tokenizer that shows where words end: see `cuts`. */
static lipsc_tokenizer *cutting(const char *pre_tokenizer) {
    char json[4096];
    int used = snprintf(json, sizeof json,
                        "{`pre_tokenizer`:%s,`model`:{`type`:`BPE`,`merges`:[],"
                        "`end_of_word_suffix`:`</w>`,`vocab`:{",
                        pre_tokenizer);
    size_t width;
    int id = 0;
    for (const char *at = alphabet; *at; at += width, id += 2) {
        char letter[8];
        const uint32_t code = lipsc_utf8_read(at, &width);
        snprintf(letter, sizeof letter, "\\u%04x", (unsigned)code);
        used += snprintf(json + used, sizeof json - (size_t)used, "%s`%s`:%d,`%s</w>`:%d",
                         id ? "," : "", letter, id, letter, id + 1);
    }
    snprintf(json + used, sizeof json - (size_t)used, "}}}");
    return opened(json);
}

static void test_cuts(void **state) {
    (void)state;
    const char *letters[64];
    size_t widths[64], count = 0;
    for (const char *at = alphabet; *at; at += widths[count++]) {
        letters[count] = at;
        lipsc_utf8_read(at, &widths[count]);
    }
    for (size_t i = 0; i < COUNT(cuts); i++) {
        lipsc_tokenizer *tokenizer = cutting(cuts[i].pre_tokenizer);
        lipsc_text shown = {0};
        uint32_t *ids;
        size_t id_count;
        assert_int_equal(lipsc_tokenizer_encode(tokenizer, cuts[i].text,
                                                strlen(cuts[i].text), 0, &ids, &id_count,
                                                NULL),
                         LIPSC_OK);
        for (size_t k = 0; k < id_count; k++) {
            lipsc_text_put(&shown, letters[ids[k] / 2], widths[ids[k] / 2]);
            if (ids[k] % 2) lipsc_text_put(&shown, "|", 1);
        }
        lipsc_text_put(&shown, "", 1);
        assert_string_equal(shown.data, cuts[i].cut);
        lipsc_text_free(&shown);
        lipsc_release(ids);
        lipsc_tokenizer_free(tokenizer);
    }
}

/* A tokenizer whose ids are the bytes of the normalized text. */
static lipsc_tokenizer *byte_wise(const char *normalizer) {
    char json[8192];
    int used = snprintf(json, sizeof json,
                        "{`normalizer`:%s,`model`:{`type`:`BPE`,`byte_fallback`:true,"
                        "`merges`:[],`vocab`:{",
                        normalizer);
    for (int i = 0; i < 256; i++)
        used += snprintf(json + used, sizeof json - (size_t)used, "%s`<0x%02X>`:%d",
                         i ? "," : "", (unsigned)i, i);
    snprintf(json + used, sizeof json - (size_t)used, "}}}");
    return opened(json);
}

static void check_bytes(lipsc_tokenizer *tokenizer, const char *text, size_t size,
                        const char *want, size_t want_size) {
    uint32_t ids[256];
    assert_true(want_size <= COUNT(ids));
    for (size_t i = 0; i < want_size; i++) ids[i] = (unsigned char)want[i];
    check_ids(tokenizer, text, size, 0, ids, want_size);
}

static void test_normalizations(void **state) {
    (void)state;
    for (size_t i = 0; i < COUNT(normalizations); i++) {
        lipsc_tokenizer *tokenizer = byte_wise(normalizations[i].normalizer);
        check_bytes(tokenizer, normalizations[i].text, normalizations[i].size,
                    normalizations[i].normalized, normalizations[i].normalized_size);
        lipsc_tokenizer_free(tokenizer);
    }
}

static void test_malformed_text(void **state) {
    (void)state;
    lipsc_tokenizer *tokenizer = byte_wise("null");
    for (size_t i = 0; i < COUNT(repairs); i++)
        check_bytes(tokenizer, repairs[i].bytes, repairs[i].size, repairs[i].repaired,
                    repairs[i].repaired_size);
    lipsc_tokenizer_free(tokenizer);
    /* Python writes three bytes for each part that it replaces */
    for (size_t i = 0; i < COUNT(repairs); i++) {
        size_t marks = 0, own = 0;
        for (size_t at = 0; at + 3 <= repairs[i].repaired_size; at++)
            marks += !memcmp(repairs[i].repaired + at, "\xef\xbf\xbd", 3);
        for (size_t at = 0; at + 3 <= repairs[i].size; at++)
            own += !memcmp(repairs[i].bytes + at, "\xef\xbf\xbd", 3);
        assert_int_equal(lipsc_tokenizer_malformed(repairs[i].bytes, repairs[i].size),
                         repairs[i].size - (repairs[i].repaired_size - 3 * (marks - own)));
    }
}

/* Members of a class and a hash of them (FNV-1a over three bytes each, ascending).  The
 * numbers were found by asking tokenizers 0.23.3 about every code point; they fail when the
 * tables of utf8proc or PCRE2 move away from its own. */
typedef struct {
    size_t members;
    uint64_t hash;
} census;

static void count_member(census *c, uint32_t code) {
    if (!c->members) c->hash = 0xcbf29ce484222325u;
    c->members++;
    for (int shift = 0; shift < 24; shift += 8)
        c->hash = (c->hash ^ (code >> shift & 255)) * 0x100000001b3u;
}

static int is_control_or_replacement(uint32_t code) {
    return code == 0xfffd || lipsc_is_control(code);
}

static void test_classes(void **state) {
    (void)state;
    static const struct {
        int (*has)(uint32_t);
        census want;
    } classes[] = {{lipsc_is_punctuation, {726, 0xb3a0aa4346d226cb}},
                   {is_control_or_replacement, {137681, 0xfe48b99de4cfbb0c}},
                   {lipsc_is_nonspacing, {1567, 0x861852ff4ac0c573}},
                   {lipsc_is_mark, {2097, 0x5668665ce241555d}},
                   {lipsc_is_numeric, {1924, 0x35ef3a26993a2b39}},
                   {lipsc_is_space, {25, 0x93037ddf68b12eef}}};
    for (size_t i = 0; i < COUNT(classes); i++) {
        census found = {0};
        for (uint32_t code = 0; code < 0x110000; code++)
            if ((code < 0xd800 || code > 0xdfff) && classes[i].has(code))
                count_member(&found, code);
        assert_int_equal(found.members, classes[i].want.members);
        assert_true(found.hash == classes[i].want.hash);
    }
}

static void test_expression_classes(void **state) {
    (void)state;
    static const struct {
        const char *expression;
        lipsc_pattern_language language;
        census want;
    } classes[] = {{"\\p{L}", LIPSC_PATTERN_ONIGURUMA, {141028, 0xa663550a20cface3}},
                   {"\\p{N}", LIPSC_PATTERN_ONIGURUMA, {1911, 0x21c196fd942fb50b}},
                   {"\\p{M}", LIPSC_PATTERN_ONIGURUMA, {2501, 0x13d7d0ac7e8cfee4}},
                   {"\\p{P}", LIPSC_PATTERN_ONIGURUMA, {855, 0xc4de59d78b59dec2}},
                   {"\\p{S}", LIPSC_PATTERN_ONIGURUMA, {8514, 0xc980c13e1c98fc58}},
                   {"\\s", LIPSC_PATTERN_ONIGURUMA, {25, 0x93037ddf68b12eef}},
                   {"\\w", LIPSC_PATTERN_ONIGURUMA, {144671, 0xe8add53b9034134e}},
                   {"\\w", LIPSC_PATTERN_RUST, {144667, 0x0a783c182510db60}}};
    for (size_t i = 0; i < COUNT(classes); i++) {
        lipsc_pattern *pattern;
        census found = {0};
        assert_int_equal(lipsc_pattern_compile(classes[i].expression,
                                               strlen(classes[i].expression),
                                               classes[i].language, "test", &pattern, NULL),
                         LIPSC_OK);
        for (uint32_t code = 0; code < 0x110000; code++) {
            char bytes[4];
            if (code >= 0xd800 && code <= 0xdfff) continue;
            if (lipsc_pattern_begins(pattern, bytes, lipsc_utf8_write(code, bytes)))
                count_member(&found, code);
        }
        lipsc_pattern_free(pattern);
        assert_int_equal(found.members, classes[i].want.members);
        assert_true(found.hash == classes[i].want.hash);
    }
}

/* Oniguruma's \h is a hexadecimal digit; PCRE2's is a blank. */
static void test_hexadecimal_class(void **state) {
    (void)state;
    static const char digits[] = "0123456789abcdefABCDEF";
    lipsc_pattern *pattern;
    assert_int_equal(
        lipsc_pattern_compile("\\h", 2, LIPSC_PATTERN_ONIGURUMA, "test", &pattern, NULL),
        LIPSC_OK);
    for (int c = 1; c < 128; c++) {
        const char byte = (char)c;
        assert_int_equal(lipsc_pattern_begins(pattern, &byte, 1) != 0,
                         strchr(digits, c) != NULL);
    }
    lipsc_pattern_free(pattern);
}

/* 2^16 characters are the most. */
static void test_long_expression(void **state) {
    (void)state;
    enum { MOST = 1 << 16 };
    static char expression[MOST + 1];
    lipsc_pattern *pattern = NULL;
    lipsc_error err;
    memset(expression, 'a', sizeof expression);
    assert_int_equal(lipsc_pattern_compile(expression, MOST + 1, LIPSC_PATTERN_ONIGURUMA,
                                           "test", &pattern, &err),
                     LIPSC_E_FORMAT);
    assert_null(pattern);
    assert_non_null(strstr(err.text, "is too long"));
}

/* One word of 2^20 letters.  Merges a+a, aa+aa, ... up to 16 letters: 2^16 tokens, whatever
 * the order; a quadratic method would need hours. */
static void test_long_word(void **state) {
    (void)state;
    enum { LETTERS = 1 << 20 };
    lipsc_tokenizer *tokenizer =
        opened("{`model`:{`type`:`BPE`,`vocab`:{`a`:0,`aa`:1,`aaaa`:2,`aaaaaaaa`:3,"
               "`aaaaaaaaaaaaaaaa`:4},`merges`:[`a a`,`aa aa`,`aaaa aaaa`,"
               "`aaaaaaaa aaaaaaaa`]}}");
    char *word = malloc(LETTERS);
    uint32_t *ids;
    size_t count;
    assert_non_null(word);
    memset(word, 'a', LETTERS);
    assert_int_equal(
        lipsc_tokenizer_encode(tokenizer, word, LETTERS, 0, &ids, &count, NULL), LIPSC_OK);
    assert_int_equal(count, LETTERS / 16);
    for (size_t i = 0; i < count; i++) assert_int_equal(ids[i], 4);
    lipsc_release(ids);
    free(word);
    lipsc_tokenizer_free(tokenizer);
}

static void test_lookups(void **state) {
    (void)state;
    lipsc_tokenizer *tokenizer = opened(byte_level_json);
    uint32_t id;
    size_t size;
    char *text;
    lipsc_error err = {0};
    /* 18 tokens of the model, then <|end|> and Cat in the order of the file. */
    assert_int_equal(lipsc_tokenizer_vocab_size(tokenizer), 20);
    assert_true(lipsc_tokenizer_find(tokenizer, "Cat", 3, &id) && id == 19);
    assert_true(lipsc_tokenizer_find(tokenizer, "at", 2, &id) && id == 10);
    assert_false(lipsc_tokenizer_find(tokenizer, "dog", 3, &id));
    assert_memory_equal(lipsc_tokenizer_token(tokenizer, 18, &size), "<|end|>", 7);
    assert_int_equal(size, 7);
    assert_null(lipsc_tokenizer_token(tokenizer, 20, &size));
    const uint32_t ids[] = {12, 18, 20};
    assert_int_equal(lipsc_tokenizer_decode(tokenizer, ids, 2, 1, &text, &size, NULL),
                     LIPSC_OK);
    assert_string_equal(text, " cat");
    lipsc_release(text);
    assert_int_equal(lipsc_tokenizer_decode(tokenizer, ids, 3, 0, &text, &size, &err),
                     LIPSC_E_RANGE);
    assert_string_equal(err.text, "no token has the id 20");
    lipsc_tokenizer_free(tokenizer);
    lipsc_tokenizer_free(NULL);
}

/* Words without a letter leave nothing to decode, and no place where it would stand. */
static void test_no_letter(void **state) {
    (void)state;
    lipsc_tokenizer *tokenizer =
        opened("{`model`:{`type`:`BPE`,`vocab`:{``:0,`a`:1},`merges`:[]},"
               "`decoder`:{`type`:`ByteFallback`}}");
    const uint32_t ids[] = {0, 0};
    lipsc_error err;
    size_t size;
    char *text;
    assert_int_equal(lipsc_tokenizer_decode(tokenizer, ids, 2, 0, &text, &size, &err),
                     LIPSC_OK);
    assert_int_equal(size, 0);
    assert_string_equal(text, "");
    lipsc_release(text);
    lipsc_tokenizer_free(tokenizer);
}

/* A vocabulary with gaps works; the ids in between belong to nothing. */
static void test_gaps(void **state) {
    (void)state;
    lipsc_tokenizer *tokenizer =
        opened("{`model`:{`type`:`BPE`,`vocab`:{`a`:2147483647,`b`:7},`merges`:[]}}");
    const uint32_t want[] = {INT32_MAX, 7};
    size_t size;
    check_ids(tokenizer, "ab", 2, 0, want, 2);
    assert_int_equal(lipsc_tokenizer_vocab_size(tokenizer), (size_t)INT32_MAX + 1);
    assert_null(lipsc_tokenizer_token(tokenizer, 8, &size));
    lipsc_tokenizer_free(tokenizer);
}

#define MODEL "`model`:{`type`:`BPE`,`vocab`:{`a`:0},`merges`:[]}"

static void test_refusals(void **state) {
    (void)state;
    static const struct {
        const char *json, *sentence;
    } wrong[] = {
        {"", "line 1: not JSON"},
        {"[]", "is not a JSON object"},
        {"{`version`:`2.0`}", "version is not"},
        {"{}", "model is missing or not an object"},
        {"{`model`:{`type`:`Unigram`}}", "model type 'Unigram' is not supported"},
        {"{`model`:{`type`:7}}", "model field 'type' is not a string"},
        {"{`model`:{`type`:`BPE`}}", "model has no vocab"},
        {"{`model`:{`type`:`BPE`,`vocab`:{}}}", "model has no field 'merges'"},
        {"{`model`:{`type`:`BPE`,`vocab`:{`a`:-1},`merges`:[]}}", "'a' an id that is not"},
        {"{`model`:{`type`:`BPE`,`vocab`:{`a`:2147483648},`merges`:[]}}", "below 2^31"},
        {"{`model`:{`type`:`BPE`,`vocab`:{`a`:1.5},`merges`:[]}}", "below 2^31"},
        {"{`model`:{`type`:`BPE`,`vocab`:{`a`:1,`b`:1},`merges`:[]}}", "the same id 1"},
        {"{`model`:{`type`:`BPE`,`vocab`:{`a`:1},`merges`:[`a b`]}}",
         "merge 1 needs the token 'b'"},
        {"{`model`:{`type`:`BPE`,`vocab`:{`a`:1},`merges`:[`a a`]}}",
         "merge 1 needs the token 'aa'"},
        {"{`model`:{`type`:`BPE`,`vocab`:{`a`:1},`merges`:[`aaa`]}}",
         "merge 1 is not a pair of tokens"},
        {"{`model`:{`type`:`BPE`,`vocab`:{`a`:1},`merges`:[[`a`]]}}", "is not a pair"},
        {"{`model`:{`type`:`BPE`,`dropout`:0.1,`vocab`:{},`merges`:[]}}", "dropout"},
        {"{`model`:{`type`:`WordPiece`,`vocab`:{}}}", "model has no field 'unk_token'"},
        {"{`normalizer`:{`type`:`Precompiled`}}", "normalizer type 'Precompiled' is not"},
        {"{`normalizer`:[]}", "normalizer is not an object"},
        {"{`normalizer`:{`type`:`Sequence`,`normalizers`:[{`type`:`Nmt`}]}}",
         "normalizer type 'Nmt' is not supported"},
        {"{`normalizer`:{`type`:`Replace`,`content`:``}}", "has no pattern"},
        {"{`pre_tokenizer`:{`type`:`UnicodeScripts`}," MODEL "}",
         "tokenizer.json: pre_tokenizer type 'UnicodeScripts' is not supported"},
        {"{`pre_tokenizer`:{`type`:`Split`,`pattern`:{`Regex`:`(a`},`behavior`:`Isolated`,"
         "`invert`:false}}",
         "cannot be used: a parenthesis is not closed"},
        {"{`pre_tokenizer`:{`type`:`Split`,`pattern`:{`Regex`:`\\\\X`},`behavior`:"
         "`Isolated`,`invert`:false}}",
         "an escape is not supported"},
        {"{`pre_tokenizer`:{`type`:`Split`,`pattern`:{`Regex`:`\\\\p{Script}`},`behavior`:"
         "`Isolated`,`invert`:false}}",
         "a property of this name is not supported"},
        {"{`pre_tokenizer`:{`type`:`Split`,`pattern`:{`Regex`:`(?i:ss)`},`behavior`:"
         "`Isolated`,`invert`:false}}",
         "letters that fold into one"},
        {"{`pre_tokenizer`:{`type`:`Split`,`pattern`:{`String`:`a`},`behavior`:`Kept`,"
         "`invert`:false}}",
         "behavior 'Kept' is not supported"},
        {"{`pre_tokenizer`:{`type`:`Metaspace`,`replacement`:`ab`}}",
         "is not one character"},
        {"{`pre_tokenizer`:{`type`:`Metaspace`,`replacement`:`_`,`prepend_scheme`:`always`,"
         "`add_prefix_space`:false}}",
         "contradicts prepend_scheme"},
        {"{`pre_tokenizer`:{`type`:`ByteLevel`}}", "has no field 'add_prefix_space'"},
        {"{`post_processor`:{`type`:`BertProcessing`,`cls`:[`a`,0]}," MODEL "}",
         "field 'sep' is not a token and its id"},
        {"{`post_processor`:{`type`:`TemplateProcessing`,`single`:[{`SpecialToken`:{`id`:"
         "`x`}}],`special_tokens`:{}}," MODEL "}",
         "uses the token 'x', which special_tokens does not have"},
        {"{`post_processor`:{`type`:`TemplateProcessing`,`single`:[{`Sequence`:{`id`:`B`}}]"
         "}}",
         "neither sequence A nor a special token"},
        {"{`decoder`:{`type`:`CTC`}}", "decoder type 'CTC' is not supported"},
        {"{`added_tokens`:[{`id`:0,`content`:`x`}]," MODEL "}",
         "added_tokens has no field 'single_word'"},
        {"{`added_tokens`:7," MODEL "}", "added_tokens is not a list"},
    };
    for (size_t i = 0; i < COUNT(wrong); i++) {
        lipsc_tokenizer *tokenizer = NULL;
        lipsc_error err = {0};
        const lipsc_status status = parse(wrong[i].json, &tokenizer, &err);
        if (status != LIPSC_E_FORMAT || err.code != status || tokenizer ||
            strncmp(err.text, "tokenizer.json: ", 16) != 0 ||
            !strstr(err.text, wrong[i].sentence))
            fail_msg("%s: status %d, '%s'", wrong[i].json, (int)status, err.text);
        assert_int_equal(parse(wrong[i].json, &tokenizer, NULL), LIPSC_E_FORMAT);
    }
}

static void test_nothing_there(void **state) {
    (void)state;
    lipsc_tokenizer *tokenizer = NULL;
    lipsc_error err = {0};
    assert_int_equal(lipsc_tokenizer_open("/nonexistent/model", &tokenizer, &err),
                     LIPSC_E_IO);
    assert_non_null(strstr(err.text, "/nonexistent/model: no tokenizer.json"));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encodings),       cmocka_unit_test(test_cuts),
        cmocka_unit_test(test_normalizations),  cmocka_unit_test(test_malformed_text),
        cmocka_unit_test(test_classes),         cmocka_unit_test(test_expression_classes),
        cmocka_unit_test(test_long_word),       cmocka_unit_test(test_hexadecimal_class),
        cmocka_unit_test(test_long_expression), cmocka_unit_test(test_lookups),
        cmocka_unit_test(test_no_letter),       cmocka_unit_test(test_gaps),
        cmocka_unit_test(test_refusals),        cmocka_unit_test(test_nothing_there),
    };
    return cmocka_run_group_tests_name("token", tests, NULL, NULL);
}
