"""A running statement: its generated program, its state, its timers and its listeners."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from functools import cached_property, partial
from typing import Any, NotRequired, TypedDict

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.delivery.delivery_splitter import DeliverySplitter
from cepbook.engine.delivery.delta import DeliveryPorts, Listener, Rows, Sink
from cepbook.engine.delivery.outlet import DeliveryOutlet, OutletSpec, stream_inserter
from cepbook.engine.delivery.row_layout import RowLayout
from cepbook.engine.patterns.matcher import AtomGroup
from cepbook.engine.patterns.statement_pattern import PartialsSummary, StatementPattern, merge_partials
from cepbook.engine.relations.statement_state import StatementState, StoreState
from cepbook.engine.relations.store_lookups import NO_LOOKUPS
from cepbook.engine.services import EngineServices
from cepbook.engine.statements.buffered_input import BufferedInput
from cepbook.engine.statements.cycle_member import CycleMember
from cepbook.engine.statements.failure_attribution import statement_error, traceback_namespaces
from cepbook.engine.statements.join_inputs import JoinArrivals, join_handler
from cepbook.engine.statements.statement_timers import StatementTimers, partition_id
from cepbook.engine.statements.store_access import StoreAccess
from cepbook.engine.statements.subquery_inputs import SubqueryInputs, ignore_state, indexable_filter, without_state
from cepbook.engine.statements.variables import VariableWatcher
from cepbook.engine.subscriptions.filter_index import (
    EventHandler,
    EventReader,
    IndexCondition,
    Subscription,
    before_peers,
    index_conditions,
    leading_conditions,
)
from cepbook.engine.time.activations import ActivationScheduler
from cepbook.engine.time.clock import NEVER
from cepbook.errors import Diagnostic, StatementError
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.expressions import BoundExpr, conjuncts

DeliveringPlan = p.StreamStatement | p.CreateVariableStatement | p.CreateTableStatement
_FEW = 1000  # states


class StateSummary(TypedDict):
    """Plain data about the state in one context partition: its id, events, groups, the next due time and `partials`."""

    partition: int | None
    retained: int
    groups: int | None
    next_timer: int | None
    partials: NotRequired[PartialsSummary]


class ProcessorTime:
    """CPU time in seconds. An object of its own, so that a meter does not keep the whole engine alive."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


