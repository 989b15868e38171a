"""Context partitions as a table that is read by columns: their properties, events and sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.partition import ContextPartition, PartitionCounts
from cepbook.session.inspect.partition_table import TIMES, partition_properties
from cepbook.widgets.base.column_encoding import TIME_TYPE
from cepbook.widgets.live_view.row_filter import Row

SIZE_COLUMNS = ("events", "groups", "waiting")


def display_names(properties: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """Return built-in properties under the names that users know; a name that is also a size gets an underscore."""
    names_and_values = ((names.get(name, name), value) for name, value in properties.items())
    return {f"{name}_" if name in (*SIZE_COLUMNS, *EVENT_COLUMNS) else name: value for name, value in names_and_values}


class PartitionFigures:
    """Figures of partitions beside their properties: their events, counted by `tally` (None: not counted), and state
    sizes.

    The clock is at `now`, in units of which a second has `second`.
    """

    def __init__(self, statement: Any, now: int, tally: PartitionCounts | None, second: int) -> None:
        self._statement = statement
        self._now = now
        self._tally = tally
        self._second = second
        steps = statement.steps
        self._windows = bool(steps.windows or steps.inputs)

    def ms(self, time: int) -> int:
        """Return a time of the clock in ms."""
        return time * 1000 // self._second

    def seen(self, counted: Any) -> dict[str, object]:
        """Return the figures about the events of a partition, or of an object that counts for several."""
        if self._tally is None:
            return {}  # of the past only what is held is known
        counts = self._tally.of(counted)
        return {name: column.value(self, *counts) for name, column in EVENT_COLUMNS.items()}

    def per_second(self, arrived: int, last: int | None) -> float | None:
        """Return the number of events per second of engine time since they are counted."""
        seconds = 0 if self._tally is None else (self._now - self._tally.since) / self._second
        return arrived / seconds if seconds > 0 else None

    def sizes(self, partition: ContextPartition) -> dict[str, int]:
        """Return the number of events in windows, if there are any, of groups, and of partial matches."""
        statement = self._statement
        summary = statement.inspected(partition.id, statement.state_of(partition), self._now, 0)
        sizes = {"events": summary["retained"]} if self._windows else {}
        if summary["groups"] is not None:
            sizes["groups"] = summary["groups"]
        if "partials" in summary:
            sizes["waiting"] = summary["partials"]["total"]
        return sizes

    def column(self, name: str, counted: Sequence[Any]) -> list[Any]:
        """Return one of `EVENT_COLUMNS` for all of these."""
        tally, value = self._tally, EVENT_COLUMNS[name].value
        return [None if tally is None else value(self, *tally.of(partition)) for partition in counted]


class EventColumn(NamedTuple):
    """A column about the events of partitions. `value` makes it of their number and the clock time of the last one;
    `title` is displayed at its heading.
    """

    type: str
    value: Callable[[PartitionFigures, int, int | None], object]
    title: str = ""


EVENT_COLUMNS = {
    "last event": EventColumn(TIME_TYPE, lambda figures, arrived, last: None if last is None else figures.ms(last)),
    "arrived": EventColumn("long", lambda figures, arrived, last: arrived, "events since this page was opened"),
    "per second": EventColumn("double", PartitionFigures.per_second, "events per second of engine time since then"),
}


class PartitionSheet:
    """The active partitions of the context `running`, by id, as a `RowSheet`; `shown` are the names of their keys."""

    def __init__(self, running: Context, shown: Mapping[str, str], figures: PartitionFigures) -> None:
        self._running = running
        self._display_names = shown
        self._figures = figures
        self._partitions = list(running.partitions.values())
        first = partition_properties(running.identity(self._partitions[0])) if self._partitions else {}
        self._raw_names = {name: raw for raw in first for name in display_names({raw: None}, shown)}

    @property
    def names(self) -> Sequence[str]:
        """The id and the properties."""
        return ("id", *self._raw_names)

    @property
    def texts(self) -> Sequence[str]:
        """The columns that are searched for words."""
        return [name for name in self.names if name.rpartition(".")[2] not in TIMES]

    def __len__(self) -> int:
        return len(self._partitions)

    def column(self, name: str, start: int = 0) -> Sequence[object]:
        """Return the column of a property, or one of `EVENT_COLUMNS` or `SIZE_COLUMNS`, from position `start`."""
        partitions = self._partitions[start:]
        if name == "id":
            return [partition.id for partition in partitions]
        if name in EVENT_COLUMNS:
            return self._figures.column(name, partitions)
        if name in SIZE_COLUMNS:
            return [self._figures.sizes(partition).get(name) for partition in partitions]
        raw = self._raw_names.get(name)
        if raw is not None and raw in partitions[0].properties:
            return [partition.properties.get(raw) for partition in partitions]
        return (
            [partition_properties(self._running.identity(partition)).get(raw) for partition in partitions]
            if raw
            else [None] * len(partitions)
        )

    def dropped_since(self, earlier: object) -> None:
        """Return None: figures about events change at any time."""
        return

    def rows(self, places: Iterable[int]) -> Sequence[Row]:
        """Return rows with figures about events, and sizes."""
        return [self._row(self._partitions[position]) for position in places]

    def _row(self, partition: ContextPartition) -> Row:
        properties = display_names(partition_properties(self._running.identity(partition)), self._display_names)
        return {"id": partition.id, **properties, **self._figures.seen(partition), **self._figures.sizes(partition)}
