"""Delivered rows of one statement as typed columns, from values, frames and Arrow tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd

from cepbook.errors import UsageError
from cepbook.lang.types import BITS, Type
from cepbook.lazy_imports import ArrowColumn, ArrowTable

_NUMBER_OF_DELIVERY = "seq"  # in the frames of `Workbench.changes`
_SPARK_METADATA = frozenset(("statement", "sequence", "trigger", "delivery"))  # in those of Spark, all or some
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
    null cannot be told apart. `order` says if events of one time came in no certain order. `optional` columns may be
    metadata of Spark: they count if the other side has them.
    """

    time: npt.NDArray[np.int64]
    remove: BoolMask
    columns: dict[str, TypedColumn]
    dropped: int = 0
    nan_is_null: bool = False
    column_families: Mapping[str, str] = field(default_factory=dict)
    float32_columns: frozenset[str] = field(default=frozenset())
    order: str = ""
    optional: frozenset[str] = frozenset()

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
    is_table = hasattr(frame, "column_names") and hasattr(frame, "to_pylist")
    if not is_table and not isinstance(frame, pd.DataFrame):
        raise UsageError(f"{name}: expected a pandas DataFrame, not {type(frame).__name__}")
    labels = list(frame.column_names if is_table else frame.columns)
    time, kind, own = _column_roles(labels, name)
    kinds = frame.column(kind).to_pylist() if is_table else _plain_values(frame[kind])
    unknown = [text for text in kinds if text not in ("insert", "remove")]
    if unknown:
        raise UsageError(f"{name}: the column `{kind}` has {unknown[0]!r}, which is neither 'insert' nor 'remove'")
    remove = np.fromiter((text == "remove" for text in kinds), bool, len(kinds))
    dates = frame.column(time).to_pandas() if is_table else frame[time]
    times = _clock_units(dates, second, f"{name}: the column `{time}`")
    optional = frozenset() if own.keys() >= _SPARK_METADATA else _SPARK_METADATA & own.keys()
    columns = {
        text: column_of_arrow(frame.column(label)) if is_table else typed_column(_plain_values(frame[label]))
        for text, label in own.items()
        if text in optional or text not in _SPARK_METADATA
    }
    families = _families(columns, None if is_table else frame)
    return StatementRows(
        times, remove, columns, nan_is_null=not is_table, column_families=families, optional=optional
    )


def _column_roles(labels: Sequence[Any], name: str) -> tuple[Any, Any, dict[str, Any]]:
    """Return the columns with the time and the kind, and the others by their names as texts.

    Metadata comes first, and has underscores appended where the statement has a column of its name.
    """
    texts = list(map(str, labels))
    twice = next((text for text in texts if texts.count(text) > 1), None)
    if twice is not None:
        raise UsageError(f"{name}: the frame has two columns `{twice}`")
    roles = {role: _first_of(role, texts) for role in ("time", "kind", _NUMBER_OF_DELIVERY)}
    missing = [role for role in ("time", "kind") if roles[role] is None]
    if missing:
        raise UsageError(f"{name}: the frame has no column {' and no column '.join(missing)}")
    own = {text: label for text, label in zip(texts, labels, strict=True) if text not in roles.values()}
    time, kind = (labels[texts.index(roles[role] or "")] for role in ("time", "kind"))
    return time, kind, own


def _first_of(role: str, texts: Sequence[str]) -> str | None:
    return next((text for text in texts if text.rstrip("_") == role), None)


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
        return _clock_units(times.to_pandas(), second, "column `time`")
    return np.asarray(times.to_numpy(), np.int64)


def remove_mask(table: ArrowTable) -> BoolMask:
    """Return which rows are remove rows."""
    return np.fromiter((k == "remove" for k in table.column("kind").to_pylist()), bool, table.num_rows)


