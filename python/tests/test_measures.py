"""Distances and splitting against scipy's assignment and linear programs, and finite perturbations."""
import numpy as np
import pytest
from conftest import attention_of

import lipscope as ls


@pytest.mark.parametrize("p", [1, 2, 3.5])
def test_assignment(rng, p):
    optimize = pytest.importorskip("scipy.optimize")
    a, b = rng.normal(size=(12, 3)), rng.normal(size=(12, 3))
    C = np.linalg.norm(a[:, None] - b[None], axis=2) ** p
    want = C[optimize.linear_sum_assignment(C)].mean() ** (1 / p)
    found = ls.wasserstein(a, b, p=p, plan=True)
    assert found == pytest.approx(want, rel=1e-12) and abs(found.gap) < 1e-12
    i, j, mass = found.plan
    assert (mass * C[i, j]).sum() ** (1 / p) == pytest.approx(want, rel=1e-12)


def test_weights(rng):
    optimize = pytest.importorskip("scipy.optimize")
    a, b = rng.normal(size=(4, 2)), rng.normal(size=(6, 2))
    wa, wb = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(6))
    C = ((a[:, None] - b[None]) ** 2).sum(2)
    rows, columns = np.kron(np.eye(4), np.ones(6)), np.kron(np.ones(4), np.eye(6))
    program = optimize.linprog(C.ravel(), A_eq=np.vstack([rows, columns]), b_eq=np.concatenate([wa, wb]))
    found = ls.wasserstein(ls.Measure(a, wa), (b, wb))
    assert found == pytest.approx(np.sqrt(program.fun), rel=1e-9)
    assert (found.f[:, None] + found.g[None] <= C + 1e-12).all()


def test_push_and_split(rng):
    X, (A, K, V) = rng.normal(size=(5, 2)), rng.normal(size=(3, 2, 2))
    layer = ls.Layer(A, K, V)
    assert np.allclose(ls.push(X, layer).points, attention_of(X, A, K, V), atol=1e-13)
    s = ls.split(X, layer)
    assert s.move == pytest.approx(float(ls.attention(X, A, K, V).sigma()), rel=1e-8)
    assert s.split >= s.move * (1 - 1e-12) and s.direction.shape == X.shape
    step = 1e-5
    moved = ls.wasserstein(ls.push(X + step * s.direction, layer), ls.push(X, layer))
    assert moved / ls.wasserstein(X + step * s.direction, X) == pytest.approx(s.move, rel=1e-3)


def test_refusals(rng):
    X, W = rng.normal(size=(3, 2)), np.eye(2)
    with pytest.raises(ls.Refused):
        ls.push(X, ls.Layer(W, W, W, rotary_freq=[1.0]))
    with pytest.raises(ls.LipscopeError, match="sum"):
        ls.wasserstein((X, [0.5, 0.5, 0.5]), X)
    with pytest.raises(ls.LipscopeError):
        ls.wasserstein(X, rng.normal(size=(3, 5)))
    with pytest.raises(ls.KindError, match="no argument speed"):
        ls.split(X, ls.Layer(W, W, W), speed=3)
    with pytest.raises(ls.KindError, match="a Layer"):
        ls.split(X, W)
