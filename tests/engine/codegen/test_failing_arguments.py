"""An aggregate whose argument fails for an event: the event counts where it can, and leaves as it came."""

from __future__ import annotations

from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.lang.types import INT
from tests.engine.sinks import Deltas

VALUES = [1, 2, 13, 3, 4, 5]


def unlucky(value: int) -> int:
    if value == 13:
        raise ValueError("unlucky")
    return value


def run(select: str, *, replayed: bool) -> tuple[list[Any], list[Any], int]:
    """Insert rows, iterator at the end, number of failures."""
    runtime = Runtime()
    runtime.register_function("boom", unlucky, returns=INT)
    runtime.deploy(f"create schema E(x int, k string); @name('s') {select}")
    failures: list[Any] = []
    runtime.add_error_listener(failures.append)
    deltas = Deltas()
    runtime.statement("s").add_sink(deltas)
    if replayed:
        slice_ = ColumnBatch("E", [0] * len(VALUES), {"x": VALUES, "k": ["a"] * len(VALUES)})
        runtime.batch(["E"]).run([slice_])
    else:
        for value in VALUES:
            runtime.send("E", {"x": value, "k": "a"})
    return [delta.insert for delta in deltas], runtime.iterate("s"), len(failures)


EXPECTED = {
    # of events 13, 3 the sum knows only the 3; when 13 leaves nothing is taken out
    "select count(*) as c, sum(boom(x)) as s from E#length(2)": [(1, 1), (2, 3), (2, 3), (2, 7), (2, 9)],
    "select count(*) as c, sum(boom(x)) as s from E#length(2) group by k": [(1, 1), (2, 3), (2, 3), (2, 7), (2, 9)],
    "select count(*) as c, sum(boom(x)) as s from E": [(1, 1), (2, 3), (4, 6), (5, 10), (6, 15)],
    "select count(*) as c, sum(x, boom(x) > 0) as s from E#length(2)": [(1, 1), (2, 3), (2, 3), (2, 7), (2, 9)],
    "select count(*) as c, sum(x) as s, minby(boom(x)) as m from E#length(2)": [
        *((1, 1), (2, 3), (2, 16), (2, 7), (2, 9)),
    ],
    "select count(*) as c, sum(x) as s, maxbyever(boom(x)) as m from E": [(1, 1), (2, 3), (4, 19), (5, 23), (6, 28)],
    "select count(*, group_by:()) as c, sum(boom(x), group_by:k) as s from E#length(2)": [
        *((1, 1), (2, 3), (2, 3), (2, 7), (2, 9)),
    ],
    "select count(*) as c, sum(boom(x)) as s from E#length_batch(2)": [(2, 3), (2, 9)],
}


@pytest.mark.parametrize("replayed", [False, True], ids=["sent", "replayed"])
@pytest.mark.parametrize("select", EXPECTED)
def test_the_event_counts_where_it_can(select: str, replayed: bool) -> None:
    rows, _, failures = run(select, replayed=replayed)
    assert [(row["c"], row["s"]) for delivery in rows for row in delivery] == EXPECTED[select]
    assert failures == 1


@pytest.mark.parametrize("select", [*EXPECTED, "select x from E#expr(sum(boom(x)) < 9)"])
def test_replayed_as_sent(select: str) -> None:
    assert run(select, replayed=True) == run(select, replayed=False)
