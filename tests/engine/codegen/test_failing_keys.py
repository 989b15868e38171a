"""A key of a group that fails for an event: the event is in no group, which is told once, and no other group moves."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.engine.config import Config
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.lang.types import INT
from tests.engine.invariants import invariant_violations
from tests.engine.sinks import Deltas
from tests.random_cases import seeds

WINDOWS = [
    "",
    "#length(2)",
    "#length(3)",
    "#time(2 sec)",
    "#unique(x)",
    "#sort(2, x)",
    "#groupwin(k)#length(1)",
    "#length(3)#time(1 sec)",
]
SELECTS = [
    "{key} as g, count(*) as c, sum(x) as s from E{window} group by {key}",
    "irstream {key} as g, x, count(*) as c from E{window} group by {key}",
    "k, {key} as g, count(*) as c from E{window} group by rollup(k, {key})",
    "x, sum(x, group_by: {key}) as s from E{window}",
    "sum(x, group_by: {key}) as s, count(*, group_by: ()) as c from E{window} where x < 15",
]
UNLUCKY = 13


def unlucky(value: int) -> int:
    if value == UNLUCKY:
        raise ValueError("unlucky")
    return value % 2


def history(seed: int) -> list[tuple[int, dict[str, Any]]]:
    draw, now, found = random.Random(seed), 0, []
    for _ in range(draw.randint(4, 25)):
        now += draw.choice((0, 0, 500, 1000, 2100))
        found.append((now, {"x": draw.choice((1, 2, 3, 4, UNLUCKY)), "k": draw.choice("ab")}))
    return found


def rows(runtime: Runtime, events: list[tuple[int, dict[str, Any]]]) -> list[Any]:
    """What each event, and the clock before it, delivers, but for events that fail."""
    deltas, found = Deltas(), []
    runtime.statement("s").add_sink(deltas)
    for now, event in events:
        runtime.advance(now)
        found += [(now, each.insert, each.remove) for each in deltas]
        deltas.clear()
        runtime.send("E", dict(event))
        if event["x"] != UNLUCKY:
            found += [(now, each.insert, each.remove) for each in deltas]
        deltas.clear()
    assert not invariant_violations(runtime)
    return found


def deployed(select: str, failures: list[Any]) -> Runtime:
    runtime = Runtime(config=Config(iterable_unbound=True))
    runtime.register_function("odd", unlucky, returns=INT)
    runtime.add_error_listener(failures.append)
    runtime.deploy(f"create schema E(x int, k string); @name('s') select {select}")
    return runtime


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("select", SELECTS)
def test_as_without_the_event(select: str, window: str) -> None:
    """Groups are what they are where the where-clause, which is behind the window too, keeps the event out."""
    for seed in seeds(5):
        events, failures = history(seed), list[Any]()
        failing = select.format(window=window, key="odd(x)")
        where = f"where x != {UNLUCKY} and" if "where" in select else f"where x != {UNLUCKY}"
        kept_out = select.format(window=window, key="x % 2").replace("where", "")
        head, group, tail = kept_out.partition(" group by ")
        head, more, condition = head.partition(f"E{window}")
        expected = rows(deployed(f"{head}{more} {where} {condition}{group}{tail}", []), events)
        assert rows(deployed(failing, failures), events) == expected, (failing, seed)
        assert len(failures) == sum(event["x"] == UNLUCKY for _, event in events)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize(
    "select",
    [
        "x, count(*) as c from E{window} where {where}",
        "irstream x, k, sum(x) as s from E{window} where {where} group by k",
        "irstream k, count(*) as c from E{window} where {where} group by k",
        "irstream count(*) as c, sum(x) as s from E{window} where {where}",
        "k, count(*) as c from E{window} where {where} group by rollup(k)",
        "x, sum(x, group_by: k) as s from E{window} where {where}",
    ],
)
def test_a_condition_that_fails_does_not_hold(select: str, window: str) -> None:
    for seed in seeds(5):
        events, failures = history(seed), list[Any]()
        expected = rows(deployed(select.format(window=window, where=f"x != {UNLUCKY}"), []), events)
        failing = select.format(window=window, where="odd(x) >= 0")
        assert rows(deployed(failing, failures), events) == expected, (failing, seed)
        assert len(failures) == sum(event["x"] == UNLUCKY for _, event in events)


@pytest.mark.parametrize("window", ["#length(2)", "#time(2 sec)", "#length_batch(2)"])
def test_replayed_as_sent(window: str) -> None:
    for seed in seeds(4):
        events = history(seed)
        found: list[Any] = []
        for replayed in (False, True):
            failures: list[Any] = []
            runtime = deployed(SELECTS[0].format(window=window, key="odd(x)"), failures)
            deltas = Deltas()
            runtime.statement("s").add_sink(deltas)
            if replayed:
                columns = {name: [event[name] for _, event in events] for name in ("x", "k")}
                runtime.batch(["E"]).run([ColumnBatch("E", [now for now, _ in events], columns)])
            else:
                for now, event in events:
                    runtime.advance(now)
                    runtime.send("E", dict(event))
            found.append(([(d.time, d.insert) for d in deltas], len(failures)))
        assert found[0] == found[1]
