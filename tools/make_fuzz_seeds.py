#!/usr/bin/env python3
"""Writes the fuzzers' seeds that reach what millions of random inputs did not: every branch
that a small file can take (make fuzz-merge keeps them beside what it finds).

    tools/make_fuzz_seeds.py tests/fuzz/corpus"""
import json
import pathlib
import sqlite3
import struct
import sys

# ---- Tokenizers: a tokenizer.json, then NUL and a text ---------------------------------

BPE = {"type": "BPE", "unk_token": "u", "vocab": {"u": 0, "a": 1, "b": 2, "ab": 3}, "merges": ["a b"]}
FLAGS = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": False}


def split(behavior, pattern, invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def regex(source, text="ab 12 ab"):
    return {"pre_tokenizer": split("Isolated", {"Regex": source})}, text


def normalizer(text, *kinds):
    return {"normalizer": {"type": "Sequence", "normalizers": [{"type": k} for k in kinds]}}, text


def metaspace(**fields):
    return {"pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581", **fields}}, "ab ab"


def added(*tokens, **more):
    return {"added_tokens": [{**FLAGS, **t} for t in tokens], **more}, "a <x> b"


def template(*single):
    known = {"a": {"id": "a", "ids": [1], "tokens": ["a"]}}
    return {"post_processor": {"type": "TemplateProcessing", "single": list(single), "special_tokens": known}}, "abb"


