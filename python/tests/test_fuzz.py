"""Anything at all, in any order: one of our exceptions with one sentence, or the right kind of answer; never a crash."""
import gc
import os
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lipscope as ls

NANO = "builtin:gpt2-nano"
FEW = settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
odd = st.one_of(st.none(), st.booleans(), st.integers(-2, 9), st.floats(), st.text(max_size=5), st.binary(max_size=3),
                st.just(np.ones(3)), st.just([1, 2, 3]), st.just({}), st.just(object()), st.just(1 << 70))


@pytest.fixture(scope="module", autouse=True)
def apart(tmp_path_factory):
    """In a folder of its own, for run files of any name; what was there before, torch above all, is not looked through again
    by every collection."""
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("fuzz"))
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()
    os.chdir(before)


def survives(call):
    """Our exceptions have one line; nothing else comes out."""
    try:
        return call()
    except ls.LipscopeError as caught:
        assert str(caught) and "\n" not in str(caught)
        return None


X, W = np.eye(3, 4) + 0.1, np.eye(4)
USES = {"sigma": lambda o: o.sigma(), "product": lambda o: o @ np.ones(o.shape[1]), "output": lambda o: o.output(),
        "upper": lambda o: o.upper(), "encode": lambda o: o.encode("the sea"), "jacobian": lambda o: o.jacobian([1, 2], 0),
        "inputs": lambda o: o.inputs([1, 2], 1), "close": lambda o: o.close(), "repr": repr}


@FEW
@given(st.lists(st.tuples(st.sampled_from("ABCDEF"), st.sampled_from(sorted(USES)), st.booleans()), max_size=12))
def test_handles(steps):
    """Objects that share a model and a device, used and closed in any order, from any thread, and dropped."""
    model, device = ls.Model(NANO), ls.Device(threads=1)
    things = {"A": ls.attention(X, W, W, W, device=device), "B": model.jacobian([1, 2, 3], 0), "C": model, "D": device,
              "E": ls.Tokenizer(NANO), "F": model.jacobian([5, 6], 1, map="block")}
    del model, device
    for name, use, elsewhere in steps:
        def work():
            try:
                survives(lambda: USES[use](things[name]))
            except (AttributeError, TypeError):  # no such method
                pass
        if elsewhere:
            thread = threading.Thread(target=work)
            thread.start()
            thread.join()
        else:
            work()
    for name in {name for name, _, _ in steps}:
        del things[name]
    gc.collect()
    for thing in things.values():
        survives(getattr(thing, "close"))


LAYER = ls.Layer(W, None, W)
CALLS = {
    "measure": lambda **o: ls.measure(NANO, **dict(dict(ids=[1, 2, 3, 4], lengths=[4], windows=1, layers=[0]), **o)),
    "attack": lambda **o: ls.attack(LAYER, **dict(dict(length=2, radius=1.0, iterations=1, restarts=1, seconds=1.0), **o)),
    "attacks": lambda **o: ls.attack(NANO, **dict(dict(layer=0, head=0, length=2, radius=1.0, iterations=1, restarts=1, seconds=0.2), **o)),
    "bounds": lambda **o: ls.bounds(NANO, **dict(dict(layer=0, ids=[1, 2, 3]), **o)),
    "split": lambda **o: ls.split(X, LAYER, **dict(dict(restarts=0, step=0), **o)),
    "perturb": lambda **o: ls.perturb(NANO, **dict(dict(ids=[1, 2, 3], length=3, layers=[0], bounds=False, whole_model=False), **o)),
    "sigma": lambda **o: ls.attention(X, W, W, W).sigma(**o),
    "jacobian": lambda **o: ls.Model(NANO).jacobian(**dict(dict(ids=[1, 2], layer=0), **o)).sigma(),
    "attention": lambda **o: ls.attention(**dict(dict(X=X, Wq=W, Wk=W, Wv=W), **o)).sigma(),
    "gauss": lambda **o: ls.Gaussians(**dict(dict(mean=np.zeros(4), cov=W), **o)).push(LAYER),
    "model": lambda **o: ls.Model(**dict(dict(model=NANO), **o)),
}
OPTIONS = {
    "measure": ["ids", "lengths", "windows", "layers", "heads", "map", "mask", "dtype", "method", "tol", "k", "certify", "stride", "tiled",
                "seed", "threads", "device", "part", "shard", "tokenizer", "text", "max_products"],
    "attack": ["around", "length", "radius", "relative", "domain", "restarts", "iterations", "seed", "dtype", "tol", "threads", "device"],
    "attacks": ["layer", "lengths", "radius", "relative", "domain", "masses", "head", "map", "mask", "window", "stride", "ids", "run", "seed",
                "dtype", "part", "device", "seconds"],
    "bounds": ["layer", "ids", "length", "head", "map", "radius", "p", "around", "below", "part", "seed", "device", "threads"],
    "split": ["tol", "radius", "restarts", "step", "measured", "seed", "threads", "device", "colour"],
    "perturb": ["ids", "length", "window", "layers", "tokens", "neighbours", "noise", "seed", "threads", "device"],
    "sigma": ["k", "certify", "method", "tol", "value_tol", "max_products", "block", "seed", "probability"],
    "jacobian": ["ids", "layer", "map", "head", "mask", "dtype", "threads", "device"],
    "attention": ["X", "Wq", "Wk", "Wv", "Wo", "heads", "kv_heads", "mask", "window", "scale", "bq", "rotary_freq", "soft_cap", "alibi",
                  "buckets", "sinks", "weights", "times", "positions", "dtype", "threads", "device", "norm_eps", "q_gain"],
    "gauss": ["mean", "cov", "mass"],
    "model": ["model", "part", "seed"],
}


@settings(FEW, max_examples=400)
@given(st.data())
def test_options(data):
    """One or two options of any call become anything."""
    name = data.draw(st.sampled_from(sorted(CALLS)))
    chosen = data.draw(st.lists(st.sampled_from(OPTIONS[name]), min_size=1, max_size=2, unique=True))
    survives(lambda: CALLS[name](**{option: data.draw(odd) for option in chosen}))


@FEW
@given(st.binary(max_size=200), st.sampled_from(["layer", "measure", "check", "run", "model", "gauss", "tokenizer"]))
def test_files(tmp_path_factory, junk, kind):
    """Files of anything."""
    path = tmp_path_factory.getbasetemp() / "junk"
    path.write_bytes(junk)
    call = {"layer": ls.layer, "measure": ls.Measure.load, "check": ls.check, "run": ls.Result, "model": ls.Model, "gauss": ls.Gaussians.load,
            "tokenizer": ls.Tokenizer}[kind]
    survives(lambda: call(path))
