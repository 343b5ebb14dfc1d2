"""Sigma of every layer of a model on the windows of a text: what `lipscope measure` does."""
from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from typing import Any, Callable, List, Optional, Sequence, Tuple, Union

from . import _c, errors
from ._c import ffi, lib
from .arrays import numbers, pointer
from .layers import DTYPES, MASKS, whole
from .models import MAPS, Model, Tokenizer, choose, token_ids
from .operators import METHODS
from .results import Result, Row


class Source:
    """A text, ids or an image as C takes it; keeps what it points to."""

    def __init__(self, tokenizer: Any, text: Any, ids: Any, pixels: Any, special: bool, stride: Optional[int], tiled: bool):
        self.kept: List[Any] = []
        self.folder: Optional[tempfile.TemporaryDirectory[str]] = None
        self.options = ffi.new("lipsc_source_options *")
        given = [name for name, value in (("text", text), ("ids", ids), ("pixels", pixels)) if value is not None]
        if len(given) != 1:
            raise errors.ArgumentError("one of text, ids and pixels is needed" + (f", not {' and '.join(given)}" if given
                                                                                  else ""))
        if text is not None:
            self._text(text)
        elif ids is not None:
            found = token_ids(ids)
            self.options.id_list, self.options.id_count = self._keep(found), len(found)
        else:
            image = numbers(pixels, "pixels", 3)
            self.kept.append(image)
            self.options.pixel_list, self.options.pixel_shape = pointer(image), image.shape
        if tokenizer is not None:
            self.options.tokenizer = self._keep(ffi.new("char[]", self._tokenizer(tokenizer).encode()))
        self.options.special, self.options.tiled = int(special), int(tiled)
        if stride is not None:
            self.options.stride = whole(stride, "stride")

    def _keep(self, value: Any) -> Any:
        self.kept.append(value)
        return value

    def _text(self, text: Any) -> None:
        if not isinstance(text, (str, bytes)):
            raise errors.KindError(f"text is a {type(text).__name__}, and the text itself is needed, a string")
        if not text:
            raise errors.ArgumentError("the text is empty")
        if isinstance(text, str) and text.startswith("builtin:"):
            self.options.text = self._keep(ffi.new("char[]", text.encode()))
            return
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        self.options.text_bytes, self.options.text_size = self._keep(ffi.new("char[]", data)), len(data)

    def _tokenizer(self, tokenizer: Any) -> str:
        """A path; of a tokenizers or transformers object the tokenizer.json that it is."""
        if isinstance(tokenizer, (str, os.PathLike)):
            return os.fspath(tokenizer)
        inner = getattr(tokenizer, "backend_tokenizer", tokenizer)
        if not hasattr(inner, "to_str"):
            raise errors.KindError(f"a {type(tokenizer).__name__} is no tokenizer that can be read: pass ids=tokenizer(text)"
                                   "['input_ids']")
        self.folder = tempfile.TemporaryDirectory(prefix="lipscope-")
        path = os.path.join(self.folder.name, "tokenizer.json")
        with open(path, "w", encoding="utf-8") as file:
            file.write(inner.to_str())
        return path


def _sizes(values: Any, name: str, kept: List[Any]) -> Tuple[int, Any]:
    """A lipsc_sizes: (count, at)."""
    listed = [values] if isinstance(values, int) else list(values)
    if not listed:
        raise errors.ArgumentError(f"{name} is an empty list")
    array = ffi.new("size_t[]", [whole(value, name, 0) for value in listed])
    kept.append(array)
    return len(listed), array


def _bar(wanted: Optional[bool]) -> Optional[Callable[[int, int], None]]:
    """A progress bar by tqdm: None: where it is installed and somebody looks."""
    if wanted is False or (wanted is None and not (sys.stderr.isatty() or "ipykernel" in sys.modules)):
        return None
    try:
        from tqdm.auto import tqdm
    except ImportError:
        if wanted:
            _c.need("tqdm", "progress=True")
        return None
    bars: List[Any] = []

    def tell(done: int, total: int) -> None:
        if not bars:
            bars.append(tqdm(total=total, unit="cell", desc="sigma"))
        bars[0].update(done - bars[0].n)
        if done >= total:
            bars[0].close()

    return tell


