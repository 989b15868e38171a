"""How far do sums, averages and standard deviations of a sliding window drift from the exact values?

Baseline: the exact values of the last window (`math.fsum`, fractions). Events enter and leave a window of 1,000 as
aggregates are kept up to date; errors are relative, shown at powers of ten of the number of steps. Plain sums
are the default, `Config.compensated_sums` keeps beside each what rounding took. The standard deviation is the same in
both and exact; beside it stands Welford's running form, written by hand.

    python benchmarks/drift.py [--steps 10000000] [--window 1000]

**quiet**: prices around 100 · **spikes**: the same, and every 10,007th value is 1e10.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from itertools import cycle, islice

from cepbook.engine.config import Config
from cepbook.engine.runtime import Runtime

SPIKE, EVERY = 1e10, 10_007


class Welford:
    """The running variance of a window, value in, value out."""

    def __init__(self) -> None:
        self.count, self.mean, self.squares = 0, 0.0, 0.0

    def enter(self, value: float) -> None:
        self.count += 1
        delta = value - self.mean
        self.mean += delta / self.count
        self.squares += delta * (value - self.mean)

    def leave(self, value: float) -> None:
        self.count -= 1
        delta = value - self.mean
        self.mean -= delta / self.count
        self.squares -= delta * (value - self.mean)

    def stddev(self) -> float:
        return math.sqrt(max(0.0, self.squares) / (self.count - 1))


def prices(spikes: bool) -> Iterator[float]:
    """Endless values, the same in each run."""
    drawn = random.Random(7)
    block = [100.0 + drawn.gauss(0, 1) for _ in range(99_991)]
    if not spikes:
        return cycle(block)
    return (SPIKE if number % EVERY == 0 else value for number, value in enumerate(cycle(block), 1))


def errors(found: dict[str, float], window: deque[float]) -> dict[str, float]:
    """Relative errors of the aggregates of `window`."""
    total = math.fsum(window)
    exact = {"sum": total, "avg": total / len(window)}
    exact["stddev"] = exact["welford"] = math.sqrt(statistics.variance(map(Fraction, window)))
    return {name: abs(value - exact[name]) / abs(exact[name]) for name, value in found.items()}


def engine(steps: int, size: int, spikes: bool, form: str, columns: str) -> None:
    """A statement over the values, with compensated sums or without."""
    runtime = Runtime(Config(compensated_sums=form == "compensated"))
    runtime.deploy("create schema E(d double)")
    runtime.deploy(f"@name('s') select {columns} from E#length({size})")
    send, window = runtime.sender("E"), deque[float](maxlen=size)
    done, spent, source = 0, 0.0, prices(spikes)
    for upto in checkpoints(steps):
        start = time.process_time()
        for value in islice(source, upto - done):
            window.append(value)
            send({"d": value})
        spent, done = spent + time.process_time() - start, upto
        show(form, spikes, done, errors(runtime.iterate("s")[0], window), spent)


def by_hand(steps: int, size: int, spikes: bool) -> None:
    """Welford's form over the same values."""
    window, running, done, spent, source = deque[float](), Welford(), 0, 0.0, prices(spikes)
    for upto in checkpoints(steps):
        start = time.process_time()
        for value in islice(source, upto - done):
            window.append(value)
            running.enter(value)
            if len(window) > size:
                running.leave(window.popleft())
        spent, done = spent + time.process_time() - start, upto
        show("by hand", spikes, done, errors({"welford": running.stddev()}, window), spent)


def checkpoints(steps: int) -> list[int]:
    return [10**power for power in range(4, 16) if 10**power < steps] + [steps]


def show(form: str, spikes: bool, done: int, found: dict[str, float], spent: float) -> None:
    shown = "  ".join(f"{name} {error:.1e}" for name, error in found.items())
    print(f"{'spikes' if spikes else 'quiet':7} {form:12} {done:12,}  {shown:28} {spent / done * 1e6:.2f} us per event")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=10_000_000, help="events that enter, and leave later")
    parser.add_argument("--window", type=int, default=1000, help="events in the window")
    chosen = parser.parse_args()
    for spikes in (False, True):
        for form in ("plain", "compensated"):
            engine(chosen.steps, chosen.window, spikes, form, "sum(d) as sum, avg(d) as avg")
        engine(chosen.steps, chosen.window, spikes, "exact", "stddev(d) as stddev")
        by_hand(chosen.steps, chosen.window, spikes)


if __name__ == "__main__":
    main()
