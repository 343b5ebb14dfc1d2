"""Sigma of every layer of a model on the windows of a text: what `lipscope measure` does."""
from __future__ import annotations

import os
import shutil
import sys
import tempfile
import weakref
from contextlib import contextmanager
from typing import Any, Iterator, List, Optional, Sequence, Tuple, Union

from . import _c, machines, errors
from ._c import ffi, lib
from .arrays import choose, flag, numbers, path_of, pointer, whole, wholes
from .layers import MASKS, precision
from .models import MAPS, Model, Tokenizer, model_of, token_ids
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
        self.options.special, self.options.tiled = flag(special, "special"), flag(tiled, "tiled")
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


    @contextmanager
    def read(self, model: Model) -> Iterator[Any]:
        """A lipsc_source: what was read, as the model's tokens."""
        found = ffi.new("lipsc_source *")
        with model._handle.use() as opened:
            _c.call(lib.lipsc_source_read, self.options, path_of(model.name), lib.lipsc_model_describe(opened), found)
        try:
            yield found
        finally:
            lib.lipsc_source_free(found)

    def ids(self, model: Model, start: int, n: int) -> List[int]:
        """The tokens of the window of length n that begins at `start`, special ones among them."""
        with self.read(model) as found:
            if not found.ids:
                raise errors.Refused("an image has no tokens of a text")
            if not lib.lipsc_window_fits(found, start, n):
                raise errors.ArgumentError(f"the text has no window of {n} tokens at token {start}: it has {found.count}")
            return [lib.lipsc_window_id(found, start, n, i) for i in range(n)]

    def window(self, model: Model, length: Optional[int], number: int = 0) -> List[int]:
        """The tokens of a window by its number; without a length 64, or all ids."""
        n = self.length(model, length)
        return self.ids(model, int(lib.lipsc_window_start(self.options, n, n, whole(number, "window", 0))), n)

    def length(self, model: Model, length: Optional[int]) -> int:
        """That of a window; without one 64, or all ids."""
        if length is not None:
            return whole(length, "length")
        with self.read(model) as found:
            whole_text = int(lib.lipsc_window_whole(found))
        return whole_text if self.options.id_list else min(64, whole_text)

    def words(self, model: Model, ids: Sequence[int]) -> List[str]:
        """Each token's text, or its number where there is no tokenizer."""
        path = ffi.string(self.options.tokenizer) if self.options.tokenizer else path_of(model.name)
        try:
            tokenizer = Tokenizer(os.fsdecode(path))
        except errors.LipscopeError:
            return [str(i) for i in ids]
        with tokenizer:
            return [tokenizer.decode([i]) for i in ids]


def _sizes(values: Any, name: str, kept: List[Any]) -> Tuple[int, Any]:
    """A lipsc_sizes: (count, at)."""
    listed = wholes(values, name)
    kept.append(ffi.new("size_t[]", listed))
    return len(listed), kept[-1]


class progress_bar:
    """A progress bar by tqdm, closed whatever happens; None: where it is installed and somebody looks."""

    def __init__(self, wanted: Optional[bool]):
        self.make: Any = None
        self.bar: Any = None
        if wanted or (wanted is None and (sys.stderr.isatty() or "ipykernel" in sys.modules)):
            try:
                self.make = _c.need("tqdm.auto", "progress=True").tqdm
            except errors.Missing:
                if wanted:
                    raise

    def __call__(self, done: int, total: int) -> None:
        if self.bar is None:
            self.bar = self.make(total=total, unit="cell", desc="sigma")
        self.bar.update(done - self.bar.n)

    def __enter__(self) -> Optional[progress_bar]:
        return self if self.make else None

    def __exit__(self, *_: Any) -> None:
        if self.bar is not None:
            self.bar.close()


