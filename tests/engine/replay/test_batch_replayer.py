"""The batch entry gives exactly the deliveries of events sent one by one, however a history is cut into slices."""

from __future__ import annotations

import gc
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cepbook.engine.vectorized.column_batch import ColumnBatch
from tests.engine.histories import Event, Recorder, Run, histories, slices
from tests.random_cases import in_part, several

ONE_TYPE = {
    "filter": "@name('s') select k, x + 1 as y from A(g = 1, x > 0)",
    "where": "@name('s') select * from A where x between 0 and 2 or d is null",
    "wildcard_and_expression": "@name('s') select *, x * 2.5 as y from A(k in ('a', 'b'))",
    "unbound_aggregates": "@name('s') select irstream count(*) as c, sum(x) as s, min(d) as lo, max(x) as hi from A",
    "unbound_rstream": "@name('s') select rstream count(*) as c from A",
    "unbound_groups": "@name('s') select irstream k, avg(d) as m, count(x) as c from A group by k",
    "unbound_having": "@name('s') select irstream k, sum(x) as s from A group by k having sum(x) > 2",
    "keepall": "@name('s') select irstream k, x, sum(x) as s from A#keepall",
    "length": "@name('s') select irstream k, x from A#length(3)",
    "length_aggregates": "@name('s') select irstream sum(d) as s, avg(x) as m, first(x) as a, last(k) as b"
    " from A#length(3)",
    "length_indexed": "@name('s') select x, first(x, 1) as a, last(x, 1) as b from A#length(3)",
    "length_distinct": "@name('s') select irstream count(distinct x) as c, sum(distinct x) as s, sum(x, g = 1) as p"
    " from A#length(4)",
    "length_where": "@name('s') select irstream k, sum(x) as s from A#length(3) where x > 0 group by k",
    "methods": "@name('s') select irstream k, window(*).where(e => e.x > 0).selectFrom(e => e.k) as w,"
    " window(x).sumOf() as s, prevwindow(x).takeWhile(v => v > 0) as p from A(k in ('a', 'b'))#length(3)",
    "same_event": "@name('s') select x, window(*).countOf(w => event_identity_equals(w, e)) as n,"
    " event_identity_equals(e, prev(1, e)) as p from A#length(3) as e",
    "time": "@name('s') select irstream k, x from A#time(1 sec)",
    "time_rstream": "@name('s') select rstream k, x from A.win:time(1 sec)",
    "time_sum": "@name('s') select irstream sum(x) as s, count(*) as c from A#time(1 sec)",
    "time_istream_sum": "@name('s') select sum(x) as s from A#time(1 sec)",
    "time_groups": "@name('s') select irstream k, sum(x) as s, max(d) as m from A#time(1 sec) group by k",
    "time_row_per_event": "@name('s') select irstream k, x, sum(x) as s from A#time(2 sec)"
    " group by k having sum(x) > 1",
    "length_batch": "@name('s') select irstream k, x from A#length_batch(3)",
    "length_batch_sum": "@name('s') select irstream sum(x) as s from A#length_batch(3)",
    "length_batch_groups": "@name('s') select irstream k, count(*) as c from A#length_batch(4) group by k order by k",
    "length_batch_ordered": "@name('s') select x, k from A#length_batch(4) order by x desc, k limit 2",
    "time_batch": "@name('s') select irstream k, x from A#win:time_batch(1 sec)",
    "time_batch_sum": "@name('s') select irstream count(*) as c, sum(x) as s from A#time_batch(1 sec)",
    "time_batch_forced": "@name('s') select k from A#time_batch(1 sec, 300L, 'FORCE_UPDATE')",
    "time_batch_eager": "@name('s') select irstream sum(x) as s from A#time_batch(1 sec, 'FORCE_UPDATE, START_EAGER')",
    "time_batch_distinct": "@name('s') select irstream distinct k from A#time_batch(2 sec)",
    "unique": "@name('s') select irstream k, x from A#unique(k)",
    "unique_sum": "@name('s') select irstream sum(x) as s, count(*) as c from A#std:unique(k, g)",
    "lastevent": "@name('s') select irstream k, x from A#lastevent",
    "lastevent_groups": "@name('s') select irstream k, sum(x) as s from A#lastevent group by k order by k",
    "groupwin_length": "@name('s') select irstream k, x, sum(x) as s from A#groupwin(k)#length(2)",
    "groupwin_time": "@name('s') select irstream k, x from A#groupwin(g)#time(1 sec)",
    "groupwin_time_sum": "@name('s') select irstream g, sum(x) as s from A#groupwin(g)#time(1 sec)"
    " group by g order by g",
    "groupwin_length_batch": "@name('s') select irstream k, x from A#groupwin(k)#length_batch(2)",
    "groupwin_time_batch": "@name('s') select irstream g, count(*) as c from A#groupwin(g)#time_batch(1 sec)"
    " group by g order by g",
    "context": "create context P partition by k from A;"
    "@name('s') context P select irstream context.id as id, context.key1 as key, x, sum(x) as s from A#length(2)",
    "context_unbound": "create context P partition by k and g from A;"
    "@name('s') context P select irstream count(*) as c, avg(d) as m from A",
    "context_time": "create context P partition by k from A(x is not null);"
    "@name('s') context P select irstream k, x from A#time(1 sec);"
    "@name('t') context P select irstream context.id as id, sum(x) as s from A#time(1 sec) group by g order by g",
    "context_batches": "create context P partition by k from A;"
    "@name('s') context P select irstream k, count(*) as c from A#time_batch(1 sec)",
    "chain": "@name('s') insert into C select k, x from A(g > 0);"
    "@name('t') select irstream k, sum(x) as s from C#time(1 sec) group by k order by k;"
    "@name('u') select irstream * from C#length_batch(2)",
    "chain_of_batches": "@name('s') insert into C select k, count(*) as c from A#time_batch(1 sec)"
    " group by k order by k;"
    "@name('t') select irstream sum(c) as s from C#length(2)",
    "chain_of_removed": "@name('s') insert rstream into C select rstream k, x from A#time(1 sec);"
    "@name('t') select irstream k from C#time(1 sec)",
    "chain_into_context": "@name('s') insert into C select k, x from A;"
    "create context P partition by k from C;"
    "@name('t') context P select irstream sum(x) as s from C#time(2 sec)",
    "self": "@name('s') insert into A select k, g, x - 1 as x, n, d, f from A(x > 0);@name('t') select x from A",
    "several": "@name('s') select count(*) as c from A#time(1 sec);"
    "@name('t') select irstream k from A#time_batch(500 msec);@name('u') select x from A(x = 1)",
    "now": "@name('s') select irstream x, current_timestamp as t from A#time(1 sec)",
    "now_filter": "@name('s') select x, current_timestamp() as t from A(current_timestamp % 2 = 0 or x > 2)",
    "now_aggregated": "@name('s') select irstream sum(x) as s, max(current_timestamp) as m, current_timestamp as t"
    " from A#time(2 sec)",
    "now_batch": "@name('s') select irstream x, current_timestamp as t from A#time_batch(1 sec)",
    "now_chain": "@name('s') insert into C select k, x, current_timestamp as c from A#time_batch(1 sec);"
    "@name('t') select irstream c, current_timestamp as t from C#time(1 sec)",
    "now_context": "create context P partition by g from A;"
    "@name('s') context P select irstream x, current_timestamp as t, context.key1 as g from A#time(1 sec)",
    "first_last": "@name('s') select first(x) as a, last(x) as b, first(k) as c from A",
    "group_by_expression": "@name('s') select irstream x % 2 as odd, count(*) as c from A#time(2 sec)"
    " group by x % 2 order by x % 2",
    "sorted_time": "@name('s') select irstream distinct k, g from A#time(1 sec) order by g desc, k limit 2",
    "case": "@name('s') select case when x > 1 then 'big' when x is null then null else 'small' end as size"
    " from A#length(2) where k is not null",
    "context_of_hashes": "create context P coalesce by consistent_hash_crc32(k, x) from A granularity 3;"
    "@name('s') context P select irstream k, x from A#time(1 sec);"
    "@name('t') context P select irstream count(*) as c, sum(x) as s from A#time(2 sec)",
    "context_of_categories": "create context P group x < 2 as lo, group x > 0 as hi, group k = 'a' as a from A;"
    "@name('s') context P select irstream context.label as l, x from A#time(1 sec);"
    "@name('t') context P insert into C select k, sum(x) as x from A#length(3) group by k;"
    "@name('u') select irstream k, x from C#length(2)",
    "two_contexts": "create context P partition by k from A;create context Q partition by g, k from A(x > 0);"
    "@name('s') context P select irstream count(*) as c from A#length(2);"
    "@name('t') context Q select irstream context.id as id, sum(x) as s from A#time(1 sec)",
    "context_of_a_chain": "create context P partition by k from A;"
    "@name('s') context P insert into C select k, x, count(*) as c from A;"
    "@name('t') select irstream k, max(c) as m from C#unique(k)",
    "fan_out_and_in": "@name('s') insert into C select k, x from A(x > 0);"
    "@name('t') insert rstream into C select rstream k, x from A#time(1 sec);"
    "@name('u') insert into D select k, x from C;@name('v') insert into D select k, x from A#length_batch(2);"
    "@name('w') select irstream k, x from D#length(3);"
    "@name('y') select irstream k, count(*) as c from D#time(1 sec) group by k order by k",
    "fan_in_batches": "@name('s') insert into C select k, x from A#time_batch(1 sec);"
    "@name('t') insert irstream into C select irstream k, x from A#time_batch(500 msec);"
    "@name('u') select irstream k, x from C#length_batch(3);@name('v') select x, current_timestamp as now from C",
    "fan_in_priorities": "@name('s') @Priority(1) insert into C select k, x from A;"
    "@name('t') @Priority(2) insert into C select k, -x as x from A;@name('u') select irstream k, x from C#length(2)",
    "float_arithmetic": "@name('s') select f * 3 as y, f + n as z, sum(f) as s from A#length(2)",
    "output_events": "@name('s') select irstream k, x from A#length(2) output every 3 events;"
    "@name('t') select irstream sum(x) as s from A#time(1 sec) output last every 2 events;"
    "@name('u') select k, sum(x) as s from A group by k output all every 4 events;"
    "@name('v') select irstream k, sum(x) as s from A#length(4) group by k output first every 2 events;"
    "@name('w') select k, x from A#length(3) where x > 0 output snapshot every 3 events order by x, k",
    "output_time": "@name('s') select irstream k, x from A#time(2 sec) output every 1 sec;"
    "@name('t') select irstream count(*) as c from A#length_batch(3) output last every 700 msec;"
    "@name('u') select irstream k, sum(x) as s from A#time(1 sec) group by k having sum(x) > 0 output all every 1 sec;"
    "@name('v') select k, x, sum(x) as s from A#time(1 sec) group by k output all every 2 sec;"
    "@name('w') select k from A#time_batch(1 sec) output first every 3 sec",
    "output_snapshot": "@name('s') select irstream k, x from A#time(1 sec) output snapshot every 1 sec;"
    "@name('t') select k, count(*) as c from A group by k output snapshot every 3 sec order by k limit 2",
    "output_at": "@name('s') select count(*) as c from A output last at (*, *, *, *, *, */5);"
    "@name('t') select k from A#time(3 sec) output first at (*, *, *, *, *, [10, 40])",
    "output_when": "@name('s') select irstream x from A#length(1) output when count_remove >= 2;"
    "@name('t') select k, sum(x) as s from A group by k"
    " output last when last_output_timestamp + 2000 <= current_timestamp",
    "output_after": "@name('s') select irstream sum(x) as s from A output after 3 events;"
    "@name('t') select k from A#time(1 sec) output after 2 sec every 1 sec;"
    "@name('u') select k, count(*) as c from A group by k output after 2 events all every 2 events",
    "output_rollup": "@name('s') select irstream k, g, sum(x) as s from A#time(1 sec) group by rollup(k, g)"
    " output all every 1 sec;"
    "@name('t') select k, sum(x) as s from A group by rollup(k) output first every 2 events",
    "output_context": "create context P partition by k from A;"
    "@name('s') context P select irstream k, x from A#time(1 sec) output every 1 sec;"
    "@name('t') context P select k, sum(x) as s from A output last every 2 events;"
    "@name('u') context P select count(*) as c from A output snapshot every 3 sec",
    "output_chain": "@name('s') insert into C select k, sum(x) as x from A group by k output all every 1 sec;"
    "@name('t') select irstream k, x from C#length(2) output every 3 events",
}
TWO_TYPES = {
    "apart": "@name('s') select irstream sum(x) as s from A#time(1 sec);"
    "@name('t') select irstream k, x from B#time_batch(1 sec)",
    "merged": "@name('s') insert into C select k, x from A;@name('t') insert into C select k, x from B;"
    "@name('u') select irstream k, x from C#length(3)",
    "merged_timers": "@name('s') insert into C select k, x from A#time_batch(1 sec);"
    "@name('t') insert into C select k, x from B;"
    "@name('u') insert rstream into C select rstream k, x from B#time(1 sec);"
    "@name('v') select irstream k, x from C#length(3);"
    "@name('w') select irstream k, sum(x) as s from C#time(1 sec) group by k order by k",
    "merged_steps": "@name('s') insert into C select k, x from A;@name('t') insert into D select k, x from C(x > 0);"
    "@name('u') insert into D select k, x from B;@name('v') insert into D select k, x from A#length_batch(2);"
    "@name('w') select irstream k, x from D#length(3);@name('y') insert into E select count(*) as c from D;"
    "@name('z') select irstream c from E#time(500 msec)",
    "merged_with_replayed": "@name('s') insert into B select k, x from A(x > 0);"
    "@name('t') select irstream k, x from B#length(3);"
    "@name('u') select k, sum(x) as s from B#time(1 sec) group by k;@name('v') select * from B",
    "merged_into_context": "create context P partition by k from C;"
    "@name('s') insert into C select k, x from A#length_batch(2);@name('t') insert into C select k, x from B;"
    "@name('u') context P select irstream context.id as id, k, sum(x) as s from C#time(1 sec) group by k",
    "shared_context": "create context P partition by k from A, k from B;"
    "@name('s') context P select irstream context.id as id, sum(x) as s from A#time(1 sec);"
    "@name('t') context P select irstream context.id as id, count(*) as c from B#length(2)",
    "chained": "@name('s') insert into C select k, x from A#length_batch(2);"
    "@name('t') select irstream k, sum(x) as s from C#time(1 sec) group by k order by k;"
    "@name('u') select rstream * from B#lastevent",
    "groups": "@name('s') select irstream k, max(x) as m from B#groupwin(k)#time(1 sec) group by k order by k;"
    "@name('t') select count(*) as c from A#time(1 sec) having count(*) > 1",
}
INHERITED = {
    "base": "@name('s') select irstream k, x from A#time(1 sec);@name('t') select irstream z, x from Sub#length(2)",
    "sums": "@name('s') select irstream sum(x) as s, count(*) as c from A#time_batch(1 sec);"
    "@name('t') select * from Sub(x > 0)",
    "context": "create context P partition by k from A;"
    "@name('s') context P select irstream context.id as id, sum(x) as s from A#length(3);"
    "@name('t') context P select z from Sub",
}
CUTS = st.lists(st.integers(1, 40), max_size=4)


