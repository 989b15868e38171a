"""Search for a word in the texts of many numbers, as `str` writes them.

Three classes of numbers are searched in three ways:

* Integers, and floats below 1,000,000,000,000 of at most three decimals, are not written. Their digits are compared by
  arithmetic on whole arrays.
* Arrow, if it is installed, writes all other floats from 0.0001 up to 1,000,000,000 (excluded), with either sign. It
  writes these as `str` does, in a fifth of the time.
* The remaining floats are written as one text, equal ones once, and a word is searched for in that text. Arrow writes
  these otherwise than `str`: 0.00001 for 1e-05, 1.5e+10 for 15000000000.5.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

_SECTION = re.compile(r"-?[0-9]*(\.[0-9]*)?(e([-+][0-9]*)?)?|\+[0-9]*")  # of texts such as -1.5, 1.5e+16 and 1e-05
_SCALE = 1_000  # of numbers with three decimals
_MAX_SCALED = 1e12  # below it three decimals are exact, and `str` writes no exponent
_ARROW_RANGE = 1e-4, 1e9  # of the numbers with decimals that Arrow writes as `str` does, the upper end excluded
_NARROW = 10**9  # whole numbers below it are compared in 32 bits
_FRACTIONS = [str(fraction / _SCALE)[2:] for fraction in range(_SCALE)]  # without the zeros at the end


def is_in_numbers(word: str) -> bool:
    """Return whether a word in lower case may be part of a number's text."""
    return _SECTION.fullmatch(word) is not None or word in "-inf" or word in "nan"


class NumberTexts:
    """The texts of an array of numbers, whole or floating."""

    def __init__(self, numbers: Array) -> None:
        self._written: list[tuple[Array, _JoinedTexts | _ArrowTexts]] = []  # after the positions of the numbers
        self._compared: Array | None = None  # mask of the numbers whose digits are compared; None: all numbers
        if numbers.dtype.kind == "i":
            self._negative = numbers < 0
            self._whole, self._fractions = np.abs(numbers).view(np.uint64), None
            return
        with np.errstate(invalid="ignore", over="ignore"):
            scaled = np.rint(numbers * _SCALE)
            few = (scaled / _SCALE == numbers) & (np.abs(numbers) < _MAX_SCALED)
        if not few.all():
            self._compared = few
            self._written = _write(numbers, np.flatnonzero(~few))
            numbers, scaled = numbers[few], scaled[few]
        self._negative = np.signbit(numbers)
        self._whole, self._fractions = np.divmod(np.abs(scaled).astype(np.uint64), np.uint64(_SCALE))

    def containing(self, word: str) -> Array:
        """Return where the text of a number contains a word in lower case, which is not empty."""
        hits = self._in_whole(word)
        if self._fractions is not None:
            whole, point, fraction = word.partition(".")
            if point:
                begins = np.array([text.startswith(fraction) for text in _FRACTIONS])[self._fractions]
                hits = begins & self._at_end(whole)
            else:
                hits |= np.array([word in text for text in _FRACTIONS])[self._fractions]
        if self._compared is None:
            return hits
        all_hits = np.zeros(len(self._compared), np.bool_)
        all_hits[self._compared] = hits
        for positions, texts in self._written:
            all_hits[positions] = texts.containing(word)
        return all_hits

    def _in_whole(self, word: str) -> Array:
        """Return where the sign and the digits before the point contain a word."""
        hits, rest = np.zeros(len(self._whole), np.bool_), self._whole
        top = int(rest.max()) if len(rest) else 0
        if word == "-":
            return self._negative.copy()
        rest = rest.astype(np.uint32) if top < _NARROW else rest
        digits, position = word.removeprefix("-"), 0
        while digits.isdigit() and len(digits) <= len(str(top)):
            hits |= self._ending(rest, word, shorter=position > 0)
            if top < 10:
                break
            top, rest, position = top // 10, rest // 10, position + 1
        return hits

    def _at_end(self, word: str) -> Array:
        """Return where the sign and the digits before the point end with a word, which may be empty."""
        digits = word.removeprefix("-")
        if not word or (digits.isdigit() and len(digits) <= len(str(int(self._whole.max(initial=0))))):
            return self._ending(self._whole, word)
        return np.zeros(len(self._whole), np.bool_)

    def _ending(self, whole: Array, word: str, *, shorter: bool = False) -> Array:
        """Return where numbers `whole`, with the signs, end with a word. If `shorter`, digits behind them were cut off,
        and `whole` is also 0 where no digit is left.
        """
        digits = word.removeprefix("-")
        if not digits:
            return np.ones(len(whole), np.bool_)
        value = int(digits)
        if digits != word:
            if digits != str(value) or (shorter and value == 0):
                return np.zeros(len(whole), np.bool_)
            exact: Array = self._negative & (whole == value)
            return exact
        ends: Array = whole % 10 ** len(digits) == value
        if digits[0] == "0":  # a number has no zeros before its first digit: 5 does not end with 05
            ends &= whole >= (10 ** (len(digits) - 1) if len(digits) > 1 else int(shorter))
        return ends


def _write(numbers: Array, positions: Array) -> list[tuple[Array, _JoinedTexts | _ArrowTexts]]:
    """Write the numbers at some positions; return their texts, each after the positions of its numbers."""
    try:
        from pyarrow import compute  # optional: it only saves time
    except ImportError:
        return [(positions, _JoinedTexts(numbers[positions]))]
    size = np.abs(numbers[positions])
    alike = (size >= _ARROW_RANGE[0]) & (size < _ARROW_RANGE[1])
    texts: list[tuple[Array, _JoinedTexts | _ArrowTexts]] = []
    if alike.any():
        texts.append((positions[alike], _ArrowTexts(compute, numbers[positions[alike]])))
    if not alike.all():
        texts.append((positions[~alike], _JoinedTexts(numbers[positions[~alike]])))
    return texts


class _ArrowTexts:
    """The texts of numbers as an array of Arrow."""

    def __init__(self, compute: Any, numbers: Array) -> None:
        self._compute = compute
        self._texts = compute.cast(numbers, "string")

    def containing(self, word: str) -> Array:
        """Return where the text of a number contains a word."""
        hits: Array = self._compute.match_substring(self._texts, word).to_numpy(zero_copy_only=False)
        return hits


class _JoinedTexts:
    """The texts of distinct numbers, joined by commas. One search of the joined text is much faster than many."""

    def __init__(self, numbers: Array) -> None:
        bits, self._indexes = np.unique(numbers.view(np.int64), return_inverse=True)  # 0.0 is not -0.0
        distinct = bits.view(numbers.dtype).tolist()
        self._bytes = np.frombuffer(str(distinct).encode("ascii"), np.uint8)
        self._ends = np.flatnonzero(self._bytes == ord(","))
        self._count = len(distinct)

    def containing(self, word: str) -> Array:
        """Return where the text of a number contains a word."""
        size = max(0, len(self._bytes) - len(word) + 1)
        hits = np.ones(size, np.bool_)
        for at, character in enumerate(word.encode("ascii")):
            hits &= self._bytes[at : at + size] == character
        distinct_hits = np.zeros(self._count, np.bool_)
        distinct_hits[np.searchsorted(self._ends, np.flatnonzero(hits))] = True
        number_hits: Array = distinct_hits[self._indexes]
        return number_hits
