"""One statement's delivered rows as plain columns, whatever they come from: a workbench, a run on Spark, a frame."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pandas as pd

from cepbook.errors import UsageError

if TYPE_CHECKING:
    from cepbook.spark.result import SparkRun

_INSERT, _REMOVE = "insert", "remove"
_NOT_OURS = ("statement", "time", "seq", "sequence", "trigger", "delivery", "kind")


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in order of delivery: `time` (ms), `kind`, and the statement's columns as lists of plain values.

    `dropped` rows at the beginning are lost (a bounded feed), `total` counts them too. `singles` are columns of 32-bit
    floats; with `nan_is_null` NaN cannot be told from null.
    """

    time: list[int]
    kind: list[str]
    columns: dict[str, list[Any]]
    dropped: int = 0
    nan_is_null: bool = False
    singles: frozenset[str] = field(default=frozenset())

    @property
    def total(self) -> int:
        return len(self.time) + self.dropped


def statements_of(source: Any) -> list[str]:
    """The names of the statements whose rows `source` holds."""
    if isinstance(source, Mapping):
        return [str(name) for name in source]
    if hasattr(source, "to_arrow") and hasattr(source, "statements"):
        return list(source.statements)
    if hasattr(source, "feed") and hasattr(source, "runtime"):
        return list(source.runtime.statements)
    raise UsageError(
        f"cannot compare {type(source).__name__}: "
        "expected a Workbench, a SparkRun or a mapping of statement -> DataFrame"
    )


def failures_of(source: Any) -> Mapping[str, int]:
    """How often the statements of `source` failed at run time, as far as it knows."""
    if isinstance(source, Mapping):
        return {}
    if hasattr(source, "to_arrow"):
        return Counter(source.errors()["statement"].tolist())
    return Counter(error.statement for error in source.runtime.errors)


def rows_of(source: Any, name: str) -> Rows:
    """The rows of statement `name` in `source`."""
    if isinstance(source, Mapping):
        return _of_frame(source[name], name)
    if hasattr(source, "to_arrow"):
        return _of_run(source, name)
    return _of_feed(source, name)


def _of_feed(workbench: Any, name: str) -> Rows:
    feed = workbench.feed(name)
    names = list(workbench.runtime.statements[name].output_type.properties)
    found = feed.columns()
    kind = [_INSERT if insert else _REMOVE for insert in found.inserts]
    dropped = feed.total_insert + feed.total_remove - len(kind)
    return Rows(found.times, kind, {c: found.column(c) for c in names}, dropped)


def _of_run(run: SparkRun, name: str) -> Rows:
    table = run.to_arrow(name)
    columns = {own: table.column(shown).to_pylist() for own, shown in run.columns(name).items()}
    for own in run.json_columns(name):
        columns[own] = [None if text is None else json.loads(text) for text in columns[own]]
    shown_as = run.columns(name).items()
    singles = frozenset(own for own, shown in shown_as if str(table.schema.field(shown).type) == "float")
    return Rows(table.column("time").to_pylist(), table.column("kind").to_pylist(), columns, singles=singles)


def _of_frame(frame: Any, name: str) -> Rows:
    if not isinstance(frame, pd.DataFrame):
        raise UsageError(f"{name}: expected a pandas DataFrame, not {type(frame).__name__}")
    missing = [c for c in ("time", "kind") if c not in frame.columns]
    if missing:
        raise UsageError(f"{name}: the frame has no column {' and no column '.join(missing)}")
    columns = {str(c): _plain(frame[c]) for c in frame.columns if c not in _NOT_OURS}
    return Rows(_millis(frame["time"]), [str(k) for k in frame["kind"]], columns, nan_is_null=True)


def _millis(times: pd.Series[Any]) -> list[int]:
    if str(times.dtype).startswith("datetime64"):
        zone = getattr(times.dt, "tz", None)
        naive = times if zone is None else times.dt.tz_convert("UTC").dt.tz_localize(None)
        return [int(t) for t in naive.to_numpy(dtype="datetime64[ms]").astype("int64").tolist()]
    return [int(t) for t in times.tolist()]


def _plain(values: pd.Series[Any]) -> list[Any]:
    missing: Sequence[bool] = values.isna().tolist()
    return [None if gone else value for value, gone in zip(values.tolist(), missing, strict=True)]
