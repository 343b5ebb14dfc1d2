#!/usr/bin/env python3
"""Writes what the tests need beside tools/make_fixtures.py: tokenizers, two small models that read text, and answers by
Hugging Face tokenizers and transformers.

    pip install -r tools/fixture_requirements.txt && tools/make_references.py

tests/data/tokenizers/*        tokenizers of the two kinds of Llama, trained on data/text/lighthouse.txt
tests/data/models/bert-nano    a BERT with random weights and a WordPiece tokenizer, in both its forms
tests/data/models/gpt2-part    attention and first norm of two layers of a GPT-2, nothing else: it can read no text
tests/data/references/tokens.json      ids and decoded texts of awkward strings, by tokenizer
tests/data/references/NAME.json        of a model at lighthouse.txt: its first ids; rows: sigma of the attention of a layer
                                       (with output projection, as the forward pass leaves its input) in float64, window w
                                       of length n = ids w n ... (w + 1) n - 1, and the lengths of the input's tokens"""
import json
import os

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

from make_fixtures import Float64, Recorder, at, randomize

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
DATA = os.path.join(ROOT, "tests", "data")
TEXT = os.path.join(ROOT, "data", "text", "lighthouse.txt")
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
         r"\s+(?!\S)|\s+")
STRINGS = [
    "The keeper of Skarn", "", " ", "\n", "\r\n\r\n", "\tone\t two  three   four    ", "It's we'll THEY'D o'clock ''t 'S",
    "cafe\u0301 and café", "Straße ẞ ŉ ﬁ", "東京の灯台", "등대지기", "منارة ٣٤", "प्रकाशस्तंभ", "🗼🏴‍☠️👨‍👩‍👧 lamp 🙂🙂",
    "snake_case CamelCase kebab-case x=1;y-=22", "a\u00a0b\u2003c\u3000d", "zero\u200bwidth\u00adsoft", "\x01\x02\x7f\x85",
    "“curly” ‘quotes’ — dash – en … dots...", "1234567890 3.14159 1e-10 ½ Ⅷ ①", "zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz",
    "[CLS] and [SEP] and [MASK] [UNK]", "<s> </s> <|begin|><|begin|> <unk>", "ΣΊΣΥΦΟΣ Σίσυφος İı", "𝓛𝓲𝓰𝓱𝓽",
    "$5 €6 £7 ¥8 #9 @10", "   leading", "trailing   ", "\n  mixed \n\t lines\n", "e\u0301\u0327\u0323 stacked",
    "unhappinessisnotawordofthevocabulary " + "x" * 120,
]
PAIRS = ((8, 0), (8, 1), (24, 0), (24, 2), (96, 0))  # length, window


def words():
    with open(TEXT, encoding="utf-8") as file:
        return file.read()


def llama2_kind():
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tok.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    special = ["<unk>", "<s>", "</s>"]
    trainer = trainers.BpeTrainer(vocab_size=700, special_tokens=special + [f"<0x{b:02X}>" for b in range(256)],
                                  show_progress=False)
    tok.train_from_iterator(words().split("\n"), trainer)
    state = json.loads(tok.to_str())  # the bytes are pieces of the vocabulary, not tokens to be found in a text
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] in special]
    tok = Tokenizer.from_str(json.dumps(state))
    tok.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return tok


def llama3_kind():
    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=800, special_tokens=["<|begin|>", "<|end|>"], show_progress=False,
                                  initial_alphabet=pre_tokenizers.ByteLevel.alphabet())
    tok.train_from_iterator([words()], trainer)
    begin = tok.token_to_id("<|begin|>")
    tok.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single="<|begin|> $A", pair="<|begin|> $A $B", special_tokens=[("<|begin|>", begin)])])
    return tok


def wordpiece():
    tok = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tok.normalizer = normalizers.BertNormalizer(lowercase=True)
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece(prefix="##")
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tok.train_from_iterator(words().split("\n"), trainers.WordPieceTrainer(vocab_size=600, special_tokens=special,
                                                                           show_progress=False))
    tok.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                       special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return tok


def write_tokenizers():
    nano = Tokenizer.from_file(os.path.join(ROOT, "data", "gpt2-nano", "tokenizer.json"))
    made = {"llama2-kind": llama2_kind(), "llama3-kind": llama3_kind(), "bert-nano": wordpiece()}
    answers = {"strings": STRINGS}
    for name, tok in {"gpt2-nano": nano, **made}.items():
        if name in made:
            folder = os.path.join(DATA, "models" if name == "bert-nano" else "tokenizers", name)
            os.makedirs(folder, exist_ok=True)
            tok.save(os.path.join(folder, "tokenizer.json"), pretty=False)
        ids = [tok.encode(s, add_special_tokens=False).ids for s in STRINGS]
        answers[name] = {"ids": ids, "ids_with_special": [tok.encode(s).ids for s in STRINGS],
                         "decoded": [tok.decode(i, skip_special_tokens=False) for i in ids]}
    folder = os.path.join(DATA, "models", "bert-nano")
    vocab = made["bert-nano"].get_vocab()
    with open(os.path.join(folder, "vocab.txt"), "w", encoding="utf-8") as file:
        file.writelines(token + "\n" for token in sorted(vocab, key=vocab.get))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as file:
        json.dump({"tokenizer_class": "BertTokenizer", "do_lower_case": True}, file)
    os.makedirs(os.path.join(DATA, "references"), exist_ok=True)
    with open(os.path.join(DATA, "references", "tokens.json"), "w") as file:
        json.dump(answers, file)
    return len(vocab)


