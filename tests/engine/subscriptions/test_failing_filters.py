"""A filter that fails for an event, or a row of a named window, does not let it pass, and all else goes on."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.errors import StatementError
from cepbook.lang.types import INT
from tests.engine.invariants import invariant_violations
from tests.engine.sinks import Deltas
from tests.random_cases import seeds

SCHEMA = """create schema A(x int, k string); create schema B(x int, k string);
create window W#length(3) as A; insert into W select * from A;
create context C initiated by A({x, 2}) as a terminated by B({a.x, x});
create context G group {x, 2} as even, group {x, 1} as uneven from A;
"""
# what stands in braces holds where the sum of both is even; with 13 it fails, or does not hold
STATEMENTS = [
    "select a.x as ax, b.x as bx from pattern [every a=A -> b=B({a.x, x})]",
    "select a.x as ax, b.x as bx from pattern [every (a=A and b=B({x, 1}))]",
    "select a.x as ax, b.x as bx from pattern [every a=A -> b=B and not A({a.x, x})]",
    "select a[0].x as ax, b.x as bx from pattern [every [2] a=A({x, 2}) until b=B]",
    "context C select context.a.x as ax, count(*) as c from B",
    "context G select context.label as l, count(*) as c from A",
    "select x, (select count(*) from B#length(3) where {x, 2}) as n from A",
    "select x, exists (select * from B({x, 2})#time(2 sec)) as n from A",
    "on B({x, 2}) as b select w.x as x from W as w order by w.x",
    "on W({x, 2}) as w select count(*) as c from W",
    "select irstream x, sum(x) as s from W({x, 2})",
    "select irstream sum(x) as s, count(*) as c from W({x, 2})",
    "select irstream k, count(*) as c from W({x, 2}) group by k",
    "select irstream sum(w.x) as s, count(*) as c from W({x, 2}) as w, B#length(2) as b",
    "select x, (select sum(x) from W({x, 2})) as n from B",
    "select x, (select sum(x) from W where {x, 2}) as n from B",
]


def even(a: int, b: int) -> int:
    if 13 in (a, b):
        raise ValueError("unlucky")
    return (a + b) % 2


def written(epl: str, *, fails: bool) -> str:
    while "{" in epl:
        head, _, rest = epl.partition("{")
        inside, _, tail = rest.partition("}")
        a, b = inside.split(", ")
        test = f"even({a}, {b}) = 0" if fails else f"{a} != 13 and {b} != 13 and ({a} + {b}) % 2 = 0"
        epl = f"{head}{test}{tail}"
    return epl


def run(statement: str, seed: int, *, fails: bool) -> list[Any]:
    """What each event delivers."""
    draw, runtime, deltas = random.Random(seed), Runtime(), Deltas()
    runtime.register_function("even", even, returns=INT)
    runtime.add_error_listener(lambda failure: None)
    runtime.deploy(written(f"{SCHEMA} @name('s') {statement}", fails=fails))
    runtime.statement("s").add_sink(deltas)
    found: list[Any] = []
    for number in range(draw.randint(4, 25)):
        runtime.advance(runtime.now + draw.choice((0, 0, 500, 1000)))
        runtime.send(draw.choice("AB"), {"x": draw.choice((1, 2, 3, 4, 13)), "k": draw.choice("ab")})
        found += [(number, each.time, each.insert, each.remove) for each in deltas]
        deltas.clear()
    assert not invariant_violations(runtime)
    return found


@pytest.mark.parametrize("statement", STATEMENTS)
def test_as_if_the_filter_did_not_hold(statement: str) -> None:
    for seed in seeds(6):
        assert run(statement, seed, fails=True) == run(statement, seed, fails=False), seed


def test_a_query_by_hand_fails() -> None:
    """It has no answer that would be true."""
    runtime = Runtime()
    runtime.register_function("even", even, returns=INT)
    runtime.deploy(written(SCHEMA, fails=False))
    for x in (2, 13, 4):
        runtime.send("A", {"x": x, "k": "a"})
    for query in ("select x from W(even(x, 2) = 0)", "select x from W where x in (select x from W(even(x, 2) = 0))"):
        with pytest.raises(StatementError, match="unlucky"):
            runtime.query(query)


JOINED = [
    "select irstream count(*) as c, sum(b.x) as s from A{window} as a, B{window} as b where <a.x, b.x>",
    "select irstream a.k as k, count(*) as c from A{window} as a, B{window} as b where <a.x, b.x> group by a.k",
    "select irstream a.x as x, b.x as y from A{window} as a, B{window} as b where a.k = b.k and <a.x, b.x>",
    "select count(*) as c from A{window} as a, B{window} as b, A#length(2) as d where <a.x, b.x> and <d.x, b.x>",
    "select irstream count(*) as c from W as w, B{window} as b where <w.x, b.x>",
]


@pytest.mark.parametrize("window", ["#length(1)", "#length(2)", "#unique(k)", "#time(2 sec)"])
@pytest.mark.parametrize("statement", JOINED)
def test_a_combination_that_fails_is_none(statement: str, window: str) -> None:
    """All combinations of an event for which one fails are made, and leave when they should."""
    epl = statement.replace("{window}", window).replace("<", "{").replace(">", "}")
    for seed in seeds(6):
        assert run(epl, seed, fails=True) == run(epl, seed, fails=False), seed
