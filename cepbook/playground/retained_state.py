"""Contents of windows, stores, partitions and partial matches, and values of variables, at a moment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.display import DisplayTable, format_property
from cepbook.engine.inspection.visible_rows import has_window_events, latest_rows, window_events
from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.errors import CepbookError
from cepbook.session.explain.why import named_partition
from cepbook.session.inspect.partial_matches import partial_matches, pattern_tags
from cepbook.session.inspect.partition_table import TIMES
from cepbook.session.inspect.time_columns import TimeColumns

MOST_ROWS = 40  # of a window
MOST_PARTITIONS = 12  # of a statement


@dataclass(frozen=True, slots=True)
class RetainedContents:
    """The last rows of a window or store, of `total`. `partition` describes the context partition, empty without one.

    `waiting` are the conditions that partial matches of a pattern wait for.
    """

    statement: str
    kind: str
    partition: str
    total: int
    rows: DisplayTable
    waiting: tuple[str, ...] = ()


def row_table(rows: Sequence[Mapping[str, Any]], times: Collection[str], second: int) -> DisplayTable:
    """Return rows as a table; columns in `times` are times of a clock with `second` units per second."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    numbers = tuple(
        name not in times and all(type(row.get(name)) in (int, float, type(None)) for row in rows) for name in names
    )
    cells = tuple(tuple(format_property(name, row.get(name), times, second) for name in names) for row in rows)
    return DisplayTable(tuple(names), numbers, cells)


def retained_state(runtime: Runtime) -> list[RetainedContents]:
    """Return what every statement retains, in the order of deployment."""
    times = TimeColumns(runtime)
    return [rows for statement in runtime.statements.values() for rows in _of_statement(runtime, statement, times)]


def _of_statement(runtime: Runtime, statement: RunningStatement, times: TimeColumns) -> Iterator[RetainedContents]:
    context = statement.steps.context
    if context is None:
        yield from _of_partition(runtime, statement, times, None, "")
        return
    partitions = runtime.partitions(context)
    for partition in partitions[:MOST_PARTITIONS]:
        properties = named_partition(runtime, context, partition) or {}
        label = ", ".join(_property(runtime, name, value) for name, value in properties.items() if name != "id")
        yield from _of_partition(
            runtime, statement, times, int(partition["id"]), label or f"partition {partition['id']}"
        )


def _property(runtime: Runtime, name: str, value: object) -> str:
    return f"{name}={format_property(name, value, TIMES, runtime.config.second)}"


def _of_partition(
    runtime: Runtime, statement: RunningStatement, times: TimeColumns, partition: int | None, label: str
) -> Iterator[RetainedContents]:
    second = runtime.config.second
    ids = None if partition is None else (partition,)
    try:
        if pattern_tags(runtime, statement.name) is not None:
            matches = partial_matches(runtime, statement.name, partition)
            events = [_flat(match.events) for match in matches.rows[:MOST_ROWS]]
            waiting = tuple(dict.fromkeys(match.waiting_for for match in matches.rows))
            table = row_table([event for event in events if event], (), second)
            yield RetainedContents(statement.name, "partial matches", label, matches.total, table, waiting)
        elif has_window_events(statement):
            contents = window_events(statement, MOST_ROWS, ids)
            event_times = times.of_types(statement.steps.event_types)
            table = row_table(contents.rows, event_times, second)
            yield RetainedContents(statement.name, "window", label, contents.total, table)
        elif statement.keeps_rows and (statement.steps.windows or statement.name in runtime.stores):
            latest = latest_rows(statement, MOST_ROWS, ids)
            kind = "rows" if statement.name in runtime.stores else "window"
            table = row_table(latest.rows, times.of_statement(statement.name), second)
            yield RetainedContents(statement.name, kind, label, latest.total, table)
    except CepbookError:  # an expression fails on a row: the reactions have said so
        return


def _flat(events: Mapping[str, Any]) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for tag, event in events.items():
        if isinstance(event, Mapping):
            flat |= {f"{tag}.{name}": value for name, value in event.items()}
        elif event is not None:
            flat[tag] = event
    return flat


def variable_values(runtime: Runtime) -> Iterable[tuple[str, str]]:
    """Return the names and values of variables that no context divides."""
    for name, variable in runtime.catalog.variables.items():
        if variable.context is None:
            yield name, format_property(name, runtime.get_variable(name), ())
