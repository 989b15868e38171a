"""The past lived again: what is known of it happens anew in a second runtime, the running one is left alone.

`LogPlayer` lets happenings happen: events, stops of the clock, assignments of variables, what was done by hand.
`StatementRerun`
is that for one statement with all that feeds it, each deployed when it was deployed; `session.past.again` does it for a
whole workbench. Functions written in Python are called again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from operator import attrgetter
from typing import Any

from cepbook.engine.delivery.delta import Delta, Listener, Record, Row
from cepbook.engine.delivery.row_layout import RowLayout, split_deliveries
from cepbook.engine.runtime import RunningStatement, Runtime
from cepbook.errors import CepbookError
from cepbook.lang.plan import nodes
from cepbook.lang.plan.dependencies import StatementDependencies, created_store, dependencies_of
from cepbook.session.history.event_log import DeployedAt, EventLog, LogEntry


def group_simultaneous(log_entries: Iterable[LogEntry]) -> Iterator[list[LogEntry]]:
    """What happened, call by call: several are events that came together."""
    for _, several in groupby(log_entries, key=lambda each: each.place[0] if each.lot else each.place):
        yield list(several)


class LogPlayer:
    """Happenings in a second `runtime`. Statements that fail go on, as they did the first time."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    def let(self, log_entries: list[LogEntry]) -> None:
        """Let happen what came with one call."""
        runtime, first = self.runtime, log_entries[0]
        time = max(first.time, runtime.now)
        events = [(each.type_name, dict(each.event)) for each in log_entries if each.type_name is not None]
        if first.variable is not None:
            runtime.set_variable(first.variable, first.value)
        elif first.manual_action is not None:
            with suppress(CepbookError):  # it was about something that is not here
                first.manual_action(runtime)
        elif first.lot or self._visits(first) or (not events and first.time >= runtime.now):
            self.stopped(time, stepping=first.stepping)
            runtime.advance(time, stepping=first.stepping)
        for name, event in events:
            self.comes(name, event, time)
        if first.lot and events:
            runtime.send_together(events)
        elif events:
            runtime.send(*events[0], time)

    def _visits(self, event: LogEntry) -> bool:
        """Whether the clock stops on its way to an event, where it visits what is due."""
        runtime = self.runtime
        due = runtime.next_due if event.stepping and event.time > runtime.now else None
        return due is not None and due <= event.time

    def stopped(self, time: int, *, stepping: bool) -> None:
        """The clock is about to go to `time`."""

    def comes(self, type_name: str, event: Row, time: int) -> None:
        """An event is about to be sent."""


