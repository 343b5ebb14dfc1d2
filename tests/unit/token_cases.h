/* token_cases.h - small tokenizers, and what Hugging Face tokenizers 0.23.3 makes of texts
 * with them.  Every list of ids, every cut, every normalized text and every decoded text
 * here was printed by that package.  In the JSON ` stands for the quotation mark. */
#ifndef LIPSC_TEST_TOKEN_CASES_H
#define LIPSC_TEST_TOKEN_CASES_H

#include <stddef.h>
#include <stdint.h>

static const char byte_level_json[] =
    "{`added_tokens`:[{`id`:0,`content`:`<|end|>`,`single_word`:false,"
    "`lstrip`:true,`rstrip`:false,`normalized`:false,`special`:true},{`id`:0,"
    "`content`:`Cat`,`single_word`:true,`lstrip`:false,`rstrip`:false,"
    "`normalized`:true,`special`:false}],"
    "`pre_tokenizer`:{`type`:`ByteLevel`,`add_prefix_space`:true,"
    "`trim_offsets`:true,`use_regex`:true},"
    "`decoder`:{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true,"
    "`use_regex`:true},"
    "`post_processor`:{`type`:`RobertaProcessing`,`sep`:[`<|end|>`,18],"
    "`cls`:[`t`,3],`trim_offsets`:true,`add_prefix_space`:true},"
    "`model`:{`type`:`BPE`,`vocab`:{`a`:0,`c`:1,`s`:2,`t`:3,`'`:4,`\\u0120`:5,"
    "`\\u010a`:6,`\\u00c3`:7,`\\u00a9`:8,`1`:9,`at`:10,`\\u0120c`:11,"
    "`\\u0120cat`:12,`\\u00c3\\u00a9`:13,`'s`:14,`\\u0120\\u0120`:15,`C`:16,`!`:17},"
    "`merges`:[`a t`,`\\u0120 c`,`\\u0120c at`,`\\u00c3 \\u00a9`,`' s`,"
    "`\\u0120 \\u0120`]}}";

static const char llama2_json[] =
    "{`normalizer`:{`type`:`Sequence`,`normalizers`:[{`type`:`Prepend`,"
    "`prepend`:`\\u2581`},{`type`:`Replace`,`pattern`:{`String`:` `},"
    "`content`:`\\u2581`}]},"
    "`added_tokens`:[{`id`:0,`content`:`<s>`,`single_word`:false,"
    "`lstrip`:false,`rstrip`:false,`normalized`:false,`special`:true},{`id`:0,"
    "`content`:`<unk>`,`single_word`:false,`lstrip`:false,`rstrip`:false,"
    "`normalized`:false,`special`:true}],"
    "`post_processor`:{`type`:`TemplateProcessing`,`single`:[{`SpecialToken`:{"
    "`id`:`<s>`,`type_id`:0}},{`Sequence`:{`id`:`A`,`type_id`:0}}],`pair`:[{"
    "`Sequence`:{`id`:`A`,`type_id`:0}},{`Sequence`:{`id`:`B`,`type_id`:1}}],"
    "`special_tokens`:{`<s>`:{`id`:`<s>`,`ids`:[1],`tokens`:[`<s>`]}}},"
    "`decoder`:{`type`:`Sequence`,`decoders`:[{`type`:`Replace`,`pattern`:{"
    "`String`:`\\u2581`},`content`:` `},{`type`:`ByteFallback`},{`type`:`Fuse`},"
    "{`type`:`Strip`,`content`:` `,`start`:1,`stop`:0}]},"
    "`model`:{`type`:`BPE`,`unk_token`:`<unk>`,`fuse_unk`:true,"
    "`byte_fallback`:true,`vocab`:{`<unk>`:0,`<s>`:1,`\\u2581`:2,`a`:3,`b`:4,"
    "`ab`:5,`\\u2581ab`:6,`\\u2581\\u2581`:7,`<0xC3>`:8,`<0xA9>`:9,`<0x0A>`:10},"
    "`merges`:[[`a`,`b`],[`\\u2581`,`ab`],[`\\u2581`,`\\u2581`]]}}";

