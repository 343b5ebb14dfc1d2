"""What has to run with numpy alone: the numpy examples of the manual, and errors that name what is missing."""
import numpy as np

import lipscope as ls

rng = np.random.default_rng(0)
X, W = rng.normal(size=(16, 24)), rng.normal(size=(4, 24, 24)) / 5
J = ls.attention(X, *W, heads=4, causal=True)
s = J.sigma(certify=1e-3)
assert s.lower <= np.linalg.norm(J.dense(), 2) <= s.upper
assert np.allclose(J @ s.v, float(s) * s.u) and J.upper().value >= s
assert ls.wasserstein(X, X + 1.0, p=2) > 0
assert ls.split(X[:4, :2], ls.Layer(np.eye(2), None, np.eye(2))).split > 0
for name, call in (("scipy", J.as_scipy), ("torch", lambda: ls.jacobian(abs, X)), ("torch", lambda: ls.torch)):
    try:
        call()
    except ls.Missing as missing:
        assert f"pip install {name}" in str(missing), missing
print(repr(s))
