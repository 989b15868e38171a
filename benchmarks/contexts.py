"""Does the cost of an event grow with the number of live context partitions? What does an idle partition hold?

Baselines: ten live partitions of the same context; and a dict of lists that does by hand what the plain keyed context
does, because random access to many partitions leaves the processor's caches, whoever does it. Each row opens
partitions, then sends events to random ones of them (or ends some and begins as many) and divides by the time that ten
partitions take. Memory is what tracemalloc finds beside the events themselves, per idle partition, of a statement that
only aggregates; then all partitions end, and what is left is measured again.

    python benchmarks/contexts.py [--most 100000] [--keyed 1000000]
"""

from __future__ import annotations

import argparse
import gc
import random
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cepbook.engine.runtime import Runtime

SCHEMA = "create schema Tick(k int, x double);create schema Open(k int);create schema Close(k int);"
SELECT = "@name('s') context C select count(*) as n, sum(x) as total, max(x) as top from Tick"
EVENTS = 20_000


@dataclass(frozen=True)
class Kind:
    """A kind of context: how partition `k` begins, what is sent to measure, and how all partitions end."""

    name: str
    context: str
    begin: str
    measured: tuple[str, ...]
    end: str | None = "Close"
    select: str = SELECT


KINDS = (
    Kind("keyed, plain", "partition by k from Tick", "Tick", ("Tick",), None),
    Kind("keyed, terminated by event", "partition by k from Tick, k from Close terminated by Close", "Tick", ("Tick",)),
    Kind("keyed, terminated after", "partition by k from Tick terminated after 1 hour", "Tick", ("Tick",), None),
    Kind("hash", "coalesce by hash_code(k) from Tick granularity 10000000", "Tick", ("Tick",), None),
    Kind(
        "nested: hash over keyed",
        "context H coalesce by hash_code(k) from Tick granularity 16, context K partition by k from Tick",
        "Tick",
        ("Tick",),
        None,
    ),
    Kind(
        "overlapping, correlated end",
        "initiated by Open as o terminated by Close(k = o.k)",
        "Open",
        ("Close", "Open"),
    ),
    Kind(
        "overlapping, correlated filter",
        "initiated by Open as o terminated by Close(k = o.k)",
        "Open",
        ("Tick",),
        select=SELECT + "(k = context.o.k)",
    ),
)


def running(kind: Kind) -> Runtime:
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(f"create context C {kind.context};{kind.select}")
    return runtime


def events(type_name: str, keys: list[int]) -> list[dict[str, Any]]:
    return [{"k": key, "x": float(key % 7)} if type_name == "Tick" else {"k": key} for key in keys]


def opened(kind: Kind, count: int) -> Runtime:
    runtime = running(kind)
    send = runtime.sender(kind.begin)
    for event in events(kind.begin, list(range(count))):
        send(event)
    return runtime


def microseconds(kind: Kind, count: int) -> float:
    """Per event, with `count` live partitions; the best of three rounds."""
    runtime = opened(kind, count)
    keys = random.Random(7).choices(range(count), k=EVENTS)
    senders = [runtime.sender(name) for name in kind.measured]
    given = [events(name, keys) for name in kind.measured]
    gc.collect()
    gc.disable()
    best = min(_round(senders, given) for _ in range(3))
    gc.enable()
    return best / (EVENTS * len(senders)) * 1e6


def _round(senders: list[Callable[[dict[str, Any]], None]], given: list[list[dict[str, Any]]]) -> float:
    begin = time.process_time()
    for several in zip(*given, strict=True):
        for send, event in zip(senders, several, strict=True):
            send(event)
    return time.process_time() - begin


def by_hand(count: int) -> float:
    """Microseconds per event of a dict of [count, sum, maximum]."""
    groups: dict[int, list[float]] = {key: [1, 0.0, 0.0] for key in range(count)}

    def send(event: dict[str, Any]) -> None:
        key, x = event["k"], event["x"]
        group = groups.get(key)
        if group is None:
            groups[key] = [1, x, x]
        else:
            group[0] += 1
            group[1] += x
            if x > group[2]:
                group[2] = x

    for event in events("Tick", list(range(count))):
        send(event)
    given = [events("Tick", random.Random(7).choices(range(count), k=EVENTS))]
    gc.collect()
    gc.disable()
    best = min(_round([send], given) for _ in range(3))
    gc.enable()
    return best / EVENTS * 1e6


def memory(kind: Kind, count: int) -> tuple[float, float]:
    """Bytes per idle partition, and bytes per partition that are left when all have ended."""
    runtime = running(kind)
    send = runtime.sender(kind.begin)
    given = events(kind.begin, list(range(count)))
    ends = [] if kind.end is None else events(kind.end, list(range(count)))
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for event in given:
        send(event)
    gc.collect()
    held = tracemalloc.get_traced_memory()[0] - before
    if kind.end is not None:
        close = runtime.sender(kind.end)
        for event in ends:
            close(event)
    else:
        runtime.advance(3_600_000)
        for partition in runtime.partitions("C"):
            runtime.end_partition("C", partition["id"])
    gc.collect()
    left = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert not runtime.partitions("C")
    return held / count, left / count


def _show(name: str, steps: list[int], costs: dict[int, float]) -> None:
    shown = "".join(f"{costs[n]:12.2f}" if n in costs else f"{'':12}" for n in steps)
    print(f"{name:32}{shown}{costs[max(costs)] / costs[10]:12.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=100_000, help="live partitions")
    parser.add_argument("--keyed", type=int, default=1_000_000, help="live partitions of the plain keyed context")
    chosen = parser.parse_args()
    steps = [10, 1_000, 100_000, 1_000_000]
    print(f"{'µs per event, live partitions:':32}" + "".join(f"{n:>12,}" for n in steps) + "   largest / ten")
    costs = {count: by_hand(count) for count in steps if count <= chosen.keyed}
    _show("keyed, by hand", steps, costs)
    for kind in KINDS:
        most = chosen.keyed if kind is KINDS[0] else chosen.most
        costs = {count: microseconds(kind, count) for count in steps if count <= most}
        _show(kind.name, steps, costs)
    print(f"\n{'bytes per partition:':32}{'idle':>12}{'all ended':>12}")
    for kind in KINDS:
        held, left = memory(kind, min(chosen.most, 20_000))
        print(f"{kind.name:32}{held:12,.0f}{left:12,.0f}")


if __name__ == "__main__":
    main()
