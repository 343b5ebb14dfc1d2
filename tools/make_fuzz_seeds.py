#!/usr/bin/env python3
"""Writes the fuzzers' seeds that reach what millions of random inputs did not: every branch
that a small file can take (make fuzz-merge keeps them beside what it finds).

    tools/make_fuzz_seeds.py tests/fuzz/corpus"""
import json
import pathlib
import struct
import sys

import fuzz_seed_families
import fuzz_seed_words
from fuzz_seed_formats import (
    ARRAY, BOOL, BPE, CLIP, EPS, F32, F64, FORMS, HEADS, I8, I32, I64, LLAMA, LLAMA3, LONGROPE, SMOL, STRING, U8, U16, U32, U64, VIT, added, gguf,
    gguf_config, metaspace, normalizer, regex, run_file, safetensors, split, string, template, words,
)  # fmt: skip

# ---- Tokenizers: a tokenizer.json, then NUL and a text ---------------------------------

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
    "bytes_no_letter": ({"decoder": {"type": "ByteFallback"}, "model": {**BPE, "vocab": {"": 0, "[": 1}, "merges": [], "unk_token": None},
                         "post_processor": {"type": "BertProcessing", "sep": ["", 0], "cls": ["", 0]}}, "a"),
    "bytes_added": ({"decoder": {"type": "ByteFallback"}, **added({"id": 7, "content": "<0xFF>"}, {"id": 8, "content": "<0xC3>"})[0]},
                    "a<0xFF><0xC3>b<0xC3>"),
    "unknown_merged": ({"model": {**BPE, "merges": ["u a", "ua u"], "vocab": {"u": 0, "a": 1, "ua": 2, "uau": 3}}}, "xax"),
    "whole_words": ({"model": {**BPE, "ignore_merges": True, "vocab": {**BPE["vocab"], "abab": 4}}}, "abab"),
    "word_ends": ({"model": {**BPE, "end_of_word_suffix": "</w>", "continuing_subword_prefix": "",
                             "vocab": {"u": 0, "a": 1, "b</w>": 2, "ab</w>": 3}, "merges": ["a b</w>"]},
                   "pre_tokenizer": {"type": "WhitespaceSplit"}, "decoder": {"type": "BPEDecoder", "suffix": "</w>"}}, "ab ab"),  # fmt: skip
}

# ---- Tokenizers in GGUF files ----------------------------------------------------------

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
    "gguf_unknown_huge": words("llama", PIECES, ("scores", ARRAY, (F32, [0.0] * 10)), ("unknown_token_id", F64, 1e300),
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
START = b"GGUF" + struct.pack("<I", 3)
ONE = [("d", (1,), 0, b"\0" * 4)]
DEEP = (U8, [1])
for _ in range(12):
    DEEP = (ARRAY, [DEEP])
ANYWHERE = {  # of every target that reads GGUF files
    "gguf_list_overflows": START + struct.pack("<QQ", 0, 1) + string("a") + struct.pack("<IIQ", ARRAY, U64, 1 << 62),
    "gguf_bytes_overflow": START + struct.pack("<QQ", 1, 0) + string("d") + struct.pack("<IQIQ", 1, 1 << 62, 0, 0) + bytes(64),
    "gguf_shape_overflows": START + struct.pack("<QQ", 1, 0) + string("d") + struct.pack("<IQQIQ", 2, 1 << 62, 1 << 62, 0, 0) + bytes(64),
    "gguf_alignment_part": gguf([("general.alignment", F32, 8.5)], ONE),
    "gguf_alignment_large": gguf([("general.alignment", U32, 1 << 20)], ONE),
    "gguf_alignment_zero": gguf([("general.alignment", U32, 0)], ONE),
    "gguf_deep": gguf([("a", *(ARRAY, DEEP))]),
}

# ---- Measures, Gaussians, layers -------------------------------------------------------

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
    "empty_map": {"weight_map": {}},
    "crossed": {"weight_map": {"one": "b.safetensors"}},
    "itself": {"weight_map": {"one": "model.safetensors.index.json"}},
    "hidden": {"weight_map": {"one": ".a"}},
    "no_name": {"weight_map": {"one": ""}},
    "long_tensor": {"weight_map": {"o" * 1100: "a.safetensors"}},
    "long_file": {"weight_map": {"one": "a" * 200}},
    "longest_file": {"weight_map": {"one": "a" * 1100}},
    "letters_file": {"weight_map": {"one": "\u00e9\u4e2d\U0001f600" * 30}},
    "letters_file_odd": {"weight_map": {"one": "a" + "\u00e9\u4e2d\U0001f600" * 30}},
    "hostile_long": {"weight_map": {"one": "\u202e" * 70}},
    "hostile_longer": {"weight_map": {"one": "a" + "\u202e" * 75}},
    "hostile_longest": {"weight_map": {"one": "ab" + "\u0001\u202e" * 45}},
}
# what is escaped where it is shown, and what stands beside it
HOSTILE = ["\u0001\u001f\u007f\u0080\u009f\u00a0", "\u061c\u200d\u200e\u200f\u2010", "\u2027\u2028\u202e\u202f\u2065\u2066\u2069\u206a",
           "\ufeff\ufefe\U0001f600\U0010ffff\ud7ff\ue000", "\u07ff\u0800\uffff\U00010000\U000fffff\U00100000"]  # fmt: skip
