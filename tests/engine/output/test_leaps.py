"""`output first every …` and `output after …` decide by the time at which a row is due, so a leap of the clock delivers
the rows of a clock that stops at each due time. They come in one delivery.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from cepbook.engine.delivery.delta import Delta
from cepbook.engine.runtime import Runtime

_MODULE = """
create schema E(g string, x int);
create context K partition by g from E;
@name('out') """
_PERIODS = (300, 700, 1500, 2500)


def _delivered(epl: str, seed: int, *, stepping: bool) -> tuple[Counter[str], Counter[str]]:
    draw = random.Random(seed)
    runtime = Runtime()
    runtime.deploy(_MODULE + epl.format(period=draw.choice(_PERIODS)))
    inserted, removed = Counter[str](), Counter[str]()

    def add(delta: Delta) -> None:
        inserted.update(map(str, delta.insert or ()))
        removed.update(map(str, delta.remove or ()))

    runtime.statement("out").add_listener(add)
    now = 0
    for x in range(12):
        now += draw.choice((0, 100, 250, 600, 1100, 3300))
        runtime.advance(now, stepping=stepping)
        runtime.send("E", {"g": draw.choice("ab"), "x": x})
    runtime.advance(now + 9000, stepping=stepping)
    return inserted, removed


@pytest.mark.parametrize(
    "epl",
    [
        "select irstream x from E#time(2 sec) output first every {period} msec",
        "select irstream g, x, sum(x) as s from E#time(2 sec) group by g output first every {period} msec",
        "select g, count(*) as n from E#time(2 sec) group by rollup(g) having count(*) > 0 output first every 700 msec",
        "select irstream x from E#time_batch(1 sec) output first every {period} msec",
        "select irstream x from E#time(2 sec) output after 3 sec first every {period} msec",
        "select irstream x from E#time(2 sec) output after 5 sec",
        "select irstream x, current_timestamp as t from E#time(2 sec) output first at (*, *, *, *, *, */3)",
        "context K select irstream x, sum(x) as s from E#time(2 sec) output first every {period} msec",
        "select irstream a.x, b.x from E#time(2 sec) a, E#time(3 sec) b where a.g = b.g output first every 700 msec",
        "select a.x as x from pattern [every a=E -> timer:interval(1 sec)] output first every {period} msec",
    ],
)
def test_a_leap_delivers_the_rows_of_a_clock_that_steps(epl: str) -> None:
    for seed in range(5):
        leaping, stepping = (_delivered(epl, seed, stepping=stepping) for stepping in (False, True))
        assert leaping == stepping, seed