static const char metaspace_first_json[] =
    "{`added_tokens`:[{`id`:0,`content`:`<t>`,`single_word`:false,"
    "`lstrip`:false,`rstrip`:false,`normalized`:false,`special`:false}],"
    "`pre_tokenizer`:{`type`:`Metaspace`,`replacement`:`\\u2581`,"
    "`prepend_scheme`:`first`,`split`:true},"
    "`decoder`:{`type`:`Metaspace`,`replacement`:`\\u2581`,"
    "`prepend_scheme`:`first`,`split`:true},"
    "`model`:{`type`:`BPE`,`unk_token`:`?`,`fuse_unk`:false,"
    "`byte_fallback`:false,`vocab`:{`?`:0,`\\u2581`:1,`a`:2,`b`:3,`\\u2581a`:4,"
    "`ab`:5,`\\u2581\\u2581`:6},`merges`:[`\\u2581 a`,`a b`,`\\u2581 \\u2581`]}}";

static const char metaspace_old_json[] =
    "{`added_tokens`:[{`id`:0,`content`:`<t>`,`single_word`:false,"
    "`lstrip`:false,`rstrip`:false,`normalized`:false,`special`:false}],"
    "`pre_tokenizer`:{`type`:`Metaspace`,`replacement`:`\\u2581`,"
    "`add_prefix_space`:true,`str_rep`:`\\u2581`},"
    "`decoder`:{`type`:`Metaspace`,`replacement`:`\\u2581`,"
    "`add_prefix_space`:true,`str_rep`:`\\u2581`},"
    "`model`:{`type`:`BPE`,`unk_token`:`?`,`fuse_unk`:false,"
    "`byte_fallback`:false,`vocab`:{`?`:0,`\\u2581`:1,`a`:2,`b`:3,`\\u2581a`:4,"
    "`ab`:5,`\\u2581\\u2581`:6},`merges`:[`\\u2581 a`,`a b`,`\\u2581 \\u2581`]}}";

static const char llama3_json[] =
    "{`normalizer`:{`type`:`NFC`},"
    "`pre_tokenizer`:{`type`:`Sequence`,`pretokenizers`:[{`type`:`Split`,"
    "`pattern`:{`Regex`:`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\\\r\\\\n\\\\p{L}\\\\p{"
    "N}]?\\\\p{L}+|\\\\p{N}{1,3}| ?[^\\\\s\\\\p{L}\\\\p{"
    "N}]+[\\\\r\\\\n]*|\\\\s*[\\\\r\\\\n]+|\\\\s+(?!\\\\S)|\\\\s+`},`behavior`:`Isolated`,"
    "`invert`:false},{`type`:`ByteLevel`,`add_prefix_space`:false,"
    "`trim_offsets`:true,`use_regex`:false}]},"
    "`decoder`:{`type`:`ByteLevel`,`add_prefix_space`:true,`trim_offsets`:true,"
    "`use_regex`:true},"
    "`model`:{`type`:`BPE`,`ignore_merges`:true,`vocab`:{`1`:0,`2`:1,`e`:2,"
    "`t`:3,`'`:4,`T`:5,`\\u0120`:6,`\\u010a`:7,`\\u00c3`:8,`\\u00a9`:9,`12`:10,"
    "`121`:11,`\\u00c3\\u00a9`:12,`\\u0120\\u0120`:13,`\\u010a\\u010a`:14,`'T`:15,"
    "`et`:16},`merges`:[`1 2`,`\\u00c3 \\u00a9`,`\\u0120 \\u0120`,`\\u010a \\u010a`,"
    "`e t`]}}";

