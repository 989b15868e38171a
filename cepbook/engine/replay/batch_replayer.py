"""Many events at once: the loop runs inside the generated code, over columns.

A replay hands over slices of columns in total order. What may be done with them is decided for each connected component
of statements (`components`). Mostly each statement of a component runs through the slice on its own (`flow`), which
gives it exactly the deliveries that event-by-event sending gives it: timers are evaluated at the times at which the
clock would have been advanced (all distinct event times of the slice), and rows of ``insert into`` go on to their
readers with the time of their origin. Where the statements of a component do depend on the order among themselves (a
variable that one assigns, a store that one changes and another reads, a context of conditions, …) the component is
*merged*: the slice runs through all of its statements at once, event after event, in one loop that knows its ways
(`singly`); `merged` says why. Events are sent from outside, one by one, only where somebody is called between them, a
plain listener of a statement or of a context; `reasons` says where.

What is promised: every statement delivers the same rows in the same order, and a listener is called as things happen in
its component. Components are not in step: feeds of other components, and reports of errors, follow at the end of the
slice. A listener that calls the engine (to send, to look, to deploy) finds the other components as they were before the
event in hand; from then on all events of the replay are sent one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import merge

from cepbook.engine.delivery.delta import CauseKey
from cepbook.engine.dispatch.event_engine import EventEngine
from cepbook.engine.physical.operators import WindowOperator
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.replay.components import connected_components
from cepbook.engine.replay.event_loop import EventLoop, HybridLoop, SendEvent
from cepbook.engine.replay.statement_pass import (
    ReplayNode,
    StatementPass,
    allocating_contexts,
    filter_for_patterns,
    replay_nodes,
)
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.vectorized.column_batch import ColumnBatch, FilteredBatch
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.plan.nodes import (
    CreateTableStatement,
    CreateWindowStatement,
    StatementPlan,
    StreamStatement,
    WindowSpec,
)
from cepbook.lang.plan.pattern import starts_undecided
from cepbook.lang.plan.references import event_types_read, stores_read, stores_written

_CALLED = "a listener calls the engine while events are replayed"
_UNPRIORITIZED = "without priorities statements take events in the order of the filter index"


@dataclass(slots=True)
class _Plan:
    """How the statements of one version of the runtime are run.

    `nodes` run through slices, sources before readers, then those of `merged` together. The statements of `reasons` are
    sent events one by one, and where there are such those that would be merged are, too. `senders` show to either the
    events of the types that they read, `own` are the types that they insert into.
    """

    version: int = -1
    nodes: list[ReplayNode] = field(default_factory=list)
    merged: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    senders: dict[str, SendEvent] = field(default_factory=dict)
    own: frozenset[str] = frozenset()
    columns: dict[str, tuple[str, ...]] = field(default_factory=dict)


class BatchReplayer:
    """The batch entry for events of `types`. Stays valid when statements come and go between two `run`s."""

    def __init__(
        self, runtime: EventEngine, types: Sequence[str], plans: Callable[[], Iterable[StatementPlan]]
    ) -> None:
        self._runtime = runtime
        self._deployed_plans = plans
        self.types = tuple(types)
        self._plan = _Plan()
        self._called = False  # a listener called the engine
        self._worker: StatementPass | EventLoop | HybridLoop = StatementPass(runtime, [], runtime.now, [runtime.now])

    @property
    def columns(self) -> Mapping[str, tuple[str, ...]]:
        """The properties of each type that `run` must be given now; ask again before each slice."""
        return self._planned().columns

    @property
    def reasons(self) -> Mapping[str, str]:
        """Why events are sent one by one to these statements; slices of all others run inside the generated code."""
        return self._planned().reasons

    @property
    def reason(self) -> str | None:
        """Why some of the statements do not run through slices each on its own; None when all do."""
        return next(iter((self.reasons or self.merged).values()), None)

    @property
    def merged(self) -> Mapping[str, str]:
        """Why these statements take the events of a slice together, one after the other, in one loop."""
        return self._planned().merged

    @property
    def cause(self) -> CauseKey:
        """While `run` works: what is in hand, as far as a `TracingSink` wants to know; phase 1: an event."""
        return self._worker.cause

    def run(self, slices: Sequence[ColumnBatch], stops: Sequence[int] | None = None) -> None:
        """Process the events of `slices` (at most one per type), which precede all events of the next call.

        Before an event of time t the clock advances to t; events before the clock's time do not move it. `stops` are
        the times (ms, ascending) at which the clock stops, if not at those of the events alone: these, which must be
        among them, and perhaps those of events that are not given, up to one behind the last event. A range, of all
        times from now on: the clock stops whenever something is due (of the statements of a component, that is: what
        is to happen at each stop, as with ``initiated after 0 sec``, may be told only of these).
        Errors: as `Runtime.send`.
        """
        plan, runtime = self._planned(), self._runtime
        if not (stops or any(each.times for each in slices)):
            return
        with runtime.turn:
            failures = self._run(plan, slices, stops)
            try:
                runtime.raise_pending()
            except Exception as failure:  # noqa: BLE001 - raised below, behind those before it
                failures.append(failure)
        if failures:
            raise failures[0]

    def _run(self, plan: _Plan, slices: Sequence[ColumnBatch], stops: Sequence[int] | None) -> list[Exception]:
        """Process the events; the failures that nobody listens for."""
        runtime = self._runtime
        if not plan.reasons:
            last = stops[-1] if stops else max(each.times[-1] for each in slices if each.times)
            self._worker = flow = StatementPass(runtime, slices, last, stops)
            flow.run(plan.nodes)
            failures: list[Exception] = []
            if plan.merged:
                self._worker = merged = EventLoop(runtime, slices, flow.ticks, plan.senders, self._wanted)
                merged.run()
                failures = merged.failures
            runtime.clock.now = max(last, runtime.clock.now)
            return failures
        times = stops or list(merge(*(each.times for each in slices)))
        if plan.nodes:
            self._worker = mixed = HybridLoop(runtime, slices, times, plan.nodes)
            failures = mixed.run(plan.senders, self._wanted, plan.own)
            if mixed.called:
                self._called, self._plan = True, _Plan()
            return failures
        self._worker = singly = EventLoop(runtime, slices, times, plan.senders, self._wanted)
        singly.run()
        return singly.failures

    # -------------------------------------------------------------- planning
    def _planned(self) -> _Plan:
        if self._plan.version != self._runtime.version:
            self._plan = self._made()
        return self._plan

    def _made(self) -> _Plan:
        runtime = self._runtime
        plans = list(self._deployed_plans())
        made = _Plan(runtime.version)
        for names in connected_components(plans, runtime.catalog):
            statements = [runtime.statements[name] for name in names]
            found = self._of_component(statements)
            if isinstance(found, str):
                made.merged |= dict.fromkeys(names, found)
                called = self._called_between(statements)
                made.reasons |= dict.fromkeys(names if called else (), called or "")
            else:
                made.nodes += found
        whole = self._obstacle()
        if whole is not None:
            called = _CALLED if self._called else self._called_between(runtime.statements.values())
            made.nodes, made.merged = [], dict.fromkeys(runtime.statements, whole)
            made.reasons = dict.fromkeys(runtime.statements if called else (), called or "")
        if made.reasons:
            made.reasons, made.merged = made.merged | made.reasons, {}
        one_by_one = made.reasons or made.merged
        shown = self._types_of(plan for plan in plans if plan.name in one_by_one)
        if made.merged:
            made.senders = {name: runtime.routes.sender_for_group(name, made.merged) for name in shown}
        elif made.reasons and made.nodes:
            made.senders = {name: runtime.sender_to(name, made.reasons) for name in shown}
            made.own = frozenset(t for name in made.reasons for t in runtime.statements[name].steps.apply.targets)
        elif made.reasons:
            made.senders = {name: runtime.sender(name) for name in self.types}
        made.columns = {name: self._needed(name, made) for name in self.types}
        return made

    def _called_between(self, statements: Iterable[RunningStatement]) -> str | None:
        """Who is called between the events: it may look at all of the component, or call the engine."""
        for each in statements:
            if each.listened:
                return f"`{each.name}` has a listener that is called one delivery at a time"
            if each.context is not None and each.context.watched:
                return f"context `{each.context.name}` has a partition listener, which is called as things happen"
        return None

    def _obstacle(self) -> str | None:
        """Why events are sent one by one to all statements."""
        if self._called:
            return _CALLED
        if not self._runtime.config.prioritized:
            return _UNPRIORITIZED
        dropping = (s.name for s in self._runtime.statements.values() if s.timed.drops and _timed(s))
        return next((f"`{name}` keeps timers of other statements from being run" for name in dropping), None)

    def _of_component(self, statements: list[RunningStatement]) -> list[ReplayNode] | str:
        """The nodes of a component, none if it has nothing to do with the events; or why these come one by one."""
        nodes = replay_nodes(statements, self.types)
        if isinstance(nodes, str):
            return f"`{nodes}` feeds itself"
        reached: dict[str, RunningStatement] = {}
        targets: set[str] = set()
        for node in nodes:
            statement = node.statement
            if not (node.raw or not reached.keys().isdisjoint(node.producers) or _timed(statement)):
                continue
            found = self._obstacle_in(statement)
            if found is not None:
                return found
            reached[statement.name] = statement
            targets.update(statement.steps.apply.targets)
        contexts = {s.steps.context for s in statements}
        opens = any(c.name in contexts for name in self.types for c, _ in allocating_contexts(self._runtime, name))
        shared = self._store_obstacle(statements, list(reached.values()))
        return shared or self._context_obstacle(contexts, targets) or (nodes if reached or opens else [])

    def _types_of(self, plans: Iterable[StatementPlan]) -> list[str]:
        """The replayed types that statements, or their contexts, read."""
        runtime = self._runtime
        read: set[str] = set()
        for plan in plans:
            read.update(event_types_read(plan))
            context = runtime.statements[plan.name].context
            if context is not None:
                read.update(event_types_read(context.plan))
        return [name for name in self.types if any(runtime.catalog.is_a(name, each) for each in read)]

    def _needed(self, name: str, plan: _Plan) -> tuple[str, ...]:
        properties = self._runtime.catalog.event_types[name].properties
        if plan.reasons or name in plan.senders:
            return tuple(properties)
        readers = [node for node in plan.nodes if name in node.raw]
        if any(node.whole or node.statement.steps.in_order for node in readers):
            return tuple(properties)
        wanted = {c for node in readers for c in node.statement.program.columns}
        for _, way in allocating_contexts(self._runtime, name):
            wanted.update(properties if way.reads is None else way.reads)
        return tuple(c for c in properties if c in wanted)

    def _obstacle_in(self, statement: RunningStatement) -> str | None:
        context = statement.context
        if context is not None and context.replay_obstacle is not None:
            return f"context `{context.name}` {context.replay_obstacle}"
        if statement.steps.lots:
            return f"`{statement.name}` takes part in activations: each event has one, through all that read its rows"
        assigner = None if context is None else context.assigner
        if assigner is not None and statement.steps.in_order:
            patterns = [each.source.pattern for each in statement.steps.scans]
            if not all(starts_undecided(each.root) for each in patterns if each is not None):
                return f"`{statement.name}` has a pattern that may be true as soon as a partition begins"
            if any(assigner.locator(each) is None for each in self._read_by(statement)):
                return f"`{statement.name}` takes events for all partitions of a context together"
        if any(each.reads_types for each in (statement.program, *statement.program.subqueries)):
            return f"`{statement.name}` asks for the type of each event"
        if statement.listened:
            return f"`{statement.name}` has a listener that is called one delivery at a time"
        parts = _parts(statement)
        for window in (window for each in parts for window in each.windows):
            if window.row.timed and not all(x.is_positive_period(e) for e in window.args if isinstance(e, x.Period)):
                return f"`{statement.name}` has a period that is not a positive constant"
            if statement.context is not None and _may_not_begin(window):
                return f"`{statement.name}` has a window whose parameters are read when a partition begins"
        if any(_may_be_due_at_once(stage) for each in parts for stage in each.stages):
            return f"`{statement.name}` has a window whose end may move to before now"
        if statement.program.watched or any(each.watched for each in statement.program.subqueries):
            return f"`{statement.name}` has a window that follows a variable"
        if statement.program.output_watched:
            return f"`{statement.name}` has an output clause that follows a variable"
        if statement.kind == "on set" or statement.steps.apply.assigned:
            return f"`{statement.name}` sets variables that others read"
        if statement.steps.apply.changes:
            return f"`{statement.name}` changes events before others see them"
        if statement.steps.apply.branches:
            return f"`{statement.name}` splits its stream into several"
        if statement.steps.apply.drop:
            return f"`{statement.name}` drops events for statements of lower priority"
        return None

    def _read_by(self, statement: RunningStatement) -> list[str]:
        """The replayed and derived types that a statement reads."""
        derived = {t for s in self._runtime.statements.values() for t in s.steps.apply.targets}
        return [name for name in sorted({*self.types, *derived}) if statement.reads(name)]

    def _store_obstacle(self, statements: list[RunningStatement], active: list[RunningStatement]) -> str | None:
        """Rows that several statements share must not change while one after the other looks at all of a slice."""
        catalog = self._runtime.catalog
        if not catalog.stores:
            return None
        changing: dict[str, RunningStatement] = {}
        for each in active:
            if isinstance(each.plan, CreateWindowStatement):
                return f"`{each.name}` holds rows that leave as time passes, with others that look at them"
            for name in stores_written(each.plan, catalog) if isinstance(each.plan, StreamStatement) else ():
                windows = catalog.stores[name].kind == "window"
                if windows or each.steps.apply.targets or changing.setdefault(name, each) is not each:
                    return f"`{each.name}` changes the rows of `{name}`, which others look at"
        for each in statements:
            own = stores_read(each.plan)
            if own and each in active and (each.context is not None or _divided(own, catalog)):
                return f"`{each.name}` looks into a named window or table in each partition of a context"
            for name in () if isinstance(each.plan, CreateTableStatement) else own & changing.keys():
                if changing[name] is not each:
                    return f"`{each.name}` looks at the rows of `{name}`, which `{changing[name].name}` changes"
        return None

    def _context_obstacle(self, contexts: set[str | None], targets: set[str]) -> str | None:
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
                if any(each.context == context.name and each.row is not None and each.source.nothing for each in steps):
                    return f"context `{context.name}` has a statement without a from-clause"
                if context.watched:
                    return f"context `{context.name}` has a partition listener, which is called as things happen"
                read = any(s.steps.context == context.name for s in self._runtime.readers(name))
                if name not in self.types and not read:
                    return f"context `{context.name}` takes partitions from the derived stream `{name}`"
        return None

    # -------------------------------------------------------------- one by one
    def _wanted(self, each: ColumnBatch) -> FilteredBatch | None:
        """The events of a slice that anybody can use, where only patterns look; None if all are wanted."""
        shown = [self._runtime.statements[name] for name in self._plan.reasons or self._plan.merged]
        if any(statement.context is not None for statement in shown):
            return None  # the context may want it
        return filter_for_patterns([statement for statement in shown if statement.reads(each.type)], each)


def _parts(statement: RunningStatement) -> list[PhysicalPlan]:
    """The steps of a statement, of the streams that it joins, and of its subqueries."""
    return [statement.steps, *statement.steps.inputs, *(each.steps for each in statement.program.subqueries)]


def _divided(names: Iterable[str], catalog: Catalog) -> bool:
    """Whether one of the stores has rows in each partition of a context."""
    return any(catalog.stores[name].context is not None for name in names if name in catalog.stores)


def _timed(statement: RunningStatement) -> bool:
    """Whether the clock alone may make the statement do something."""
    steps = statement.steps
    of_itself = steps.timed or steps.matches or any(each.ticks for each in steps.subqueries)
    return of_itself or (statement.context is not None and statement.context.assigner is None)


def _may_not_begin(window: WindowSpec) -> bool:
    """Whether a window may be unable to begin, as with a size of null: that is a failure of one event."""
    return any(isinstance(part, x.VariableRead | x.ContextProp) for e in window.args for part in x.walk(e))


def _may_be_due_at_once(stage: WindowOperator) -> bool:
    """Whether other windows may take an event away that a window's end depends on."""
    moving = any(window.row.deadline_may_advance for window in stage.holding)
    return moving and len(stage.holding) > 1 and not stage.union