def same(epl: str, events: list[Event], cuts: list[int], rest: int, *, stepping: bool = False) -> None:
    """Send and replay `events`, then let time go on; deliveries, iterators and inspection must not differ.

    `stepping`: the clock stops whenever something is due.
    """
    sent, replayed, unheard = Run(epl), Run(epl), Run(epl, watched=False)
    sent.send(events, stepping=stepping)
    replayed.replay(events, cuts, stepping=stepping)
    unheard.replay(events, cuts, stepping=stepping)
    until = sent.runtime.now + rest
    assert replayed.runtime.now == sent.runtime.now
    assert replayed.deliveries == sent.deliveries
    assert replayed.readings() == sent.readings() == unheard.readings()
    assert replayed.runtime.next_due == sent.runtime.next_due
    for run in (sent, replayed, unheard):
        run.runtime.advance(until)
    assert replayed.deliveries == sent.deliveries
    assert replayed.readings() == sent.readings() == unheard.readings()


@pytest.mark.parametrize("name", ONE_TYPE)
def test_one_type(name: str) -> None:
    @settings(max_examples=several(5))
    @given(histories(("A",)), CUTS, st.sampled_from([0, 1000, 4000]))
    @in_part
    def check(events: list[Event], cuts: list[int], rest: int) -> None:
        same(ONE_TYPE[name], events, cuts, rest)

    check()


