"""Pictures of a result, by matplotlib."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from . import _c, errors
from .tables import plain

Medians = Dict[Tuple[Any, Any], Dict[int, float]]  # (layer, head) -> length -> median sigma
MANY = 12  # lines that a legend still tells apart

# One look with the page of `report`: data/report/theme.js and page.css, light.
RUNS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b58900", "#56b4e9", "#6a51a3", "#444444")  # after Okabe and Ito
RAMP = (0.02, 0.86)  # the part of viridis that ordered things walk along
INK, SOFT, LINE = "#1a1f29", "#5d6675", "#dfe3e9"
FONTS = ("Segoe UI", "Roboto", "Helvetica Neue", "Noto Sans", "Liberation Sans", "Arial")
TITLE, LABEL = 12 * 0.75, 11 * 0.75  # of axes and of ticks: pixels of the page, in points


def _axes(ax: Any, what: str) -> Any:
    return ax if ax is not None else _c.need("matplotlib.pyplot", what).subplots(figsize=(7, 4), layout="constrained")[1]


def _ramp(what: str) -> Any:
    """viridis without the end that falls together with the paper."""
    whole = _c.need("matplotlib", what).colormaps["viridis"]
    steps = 256
    return _c.need("matplotlib.colors", what).ListedColormap(
        [whole(RAMP[0] + (RAMP[1] - RAMP[0]) * i / (steps - 1)) for i in range(steps)])


def _write(texts: Sequence[Any]) -> None:
    """In the first of the page's fonts that is installed."""
    installed = set(_c.need("matplotlib.font_manager", "plot").get_font_names())
    family = next((font for font in FONTS if font in installed), None)
    for text in texts if family else ():
        text.set_family(family)


def _dress(ax: Any) -> None:
    """Inks and sizes of the page."""
    ax.tick_params(which="both", color=LINE, labelcolor=SOFT, labelsize=LABEL)
    titles = [ax.xaxis.label, ax.yaxis.label, ax.title]
    for text in titles:
        text.set(color=INK, size=TITLE)
    _write([*titles, *ax.get_xticklabels(), *ax.get_yticklabels()])
    ax.spines[["left", "bottom"]].set_color(LINE)
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(axis="y", color=LINE, alpha=0.6)


def _finish(ax: Any, title: str, xlabel: str) -> None:
    """Numbers on the axis of sigma that can be read: 0.5, 1, 2, 5."""
    ticker = _c.need("matplotlib.ticker", "plot")
    ax.set(yscale="log", xlabel=xlabel, ylabel="sigma, median over windows")
    ax.set_title(plain(title).replace("$", r"\$"))
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(ticker.MaxNLocator(5) if high < 8 * low else
                               ticker.LogLocator(subs=(1.0, 2.0, 5.0) if high < 300 * low else (1.0,)))
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())
    _dress(ax)


def _key(ax: Any, names: Sequence[Any], label: str, colours: Any) -> None:
    """What the colours mean: beside the picture, as a list or, for many, as a bar."""
    if len(names) <= MANY:
        _write(ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize=LABEL, labelcolor=INK).texts)
        return
    colors, cm = _c.need("matplotlib.colors", "plot"), _c.need("matplotlib.cm", "plot")
    scale = cm.ScalarMappable(colors.Normalize(min(names), max(names)), colours)
    ax.figure.colorbar(scale, ax=ax, label=label)


def by_length(medians: Medians, title: str, ax: Any) -> Any:
    """A line for each layer, or for each head in the colour of its layer."""
    ax, colours = _axes(ax, "plot"), _ramp("plot")
    layers = sorted({layer for layer, _ in medians if layer is not None})
    alone, named = RUNS[len(ax.lines) % len(RUNS)], set()  # one layer: the colour of a run
    for (layer, head), by in medians.items():
        lengths = sorted(by)
        name = "model" if layer is None else f"layer {layer}"
        colour = alone if layer is None or len(layers) < 2 else colours(layers.index(layer) / (len(layers) - 1))
        ax.plot(lengths, [by[n] for n in lengths], marker="o", markersize=3, color=colour,
                linewidth=1.5 if head is None else 0.8, label=None if name in named else name)
        named.add(name)
    lengths = sorted({n for by in medians.values() for n in by})
    ax.set_xscale("log")
    ax.set_xticks(_apart(lengths), [str(n) for n in _apart(lengths)])
    ax.minorticks_off()
    _finish(ax, title, "n, tokens")
    _key(ax, layers, "layer", colours)
    return ax


def _apart(lengths: List[int]) -> List[int]:
    """Those whose numbers do not touch on a logarithmic axis."""
    kept: List[int] = []
    for n in lengths:
        if not kept or (n / kept[-1]) ** 12 >= lengths[-1] / lengths[0]:
            kept.append(n)
    return kept


def by_layer(medians: Medians, title: str, ax: Any) -> Any:
    """A line for each length; heads that were measured alone are points."""
    layers = sorted({layer for layer, _ in medians if layer is not None})
    if not layers:
        raise errors.ArgumentError("there is nothing by layer to plot: " + ("the map is the whole model" if medians else "no rows yet"))
    ax, colours = _axes(ax, "plot_layers"), _ramp("plot_layers")
    lengths = sorted({n for by in medians.values() for n in by})
    for i, n in enumerate(lengths):
        colour = RUNS[0] if len(lengths) < 2 else colours(i / (len(lengths) - 1))
        name = f"n = {n}"
        whole = [(layer, by[n]) for (layer, head), by in sorted(medians.items(), key=str) if head is None and n in by]
        heads = [(layer, by[n]) for (layer, head), by in medians.items() if head is not None and n in by]
        if whole:
            ax.plot(*zip(*sorted(whole)), marker="o", markersize=3, color=colour, label=name)
        if heads:
            ax.plot(*zip(*heads), linestyle="none", marker="o", markersize=3, alpha=0.6, color=colour,
                    label=None if whole else f"{name}, each head")
    ax.xaxis.set_major_locator(_c.need("matplotlib.ticker", "plot_layers").MaxNLocator(integer=True))
    if len(layers) == 1:
        ax.set_xlim(layers[0] - 1, layers[0] + 1)
    _finish(ax, title, "layer")
    _key(ax, lengths, "n, tokens", colours)
    return ax
