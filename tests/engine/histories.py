"""Random histories of events, and ways to run them through a runtime."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from cepbook.engine.delivery.delta import Row
from cepbook.engine.replay import batch_replayer
from cepbook.engine.runtime import Config, Runtime
from cepbook.engine.vectorized import kernel_library
from cepbook.engine.vectorized.array_columns import (
    ArrayColumn,
    ArrayColumns,
    ComputedColumn,
    NullableColumn,
    NumberColumn,
    TextColumn,
)
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.lang.plan.nodes import ModulePlan
from tests.engine.sinks import Deltas

SCHEMA = """create schema A(k string, g int, x int, n long, d double, f float);
            create schema B(k string, x int);
            create schema C(k string, x int, c long);
            create schema Sub(z int) inherits A;"""
# Statements of all kinds over one type, for what holds whatever the statement is.
SELECTS = [
    "select irstream x, d from A",
    "select irstream count(*) as c, sum(x) as s from A",
    "select irstream g, sum(x) as s from A group by g having count(*) > 1",
    "select irstream x, sum(d) as s from A#length(2)",
    "select irstream x, g from A#time(1 sec)",
    "select irstream sum(x) as s, first(d) as a, count(distinct g) as c from A(x > 0)#time(1 sec)",
    "select irstream x from A#length_batch(2)",
    "select irstream count(*) as c, max(x) as m from A#time_batch(1 sec)",
    "select irstream x, g from A#unique(g)",
    "select irstream g, x from A#groupwin(g)#length(1)",
]
# What every property test uses: the same examples in each run, no wall clock, and no search for the shortest failing
# history (minutes for a slow test; add Phase.shrink when one is to be studied).
settings.register_profile(
    "engine",
    phases=(Phase.explicit, Phase.generate),
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile("engine")


class Event(NamedTuple):
    """One event of a history: `time` in ms, ascending over the history."""

    time: int
    type: str
    values: Row


GAPS = (0, 0, 0, 1, 7, 250, 500, 999, 1000, 1001, 2000, 3500, 12_000)
KEYS = ("a", "b", "c", None)


SMALL = (None, 0, 1, 2, 3, 4, -1, -2)
HALVES = (None, *(i / 2 for i in range(7)), *(-i / 2 for i in range(1, 7)))
_BYTES = 9  # of an event: one for its gap, one for its type, and one for each of its values


def histories(types: Sequence[str] = ("A",), most: int = 40) -> st.SearchStrategy[list[Event]]:
    """Up to `most` events with ties, gaps around the periods of the statements under test, and nulls.

    The bytes of a history are drawn at once: to draw each value took longer than to run the engine.
    """
    size = 1 + _BYTES * most
    return st.binary(min_size=size, max_size=size).map(lambda drawn: _history(drawn, types, most))


def _history(drawn: bytes, types: Sequence[str], most: int) -> list[Event]:
    time, events = 0, []
    for number in range(drawn[0] % (most + 1)):
        gap, kind, k, x, g, n, d, f, z = drawn[1 + _BYTES * number : 1 + _BYTES * (number + 1)]
        time += GAPS[gap % len(GAPS)]
        name = types[kind % len(types)]
        values: Row = {"k": KEYS[k % len(KEYS)], "x": SMALL[x % len(SMALL)]}
        if name in ("A", "Sub"):
            values |= {"g": g % 3, "n": SMALL[n % len(SMALL)]}
            values |= {"d": HALVES[d % len(HALVES)], "f": HALVES[f % len(HALVES)]}
        if name == "Sub":
            values["z"] = SMALL[z % len(SMALL)]
        events.append(Event(time, name, values))
    return events


def comparable(value: Any) -> Any:
    """`value` such that equality tells 1 from 1.0 and true, and NaN equals NaN."""
    if isinstance(value, dict):
        return {name: comparable(v) for name, v in value.items()}
    if isinstance(value, list | tuple):
        return [comparable(v) for v in value]
    if isinstance(value, float) and math.isnan(value):
        return "NaN"
    return None if value is None else (type(value).__name__, value)


class Recorder(Deltas):
    """A sink that keeps what it is fed."""

    @property
    def deltas(self) -> list[Any]:
        """The deliveries as comparable data."""
        return [(time, comparable(insert), comparable(remove)) for time, insert, remove in self]


@lru_cache(maxsize=128)
def plans(epl: str, config: Config) -> dict[str, ModulePlan]:
    """The modules of a `Run`. Plans do not change, and many histories run through the same statements."""
    runtime = Runtime(config)
    schema = runtime.compile(SCHEMA)
    runtime.deploy(schema)
    return {"schema": schema, "main": runtime.compile(epl)}


class Run:
    """A runtime with the statements of a module, whose deliveries are recorded."""

    def __init__(self, epl: str, *, config: Config = Config(), start: int = 0, watched: bool = True) -> None:
        self.runtime = Runtime(config, start=start)
        for name, plan in plans(epl, config).items():
            self.runtime.deploy(plan, deployment_id=name)
        self.recorders = {name: Recorder() for name in self.runtime.statements}
        if watched:
            for name, recorder in self.recorders.items():
                self.runtime.statement(name).add_sink(recorder)

    def send(self, events: Sequence[Event], *, stepping: bool = False) -> None:
        """One event after the other; the clock advances when time grows."""
        for event in events:
            if event.time > self.runtime.now:
                self.runtime.advance(event.time, stepping=stepping)
            self.runtime.send(event.type, dict(event.values))

    def replay(self, events: Sequence[Event], cuts: Sequence[int], *, stepping: bool = False) -> None:
        """The batch entry, a slice at a time, cut at the positions `cuts`."""
        batch = self.runtime.batch(sorted({e.type for e in events}))
        bounds = sorted({0, len(events), *(c for c in cuts if c < len(events))})
        for low, high in pairwise(bounds):
            stops = range(self.runtime.now, events[high - 1].time + 1) if stepping else None
            batch.run(slices(events[low:high], low, batch.columns), stops)

    @property
    def deliveries(self) -> dict[str, list[Any]]:
        return {name: recorder.deltas for name, recorder in self.recorders.items()}

    def readings(self) -> dict[str, Any]:
        """What iterators and inspection tell."""
        return {
            name: (comparable(self.runtime.iterate_partitions(name)), self.runtime.state(name))
            for name in self.runtime.statements
        }


class ArrayRun(Run):
    """A run whose batches are arrays."""

    def replay(self, events: Any, cuts: Any, *, stepping: bool = False) -> None:
        batch = self.runtime.batch(sorted({event.type for event in events}))
        stops = range(self.runtime.now, events[-1].time + 1) if stepping else None
        batch.run(slices(events, 0, batch.columns, arrays_only=True), stops)


def run_both(
    one_by_one: Run, run: Run, events: Sequence[Event], cuts: Sequence[int], *, stepping: bool, read: int
) -> None:
    """Send events to the first run, and replay them in the other one. With `read` 1 both are read after each batch,
    with 2 every other batch is sent one by one, too.
    """
    bounds = sorted({0, len(events), *(cut for cut in cuts if cut < len(events))})
    for number, (low, high) in enumerate(pairwise(bounds)):
        part = events[low:high]
        one_by_one.send(part, stepping=stepping)
        if read == 2 and number % 2:
            run.send(part, stepping=stepping)
        else:
            run.replay(part, [], stepping=stepping)
        if read:
            sources = [statement.source for statement in run.runtime.statements.values()]
            assert run.readings() == one_by_one.readings(), (sources, events, cuts)


def compare_runs(
    one_by_one: Run,
    run: Run,
    events: Sequence[Event],
    cuts: Sequence[int],
    exact_state: Callable[[Run], Any],
    *,
    stepping: bool,
    read: int,
) -> None:
    """Run events one by one and in batches (see `run_both`), then let time pass; deliveries, readings and exact states
    are the same. Deliveries are compared as texts, which tell -0.0 from 0.0.
    """
    run_both(one_by_one, run, events, cuts, stepping=stepping, read=read)
    case = [statement.source for statement in run.runtime.statements.values()], events, cuts
    for later in (0, 700, 10_000):
        for either in (run, one_by_one):
            either.runtime.advance(either.runtime.now + later)
        assert repr(run.deliveries) == repr(one_by_one.deliveries), case
        readings = [comparable([*either.readings().values()]) for either in (run, one_by_one)]
        assert readings[0] == readings[1], case
        assert exact_state(run) == exact_state(one_by_one), case


def compare_over_arrays(
    exact_state: Callable[[Run], Any], epl: str, events: list[Event], cuts: list[int], *, stepping: bool, read: int
) -> Run:
    """Run events one by one and over arrays (see `compare_runs`), and return the latter run."""
    run = ArrayRun(epl)
    compare_runs(Run(epl), run, events, cuts, exact_state, stepping=stepping, read=read)
    return run


def compare_random_batches(
    random: Random,
    exact_state: Callable[[Run], Any],
    epl: str,
    events: list[Event],
    *,
    cut: int = 70,
    steps: float = 0.6,
) -> None:
    """Compare with random cuts up to the event number `cut`; the clock steps in a share `steps` of the cases. Readings
    with NaN, which does not equal itself, are not compared.
    """
    cuts = [random.randint(1, cut) for _ in range(random.randint(0, 4))]
    not_a_number = any(event.values.get("d") != event.values.get("d") for event in events)
    stepping, read = random.random() < steps, 0 if not_a_number else random.randint(0, 2)
    compare_over_arrays(exact_state, epl, events, cuts, stepping=stepping, read=read)


def window_state(own: Any, relation: Any) -> tuple[Any, ...]:
    """The window of a stream with its relation and indexes, ordinal and due time; `own` is the state of the stream."""
    indexes = [comparable(list(map(list, sorted(index.table.items(), key=repr)))) for index in relation.indexes]
    rows = comparable(list(relation.rows.items()))
    return own.ordinal, getattr(own.view, "due", 0), comparable(list(own.view.contents())), rows, indexes


def take_all_batches_by_arrays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let arrays, or the statement pass, take batches of any size."""
    monkeypatch.setattr(kernel_library, "LEAST", 1)
    monkeypatch.setattr(batch_replayer, "event_loop_pays", lambda *_: False)


