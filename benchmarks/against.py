"""How does this checkout compare with another one, event by event, on a machine that others use as well?

Baseline: the other checkout. Both run in processes of their own, which take turns every 1,000 events, so that whatever
else the machine does falls on both. The figures are CPU nanoseconds per event: the mean, in which the turns that met
the collector of cycles count, too, and the median.

    git worktree add ../before COMMIT
    python benchmarks/against.py ../before [--only a,cx,length] [--events 24000] [--nothing | --replay] [--instructions]

Events go into a feed, with ``--nothing`` into a sink that forgets them. With ``--replay`` a turn is the replay of all
events from a DataFrame into the feed of a new `Workbench`.

``--instructions`` counts the instructions of Python's bytecode instead. The counts are the same on every run, however
busy the machine is, and show whether the work per event has changed. They leave out work in C.

``--only workloads,windows,contexts,patterns`` compares the rows of these benchmarks (`workloads.py` and so on, each
checkout's own): windows of 100 events, 10 and 1,000 live partitions, 100 and 10,000 partial matches.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from types import FrameType
from typing import Any

HERE = Path(__file__).resolve().parent.parent
TraceFunction = Callable[[FrameType, str, object], Any]
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
    "leaving": "select irstream ts, price from Tick#length(1000)",
    "groups": "select symbol, sum(price) as s from Tick#length(1000) group by symbol having sum(price) > 10",
    "join": "select a.ts as ts, b.price as price from Tick(price > 90)#length(100) as a, Tick(price < 10)#length(100) "
    "as b where a.symbol = b.symbol",
    "subquery": "select ts, (select avg(price) from Tick(volume > 900)#time(1 sec)) as ap from Tick(price > 90)",
    "size": "select size from Tick#time(100 msec)#size",
    "uni": "select average from Tick#length(100)#uni(price)",
    "e": "select a.ts as a, b.ts as b from pattern [every a=Tick(price > 95) -> b=Tick(symbol = a.symbol, price < 5) "
    "where timer:within(10 sec)]",
    "g": "select a.ts as a from pattern [every a=Tick(price > 95) -> (timer:interval(500 msec) and not "
    "Tick(symbol = a.symbol, price < 5))]",
    "h": "select * from Tick match_recognize (partition by symbol measures X.price as top, last(D.price) as bottom, "
    "U.price as now pattern (X D{2,} U) define D as D.price < prev(D.price), U as U.price > prev(U.price))",
    "hw": "select * from Tick#length(50) match_recognize (partition by symbol measures X.price as top, U.price as now "
    "pattern (X D{2,} U) define D as D.price < prev(D.price), U as U.price > prev(U.price))",  # by `MatchView` alone
    "i": "create context C partition by symbol from Tick; @name('out') context C "
    "select symbol, count(*) as n, sum(volume) as total, max(price) as high from Tick",
    "j": "create context C initiated by Tick(price > 99.5) as o terminated after 1 sec; @name('out') context C "
    "select context.o.symbol as symbol, count(*) as n from Tick(symbol = context.o.symbol) output last when terminated",
    "k": "select a.ts as a, b.ts as b from Tick(price > 50)#length(1000) as a, Tick(price <= 50)#length(1000) as b "
    "where a.symbol = b.symbol and a.volume = b.volume",
    "l": "create window Latest#unique(symbol) as (symbol string, price double, n long); "
    "on Tick as t merge Latest as l where l.symbol = t.symbol "
    "when matched then update set price = t.price, n = l.n + 1 "
    "when not matched then insert select t.symbol as symbol, t.price as price, 1L as n; "
    "@name('out') on Tick(price > 90) as t select l.symbol as symbol, l.n as n from Latest as l "
    "where l.symbol = t.symbol",
    "m": "select ts, (select max(price) from Tick(price > 50)#length(1000) as w where w.symbol = t.symbol) as high "
    "from Tick(price <= 50) as t",
    "n": "select symbol, count(*) as n, avg(price) as ap from Tick#time(10 sec) group by symbol "
    "output last every 1 sec",
    "o": "select ts, prev(1, price) as before, price from Tick#groupwin(symbol)#length(2)",
    "p": "create context C start Tick(price > 99) as s end after 2 sec; @name('out') context C "
    "select symbol, count(*) as n from Tick group by symbol output snapshot when terminated",
    "output": "select symbol, sum(price) as s from Tick#length(1000) group by symbol output last every 100 events",
    "output_every": "select symbol, price from Tick output every 100 events",
    "output_last": "select symbol, price from Tick output last every 1 sec",
    "output_first": "select symbol, price from Tick output first every 1 sec",
    "output_all": "select symbol, sum(price) as s from Tick group by symbol output all every 1 sec",
    "keyed": "create context K partition by symbol from Tick; "
    "@name('out') context K select count(*), sum(price) from Tick",
    "hash": "create context K coalesce by hash_code(symbol) from Tick granularity 100; "
    "@name('out') context K select symbol, sum(price) from Tick group by symbol",
    "category": "create context K group price < 30 as low, group price >= 30 as high from Tick; "
    "@name('out') context K select count(*), sum(price) from Tick",
    "categories": "create context K group price < 60 as low, group price >= 40 as high from Tick; "
    "@name('out') context K select count(*), sum(price) from Tick",
    "nested": "create context K context H coalesce by hash_code(symbol) from Tick granularity 16, "
    "context L partition by symbol from Tick; @name('out') context K select count(*), sum(price) from Tick",
    "keyed_time": "create context K partition by symbol from Tick; "
    "@name('out') context K select irstream symbol, price from Tick#time(10 sec)",
    "hash_time": "create context K coalesce by hash_code(symbol) from Tick granularity 100; "
    "@name('out') context K select count(*), sum(price) from Tick#time(10 sec)",
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


Turn = Callable[[], float]  # takes `TURN` events; returns what they cost, by `meter`


class Meter:
    """The CPU seconds of this process, or with `counting` the instructions of Python that it executed, in billions."""

    def __init__(self) -> None:
        self.counting = False
        self._instructions = 0

    def __call__(self) -> float:
        return self._instructions / 1e9 if self.counting else time.process_time()

    def count(self, turn: Turn) -> float:
        """Take a turn while instructions are counted."""
        self.counting = True
        sys.settrace(self._entered)
        try:
            return turn()
        finally:
            sys.settrace(None)

    def _entered(self, frame: FrameType, event: str, argument: object) -> TraceFunction:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._executed

    def _executed(self, frame: FrameType, event: str, argument: object) -> TraceFunction:
        self._instructions += event == "opcode"
        return self._executed


meter = Meter()


def of_module(name: str, events: int, nothing: bool) -> Turn:
    """Ticks for a module, through `Runtime.send`."""
    from workloads import EPL, ticks

    from cepbook.engine.runtime import Runtime
    from cepbook.feeds import Feed

    module = MODULES.get(name) or EPL[name.removeprefix("workloads.")]
    runtime, drawn = Runtime(), iter(ticks(events, 1000 if name in ("d", "workloads.d") else 100))
    named = module if "@name" in module else f"@name('out') {module}"
    statements = runtime.deploy(f"{SCHEMA}; {named}").statements
    statements[-1].add_sink(Nothing() if nothing else Feed(100_000))  # type: ignore[arg-type]
    send = runtime.send

    def turn() -> float:
        given = list(islice(drawn, TURN))
        start = meter()
        for event in given:
            send("Tick", event, event["ts"])
        return meter() - start

    return turn


def of_window(name: str) -> Turn:
    """A row of `windows.py`."""
    from windows import CASES, Running

    running = Running(next(case for each, case in CASES.items() if each.replace(",", "") == name), 100)
    return partial(running.feed, TURN)


def of_context(name: str) -> Turn:
    """A row of `contexts.py`: so many live partitions."""
    from contexts import KINDS, events, opened

    found, _, size = name.partition(" / ")
    count = int(size)
    kind = next(each for each in KINDS if each.name.replace(",", "") == found)
    runtime = opened(kind, count)
    senders, draw = [runtime.sender(each) for each in kind.measured], random.Random(7)

    def turn() -> float:
        keys = draw.choices(range(count), k=TURN // len(senders))
        given = list(zip(*(events(each, keys) for each in kind.measured), strict=True))
        start = meter()
        for several in given:
            for send, event in zip(senders, several, strict=True):
                send(event)
        return meter() - start

    return turn


def of_pattern(name: str) -> Turn:
    """A row of `patterns.py`: so many partial matches, of which each B closes one, before an A opens one."""
    from patterns import CASES, senders

    found, _, size = name.partition(" / ")
    count = int(size)
    pattern = next(pattern for each, pattern in CASES if each.replace(",", "") == found)
    a, b, _ = senders(pattern)
    for i in range(count):
        a({"id": i, "x": i})
    draw = random.Random(count)

    def drawn() -> Iterator[tuple[int, int]]:
        i = 0
        while True:
            number = i if ">=" in pattern else draw.randrange(count)
            yield (number, count + i) if ">=" in pattern else (number, number)
            i += 1

    numbers = drawn()

    def turn() -> float:
        pairs = [({"id": i, "x": i}, {"id": j, "x": j}) for i, j in islice(numbers, TURN // 2)]
        start = meter()
        for closes, opens in pairs:
            b(closes)
            a(opens)
        return meter() - start

    return turn


def rows_of(benchmark: str) -> list[str]:
    """The names of all rows of a benchmark, or the one row that `benchmark` is."""
    import contexts
    import patterns
    import windows
    import workloads

    names = {
        "workloads": list(workloads.EPL),
        "windows": [name for name, case in windows.CASES.items() if case.by_hand is None],
        "contexts": [f"{kind.name} / {count}" for kind in contexts.KINDS for count in (10, 1000)],
        "patterns": [f"{name} / {count}" for name, _ in patterns.CASES for count in (100, 10_000)],
    }
    return [f"{benchmark}.{name.replace(',', '')}" for name in names[benchmark]] if benchmark in names else [benchmark]


def worker(turn: Turn) -> None:
    """In a process of its own: one turn for each line of input, its cost as output. A line may ask for instructions."""
    gc.collect()
    for line in sys.stdin:
        print(meter.count(turn) if json.loads(line) else turn(), flush=True)


def of_row(name: str, events: int, nothing: bool) -> Turn:
    """A row of a benchmark, or a module of `MODULES`."""
    where, _, row = name.partition(".")
    kinds = {"windows": of_window, "contexts": of_context, "patterns": of_pattern}
    return kinds[where](row) if where in kinds else of_module(name, events, nothing)


def of_replay(name: str, events: int) -> Turn:
    """A replay of all events through a new workbench."""
    import pandas as pd
    from workloads import EPL, ticks

    from cepbook import Workbench

    frame = pd.DataFrame(ticks(events, 1000 if name in ("d", "workloads.d") else 100))
    module = MODULES.get(name) or EPL[name.removeprefix("workloads.")]
    named = module if "@name" in module else f"@name('out') {module}"

    def turn() -> float:
        bench = Workbench()
        bench.run(f"{SCHEMA}; {named}")
        gc.collect()
        start = meter()
        bench.replay(frame, type="Tick", time="ts").run()
        return meter() - start

    return turn


def turns(name: str, roots: list[Path], events: int, how: list[str], instructions: bool) -> list[list[float]]:
    """CPU nanoseconds per event of each turn that counts, for each checkout, or the instructions of one turn."""
    command = [sys.executable, __file__, "--worker", name, "--events", str(events), *how]
    length, skipped = (events, 2) if "--replay" in how else (TURN, WARM_UP)
    count = skipped + 1 if instructions else REPLAYS if "--replay" in how else events // TURN
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
    costs: list[list[float]] = [[] for _ in roots]
    for number in range(count):
        order = list(zip(processes, costs, strict=True))
        for process, taken in order if number % 2 else reversed(order):
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(json.dumps(instructions and number >= skipped) + "\n")
            process.stdin.flush()
            taken.append(float(process.stdout.readline()) / length * 1e9)
    for process in processes:
        process.communicate()
    return [taken[skipped:] for taken in costs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("other", type=Path, nargs="?", help="a checkout of another commit")
    parser.add_argument("--only", default=",".join(MODULES))
    parser.add_argument("--events", type=int, default=24_000)
    parser.add_argument("--nothing", action="store_true", help="into a sink that forgets, not into a feed")
    parser.add_argument("--replay", action="store_true", help="replays of a DataFrame, not single events")
    parser.add_argument("--instructions", action="store_true", help="count instructions of Python, not time")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker is not None:
        sys.path.pop(0)  # the benchmarks beside this file: those of the checkout count
        name, events = chosen.worker, chosen.events
        worker(of_replay(name, events) if chosen.replay else of_row(name, events, chosen.nothing))
        return
    if chosen.other is None:
        parser.error("which other checkout?")
    how = ["--nothing"] * chosen.nothing + ["--replay"] * chosen.replay
    what = "Instructions of Python" if chosen.instructions else "CPU ns"
    print(f"{what} per event, means (medians)\n| module | other | this | this / other |\n|---|--:|--:|--:|")
    for name in (row for each in chosen.only.split(",") for row in rows_of(each)):
        other, this = turns(name, [chosen.other.resolve(), HERE], chosen.events, how, chosen.instructions)
        mean = statistics.fmean(other), statistics.fmean(this)
        middle = statistics.median(other), statistics.median(this)
        print(
            f"| {name} | {mean[0]:,.0f} ({middle[0]:,.0f}) | {mean[1]:,.0f} ({middle[1]:,.0f}) "
            f"| {mean[1] / mean[0]:.2f} ({middle[1] / middle[0]:.2f}) |",
            flush=True,
        )


if __name__ == "__main__":
    main()
