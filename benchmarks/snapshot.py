"""What does a snapshot cost: bytes and microseconds per retained event, and per context partition?

Baseline: `pickle` of the same events as a list of tuples, which knows nothing of programs, identities and checksums.
Each row fills a statement, saves the runtime and makes another of it; the cost of an empty statement is taken off and
shown in the first row. Times are the best of three.

    python benchmarks/snapshot.py [--events 100000] [--partitions 10000]
"""

from __future__ import annotations

import argparse
import gc
import pickle
import random
import time
from collections.abc import Callable
from typing import Any

from cepbook.engine.runtime import Runtime

SCHEMA = "create schema Tick(k int, x double, s string); create context Each partition by k from Tick;"
ROWS = {
    "length window, one column": "select avg(x) as m from Tick#length(10000000)",
    "length window, whole events": "select * from Tick#length(10000000)",
    "time window, sums by group": "select s, sum(x) as t from Tick#time(1 hour) group by s",
    "sort window": "select s, x from Tick#sort(10000000, x)",
    "pattern, a match waits": "select a.x as p, b.x as q from pattern [every a=Tick -> b=Tick(k = a.k and x < 0)]",
}
PARTITIONED = {
    "context, sums": "context Each select count(*) as n, sum(x) as t from Tick",
    "context, last ten": "context Each select x from Tick#length(10)",
}
CONTEXTS = {
    "partition by": "partition by k from Tick",
    "coalesce by": "coalesce by hash_code(k) from Tick granularity 100",
    "group": ", ".join(f"group k = {k} as c{k}" for k in range(100)) + " from Tick",
    "initiated by an event, terminated with time": "initiated by distinct(k) Tick as t terminated after 1 hour",
    "initiated by an event, terminated by a pattern": "initiated by distinct(k) Tick as t "
    "terminated by pattern [Tick(k = t.k, x > 2)]",
    "nested, keys in a span": "context S start @now end after 1 hour, context K partition by k from Tick",
}


def filled(select: str, count: int, keys: int, schema: str = SCHEMA) -> Runtime:
    draw = random.Random(1)
    runtime = Runtime()
    runtime.deploy(f"{schema}@name('s') {select}")
    send = runtime.sender("Tick")
    for i in range(count):
        send({"k": i % keys, "x": draw.random(), "s": f"s{i % 100}"})
    return runtime


def best(act: Callable[[], Any]) -> float:
    """Seconds."""
    found = []
    for _ in range(3):
        gc.collect()
        began = time.perf_counter()
        act()
        found.append(time.perf_counter() - began)
    return min(found)


def measured(select: str, count: int, keys: int) -> tuple[float, float, float]:
    """Bytes, seconds to save, seconds to restore."""
    runtime = filled(select, count, keys)
    data = runtime.snapshot()
    return len(data), best(runtime.snapshot), best(lambda: Runtime.restored(data, {}))


def show(name: str, size: float, save: float, restore: float) -> None:
    print(f"{name:<44}{size:>10.1f}{save * 1e6:>12.2f}{restore * 1e6:>12.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=10_000)
    options = parser.parse_args()
    print(f"{'':<44}{'bytes':>10}{'µs to save':>12}{'µs to load':>12}")
    empty = measured(ROWS["length window, one column"], 0, 1)
    show("an empty statement, in all", *empty)
    print(f"per retained event, of {options.events:,}")
    draw = random.Random(1)
    plain = [(i, draw.random(), f"s{i % 100}") for i in range(options.events)]
    data = pickle.dumps(plain)
    show(
        "  baseline: pickle of tuples",
        len(data) / len(plain),
        best(lambda: pickle.dumps(plain)) / len(plain),
        best(lambda: pickle.loads(data)) / len(plain),
    )
    for name, select in ROWS.items():
        found = measured(select, options.events, options.events)
        show(f"  {name}", *((a - b) / options.events for a, b in zip(found, empty, strict=True)))
    print(f"per partition, of {options.partitions:,}, ten events each")
    for name, select in PARTITIONED.items():
        found = measured(select, 10 * options.partitions, options.partitions)
        show(f"  {name}", *((a - b) / options.partitions for a, b in zip(found, empty, strict=True)))
    print("one of 100 partitions alone, its last ten events")
    for name, context in CONTEXTS.items():
        schema = SCHEMA.replace("partition by k from Tick", context)
        runtime = filled(PARTITIONED["context, last ten"], 1000, 100, schema)
        data = runtime.snapshot(partition=("Each", 7))
        save = best(lambda runtime=runtime: runtime.snapshot(partition=("Each", 7)))
        show(f"  {name}", len(data), save, best(lambda runtime=runtime, data=data: runtime.restore_partition(data)))


if __name__ == "__main__":
    main()
