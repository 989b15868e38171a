"""Many statements with ranges over one stream deliver what each delivers alone, in the order of deployment."""

from __future__ import annotations

import math
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cepbook.engine.replay import batch_replayer
from cepbook.engine.runtime import Runtime
from cepbook.engine.subscriptions.intervals import Interval, IntervalTree
from cepbook.engine.vectorized.array_columns import ArrayColumns
from cepbook.engine.vectorized.column_batch import ColumnBatch
from tests.engine.histories import array_of
from tests.engine.sinks import Deltas
from tests.random_cases import several

SCHEMA = "create schema E(at long, i int, n long, d double, big biginteger, s string)"
# bounds as EPL, with values of events at them, beside them and far away
BOUNDS: dict[str, tuple[list[str], list[Any]]] = {
    "i": (["0", "1", "2", "3", "-2147483647"], [-(2**31) + 1, -1, 0, 1, 2, 3, 4]),
    "n": (["0", "2", "9007199254740992L", "9007199254740993L"], [0, 1, 2, 3, 2**53, 2**53 + 1, 2**53 + 2, 2**62]),
    "d": (
        ["0", "1", "1.5", "2.0", "-0.0", "1e308", "0.1"],
        [-math.inf, -0.0, 0.0, 0.1, 0.1 + 0.2, 1.0, 1.5, 1.75, 2.0, 1e308, math.inf, math.nan, 1, 2],
    ),
    "big": (["0", "2", "9007199254740993L"], [-1, 0, 1, 2, 3, 2**53, 2**53 + 1, 10**30]),
    "s": (["'a'", "'ab'", "'b'", "'é'", "''"], ["", "A", "a", "aa", "ab", "abc", "b", "c", "é", "z"]),
}
COMPARISONS = ("{p} {lt} {a}", "{a} {lt} {p}", "{p} {lt} {b} and {p} {gt} {a}", "{a} {lt} {p}, {b} {gt} {p}")
RANGES = (
    "between {a} and {b}",
    "in [{a}:{b}]",
    "in ({a}:{b}]",
    "in [{a}:{b})",
    "in ({a}:{b})",
    "not between {a} and {b}",
)
STATEMENTS = (
    "select * from E({0})",
    "select {1} as x from E({0})#length(2)",
    "select e.at as x from pattern [every e=E({0})]",
    "select f.at as x from pattern [every e=E({0}) -> f=E({0})]",
)


def condition(rng: Random) -> str:
    """One or two ranges of a property, perhaps beside a condition of another kind."""
    p = rng.choice([*BOUNDS])
    texts = [f"{p} {text}" for text in RANGES] + [*COMPARISONS]
    form = rng.choice(texts if rng.random() < 0.8 else [f"i = 1, {text}" for text in texts])
    a, b = rng.choices(BOUNDS[p][0], k=2)
    return form.format(p=p, a=a, b=b, lt=rng.choice(("<", "<=")), gt=rng.choice((">", ">=")))


def statement(rng: Random) -> str:
    conditions = ", ".join(condition(rng) for _ in range(rng.choice((1, 1, 2))))
    return rng.choice(STATEMENTS).format(conditions, rng.choice([*BOUNDS]))


def event(rng: Random, at: int) -> dict[str, Any]:
    values = {name: rng.choice(values) if rng.random() < 0.9 else None for name, (_, values) in BOUNDS.items()}
    return {"at": at, **values}


Delivered = list[tuple[int, str, str]]


class Rules:
    """A runtime whose statements report (number of the event, name, rows) of their deliveries."""

    def __init__(self) -> None:
        self.runtime = Runtime()
        self.runtime.deploy(SCHEMA)
        self.sinks: dict[str, Deltas] = {}
        self.called: Delivered = []

    def add(self, name: str, epl: str, *, listen: bool) -> None:
        self.runtime.deploy(f"@name('{name}') {epl}", deployment_id=name)
        if listen:
            self.runtime.statement(name).add_listener(
                lambda delta: self.called.append((delta.time, name, repr(delta.insert)))
            )
        else:
            self.sinks[name] = Deltas()
            self.runtime.statement(name).add_sink(self.sinks[name])

    def send(self, event: dict[str, Any]) -> None:
        self.runtime.advance(event["at"])
        self.runtime.send("E", dict(event))

    def replay(self, events: list[dict[str, Any]]) -> None:
        batch = self.runtime.batch(["E"])
        columns = {name: array_of([event[name] for event in events]) for name in batch.columns["E"]}
        clock = array_of([event["at"] for event in events])
        arrays = ArrayColumns([*columns], columns.__getitem__, clock, slice(0, len(events)))
        batch.run([ColumnBatch("E", [event["at"] for event in events], arrays)])

    def by_sinks(self, name: str) -> Delivered:
        return [(delta.time, name, repr(delta.insert)) for delta in self.sinks[name]]


