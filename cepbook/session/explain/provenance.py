"""The events behind a row: those of its group, its match or its combination, or the event that triggered it.

Read from a rerun of the statement up to that instant, and from its shadows (`history.rerun_provenance`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cepbook.engine.delivery.delta import Delta, Row
from cepbook.engine.expressions.primitives import deep_copied
from cepbook.lang.plan import nodes
from cepbook.lang.plan.cycles import StreamPartition
from cepbook.session.history.event_log import LogEntry
from cepbook.session.history.rerun_provenance import (
    COUNTS,
    EVENT,
    PARTITION,
    DeliveredRow,
    ProvenanceRerun,
    event_column,
    key_column,
    matches_row,
)


@dataclass(frozen=True, slots=True)
class ProvenanceEvent:
    """An event of an explanation.

    `tag` is its stream, its tag in a pattern, or its variable in match_recognize. `time` (clock units) and `type_name`
    are None for events that a statement made.
    """

    tag: str
    event: Mapping[str, Any]
    time: int | None = None
    type_name: str | None = None


@dataclass(slots=True)
class RetainedRows:
    """Everything retained at an instant: shadow rows by stream, combinations of a join, rows of stores by name.

    `unwindowed_count` is the number of events of a stream without windows. `cycles` are the events of the partitions of
    a cycle query.
    """

    windows: dict[int, list[Row]] = field(default_factory=dict)
    joined: list[Row] = field(default_factory=list)
    stores: dict[str, list[Row]] = field(default_factory=dict)
    partitions: dict[int, Row] = field(default_factory=dict)
    unwindowed_count: int = 0
    cycles: list[list[Row]] = field(default_factory=list)

    def of(self, partition: int | None) -> dict[int, list[Row]]:
        """Return the window contents of one partition; None: of all."""
        return {number: [row for row in rows if in_partition(row, partition)] for number, rows in self.windows.items()}


def retained_rows(run: ProvenanceRerun) -> RetainedRows:
    """Return what the rerun retains now."""
    context, living = run.target.context, dict[int, Row]()
    if context is not None and context in run.runtime.contexts:
        living = {row["id"]: row for row in run.runtime.partitions(context)}
    windows = {number: run.window_rows(number) or [] for number in run.windows}
    return RetainedRows(
        windows, run.joined_rows() or [], run.store_rows(), living, len(run.unwindowed), run.cycle_rows()
    )


def in_partition(row: Row, partition: int | None) -> bool:
    """Return True if a row of a shadow belongs to a partition."""
    return partition is None or row.get(PARTITION, partition) == partition


def event_of(run: ProvenanceRerun, tag: str, event: Row) -> ProvenanceEvent:
    """Return an event with its type and time, if they are known."""
    sent = run.sent_events.get(id(event))
    if sent is None:
        return ProvenanceEvent(tag, deep_copied(dict(event)))
    return ProvenanceEvent(tag, deep_copied(dict(event)), sent.time, sent.type_name)


def match_events(run: ProvenanceRerun, match: Mapping[str, Any]) -> list[ProvenanceEvent]:
    """Return the events of a match, by tag or variable, in order of arrival."""
    events: list[ProvenanceEvent] = []
    for tag, value in match.items():
        values = value if isinstance(value, list | tuple) else [value]
        events += [event_of(run, tag, event) for event in values if isinstance(event, Mapping)]  # type: ignore[arg-type]
    return sorted(events, key=lambda event: (event.time is None, event.time or 0))


def stream_name(target: nodes.StatementPlan, number: int) -> str:
    """Return the name of a stream: its alias or event type. Numbers after the streams are subqueries."""
    count = len(target.sources)
    if number >= count:
        source = target.subqueries[number - count].root
        inner = nodes.source_of(nodes.streams(source)[0])
        return f"subquery of {inner.alias or inner.event_type}"
    source_ = target.sources[number]
    return source_.alias or (source_.store.name if source_.store is not None else source_.event_type)


def shadow_row(run: ProvenanceRerun, deltas: Sequence[Delta], at: DeliveredRow) -> Row | None:
    """Return the row with its hidden columns; of several equal rows, the one in the same place.

    A shadow does not see what others write into a table: there the place alone decides.
    """
    candidate = None
    filling = run.select is not None and run.select.into is not None
    for delta in deltas:
        rows = (delta.insert if at.insert else delta.remove) or ()
        if delta.time != at.time:
            continue
        if len(rows) > at.place and (filling or matches_row(rows[at.place], at.row)):
            return rows[at.place]
        candidate = candidate or next((row for row in rows if matches_row(row, at.row)), None)
    return candidate


def row_provenance(
    run: ProvenanceRerun,
    at: DeliveredRow,
    shadow: Row | None,
    retained: RetainedRows,
    before: RetainedRows,
    partition: int | None,
    cause: Sequence[LogEntry],
) -> list[ProvenanceEvent] | None:
    """Return the events behind a row; None if unknown. `retained`: for remove rows, the state before."""
    target, select = run.target, run.select
    if isinstance(target, nodes.CycleStatement):
        return _cycled(run, target, at, retained, before)
    if select is None:
        return _triggered(run, at, cause)
    window = target.created_store
    if window is not None:
        return [ProvenanceEvent(window.name, deep_copied(dict(at.row)), None, window.name)]
    matches = run.result.matches
    if select.join is None and (select.source.pattern is not None or select.recognition is not None):
        match = matches[at.place] if len(matches) > at.place and at.insert else None
        match = (shadow or {}).get(event_column(0)) if match is None else match
        if (
            match is not None or run.aggregation is None or not at.insert
        ):  # the clock may have moved the window twice at once
            return None if match is None else match_events(run, match)
    if run.aggregation is not None and run.aggregation.kind.startswith("fully"):
        if select.join is not None:
            return _combined(run, select, shadow, retained, partition)
        return _group(run, at, shadow, retained, partition)
    if run.derived is not None:
        return _group(run, at, shadow, retained, partition)
    if shadow is None or event_column(0) not in shadow:
        return None
    tagged = [(stream_name(select, n), shadow[event_column(n)]) for n in range(len(select.sources))]
    return [event_of(run, tag, event) for tag, event in tagged if event is not None]


def _cycled(
    run: ProvenanceRerun, target: nodes.CycleStatement, at: DeliveredRow, retained: RetainedRows, before: RetainedRows
) -> list[ProvenanceEvent]:
    named = {source.store.name: number for number, source in enumerate(target.partitions)}
    sources = [None if source.store is None else named.get(source.store.name) for source in target.select.sources]
    row_values: dict[int, dict[str, Any]] = {number: {} for number in named.values()}
    for column in target.select.root.columns:
        name, stream = column.value.property_name, column.value.read_stream
        number = None if stream is None or not name else sources[stream]
        if number is not None and column.name in at.row:
            row_values[number][name] = at.row[column.name]
    events: list[ProvenanceEvent] = []
    for number, partition in enumerate(target.partitions):
        expected = {name: value for name, value in row_values[number].items() if name in partition.columns}
        tag = partition.source.alias or partition.source.event_type
        rows = [row for row in retained.cycles[number] if matches_row(row, expected)]
        rows = rows or [row for row in before.cycles[number] if matches_row(row, expected)]
        events += [_sent_as(run, tag, partition, row) for row in rows]
    return events


def _sent_as(run: ProvenanceRerun, tag: str, partition: StreamPartition, values: Row) -> ProvenanceEvent:
    event = {name: values[name] for name in partition.columns if name in values}
    known = run.runtime.catalog
    for sent in reversed(run.sent_events.values()):
        if known.is_a(sent.type_name, partition.source.event_type) and matches_row(sent.event, event):
            return ProvenanceEvent(tag, deep_copied(dict(sent.event)), sent.time, sent.type_name)
    return ProvenanceEvent(tag, deep_copied(event))


def _triggered(run: ProvenanceRerun, at: DeliveredRow, cause: Sequence[LogEntry]) -> list[ProvenanceEvent] | None:
    target, result = run.target, run.result
    events = [logged for logged in cause if logged.type_name is not None]
    sent = [event_of(run, "", logged.event) for logged in run.sent_events.values()][-len(events) :] if events else []
    source = target.trigger
    if source is None:
        return sent
    tag = source.alias or source.event_type
    number = next((n for n, delta in enumerate(result.delivered) if _has(delta, at)), 0)
    if source.pattern is not None:
        match = result.matches[min(number, len(result.matches) - 1)] if result.matches else None
        return None if match is None else match_events(run, match)
    if isinstance(target, nodes.UpdateStatement):  # the events before the update
        known = run.runtime.catalog
        own = [logged for logged in sent if known.is_a(logged.type_name or "", source.event_type)]
        before = (result.delivered[number].remove or ()) if result.delivered else ()
        if not own and len(before) > at.place:
            own = [event_of(run, tag, before[at.place])]
        return [ProvenanceEvent(tag, logged.event, logged.time, logged.type_name) for logged in own]
    if not result.reached:
        return None
    last = result.triggers_before[number] if number < len(result.triggers_before) else 0
    if last == len(result.reached) == len(result.delivered):  # all were delivered at the end of the turn
        last = number + 1
    return [event_of(run, tag, result.reached[max(1, last) - 1][EVENT])]


def _has(delta: Delta, at: DeliveredRow) -> bool:
    rows = (delta.insert if at.insert else delta.remove) or ()
    return delta.time == at.time and len(rows) > at.place and matches_row(rows[at.place], at.row)


def _in_group(run: ProvenanceRerun, rows: Sequence[Row], shadow: Row | None) -> list[Row]:
    keys = () if run.aggregation is None else run.aggregation.keys
    levels = run.aggregation is not None and bool(run.aggregation.levels)
    members = list(rows)
    for number in range(len(keys)):
        name = key_column(number)
        if shadow is not None and name in shadow and not (levels and shadow[name] is None):
            members = [row for row in members if row.get(name, shadow[name]) == shadow[name]]
    return members


def _group(
    run: ProvenanceRerun, at: DeliveredRow, shadow: Row | None, retained: RetainedRows, partition: int | None
) -> list[ProvenanceEvent]:
    assert run.select is not None
    if 0 not in run.windows:
        rows = [row for row in run.unwindowed[: retained.unwindowed_count] if in_partition(row, partition)]
    elif run.batched and not run.result.window_changes.get(0):  # the row repeats the last batch
        last = [rows for (number, _), rows in run.last_batches.items() if number == 0]
        rows = [row for batch in last for row in batch if in_partition(row, partition)]
    elif run.batched:
        moved = run.result.window_changes[0]
        rows = [row for delta in moved for row in (delta.remove if run.shows_former_state(at) else delta.insert) or ()]
        rows = [row for row in rows if in_partition(row, partition)]
    else:
        rows = retained.of(partition)[0]
    name = stream_name(run.select, 0)
    return [event_of(run, name, row[EVENT]) for row in _in_group(run, rows, shadow) if row.get(COUNTS, True) is True]


def _combined(
    run: ProvenanceRerun,
    select: nodes.SelectStatement,
    shadow: Row | None,
    retained: RetainedRows,
    partition: int | None,
) -> list[ProvenanceEvent] | None:
    if run.combinations is None:
        return None
    assert select.join is not None
    now = [row for delta in run.result.joined for row in delta.insert or ()]
    passing = select.lookup is not None or any(side.unidirectional for side in select.join.inputs)
    rows = [row for row in (now if passing else retained.joined) if in_partition(row, partition)]
    events: dict[tuple[int, int], ProvenanceEvent] = {}
    for row in _in_group(run, rows, shadow):
        for number in range(len(select.sources)):
            event = row[event_column(number)]
            if event is not None and (number, id(event)) not in events:
                events[number, id(event)] = event_of(run, stream_name(select, number), event)
    return list(events.values())