TEXT, MARK = {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "a", "type_id": 0}}
BERT = {"type": "BertProcessing", "sep": ["b", 2], "cls": ["a", 1]}
TOKENIZERS = {
    "split_previous": ({"pre_tokenizer": split("MergedWithPrevious", {"String": "b"})}, "abab bb a"),
    "split_contiguous": ({"pre_tokenizer": split("Contiguous", {"Regex": "b"})}, "abbab bb a"),
    "split_removed": ({"pre_tokenizer": split("Removed", {"String": " "}, True)}, " ab  b "),
    "split_unknown": ({"pre_tokenizer": split("Sideways", {"String": " "})}, "a"),
    "metaspace_always": metaspace(prepend_scheme="always", split=False),
    "metaspace_never": metaspace(prepend_scheme="never", add_prefix_space=False),
    "metaspace_contradiction": metaspace(prepend_scheme="always", add_prefix_space=False),
    "metaspace_unknown": metaspace(prepend_scheme="last"),
    "nfd": normalizer("\u00e9\u1e69 ab \uac01", "NFD", "NFC", "NFKD", "Nmt"),
    "many_marks": normalizer("a" + "\u0315\u0300\u05b0\u0591\u0327\u0316" * 4, "NFD", "NFC"),
    "lower_later": normalizer("\u1c89\ua7cb\U00010d50\U00016ea0\u0130\u00c9AB", "Lowercase"),
    "regex_scripts": regex(r"\p{Cyrillic}+|\p{Arabic}|[\p{Devanagari}\P{Greek}]|\p{Han}", "\u0416\u1c8a \u4e2d ab"),
    "regex_classes": regex(r"[[:alpha:]&&[^a]]|[^[:digit:]\s]|\h|\H|\R|[\p{Letter}--b]|\p{^N}", "ab 9f\r\n"),
    "regex_codes": regex(r"\x41|\x{1F600}|\u00e9|\t|\e|[\x30-\x39]", "A\U0001f600\u00e9\t9"),
    "regex_beyond": regex(r"\x{110000}"),
    "regex_surrogate": regex(r"\ud800"),
    "regex_byte": regex(r"\xff"),
    "regex_few_digits": regex(r"\x4"),
    "regex_groups": regex(r"(?<n>a)(?:b)(?=\s)|(?<!a)b|(?<=a)b|(?i)AB|(?>a+)b|a*?b{2,}|^a$", "ab AB abb"),
    "regex_back": regex(r"(a)\1|\k<n>"),
    "added_no_object": ({"added_tokens": ["<x>"]}, "a"),
    "added_same_id": added({"id": 7, "content": "<x>"}, {"id": 7, "content": "<y>"}),
    "added_to_nothing": added({"id": 7, "content": " ", "normalized": True},
                              normalizer={"type": "Strip", "strip_left": True, "strip_right": True}),  # fmt: skip
    "added_to_same": added({"id": 7, "content": "<X>", "normalized": True}, {"id": 8, "content": "<x>", "normalized": True},
                           normalizer={"type": "Lowercase"}),  # fmt: skip
    "post_twice": ({"post_processor": {"type": "Sequence", "processors": [BERT, BERT]}}, "ab"),
    "post_roberta": ({"post_processor": {"type": "RobertaProcessing", "sep": ["b", 2], "cls": ["a", 1],
                                         "trim_offsets": True, "add_prefix_space": False}}, "ab"),  # fmt: skip
    "template": template(MARK, TEXT, MARK),
    "template_no_text": template(MARK, MARK),
    "template_two_texts": template(TEXT, TEXT),
    "template_other": template({"Sequence": {"id": "B", "type_id": 0}}),
    "template_both": template({**TEXT, **MARK}),
    "post_byte_level": ({"post_processor": {"type": "Sequence", "processors": [{"type": "ByteLevel", "trim_offsets": True}, BERT]}}, "ab"),
    "added_words": added({"id": 7, "content": "<x>", "single_word": True}, {"id": 8, "content": "<y>", "single_word": True}),
    "added_no_ids_left": added({"id": 7, "content": "<x>"}, {"id": 8, "content": "<y>"}, model={**BPE, "vocab": {**BPE["vocab"], "z": 2147483647}}),
    "merges_version": ({"model": {**BPE, "merges": ["#version: 0.2", "a b"]}}, "abab"),
    "merges_overlap": ({"model": {**BPE, "vocab": {"a": 0, "aa": 1, "aaa": 2, "b": 3, "aab": 4, "ab": 5, "ba": 6},
                                  "merges": ["a a", "aa a", "a b", "b a", "aa b"], "unk_token": None}}, "aaaabaabaaa"),
    "unknown_empty": ({"model": {**BPE, "unk_token": "", "vocab": {"": 0, "a": 1, "b": 2, "ab": 3, "abcdef": 4, "cdef": 5},
                                 "merges": ["ab cdef"]}}, "xab"),
    "wordpiece_no_cleanup": ({"decoder": {"type": "WordPiece", "prefix": "", "cleanup": False}}, "ab a"),
    "metaspace_decoder_never": ({"decoder": {"type": "Metaspace", "replacement": "a", "prepend_scheme": "never"}}, "abab"),
    "metaspace_old_none": metaspace(add_prefix_space=False),
    "strip_decoder": ({"decoder": {"type": "Strip", "content": "a", "start": 9, "stop": 9}}, "aabaa"),
    "strip_left": ({"normalizer": {"type": "Strip", "strip_left": True, "strip_right": False}}, "  ab  "),
    "strip_right": ({"normalizer": {"type": "Strip", "strip_left": False, "strip_right": True}}, "  ab  "),
    "strip_all": ({"normalizer": {"type": "Sequence", "normalizers": [{"type": "Strip", "strip_left": True, "strip_right": True},
                                                                      {"type": "Prepend", "prepend": "a"}]}}, "   "),
    "bert_plain": ({"normalizer": {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": True,
                                   "lowercase": False}}, "\u00c9\u4e2d\tA"),
    "spaces": ({"normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None,
                               "lowercase": True}, "pre_tokenizer": {"type": "WhitespaceSplit"}},
               "a\u0085b\u1680a\u2003b\u2028a\u2029b\u202fa\u205fb\u3000a\u00a0\U0002b740\U0002b920\U0002f800\uf900\u3400\U00020000"),
    "byte_names": ({"decoder": {"type": "ByteFallback"}, **added({"id": 7, "content": "<0x+1>"}, {"id": 8, "content": "<0x4G>"})[0]}, "<0x+1>a<0x4G>"),
    "byte_level_edges": ({"pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": True, "use_regex": False},
                          "decoder": {"type": "ByteLevel"}, "model": {**BPE, "vocab": {"u": 0, "\u0143": 1, "\u0142": 2, "\u0120": 3, "\u0144": 4}, "merges": []}},
                         "\u00ad \u007f\u00a0"),
    "regex_and_text": ({"pre_tokenizer": split("Isolated", {"Regex": "a", "String": "a"})}, "ab"),
    "regex_words": regex(r"\p{Letter}|\p{Uppercase_Letter}+|\p{Ll}\p{Lt}?|\A|\z|\Z|[a-]|[-a]|[a-\p{L}]|(?i:\p{Lu})", "aB \u01c5"),
    "version": ({"version": "2.0"}, "a"),
    "truncated": ({"truncation": {"max_length": 4}, "padding": None}, "a"),
    "dropout": ({"model": {**BPE, "dropout": 0.5}}, "ab"),
    "dropout_text": ({"model": {**BPE, "dropout": "0"}}, "ab"),
    "dropout_none": ({"model": {**BPE, "dropout": None, "end_of_word_suffix": None, "fuse_unk": True}}, "abxxb"),
    "byte_fallback": ({"model": {**BPE, "byte_fallback": True, "unk_token": None, "merges": [["<0x41>", "<0x42>"], ["a", "b"]],
                                 "vocab": {"a": 1, "b": 2, "ab": 3, "<0x41>": 4, "<0x42>": 5, "<0x41><0x42>": 6}}}, "ABab"),  # fmt: skip
    "bytes_no_text": ({"decoder": {"type": "ByteFallback"}, "model": {**BPE, "vocab": {"a": 1, "<0xFF>": 2, "<0x41>": 3, "b": 4},
                       "merges": [], "byte_fallback": True, "unk_token": None}}, "<0xFF>Aa"),
    "bytes_added": ({"decoder": {"type": "ByteFallback"}, **added({"id": 7, "content": "<0xFF>"}, {"id": 8, "content": "<0xC3>"})[0]},
                    "a<0xFF><0xC3>b<0xC3>"),
    "unknown_merged": ({"model": {**BPE, "merges": ["u a", "ua u"], "vocab": {"u": 0, "a": 1, "ua": 2, "uau": 3}}}, "xax"),
    "whole_words": ({"model": {**BPE, "ignore_merges": True, "vocab": {**BPE["vocab"], "abab": 4}}}, "abab"),
    "word_ends": ({"model": {**BPE, "end_of_word_suffix": "</w>", "continuing_subword_prefix": "",
                             "vocab": {"u": 0, "a": 1, "b</w>": 2, "ab</w>": 3}, "merges": ["a b</w>"]},
                   "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type": "BPEDecoder", "suffix": "</w>"}}, "ab ab"),  # fmt: skip
}