@pytest.mark.parametrize("name", TWO_TYPES)
def test_two_types(name: str) -> None:
    @settings(max_examples=several(8))
    @given(histories(("A", "B")), CUTS, st.sampled_from([0, 1000, 4000]))
    @in_part
    def check(events: list[Event], cuts: list[int], rest: int) -> None:
        same(TWO_TYPES[name], events, cuts, rest)

    check()


@pytest.mark.parametrize("name", INHERITED)
def test_a_type_and_its_subtype(name: str) -> None:
    @settings(max_examples=several(5))
    @given(histories(("A", "Sub")), CUTS, st.sampled_from([0, 1000, 4000]))
    @in_part
    def check(events: list[Event], cuts: list[int], rest: int) -> None:
        same(INHERITED[name], events, cuts, rest)

    check()


@pytest.mark.parametrize("name", [*ONE_TYPE, *TWO_TYPES])
def test_the_clock_stops_whenever_something_is_due(name: str) -> None:
    @settings(max_examples=several(5))
    @given(histories(("A", "B") if name in TWO_TYPES else ("A",)), CUTS, st.sampled_from([0, 1000]))
    @in_part
    def check(events: list[Event], cuts: list[int], rest: int) -> None:
        same({**ONE_TYPE, **TWO_TYPES}[name], events, cuts, rest, stepping=True)

    check()