def feed(runtime: Runtime, types: Sequence[str], events: Sequence[Event], *, replayed: bool) -> None:
    """Send events one by one, or replay them in one batch of arrays. The clock visits every due time."""
    if replayed:
        batch = runtime.batch([*types])
        batch.run(slices(events, 0, batch.columns, arrays_only=True), range(events[-1].time + 1))
        return
    for event in events:
        runtime.advance(event.time, stepping=True)
        runtime.send(event.type, dict(event.values))


Values = tuple[Any, ...]  # of a row


def record(runtime: Runtime, name: str) -> list[tuple[int, list[Values], list[Values]]]:
    """Return a list to which each delivery of a statement is added: time, insert rows, remove rows."""
    deliveries: list[tuple[int, list[Values], list[Values]]] = []

    def add(delta: Any) -> None:
        inserted, removed = ([tuple(row.values()) for row in side or ()] for side in (delta.insert, delta.remove))
        deliveries.append((delta.time, inserted, removed))

    runtime.statement(name).add_listener(add)
    return deliveries


def slices(events: Sequence[Event], rank: int, columns: Any, *, arrays_only: bool = False) -> list[ColumnBatch]:
    """Consecutive events as one slice per type; `rank` is the position of the first.

    Every other slice has arrays in place of lists; with `arrays_only` all have.
    """
    found = []
    for name in dict.fromkeys(e.type for e in events):
        mine = [(rank + i, e) for i, e in enumerate(events) if e.type == name]
        times = [e.time for _, e in mine]
        lists = {column: [e.values[column] for _, e in mine] for column in columns[name]}
        arrays = {column: array_of(values) for column, values in lists.items()}
        as_arrays = ArrayColumns(lists, arrays.__getitem__, array_of(times), slice(0, len(mine)))
        given = as_arrays if arrays_only or len(mine) % 2 == 0 else lists
        found.append(ColumnBatch(name, times, given, [i for i, _ in mine]))
    return found