class RunningStatement(StoreAccess, ContextMember):
    """One deployed statement that delivers rows.

    `kind` is select, on set, split, create variable and so on. `order` is its position in delivery order. Listeners are
    called once per atomic delivery; sinks are the fast path that feeds use. `output_type` has the names and types of
    its columns.
    """

    SAVED = ("order", "state")
    plan: DeliveringPlan

    def __init__(
        self,
        services: EngineServices,
        plan: DeliveringPlan,
        program: StatementProgram,
        order: tuple[int, int],
        deployment_id: str,
        source: str,
        kind: str = "select",
    ) -> None:
        self.plan = plan
        self.steps = program.steps
        self.name = plan.name
        self.epl = plan.epl
        self.kind = kind
        self.deployment_id = deployment_id
        self.source = source
        self.output_type: EventType = plan.output_type.delivered
        self.order = order
        self.program = program
        self.timed = StatementTimers(order, self, program)
        self.drops = self.timed.drops = program.steps.emit.drop and services.config.prioritized
        self.context: Context | None = None
        self.state: Any = None
        self.processor_time = ProcessorTime()  # in replays, which run a batch through one statement after the other
        self._services = services
        hidden = plan.output_type.properties.keys() - self.output_type.properties.keys()
        layout = RowLayout(program.row_columns, self.output_type.properties, hidden)
        split = plan.delivery_key is not None
        splitter = DeliverySplitter(layout, program.delivery_key, self.failed) if split else None
        steps = program.steps
        host = services.deliveries
        insert, precedences = steps.emit.insert, program.precedences or (None,) * len(steps.emit.targets)
        first = precedences[0] if insert is not None else None
        at_once = steps.buffers_input or bool(steps.emit.changes)
        spec = OutletSpec(steps.listener_selector, steps.insert_selector, insert, first, at_once)
        self.outlet = DeliveryOutlet(host, layout, spec, self._wire, self.failed, splitter)
        self._match_listeners: list[Callable[[Any], object]] = []
        self.owned = None
        self.stores = {}
        self.lookups = NO_LOOKUPS
        self._arrivals = JoinArrivals(program.functions, steps.context is None)
        self._matchings = {number: self._matching_of(number, place) for place, number in enumerate(program.patterns)}
        self._watching = VariableWatcher(program, self._states_in, services.clock, self.failed)
        self.activation_member = self._activation_member(services.activations)
        program.namespace.update(failed=self.failed, out=None, push=None, slot=0)
        program.namespace["route"] = stream_inserter(host, steps.emit.targets, precedences)
        program.namespace.update(state_of=self.state_of, place_rows=self.outlet.insert_rows)
        config = services.config
        program.namespace.update(recognize_limit=config.recognize_limit, by_precedence=config.precedence)
        program.namespace.pop("stopped", None)
        ahead = config.self_subselect_preeval
        self.subquery_inputs = SubqueryInputs(plan, program.subqueries, services, self.failed, ahead=ahead)

    def _activation_member(self, activations: ActivationScheduler) -> BufferedInput | CycleMember | None:
        """Return the buffer that runs this statement in activations; None if it processes each event by itself."""
        if self.steps.cycle is not None:
            return CycleMember(self, self.steps.cycle.plan, self.program, self.timed, activations)
        return BufferedInput(self, self.program, self.timed, activations) if self.steps.buffers_input else None

    def _matching_of(self, number: int, place: int) -> StatementPattern:
        services, program = self._services, self.program.patterns[number]
        at = number if self.steps.inputs and self.steps.on_select is None else None
        take: Callable[[Any, Any], object] = self._match
        taken: Callable[[Any], object] | None = self.program.functions.post
        if at is not None:  # a match is an event of one input
            take, taken = partial(self._arrivals.add, number), self._arrivals.enter
        arm, limit = partial(self.timed.arm_pattern, place), services.config.pattern_limit
        on_limit = partial(self._crowded, number)
        matching = StatementPattern(program, services.clock, arm, take, self.failed, limit, on_limit, at, taken)
        self.timed.add_matching(matching)
        return matching

    @property
    def now(self) -> int:
        """Engine time in ms."""
        return self._services.clock.now

    @property
    def properties(self) -> dict[str, str]:
        """Output columns: name -> EPL type."""
        return {name: str(type_) for name, type_ in self.output_type.properties.items()}

    @property
    def keeps_rows(self) -> bool:
        """True if the iterator may return rows: the statement has or reads a window, is one row, or keeps an event."""
        if self.steps.on_select is not None or self.steps.emit.merges is not None:
            return False
        if self.steps.row is None or self._services.config.iterable_unbound:
            return True  # no rows, but the values of variables
        if self.plan.iterable_unbound or any(source.store is not None for source in self.plan.sources):
            return True
        return bool(self.steps.windows) or self.steps.kind == "fully_aggregated"

    @property
    def delivers(self) -> bool:
        """True if it has a stream; a table has rows only."""
        return self.owned is None or self.owned.type.kind != "table"

    def start(self, context: Context | None) -> None:
        """Create the state (one, or one per context partition), connect to stores, and begin to listen to events.

        While the runtime is restored, the state comes from the snapshot.
        """
        self.context = context
        self.bind_tables()
        self.timed.attach(self._services.clock)
        if context is not None:
            self.program.slot = context.join(self)
        elif not self._services.restoring:
            self.state = self.new_state(None)
        self._watching.begin()
        self.open_store_lookups()
        self.outlet.connect_listeners()
        self._attach()
        if self.activation_member is not None:
            self.activation_member.start(restoring=self._services.restoring)
        if self._services.restoring:
            return
        for matching in self._matchings.values() if context is None else ():
            matching.begun(self.state)
        for partition in () if context is None or self.steps.reads_store else context.partitions.values():
            self.opened(partition)

    def bind_tables(self) -> None:
        """Bind the tables that the generated code reads."""
        for program in (self.program, *self.program.subqueries):
            program.bind_tables(self._services.stores.__getitem__)
        self.subquery_inputs.bind()

    def _attach(self) -> None:
        self.subquery_inputs.listen()
        if self.stores:
            self.program.namespace["stored"] = self.posted_of
            for store in {id(store): store for store in self.stores.values()}.values():
                store.readers.append(self)
            for _, state in self.states() if self.fills else ():
                self.program.functions.prefill(state, self._services.clock.now)
                self.begin_output(state)
            self.program.namespace["stored"] = self.stored_of
        if self.steps.initial_rows is not None:
            store = self._services.stores[self.steps.initial_rows.store]
            now, functions = self._services.clock.now, self.program.functions
            for _, state in self.states():
                for item in store.stored(owner_state for _, owner_state in store.owner.states()):
                    row = functions.copied(state, item[-1], now)
                    if row is not None:
                        functions.on_event(row) if self.context is None else functions.on_event(row, state)

    def _states_in(self, partition: ContextPartition | None) -> list[Any]:
        if partition is not None:
            return [partition.states[self.program.slot]]
        return [state for _, state in self.states()]

    def stop(self) -> None:
        """Discard all state, timers and listeners. May be called again after an interruption."""
        self.timed.detach()
        self._watching.end()
        if self.activation_member is not None:
            self.activation_member.stop()
        if self.context is not None and self in self.context.statements:
            self.context.leave(self)
        for store in self.stores.values():
            if self in store.readers:
                store.readers.remove(self)
        self.lookups.release()
        self.subquery_inputs.release()
        self.state = None
        self.outlet.close()
        self.program.namespace["stopped"] = True

    def resumed(self) -> None:
        """Continue with a restored state."""
        if self.context is not None:
            self.program.slot = self.context.statements.index(self)
        self.outlet.set_holding(self._services.deliveries.holds)

    def new_state(self, partition: ContextPartition | None) -> Any:
        """Return a fresh state, for `partition` or for the whole statement."""
        state = self.program.functions.new_state(partition, self._services.clock.now)
        self.subquery_inputs.fill(state)
        if isinstance(state, StoreState) and self.owned is not None:
            self.owned.build_indexes(state)
        for matching in self._matchings.values():
            matching.add(state)
        return state

    def armed_timers(self, partition: ContextPartition) -> list[tuple[int, int]]:
        return self.timed.armed_timers(self.state_of(partition))

    def partition_restored(self, partition: ContextPartition, armed_timers: Iterable[tuple[int, int]]) -> None:
        state = self.state_of(partition)
        if self.owned is not None:
            self.owned.build_indexes(state)
        self.subquery_inputs.refill_from_stores(state)
        self.timed.resume(state, armed_timers)

    def opened(self, partition: ContextPartition) -> None:
        """Start in a new partition: deliver the row without from-clause, or process the contents of stores."""
        if self.steps.source.without_from:
            self.guarded(self.program.functions.on_event, {}, (partition,))
        elif self.stores and self.fills:
            self.fill_from_stores(partition)
            self.begin_output(self.state_of(partition))
        for matching in self._matchings.values():
            self.guarded(matching.begun_in_partition, None, (partition,))

    def iterated(self, now: int, wanted: Container[int | None] | None = None) -> list[tuple[int | None, list[Any]]]:
        """Return (partition id, the engine's own rows) of live partitions, or of those `wanted`, by id."""
        rows, states = self.program.functions.rows, self.states(wanted)
        if self.reads_only_tables:
            states = [(id_, self.program.functions.refreshed(state, now)) for id_, state in states]
        return [(id_, rows(state, now)) for id_, state in states]

    def add_listener(self, listener: Listener) -> None:
        """Call `listener(Delta)` for every delivery, synchronously."""
        self.outlet.add_listener(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Stop calling `listener`. Errors: ValueError if it was not added."""
        self.outlet.remove_listener(listener)

    def add_sink(self, sink: Sink) -> None:
        """Feed `sink` the records of every delivery."""
        self.outlet.add_sink(sink)

    def remove_sink(self, sink: Sink) -> None:
        """Stop feeding `sink`. Errors: ValueError if it was not added."""
        self.outlet.remove_sink(sink)

    def add_match_listener(self, listener: Callable[[Any], object]) -> None:
        """Call `listener(match)` with the events of each match of a pattern or match_recognize, or joined row."""
        if self._matchings or self.steps.recognize is not None or self.steps.join is not None:
            self._match_listeners.append(listener)
            self._tell_listeners()

    def remove_match_listener(self, listener: Callable[[Any], object]) -> None:
        """Stop calling `listener`."""
        if listener in self._match_listeners:
            self._match_listeners.remove(listener)
            self._tell_listeners()

    def _tell_listeners(self) -> None:
        for matching in self._matchings.values():
            matching.watch(tuple(self._match_listeners))
        for spec in (self.program.join, self.program.recognize):
            if spec is not None:
                spec.listeners[:] = self._match_listeners
        self._services.deliveries.rewired()

    @property
    def has_listeners(self) -> bool:
        """True if a listener must be called for each delivery or match as it happens."""
        return self.outlet.has_listeners or bool(self._match_listeners)

    @property
    def merges(self) -> bool:
        """True if one event may cause several deliveries: of partitions, matches, or contained events."""
        context = self.context
        if self.steps.row is None and self.steps.source.contained:
            return True
        if context is not None and (self.steps.reads_store or self.steps.owned_store is not None):
            return True
        if self.steps.reads_pattern or context is None:
            return self.steps.reads_pattern
        at_end = self.steps.output is not None or self.program.functions.dues is not None
        return context.delivers_repeatedly(self.steps.event_types, at_end)

    def _wire(self, ports: DeliveryPorts | None) -> None:
        """Connect the generated code to `ports`, which event functions have as default arguments."""
        namespace, state = self.program.namespace, self.state
        namespace["out"], namespace["push"] = (None, None) if ports is None else ports
        own: dict[str, Any] = {}
        if self.context is None and state is not None:
            own = {"S": state, "W": state.view, "A": state.cells, "groups": self.groups_in(state)}
        for name, parameters in self.program.bound.items():
            values = [own[key] if key in own else namespace.get(key) for key in parameters]
            namespace[name].__defaults__ = tuple(values)

    def end(self, partition: ContextPartition, now: int) -> None:
        try:
            sides = self.ended(partition.states[self.program.slot], now)
            push = self.outlet.push
            if sides is not None and push is not None:
                push(now, *sides)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)
        self.forget(partition)

    def settle(self) -> None:
        self.timed.settle()

    def forget(self, partition: ContextPartition) -> None:
        slot = self.program.slot
        for matching in self._matchings.values():
            matching.end(partition.states[slot])
        partition.states[slot] = None
        self.timed.end(partition.id)

    def ended(self, state: StatementState, now: int) -> tuple[Rows, Rows] | None:
        """Return the rows that the output clause delivers when `state`'s partition ends, or None."""
        if self.steps.output is None:
            return None
        sides: tuple[list[Any], list[Any]] = [], []
        forced = self.program.functions.ended(state, now, *sides)
        return self.timed.selected({partition_id(state): sides}, forced)

    def pulse(self) -> tuple[int, int]:
        """Return a value that changes when partial matches begin or end, cheaper than the matches themselves."""
        matchers: list[Any] = []
        if self._matchings:
            matchers = [matching.matcher(state) for _, state in self.states() for matching in self._matchings.values()]
        elif self.steps.recognize is not None:
            matchers = [state.view.then for _, state in self.states()]
        return sum(matcher.serial for matcher in matchers), sum(matcher.size for matcher in matchers)

    def inspect(self, now: int, partitions: Container[int | None] | None, partials: int) -> list[StateSummary]:
        """Return plain data about the states of `partitions`: retained events, groups, next timer, `partials`."""
        return [self.inspected(id_, state, now, partials) for id_, state in self.states(partitions)]

    def inspected(self, id_: int | None, state: Any, now: int, partials: int) -> StateSummary:
        """Return the same for the state of one partition."""
        self.program.functions.settle(state, now)
        due = min((due for _, due in self.timed.dues(state)), default=NEVER)
        summary: StateSummary = {
            "partition": id_,
            "retained": self.subquery_inputs.retained(state),
            "groups": None if state.groups is None else len(state.groups),
            "next_timer": due if due < NEVER else None,
        }
        if self._matchings:
            summary["partials"] = merge_partials([m.inspect(state, partials) for m in self._matchings.values()])
        elif self.steps.recognize is not None:
            summary["partials"] = state.view.then.inspect(partials)
        return summary

    def waiting_rows(self, state: StatementState) -> int:
        """Return the number of rows of a state that wait for the output clause."""
        return 0 if self.steps.output is None else self.program.functions.waiting(state)

    def guarded(self, take: Callable[[Any, Any], object], event: Any, partitions: Iterable[ContextPartition]) -> bool:
        slot, consumed = self.program.slot, False
        for partition in partitions:
            if partition.ended:  # ended by hand in a listener of an earlier statement
                continue
            try:
                if take(event, partition.states[slot]):
                    consumed = True
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                self.failed(failure)
                consumed = True
        return consumed

    def reading(self, type_name: str) -> EventReader | None:
        return self.subquery_inputs.reading(type_name, self._own_reading(type_name, alone=self.context is None))

    def _own_reading(self, type_name: str, *, alone: bool = False) -> EventReader | None:
        """Return the reader without subqueries. `alone`: there is one state, which the functions know."""
        read = self._type_read(type_name)
        if read is None or self.steps.emit.changes:
            return None  # updates of events precede all dispatch
        late = self.steps.dispatched_last
        drops = self.timed.drops
        condition = self.condition(type_name)
        if self.activation_member is not None:
            take = self.activation_member.taker(self._types(type_name))
        elif self.steps.inputs:
            take = join_handler(self.steps, self.program, self._matchings, self._arrivals, self._types(type_name))
        elif not self._matchings:
            on_event, on_match = self.program.functions.on_event, self.program.functions.on_match
            if condition is not self.steps.source.filter:  # the index does not test all of it
                on_match = on_event
            if alone:
                on_event, on_match = ignore_state(on_event), ignore_state(on_match)
            return EventReader(on_event, on_match, condition, drops, read, late)
        else:
            take = self._matchings[0].taker(self._types(type_name), self.state)
            if take is not None and self.context is None:
                take = ignore_state(take)
        return None if take is None else EventReader(take, take, condition, drops, read, late)

    def subscribers(self, type_name: str) -> list[Subscription]:
        """Return the subscriptions to events of a type, for a statement without context."""
        alone = not self.subquery_inputs.reads(type_name)
        reading = self._own_reading(type_name) if alone else self.reading(type_name)
        if reading is None:
            return []
        checked, matched, condition, drops, read, late = reading
        order = before_peers(self.order) if drops else self.order
        if self.steps.inputs or self._matchings or not alone or self.activation_member is not None:
            checked, matched = _in_state(checked, self.state), _in_state(matched, self.state)
        return [Subscription(order, condition, checked, matched, drops, read, late=late)]

    def condition(self, type_name: str) -> BoundExpr | None:
        """Return the condition that events of a type must meet to concern the statement, for the filter index."""
        if self.program.pattern is not None:
            return self.program.pattern.condition(self._types(type_name))
        if self.steps.inputs:
            own = [scan.source for scan in self.steps.scans if self._takes(scan.source, type_name)]
            return indexable_filter(own[0].filter) if len(own) == 1 and own[0].pattern is None else None
        condition = self.steps.source.filter
        return indexable_filter(condition) if self.program.subqueries else condition

    @cached_property
    def leading(self) -> tuple[IndexCondition, ...]:
        """Conditions tested before the rest of the filter, so that columns may evaluate them."""
        return leading_conditions(conjuncts(self.steps.source.filter))

    @cached_property
    def vectorized(self) -> Any:
        """Runs batches of the statement over arrays; None if it has no form."""
        form = self.program.kernel_form()
        if isinstance(form, str):
            return None
        from cepbook.engine.vectorized.vectorized_statement import runner

        return runner(form)

    @property
    def pattern_alone(self) -> StatementPattern | None:
        """The pattern of a statement that reads nothing else, and that is not in a context; None for others."""
        alone = self.program.pattern is not None and self.context is None and not self.program.subqueries
        return self._matchings[0] if alone and self.activation_member is None else None

    @cached_property
    def leading_covers_filter(self) -> bool:
        """True if these conditions are the whole filter."""
        return all(map(index_conditions, conjuncts(self.steps.source.filter)))

    def ways(self, type_name: str) -> list[tuple[IndexCondition, ...]]:
        """Leading conditions of each input that reads a type; relevant events meet one. Empty if not all known."""
        sources = [s for s in self.program.sources if s.store is None and self._takes(s, type_name)]
        filters = [source.filter for source in sources if source.pattern is None and not source.contained]
        return [leading_conditions(conjuncts(e)) for e in filters] if len(filters) == len(sources) else []

    def groups(self, type_name: str) -> tuple[AtomGroup, ...] | None:
        """Return the pattern atoms that may take events of a type, or None if the type is read elsewhere, too."""
        if self.program.pattern is None or self.subquery_inputs.reads(type_name):
            return None
        return self.program.pattern.route(self._types(type_name))

    def _types(self, type_name: str) -> tuple[str, ...]:
        event_type = self._services.catalog.event_types.get(type_name)
        return (type_name, *(() if event_type is None else event_type.supertypes))

    @property
    def correlation(self) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] | None:
        return self.program.correlation

    def reads(self, type_name: str) -> bool:
        """Return True if events of `type_name` concern the statement or one of its subqueries."""
        return self._type_read(type_name) is not None or self.subquery_inputs.reads(type_name)

    def updates(self, type_name: str) -> bool:
        """Return True if the statement changes events of `type_name` before others see them (`update istream`)."""
        return bool(self.steps.emit.changes) and self._type_read(type_name) is not None

    def _type_read(self, type_name: str) -> str | None:
        """Return the type of the from-clause that events of `type_name` belong to. Rows of stores are not events."""
        if self.steps.owned_store is not None:
            return None
        if self._event_types[:1] == (type_name,):
            return type_name
        is_a = self._services.catalog.is_a
        return next((read for read in self._event_types if is_a(type_name, read)), None)

    @cached_property
    def _event_types(self) -> tuple[str, ...]:
        return self.steps.event_types

    def _takes(self, source: p.SourceNode, type_name: str) -> bool:
        return any(self._services.catalog.is_a(type_name, read) for read in source.event_types)

    def _match(self, match: Any, state: StatementState) -> None:
        take = self.program.functions.on_event
        if self.context is None:
            take(match)
        else:
            take(match, state)

    def _crowded(self, number: int) -> None:
        limit, pattern = self._services.config.pattern_limit, self.steps.scans[number].source.pattern
        fact = f"the pattern of statement `{self.name}` has {limit:,} open partial matches, further ones are dropped"
        hint = "end them (where timer:within, and not), or raise Config.pattern_limit"
        if pattern is not None:
            text = Diagnostic("pattern-limit", fact, pattern.span, hint).render(self.source)
            self._services.report(StatementError(self.name, text, pattern.span, OverflowError(fact)))

    def failed(self, failure: Exception) -> None:
        """Report a run-time failure at its EPL text, and arm timers that it kept from being armed."""
        self.timed.mend(self._shaken_by(failure))
        self._services.report(self.error(failure))

    def _shaken_by(self, failure: Exception) -> list[Any]:
        """Return the states that a failure may have left inconsistent, unless they are too many to be mended."""
        if self.context is None:
            return [] if self.state is None else [self.state]
        trace, raised_in = failure.__traceback__, None
        while trace is not None:
            if trace.tb_frame.f_globals is self.program.namespace:
                raised_in = trace.tb_frame.f_locals.get("S", raised_in)
            trace = trace.tb_next
        if raised_in is None:
            return [state for _, state in self.states()] if len(self.context.partitions) <= _FEW else []
        # This may be the state of one input of a join, or one that could not begin.
        partition = raised_in.partition
        return [] if partition is None or partition.ended else partition.states[self.program.slot :][:1]

    def caused(self, failure: Exception) -> bool:
        own = [program.namespace for program in (self.program, *self.program.subqueries)]
        return any(raised_in is namespace for raised_in in traceback_namespaces(failure) for namespace in own)

    def error(self, failure: Exception) -> StatementError:
        programs = self.program, *self.program.subqueries
        return statement_error(failure, self.name, programs, self.source, query=self.kind == "query")


def _in_state(take: Callable[[Any, Any], object], state: StatementState) -> EventHandler:
    return without_state(take) or (lambda event: take(event, state))
