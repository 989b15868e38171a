"""What does it cost to measure? Metrics of all statements while they replay, as a shown map has them measured.

Ten statements over 1,100,000 ticks, replayed again and again in stretches of 100,000 events. Of two stretches in a row
one is measured (the sampler runs, and the figures are read twice per second of processor time, as a map does) and one
is not, in random order. Ratio of processor time, measured / not, of each pair: the median and the interval that holds
it with 95 % (by the ranks of the ratios). Baseline: the same without the sampler in either, which tells what the
machine alone makes of it.

    python benchmarks/metrics.py [--pairs 50]
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections.abc import Callable

import numpy as np
import pandas as pd

from cepbook import Workbench
from cepbook.session import Replay

STRETCH = 100_000  # events, which last for several samples

EPL = "create schema Tick(at long, symbol string, price double);" + ";".join(
    f"@name('s{i}') select symbol, avg(price) as mean from Tick(price > {i / 12})#length({i + 1}00) group by symbol"
    for i in range(10)
)


def stretch(bench: Workbench, replay: Replay, events: int) -> float:
    """Processor seconds of the next `events`."""
    began = time.process_time()
    replay.step(events)
    return time.process_time() - began


def measured(bench: Workbench, replay: Replay, events: int, read: list[float]) -> float:
    """The same while they are measured; `read` has the processor time at which the figures were read last."""
    began = time.process_time()
    bench.sampler.start()
    replay.step(events)
    if time.process_time() - read[0] > 0.5:
        bench.metrics()
        read[0] = time.process_time()
    bench.sampler.stop()
    return time.process_time() - began


def ratios(bench: Workbench, ticks: pd.DataFrame, pairs: int, compared: Callable[..., float]) -> list[float]:
    """Of `pairs` of stretches, the time as `compared` has it by the time of the other."""
    rng, found = random.Random(1), []
    while len(found) < pairs:
        bench.rewind()
        replay = bench.replay(ticks, type="Tick", time="at", paused=True)
        stretch(bench, replay, STRETCH)  # windows fill
        for _ in range((len(ticks) // STRETCH - 1) // 2):
            first = rng.random() < 0.5
            each = {on: (compared if on else stretch)(bench, replay, STRETCH) for on in (first, not first)}
            found.append(each[True] / each[False])
        replay.stop()
    return sorted(found[:pairs])


def told(found: list[float]) -> str:
    """The median, and the ranks between which that of all such pairs lies with 95 %."""
    n = len(found)
    apart = int(0.98 * n**0.5) + 1
    low, high = found[max(0, n // 2 - apart)], found[min(n - 1, n // 2 + apart)]
    return f"median {statistics.median(found):.3f}, {low:.3f} to {high:.3f} with 95 %, {n} pairs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pairs", type=int, default=50)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    n = 11 * STRETCH
    ticks = pd.DataFrame(
        {"at": np.arange(n) * 10, "symbol": rng.choice(list("ABCDEFGH"), n), "price": rng.random(n).round(3)}
    )
    bench = Workbench()
    bench.run(EPL)
    ratios(bench, ticks, 5, stretch)
    read = [time.process_time()]
    print("not / not:     ", told(ratios(bench, ticks, options.pairs, stretch)))
    print("measured / not:", told(ratios(bench, ticks, options.pairs, lambda *given: measured(*given, read))))
    print(bench.metrics()[["name", "cpu", "latency"]].round(3).to_string(index=False))


if __name__ == "__main__":
    main()