@settings(max_examples=several(5))
@given(histories(("Sub",)), CUTS)
@in_part
def test_a_subtype_alone(events: list[Event], cuts: list[int]) -> None:
    for epl in INHERITED.values():
        same(epl, events, cuts, 1000)


@pytest.mark.parametrize("name", [*ONE_TYPE, *TWO_TYPES])
def test_slices_run_inside_the_generated_code(name: str) -> None:
    """Only statements that depend on each other's order take a slice together, and the batch says why."""
    types = ["A"] if name in ONE_TYPE else ["A", "B"]
    reason = Run({**ONE_TYPE, **TWO_TYPES}[name]).runtime.batch(types).reason
    assert reason == {"self": "`s` feeds itself"}.get(name)


@pytest.mark.parametrize(
    ("epl", "reason"),
    [
        (
            "create variable int V = 0; @name('s') select x from A output when count_insert > 1 then set V = 1",
            "`s` sets variables that others read",
        ),
        (
            "create variable boolean GO = true; @name('s') select x from A output when GO",
            "`s` has an output clause that depends on a variable",
        ),
    ],
)
def test_output_clauses_that_depend_on_the_order_of_statements(epl: str, reason: str) -> None:
    assert Run(epl).runtime.batch(["A"]).reason == reason


BETWEEN = (
    "create context P partition by k from A;create context Q partition by g from A;"
    "@name('r') insert into C select x from A;@name('s') context P insert into C select x + 10 as x from A;"
    "@name('t') context Q insert into {target} select sum(x) + 20 as x from A;"
    "@name('u') select irstream x, prev(1, x) as former from C#length(3)"
)