# ---- Tokenizers in GGUF files ----------------------------------------------------------

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
FORMS = {U8: "<B", I8: "<b", U16: "<H", I16: "<h", U32: "<I", I32: "<i", F32: "<f", BOOL: "<?", U64: "<Q", I64: "<q", F64: "<d"}


def string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind, content):
    if kind == STRING:
        return string(content)
    if kind == ARRAY:
        item, entries = content
        return struct.pack("<IQ", item, len(entries)) + b"".join(value(item, e) for e in entries)
    return struct.pack(FORMS[kind], content)


def gguf(notes, tensors=()):
    """notes: (key, kind, value); tensors: (name, shape, type, bytes)."""
    out = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(notes))
    for key, kind, content in notes:
        out += string(key) + struct.pack("<I", kind) + value(kind, content)
    data = b""
    for name, shape, kind, raw in tensors:
        out += string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += raw + b"\0" * (-len(raw) % 32)
    return out + b"\0" * (-len(out) % 32) + data if tensors else out


def words(model, tokens, *more, kinds=None):
    t = "tokenizer.ggml."
    notes = [(t + "model", STRING, model), (t + "tokens", ARRAY, (STRING, tokens))]
    notes += [(t + "token_type", ARRAY, (I32, kinds))] if kinds else []
    return gguf(notes + [(t + key, kind, content) for key, kind, content in more])


