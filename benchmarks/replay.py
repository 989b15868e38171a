"""What does a statement that needs the order of events cost the others of a replay? And how fast are replays?

    python benchmarks/replay.py [--events 100000] [--rounds 5] [--only modules,workloads,paced]

First table: a module of ten statements, replayed; then the same module of which one statement is a pattern, a pattern
over a stream that another statement inserts into, a context of conditions, or has a plain listener. Baseline is the
module of ten plain statements in the same run; the bar for the pattern is 1.5 times its time.

Second table: the workloads of `workloads.py`, replayed from a DataFrame into the workbench's feeds, in thousands of
events per CPU-second. With another checkout first on PYTHONPATH the same file measures that one.

Third table: the same, with a clock that stops whenever something is due (``stepping``) and with a speed that nothing
keeps (all is due at once), beside the plain replay.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable
from typing import Any

import pandas as pd
from workloads import EPL, SCHEMA, ticks

from cepbook import Workbench

NINE = (
    "select ts, symbol, price from Tick(price > 50)",
    "select ts, avg(price) as ap from Tick#length(1000)",
    "select symbol, sum(volume) as total from Tick#time(30 sec) group by symbol",
    "select symbol, count(*) as n, avg(price) as ap from Tick#groupwin(symbol)#length(100) group by symbol",
    "select symbol, sum(volume) as total from Tick#time_batch(1 sec) group by symbol",
    "insert into Dear select ts, symbol, price from Tick(price > 90)",
    "select symbol, max(price) as top from Dear#time(10 sec) group by symbol",
    "select count(*) as n from Tick output last every 5 sec",
    "select symbol, price from Tick#unique(symbol)",
)
PLAIN = "select symbol, price, volume from Tick(volume > 500)"
PATTERN = (
    "select a.symbol as s, b.price as low from pattern "
    "[every a={0}(price > 95) -> b={0}(symbol = a.symbol, {1}) where timer:within(10 sec)]"
)
TENTH = {
    "ten plain statements": PLAIN,
    "one a pattern": PATTERN.format("Tick", "price < 5"),
    "one a pattern over a derived stream": PATTERN.format("Dear", "price < 92"),
    "one in a context of conditions": "context Slot " + PLAIN,
    "one with a listener": PLAIN,
}
CONTEXT = "create context Slot start @now end after 1 min;"


def module(tenth: str) -> Workbench:
    """A workbench with nine statements and `tenth`."""
    bench = Workbench()
    statements = [f"@name('s{i}') {text}" for i, text in enumerate((*NINE, TENTH[tenth]))]
    bench.run(";".join([SCHEMA, CONTEXT + statements[0], *statements[1:]]))
    if tenth == "one with a listener":
        bench.on("s9", lambda delta: None)
    return bench


def workload(name: str) -> Workbench:
    """A workbench with one statement of `workloads.py`."""
    bench = Workbench()
    bench.run(f"{SCHEMA}; @name('out') {EPL[name]}")
    return bench


def seconds(made: Callable[[], Workbench], frame: pd.DataFrame, options: dict[str, Any]) -> float:
    """CPU-seconds of a replay."""
    bench = made()
    gc.collect()
    start = time.process_time()
    bench.replay(frame, type="Tick", time="ts", **options).run()
    return time.process_time() - start


def compared(jobs: dict[Any, tuple[Any, ...]], rounds: int) -> dict[Any, list[float]]:
    """The CPU-seconds of each job, interleaved, after a warm-up."""
    taken: dict[Any, list[float]] = {name: [] for name in jobs}
    for number in range(rounds + 1):
        for name, (made, frame, *options) in jobs.items():
            found = seconds(made, frame, *options or [{}])
            if number:
                taken[name].append(found)
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="modules,workloads,paced")
    chosen = parser.parse_args()
    wanted = chosen.only.split(",")
    print(f"{chosen.events:,} events, {chosen.rounds} interleaved rounds, medians of CPU time")
    frames = {count: pd.DataFrame(ticks(chosen.events, count)) for count in (100, 1000)}
    if "modules" in wanted:
        print("| module | ms | times ten plain statements |\n|---|--:|--:|")
        taken = compared({name: (lambda name=name: module(name), frames[100]) for name in TENTH}, chosen.rounds)
        base = statistics.median(taken["ten plain statements"])
        for name, found in taken.items():
            print(f"| {name} | {statistics.median(found) * 1000:,.0f} | {statistics.median(found) / base:.2f} |")
    if "workloads" in wanted:
        print("| workload | thousand events/s |\n|---|--:|")
        named = [name for name in EPL if len(name) == 1 and name != "f"]
        jobs = {name: (lambda name=name: workload(name), frames[1000 if name == "d" else 100]) for name in named}
        for name, found in compared(jobs, chosen.rounds).items():
            print(f"| {name} | {chosen.events / statistics.median(found) / 1000:,.0f} |")
    if "paced" in wanted:
        print("| workload | plain | stepping | with a speed | plain / with a speed |\n|---|--:|--:|--:|--:|")
        kinds = {"plain": {}, "stepping": {"stepping": True}, "speed": {"speed": 1e9}}
        named = [name for name in EPL if len(name) == 1]
        given = {name: (lambda name=name: workload(name), frames[1000 if name == "d" else 100]) for name in named}
        every = compared({(n, k): (*given[n], kinds[k]) for n in named for k in kinds}, chosen.rounds)
        for name in named:
            plain, stepping, speed = (chosen.events / statistics.median(every[name, k]) / 1000 for k in kinds)
            print(f"| {name} | {plain:,.0f} | {stepping:,.0f} | {speed:,.0f} | {plain / speed:.2f} |")


if __name__ == "__main__":
    main()
