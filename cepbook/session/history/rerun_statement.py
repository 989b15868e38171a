"""Running one statement again over the event log.

A rerun works in a runtime of its own; the running statements are left alone. `LogPlayer` plays log entries: events,
clock stops, assignments, manual actions. `StatementRerun` does so for one statement and everything that feeds it,
deploying each of them at the point of the log at which it was deployed. Python functions are called again.

     LogPlayer
      ├── WorkbenchRerun      the whole workbench (rerun_workbench)
      └── StatementRerun      one statement and what feeds it
           ├── WindowRerun        when events entered and left the window (rerun_windows)
           └── ProvenanceRerun    which events made a row (rerun_provenance)

The rerun delivers the same rows as the running statement if the log is complete and functions are deterministic. The
engine itself depends on nothing else: time is an input.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby
from operator import attrgetter
from typing import Any

from cepbook.engine.delivery.delta import Delta, Listener, Record, Row
from cepbook.engine.delivery.row_layout import RowLayout, split_deliveries
from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.engine.windows.time_batch import TimeBatchWindow
from cepbook.errors import CepbookError
from cepbook.lang.plan import nodes
from cepbook.lang.plan.dependencies import StatementDependencies, created_store, dependencies_of
from cepbook.lang.plan.expressions import Const
from cepbook.lang.plan.plan_node import PlanNode
from cepbook.lang.plan.traversal import transform
from cepbook.lang.registry.windows import WINDOWS
from cepbook.lang.types import LONG
from cepbook.session.history.event_log import DeployedAt, EventLog, LogEntry


def group_simultaneous(log_entries: Iterable[LogEntry]) -> Iterator[list[LogEntry]]:
    """Group log entries by call. Several entries of one group are events that came together."""
    for _, entries in groupby(log_entries, key=lambda e: e.position[0] if e.simultaneous else e.position):
        yield list(entries)


class LogPlayer:
    """Plays log entries in a second `runtime`. A statement that fails does not end the rerun."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def play(self, log_entries: list[LogEntry]) -> None:
        """Play the entries of one call."""
        runtime, first = self.runtime, log_entries[0]
        time = max(first.time, runtime.now)
        events = [(entry.type_name, dict(entry.event)) for entry in log_entries if entry.type_name is not None]
        if first.variable is not None:
            runtime.set_variable(first.variable, first.value)
        elif first.manual_action is not None:
            with suppress(CepbookError):  # the action concerned a store that is not needed here
                first.manual_action(runtime)
        elif first.simultaneous or self._visits(first) or (not events and first.time >= runtime.now):
            self.before_stop(time, stepping=first.stepping)
            runtime.advance(time, stepping=first.stepping)
        for name, event in events:
            self.before_event(name, event, time)
        if first.simultaneous and events:
            runtime.send_together(events)
        elif events:
            runtime.send(*events[0], time)

    def _visits(self, event: LogEntry) -> bool:
        runtime = self.runtime
        due = runtime.next_due if event.stepping and event.time > runtime.now else None
        return due is not None and due <= event.time

    def before_stop(self, time: int, *, stepping: bool) -> None:
        """Called before the clock moves to `time`."""

    def before_event(self, type_name: str, event: Row, time: int) -> None:
        """Called before an event is sent."""


