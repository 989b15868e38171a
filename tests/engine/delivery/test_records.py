"""Slices that leave a statement as records: several rows of an event, those of what leaves, what the clock makes."""

from __future__ import annotations

import pytest

from tests.engine.replay.test_causes import Plain, Tracing
from tests.engine.slices import replayed, running

SCHEMA = "create schema E(k string, x int, y double); create context Each partition by k from E;"
# two or three at one instant, so that as many leave together; a gap in which everything leaves
TIMES = [100 * (i - i % 3) + i // 30 * 2000 for i in range(60)]
EVENTS = [
    {"k": "abc"[i * i % 3], "x": None if i % 5 == 3 else i % 9, "y": i / 4 - 3, "at": at} for i, at in enumerate(TIMES)
]
STATEMENTS = (
    "select irstream k, x from E#length(3)",
    "select irstream k, x from E#time(500 msec)",
    "select irstream * from E#length(2)",
    "select irstream *, x + 1 as more from E#time(300 msec)",
    "select rstream k, x from E#length(2)",
    "select rstream k, count(*) as n from E#time(500 msec) group by k",
    "select irstream k, x from E#unique(k)",
    "select irstream k, x from E#groupwin(k)#time(400 msec)",
    "select irstream k, x from E#length(4)#time(500 msec)",
    "select irstream x, y from E#time_accum(150 msec)",
    "select irstream k, avg(y) as a from E#ext_timed(y, 1 msec)",
    "select sum(x) as s, avg(y) as a from E#time(500 msec)",
    "select irstream sum(x) as s from E#length(3) where x > 2",
    "select irstream avg(y) as a from E#time(500 msec) having avg(y) > 1",
    "select irstream k, sum(x) as s from E#length(3)",
    "select k, sum(x) as s, avg(y) as a from E#length(4) group by k",
    "select irstream k, sum(x) as s, count(*) as n from E#length(4) group by k",
    "select k, sum(x) as s from E#time(500 msec) group by k",
    "select irstream k, sum(y) as s, max(x) as m from E#time(500 msec) group by k having count(*) > 1",
    "select irstream k, sum(x) as s from E#time(500 msec) where x != 4 group by k",
    "select irstream k, maxever(x) as m, first(x) as f from E#time(300 msec) group by k",
    "select irstream k, x, sum(y) as s from E#time(500 msec) group by k",
    "select irstream k, sum(x) as s, sum(x, group_by: x) as own from E#time(400 msec) group by k",
    "select irstream k, x, count(*) as n from E#time(400 msec) group by rollup(k, x)",
    "select irstream k, prev(1, x) as before, current_timestamp as t from E#time(400 msec)",
    "select irstream k, fails(x) as f from E#length(3)",
    "select irstream k, fails(x) as f from E#time(500 msec)",
    "select k, fails(count(*)) as f from E#time(500 msec) group by k",
    "select irstream k, fails(sum(x)) as f from E#length(3) group by k",
    "select irstream k, sum(cast(fails(x), int)) as s from E#time(400 msec) group by k",
    "context Each select irstream k, x, sum(y) as s from E#length(2)",
    "context Each select irstream k, count(*) as n from E#time(500 msec)",
)


@pytest.mark.parametrize("epl", STATEMENTS)
def test_replayed_is_as_sent(epl: str) -> None:
    sent, one_by_one, one_feed, told = running(SCHEMA, epl)
    for event in EVENTS:
        sent.send("E", {name: event[name] for name in ("k", "x", "y")}, event["at"])
    assert len(one_by_one) > 10
    for size, stops in ((1, False), (7, False), (100, False), (7, True)):
        other, in_slices, feed, told_too = running(SCHEMA, epl)
        replayed(other, EVENTS, size, stops)
        assert in_slices == one_by_one
        assert feed.snapshot() == one_feed.snapshot()
        assert (feed.total_insert, feed.total_remove) == (one_feed.total_insert, one_feed.total_remove)
        assert told_too == told and bool(told) == ("fails" in epl)
        assert other.state("s") == sent.state("s")
        if not told:
            assert other.iterate("s") == sent.iterate("s")


@pytest.mark.parametrize("epl", STATEMENTS)
def test_who_asks_for_causes_gets_the_same_records(epl: str) -> None:
    runtime, deltas, *_ = running(SCHEMA, epl)
    tracing, plain = Tracing(), Plain()
    runtime.statement("s").add_sink(tracing)
    runtime.statement("s").add_sink(plain)
    replayed(runtime, EVENTS, 13)
    assert tracing.flat == plain.flat
    assert len(tracing.causes) == len(deltas) > 10
    alone, only, *_ = running(SCHEMA, epl)
    replayed(alone, EVENTS, 13)
    assert only == deltas


def test_no_list_of_rows_is_made_for_an_event() -> None:
    written = {
        "select irstream k, x from E#length(3)": False,
        "select k, sum(x) as s from E#length(4) group by k having sum(x) > 3": False,
        "select irstream k, sum(x) as s from E#time(500 msec) group by k": False,
        "context Each select irstream k, x from E#length(2)": False,
        "select irstream k, x from E#length(3) order by x": True,
        "select irstream k, x from E#length_batch(3)": True,
        "select irstream k, x from E#length(3) output every 2 events": True,
    }
    for epl, rows in written.items():
        text = running(SCHEMA, epl)[0].statement("s").program.text
        loop = text[text.index("def run(") :].partition("\ndef ")[0]
        assert ("push(now" in loop) is rows, epl
        assert ("def expire(" in text) is ("#time" in epl), epl
