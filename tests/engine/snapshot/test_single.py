"""One context partition, saved and put into another runtime of the same modules."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.errors import SnapshotError, UsageError
from tests.engine.invariants import invariant_violations

EPL = """
create schema Tick(k string, x int);
create schema Other(x int);
create context Each partition by k from Tick;
create context Spans start Other end after 1 min;
@name('sums') context Each select irstream sum(x) as total from Tick#time(3 sec);
@name('last') context Each select count(*) as n from Tick output last every 2 sec;
@name('pairs') context Each select a.x as p, b.x as q
from pattern [every a=Tick -> b=Tick(x = a.x) where timer:within(4 sec)];
@name('grouped') context Each select context.id as i, x % 2 as g, count(*) as n
from Tick#groupwin(x)#length(2) group by x % 2
"""


def started() -> tuple[Runtime, list[Any]]:
    runtime, found = Runtime(), list[Any]()
    runtime.deploy(EPL, deployment_id="main")
    for name in ("sums", "last", "pairs", "grouped"):
        runtime.statement(name).add_listener(lambda d, name=name: found.append((name, d.time, d.insert, d.remove)))
    return runtime, found


def events(seed: int, keys: str) -> list[tuple[int, dict[str, Any]]]:
    draw, time, found = random.Random(seed), 0, []
    for _ in range(60):
        time += draw.choice((0, 100, 700, 1500))
        found.append((time, {"k": draw.choice(keys), "x": draw.randrange(4)}))
    return found


def send(runtime: Runtime, history: list[tuple[int, dict[str, Any]]]) -> None:
    for time, event in history:
        if time > runtime.now:
            runtime.advance(time)
        runtime.send("Tick", event)


@pytest.mark.parametrize("seed", range(8))
def test_goes_on_in_another_runtime(seed: int) -> None:
    history = events(seed, "ab")
    alone, expected = started()
    send(alone, [each for each in history if each[1]["k"] == "a"])
    first, before = started()
    at = 30
    send(first, [each for each in history[:at] if each[1]["k"] == "a"])
    second, found = started()
    second.advance(first.now)
    second.restore_partition(first.snapshot(partition=("Each", 0)))
    send(second, [each for each in history[at:] if each[1]["k"] == "a"])
    assert repr(before + found) == repr(expected)
    for name in ("sums", "grouped"):
        assert repr(second.iterate(name)) == repr(alone.iterate(name))
    assert second.next_due == alone.next_due


def test_in_place_of_the_one_of_its_key() -> None:
    runtime, _ = started()
    send(runtime, events(1, "abc"))
    ids = [each["id"] for each in runtime.partitions("Each")]
    kept = runtime.snapshot(partition=("Each", ids[1]))
    before = [repr(each) for each in runtime.state("sums")]
    for x in range(3):
        runtime.send("Tick", {"k": runtime.partitions("Each")[1]["key1"], "x": x})
    assert runtime.restore_partition(kept) == ids[1]
    assert [each["id"] for each in runtime.partitions("Each")] == ids
    assert [repr(each) for each in runtime.state("sums")] == before
    other, _ = started()
    with pytest.raises(UsageError, match=f"saved at {runtime.now} ms, and the clock here is at 0 ms"):
        other.restore_partition(kept)
    send(other, events(2, "xyz"))
    other.advance(max(other.now, runtime.now))
    assert other.restore_partition(kept) == 3


@pytest.mark.parametrize(
    "context",
    ["partition by k from Tick", "context K partition by k from Tick, context L group x < 9 as low from Tick"],
)
def test_listeners_see_both_partitions(context: str) -> None:
    runtime, _ = started()
    runtime.deploy(f"create context C {context}; context C select count(*) as n from Tick")
    send(runtime, events(1, "ab"))
    saved = runtime.snapshot(partition=("C", 1))
    notices: list[Any] = []
    runtime.add_partition_listener("C", notices.append)
    runtime.restore_partition(saved)
    assert [(notice.kind, notice.partition) for notice in notices] == [("deallocated", 1), ("allocated", 1)]


def test_what_cannot_be() -> None:
    runtime, _ = started()
    send(runtime, events(1, "ab"))
    runtime.deploy(
        "create window Shared#keepall (x int); create table Sums (total sum(int));"
        "@name('spans') context Spans select count(*) as n from Shared",
        deployment_id="more",
    )
    runtime.send("Other", {"x": 1})
    with pytest.raises(UsageError, match="no live partition 7"):
        runtime.snapshot(partition=("Each", 7))
    with pytest.raises(UsageError, match="statement `spans` holds the rows of named window `Shared`, which is not in"):
        runtime.snapshot(partition=("Spans", 0))
    runtime.deploy("@name('into') context Spans into table Sums select sum(x) as total from Tick#length(2)")
    runtime.undeploy_statement("more", "spans")
    with pytest.raises(UsageError, match="statement `into` feeds table `Sums`, which is not in the context"):
        runtime.snapshot(partition=("Spans", 0))
    kept = runtime.snapshot(partition=("Each", 0))
    with pytest.raises(SnapshotError, match="of one partition"):
        Runtime.restored(kept, {})
    with pytest.raises(SnapshotError, match="of a whole runtime"):
        runtime.restore_partition(runtime.snapshot())
    with pytest.raises(SnapshotError, match="another one"):
        started()[0].restore_partition(kept)
    with pytest.raises(SnapshotError, match="damaged"):
        runtime.restore_partition(kept[:-1])


KINDS = {
    "category": "create context C group v < 5 as low, group v >= 5 as high from D",
    "hash": "create context C coalesce by consistent_hash_crc32(id) from D granularity 4",
    "hash_preallocated": "create context C coalesce by consistent_hash_crc32(id) from D granularity 2 preallocate",
    "keyed_with_end": "create context C partition by id from D, id from E "
    "terminated by pattern [E -> timer:interval(7)]",
    "start_end_event": "create context C start B end E",
    "start_end_time": "create context C start @now end after 45 sec",
    "start_end_pattern": "create context C start B as b end pattern [E -> timer:interval(5 sec)]",
    "overlapping_event": "create context C initiated by B as b terminated by E(id = b.id)",
    "overlapping_distinct": "create context C initiated by distinct(id) B as b terminated after 40 sec",
    "overlapping_pattern": "create context C initiated by B as b "
    "terminated by pattern [every E(id = b.id) -> E(id = b.id)]",
    "keyed_spans": "create context C context K partition by id from D, id from B, context S start B end after 40 sec",
    "spans_keyed": "create context C context S initiated by B terminated after 60 sec, "
    "context K partition by id from D",
    "category_hash": "create context C context G group v < 5 as low, group v >= 5 as high from D, "
    "context H coalesce by consistent_hash_crc32(id) from D granularity 3",
}
STATEMENTS = """
create schema D(id string, v int); create schema B(id string, v int); create schema E(id string, v int);
{context};
context C create variable int seen = 0;
context C create window W#length(3) as D;
context C insert into W select * from D;
context C create table T(id string primary key, total sum(int), n count(*));
context C into table T select sum(v) as total, count(*) as n from D#time(30 sec) group by id;
@name('window') context C select irstream id, v from D#time(20 sec);
@name('sums') context C select id, sum(v) as t, count(*) as n from D#length_batch(3) group by id;
@name('pairs') context C select a.v as p, b.v as q from pattern [every a=D -> b=D(v > a.v) where timer:within(25 sec)];
@name('joined') context C select w.v as v, T.total as t from W as w unidirectional, T where w.id = T.id;
@name('asked') context C select v, (select sum(x.v) from W as x where x.id = d.id) as w,
  (select max(v) from D#length(4)) as m from D as d;
@name('all') context C select v from D output all every 3 events;
@name('last') context C select sum(v) as s from D output last every 15 sec;
@name('counted') context C on D set seen = seen + 1;
@name('told') context C select seen from D;
@name('ends') context C select count(*) as n from D output last when terminated
"""
OUTPUT = ("window", "sums", "pairs", "joined", "asked", "all", "last", "told", "ends")


def module(kind: str) -> tuple[Runtime, list[Any]]:
    runtime, found = Runtime(), list[Any]()
    runtime.deploy(STATEMENTS.format(context=KINDS[kind]), deployment_id="main")
    for name in OUTPUT:
        runtime.statement(name).add_listener(lambda d, name=name: found.append((name, d.time, d.insert, d.remove)))
    return runtime, found


def history(seed: int) -> list[tuple[int, str, dict[str, Any]]]:
    draw, time, found = random.Random(seed), 0, [(0, "B", {"id": each, "v": 1}) for each in "ab"]
    for _ in range(60):
        time += draw.choice((0, 0, 1_000, 4_000))
        type_ = draw.choice("DDDDDDDEB") if time > 20_000 else "D"
        found.append((time, type_, {"id": draw.choice("ab"), "v": draw.randrange(9)}))
    return found


def run(runtime: Runtime, events: list[tuple[int, str, dict[str, Any]]]) -> None:
    for time, type_, event in events:
        if time > runtime.now:
            runtime.advance(time, stepping=True)
        runtime.send(type_, event)


@pytest.mark.histories
@pytest.mark.parametrize("kind", KINDS)
def test_all_partitions_of_a_context_go_on_in_another_runtime(kind: str) -> None:
    events = history(7)
    alone, expected = module(kind)
    first, before = module(kind)
    few = 0 if kind.startswith("start_end") else 1
    at = 0
    while at < 20 or len(first.partitions("C")) <= few:
        run(first, events[at : at + 1])
        at += 1
    run(alone, events[:at])
    second, found = module(kind)
    second.advance(first.now)
    for each in first.partitions("C")[::-1]:
        assert second.restore_partition(first.snapshot(partition=("C", each["id"]))) == each["id"]
    found.clear()
    assert second.partitions("C") == first.partitions("C")
    assert invariant_violations(second) == []
    for runtime in (alone, second):
        run(runtime, events[at:])
        runtime.advance(300_000, stepping=True)
    assert {name for name, *_ in expected} >= {*OUTPUT} - {"ends"}
    assert [repr(each) for each in before + found] == [repr(each) for each in expected]
    assert second.partitions("C") == alone.partitions("C")
    for name in ("window", "sums"):
        assert second.iterate(name) == alone.iterate(name)


def test_what_stands_around_it_comes_with_it_or_stays() -> None:
    epl = """create schema D(id string, v int); create schema B(id string, v int);
    create context C context S initiated by B as b terminated after 10 sec, context K partition by id from D;
    @name('s') context C select sum(v) as t from D"""
    first, second, third = Runtime(), Runtime(), Runtime()
    for each in (first, second, third):
        each.deploy(epl, deployment_id="main")
        each.send("B", {"id": "x", "v": 1 if each is not second else 2})
    for v in (1, 2):
        first.send("D", {"id": "a", "v": v})
    kept = first.snapshot(partition=("C", 0))
    assert third.restore_partition(kept) == 0
    third.send("D", {"id": "a", "v": 3})
    assert third.iterate("s") == [{"t": 6}]  # below the span that began likewise
    assert second.restore_partition(kept) == 0
    second.send("D", {"id": "a", "v": 3})
    assert second.iterate("s") == [{"t": 6}, {"t": 3}]  # with a span of its own
    assert [each["S"]["b"]["v"] for each in second.partitions("C")] == [1, 2]
    second.advance(10_000)
    assert second.partitions("C") == []


def test_a_partition_with_another_id_has_its_rows_of_the_context() -> None:
    first, second = module("keyed_with_end")[0], module("keyed_with_end")[0]
    run(first, [(i, "D", {"id": "a", "v": i}) for i in range(5)])
    for id_ in "xyz":
        second.send("D", {"id": id_, "v": 9})
    second.advance(first.now)
    assert second.restore_partition(first.snapshot(partition=("C", 0))) == 3
    told: list[list[Any]] = [[], []]
    for runtime, found in zip((first, second), told, strict=True):
        runtime.statement("asked").add_listener(lambda d, found=found: found.append(d.insert))
        for x in range(5):  # rows leave the named window, and the subquery must know them
            runtime.send("D", {"id": "a", "v": x})
    assert told[0] == told[1]
    assert told[0][-1][0]["w"] == 1 + 2 + 3


def test_subqueries_have_the_rows_of_the_named_window_that_is_there() -> None:
    epl = """create schema D(id string, v int); create window W#keepall as D;
    create context C partition by id from D;
    @name('s') context C select (select sum(v) from W) as w, count(*) as n from D"""
    first, second = Runtime(), Runtime()
    for each in (first, second):
        each.deploy(epl, deployment_id="main")
        each.query(f"insert into W(id, v) values ('w', {1 if each is first else 50})")
    first.send("D", {"id": "a", "v": 0})
    second.restore_partition(first.snapshot(partition=("C", 0)))
    second.send("D", {"id": "a", "v": 0})
    second.query("insert into W(id, v) values ('w', 5)")
    assert second.iterate("s") == [{"w": 55, "n": 2}]
