"""ls.jacobian against torch's own dense Jacobian and LAPACK's SVD of it, in double."""
import numpy as np
import pytest

import lipscope as ls

torch = pytest.importorskip("torch")


def dense(fn, x):
    """torch's own Jacobian, by its reverse mode."""
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        J = torch.autograd.functional.jacobian(fn, x)
    return J.reshape(-1, x.numel()).numpy()


def agree(J, fn, x, k=3):
    A = dense(fn, x)
    values = np.linalg.svd(A, compute_uv=False)
    assert np.allclose(J.sigma(k=k), values[:k], rtol=1e-8)
    assert J.sigma() == pytest.approx(values[0], rel=1e-8)
    v, w = np.linspace(-1, 1, A.shape[1]), np.linspace(1, 2, A.shape[0])
    assert np.allclose(J @ v, A @ v, atol=1e-10) and np.allclose(J.T @ w, A.T @ w, atol=1e-10)
    assert np.allclose(J.as_scipy() @ v, A @ v, atol=1e-10)


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(3)


def test_multihead_attention():
    mha = torch.nn.MultiheadAttention(12, 3, batch_first=True, dtype=torch.float64)
    x = torch.randn(1, 5, 12, dtype=torch.float64)
    fn = lambda x: mha(x, x, x)[0]  # noqa: E731
    J = ls.jacobian(fn, x)
    assert J.in_shape == (1, 5, 12) and J.mode == "forward"
    agree(J, fn, x)


def test_by_hand():
    q, k, v = torch.randn(3, 6, 6, dtype=torch.float64)

    def fn(x):
        return torch.softmax((x @ q) @ (x @ k).T, -1) @ x @ v

    x = torch.randn(4, 6, dtype=torch.float64)
    agree(ls.jacobian(fn, x), fn, x)
    s = ls.jacobian(fn, x).sigma(certify=1e-4)
    assert s.lower <= np.linalg.norm(dense(fn, x), 2) * (1 + 1e-12) and s.upper <= s.lower * 1.0001
    assert np.linalg.norm(dense(fn, x), 2) <= s.upper


def test_gpt2_block():
    transformers = pytest.importorskip("transformers")
    config = transformers.GPT2Config(n_embd=24, n_head=3, n_layer=2, vocab_size=50, n_positions=32)
    model = transformers.GPT2LMHeadModel(config).double()
    ids = torch.arange(6)
    J = ls.jacobian(model, "transformer.h.1", ids)
    got = {}
    block = model.transformer.h[1]
    hook = block.register_forward_pre_hook(lambda m, a, k: got.update(args=a, kwargs=k), with_kwargs=True)
    model.eval()(ids[None], use_cache=False)
    hook.remove()
    x = (got["args"] or (got["kwargs"]["hidden_states"],))[0].detach()

    def fn(x):
        kwargs = {name: value for name, value in got["kwargs"].items() if name != "hidden_states"}
        out = block(x, *got["args"][1:], **kwargs)
        return out if isinstance(out, torch.Tensor) else out[0]

    agree(J, fn, x)
    inner = ls.jacobian(model, "transformer.h.0.attn", {"input_ids": ids[None]})
    assert inner.in_shape == (1, 6, 24) and inner.sigma() > 0