static const char wordpiece_json[] =
    "{`normalizer`:{`type`:`BertNormalizer`,`clean_text`:true,"
    "`handle_chinese_chars`:true,`strip_accents`:null,`lowercase`:true},"
    "`pre_tokenizer`:{`type`:`BertPreTokenizer`},"
    "`added_tokens`:[{`id`:0,`content`:`[UNK]`,`single_word`:false,"
    "`lstrip`:false,`rstrip`:false,`normalized`:false,`special`:true},{`id`:0,"
    "`content`:`[CLS]`,`single_word`:false,`lstrip`:false,`rstrip`:false,"
    "`normalized`:false,`special`:true},{`id`:0,`content`:`[SEP]`,"
    "`single_word`:false,`lstrip`:false,`rstrip`:false,`normalized`:false,"
    "`special`:true},{`id`:0,`content`:`[MASK]`,`single_word`:false,"
    "`lstrip`:true,`rstrip`:false,`normalized`:false,`special`:true}],"
    "`post_processor`:{`type`:`BertProcessing`,`sep`:[`[SEP]`,2],"
    "`cls`:[`[CLS]`,1]},"
    "`decoder`:{`type`:`WordPiece`,`prefix`:`##`,`cleanup`:true},"
    "`model`:{`type`:`WordPiece`,`unk_token`:`[UNK]`,"
    "`continuing_subword_prefix`:`##`,`max_input_chars_per_word`:6,`vocab`:{"
    "`[UNK]`:0,`[CLS]`:1,`[SEP]`:2,`[MASK]`:3,`un`:4,`##do`:5,`##ing`:6,`do`:7,"
    "`not`:8,`.`:9,`\\u4e2d`:10,`e`:11,`##i`:12,`i`:13,`'`:14,`s`:15}}}";

enum { MOST_IDS = 16 };

