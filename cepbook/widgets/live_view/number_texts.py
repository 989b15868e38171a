"""Search for a word in the texts of many numbers, as `str` writes them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cepbook.widgets.live_view.text_matrix import WIDTH, Array, TextMatrix

_SECTION = re.compile(r"-?[0-9]*(\.[0-9]*)?(e([-+][0-9]*)?)?|\+[0-9]*")  # of texts such as -1.5, 1.5e+16 and 1e-05
_TEXT = np.dtype(f"S{WIDTH}")
_ARROW_RANGE = 1e-4, 1e9  # of the numbers with decimals that Arrow writes as `str` does, the upper end excluded
_MAX_PLAIN = 1e16  # `str` writes numbers from here on with an exponent


def is_in_numbers(word: str) -> bool:
    """Return whether a word in lower case may be part of a number's text."""
    return _SECTION.fullmatch(word) is not None or word in "-inf" or word in "nan"


def number_texts(numbers: Array) -> TextMatrix:
    """Return the texts of an array of numbers, whole or floating.

    Arrow, if it is installed, writes whole numbers and most others, in a fifth of the time of `str`. It writes the
    remaining ones differently (0.00001 for 1e-05, 1.5e+10 for 15000000000.5): `str` writes these, equal ones once.
    """
    try:
        from pyarrow import compute  # optional: it only saves time
    except ImportError:
        return TextMatrix(_written(numbers))
    if numbers.dtype.kind == "i":
        return TextMatrix(_written_by_arrow(compute, numbers))
    size = np.abs(numbers)
    whole = (size == np.rint(size)) & (size > 0) & (size < _MAX_PLAIN)
    decimal = ~whole & (size >= _ARROW_RANGE[0]) & (size < _ARROW_RANGE[1])
    ways: tuple[tuple[Array, Callable[[Array], Array]], ...] = (
        (whole, partial(_written_by_arrow, compute, suffix=".0")),
        (decimal, partial(_written_by_arrow, compute)),
        (~(whole | decimal), _written),
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


def _written(numbers: Array) -> Array:
    bits, indexes = np.unique(numbers.view(np.int64), return_inverse=True)  # 0.0 is not -0.0
    distinct: Array = np.array([str(number) for number in bits.view(numbers.dtype).tolist()], _TEXT)
    return distinct[indexes]