for number, shown in enumerate(HOSTILE):
    INDICES[f"hostile_file_{number}"] = {"weight_map": {"one": shown + "\u00e9\\'\"", "two": "b.safetensors"}}
    INDICES[f"hostile_tensor_{number}"] = {"weight_map": {shown + "\\": "a.safetensors"}}
INDEX_TEXTS = {
    "map_twice": b'{"weight_map":{"one":"a.safetensors","one":"b.safetensors"}}',
    "no_json": b'{"weight_map":',
    "no_json_long": b"{" + b"a" * 1100,
    "no_json_shown": '{"a":1}\u00e9\u202e\\\x01'.encode(),
    "no_utf8": b'{"\xff":1}',
    "key_nul": b'{"a\\u0000":1}',
}

# ---- Run files -------------------------------------------------------------------------

ROW = {"model": "m", "layer": 0, "head": None, "n": 4, "window": 0, "sigma": 1.5, "products": 7, "converged": True, "sigmas": [1.5, None, 1]}
WRONG = {"text": ("model", 3), "count": ("layer", "0"), "count_negative": ("layer", -1), "whole": ("products", 1.5),
         "real": ("sigma", "1"), "flag": ("converged", 1), "list": ("sigmas", 1), "list_entry": ("sigmas", ["1"])}  # fmt: skip
# a column that is long in memory and short in the file
COMPUTED = """DROP TABLE cells; CREATE TABLE cells (key, row AS ('{{"model":"' || key || hex(zeroblob({})) || '"}}')); """
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
    "list_empty": run_file({**ROW, "sigmas": []}),
    "list_long": run_file({**ROW, "sigmas": [0.5] * 900}),
    "text_long": run_file({**ROW, "model": "m" * 1100}),
    "text_hostile": run_file({**ROW, "model": "".join(HOSTILE)}),
    "row_long_no_json": run_file("{" + "a" * 1100),
    "texts_of_blocks": run_file(more=COMPUTED.format(4500) + "INSERT INTO cells VALUES (1), (2), (3), (4), (5), (6), (7), (8), (9), (10), (11), (12)"),
    "text_beyond_block": run_file(more=COMPUTED.format(40000) + "INSERT INTO cells VALUES (1)"),
    "head_two": run_file(ROW, more="INSERT INTO run VALUES (2, 1, 'v', 'c', 'measure', 'l', '{}')"),
    "head_no_command": run_file(ROW, command=None),
    "head_no_created": run_file(ROW, created=None),
    "head_no_version": run_file(ROW, version=None),
    "settings_none": run_file(ROW, settings=None),
    "settings_deep": run_file(ROW, settings='{"a":[1,{"b":null}],"seed":9223372036854775807}'),
    "no_run": run_file(ROW, more="DROP TABLE run", id=None),
    "other_run": run_file(ROW, more="DROP TABLE run; CREATE TABLE run (x)", id=None),
    "nothing": run_file(program=0, more="DROP TABLE run; DROP TABLE cells", id=None),
    "cells_view": run_file(more="DROP TABLE cells; CREATE VIEW cells AS SELECT 'k' AS key, '{}' AS row"),
    "cells_endless": run_file(more="DROP TABLE cells; CREATE VIEW cells AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) "
                              "SELECT x AS key, '{}' AS row FROM c"),
    "cells_blob": run_file(more="INSERT INTO cells VALUES ('k', 'c', 'v', x'00ff7b')"),
    "key_none": run_file(more="INSERT INTO cells VALUES (NULL, 'c', 'v', '{}')"),
    "key_none_wrong": run_file(more="INSERT INTO cells VALUES (NULL, 'c', 'v', '{')"),
}  # fmt: skip


def write(folder, target, name, raw):
    (folder / target).mkdir(parents=True, exist_ok=True)
    (folder / target / name).write_bytes(raw)


def main(folder):
    for name, (described, text) in {**TOKENIZERS, **fuzz_seed_words.TOKENIZERS}.items():
        whole = json.dumps({"model": BPE, **described}, separators=(",", ":"), ensure_ascii=False)
        write(folder, "tokenizer", name, whole.encode() + b"\0" + text.encode())
    raws = (("tokenizer", GGUFS), ("tokenizer", fuzz_seed_words.GGUFS), ("tokenizer", ANYWHERE), ("config", GGUF_CONFIGS),
            ("config", fuzz_seed_families.GGUFS), ("config", ANYWHERE), ("gguf", FILES), ("measure_file", MEASURES), ("layer_file", LAYERS),
            ("safetensors", HEADERS), ("run_file", RUN_FILES), ("index", INDEX_TEXTS))  # fmt: skip
    for target, files in raws:
        for name, raw in files.items():
            write(folder, target, name, raw)
    for target, texts in (("config", CONFIGS), ("config", fuzz_seed_families.CONFIGS), ("index", INDICES)):
        for name, described in texts.items():
            whole = json.dumps(described, separators=(",", ":"), ensure_ascii=target != "index")
            write(folder, target, name, whole.encode())
    for name, parts in {**VOCABS, **fuzz_seed_words.VOCABS}.items():
        write(folder, "vocab", name, b"\0".join(parts))


if len(sys.argv) != 2:
    sys.exit(__doc__.strip())
main(pathlib.Path(sys.argv[1]))
