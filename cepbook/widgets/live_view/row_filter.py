"""Which rows of a large table the browser gets: those that contain some words, in the order of a column, the first so
many. The kernel looks through all of them, because the page has only what it was sent; by columns, and no row is made
but of those that somebody sees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from cepbook.display import DATE_THRESHOLD_MS, format_time

Row = Mapping[str, object]

_OF_NUMBERS = frozenset("0123456789.+-einfa")  # in texts of numbers: 1.5, 1e-05, nan, inf
_LAST = 253_402_300_800_000  # ms since 1970 of the end of the year 9999, behind which a time is no date
_NONE = type(None)
_LOOKED_AT = 500  # values by which a column is judged
_EACH = 16  # of so many values one is asked where the first ones end


class RowSheet(Protocol):
    """The rows of a large table, which are made only where somebody looks."""

    @property
    def names(self) -> Sequence[str]:
        """The columns in order."""

    def __len__(self) -> int: ...

    def column(self, name: str) -> Sequence[object]:
        """The values of a column, row by row; null where a row lacks it."""

    def rows(self, places: Iterable[int]) -> Sequence[Row]:
        """The rows at these places; they belong to who gets them."""


@dataclass(frozen=True, slots=True)
class RowFilter:
    """What the reader of a table asked for: words in lower case, and the column that orders it (None: as it is)."""

    words: tuple[str, ...] = ()
    by: str | None = None
    down: bool = False

    @classmethod
    def of(cls, content: Mapping[str, object]) -> RowFilter:
        """That of a message of the browser, whatever it holds."""
        written, by = content.get("filter"), content.get("by")
        words = tuple(written.lower().split()) if isinstance(written, str) else ()
        return cls(words, by if isinstance(by, str) else None, content.get("down") is True)

    def __bool__(self) -> bool:
        return bool(self.words) or self.by is not None

    def found(self, sheet: RowSheet, columns: Iterable[str], timed: Collection[str] = ()) -> Sequence[int]:
        """The places of the rows that contain all words, each of them in one of these columns.

        Those of `timed` hold times in ms: people see, and look for, what `cepbook.display` makes of them.
        """
        places: Sequence[int] = range(len(sheet))
        if not self.words:
            return places
        values = [_written(sheet.column(name)) if name in timed else sheet.column(name) for name in columns]
        kinds = [set(map(type, each)) - {_NONE} for each in values]
        for word in self.words:
            hits = [_with(word, *each, places) for each in zip(values, kinds, strict=True)]
            hits = [each for each in hits if each]
            if len(hits) < 2:  # in order as they are
                places = hits[0] if hits else ()
            else:
                found = set().union(*hits)
                places = [place for place in places if place in found]
        return places

    def first(self, sheet: RowSheet, places: Sequence[int], most: int) -> Sequence[int]:
        """The first `most` of `places` in the order that was asked for; null comes last both ways."""
        if self.by is None:
            return places[:most]
        return first_places(sheet.column(self.by), places, most, down=self.down)


def _written(times: Sequence[object]) -> Sequence[object]:
    """Times in ms as texts; what is none stays as it is. Dates, of which there are many, are written all at once."""
    known = [each for each in set(times) if type(each) is int]
    dated = [each for each in known if DATE_THRESHOLD_MS <= each < _LAST]
    texts = {each: format_time(each) for each in known if not DATE_THRESHOLD_MS <= each < _LAST}
    texts |= _dates([each for each in dated if each % 1000 == 0], "s")
    texts |= _dates([each for each in dated if each % 1000], "ms")
    return [texts.get(each, each) for each in times]  # type: ignore[call-overload]


def _dates(times: Sequence[int], unit: Literal["s", "ms"]) -> dict[int, str]:
    found = np.datetime_as_string(np.array(times, "datetime64[ms]"), unit=unit).tolist()
    return {time: text.replace("T", " ") for time, text in zip(times, found, strict=True)}


def first_places(values: Sequence[Any], places: Sequence[int], most: int, *, down: bool) -> list[int]:
    """The `most` first of `places` by their values, of equal ones in their order: numbers, those that are none, texts,
    all else as text (the other way round for `down`), and null always last.
    """
    found: list[int] = []
    groups = _alike(values, places)
    for group, key in reversed(groups) if down else groups:
        if len(found) < most and group:
            found += _best(group, key, most - len(found), down)
    if len(found) < most:
        found += [place for place in places if values[place] is None][: most - len(found)]
    return found


ValueGroup = tuple[Sequence[int], Callable[[int], Any]]


def _alike(values: Sequence[Any], places: Sequence[int]) -> list[ValueGroup]:
    """Places of values that have an order of their own, with what it goes by; null has none."""
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
    own = values.__getitem__
    return [(numbers, own), (nans, lambda _: 0), (texts, own), (others, lambda place: str(values[place]))]


def _has_nan(values: Sequence[Any]) -> bool:
    """Of floats and null."""
    try:
        total = sum(values)  # a fifth of the time
    except TypeError:  # null among them
        return any(value != value for value in values)
    return total != total and any(value != value for value in values)


def _best(places: Sequence[int], key: Callable[[int], Any], most: int, down: bool) -> list[int]:
    """The first `most` by `key`. Of many only those are sorted that one in `_EACH` does not rule out."""
    if len(places) > max(_LOOKED_AT, 4 * _EACH * most):
        few = sorted(map(key, places[::_EACH]), reverse=down)
        bound = few[most - 1]
        places = [each for each in places if key(each) >= bound] if down else [e for e in places if key(e) <= bound]
    return sorted(places, key=key, reverse=down)[:most]


def _with(word: str, values: Sequence[Any], kinds: set[type], places: Sequence[int]) -> Sequence[int]:
    """Of `places` those whose value contains a word. To write down all numbers of a window takes longest by far."""
    if not _OF_NUMBERS.issuperset(word) and kinds <= {int, float}:
        return ()
    if len(kinds) == 1 and not kinds.isdisjoint((str, int, float, bool)):
        try:
            few = 4 * len(set(values[:_LOOKED_AT])) < len(values[:_LOOKED_AT])
        except TypeError:
            few = False
        if few:  # zero, which has two signs, is written down each time
            hits = {value for value in set(values) if value and word in str(value).lower()}
            return [p for p in places if values[p] in hits or (not values[p] and _contains(values[p], word))]
    if kinds == {str}:
        if len(values) == len(places):
            return [p for p, value in enumerate(values) if value is not None and word in value.lower()]
        return [p for p in places if values[p] is not None and word in values[p].lower()]
    numeric = _OF_NUMBERS.issuperset(word)
    skipped = () if numeric else (int, float)
    return [p for p in places if type(values[p]) not in skipped and _contains(values[p], word)]


def _contains(value: object, word: str) -> bool:
    return value is not None and word in str(value).lower()
