"""The examples of docs/python.md, and the first ones that anybody types, run as they stand."""
import pathlib
import re
import shutil
import types

import numpy as np
import pytest

import lipscope as ls

torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
pytest.importorskip("pandas"), pytest.importorskip("scipy"), pytest.importorskip("tqdm")
pytest.importorskip("matplotlib").use("Agg")
MANUAL = pathlib.Path(__file__).resolve().parents[2] / "docs" / "python.md"
NANO = pathlib.Path(ls.__path__[0]) / "data" / "gpt2-nano"

FIRST = '''
import lipscope as ls
from transformers import AutoModelForCausalLM, AutoTokenizer
m, t = AutoModelForCausalLM.from_pretrained(p), AutoTokenizer.from_pretrained(p)

r = ls.measure(m, t, text=open("alice.txt").read(), lengths=[16, 64, 256], windows=5)
repr(r), r._repr_html_()
r.to_pandas(); r.fits; r.plot(); r.plot_layers(); r.report("alice.html"); r.worst().tokens()

ls.attention(X, Wq, Wk, Wv, Wo, heads=12, causal=True).sigma()
J = ls.jacobian(m, "model.layers.3.self_attn", ids)
J = ls.jacobian(fn, x)
J.sigma(k=3, certify=1e-3); J @ v; J.T @ w; J.as_scipy()
ls.bounds(m, layer=3, text=text); ls.attack(m, layer=3, around=around, radius=0.05, relative=True, seconds=30)
ls.wasserstein(a, b, p=2); ls.split(mu, layer)
ls.assert_sigma(m, t, text, below=20)
'''


@pytest.fixture
def names(tmp_path, monkeypatch, rng):
    """What the examples take for granted: a folder with a model, a text, arrays."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(NANO.parent / "text" / "lighthouse.txt", "alice.txt")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(hidden_size=24, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40,
                                      num_hidden_layers=4, vocab_size=2048, max_position_embeddings=512)
    model = transformers.LlamaForCausalLM(config)
    model.save_pretrained("model")
    for file in ("tokenizer.json", "vocab.json", "merges.txt"):
        shutil.copy(NANO / file, "model")
    X, W = rng.normal(size=(8, 24)), rng.normal(size=(4, 24, 24)) / 5
    module = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).double()
    Trainer = types.SimpleNamespace(model=model, added=[], log=print)
    Trainer.add_callback = Trainer.added.append
    text = pathlib.Path("alice.txt").read_text()
    return dict(p="model", text=text, X=X, around=X, Wq=W[0], Wk=W[1], Wv=W[2], Wo=W[3], v=np.ones(9), w=np.ones(9), ids=list(range(9)),
                fn=torch.tanh, x=torch.linspace(-1, 1, 9, dtype=torch.float64), a=X, b=X + 1, mu=X[:3, :2], module=module,
                layer=ls.Layer(np.eye(2), None, np.eye(2)), batch=torch.arange(9)[None], task=lambda out: out.logits.mean(),
                writer=print, trainer=Trainer, m=model, model=model)


def test_first_lines(names):
    exec(FIRST, names)
    assert len(names["r"]) == 4 * 3 * 5 and names["r"].fits and pathlib.Path("alice.html").exists()


def test_manual(names, rng):
    """Each block of the manual, with the shapes that it speaks of."""
    ls_, size = {"ls": ls}, 8 * 24
    for block in re.findall(r"```python\n(.*?)```", MANUAL.read_text(), re.S):
        given = dict(names, **ls_)
        if "attention(X, Wq" in block:
            given.update(v=rng.normal(size=size), w=rng.normal(size=size))
        if "torch.sigma(module, x)" in block:
            given.update(x=torch.randn(1, 4, 8, dtype=torch.float64))
        if "gpt2-nano" in block:  # its m is the same model
            given.update(m=ls.Model("builtin:gpt2-nano"), t=None)
            block = block.replace("lengths=[8, 16, 32]", "lengths=[2, 3, 4], head=0, iterations=2, restarts=1").replace("seconds=30", "seconds=1")
        exec(block, given)