PIECES = ["<unk>", "<s>", "\u2581", "a", "b", "ab", "\u2581a", "\u2581ab", "aba", "<0x41>"]
GGUFS = {
    "gguf_scores": words("llama", PIECES, ("scores", ARRAY, (F32, [0, 0, -1, -2, -3, -4, -4, -5, -6, 0])),
                         ("bos_token_id", U32, 1), ("eos_token_id", I64, 1), ("add_eos_token", BOOL, True),
                         ("unknown_token_id", U32, 0), kinds=[2, 3, 1, 1, 1, 1, 1, 1, 1, 6]),
    "gguf_scores_none": words("llama", PIECES, ("add_space_prefix", BOOL, False)),
    "gguf_digits": words("gpt2", ["a", "b", "ab", "1"], ("pre", STRING, "smollm"), ("merges", ARRAY, (STRING, ["a b"]))),
    "gguf_phi": words("gpt2", ["a", "b", "ab", "1"], ("pre", STRING, "phi-2"), ("merges", ARRAY, (STRING, ["a b"]))),
    "gguf_unknown_cut": words("gpt2", ["a"], ("pre", STRING, "another"), ("merges", ARRAY, (STRING, []))),
    "gguf_numbers": words("gpt2", ["a", "b"], ("pre", STRING, "gpt-2"), ("merges", ARRAY, (STRING, [])), ("bos_token_id", F64, 1.0),
                          ("eos_token_id", I8, -1), ("add_bos_token", U8, 1), ("add_eos_token", F32, 1.0), kinds=[3, 4]),
    "gguf_bert_cased": words("bert", ["[UNK]", "[CLS]", "[SEP]", "\u2581A", "b", "\u2581"], ("cls_token_id", U32, 1),
                             ("seperator_token_id", U32, 2), ("unknown_token_id", U16, 0)),
    "gguf_id_huge": words("gpt2", ["a", "b"], ("pre", STRING, "gpt-2"), ("merges", ARRAY, (STRING, [])), ("bos_token_id", F64, 1e300),
                          ("add_bos_token", U8, 1)),
    "gguf_id_nan": words("gpt2", ["a", "b"], ("pre", STRING, "gpt-2"), ("merges", ARRAY, (STRING, [])), ("bos_token_id", F64, float("nan")),
                         ("add_bos_token", U8, 1)),
    "gguf_unknown_huge": words("llama", PIECES, ("scores", ARRAY, (F32, [0.0] * 9)), ("unknown_token_id", F64, 1e300),
                               ("add_space_prefix", BOOL, False)),
    "gguf_unknown_negative": words("llama", [*PIECES, "", "bab", "ba"], ("scores", ARRAY, (F32, [-9, 0, -1, -2, -3, -4, -3, -4, -2, 0, -1, -2, -2])),
                                   ("unknown_token_id", I32, -1), kinds=[2, 3, 1, 1, 1, 1, 1, 1, 1, 6, 4, 1, 1]),
    "gguf_cut_long": words("gpt2", ["a"], ("pre", STRING, "n" * 60), ("merges", ARRAY, (STRING, []))),
    "gguf_no_words": gguf([("tokenizer.ggml.model", STRING, "llama")]),
    "gguf_no_text": words("llama", ["a\0b"], ("scores", ARRAY, (F32, [0.0]))),
}  # fmt: skip

# ---- GGUF files ------------------------------------------------------------------------

NOTES = [(f"n{k}", k, 1) for k in FORMS] + [("a", ARRAY, (ARRAY, [])), ("test.words", ARRAY, (STRING, ["x", ""])), ("test.u32", U32, 7)]
FILES = {
    "doubles": gguf(NOTES, [("d", (3,), 28, struct.pack("<3d", 1, -2, 1e300)), ("e", (2, 1), 0, struct.pack("<2f", 1, 2))]),
    "lists": gguf([("test.numbers", ARRAY, (k, [1, 0])) for k in FORMS] + [("test.numbers", ARRAY, (ARRAY, []))]),
    **{f"list_{k}": gguf([("test.numbers", ARRAY, (k, [1, 0]))]) for k in FORMS},
    **{f"number_{k}": gguf([("test.u32", k, 1)]) for k in FORMS},
    "twice": gguf([], [("d", (1,), 0, b"\0" * 4), ("d", (1,), 0, b"\0" * 4)]),
    "unknown_tensor": gguf([], [("d", (1,), 99, b"\0" * 4)]),
    "alignment_odd": gguf([("general.alignment", U32, 3)], [("d", (1,), 0, b"\0" * 4)]),
    "alignment_text": gguf([("general.alignment", STRING, "8")], [("d", (1,), 0, b"\0" * 4)]),
    "part_of_block": gguf([], [("d", (31,), 8, b"\0" * 34)]),
}

# ---- safetensors: measures, Gaussians, layers ------------------------------------------

SIZES = {"F64": ("d", 8), "F32": ("f", 4), "I64": ("q", 8), "U8": ("B", 1)}


def pack(dtype, numbers):
    if dtype in SIZES:
        return struct.pack(f"<{len(numbers)}{SIZES[dtype][0]}", *numbers)
    if dtype == "F16":
        return struct.pack(f"<{len(numbers)}e", *numbers)
    return b"".join(struct.pack("<f", x)[2:] for x in numbers)  # BF16


def safetensors(tensors, notes=None):
    header, data = ({"__metadata__": notes} if notes is not None else {}), b""
    for name, (dtype, shape, numbers) in tensors.items():
        raw = pack(dtype, numbers)
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    return struct.pack("<Q", len(text)) + text + data


def measure(dtype, weights, points=("F32", [3, 1], [0, 1, 2]), **more):
    return safetensors({"points": points, "weights": (dtype, [len(weights)], weights), **more})


