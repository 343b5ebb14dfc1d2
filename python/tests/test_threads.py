"""threads= wherever it is taken: the same value with one and with two."""
import numpy as np
import pytest

import lipscope as ls


@pytest.mark.parametrize("threads", [1, 2])
def test_threads(rng, threads):
    X, W = rng.normal(size=(6, 4)), rng.normal(size=(3, 4, 4))
    assert ls.attention(X, *W, threads=threads).sigma() == pytest.approx(float(ls.attention(X, *W).sigma()), rel=1e-12)
    assert np.allclose(ls.push(X, ls.Layer(*W), threads=threads).points, ls.push(X, ls.Layer(*W)).points, rtol=1e-12)
    assert ls.split(X, ls.Layer(*W), restarts=0, step=0).move > 0
    J = ls.Model("builtin:gpt2-nano").jacobian(range(8), 0, threads=threads)
    assert J.sigma() > 0
    assert ls.attack(ls.Layer(*W), around=X, radius=0.1, iterations=3, threads=threads).sigma > 0
    r = ls.measure("builtin:gpt2-nano", text="builtin:lighthouse", lengths=[8], windows=1, layers=[0], threads=threads)
    assert len(r) == 1
