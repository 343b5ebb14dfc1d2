"""What has to run with numpy alone: the examples of the manual that need no more, and errors that name what is missing."""
import tempfile

import numpy as np

import lipscope as ls

rng = np.random.default_rng(0)
X, W = rng.normal(size=(16, 24)), rng.normal(size=(4, 24, 24)) / 5
J = ls.attention(X, *W, heads=4, causal=True)
s = J.sigma(certify=1e-3)
assert s.lower <= np.linalg.norm(J.dense(), 2) <= s.upper
assert np.allclose(J @ s.v, float(s) * s.u) and J.upper().value >= s and len(J.sigma(k=3)) == 3
assert ls.wasserstein(X, X + 1.0, p=2) > 0
assert ls.split(X[:4, :2], ls.Layer(np.eye(2), None, np.eye(2))).split > 0

NANO, some = "builtin:gpt2-nano", dict(lengths=[8, 16, 32], windows=2, layers=[0, 3])
with open(ls.__path__[0] + "/data/text/lighthouse.txt", encoding="utf-8") as file:
    text = file.read()
with tempfile.TemporaryDirectory() as folder:
    r = ls.measure(NANO, text=text, **some, run=folder + "/alice.db")
    assert len(r) == 12 and r.fits and "layer" in repr(r) and "<table>" in r._repr_html_() and r.worst().tokens()
    assert r.report(folder + "/alice.html").stat().st_size > 1000 and len(ls.Result(folder + "/alice.db")) == 12
    assert ls.attack(NANO, layer=3, around=ls.Model(NANO).inputs(range(4), 3), radius=0.05, relative=True, seconds=1).sigma > 0
assert ls.bounds(NANO, layer=3, text=text, length=8).sigma > 0
assert ls.assert_sigma(NANO, None, text, below=20, **some)

missing = [("scipy", J.as_scipy), ("torch", lambda: ls.jacobian(abs, X)), ("torch", lambda: ls.torch), ("pandas", r.to_pandas),
           ("matplotlib", r.plot), ("matplotlib", r.plot_layers), ("tqdm", lambda: ls.measure(NANO, text=text, progress=True, **some))]
for name, call in missing:
    try:
        call()
    except ls.Missing as absent:
        assert f"pip install {name}" in str(absent), absent
print(repr(s))
