"""Rows of results as tables: in a terminal, in a notebook, in pandas."""
from __future__ import annotations

import html
from typing import Any, Collection, Dict, Iterator, List, Optional, Sequence

from . import _c, errors


def cell(value: Any) -> str:
    """A value in a table for people."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def as_text(head: Sequence[str], lines: Sequence[Sequence[str]], left: Collection[str] = ()) -> List[str]:
    """Aligned lines under one header; the columns `left` begin at the left."""
    widths = [max(len(line[i]) for line in [head, *lines]) for i in range(len(head))]
    return ["  ".join(word.ljust(width) if name in left else word.rjust(width)
                      for word, width, name in zip(line, widths, head)).rstrip() for line in [head, *lines]]


def as_html(title: Sequence[str], head: Sequence[str], lines: Sequence[Sequence[str]], notes: Sequence[str] = (),
            shades: Optional[Sequence[Sequence[float]]] = None) -> str:
    """The same for notebooks; shades: 0 to 1 for each cell."""

    def one(word: str, shade: float) -> str:
        style = f" style='background:rgba(214,96,40,{0.75 * shade:.2f})'" if shade > 0 else ""
        return f"<td{style}>{html.escape(word)}</td>"

    body = "".join("<tr>" + "".join(one(word, shades[i][j] if shades else 0.0) for j, word in enumerate(line)) + "</tr>"
                   for i, line in enumerate(lines))
    say = ["".join(f"<p>{html.escape(sentence)}</p>" for sentence in sentences if sentence) for sentences in (title, notes)]
    return (say[0] + "<table><thead><tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in head)
            + f"</tr></thead><tbody>{body}</tbody></table>" + say[1])


class Table:
    """Rows as dictionaries, shown as a table: `rows`, `to_pandas`, and what a list can."""

    rows: List[Dict[str, Any]]
    _shown: Sequence[str] = ()  # columns for people
    _left: Collection[str] = ("name",)  # of these, words

    def _title(self) -> List[str]:
        """Sentences above the table."""
        return []

    def _lines(self) -> List[List[str]]:
        return [[cell(row.get(name)) for name in self._shown] for row in self.rows]

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
        return "\n".join(self._title() + as_text(self._shown, self._lines(), self._left))

    def _repr_html_(self) -> str:
        return as_html(self._title(), self._shown, self._lines())
