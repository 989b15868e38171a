"""The events of a batch that concern contexts and patterns, by columns, and the stops of the clock for events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cepbook.engine.contexts.assigner import PartitionAssigner
from cepbook.engine.contexts.locator import PartitionLocator
from cepbook.engine.dispatch.event_engine import EventEngine
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.time.clock_stops import ClockStops, EventStops, LateTimers
from cepbook.engine.vectorized.column_batch import ColumnBatch, FilteredBatch


def allocating_contexts(runtime: EventEngine, type_name: str) -> list[tuple[PartitionAssigner, PartitionLocator]]:
    """Return the active contexts in which events of `type_name` open partitions, with their locators."""
    allocating: list[tuple[PartitionAssigner, PartitionLocator]] = []
    for context in runtime.contexts.values():
        assigner = context.assigner
        way = None if assigner is None else assigner.locator(type_name)
        if assigner is not None and way is not None and any(context.statements):
            allocating.append((assigner, way))
    return allocating


def filter_for_patterns(statements: Iterable[RunningStatement], batch: ColumnBatch) -> FilteredBatch | None:
    """Return the events of a batch that any of `statements`, all of them patterns, may take; None: all events."""
    groups = [statement.groups(batch.type) for statement in statements]
    if any(atoms is None for atoms in groups):
        return None
    atom_groups = [group for atoms in groups for group in atoms or ()]
    passed = (
        batch.passing([way for group in atom_groups for way in group.alternatives])
        if all(g.alternatives for g in atom_groups)
        else None
    )
    if not atom_groups or (passed is not None and passed.exact):
        return passed
    flag_lists: list[list[Any]] = []
    for group in atom_groups:
        if group.pick is None:
            return None
        try:
            flag_lists.append(group.pick(batch.columns))
        except Exception:  # noqa: BLE001 - the statement will meet it again, and tell of it
            return None
    flags = flag_lists[0] if len(flag_lists) == 1 else [any(flags) for flags in zip(*flag_lists, strict=True)]
    return FilteredBatch(batch.where(flags), flags)


def event_stops(batches: Sequence[ColumnBatch], last: int, late: LateTimers) -> EventStops:
    """Return the stops of a clock that leaps from event to event and then to `last`."""
    if len(batches) == 1 and batches[0].times[-1:] == [last]:
        return EventStops(batches[0].times, late)
    return EventStops(sorted({last, *(t for s in batches for t in s.times)}), late)


def stops_until(stops: ClockStops, batches: Sequence[ColumnBatch], last: int) -> ClockStops:
    """Return those of `stops` up to `last`; if the clock does not stop there, those of the events of `batches`."""
    return stops.until(last) or event_stops(batches, last, LateTimers())
