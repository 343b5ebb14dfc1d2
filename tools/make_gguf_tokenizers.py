#!/usr/bin/env python3
"""Writes small vocabularies as GGUF files and, in tokenizers.json, the ids that Hugging Face
tokenizers and sentencepiece give for some awkward texts: the answers for unit.gguf_tokenizer.

    pip install gguf tokenizers sentencepiece && tools/make_gguf_tokenizers.py data/text/lighthouse.txt tests/data/gguf"""
import io
import json
import os
import sys

import gguf
import sentencepiece
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

TEXTS = ["", "Hello, world! It's 12345 o'clock.", "  two  spaces \n\n and\ttabs ", "naïve café Straße 東京 🙂",
         "e\u0301 composed?", "UPPER lower MiXeD x=1;y-=22", "<|end|> is special", "it's we'LL they'd", "\r\nline\r\n", "a"]
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6


def write(folder, name, notes, tokens, kinds, scores=None, merges=None):
    out = gguf.GGUFWriter(os.path.join(folder, name), "llama")
    for key, value in notes.items():
        key = "tokenizer.ggml." + key
        if isinstance(value, bool):
            out.add_bool(key, value)
        elif isinstance(value, int):
            out.add_uint32(key, value)
        else:
            out.add_string(key, value)
    out.add_token_list(tokens)
    out.add_token_types(kinds)
    if scores:
        out.add_token_scores(scores)
    if merges:
        out.add_token_merges(merges)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def byte_level(folder, lines, name, pre, steps, nfc=False, whole=False):
    tok = Tokenizer(models.BPE(ignore_merges=whole))
    if nfc:
        tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tok.train_from_iterator(lines, trainers.BpeTrainer(vocab_size=420, special_tokens=["<|end|>"], show_progress=False,
                                                       initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    model = json.loads(tok.to_str())["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    write(folder, name, {"model": "gpt2", "pre": pre, "add_bos_token": True, "bos_token_id": 0}, tokens,
          [CONTROL] + [NORMAL] * (len(tokens) - 1), merges=merges)
    return [tok.encode(t, add_special_tokens=False).ids for t in TEXTS]


def sentencepiece_bpe(folder, lines, name):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=420, model_type="bpe", byte_fallback=True,
        normalization_rule_name="identity", remove_extra_whitespaces=False, minloglevel=2)
    sp = sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())
    size = sp.get_piece_size()
    kinds = [UNKNOWN if sp.is_unknown(i) else CONTROL if sp.is_control(i) else BYTE if sp.is_byte(i) else NORMAL
             for i in range(size)]
    write(folder, name, {"model": "llama", "bos_token_id": 1, "eos_token_id": 2, "unknown_token_id": 0},
          [sp.id_to_piece(i) for i in range(size)], kinds, scores=[sp.get_score(i) for i in range(size)])
    return [sp.encode(t) for t in TEXTS]


def wordpiece(folder, lines, name, lower):
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=lower)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.train_from_iterator(lines, trainers.WordPieceTrainer(
        vocab_size=400, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    vocab = tok.get_vocab()
    tokens = sorted(vocab, key=vocab.get)
    phantom = [t[2:] if t.startswith("##") else t if t[0] == "[" and t[-1] == "]" else "\u2581" + t for t in tokens]
    write(folder, name, {"model": "bert", "cls_token_id": 2, "seperator_token_id": 3}, phantom,
          [CONTROL] * 5 + [NORMAL] * (len(tokens) - 5))
    return [tok.encode(t, add_special_tokens=False).ids for t in TEXTS]


def main(text, folder):
    lines = open(text, encoding="utf-8").read().split("\n")
    plain = pre_tokenizers.ByteLevel(add_prefix_space=False)
    after = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    split = lambda digits: pre_tokenizers.Split(Regex(WORDS + digits + REST), "isolated")
    answers = {
        "smollm.gguf": byte_level(folder, lines, "smollm.gguf", "smollm", [pre_tokenizers.Digits(True), plain]),
        "qwen2.gguf": byte_level(folder, lines, "qwen2.gguf", "qwen2", [split(r"\p{N}"), after], nfc=True),
        "llama3.gguf": byte_level(folder, lines, "llama3.gguf", "llama-bpe", [split(r"\p{N}{1,3}"), after], whole=True),
        "gpt2.gguf": byte_level(folder, lines, "gpt2.gguf", "gpt-2", [plain]),
        "sentencepiece.gguf": sentencepiece_bpe(folder, lines, "sentencepiece.gguf"),
        "uncased.gguf": wordpiece(folder, lines, "uncased.gguf", True),
        "cased.gguf": wordpiece(folder, lines, "cased.gguf", False),
    }
    with open(os.path.join(folder, "tokenizers.json"), "w", encoding="utf-8") as f:
        json.dump({"texts": TEXTS, "ids": answers}, f)
        f.write("\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
