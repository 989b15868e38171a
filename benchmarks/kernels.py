"""What do compiled loops over arrays gain in a replay?

Baseline: the same replay by generated Python, in the same process, in turns. Both deliver into a feed, and the rows are
compared. A loop by hand over the same arrays says what the kernel itself costs.

    python benchmarks/kernels.py [--events 1000000] [--rounds 5] [--only b,d]

Statements, on ticks one ms apart, 100 symbols (d, i, j: 1,000): **a** filter and columns · **b** avg of the last 1000 ·
**c** sum of 30 s by symbol, a row per event · **d** count and avg of the last 100 of the symbol · **o** the value
before, by symbol · **k** sum of everything by symbol · **x** price by its average · **h** the same, if
above · **v** sum by symbol and venue, a number · **m** price above the lowest of 30 s, by symbol · **r** extremes of
30 s, one of an ascending column · **i** count, sum and maximum in a context by symbol · **j** avg of the last 100 in
that context · **e** a pattern: the next low price of a symbol within 10 s after a high one · **g** no low price within
half a second · **q** three steps · **s** the next price below a fifth of the first · **u** `match_recognize`: prices of
a symbol that fall and rise again · joins: **w** two windows by two keys, **y** the latest event of a key, **z** outer,
10 s · subqueries: **p** the highest price in a window by key, **l** an average of 10 s and the absence of an event. For
patterns, arrays follow partial matches instead of state nodes; for `u` the states of the partitions.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import pandas as pd

from cepbook import Workbench
from cepbook.engine.vectorized import kernel_library

SCHEMA = "create schema Tick(ts long, symbol string, venue int, price double, volume int);"
CONTEXT = "create context BySymbol partition by symbol from Tick;"
EPL = {
    "a": "select ts, symbol, price from Tick(price > 50)",
    "b": "select ts, avg(price) as ap from Tick#length(1000)",
    "c": "select ts, symbol, sum(volume) as total from Tick#time(30 sec) group by symbol",
    "d": "select symbol, count(*) as n, avg(price) as ap from Tick#groupwin(symbol)#length(100) group by symbol",
    "o": "select ts, prev(1, price) as before, price from Tick#groupwin(symbol)#length(2)",
    "k": "select ts, symbol, sum(volume) as total from Tick group by symbol",
    "x": "select ts, price / avg(price) as ratio from Tick#length(1000)",
    "h": "select ts, price / avg(price) as ratio from Tick#length(1000) having price > avg(price)",
    "v": "select ts, symbol, venue, sum(volume) as total from Tick group by symbol, venue",
    "m": "select ts, symbol, price - min(price) as above from Tick#time(30 sec) group by symbol",
    "r": "select ts, min(ts) as oldest, max(price) as high from Tick#time(30 sec)",
    "i": "context BySymbol select symbol, count(*) as n, sum(volume) as total, max(price) as high from Tick",
    "j": "context BySymbol select symbol, avg(price) as ap from Tick#length(100)",
    "e": "select a.ts as a, b.ts as b from pattern [every a=Tick(price > 95) -> "
    "b=Tick(symbol = a.symbol, price < 5) where timer:within(10 sec)]",
    "g": "select a.ts as a from pattern [every a=Tick(price > 95) -> "
    "(timer:interval(500 msec) and not Tick(symbol = a.symbol, price < 5))]",
    "q": "select a.ts as a, c.ts as c from pattern [every a=Tick(price > 95) -> "
    "(b=Tick(symbol = a.symbol, price < 5) -> c=Tick(symbol = a.symbol, price > 95)) where timer:within(10 sec)]",
    "s": "select a.ts as a, b.ts as b from pattern [every a=Tick(price > 95) -> "
    "b=Tick(symbol = a.symbol, price < a.price * 0.2) where timer:within(10 sec)]",
    "u": "select * from Tick match_recognize (partition by symbol measures X.price as top, last(D.price) as bottom, "
    "U.price as now pattern (X D{2,} U) define D as D.price < prev(D.price), U as U.price > prev(U.price))",
    "w": "select a.ts as a, b.ts as b from Tick(price > 50)#length(1000) as a, Tick(price <= 50)#length(1000) as b "
    "where a.symbol = b.symbol and a.volume = b.volume",
    "y": "select t.ts as ts, t.price as price, q.price as ask from Tick(venue > 1) as t unidirectional, "
    "Tick(venue <= 1)#unique(symbol) as q where t.symbol = q.symbol",
    "p": "select ts, (select max(price) from Tick(price > 50)#length(1000) as w where w.symbol = t.symbol) as high "
    "from Tick(price <= 50) as t",
    "l": "select ts, price from Tick(price > 50) as t where price > "
    "(select avg(price) from Tick(price <= 50)#time(10 sec) as w where w.symbol = t.symbol) * 3.5 and not exists "
    "(select * from Tick(venue = 0)#unique(symbol) as v where v.symbol = t.symbol and v.volume > t.volume)",
    "z": "select a.ts as a, b.ts as b from Tick(price > 95)#time(10 sec) as a "
    "left outer join Tick(price < 5)#time(10 sec) as b on a.symbol = b.symbol and a.volume > b.volume",
}


def ticks(first: int, count: int, symbols: int) -> pd.DataFrame:
    """Return `count` ticks from time `first` on."""
    random = np.random.default_rng(first)
    names = np.array([f"S{i}" for i in range(symbols)], dtype=object)
    return pd.DataFrame(
        {
            "ts": np.arange(first, first + count),
            "symbol": names[random.integers(0, symbols, count)],
            "venue": random.integers(0, 5, count).astype(np.int32),
            "price": random.random(count) * 100,
            "volume": random.integers(1, 1000, count).astype(np.int32),
        }
    )


def workbench(epl: str, *, kernels: bool) -> Workbench:
    """Return a workbench with the statement; without kernels its batches run by generated Python."""
    bench = Workbench()
    bench.run(f"{SCHEMA}\n{CONTEXT}\n@name('out') {epl}")
    if not kernels:
        statement = bench.runtime.statement("out")
        vars(statement)["vectorized"] = None
        if statement.pattern_alone is not None:
            vars(statement.pattern_alone)["follow"] = lambda *_: None
        if statement.program.recognize is not None:
            object.__setattr__(statement.program.recognize, "arrays", lambda: "switched off")
    return bench


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(EPL))
    options = parser.parse_args()
    if kernel_library.kernels(wait=True) is None:
        raise SystemExit(kernel_library.missing_reason())
    print("| | generated Python, ns | kernels, ns | ratio |\n|---|--:|--:|--:|")
    for name in options.only.split(","):
        symbols = 1000 if name in "dijw" else 100
        ways = {kernels: workbench(EPL[name], kernels=kernels) for kernels in (False, True)}
        costs: dict[bool, list[float]] = {False: [], True: []}
        for turn in range(options.rounds + 1):
            frame = ticks(turn * options.events, options.events, symbols)
            for kernels, bench in ways.items():
                replay = bench.replay(frame, "Tick", time="ts")
                began = time.process_time()
                replay.run()
                if turn:
                    costs[kernels].append((time.process_time() - began) / options.events * 1e9)
        rows, arrays = (bench.changes("out").tail(100_000) for bench in ways.values())
        pd.testing.assert_frame_equal(rows, arrays, check_exact=True)
        before, after = (statistics.median(costs[kernels]) for kernels in (False, True))
        print(f"| {name}: `{EPL[name]}` | {before:.0f} | {after:.0f} | {after / before:.2f} |", flush=True)


if __name__ == "__main__":
    main()