MEASURES = {
    "weights_f16": measure("F16", [0.25, 0.25, 0.5]),
    "weights_bf16": measure("BF16", [0.25, 0.25, 0.5]),
    "weights_f16_about_1": measure("F16", [0.3333, 0.3333, 0.3333]),
    "weights_bf16_about_1": measure("BF16", [0.3333, 0.3333, 0.3333]),
    "weights_f32_about_1": measure("F32", [1 / 3, 1 / 3, 1 / 3 + 1e-7]),
    "weights_overflow": measure("F64", [1.7e308, 1.7e308, 1.0]),
    "weights_vanish": measure("F64", [1e308, 1e-300, 1.0]),
    "weights_zero": measure("F64", [0.5, 0.0, 0.5]),
    "weights_four": measure("F64", [0.25] * 4),
    "points_vector": measure("F64", [0.5, 0.5], ("F64", [2], [0, 1])),
    "points_integers": measure("F64", [0.5, 0.5], ("I64", [2, 1], [0, 1])),
    "times": measure("F64", [0.5, 0.25, 0.25], times=("F64", [3], [0, 0.5, 1])),
    "times_outside": measure("F64", [0.5, 0.25, 0.25], times=("F64", [3], [0, 0.5, 2])),
    "csv_overflow": b"x,weights\n1,1.7e308\n2,1.7e308\n",
    "csv_vanish": b"x,weights\n1,1e308\n2,1e-300\n",
    "csv_about_1": b"x,weights\n1,0.3333333\n2,0.6666666\n",
}


def layer(d=2, heads=1, kv=1, notes=None, without=(), **more):
    ones = lambda r, c: ("F64", [r, c], [0.5] * (r * c))  # noqa: E731
    tensors = {"X": ones(2, d), "Q": ones(heads * 2, d), "K": ones(kv * 2, d), "V": ones(kv * 2, d), **more}
    return safetensors({k: v for k, v in tensors.items() if k not in without}, notes)


SAID = {"schema": "1"}
LAYERS = {
    "mask_none_with_times": layer(notes={**SAID, "mask": "none"}, times=("F64", [2], [0, 1])),
    "mask_causal_with_times": layer(notes={**SAID, "mask": "causal"}, times=("F64", [2], [0, 1])),
    "mask_times_without": layer(notes={**SAID, "mask": "times"}),
    "mask_local": layer(notes={**SAID, "mask": "local", "window": "2"}),
    "mask_sliding_said": layer(notes={**SAID, "mask": "sliding", "window": "3"}),
    "mask_sliding_same": layer(notes={**SAID, "mask": "sliding", "window": "2", "scale": "0.5"}),
    "window_zero": layer(notes={**SAID, "mask": "sliding", "window": "0"}),
    "scale_said": layer(notes={**SAID, "scale": "0.25"}),
    "heads_do_not_divide": layer(heads=4, kv=2, V=("F64", [3, 2], [0.5] * 6)),
    "two_queries_a_key": layer(heads=4, kv=2, O=("F64", [2, 8], [0.5] * 16), bo=("F64", [2], [0, 1])),
    "pixels": layer(notes={**SAID, "map": "attention"}, pixel_values=("F64", [3, 2, 2], [0.1] * 12), sigma=("F64", [1], [1.0])),
    "pixels_nan": layer(notes={**SAID, "map": "attention"}, pixel_values=("F64", [3, 2, 2], [0.1] * 11 + [float("nan")])),
    "pixels_of_a_block": safetensors({"X": ("F64", [2, 2], [0.5] * 4), "v": ("F64", [2, 2], [0.5] * 4), "sigma": ("F64", [1], [1.0]),
                                      "pixel_values": ("F64", [3, 2, 2], [0.1] * 12)}, {**SAID, "map": "block", "model": "m", "layer": "0"}),
    "biases": layer(bq=("F64", [2], [0, 1]), bk=("F64", [2], [0, 1]), bv=("F64", [2], [0, 1])),
    "bias_slopes": layer(heads=2, kv=2, notes={**SAID, "heads": "2", "kv_heads": "2", "bias": "slopes"}, score_bias=("F64", [2, 1], [0.5, 0.25])),
    "sinks": layer(sinks=("F64", [1], [0.5])),
    "A_with_c": safetensors({"X": ("F64", [2, 1], [0.5, 1]), "A": ("F64", [1, 1], [2.0]), "V": ("F64", [1, 1], [1.0]), "c": ("F64", [1], [0.5])}),
    "A_and_Q": layer(A=("F64", [2, 2], [0.5] * 4)),
    "norms_whole": layer(heads=2, kv=2, notes={**SAID, "heads": "2", "norm_span": "whole", "norm_eps": "1e-6"},
                         q_norm=("F64", [4], [1.0] * 4), k_norm=("F64", [4], [1.0] * 4)),
    "rotary": layer(notes={**SAID}, rotary_freq=("F64", [1], [1.0]), positions=("F64", [2], [0, 5])),
}  # fmt: skip


def bare_header(text):
    return struct.pack("<Q", len(text)) + text.encode() + b"\0" * 8


