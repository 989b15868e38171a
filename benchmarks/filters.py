"""Does the cost per event grow with the number of filtered statements?

Baseline: one statement with the same form of filter, in the same run. Statements have distinct filters, so each event
matches (the equality of) one of them. All deliver to one sink that only counts, so that what is measured is finding
and running the statement, not what feeds keep.

    python benchmarks/filters.py [--events 100000] [--rounds 5]
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from cepbook.engine.delivery.delta import MORE, Record, Row
from cepbook.engine.runtime import Runtime

SCHEMA = "create schema Tick(symbol string, price double)"
FORMS: dict[str, Callable[[int], str]] = {
    "symbol = X": lambda i: f"symbol = 'S{i:04d}'",
    "symbol = X and price > P": lambda i: f"symbol = 'S{i:04d}' and price > {i % 50}",
    "symbol in (X, Y)": lambda i: f"symbol in ('S{i:04d}', 'T{i:04d}')",
}


class Counter:
    """A sink that counts rows and keeps none."""

    rows = 0

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        self.width = 2 + (1 if columns is None else len(columns))

    def one(self, record: Record) -> None:
        self.rows += 1

    def extend(self, flat: list[Any]) -> None:
        self.rows += sum(mark <= MORE for mark in flat[:: self.width])


def cost(form: Callable[[int], str], count: int, events: int) -> float:
    """CPU nanoseconds per event with `count` statements; every event matches one filter's symbol."""
    runtime, counter = Runtime(), Counter()
    runtime.deploy(SCHEMA)
    for i in range(count):
        statement = runtime.deploy(f"@name('s{i}') select symbol, price from Tick({form(i)})").statements[0]
        statement.add_sink(counter)
    rng = random.Random(3)
    ticks = [{"symbol": f"S{rng.randrange(count):04d}", "price": rng.random() * 100} for _ in range(events)]
    send = runtime.sender("Tick")
    send(ticks[0])  # builds the index
    gc.collect()
    start = time.process_time()
    for tick in ticks:
        send(tick)
    return (time.process_time() - start) / events * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    counts = (1, 10, 100, 1_000)
    print(f"CPU ns per event, medians of {chosen.rounds} interleaved rounds")
    print("| filter | " + " | ".join(f"{c:,} statements" for c in counts) + " | 1,000 / 1 |")
    print("|---|" + "--:|" * (len(counts) + 1))
    for name, form in FORMS.items():
        taken: dict[int, list[float]] = {count: [] for count in counts}
        for _ in range(chosen.rounds):
            for count in counts:
                taken[count].append(cost(form, count, chosen.events))
        medians = {count: statistics.median(values) for count, values in taken.items()}
        shown = " | ".join(f"{medians[c]:,.0f}" for c in counts)
        print(f"| `{name}` | {shown} | {medians[1_000] / medians[1]:.2f} |", flush=True)


if __name__ == "__main__":
    main()
