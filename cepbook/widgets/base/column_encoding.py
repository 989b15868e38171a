"""Rows of plain Python values as binary columns for the browser.

A column travels as one typed array beside a small description in the JSON part of a message:

- ``{"k": "num", "b": i}``: float64 in buffer ``i``
- ``{"k": "int", "b": i, "w": w, "o": o}``: unsigned integers of ``w`` (1, 2 or 4) bytes in buffer ``i``, plus ``o``
- ``{"k": "bool", "b": i}``: uint8 in buffer ``i``
- ``{"k": "text", "b": i, "w": w, "d": [...]}``: codes, likewise, in buffer ``i`` into the dictionary ``d``; 0 is null

and ``"n": j`` names a uint8 buffer with 1 where the value is null. Strings are sent once per message, however often
they occur, so a frame of 2,000 rows costs well below a millisecond and the browser parses almost no JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from cepbook.display import format_value, truncate
from cepbook.lang.types import INTEGRAL, NUMERIC

MAX_EXACT_INTEGER = 2**53  # beyond this, a float64 does not hold every integer
TIME_TYPE = "time"  # no EPL type: columns that views add, with engine time in ms

_NUMERIC_NAMES = frozenset(t.name for t in NUMERIC)
_INTEGRAL_NAMES = frozenset(t.name for t in INTEGRAL)
_NONE = type(None)


@dataclass(frozen=True, slots=True)
class ViewColumn:
    """An output column: its name, its EPL type (``double``, ``string``), whether it holds times in ms, and what is
    displayed at its heading.
    """

    name: str
    type: str = "object"
    timed: bool = False
    title: str = ""

    @property
    def kind(self) -> str:
        """How it is displayed: ``int``, ``float``, ``bool``, ``text``, or ``time`` (`timed`, or of the type
        `TIME_TYPE`).
        """
        if self.timed or self.type == TIME_TYPE:
            return "time"
        if self.type in _INTEGRAL_NAMES:
            return "int"
        if self.type in _NUMERIC_NAMES:
            return "float"
        return "bool" if self.type == "boolean" else "text"

    def describe(self) -> dict[str, str]:
        """Return the JSON form for the browser."""
        return {"name": self.name, "type": self.type, "kind": self.kind, "title": self.title}


@dataclass(slots=True)
class BinaryBuffers:
    """The binary part of one message; `add` returns the index by which the JSON part refers to a buffer."""

    parts: list[bytes] = field(default_factory=list)

    def add(self, array: np.ndarray) -> int:
        """Append the bytes of `array` (little-endian on every platform that Jupyter runs on)."""
        self.parts.append(array.tobytes())
        return len(self.parts) - 1


def encode_rows(
    rows: Sequence[Mapping[str, object]], columns: Iterable[ViewColumn], buffers: BinaryBuffers
) -> list[object]:
    """Return the descriptions of all `columns` of `rows`; a property that a row lacks is null."""
    return [encode_values([row.get(column.name) for row in rows], buffers) for column in columns]


def encode_values(values: Sequence[object], buffers: BinaryBuffers) -> dict[str, object]:
    """Encode one column by its values, not by the declared type, so that every value can be sent."""
    kinds = set(map(type, values))
    nullable = _NONE in kinds
    kinds.discard(_NONE)
    if kinds == {bool}:
        return _with_nulls(values, nullable, buffers, "bool", np.array([v is True for v in values], dtype=np.uint8))
    if kinds == {int} and not nullable:
        least, most = min(values), max(values)  # type: ignore[type-var]
        if least >= -MAX_EXACT_INTEGER and most <= MAX_EXACT_INTEGER and most - least < 2**32:  # type: ignore[operator]
            return {"k": "int", "o": least, **_smallest_integers([value - least for value in values], buffers)}  # type: ignore[operator]
    if kinds and kinds <= {int, float} and _fits_double(values, int in kinds):
        return _with_nulls(values, nullable, buffers, "num", np.array(values, dtype=np.float64))
    return _encode_texts(values, kinds, buffers)


def _fits_double(values: Sequence[object], integers: bool) -> bool:
    return not integers or all(-MAX_EXACT_INTEGER <= v <= MAX_EXACT_INTEGER for v in values if type(v) is int)


def _with_nulls(
    values: Sequence[object], nullable: bool, buffers: BinaryBuffers, kind: str, array: np.ndarray
) -> dict[str, object]:
    description: dict[str, object] = {"k": kind, "b": buffers.add(array)}
    if nullable:
        description["n"] = buffers.add(np.array([v is None for v in values], dtype=np.uint8))
    return description


def _encode_texts(values: Sequence[object], kinds: set[type], buffers: BinaryBuffers) -> dict[str, object]:
    keys: Sequence[object] = values if kinds <= {str} else [None if v is None else format_value(v) for v in values]
    codes: dict[object, int] = {}
    indices = [0 if v is None else codes.setdefault(v, len(codes) + 1) for v in keys]
    return {"k": "text", **_smallest_integers(indices, buffers), "d": [truncate(str(text)) for text in codes]}


def _smallest_integers(values: Sequence[int], buffers: BinaryBuffers) -> dict[str, object]:
    """Encode integers from 0 on in as few bytes as the largest needs."""
    most = max(values, default=0)
    kind = np.uint8 if most < 2**8 else np.uint16 if most < 2**16 else np.uint32
    return {"b": buffers.add(np.array(values, dtype=kind)), "w": np.dtype(kind).itemsize}
