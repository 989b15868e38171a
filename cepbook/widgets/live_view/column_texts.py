"""Search for a word in the texts of a whole column of numbers, or of times (`time_texts`).

The texts form one matrix of bytes, a row of equal width for each text. Comparing all bytes with the characters of a
word takes an eighth of the time of a search text by text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

WIDTH = 24  # bytes of a text: no number and no time has more characters; three integers of 64 bits
_BLOCK = 32_768 * WIDTH  # bytes that are compared in one step, so that they stay in the processor's cache
_SECTION = re.compile(r"-?[0-9]*(\.[0-9]*)?(e([-+][0-9]*)?)?|\+[0-9]*")  # of texts such as -1.5, 1.5e+16 and 1e-05
_TEXT = np.dtype(f"S{WIDTH}")
_ARROW_RANGE = 1e-4, 1e9  # of the numbers with decimals that Arrow writes as `str` does, the upper end excluded
_MAX_PLAIN = 1e16  # `str` writes numbers from here on with an exponent


class TextMatrix:
    """ASCII texts of at most `WIDTH` characters, padded with zero bytes."""

    def __init__(self, texts: Array) -> None:
        """Take texts as an array of items of `WIDTH` bytes."""
        self._bytes = np.ascontiguousarray(texts).view(np.uint8).reshape(-1)

    def containing(self, word: str) -> Array:
        """Return where a text contains an ASCII word, which is not empty."""
        characters = word.encode("ascii")
        where = np.zeros(len(self._bytes) // WIDTH, np.bool_)
        if len(characters) > WIDTH:
            return where
        for start in range(0, len(self._bytes), _BLOCK):
            block = self._bytes[start : start + _BLOCK]
            begins = block == characters[0]
            for offset, character in enumerate(characters[1:], 1):
                begins[:-offset] &= block[offset:] == character
            begins.reshape(-1, WIDTH)[:, WIDTH + 1 - len(characters) :] = False  # these would go on in the next text
            first, second, third = begins.view(np.uint64).reshape(-1, 3).T  # faster than `any` over 24 bytes
            where[start // WIDTH : (start + len(block)) // WIDTH] = (first | second | third) != 0
        return where


def is_in_numbers(word: str) -> bool:
    """Return whether a word in lower case may be part of a number's text."""
    return _SECTION.fullmatch(word) is not None or word in "-inf" or word in "nan"


def number_texts(numbers: Array) -> TextMatrix:
    """Return the texts of an array of numbers, whole or floating, as `str` writes them.

    Arrow, if it is installed, writes whole numbers and most others, in a fifth of the time of `str`. It gets
    whole floats as integers. The remaining ones it writes differently (0.00001 for 1e-05, 1.5e+10 for 15000000000.5):
    `str` writes these, each distinct number once.
    """
    try:
        from pyarrow import compute  # optional: it only saves time
    except ImportError:
        return TextMatrix(_written_by_str(numbers))
    if numbers.dtype.kind == "i":
        return TextMatrix(_written_by_arrow(compute, numbers))
    size = np.abs(numbers)
    whole = (size == np.rint(size)) & (size > 0) & (size < _MAX_PLAIN)
    decimal = ~whole & (size >= _ARROW_RANGE[0]) & (size < _ARROW_RANGE[1])
    ways: tuple[tuple[Array, Callable[[Array], Array]], ...] = (
        (whole, partial(_written_by_arrow, compute, suffix=".0")),
        (decimal, partial(_written_by_arrow, compute)),
        (~(whole | decimal), _written_by_str),
    )
    texts = np.empty(len(numbers), _TEXT)
    for where, write in ways:
        if where.all():
            return TextMatrix(write(numbers))
        if where.any():
            texts[where] = write(numbers[where])
    return TextMatrix(texts)


def _written_by_arrow(compute: Any, numbers: Array, *, suffix: str = "") -> Array:
    texts = compute.cast(numbers.astype(np.int64) if suffix else numbers, "string")
    texts = compute.ascii_rpad(compute.binary_join_element_wise(texts, suffix, "") if suffix else texts, WIDTH, "\0")
    return np.frombuffer(texts.buffers()[-1], _TEXT, len(numbers))  # the characters of all texts, without gaps


def _written_by_str(numbers: Array) -> Array:
    bits, indexes = np.unique(numbers.view(np.int64), return_inverse=True)  # `==` would merge 0.0 and -0.0
    distinct: Array = np.array([str(number) for number in bits.view(numbers.dtype).tolist()], _TEXT)
    return distinct[indexes]
