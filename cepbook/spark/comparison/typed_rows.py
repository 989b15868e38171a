"""Delivered rows of one statement as typed columns, from values, frames and Arrow tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.errors import UsageError
from cepbook.lang.types import BITS, Type
from cepbook.lazy_imports import ArrowColumn, ArrowTable

_METADATA_COLUMNS = ("statement", "time", "seq", "sequence", "trigger", "delivery", "kind")
MAX_EXACT_INTEGER = 2**53  # whole numbers up to here are floats without loss
ColumnKind = Literal["int", "float", "bool", "object"]
BoolMask = npt.NDArray[np.bool_]


class TypedColumn(NamedTuple):
    """The values of one column: int64, float64, bool or objects as `kind` says; undefined where `null`."""

    kind: ColumnKind
    values: npt.NDArray[Any]
    null: BoolMask

    def take(self, positions: npt.NDArray[np.intp]) -> TypedColumn:
        return TypedColumn(self.kind, self.values[positions], self.null[positions])

    def at(self, position: int) -> Any:
        """Return one value as plain Python has it."""
        if self.null[position]:
            return None
        value = self.values[position]
        return value if self.kind == "object" else value.item()

    def plain(self) -> list[Any]:
        """Return all values as plain Python has them."""
        values: list[Any] = self.values.tolist()
        for position in np.flatnonzero(self.null).tolist():
            values[position] = None
        return values


@dataclass(frozen=True, slots=True)
class StatementRows:
    """Rows in order of delivery: `time` (clock units), whether they are `remove` rows, and the statement's columns.

    `dropped` rows at the beginning are lost (a bounded feed); `total` counts them too. `column_families` describe the
    kind of number or text in a column, where known. `float32_columns` hold 32-bit floats. With `nan_is_null` NaN and
    null cannot be told apart. `order` says if events of one time came in no certain order.
    """

    time: npt.NDArray[np.int64]
    remove: BoolMask
    columns: dict[str, TypedColumn]
    dropped: int = 0
    nan_is_null: bool = False
    column_families: Mapping[str, str] = field(default_factory=dict)
    float32_columns: frozenset[str] = field(default=frozenset())
    order: str = ""

    @property
    def total(self) -> int:
        return len(self.time) + self.dropped


def typed_column(values: Sequence[Any]) -> TypedColumn:
    """Return values of any kind as a column of the narrowest kind that holds them exactly."""
    kinds = set(map(type, values))
    null = np.fromiter((v is None for v in values), bool, len(values))
    kinds.discard(type(None))
    if kinds == {bool}:
        return TypedColumn("bool", np.fromiter((v is True for v in values), bool, len(values)), null)
    if kinds == {int}:
        whole = [0 if v is None else v for v in values]
        if min(whole) >= -(2**63) and max(whole) < 2**63:
            return TypedColumn("int", np.array(whole, np.int64), null)
    elif kinds == {float} or (
        kinds == {int, float}
        and all(type(v) is not int or -MAX_EXACT_INTEGER <= v <= MAX_EXACT_INTEGER for v in values)
    ):
        return TypedColumn("float", np.array(values, np.float64), null)
    # also lists become single elements
    return TypedColumn("object", np.fromiter(values, dtype=object, count=len(values)), null)


def concat_columns(parts: Sequence[TypedColumn]) -> TypedColumn:
    """Return several columns as one."""
    kinds = {column.kind for column in parts if not column.null.all()}
    if len(kinds) <= 1:
        kind: ColumnKind = next(iter(kinds), "object")
        parts = [p if p.kind == kind else as_kind(p, kind) for p in parts]
        return TypedColumn(kind, np.concatenate([p.values for p in parts]), np.concatenate([p.null for p in parts]))
    return typed_column([value for column in parts for value in column.plain()])


def as_kind(column: TypedColumn, kind: ColumnKind) -> TypedColumn:
    """Return a column of nulls as one of another kind."""
    empty: dict[str, Any] = {"int": np.int64, "float": np.float64, "bool": np.bool_, "object": object}
    return TypedColumn(kind, np.zeros(len(column.null), empty[kind]), column.null)


def value_families(declared: Mapping[str, Type]) -> dict[str, str]:
    """Return the kind of values of columns by EPL type, as reports name it; none for types that may hold any kind."""
    return {name: family for name, type_ in declared.items() if (family := _value_family(type_)) is not None}


def _value_family(declared: Type) -> str | None:
    name = declared.name
    if name in BITS or name == "biginteger":
        return "whole numbers"
    if name in ("float", "double"):
        return "floats"
    return {"bigdecimal": "decimals", "string": "texts", "char": "texts", "boolean": "truth values"}.get(name)


def rows_of_frame(frame: Any, name: str, second: int) -> StatementRows:
    """Return the rows of a frame or table with ``time``, ``kind`` and the statement's columns."""
    if getattr(frame, "isStreaming", False) is True:
        raise UsageError(f"{name}: a streaming DataFrame has no end; compare what it wrote")
    if hasattr(frame, "toArrow"):
        frame = frame.toArrow()
    if hasattr(frame, "column_names") and hasattr(frame, "to_pylist"):
        _check_columns(frame.column_names, name)
        columns = {c: column_of_arrow(frame.column(c)) for c in frame.column_names if c not in _METADATA_COLUMNS}
        return StatementRows(
            delivery_times(frame, second), remove_mask(frame), columns, column_families=_families(columns)
        )
    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"{name}: expected a pandas DataFrame, not {type(frame).__name__}")
    _check_columns(frame.columns, name)
    columns = {str(c): typed_column(_plain_values(frame[c])) for c in frame.columns if c not in _METADATA_COLUMNS}
    remove = np.fromiter((str(k) == "remove" for k in frame["kind"]), bool, len(frame))
    times = _clock_units(frame["time"], second)
    return StatementRows(times, remove, columns, nan_is_null=True, column_families=_families(columns, frame))