@settings(max_examples=several(10))
@given(histories(("A",)), CUTS)
@in_part
def test_the_first_event_of_a_partition_goes_ahead(events: list[Event], cuts: list[int]) -> None:
    """A new partition passes its first event on before the statements between its context and its statement."""
    epl = BETWEEN.format(target="C")
    same(epl, events, cuts, 0)
    assert Run(epl).runtime.batch(["A"]).reason == "context `P` passes the first event of a partition to `s` early"


def test_partitions_whose_rows_meet_no_others_need_no_event_loop() -> None:
    epl = BETWEEN.format(target="D").replace("@name('r') insert into C", "@name('r')")
    assert Run(epl).runtime.batch(["A"]).reason is None


@pytest.mark.histories
@pytest.mark.parametrize("name", [*ONE_TYPE, *TWO_TYPES])
def test_a_slice_leaves_nothing_to_the_collector(name: str) -> None:
    """What runs through a slice holds all of its rows: cycles in it would keep them until the collector comes."""
    epl, types = ({**ONE_TYPE, **TWO_TYPES}[name], ("A", "B") if name in TWO_TYPES else ("A",))
    runtime = Run(epl).runtime
    batch = runtime.batch(types)
    columns = {"k": ["a", "b"] * 5, "g": [1] * 10, "x": [1, 2] * 5, "n": [1] * 10, "d": [1.0] * 10, "f": [1.0] * 10}
    slices = [ColumnBatch(each, list(range(0, 10_000, 1000)), columns, range(i, 20, 2)) for i, each in enumerate(types)]
    batch.run(slices)
    gc.collect()
    gc.disable()
    gc.freeze()  # for good, as tests/conftest.py does: all modules and tests would be looked through again
    try:
        batch.run([ColumnBatch(s.type, [t + 10_000 for t in s.times], s.columns, s.ranks) for s in slices])
        assert gc.collect() == 0
    finally:
        gc.enable()


