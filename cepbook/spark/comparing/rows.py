"""One statement's delivered rows as typed columns, and how frames and tables become these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.errors import UsageError
from cepbook.lang.types import BITS, Type

if TYPE_CHECKING:
    import pyarrow as pa

_NOT_OURS = ("statement", "time", "seq", "sequence", "trigger", "delivery", "kind")
EXACT = 2**53  # whole numbers up to here are floats without loss
Kind = Literal["int", "float", "bool", "object"]
Mask = npt.NDArray[np.bool_]


class Column(NamedTuple):
    """Values of one column. `values` are int64, float64, bool or objects as `kind` says; garbage where `null`."""

    kind: Kind
    values: npt.NDArray[Any]
    null: Mask

    def take(self, positions: npt.NDArray[np.intp]) -> Column:
        return Column(self.kind, self.values[positions], self.null[positions])

    def at(self, position: int) -> Any:
        """One value, as plain Python has it."""
        if self.null[position]:
            return None
        value = self.values[position]
        return value if self.kind == "object" else value.item()

    def plain(self) -> list[Any]:
        """All values, as plain Python has them."""
        found: list[Any] = self.values.tolist()
        for position in np.flatnonzero(self.null).tolist():
            found[position] = None
        return found


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in order of delivery: `time` (clock units), whether they are `remove` rows, and the statement's columns.

    `dropped` rows at the beginning are lost (a bounded feed), `total` counts them too. `families` say what kind of
    number or text a column holds, where that is known. `singles` are columns of 32-bit floats; with `nan_is_null` NaN
    cannot be told from null. `order` tells when events of one time came in no certain order.
    """

    time: npt.NDArray[np.int64]
    remove: Mask
    columns: dict[str, Column]
    dropped: int = 0
    nan_is_null: bool = False
    families: Mapping[str, str] = field(default_factory=dict)
    singles: frozenset[str] = field(default=frozenset())
    order: str = ""

    @property
    def total(self) -> int:
        return len(self.time) + self.dropped


def column_of(values: Sequence[Any]) -> Column:
    """Values of any kind as a column of the narrowest one that holds them exactly."""
    kinds = set(map(type, values))
    null = np.fromiter((v is None for v in values), bool, len(values))
    kinds.discard(type(None))
    if kinds == {bool}:
        return Column("bool", np.fromiter((v is True for v in values), bool, len(values)), null)
    if kinds == {int}:
        whole = [0 if v is None else v for v in values]
        if min(whole) >= -(2**63) and max(whole) < 2**63:
            return Column("int", np.array(whole, np.int64), null)
    elif kinds == {float} or (
        kinds == {int, float} and all(type(v) is not int or -EXACT <= v <= EXACT for v in values)
    ):
        return Column("float", np.array(values, np.float64), null)
    # also lists become single elements
    return Column("object", np.fromiter(values, dtype=object, count=len(values)), null)


def joined(parts: Sequence[Column]) -> Column:
    """One column of several, one behind the other."""
    kinds = {part.kind for part in parts if not part.null.all()}
    if len(kinds) <= 1:
        kind: Kind = next(iter(kinds), "object")
        parts = [p if p.kind == kind else as_kind(p, kind) for p in parts]
        return Column(kind, np.concatenate([p.values for p in parts]), np.concatenate([p.null for p in parts]))
    return column_of([value for part in parts for value in part.plain()])


def as_kind(part: Column, kind: Kind) -> Column:
    """A column of nulls as one of another kind."""
    empty: dict[str, Any] = {"int": np.int64, "float": np.float64, "bool": np.bool_, "object": object}
    return Column(kind, np.zeros(len(part.null), empty[kind]), part.null)


def families_of(declared: Mapping[str, Type]) -> dict[str, str]:
    """What kind of values columns of these types have, as reports name it; without those that any
    other kind may stand for.
    """
    return {name: family for name, of in declared.items() if (family := _family_of(of)) is not None}


def _family_of(declared: Type) -> str | None:
    name = declared.name
    if name in BITS or name == "biginteger":
        return "whole numbers"
    if name in ("float", "double"):
        return "floats"
    return {"bigdecimal": "decimals", "string": "texts", "char": "texts", "boolean": "truth values"}.get(name)


