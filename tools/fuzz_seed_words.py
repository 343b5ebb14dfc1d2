"""Seeds of tokenizers: a tokenizer.json, the notes of a GGUF file, and the files vocab.txt, vocab.json, merges.txt and
tokenizer_config.json, cut at NUL; none is longer than the 1,200 bytes that these targets read (tools/fuzz.sh)."""
import json

from fuzz_seed_formats import ARRAY, BPE, F32, FLAGS, STRING, U32, added, gguf, regex, split, words

MARKS = "a" + "\u0315\u0300\u05b0\u0591\u0327\u0316" * 4
# of each table of src/token/unicode_tables.h, and beside it
CLASSES = "\u061d\u09fd\u166d\U000111c9\u0890\u08e2\u1734\u07fd\u0898\x7f\x80\x85\xad\u0378\ue000\U000f0000\U0010ffff\ufffd"
IDEOGRAPHS = "\u33ff\u3400\u4dbf\u4dc0\u4e00\u9fff\ua000\uf8ff\uf900\ufaff\ufb00\U0001ffff\U00020000\U0002a6df\U0002a6e0\U0002a700\U0002b73f\U0002b740" \
    "\U0002b81f\U0002b820\U0002b920\U0002ceaf\U0002ceb0\U0002f7ff\U0002f800\U0002fa1f\U0002fa20"  # fmt: skip
SPACES = "a\u0085b\u1680a\u2003b\u2028a\u2029b\u202fa\u205fb\u3000a\u00a0"