/* ids without and with what `special` adds; decoded: the former, back in text. */
static const struct {
    const char *json, *text;
    size_t size;
    uint32_t ids[MOST_IDS];
    size_t count;
    uint32_t special[MOST_IDS];
    size_t special_count;
    const char *decoded;
} encodings[] = {
    {byte_level_json, "cat", 3, {12}, 1, {3, 12, 18}, 3, " cat"},
    {byte_level_json,
     "cat's  cat",
     10,
     {12, 14, 5, 12},
     4,
     {3, 12, 14, 5, 12, 18},
     6,
     " cat's  cat"},
    {byte_level_json,
     "  cat\n\n1",
     8,
     {5, 12, 6, 6, 9},
     5,
     {3, 5, 12, 6, 6, 9, 18},
     7,
     "  cat\n\n1"},
    {byte_level_json, "cat\xc3\xa9", 5, {12, 13}, 2, {3, 12, 13, 18}, 4, " cat\xc3\xa9"},
    {byte_level_json,
     "Cats Cat! Cat",
     13,
     {5, 16, 10, 2, 5, 19, 5, 17, 5, 19},
     10,
     {3, 5, 16, 10, 2, 5, 19, 5, 17, 5, 19, 18},
     12,
     " Cats Cat ! Cat"},
    {byte_level_json,
     "cat  <|end|> cat",
     16,
     {12, 18, 12},
     3,
     {3, 12, 18, 12, 18},
     5,
     " cat<|end|> cat"},
    {byte_level_json, "\xff", 1, {5}, 1, {3, 5, 18}, 3, " "},
    {byte_level_json, "", 0, {0}, 0, {3, 18}, 2, ""},
    {llama2_json, "ab ab", 5, {6, 6}, 2, {1, 6, 6}, 3, "ab ab"},
    {llama2_json, "abba   ab", 9, {6, 4, 3, 7, 6}, 5, {1, 6, 4, 3, 7, 6}, 6, "abba   ab"},
    {llama2_json, "\xc3\xa9\n", 3, {2, 8, 9, 10}, 4, {1, 2, 8, 9, 10}, 5, "\xc3\xa9\n"},
    {llama2_json, "xyzab", 5, {2, 0, 5}, 3, {1, 2, 0, 5}, 4, "<unk>ab"},
    {llama2_json,
     "x\xc3\xa9ya",
     5,
     {2, 8, 9, 0, 3},
     5,
     {1, 2, 8, 9, 0, 3},
     6,
     "\xc3\xa9<unk>a"},
    {llama2_json, "<s>ab", 5, {1, 6}, 2, {1, 1, 6}, 3, "<s> ab"},
    {llama2_json,
     "\xe4\xb8\xad"
     "b\xc3\xa9",
     6,
     {2, 0, 4, 8, 9},
     5,
     {1, 2, 0, 4, 8, 9},
     6,
     "<unk>b\xc3\xa9"},
    {llama2_json, " ", 1, {7}, 1, {1, 7}, 2, " "},
    {metaspace_first_json, "ab ab", 5, {4, 3, 4, 3}, 4, {4, 3, 4, 3}, 4, "ab ab"},
    {metaspace_first_json, "<t>ab ab", 8, {7, 5, 4, 3}, 4, {7, 5, 4, 3}, 4, "<t>ab ab"},
    {metaspace_first_json, "a  b", 4, {4, 1, 1, 3}, 4, {4, 1, 1, 3}, 4, "a  b"},
    {metaspace_first_json, "xy", 2, {1, 0, 0}, 3, {1, 0, 0}, 3, "??"},
    {metaspace_old_json,
     "<t>ab ab",
     8,
     {7, 4, 3, 4, 3},
     5,
     {7, 4, 3, 4, 3},
     5,
     "<t> ab ab"},
    {metaspace_old_json,
     "\xe2\x96\x81"
     "a",
     4,
     {4},
     1,
     {4},
     1,
     "a"},
    {llama3_json, "1212121", 7, {11, 1, 10, 0}, 4, {11, 1, 10, 0}, 4, "1212121"},
    {llama3_json, "e\xcc\x81t", 4, {12, 3}, 2, {12, 3}, 2, "\xc3\xa9t"},
    {llama3_json, "et'T  et", 8, {16, 15, 6, 6, 16}, 5, {16, 15, 6, 6, 16}, 5, "et'T  et"},
    {llama3_json,
     "   \n\n 12",
     8,
     {13, 6, 14, 6, 10},
     5,
     {13, 6, 14, 6, 10},
     5,
     "   \n\n 12"},
    {llama3_json, ". t", 3, {6, 3}, 2, {6, 3}, 2, " t"},
    {wordpiece_json,
     "Undo UNDOING.",
     13,
     {4, 5, 0, 9},
     4,
     {1, 4, 5, 0, 9, 2},
     6,
     "undo [UNK]."},
    {wordpiece_json,
     "undoing undo-ing",
     16,
     {0, 4, 5, 0, 0},
     5,
     {1, 0, 4, 5, 0, 0, 2},
     7,
     "[UNK] undo [UNK] [UNK]"},
    {wordpiece_json,
     "\xc3\x89\xc4\xb0 \xe4\xb8\xad\xe4\xb8\xad",
     11,
     {11, 12, 10, 10},
     4,
     {1, 11, 12, 10, 10, 2},
     6,
     "ei \xe4\xb8\xad \xe4\xb8\xad"},
    {wordpiece_json,
     "do not. do's",
     12,
     {7, 8, 9, 7, 14, 15},
     6,
     {1, 7, 8, 9, 7, 14, 15, 2},
     8,
     "do not. do ' s"},
    {wordpiece_json,
     "\x00"
     "d\xe2\x80\x8bo\xcc\x81 \x07 [MASK] [CLS]",
     23,
     {7, 3, 1},
     3,
     {1, 7, 3, 1, 2},
     5,
     "do [MASK] [CLS]"},
    {wordpiece_json, "x doxx", 6, {0, 0}, 2, {1, 0, 0, 2}, 4, "[UNK] [UNK]"},
};