@pytest.mark.parametrize("by_events", [True, False], ids=["event loop", "statement pass"])
@pytest.mark.parametrize("seed", range(several(4)))
def test_many_ranges_deliver_what_each_delivers_alone(
    seed: int, by_events: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_replayer, "event_loop_pays", lambda *_: by_events)
    rng, at = Random(seed), 0
    together, replayed = Rules(), Rules()
    alone: dict[str, Rules] = {}
    running, numbers_of_rules = list[str](), iter(range(1000))
    for _ in range(4):
        for name in rng.sample(running, len(running) // 4):
            together.runtime.undeploy(name)
            replayed.runtime.undeploy(name)
            running.remove(name)
        for number in (next(numbers_of_rules) for _ in range(15)):
            name, epl = f"s{number}", statement(rng)
            together.add(name, epl, listen=True)
            replayed.add(name, epl, listen=False)
            alone[name] = Rules()
            alone[name].add(name, epl, listen=True)
            alone[name].runtime.advance(at)
            running.append(name)
        events = [event(rng, at := at + 1) for _ in range(30)]
        for each in events:
            together.send(each)
            for name in running:
                alone[name].send(each)
        replayed.replay(events)
    expected = sorted((at, int(name[1:]), name, rows) for rules in alone.values() for at, name, rows in rules.called)
    assert together.called == [(at, name, rows) for at, _, name, rows in expected]
    for name, rules in alone.items():
        assert replayed.by_sinks(name) == rules.called, name
    assert expected


@pytest.mark.parametrize("value", ["text", [1]])
def test_a_value_of_another_type_fails_in_each_statement_and_reaches_the_others(value: object) -> None:
    runtime, called, failures = Runtime(), list[str](), list[str]()
    runtime.add_error_listener(lambda error: failures.append(error.statement))
    runtime.deploy(SCHEMA)
    conditions = [f"d between {n} and {n + 1}" for n in range(6)] + ["i = 1", "i = 2"]
    for number, text in enumerate(conditions):
        runtime.deploy(f"@name('s{number}') select * from E({text})")
        runtime.statement(f"s{number}").add_listener(lambda delta, name=f"s{number}": called.append(name))
    runtime.send("E", {"d": value, "i": 2})
    assert failures == [f"s{number}" for number in range(6)]
    assert called == ["s7"]


numbers = st.integers(-3, 3) | st.sampled_from([-0.0, 0.5, 2.5, math.inf, -math.inf, 2.0**53, 2**53 + 1, 10**30])
intervals = st.builds(
    lambda low, high: low & high,
    st.just(Interval()) | st.builds(Interval.where, st.sampled_from([">", ">="]), numbers),
    st.just(Interval()) | st.builds(Interval.where, st.sampled_from(["<", "<="]), numbers),
)


@given(st.lists(intervals, max_size=30), numbers)
def test_a_tree_finds_the_intervals_that_contain_a_value(chosen: list[Interval], value: float) -> None:
    tree = IntervalTree({interval: interval for interval in chosen})
    expected = {
        interval
        for interval in chosen
        if (interval.low is None or interval.low < (value, 0.5))
        and (interval.high is None or (value, 0.5) < interval.high)
    }
    assert len(tree.containing(value)) == len(expected) and {*tree.containing(value)} == expected


def test_nested_intervals_take_little_memory_and_few_steps() -> None:
    count = 10_000
    nested = {Interval.where(">", n) & Interval.where("<", 2 * count - n): n for n in range(count)}
    tree = IntervalTree(nested)
    assert sum(map(len, tree._nodes)) < 2 * count * math.log2(2 * count)
    assert sorted(tree.containing(count)) == [*range(count)]
    assert tree.containing(0.5) == [0]
    assert tree.containing(0) == tree.containing(2 * count) == []
