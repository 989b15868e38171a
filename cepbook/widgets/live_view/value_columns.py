"""Columns of values that are searched, compared and ordered in numpy, whatever the values are.

`value_column` chooses by the values, not by a declared type: numbers, texts (as codes, so that each different text is
looked at once), or anything else, value by value. Null is a value of every column. All values come back as they were.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from itertools import count
from typing import Any

import numpy as np

from cepbook.display import DATE_THRESHOLD_MS
from cepbook.errors import UsageError
from cepbook.widgets.live_view.column_texts import Array, TextMatrix, is_in_numbers, number_texts
from cepbook.widgets.live_view.time_texts import is_in_times, time_span, time_texts

COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_NONE = type(None)


class ValueColumn:
    """Values that never change; `null` is true where there is none."""

    timed = False

    def __init__(self, null: Array) -> None:
        self.null = null

    def __len__(self) -> int:
        return len(self.null)

    def values(self, places: Array | None = None) -> list[Any]:
        """Return the values at some places (None: all)."""
        raise NotImplementedError

    def without_first(self, count: int) -> ValueColumn:
        """Return the column without its first `count` values."""
        raise NotImplementedError

    def extended(self, values: Sequence[Any]) -> ValueColumn:
        """Return a column with more values behind these."""
        return value_column([*self.values(), *values], timed=self.timed)

    def containing(self, word: str) -> Array:
        """Return where a word in lower case is part of a value, as `str` writes it, or of a time as it is displayed."""
        raise NotImplementedError

    def compared(self, sign: str, text: str) -> Array:
        """Return where values compare with the value that a text means here. Raises UsageError if it means none."""
        raise NotImplementedError

    def between(self, first: str, last: str) -> Array:
        """Return where values are in a range with both its ends; an empty text is no end."""
        there = ~self.null
        there = there & self.compared(">=", first) if first else there
        return there & self.compared("<=", last) if last else there

    def like(self, text: str) -> Array:
        """Return where values are what a text alone means: it is part of them. Of numbers, it is the number."""
        return self.containing(text.lower())

    def order(self) -> Array:
        """Return numbers that order the values; NaN is behind all others, null anywhere."""
        raise NotImplementedError


def value_column(values: Sequence[Any], *, timed: bool = False, kind: type | None = None) -> ValueColumn:
    """Return the column of these values. Whole numbers of a `timed` column are times in ms.

    `kind` (int or float) is the type of all values that are not null, if it is known. Looking at the types of many
    values takes as long as reading them.
    """
    text = next((value for value in values if value is not None), None)
    texts = TextValues.of(values) if type(text) is str else None
    if texts is not None:
        return texts
    if kind is not None:
        numbers = _numbers_of(kind, values, timed)
        if numbers is not None:
            return numbers
    kinds = set(map(type, values))
    for number in (int, float, bool):
        if kinds - {_NONE} == {number}:
            try:
                return NumberValues(*_numbers(values, kinds), number, timed=timed)
            except OverflowError:  # a whole number of more than 64 bits
                break
    return ObjectValues(list(values))


def _numbers_of(kind: type, values: Sequence[Any], timed: bool) -> NumberValues | None:
    """Return numbers of one type and null as a column; None if one has more than 64 bits."""
    with_null: set[type] = {kind, _NONE}
    for kinds in (with_null,) if kind is float else ({kind}, with_null):
        try:
            return NumberValues(*_numbers(values, kinds), kind, timed=timed)
        except TypeError:  # null is no whole number
            continue
        except OverflowError:
            break
    return None


def _numbers(values: Sequence[Any], kinds: Collection[type]) -> tuple[Array, Array]:
    """Return numbers and None as an array, and where None is. `kinds` are the types of the values."""
    if _NONE in kinds and float in kinds:
        numbers = np.fromiter(values, np.float64, len(values))  # None becomes NaN
        null = np.isnan(numbers)
        null[null] = _null([values[place] for place in np.flatnonzero(null).tolist()], kinds)
        numbers[null] = 0
        return numbers, null
    there = [0 if value is None else value for value in values] if _NONE in kinds else values
    return np.fromiter(there, np.float64 if float in kinds else np.int64, len(values)), _null(values, kinds)


def _null(values: Sequence[Any], kinds: Collection[type]) -> Array:
    if _NONE not in kinds:
        return np.zeros(len(values), np.bool_)
    return np.fromiter((value is None for value in values), np.bool_, len(values))


class NumberValues(ValueColumn):
    """Numbers of one type `kind`: int (times, if `timed`), float or bool."""

    def __init__(self, numbers: Array, null: Array, kind: type, *, timed: bool = False) -> None:
        super().__init__(null)
        self._numbers = numbers
        self._kind = kind
        self.timed = timed and kind is int
        self._texts: TextMatrix | None = None

    def values(self, places: Array | None = None) -> list[Any]:
        numbers, null = (self._numbers, self.null) if places is None else (self._numbers[places], self.null[places])
        values: list[Any] = (numbers.astype(np.bool_) if self._kind is bool else numbers).tolist()
        for place in np.flatnonzero(null).tolist():
            values[place] = None
        return values

    def without_first(self, count: int) -> ValueColumn:
        return NumberValues(self._numbers[count:], self.null[count:], self._kind, timed=self.timed)

    def extended(self, values: Sequence[Any]) -> ValueColumn:
        kinds = set(map(type, values))
        if not kinds <= {self._kind, _NONE}:
            return super().extended(values)
        try:
            numbers, null = _numbers(values, {*kinds, self._kind})
        except OverflowError:
            return super().extended(values)
        null = np.concatenate([self.null, null])
        return NumberValues(np.concatenate([self._numbers, numbers]), null, self._kind, timed=self.timed)

    def containing(self, word: str) -> Array:
        if self._kind is bool:
            return np.array([word in "false", word in "true"])[self._numbers] & ~self.null
        if not (is_in_times(word) if self.timed else is_in_numbers(word)):
            return np.zeros(len(self), np.bool_)
        if self._texts is None:
            self._texts = time_texts(self._numbers) if self.timed else number_texts(self._numbers)
        return self._texts.containing(word) & ~self.null

    def compared(self, sign: str, text: str) -> Array:
        numbers = self._numbers
        if self.timed:
            start, end = self._span(text)
            within = (numbers >= start) & (numbers < end)
            passing = {"=": within, "!=": ~within}.get(sign)
            passing = COMPARISONS[sign](numbers, start) if passing is None else passing
        else:
            number = self._number(text)
            nan = number != number and sign in ("=", "!=")  # NaN equals itself here, and is neither more nor less
            passing = (numbers != numbers) == (sign == "=") if nan else COMPARISONS[sign](numbers, number)
        there: Array = passing & ~self.null
        return there

    def between(self, first: str, last: str) -> Array:
        if not self.timed:
            return super().between(first, last)
        there = ~self.null
        if first:
            there &= self._numbers >= self._span(first)[0]
        if last:
            there &= self._numbers < self._span(last)[1]
        return there

    def like(self, text: str) -> Array:
        try:
            return self.compared("=", text)
        except UsageError:
            if self.timed and is_in_times(text.lower()):
                return self.containing(text.lower())
            raise

    def order(self) -> Array:
        return self._numbers

    def _span(self, text: str) -> tuple[int, int]:
        return time_span(text, dated=bool(len(self)) and int(self._numbers.max()) >= DATE_THRESHOLD_MS)

    def _number(self, text: str) -> float:
        plain = text.lower().replace(",", "").replace("_", "")
        if self._kind is bool and plain in ("true", "false"):
            return plain == "true"
        try:
            return int(plain) if plain.lstrip("+-").isdigit() else float(plain)
        except ValueError:
            example = "true or false" if self._kind is bool else "a number, for example `> 100`"
            raise UsageError(f"`{text}` is not {example}") from None


class TextValues(ValueColumn):
    """Texts by their codes; 0 is null. `texts` has the text of each code, `codes_of` the code of each text."""

    def __init__(self, codes: Array, texts: list[str], codes_of: defaultdict[str | None, int]) -> None:
        super().__init__(codes == 0)
        self._codes = codes
        self._texts = texts  # longer columns append to it
        self._codes_of = codes_of
        self._ranks = np.zeros(0, np.int64)

    @classmethod
    def of(cls, values: Sequence[Any]) -> TextValues | None:
        """Return the column of these values, or None if some are neither texts nor null."""
        codes_of: defaultdict[str | None, int] = defaultdict(count().__next__, {None: 0})
        next(codes_of.default_factory.__self__)  # type: ignore[union-attr]
        try:
            texts = cls(np.zeros(0, np.int64), [""], codes_of)._with(values)
        except TypeError:  # a value without a hash
            return None
        return texts if set(map(type, codes_of)) <= {str, _NONE} else None  # looks at each different value once

    def _with(self, values: Sequence[str | None]) -> TextValues:
        codes = np.fromiter(map(self._codes_of.__getitem__, values), np.int64, len(values))
        if len(self._codes_of) > len(self._texts):
            self._texts += list(self._codes_of)[len(self._texts) :]  # type: ignore[arg-type]
        return TextValues(np.concatenate([self._codes, codes]), self._texts, self._codes_of)

    def values(self, places: Array | None = None) -> list[Any]:
        codes = (self._codes if places is None else self._codes[places]).tolist()
        return [self._texts[code] if code else None for code in codes]

    def without_first(self, count: int) -> ValueColumn:
        return TextValues(self._codes[count:], self._texts, self._codes_of)

    def extended(self, values: Sequence[Any]) -> ValueColumn:
        return self._with(values) if set(map(type, values)) <= {str, _NONE} else super().extended(values)

    def _where(self, is_so: Callable[[str], Any]) -> Array:
        texts = self._texts
        return np.fromiter(map(is_so, texts), np.bool_, len(texts))[self._codes] & ~self.null

    def containing(self, word: str) -> Array:
        return self._where(lambda text: word in text.lower())

    def compared(self, sign: str, text: str) -> Array:
        compare = COMPARISONS[sign]
        return self._where(lambda value: compare(value, text))

    def order(self) -> Array:
        if len(self._ranks) < len(self._texts):
            self._ranks = np.zeros(len(self._texts), np.int64)
            ordered = sorted(range(1, len(self._texts)), key=self._texts.__getitem__)
            self._ranks[ordered] = np.arange(1, len(self._texts))
        return self._ranks[self._codes]


class ObjectValues(ValueColumn):
    """Any values: numbers of several types, numbers of more than 64 bits, dates, events, arrays."""

    def __init__(self, values: list[Any]) -> None:
        super().__init__(_null(values, set(map(type, values))))
        self._values = values
        self._ranks: Array | None = None

    def without_first(self, count: int) -> ValueColumn:
        return value_column(self._values[count:])

    def values(self, places: Array | None = None) -> list[Any]:
        return list(self._values) if places is None else [self._values[place] for place in places.tolist()]

    def _where(self, is_so: Callable[[Any], object]) -> Array:
        hits = (value is not None and bool(is_so(value)) for value in self._values)
        return np.fromiter(hits, np.bool_, len(self._values))

    def containing(self, word: str) -> Array:
        return self._where(lambda value: word in str(value).lower())

    def compared(self, sign: str, text: str) -> Array:
        compare, meanings = COMPARISONS[sign], _Meanings(text)
        return self._where(lambda value: compare(*meanings.pair(value)))

    def order(self) -> Array:
        if self._ranks is None:
            keys = [(0, 0) if value is None else _order_key(value) for value in self._values]
            self._ranks = np.zeros(len(keys), np.int64)
            rank = 0
            before: object = None
            for place in sorted(range(len(keys)), key=keys.__getitem__):
                rank += keys[place] != before
                before = keys[place]
                self._ranks[place] = rank
        return self._ranks


def _order_key(value: Any) -> tuple[int, Any]:
    """Return a key that orders numbers before NaN, then texts, then all else as text."""
    if type(value) in (int, float, bool):
        return (0, value) if value == value else (1, 0)
    return (2, value) if type(value) is str else (3, str(value))


class _Meanings:
    """The values that a text means beside values of several types."""

    def __init__(self, text: str) -> None:
        self._text = text
        try:
            self._number: float | None = float(text)
        except ValueError:
            self._number = None
        try:
            self._moment: int | None = time_span(text, dated=True)[0]
        except UsageError:
            self._moment = None

    def pair(self, value: Any) -> tuple[Any, Any]:
        """Return a value and what the text means beside it, of types that can be compared."""
        if type(value) in (int, float, bool) and self._number is not None:
            return value, self._number
        if type(value) is datetime and self._moment is not None:
            moment = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
            return moment.timestamp() * 1000, self._moment
        return str(value), self._text
