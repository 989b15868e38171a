"""A statement over events in slices, with what it delivered, and what failed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.feeds import Feed
from tests.engine.sinks import Deltas


def fails(x: int | None) -> int:
    """A function of EPL that fails for some."""
    if x is None or x % 7 == 0 or x == 39:
        raise ValueError(f"not {x}")
    return x


def inverse(x: int | None) -> int:
    """A function of EPL that fails for null and 0."""
    assert x is not None
    return 12 // x


def running(schema: str, epl: str) -> tuple[Runtime, Deltas, Feed, list[str]]:
    """The statement ``s``, two sinks of it, and the texts of failures."""
    runtime, errors = Runtime(functions={"fails": fails}), list[str]()
    runtime.add_error_listener(lambda error: errors.append(str(error)))
    runtime.deploy(f"{schema}@name('s') {epl}")
    deltas, feed = Deltas(), Feed(1_000)
    runtime.statement("s").add_sink(deltas)
    runtime.statement("s").add_sink(feed)
    return runtime, deltas, feed, errors


def replayed(runtime: Runtime, events: Sequence[Mapping[str, Any]], size: int, stops: bool = False) -> None:
    """Events of type ``E``, each with its time ``at``, so many in a slice.

    With `stops` the clock is told where to stop; else it does at the times of the events.
    """
    batch = runtime.batch(["E"])
    for begin in range(0, len(events), size):
        part = events[begin : begin + size]
        columns = {name: [event[name] for event in part] for name in batch.columns["E"]}
        times = [event["at"] for event in part]
        batch.run([ColumnBatch("E", times, columns)], sorted(set(times)) if stops else None)


def sent_in_one_slice(runtime: Runtime, type_name: str, rows: Sequence[Mapping[str, Any]], rank: str) -> None:
    """Events of the present time, in one slice; the property `rank` is their order."""
    batch, now = runtime.batch([type_name]), runtime.now
    columns = {name: [row[name] for row in rows] for name in batch.columns[type_name]}
    batch.run([ColumnBatch(type_name, [now] * len(rows), columns, [row[rank] for row in rows])])