def measure(model: Any, tokenizer: Any = None, text: Union[str, bytes, None] = None, *, ids: Any = None, pixels: Any = None,
            lengths: Optional[Sequence[int]] = None, windows: Union[int, Sequence[int], None] = None,
            layers: Union[int, Sequence[int], None] = None, heads: Union[str, Sequence[int], None] = None,
            map: str = "attention", mask: Optional[str] = None, dtype: Any = "float32", method: str = "lanczos",
            tol: Optional[float] = None, max_products: Optional[int] = None, k: Optional[int] = None, upper: bool = False,
            certify: Optional[float] = None, certify_seconds: Optional[float] = None, certify_memory: Optional[float] = None,
            probability: Optional[float] = None, details: bool = False, sink: bool = False, as_released: bool = False,
            special: bool = False, stride: Optional[int] = None, tiled: bool = False, seed: int = 1, threads: int = 0,
            device: Any = None, part: str = "whole", run: Union[str, "os.PathLike[str]", None] = None,
            label: Optional[str] = None, shard: Optional[Tuple[int, int]] = None,
            save_direction: Union[str, "os.PathLike[str]", None] = None, progress: Optional[bool] = None) -> Result:
    """sigma of every layer of a model on windows of a text.

    model: a transformers object in memory, a `Model`, a folder, a file, a name, "random:gpt2", "builtin:gpt2-nano".
    tokenizer: a transformers or tokenizers object, or a folder or file; default: the model's own, where it has files.
    text: the text itself, or "builtin:lighthouse"; or ids, or the pixels (channels, height, width) of an image.

    lengths: tokens of a window (default 16, 32, 64, 128, as far as they fit); windows: how many of each length, or their
    numbers (default 10); layers: which (default all); heads: "each" or their numbers (default: all together).  run: a run
    file that is made, or continued where it stopped; Ctrl-C keeps what is finished.  device: "cuda", or a `Device`.
    label: what it is called on pages and by the command line.  certify: prove an upper bound within this factor less one,
    where that takes at most certify_seconds (300) and certify_memory GiB (2).  The other arguments are those of `lipscope measure`.

    >>> import lipscope as ls
    >>> r = ls.measure("builtin:gpt2-nano", text="builtin:lighthouse", lengths=[8, 16], windows=2, layers=[0, 3])
    >>> len(r), r.worst()["layer"]
    (8, 3)
    """
    opened = model_of(model, part, seed)
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
    if isinstance(heads, str) and heads == "each":
        settings.each_head = 1
    elif heads is not None:
        settings.heads.count, settings.heads.at = _sizes(heads, "heads", kept)
    if mask is not None:
        kept.append(ffi.new("lipsc_mask *", choose(mask, MASKS, "mask")))
        settings.mask_override = kept[-1]
    if shard is not None:
        which = wholes(shard, "shard", 1)
        if len(which) != 2:
            raise errors.ArgumentError(f"shard = {shard!r}: (which, of how many) is needed, for instance (1, 4)")
        settings.shard, settings.shards = which
    _c.fill(settings, {
        "map": choose(map, MAPS, "map"), "dtype": precision(dtype),
        "method": choose(method, METHODS, "method"), "tol": tol, "max_products": max_products, "count": k,
        "certify_seconds": certify_seconds, "certify_memory": certify_memory, "probability": probability,
        "upper": flag(upper, "upper"), "certify": certify, "details": flag(details, "details"), "sink": flag(sink, "sink"),
        "as_released": flag(as_released, "as_released"), "seed": whole(seed, "seed", 0)})
    if label is not None:
        settings.command_line = _string(_labelled(opened.name, label), kept)
    if save_direction is not None:
        settings.save_direction = _string(path_of(save_direction, "save_direction"), kept)
    return _study(opened, source, settings, kept, run, opened.on(device, threads), progress, mask)


def _labelled(name: str, label: Any) -> str:
    """The command line that a run file tells people, where pages look for labels."""
    if not isinstance(label, str) or not label or set(label) & set("'\n\0"):
        raise errors.ArgumentError(f"label = {label!r}: one line without a quote is needed")
    return f"lipscope.measure {name} --label '{label}'"


def _string(value: Union[str, bytes], kept: List[Any]) -> Any:
    kept.append(ffi.new("char[]", value.encode() if isinstance(value, str) else value))
    return kept[-1]


def _scratch() -> str:
    """A folder for a run that nobody named: in memory where the system has such a place, for every cell is made safe."""
    memory = "/dev/shm"
    return tempfile.mkdtemp(prefix="lipscope-", dir=memory if os.access(memory, os.W_OK) else None)


def _study(model: Model, source: Source, settings: Any, kept: List[Any], run: Any, device: Optional[machines.Device],
           progress: Optional[bool], mask: Optional[str]) -> Result:
    """Runs a study; a run that nobody named lives as long as its Result.  An interrupt keeps what is finished: in the run
    file, and as `result` of the exception."""
    folder = _scratch() if run is None else None
    path = os.path.join(folder, "run.db") if folder else run
    settings.run_file = _string(path_of(path, "run"), kept)

    def result(work: _c.Work) -> Result:
        found = Result(path, remarks=tuple(work.remarks), again=_Again(model, source, mask))
        if folder:
            weakref.finalize(found, shutil.rmtree, folder, ignore_errors=True)
        return found

    with machines.pointer(device) as there, progress_bar(progress) as bar:
        work = _c.Work(progress=bar)
        try:
            with model._handle.use() as opened, work:
                status, sentence = _run(settings, opened, there, work)
            if status in (lib.LIPSC_OK, lib.LIPSC_E_NOCONV):
                return result(work)
            raise _c.failure(status, sentence)
        except KeyboardInterrupt as stopped:
            if os.path.exists(path):
                stopped.result = result(work)  # type: ignore[attr-defined]
            raise
        except BaseException:
            if folder:
                shutil.rmtree(folder, ignore_errors=True)
            raise


def _run(settings: Any, model: Any, device: Any, work: _c.Work) -> Tuple[int, str]:
    settings.open, settings.ctx, settings.device = model, work.handle, device
    settings.stop, settings.remark = lib.lipsc_py_stop, lib.lipsc_py_remark
    if work.progress:
        settings.progress = lib.lipsc_py_study_progress
    out = ffi.new("lipsc_study **")
    _c.call(lib.lipsc_study_open, settings, out)
    study = ffi.gc(out[0], lib.lipsc_study_close)
    try:
        status, sentence = _c.attempt(lib.lipsc_study_run, study)
    finally:
        ffi.release(study)
    return int(status), str(sentence)


class _Again:
    """Model and source of a row's window, for `Row.tokens` and `Row.jacobian`."""

    def __init__(self, model: Model, source: Source, mask: Optional[str]):
        self.model, self.source, self.mask = model, source, mask

    def ids(self, row: Row) -> List[int]:
        return self.source.ids(self.model, row["start"], row["n"])

    def words(self, ids: List[int]) -> List[str]:
        return self.source.words(self.model, ids)


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
