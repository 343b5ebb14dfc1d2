"""Rows of results as tables: in a terminal, in a notebook, in pandas."""
from __future__ import annotations

import decimal
import html
import shutil
import textwrap
from typing import Any, Collection, Dict, Iterator, List, Optional, Sequence

from . import _c, errors


def plain(words: str) -> str:
    """Without escapes for a terminal and marks that turn a line around: names of files and models are not ours."""
    return words if words.isprintable() else "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in words)


def cell(value: Any) -> str:
    """A value in a table for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _toward(value: float, rounding: str) -> str:
    with decimal.localcontext() as digits:
        digits.prec, digits.rounding = 4, rounding
        return f"{float(+decimal.Decimal(value)):.4g}"


def above(value: float) -> str:
    """The same of a bound from above, which rounding must not lower."""
    return _toward(value, decimal.ROUND_CEILING)


def below(value: float) -> str:
    """And of one from below, which rounding must not raise."""
    return _toward(value, decimal.ROUND_FLOOR)


def said(sentences: Sequence[str]) -> List[str]:
    """Sentences around a table, in lines of the terminal."""
    room = shutil.get_terminal_size().columns
    return [line for sentence in sentences for line in textwrap.wrap(plain(sentence), room, break_long_words=False)]


LINES = 60  # of a table that is shown; `rows` has all
SHORTEST = 12  # that words are cut to


def as_text(head: Sequence[str], lines: Sequence[Sequence[str]], left: Collection[str] = (),
            spare: Sequence[str] = ()) -> List[str]:
    """Aligned lines under one header; the columns `left` begin at the left.  What is wider than the terminal loses the
    columns `spare`, in this order, then the ends of its words."""
    room = shutil.get_terminal_size().columns
    lines = [[plain(word) for word in line] for line in lines]
    shown = list(head)
    for name in spare:
        if sum(_widths(head, lines, shown)) + 2 * len(shown) - 2 <= room:
            break
        shown.remove(name)
    widths = _widths(head, lines, shown)
    over = sum(widths) + 2 * len(shown) - 2 - room
    for i in sorted((i for i, name in enumerate(shown) if name in left), key=lambda i: -widths[i]):
        cut = max(0, min(over, widths[i] - SHORTEST))
        widths[i], over = widths[i] - cut, over - cut
    places = [list(head).index(name) for name in shown]
    text = ["  ".join(_fit(line[place], width, name in left) for place, width, name in zip(places, widths, shown)).rstrip()
            for line in [head, *_few(lines)]]
    if len(lines) > LINES:
        text.insert(1 + LINES // 2, "...")
        text.append(f"{len(lines)} lines in all")
    out = ", ".join(name for name in head if name not in shown)
    return text + (said([f"left out here: {out}"]) if out else [])


def _few(lines: Sequence[Any]) -> Sequence[Any]:
    """The first and the last of many."""
    return lines if len(lines) <= LINES else [*lines[:LINES // 2], *lines[-LINES // 2:]]


def _widths(head: Sequence[str], lines: Sequence[Sequence[str]], shown: Sequence[str]) -> List[int]:
    return [max(len(line[i]) for line in [head, *lines]) for i, name in enumerate(head) if name in shown]


def _fit(word: str, width: int, left: bool) -> str:
    if len(word) > width:
        word = word[:width - 3] + "..."
    return word.ljust(width) if left else word.rjust(width)


def as_html(title: Sequence[str], head: Sequence[str], lines: Sequence[Sequence[str]], notes: Sequence[str] = (),
            shades: Optional[Sequence[Sequence[float]]] = None) -> str:
    """The same for notebooks; shades: 0 to 1 for each cell."""

    def one(word: str, shade: float) -> str:
        style = f" style='background:rgba(214,96,40,{0.75 * shade:.2f})'" if shade > 0 else ""
        return f"<td{style}>{html.escape(plain(word))}</td>"

    numbered = _few(list(enumerate(lines)))
    if len(lines) > LINES:
        notes = [f"The first and the last of {len(lines)} lines.", *notes]
    body = "".join("<tr>" + "".join(one(word, shades[i][j] if shades else 0.0) for j, word in enumerate(line)) + "</tr>"
                   for i, line in numbered)
    say = ["".join(f"<p>{html.escape(plain(sentence))}</p>" for sentence in sentences if sentence) for sentences in (title, notes)]
    return (say[0] + "<table><thead><tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head)
            + f"</tr></thead><tbody>{body}</tbody></table>" + say[1])


class Table:
    """Rows as dictionaries, shown as a table: `rows`, `to_pandas`, and what a list can."""

    rows: List[Dict[str, Any]]
    _shown: Sequence[str] = ()  # columns for people
    _left: Collection[str] = ("name",)  # of these, words
    _spare: Sequence[str] = ()  # and those that a narrow terminal does without

    def _title(self) -> List[str]:
        """Sentences above the table."""
        return []

    def _lines(self) -> List[List[str]]:
        return [[above(row[name]) if name in ("upper", "upper_prob") and row[name] is not None else cell(row.get(name)) for name in self._shown]
                for row in self.rows]

    def to_pandas(self) -> Any:
        """The rows as a pandas DataFrame."""
        return _c.need("pandas", "to_pandas").DataFrame([dict(row) for row in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.rows)

    def __getitem__(self, which: Any) -> Any:
        try:
            return self.rows[which]
        except (IndexError, TypeError):
            raise errors.ArgumentError(f"there is no row {which!r}: there are {len(self.rows)}") from None

    def __repr__(self) -> str:
        return "\n".join(said(self._title()) + as_text(self._shown, self._lines(), self._left, self._spare))

    def _repr_html_(self) -> str:
        return as_html(self._title(), self._shown, self._lines())
