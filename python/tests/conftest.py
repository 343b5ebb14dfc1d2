"""What the tests share: a generator that begins alike, the command line, and judges that are not ours."""
import json
import os
import pathlib
import subprocess

os.environ.setdefault("OMP_NUM_THREADS", "2")
os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # torch has an OpenMP of its own: two pools that spin fight

import numpy as np  # noqa: E402
import pytest  # noqa: E402

try:
    import torch
    torch.set_num_threads(1)  # tiny tensors
except ImportError:
    pass


def command(*arguments, code=0):
    """What the program that comes with the package says."""
    program = pathlib.Path(__import__("lipscope").__file__).with_name("lipscope")
    done = subprocess.run([str(program), *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    return done.stdout


def program(*arguments, code=0):
    """The same as JSON."""
    return json.loads(command(*arguments, "--format", "json", code=code))


def same(found, said, but=(), rel=1e-12):
    """A record with every field that the command line has, but for some."""
    for name in said.keys() - set(but):
        want = said[name]
        assert found[name] == (pytest.approx(want, rel=rel) if isinstance(want, float) else want), name


@pytest.fixture
def rng():
    return np.random.default_rng(7)


def softmax(scores):
    """For complex arguments too: shifted by the largest real part."""
    e = np.exp(scores - scores.real.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def attention_of(X, Wq, Wk, Wv, Wo=None, heads=1, causal=False, weights=None):
    """The textbook formula in numpy, which also takes complex X."""
    n, k = len(X), Wq.shape[0] // heads
    q, key = (X @ Wq.T).reshape(n, heads, k), (X @ Wk.T).reshape(n, -1, k)
    groups = heads // key.shape[1]
    value = (X @ Wv.T).reshape(n, key.shape[1], -1)
    out = []
    for h in range(heads):
        scores = q[:, h] @ key[:, h // groups].T / np.sqrt(k)
        if weights is not None:
            scores = scores + np.log(weights)
        if causal:
            scores = np.where(np.tril(np.ones((n, n), bool)), scores, -np.inf)
        out.append(softmax(scores) @ value[:, h // groups])
    out = np.concatenate(out, 1)
    return out if Wo is None else out @ Wo.T


def complex_step(f, X):
    """The Jacobian of f by complex steps: exact to rounding, without subtraction and without derivatives of anybody."""
    columns = []
    for i in range(X.size):
        Z = X.astype(complex)
        Z.reshape(-1)[i] += 1e-30j
        columns.append(f(Z).imag.reshape(-1) / 1e-30)
    return np.stack(columns, 1)


def random_layer(rng, d=8, heads=2, kv=None, scale=1.0):
    kv = kv or heads
    k = d // heads
    return [scale * rng.normal(size=shape) for shape in ((d, d), (kv * k, d), (kv * k, d), (d, d))]