def _clock_units(times: pd.Series[Any], second: int, subject: str) -> npt.NDArray[np.int64]:
    """Return times in clock units. Raises UsageError for a time that is missing or between two units."""
    if times.isna().any():
        raise UsageError(f"{subject} has a row without a time")
    if str(times.dtype).startswith("datetime64"):
        zone = getattr(times.dt, "tz", None)
        dates = (times if zone is None else times.dt.tz_convert("UTC").dt.tz_localize(None)).to_numpy()
        units = dates.astype("datetime64[ms]" if second == 1000 else "datetime64[us]")
        between = np.flatnonzero(units.astype(dates.dtype) != dates)
        if len(between):
            raise UsageError(f"{subject} has {dates[between[0]]}, which is between two units of the clock")
        return units.astype("int64")
    units_of_rows = []
    for moment in _plain_values(times):
        units_of_row = _units(moment, second) if isinstance(moment, datetime) else moment
        if isinstance(units_of_row, float) and units_of_row.is_integer():
            units_of_row = int(units_of_row)
        if type(units_of_row) is not int:
            raise UsageError(f"{subject} has {moment!r}, which is neither a date nor a whole number of clock units")
        units_of_rows.append(units_of_row)
    return np.array(units_of_rows, np.int64)


def _plain_values(values: pd.Series[Any]) -> list[Any]:
    missing: Sequence[bool] = values.isna().tolist()
    plain = [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]
    return plain if _PLAIN.issuperset(map(type, plain)) else list(map(_plain, plain))


_PLAIN = frozenset((type(None), bool, int, float, str, Decimal, date, datetime, pd.Timestamp))


def _plain(value: Any) -> Any:
    """Return a value without the classes of numpy, which compare element by element."""
    if isinstance(value, list | tuple) or (isinstance(value, np.ndarray) and value.ndim):
        return list(map(_plain, value))
    if isinstance(value, Mapping):
        return {key: _plain(of) for key, of in value.items()}
    if value is pd.NA or value is pd.NaT:
        return None
    if isinstance(value, np.datetime64 | np.timedelta64):
        return pd.Series([value])[0]
    return value.item() if isinstance(value, np.generic | np.ndarray) else value


def with_equal_times(rows: StatementRows, other: StatementRows, second: int) -> StatementRows:
    """Return `rows` with clock units in place of dates where `other` has whole numbers.

    Optional columns that `other` lacks are left out.
    """
    if lacking := rows.optional - other.columns.keys():
        rows = replace(rows, columns={name: of for name, of in rows.columns.items() if name not in lacking})
    columns = {
        name: typed_column([_units(value, second) for value in column.plain()])
        for name, column in rows.columns.items()
        if name in other.columns and other.columns[name].kind in ("int", "float") and _are_dates(column)
    }
    return replace(rows, columns={**rows.columns, **columns}) if columns else rows


def _are_dates(column: TypedColumn) -> bool:
    return column.kind == "object" and set(map(type, column.values[~column.null])) <= {datetime, pd.Timestamp}


def _units(moment: datetime | None, second: int) -> int | datetime | None:
    """Return a date in clock units, or as it is if it lies between two of them."""
    if moment is None:
        return None
    units, rest = divmod(utc(moment) - datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1_000_000 // second))
    return moment if rest else int(units)


def utc(moment: datetime) -> datetime:
    """Return a date in UTC. Spark's dates have a zone, those of a frame need not have one.

    Python takes dates of two zones for unequal in the hour that one of the zones repeats.
    """
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:  # in the first or last hours of all dates
        return moment


def exact_key(value: Any) -> Any:
    """Return something hashable that is equal for equal values, and only for them; NaN is one value."""
    if isinstance(value, float):
        return ("nan",) if value != value else value
    if isinstance(value, list | tuple):
        return ("list", *map(exact_key, value))
    if isinstance(value, Mapping):
        return frozenset((str(k), exact_key(v)) for k, v in value.items() if v is not None)
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, Decimal | int | str) or value is None:
        return value
    if isinstance(value, datetime):
        return ("datetime", utc(value))
    return (type(value).__name__, str(value))
