"""Slices dealt out to the partitions of keys, hashes and categories: the same as events that are sent one by one."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from cepbook.engine.contexts.partition import PartitionCounts
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch
from tests.engine.histories import Event, Run
from tests.engine.replay.test_causes import Plain, Tracing
from tests.engine.replay.test_components import history
from tests.engine.sinks import Deltas
from tests.engine.slices import fails
from tests.random_cases import seeds

KINDS = "group x < 2 as lo, group x > 0 as hi, group k = 'a' as a from A"  # an event may be of several
CONTEXTS = (
    "partition by k from A",
    "partition by k from A, k from B",
    "partition by k and x from A(g < 2)",
    "partition by k and d from A",
    "coalesce by hash_code(k) from A granularity 3",
    "coalesce by consistent_hash_crc32(k, g) from A(x > 0) granularity 5",
    "coalesce by consistent_hash_crc32(k) from A, consistent_hash_crc32(k) from B granularity 5 preallocate",
    "coalesce by hash_code(d) from A granularity 4",
    "group x < 1 as lo, group x > 0 as hi from A",
    KINDS,
    "group d < 2 as lo, group k = 'a' as a from A(x is not null)",
    "context H coalesce by hash_code(k) from A granularity 2, context K partition by x, k from A",
    "context K partition by k from A(x > 0), context H coalesce by hash_code(x) from A granularity 2 preallocate",
    "context K partition by k from A, k from B, context L partition by x from A, x from B",
    f"context K partition by k from A, context G {KINDS}",
    f"context G {KINDS}(g < 2), context K partition by k from A",
    f"context G {KINDS}, context H coalesce by hash_code(g) from A granularity 2 preallocate",
    f"context G {KINDS}, context L group g = 1 as one, group x = 1 as two from A, context K partition by g from A",
)
STATEMENTS = (
    "select irstream context.id as id, k, sum(x) as s from A#length(2)",
    "insert into C select k, x from A(x > 0)",
    "select irstream k, x from A#time(1 sec)",
    "select irstream count(*) as c, sum(x) as s from A#time(1 sec)",
    "select irstream k, sum(x) as s from A#time(1 sec) group by k having sum(x) > 0",
    "select irstream g, x, max(x) as m from A#time(2 sec) where x > 0 group by g",
    "select rstream x from A#groupwin(g)#time(1 sec)",
    "select irstream x, count(*) as c from A#time_accum(500 msec)",
    "select count(*) as c from A#time_batch(1 sec)",
    "select irstream k, x from A#time(1 sec) order by x desc, k limit 2",
    "select irstream k, x from A#time(1 sec)#length(2)",
    "select irstream x from A#time(1 sec) output last every 2 sec",
    "select count(*) as c from A output last every 2 events",
    "select a.x as x, b.x as y from pattern [every a=A(x > 0) -> b=A(x < 2)]",
    "select a.x as x, b.x as y from A#length(2) as a, A(x > 0)#time(1 sec) as b where a.k = b.k",
    "select x, (select max(x) from A#time(1 sec) as b where b.k = a.k) as y from A as a",
)
OUTSIDE = "@name('u') select irstream k, x from C#length(2); @name('v') select irstream k from A#length(1);"


def ended(run: Run, events: Sequence[Event]) -> None:
    """Some partitions are ended by hand: events make them anew, and their timers are none any more."""
    run.send(events)
    for partition in run.runtime.partitions("P")[:2]:
        run.runtime.end_partition("P", partition["id"])


@pytest.mark.histories
@pytest.mark.parametrize("context", CONTEXTS)
def test_replayed_as_sent(context: str) -> None:
    for seed in seeds(5):
        random = Random(f"{context} {seed}")
        chosen = random.sample(STATEMENTS, 4)
        named = "".join(f"@name('s{i}') context P {text};" for i, text in enumerate(chosen))
        epl = f"create context P {context};{named}{OUTSIDE}"
        events = history(random, 70)
        cuts = sorted(random.sample(range(len(events)), min(len(events), 2)))
        stepping = seed % 2 == 1
        sent, replayed = Run(epl), Run(epl)
        batch = replayed.runtime.batch(["A", "B"])
        assert not (batch.reasons or batch.merged)
        if seed % 3 == 0:
            begin = len(events) // 3
            ended(sent, events[:begin])
            ended(replayed, events[:begin])
            events, cuts = events[begin:], []
        sent.send(events, stepping=stepping)
        replayed.replay(events, cuts, stepping=stepping)
        for until in (0, 1000, 4000):
            for each in (sent, replayed):
                each.runtime.advance(sent.runtime.now + until if each is sent else sent.runtime.now)
            assert replayed.deliveries == sent.deliveries, (seed, epl)
            assert replayed.readings() == sent.readings(), (seed, epl)
            assert replayed.runtime.partitions("P") == sent.runtime.partitions("P")
            assert replayed.runtime.next_due == sent.runtime.next_due


@pytest.mark.histories
@pytest.mark.parametrize("context", [CONTEXTS[0], CONTEXTS[4], KINDS, CONTEXTS[-1]])
def test_of_derived_events_too(context: str) -> None:
    epl = (
        "@name('m') insert into M select k, g, x from A(x > -1);"
        f"create context P {context.replace('from A', 'from M')};"
        "@name('s') context P select irstream k, sum(x) as s from M#time(1 sec);"
        "@name('t') context P select context.id as id, count(*) as c from M"
    )
    for seed in seeds(5):
        events = history(Random(f"{context} {seed}"), 70)
        sent, replayed = Run(epl), Run(epl)
        batch = replayed.runtime.batch(["A", "B"])
        assert not (batch.reasons or batch.merged)
        sent.send(events)
        replayed.replay(events, [len(events) // 2])
        assert replayed.deliveries == sent.deliveries
        assert replayed.readings() == sent.readings()
        assert replayed.runtime.partitions("P") == sent.runtime.partitions("P")


def running(epl: str) -> tuple[Runtime, Deltas, list[str]]:
    runtime, errors, deltas = Runtime(functions={"fails": fails}), list[str](), Deltas()
    runtime.add_error_listener(lambda error: errors.append(str(error)))
    runtime.deploy(f"create schema A(k string, x int); {epl}")
    runtime.statement("s").add_sink(deltas)
    return runtime, deltas, errors


def of(*xs: int | None) -> ColumnBatch:
    return ColumnBatch("A", list(range(len(xs))), {"k": ["a"] * len(xs), "x": list(xs)})


def test_the_rows_of_several_categories_are_one_delivery() -> None:
    runtime, deltas, _ = running(
        "create context P group x < 3 as lo, group x > 1 as hi from A;"
        "@name('s') context P select context.label as l, count(*) as n from A"
    )
    runtime.batch(["A"]).run([of(1, 2, None, 4)])
    assert [delta.insert for delta in deltas] == [
        [{"l": "lo", "n": 1}],
        [{"l": "lo", "n": 2}, {"l": "hi", "n": 1}],
        [{"l": "hi", "n": 2}],
    ]


def test_an_event_of_several_categories_is_seen_once_in_one_that_it_begins() -> None:
    """The categories were ended by hand, but for one."""
    for replayed in (False, True):
        runtime, deltas, _ = running(
            "create context P group x > 0 as lo, group x > 1 as hi from A;"
            "@name('s') context P select context.id as id, context.label as l, count(*) as n from A"
        )
        runtime.end_partition("P", 0)
        if replayed:
            runtime.batch(["A"]).run([of(2)])
        else:
            runtime.send("A", {"k": "a", "x": 2})
        assert [delta.insert for delta in deltas] == [[{"id": 2, "l": "lo", "n": 1}, {"id": 1, "l": "hi", "n": 1}]]


@pytest.mark.parametrize(
    "context",
    [
        "coalesce by fails(x) from A granularity 4",
        "partition by k from A(fails(x) > 0)",
        "coalesce by hash_code(k) from A(fails(x) > 0) granularity 4",
        "group fails(x) > 0 as some, group x > 2 as more from A",
    ],
)
def test_each_event_whose_place_fails_is_told_of_once(context: str) -> None:
    told = []
    for replayed in (False, True):
        runtime, deltas, errors = running(f"create context P {context}; @name('s') context P select x from A")
        xs = (1, 7, 1, 7, 2, 7, 2, 1)
        if replayed:
            runtime.batch(["A"]).run([of(*xs)])
        else:
            for x in xs:
                runtime.send("A", {"k": "a", "x": x})
        told.append((errors, [delta.insert for delta in deltas]))
    assert told[0] == told[1]
    assert len(told[0][0]) == 3


@pytest.mark.parametrize(
    "context",
    [
        CONTEXTS[4],
        "group x > 0 as lo, group x > 1 as hi from A",
        f"context G {KINDS}, context K partition by k from A",
        f"context K partition by k from A, context G {KINDS}, context X partition by x from A",
    ],
)
def test_events_are_counted_where_they_belong(context: str) -> None:
    """Also in the nodes around nested partitions."""
    counts = []
    for replayed in (False, True):
        runtime, _, _ = running(f"create context P {context}; @name('s') context P select x from A")
        found = runtime.contexts["P"]
        found.event_counters.append(tally := PartitionCounts(0, ()))
        runtime.rewired()
        xs = (1, 2, 0, 1, 2, 0)
        if replayed:
            runtime.batch(["A"]).run([of(*xs)])
        else:
            for time, x in enumerate(xs):
                runtime.advance(time)
                runtime.send("A", {"k": "a", "x": x})
        around = list(getattr(found, "outer_nodes", list)())
        counts.append([tally.of(each) for each in (*found.partitions.values(), *around)])
    assert counts[0] == counts[1]
    assert sum(arrived for arrived, _ in counts[0]) >= 6


@pytest.mark.parametrize(
    ("context", "obstacle"),
    [
        ("partition by k from A", None),
        (f"context G {KINDS}, context K partition by k from A", None),
        ("context K partition by k from A, context G group x > 0 as hi from A(x < 3)", "may reject events"),
        ("context K partition by k from A, context L partition by d from A", "may reject events"),
        ("context K partition by k from A, k from B, context L partition by x from A", "list different streams"),
        ("context K partition by k from A as a, context L partition by x from A", "keep their first event"),
        ("partition by k from A terminated after 1 sec", "begin and end partitions"),
    ],
)
def test_what_keeps_a_context_from_dealing_is_told(context: str, obstacle: str | None) -> None:
    run = Run(f"create context P {context}; @name('s') context P select x from A")
    merged = run.runtime.batch(["A", "B"]).merged
    if obstacle is None:
        assert merged == {}
    else:
        assert obstacle in merged["s"]


@pytest.mark.parametrize(
    "context", ["partition by k from A(x > 0)", "coalesce by hash_code(k) from A(x < 3 and n = 1) granularity 4"]
)
def test_filters_of_a_context_hold_for_batches(context: str) -> None:
    events = [Event(i, "A", {"k": "abc"[i % 3], "g": 0, "x": i % 4, "n": 1, "d": 1.5, "f": 0.5}) for i in range(700)]
    epl = f"create context P {context}; @name('s') context P select count(*) as c from A"
    sent, replayed = Run(epl), Run(epl)
    sent.send(events)
    replayed.replay(events, [100])
    assert replayed.deliveries == sent.deliveries
    assert len(sent.deliveries["s"]) == 525


def test_values_that_hardly_come_again_are_located_one_by_one() -> None:
    events = [Event(i, "A", {"k": "a", "g": 0, "x": i, "n": 1, "d": 1.5, "f": 0.5}) for i in range(700)]
    epl = "create context P coalesce by hash_code(x) from A granularity 9;"
    epl += "@name('s') context P select count(*) as c from A"
    sent, replayed = Run(epl), Run(epl)
    sent.send(events)
    replayed.replay(events, [100])
    assert replayed.deliveries == sent.deliveries
    assert replayed.runtime.partitions("P") == sent.runtime.partitions("P")


@pytest.mark.parametrize("context", [CONTEXTS[0], CONTEXTS[4], "group x > 0 as lo, group x > 1 as hi from A"])
def test_what_deliveries_of_partitions_are_due_to(context: str) -> None:
    """Of an event that is in several partitions, and of windows of several that are due at once."""
    found: list[Any] = []
    for tracing in (True, False):
        runtime = Runtime()
        runtime.deploy(
            f"create schema A(k string, x int); create context P {context};"
            "@name('s') context P select irstream k, x from A#time(1 sec)"
        )
        plain, traced = Plain(), Tracing()
        runtime.statement("s").add_sink(plain)
        if tracing:
            runtime.statement("s").add_sink(traced)
        runtime.batch(["A"]).run(
            [ColumnBatch("A", [10, 20, 1500, 1600], {"k": ["a", "b", "c", "c"], "x": [2, 1, 2, 2]})]
        )
        found.append(plain.flat)
        if tracing:
            assert [key[:2] for key in traced.causes] == [(0, 1), (1, 1), (2, 0), (2, 1), (3, 1)]
            assert traced.flat == plain.flat
    assert found[0] == found[1] != []
