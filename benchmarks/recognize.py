"""What does a row cost match_recognize: as the history grows, by open matches, and beside an automaton by hand?

    python benchmarks/recognize.py [--rows 200000] [--open 10,100,1000,10000]

First table: falls of two rows and more, then two rises, on random walks of 100 symbols: nanoseconds per row in each
tenth of the history, which should be the same in all. Baseline: the state machine that one would write by hand for
exactly this shape, per symbol a state and the rows that a match needs.

Second table: ``A B* C`` where every `A` begins a match that stays open (skip to next row): nanoseconds per row, and
per row and open match, which should be the same for any number. Last column: as many open matches in as many
partitions, where a row looks at its own only.

One process, no pinning: the median of the blocks is the figure.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable
from typing import Any

from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized.column_batch import ColumnBatch

TICK = "create schema Tick(symbol string, price double);"
SHAPE = """@name('out') select * from Tick match_recognize (
  partition by symbol
  measures S.price as top, last(D.price) as bottom, last(U.price) as now, count(D.price) as falls
  pattern (S D{2,} U{2})
  define D as D.price < prev(D.price), U as U.price > prev(U.price))"""
OPEN = """create schema R(k int, x int);
@name('out') select * from R match_recognize ({by} measures A.x as a, count(B.x) as b
  after match skip to next row pattern (A B* C) define A as A.x = 0, B as B.x < 2, C as C.x = 2)"""


class Counter:
    """A sink that only counts."""

    def __init__(self) -> None:
        self.rows = 0
        self.width = 3

    def describe(self, columns: Any, fresh: Any, /) -> None:
        self.width = 2 + (1 if columns is None else len(columns))

    def one(self, record: Any, /) -> None:
        self.rows += 1

    def extend(self, flat: Any, /) -> None:
        self.rows += len(flat) // self.width


def started(epl: str) -> tuple[Runtime, Counter]:
    runtime, counter = Runtime(), Counter()
    runtime.deploy(epl)
    runtime.statement("out").add_sink(counter)
    return runtime, counter


def walks(rows: int) -> list[dict[str, Any]]:
    draw, prices = random.Random(1), [100.0] * 100
    found = []
    for _ in range(rows):
        which = draw.randrange(100)
        prices[which] += draw.choice((-1.0, -0.5, 0.0, 0.5, 1.0))
        found.append({"symbol": f"S{which}", "price": prices[which]})
    return found


def by_hand() -> tuple[Callable[[dict[str, Any]], None], list[Any]]:
    """Falls of two and more, then two rises. Per symbol: last price, number of falls, of rises, top, bottom."""
    state: dict[str, list[Any]] = {}
    found: list[tuple[Any, ...]] = []

    def take(event: dict[str, Any]) -> None:
        symbol, price = event["symbol"], event["price"]
        s = state.get(symbol)
        if s is None:
            state[symbol] = [price, 0, 0, price, price, True]
            return
        last, falls, rises, top, _, fresh = s
        s[0] = price
        if not fresh:  # the row that ended a match begins none
            s[1:] = [0, 0, price, price, True]
        elif price < last:
            if rises:
                s[1:5] = [1, 0, last, price]
            else:
                s[1], s[4] = falls + 1, price
                if not falls:
                    s[3] = last
        elif price > last and falls >= 2:
            s[2] = rises + 1
            if rises:
                found.append((top, s[4], price, falls))
                s[5] = False
        else:
            s[1:5] = [0, 0, price, price]

    return take, found


def per_row(take: Callable[[Any], Any], rows: list[Any]) -> float:
    """Nanoseconds."""
    begin = time.process_time_ns()
    for row in rows:
        take(row)
    return (time.process_time_ns() - begin) / len(rows)


def history(rows: int) -> None:
    events = walks(rows)
    tenth = rows // 10
    runtime, counter = started(TICK + SHAPE)
    send = runtime.sender("Tick")
    hand, found = by_hand()
    gc.disable()
    blocks = [events[i : i + tenth] for i in range(0, rows, tenth)]
    sent = [per_row(send, block) for block in blocks]
    by = [per_row(hand, block) for block in blocks]
    replayed, again = started(TICK + SHAPE)
    batch = replayed.batch(["Tick"])
    begin = time.process_time_ns()
    for at, block in enumerate(blocks):
        columns = {name: [event[name] for event in block] for name in batch.columns["Tick"]}
        batch.run([ColumnBatch("Tick", [0] * tenth, columns, list(range(at * tenth, at * tenth + tenth)))])
    run = (time.process_time_ns() - begin) / rows
    gc.enable()
    print(f"{rows:,} rows, 100 symbols: {counter.rows:,} matches, by hand {len(found):,}, replayed {again.rows:,}")
    print("ns per row       " + " ".join(f"{i * 10:>3}%-  " for i in range(10)) + " median")
    for name, figures in (("sent", sent), ("by hand", by)):
        print(f"{name:<16} " + " ".join(f"{f:>6,.0f}" for f in figures) + f" {statistics.median(figures):>7,.0f}")
    print(f"{'replayed':<16} {run:,.0f} on the whole")


def open_matches(count: int) -> None:
    rows = [{"k": 0, "x": 1}] * max(20, 200_000 // count)
    runtime, _ = started(OPEN.format(by=""))
    send = runtime.sender("R")
    for _ in range(count):
        send({"k": 0, "x": 0})
    gc.disable()
    alone = per_row(send, rows)
    runtime, _ = started(OPEN.format(by="partition by k"))
    send = runtime.sender("R")
    for key in range(count):
        send({"k": key, "x": 0})
    apart = per_row(send, [{"k": key % count, "x": 1} for key in range(20_000)])
    gc.enable()
    print(f"{count:>8,} {alone:>14,.0f} {alone / count:>16,.0f} {apart:>16,.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--open", default="10,100,1000,10000")
    given = parser.parse_args()
    history(given.rows)
    print(f"\n{'open':>8} {'ns per row':>14} {'per open match':>16} {'in partitions':>16}")
    for count in given.open.split(","):
        open_matches(int(count))


if __name__ == "__main__":
    main()
