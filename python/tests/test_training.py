"""ls.torch: gradients against finite differences, a penalty that works, callbacks."""
import logging

import numpy as np
import pytest

import lipscope as ls

torch = pytest.importorskip("torch")


class Attention(torch.nn.Module):
    def __init__(self, d=6):
        super().__init__()
        self.q, self.k, self.v = (torch.nn.Linear(d, d) for _ in range(3))

    def forward(self, x):
        return torch.softmax(self.q(x) @ self.k(x).mT, -1) @ self.v(x)


@pytest.fixture(autouse=True)
def same_numbers():
    torch.manual_seed(5)


def exact(module, x):
    return np.linalg.norm(torch.autograd.functional.jacobian(module, x).reshape(-1, x.numel()).numpy(), 2)


def test_gradient():
    """By every weight and by x, against central differences of LAPACK's value."""
    module, x = Attention().double(), torch.randn(4, 6, dtype=torch.float64, requires_grad=True)
    s = ls.torch.sigma(module, x, tol=1e-12)
    assert float(s.detach()) == pytest.approx(exact(module, x.detach()), rel=1e-10)
    s.backward()
    step = 1e-5
    for parameter in [x, *module.parameters()]:
        direction = torch.randn_like(parameter)
        start = parameter.detach().clone()
        sides = []
        for sign in (1, -1):
            parameter.data = start + sign * step * direction
            sides.append(exact(module, x.detach()))
        parameter.data = start
        # the softmax does not see the bias of the keys, nor the Jacobian that of the values: no gradient is none
        slope = 0.0 if parameter.grad is None else float((parameter.grad * direction).sum())
        assert slope == pytest.approx((sides[0] - sides[1]) / (2 * step), rel=1e-5, abs=1e-5)


def test_inside_a_graph():
    """x may be the outcome of other layers, and the penalty a part of a loss."""
    first, second = torch.nn.Linear(6, 6).double(), Attention().double()
    x = torch.randn(3, 6, dtype=torch.float64)
    loss = second(first(x)).square().sum() + 0.1 * ls.torch.sigma(second, first(x))
    loss.backward()
    assert all(torch.isfinite(p.grad).all() for p in first.parameters())


def test_penalty():
    """A hundred steps with the penalty lower sigma and keep the loss."""
    x, target = torch.randn(16, 6), torch.randn(16, 6)

    def train(weight):
        torch.manual_seed(1)
        module = Attention()
        with torch.no_grad():
            module.v.weight.mul_(4)
        optimiser = torch.optim.Adam(module.parameters(), 1e-2)
        for _ in range(100):
            loss = (module(x) - target).square().mean()
            penalty = weight * ls.torch.sigma(module, x) if weight else 0.0
            optimiser.zero_grad()
            (loss + penalty).backward()
            optimiser.step()
        return float(loss.detach()), exact(module.double(), x.double())

    (plain, before), (loss, after) = train(0.0), train(0.05)
    assert after < 0.6 * before and loss < plain * 1.5


def test_watch(caplog):
    model = torch.nn.TransformerEncoder(torch.nn.TransformerEncoderLayer(8, 2, batch_first=True), 2)
    x = torch.randn(1, 3, 8)

    class Writer:
        def __init__(self):
            self.seen = []

        def add_scalar(self, name, value, step):
            self.seen.append((name, step))

    class Run:
        def __init__(self):
            self.seen = []

        def log(self, values, step):
            self.seen.append((sorted(values), step))

    names = ["sigma/layers.0.self_attn", "sigma/layers.1.self_attn"]
    for log, want in ((Writer(), [(name, 2) for name in names]), (Run(), [(names, 2)])):
        watch = ls.torch.Watch(model, x, every=2, log=log)
        for _ in range(3):
            watch.step()
        assert log.seen == want and list(watch.history) == [2]
    with caplog.at_level(logging.INFO, logger="lipscope"):
        ls.torch.Watch(model, x, every=1).step()
    assert "step 1: sigma/layers.0.self_attn" in caplog.text and model.training
    with pytest.raises(ls.ArgumentError, match="no module whose type is named attention"):
        ls.torch.Watch(torch.nn.Linear(2, 2), x)
    with pytest.raises(ls.KindError, match="log is a int"):
        ls.torch.Watch(model, x, log=3)


def test_watch_half():
    """A model in half precision is watched in float32; a value that does not converge does not end the training."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.GPT2Model(transformers.GPT2Config(n_embd=16, n_head=2, n_layer=1, vocab_size=20, n_positions=16))
    ids = torch.arange(8)
    half = ls.torch.Watch(model.bfloat16(), ids, every=1).measure()
    want = np.linalg.norm(ls.jacobian(model, "h.0.attn", ids, dtype=torch.float64).dense(), 2)
    assert half["sigma/h.0.attn"] == pytest.approx(want, rel=1e-4)
    late = ls.torch.Watch(model.float(), ids, every=1, max_products=1, tol=1e-12).measure()
    assert 0 < late["sigma/h.0.attn"] <= half["sigma/h.0.attn"] * 1.01


def test_trainer(tmp_path):
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    model = transformers.GPT2LMHeadModel(transformers.GPT2Config(n_embd=16, n_head=2, n_layer=2, vocab_size=20,
                                                                 n_positions=16))
    data = [{"input_ids": torch.arange(8), "labels": torch.arange(8)}] * 8
    trainer = transformers.Trainer(model, transformers.TrainingArguments(
        str(tmp_path), max_steps=4, report_to=[], use_cpu=True, save_strategy="no", disable_tqdm=True), train_dataset=data)
    callback = ls.torch.callback(trainer, torch.arange(8), every=2)
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "sigma/transformer.h.0.attn" in entry]
    assert [entry["step"] for entry in logged] == [2, 4] == list(callback.watch.history)
