"""What does a journal cost: CPU time and instructions per event of `Workbench.send` and of a replay, bytes per event.

Two workbenches take turns in one process, one of them with a journal; the figures are medians over the turns. The CPU
time is that of the process, with the thread that writes. Instructions are those of Python's bytecode, without work in
C.

    python benchmarks/journal.py [--events 20000] [--turns 7] [--profile]
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import random
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
from against import Meter

from cepbook import Workbench

SCHEMA = "create schema Tick(symbol string, price double, volume long);"
MODULES = {
    "filter": "@name('out') select symbol, price from Tick(price > 50)",
    "groups": "@name('out') select symbol, sum(volume) as v, avg(price) as p from Tick#length(100) group by symbol",
    "five": ";".join(f"@name('s{n}') select symbol, avg(price) as p from Tick#length({n}0)" for n in range(1, 6)),
}
Turn = Callable[[], None]


def events(count: int) -> list[dict[str, object]]:
    draw = random.Random(1)
    return [
        {"symbol": f"s{draw.randrange(100)}", "price": round(draw.random() * 100, 2), "volume": draw.randrange(1000)}
        for _ in range(count)
    ]


def begun(module: str, folder: Path | None) -> Workbench:
    cep = Workbench()
    cep.run(SCHEMA + module)
    if folder is not None:
        cep.journal(folder)
    return cep


def sending(cep: Workbench, batch: list[dict[str, object]]) -> Turn:
    def turn() -> None:
        send = cep.send
        for event in batch:
            send("Tick", event)
        if cep.journaling is not None:
            cep.journaling.flush()

    return turn


def replaying(cep: Workbench, batch: list[dict[str, object]]) -> Turn:
    frame = pd.DataFrame(batch)

    def turn() -> None:
        start = cep.runtime.now + 1
        cep.replay(frame.assign(ts=range(start, start + len(frame))), "Tick", time="ts").run()

    return turn


def seconds(turn: Turn) -> float:
    gc.collect()
    began = time.process_time()
    turn()
    return time.process_time() - began


def instructions(turn: Turn) -> float:
    meter = Meter()

    def counted() -> float:
        turn()
        return meter()

    return meter.count(counted) * 1e9


def log_size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("journal/log-*"))


def measured(kind: str, module: str, batch: list[dict[str, object]], turns: int, profile: bool) -> str:
    make = sending if kind == "send" else replaying
    with tempfile.TemporaryDirectory() as name:
        without, journaled = begun(module, None), begun(module, Path(name) / "journal")
        plain, recorded = make(without, batch), make(journaled, batch)
        plain(), recorded()
        assert journaled.journaling is not None
        before = log_size(Path(name))
        recorded()
        size = (log_size(Path(name)) - before) / len(batch)
        pairs = [(seconds(plain), seconds(recorded)) for _ in range(turns)]
        few = batch[:1000] if kind == "send" else batch
        counts = [instructions(make(cep, few)) / len(few) for cep in (without, journaled)]
        if profile:
            with cProfile.Profile() as profiler:
                recorded()
            pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
        journaled.journaling.close()
    alone, more = (statistics.median(times) / len(batch) * 1e6 for times in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs) - 1
    return (
        f"{alone:7.2f} µs {more:7.2f} µs {ratio:+7.1%}   {counts[0]:7.1f} {counts[1]:7.1f} "
        f"{counts[1] / counts[0] - 1:+7.1%}   {size:5.1f} B"
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--profile", action="store_true")
    parser.add_argument("--only", default="send,replay")
    options = parser.parse_args()
    print(f"{'':16} {'without':>10} {'journal':>10} {'':>7}   {'instructions':>23}   {'size':>7}")
    for kind in options.only.split(","):
        batch = events(options.events * (5 if kind == "replay" else 1))
        for name, module in MODULES.items():
            print(f"{kind + ' ' + name:16}", measured(kind, module, batch, options.turns, options.profile), flush=True)


if __name__ == "__main__":
    main()
