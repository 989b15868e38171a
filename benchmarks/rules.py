"""What do thousands of rules over one stream cost: to deploy, per event, and in memory?

Baseline: one rule of the kind, in the same run. Rules differ in their numbers. They are deployed one by one and as one
text. An event meets the condition of one rule. Its cost is measured sent one by one, and replayed from a DataFrame.

    python benchmarks/rules.py [--only equality,pattern] [--rules 1,10,100,1000,10000] [--events 2000] [--instructions]

CPU time. With `--instructions` deploying is counted in instructions of Python's bytecode: these are the same on every
run, however busy the machine is, and leave out work in C.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

import pandas as pd
from against import Meter

from cepbook import Workbench

SCHEMA = "create schema E(ts long, k int, v double)"
KINDS = {
    "equality": "select k, v from E(k = {0})",
    "range": "select k, v from E(v > {0} and v <= {1})",
    "pattern": "select a.v as a, b.v as b from pattern [every a=E(k = {0}, v < 1) -> b=E(k = {0}, v > 3)]",
    "window": "select k, sum(v) as total from E(k = {0})#length(10)",
}
TURN = 100  # statements that are deployed while instructions are counted


def rules(kind: str, count: int, start: int = 0) -> list[str]:
    """`count` rules of a kind."""
    return [f"@name('rule{i}') {KINDS[kind].format(i, i + 1)}" for i in range(start, start + count)]


def events(count: int, number: int) -> list[dict[str, Any]]:
    """`number` events for `count` rules: each has a key of a rule, and lies in the range of one."""
    rng = random.Random(3)
    return [{"ts": i, "k": rng.randrange(count), "v": rng.random() * count} for i in range(number)]


def deployed(texts: Sequence[str]) -> tuple[Workbench, float]:
    """A workbench with `texts`, and the CPU seconds that deploying them took."""
    cep = Workbench(feed_capacity=10)
    cep.run(SCHEMA)
    gc.collect()
    start = time.process_time()
    for text in texts:
        cep.run(text)
    return cep, time.process_time() - start


def resident() -> float:
    """Kilobytes of this process in memory."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4.0


def of_kind(kind: str, count: int, number: int) -> dict[str, float]:
    """All figures of a kind with `count` rules: milliseconds per statement, microseconds per event, kB per rule."""
    deployed(rules(kind, 3, 10**6))  # loads the grammar and the code of the shape
    gc.collect()
    before = resident()
    cep, one_by_one = deployed(rules(kind, count))
    gc.collect()
    memory = (resident() - before) / count
    drawn = events(count, number)
    send = cep.runtime.sender("E")
    send(dict(drawn[0]))  # builds the index
    start = time.process_time()
    for event in drawn:
        send(event)
    sent = time.process_time() - start
    frame = pd.DataFrame(events(count, number))
    del cep
    cep, together = deployed([";\n".join(rules(kind, count))])
    start = time.process_time()
    cep.replay(frame, type="E", time="ts").run()
    replayed = time.process_time() - start
    return {
        "one by one, ms": one_by_one / count * 1e3,
        "one text, ms": together / count * 1e3,
        "sent, µs": sent / number * 1e6,
        "replayed, µs": replayed / number * 1e6,
        "kB": memory,
    }


def instructions(kind: str) -> float:
    """Instructions of Python per statement, after other statements of the kind."""
    cep, _ = deployed(rules(kind, 20))
    meter = Meter()

    def turn() -> float:
        start = meter()
        for text in rules(kind, TURN, 10_000):
            cep.run(text)
        return meter() - start

    return meter.count(turn) * 1e9 / TURN


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--rules", default="1,10,100,1000,10000")
    parser.add_argument("--events", type=int, default=2_000)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--worker", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        kind, count = chosen.worker.split(":")
        print(json.dumps(of_kind(kind, int(count), chosen.events)))
        return
    if chosen.instructions:
        print("| kind | instructions per statement |\n|---|--:|")
        for kind in chosen.only.split(","):
            print(f"| {kind} | {instructions(kind):,.0f} |", flush=True)
        return
    heads = ["one by one, ms", "one text, ms", "sent, µs", "replayed, µs", "kB"]
    print(f"| kind | rules | {' | '.join(heads)} |\n|---|--:|{'--:|' * len(heads)}")
    for kind in chosen.only.split(","):
        for count in chosen.rules.split(","):  # each in a process of its own, whose memory is measured
            worker = [sys.executable, __file__, "--worker", f"{kind}:{count}", "--events", str(chosen.events)]
            figures = json.loads(subprocess.run(worker, check=True, stdout=subprocess.PIPE, text=True).stdout)
            shown = " | ".join(f"{figures[head]:,.2f}" for head in heads)
            print(f"| {kind} | {int(count):,} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
