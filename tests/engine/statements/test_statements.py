"""Whatever is written: a diagnostic or a statement that runs, the same event by event and replayed."""

from __future__ import annotations

from collections import Counter
from random import Random
from typing import Any

import pytest

from cepbook.errors import BindError
from tests.engine.generated_statements import SCHEMA, Module, Statements
from tests.engine.histories import Run, comparable
from tests.random_cases import part

pytestmark = pytest.mark.histories

ROUNDS = range(12)
EACH = 40


def started(module: Module) -> tuple[Run, list[str]] | None:
    """A runtime with the module, and where its failures go; None if the module is refused."""
    try:
        run = Run(module.epl)
    except BindError:
        return None
    failures: list[str] = []
    run.runtime.add_error_listener(lambda e: failures.append(str(e).splitlines()[0]))
    return run, failures


def read(run: Run) -> Any:
    """What the iterator and inspection tell, but for timers: a replay looks less often than the clock."""
    rows, states = run.readings()["s"]
    return rows, comparable([{name: value for name, value in s.items() if name != "next_timer"} for s in states])


@pytest.mark.parametrize("number", ROUNDS)
def test_replayed_and_event_by_event(number: int) -> None:
    """The only failure that these statements have is a timestamp that is null."""
    ran = 0
    for seed in (drawn := part(range(number * EACH, (number + 1) * EACH))):
        draw = Statements(seed)
        module, events = draw.module(), draw.events()
        sent, replayed = started(module), started(module)
        if sent is None or replayed is None:
            assert sent is replayed
            continue
        ran += 1
        sent[0].send(events)
        replayed[0].replay(events, [draw.random.randint(1, 39) for _ in range(2)])
        assert all("is null" in failure for failure in sent[1]), module.epl
        for _ in range(2):
            assert sorted(sent[1]) == sorted(replayed[1]), module.epl
            assert sent[0].deliveries == replayed[0].deliveries, module.epl
            assert read(sent[0]) == read(replayed[0]), module.epl
            until = sent[0].runtime.now + 100_000
            sent[0].runtime.advance(until)
            replayed[0].runtime.advance(until)
    assert ran > len(drawn) / 2


def test_what_entered_and_did_not_leave_is_held() -> None:
    """Insert minus remove stream is what the iterator shows."""
    compared = 0
    for seed in range(100_000, 104_000):
        draw = Statements(seed)
        module = draw.module()
        run = started(module) if module.contents else None
        if run is None:
            continue
        run[0].send(draw.events())
        if run[1]:
            continue
        compared += 1
        held: Counter[str] = Counter()
        for _, insert, remove in run[0].deliveries["s"]:
            held.update(map(repr, insert or []))
            held.subtract(map(repr, remove or []))
        assert +held == Counter(repr(comparable(row)) for row in run[0].runtime.iterate("s")), module.epl
        assert min(held.values(), default=0) >= 0, module.epl
    assert compared > 25


@pytest.mark.parametrize("number", ROUNDS)
def test_aggregates_are_those_of_the_contents(number: int) -> None:
    """Grouped or not, an aggregate is what a calculation from scratch over the iterator's events gives."""
    compared = 0
    for seed in part(range(200_000 + number * EACH, 200_000 + (number + 1) * EACH)):
        draw = Statements(seed)
        windows, count, derived = draw.windows()
        if not count or derived or "batch" in windows:
            continue
        keys, group = ("k, ", " group by k") if draw.chance(0.5) else ("", "")
        run = started(
            Module(
                f"{SCHEMA};create variable int N = 3;create variable long P = 1;create variable boolean GO = false;"
                f"@name('all') select * from E{windows};@name('s') select {keys}count(*) as c, sum(x) as s,"
                f"min(x) as lo, max(x) as hi, count(distinct x) as n, window(x) as w from E{windows}{group}",
                False,
            )
        )
        if run is None:
            continue
        compared += 1
        for event in draw.events(25):
            run[0].send([event])
            if run[1]:
                break
            assert_recomputed(run[0], bool(group), windows)
    assert compared > 2


def assert_recomputed(run: Run, grouped: bool, windows: str) -> None:
    """Compare the rows of ``s`` with the events of ``all``; the order of ``window`` is not that of every iterator."""
    groups: dict[Any, list[Any]] = {} if grouped else {None: []}
    for row in run.runtime.iterate("all"):
        groups.setdefault(row["k"] if grouped else None, []).append(row["x"])
    expected = {}
    for key, values in groups.items():
        known = [v for v in values if v is not None]
        extremes = (min(known), max(known)) if known else (None, None)
        total = sum(known) if known else None
        expected[key] = (len(values), total, *extremes, len(set(known)), Counter(values))
    found = {
        row.get("k"): (row["c"], row["s"], row["lo"], row["hi"], row["n"], Counter(row["w"] or []))
        for row in run.runtime.iterate("s")
    }
    assert found == expected, windows


def test_deploying_again_and_again_keeps_nothing() -> None:
    """What a statement registered is gone with it: timers, listeners of variables, routes, partitions."""
    runtime = Run(f"{SCHEMA};create variable int N = 3;create variable boolean GO = false").runtime
    statements = (
        "select irstream k, sum(x) as s from E#time(1 sec) group by k output every N events",
        "select x from E#expr(current_count < N)",
        "select x from E output when GO then set N = 3",
        "create context Each partition by k from E; context Each select x, prev(1, x) as p from E#time_batch(1 sec)",
        "select max(x) as m from E#time_batch(1 sec, 'START_EAGER') output at (*, *, *, *, *)",
        "insert into C select k, x from E#unique(k); select * from C#sort(2, x)",
    )
    random = Random(1)
    for number in range(60):
        runtime.deploy(statements[number % len(statements)], deployment_id="m")
        for _ in range(3):
            runtime.send("E", {"k": random.choice("abc"), "x": 1})
        runtime.set_variable("N", 2)
        runtime.undeploy("m")
    assert runtime.next_due is None
    assert all(not variable.listeners for variable in runtime.variables.values())
    assert [*runtime.deployments] == ["schema", "main"]