HEADERS = {
    "metadata_list": bare_header('{"__metadata__":[]}'),
    "metadata_number": bare_header('{"__metadata__":{"a":1}}'),
    "shape_overflows": bare_header('{"a":{"dtype":"F64","shape":[4294967296,4294967296,2],"data_offsets":[0,8]}}'),
    "bits_overflow": bare_header('{"a":{"dtype":"F64","shape":[1152921504606846976],"data_offsets":[0,8]}}'),
}

# ---- Configurations --------------------------------------------------------------------

LLAMA = {"model_type": "llama", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
         "rms_norm_eps": 1e-6, "hidden_act": "silu", "max_position_embeddings": 64, "vocab_size": 9}  # fmt: skip
LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 32}
SMOL = {**LLAMA, "model_type": "smollm3", "num_key_value_heads": 1}
LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.0], "long_factor": [1.0, 2.0], "attention_factor": 1.0}
VIT = {"model_type": "vit", "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
       "image_size": [8, 16], "patch_size": [4, 4], "num_channels": 3, "hidden_act": "gelu", "layer_norm_eps": 1e-6}  # fmt: skip
CLIP = {"model_type": "clip", "text_config": {"hidden_size": 8, "intermediate_size": 8, "num_attention_heads": 2, "num_hidden_layers": 1}}
CONFIGS = {
    "rope_llama3": {**LLAMA, "rope_scaling": LLAMA3},
    "rope_llama3_turned": {**LLAMA, "rope_scaling": {**LLAMA3, "low_freq_factor": 5.0}},
    "rope_llama3_short": {**LLAMA, "rope_parameters": {**LLAMA3, "rope_theta": 4.0, "original_max_position_embeddings": 8}},
    "rope_dynamic": {**LLAMA, "rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "rope_dynamic_nowhere": {**{k: v for k, v in LLAMA.items() if k != "max_position_embeddings"},
                             "rope_scaling": {"type": "dynamic", "factor": 2.0}},
    "rope_linear": {**LLAMA, "rope_scaling": {"type": "linear", "factor": 2.0}},
    "rope_yarn_all": {**LLAMA, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 0.5, "beta_fast": 8,
                                                "beta_slow": 2, "truncate": False, "original_max_position_embeddings": 16}},
    "rope_factors": {**LLAMA, "rope_scaling": {"rope_type": "factors", "factors": [1.0, 2.0]}},
    "rope_factors_few": {**LLAMA, "rope_scaling": {"rope_type": "factors", "factors": [1.0]}},
    "rope_no_object": {**LLAMA, "rope_scaling": []},
    "rope_two_ways": {**LLAMA, "rope_scaling": LLAMA3, "rope_parameters": {"rope_type": "default"}},
    "rope_kinds": {**LLAMA, "model_type": "modernbert", "rope_parameters": {"full_attention": {}, "sliding_attention": 3}},
    "phi3_su": {**LLAMA, "model_type": "phi3", "original_max_position_embeddings": 32,
                "rope_scaling": {"type": "su", "short_factor": [1.0, 1.0], "long_factor": [1.0, 2.0]}},
    "rope_skip_negative": {**SMOL, "no_rope_layer_interval": -4},
    "rope_length_below_1": {**LLAMA, "rope_scaling": {**LONGROPE, "original_max_position_embeddings": 0.5}},
    "rope_skip_part": {**SMOL, "no_rope_layer_interval": 2.5},
    "windows_from_huge": {**LLAMA, "model_type": "qwen2", "num_key_value_heads": 1, "use_sliding_window": True, "sliding_window": 4,
                          "max_window_layers": 1e300},
    "rope_skip_huge": {**SMOL, "no_rope_layer_interval": 1e300},
    "rope_part_negative": {**LLAMA, "model_type": "stablelm", "num_key_value_heads": 1, "layer_norm_eps": 1e-5, "partial_rotary_factor": -1e300},
    "rope_length_huge": {**LLAMA, "rope_scaling": {**LONGROPE, "original_max_position_embeddings": 1e300}},
    "rope_length_negative": {**LLAMA, "rope_scaling": {**LONGROPE, "original_max_position_embeddings": -3}},
    "rope_head_huge": {**LLAMA, "hidden_size": 1 << 28, "num_attention_heads": 1},
    "image_pairs": VIT,
    "image_triple": {**VIT, "image_size": [8, 8, 8]},
    "image_of_too_many": {**VIT, "image_size": 1 << 28, "patch_size": 1},
    "patch_too_large": {**VIT, "image_size": 1 << 28, "patch_size": 1 << 28},
    "windows_from": {**LLAMA, "model_type": "qwen2", "num_key_value_heads": 1, "num_hidden_layers": 3, "use_sliding_window": True, "sliding_window": 4, "max_window_layers": 1},
    "window_never": {**LLAMA, "use_sliding_window": True},
    "pad_at_end": {**LLAMA, "model_type": "roberta", "layer_norm_eps": 1e-5, "hidden_act": "gelu", "pad_token_id": 63, "type_vocab_size": 1},
    "scale_nothing": {**LLAMA, "model_type": "granite", "attention_multiplier": 0.0},
    "embedding_narrow": {**LLAMA, "model_type": "opt", "ffn_dim": 8, "word_embed_proj_dim": 4, "activation_function": "relu"},
    "parts_refused": {"model_type": "mistral3", "layer_types": ["full_attention"], "text_config": {"num_hidden_layers": 1}},
    "parts_twice": {**CLIP, "text_config_dict": {"hidden_size": 8}},
    "parts_differ": {**CLIP, "text_config_dict": {"hidden_size": 16}},
    "parts_no_object": {**CLIP, "text_config": 3, "vision_config": []},
}  # fmt: skip



