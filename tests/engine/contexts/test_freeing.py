"""What an ended partition leaves behind: nothing."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.runtime import Runtime

_FEW = 130  # timers of ended partitions are cleaned up when they are many
SCHEMA = "create schema S(id int);create schema E(id int);create schema D(id int, v int);"
CONTEXTS = {
    "overlapping by event": "initiated by S as s terminated by E(id = s.id)",
    "overlapping by time": "initiated by S as s terminated after 1 hour",
    "overlapping by pattern": "initiated by S as s terminated by pattern [E(id = s.id) or timer:interval(1 hour)]",
    "keyed": "partition by id from S, id from D, id from E terminated by E",
    "nested": "context K partition by id from S, id from D, context I initiated by S as s terminated by E(id = s.id)",
}
SELECTS = {
    "aggregate": "select count(*) as c, sum(v) as t from D",
    "time window": "select irstream v from D#time(10 hours)",
    "batch": "select v from D#time_batch(10 hours)",
    "output": "select v from D output last every 10 hours",
    "two timers": "select sum(v) as t from D#time(10 hours) output last every 10 hours",
    "pattern": "select a.v as v from pattern [every a=D -> timer:interval(10 hours)]",
}


class Kept(dict[str, Any]):
    """An event that tells whether somebody still holds it."""


@pytest.mark.histories
@pytest.mark.parametrize("select", SELECTS)
@pytest.mark.parametrize("kind", CONTEXTS)
def test_ended_partitions_hold_nothing(kind: str, select: str) -> None:
    """Neither conditions nor windows, output clauses and patterns, however late their timers are due.

    Nor is there anything for the collector of cycles, whose runs would be paid for by every event.
    """
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(f"create context Freed {CONTEXTS[kind]};@name('s') context Freed {SELECTS[select]}")
    runtime.statement("s").add_listener(lambda delta: None)
    held = []
    for number in range(200):
        for name in ("S", "D"):
            event = Kept(id=number, v=number)
            held.append(weakref.ref(event))
            runtime.send(name, event)
            del event
    assert len(runtime.partitions("Freed")) == 200 and _kept() >= 200
    gc.collect()
    gc.disable()
    try:
        for number in range(200):
            runtime.send("E", {"id": number})
        if kind.endswith("time"):
            runtime.advance(3_600_000)
        assert runtime.partitions("Freed") == []
        assert gc.collect() == 0
    finally:
        gc.enable()
    assert sum(ref() is not None for ref in held) <= _FEW * 2  # two events each
    assert _kept() <= _FEW


def test_partitions_that_end_at_one_instant_leave_the_count_of_timers_right() -> None:
    runtime = Runtime()
    runtime.deploy(
        f"{SCHEMA} create context Freed context Daily start @now end after 1 day,"
        "context Session initiated by S as s terminated by pattern [E(id = s.id) or timer:interval(1 day)];"
        "@name('s') context Freed select count(*) as c from D"
    )
    day = 86_400_000
    for number in range(1000):
        runtime.send("S", {"id": number})
    runtime.advance(day)  # the outer level ends first, and all of the inner one with it
    for number in range(1000):
        runtime.send("S", {"id": number})
        runtime.send("E", {"id": number})
    gc.collect()
    assert runtime.partitions("Freed") == []
    assert _kept() <= _FEW


def _kept() -> int:
    """How many partitions are in memory."""
    return sum(isinstance(o, ContextPartition) and o.name == "Freed" for o in gc.get_objects())