def write_models(vocab):
    config = transformers.BertConfig(hidden_size=24, num_attention_heads=4, intermediate_size=40, num_hidden_layers=4,
                                     vocab_size=vocab, max_position_embeddings=128, hidden_dropout_prob=0.0,
                                     attention_probs_dropout_prob=0.0)
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    randomize(model, 3, {})
    model.half().save_pretrained(os.path.join(DATA, "models", "bert-nano"))  # as many are published

    config = transformers.GPT2Config(n_embd=24, n_head=3, n_layer=4, n_positions=64, vocab_size=50)
    model = transformers.GPT2Model(config)
    randomize(model, 4, {})
    folder = os.path.join(DATA, "models", "gpt2-part")
    model.save_pretrained(folder)
    path = os.path.join(folder, "model.safetensors")
    kept = {k: v for k, v in load_file(path).items() if k.startswith(("h.0.", "h.2.")) and (".attn." in k or ".ln_1." in k)}
    save_file(kept, path)


def largest(attention, steps=60):
    """The largest singular value by Golub-Kahan-Lanczos with all vectors kept, and its residual."""
    x = attention.input().detach().clone().requires_grad_(True)
    y = attention.again(x)
    shape = x.shape
    dummy = torch.zeros_like(y, requires_grad=True)  # J v by differentiating J^T w, which is linear in w
    (transposed,) = torch.autograd.grad(y, x, dummy, create_graph=True)

    def forward(v):
        return torch.autograd.grad(transposed, dummy, v.reshape(shape), retain_graph=True)[0].reshape(-1)

    def backward(u):
        return torch.autograd.grad(y, x, u.reshape(y.shape), retain_graph=True)[0].reshape(-1)

    generator = torch.Generator().manual_seed(5)
    v = torch.randn(x.numel(), generator=generator)
    right, left, alpha, beta = [v / v.norm()], [], [], []
    for k in range(min(steps, x.numel())):
        u = forward(right[k]) - (beta[-1] * left[-1] if k else 0)
        for _ in range(2):
            for w in left:
                u = u - w.dot(u) * w
        alpha.append(u.norm())
        left.append(u / alpha[k])
        v = backward(left[k]) - alpha[k] * right[k]
        for _ in range(2):
            for w in right:
                v = v - w.dot(v) * w
        beta.append(v.norm())
        right.append(v / beta[k])
        small = torch.diag(torch.stack(alpha)) + torch.diag(torch.stack(beta[:-1]), 1) if k else alpha[0].reshape(1, 1)
        p, s, qh = torch.linalg.svd(small)
        if beta[k] * p[-1, 0].abs() < 1e-11 * s[0]:
            break
    best = torch.stack(right[:-1]).T @ qh[0]
    image = forward(best)
    sigma = image.norm()
    return float(sigma), float((backward(image / sigma) - sigma * best).norm())


def write_reference(name, folder, model_class, blocks, attention, then):
    tok = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    ids = tok.encode(words(), add_special_tokens=False).ids[:256]
    rows = []
    torch.set_default_dtype(torch.float64)
    with Float64():
        model = model_class.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
        for n, w in PAIRS:
            recorders = [Recorder(at(block, attention), at(block, then) if then else None) for block in at(model, blocks)]
            with torch.no_grad():
                model(input_ids=torch.tensor([ids[w * n:(w + 1) * n]]))
            for recorder in recorders:
                recorder.close()
            for l, recorder in enumerate(recorders):
                recorder.call[1].pop("past_key_values", None)
                lengths = recorder.input()[0].norm(dim=1)
                sigma, residual = largest(recorder)
                rows.append({"n": n, "window": w, "layer": l, "sigma": sigma, "residual": residual,
                             "radius_rms": float(lengths.square().mean().sqrt()), "radius_max": float(lengths.max())})
    torch.set_default_dtype(torch.float32)
    worst = max(r["residual"] / r["sigma"] for r in rows)
    print(f"{name}: {len(rows)} values, residuals up to {worst:.1e}")
    assert worst < 1e-8
    with open(os.path.join(DATA, "references", name + ".json"), "w") as file:
        json.dump({"model": name, "text": "lighthouse.txt", "transformers": transformers.__version__, "ids": ids,
                   "rows": rows}, file)


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    write_models(write_tokenizers())
    write_reference("gpt2-nano", os.path.join(ROOT, "data", "gpt2-nano"), transformers.GPT2Model, "h", "attn", "")
    write_reference("bert-nano", os.path.join(DATA, "models", "bert-nano"), transformers.BertModel, "encoder.layer",
                    "attention.self", "attention.output.dense")


if __name__ == "__main__":
    main()
