"""Many events through a module: the latest rows of each statement, and a curve of its first column of numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cepbook.display import DisplayTable, format_time
from cepbook.engine.delivery.delta import Delta
from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.errors import CepbookError
from cepbook.playground.csv_events import CsvEvents
from cepbook.playground.retained_state import row_table
from cepbook.session.inspect.time_columns import TimeColumns

LATEST = 100  # rows of a statement
POINTS = 800  # of a curve


@dataclass(slots=True)
class ReplayedStatement:
    """The deliveries of a statement: the number of insert rows, the latest, and a curve over the delivered rows.

    `curve` has the least and the greatest value of each of at most `POINTS` / 2 sections, so that no peak is lost.
    """

    name: str
    total: int
    rows: DisplayTable
    column: str
    curve: tuple[float, ...]
    span: tuple[str, str]


@dataclass(slots=True)
class _Collector:
    statement: RunningStatement
    total: int = 0
    latest: deque[Mapping[str, Any]] = field(default_factory=lambda: deque(maxlen=LATEST))
    column: str = ""
    values: list[float] = field(default_factory=list)
    first: int | None = None
    last: int = 0

    def take(self, delta: Delta) -> None:
        for row in delta.insert or ():
            self.total += 1
            self.latest.append(row)
            if not self.column:
                self.column = next((name for name, value in row.items() if type(value) is float), "")
            value = row.get(self.column)
            if type(value) is float and value == value:
                self.values.append(value)
                self.first = delta.time if self.first is None else self.first
                self.last = delta.time


def replay_csv(runtime: Runtime, events: CsvEvents) -> tuple[list[ReplayedStatement], str]:
    """Send all events through the statements of a runtime, whose clock is at their start or before.

    Return the statements that are selects, and the first failure or an empty text.
    """
    failures: list[CepbookError] = []
    runtime.add_error_listener(failures.append)
    collectors = [_Collector(s) for s in runtime.statements.values() if s.kind == "select" or s.plan.named]
    for collector in collectors:
        collector.statement.add_listener(collector.take)
    for time, event in events.events:
        if time is not None and time > runtime.now:
            runtime.advance(time)
        runtime.send(events.event_type, event)
    times, second = TimeColumns(runtime), runtime.config.second
    return [_summary(collector, times, second) for collector in collectors], str(failures[0]) if failures else ""


def _summary(collector: _Collector, times: TimeColumns, second: int) -> ReplayedStatement:
    name = collector.statement.name
    span = (format_time(collector.first or 0, second=second), format_time(collector.last, second=second))
    rows = row_table(list(collector.latest)[::-1], times.of_statement(name), second)
    return ReplayedStatement(name, collector.total, rows, collector.column, _thinned(collector.values), span)


def _thinned(values: Sequence[float]) -> tuple[float, ...]:
    if len(values) <= POINTS:
        return tuple(values)
    size = -(-len(values) // (POINTS // 2))
    points: list[float] = []
    for first in range(0, len(values), size):
        section = values[first : first + size]
        low, high = min(section), max(section)
        points += (low, high) if section.index(low) < section.index(high) else (high, low)
    return tuple(points)
