"""Bad input: an exception with one clear sentence, never a crash; odd but sound memory: the right number."""
import array
import inspect

import numpy as np
import pytest
from conftest import random_layer
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lipscope as ls


def sentence(caught):
    """One line, of a reasonable length, that is not a traceback."""
    text = str(caught.value)
    assert text and "\n" not in text and len(text) < 400
    return text


W = np.eye(4)
BAD = {
    "one dimension": (np.ones(4), "X has shape (4,), and 2 dimensions are needed"),
    "a batch": (np.ones((1, 3, 4)), "X has shape (1, 3, 4)"),
    "other width": (np.ones((3, 5)), "X has 5 columns"),
    "no token": (np.ones((0, 4)), "X is empty"),
    "no width": (np.ones((3, 0)), "X is empty"),
    "integers": (np.ones((3, 4), int), "X holds int64 where real numbers are needed"),
    "booleans": (np.ones((3, 4), bool), "X holds bool"),
    "complex": (np.ones((3, 4), complex), "X holds complex128"),
    "objects": (np.array([[None] * 4] * 3), "X holds object"),
    "strings": ("text", "X holds"),
    "nothing": (None, "X holds object"),
    "ragged": ([[1.0], [1.0, 2.0]], "X cannot be read as an array"),
    "NaN": (np.full((3, 4), np.nan), "X holds a NaN"),
    "infinity": (np.full((3, 4), np.inf), "X holds a NaN or an infinity"),
    "long double": (np.ones((3, 4), np.longdouble), "X holds"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_arrays(name):
    value, want = BAD[name]
    with pytest.raises(ls.LipscopeError) as caught:
        ls.attention(value, W, W, W)
    assert want in sentence(caught)
    assert isinstance(caught.value, (ValueError, TypeError, ArithmeticError))


LAYER = [
    (dict(heads=3), "Wq has 4 rows, which 3 heads do not divide"),
    (dict(heads=0), "heads = 0"),
    (dict(heads=-1), "heads = -1"),
    (dict(heads=2.5), "heads = 2.5: a whole number"),
    (dict(heads=1 << 70), "heads = "),
    (dict(kv_heads=3), "Wk has 4 rows"),
    (dict(mask="triangle"), "mask = 'triangle': there are none, causal"),
    (dict(causal=True, mask="local"), "contradict"),
    (dict(mask="sliding"), "window"),
    (dict(scale=float("nan")), ""),
    (dict(scale="large"), "scale = 'large'"),
    (dict(bq=np.ones(3)), "bq has shape (3,), and (4,) is needed"),
    (dict(bo=np.ones(4)), "bo is the bias of Wo"),
    (dict(Wo=np.ones((4, 5))), "Wo has 5 columns"),
    (dict(Wv=np.ones((4, 5))), "Wv has 5 columns"),
    (dict(Wk=np.ones((4, 5))), "Wk has 5 columns"),
    (dict(alibi=np.ones(1), buckets=np.ones((1, 4))), "two biases"),
    (dict(buckets=np.ones((1, 4))), "bias_distance"),
    (dict(rotary_freq=np.ones(9)), ""),
    (dict(dtype="float16"), "dtype = 'float16'"),
    (dict(threads=-1), "threads = -1"),
    (dict(mask="times"), "times"),
    (dict(weights=-np.ones(3)), ""),
    (dict(weights=np.ones(2)), "weights has shape (2,), and (3,) is needed"),
]


@pytest.mark.parametrize("changed,want", LAYER, ids=[str(i) for i in range(len(LAYER))])
def test_bad_layers(changed, want):
    arguments = dict(dict(X=np.ones((3, 4)), Wq=W, Wk=W, Wv=W), **changed)
    with pytest.raises(ls.LipscopeError) as caught:
        ls.attention(**arguments)
    assert want in sentence(caught)


@pytest.mark.parametrize("options,want", [
    (dict(k=0), "k = 0"), (dict(k=13), "k = 13: a 12 x 12 operator has 12"), (dict(k=1.5), "k = 1.5"),
    (dict(method="guess"), "method = 'guess': there are lanczos"), (dict(certify=-1), "certify = -1"),
    (dict(certify=float("nan")), "certify = nan"), (dict(seed=-1), "seed = -1"), (dict(max_products="many"), "max_products"),
    (dict(speed=3), "no argument speed"), (dict(certify=1e-3, speed=3), "no argument speed"),
    (dict(certify=1e-12, max_seconds=0.0), ""), (dict(tol=float("nan")), ""), (dict(probability=2.0), "")])
def test_bad_options(rng, options, want):
    J = ls.attention(rng.normal(size=(3, 4)), W, W, W)
    with pytest.raises(ls.LipscopeError) as caught:
        J.sigma(**options)
    assert want in sentence(caught)


def test_bad_bounds(rng):
    J = ls.attention(rng.normal(size=(3, 4)), W, W, W)
    for radius in (float("nan"), -1.0, "far", float("inf")):
        with pytest.raises(ls.LipscopeError) as caught:
            J.around(radius)
        sentence(caught)


def test_huge_scores():
    """Scores of 1e30: a number or a refusal, no crash; never a NaN."""
    X = np.arange(12.0).reshape(3, 4) * 1e15
    try:
        s = ls.attention(X, W, W, W).sigma()
        assert np.isfinite(s) and s.lower <= s
    except ls.LipscopeError:
        pass


def test_strides(rng):
    """Memory in any order is the same matrix."""
    big, weights = rng.normal(size=(12, 16)), random_layer(rng, 8, 2)
    X = big[::-2, ::-2]
    assert min(X.strides) < 0 and not X.flags.c_contiguous
    want = ls.attention(X.copy(), *weights, heads=2).sigma()
    assert ls.attention(X, *weights, heads=2).sigma() == want
    turned = [np.asfortranarray(m) for m in weights]
    assert ls.attention(np.asfortranarray(X), *turned, heads=2).sigma() == want
    X.flags.writeable = False
    assert ls.attention(X, *weights, heads=2).sigma() == want
    assert ls.attention(X.astype(X.dtype.newbyteorder()), *weights, heads=2).sigma() == want


def test_kinds_of_arrays(rng):
    X = rng.normal(size=(3, 4)).astype(np.float32)
    want = ls.attention(X.astype(float), W, W, W).sigma()

    class OnlyDLPack:
        def __dlpack__(self, **more):
            return X.__dlpack__(**more)

        def __dlpack_device__(self):
            return (1, 0)

    class Elsewhere(OnlyDLPack):
        def __dlpack_device__(self):
            return (2, 0)

    buffer = memoryview(array.array("d", X.astype(float).ravel())).cast("B").cast("d", (3, 4))
    for value in (X, OnlyDLPack(), X.tolist(), buffer):
        assert ls.attention(value, W, W, W).sigma() == want
    with pytest.raises(ls.DeviceError, match="X lies on"):
        ls.attention(Elsewhere(), W, W, W)


def test_torch_tensors(rng):
    torch = pytest.importorskip("torch")
    X = torch.tensor(rng.normal(size=(3, 4)))
    want = ls.attention(X.numpy(), W, W, W).sigma()
    assert ls.attention(X.clone().requires_grad_(), W, torch.nn.Parameter(torch.eye(4)), W).sigma() == want
    half = X.bfloat16()
    assert ls.attention(half, W, W, W).sigma() == ls.attention(half.double().numpy(), W, W, W).sigma()
    assert isinstance(ls.attention(X, W, W, W) @ X, torch.Tensor)
    for bad, text in ((X.long(), "torch.int64"), (X.to("meta"), "meta"), (X.to_sparse(), "sparse"), (X + 1j, "complex")):
        with pytest.raises(ls.LipscopeError, match=text) as caught:
            ls.attention(bad, W, W, W)
        sentence(caught)


def test_closed():
    with ls.attention(np.ones((2, 4)), W, W, W) as J:
        assert J.sigma() > 0
    J.close()
    for use in (J.sigma, J.output, J.upper, lambda: J @ np.ones(8), lambda: J.around(1.0)):
        with pytest.raises(ls.Unusable, match="closed"):
            use()


def test_callback_fails():
    def broken(trans, x):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        ls.operator((3, 3), broken).sigma()
    with pytest.raises(ls.ArgumentError, match="the product with the operator has shape"):
        ls.operator((3, 3), lambda trans, x: x[:, :2]).sigma()
    with pytest.raises(ls.LipscopeError):
        ls.operator((3, 3), lambda trans, x: x * np.nan).sigma()


def test_callback_uses_itself():
    holder = []

    def again(trans, x):
        return holder[0].sigma() * x

    holder.append(ls.operator((3, 3), again))
    with pytest.raises((RecursionError, ls.LipscopeError)):
        holder[0].sigma()


shapes = st.tuples(st.integers(0, 5), st.integers(0, 5))
kinds = st.sampled_from([float, np.float32, np.float16, int, bool, complex, object, np.longdouble, "U3"])
special = st.sampled_from([0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, 1e150, np.nan, np.inf])


@st.composite
def arrays(draw):
    """Arrays of every shape, kind and stride, some with extreme values."""
    n, d = draw(shapes)
    base = np.random.default_rng(draw(st.integers(0, 9))).normal(size=(2 * n, 2 * d))
    if base.size and draw(st.booleans()):
        base[draw(st.integers(0, 2 * n - 1)), draw(st.integers(0, 2 * d - 1))] = draw(special)
    view = base[::draw(st.sampled_from([2, -2])), ::draw(st.sampled_from([2, -2]))]
    with np.errstate(all="ignore"):
        view = view.real.astype(draw(kinds)) if np.isfinite(view).all() else view
    return draw(st.sampled_from([view, view.T, view.tolist(), view[0] if len(view) else view, None, 3]))


@settings(max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
@given(arrays(), arrays(), arrays(), arrays(), st.integers(-1, 4), st.booleans(), st.sampled_from([None, "w", "t"]))
def test_fuzz(X, Wq, Wk, Wv, heads, causal, more):
    """Any mixture: a finite number, or one of our exceptions."""
    extra = {"w": dict(weights=[1.0] * 3), "t": dict(times=[0.1, 0.2, 0.3], mask="times"), None: {}}[more]
    try:
        with np.errstate(all="ignore"):
            J = ls.attention(X, Wq, Wk, Wv, heads=heads, causal=causal, **extra)
            s = J.sigma()
            J @ s.v
    except ls.LipscopeError as caught:
        assert str(caught) and "\n" not in str(caught)
    else:
        assert np.isfinite(s) and s >= 0


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(arrays(), arrays(), st.sampled_from([0, 0.5, 1, 2, 3, np.nan, np.inf, -1]))
def test_fuzz_distance(a, b, p):
    try:
        d = ls.wasserstein(a, b, p=p)
    except ls.LipscopeError as caught:
        assert str(caught) and "\n" not in str(caught)
    else:
        assert d >= 0


def test_every_public_name_has_a_docstring():
    for name in ls.__all__:
        thing = getattr(ls, name, None)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert inspect.getdoc(thing), name