def test_a_listener_is_called_between_the_events() -> None:
    """Somebody who listens may look at other statements at once, so events come one by one."""
    run = Run("@name('s') select x from A;@name('t') select count(*) as c from A")
    seen: list[object] = []
    run.runtime.statement("s").add_listener(lambda delta: seen.append((delta.insert, run.runtime.iterate("t"))))
    assert run.runtime.batch(["A"]).reason == "`s` has a listener that is called one delivery at a time"
    event = {"k": "a", "g": 1, "n": 1, "d": 1.0, "f": 1.0}
    run.replay([Event(5, "A", {**event, "x": 1}), Event(6, "A", {**event, "x": 2})], [])
    assert seen == [([{"x": 1}], [{"c": 0}]), ([{"x": 2}], [{"c": 1}])]


@settings(max_examples=several(8))
@given(histories(("A", "B"), most=30), st.lists(st.integers(1, 30), max_size=3), st.integers(0, 2))
@in_part
def test_slices_and_single_events_mix(events: list[Event], cuts: list[int], which: int) -> None:
    """Some stretches of a history are replayed, the others sent."""
    epl = TWO_TYPES["chained"] + ";" + ONE_TYPE["time_groups"].replace("'s'", "'v'")
    sent, mixed = Run(epl), Run(epl)
    sent.send(events)
    bounds = sorted({0, len(events), *(c for c in cuts if c < len(events))})
    for number, (low, high) in enumerate(pairwise(bounds)):
        part = events[low:high]
        if number % 2 == which % 2:
            mixed.send(part)
        else:
            mixed.replay(part, [])
    assert mixed.deliveries == sent.deliveries
    assert mixed.readings() == sent.readings()


def test_a_window_that_may_be_due_at_once() -> None:
    """``sort`` takes the newest event away from ``time_accum``, which was due a second after the one before."""
    run = Run("@name('s') select irstream x from A#unique(k)#sort(1, x)#time_accum(1 sec)")
    assert run.runtime.batch(["A"]).reason == "`s` has a window whose next due time may move into the past"
    for epl in ("A#time_accum(1 sec)", "A#unique(k)#time_accum(1 sec) retain-union", "A#groupwin(k)#time_accum(1 sec)"):
        assert Run(f"select * from {epl}").runtime.batch(["A"]).reason is None