def of_given(given: Any, name: str, second: int) -> Rows:
    """A frame or table with ``time``, ``kind`` and the statement's columns."""
    if getattr(given, "isStreaming", False) is True:
        raise UsageError(f"{name}: a streaming DataFrame has no end; compare what it wrote")
    if hasattr(given, "toArrow"):
        given = given.toArrow()
    if hasattr(given, "column_names") and hasattr(given, "to_pylist"):
        _check_columns(given.column_names, name)
        columns = {c: of_arrow(given.column(c)) for c in given.column_names if c not in _NOT_OURS}
        return Rows(times_of(given, second), removes(given), columns, families=_families(columns))
    if not isinstance(given, pd.DataFrame):
        raise UsageError(f"{name}: expected a pandas DataFrame, not {type(given).__name__}")
    _check_columns(given.columns, name)
    columns = {str(c): column_of(_plain(given[c])) for c in given.columns if c not in _NOT_OURS}
    remove = np.fromiter((str(k) == "remove" for k in given["kind"]), bool, len(given))
    times = _units(given["time"], second)
    return Rows(times, remove, columns, nan_is_null=True, families=_families(columns, given))


def _check_columns(names: Iterable[Any], name: str) -> None:
    missing = [c for c in ("time", "kind") if c not in list(names)]
    if missing:
        raise UsageError(f"{name}: the frame has no column {' and no column '.join(missing)}")


def _families(columns: Mapping[str, Column], frame: pd.DataFrame | None = None) -> dict[str, str]:
    """By the values. Whole floats with gaps in a pandas frame may well be whole numbers that pandas had to convert."""
    found = {"int": "whole numbers", "float": "floats", "bool": "truth values"}
    families = {c: found[column.kind] for c, column in columns.items() if column.kind in found}
    for c, family in list(families.items()):
        column = columns[c]
        values = column.values[~column.null]
        if frame is not None and family == "floats" and column.null.any() and bool((values == np.trunc(values)).all()):
            del families[c]
        if column.null.all():
            families.pop(c, None)
    return families


def of_arrow(given: pa.ChunkedArray) -> Column:
    """A column of Arrow."""
    import pyarrow as arrow  # an extra that whoever has a table has

    array = given.combine_chunks() if isinstance(given, arrow.ChunkedArray) else given
    null = array.is_null().to_numpy(zero_copy_only=False)
    of = array.type
    if arrow.types.is_signed_integer(of) or (arrow.types.is_unsigned_integer(of) and of.bit_width < 64):
        return Column("int", array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), null)
    if arrow.types.is_floating(of):
        return Column("float", array.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64), null)
    if arrow.types.is_boolean(of):
        return Column("bool", array.fill_null(False).to_numpy(zero_copy_only=False), null)
    if arrow.types.is_string(of):
        return Column("object", array.to_numpy(zero_copy_only=False), null)
    return column_of(array.to_pylist())


def times_of(table: pa.Table, second: int) -> npt.NDArray[np.int64]:
    """When rows were delivered, in units of a clock of which a `second` has so many."""
    found = table.column("time")
    if str(found.type).startswith("timestamp"):
        return _units(found.to_pandas(), second)
    return np.asarray(found.to_numpy(), np.int64)


def removes(table: pa.Table) -> Mask:
    """Which rows are remove rows."""
    return np.fromiter((k == "remove" for k in table.column("kind").to_pylist()), bool, table.num_rows)


def _units(times: pd.Series[Any], second: int) -> npt.NDArray[np.int64]:
    if str(times.dtype).startswith("datetime64"):
        zone = getattr(times.dt, "tz", None)
        naive = times if zone is None else times.dt.tz_convert("UTC").dt.tz_localize(None)
        return naive.to_numpy(dtype="datetime64[ms]" if second == 1000 else "datetime64[us]").astype("int64")
    return np.array([int(t) for t in times.tolist()], np.int64)


def _plain(values: pd.Series[Any]) -> list[Any]:
    missing: Sequence[bool] = values.isna().tolist()
    return [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]


def exact(value: Any) -> Any:
    """Something hashable that is equal for equal values, and for them only; NaN is one value."""
    if isinstance(value, float):
        return ("nan",) if value != value else value
    if isinstance(value, list | tuple):
        return tuple(exact(each) for each in value)
    if isinstance(value, Mapping):
        return frozenset((str(k), exact(v)) for k, v in value.items() if v is not None)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Decimal | int | str) or value is None:
        return value
    if isinstance(value, datetime):  # Spark's are aware, those of a frame need not be
        return ("datetime", value.replace(tzinfo=value.tzinfo or UTC).timestamp())
    return (type(value).__name__, str(value))
