"""What does it cost to measure? Metrics of all statements while they replay, as a shown map has them measured.

Ten statements over 200,000 ticks, replayed by turns with the sampler off and on, and the figures read twice per second
of processor time, as a map does. Ratio of processor time, on / off, of each turn; the share of the time that the
samples account for.

    python benchmarks/metrics.py [--events 200000] [--turns 7]
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
import pandas as pd

from cepbook import Workbench

EPL = "create schema Tick(at long, symbol string, price double);" + ";".join(
    f"@name('s{i}') select symbol, avg(price) as mean from Tick(price > {i / 12})#length({i + 1}00) group by symbol"
    for i in range(10)
)


def replayed(bench: Workbench, ticks: pd.DataFrame, measured: bool) -> float:
    """Processor seconds of one replay."""
    bench.rewind()
    if measured:
        bench.sampler.start()
    began = read = time.process_time()
    replay = bench.replay(ticks, type="Tick", time="at", paused=True)

    def look() -> None:
        nonlocal read
        if measured and time.process_time() - read > 0.5:
            bench.metrics()
            read = time.process_time()

    replay.subscribe(look)
    replay.run()
    spent = time.process_time() - began
    if measured:
        bench.sampler.stop()
    return spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    n = options.events
    ticks = pd.DataFrame(
        {"at": np.arange(n) * 10, "symbol": rng.choice(list("ABCDEFGH"), n), "price": rng.random(n).round(3)}
    )
    bench = Workbench()
    bench.run(EPL)
    replayed(bench, ticks, measured=False)
    ratios, spent = [], 0.0
    for turn in range(options.turns):
        each = {on: replayed(bench, ticks, on) for on in ((False, True) if turn % 2 else (True, False))}
        ratios.append(each[True] / each[False])
        spent += each[True]
    found = bench.metrics()
    print(f"on / off: median {statistics.median(ratios):.3f}, {min(ratios):.3f} to {max(ratios):.3f}")
    print(f"samples account for {found['cpu'].sum() / spent:.2f} of the processor time")
    print(found[["name", "cpu", "latency"]].round(3).to_string(index=False))


if __name__ == "__main__":
    main()
