"""match_recognize with an interval, and `or terminated`, against a naive search by backtracking at each row.

What a beginning completes is held until the interval since its first row is over, or until no row can make it longer;
a longer match takes its place. Of matches that share rows the one that begins first is told of, unless all are wanted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

import pytest

from tests.engine.recognize.reference import Clause, Row, TooMany
from tests.engine.recognize.test_reference import KINDS, SCHEMA, deployed, examples
from tests.random_cases import part, several

pytestmark = pytest.mark.histories

SPAN = 2_000
COUNT = several(16)
Told = list[tuple[int, list[Row]]]


@dataclass
class Partition:
    """The rows of one group; by the beginning what is held of it, and until which row it has matches."""

    rows: list[Row] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    open: list[int] = field(default_factory=list)
    held: dict[int, list[Row]] = field(default_factory=dict)
    ends: dict[int, int] = field(default_factory=dict)


@dataclass
class Search:
    """What a clause with an interval tells of, row by row."""

    clause: Clause
    terminated: bool
    width: int | None = None  # of a length window
    told: Told = field(default_factory=list)
    partitions: dict[object, Partition] = field(default_factory=dict)

    @property
    def earliest(self) -> bool:
        return self.clause.skip == "past last row" and not self.clause.all_matches

    def advance(self, now: int) -> None:
        """The clock goes on, here without a leap over several times at which something is due."""
        due = sorted({time for time, _, _ in self.waiting() if time <= now})
        found: list[Row] = []
        for _, begin, partition in sorted(self.waiting(), key=lambda each: partition_row(each[2], each[1])):
            if partition.times[begin] + SPAN <= now:
                self.tell(partition, begin, found)
        if due:
            self.post(now, found)

    def waiting(self) -> list[tuple[int, int, Partition]]:
        return [(p.times[begin] + SPAN, begin, p) for p in self.partitions.values() for begin in p.held]

    def row(self, row: Row, now: int) -> None:
        clause, key = self.clause, row["g"] if self.clause.partitioned else None
        found: list[Row] = []
        if self.width is not None:
            self.leave(row["i"] - self.width, now, found)
        partition = self.partitions.setdefault(key, Partition())
        partition.rows.append(row)
        partition.times.append(now)
        end = len(partition.rows) - 1
        partition.open = []
        for begin in [*partition.begins, end]:
            ways = clause.ways(partition.rows, begin, end)
            if clause.open:
                partition.open.append(begin)
            made = [clause.shown(way, partition.rows[begin:]) for way in (ways if clause.all_matches else ways[:1])]
            if made:
                partition.held[begin] = partition.held.get(begin, []) * clause.all_matches + made
                partition.ends[begin] = end
        partition.begins = [*partition.open]
        self.release(partition, now, found)
        self.post(now, found)

    def release(self, partition: Partition, now: int, found: list[Row]) -> None:
        """What is due, or cannot get longer."""
        for begin in sorted(partition.held):
            over = partition.times[begin] + SPAN <= now or (self.terminated and begin not in partition.begins)
            if over and begin in partition.held:
                self.tell(partition, begin, found)

    def leave(self, number: int, now: int, found: list[Row]) -> None:
        """The row of this number leaves the window, and takes the matches with it that it is in."""
        for partition in self.partitions.values():
            for at, row in enumerate(partition.rows):
                if row["i"] == number:
                    partition.begins = [begin for begin in partition.begins if begin > at]
                    for begin in [begin for begin in partition.held if begin <= at <= partition.ends[begin]]:
                        del partition.held[begin]
                    self.release(partition, now, found)

    def tell(self, partition: Partition, begin: int, found: list[Row]) -> None:
        """What is held of a beginning, unless one before it may still take the rows."""
        if begin not in partition.held or (self.earliest and any(other < begin for other in partition.begins)):
            return
        found += partition.held.pop(begin)
        if self.earliest:
            end = partition.ends[begin]
            partition.held = {other: rows for other, rows in partition.held.items() if not begin < other <= end}
            partition.begins = [other for other in partition.begins if not begin < other <= end]

    def post(self, now: int, found: list[Row]) -> None:
        if found:
            self.told.append((now, found))


def partition_row(partition: Partition, begin: int) -> int:
    number: int = partition.rows[begin]["i"]
    return number


@pytest.mark.parametrize("width", [None, 4], ids=["all rows", "length window"])
@pytest.mark.parametrize("terminated", [False, True], ids=["interval", "or terminated"])
@pytest.mark.parametrize("kind", KINDS)
def test_held_until_it_is_due(kind: str, terminated: bool, width: int | None) -> None:
    draw, told = Random(f"{kind} {terminated} {width}"), 0
    for clause, rows in part(examples(kind, 30 + terminated, COUNT)):
        if terminated and " | " in clause.epl():
            continue  # a shorter match is delivered when one alternative ends: recorded cases say when
        search = Search(clause, terminated, width)
        text = clause.epl("" if width is None else f"#length({width})")
        cut = text.index(" define ") if " define " in text else len(text) - 1
        text = f"{text[:cut]} interval 2 seconds{' or terminated' * terminated}{text[cut:]}"
        runtime, made = deployed(f"{SCHEMA} @name('s') {text}")
        now = 0
        try:
            for row in rows:
                now += draw.choice((0, 0, 300, 700, 1000, 1999, 2000))
                search.advance(now)
                search.row(row, now)
                runtime.advance(now)
                runtime.send("R", dict(row))
            search.advance(now + SPAN)
            runtime.advance(now + SPAN)
        except TooMany:
            continue
        found: Told = [(time, list(insert)) for time, insert, _ in made if insert]
        assert found == search.told, (text, rows)
        told += sum(len(each) for _, each in search.told)
    assert told > COUNT / 9