class StatementRerun(LogPlayer):
    """One statement with everything that feeds it, in a runtime of its own.

    If `is_incomplete`, a part of its past is unknown, and the rerun starts empty at the time `begin`. `size` is the
    number of log entries.
    """

    def __init__(self, runtime: Runtime, event_log: EventLog, target: nodes.StatementPlan) -> None:
        self.target = target
        self._origin = runtime
        self._first: dict[int, RunningStatement] = {}  # variables by plan, because names are unique per module only
        self._pipeline = self._needed(event_log)
        self._deployments = self._deployed(event_log)
        start = min(deployment.position for deployment, _ in self._deployments)
        unknown_before = event_log.incomplete_before(self._pipeline.inputs)
        self.is_incomplete = unknown_before is not None and unknown_before > start
        first_position = unknown_before if unknown_before is not None and self.is_incomplete else start
        self._happenings = event_log.entries_since(first_position, self._pipeline.inputs, runtime.catalog.event_types)
        first = self._happenings[0].time if self._happenings else runtime.now
        if self.is_incomplete:
            self._align_batches()
        self.begin = first if self.is_incomplete else min(deployment.time for deployment, _ in self._deployments)
        if not self.is_incomplete:
            self._happenings = sorted((*self._assignments(event_log), *self._happenings), key=attrgetter("position"))
        self.size = len(self._happenings)
        super().__init__(self._engine())

    def _align_batches(self) -> None:
        """Release the time batches of the target when the running statement does. From the middle of the past they
        would begin a grid of their own.
        """
        target, running = self.target, self._origin.statements.get(self.target.name)
        view = None if running is None or running.steps.context is not None else running.state.view
        if not isinstance(view, TimeBatchWindow) or view.grid is None:
            return
        grid = Const(LONG, view.grid)

        def aligned(node: PlanNode) -> PlanNode:
            if not isinstance(node, nodes.WindowSpec):
                return node
            place = WINDOWS[node.name].reference
            return node if place is None else replace(node, args=(*node.args[:place], grid))

        self.target = transform(target, aligned)
        self._deployments = [(at, self.target if plan is target else plan) for at, plan in self._deployments]

    def _needed(self, event_log: EventLog) -> StatementDependencies:
        """Return the target's dependencies. Stores that manual queries filled from other stores bring these along."""
        statements = [s for d in self._origin.deployments.values() for s in d.plan.statements]
        catalog = self._origin.catalog
        extra_stores: set[str] = set()
        while True:
            dependencies = dependencies_of(self.target.name, statements, catalog, catalog.event_types, extra_stores)
            stores = extra_stores.union(filter(None, map(created_store, (self.target, *dependencies.stores))))
            new_stores = event_log.stores_read_with(stores) - stores
            if not new_stores:
                return dependencies
            extra_stores |= new_stores

    def _deployed(self, event_log: EventLog) -> list[tuple[DeployedAt, nodes.StatementPlan]]:
        dependencies = self._pipeline
        needed = {
            id(s)
            for s in (
                *dependencies.readers,
                *dependencies.contexts,
                *dependencies.variables,
                *dependencies.stores,
                self.target,
            )
        }
        return [
            (event_log.deployed_at(deployment), s)
            for deployment in self._origin.deployments.values()
            for s in deployment.plan.statements
            if id(s) in needed
        ]

    def _assignments(self, log: EventLog) -> list[LogEntry]:
        created = {name: log.deployed_at(d).position for d in self._origin.deployments.values() for name in d.variables}
        return [entry for entry in log.assignments if entry.position > created.get(entry.variable or "", (0, 0))]

    def _engine(self) -> Runtime:
        source = self._origin
        fresh = Runtime(source.config, start=self.begin)
        fresh.add_error_listener(lambda error: None)  # the running statement has reported the error
        for name, function in source.functions.items():
            fresh.register_function(name, function, returns=source.catalog.functions[name])
        for event_type in source.catalog.event_types.values():
            fresh.define(event_type, replace=True)
        self._add_variables(fresh)
        return fresh

    def _add_variables(self, fresh: Runtime) -> None:
        source = self._origin
        for statement in (s for d in source.deployments.values() for s in d.plan.statements):
            if statement.created_variable is not None and statement.created_variable.context is None:
                self._first[id(statement)] = fresh.deploy(nodes.ModulePlan((statement,), statement.epl)).statements[0]
        for name, type_, value, constant in source.external_variables():
            if name not in fresh.catalog.variables:
                fresh.define_variable(name, type_, value, constant=constant)
            if self.is_incomplete and not constant:
                fresh.set_variable(name, source.get_variable(name))

    def _deploy(self, statement: nodes.StatementPlan) -> RunningStatement | None:
        if id(statement) in self._first:
            return self._first[id(statement)]
        deployment = self.runtime.deploy(nodes.ModulePlan((statement,), statement.epl))
        return deployment.statements[0] if deployment.statements else None

    def stimuli(self) -> Iterator[list[LogEntry]]:
        """Yield the log entries of each call before they are played (`play`).

        Statements are deployed in between, at the position of their deployment.
        """
        skipped = nodes.OnSetStatement if self.is_incomplete else ()  # variables have their present values then
        waiting = deque(
            deployed
            for deployed in self._deployments
            if deployed[1] is self.target or not isinstance(deployed[1], skipped)
        )
        for log_entries in group_simultaneous(self._happenings):
            while waiting and waiting[0][0].position < log_entries[0].position:
                self._deploy_at(*waiting.popleft())
            yield log_entries
        while waiting:
            self._deploy_at(*waiting.popleft())

    def run(self) -> None:
        """Play the whole log, up to the present."""
        for log_entries in self.stimuli():
            self.play(log_entries)
        self.advance_to_now()

    def advance_to_now(self) -> None:
        """Move the clock to the present of the running engine."""
        if self._origin.now > self.runtime.now:
            self.runtime.advance(self._origin.now)

    def _deploy_at(self, deployment: DeployedAt, statement: nodes.StatementPlan) -> None:
        if deployment.time > self.runtime.now:
            self.runtime.advance(deployment.time)
        if statement is self.target:
            self._deploy_target()
        else:
            self._deploy(statement)

    def _deploy_target(self) -> None:
        self._deploy(self.target)


@dataclass(eq=False)
class IdentitySink:
    """A sink that passes on the engine's own event objects instead of copies, so that events are recognized by
    identity.

    While `muted()` is true, no rows are made and only the number of deliveries goes to `passed`.
    """

    _layout: RowLayout
    _listener: Listener
    _muted: Callable[[], bool] = lambda: False
    _passed: Callable[[int], object] = lambda _: None

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        """Ignore the description: the layout tells it."""

    def one(self, record: Record) -> None:
        if self._muted():
            self._passed(1)
        else:
            self.extend([*record])

    def extend(self, flat: list[Any]) -> None:
        if self._muted():
            self._passed(sum(not mark % 2 for mark in flat[:: self._layout.width]))
            return
        event = self._layout.event
        for delivery in split_deliveries(self._layout.records(flat)):
            insert, remove = self._layout.sides(delivery)
            self._listener(Delta(delivery[0][1], list(map(event, insert)), list(map(event, remove))))
