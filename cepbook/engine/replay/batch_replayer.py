"""Replay of many events at once: the loop runs inside generated code, over columns.

A replay processes column batches in the order of time. Statements that depend on each other form a *component*
(`components`). Components whose statements can run alone take the statement pass; all others share one loop:

::

    StatementPass   each statement runs through the batch on its own      the default
    PeriodLoop      either of the two, in turns                           contexts whose one partition begins and ends
    EventLoop       all statements of the component, event by event       their order within an event matters
    HybridLoop      both, with events sent from outside one by one        a listener must be called between events

- The statement pass delivers exactly what event-by-event sending delivers. Timers run at the times at which the clock
  would have advanced: all distinct event times of the batch. Rows of `insert into` reach their readers with the time of
  their origin.
- Where a batch is small, or statements are many, an event loop runs the statements of a statement pass as well, if it
  costs less (`loop_costs`).
- The event loop is needed if one statement assigns a variable that another reads, changes a store that another reads,
  runs in a context of conditions, and so on. `merged` has the reasons. Where one period of a context follows the
  other, it is needed only around begins and ends.
- Events are sent from outside only where a plain listener of a statement or of a context is called in between.
  `reasons` has the reasons.

Every statement delivers the same rows in the same order as without batches, and a listener is called as things happen
in its component. Components are not synchronized: feeds of other components, and reports of errors, follow at the end
of the batch. A listener that calls the engine (to send, read or deploy) finds the other components as they were before
the present event; from then on all events of the replay are sent one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cepbook.engine.delivery.delta import CauseKey
from cepbook.engine.dispatch.event_engine import EventEngine
from cepbook.engine.physical.operators import WindowOperator
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.replay.batch_inputs import allocating_contexts, event_stops, filter_for_patterns
from cepbook.engine.replay.components import connected_components
from cepbook.engine.replay.event_loop import EventLoop, HybridLoop, SendEvent
from cepbook.engine.replay.loop_costs import event_loop_pays
from cepbook.engine.replay.period_loop import PeriodLoop
from cepbook.engine.replay.statement_pass import ReplayNode, StatementPass, replay_nodes
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.time.clock_stops import ClockStops, DueStops, EventStops, LateTimers
from cepbook.engine.vectorized.column_batch import ColumnBatch, FilteredBatch
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.pattern import starts_undecided
from cepbook.lang.plan.references import event_types_read, stores_read, stores_written

_CALLED = "a listener calls the engine while events are replayed"
_UNPRIORITIZED = "without priorities statements process events in the order of the filter index"


@dataclass(frozen=True, slots=True)
class Until:
    """The end of a replay: ``fired()`` is evaluated after every event and every stop of the clock.

    If it depends on the deliveries of `statement` alone, the other statements run through batches.
    """

    fired: Callable[[], bool]
    statement: str | None = None


@dataclass(slots=True)
class _Plan:
    """How the statements of one version of the runtime are replayed.

    `nodes` run through batches, producers before readers, then those of `merged` together. `periodic` are the nodes of
    all `merged` statements, if contexts of a single period are their only obstacle; `PeriodLoop` runs these. Otherwise
    it is empty. Statements in `reasons` get
    events one by one; if there are any, the statements of `merged` join them. `senders` maps the event types that these
    statements read to send functions; `own` holds the types that they insert into. `everybody` has the send functions
    to all statements, and `calls` counts the statements that an event is passed to. `awaited` is the statement that a
    replay waits for; with `awaiting` its component alone is in `reasons`, and those in `merged`.
    """

    version: int = -1
    awaited: str | None = None
    awaiting: bool = False
    nodes: list[ReplayNode] = field(default_factory=list)
    merged: dict[str, str] = field(default_factory=dict)
    periodic: list[ReplayNode] = field(default_factory=list)
    reasons: dict[str, str] = field(default_factory=dict)
    senders: dict[str, SendEvent] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    everybody: dict[str, SendEvent] = field(default_factory=dict)
    calls: dict[str, Callable[[Any], int]] = field(default_factory=dict)
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)


class BatchReplayer:
    """The batch entry for events of `types`. It stays valid when statements come and go between two calls of `run`."""

    def __init__(
        self,
        runtime: EventEngine,
        types: Sequence[str],
        plans: Callable[[], Iterable[p.StatementPlan]],
        late: LateTimers | None = None,
    ) -> None:
        self._runtime = runtime
        self._deployed_plans = plans
        self.types = tuple(types)
        self._plan = _Plan()
        self._called = False  # a listener called the engine
        self.awaited: str | None = None  # the statement that `run` waits for; set before `columns` is read
        self._late = LateTimers() if late is None else late
        stops = DueStops(runtime.now, runtime.now)
        self._worker: StatementPass | EventLoop | HybridLoop | PeriodLoop = StatementPass(runtime, [], stops)

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The properties of each type that `run` needs; may change before each batch."""
        return self._planned().columns

    @property
    def reasons(self) -> Mapping[str, str]:
        """Reasons why statements get events one by one; batches of all others run inside generated code."""
        return self._planned().reasons

    @property
    def reason(self) -> str | None:
        """Reason why a statement does not run through batches on its own, or None."""
        return next(iter((self.reasons or self.merged).values()), None)

    @property
    def merged(self) -> Mapping[str, str]:
        """Reasons why statements process the events of a batch together, in one loop."""
        return self._planned().merged

    @property
    def in_stretches(self) -> bool:
        """True if statements in `merged` take the statement pass as long as no partition begins or ends."""
        return bool(self._planned().periodic)

    @property
    def cause(self) -> CauseKey:
        """The cause of the present delivery, for a `TracingSink`, while `run` works; phase 1 is an event."""
        return self._worker.cause

    def run(
        self,
        batches: Sequence[ColumnBatch],
        stops: Sequence[int] | None = None,
        until: Callable[[], bool] | None = None,
    ) -> Sequence[int] | None:
        """Process the events of `batches` (at most one batch per type), which precede all events of the next call.

        Before an event at time t the clock advances to t; earlier events do not move it. `stops` are the times (ms,
        ascending) at which the clock stops; the default is the times of the events. `stops` must include these, and may
        include times of events that are not passed, at most one after the last event; timers that are due in between
        count as late. With a `range` of all times the clock stops whenever a timer of the component is due, so
        an action that would run at every stop (`initiated after 0 sec`) runs only there.

        With `until` the batch ends when it returns True after an event or a stop of the clock; the result is how many
        events of each batch were processed. If it depends on the deliveries of the statement `awaited` alone, the other
        components run through batches.

        Errors: as `Runtime.send`.
        """
        plan, runtime = self._planned(), self._runtime
        if not (stops or any(batch.times for batch in batches)):
            return None
        if runtime.state_limit is not None:
            runtime.state_limit.took(sum(len(batch.times) for batch in batches))
        processed = None
        with runtime.turn:
            clock_stops = self._stops(batches, stops)
            if until is None:
                failures = self._run(plan, batches, clock_stops)
            else:
                loop = self._run_until(plan, batches, clock_stops, until)
                failures, processed = loop.failures, [loop.processed(batch) for batch in batches]
            try:
                runtime.turn.settled()
            except Exception as failure:  # noqa: BLE001 - raised below, behind those before it
                failures.append(failure)
        if failures:
            raise failures[0]
        return processed

    def _stops(self, batches: Sequence[ColumnBatch], times: Sequence[int] | None) -> ClockStops:
        if isinstance(times, range):
            return DueStops(times[0], times[-1])
        if times:
            return EventStops(times, self._late)
        nonempty = [batch for batch in batches if batch.times]
        return event_stops(nonempty, max(batch.times[-1] for batch in nonempty), self._late)

    def _run(self, plan: _Plan, batches: Sequence[ColumnBatch], stops: ClockStops) -> list[Exception]:
        runtime = self._runtime
        if not plan.reasons and plan.nodes and self._event_loop_pays(plan, plan.nodes, batches):
            loop = self._event_loop(plan, batches, stops)
            loop.run()
            return loop.failures
        if not plan.reasons:
            self._worker = statement_pass = StatementPass(runtime, batches, stops)
            statement_pass.run(plan.nodes)
            failures: list[Exception] = []
            if plan.periodic:
                loop_pays = partial(self._event_loop_pays, plan, plan.periodic)
                self._worker = periods = PeriodLoop(runtime, batches, stops, plan.periodic, plan.senders, loop_pays)
                periods.run()
                failures = periods.failures
            elif plan.merged:
                self._worker = loop = EventLoop(runtime, batches, stops, plan.senders, self._prefilter)
                loop.run()
                failures = loop.failures
            runtime.clock.now = max(stops.last, runtime.clock.now)
            return failures
        if plan.nodes:
            self._worker = hybrid = HybridLoop(runtime, batches, stops, plan.nodes)
            failures = hybrid.run(plan.senders, self._prefilter, plan.own)
            if hybrid.called:
                self._called, self._plan = True, _Plan()
            return failures
        self._worker = alone = EventLoop(runtime, batches, stops, plan.senders, self._prefilter)
        alone.run()
        return alone.failures

    def _run_until(
        self, plan: _Plan, batches: Sequence[ColumnBatch], stops: ClockStops, fired: Callable[[], bool]
    ) -> EventLoop:
        if plan.awaiting and plan.nodes:
            self._worker = hybrid = HybridLoop(self._runtime, batches, stops, plan.nodes)
            return hybrid.run_until(fired, plan.senders, self._prefilter)
        loop = self._event_loop(plan, batches, stops)
        loop.run(fired)
        return loop

    def _event_loop(self, plan: _Plan, batches: Sequence[ColumnBatch], stops: ClockStops) -> EventLoop:
        """Return the loop that sends every event to all statements."""
        for batch in batches:
            if batch.type not in plan.everybody:
                plan.everybody[batch.type] = self._runtime.sender(batch.type)
        self._worker = loop = EventLoop(self._runtime, batches, stops, plan.everybody)
        return loop

    def _event_loop_pays(self, plan: _Plan, nodes: Sequence[ReplayNode], batches: Sequence[ColumnBatch]) -> bool:
        types = {batch.type for batch in batches if batch.times}
        statements = sum(bool(node.producers) or not types.isdisjoint(node.raw) for node in nodes)

        def calls(type_name: str, event: dict[str, object]) -> int:
            count = plan.calls.get(type_name)
            if count is None:
                count = plan.calls[type_name] = self._runtime.routes.call_counter(type_name)
            return count(event)

        return event_loop_pays(batches, statements, calls)

    def _planned(self) -> _Plan:
        if self._plan.version != self._runtime.version or self._plan.awaited != self.awaited:
            self._plan = self._make_plan()
        return self._plan

    def _make_plan(self) -> _Plan:
        runtime = self._runtime
        plans = list(self._deployed_plans())
        planned = _Plan(runtime.version, self.awaited)
        listened = self._called or self._called_between(runtime.statements.values()) is not None
        planned.awaiting = self.awaited in runtime.statements and not listened
        for names in connected_components(plans, runtime.catalog):
            statements = [runtime.statements[name] for name in names]
            awaited = planned.awaiting and self.awaited in names
            nodes = f"the replay waits for `{self.awaited}`" if awaited else self._of_component(statements)
            reason = nodes if isinstance(nodes, str) else _turning_reason(statements)
            if isinstance(nodes, list):
                (planned.nodes if reason is None else planned.periodic).extend(nodes)
            if reason is None:
                continue
            planned.merged |= dict.fromkeys(names, reason)
            called_between = reason if awaited else self._called_between(statements)
            planned.reasons |= dict.fromkeys(names if called_between else (), called_between or "")
        if len(planned.periodic) < len(planned.merged):
            planned.periodic = []
        obstacle = self._obstacle()
        if obstacle is not None:
            called_between = _CALLED if self._called else self._called_between(runtime.statements.values())
            planned.nodes, planned.merged, planned.periodic = [], dict.fromkeys(runtime.statements, obstacle), []
            planned.reasons = dict.fromkeys(runtime.statements if called_between else (), called_between or "")
        if planned.reasons:
            planned.reasons, planned.merged = planned.merged | planned.reasons, {}
        not_alone = planned.reasons or planned.merged
        sent_types = self._types_of(plan for plan in plans if plan.name in not_alone)
        if planned.merged:
            planned.senders = {name: runtime.routes.sender_for_group(name, planned.merged) for name in sent_types}
        elif planned.reasons and planned.nodes:
            planned.senders = {name: runtime.sender_to(name, planned.reasons) for name in sent_types}
            planned.own = frozenset(t for name in planned.reasons for t in runtime.statements[name].steps.emit.targets)
        elif planned.reasons:
            planned.senders = {name: runtime.sender(name) for name in self.types}
        planned.columns = {name: self._needed(name, planned) for name in self.types}
        return planned

    def _called_between(self, statements: Iterable[RunningStatement]) -> str | None:
        """Reason for user code between events, which may read the whole component or call the engine; or None."""
        for statement in statements:
            if statement.has_listeners:
                return f"`{statement.name}` has a listener that is called one delivery at a time"
            if statement.context is not None and statement.context.watched:
                return f"context `{statement.context.name}` has a partition listener, which is called as things happen"
        return None

    def _obstacle(self) -> str | None:
        if self._called:
            return _CALLED
        if not self._runtime.config.prioritized:
            return _UNPRIORITIZED
        dropping = (s.name for s in self._runtime.statements.values() if s.timed.drops and _timed(s))
        return next((f"`{name}` drops timers of other statements" for name in dropping), None)

    def _of_component(self, statements: list[RunningStatement]) -> list[ReplayNode] | str:
        """Return the nodes of a component, none if it ignores the events, or the reason for an event loop."""
        nodes = replay_nodes(statements, self.types)
        if isinstance(nodes, str):
            return f"`{nodes}` feeds itself"
        reached: dict[str, RunningStatement] = {}
        targets: set[str] = set()
        derived = {target for statement in statements for target in statement.steps.emit.targets}
        for node in nodes:
            statement = node.statement
            if not (node.raw or not reached.keys().isdisjoint(node.producers) or _timed(statement)):
                continue
            obstacle = self._obstacle_in(statement, derived)
            if obstacle is not None:
                return obstacle
            reached[statement.name] = statement
            targets.update(statement.steps.emit.targets)
        contexts = {s.steps.context for s in statements if s.steps.context is not None}
        opens = any(c.name in contexts for name in self.types for c, _ in allocating_contexts(self._runtime, name))
        store_obstacle = self._store_obstacle(statements, list(reached.values()))
        obstacle = store_obstacle or self._context_obstacle(contexts, targets) or _partition_ahead(nodes)
        return obstacle or (nodes if reached or opens else [])

    def _types_of(self, plans: Iterable[p.StatementPlan]) -> list[str]:
        runtime = self._runtime
        read: set[str] = set()
        for plan in plans:
            read.update(event_types_read(plan))
            context = runtime.statements[plan.name].context
            if context is not None:
                read.update(event_types_read(context.plan))
        return [name for name in self.types if any(runtime.catalog.is_a(name, type_read) for type_read in read)]

    def _needed(self, name: str, plan: _Plan) -> tuple[str, ...]:
        properties = self._runtime.catalog.event_types[name].properties
        if plan.reasons or name in plan.senders:
            return tuple(properties)
        readers = [node for node in plan.nodes if name in node.raw]
        if any(node.whole or node.statement.steps.needs_event_order for node in readers):
            return tuple(properties)
        columns = {c for node in readers for c in node.statement.program.columns}
        for _, way in allocating_contexts(self._runtime, name):
            columns.update(properties if way.reads is None else way.reads)
        return tuple(c for c in properties if c in columns)

    def _obstacle_in(self, statement: RunningStatement, derived: set[str]) -> str | None:
        context = statement.context
        if context is not None and context.replay_obstacle is not None:
            single = context.single_period and not any(source.without_from for source in statement.program.sources)
            if not single or any(statement.reads(name) or context.concerns(name) for name in derived):
                return f"context `{context.name}` {context.replay_obstacle}"
        if statement.steps.buffers_input:
            return f"`{statement.name}` is activated once per event, together with all readers of its rows"
        assigner = None if context is None else context.assigner
        if assigner is not None and statement.steps.needs_event_order:
            patterns = [item.source.pattern for item in statement.steps.scans]
            if not all(starts_undecided(item.root) for item in patterns if item is not None):
                return f"`{statement.name}` has a pattern that may match as soon as a partition begins"
            if any(assigner.locator(item) is None for item in {*self.types, *derived} if statement.reads(item)):
                return f"`{statement.name}` takes events for all partitions of a context together"
        if any(item.reads_types for item in (statement.program, *statement.program.subqueries)):
            return f"`{statement.name}` reads the type of each event"
        if statement.has_listeners:
            return f"`{statement.name}` has a listener that is called one delivery at a time"
        plans = _parts(statement)
        for window in (window for item in plans for window in item.windows):
            if window.row.timed and not all(x.is_positive_period(e) for e in window.args if isinstance(e, x.Period)):
                return f"`{statement.name}` has a period that is not a positive constant"
            late: tuple[type[x.BoundExpr], ...] = (x.VariableRead, x.ContextProp)
            if statement.context is not None and any(x.find(kind, *window.args) for kind in late):
                return f"`{statement.name}` has a window whose parameters are read when a partition begins"
        if any(_due_time_may_pass(stage) for item in plans for stage in item.stages):
            return f"`{statement.name}` has a window whose next due time may move into the past"
        if statement.program.watched or any(item.watched for item in statement.program.subqueries):
            return f"`{statement.name}` has a window that depends on a variable"
        if statement.program.output_watched:
            return f"`{statement.name}` has an output clause that depends on a variable"
        if statement.kind == "on set" or statement.steps.emit.assigned:
            return f"`{statement.name}` sets variables that others read"
        if statement.steps.emit.changes:
            return f"`{statement.name}` changes events before others see them"
        if statement.program.precedences and self._runtime.config.precedence:
            return f"`{statement.name}` inserts events with a precedence"
        if statement.steps.emit.branches:
            return f"`{statement.name}` splits its stream into several"
        if statement.steps.emit.drop:
            return f"`{statement.name}` drops events for statements of lower priority"
        return None

    def _store_obstacle(self, statements: list[RunningStatement], active: list[RunningStatement]) -> str | None:
        """Reason why stores forbid a statement pass: rows must not change while another statement reads them."""
        catalog = self._runtime.catalog
        if not catalog.stores:
            return None
        changing: dict[str, RunningStatement] = {}
        for statement in active:
            if statement.steps.owned_store is not None:
                return f"`{statement.name}` holds rows that expire while others read them"
            for name in stores_written(statement.plan, catalog):
                windows = catalog.stores[name].kind == "window"
                if windows or statement.steps.emit.targets or changing.setdefault(name, statement) is not statement:
                    return f"`{statement.name}` changes the rows of `{name}`, which others read"
        for statement in statements:
            own = stores_read(statement.plan)
            divided = any(catalog.stores[name].context is not None for name in own if name in catalog.stores)
            if own and statement in active and (statement.context is not None or divided):
                return f"`{statement.name}` reads a named window or table in each partition of a context"
            for name in () if statement.steps.table is not None else own & changing.keys():
                if changing[name] is not statement:
                    return f"`{statement.name}` reads the rows of `{name}`, which `{changing[name].name}` changes"
        return None

    def _context_obstacle(self, contexts: set[str], targets: set[str]) -> str | None:
        if not contexts:
            return None
        opened: dict[str, str] = {}
        for name in sorted({*self.types, *targets}):
            for context, _ in allocating_contexts(self._runtime, name):
                if context.name not in contexts:
                    continue
                if (context.name in opened and (name in targets or opened[context.name] in targets)) or (
                    name in targets and name in self.types
                ):
                    return f"context `{context.name}` takes partitions from several streams"
                opened[context.name] = name
                steps = [s.steps for s in self._runtime.statements.values()]
                if any(
                    plan.context == context.name and plan.row is not None and plan.source.without_from for plan in steps
                ):
                    return f"context `{context.name}` has a statement without a from-clause"
                if context.watched:
                    return f"context `{context.name}` has a partition listener, which is called as things happen"
                read = any(s.steps.context == context.name for s in self._runtime.readers(name))
                if name not in self.types and not read:
                    return f"context `{context.name}` takes partitions from the derived stream `{name}`"
        return None

    def _prefilter(self, batch: ColumnBatch) -> FilteredBatch | None:
        """Return the events of a batch that any pattern may take, if only patterns read it; None: all events."""
        statements = [self._runtime.statements[name] for name in self._plan.reasons or self._plan.merged]
        if any(statement.context is not None for statement in statements):
            return None  # the context may need any event
        return filter_for_patterns([statement for statement in statements if statement.reads(batch.type)], batch)


