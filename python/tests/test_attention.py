"""ls.attention against the textbook formula, differentiated by complex steps, and numpy's SVD."""
import numpy as np
import pytest
from conftest import attention_of, complex_step, random_layer

import lipscope as ls


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("heads,kv", [(1, 1), (2, 2), (4, 2), (4, 1)])
def test_jacobian(rng, heads, kv, causal):
    X, W = rng.normal(size=(7, 8)), random_layer(rng, 8, heads, kv)
    J = ls.attention(X, *W, heads=heads, causal=causal)
    want = complex_step(lambda Z: attention_of(Z, *W, heads=heads, causal=causal), X)
    assert np.allclose(J.output(), attention_of(X, *W, heads=heads, causal=causal), rtol=0, atol=1e-12)
    assert np.abs(J.dense() - want).max() < 1e-12 * np.abs(want).max() * 10
    values = np.linalg.svd(want, compute_uv=False)
    assert J.sigma() == pytest.approx(values[0], rel=1e-12)
    assert np.allclose(J.sigma(k=3, tol=1e-10), values[:3], rtol=1e-10)


def test_products(rng):
    X, W = rng.normal(size=(5, 4)), random_layer(rng, 4, 2)
    J = ls.attention(X, *W, heads=2)
    A = complex_step(lambda Z: attention_of(Z, *W, heads=2), X)
    v, V, w = rng.normal(size=20), rng.normal(size=(20, 3)), rng.normal(size=(5, 4))
    assert np.allclose(J @ v, A @ v) and np.allclose(J @ V, A @ V)
    assert (J.T @ w).shape == (5, 4) and np.allclose((J.T @ w).ravel(), A.T @ w.ravel())
    assert J.T.T is J and J.shape == (20, 20) == J.T.shape
    with pytest.raises(ls.ArgumentError, match=r"v has shape \(3,\)"):
        J @ np.ones(3)


def test_scipy(rng):
    linalg = pytest.importorskip("scipy.sparse.linalg")
    J = ls.attention(rng.normal(size=(6, 4)), *random_layer(rng, 4, 2), heads=2)
    (arpack,) = linalg.svds(J.as_scipy(), k=1, return_singular_vectors=False)
    assert J.sigma() == pytest.approx(arpack, rel=1e-10)


def test_weights(rng):
    """With token weights: D^(1/2) Df D^(-1/2)."""
    X, W, a = rng.normal(size=(4, 6)), random_layer(rng, 6, 2), np.array([0.1, 0.2, 0.3, 0.4])
    A = complex_step(lambda Z: attention_of(Z, *W, heads=2, weights=a), X)
    D = np.sqrt(np.repeat(a, 6))
    want = np.linalg.norm(D[:, None] * A / D, 2)
    assert ls.attention(X, *W, heads=2, weights=a).sigma() == pytest.approx(want, rel=1e-12)


def test_proofs(rng):
    X, W = rng.normal(size=(6, 6)), random_layer(rng, 6, 2)
    J = ls.attention(X, *W, heads=2, causal=True)
    s = J.sigma(certify=1e-3)
    exact = np.linalg.norm(J.dense(), 2)
    assert s.lower <= exact * (1 + 1e-13) and exact <= s.upper <= 1.001 * s.lower
    assert J.upper().value >= exact
    assert np.linalg.norm(s.v) == pytest.approx(1) and np.allclose(J @ s.v, float(s) * s.u)
    near = J.around(1e-3)
    inside = max(np.linalg.norm(ls.attention(X + 1e-3 * h / np.linalg.norm(h, axis=1, keepdims=True), *W, heads=2,
                                             causal=True).dense(), 2) for h in rng.normal(size=(20, 6, 6)))
    assert near.value >= inside and J.below(2 * near.value).radius >= 1e-3


def test_single_precision(rng):
    X, W = rng.normal(size=(9, 8)), random_layer(rng, 8, 2)
    single, double = (ls.attention(X, *W, heads=2, dtype=t).sigma() for t in ("float32", "float64"))
    assert single == pytest.approx(double, rel=1e-3) and single <= double * (1 + 1e-12)


def test_one_token():
    """n = 1: attention is Wo Wv, whatever the scores."""
    W = np.arange(4.0).reshape(2, 2)
    assert ls.attention(np.ones((1, 2)), W, W, W, np.eye(2)).sigma() == pytest.approx(np.linalg.norm(W, 2), rel=1e-14)


def test_did_not_converge(rng):
    J = ls.attention(rng.normal(size=(16, 16)), *random_layer(rng, 16, 4), heads=4)
    with pytest.raises(ls.NotConverged, match="did not converge in") as caught:
        J.sigma(max_products=2)
    assert 0 < caught.value.result <= J.sigma() * (1 + 1e-12) and not caught.value.result.converged


def test_shown(rng):
    J = ls.attention(rng.normal(size=(3, 4)), *random_layer(rng, 4, 2), heads=2, causal=True)
    assert repr(J) == "<Attention 12 x 12: (3, 4) -> (3, 4)>"
    assert repr(J.layer) == "<Layer d = 4, 2 heads of 2, causal>"
    assert repr(J.sigma(certify=1e-3)).startswith("Sigma(") and "proved in [" in repr(J.sigma(certify=1e-3))
    assert "value" in repr(J.upper()) and "worst_head" in repr(J.upper())


def test_operator(rng):
    A = rng.normal(size=(5, 8))
    J = ls.operator(A.shape, lambda trans, x: x @ (A if trans else A.T))
    values = np.linalg.svd(A, compute_uv=False)
    assert np.allclose(J.sigma(k=5), values, rtol=1e-10)
    s = J.sigma(certify=1e-4)
    assert s.lower <= values[0] <= s.upper <= s.lower * 1.0001
