"""How much memory does a thing that a statement keeps take, beside a plain Python object of the same content?

A retained event, a group, a context partition, a partial match. The plain objects are what a function written by hand
would keep: events in a list, `[count, sum]` or the waiting event in a dictionary by key. Bytes are what `tracemalloc`
counts for each of them, without the events themselves, which both sides share.

    python benchmarks/state_size.py [--number 100000]
"""

from __future__ import annotations

import argparse
import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

from cepbook.engine.runtime import Runtime

SCHEMA = "create schema Tick(k int, x double);"
KEYED = "create context PerKey partition by k from Tick; @name('out') context PerKey"
Event = dict[str, Any]
Send = Callable[[Event], object]


def events_in_list() -> Send:
    return list[Event]().append


def sums_by_key() -> Send:
    groups: dict[int, list[Any]] = {}

    def send(event: Event) -> None:
        group = groups.get(event["k"])
        if group is None:
            groups[event["k"]] = [1, event["x"]]
        else:
            group[0] += 1
            group[1] += event["x"]

    return send


def event_by_key() -> Send:
    waiting: dict[int, Event] = {}

    def send(event: Event) -> None:
        waiting[event["k"]] = event

    return send


def event_and_due_time_by_key() -> Send:
    waiting: dict[int, tuple[Event, int]] = {}

    def send(event: Event) -> None:
        waiting[event["k"]] = event, event["k"] + 60_000

    return send


STATES: dict[str, tuple[str, Callable[[], Send]]] = {
    "event of `#keepall`": ("@name('out') select irstream * from Tick#keepall", events_in_list),
    "event of `#time(1 hour)`": ("@name('out') select irstream * from Tick#time(1 hour)", events_in_list),
    "event of `#unique(k)`": ("@name('out') select irstream * from Tick#unique(k)", event_by_key),
    "group, count and sum": ("@name('out') select k, count(*), sum(x) from Tick group by k", sums_by_key),
    "partition, count and sum": (f"{KEYED} select k, count(*), sum(x) from Tick", sums_by_key),
    "partition, last event": (f"{KEYED} select * from Tick#lastevent", event_by_key),
    "partial match": (
        "@name('out') select a.k from pattern[every a=Tick(x >= 0) -> b=Tick(k = a.k, x < 0)]",
        event_by_key,
    ),
    "partial match, `timer:within`": (
        "@name('out') select a.k from pattern[every a=Tick(x >= 0) -> b=Tick(k = a.k) where timer:within(1 min)]",
        event_and_due_time_by_key,
    ),
}


def bytes_of(send: Send, events: list[Event]) -> float:
    """Return the bytes that stay, per event."""
    gc.collect()
    tracemalloc.start()
    for event in events:
        send(event)
    gc.collect()
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    return size / len(events)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--number", type=int, default=100_000)
    options = parser.parse_args()
    events: list[Event] = [{"k": key, "x": key / 7} for key in range(options.number)]
    print("| kept | bytes | plain object | ratio |")
    print("|---|--:|--:|--:|")
    for what, (epl, plain) in STATES.items():
        runtime = Runtime()
        runtime.deploy(SCHEMA + epl)
        sizes = [bytes_of(send, events) for send in (runtime.sender("Tick"), plain())]
        print(f"| {what} | {sizes[0]:.0f} | {sizes[1]:.0f} | {sizes[0] / sizes[1]:.1f} |")


if __name__ == "__main__":
    main()
