"""One partition of a keyed context, saved and put into another runtime of the same modules."""

from __future__ import annotations

import random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from cepbook.errors import SnapshotError, UsageError

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
    send(other, events(2, "xyz"))
    assert other.restore_partition(kept) == 3


def test_what_cannot_be() -> None:
    runtime, _ = started()
    send(runtime, events(1, "ab"))
    runtime.deploy("@name('spans') context Spans select count(*) as n from Tick")
    runtime.send("Other", {"x": 1})
    with pytest.raises(UsageError, match="no live partition 7"):
        runtime.snapshot(partition=("Each", 7))
    with pytest.raises(UsageError, match="cannot be saved one by one"):
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
