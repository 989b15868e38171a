"""Filter and sort a large table for the browser: rows that contain some words, ordered by a column, up to a maximum.

The kernel searches all rows, because the page has only those that were sent. It works on columns, and makes a row only
if it is visible.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from cepbook.display import DATE_THRESHOLD_MS, format_time

Row = Mapping[str, object]

_NUMBER_CHARACTERS = frozenset("0123456789.+-einfa")  # in texts of numbers: 1.5, 1e-05, nan, inf
_MAX_DATE_MS = 253_402_300_800_000  # ms since 1970 of the end of the year 9999, behind which a time is no date
_NONE = type(None)
_SAMPLE = 500  # values by which a column is judged
_STRIDE = 16  # of so many values one is asked where the first ones end


class RowSheet(Protocol):
    """The rows of a large table, which are made only when they are read."""

    @property
    def names(self) -> Sequence[str]:
        """The columns in order."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> Sequence[object]:
        """Return the values of a column by row; null where a row lacks it."""

    def rows(self, places: Iterable[int]) -> Sequence[Row]:
        """Return the rows at these places; they belong to the caller."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """The reader's request: words in lower case, and the column that orders the table (None: unordered)."""

    words: tuple[str, ...] = ()
    by: str | None = None
    down: bool = False

    @classmethod
    def of(cls, content: Mapping[str, object]) -> RowFilter:
        """Return the request in a message of the browser, whatever the message holds."""
        written, by = content.get("filter"), content.get("by")
        words = tuple(written.lower().split()) if isinstance(written, str) else ()
        return cls(words, by if isinstance(by, str) else None, content.get("down") is True)

    def __bool__(self) -> bool:
        return bool(self.words) or self.by is not None

    def found(self, sheet: RowSheet, columns: Iterable[str], timed: Collection[str] = ()) -> Sequence[int]:
        """Return the places of the rows that contain all words, each in one of these columns.

        Columns in `timed` hold times in ms, which are searched as they are displayed.
        """
        places: Sequence[int] = range(len(sheet))
        if not self.words:
            return places
        values = [_time_texts(sheet.column(name)) if name in timed else sheet.column(name) for name in columns]
        kinds = [set(map(type, values_of_column)) - {_NONE} for values_of_column in values]
        for word in self.words:
            hits = [_places_containing(word, *hit, places) for hit in zip(values, kinds, strict=True)]
            hits = [hit for hit in hits if hit]
            if len(hits) < 2:  # in order as they are
                places = hits[0] if hits else ()
            else:
                union_ = set().union(*hits)
                places = [place for place in places if place in union_]
        return places

    def first(self, sheet: RowSheet, places: Sequence[int], most: int) -> Sequence[int]:
        """Return the first `most` of `places` in the requested order; null comes last in both directions."""
        if self.by is None:
            return places[:most]
        return first_places(sheet.column(self.by), places, most, down=self.down)


def _time_texts(times: Sequence[object]) -> Sequence[object]:
    """Return times in ms as texts; other values stay. Dates, of which there are many, are formatted all at once."""
    known = [time for time in set(times) if type(time) is int]
    dated = [time for time in known if DATE_THRESHOLD_MS <= time < _MAX_DATE_MS]
    texts = {time: format_time(time) for time in known if not DATE_THRESHOLD_MS <= time < _MAX_DATE_MS}
    texts |= _date_texts([time for time in dated if time % 1000 == 0], "s")
    texts |= _date_texts([time for time in dated if time % 1000], "ms")
    return [texts.get(time, time) for time in times]  # type: ignore[call-overload]


def _date_texts(times: Sequence[int], unit: Literal["s", "ms"]) -> dict[int, str]:
    texts = np.datetime_as_string(np.array(times, "datetime64[ms]"), unit=unit).tolist()
    return {time: text.replace("T", " ") for time, text in zip(times, texts, strict=True)}


def first_places(values: Sequence[Any], places: Sequence[int], most: int, *, down: bool) -> list[int]:
    """Return the first `most` of `places` by their values; equal values keep their order.

    The order is numbers, NaN, texts, all else as text, or the reverse if `down`; null is always last.
    """
    places_found: list[int] = []
    groups = _value_groups(values, places)
    for group, key in reversed(groups) if down else groups:
        if len(places_found) < most and group:
            places_found += _first_sorted(group, key, most - len(places_found), down)
    if len(places_found) < most:
        places_found += [place for place in places if values[place] is None][: most - len(places_found)]
    return places_found


ValueGroup = tuple[Sequence[int], Callable[[int], Any]]


def _value_groups(values: Sequence[Any], places: Sequence[int]) -> list[ValueGroup]:
    """Return places of values that have an order of their own, with its key; null has none."""
    kinds = set(map(type, values))
    there = [place for place in places if values[place] is not None] if _NONE in kinds else places
    kinds.discard(_NONE)
    if kinds == {str} or kinds <= {int, bool} or (kinds == {float} and not _has_nan(values)):
        return [(there, values.__getitem__)]
    numbers, nans, texts, others = [], [], [], []  # type: ignore[var-annotated]
    for place in there:
        value = values[place]
        if isinstance(value, int | float):
            (numbers if value == value else nans).append(place)
        else:
            (texts if isinstance(value, str) else others).append(place)
    value_at = values.__getitem__
    return [(numbers, value_at), (nans, lambda _: 0), (texts, value_at), (others, lambda place: str(values[place]))]


def _has_nan(values: Sequence[Any]) -> bool:
    """Return whether floats and nulls contain NaN."""
    try:
        total = sum(values)  # a fifth of the time
    except TypeError:  # null among them
        return any(value != value for value in values)
    return total != total and any(value != value for value in values)


def _first_sorted(places: Sequence[int], key: Callable[[int], Any], most: int, down: bool) -> list[int]:
    """Return the first `most` by `key`. Of many, only those are sorted that one in `_STRIDE` does not rule out."""
    if len(places) > max(_SAMPLE, 4 * _STRIDE * most):
        few = sorted(map(key, places[::_STRIDE]), reverse=down)
        bound = few[most - 1]
        places = [place for place in places if key(place) >= bound] if down else [e for e in places if key(e) <= bound]
    return sorted(places, key=key, reverse=down)[:most]


def _places_containing(word: str, values: Sequence[Any], kinds: set[type], places: Sequence[int]) -> Sequence[int]:
    """Return those of `places` whose value contains a word. Formatting all numbers of a window would take longest by
    far.
    """
    if not _NUMBER_CHARACTERS.issuperset(word) and kinds <= {int, float}:
        return ()
    if len(kinds) == 1 and not kinds.isdisjoint((str, int, float, bool)):
        try:
            few = 4 * len(set(values[:_SAMPLE])) < len(values[:_SAMPLE])
        except TypeError:
            few = False
        if few:  # zero, which has two signs, is written down each time
            hits = {value for value in set(values) if value and word in str(value).lower()}
            return [p for p in places if values[p] in hits or (not values[p] and _contains(values[p], word))]
    if kinds == {str}:
        if len(values) == len(places):
            return [p for p, value in enumerate(values) if value is not None and word in value.lower()]
        return [p for p in places if values[p] is not None and word in values[p].lower()]
    numeric = _NUMBER_CHARACTERS.issuperset(word)
    skipped = () if numeric else (int, float)
    return [p for p in places if type(values[p]) not in skipped and _contains(values[p], word)]


def _contains(value: object, word: str) -> bool:
    return value is not None and word in str(value).lower()
