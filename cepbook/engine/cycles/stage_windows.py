"""The windows of stages: the rows that they hold, and the rows that enter and leave in a cycle.

A row is a tuple ``(id, time, values)``. Ids are unique and ascend, `time` is that of the event in clock units.
``step(now, incoming)`` takes the rows of a cycle and returns (new, dead). (StreamCruncher - Basics, sections "Event
Processing Constructs" and "Event Weights".)
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from typing import Any

from cepbook.engine.expressions.hashable import canonical_nan
from cepbook.engine.expressions.sort_keys import ascending_key, descending_key
from cepbook.engine.state import SortedList, State, created, initial
from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan.cycles import CycleWindow

RowValues = dict[str, Any]
StageRow = tuple[int, int, RowValues]
StageDelta = tuple[list[StageRow], list[StageRow]]


class StageWindowState(State):
    """Holds the rows of one key of a stage. `pending` is the number of rows that wait for a further cycle. `due` is the
    time at which a row leaves by age, `NEVER` if there is none. `passing` is True if the next cycle evicts rows
    whatever it brings.
    """

    @property
    def pending(self) -> int:
        raise NotImplementedError

    @property
    def due(self) -> int:
        raise NotImplementedError

    @property
    def passing(self) -> bool:
        raise NotImplementedError

    def step(self, now: int, incoming: Sequence[StageRow]) -> StageDelta:
        """Take the rows that a cycle at `now` brings; return the new and the dead rows."""
        raise NotImplementedError

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[StageRow]:
        raise NotImplementedError


class _QueuedWindow(StageWindowState):
    """A window whose rows wait in a queue until a cycle takes them."""

    _rows: Any = created(deque)
    _waiting: deque[StageRow] = created(deque)

    @property
    def pending(self) -> int:
        return len(self._waiting)

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[StageRow]:
        return iter(self._rows)


class SlidingWindow(_QueuedWindow):
    """Holds the last `size` rows. A cycle takes one row, which evicts the oldest; with `fills` free places are filled
    first.
    """

    size: int
    fills: bool
    due = NEVER
    passing = False

    def step(self, now: int, incoming: Sequence[StageRow]) -> StageDelta:
        rows, waiting = self._rows, self._waiting
        waiting.extend(incoming)
        if not waiting:
            return [], []
        free = self.size - len(rows)
        dead = [] if free else [rows.popleft()]
        taken = min(free, len(waiting)) if self.fills and free else 1
        new = [waiting.popleft() for _ in range(taken)]
        rows.extend(new)
        return new, dead


class RecentWindow(_QueuedWindow):
    """Holds rows younger than `length`; with `at_most` it takes and holds at most that many.

    ::

        a row of time 0 in a window of 5 s:   |0 ... held ... 5| dead in the cycle at 5

    A row stays for the cycle that takes it, even if it is too old already.
    """

    length: int
    at_most: int | None
    _rows: Any = created(dict)
    _by_age: list[tuple[int, int]] = created(list)  # a heap of (time, id)
    passing = False

    @property
    def due(self) -> int:
        return self._by_age[0][0] + self.length if self._by_age else NEVER

    def step(self, now: int, incoming: Sequence[StageRow]) -> StageDelta:
        by_age, waiting = self._by_age, self._waiting
        dead: list[StageRow] = []
        while by_age and now - by_age[0][0] >= self.length:
            dead.append(self._oldest())
        if self.at_most is None:
            new = list(incoming)
        else:
            waiting.extend(incoming)
            new = [waiting.popleft() for _ in range(min(self.at_most, len(waiting)))]
            for _ in range(len(self._rows) + len(new) - self.at_most):
                dead.append(self._oldest())
        for row in new:
            self._rows[row[0]] = row
            heappush(by_age, (row[1], row[0]))
        return new, dead

    def _oldest(self) -> StageRow:
        row: StageRow = self._rows.pop(heappop(self._by_age)[1])
        return row

    def __iter__(self) -> Iterator[StageRow]:
        return iter(self._rows.values())


class TumblingWindow(_QueuedWindow):
    """Holds up to `size` rows for one cycle; the next one evicts them, but they are no cause of a cycle."""

    size: int
    _rows: Any = created(list)
    due = NEVER

    @property
    def passing(self) -> bool:
        return bool(self._rows)

    def step(self, now: int, incoming: Sequence[StageRow]) -> StageDelta:
        waiting, dead = self._waiting, self._rows
        waiting.extend(incoming)
        self._rows = [waiting.popleft() for _ in range(min(self.size, len(waiting)))]
        return self._rows[:], dead


class RankedWindow(StageWindowState):
    """Holds the `size` rows with the highest (or lowest) values of `column`; of equal rows the first to arrive leaves
    first.

    A row replaces the one with the same values of `group`, and then competes as any other. A row that enters and leaves
    in one cycle is neither new nor dead. Dead rows are in the order of eviction.
    """

    size: int
    column: str
    lowest: bool
    group: tuple[str, ...]
    _count: int = initial(0)  # number of rows that have arrived
    _order: SortedList[tuple[Any, int, int]] = created(SortedList)  # (rank, order of arrival, id)
    _rows: dict[int, tuple[StageRow, tuple[Any, int, int]]] = created(dict)
    _by_group: dict[Any, int] = created(dict)  # the ids of rows
    due = NEVER
    passing = False
    pending = 0

    def step(self, now: int, incoming: Sequence[StageRow]) -> StageDelta:
        came: dict[int, StageRow] = {}
        dead: list[StageRow] = []
        for row in incoming:
            value = row[2][self.column]
            if self.group:
                group = self._group(row)
                before = self._by_group.get(group)
                if before is not None:
                    self._leave(before, came, dead)
                self._by_group[group] = row[0]
            self._count += 1
            place = descending_key(value) if self.lowest else ascending_key(value), self._count, row[0]
            self._order.add(place)
            self._rows[row[0]] = row, place
            came[row[0]] = row
        while len(self._rows) > self.size:
            self._leave(self._order[0][2], came, dead)
        return list(came.values()), dead

    def _leave(self, id_: int, came: dict[int, StageRow], dead: list[StageRow]) -> None:
        row, place = self._rows.pop(id_)
        self._order.remove(place)
        if self.group and self._by_group.get(self._group(row)) == id_:
            del self._by_group[self._group(row)]
        if came.pop(id_, None) is None:
            dead.append(row)

    def _group(self, row: StageRow) -> tuple[Any, ...]:
        values = row[2]
        return tuple([canonical_nan(values[name]) for name in self.group])

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[StageRow]:
        return (row for row, _ in self._rows.values())


def make_stage_window(spec: CycleWindow, fills: bool) -> StageWindowState:
    """Return an empty window."""
    if spec.name == "recent":
        return RecentWindow(spec.size, spec.at_most)
    if spec.name == "tumbling":
        return TumblingWindow(spec.size)
    if spec.column is not None:
        return RankedWindow(spec.size, spec.column, spec.name == "lowest", spec.update_group)
    return SlidingWindow(spec.size, fills)
