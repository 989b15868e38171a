"""Rows of output clauses in random histories, computed again from the events, within partitions and without."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any, NamedTuple

import pytest

from cepbook.engine.runtime import Runtime
from tests.random_cases import seeds

Event = dict[str, Any]
Row = tuple[int, ...]
pytestmark = pytest.mark.histories
CONTEXTS = {
    "none": "",
    "keyed": "create context K partition by k from A;",
    "short": "create context K partition by k from A terminated after 3 sec;",
}


class Clause(NamedTuple):
    """`after` events or ms nothing is delivered, and then `which` rows `every` events, ms, or at the end."""

    which: str
    unit: str
    every: int
    after: int
    after_unit: str

    def __str__(self) -> str:
        after = f"after {self.after} {self.after_unit} " if self.after else ""
        rate = "when terminated" if self.unit == "end" else f"every {self.every} {self.unit}"
        return f"{after}{self.which} {rate}"


class Statement(NamedTuple):
    context: str
    aggregates: bool
    length: int
    clause: Clause

    @property
    def epl(self) -> str:
        selected = "count(*) as c, sum(x) as s" if self.aggregates else "n, x"
        within = "" if self.context == "none" else "context K "
        window = f"#length({self.length})" if self.length else ""
        return f"@name('q') {within}select {selected} from A{window} output {self.clause}"


def partitions(events: list[Event], context: str) -> Iterator[list[Event]]:
    if context == "none":
        yield events
        return
    for key in "ab":
        life: list[Event] = []
        for event in (event for event in events if event["k"] == key):
            if context == "short" and life and event["t"] >= life[0]["t"] + 3000:
                yield life
                life = []
            life.append(event)
        if life:
            yield life


def rows_of(statement: Statement, events: list[Event], now: int) -> Iterator[Row]:
    """The rows of one partition, with their times."""
    which, unit, every, after, after_unit = statement.clause
    start = 0 if statement.context == "none" else events[0]["t"]
    end = start + 3000 if statement.context == "short" else now + 1
    retained: list[Event] = []
    waiting: list[Row] = []  # for a delivery
    seen = counted = 0
    due: int | None = None
    silent = False

    def current() -> Row:
        return len(retained), sum(event["x"] for event in retained)

    def delivery(time: int, *, idle: bool) -> list[Row]:
        rows = waiting if which in ("", "all") else waiting[-1:] if which == "last" else []
        if which == "snapshot":
            plain = [(event["n"], event["x"]) for event in retained] if statement.length else []
            rows = [current()] if statement.aggregates else plain
        elif idle and not waiting and statement.aggregates and which != "first":
            rows = [current()]
        return [(time, *row) for row in rows]

    for event in [*events, None]:
        time = min(end, now + 1) if event is None else event["t"]
        while due is not None and due <= time and due < end and due <= now:
            yield from delivery(due, idle=True)
            waiting, silent, due = [], False, due + every
        if event is None:
            break
        retained.append(event)
        retained = retained[-statement.length :] if statement.length else retained
        row = current() if statement.aggregates else (event["n"], event["x"])
        seen += 1
        if seen <= after if after_unit == "events" else time < start + after:
            waiting += [row] * (which == "all")  # `all` delivers them later
            continue
        if unit == "msec" and due is None:
            due = time + every
        if which != "first":
            waiting.append(row)
        elif not silent:
            yield (time, *row)
        silent = True
        counted += 1
        if unit == "events" and counted == every:
            yield from delivery(time, idle=False)
            waiting, silent, counted = [], False, 0
    if unit == "end" and end <= now:
        yield from delivery(end, idle=False)


@pytest.mark.parametrize("seed", seeds(120))
def test_rows_of_an_output_clause(seed: int) -> None:
    random = Random(seed)
    context, unit = random.choice([*CONTEXTS]), random.choice(("events", "msec", "end"))
    context = "short" if unit == "end" else context
    after_unit = random.choice(("events", "msec"))
    after = random.choice((0, 0, 0, 2 if after_unit == "events" else 2500)) if unit != "end" else 0
    every = random.choice((1, 2, 3) if unit == "events" else (700, 1000, 2000))
    clause = Clause(random.choice(("", "all", "last", "first", "snapshot")), unit, every, after, after_unit)
    statement = Statement(context, random.random() < 0.5, random.choice((0, 1, 3)), clause)
    runtime = Runtime()
    runtime.deploy(f"create schema A(n int, k string, x int); {CONTEXTS[context]} {statement.epl}")
    rows: list[Row] = []
    runtime.statement("q").add_listener(
        lambda delta: rows.extend((delta.time, *row.values()) for row in delta.insert or ())
    )
    now, events = 0, []
    gaps = random.choice(((0, 0, 300, 1000), (0, 500, 2500), (1000,), (100, 5000)))
    for n in range(random.choice((3, 10, 30))):
        now += random.choice(gaps)
        events.append({"t": now, "n": n, "k": random.choice("ab"), "x": random.randrange(5)})
        runtime.advance(now, stepping=True)
        runtime.send("A", {name: events[-1][name] for name in "nkx"})
    now += random.choice((0, 1000, 6000))
    runtime.advance(now, stepping=True)
    expected = [row for life in partitions(events, context) for row in rows_of(statement, life, now)]
    assert sorted(rows) == sorted(expected), statement.epl


@pytest.mark.parametrize("rate", ["every 1 sec", "every 2 events", "when count_insert > 1", "at (*, *, *, *, *, *)"])
def test_the_last_rows_after_a_period(rate: str) -> None:
    runtime = Runtime()
    runtime.deploy(f"create schema A(x int); @name('q') select x from A output after 2 sec last {rate}")
    rows: list[Any] = []
    runtime.statement("q").add_listener(lambda delta: rows.extend(row["x"] for row in delta.insert or ()))
    for x in range(5):
        runtime.advance(1000 * x + 500, stepping=True)
        runtime.send("A", {"x": x})
    assert rows and set(rows) <= {2, 3, 4}
