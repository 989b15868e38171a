"""Which values the columns of a file have that is read a piece at a time: those of each piece, and of all together.

pandas decides by the values of a column what it is. Where it decides alike for all pieces, and so would for the whole,
a file need not be read at once. Of what differs only whole numbers and fractions go together, where a property is one.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from cepbook.lang.catalog import EventType
from cepbook.lang.types import SIZED
from cepbook.session.data.files import CSV, JSON_LINES, PARQUET, parquet_rows, pieces

NUMBERS = frozenset(("int64", "float64", "Int64"))
_ALIKE = {
    **dict.fromkeys(SIZED, NUMBERS),
    "boolean": frozenset(("bool", "boolean", "object")),
}  # by the type of a property: dtypes whose values are the same to it
PLAIN = NUMBERS | {"bool", "boolean", "str", "string"}  # dtypes that tell all of their values
SMALLER = 4  # a compressed file, or one of JSON lines, takes as much memory as a CSV file so many times as large


@dataclass(slots=True)
class _Column:
    """The dtypes of the pieces that have values of it, in order; `gaps`: it lacks some."""

    kinds: dict[str, None] = field(default_factory=dict)
    gaps: bool = False


class Kinds:
    """The dtypes of the columns of all pieces that were taken."""

    def __init__(self) -> None:
        self._columns: dict[str, _Column] = {}
        self._taken = 0

    def take(self, frame: pd.DataFrame) -> None:
        """Look at one more piece."""
        for name, values in frame.items():
            column = self._columns.setdefault(str(name), _Column(gaps=self._taken > 0))
            present = values.notna()
            if present.any():
                column.kinds[str(values.dtype)] = None
            column.gaps = column.gaps or not present.all()
        for name in self._columns.keys() - set(map(str, frame.columns)):
            self._columns[name].gaps = True
        self._taken += 1

    def empty(self) -> set[str]:
        """The columns that have no value at all."""
        return {name for name, column in self._columns.items() if not column.kinds}

    def agree(self, event_type: EventType, exact: Collection[str]) -> bool:
        """Whether events of the type are the same out of the pieces as out of the whole.

        In columns `exact` all pieces must be alike.
        """
        for name, column in self._columns.items():
            if len(column.kinds) <= 1 and not (column.gaps and "int64" in column.kinds):
                continue
            of = event_type.properties.get(name)
            alike = _ALIKE.get("" if of is None else of.name, frozenset())
            if name in exact or not alike.issuperset(column.kinds):
                return False
        return True

    def frame(self) -> pd.DataFrame | None:
        """No rows, in columns of the dtypes that the whole has; None where that depends on values."""
        found = {name: _whole(column) for name, column in self._columns.items()}
        if not self._taken or None in found.values():
            return None
        return pd.DataFrame({name: pd.Series([], dtype=of) for name, of in found.items()})


def _whole(column: _Column) -> Any:
    """The dtype of all of a column; None: it depends on more."""
    if not PLAIN.issuperset(column.kinds):
        return None
    if len(column.kinds) == 1:
        (kind,) = column.kinds
        if not column.gaps or kind not in ("int64", "bool"):
            return kind
        return "float64" if kind == "int64" else None
    return "float64" if column.kinds and NUMBERS.issuperset(column.kinds) else None


def is_large(path: str, rows: int, size: int) -> bool:
    """Whether a file has so many rows (Parquet), or is of such a size in bytes (others)."""
    lower = path.lower()
    if lower.endswith(PARQUET):
        return parquet_rows(path) >= rows
    if not lower.endswith((*CSV, *JSON_LINES)) or not os.path.isfile(path):
        return False
    return os.path.getsize(path) >= (size if lower.endswith(".csv") else size // SMALLER)


def head_of(path: str, rows: int) -> pd.DataFrame | None:
    """`Kinds.frame` of a file, which is read so many rows at a time. Errors as `read_file`."""
    kinds = Kinds()
    for piece in pieces(path, None, rows):
        kinds.take(piece)
    return kinds.frame()
