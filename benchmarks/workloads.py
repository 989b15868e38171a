"""How many events per CPU-second do `send`, `sender(…)` and a replayed DataFrame reach, beside hand-written Python?

Baseline: for each workload a function specialised by hand for exactly that job (`by_hand.py`), called once per event.
Everything runs in one process, interleaved, several rounds; the table gives medians and ratios within the run.

    python benchmarks/workloads.py [--events 200000] [--rounds 5] [--only a,b]

Workloads, on ticks one ms apart with 100 symbols (d, i, k to n, p: 1,000): **a** filter price > 50 · **b** avg(price)
of the last 1,000, a row per event · **c** sum(volume) of the last 30 s by symbol, a row per event · **cx** the same
with rows for leaving events · **d** count and avg(price) of the last 100 of the symbol · **f** tumbling 1 s sum by
symbol · **e** a pattern, **g** an absence · **h** `match_recognize` · **i**, **j**, **p** contexts · **k** a join ·
**l** a named window with merge and select by key · **m** a subquery by key · **n** `output last every` · **o** the
value before, by symbol.
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time
from collections.abc import Callable
from functools import partial

import pandas as pd
from against import MODULES
from by_hand import Event, by_hand

from cepbook import Workbench
from cepbook.engine.runtime import Runtime
from cepbook.engine.vectorized import kernel_library
from cepbook.feeds import Feed

SCHEMA = "create schema Tick(ts long, symbol string, price double, volume int)"
EPL = {
    "a": "select ts, symbol, price from Tick(price > 50)",
    "b": "select ts, avg(price) as ap from Tick#length(1000)",
    "c": "select ts, symbol, sum(volume) as total from Tick#time(30 sec) group by symbol",
    "cx": "select symbol, sum(volume) as total from Tick#time(30 sec) group by symbol",
    "d": "select symbol, count(*) as n, avg(price) as ap from Tick#groupwin(symbol)#length(100) group by symbol",
    "f": "select symbol, sum(volume) as total from Tick#time_batch(1 sec) group by symbol",
    **{name: MODULES[name] for name in "eghijklmnop"},
}
MANY_SYMBOLS = "diklmnp"  # workloads with 1,000 symbols


def ticks(count: int, symbols: int) -> list[Event]:
    """`count` ticks, one per ms, from a fixed seed."""
    rng = random.Random(7)
    names = [f"S{i:04d}" for i in range(symbols)]
    return [
        {"ts": i, "symbol": rng.choice(names), "price": rng.random() * 100, "volume": rng.randint(1, 1000)}
        for i in range(count)
    ]


def _timed(prepare: Callable[[], Callable[[], int]]) -> tuple[float, int]:
    """CPU-seconds of the prepared job and the number of rows that it delivered; preparing is not counted."""
    job = prepare()
    gc.collect()
    start = time.process_time()
    rows = job()
    return time.process_time() - start, rows


def module(name: str) -> str:
    """The module of a workload, whose statement is called ``out``."""
    return f"{SCHEMA}; " + (EPL[name] if "@name" in EPL[name] else f"@name('out') {EPL[name]}")


def _hand_job(name: str, events: list[Event]) -> Callable[[], int]:
    feed = Feed(100_000)
    on_event = by_hand(name, feed.push)

    def job() -> int:
        for e in events:
            on_event(e)
        return feed.total_insert

    return job


def _send_job(name: str, events: list[Event], *, sender: bool) -> Callable[[], int]:
    runtime = Runtime()
    feed = Feed(100_000)
    runtime.deploy(module(name))
    runtime.statement("out").add_sink(feed)

    def job() -> int:
        if sender:
            send_tick = runtime.sender("Tick", time="ts")
            for e in events:
                send_tick(e)
        else:
            send = runtime.send
            for e in events:
                send("Tick", e, e["ts"])
        return feed.total_insert

    return job


def _replay_job(name: str, frame: pd.DataFrame) -> Callable[[], int]:
    bench = Workbench()
    bench.run(module(name))

    def job() -> int:
        bench.replay(frame, type="Tick", time="ts").run()
        return bench.feed("out").total_insert

    return job


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default=",".join(EPL))
    chosen = parser.parse_args()
    kernel_library.kernels(wait=True)  # to compile them would count
    print(f"{chosen.events:,} events, {chosen.rounds} interleaved rounds; thousands of events per CPU-second (medians)")
    print("| workload | by hand | send | sender | replay | send / hand | sender / hand | replay / send | rows |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for name in chosen.only.split(","):
        events = ticks(chosen.events, 1000 if name in MANY_SYMBOLS else 100)
        frame = pd.DataFrame(events)
        jobs = [
            partial(_hand_job, name, events),
            partial(_send_job, name, events, sender=False),
            partial(_send_job, name, events, sender=True),
            partial(_replay_job, name, frame),
        ]
        rows = {_timed(job)[1] for job in jobs}  # warm-up, and all must agree
        assert len(rows) == 1, f"{name}: different numbers of rows {rows}"
        seconds: list[list[float]] = [[] for _ in jobs]
        for _ in range(chosen.rounds):
            for taken, job in zip(seconds, jobs, strict=True):
                taken.append(_timed(job)[0])
        hand, send, sender, replay = (chosen.events / statistics.median(s) / 1000 for s in seconds)
        print(
            f"| {name} | {hand:,.0f} | {send:,.0f} | {sender:,.0f} | {replay:,.0f} "
            f"| {send / hand:.2f} | {sender / hand:.2f} | {replay / send:.2f} | {rows.pop():,} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
