"""What does an event cost a pattern with 10^2 and with 10^5 open partial matches, and what does one of these weigh?

    python benchmarks/patterns.py [--open 100,10000,100000] [--events 40000] [--rounds 5]

Baseline of the first table: the same pattern with 10^2 open partial matches, in the same run; the bar for
``every a=A -> b=B(id=a.id)`` at 10^5 is 3 times its cost. A round is measured while the number of open matches stays
what it is: each B that closes one follows an A that opened one. Beside it a dict of lists, by hand, which knows that
job only.

Baseline of the second table (workload e): ``every a=Tick(price > 95) -> b=Tick(symbol = a.symbol, price < 5) where
timer:within(10 sec)`` on ticks one ms apart, 100 symbols, beside a function written by hand for exactly that job.

Bytes are what `tracemalloc` counts while partial matches are opened, by partial match, without the event itself.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
import tracemalloc
from collections import deque
from collections.abc import Callable
from typing import Any

from cepbook.engine.delivery.delta import MORE, Record, Row, Rows
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch

SCHEMA = "create schema A(id int, x int); create schema B(id int, x int);"
CASES = (
    ("by key", "every a=A -> b=B(id = a.id)"),
    ("by key, guarded", "every a=A -> b=B(id = a.id) where timer:within(1 hour)"),
    ("by range", "every a=A -> b=B(x >= a.x)"),
    ("absence", "every a=A -> (timer:interval(1 hour) and not B(id = a.id))"),
)
TICKS = "create schema Tick(ts long, symbol string, price double, volume int)"
DROP = (
    "select a.symbol as s, a.price as high, b.price as low from pattern "
    "[every a=Tick(price > 95) -> b=Tick(symbol = a.symbol, price < 5) where timer:within(10 sec)]"
)
Send = Callable[[dict[str, Any]], None]


class Counter:
    """A sink that only counts rows."""

    def __init__(self) -> None:
        self.rows = 0

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row], /) -> None:
        self.width = 2 + (1 if columns is None else len(columns))

    def push(self, time: int, insert: Rows, remove: Rows, /) -> None:
        self.rows += len(insert or ())

    def one(self, record: Record, /) -> None:
        self.rows += 1

    def extend(self, flat: list[Any], /) -> None:
        self.rows += sum(mark <= MORE for mark in flat[:: self.width])


def deployed(schema: str, statement: str) -> tuple[Runtime, Counter]:
    runtime, counter = Runtime(), Counter()
    runtime.deploy(f"{schema}; @name('out') {statement}")
    runtime.statement("out").add_sink(counter)
    return runtime, counter


def by_hand() -> tuple[Send, Send]:
    waiting: dict[int, list[dict[str, Any]]] = {}
    found: list[tuple[int, int, int]] = []

    def a(event: dict[str, Any]) -> None:
        waiting.setdefault(event["id"], []).append(event)

    def b(event: dict[str, Any]) -> None:
        for first in waiting.pop(event["id"], ()):
            found.append((first["id"], first["x"], event["x"]))
        if len(found) > 100:
            found.clear()

    return a, b


def senders(pattern: str | None) -> tuple[Send, Send, Runtime | None]:
    if pattern is None:
        return *by_hand(), None
    runtime, _ = deployed(SCHEMA, f"select a.id as id, a.x as ax, current_timestamp as t from pattern [{pattern}]")
    return runtime.sender("A"), runtime.sender("B"), runtime


def cost(pattern: str | None, open_: int, events: int) -> float:
    """CPU time per event, in microseconds."""
    a, b, _ = senders(pattern)
    for i in range(open_):
        a({"id": i, "x": i})
    chosen = random.Random(open_)
    if pattern is not None and ">=" in pattern:  # each B closes the lowest
        numbers = [(i, open_ + i) for i in range(events // 2)]
    else:
        numbers = [(i, i) for i in (chosen.randrange(open_) for _ in range(events // 2))]
    pairs = [({"id": i, "x": i}, {"id": j, "x": j}) for i, j in numbers]
    gc.collect()
    start = time.process_time()
    for closes, opens in pairs:
        b(closes)
        a(opens)
    return (time.process_time() - start) / (2 * len(pairs)) * 1e6


def weight(pattern: str, open_: int = 20_000) -> float:
    """Bytes per open partial match."""
    a, _, _ = senders(pattern)
    events = [{"id": i, "x": i} for i in range(open_)]
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for event in events:
        a(event)
    found = (tracemalloc.get_traced_memory()[0] - before) / open_
    tracemalloc.stop()
    return found


# ---------------------------------------------------------------- workload e
def ticks(count: int) -> list[dict[str, Any]]:
    draw = random.Random(7)
    return [
        {
            "ts": i,
            "symbol": f"S{draw.randrange(100)}",
            "price": round(draw.uniform(0, 100), 2),
            "volume": draw.randrange(1, 1000),
        }
        for i in range(count)
    ]


def drop_by_hand(found: list[dict[str, Any]]) -> Send:
    waiting: dict[str, deque[dict[str, Any]]] = {}

    def on_tick(event: dict[str, Any]) -> None:
        price = event["price"]
        if price > 95:
            waiting.setdefault(event["symbol"], deque()).append(event)
        elif price < 5:
            first = waiting.get(event["symbol"])
            if first:
                since = event["ts"] - 10_000
                for a in first:
                    if a["ts"] > since:
                        found.append({"s": a["symbol"], "high": a["price"], "low": price})
                first.clear()

    return on_tick


def measured(send: Send, events: list[dict[str, Any]]) -> float:
    """Thousands of events per CPU-second."""
    gc.collect()
    start = time.process_time()
    for event in events:
        send(event)
    return len(events) / (time.process_time() - start) / 1000


def workload(count: int, rounds: int) -> None:
    events = ticks(count)
    names = ("by hand", "send", "replay")
    rates: dict[str, list[float]] = {name: [] for name in names}
    rows: dict[str, int] = {}
    for _ in range(rounds):
        found: list[dict[str, Any]] = []
        rates["by hand"].append(measured(drop_by_hand(found), events))
        rows["by hand"] = len(found)
        runtime, counter = deployed(TICKS, DROP)
        rates["send"].append(measured(runtime.sender("Tick", time="ts"), events))
        rows["send"] = counter.rows
        rate, rows["replay"] = replay(events)
        rates["replay"].append(rate)
    assert len(set(rows.values())) == 1, rows
    medians = {name: statistics.median(rates[name]) for name in names}
    print("\n| workload e | by hand | send | replay | send / hand | replay / send |")
    print("|---|--:|--:|--:|--:|--:|")
    hand, send, batch = (medians[name] for name in names)
    print(f"| {rows['send']:,} matches | {hand:,.0f} | {send:,.0f} | {batch:,.0f} | ", end="")
    print(f"{send / hand:.2f} | {batch / send:.2f} |")


def replay(events: list[dict[str, Any]]) -> tuple[float, int]:
    runtime, counter = deployed(TICKS, DROP)
    batch = runtime.batch(["Tick"])
    columns = {name: [event[name] for event in events] for name in batch.columns["Tick"]}
    times = [event["ts"] for event in events]
    gc.collect()
    start = time.process_time()
    size = 65_536
    for i in range(0, len(events), size):
        part = {name: values[i : i + size] for name, values in columns.items()}
        batch.run([ColumnBatch("Tick", times[i : i + size], part)])
    return len(events) / (time.process_time() - start) / 1000, counter.rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--open", default="100,10000,100000")
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    sizes = [int(size) for size in args.open.split(",")]
    print("| µs per event with … open | " + " | ".join(f"{size:,}" for size in sizes) + " | ratio | bytes each |")
    print("|---|" + "--:|" * (len(sizes) + 2))
    for name, pattern in (*CASES, ("a dict by hand", None)):
        costs = [statistics.median(cost(pattern, size, args.events) for _ in range(args.rounds)) for size in sizes]
        bytes_ = "" if pattern is None else f"{weight(pattern):,.0f}"
        print(f"| {name} | " + " | ".join(f"{c:.2f}" for c in costs) + f" | {costs[-1] / costs[0]:.2f} | {bytes_} |")
    workload(5 * args.events, args.rounds)


if __name__ == "__main__":
    main()
