"""Relations of intervals in statements against their definitions, on random intervals and thresholds."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime

Interval = tuple[int, int]
Definition = Callable[..., bool]


def up_to(distance: int, limits: tuple[int, ...]) -> bool:
    """Of one limit the most, of two the least and the most."""
    return all(distance <= most for most in limits[-1:]) and all(distance >= least for least in limits[:-1])


def beyond(distance: int, limits: tuple[int, ...]) -> bool:
    if not limits:
        return distance > 0
    return min(limits) <= distance and (len(limits) == 1 or distance <= max(limits))


def off(distance: int, limits: tuple[int, ...]) -> bool:
    return abs(distance) <= (limits[0] if limits else 0)


def inside(a: Interval, b: Interval, *t: int) -> bool:
    first, last = a[0] - b[0], b[1] - a[1]
    start, end = (t[:2], t[2:]) if len(t) == 4 else (t, t)
    return first > 0 and last > 0 and up_to(first, start) and up_to(last, end)


def across(a: Interval, b: Interval, *t: int) -> bool:
    return sorted((a[0], b[0], a[1], b[1])) == [a[0], b[0], a[1], b[1]] and (
        len({a[0], b[0], a[1], b[1]}) == 4 and up_to(a[1] - b[0], t)
    )


RELATIONS: dict[str, tuple[tuple[int, ...], Definition]] = {
    "before": ((0, 1, 2), lambda a, b, *t: beyond(b[0] - a[1], t)),
    "after": ((0, 1, 2), lambda a, b, *t: beyond(a[0] - b[1], t)),
    "coincides": ((0, 1, 2), lambda a, b, *t: off(a[0] - b[0], t[:1]) and off(a[1] - b[1], t[-1:])),
    "during": ((0, 1, 2, 4), inside),
    "includes": ((0, 1, 2, 4), lambda a, b, *t: inside(b, a, *t)),
    "finishes": ((0, 1), lambda a, b, *t: a[0] > b[0] and off(a[1] - b[1], t)),
    "finishedBy": ((0, 1), lambda a, b, *t: a[0] < b[0] and off(a[1] - b[1], t)),
    "meets": ((0, 1), lambda a, b, *t: off(b[0] - a[1], t)),
    "metBy": ((0, 1), lambda a, b, *t: off(a[0] - b[1], t)),
    "overlaps": ((0, 1, 2), across),
    "overlappedBy": ((0, 1, 2), lambda a, b, *t: across(b, a, *t)),
    "starts": ((0, 1), lambda a, b, *t: a[1] < b[1] and off(a[0] - b[0], t)),
    "startedBy": ((0, 1), lambda a, b, *t: a[1] > b[1] and off(a[0] - b[0], t)),
}
FORMS = [(name, count) for name, (counts, _) in RELATIONS.items() for count in counts]
SCHEMA = """create schema X(s {type}, e {type}) starttimestamp s endtimestamp e;
create schema Y(s long, e long, t0 long, t1 long, t2 long, t3 long) starttimestamp s endtimestamp e;"""


def related(type_: str) -> tuple[Runtime, list[Any]]:
    """Of each Y the columns of all relations with the X before it."""
    runtime, rows = Runtime(), list[Any]()
    columns = [
        f"x.{name}({', '.join(['y', *(f'y.t{i} milliseconds' for i in range(count))])}) as {name}{count}"
        for name, count in FORMS
    ]
    runtime.deploy(f"{SCHEMA.format(type=type_)} @name('out') select {', '.join(columns)} from Y as y unidirectional,"
                   " X#lastevent as x")  # fmt: skip
    runtime.statement("out").add_listener(lambda delta: rows.extend(delta.insert))
    return runtime, rows


def drawn(draw: Random, length: int = 0) -> Interval:
    start = draw.randrange(12)
    return start, start + draw.randrange(length, 8)


@pytest.mark.parametrize("seed", range(3))
def test_relations_are_as_defined(seed: int) -> None:
    draw = Random(seed)
    runtime, rows = related("long")
    for _ in range(250):
        a, b = drawn(draw), drawn(draw)
        t = [draw.randrange(7) for _ in range(4)]
        runtime.send("X", {"s": a[0], "e": a[1]})
        runtime.send("Y", {"s": b[0], "e": b[1]} | {f"t{i}": each for i, each in enumerate(t)})
        found = rows[-1]
        for name, count in FORMS:
            wanted = RELATIONS[name][1](a, b, *t[:count])
            assert found[f"{name}{count}"] is wanted, f"{a}.{name}({b}, {t[:count]})"


def test_of_two_intervals_one_relation_holds() -> None:
    """Allen's algebra: of intervals that are no moments exactly one of the thirteen."""
    draw = Random("Allen")
    runtime, rows = related("long")
    for _ in range(200):
        a, b = drawn(draw, 1), drawn(draw, 1)
        runtime.send("X", {"s": a[0], "e": a[1]})
        runtime.send("Y", {"s": b[0], "e": b[1], "t0": 0, "t1": 0, "t2": 0, "t3": 0})
        assert sum(rows[-1][f"{name}0"] for name in RELATIONS) == 1, (a, b)


def test_with_a_null_none_is_known() -> None:
    runtime, rows = related("long")
    runtime.send("X", {"s": 1, "e": None})
    runtime.send("Y", {"s": 1, "e": 2, "t0": 0, "t1": 0, "t2": 0, "t3": 0})
    assert set(rows[-1].values()) == {None}
