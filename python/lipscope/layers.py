"""Attention layers, and the Jacobian of one at an input."""
from __future__ import annotations

from contextlib import contextmanager
from typing import Any, Dict, Iterator, List, Optional

import numpy as np

from . import _c, machines, errors
from ._c import Record, ffi, lib
from .arrays import Array, at, choose, device_of, numbers, path_of, pointer, real, whole
from .operators import Solvable

MASKS = {"none": lib.LIPSC_MASK_NONE, "causal": lib.LIPSC_MASK_CAUSAL, "sliding": lib.LIPSC_MASK_SLIDING,
         "times": lib.LIPSC_MASK_TIMES, "local": lib.LIPSC_MASK_LOCAL}
DTYPES = {"float64": lib.LIPSC_F64, "f64": lib.LIPSC_F64, "float32": lib.LIPSC_F32, "f32": lib.LIPSC_F32}


class Layer:
    """A multi-head self-attention layer, without an input.

    Matrices are as torch's nn.Linear keeps them, (out, in): Wq (heads * key_dim, d), Wk (kv_heads * key_dim, d), Wv
    (kv_heads * value_dim, d), Wo (out_dim, heads * value_dim) or None: the heads side by side.  Without Wk the scores are
    x_i . (Wq x_j).  A GPT-2 of transformers keeps the transposes.

    heads, kv_heads: query heads, and key/value heads (default: as many as fit).  causal=True is mask="causal"; other masks
    are "sliding" and "local" with `window`, and "times".  bq, bk, bv, bo are biases; scale defaults to 1/sqrt(key_dim);
    rotary_freq (rotary_dim / 2) turns queries and keys; q_gain, k_gain, norm_eps norm them; alibi (heads) are slopes,
    buckets (heads, B) with bias_distance T5's table; sinks (heads) take part in the softmax; soft_cap caps the scores.

    >>> import numpy as np, lipscope as ls
    >>> W = np.eye(4)
    >>> ls.Layer(W, W, W, heads=2, causal=True)
    <Layer d = 4, 2 heads of 2, causal>
    """

    def __init__(self, Wq: Any, Wk: Any, Wv: Any, Wo: Any = None, *, heads: int = 1, kv_heads: Optional[int] = None,
                 causal: bool = False, mask: Optional[str] = None, window: Optional[int] = None,
                 scale: Optional[float] = None, bq: Any = None, bk: Any = None, bv: Any = None, bo: Any = None,
                 rotary_freq: Any = None, q_gain: Any = None, k_gain: Any = None, norm_eps: float = 0.0,
                 norm_whole: bool = False, soft_cap: Optional[float] = None, alibi: Any = None, buckets: Any = None,
                 bias_distance: Optional[int] = None, sinks: Any = None):
        self._kept: List[Array] = []
        self.struct = ffi.new("lipsc_layer *")
        lib.lipsc_layer_defaults(self.struct)
        s = self.struct
        q = self._keep("Q", numbers(Wq, "Wq", 2))
        s.d, s.heads = q.shape[1], whole(heads, "heads")
        s.key_dim = self._part(q, "Wq", s.heads, "heads")
        self._key_value(Wk, Wv, kv_heads)
        if Wo is not None:
            o = self._keep("O", numbers(Wo, "Wo", 2))
            s.out_dim = o.shape[0]
            if o.shape[1] != s.heads * s.value_dim:
                raise errors.ArgumentError(f"Wo has {o.shape[1]} columns, and heads * value_dim = "
                                           f"{s.heads * s.value_dim} are needed")
        elif bo is not None:
            raise errors.ArgumentError("bo is the bias of Wo, which is not given")
        sizes = {"bq": s.heads * s.key_dim, "bk": s.kv_heads * s.key_dim, "bv": s.kv_heads * s.value_dim, "bo": s.out_dim}
        for name, bias in (("bq", bq), ("bk", bk), ("bv", bv), ("bo", bo)):
            if bias is not None:
                self._keep(name, numbers(bias, name, shape=(sizes[name],)))
        self._scores(scale, soft_cap, alibi, buckets, bias_distance, sinks)
        self._see(causal, mask, window)
        self._turn(rotary_freq, q_gain, k_gain, norm_eps, norm_whole)

    def _keep(self, field: str, array: Array) -> Array:
        self._kept.append(array)
        setattr(self.struct, field, pointer(array))
        return array

    @staticmethod
    def _part(matrix: Array, name: str, count: int, what: str) -> int:
        if matrix.shape[0] % count:
            raise errors.ArgumentError(f"{name} has {matrix.shape[0]} rows, which {count} {what} do not divide")
        return int(matrix.shape[0] // count)

    def _key_value(self, Wk: Any, Wv: Any, kv_heads: Optional[int]) -> None:
        s = self.struct
        if Wk is None:
            s.kv_heads = 1 if kv_heads is None else whole(kv_heads, "kv_heads")
        else:
            k = self._keep("K", numbers(Wk, "Wk", 2))
            if k.shape[1] != s.d:
                raise errors.ArgumentError(f"Wk has {k.shape[1]} columns and Wq has {s.d}: both are the width of a token")
            s.kv_heads = whole(kv_heads, "kv_heads") if kv_heads is not None else self._part(k, "Wk", s.key_dim,
                                                                                             "rows of a head")
            if k.shape[0] != s.kv_heads * s.key_dim:
                raise errors.ArgumentError(f"Wk has {k.shape[0]} rows, and kv_heads * key_dim = {s.kv_heads * s.key_dim} "
                                           "are needed")
        v = self._keep("V", numbers(Wv, "Wv", 2))
        if v.shape[1] != s.d:
            raise errors.ArgumentError(f"Wv has {v.shape[1]} columns and Wq has {s.d}: both are the width of a token")
        s.value_dim = self._part(v, "Wv", s.kv_heads, "key/value heads")

    def _scores(self, scale: Optional[float], soft_cap: Optional[float], alibi: Any, buckets: Any,
                bias_distance: Optional[int], sinks: Any) -> None:
        s = self.struct
        _c.fill(s, {"scale": scale, "soft_cap": soft_cap})
        if alibi is not None and buckets is not None:
            raise errors.ArgumentError("alibi and buckets are two biases of the scores, and a layer has one")
        if alibi is not None:
            self._keep("score_bias", numbers(alibi, "alibi", shape=(s.heads,)))
            s.bias_rule = lib.LIPSC_BIAS_LINEAR
        if buckets is not None:
            table = self._keep("score_bias", numbers(buckets, "buckets", 2))
            if table.shape[0] != s.heads:
                raise errors.ArgumentError(f"buckets has {table.shape[0]} rows, and one for each of {s.heads} heads is needed")
            s.bias_rule, s.bias_buckets = lib.LIPSC_BIAS_BUCKETS, table.shape[1]
            s.bias_distance = whole(bias_distance, "bias_distance")
        if sinks is not None:
            self._keep("sinks", numbers(sinks, "sinks", shape=(s.heads,)))

    def _see(self, causal: bool, mask: Optional[str], window: Optional[int]) -> None:
        if causal and mask not in (None, "causal"):
            raise errors.ArgumentError(f"causal=True and mask={mask!r} contradict each other")
        self.struct.mask = choose(mask if mask is not None else "causal" if causal else "none", MASKS, "mask")
        if window is not None:
            self.struct.window = whole(window, "window")

    def _turn(self, rotary_freq: Any, q_gain: Any, k_gain: Any, norm_eps: float, norm_whole: bool) -> None:
        s = self.struct
        if rotary_freq is not None:
            s.rotary_dim = 2 * self._keep("rotary_freq", numbers(rotary_freq, "rotary_freq", 1)).size
        _c.fill(s, {"norm_eps": norm_eps, "norm_whole": int(bool(norm_whole))})
        for field, gain, heads in (("q_gain", q_gain, s.heads), ("k_gain", k_gain, s.kv_heads)):
            if gain is not None:
                self._keep(field, numbers(gain, field, shape=(s.key_dim * (heads if norm_whole else 1),)))

    @classmethod
    def _of(cls, s: Any) -> Layer:
        """A copy of a lipsc_layer."""
        layer = cls.__new__(cls)
        layer._kept, layer.struct = [], ffi.new("lipsc_layer *", s)
        kv = layer.struct.kv_heads = s.kv_heads or s.heads
        queries, keys, values, joined = s.heads * s.key_dim, kv * s.key_dim, kv * s.value_dim, s.heads * s.value_dim
        norms = (queries, keys) if s.norm_whole else (s.key_dim, s.key_dim)
        for name, shape in (("Q", (queries, s.d)), ("K", (keys, s.d)), ("V", (values, s.d)), ("O", (s.out_dim, joined)),
                            ("bq", (queries,)), ("bk", (keys,)), ("bv", (values,)), ("bo", (s.out_dim,)),
                            ("rotary_freq", (s.rotary_dim // 2,)), ("q_gain", (norms[0],)), ("k_gain", (norms[1],)),
                            ("score_bias", (s.heads, s.bias_buckets or 1)), ("sinks", (s.heads,))):
            given = getattr(s, name)
            if given:
                layer._keep(name, at(given, *shape).copy())
        return layer

    @classmethod
    def load(cls, path: Any, **options: Any) -> Layer:
        """From a layer file (docs/cli.md), without its input; options as of `layer`."""
        with layer_file(path, False, options) as file:
            return cls._of(file.layer)

    @property
    def width(self) -> int:
        """Width of an output token."""
        return int(lib.lipsc_layer_width(self.struct))

    def __repr__(self) -> str:
        s = self.struct
        mask = next(name for name, value in MASKS.items() if value == s.mask)
        return (f"<Layer d = {s.d}, {s.heads} head{'s' if s.heads > 1 else ''} of {s.key_dim}"
                + (f", {s.kv_heads} of keys" if s.kv_heads != s.heads else "")
                + (f", {mask}" if mask != "none" else "") + ">")


def precision(dtype: Any) -> int:
    """dtype= as C has it; torch's and numpy's names are understood."""
    return choose(getattr(dtype, "__name__", str(dtype)).replace("torch.", ""), DTYPES, "dtype")


class Attention(Solvable, _c.Owner):
    """The Jacobian of a layer at an input; see `attention`.  `layer`, `X`, `weights`, `times` and `positions` are what it
    was made of."""

    def __init__(self, layer: Layer, X: Any, *, weights: Any = None, times: Any = None, positions: Any = None,
                 dtype: Any = "float64", threads: int = 0, device: Any = None):
        if not isinstance(layer, Layer):
            raise errors.KindError(f"layer is a {type(layer).__name__}, and a Layer is needed")
        x = numbers(X, "X", 2)
        if x.shape[1] != layer.struct.d:
            raise errors.ArgumentError(f"X has {x.shape[1]} columns and the layer's tokens have width {layer.struct.d}")
        kind = precision(dtype)
        n = x.shape[0]
        rows = {name: numbers(value, name, shape=(n,)) for name, value in
                (("weights", weights), ("times", times), ("positions", positions)) if value is not None}
        self.layer, self.X = layer, x
        self.weights, self.times, self.positions = (rows.get(name) for name in ("weights", "times", "positions"))
        self._input = ffi.new("lipsc_input *", {"n": n, "X": pointer(x)})
        for name, value in rows.items():
            setattr(self._input, name, pointer(value))
        out = ffi.new("lipsc_attn **")
        place = machines.find(device_of(X) if device is None else device, threads)
        with machines.pointer(place) as there:
            _c.call(lib.lipsc_attn_new, layer.struct, self._input, kind, there, out)
        self._handle = _c.Handle(out[0], lib.lipsc_attn_free, "the attention operator", *machines.handle(place),
                                 turn=machines.turn(place))
        self.in_shape, self.out_shape = x.shape, (n, layer.width)

    def _products(self, trans: int, x: Array) -> Array:
        x = np.ascontiguousarray(x)
        y = np.zeros((len(x), self.shape[trans]))
        with self._handle.use() as attn:
            _c.call(lib.lipsc_attn_apply, attn, trans, len(x), pointer(x), pointer(y), err=False)
        return y

    def _solve(self, settings: Any, values: Array, u: Array, v: Array, info: Any, work: _c.Work) -> int:
        with self._handle.use() as attn:
            status, _ = _c.attempt(lib.lipsc_attn_sigma, attn, settings, pointer(values), pointer(u), pointer(v), info,
                                   err=False)
        return int(status)

    def _prove(self, v: Array, settings: Any, out: Any, work: _c.Work, lower: float) -> Any:
        with self._handle.use() as attn:
            return _c.attempt(lib.lipsc_attn_certify, attn, pointer(v), settings, out)

    def output(self) -> Array:
        """f(X), of shape (n, width)."""
        y = np.zeros(self.out_shape)
        with self._handle.use() as attn:
            _c.call(lib.lipsc_attn_output, attn, pointer(y), err=False)
        return y

    def released(self) -> float:
        """|J' f(X)|^(1/2): what the paper's released scripts return in place of sigma (docs/maths.md 8)."""
        out = ffi.new("double *")
        with self._handle.use() as attn:
            _c.call(lib.lipsc_attn_released, attn, out, err=False)
        return float(out[0])

    def _bound(self, function: Any, kind: str, *arguments: Any) -> Record:
        out = ffi.new(kind)
        with self._handle.use() as attn:
            _c.call(function, attn, *arguments, out)
        return Record.of(out)

    def upper(self) -> Record:
        """A proved upper bound of sigma at this input, rounding included (lipsc_upper): `value`, and its parts."""
        return self._bound(lib.lipsc_attn_upper, "lipsc_upper *")

    def around(self, radius: float) -> Record:
        """A proved upper bound of sigma at every input whose tokens are within radius of these (lipsc_around)."""
        return self._bound(lib.lipsc_attn_around, "lipsc_around *", real(radius, "radius"))

    def below(self, limit: float) -> Record:
        """The largest radius within which sigma is proved to stay below limit (lipsc_around)."""
        return self._bound(lib.lipsc_attn_below, "lipsc_around *", real(limit, "limit"))


def attention(X: Any, Wq: Any, Wk: Any, Wv: Any, Wo: Any = None, *, weights: Any = None, times: Any = None,
              positions: Any = None, dtype: Any = "float64", threads: int = 0, device: Any = None, **layer: Any) -> Attention:
    """The Jacobian of an attention layer at the input X (n, d): J @ v, J.T @ w, J.sigma(), J.upper(), J.around(r).

    The matrices and the other arguments are those of `Layer`; weights are token weights (then sigma is the Lipschitz
    constant in the Wasserstein-2 distance), times those of mask="times", positions those of rotary layers.  Arrays may be
    numpy's, torch's, or anything with DLPack or the buffer protocol.  device: "cpu", "cuda", or a `Device`; on a GPU in
    float64 and float32, the value being evaluated in double on the CPU.

    >>> import numpy as np, lipscope as ls
    >>> one = np.ones((1, 1))
    >>> J = ls.attention([[-1], [1], [1], [1]], -one, one, one)
    >>> print(f"{J.sigma():.9f}")
    2.207844077
    >>> J.upper().value >= J.sigma()
    True
    """
    return Attention(Layer(Wq, Wk, Wv, Wo, **layer), X, weights=weights, times=times, positions=positions, dtype=dtype,
                     threads=threads, device=device)


def layer_of(value: Any) -> Layer:
    """The layer of a Layer or of what `attention` gives."""
    if isinstance(value, Attention):
        return value.layer
    if isinstance(value, Layer):
        return value
    raise errors.KindError(f"layer is a {type(value).__name__}, and a Layer or what attention() gives is needed")


# ---- Layer files -----------------------------------------------------------------------------


@contextmanager
def layer_file(path: Any, with_input: bool, options: Dict[str, Any]) -> Iterator[Any]:
    """An open lipsc_layer_file."""
    given = ffi.new("lipsc_layer_options *", {"need_input": int(with_input)})
    for name, value in options.items():
        if name not in ("heads", "kv_heads", "scale", "mask", "window"):
            raise errors.KindError(f"a layer file takes heads, kv_heads, scale, mask and window, and no {name}")
        _c.fill(given, {name: choose(value, MASKS, "mask") if name == "mask" else value})
    if "window" in options and options.get("mask") not in ("sliding", "local"):
        raise errors.ArgumentError("window= goes with mask='sliding' or mask='local'")
    file = ffi.new("lipsc_layer_file *")
    _c.call(lib.lipsc_layer_file_read, path_of(path), given, file)
    try:
        yield file
    finally:
        lib.lipsc_layer_file_free(file)


def layer(path: Any, *, dtype: Any = "float64", threads: int = 0, device: Any = None, **options: Any) -> Attention:
    """The Jacobian of the layer in a layer file (docs/cli.md) at the input that is stored there.  heads, kv_heads, scale,
    mask and window are for files that do not say them."""
    with layer_file(path, True, options) as file:
        found, n = Layer._of(file.layer), file.input.n
        rows = {name: at(getattr(file.input, name), n).copy() for name in ("weights", "times", "positions")
                if getattr(file.input, name)}
        X = at(file.input.X, n, found.struct.d).copy()
    return Attention(found, X, dtype=dtype, threads=threads, device=device, **rows)
