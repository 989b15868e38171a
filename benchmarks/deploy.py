"""How long from EPL text to a running statement?

Baseline: a hand-written function through ``compile`` and ``exec``, in the same run. Wall milliseconds, medians.

    python benchmarks/deploy.py [--rounds 200]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from cepbook.engine.runtime import Runtime

SCHEMA = "create schema Tick(ts long, symbol string, price double, volume int)"
MODULES = {
    "filter": "select symbol, price from Tick(price > 50)",
    "window and group by": "select symbol, avg(price) as ap from Tick#time(30 sec) where volume > 3 group by symbol",
    "batch with having": "select symbol, sum(volume) as v, count(*) as n from Tick#time_batch(1 sec) "
    "group by symbol having count(*) > 2",
}
BY_HAND = """
def on_event(e):
    price = e["price"]
    if price is not None and price > 50:
        out(e["ts"], [{"symbol": e["symbol"], "price": price}], None)
"""


def median_ms(job: Callable[[], object], rounds: int) -> float:
    """Median wall time of `job` in ms, after one warm-up."""
    job()
    taken = []
    for _ in range(rounds):
        start = time.perf_counter()
        job()
        taken.append((time.perf_counter() - start) * 1e3)
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=200)
    rounds = parser.parse_args().rounds
    runtime = Runtime()
    runtime.deploy(SCHEMA)
    print("| module | compile ms | compile + deploy + undeploy ms |")
    print("|---|--:|--:|")

    def cycle(epl: str) -> None:
        runtime.undeploy(runtime.deploy(epl).id)

    for name, epl in MODULES.items():
        compiled = median_ms(lambda epl=epl: runtime.compile(epl), rounds)
        deployed = median_ms(lambda epl=epl: cycle(epl), rounds)
        print(f"| {name} | {compiled:.2f} | {deployed:.2f} |")
    by_hand = median_ms(lambda: exec(compile(BY_HAND, "hand", "exec"), {}), rounds)
    print(f"| hand-written function, compile and exec only | {by_hand:.2f} | |")


if __name__ == "__main__":
    main()
