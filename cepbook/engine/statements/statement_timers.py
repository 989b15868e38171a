"""The timers of one statement: windows, output clause and patterns of its states.

A path is `(partition id, place)`; without a context the id is 0. The place is `WINDOW`, `SUBQUERY` + number of the
subquery, `OUTPUT`, or `PATTERN` + number of the pattern. At one instant the windows of a state run first, then those of
its subqueries, its output clause and its patterns. States also know when they are due, so timers that a failure kept
from being armed can be found (`mend`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.delivery.delta import Rows
from cepbook.engine.patterns.statement_pattern import StatementPattern
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.statements.store_access import StoreAccess
from cepbook.engine.time.timers import (
    NEVER,
    OUTPUT,
    PATTERN,
    SUBQUERY,
    WINDOW,
    DispatchOrder,
    DueEntry,
    DueQueue,
    OwnerTimers,
)

_ONE_VIEW = 0, WINDOW
_FEW = 64  # ended partitions whose timers are not worth a clean-up

# insert and remove rows of one state
TimerRows = tuple[list[Any], list[Any]]


class StatementTimers(OwnerTimers):
    """The due times of one statement. `fire` runs them, `collect` runs them and returns the rows.

    Generated code arms windows and output clauses, and reads `due`. `overdue` is the due time of the timer of a pattern
    that runs, `NEVER` if none does.
    """

    __slots__ = (
        *("_arrange", "_delivers", "_expire_all", "_ended_partitions", "_inner"),
        *("_matchings", "_program", "_statement", "_states", "_timed", "overdue"),
    )
    SAVED = (*OwnerTimers.SAVED, "_ended_partitions", "_inner", "_states")

    def __init__(self, order: DispatchOrder, statement: StoreAccess, program: StatementProgram) -> None:
        super().__init__(order, self.fire, statement.failed)
        self._statement = statement
        self._program = program
        self._matchings: list[StatementPattern] = []
        self.overdue = NEVER
        self._states: dict[int, Any] = {}  # states that have had a timer, by partition id
        self._inner: dict[tuple[int, int], Any] = {}  # the same for subqueries, by path
        self._timed = [(n, subquery) for n, subquery in enumerate(program.subqueries) if subquery.steps.ticks]
        self._ended_partitions = 0  # partitions that ended and may have left timers
        # set if only one window, without partitions and groups, has timers
        self._expire_all: Callable[..., int] | None = program.functions.run_expiry
        self._arrange: Callable[..., Any] | None = program.functions.arrange
        self._delivers = program.steps.delivered_selector
        program.namespace.update(timed=self, arm=self._arm_part, rearm=self.rearm)
        for number, subquery in self._timed:
            subquery.namespace.update(arm=partial(self._arm_inner, SUBQUERY + number))

    def add_matching(self, matching: StatementPattern) -> None:
        """Add a pattern of the statement."""
        self._matchings.append(matching)

    def _arm_part(self, due: int, state: StatementState, part: Any, place: Any) -> None:
        id_ = partition_id(state)
        self._states[id_] = state
        self.arm((id_, place), due)

    def _arm_inner(self, place: int, due: int, state: StatementState, _part: Any, _place: Any) -> None:
        path = partition_id(state), place
        self._inner[path] = state
        self.arm(path, due)

    def arm_view(self, due: int, state: StatementState) -> None:
        """Set the only due time of the windows of `state`."""
        self._arm_part(due, state, None, WINDOW)

    def arm_pattern(self, number: int, due: int, state: StatementState) -> None:
        """Set the due time of pattern `number` in `state`."""
        self._arm_part(due, state, None, PATTERN + number)

    def rearm(self, due: int, state: StatementState, window: Any) -> None:
        """Arm the one window of the statement after a batch, which ran without timers."""
        self._states[0] = state
        self.arm(_ONE_VIEW, due)

    def rearm_subquery(self, number: int, state: Any) -> None:
        """Arm the windows of subquery `number` after a batch, which ran without timers."""
        state.view.armed = state.view.due
        self._arm_inner(SUBQUERY + number, state.view.due, state, None, None)

    def armed_timers(self, state: StatementState) -> list[tuple[int, int]]:
        """Return (place, due time) of all timers of a state, including early ones at which nothing will happen."""
        id_ = partition_id(state)
        places = (*self._own_places, *(SUBQUERY + number for number, _ in self._timed))
        due_times = [(place, self.at((id_, place))) for place in places]
        return [(place, due) for place, due in due_times if due < NEVER]

    @property
    def _own_places(self) -> tuple[int, ...]:
        """The places of everything but subqueries."""
        return WINDOW, OUTPUT, *range(PATTERN, PATTERN + len(self._matchings))

    def resume(self, state: StatementState, armed_timers: Iterable[tuple[int, int]]) -> None:
        """Arm the timers of a state that was restored, as `armed_timers` returned them."""
        for place, due in armed_timers:
            self._arm_place(due, state, place)

    def _arm_place(self, due: int, state: StatementState, place: int) -> None:
        if _of_subquery(place):
            self._arm_inner(place, due, state.subqueries[place - SUBQUERY], None, None)
        else:
            self._arm_part(due, state, None, place)

    def dues(self, state: StatementState) -> list[tuple[Any, int]]:
        """Return (place, due time) of all parts of a state; `NEVER` for those that are not due."""
        due_times: list[tuple[Any, int]] = []
        if self._program.functions.dues is not None:
            due_times += self._program.functions.dues(state)
        due_times += [(PATTERN + number, matching.due(state)) for number, matching in enumerate(self._matchings)]
        due_times += [(SUBQUERY + n, inner.functions.due(state.subqueries[n])) for n, inner in self._timed]
        return due_times

    def mend(self, states: Iterable[StatementState]) -> None:
        """Arm everything in `states` that is due later than now and has no timer, because of a failure."""
        now = self._statement.now
        for state in states:
            for place, due in () if state is None else self.dues(state):  # None: it has ended
                if now < due < min(NEVER, self.at((partition_id(state), place))):
                    self._arm_place(due, state, place)
        self.settle()

    def missing(self, now: int) -> list[str]:
        """Return descriptions of everything due later than `now` without a timer; empty if all is well."""
        descriptions: list[str] = []
        for _, state in self._statement.states():
            for place, due in () if state is None else self.dues(state):  # None: it has stopped
                path = partition_id(state), place
                if now < due < min(NEVER, self.at(path)):
                    descriptions.append(f"{path} is due at {due}, armed for {self.at(path)}")
        return descriptions

    def end(self, id_: int) -> None:
        """Remove the timers of the context partition `id_`."""
        for number, _ in self._timed:
            if self._inner.pop((id_, SUBQUERY + number), None) is not None:
                self.arm((id_, SUBQUERY + number), NEVER)
        if self._states.pop(id_, None) is None:
            return
        for place in self._own_places:
            self.arm((id_, place), NEVER)
        self._ended_partitions += 1
        if self._ended_partitions > max(_FEW, len(self._states)):  # states of group windows may remain
            self._ended_partitions = 0
            self.keep(lambda path: path[0] in self._states or path in self._inner)

    def detach(self) -> None:
        self._states.clear()
        self._inner.clear()
        super().detach()

    def fire(self, now: int, entries: list[DueEntry]) -> None:
        """Run timers that are due, with at most one delivery besides those of patterns."""
        if self._expire_all is not None and not self._matchings:
            state = self._states[0]
            push = self._statement.outlet.push
            self.arm(_ONE_VIEW, self._expire_all(state, state.view, now, None, push or _discard))
            return
        entries_before_pattern: list[DueEntry] = []
        for entry in entries:
            place = entry[1][1]
            if place < PATTERN:
                entries_before_pattern.append(entry)
                continue
            if entries_before_pattern:
                self._deliver(now, entries_before_pattern)
                entries_before_pattern = []
            self._match(now, *entry)
        if entries_before_pattern:
            self._deliver(now, entries_before_pattern)

    def lose(self, now: int, entries: list[DueEntry]) -> None:
        """Discard due entries; a pattern keeps the later times that it waits for."""
        for _, (id_, place) in entries:
            state = self._states.get(id_)
            if place >= PATTERN and state is not None:
                self._matchings[place - PATTERN].skip_due(state, now)

    def _match(self, now: int, due: int, path: tuple[int, int]) -> None:
        state = self._states.get(path[0])
        if state is None:
            return
        matching, output = self._matchings[path[1] - PATTERN], self._program.steps.output
        if output is None or output.which != "first":
            matching.advance(state, now)
            return
        last = NEVER
        try:
            while due <= now and due != last:  # it decides about each match at its own time
                self.overdue = last = due
                matching.advance(state, due)
                due = matching.due(state)
        finally:
            self.overdue = NEVER

    def _deliver(self, now: int, entries: list[DueEntry]) -> None:
        rows = self._collected(now, entries)
        push = self._statement.outlet.push
        if rows is not None and push is not None:
            push(now, *rows)

    def collect(self, now: int) -> tuple[Rows, Rows] | None:
        """Run the timers that are due and return their rows, or None."""
        return self._collected(now, self.take(now))

    def expire(self, now: int, out: Callable[[list[Any]], object], cause_of: Callable[[int], int] | None) -> None:
        """Expire events within a batch, if the program has `expire_all`. Timers stay due until they have a new time."""
        states: list[Any] = []
        for _, path in self.upto(now):
            state = self._states.get(path[0])
            if state is None:  # it has ended
                DueQueue.arm(self, path, NEVER)
            else:
                states.append(state)
        expire_all = self._program.functions.expire_all
        assert expire_all is not None
        expire_all(states, now, out, cause_of)
        for state in states:
            view = state.view
            view.armed = view.due
            DueQueue.arm(self, (state.partition.id, WINDOW), view.due)
        self._moved()

    def _collected(self, now: int, entries: list[DueEntry]) -> tuple[Rows, Rows] | None:
        if self._expire_all is not None:
            return self._collect_all(self._expire_all, now)
        if len(entries) == 1:  # the most common case
            return self._collect_one(now, entries[0][1])
        due = [(self._state_at(path), *path, at) for at, path in entries if self._state_at(path) is not None]
        if self._program.steps.inputs:  # joined rows depend on the evictions of all inputs, which come after the output
            due.sort(key=lambda timer: timer[2] == WINDOW)
        sides: dict[int, TimerRows] = {}  # by partition id
        forced = self._tick(due, now, sides)
        return self.selected(sides, forced)

    def _collect_one(self, now: int, path: tuple[int, int]) -> tuple[Rows, Rows] | None:
        """Run one part of one state, the most common case."""
        state, (id_, place) = self._state_at(path), path
        if state is None:
            return None
        if _of_subquery(place):
            self._program.subqueries[place - SUBQUERY].functions.tick(state, now)
            return None
        sides: dict[int, TimerRows] = {}
        forced = self._tick_one(state, id_, place, now, sides)
        return self.selected(sides, forced)

    def _state_at(self, path: tuple[int, int]) -> Any:
        return self._inner.get(path) if _of_subquery(path[1]) else self._states.get(path[0])

    def _collect_all(self, expire_all: Callable[..., int], now: int) -> tuple[Rows, Rows] | None:
        deliveries: list[tuple[Rows, Rows]] = []
        state = self._states[0]
        self.arm(_ONE_VIEW, expire_all(state, state.view, now, None, lambda _, *sides: deliveries.append(sides)))
        return deliveries[0] if deliveries else None

    def _tick(self, due: list[tuple[Any, int, Any, int]], now: int, sides: dict[int, TimerRows]) -> bool:
        """Run timers by due time, windows due after an output behind it. Timers of windows may be early."""
        forced = False
        outputs = {id_: at for _, id_, place, at in due if place == OUTPUT and at < now}
        held_back: set[int] = set()
        for state, id_, place, at in due:
            if _of_subquery(place):
                self._program.subqueries[place - SUBQUERY].functions.tick(state, now)
                continue
            if place == WINDOW and id_ in outputs and at <= outputs[id_]:
                held_back.add(id_)
                if state.view.due > outputs[id_]:
                    continue
                state.view.limit_advance(outputs[id_])
            forced |= self._tick_one(state, id_, place, now, sides)
            if place == OUTPUT and id_ in held_back:
                state.view.limit_advance(NEVER)
                forced |= self._tick_one(state, id_, WINDOW, now, sides)
        return forced

    def _tick_one(self, state: StatementState, id_: int, place: int, now: int, sides: dict[int, TimerRows]) -> bool:
        try:
            return bool(self._program.functions.tick(state, state.view, now, *sides.setdefault(id_, ([], [])), place))
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self._statement.failed(failure)
            return False

    def selected(self, sides_by_partition: Mapping[int, TimerRows], forced: bool) -> tuple[Rows, Rows] | None:
        """Combine the rows of all states by partition id; distinct, order and limit apply per state."""
        selector, arrange = self._delivers, self._arrange
        insert: list[Any] = []
        remove: list[Any] = []
        for id_, (ins, rem) in sides_by_partition.items():
            sides = [rem if selector == "rstream" else ins, rem if selector == "irstream" else []]
            try:
                arranged = sides if arrange is None else [arrange(side) or [] for side in sides]
                if self._statement.outlet.inserts_into_own_partition:
                    self._statement.outlet.insert_rows(self._states[id_].partition, *arranged)
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self._statement.failed(failure)
                forced = False  # a failure must not appear as an empty delivery
                continue
            insert += arranged[0]
            remove += arranged[1]
        if not insert and not remove and not forced:
            return None
        return insert or None, remove or None


def _of_subquery(place: int) -> bool:
    return SUBQUERY <= place < OUTPUT


def partition_id(state: StatementState) -> int:
    """Return the partition id in the paths of a state."""
    return 0 if state.partition is None else int(state.partition.id)


def _discard(*_: object) -> None: ...
