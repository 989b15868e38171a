"""What does an event cost in a query that is run in cycles, at 10^2, 10^4 and 10^6 retained rows?

Baseline: the same query at 10^2 rows, in the same run. The bar, from 10^2 to 10^6: at most 2 times the cost; what finds
places in an order pays some cache misses more.

    python benchmarks/cycles.py [--sizes 100,10000,1000000] [--events 3000] [--only sliding,highest]

Each query is filled with events that arrive together, then CPU time of `send` is measured, with a listener that does
nothing: one cycle for each event, which selects what is new. ``self join`` looks up partners by a column.
"""

from __future__ import annotations

import argparse
import time

from cepbook.engine.runtime import Runtime
from cepbook.lang.syntax.source_text import SourceText

SCHEMA = "create schema s(id long, k string, v double)"
ALL_DAY = "1000000000 milliseconds"
QUERIES = {
    "sliding": "select id from s (partition store last {n}) as w where w.$row_status is new",
    "time": f"select id from s (partition store last {ALL_DAY}) as w where w.$row_status is new",
    "time, max": f"select id from s (partition store last {ALL_DAY} max {{n}}) as w where w.$row_status is new",
    "tumbling": "select id from s (partition store latest {n}) as w where w.$row_status is new",
    "random": "select id from s (partition store random {n}) as w where w.$row_status is new",
    "highest": "select id from s (partition store highest {n} using v) as w where w.$row_status is new",
    "update group": "select id from s (partition store highest {n} using v with update group id) as w"
    " where w.$row_status is new",
    "aggregates": "select c from s (partition store last {n} with count(id) as c, sum(v) as t, median(v) as m) as w"
    " where w.$row_status is new",
    "keys": "select id from s (partition by id store last 3) as w where w.$row_status is new",
    "chain": "select id from s (partition store last {n}) to (partition store last {n} where $row_status is dead) as w"
    " where w.$row_status is new",
    "self join": "select x.id from s (partition store last {n}) as x, self#x as y where x.$row_status is new"
    " and y.$row_status is not dead and x.id = y.id and x.v < y.v",
}


def cost(query: str, size: int, events: int) -> float:
    """Microseconds for an event at `size` retained rows."""
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    runtime.deploy(SourceText(query.format(n=size), "streamcruncher", {"name": "q", "sliding": "fill"}))
    runtime.statement("q").add_listener(lambda delta: None)
    fill = 2 * size + 1
    runtime.send_together(("s", {"id": n, "k": "a", "v": float(n * 7919 % fill)}) for n in range(size))
    runtime.send("s", {"id": size, "k": "a", "v": 0.5})
    made = [{"id": size + n, "k": "a", "v": float(fill + n)} for n in range(events)]
    begin = time.process_time()
    for event in made:
        runtime.send("s", event)
    return (time.process_time() - begin) / events * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,10000,1000000")
    parser.add_argument("--events", type=int, default=3000)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    only = [name for name in given.only.split(",") if name]
    print(f"{'µs for an event':16}" + "".join(f"{size:>12,}" for size in sizes) + "   times")
    for name, query in QUERIES.items():
        if not only or name in only:
            found = [cost(query, size, given.events) for size in sizes]
            print(f"{name:16}" + "".join(f"{each:12.1f}" for each in found) + f"{found[-1] / found[0]:8.1f}")


if __name__ == "__main__":
    main()
