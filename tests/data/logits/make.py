"""Tiny decoders with the logits that transformers computes of them in double: each folder holds a checkpoint and
logits.txt (ids on the first line, then a line of logits for each of them).  Run once: make.py FOLDER."""
import os
import sys

import torch
import transformers as t

sizes = dict(vocab_size=19, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=12,
             max_position_embeddings=16, pad_token_id=0, bos_token_id=1, eos_token_id=2)
models = {
    "llama": (t.LlamaConfig, t.LlamaForCausalLM, dict(tie_word_embeddings=False)),  # a table of its own
    "llama_tied": (t.LlamaConfig, t.LlamaForCausalLM, dict(tie_word_embeddings=True)),
    "phi": (t.PhiConfig, t.PhiForCausalLM, dict()),  # with a bias
    "gpt_neox": (t.GPTNeoXConfig, t.GPTNeoXForCausalLM, dict(rotary_pct=0.5)),  # under another name
    "gemma2": (t.Gemma2Config, t.Gemma2ForCausalLM, dict(head_dim=4, num_key_value_heads=2, final_logit_softcapping=3.0)),
}
ids = [3, 7, 11, 2, 5]
for name, (Config, Model, more) in models.items():
    torch.manual_seed(7)
    model = Model(Config(**sizes, **more)).eval()
    with torch.no_grad():
        for value in model.parameters():
            value.copy_((torch.randn_like(value) * 0.7).half().float())
    folder = os.path.join(sys.argv[1], name)
    model.save_pretrained(folder)
    for file in os.listdir(folder):
        if file not in ("config.json", "model.safetensors"):
            os.remove(os.path.join(folder, file))
    with torch.no_grad():
        logits = model.double()(torch.tensor([ids])).logits[0]
    with open(os.path.join(folder, "logits.txt"), "w") as to:
        print(*ids, file=to)
        for row in logits:
            print(*("%.17g" % x for x in row.tolist()), file=to)
