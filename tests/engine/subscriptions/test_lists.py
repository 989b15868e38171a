"""Several lists in one filter take as many nodes of the filter index as they have constants, not their product."""

from __future__ import annotations

import random
import time
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.subscriptions.filter_index import FilterIndexNode
from tests.engine.sinks import Deltas
from tests.random_cases import seeds

SCHEMA = "create schema E(a int, b int, c int, d double, k string)"
CONDITIONS = [
    "{name} in ({values})",
    "{name} in ({values})",
    "{name} = {low}",
    "{name} between {low} and {high}",
    "{name} > {low}",
    "({name} = {low} or {name} = {high})",
    "({name} in ({values}) or d > {high})",
    "not {name} in ({values})",
]


def nodes(runtime: Runtime) -> int:
    """The nodes of the index of `E`."""
    remaining, count = [runtime.routes._type_index("E").index.root], 0
    while remaining:
        node: FilterIndexNode = remaining.pop()
        count += 1
        remaining += (below for table in node.equal.values() for below in table.values())
        remaining += (item for forest in node.ranges.values() for items, _ in forest._trees for item in items.values())
    return count


def numbers(values: range) -> str:
    return ", ".join(map(str, values))


@pytest.mark.parametrize("bounds", ["", ", d > {i}, a > -1, b > -1, c > -1"])
def test_nodes_grow_with_the_constants(bounds: str) -> None:
    runtime, rows = Runtime(), Deltas()
    runtime.deploy(SCHEMA)
    start = time.process_time()
    for i in range(8):
        lists = f"a in ({numbers(range(i, i + 100))}), b in ({numbers(range(99))}), c in ({numbers(range(100))})"
        runtime.deploy(f"@name('s{i}') select a from E({lists}{bounds.format(i=i)})")
        runtime.statement(f"s{i}").add_sink(rows)
    runtime.send("E", {"a": 3, "b": 98, "c": 99, "d": 8.0})
    assert len(rows) == 4
    runtime.send("E", {"a": 3, "b": 99, "c": 99, "d": 8.0})
    assert len(rows) == 4
    assert nodes(runtime) <= 1 + 2 * 8 * 100
    assert time.process_time() - start < 5  # with a node for each combination it takes minutes


@pytest.mark.histories
@pytest.mark.parametrize("seed", seeds(8))
def test_rules_with_lists_deliver_what_each_delivers_alone(seed: int) -> None:
    rng = random.Random(seed)
    together, alone = Runtime(), list[tuple[Runtime, Deltas, Deltas]]()
    together.deploy(SCHEMA)
    for number in range(12):
        runtime, sinks = Runtime(), (Deltas(), Deltas())
        runtime.deploy(SCHEMA)
        epl = f"@name('s{number}') select * from E({', '.join(condition(rng) for _ in range(rng.randint(1, 5)))})"
        for other, sink in zip((together, runtime), sinks, strict=True):
            other.deploy(epl)
            other.statement(f"s{number}").add_sink(sink)
        alone.append((runtime, *sinks))
    for _ in range(100):
        event: dict[str, Any] = {name: rng.choice([0, 1, 2, 3, 4, None]) for name in "abc"}
        event["d"] = rng.choice([0.5, 2.0, None])
        for runtime in (together, *(runtime for runtime, _, _ in alone)):
            runtime.send("E", dict(event))
    for _, among_others, by_itself in alone:
        assert [delta.insert for delta in among_others] == [delta.insert for delta in by_itself]
    assert any(by_itself for _, _, by_itself in alone)


def condition(rng: random.Random) -> str:
    low, high = sorted((rng.randrange(5), rng.randrange(5)))
    values = ", ".join(str(rng.randrange(5)) for _ in range(rng.randint(1, 4)))
    return rng.choice(CONDITIONS).format(name=rng.choice("abc"), low=low, high=high, values=values)
