"""Random contexts of one to three levels against a tree of partitions: which of them sees an event, and when each ends.

The periods of the levels differ, so that no two of them end at one instant, but for partitions of one level.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from cepbook.engine.runtime import Runtime
from tests.random_cases import seeds

pytestmark = pytest.mark.histories

SCHEMA = "".join(f"create schema {name}(k string, x int, n int);" for name in "EST")
Event = dict[str, Any]
HASHES = {"a": ord("a") % 3, "b": ord("b") % 3, None: 0}
CATEGORIES: dict[str, Callable[[Event], bool]] = {
    "low": lambda e: e["x"] is not None and e["x"] < 1,
    "high": lambda e: e["x"] is not None and e["x"] >= 1,
    "a": lambda e: e["k"] == "a",
}
STARTS: dict[str, Callable[[str, Event], bool]] = {
    "S": lambda of, e: of == "S",
    "S(x > 0)": lambda of, e: of == "S" and (e["x"] or 0) > 0,
    "E(x = 2)": lambda of, e: of == "E" and e["x"] == 2,
}
STATEMENTS = """
@name('each') context C select context.id as id, count(*) as c, sum(x) as s from E;
@name('total') context C select count(*) as c, sum(x) as s from E output snapshot when terminated;
@name('rows') context C select n from E#keepall output snapshot when terminated;
"""


class Undecided(Exception):
    """Two partitions of different parents are due at one instant, in every thirteenth history."""


@dataclass
class Level:
    kind: str
    start: str
    end: str
    wait: int
    period: int

    @property
    def text(self) -> str:
        if self.kind == "keyed":
            return "partition by k from E, k from S, k from T"
        if self.kind == "hash":
            return "coalesce by hash_code(k) from E, hash_code(k) from S, hash_code(k) from T granularity 3"
        if self.kind == "category":
            return "group x < 1 as low, group x >= 1 as high, group k = 'a' as a from E"
        start = {"wait": f"after {self.wait} msec", "@now": "@now"}.get(self.start, self.start)
        start += " as s" if self.start in STARTS else " as t" * self.start.startswith("pattern")
        ends = {"key": "T(k = s.k)", "twice": "pattern [T -> T]", "period": f"after {self.period} msec"}
        end = ends.get(self.end, self.end)
        if self.kind == "overlapping":
            return f"initiated by {start}{f' terminated by {end}' if self.end else ''}".replace("by after", "after")
        return f"start {start} end {end}"


def drawn(draw: Random, number: int, *, in_category: bool) -> Level:
    """A level; below categories its conditions read E alone."""
    kind = draw.choice(("keyed", "hash", "category", "overlapping", "overlapping", "overlapping", "once", "once"))
    start = draw.choice((*STARTS, "pattern [every p=S -> q=S(x > 0)]" if kind == "overlapping" else "wait", "@now"))
    if in_category:
        start = "E(x = 2)"
    elif kind == "overlapping" and start == "@now":
        start = "S"
    ends = ["period", *([] if in_category else ["T", "twice"])]
    ends += ["key"] if start in STARTS and not in_category else []
    ends += [""] if kind == "overlapping" else []
    return Level(kind, start, draw.choice(ends), 1000 + 53 * number, draw.choice((2000, 3000, 5000)) + 37 * number)


@dataclass
class Partition:
    born: int
    due: int | None = None
    seed: Event | None = None
    key: Any = None
    ends_seen: int = 0
    id: int = -1
    events: list[Event] = field(default_factory=list)
    below: Node | None = None


class Node:
    """The partitions of one level in a partition of the level above."""

    def __init__(self, tree: Tree, number: int) -> None:
        self.tree, self.number, self.level = tree, number, tree.levels[number]
        self.partitions: list[Partition] = []
        self.due: int | None = None
        for label in CATEGORIES if self.level.kind == "category" else ():
            self.begin(key=label)
        self.arm()

    def arm(self) -> None:
        """Wait for the next start."""
        if self.level.kind == "once" and self.level.start == "wait":
            self.due = self.tree.now + self.level.wait
        elif self.level.kind == "once" and self.level.start == "@now":
            self.begin()

    def begin(self, seed: Event | None = None, key: Any = None) -> Partition:
        tree = self.tree
        timed = self.level.kind in ("overlapping", "once") and self.level.end == "period"
        partition = Partition(tree.count, tree.now + self.level.period if timed else None, seed, key)
        self.partitions.append(partition)
        if self.number + 1 < len(tree.levels):
            partition.below = Node(tree, self.number + 1)
        else:
            partition.id, tree.next = tree.next, tree.next + 1
        return partition

    def end(self, partition: Partition) -> None:
        self.partitions.remove(partition)
        self.tree.closed(partition)
        if self.level.kind == "once":
            self.arm()

    def dues(self) -> Iterator[tuple[int, Node, Partition | None]]:
        if self.due is not None:
            yield self.due, self, None
        for partition in self.partitions:
            if partition.due is not None:
                yield partition.due, self, partition
            if partition.below is not None:
                yield from partition.below.dues()

    def ends(self, partition: Partition, of: str, event: Event) -> bool:
        if of != "T" or partition.born == self.tree.count:  # what an event starts it does not end
            return False
        partition.ends_seen += 1
        seed = partition.seed
        by_key = seed is not None and event["k"] is not None and event["k"] == seed["k"]
        return {"T": True, "twice": partition.ends_seen == 2, "key": by_key}.get(self.level.end, False)

    def send(self, of: str, event: Event) -> None:
        level, targets = self.level, list[Partition]()
        if level.kind in ("keyed", "hash"):
            key = event["k"] if level.kind == "keyed" else HASHES[event["k"]]
            targets = [p for p in self.partitions if p.key == key] or [self.begin(key=key)]
        elif level.kind == "category":
            targets = [p for p in self.partitions if of != "E" or CATEGORIES[p.key](event)]
        else:
            former, fresh = list(self.partitions), list[Partition]()
            starts = level.start in STARTS and STARTS[level.start](of, event)
            if starts and (level.kind == "overlapping" or not former):
                fresh = [self.begin(event)]
            silent = self._of_pattern(of, event)
            for partition in former:
                if self.ends(partition, of, event):
                    self.end(partition)
            targets = fresh + [p for p in self.partitions if p not in fresh and p not in silent]
        for partition in targets:
            if partition.below is not None:
                partition.below.send(of, event)
            elif of == "E":
                self.tree.saw(partition, event)

    def _of_pattern(self, of: str, event: Event) -> list[Partition]:
        """Partitions that ``every p=S -> q=S(x > 0)`` starts: they do not see the event that completes it."""
        if not self.level.start.startswith("pattern") or of != "S":
            return []
        waiting = self.__dict__.setdefault("waiting", [])  # one for each S before
        found = [self.begin() for _ in waiting] if (event["x"] or 0) > 0 else []
        self.waiting = [event] if found else [*waiting, event]
        return found


class Tree:
    def __init__(self, levels: list[Level]) -> None:
        self.levels = levels
        self.now = self.count = self.next = 0
        self.rows = Counter[Any]()
        self.root = Node(self, 0)

    def saw(self, partition: Partition, event: Event) -> None:
        partition.events.append(event)
        self.rows["each", (partition.id, *self._totals(partition))] += 1

    def closed(self, partition: Partition) -> None:
        if partition.below is not None:
            for below in partition.below.partitions:
                self.closed(below)
            return
        self.rows["total", self._totals(partition)] += 1
        self.rows.update(("rows", (event["n"],)) for event in partition.events)

    def _totals(self, partition: Partition) -> tuple[int, int | None]:
        values = [event["x"] for event in partition.events if event["x"] is not None]
        return len(partition.events), sum(values) if values else None

    def advance(self, now: int) -> None:
        while due := sorted((d for d in self.root.dues() if d[0] <= now), key=lambda d: d[0]):
            self.now, node, partition = due[0]
            if any(time == self.now and other is not node for time, other, _ in due):
                raise Undecided
            if partition is not None:
                node.end(partition)
            else:
                node.due = None
                node.begin()
        self.now = now


@pytest.mark.parametrize("seed", seeds(150))
def test_contexts_against_a_tree(seed: int) -> None:
    draw, levels = Random(seed), list[Level]()
    for number in range(draw.choice((1, 1, 2, 2, 3))):
        levels.append(drawn(draw, number, in_category=any(level.kind == "category" for level in levels)))
    nested = ", ".join(f"context L{number} {level.text}" for number, level in enumerate(levels))
    epl = f"create context C {levels[0].text if len(levels) == 1 else nested};"
    runtime, tree, now = Runtime(), Tree(levels), 0
    runtime.deploy(SCHEMA + epl + STATEMENTS)
    found = Counter[Any]()
    for name in ("each", "total", "rows"):
        runtime.statement(name).add_listener(
            lambda delta, name=name: found.update((name, tuple(row.values())) for row in delta.insert or ())
        )
    for number in range(40):
        now += draw.choice((0, 1, 200, 1000, 1001, 2500))
        event = {"k": draw.choice(("a", "b", None)), "x": draw.choice((None, 0, 1, 2)), "n": number}
        of = draw.choice("EEEEST")
        try:
            tree.advance(now)
        except Undecided:  # what came before was compared
            break
        runtime.advance(now, stepping=True)
        assert found == tree.rows, f"{epl} at {now}"
        tree.count += 1
        tree.root.send(of, event)
        runtime.send(of, dict(event))
        assert found == tree.rows, f"{epl} {number}: {of} {event} at {now}"