def gguf_config(name, *more, tensors=()):
    notes = [("general.architecture", STRING, name)]
    for key, kind, content in (("block_count", U32, 2), ("embedding_length", U32, 8), ("feed_forward_length", U32, 8), *more):
        notes.append((f"{name}.{key}", kind, content))
    return gguf(notes, tensors)


EPS, HEADS = ("attention.layer_norm_rms_epsilon", F32, 1e-6), ("attention.head_count", U32, 2)
GGUF_CONFIGS = {
    "gguf_lists_equal": gguf_config("llama", EPS, ("attention.head_count", ARRAY, (I32, [2, 2])), ("attention.head_count_kv", ARRAY, (U32, [1, 1]))),
    "gguf_lists_differ": gguf_config("llama", EPS, ("attention.head_count", ARRAY, (I32, [2, 4]))),
    "gguf_list_empty": gguf_config("llama", EPS, HEADS, ("attention.head_count_kv", ARRAY, (I32, []))),
    "gguf_longrope": gguf_config("phi3", EPS, HEADS, ("context_length", U32, 64), ("rope.scaling.original_context_length", U32, 32),
                                 tensors=[("rope_factors_short.weight", (2,), 0, struct.pack("<2f", 1, 2)),
                                          ("rope_factors_long.weight", (2,), 0, struct.pack("<2f", 1, 3))]),
    "gguf_rope_freqs": gguf_config("llama", EPS, HEADS, tensors=[("rope_freqs.weight", (2,), 0, struct.pack("<2f", 1, 2))]),
    "gguf_largest_gemma": gguf_config("gemma2", ("block_count", U32, 46), EPS, HEADS),
    "gguf_nan": gguf_config("llama", EPS, HEADS, ("rope.freq_base", F32, float("nan"))),
    "gguf_infinite": gguf_config("llama", EPS, HEADS, ("rope.scaling.type", STRING, "yarn"), ("rope.scaling.factor", F64, float("inf"))),
    "gguf_gpt_oss": gguf_config("gpt-oss", EPS, HEADS, ("rope.scaling.type", STRING, "yarn"), ("rope.scaling.factor", F32, 4.0)),
}  # fmt: skip

# ---- Files of a tokenizer, cut at NUL; the index of a checkpoint -----------------------

VOCABS = {
    "list_for_vocab": [b"", b'{"a":"b"}', b"a b\n", b"{}", b"ab"],
    "roberta": [b"", b'{"<s>":0,"<pad>":1,"</s>":2,"<unk>":3,"<mask>":4,"a":5,"b":6,"ab":7}', b"#version: 0.2\na b\n\n\n", b"{}", b"ab <mask>a"],
    "wordpiece_cased": ["[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nA\n##b \u00e9\n\u4e2d\r\n".encode(), b"", b"",
                        b'{"do_lower_case":false,"strip_accents":true,"tokenize_chinese_chars":false}', "Ab \u00c9 \u4e2d. n't".encode()],
    "options_no_object": [b"[UNK]\na\n", b"", b"", b"[]", b"a"],
    "line_no_text": [b"[UNK]\n\xff\n", b"", b"", b"", b"a"],
}  # fmt: skip
INDICES = {
    "one_twice": {"weight_map": {"one": "a.safetensors", "1": "a.safetensors", "two": "b.safetensors"}},
    "not_there": {"weight_map": {"three": "a.safetensors"}},
    "no_file": {"weight_map": {"one": "c.safetensors"}},
    "no_text": {"weight_map": {"one": 3}},
    "no_object": {"weight_map": ["one"]},
}