/* The tokenizer of these has no merges, a token for each character of this alphabet, of id
 * twice its place, and one for it at the end of a word: its ids show where words end. */
static const char alphabet[] = "abcdx1234.-!' \t\xe2\x96\x81";
static const struct {
    const char *pre_tokenizer, *text, *cut;
} cuts[] = {
    {"{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`Removed`,"
     "`invert`:false}",
     "-ab--c-", "ab|c|"},
    {"{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`Removed`,"
     "`invert`:true}",
     "-ab--c-", "-|-|-|-|"},
    {"{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`Isolated`,"
     "`invert`:false}",
     "-ab--c-", "-|ab|-|-|c|-|"},
    {"{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`Isolated`,"
     "`invert`:true}",
     "-ab--c-", "-|ab|-|-|c|-|"},
    {"{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`MergedWithPrevious`,"
     "`invert`:false}",
     "-ab--c-", "-|ab-|-|c-|"},
    {"{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`MergedWithPrevious`,"
     "`invert`:true}",
     "-ab--c-", "-ab|-|-c|-|"},
    {"{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`MergedWithNext`,"
     "`invert`:false}",
     "-ab--c-", "-ab|-|-c|-|"},
    {"{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`MergedWithNext`,"
     "`invert`:true}",
     "-ab--c-", "-|ab-|-|c-|"},
    {"{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`Contiguous`,"
     "`invert`:false}",
     "-ab--c-", "-|ab|--|c|-|"},
    {"{`type`:`Split`,`pattern`:{`String`:`-`},`behavior`:`Contiguous`,"
     "`invert`:true}",
     "-ab--c-", "-|ab|--|c|-|"},
    {"{`type`:`Split`,`pattern`:{`Regex`:`\\\\d{1,2}+`},`behavior`:`Isolated`,"
     "`invert`:false}",
     "a1234b", "a|1234|b|"},
    {"{`type`:`Split`,`pattern`:{`Regex`:`\\\\d{2}?`},`behavior`:`Isolated`,"
     "`invert`:false}",
     "a1234b", "a|12|34|b|"},
    {"{`type`:`Split`,`pattern`:{`Regex`:`x*`},`behavior`:`Isolated`,"
     "`invert`:false}",
     "axxb", "a|xx|b|"},
    {"{`type`:`Split`,`pattern`:{`Regex`:``},`behavior`:`Isolated`,"
     "`invert`:false}",
     "abc", "a|b|c|"},
    {"{`type`:`Split`,`pattern`:{`Regex`:`[[a-b][1-2]]`},`behavior`:`Isolated`,"
     "`invert`:false}",
     "a1x2b3", "a|1|x|2|b|3|"},
    {"{`type`:`Split`,`pattern`:{`Regex`:`[^\\\\S ]`},`behavior`:`Isolated`,"
     "`invert`:false}",
     "a\tb c", "a|\t|b c|"},
    {"{`type`:`Split`,`pattern`:{`Regex`:`(?<=a)b|(?=c)`},`behavior`:`Isolated`,"
     "`invert`:false}",
     "abcbc", "a|b|cb|c|"},
    {"{`type`:`Split`,`pattern`:{`Regex`:`(?i:A)`},`behavior`:`Isolated`,"
     "`invert`:false}",
     "axab", "a|x|a|b|"},
    {"{`type`:`Split`,`pattern`:{`Regex`:`\\\\bx`},`behavior`:`Isolated`,"
     "`invert`:false}",
     "x ax x", "x| ax |x|"},
    {"{`type`:`Split`,`pattern`:{`Regex`:`^a|b$`},`behavior`:`Isolated`,"
     "`invert`:false}",
     "abab", "a|ba|b|"},
    {"{`type`:`Digits`,`individual_digits`:false}", "a12b3", "a|12|b|3|"},
    {"{`type`:`Digits`,`individual_digits`:true}", "a12b3", "a|1|2|b|3|"},
    {"{`type`:`Punctuation`,`behavior`:`Contiguous`}", "a.-b'c", "a|.-|b|'|c|"},
    {"{`type`:`Punctuation`}", "a.-b'c", "a|.|-|b|'|c|"},
    {"{`type`:`Whitespace`}", "ab-. c1'd", "ab|-.|c1|'|d|"},
    {"{`type`:`WhitespaceSplit`}", "ab-.\tc1 'd ", "ab-.|c1|'d|"},
    {"{`type`:`BertPreTokenizer`}", "ab-.\tc1 'd ", "ab|-|.|c1|'|d|"},
    {"{`type`:`Metaspace`,`replacement`:`\\u2581`,`prepend_scheme`:`always`,"
     "`split`:true}",
     " ab  c",
     "\xe2\x96\x81"
     "ab|\xe2\x96\x81|\xe2\x96\x81"
     "c|"},
    {"{`type`:`Metaspace`,`replacement`:`\\u2581`,`prepend_scheme`:`never`,"
     "`split`:false}",
     "ab c",
     "ab\xe2\x96\x81"
     "c|"},
    {"{`type`:`Sequence`,`pretokenizers`:[{`type`:`WhitespaceSplit`},{"
     "`type`:`Metaspace`,`replacement`:`\\u2581`,`prepend_scheme`:`first`,"
     "`split`:true},{`type`:`Digits`,`individual_digits`:true}]}",
     "ab cd1 x",
     "\xe2\x96\x81"
     "ab|cd|1|x|"},
};