def _check_columns(names: Iterable[Any], name: str) -> None:
    missing = [c for c in ("time", "kind") if c not in list(names)]
    if missing:
        raise UsageError(f"{name}: the frame has no column {' and no column '.join(missing)}")


def _families(columns: Mapping[str, TypedColumn], frame: pd.DataFrame | None = None) -> dict[str, str]:
    """Return the kind of values by column. Whole floats with gaps in a pandas frame may be converted whole numbers."""
    names = {"int": "whole numbers", "float": "floats", "bool": "truth values"}
    column_families = {c: names[column.kind] for c, column in columns.items() if column.kind in names}
    for c, family in list(column_families.items()):
        column = columns[c]
        values = column.values[~column.null]
        if frame is not None and family == "floats" and column.null.any() and bool((values == np.trunc(values)).all()):
            del column_families[c]
        if column.null.all():
            column_families.pop(c, None)
    return column_families


def column_of_arrow(column: ArrowColumn) -> TypedColumn:
    """Return a column of Arrow as a typed column."""
    import pyarrow as arrow  # an extra that whoever has a table has

    array = column.combine_chunks() if isinstance(column, arrow.ChunkedArray) else column
    null = array.is_null().to_numpy(zero_copy_only=False)
    type_ = array.type
    if arrow.types.is_signed_integer(type_) or (arrow.types.is_unsigned_integer(type_) and type_.bit_width < 64):
        return TypedColumn("int", array.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), null)
    if arrow.types.is_floating(type_):
        return TypedColumn("float", array.fill_null(0.0).to_numpy(zero_copy_only=False).astype(np.float64), null)
    if arrow.types.is_boolean(type_):
        return TypedColumn("bool", array.fill_null(False).to_numpy(zero_copy_only=False), null)
    if arrow.types.is_string(type_):
        return TypedColumn("object", array.to_numpy(zero_copy_only=False), null)
    return typed_column(array.to_pylist())


def delivery_times(table: ArrowTable, second: int) -> npt.NDArray[np.int64]:
    """Return the delivery times in units of a clock that has `second` units per second."""
    times = table.column("time")
    if str(times.type).startswith("timestamp"):
        return _clock_units(times.to_pandas(), second)
    return np.asarray(times.to_numpy(), np.int64)


def remove_mask(table: ArrowTable) -> BoolMask:
    """Return which rows are remove rows."""
    return np.fromiter((k == "remove" for k in table.column("kind").to_pylist()), bool, table.num_rows)


def _clock_units(times: pd.Series[Any], second: int) -> npt.NDArray[np.int64]:
    if str(times.dtype).startswith("datetime64"):
        zone = getattr(times.dt, "tz", None)
        naive = times if zone is None else times.dt.tz_convert("UTC").dt.tz_localize(None)
        return naive.to_numpy(dtype="datetime64[ms]" if second == 1000 else "datetime64[us]").astype("int64")
    return np.array([int(t) for t in times.tolist()], np.int64)


def _plain_values(values: pd.Series[Any]) -> list[Any]:
    missing: Sequence[bool] = values.isna().tolist()
    return [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]


def with_equal_times(rows: StatementRows, other: StatementRows, second: int) -> StatementRows:
    """Return `rows` with clock units in place of dates where `other` has whole numbers."""
    columns = {
        name: typed_column([_units(value, second) for value in column.plain()])
        for name, column in rows.columns.items()
        if name in other.columns and other.columns[name].kind in ("int", "float") and _are_dates(column)
    }
    return replace(rows, columns={**rows.columns, **columns}) if columns else rows


def _are_dates(column: TypedColumn) -> bool:
    return column.kind == "object" and set(map(type, column.values[~column.null])) <= {datetime, pd.Timestamp}


def _units(moment: datetime | None, second: int) -> int | None:
    if moment is None:
        return None
    aware = moment.replace(tzinfo=moment.tzinfo or UTC)
    return (aware - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1_000_000 // second)


def exact_key(value: Any) -> Any:
    """Return something hashable that is equal for equal values, and only for them; NaN is one value."""
    if isinstance(value, float):
        return ("nan",) if value != value else value
    if isinstance(value, list | tuple):
        return tuple(exact_key(element) for element in value)
    if isinstance(value, Mapping):
        return frozenset((str(k), exact_key(v)) for k, v in value.items() if v is not None)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Decimal | int | str) or value is None:
        return value
    if isinstance(value, datetime):  # Spark's are aware, those of a frame need not be
        return ("datetime", value.replace(tzinfo=value.tzinfo or UTC).timestamp())
    return (type(value).__name__, str(value))
