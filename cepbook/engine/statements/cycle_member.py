"""The activation member of a query that is run in cycles (`cepbook.engine.cycles`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.cycles.cycle import CycleSpec, CycleState
from cepbook.engine.cycles.semijoin import input_semijoins, subquery_semijoin
from cepbook.engine.cycles.stage import StageSpec
from cepbook.engine.cycles.stage_windows import StageRow
from cepbook.engine.relations.store import Store, replace_contents
from cepbook.engine.relations.store_lookups import NO_LOOKUPS, StoreLookups
from cepbook.engine.statements.statement_timers import StatementTimers
from cepbook.engine.statements.store_access import StoreAccess
from cepbook.engine.time.activations import ActivationMember, ActivationScheduler
from cepbook.engine.time.clock import NEVER
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.catalog import StoreType
from cepbook.lang.plan.cycles import DEAD, NEW, STATUS, STAYING
from cepbook.lang.plan.nodes import CycleStatement
from cepbook.lang.plan.relational import SourceNode


class EmptyStore:
    """A relation as subqueries see it when they start: empty, since each cycle restarts them with its rows."""

    def __init__(self, type_: StoreType) -> None:
        self.type = type_
        self.observers: list[Any] = []
        self.owner = self

    def states(self) -> list[tuple[int | None, Any]]:
        return []

    def stored(self, states: Iterable[Any]) -> list[StageRow]:
        return []


class CycleMember(ActivationMember):
    """Admits events, decides when a cycle runs, and evaluates the select."""

    PASSING = ("_input_rows",)

    def __init__(
        self,
        owner: StoreAccess,
        plan: CycleStatement,
        program: StatementProgram,
        timers: StatementTimers,
        activations: ActivationScheduler,
    ) -> None:
        super().__init__(owner, timers, timers.arm_view, activations)
        self._outlet = owner.outlet
        self._plan = plan
        self._program = program
        self._stores: Mapping[str, Store] = {}
        self._lookups = NO_LOOKUPS
        assert program.select is not None and program.cycles is not None
        self._select = program.select
        self._functions = program.cycles
        stages = tuple(
            tuple(StageSpec(s, plan.fills, program.cycles.aggregates, owner.failed) for s in partition.stages)
            for partition in plan.partitions
        )
        self._form = CycleSpec(plan, stages, program.cycles.conditions, owner.failed)
        self._relations = {partition.store.name: number for number, partition in enumerate(plan.partitions)}
        self._inputs = [self._input(scan.source) for scan in self._select.steps.scans]
        large = {n for n, read in enumerate(self._inputs) if read is not None and STAYING in read[1]}
        small = {n for n, read in enumerate(self._inputs) if read is not None and STAYING not in read[1]}
        self._semijoins = input_semijoins(self._select.steps, small, large)
        self._again = [
            (number, inner, *reads, subquery_semijoin(number, inner.steps, self._select.steps))
            for number, inner in enumerate(program.subqueries)
            if inner.steps.source.store is not None and (reads := self._input(inner.steps.source)) is not None
        ]
        self._order = [*small, *self._semijoins, *(large - self._semijoins.keys())]
        self._input_rows: dict[int, Sequence[Any]] = {}  # rows of the select's inputs during its evaluation
        program.namespace["selected"] = self.selected
        self._select.namespace.update(stored=self._stored, failed=owner.failed, out=None, push=None, slot=0)
        self._select.bind()

    def find(self, stores: Mapping[str, Store]) -> dict[str, Any]:
        """Connect the select with `stores`; return them and the relations, for subqueries."""
        self._stores = stores
        wants, sources = self._select.index_requests, enumerate(scan.source.store for scan in self._select.steps.scans)
        read = {number: stores[store.name] for number, store in sources if store is not None and store.name in stores}
        self._lookups = StoreLookups(self._select.namespace, wants, self._plan.name, read)
        return {**stores, **{store.store.name: EmptyStore(store.store) for store in self._plan.partitions}}

    def start(self, *, restoring: bool) -> None:
        """Start timers, and fill tables with their declared rows, unless their state is restored."""
        for name, columns, rows in () if restoring else self._plan.tables:
            replace_contents(
                self._stores[name], [dict(zip(columns, row, strict=True)) for row in rows], self._owner.now
            )
        self._lookups.attach()
        if not restoring:
            self.rest(self._owner.now)

    def stop(self) -> None:
        self._lookups.release()

    def taker(self, types: Sequence[str]) -> Callable[[Any, Any], object] | None:
        """Return a function that takes an event of `types`; None if no partition reads them."""
        plan, clock = self._plan, self._owner
        takes = [
            (number, self._functions.takes[number], partition.weight, partition.time)
            for number, partition in enumerate(plan.partitions)
            if partition.source.event_type in types
        ]
        if not takes:
            return None

        def take(event: Any, state: Any) -> bool:
            cycles: CycleState = state.view
            taken, now = False, clock.now
            for number, values_of, weight, column in takes:
                values = values_of(event, state)
                if values is not None:
                    time = now if column is None else event.get(column)
                    cycles.admit(number, now if time is None else time, values, weight)
                    taken = True
            if taken and cycles.weight >= 1.0 and cycles.next >= NEVER:
                self._activations.wake(self)
            return taken

        return take

    def activate(self, now: int) -> None:
        """Run cycles while there is a cause."""
        state = self._owner.state
        cycles: CycleState = state.view
        try:
            while cycles.caused(now):
                cycles.cycle(now, self._form, state)
                self._deliver(state, now)
        finally:
            self.rest(now)

    def _deliver(self, state: Any, now: int) -> None:
        """Deliver the rows of the select. If it fails, the cycle has been run all the same."""
        try:
            rows, push = self.selected(state, now), self._outlet.push
            if rows and push is not None:
                push(now, rows, None)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)

    def selected(self, state: Any, now: int) -> list[Any]:
        """Return the rows of the select over the present relations."""
        program = self._select
        steps = program.steps
        inputs = self._input_rows = {}
        for number in self._order:
            inputs[number] = self._read(state, number)
            if not inputs[number] and steps.kind != "fully_aggregated":
                return []
        for number, subquery, relation, statuses, narrowing in self._again:
            cycles: CycleState = state.view
            inner = cycles.relations[relation]
            if narrowing is None or narrowing.other not in inputs:
                rows = inner.read(statuses)
            else:
                rows = inner.among(narrowing.column, narrowing.keys(inputs[narrowing.other]), statuses)
            state.subqueries[number] = subquery.functions.new_state(None, now)
            subquery.functions.on_change(state.subqueries[number], rows, (), 0, now)
        if self._program.subqueries:
            state_of_select = program.functions.new_state(None, now, state.subqueries)
        else:
            state_of_select = program.functions.new_state(None, now)
        if steps.join is not None or steps.aggregate is not None:
            program.functions.prefill(state_of_select, now)
        selected: list[Any] = program.functions.rows(state_of_select, now)
        self._input_rows = {}
        return selected

    def _read(self, state: Any, number: int) -> Sequence[StageRow]:
        """Return the rows of an input: of a partition, or of the correlator."""
        cycles: CycleState = state.view
        input_ = self._inputs[number]
        assert input_ is not None
        relation, statuses = input_
        if relation < 0:
            return cycles.fired
        narrowing = self._semijoins.get(number)
        if narrowing is None:
            return cycles.relations[relation].read(statuses)
        return cycles.relations[relation].among(
            narrowing.column, narrowing.keys(self._input_rows[narrowing.other]), statuses
        )

    def _stored(self, _: Any, number: int = 0) -> Sequence[Any]:
        if number in self._input_rows:
            return self._input_rows[number]
        source = self._select.steps.scans[number].source
        assert source.store is not None
        store = self._stores[source.store.name]
        return store.stored(store_state for _, store_state in store.owner.states())

    def _input(self, source: SourceNode) -> tuple[int, frozenset[int]] | None:
        """Return the relation that is read and the statuses of its rows; -1 is the correlator, None another store."""
        assert source.store is not None
        number = self._relations.get(source.store.name)
        if number is not None:
            return number, possible_statuses(source.filter)
        correlation = self._plan.correlation
        if correlation is not None and correlation.store.name == source.store.name:
            return -1, frozenset((NEW,))
        return None


def possible_statuses(condition: x.BoundExpr | None) -> frozenset[int]:
    """Return the statuses of rows that may pass a condition."""
    left = frozenset((STAYING, NEW, DEAD))
    for conjunct in x.conjuncts(condition):
        if isinstance(conjunct, x.ComparisonExpr) and conjunct.left.property_name == STATUS:
            one = {conjunct.right.constant}
            left = left & one if conjunct.op == "=" else left - one
    return left
