"""How does this checkout compare with another one, event by event, on a machine that others use as well?

Baseline: the other checkout. Both run in processes of their own, which take turns every 1,000 events, so that whatever
else the machine does falls on both. The figures are CPU nanoseconds per event: the mean, in which the turns that met
the collector of cycles count, too, and the median.

    git worktree add ../before COMMIT
    python benchmarks/against.py ../before [--only a,cx,length] [--events 24000] [--nothing | --replay]

Events go into a feed, with ``--nothing`` into a sink that forgets them. With ``--replay`` a turn is the replay of all
events from a DataFrame into the feed of a new `Workbench`.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent.parent
TURN, WARM_UP = 1000, 4  # events of a turn, turns that do not count
REPLAYS = 12  # of which two do not count
SCHEMA = "create schema Tick(ts long, symbol string, price double, volume int)"
WINDOWS = {
    "length": "length(100)",
    "time": "time(100 msec)",
    "ext_timed": "ext_timed(ts, 100 msec)",
    "expr": "expr(current_count <= 100)",
    "unique": "unique(symbol)",
    "lastevent": "lastevent",
    "groupwin": "groupwin(symbol)#length(10)",
    "groupwin_time": "groupwin(symbol)#time(1 sec)",
    "keepall": "keepall",
    "firstunique": "firstunique(ts)",
    "length_batch": "length_batch(100)",
    "time_batch": "time_batch(100 msec)",
    "ext_timed_batch": "ext_timed_batch(ts, 100 msec)",
    "time_length_batch": "time_length_batch(1 hour, 100)",
    "expr_batch": "expr_batch(current_count >= 100)",
    "time_accum": "time_accum(10 msec)",
    "sort": "sort(100, price)",
    "rank": "rank(symbol, 50, price)",
    "time_order": "time_order(ts, 100 msec)",
    "intersection": "length(100)#time(100 msec)",
    "unequals": "length(100)#unique(symbol)",
    "union": "length(100)#time(100 msec) retain-union",
}
MODULES = {
    "a": "select ts, symbol, price from Tick(price > 50)",
    "b": "select ts, avg(price) as ap from Tick#length(1000)",
    "c": "select ts, symbol, sum(volume) as total from Tick#time(3 sec) group by symbol",
    "cx": "select symbol, sum(volume) as total from Tick#time(3 sec) group by symbol",
    "d": "select symbol, count(*) as n, avg(price) as ap from Tick#groupwin(symbol)#length(100) group by symbol",
    "f": "select symbol, sum(volume) as total from Tick#time_batch(1 sec) group by symbol",
    **{name: f"select ts, price from Tick#{window}" for name, window in WINDOWS.items()},
    "size": "select size from Tick#time(100 msec)#size",
    "uni": "select average from Tick#length(100)#uni(price)",
    "output": "select symbol, sum(price) as s from Tick#length(1000) group by symbol output last every 100 events",
    "pattern": "select a.ts from pattern [every a=Tick(price > 95) -> b=Tick(symbol = a.symbol, price < 5) "
    "where timer:within(10 sec)]",
    "keyed": "create context K partition by symbol from Tick; "
    "@name('out') context K select count(*), sum(price) from Tick",
    "hash": "create context K coalesce by hash_code(symbol) from Tick granularity 100; "
    "@name('out') context K select symbol, sum(price) from Tick group by symbol",
    "terminated": "create context K partition by symbol from Tick terminated after 1 hour; "
    "@name('out') context K select count(*), sum(price) from Tick",
    "overlapping": "create context K initiated by Tick(volume > 990) as t terminated after 1 sec; "
    "@name('out') context K select count(*), sum(price) from Tick",
}


class Nothing:
    """A sink that forgets; of both forms that sinks have had."""

    def describe(self, *about: Any) -> None: ...
    def one(self, record: Any) -> None: ...
    def push(self, time: int, insert: Any, remove: Any) -> None: ...
    def extend(self, records: Any) -> None: ...


def worker(name: str, events: int, nothing: bool) -> None:
    """In a process of its own: one turn for each line of input, its CPU-seconds as output."""
    from workloads import ticks

    from cepbook.engine.runtime import Runtime
    from cepbook.feeds import Feed

    runtime, drawn, at = Runtime(), ticks(events, 1000 if name == "d" else 100), 0
    module = MODULES[name]
    named = module if "@name" in module else f"@name('out') {module}"
    statements = runtime.deploy(f"{SCHEMA}; {named}").statements
    statements[-1].add_sink(Nothing() if nothing else Feed(100_000))  # type: ignore[arg-type]
    send = runtime.send
    for _ in sys.stdin:
        turn, at = drawn[at : at + TURN], at + TURN
        start = time.process_time()
        for event in turn:
            send("Tick", event, event["ts"])
        print(time.process_time() - start, flush=True)


def replayer(name: str, events: int) -> None:
    """As `worker`; a turn replays all events."""
    import pandas as pd
    from workloads import ticks

    from cepbook import Workbench

    frame = pd.DataFrame(ticks(events, 1000 if name == "d" else 100))
    module = MODULES[name]
    named = module if "@name" in module else f"@name('out') {module}"
    for _ in sys.stdin:
        bench = Workbench()
        bench.run(f"{SCHEMA}; {named}")
        gc.collect()
        start = time.process_time()
        bench.replay(frame, type="Tick", time="ts").run()
        print(time.process_time() - start, flush=True)


def turns(name: str, roots: list[Path], events: int, how: list[str]) -> list[list[float]]:
    """CPU nanoseconds per event of each turn, for each checkout."""
    command = [sys.executable, __file__, "--worker", name, "--events", str(events), *how]
    length, skipped = (events, 2) if "--replay" in how else (TURN, WARM_UP)
    count = REPLAYS if "--replay" in how else events // TURN
    processes = [
        subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": f"{root}{os.pathsep}{root / 'benchmarks'}"},
        )
        for root in roots
    ]
    found: list[list[float]] = [[] for _ in roots]
    for number in range(count):
        order = list(zip(processes, found, strict=True))
        for process, taken in order if number % 2 else reversed(order):
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps(number) + "\n")
            process.stdin.flush()
            taken.append(float(process.stdout.readline()) / length * 1e9)
    for process in processes:
        process.communicate()
    return [taken[skipped:] for taken in found]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, nargs="?", help="a checkout of another commit")
    parser.add_argument("--only", default=",".join(MODULES))
    parser.add_argument("--events", type=int, default=24_000)
    parser.add_argument("--nothing", action="store_true", help="into a sink that forgets, not into a feed")
    parser.add_argument("--replay", action="store_true", help="replays of a DataFrame, not single events")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker is not None and chosen.replay:
        replayer(chosen.worker, chosen.events)
        return
    if chosen.worker is not None:
        worker(chosen.worker, chosen.events, chosen.nothing)
        return
    if chosen.other is None:
        parser.error("which other checkout?")
    how = ["--nothing"] * chosen.nothing + ["--replay"] * chosen.replay
    print("CPU ns per event, means (medians)\n| module | other | this | this / other |\n|---|--:|--:|--:|")
    for name in chosen.only.split(","):
        other, this = turns(name, [chosen.other.resolve(), HERE], chosen.events, how)
        mean = statistics.fmean(other), statistics.fmean(this)
        middle = statistics.median(other), statistics.median(this)
        print(
            f"| {name} | {mean[0]:,.0f} ({middle[0]:,.0f}) | {mean[1]:,.0f} ({middle[1]:,.0f}) "
            f"| {mean[1] / mean[0]:.2f} ({middle[1] / middle[0]:.2f}) |",
            flush=True,
        )


if __name__ == "__main__":
    main()
