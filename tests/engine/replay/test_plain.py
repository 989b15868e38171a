"""Slices that leave a statement as columns: each event is a delivery of one insert row, those that fail are none."""

from __future__ import annotations

import pytest

from cepbook.engine.delivery.delta import InsertColumns
from cepbook.engine.vectorized.column_batch import ColumnBatch
from cepbook.feeds import Feed
from tests.engine.sinks import Deltas
from tests.engine.slices import replayed, running

SCHEMA = "create schema E(k string, x int, y double);"
EVENTS = [{"k": "ab"[i % 2], "x": None if i % 5 == 3 else i, "y": i / 4, "at": 100 * i} for i in range(40)]
STATEMENTS = (
    "select k, x from E#length(3)",
    "select x, k, sum(x) as s from E#length(3)",
    "select k, sum(x) as s, count(x) as n, count(*) as m, avg(y) as a from E#time(500 msec) group by k",
    "select k, count(*) as n, avg(x) as a, min(y) as low from E#groupwin(k)#length(3) group by k",
    "select avg(x) as a, y * 2 as z from E#keepall",
    "select k, count(x) as n, countever(x) as e from E#unique(k) group by k",
    "select current_timestamp as t, 1 as one, k from E#lastevent",
    "select k, sum(x) as s from E#ext_timed(x, 300 msec) group by k",  # null is an error of the event
    "select k, fails(x) as f, sum(x) as s from E#length(2)",
    "select fails(x) as f, k, x + 1 as more, fails(x + 1) as g from E#time(300 msec) group by k, x",
    "select k, x from E",
    "select k, x from E(x > 6)",
    "select 1 as one, x from E(x > 6, y < 9)",
    "select k, x, fails(x) as f from E(y > 1)",
    "select k, sum(x) as s, fails(x) as f from E(k = 'a')#length(3)",
    "select k, sum(x) as s, count(*) as n from E(y > 1)#time(300 msec) group by k",
    "select k, prev(1, x) as before from E(x != 5)#length(3)",
    "select k, prior(1, x) as before from E(x != 5)",
    "select k from E(x is null)",
)


@pytest.mark.parametrize("epl", STATEMENTS)
@pytest.mark.parametrize("size", [1, 7, 100])
def test_replayed_is_as_sent(epl: str, size: int) -> None:
    sent, one_by_one, one_feed, told = running(SCHEMA, epl)
    for event in EVENTS:
        sent.send("E", event, event["at"])
    other, in_slices, feed, told_too = running(SCHEMA, epl)
    replayed(other, EVENTS, size)
    assert in_slices == one_by_one
    assert feed.snapshot() == one_feed.snapshot()
    assert feed.total_insert == one_feed.total_insert
    assert told_too == told
    if "fails" not in epl:
        assert other.iterate("s") == sent.iterate("s")
    assert other.state("s") == sent.state("s")


@pytest.mark.parametrize("size", [1, 7, 100])
def test_a_chain_takes_columns_on(size: int) -> None:
    chain = (
        "insert into D select k, x, sum(x) as s from E#length(2); "
        "@name('t') select k, s, count(*) as n, fails(s) as f from D#length(4) group by k;"
        "@name('u') select istream * from D(s > 5)"
    )
    found = []
    for one_by_one in (True, False):
        runtime, deltas, _, errors = running(SCHEMA, chain)
        others = [Deltas(), Deltas()]
        for name, sink in zip("tu", others, strict=True):
            runtime.statement(name).add_sink(sink)
        if one_by_one:
            for event in EVENTS:
                runtime.send("E", event, event["at"])
        else:
            replayed(runtime, EVENTS, size)
        found.append((deltas, others, errors))
    assert found[0] == found[1]


def test_what_makes_no_single_row_of_each_event_makes_records() -> None:
    written = {
        "select k from E": True,
        "select k from E(x > 0)": True,
        "select k from E(fails(x) > 0)": False,
        "select k from E(current_timestamp > 0)": False,
        "select k from E where x > 0": True,  # as a filter
        "select * from E": False,
        "select irstream k from E#length(2)": False,
        "select k from E#time(1 sec)": True,
        "select sum(x) as s from E#time(1 sec)": False,  # the clock delivers rows
        "select k, sum(x) as s from E#length(2) group by k": False,  # another group may change
        "select distinct k from E": False,
        "select k from E output last every 2 events": False,
        "select rstream k from E#length(2)": False,
    }
    for epl, plain in written.items():
        runtime, *_ = running(SCHEMA, epl)
        text = runtime.statement("s").program.text
        loop = text[text.index("def run(") :].partition("\ndef ")[0]
        assert ("return kept" in loop) is plain, epl


def test_records_of_columns() -> None:
    assert InsertColumns([5, 6], (["a", "b"], [1, 2])).flat == [0, 5, "a", 1, 0, 6, "b", 2]


def test_a_feed_takes_columns_between_records() -> None:
    feed = Feed(5)
    told: list[int] = []
    feed.describe(("k", "x"), lambda row: dict(zip("kx", row, strict=True)))
    feed.one((0, 1, "a", 1))
    feed.subscribe(lambda: told.append(1))
    feed.extend_columns([2, 3], [["b", "c"], [2, 3]])
    feed.one((0, 4, "d", 4))
    feed.extend_columns([], [[], []])
    assert len(told) == 1
    assert [(d.number, d.time, d.insert) for d in feed.snapshot()] == [
        (i, i + 1, [{"k": "abcd"[i], "x": i + 1}]) for i in range(4)
    ]
    feed.extend_columns([5, 6, 7], [["e"] * 3, [5, 6, 7]])
    assert [d.time for d in feed.snapshot()] == [3, 4, 5, 6, 7]
    assert (feed.total_insert, feed.dropped, len(told)) == (7, 2, 2)


def test_a_slice_shares_its_columns_and_readers_of_feeds_get_their_own() -> None:
    runtime, _, feed, _ = running(SCHEMA, "select k, x from E#length(2)")
    ks, xs = ["a", "b"], [1, 2]
    runtime.batch(["E"]).run([ColumnBatch("E", [1, 2], {"k": ks, "x": xs})])
    feed.columns().column("x").append(3)
    assert xs == [1, 2] == feed.columns().column("x")
