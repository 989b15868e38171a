"""Rows that `on delete` takes out of a named window: they leave its state at once, and never again by the window."""

from __future__ import annotations

import random

import pytest

from cepbook.engine.delivery.delta import Delta
from cepbook.engine.runtime import Runtime
from tests.engine.invariants import invariant_violations

WINDOWS = [
    *("keepall", "length(3)", "time(2 sec)", "unique(k)", "sort(3, x)", "rank(k, 2, x)", "lastevent", "firstevent"),
    *("firstlength(3)", "firsttime(3 sec)", "firstunique(k)", "ext_timed(ts, 2 sec)", "time_order(ts, 2 sec)"),
    *("timetolive(ts + 2000)", "time_accum(1 sec)", "expr(current_count <= 3)", "expr(sum(x) < 12)", "random(3, 1L)"),
    *("groupwin(k)#length(2)", "groupwin(k)#time(2 sec)", "length(4)#unique(k)", "time(3 sec)#length(3)"),
    *("length(3)#unique(k) retain-union", "time(1 sec)#length(2) retain-union"),
]
BATCHES = [
    *(
        "length_batch(3)",
        "time_batch(2 sec)",
        "time_length_batch(2 sec, 3)",
        "session(1 sec)",
        "expr_batch(sum(x) > 9)",
    ),
    *("ext_timed_batch(ts, 2 sec)", "gated_time(2 sec, 1 sec)", "gated_length(3, 2)", "groupwin(k)#length_batch(2)"),
]


@pytest.mark.parametrize("window", WINDOWS + BATCHES)
def test_deleted_rows_leave_once(window: str) -> None:
    runtime, draw = Runtime(), random.Random(window)
    name, _, union = window.partition(" ")
    runtime.deploy(
        "create schema E(id int, k string, x int, ts long); create schema D(id int);"
        f"create window W#{name} {union} as E; insert into W select * from E;"
        "on D as d delete from W where W.id = d.id; @name('s') select irstream id from W"
    )
    entered, left, deleted = list[int](), list[int](), set[int]()

    def note(delta: Delta) -> None:
        entered.extend(row["id"] for row in delta.insert or ())
        left.extend(row["id"] for row in delta.remove or ())

    runtime.statement("s").add_listener(note)
    for id_ in range(30):
        now = runtime.now + draw.choice((0, 300, 700, 1200))
        runtime.advance(now)
        runtime.send("E", {"id": id_, "k": draw.choice("ab"), "x": draw.randrange(6), "ts": now})
        rows = [row["id"] for row in runtime.iterate("W")]
        assert not deleted & {*rows}
        assert runtime.state("W")[0]["retained"] >= len(rows)
        if window in WINDOWS:
            assert sorted(rows) == sorted({*entered} - {*left})
            assert runtime.state("W")[0]["retained"] == len(rows)
        if rows and draw.random() < 0.4:
            for gone in draw.sample(rows, min(len(rows), draw.choice((1, 1, 3)))):
                runtime.send("D", {"id": gone})
                deleted.add(gone)
                assert gone not in [row["id"] for row in runtime.iterate("W")]
        assert invariant_violations(runtime) == []
    runtime.advance(runtime.now + 10_000)
    assert len(deleted) > 2
    assert len(entered) == len({*entered}) and len(left) == len({*left}) and {*left} <= {*entered}
    assert deleted & {*entered} <= {*left}
