"""A workload that goes on after a kill, and the same workload without kills.

``python kill_chain.py --kills 200 1`` kills 200 times, beginning with seed 1.

Steps are sends, advances, replays, live runs, deployments, variables, queries and sinks, chosen by the seed. The
variable `marker` says which step is under way (2 n before step n, 2 n + 1 behind it), and the statement `n` counts the
events. So a process that recovers the journal knows where to go on. It writes a digest first.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import random
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from cepbook import Workbench
from cepbook.engine.snapshot.file_format import unpack_document
from cepbook.errors import BindError
from cepbook.lang.plan.catalog import LATE_EVENT
from cepbook.session.io.output.sinks import end_all_sinks

STEPS = 25
CAPACITY = 700  # rows of a feed in memory, so that most rows are in spill files
BASE = """
create schema Tick(symbol string, price double, volume long, note map);
create variable long marker = -1;
create variable double least = 10.0;
create window W#keepall as (k string, n int);
@name('n') select count(*) as c from Tick;
@name('all') select symbol, price, volume from Tick(price > least);
@name('sums') select symbol, sum(volume) as v, avg(price) as p from Tick#time(20 sec) group by symbol
"""
EXTRA = [
    "@name('x') select symbol, count(*) as c from Tick#length({n}) group by symbol output every {n} events",
    "@name('x') select a.symbol as s, b.price as p from pattern [every a=Tick(price > 90) -> "
    "b=Tick(symbol = a.symbol) where timer:within({n} sec)]",
    "@name('x') select * from Tick(price > {n}) output last every 5 sec",
]
Step = tuple[str, Any]


def steps(seed: int) -> list[Step]:
    """Return the steps: a name and an argument, for steps with events the first and the last number."""
    chance = random.Random(seed)
    plan: list[Step] = [("run", BASE), ("sinks", None)]
    events = 0
    for _ in range(STEPS):
        kind = chance.choices(
            ["send", "replay", "live", "run", "drop", "set", "insert", "update", "fail"], [6, 5, 4, 3, 1, 2, 2, 1, 1]
        )[0]
        if kind in ("send", "replay", "live"):
            count = chance.randrange(20, 400) * (10 if kind == "replay" else 1)
            plan.append((kind, (events, events + count)))
            events += count
        elif kind == "run":
            plan.append((kind, chance.choice(EXTRA).format(n=chance.randrange(2, 60))))
        else:
            plan.append((kind, chance.randrange(1, 100)))
    return plan


def time_of(number: int) -> int:
    return 1_000_000 + number * 40


def event(number: int) -> dict[str, Any]:
    chance = random.Random(number)
    symbol = None if number % 17 == 0 else f"s{chance.randrange(12)}"
    price = None if number % 19 == 0 else round(chance.random() * 100, 3)
    return {"symbol": symbol, "price": price, "volume": number, "note": {"n": number} if number % 5 == 0 else None}


def frame(first: int, last: int) -> pd.DataFrame:
    rows = [{"ts": time_of(number), **event(number)} for number in range(first, last)]
    return pd.DataFrame(rows)


class Workload:
    """The steps on one workbench."""

    def __init__(self, workbench: Workbench, seed: int, folder: Path) -> None:
        self.cep = workbench
        self.plan = steps(seed)
        self.folder = folder

    @property
    def marker(self) -> int:
        return int(self.cep.get("marker")) if "marker" in self.cep.runtime.variables else -1

    @property
    def events(self) -> int:
        rows = self.cep.runtime.iterate("n") if "n" in self.cep.runtime.statements else []
        return int(rows[0]["c"]) if rows else 0

    def go_on(self, until: int | None = None) -> None:
        """Do what is left of the steps, up to the `marker` `until`."""
        at = (self.marker + 1) // 2 if self.marker >= 0 else 0
        for number in range(at, len(self.plan)):
            if until is not None and 2 * number > until:
                return
            if self.marker < 2 * number and number:
                self.cep.set("marker", 2 * number)
            if until == 2 * number:
                return
            self.step(number)
            if until is None or 2 * number + 1 <= until:
                self.cep.set("marker", 2 * number + 1)

    def step(self, number: int, limit: int | None = None) -> None:
        """Do a step, or what is left of it. `limit` is the number of the last event."""
        kind, what = self.plan[number]
        cep = self.cep
        if kind in ("send", "replay", "live"):
            first, last = max(what[0], self.events), what[1] if limit is None else limit
            if first < last:
                getattr(self, kind)(first, last)
        elif kind == "run":
            if what != BASE or "n" not in cep.runtime.statements:
                cep.run(what)
        elif kind == "drop":
            if "x" in cep.runtime.statements:
                cep.drop("x")
        elif kind == "set":
            cep.set("least", float(what))
        elif kind == "insert":
            if not len(cep.query(f"select * from W where n = {number}")):
                cep.query("insert into W(k, n) values ('a', :n)", parameters={"n": number})
        elif kind == "update":
            cep.query("update W set k = 'b' where n > :n", parameters={"n": number // 2})
        elif kind == "fail":
            try:
                cep.run(f"create schema Half(a int); select nothing{what} from Nowhere")
            except BindError:
                pass
        elif kind == "sinks":
            for name, file in (("all", "all.csv"), ("sums", "sums.parquet"), ("all", "all.jsonl"), ("n", "n.db")):
                cep.sink(name, self.folder / file)

    def send(self, first: int, last: int) -> None:
        for number in range(first, last):
            if time_of(number) > self.cep.runtime.now:
                self.cep.advance(time_of(number))
            self.cep.send("Tick", event(number))

    def replay(self, first: int, last: int) -> None:
        self.cep.replay(frame(first, last), "Tick", time="ts").run()

    def live(self, first: int, last: int) -> None:
        async def source() -> AsyncIterator[dict[str, Any]]:
            for number in range(first, last):
                yield {"ts": time_of(number), **event(number)}
                if number % 50 == 0:
                    await asyncio.sleep(0.001)

        async def run() -> None:
            await self.cep.live({"Tick": source()}, time="ts")

        asyncio.run(run())


def digest(cep: Workbench) -> dict[str, Any]:
    """Return what two equal workbenches have in common.

    A live run that has begun, without an event yet, has declared the type of late events; one that has not, has not.
    """
    document = unpack_document(cep._snapshot())
    feeds = {}
    for name in cep.runtime.statements:
        feed = cep._engine.feed(name)
        rows = feed.whole()  # also those in the spill file
        content = [rows.times, rows.numbers, rows.inserts, rows.values]
        feeds[name] = [feed.deliveries, feed.total_insert, feed.total_remove, feed.dropped, feed.lost, _hash(content)]
    rest = {key: document[key] for key in ("config", "now", "functions", "modules", "fingerprint")}
    rest["types"] = [declared for declared in document["types"] if declared["name"] != LATE_EVENT.name]
    queues = set()
    for _, fields in document["state"]:
        fields.pop("_serial", None)  # a step that is done twice takes two numbers
        queues |= {fields[name][0] for name in ("_when", "_owners") if name in fields}
    state = [document[key] for key in ("parts", "classes", "state", "variables", "given")]
    content = _without_numbers(document["nodes"], queues, state)
    return {"now": document["now"], "rest": _hash(rest), "feeds": feeds, "state": _hash(content)}


def _without_numbers(nodes: list[list[Any]], queues: set[int], value: Any) -> Any:
    """Return `value` with hashes of contents in place of the numbers of nodes.

    Nodes are numbered in the order of the first visit. Two orders differ between equal workbenches: that of a set, by
    addresses, and that of the due times in `queues`, which is the order in which timers were armed. Events in columns
    arm those of one statement after the other. Both orders mean nothing: due times are taken from a heap, by path.
    """
    names = [str(node[0]) for node in nodes]

    def named(item: Any) -> Any:
        if isinstance(item, dict):
            return {key: named(inner) for key, inner in item.items()}
        if type(item) is list and len(item) == 1 and type(item[0]) is int and item[0] < len(names):
            return names[item[0]]
        return list(map(named, item)) if type(item) is list else item

    def content(number: int, node: list[Any]) -> list[Any]:
        rest = list(map(named, node[1:]))
        if number in queues:
            rest = sorted(zip(rest[::2], rest[1::2], strict=True), key=repr)
        return [node[0], sorted(rest, key=repr) if node[0] == "set" else rest]

    for _ in range(12):  # a name is that of the contents up to this distance
        names = [_hash(content(*node)) for node in enumerate(nodes)]
    return [sorted(names), named(value)]


def _hash(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, default=repr).encode()).hexdigest()[:16]


def contents(folder: Path) -> Iterator[tuple[str, Any]]:
    """Yield what the sinks have."""
    import sqlite3

    for name in ("all.csv", "all.jsonl"):
        yield name, (folder / name).read_text()
    yield "sums.parquet", pd.read_parquet(folder / "sums.parquet").to_csv()
    base = sqlite3.connect(folder / "n.db")
    yield "n.db", base.execute("select * from n order by rowid").fetchall()
    base.close()


def check(folder: Path, seed: int) -> tuple[int, list[str]]:
    """Compare what recovered workbenches were, and the end, with a run without kills.

    Return the number of recoveries, and what differs.
    """
    lines = (folder / "points.jsonl").read_text().splitlines() if (folder / "points.jsonl").exists() else []
    other = folder / "other"
    other.mkdir()
    cep = Workbench(feed_capacity=CAPACITY)
    workload, wrong = Workload(cep, seed, other), []
    for number, line in enumerate(lines):
        point = json.loads(line)
        marker, events = point.pop("marker"), point.pop("events")
        point.pop("sinks")
        if marker < 0:
            continue  # before the end of the first step
        workload.go_on(marker)
        at = marker // 2
        if marker % 2 == 0 and workload.plan[at][0] in ("send", "replay", "live"):
            workload.step(at, events)
            if point["now"] > cep.runtime.now:
                cep.advance(point["now"], stepping=True)
        if marker % 2 == 0 and digest(cep) != point:
            workload.step(at)
        if digest(cep) != point:
            wrong.append(
                f"recovery {number} of seed {seed}: marker {marker}, events {events}: {digest(cep)} != {point}"
            )
    workload.go_on()
    if digest(cep) != json.loads((folder / "end.json").read_text()):
        wrong.append(f"the end of seed {seed}: {digest(cep)}")
    end_all_sinks()
    for (name, one), (_, two) in zip(contents(folder), contents(other), strict=True):
        if one != two:
            wrong.append(f"{name} of seed {seed}")
    return len(lines), wrong


def run_with_kills(folder: Path, seed: int, chance: random.Random, most: int) -> int:
    """Run the workload until it ends, killing it at most `most` times. Return the number of kills."""
    kills = 0
    while not (folder / "end.json").exists():
        process = subprocess.Popen(
            [sys.executable, __file__, str(folder), str(seed)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if kills < most:
            assert process.stdout is not None
            if chance.random() < 0.8:
                process.stdout.readline()  # otherwise it may be killed while it recovers
            try:
                process.wait(chance.random() * chance.choice([0.3, 1.0, 3.0]))
            except subprocess.TimeoutExpired:
                process.kill()
                kills += 1
        _, errors = process.communicate()
        if process.returncode not in (0, -9):
            raise AssertionError(f"seed {seed}, after {kills} kills:\n{errors}")
    return kills


def main(folder: Path, seed: int) -> None:
    path = folder / "journal"
    cep = Workbench(feed_capacity=CAPACITY)
    if any(path.glob("snapshot-*")):
        recovered = cep.recover(path)
        workload = Workload(cep, seed, folder)
        point = {"marker": workload.marker, "events": workload.events, "sinks": len(recovered.sinks), **digest(cep)}
        with (folder / "points.jsonl").open("a") as file:
            file.write(json.dumps(point) + "\n")
    else:
        cep.journal(path, limit=200_000)
        workload = Workload(cep, seed, folder)
    print("ready", flush=True)
    workload.go_on()
    end_all_sinks()
    (folder / "end.json").write_text(json.dumps(digest(cep)))


def attack(kills: int, seed: int) -> None:
    """Kill so many times, seed after seed, and print what came out."""
    done = compared = 0
    wrong: list[str] = []
    while done < kills:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            done += run_with_kills(folder, seed, random.Random(seed), min(25, kills - done))
            count, differences = check(folder, seed)
            compared += count
            wrong += differences
            print(f"seed {seed}: {done} kills, {compared} recoveries compared, {len(wrong)} differences", flush=True)
            print(*differences, sep="\n", flush=True)
        seed += 1


if __name__ == "__main__":
    if sys.argv[1] == "--kills":
        attack(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main(Path(sys.argv[1]), int(sys.argv[2]))
