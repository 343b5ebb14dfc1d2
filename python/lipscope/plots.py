"""Pictures of a result, by matplotlib."""
from __future__ import annotations

from typing import Any, Dict, List, Sequence, Tuple

from . import _c, errors
from .tables import plain

Medians = Dict[Tuple[Any, Any], Dict[int, float]]  # (layer, head) -> length -> median sigma
MANY = 12  # lines that a legend still tells apart


def _axes(ax: Any, what: str) -> Any:
    return ax if ax is not None else _c.need("matplotlib.pyplot", what).subplots(figsize=(7, 4), layout="constrained")[1]


def _finish(ax: Any, title: str, xlabel: str) -> None:
    """Numbers on the axis of sigma that can be read: 0.5, 1, 2, 5."""
    ticker = _c.need("matplotlib.ticker", "plot")
    ax.set(yscale="log", xlabel=xlabel, ylabel="sigma, median over windows")
    ax.set_title(plain(title).replace("$", r"\$"), fontsize="medium")
    low, high = ax.get_ylim()
    ax.yaxis.set_major_locator(ticker.MaxNLocator(5) if high < 8 * low else
                               ticker.LogLocator(subs=(1.0, 2.0, 5.0) if high < 300 * low else (1.0,)))
    ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:g}"))
    ax.yaxis.set_minor_formatter(ticker.NullFormatter())
    ax.grid(axis="y", alpha=0.25)
    ax.spines[["top", "right"]].set_visible(False)


def _key(ax: Any, names: Sequence[Any], label: str, colours: Any) -> None:
    """What the colours mean: beside the picture, as a list or, for many, as a bar."""
    if len(names) <= MANY:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, fontsize="small")
        return
    colors, cm = _c.need("matplotlib.colors", "plot"), _c.need("matplotlib.cm", "plot")
    scale = cm.ScalarMappable(colors.Normalize(min(names), max(names)), colours)
    ax.figure.colorbar(scale, ax=ax, label=label)


def by_length(medians: Medians, title: str, ax: Any) -> Any:
    """A line for each layer, or for each head in the colour of its layer."""
    ax, colours = _axes(ax, "plot"), _c.need("matplotlib", "plot").colormaps["viridis"]
    layers = sorted({layer for layer, _ in medians if layer is not None})
    named = set()
    for (layer, head), by in medians.items():
        lengths = sorted(by)
        name = "model" if layer is None else f"layer {layer}"
        place = 0.0 if layer is None else layers.index(layer) / max(1, len(layers) - 1)
        ax.plot(lengths, [by[n] for n in lengths], marker="o", markersize=3, color=colours(0.92 * place),
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
    ax, colours = _axes(ax, "plot_layers"), _c.need("matplotlib", "plot_layers").colormaps["plasma"]
    lengths = sorted({n for by in medians.values() for n in by})
    for i, n in enumerate(lengths):
        colour, name = colours(0.85 * i / max(1, len(lengths) - 1)), f"n = {n}"
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
