"""The state of a query that is run in cycles, and one cycle of it.

::

    for each partition:      rows = its waiting events
        for each stage:      rows = rows that became new (or dead) in the stage before and pass the stage's condition
                             every window takes rows; aggregates follow
        the relation drops the dead rows of the last cycle, marks the new dead ones, appends new rows
    departures, then arrivals are correlated
    the select is evaluated once over the relations

A cycle runs as soon as there is a cause: the weights of waiting events add up to 1, rows wait in a window, or a row has
reached its age. With a fixed interval a cycle runs at each multiple of it, and nothing else is a cause.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.cycles.correlator import Correlator
from cepbook.engine.cycles.stage import StageSpec, StageState
from cepbook.engine.cycles.stage_windows import RowValues, StageRow
from cepbook.engine.cycles.versioned_relation import VersionedRelation
from cepbook.engine.state import CoinTosses, State
from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan.nodes import CycleStatement

StageCondition = Callable[[RowValues, Any], object]  # (values of a row, state of the statement)


@dataclass(frozen=True, slots=True)
class CycleSpec:
    """The properties that all states of a query share: the stages of each partition and their conditions."""

    node: CycleStatement
    stages: tuple[tuple[StageSpec, ...], ...]
    conditions: tuple[tuple[StageCondition | None, ...], ...]
    failed: Callable[[Exception], None]


class CycleState(State):
    """Waiting events by partition, the stages and relations, and the time of the next cycle."""

    __slots__ = ("_id", "armed", "correlator", "fired", "next", "relations", "stages", "waiting", "weight")

    def __init__(self, node: CycleStatement, now: int) -> None:
        self._id = 0
        self.armed = NEVER  # time for which a timer is armed
        self.waiting: list[list[StageRow]] = [[] for _ in node.partitions]
        self.weight = 0.0
        self.relations = [VersionedRelation() for _ in node.partitions]
        self.stages: list[list[StageState]] = []
        self.fired: list[StageRow] = []
        self.next = NEVER if node.every is None else now + node.every
        seed = node.seed
        for partition in node.partitions:
            chain: list[StageState] = []
            for stage in partition.stages:
                chance = stage.window.row.admits_randomly
                chain.append(StageState(CoinTosses(seed) if chance else None))
                seed += chance
            self.stages.append(chain)
        self.correlator: Correlator | None = None
        if node.correlation is not None:
            self.correlator = Correlator(len(node.correlation.patterns), len(node.correlation.ids))

    def fresh(self) -> int:
        self._id += 1
        return self._id

    def retained(self) -> int:
        """Return the number of rows in windows or waiting."""
        return sum(stage.size for chain in self.stages for stage in chain) + sum(map(len, self.waiting))

    def events(self, number: int, node: CycleStatement) -> list[RowValues]:
        """Return the events of a partition. If they are its rows, events that the last cycle evicted are included."""
        events = {row[0]: row[2] for row in self.stages[number][0].rows()}
        first, *more = node.partitions[number].stages
        if not more and not first.aggregates:
            events |= {row[0]: row[2] for row in (*self.relations[number].dead, *self.relations[number].new)}
        return [values for _, values in sorted(events.items())]

    @property
    def due(self) -> int:
        """The time at which the clock causes a cycle."""
        if self.next < NEVER:
            return self.next
        return min((stage.due for chain in self.stages for stage in chain), default=NEVER)

    def admit(self, number: int, time: int, values: RowValues, weight: float) -> None:
        """Let an event wait at a partition."""
        self.waiting[number].append((self.fresh(), time, values))
        self.weight = round(self.weight + weight, 9)

    def caused(self, now: int) -> bool:
        """Return whether there is a cause for a cycle at `now`."""
        if self.next < NEVER:
            return self.next <= now
        return self.weight >= 1.0 or self.due <= now or any(stage.pending for chain in self.stages for stage in chain)

    def cycle(self, now: int, form: CycleSpec, state: Any) -> None:
        """Move the waiting events through the windows. `state` is that of the statement, for conditions."""
        node, changes = form.node, []
        if self.next < NEVER and node.every is not None:
            self.next += node.every
        self.weight = 0.0
        for number, relation in enumerate(self.relations):
            rows, self.waiting[number] = self.waiting[number], []
            new, dead = self._through(number, rows, now, form, state)
            if self.correlator is None:
                relation.turn(new, dead)
            elif number < len(node.correlation.ids if node.correlation is not None else ()):
                changes.append((new, dead))
            else:
                relation.turn(new, dead)
        if self.correlator is not None and node.correlation is not None:
            self.fired = [(self.fresh(), now, row) for row in self.correlator.step(changes, node.correlation)]

    def _through(
        self, number: int, rows: Sequence[StageRow], now: int, form: CycleSpec, state: Any
    ) -> tuple[list[StageRow], list[StageRow]]:
        new: list[StageRow] = []
        dead: list[StageRow] = []
        for place, (stage, own) in enumerate(zip(self.stages[number], form.stages[number], strict=True)):
            if place:
                source = new if own.node.takes == "new" else dead
                rows = self._accepted(source, form.conditions[number][place], form, state)
            new, dead = stage.step(now, rows, own, self.fresh)
        return new, dead

    def _accepted(
        self, rows: list[StageRow], condition: StageCondition | None, form: CycleSpec, state: Any
    ) -> list[StageRow]:
        accepted: list[StageRow] = []
        for _, time, values in rows:
            try:
                passes = condition is None or condition(values, state)
            except Exception as failure:  # noqa: BLE001 - reported; the other rows go on
                form.failed(failure)
                continue
            if passes:
                accepted.append((self.fresh(), time, dict(values)))
        return accepted