# ---- Run files -------------------------------------------------------------------------

HEAD = {"id": 1, "schema": 1, "version": "0.1.0", "created": "2026-01-01T00:00:00Z", "command": "measure",
        "command_line": "lipscope measure", "settings": '{"seed":3}'}  # fmt: skip


def run_file(*rows, program=0x4C697053, schema=1, more="", **head):
    """A database as small as one can be, with rows as JSON or as they are.  None: no entry."""
    db = sqlite3.connect(":memory:", isolation_level=None)
    db.executescript(f"PRAGMA page_size = 512; PRAGMA application_id = {program}; PRAGMA user_version = {schema}; VACUUM;"
                     f"CREATE TABLE run ({','.join(HEAD)}); CREATE TABLE cells (key, created, version, row); {more}")  # fmt: skip
    head = {**HEAD, **head}
    if head["id"]:
        db.execute(f"INSERT INTO run VALUES ({','.join('?' * len(head))})", list(head.values()))
    for k, row in enumerate(rows):
        text = json.dumps(row, separators=(",", ":")) if isinstance(row, dict) else row
        db.execute("INSERT INTO cells VALUES (?, ?, ?, ?)", (f"n={k}", HEAD["created"], HEAD["version"], text))
    raw = bytearray(db.serialize())
    raw[96:100] = bytes(4)  # the SQLite that wrote it: any
    return bytes(raw)


ROW = {"model": "m", "layer": 0, "head": None, "n": 4, "window": 0, "sigma": 1.5, "products": 7, "converged": True, "sigmas": [1.5, None, 1]}
WRONG = {"text": ("model", 3), "count": ("layer", "0"), "count_negative": ("layer", -1), "whole": ("products", 1.5),
         "real": ("sigma", "1"), "flag": ("converged", 1), "list": ("sigmas", 1), "list_entry": ("sigmas", ["1"])}  # fmt: skip
RUN_FILES = {
    **{f"wrong_{name}": run_file({**ROW, field: value}) for name, (field, value) in WRONG.items()},
    "three_windows": run_file(*({**ROW, "window": k} for k in range(3))),
    "windows_of_text": run_file({**ROW, "window": 2}, {"sigma": 1}, "{}", '{"window":"x"}'),
    "window_no_json": run_file(ROW, "{"),
    "row_list": run_file("[1]"),
    "row_null": run_file(None),
    "row_number": run_file(3),
    "attacks": run_file({"start": "text", "n": 8, "sigma": 2}, {"start": "text", "n": "8", "sigma": None}),
    "no_head": run_file(ROW, id=None),
    "head_numbers": run_file(ROW, command=3),
    "settings_list": run_file(ROW, settings="[]"),
    "settings_seed": run_file(ROW, settings='{"seed":"3"}'),
    "settings_twice": run_file(ROW, settings='{"seed":3,"seed":4}'),
    "no_utf8": run_file(ROW, command_line=None, more="INSERT INTO run VALUES (1, 1, 'v', 'c', 'x', "
                        "CAST(x'61ff62c3a9e4b8adf09f9880c080eda080f4908080e28080e228f09f' AS TEXT), '{}')", id=None),
    "newer": run_file(ROW, schema=99),
    "another_program": run_file(ROW, program=7),
    "no_cells": run_file(more="DROP TABLE cells"),
}  # fmt: skip


def write(folder, target, name, raw):
    (folder / target).mkdir(parents=True, exist_ok=True)
    (folder / target / name).write_bytes(raw)


def main(folder):
    for name, (described, text) in TOKENIZERS.items():
        whole = json.dumps({"model": BPE, **described}, separators=(",", ":"), ensure_ascii=False)
        write(folder, "tokenizer", name, whole.encode() + b"\0" + text.encode())
    raws = (("tokenizer", GGUFS), ("config", GGUF_CONFIGS), ("gguf", FILES), ("measure_file", MEASURES), ("layer_file", LAYERS), ("safetensors", HEADERS), ("run_file", RUN_FILES))
    for target, files in raws:
        for name, raw in files.items():
            write(folder, target, name, raw)
    for target, texts in (("config", CONFIGS), ("index", INDICES)):
        for name, described in texts.items():
            write(folder, target, name, json.dumps(described, separators=(",", ":")).encode())
    for name, parts in VOCABS.items():
        write(folder, "vocab", name, b"\0".join(parts))


if len(sys.argv) != 2:
    sys.exit(__doc__.strip())
main(pathlib.Path(sys.argv[1]))