def _model(model: Any, part: str, seed: int) -> Model:
    return model if isinstance(model, Model) else Model(model, part=part, seed=seed)


def measure(model: Any, tokenizer: Any = None, text: Union[str, bytes, None] = None, *, ids: Any = None, pixels: Any = None,
            lengths: Optional[Sequence[int]] = None, windows: Union[int, Sequence[int], None] = None,
            layers: Union[int, Sequence[int], None] = None, heads: Union[str, Sequence[int], None] = None,
            map: str = "attention", mask: Optional[str] = None, dtype: str = "float32", method: str = "lanczos",
            tol: Optional[float] = None, max_products: Optional[int] = None, k: Optional[int] = None, upper: bool = False,
            certify: Optional[float] = None, details: bool = False, sink: bool = False, as_released: bool = False,
            special: bool = False, stride: Optional[int] = None, tiled: bool = False, seed: int = 1, threads: int = 0,
            part: str = "whole", run: Union[str, "os.PathLike[str]", None] = None, shard: Optional[Tuple[int, int]] = None,
            progress: Optional[bool] = None) -> Result:
    """sigma of every layer of a model on windows of a text.

    model: a transformers object in memory, a `Model`, a folder, a file, a name, "random:gpt2", "builtin:gpt2-nano".
    tokenizer: a transformers or tokenizers object, or a folder or file; default: the model's own, where it has files.
    text: the text itself, or "builtin:lighthouse"; or ids, or the pixels (channels, height, width) of an image.

    lengths: tokens of a window (default 16, 32, 64, 128, as far as they fit); windows: how many of each length, or their
    numbers (default 10); layers: which (default all); heads: "each" or their numbers (default: all together).  run: a run
    file that is made, or continued where it stopped; Ctrl-C keeps what is finished.  The other arguments are those of
    `lipscope measure`.

    >>> import lipscope as ls
    >>> r = ls.measure("builtin:gpt2-nano", text="builtin:lighthouse", lengths=[8, 16], windows=2, layers=[0, 3])
    >>> len(r), r.worst()["layer"]
    (8, 3)
    """
    opened = _model(model, part, seed)
    source = Source(tokenizer, text, ids, pixels, special, stride, tiled)
    settings = ffi.new("lipsc_study_settings *")
    lib.lipsc_study_defaults(settings)
    kept: List[Any] = [source.kept]
    settings.model = _string(opened.name, kept)
    settings.source = source.options[0]
    for name, value in (("lengths", lengths), ("layers", layers)):
        if value is not None:
            size = getattr(settings, name)
            size.count, size.at = _sizes(value, name, kept)
    if isinstance(windows, int):
        settings.window_count = whole(windows, "windows")
    elif windows is not None:
        settings.windows.count, settings.windows.at = _sizes(windows, "windows", kept)
    if heads == "each":
        settings.each_head = 1
    elif heads is not None:
        settings.heads.count, settings.heads.at = _sizes(heads, "heads", kept)
    if mask is not None:
        kept.append(ffi.new("lipsc_mask *", choose(mask, MASKS, "mask")))
        settings.mask_override = kept[-1]
    if shard is not None:
        settings.shard, settings.shards = whole(shard[0], "shard"), whole(shard[1], "shards")
    _c.fill(settings, {
        "map": choose(map, MAPS, "map"), "dtype": choose(str(dtype).replace("torch.", ""), DTYPES, "dtype"),
        "method": choose(method, METHODS, "method"), "tol": tol, "max_products": max_products, "count": k,
        "upper": int(upper), "certify": certify, "details": int(details), "sink": int(sink),
        "as_released": int(as_released), "seed": whole(seed, "seed", 0)})
    return _study(opened, source, settings, kept, run, threads, progress, mask)


