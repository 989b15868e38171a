"""Running queries that mean what an EPL statement means: the same rows on random histories of single events."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.lang.text import Text

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
    runtime.deploy(Text(query, "streamcruncher", {"name": "q"}))
    return runtime


@pytest.mark.histories
@pytest.mark.parametrize("name", SAME)
def test_same_rows(name: str) -> None:
    for seed in range(40):
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
def test_same_contents_as_a_sorted_window(word: str, order: str) -> None:
    for seed in range(40):
        draw = random.Random(seed)
        size = draw.randint(1, 6)
        query = f"select id, v from s (partition store {word} {size} using v) as w where w.$row_status is not dead"
        runtime = runtime_with(query, f"select id, v from s#sort({size}, v {order})")
        sent(runtime, draw)
        held, wanted = (sorted(runtime.iterate(name), key=lambda row: int(row["id"])) for name in "qe")
        assert held == wanted, seed