/* The tokenizer of these has one token for each byte: its ids are the normalized text. */
static const struct {
    const char *normalizer, *text;
    size_t size;
    const char *normalized;
    size_t normalized_size;
} normalizations[] = {
    {"{`type`:`NFC`}",
     "e\xcc\x81\xcc\xa3 \xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8 \xe0\xa5\x98 "
     "\xf0\x91\xa4\xb5\xcd\x85\xf0\x91\xa4\xb0",
     30,
     "\xe1\xba\xb9\xcc\x81 \xea\xb0\x81 \xe0\xa4\x95\xe0\xa4\xbc "
     "\xf0\x91\xa4\xb5\xcd\x85\xf0\x91\xa4\xb0",
     27},
    {"{`type`:`NFD`}",
     "\xc3\xa9\xe1\xbb\x87\xea\xb0\x81 a\xcc\x81\xcc\xa3\xe0\xa3\x8a\xcc\x96", 19,
     "e\xcc\x81"
     "e\xcc\xa3\xcc\x82\xe1\x84\x80\xe1\x85\xa1\xe1\x86\xa8 "
     "a\xcc\xa3\xcc\x81\xe0\xa3\x8a\xcc\x96",
     28},
    {"{`type`:`NFKC`}",
     "\xef\xac\x81\xc2\xbd\xe3\x8e\x92\xef\xbc\xa1\xe3\x8b\xbf\xe1\xb4\xac", 17,
     "fi1\xe2\x81\x84"
     "2MHzA\xe3\x8b\xbf"
     "A",
     15},
    {"{`type`:`NFKD`}", "\xe2\x91\xa0\xc3\x85\xef\xb7\xba", 8,
     "1A\xcc\x8a\xd8\xb5\xd9\x84\xd9\x89 \xd8\xa7\xd9\x84\xd9\x84\xd9\x87 "
     "\xd8\xb9\xd9\x84\xd9\x8a\xd9\x87 \xd9\x88\xd8\xb3\xd9\x84\xd9\x85",
     37},
    {"{`type`:`Lowercase`}",
     "\xc4\xb0I\xce\xa3\xce\xa3\xe1\xba\x9e\xc7\x85\xe2\x84\xaa\xea\x9f\x8b\xf0\x90\xb5"
     "\x90",
     22, "i\xcc\x87i\xcf\x83\xcf\x83\xc3\x9f\xc7\x86k\xc9\xa4\xf0\x90\xb5\xb0", 19},
    {"{`type`:`StripAccents`}",
     "e\xcc\x81\xe0\xa4\x83\xe2\x83\x9d"
     "a\xc3\xa9",
     12, "ea\xc3\xa9", 4},
    {"{`type`:`Strip`,`strip_left`:true,`strip_right`:false}", "\xe3\x80\x80\t a \xc2\xa0",
     9, "a \xc2\xa0", 4},
    {"{`type`:`Strip`,`strip_left`:false,`strip_right`:true}",
     "\xe3\x80\x80\t a \xc2\xa0\xe2\x80\x8b", 12, "\xe3\x80\x80\t a \xc2\xa0\xe2\x80\x8b",
     12},
    {"{`type`:`Replace`,`pattern`:{`Regex`:`\\\\s+`},`content`:`_`}",
     "a \xe1\xa0\x8e\xc2\x85\nb\xe2\x80\x8b", 12, "a_\xe1\xa0\x8e_b\xe2\x80\x8b", 10},
    {"{`type`:`Prepend`,`prepend`:`xy`}", "a", 1, "xya", 3},
    {"{`type`:`Prepend`,`prepend`:`xy`}", "", 0, "", 0},
    {"{`type`:`BertNormalizer`,`clean_text`:true,`handle_chinese_chars`:true,"
     "`strip_accents`:null,`lowercase`:true}",
     "\xc3\x89\xe4\xb8\xad\xc2\xad\xef\xbf\xbd\x00\t\xe2\x80\xa8\xee\x80\x80\xcd\xb8\xe1"
     "\x9c\xb4\xc4\xb0",
     25, "e \xe4\xb8\xad   \xcd\xb8i", 11},
    {"{`type`:`BertNormalizer`,`clean_text`:false,`handle_chinese_chars`:false,"
     "`strip_accents`:false,`lowercase`:true}",
     "\xc3\x89\xe4\xb8\xad\xc2\xad\t", 8, "\xc3\xa9\xe4\xb8\xad\xc2\xad\t", 8},
    {"{`type`:`Sequence`,`normalizers`:[{`type`:`NFD`},{`type`:`Sequence`,"
     "`normalizers`:[{`type`:`StripAccents`},{`type`:`Lowercase`}]}]}",
     "\xc3\x89\xc3\x84", 4, "ea", 2},
};