def test_unknown_family():
    """A model that the library knows nothing of: attention modules are found by type, masks come from its forward pass."""
    class OddAttention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = torch.nn.Linear(8, 8)

        def forward(self, hidden, mask=None, positions=None):
            scores = self.mix(hidden) @ hidden.mT + mask
            return torch.softmax(scores, -1) @ hidden, None

    class Odd(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed, self.first = torch.nn.Embedding(9, 8), OddAttention()

        def forward(self, ids):
            n = ids.shape[-1]
            return self.first(self.embed(ids), mask=torch.full((n, n), -torch.inf).triu(1))[0]

    model = Odd()
    assert list(ls.attention_modules(model)) == ["first"]
    J = ls.jacobian(model, "first", [1, 2, 3], dtype=torch.float64)
    A = J.dense()
    assert np.abs(np.triu(A.reshape(3, 8, 3, 8).transpose(0, 2, 1, 3).reshape(3, 3, 64).max(-1), 1)).max() == 0  # causal
    assert J.sigma() == pytest.approx(np.linalg.norm(A, 2), rel=1e-8)
    single = ls.jacobian(model, "first", [1, 2, 3])
    assert single.sigma() == pytest.approx(float(J.sigma()), rel=1e-4)
    with pytest.raises(ls.ArgumentError, match="no module 'second': it has first"):
        ls.jacobian(model, "second", [1])
    with pytest.raises(ls.ArgumentError, match="needs ids"):
        ls.jacobian(model, "first")


class NoForward(torch.autograd.Function):
    """x^3 with derivatives backward only, of both orders."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x ** 3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 3 * x ** 2 * g


class Frozen(torch.autograd.Function):
    """No derivative at all."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()


def test_double_backward():
    x = torch.randn(4, dtype=torch.float64)
    mix = torch.randn(5, 4, dtype=torch.float64)
    fn = lambda x: mix @ NoForward.apply(x)  # noqa: E731
    J = ls.jacobian(fn, x)
    assert J.mode == "double-backward"
    agree(J, fn, x)


def test_modes_and_state_are_left_alone():
    layer = torch.nn.TransformerEncoderLayer(8, 2, batch_first=True, dropout=0.5).double()
    x = torch.randn(1, 3, 8, dtype=torch.float64)
    assert layer.training
    first, second = ls.jacobian(layer, x).sigma(), ls.jacobian(layer, x).sigma()
    assert first == second and layer.training and all(p.grad is None for p in layer.parameters())
    assert x.grad is None and not layer._forward_pre_hooks


def test_sdpa():
    """torch's fused attention has neither forward nor second derivatives: the plain formula is taken."""
    x = torch.randn(1, 2, 5, 4, dtype=torch.float64)
    fn = lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x, is_causal=True)  # noqa: E731
    agree(ls.jacobian(fn, x), fn, x)


@pytest.mark.parametrize("fn,x,want", [
    (torch.tanh, np.ones(3), "torch tensor is needed"),
    (torch.tanh, torch.ones(3, dtype=torch.bfloat16), "bfloat16"),
    (torch.tanh, torch.ones(3, dtype=torch.int64), "int64"),
    (torch.tanh, torch.ones(0), "empty"),
    (torch.tanh, torch.tensor([float("nan")]), "NaN"),
    (lambda x: 3, torch.ones(3), "returns a int"),
    (lambda x: x + torch.randn(3) * x, torch.ones(3), "contradict"),
    (3, torch.ones(3), "no function"),
    (torch.tanh, "path", "a torch module is needed")])
def test_refusals(fn, x, want):
    with pytest.raises(ls.LipscopeError) as caught:
        ls.jacobian(fn, x, *([[1]] if isinstance(x, str) else []))
    assert want in str(caught.value) and "\n" not in str(caught.value)


def test_no_derivative():
    with pytest.raises((ls.LipscopeError, NotImplementedError)):
        ls.jacobian(Frozen.apply, torch.ones(3)).sigma()


def test_constant():
    assert ls.jacobian(lambda x: torch.ones(2, dtype=x.dtype) + 0 * x.sum(), torch.ones(3)).sigma() == 0


def test_interrupt():
    """Ctrl-C inside torch's products stops the solve; the Jacobian can be used after it."""
    import os
    import signal
    before, calls = signal.signal(signal.SIGINT, signal.default_int_handler), []

    def fn(x):
        calls.append(x)
        if len(calls) == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return torch.tanh(x).cumsum(0)

    try:
        J = ls.jacobian(fn, torch.linspace(-1, 1, 40, dtype=torch.float64))
        with pytest.raises(KeyboardInterrupt):
            J.sigma(tol=1e-12)
        assert J.sigma() == pytest.approx(np.linalg.norm(J.dense(), 2), rel=1e-8)
    finally:
        signal.signal(signal.SIGINT, before)
