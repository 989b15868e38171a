"""Context partitions and their windows at past instants of a replay, computed again from the events.

The model is a tree: a partition of a level has the next level below it, and a partition of the last level the events.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pandas as pd
import pytest

from cepbook import Workbench
from tests.random_cases import seeds

Event = dict[str, Any]
Arrivals = list[tuple[int, Event]]
pytestmark = pytest.mark.histories
PERIOD = 3000
CATEGORIES: dict[str, Callable[[Event], bool]] = {"low": lambda e: e["x"] < 5, "high": lambda e: e["x"] > 2}
LEVELS = {
    "keyed": "partition by k from A",
    "short keyed": "partition by k from A terminated after 3 sec",
    "hash": "coalesce by consistent_hash_crc32(k) from A granularity 2",
    "category": "group x < 5 as low, group x > 2 as high from A",
    "overlapping": "initiated by B(x > 2) as b terminated after 3 sec",
    "spans": "start B(x > 2) end after 3 sec",
    "always": "start @now end after 3 sec",
}
CONTEXTS = [
    *((name,) for name in LEVELS),
    ("keyed", "category"), ("keyed", "spans"), ("category", "short keyed"), ("overlapping", "keyed"), ("spans", "hash"),
    ("always", "keyed", "category"),
]  # fmt: skip


@dataclass
class Partition:
    key: object
    start: int
    end: int | None
    inner: Level | None = None
    id: int = -1
    arrivals: Arrivals = field(default_factory=list)


class Level:
    def __init__(self, kinds: tuple[str, ...], ids: Iterator[int], now: int) -> None:
        self.kind, self.inner_kinds, self.ids = kinds[0], kinds[1:], ids
        self.partitions: list[Partition] = []
        if self.kind == "category":
            for label in CATEGORIES:
                self.allocate(label, now)
        elif self.kind == "always":
            self.allocate(None, now)

    def allocate(self, key: object, now: int) -> Partition:
        ends = self.kind in ("short keyed", "overlapping", "spans", "always")
        partition = Partition(key, now, now + PERIOD if ends else None)
        self.partitions.append(partition)
        if self.inner_kinds:
            partition.inner = Level(self.inner_kinds, self.ids, now)
        else:
            partition.id = next(self.ids)
        return partition

    def due(self) -> int | None:
        inner = [p.inner.due() for p in self.partitions if p.inner is not None]
        return min((due for due in (*(p.end for p in self.partitions), *inner) if due is not None), default=None)

    def fire(self, now: int) -> None:
        ended = any(p.end == now for p in self.partitions)
        self.partitions = [p for p in self.partitions if p.end != now]
        if ended and self.kind == "always":
            self.allocate(None, now)
        for partition in self.partitions:
            if partition.inner is not None:
                partition.inner.fire(now)

    def take(self, type_name: str, event: Event, now: int) -> None:
        reached = list(self.partitions)
        if self.kind in ("overlapping", "spans") and type_name == "B" and event["x"] > 2:
            if self.kind == "overlapping" or not reached:
                reached = [self.allocate(None, now), *reached]  # the new one first
        elif type_name == "A" and self.kind == "category":
            reached = [p for p in reached if CATEGORIES[str(p.key)](event)]
        elif type_name == "A" and self.kind in ("keyed", "short keyed", "hash"):
            key = zlib.crc32(event["k"].encode()) % 2 if self.kind == "hash" else event["k"]
            reached = [p for p in reached if p.key == key] or [self.allocate(key, now)]
        for partition in reached:
            if partition.inner is not None:
                partition.inner.take(type_name, event, now)
            elif type_name == "A":
                partition.arrivals.append((now, event))

    def leaves(self) -> Iterator[Partition]:
        for partition in self.partitions:
            yield from (partition,) if partition.inner is None else partition.inner.leaves()


def partitions_at(kinds: tuple[str, ...], events: list[tuple[int, str, Event]], now: int) -> list[Partition]:
    root = Level(kinds, count(), 0)
    for time, type_name, event in [*(entry for entry in events if entry[0] <= now), (now, "", {"x": 0, "k": ""})]:
        while (due := root.due()) is not None and due <= time:
            root.fire(due)
        if type_name:
            root.take(type_name, event, time)
    return sorted(root.leaves(), key=lambda partition: partition.id)


def by_external_time(arrivals: Arrivals, now: int) -> list[Event]:
    window: list[Event] = []
    for _, event in arrivals:
        window.append(event)
        while window[0]["u"] <= event["u"] - 2000:
            window.pop(0)
    return window


def of_groups(arrivals: Arrivals, now: int) -> list[Event]:
    return [event for y in range(3) for event in [e for _, e in arrivals if e["y"] == y][-2:]]


WINDOWS: dict[str, Callable[[Arrivals, int], list[Event]]] = {
    "#length(3)": lambda arrivals, now: [event for _, event in arrivals[-3:]],
    "#time(2 sec)": lambda arrivals, now: [event for time, event in arrivals if time + 2000 > now],
    "#keepall": lambda arrivals, now: [event for _, event in arrivals],
    "#ext_timed(u, 2 sec)": by_external_time,
    "#groupwin(y)#length(2)": of_groups,
    "#unique(y)": lambda arrivals, now: list({event["y"]: event for _, event in arrivals}.values()),
    "#length_batch(3)": lambda arrivals, now: [event for _, event in arrivals[len(arrivals) // 3 * 3 :]],
}


def random_events(random: Random, size: int) -> list[tuple[int, str, Event]]:
    time, events = 0, []
    gaps = random.choice(((0, 0, 1, 300, 1000), (0, 1000), (1, 500, 4000)))
    for n in range(size):
        time += random.choice(gaps)
        event = {"n": n, "k": random.choice("abc"), "x": random.randrange(8), "y": random.randrange(3)}
        events.append((time, random.choice("AAAB"), event | {"t": time, "u": time + random.choice((0, 0, -1500))}))
    return sorted(events, key=lambda entry: entry[:2])  # events of one time in the order of their frames


def frames(events: list[tuple[int, str, Event]]) -> dict[str, pd.DataFrame]:
    columns = ["n", "k", "x", "y", "t", "u"]
    return {name: pd.DataFrame([e for _, of, e in events if of == name], columns=columns) for name in "AB"}


def contents(cep: Workbench) -> dict[int, tuple[list[int], list[Any]]]:
    """By id of a partition the events in its window, and the aggregates."""
    answer = {}
    for id_ in cep.partitions("C")["id"].tolist():
        sums = [(row["c"], row["s"]) for row in cep.iterate("sums", id_)]
        answer[id_] = sorted(row["n"] for row in cep.iterate("rows", id_)), sums
    return answer


@pytest.mark.parametrize("seed", seeds(30))
def test_partitions_and_windows_at_past_instants(seed: int, tmp_path: Path) -> None:
    random = Random(seed)
    kinds, window, summed = random.choice(CONTEXTS), random.choice([*WINDOWS]), random.choice([*WINDOWS][:6])
    size = random.choice((20, 80, 80, 700))
    events = random_events(random, size)
    levels = [LEVELS[kind] for kind in kinds]
    text = levels[0] if len(levels) == 1 else ", ".join(f"context L{n} {level}" for n, level in enumerate(levels))
    cep = Workbench()
    for name in "AB":
        cep.run(f"create schema {name}(n int, k string, x int, y int, t long, u long)")
    cep.run(f"create context C {text}; @name('rows') context C select n, k from A{window};")
    cep.run(f"@name('sums') context C select count(*) as c, sum(x) as s from A{summed}")
    replay = cep.replay(frames(events), time="t", keep=random.choice((7, "2 sec", 1000) if size < 100 else (300, 1000)))
    replay.run()

    def expected(now: int) -> dict[int, tuple[list[int], list[Any]]]:
        answer = {}
        for partition in partitions_at(kinds, events, now):
            rows = sorted(event["n"] for event in WINDOWS[window](partition.arrivals, now))
            values = [event["x"] for event in WINDOWS[summed](partition.arrivals, now)]
            answer[partition.id] = rows, [(len(values), sum(values) if values else None)]
        return answer

    end = events[-1][0]
    assert contents(cep) == expected(end)
    for now in (random.choice(events)[0], random.randrange(events[0][0], end + 1)):
        past = replay.at(now)
        assert contents(past) == expected(now), now
    past.save(tmp_path / "past")
    loaded = Workbench()
    loaded.load(tmp_path / "past")
    assert contents(loaded) == expected(now)
    loaded.replay(frames([entry for entry in events if entry[0] > now]), time="t", until=end).run()
    assert contents(loaded) == expected(end)
