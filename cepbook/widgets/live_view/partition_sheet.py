"""Context partitions as a table that is read by columns: their properties, their events, how large they are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.partition import ContextPartition, PartitionCounts
from cepbook.session.inspect.partition_table import TIMES, partition_properties
from cepbook.widgets.live_view.row_filter import Row

SIZE_COLUMNS = ("events", "groups", "waiting")
EVENT_COLUMNS = ("last event", "arrived", "per second")


def display_names(properties: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Built-in properties by the names that people know; one may be called as a size is."""
    shown = ((names.get(name, name), value) for name, value in properties.items())
    return {f"{name}_" if name in (*SIZE_COLUMNS, *EVENT_COLUMNS) else name: value for name, value in shown}


class PartitionFigures:
    """What tells of a partition beside its properties: its events as `tally` counts them (None: nobody counts), and how
    large its state is. The clock is at `now`, in units of which there are `second` in a second.
    """

    def __init__(self, statement: Any, now: int, tally: PartitionCounts | None, second: int) -> None:
        self._statement = statement
        self._now = now
        self._tally = tally
        self._second = second
        steps = statement.steps
        self._windows = bool(steps.windows or steps.inputs)

    def ms(self, time: int) -> int:
        """A time of the clock in ms."""
        return time * 1000 // self._second

    def seen(self, counted: Any) -> dict[str, object]:
        """What is known of the events of a partition (or of what counts them for several)."""
        if self._tally is None:
            return {}  # of the past only what is held is known
        arrived, time = self._tally.of(counted)
        seconds = (self._now - self._tally.since) / self._second
        rate = arrived / seconds if seconds > 0 else None
        return dict(zip(EVENT_COLUMNS, (None if time is None else self.ms(time), arrived, rate), strict=True))

    def sizes(self, partition: ContextPartition) -> dict[str, int]:
        """Events of windows where there are any, groups, partial matches."""
        statement = self._statement
        state = statement.inspected(partition.id, statement.state_of(partition), self._now, 0)
        found = {"events": state["retained"]} if self._windows else {}
        if state["groups"] is not None:
            found["groups"] = state["groups"]
        if "partials" in state:
            found["waiting"] = state["partials"]["total"]
        return found

    def column(self, name: str, counted: Sequence[Any]) -> list[Any]:
        """One of `EVENT_COLUMNS` of all of these."""
        if self._tally is None:
            return [None] * len(counted)
        of = self._tally.of
        if name == "last event":
            return [of(each)[1] for each in counted]
        return [of(each)[0] for each in counted]  # and by these go the rates


class PartitionSheet:
    """The live partitions of the context `running`, by id, as a `RowSheet`; `shown` are the names of their keys."""

    def __init__(self, running: Context, shown: Mapping[str, str], figures: PartitionFigures) -> None:
        self._running = running
        self._shown = shown
        self._figures = figures
        self._partitions = list(running.partitions.values())
        first = partition_properties(running.identity(self._partitions[0])) if self._partitions else {}
        self._own = {name: raw for raw in first for name in display_names({raw: None}, shown)}

    @property
    def names(self) -> Sequence[str]:
        """The id and the properties."""
        return ("id", *self._own)

    @property
    def texts(self) -> Sequence[str]:
        """The columns in which words are looked for."""
        return [name for name in self.names if name.rpartition(".")[2] not in TIMES]

    def __len__(self) -> int:
        return len(self._partitions)

    def column(self, name: str) -> Sequence[object]:
        """That of a property, or one of `EVENT_COLUMNS` or `SIZES`."""
        found = self._partitions
        if name == "id":
            return [each.id for each in found]
        if name in EVENT_COLUMNS:
            return self._figures.column(name, found)
        if name in SIZE_COLUMNS:
            return [self._figures.sizes(each).get(name) for each in found]
        raw = self._own.get(name)
        if raw is not None and raw in found[0].properties:
            return [each.properties.get(raw) for each in found]
        return (
            [partition_properties(self._running.identity(each)).get(raw) for each in found]
            if raw
            else [None] * len(found)
        )

    def rows(self, places: Iterable[int]) -> Sequence[Row]:
        """With what is known of their events, and their sizes."""
        return [self._row(self._partitions[place]) for place in places]

    def _row(self, partition: ContextPartition) -> Row:
        own = display_names(partition_properties(self._running.identity(partition)), self._shown)
        return {"id": partition.id, **own, **self._figures.seen(partition), **self._figures.sizes(partition)}
