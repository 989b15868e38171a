"""Which rows of a large table the browser gets: those that contain some words, in the order of a column, the first so
many. The kernel looks through all of them, because the page has only what it was sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from heapq import nlargest, nsmallest
from typing import Any

from cepbook.widgets.encode import containing

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Choice:
    """What the reader of a table asked for: words in lower case, and the column that orders it (None: as it is)."""

    words: tuple[str, ...] = ()
    by: str | None = None
    down: bool = False

    @classmethod
    def of(cls, content: Mapping[str, object]) -> Choice:
        """That of a message of the browser, whatever it holds."""
        written, by = content.get("filter"), content.get("by")
        words = tuple(written.lower().split()) if isinstance(written, str) else ()
        return cls(words, by if isinstance(by, str) else None, content.get("down") is True)

    def __bool__(self) -> bool:
        return bool(self.words) or self.by is not None

    def found(self, rows: Sequence[Row], columns: Sequence[str]) -> Sequence[Row]:
        """The rows that contain all words."""
        return containing(rows, columns, self.words) if self.words else rows

    def first(self, rows: Sequence[Row], most: int) -> Sequence[Row]:
        """The first `most` of `rows` in the order that was asked for; null comes last both ways."""
        by = self.by
        if by is None:
            return rows[:most]
        values = [row.get(by) for row in rows]
        places = [place for place, value in enumerate(values) if value is not None]
        key: Callable[[int], Any] = values.__getitem__ if _alike(values) else lambda place: _rank(values[place])
        best = (nlargest if self.down else nsmallest)(most, places, key=key)
        if len(best) < most:
            best += [place for place, value in enumerate(values) if value is None][: most - len(best)]
        return [rows[place] for place in best]


def _alike(values: Sequence[object]) -> bool:
    """Whether those that are not null have an order of their own, which `_rank` only repeats."""
    kinds = set(map(type, values)) - {type(None)}
    return kinds == {str} or (kinds <= {int, float, bool} and all(value == value for value in values))


def _rank(value: object) -> tuple[int, object]:
    """Numbers before texts before all else, so that any two values have an order."""
    if isinstance(value, int | float):
        return (0, value) if value == value else (1, 0)
    return (2, value) if isinstance(value, str) else (3, str(value))