def bpe(tokens, merges, **more):
    return {**BPE, "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges, "unk_token": None, **more}


# a regular expression that gives up: it tries every way to part forty letters
ENDLESS, FORTY = {"Regex": "(?:a|a)*[^a]"}, "a" * 40
GIVES_UP = {"type": "Replace", "pattern": ENDLESS, "content": "c"}


def alone(*contents):
    return [{**FLAGS, "id": 7 + i, "content": content} for i, content in enumerate(contents)]


# ---- tokenizer.json, and a text --------------------------------------------------------

CLEAN = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": True, "lowercase": True}
CUTS = [{"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": False}, {"type": "Whitespace"}]
DECODERS = [{"type": "ByteLevel"}, {"type": "WordPiece", "prefix": "", "cleanup": True}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"},
            {"type": "BPEDecoder", "suffix": "a"}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": "a", "start": 1, "stop": 1}]  # fmt: skip
CUTTERS = [{"type": "ByteLevel", "add_prefix_space": True}, {"type": "Metaspace", "replacement": "_", "prepend_scheme": "always"}, {"type": "WhitespaceSplit"},
           {"type": "BertPreTokenizer"}, *CUTS, {"type": "Split", "pattern": {"Regex": "a*"}, "behavior": "Removed", "invert": True}]  # fmt: skip
TOKENIZERS = {
    "added_stands_beside": (added({"id": 7, "content": "<x>", "single_word": True}, {"id": 8, "content": "<y>", "single_word": True})[0], " <x>a <y>b<x> <y>"),
    "added_id_taken": ({"added_tokens": alone("<x>", "b"), "model": {**BPE, "vocab": {"u": 0, "a": 1, "b": 4, "ab": 9}}}, "a"),
    "added_to_empty": ({"added_tokens": alone("<s>"), "model": bpe([], [])}, "<s>"),
    "merge_gone": ({"model": bpe(["a", "b", "c", "bc", "ab", "abc"], ["b c", "a bc", "a b"])}, "abc"),
    "merge_other": ({"model": bpe(["a", "b", "c", "bc", "ab", "abc"], ["b c", "a b", "a bc"])}, "abc"),
    "merge_six": ({"model": bpe(["a", "h", "i", "abcdefgh", "abcdefghi", "iabcdefgh"], [["abcdefgh", "i"], ["i", "abcdefgh"]])}, "ai"),
    "replace_nothing": ({"model": bpe(["", "a"], []), "decoder": {"type": "Replace", "pattern": {"String": "a"}, "content": "b"},
                         "post_processor": {"type": "BertProcessing", "sep": ["", 0], "cls": ["", 0]}}, "a"),
    "strip_origin": ({"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}, " \u00a0\u00a0"),
    "strip_first": ({"normalizer": {"type": "Strip", "strip_left": False, "strip_right": True},
                     "pre_tokenizer": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first"}}, "\u3000"),
    "caseless_lower": regex(r"(?i)\p{Ll}"),
    "caseless_title": regex(r"(?i)\p{Lt}"),
    "byte_level_other": ({"model": bpe(["\u0143", "\u0144", "\u0142", "a"], []), "decoder": {"type": "ByteLevel"}}, "\u0143\u0144\u0142a"),
    "vocab_empty": ({"model": bpe([], []), "post_processor": {"type": "BertProcessing", "sep": ["b", 2], "cls": ["a", 1]}}, "a"),
    "wordpiece_empty": ({"model": {"type": "WordPiece", "unk_token": "u", "vocab": {}, "continuing_subword_prefix": "##", "max_input_chars_per_word": 9}}, "a"),
    "classes_bert": ({"normalizer": CLEAN, "pre_tokenizer": {"type": "BertPreTokenizer"}}, "a".join(CLASSES)),
    "classes_cut": ({"pre_tokenizer": {"type": "Sequence", "pretokenizers": CUTS}}, "a".join(CLASSES)),
    "ideographs": ({"normalizer": CLEAN, "model": bpe(["a"], [])}, IDEOGRAPHS),
    "gives_up": ({"pre_tokenizer": split("Isolated", ENDLESS), "model": bpe(["a"], [])}, FORTY),
    "gives_up_normalizer": ({"normalizer": GIVES_UP, "model": bpe(["a"], [])}, FORTY),
    "gives_up_added": ({"normalizer": GIVES_UP, "model": bpe(["a"], []), "added_tokens": [{**FLAGS, "id": 7, "content": FORTY, "normalized": True}]}, "a"),
    "gives_up_beside": ({"normalizer": GIVES_UP, "model": bpe(["a"], []), "added_tokens": [{**FLAGS, "id": 7, "content": "<x>", "lstrip": True}]},
                        "a <x>" + FORTY + "<x>a"),
    "gives_up_decoder": ({"decoder": GIVES_UP, "model": bpe([FORTY], [], ignore_merges=True)}, FORTY),
    "gives_up_later": ({"decoder": {"type": "Sequence", "decoders": [{"type": "Fuse"}, GIVES_UP, {"type": "Fuse"}]}, "model": bpe(["a"], [])}, FORTY),
    "deep_stack": ({"pre_tokenizer": split("Isolated", {"Regex": "(?:(?:|a){9}a)*c|a"}), "model": bpe(["a"], [])}, "a" * 700),
    "deep_stack_found": ({"pre_tokenizer": split("Isolated", {"Regex": "(?:a|b)*c"}), "model": bpe(["a", "b"], [])}, "ab" * 400 + "c"),
    "merges_heap": ({"model": bpe([*"abcdefghij", "ij", "gh", "ef", "cd", "ab", "abcd", "efgh", "abcdefgh"],
                                  ["i j", "g h", "e f", "c d", "a b", "ab cd", "ef gh", "abcd efgh"])}, "abcdefghij abcdcdababefghij ijghefcdab"),
    "merge_of_number": ({"model": bpe(["a"], [[1, "a"]])}, "a"),
    **{f"wrong_{field}": ({"model": {**BPE, field: 1}}, "ab")
       for field in ("unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk", "byte_fallback", "ignore_merges")},
    "wrong_prefix_space": ({"decoder": {"type": "Metaspace", "replacement": "_", "prepend_scheme": "first", "add_prefix_space": 1}}, "ab"),
    "regex_surrogate_code": regex(r"\x{d800}"),
    "regex_options_nine": regex("(?imimimimi)a"),
    "template_two_ids": ({"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                             "special_tokens": {"a": {"id": "a", "ids": [1, 2], "tokens": []}}}}, "ab"),
    "json_long": ({"x": "y" * 1050}, "a"),
    # nothing to do: empty lists, empty tokens, empty texts
    **{f"empty_{name}": ({part: {"type": "Sequence", key: []}}, "ab")
       for name, part, key in (("normalizers", "normalizer", "normalizers"), ("pretokenizers", "pre_tokenizer", "pretokenizers"),
                               ("decoders", "decoder", "decoders"), ("processors", "post_processor", "processors"))},
    **{f"empty_token_{decoder['type']}": ({"model": bpe(["", "a"], []), "post_processor": {"type": "BertProcessing", "sep": ["", 0], "cls": ["", 0]},
                                           "decoder": decoder}, "a") for decoder in DECODERS},
    **{f"empty_piece_{cut['type']}": ({"normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}, "pre_tokenizer": cut}, " ") for cut in CUTTERS},
    "template_empty": ({"post_processor": {"type": "TemplateProcessing", "single": [], "special_tokens": {}}}, "a"),
    "template_no_ids": ({"post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
                                            "special_tokens": {"a": {"id": "a", "ids": [], "tokens": []}}}}, "a"),
    "post_empty_pair": ({"post_processor": {"type": "BertProcessing", "sep": [], "cls": []}}, "a"),
    "text_empty": ({}, ""),
    **{f"regex_end_{k}": regex(source) for k, source in enumerate((r"\xg", r"\x{}", r"\u", "\\", r"\-\_\A", "\\\u00e9", "(?imimim)a", "(?im-im:a)", "(?", "(?i", "[", "[[]", "[\\", "[a-"))},
}  # fmt: skip

# ---- GGUF files ------------------------------------------------------------------------

CUT = ("pre", STRING, "gpt-2")
MODEL = ("tokenizer.ggml.model", STRING, "gpt2")
GGUFS = {
    "gguf_word_numbers": gguf([MODEL, ("tokenizer.ggml.tokens", ARRAY, (U32, [1]))]),
    "gguf_tokens_text": gguf([MODEL, ("tokenizer.ggml.tokens", STRING, "a")]),
    "gguf_model_number": gguf([("tokenizer.ggml.model", U32, 1), ("tokenizer.ggml.tokens", ARRAY, (STRING, ["a"]))]),
    "gguf_words_nul": words("gpt2", ["a\0"]),
    "gguf_merges_numbers": words("gpt2", ["a", "b"], CUT, ("merges", ARRAY, (U32, [1]))),
    "gguf_kinds_few": words("gpt2", ["a", "b"], CUT, ("merges", ARRAY, (STRING, [])), kinds=[3]),
    "gguf_kinds_many": words("gpt2", ["a"], CUT, ("merges", ARRAY, (STRING, [])), kinds=[3, 3, 4]),
    "gguf_scores_nan_beyond": words("llama", ["a", "b"], ("scores", ARRAY, (F32, [-1, -2, float("nan")]))),
    "gguf_scores_nan": words("llama", ["a", "b", "ab"], ("scores", ARRAY, (F32, [float("nan"), -1, -2]))),
    "gguf_scores_few": words("llama", ["a", "b", "ab"], ("scores", ARRAY, (F32, [-1, -2]))),
    "gguf_scores_text": words("llama", ["a", "b", "ab"], ("scores", ARRAY, (STRING, ["1", "2", "3"]))),
    "gguf_scores_equal": words("llama", ["a", "b", "c", "d", "ab", "bc", "abc", "abcd", "cd", "bcd", "a"], ("scores", ARRAY, (F32, [0] * 11))),
    "gguf_no_tokens": words("gpt2", [], CUT, ("merges", ARRAY, (STRING, []))),
    "gguf_no_tokens_scores": words("llama", [], ("scores", ARRAY, (F32, []))),
    "gguf_no_tokens_bert": words("bert", [], kinds=[]),
    "gguf_no_kinds": words("gpt2", ["a"], CUT, ("merges", ARRAY, (STRING, [])), ("token_type", ARRAY, (U32, []))),
    **{f"gguf_cut_{name}": words("gpt2", ["a", "b"], ("pre", STRING, name), ("merges", ARRAY, (STRING, [])))
       for name in ("starcoder", "qwen2", "deepseek-r1-qwen", "llama3", "llama-v3")},
}  # fmt: skip

# ---- Files, and a text -----------------------------------------------------------------


def merged(tokens, merges, text, options=b"{}"):
    """vocab.json and merges.txt."""
    ids = tokens if isinstance(tokens, dict) else {token: i for i, token in enumerate(tokens)}
    lines = "#version: 0.2\n" + "".join(merge + "\n" for merge in merges)
    vocab = json.dumps(ids, separators=(",", ":"), ensure_ascii=False)
    return [b"", vocab.encode(), lines.encode(), options, text if isinstance(text, bytes) else text.encode()]


def lines(tokens, text, options=b"{}"):
    """vocab.txt."""
    return ["".join(token + "\n" for token in tokens).encode(), b"", b"", options, text.encode()]


SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SEVERAL = "aeiotnshr"
PAIRS = [x + " " + y for x in SEVERAL for y in SEVERAL]
LETTERS = "bcdefghijklmnopqrstuvwxyz"
BYTES = [chr(c) for c in (33, 97, 126, 161, 172, 174, 255, 256, 287, 288, 289, 290, 321, 322, 323)] + ["\u0120a"]
VOCABS = {
    "bpe_overlap": merged(["a", "aa", "aaa", "b", "aab", "ab", "ba"], ["a a", "aa a", "a b", "b a", "aa b"], "aaaabaabaaa aab"),
    "bpe_heap": merged([*"abcdefghij", "ij", "gh", "ef", "cd", "ab", "abcd", "efgh", "abcdefgh"],
                       ["i j", "g h", "e f", "c d", "a b", "ab cd", "ef gh", "abcd efgh"], "abcdefghij abcdcdababefghij ijghefcdab"),
    "bpe_pairs": merged([*SEVERAL, *(pair.replace(" ", "") for pair in PAIRS)], PAIRS, "aeiotnshrrhsntoiea tatatata nnnn sheathers"),
    "bpe_one_left": merged(["a", *LETTERS, *("a" + c for c in LETTERS)], ["a " + c for c in LETTERS], "".join("a" + c for c in LETTERS)),
    "bpe_merge_gone": merged(["a", "b", "c", "bc", "ab", "abc"], ["b c", "a bc", "a b"], "abc"),
    "bpe_merge_other": merged(["a", "b", "c", "bc", "ab", "abc"], ["b c", "a b", "a bc"], "abc"),
    "bpe_six": merged(["a", "h", "i", "abcdef", "abcdefgh", "abcdefghi", "abcdefi", "iabcdefgh"], ["abcdefgh i", "i abcdefgh", "abcdef i"], "ai"),
    "bpe_no_edge": merged(["xy", "z", "xyz"], ["xy z"], "xyz"),
    "bpe_merge_lost": merged(["a", "b", "ab"], ["a b", "ab a", "a c"], "ab"),
    "bpe_merge_of_three": merged(["a", "b", "ab"], ["a b c"], "ab"),
    "bpe_merge_twice": merged(["a", "b", "ab"], ["a b", "a b"], "abab"),
    "bpe_bytes": merged(BYTES, ["\u0120 a"], bytes(range(1, 256))),
    "bpe_characters": merged(BYTES, ["\u0120 a"], "".join(map(chr, [*range(1, 0x180), 0x4E2D, 0x1F600]))),
    "bpe_masks": merged(["<s>", "</s>", "<mask>", "a"], [], "  <mask>  a <mask><mask> \u00a0<mask>a<mas"),
    "bpe_mask_first": merged(["<mask>", "a"], [], "  <mask>"),
    "bpe_end_of_text": merged(["<|endoftext|>", "a", "b", "ab", "\u0120"], ["a b"], "ab<|endoftext|> ab<|end"),
    "bpe_prefix_space": merged(["<s>", "a", "\u0120", "\u0120a"], ["\u0120 a"], "a a", b'{"add_prefix_space":true}'),
    "bpe_same_id": merged({"<s>": 0, "</s>": 0, "a": 1}, [], "a"),
    "bpe_id_text": merged({"<s>": "0", "</s>": 1, "a": 1.5}, [], "a"),
    "bpe_id_negative": merged({"a": -1}, [], "a"),
    "bpe_id_huge": merged({"a": 4294967296}, [], "a"),
    "bpe_long_word": merged(["a", "aa", "aaaa", "b"], ["a a", "aa aa"], "a" * 700 + " " + "ab" * 150),
    "bpe_words_again": merged(["a", "b", "ab"], ["a b"], "ab ab ab ab"),
    "bpe_contractions": merged(["a", "'", "s", "'s", "t", "1", "!", "\u0120"], ["' s"], "a's a't a're a've a'm a'll a'd 12 !!  a\n\n \t x"),
    "bpe_no_merges": [b"", b'{"a":0}', b"\n", b"{}", b"a"],
    "bpe_version_only": [b"", b'{"a":0}', b"#version: 0.2\r\n\r\n", b"{}", b"a"],
    "bpe_vocab_wrong": [b"", b'{"a":', b"a b\n", b"{}", b"a"],
    "bpe_merges_no_text": [b"", b'{"a":0}', b"\xff\n", b"{}", b"a"],
    "wordpiece_spaces": lines([*SPECIAL, "a", "b\u0085", "##b\u00a0"], SPACES),
    "wordpiece_marks": lines([*SPECIAL, "a", "e", "##s"], MARKS + " \u00e9\u1e69 \uac01\uac00 \u1c89\ua7cb\U00010d50\U00016ea0\u0130\u00c9AB"),
    "wordpiece_classes": lines([*SPECIAL, "a"], "a".join(CLASSES)),
    "wordpiece_controls": lines([*SPECIAL, "a"], "a\x01\x7f\u0080\u00ad\u200b\u200e\ufeff\ufffd\ue000\U000e0001\U000f0000\t\r\nb\u0378"),
    "wordpiece_punctuation": lines([*SPECIAL, "a", "!", "@", "[", "{", "\u00a1"], "a!/a:@a[`a{~a\u00a1\u2010\u3001\u05be\U00010100\u00b4\u00d7\u037e\u0e4f\u2e3a"),
    "wordpiece_ideographs": lines([*SPECIAL, "\u4e2d"], IDEOGRAPHS),
    "wordpiece_accents_cased": lines([*SPECIAL, "A"], "\u00c9 A\u0301", b'{"do_lower_case":false}'),
    "wordpiece_accents_kept": lines([*SPECIAL, "a"], "\u00c9 A\u0301\u0130\u1c89", b'{"strip_accents":false}'),
    "wordpiece_accents_text": lines([*SPECIAL, "a"], "a", b'{"strip_accents":"yes"}'),
    "wordpiece_long": lines([*SPECIAL, "a", "##a"], "a" * 101 + " " + "a" * 100),
    "wordpiece_no_unknown": lines(["[CLS]", "a"], "a b"),
    "wordpiece_nothing_around": lines(["[UNK]", "a"], "[UNK] a"),
    "wordpiece_twice": lines(["[UNK]", "a", "a", "  a  ", "\u3000"], "a"),
    "wordpiece_clean": lines([*SPECIAL, *"do n ' t ##t s m ve re . ? ! ,".split()], "do n't . ? ! , do not 's 'm 've 're 'n"),
    "wordpiece_malformed": [b"[UNK]\na\n", b"", b"", b"{}", b"a\xff\xc3 \xe4\xb8 \xf0\x9f\x98 \xed\xa0\x80"],
    "options_wrong": [b"[UNK]\na\n", b"", b"", b'{"a":', b"a"],
    "options_long": [b"[UNK]\na\n", b"", b"", b'{"a":"' + b"x" * 1060 + b'"}', b"a"],
    "options_shown": [b"[UNK]\na\n", b"", b"", '{"\\\\\u00e9\u202e\x7f":\\}'.encode(), b"a"],
    "options_shown_end": [b"[UNK]\na\n", b"", b"", '{"a":1}\u00e9\\'.encode(), b"a"],
}  # fmt: skip