def array_of(values: list[Any]) -> ArrayColumn:
    """A column of these values, as an array that can tell of them if there is one for them."""
    kinds = {type(v) for v in values if v is not None}
    if kinds <= {str}:
        known = [*dict.fromkeys(v for v in values if v is not None), None]
        codes = [known.index(v) for v in values]
        return TextColumn(np.array([c if c < len(known) - 1 else -1 for c in codes], int), np.array(known, object))
    if None not in values and len(kinds) == 1 and kinds <= {int, bool, float}:
        numbers = np.array(values)
        if numbers.dtype != object:  # whole numbers of more than 64 bits are no array
            return NumberColumn(numbers)
    if kinds == {int} and all(-(2**63) <= v < 2**63 for v in values if v is not None):
        numbers = np.array([0 if v is None else v for v in values])
        return NullableColumn(NumberColumn(numbers), np.array([v is None for v in values]))
    if kinds == {float} and not any(v != v for v in values if v is not None):
        return NumberColumn(np.array([np.nan if v is None else v for v in values]), gaps=True)
    return ComputedColumn(lambda part: np.array([*values, None], object)[:-1][part].tolist())


def deliveries_of(epl: str, events: Sequence[Event], until: int | None = None, **options: Any) -> dict[str, list[Any]]:
    """What the statements of `epl` deliver for `events` sent one by one."""
    run = Run(epl, **options)
    run.send(events)
    if until is not None:
        run.runtime.advance(until)
    return run.deliveries