@pytest.mark.parametrize(
    "context",
    [
        "",
        "create context Z partition by k from A, k from C;",
        "create context Z group x < 2 as low, group x > 0 as high from A;",
    ],
)
@pytest.mark.parametrize(
    "epl",
    [
        "select irstream x from A#time(0 sec)",
        "select rstream x from A#time_accum(0 sec)",
        "select irstream x, count(*) as c from A#groupwin(k)#time(0 sec)#length(2)",
        "select irstream k, count(*) as c from A#time(0 sec) group by k",
        "create window W#time(0 sec) as A; insert into W select * from A; select irstream x from W",
    ],
)
def test_what_is_due_at_once_waits_for_the_next_stop_of_the_clock(epl: str, context: str) -> None:
    """Which may be that of an event that the statement does not read, or of none that is given."""
    given = {"k": "a", "g": 0, "n": 1, "d": 1.0, "f": 1.0}
    events = [Event(time, "A", {**given, "x": x}) for x, time in enumerate((10, 30, 30, 40))]
    others = [Event(time, "C", {"k": "c", "x": 1, "c": 1}) for time in (20, 35, 60)]
    both = sorted((*events, *others), key=lambda event: event.time)
    text = context + "; ".join(("context Z " if context else "") + each for each in epl.split("; "))
    sent = Run(text)
    sent.send(both)
    (*_, (last, *_)) = list(sent.deliveries.values())[-1]
    assert last == 60
    for cuts in ([], [1], [2], [4], [1, 2, 3, 4, 5]):
        replayed = Run(text)
        replayed.replay(both, cuts)
        assert replayed.deliveries == sent.deliveries, cuts
    alone = Run(text)
    batch = alone.runtime.batch(["A"])
    batch.run(slices(events, 0, batch.columns), sorted({event.time for event in both}))
    assert alone.deliveries == sent.deliveries


@pytest.mark.parametrize(
    "epl",
    [
        "context Z select x from A#length(2); context Z select k from A",  # slices of A and of Sub
        "insert into D select k, x from A; context Y select k from D#length(2); context Y select x from D",
        "insert into D select k, x from A; insert into D select k, x from B; context Y select k from D",
    ],
)
def test_the_filter_of_a_context_looks_at_an_event_once(epl: str) -> None:
    """In slices as with single events: however many statements and types, it fails once, and counts calls once."""
    given = {"k": "a", "g": 0, "n": 1, "d": 1.0, "f": 1.0}
    types = ("A", "Sub", "B", "Sub", "A")
    events = [Event(i, name, {**given, "x": i % 3, "z": 1}) for i, name in enumerate(types * 3, 1)]
    events = [e._replace(values={p: e.values[p] for p in ("k", "x")}) if e.type == "B" else e for e in events]
    events = [e._replace(values={p: v for p, v in e.values.items() if p != "z" or e.type == "Sub"}) for e in events]
    contexts = "create context Z partition by k from A(look(x)); create context Y partition by k from D(look(x));"
    counts = []
    for how in ("send", "replay"):
        run, calls, errors = Run("create schema D(k string, x int)"), [], []
        runtime = run.runtime

        def look(x: int, calls: list[int] = calls) -> bool:
            calls.append(x)
            return 1 // x > 0

        runtime.register_function("look", look)
        runtime.add_error_listener(errors.append)
        runtime.deploy(contexts + epl)
        for statement in runtime.statements.values():
            run.recorders[statement.name] = Recorder()
            statement.add_sink(run.recorders[statement.name])
        if how == "send":
            run.send(events)
        else:
            run.replay(events, [4])
        counts.append((len(calls), [str(error) for error in errors], run.deliveries))
    assert counts[0] == counts[1] and counts[0][1]


@pytest.mark.parametrize("stepping", [False, True])
@settings(max_examples=several(12))
@given(histories(("A",)), CUTS)
@in_part
def test_a_listener_of_a_timer_that_calls_the_engine(stepping: bool, events: list[Event], cuts: list[int]) -> None:
    """The pattern wants few of the events: what comes between them is not lost to the others, nor seen too early."""
    epl = (
        "@name('p') select a.x as x from pattern [every a=A(x = 2) -> (timer:interval(200 msec) and not A(x = 3))];"
        "@name('w') insert rstream into C select rstream k, x from A#time(900 msec);"
        "@name('c') select count(*) as c from C; @name('o') select count(*) as c from A output snapshot every 350 msec"
    )
    sent, replayed = Run(epl), Run(epl)
    for run in (sent, replayed):

        def call(delta: object, run: Run = run) -> None:
            if len(run.recorders["p"]) == 2:
                run.runtime.send("A", {"k": "a", "g": 1, "x": 9, "n": 1, "d": 1.0, "f": 1.0})
            run.runtime.iterate("c")

        run.runtime.statement("p").add_listener(call)
    sent.send(events, stepping=stepping)
    replayed.replay(events, cuts, stepping=stepping)
    assert replayed.deliveries == sent.deliveries
    assert replayed.readings() == sent.readings()