class StatementRerun(LogPlayer):
    """One statement with all that feeds it, in a runtime of its own.

    `lost`: not all of its past is known; it begins at the time `begin` then with nothing. `size`: how much happens.
    """

    def __init__(self, runtime: Runtime, record: EventLog, target: nodes.StatementPlan) -> None:
        self.target = target
        self._origin = runtime
        self._first: dict[
            int, RunningStatement
        ] = {}  # variables, by their plan: names are those of each module by itself
        self._line = self._needed(record)
        self._born = self._births(record)
        start = min(born.place for born, _ in self._born)
        lost = record.lost(self._line.inputs)
        self.lost = lost is not None and lost > start
        begin = lost if lost is not None and self.lost else start
        self._happenings = record.since(begin, self._line.inputs, runtime.catalog.event_types)
        first = self._happenings[0].time if self._happenings else runtime.now
        self.begin = first if self.lost else min(born.time for born, _ in self._born)
        if not self.lost:
            self._happenings = sorted((*self._assignments(record), *self._happenings), key=attrgetter("place"))
        self.size = len(self._happenings)
        super().__init__(self._engine())

    def _needed(self, record: EventLog) -> StatementDependencies:
        """The target with all that feeds it; of stores that queries filled by hand from others these, too."""
        statements = [s for d in self._origin.deployments.values() for s in d.plan.statements]
        catalog = self._origin.catalog
        beside: set[str] = set()
        while True:
            line = dependencies_of(self.target.name, statements, catalog, catalog.event_types, beside)
            own = beside.union(filter(None, map(created_store, (self.target, *line.stores))))
            more = record.read_with(own) - own
            if not more:
                return line
            beside |= more

    def _births(self, record: EventLog) -> list[tuple[DeployedAt, nodes.StatementPlan]]:
        """The statements that are needed, in order, with the time of their deployment."""
        line = self._line
        needed = {id(s) for s in (*line.readers, *line.contexts, *line.variables, *line.stores, self.target)}
        return [
            (record.born(deployment), s)
            for deployment in self._origin.deployments.values()
            for s in deployment.plan.statements
            if id(s) in needed
        ]

    def _assignments(self, record: EventLog) -> list[LogEntry]:
        """What was given to the variables that there are, since there are."""
        since = {name: record.born(d).place for d in self._origin.deployments.values() for name in d.variables}
        return [each for each in record.assignments if each.place > since.get(each.variable or "", (0, 0))]

    def _engine(self) -> Runtime:
        source = self._origin
        fresh = Runtime(source.config, start=self.begin)
        fresh.add_error_listener(lambda error: None)  # the running statement has told already
        for name, function in source.functions.items():
            fresh.register_function(name, function, returns=source.catalog.functions[name])
        for event_type in source.catalog.event_types.values():
            fresh.define(event_type, replace=True)
        self._add_variables(fresh)
        return fresh

    def _add_variables(self, fresh: Runtime) -> None:
        """With their first values, as nothing was lost since; else with the present ones, which then stay."""
        source = self._origin
        for statement in (s for d in source.deployments.values() for s in d.plan.statements):
            if isinstance(statement, nodes.CreateVariableStatement) and statement.context is None:
                self._first[id(statement)] = fresh.deploy(nodes.ModulePlan((statement,), statement.epl)).statements[0]
        for name, of, value, constant in source.external_variables():
            if name not in fresh.catalog.variables:
                fresh.define_variable(name, of, value, constant=constant)
            if self.lost and not constant:
                fresh.set_variable(name, source.get_variable(name))

    def _deploy(self, statement: nodes.StatementPlan) -> RunningStatement | None:
        if id(statement) in self._first:
            return self._first[id(statement)]
        made = self.runtime.deploy(nodes.ModulePlan((statement,), statement.epl))
        return made.statements[0] if made.statements else None

    def stimuli(self) -> Iterator[list[LogEntry]]:
        """What happened, before it happens: several events are those that came together. `let` lets it happen.

        Statements are deployed between, when they were deployed.
        """
        idle = nodes.OnSetStatement if self.lost else ()  # variables have their present values then
        waiting = deque(each for each in self._born if each[1] is self.target or not isinstance(each[1], idle))
        for log_entries in group_simultaneous(self._happenings):
            while waiting and waiting[0][0].place < log_entries[0].place:
                self._bear(*waiting.popleft())
            yield log_entries
        while waiting:
            self._bear(*waiting.popleft())

    def run(self) -> None:
        """Let happen what happened, up to the present."""
        for log_entries in self.stimuli():
            self.let(log_entries)
        self.catch_up()

    def catch_up(self) -> None:
        """The clock as it is now."""
        if self._origin.now > self.runtime.now:
            self.runtime.advance(self._origin.now)

    def _bear(self, born: DeployedAt, statement: nodes.StatementPlan) -> None:
        if born.time > self.runtime.now:
            self.runtime.advance(born.time)
        if statement is self.target:
            self._deploy_target()
        else:
            self._deploy(statement)

    def _deploy_target(self) -> None:
        self._deploy(self.target)


class IdentitySink:
    """A sink that tells of deliveries with the engine's own events, not with copies: who is who shows by identity.

    While it is `muted` nothing is made of rows, and only how many deliveries `passed` is told.
    """

    def __init__(
        self,
        layout: RowLayout,
        listener: Listener,
        muted: Callable[[], bool] = lambda: False,
        passed: Callable[[int], object] = lambda _: None,
    ) -> None:
        self._layout = layout
        self._listener = listener
        self._muted = muted
        self._passed = passed

    def describe(self, columns: tuple[str, ...] | None, fresh: Callable[[Any], Row]) -> None:
        """The layout says it all."""

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
