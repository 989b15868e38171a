"""Does the cost of an event grow with what is joined, and how far is it from code by hand?

An equality join of two windows that hold so many rows that each event finds one partner; a join by a range that finds
three; and, beside the first, a dict of lists kept by hand: the same windows, the same rows delivered to a function.
Each row fills the windows, then sends events to both sides in turn, and takes CPU time per event.

    python benchmarks/joins.py [--most 100000]
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from cepbook.engine.runtime import Runtime

SCHEMA = "create schema L(k int, v double); create schema R(k int, w double);"
EVENTS = 20_000
Event = dict[str, Any]
Send = Callable[[str, Event], object]


class Rows:
    """A sink that only counts values."""

    def __init__(self) -> None:
        self.count = 0

    def describe(self, columns: Any, fresh: Any) -> None:
        """Columns do not matter."""

    def one(self, record: Any) -> None:
        self.count += 1

    def extend(self, records: Any) -> None:
        self.count += len(records)


def engine(epl: str) -> tuple[Send, Rows]:
    runtime, rows = Runtime(), Rows()
    runtime.deploy(SCHEMA + f"@name('s') {epl}")
    runtime.statement("s").add_sink(rows)
    return runtime.send, rows


def equality(size: int) -> tuple[Send, Rows]:
    return engine(f"select l.k as k, v, w from L#length({size}) as l, R#length({size}) as r where l.k = r.k")


def by_range(size: int) -> tuple[Send, Rows]:
    where = "r.k between l.k - 1 and l.k + 1"
    return engine(f"select l.k as k, v, w from L#length({size}) as l, R#length({size}) as r where {where}")


def by_hand(size: int) -> tuple[Send, Rows]:
    """A dict of lists for each side."""
    rows = Rows()
    held: dict[str, tuple[deque[Event], dict[int, list[Event]]]] = {"L": (deque(), {}), "R": (deque(), {})}

    def send(name: str, event: Event) -> None:
        queue, by_key = held[name]
        queue.append(event)
        by_key.setdefault(event["k"], []).append(event)
        if len(queue) > size:
            oldest = queue.popleft()
            same = by_key[oldest["k"]]
            same.remove(oldest)
            if not same:
                del by_key[oldest["k"]]
        other = held["R" if name == "L" else "L"][1]
        found = []
        for partner in other.get(event["k"], ()):
            one, two = (event, partner) if name == "L" else (partner, event)
            found.append((1, 0, one["k"], one["v"], two["w"]))
        if found:
            rows.extend(found)

    return send, rows


def measured(make: Callable[[int], tuple[Send, Rows]], size: int) -> tuple[float, float]:
    """CPU nanoseconds per event, and rows per event, with windows that are full."""
    draw = random.Random(1)
    send, rows = make(size)
    events = [("L", {"k": draw.randrange(size), "v": 1.0}) for _ in range(size + EVENTS)]
    others = [("R", {"k": draw.randrange(size), "w": 2.0}) for _ in range(size + EVENTS)]
    both = [each for pair in zip(events, others, strict=True) for each in pair]
    for name, event in both[: 2 * size]:
        send(name, event)
    gc.collect()
    before, begin = rows.count, time.process_time()
    for name, event in both[2 * size :]:
        send(name, event)
    spent = time.process_time() - begin
    count = len(both) - 2 * size
    return spent / count * 1e9, (rows.count - before) / count


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--most", type=int, default=100_000)
    most = options.parse_args().most
    print(f"{'join':16}{'rows held':>12}{'ns/event':>12}{'rows/event':>12}{'/ 100':>8}{'/ hand':>8}")
    for name, make in (("equality", equality), ("range", by_range)):
        first = 0.0
        for size in (100, 1_000, 10_000, most):
            hand, _ = measured(by_hand, size)
            cost, rows = measured(make, size)
            first = first or cost
            print(f"{name:16}{size:>12,}{cost:>12,.0f}{rows:>12.2f}{cost / first:>8.2f}{cost / hand:>8.2f}")


if __name__ == "__main__":
    main()
