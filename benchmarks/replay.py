"""What does a statement that needs the order of events cost the others of a replay? And how fast are replays?

    python benchmarks/replay.py [--events 100000] [--rounds 5] [--only modules,workloads,paced,rules,costs]

First table: a module of ten statements, replayed; then the same module of which one statement is a pattern, a pattern
over a stream that another statement inserts into, a context of conditions, or has a plain listener. Baseline is the
module of ten plain statements in the same run; the bar for the pattern is 1.5 times its time.

Second table: the workloads of `workloads.py`, replayed from a DataFrame into the workbench's feeds, in thousands of
events per CPU-second. With another checkout first on PYTHONPATH the same file measures that one.

Third table: the same, with a clock that leaps from event to event (``leap=True``) and with a speed that nothing keeps
(all is due at once), beside the plain replay, whose clock stops whenever something is due. Baseline is the leap; the
bar for the plain replay is 1.05 times its time.

Fourth table: 500 events through 1 to 10,000 rules that filter by a user and a threshold, replayed and sent in a loop.
Baseline is the loop in the same run.

Fifth table, with ``--only costs``: the constants of `cepbook/engine/replay/loop_costs.py`, from batches that go through
a statement pass or an event loop, for rules that filter and for rules with a window. Each time is the minimum of the
rounds, because other processes only ever add to it.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from workloads import EPL, SCHEMA, ticks

from cepbook import Workbench
from cepbook.engine.replay import batch_replayer
from cepbook.engine.vectorized.array_columns import ArrayColumns, NumberColumn, TextColumn
from cepbook.engine.vectorized.column_batch import ColumnBatch

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


def through_rules(rules: int, replayed: bool) -> float:
    """CPU-seconds of 500 events through so many rules, replayed or sent."""
    draw = random.Random(1)
    rows = [(n, f"u{draw.randrange(50)}", draw.randrange(1000)) for n in range(500)]
    frame = pd.DataFrame(rows, columns=["ts", "user", "v"])
    bench = Workbench()
    bench.define("E", frame, time="ts")
    texts = (f"@name('r{i}') select v from E(user='u{i % 50}', v > {i % 1000})" for i in range(rules))
    bench.run(";".join(texts))
    gc.collect()
    start = time.process_time()
    if replayed:
        bench.replay(frame, "E").run()
    else:
        for ts, user, v in rows:
            bench.advance(ts)
            bench.send("E", ts=ts, user=user, v=v)
    return time.process_time() - start


RULES = {
    "a filter": "select v from E(user='u0', v > {above})",
    "a window": "select v, sum(v) as s from E(user='u0', v > {above})#length(100)",
}


def batch_costs(rule: str, rounds: int) -> dict[str, float]:
    """The microseconds that `loop_costs` counts, each from the shortest of so many rounds."""
    few, many, rules = 1, 2_000, 200

    def shortest(events: int, *, loop: bool, passing: bool) -> float:
        taken = []
        for _ in range(rounds):
            bench = Workbench()
            above = [-2 - i if passing else events + i for i in range(rules)]
            texts = (f"@name('r{i}') {rule.format(above=limit)}" for i, limit in enumerate(above))
            bench.run(f"create schema E(user string, v int); {';'.join(texts)}")
            with patch.object(batch_replayer, "event_loop_pays", lambda *_: loop):
                replayer = bench.runtime.batch(["E"])
                replayer.run([batch_of(0, 1, "nobody")], range(1))  # routes and plan are made
                batches = [batch_of(1, events, "u0")]
                gc.collect()
                start = time.process_time()
                replayer.run(batches, range(events + 1))
                taken.append(time.process_time() - start)
        return min(taken) * 1e6

    fixed, tested = (shortest(count, loop=False, passing=False) for count in (few, many))
    passed, looped = (shortest(many, loop=loop, passing=True) for loop in (False, True))
    idle = shortest(many, loop=True, passing=False)
    return {
        "PASS_STATEMENT": fixed / rules,
        "PASS_TEST": (tested - fixed) / (many - few) / rules,
        "PASS_ROW": (passed - tested) / many / rules,
        "LOOP_EVENT": idle / many,
        "LOOP_CALL": (looped - idle) / many / rules,
    }


def batch_of(first: int, count: int, user: str) -> ColumnBatch:
    """So many events of one user, as a replay of a DataFrame passes them."""
    times = np.arange(first, first + count)
    columns = {"user": TextColumn(np.zeros(count, int), np.array([user, None], object)), "v": NumberColumn(times)}
    arrays = ArrayColumns(columns, columns.__getitem__, NumberColumn(times), slice(0, count))
    return ColumnBatch("E", times.tolist(), arrays, times.tolist())


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
    parser.add_argument("--only", default="modules,workloads,paced,rules")
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
        print("| workload | leap | plain | with a speed | leap / plain |\n|---|--:|--:|--:|--:|")
        kinds = {"leap": {"leap": True}, "plain": {}, "speed": {"speed": 1e9}}
        named = [name for name in EPL if len(name) == 1]
        given = {name: (lambda name=name: workload(name), frames[1000 if name == "d" else 100]) for name in named}
        every = compared({(n, k): (*given[n], kinds[k]) for n in named for k in kinds}, chosen.rounds)
        for name in named:
            leap, plain, speed = (chosen.events / statistics.median(every[name, k]) / 1000 for k in kinds)
            print(f"| {name} | {leap:,.0f} | {plain:,.0f} | {speed:,.0f} | {leap / plain:.2f} |")
    if "rules" in wanted:
        print("| rules | replay, ms | loop, ms | replay / loop |\n|--:|--:|--:|--:|")
        for count in (1, 10, 100, 1000, 10_000):
            pairs = [(through_rules(count, True), through_rules(count, False)) for _ in range(chosen.rounds)]
            replayed, sent = (statistics.median(found) * 1000 for found in zip(*pairs, strict=True))
            print(f"| {count:,} | {replayed:,.0f} | {sent:,.0f} | {replayed / sent:.2f} |", flush=True)
    if "costs" in wanted:
        print(f"| microseconds | {' | '.join(RULES)} |\n|---|--:|--:|")
        costs = [batch_costs(rule, chosen.rounds) for rule in RULES.values()]
        for name in costs[0]:
            print(f"| {name} | {' | '.join(f'{found[name]:.3f}' for found in costs)} |")


if __name__ == "__main__":
    main()
