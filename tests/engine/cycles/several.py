"""Running queries over several streams, naively: nested loops over what the partitions hold, alerts by their rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.engine.cycles.naive import Row, Stage

NOT_DEAD, ALL = "not dead", ""


@dataclass
class Partition:
    """One partition: its stream, its stages, what an event weighs, and what came of it in the present cycle."""

    stream: str
    stages: list[Stage]
    weight: float = 1.0
    waiting: list[Row] = field(default_factory=list)
    held: list[Row] = field(default_factory=list)
    new: list[Row] = field(default_factory=list)
    dead: list[Row] = field(default_factory=list)

    def turn(self, now: int, fresh: Callable[[], int]) -> None:
        rows, self.waiting = self.waiting, []
        for place, stage in enumerate(self.stages):
            if place:
                taken = self.new if stage.spec["takes"] == "new" else self.dead
                rows = [{**row, "#": fresh()} for row in taken if stage.spec["where"](row)]
            self.new, self.dead = stage.step(now, rows, fresh)
        gone = [row["#"] for row in self.dead]
        self.held = [row for row in self.held if row["#"] not in gone] + self.new

    def rows(self, status: str) -> list[Row]:
        """The rows of a status, by id."""
        found = {"new": self.new, "dead": self.dead, NOT_DEAD: self.held, ALL: self.held + self.dead}[status]
        return sorted(found, key=lambda row: row["#"])

    def caused(self, now: int) -> bool:
        return any(leaf.waiting or leaf.expires(now) for stage in self.stages for leaf in stage.leaves.values())


@dataclass
class Pattern:
    """``present(…)``, by the numbers of the partitions, and what is known of each id."""

    wanted: set[int]
    unwanted: set[int]
    present: dict[Any, set[int]] = field(default_factory=dict)
    watched: set[Any] = field(default_factory=set)
    spent: set[Any] = field(default_factory=set)

    def departs(self, source: int, id_: Any) -> bool:
        """Whether it fires as the id leaves a partition."""
        there = self.present.get(id_, set())
        if source not in there:
            return False
        fires = id_ in self.watched and id_ not in self.spent and there == self.wanted and source in self.wanted
        if fires:
            self.spent.add(id_)
        there.discard(source)
        if not there:
            del self.present[id_]
            self.spent.discard(id_)
            self.watched.discard(id_)
        return fires

    def arrives(self, sources: set[int], id_: Any) -> bool:
        """Whether it fires as the id comes into partitions."""
        sources = sources & (self.wanted | self.unwanted)
        if not sources:
            return False
        there = self.present.setdefault(id_, set())
        before = there == self.wanted
        there |= sources
        if id_ in self.spent:
            return False
        if there != self.wanted:
            self.watched.discard(id_)
            return False
        if not self.unwanted:
            self.spent.add(id_)
            return True
        if not before:
            self.watched.add(id_)
        return False


class Alert:
    """The rows of the patterns that fire; partitions are sources."""

    def __init__(self, patterns: Sequence[Pattern], columns: Sequence[tuple[int, str, str]]) -> None:
        self.patterns = patterns
        self.columns = columns
        self.data: dict[tuple[int, Any], Row] = {}

    def row(self, pattern: Pattern, id_: Any) -> Row:
        return {
            name: self.data[source, id_][column] if source in pattern.wanted else None
            for source, column, name in self.columns
        }

    def rows(self, partitions: Sequence[Partition]) -> list[Row]:
        fired: list[list[Row]] = [[] for _ in self.patterns]
        left = [(source, row["id"]) for source, each in enumerate(partitions) for row in each.dead]
        for source, id_ in left:
            for pattern, rows in zip(self.patterns, fired, strict=True):
                if pattern.departs(source, id_):
                    rows.append(self.row(pattern, id_))
        for gone in left:
            self.data.pop(gone, None)
        came: dict[Any, set[int]] = {}
        for source, each in enumerate(partitions):
            for row in each.new:
                self.data[source, row["id"]] = row
                came.setdefault(row["id"], set()).add(source)
        for pattern, rows in zip(self.patterns, fired, strict=True):
            rows += [self.row(pattern, id_) for id_, sources in came.items() if pattern.arrives(sources, id_)]
        return [row for rows in fired for row in rows]


class Query:
    """A query over partitions: `select` gives the rows of a cycle."""

    def __init__(
        self, partitions: list[Partition], select: Callable[[Sequence[Partition]], list[Row]], every: int | None
    ) -> None:
        self.partitions = partitions
        self.select = select
        self.every = self.next = every
        self.now = 0
        self.acc = 0.0
        self.ids = 0
        self.lots: list[list[Row]] = []

    def fresh(self) -> int:
        self.ids += 1
        return self.ids

    def together(self, events: Sequence[tuple[str, Row]]) -> None:
        for stream, event in events:
            for each in self.partitions:
                if each.stream == stream and each.stages[0].spec["where"](event):
                    each.waiting.append({**event, "#": self.fresh(), "@": self.now})
                    self.acc = round(self.acc + each.weight, 9)
        self.run()

    def advance(self, to: int) -> None:
        while self.now < to:
            self.now += 1
            self.run()

    def run(self) -> None:
        if self.every is not None and self.next is not None:
            if self.now == self.next:
                self.next += self.every
                self.cycle()
            return
        while self.acc >= 1.0 or any(each.caused(self.now) for each in self.partitions):
            self.cycle()

    def cycle(self) -> None:
        self.acc = 0.0
        for each in self.partitions:
            each.turn(self.now, self.fresh)
        rows = self.select(self.partitions)
        if rows:
            self.lots.append(rows)

    def there(self, number: int, id_: Any) -> bool:
        """Whether a partition has an event of the id, or one waits for it."""
        each = self.partitions[number]
        leaves = [leaf for stage in each.stages for leaf in stage.leaves.values()]
        return any(
            row["id"] == id_ for rows in (each.waiting, *(leaf.held + leaf.waiting for leaf in leaves)) for row in rows
        )