/* Python's bytes.decode("utf-8", "replace"). */
static const struct {
    const char *bytes;
    size_t size;
    const char *repaired;
    size_t repaired_size;
} repairs[] = {
    {"\xff", 1, "\xef\xbf\xbd", 3},
    {"a\xc3", 2, "a\xef\xbf\xbd", 4},
    {"\xe2\x96", 2, "\xef\xbf\xbd", 3},
    {"\xe2\x96"
     "a",
     3,
     "\xef\xbf\xbd"
     "a",
     4},
    {"\xf0\x9f\x98", 3, "\xef\xbf\xbd", 3},
    {"\xf0\x9f\x98\xe2\x96\x81", 6, "\xef\xbf\xbd\xe2\x96\x81", 6},
    {"\xc0\xaf", 2, "\xef\xbf\xbd\xef\xbf\xbd", 6},
    {"\xed\xa0\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9},
    {"\xf4\x90\x80\x80", 4, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 12},
    {"\xe0\x80\x80", 3, "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 9},
    {"\xf8\x88\x80\x80\x80", 5,
     "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd", 15},
    {"\x80\x80", 2, "\xef\xbf\xbd\xef\xbf\xbd", 6},
    {"\xef\xbb\xbf"
     "a\x0d\n\x00",
     7,
     "\xef\xbb\xbf"
     "a\x0d\n\x00",
     7},
};

#endif
