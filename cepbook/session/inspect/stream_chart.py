"""The chart of a statement's insert stream, by altair."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cepbook.charts.builders import line
from cepbook.display import lost_rows_text
from cepbook.engine.runtime import Runtime
from cepbook.errors import UsageError
from cepbook.feeds import FeedColumns
from cepbook.lazy_imports import Chart, PandasFrame
from cepbook.session.inspect.time_columns import statement_output
from cepbook.session.io.output.result_frames import changes_frame

SERIES = 20  # values of a column whose values are lines of their own


def build_stream_chart(
    runtime: Runtime, changes: FeedColumns, name: str, y: str | Sequence[str] | None, x: str, color: str | None
) -> Chart:
    """Return the chart of the insert rows among the `changes` of statement `name`; defaults as in `Workbench.chart`."""
    frame = changes_frame(changes, *statement_output(runtime, name))
    inserts = frame[frame["kind"] == "insert"]
    columns = [c for c in inserts.columns if c not in ("time", "seq", "kind")]
    if not y:
        y = _default_number(inserts, columns, name)
    several = type(y) is not str and len(y) > 1  # columns, which are the lines
    if color is None and not several:
        color = next((c for c in columns if _is_text(inserts[c]) and 1 <= inserts[c].nunique() <= SERIES), None)
    clock = x == "time" and runtime.config.second == 1000
    note = lost_rows_text(changes.lost, len(changes.times)) if changes.lost else None
    return line(inserts, x, y, color, title=name, clock=clock, note=note)


def _default_number(frame: PandasFrame, columns: Sequence[str], name: str) -> str:
    for kinds in ("f", "iu"):
        for column in columns:
            if frame[column].dtype.kind in kinds:
                return column
    raise UsageError(f"statement {name} has no numeric column to draw\n  hint: `%view {name}` shows its rows")


def _is_text(column: Any) -> bool:
    return column.dtype.kind == "O" and all(isinstance(value, str) for value in column.dropna())
