"""What does an event cost in the windows that came with the dialects, at 10^2, 10^4 and 10^6 retained events?

Baseline: the same at 10^2, and Esper's ``length`` and ``time`` as an EPL statement, in the same run. The bar: at most 2
times the cost from 10^2 to 10^6.

    python benchmarks/dialects.py [--sizes 100,10000,1000000] [--events 30000] [--rounds 5] [--only gated]

A statement is filled, then measured: CPU time of `send` for events one ms apart, the clock going along, into a sink
that only counts; the figure is the median of the rounds. Gates are a hundred to the contents (a gate is what makes
events enter and leave in lots). Rows of EPL stand beside those of Apama's queries, which take part in activations.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from typing import Any

from cepbook.engine.delivery.delta import Record, Row, Rows
from cepbook.engine.runtime import Runtime
from cepbook.lang.syntax.source_text import SourceText

SCHEMA = "create schema Tick(id long, k long, price double)"

# By name: the dialect, and the text around n events; {ms} and {sec} are the time that n events take, {gate} a hundredth
CASES: dict[str, tuple[str, str]] = {
    "epl length": ("epl", "@name('s') select sum(price) as v from Tick#length({n})"),
    "epl time": ("epl", "@name('s') select sum(price) as v from Tick#time({ms} msec)"),
    "epl gated_time": ("epl", "@name('s') select sum(price) as v from Tick#gated_time({ms} msec, {gate} msec)"),
    "epl gated_time, size": (
        "epl",
        "@name('s') select sum(price) as v from Tick#gated_time({ms} msec, {gate} msec, {n})",
    ),
    "epl gated_length": ("epl", "@name('s') select sum(price) as v from Tick#gated_length({n}, {gate})"),
    "epl length newest": ("epl", "@name('s') select sum(price) as v from Tick#length({n})#newest(k)"),
    "epl random": ("epl", "@name('s') select sum(price) as v from Tick#random({n})"),
    "epl five aggregates": (
        "epl",
        "@name('s') select variance(price) as v, geomean(price) as g, sumsq(price) as q, skewness(price) as s,"
        " kurtosis(price) as k from Tick#length({n})",
    ),
    "epl lot": ("epl", "@name('s') select sum(price) as v from Tick#lot"),
    "retain": ("apama", "from t in all Tick() retain {n} select sum(t.price)"),
    "within": ("apama", "from t in all Tick() within {sec} select sum(t.price)"),
    "within retain": ("apama", "from t in all Tick() within {sec} retain {n} select sum(t.price)"),
    "within every": ("apama", "from t in all Tick() within {sec} every {pause} select sum(t.price)"),
    "within every retain": ("apama", "from t in all Tick() within {sec} every {pause} retain {n} select sum(t.price)"),
    "retain every": ("apama", "from t in all Tick() retain {n} every {gate} select sum(t.price)"),
    "retain with unique": ("apama", "from t in all Tick() retain {n} with unique t.k select sum(t.price)"),
    "partition by retain": ("apama", "from t in all Tick() partition by t.k retain 10 select sum(t.price)"),
    "retain group by": ("apama", "from t in all Tick() retain {n} group by t.k select sum(t.price)"),
    "no window": ("apama", "from t in all Tick() select t.price"),
    "chain of three": (
        "apama",
        "stream<float> p := from t in all Tick() select t.price;"
        " stream<float> m := from v in p retain {n} select mean(v);"
        " from v in m where v > 50.0 select v",
    ),
    "equi-join": (
        "apama",
        "from p in all Tick() retain {n} join q in all Tick() retain {n} on p.id equals q.id select count()",
    ),
}


class Counter:
    """A sink that counts deliveries and keeps none."""

    deliveries = 0

    def describe(self, columns: tuple[str, ...] | None, fresh: Any) -> None: ...

    def one(self, record: Record) -> None:
        self.deliveries += 1

    def push(self, time: int, insert: Rows, remove: Rows) -> None:
        self.deliveries += 1

    def extend(self, flat: list[Any]) -> None:
        self.deliveries += 1


def events(begin: int, count: int, keys: int) -> list[Row]:
    return [{"id": i, "k": i % keys, "price": float(i % 100)} for i in range(begin, begin + count)]


def measured(dialect: str, text: str, size: int, count: int, rounds: int) -> float:
    """Microseconds per event, of `count` events in a window of `size`."""
    gate = max(1, size // 100)
    words = {"n": size, "ms": size, "sec": size / 1000, "gate": gate, "pause": gate / 1000}
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(SourceText(text.format(**words), dialect, {} if dialect == "epl" else {"name": "s"}))
    runtime.statement("s").add_sink(Counter())
    keys = max(1, size // 10)
    for i, event in enumerate(events(0, size + gate, keys)):
        runtime.send("Tick", event, at=i)
    at, found = size + gate, []
    for _ in range(rounds):
        made = events(at, count // rounds, keys)
        gc.collect()
        begin = time.process_time()
        for event in made:
            at += 1
            runtime.send("Tick", event, at=at)
        found.append((time.process_time() - begin) / len(made) * 1e6)
    return statistics.median(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,10000,1000000")
    parser.add_argument("--events", type=int, default=30_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    print(f"{'microseconds per event':24}" + "".join(f"{size:>12,}" for size in sizes) + f"{'ratio':>8}")
    for name, (dialect, text) in CASES.items():
        if given.only in name:
            found = [measured(dialect, text, size, given.events, given.rounds) for size in sizes]
            shown = "".join(f"{each:12.2f}" for each in found)
            print(f"{name:24}{shown}{found[-1] / found[0]:8.2f}", flush=True)


if __name__ == "__main__":
    main()