def _string(value: str, kept: List[Any]) -> Any:
    kept.append(ffi.new("char[]", value.encode()))
    return kept[-1]


def _study(model: Model, source: Source, settings: Any, kept: List[Any], run: Any, threads: int,
           progress: Optional[bool], mask: Optional[str]) -> Result:
    folder = None
    if run is None:
        folder = tempfile.mkdtemp(prefix="lipscope-")
        run = os.path.join(folder, "run.db")
    settings.run_file = _string(os.fspath(run), kept)
    bar = _bar(progress)
    with model._handle.use() as opened, _c.Work(progress=bar) as work:
        settings.open, settings.ctx = opened, work.handle
        settings.stop, settings.remark = lib.lipsc_py_stop, lib.lipsc_py_remark
        if bar:
            settings.progress = lib.lipsc_py_study_progress
        device = _c.set_threads(settings, whole(threads, "threads", 0))
        out = ffi.new("lipsc_study **")
        try:
            _c.call(lib.lipsc_study_open, settings, out)
            study = ffi.gc(out[0], lib.lipsc_study_close)
            status, sentence = _c.attempt(lib.lipsc_study_run, study)
            ffi.release(study)
            del device  # only now
        except BaseException:
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
            raise
    if status == lib.LIPSC_OK or status == lib.LIPSC_E_NOCONV:
        result = Result(run, remarks=tuple(work.remarks), again=_Again(model, source, mask))
        if folder:
            weakref.finalize(result, shutil.rmtree, folder, ignore_errors=True)
        return result
    if folder:
        shutil.rmtree(folder, ignore_errors=True)
    raise _c.failure(status, sentence)


class _Again:
    """Model and ids of a row's window, for `Row.tokens` and `Row.jacobian`."""

    def __init__(self, model: Model, source: Source, mask: Optional[str]):
        self.model, self.source, self.mask = model, source, mask

    def ids(self, row: Row) -> List[int]:
        found = ffi.new("lipsc_source *")
        with self.model._handle.use() as model:
            _c.call(lib.lipsc_source_read, self.source.options, self.model.name.encode(), lib.lipsc_model_describe(model),
                    found)
        try:
            n, start = row["n"], row["start"]
            if not found.ids:
                raise errors.Refused("an image has no tokens of a text")
            return [lib.lipsc_window_id(found, start, n, i) for i in range(n)]
        finally:
            lib.lipsc_source_free(found)

    def words(self, ids: List[int]) -> List[str]:
        path = ffi.string(self.source.options.tokenizer).decode() if self.source.options.tokenizer else self.model.name
        tokenizer = Tokenizer(path)
        return [tokenizer.decode([i]) for i in ids]


def assert_sigma(model: Any, tokenizer: Any = None, text: Union[str, bytes, None] = None, *, below: float,
                 certify: Optional[float] = None, **options: Any) -> Result:
    """For tests: AssertionError where sigma of some layer at some window is not below the limit; with certify it has to be
    proved.  Arguments as of `measure`; returns what it gives.

    >>> import lipscope as ls
    >>> _ = ls.assert_sigma("builtin:gpt2-nano", text="builtin:lighthouse", lengths=[16], windows=1, below=20)
    """
    result = measure(model, tokenizer, text, certify=certify, **options)
    for row in result.rows:
        value = row["upper"] if certify is not None else row["sigma"]
        if value is None or not value < below:
            what = "is not proved to be" if certify is not None and not (row["sigma"] >= below) else "is not"
            raise AssertionError(f"sigma of layer {row['layer']} at window {row['window']} of {row['n']} tokens is "
                                 f"{row['sigma']:.6g}: it {what} below {below:g}")
        if row["converged"] is False:
            raise AssertionError(f"sigma of layer {row['layer']} at window {row['window']} of {row['n']} tokens did not "
                                 f"converge: it is at least {row['sigma']:.6g}, and nothing is known from above")
    return result
