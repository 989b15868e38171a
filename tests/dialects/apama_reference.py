"""Apama's queries as naively as can be: the whole content before and after each activation, and the difference."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

NEVER = 1 << 60
Make = Callable[..., Any]


@dataclass
class Item:
    """`number` identifies it; pairs of a join have two."""

    number: tuple[int, ...]
    arrived: int
    value: Any


@dataclass
class Window:
    """``partition by`` `keys` ``within`` `duration` ``every`` `period` ``retain`` `size` ``every`` `gate`, `unique`."""

    duration: int | None = None
    period: int | None = None
    size: int | None = None
    gate: int | None = None
    unique: Make | None = None
    keys: Make = lambda value: None
    everything: bool = False

    def __post_init__(self) -> None:
        self.parts: dict[Any, tuple[list[Item], list[Item]]] = {}

    def step(self, now: int, incoming: Sequence[Item]) -> list[Item]:
        """What is to be seen after `incoming`."""
        arriving: dict[Any, list[Item]] = {}
        for item in incoming:
            arriving.setdefault(self.keys(item.value), []).append(item)
        for key in arriving:
            self.parts.setdefault(key, ([], []))
        seen: list[Item] = []
        for key, (inside, waiting) in self.parts.items():
            new = arriving.get(key, [])
            if self.period is not None:
                waiting = waiting + new
                if now % self.period == 0:
                    inside, waiting = self._kept(inside + waiting, now), []
            elif self.gate is not None:
                for item in new:
                    waiting = [*waiting, item]
                    if len(waiting) == self.gate:
                        inside, waiting = self._kept(inside + waiting, now), []
            else:
                inside = self._kept(inside + new, now)
            self.parts[key] = inside, waiting
            seen += [i for n, i in enumerate(inside) if not any(self._hides(j, i) for j in inside[n + 1 :])]
        return sorted(seen, key=lambda item: item.number)

    def _hides(self, newer: Item, older: Item) -> bool:
        return self.unique is not None and self.unique(newer.value) == self.unique(older.value)

    def _kept(self, items: list[Item], now: int) -> list[Item]:
        if self.everything:
            return items
        if self.duration is not None:
            items = [item for item in items if now - item.arrived < self.duration]
        return items if self.size is None else items[-self.size :]

    def due(self, now: int) -> int:
        """The next instant at which something may happen of itself."""
        if self.period is not None:
            some = any(inside or waiting for inside, waiting in self.parts.values())
            return (now // self.period + 1) * self.period if some else NEVER
        if self.duration is None:
            return NEVER
        times = [item.arrived + self.duration for inside, _ in self.parts.values() for item in inside]
        return min(times, default=NEVER)


class Lot(Window):
    """No window."""

    def step(self, now: int, incoming: Sequence[Item]) -> list[Item]:
        return list(incoming)


@dataclass
class Query:
    """`inputs` are (where items come from: an event type or an earlier query, its window).

    `rows` makes the row of an item, or with `aggregated` of a list of them; `group` the key of its group.
    """

    inputs: list[tuple[Any, Window]]
    rows: Make
    where: Make = lambda *values: True
    group: Make | None = None
    having: Make = lambda row: True
    aggregated: bool = False
    rstream: bool = False
    out: list[tuple[int, list[Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.content: list[Item] = []
        self.appeared: dict[Any, int] = {}  # when each live group did, in groups
        self.groups = 0
        self.number = 0

    def step(self, now: int, lots: Sequence[Sequence[Any]]) -> list[Any]:
        """The lot that it gives."""
        sides: list[list[Item]] = []
        for (_, window), lot in zip(self.inputs, lots, strict=True):
            items = []
            for value in lot:
                self.number += 1
                items.append(Item((self.number,), now, value))
            sides.append(window.step(now, items))
        passing = any(isinstance(window, Lot) for _, window in self.inputs)
        before = [] if passing else self.content
        if passing:
            self.appeared = {}
        self.content = [i for i in self._joined(sides) if self.where(*i.value)]
        entered = [i for i in self.content if i.number not in {j.number for j in before}]
        left = [i for i in before if i.number not in {j.number for j in self.content}]
        lot_ = self._lot(entered, left)
        if lot_:
            self.out.append((now, lot_))
        return lot_

    def _joined(self, sides: list[list[Item]]) -> list[Item]:
        if len(sides) == 1:
            return [Item(i.number, i.arrived, (i.value,)) for i in sides[0]]
        return [Item(p.number + q.number, 0, (p.value, q.value)) for p in sides[0] for q in sides[1]]

    def _lot(self, entered: list[Item], left: list[Item]) -> list[Any]:
        if not self.aggregated:
            return [self.rows(*item.value) for item in (left if self.rstream else entered)]
        if not entered and not left:
            return []
        if self.group is None:
            row = self.rows([item.value for item in self.content])
            return [row] if self.having(row) else []
        changed = dict.fromkeys(self.group(*item.value) for item in (*entered, *left))
        for key in changed:
            self.groups += 1
            self.appeared.setdefault(key, self.groups)
        found = []
        for key in sorted(changed, key=lambda key: self.appeared[key]):
            members = [item.value for item in self.content if self.group(*item.value) == key]
            row = self.rows(members, key)
            if self.having(row):
                found.append(row)
            if not members:
                del self.appeared[key]
        return found


class Network:
    """Queries in order of dependency, over events; the clock begins at 0."""

    def __init__(self, queries: list[Query]) -> None:
        self.queries = queries
        self.now = 0

    def advance(self, until: int) -> None:
        """Each instant at which something is due, in order."""
        while True:
            due = min((w.due(self.now) for q in self.queries for _, w in q.inputs), default=NEVER)
            if due > until:
                break
            self.now = due
            self._activate([])
        self.now = until

    def send(self, events: list[tuple[str, Any]]) -> None:
        """Events that arrive together."""
        self._activate(events)

    def _activate(self, events: list[tuple[str, Any]]) -> None:
        made: list[list[Any]] = []
        for query in self.queries:
            lots = [
                made[source] if isinstance(source, int) else [e for name, e in events if name == source]
                for source, _ in query.inputs
            ]
            made.append(query.step(self.now, lots))


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else math.nan