def _partition_ahead(nodes: Iterable[ReplayNode]) -> str | None:
    """Reason for an event loop where the order of inserted events depends on new partitions: a keyed context passes
    the first event of a partition to its statements at once, before the statements between it and them.
    """
    inserting = [node for node in nodes if node.keyed and node.statement.steps.emit.targets]
    for node in inserting:
        statement, context = node.statement, node.statement.context
        if context is None or context.assigner is None:
            continue
        sources = {*node.raw, *node.producers}
        for other in (node.statement for node in inserting if not sources.isdisjoint((*node.raw, *node.producers))):
            if other.context is not context and context.order < other.order < statement.order:
                return f"context `{context.name}` passes the first event of a partition to `{statement.name}` early"
    return None


def _turning_reason(statements: Iterable[RunningStatement]) -> str | None:
    """Reason why statements need an event loop around begins and ends; None without a context of a single period."""
    contexts = [s.context for s in statements if s.context is not None and s.context.single_period]
    return next((f"context `{context.name}` {context.replay_obstacle}" for context in contexts), None)


def _parts(statement: RunningStatement) -> list[PhysicalPlan]:
    """Return the physical plans of a statement, of the streams that it joins, and of its subqueries."""
    return [statement.steps, *statement.steps.inputs, *(subquery.steps for subquery in statement.program.subqueries)]


def _timed(statement: RunningStatement) -> bool:
    """Return True if the clock alone may make the statement deliver."""
    steps = statement.steps
    of_itself = steps.timed or steps.reads_pattern or any(subquery.ticks for subquery in steps.subqueries)
    return of_itself or (statement.context is not None and statement.context.assigner is None)


def _due_time_may_pass(stage: WindowOperator) -> bool:
    """Return True if another window may remove the event that sets a due time, which may then lie in the past."""
    moving = any(window.row.deadline_may_advance for window in stage.holding)
    return moving and len(stage.holding) > 1 and not stage.union
