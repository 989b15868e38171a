"""Running queries that mean what an EPL statement means: the same rows on random histories of single events."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.registry.cycles import CYCLE_AGGREGATES
from cepbook.lang.syntax.source_text import SourceText
from tests.engine.cycles.naive import same
from tests.random_cases import seeds

pytestmark = pytest.mark.histories

# (running query, EPL): what is new is the insert stream, what is dead the remove stream
SAME = {
    "length": ("store last {n}) as w where w.$row_status is new", "select istream id, v from s#length({n})"),
    "length_leaves": ("store last {n}) as w where w.$row_status is dead", "select rstream id, v from s#length({n})"),
    "time": ("store last {n}0 milliseconds) as w where w.$row_status is new", "select id, v from s#time({n}0 msec)"),
    "time_leaves": (
        "store last {n}0 milliseconds) as w where w.$row_status is dead",
        "select rstream id, v from s#time({n}0 msec)",
    ),
    "filtered": (
        "store last {n} where v > 3) as w where w.$row_status is new",
        "select id, v from s(v > 3)#length({n})",
    ),
    "groups": (
        "by k store last {n}) as w where w.$row_status is dead",
        "select rstream id, v from s#groupwin(k)#length({n})",
    ),
    "max_new": (
        "store last {n}0 milliseconds max {n}) as w where w.$row_status is new",
        "select id, v from s#time({n}0 msec)#length({n})",
    ),
    "max_leaves": (
        "store last {n}0 milliseconds max {n}) as w where w.$row_status is dead",
        "select rstream id, v from s#time({n}0 msec)#length({n})",
    ),
    "latest": ("store latest {n}) as w where w.$row_status is new", "select id, v from s#lastevent"),
    "random": ("store random {n}) as w where w.$row_status is new", "select id, v from s#random({n})"),
    "random_leaves": (
        "store random {n}) as w where w.$row_status is dead",
        "select rstream id, v from s#random({n})",
    ),
    "timestamps": (
        "store last {n}0 milliseconds) as w where w.$row_status is new and v > 2",
        "select id, v from s#time({n}0 msec) where v > 2",
    ),
}


def sent(runtime: Runtime, draw: random.Random) -> None:
    values = draw.sample(range(1000), 40)
    for number in range(40):
        if draw.random() < 0.4:
            runtime.advance(runtime.now + draw.randint(1, 25), stepping=draw.random() < 0.5)
        runtime.send("s", {"id": number, "k": draw.choice("abc"), "v": values[number] / 100})
    runtime.advance(runtime.now + 1000)


def runtime_with(query: str, epl: str) -> Runtime:
    runtime = Runtime()
    runtime.deploy("create schema s(id long, k string, v double)")
    runtime.deploy(f"@name('e') {epl}")
    runtime.deploy(SourceText(query, "streamcruncher", {"name": "q"}))
    return runtime


@pytest.mark.histories
@pytest.mark.parametrize("name", SAME)
def test_same_rows(name: str) -> None:
    for seed in seeds(15):
        draw = random.Random(seed)
        size = draw.randint(1, 6)
        query, epl = (text.format(n=size) for text in SAME[name])
        runtime = runtime_with(f"select id, v from s (partition {query}", epl)
        rows: dict[str, list[Any]] = {"q": [], "e": []}
        for each, found in rows.items():
            runtime.statement(each).add_listener(lambda delta, found=found: found.extend(delta.insert or ()))
        sent(runtime, draw)
        assert rows["q"] == rows["e"], (seed, name)


@pytest.mark.parametrize(("word", "order"), [("highest", "desc"), ("lowest", "asc")])
@pytest.mark.parametrize(
    ("window", "epl"),
    [("using v", "sort({n}, v {order})"), ("using v with update group k", "rank(k, {n}, v {order})")],
)
def test_same_contents_as_a_sorted_window(word: str, order: str, window: str, epl: str) -> None:
    for seed in seeds(15):
        draw = random.Random(seed)
        size = draw.randint(1, 6)
        query = f"select id, v from s (partition store {word} {size} {window}) as w where w.$row_status is not dead"
        runtime = runtime_with(query, f"select id, v from s#{epl.format(n=size, order=order)}")
        sent(runtime, draw)
        held, wanted = (sorted(runtime.iterate(name), key=lambda row: int(row["id"])) for name in "qe")
        assert held == wanted, seed


AGGREGATES = {
    "avg": "avg(v)",
    "count": "count(*)",
    "geomean": "geomean(v)",
    "kurtosis": "kurtosis(v)",
    "max": "max(v)",
    "median": "median(v)",
    "min": "min(v)",
    "skewness": "skewness(v)",
    "stddev": "coalesce(stddev(v), 0.0)",  # of a single value 0
    "sum": "sum(v)",
    "sumsq": "sumsq(v)",
    "variance": "coalesce(variance(v), 0.0)",
}


@pytest.mark.parametrize("name", CYCLE_AGGREGATES)
def test_same_aggregates(name: str) -> None:
    """A row for each cycle that changes the aggregate: what a statement gives that leaves out what is the same."""
    for seed in range(12):
        draw = random.Random(seed)
        size = draw.randint(1, 6)
        query = f"select a from s (partition store last {size} with {name}(v) as a) as w where w.$row_status is new"
        runtime = runtime_with(query, f"select {AGGREGATES[name]} as a from s#length({size})")
        rows: dict[str, list[Any]] = {"q": [], "e": []}
        for each, found in rows.items():
            runtime.statement(each).add_listener(
                lambda delta, found=found: found.extend(row["a"] for row in delta.insert or ())
            )
        sent(runtime, draw)
        changed = [value for at, value in enumerate(rows["e"]) if not at or value != rows["e"][at - 1]]
        assert len(rows["q"]) == len(changed) and all(map(same, rows["q"], changed)), (seed, name)
