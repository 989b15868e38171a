"""How a query that is run in cycles takes part in activations (`engine.activation`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.cycles.cycle import CycleSpec, CycleState
from cepbook.engine.cycles.semijoin import input_semijoins, subquery_semijoin
from cepbook.engine.cycles.stage import StageSpec
from cepbook.engine.cycles.stage_windows import StageRow
from cepbook.engine.expressions.to_python import FIRST_SUBQUERY_SLOT
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
    """A relation as subqueries find it: each cycle begins their states anew with what it holds then."""

    def __init__(self, type_: StoreType) -> None:
        self.type = type_
        self.observers: list[Any] = []
        self.owner = self

    def states(self) -> list[tuple[int | None, Any]]:
        """It holds nothing for them between two cycles."""
        return []

    def stored(self, states: Iterable[Any]) -> list[StageRow]:
        """The same."""
        return []


class CycleMember(ActivationMember):
    """What comes in for a query, when it is run, and what its select reads."""

    PASSING = ("_found",)

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
        self._looks = NO_LOOKUPS
        assert program.select is not None
        self._select = program.select
        functions = program.namespace["aggregating"]
        stages = tuple(
            tuple(StageSpec(s, plan.fills, functions, owner.failed) for s in each.stages) for each in plan.partitions
        )
        conditions = tuple(
            tuple(program.namespace.get(f"where{number}_{place}") for place in range(len(each.stages)))
            for number, each in enumerate(plan.partitions)
        )
        self._form = CycleSpec(plan, stages, conditions, owner.failed)
        self._relations = {each.store.name: number for number, each in enumerate(plan.partitions)}
        self._inputs = [self._input(scan.source) for scan in self._select.steps.scans]
        large = {n for n, each in enumerate(self._inputs) if each is not None and STAYING in each[1]}
        small = {n for n, each in enumerate(self._inputs) if each is not None and STAYING not in each[1]}
        self._narrowed = input_semijoins(self._select.steps, small, large)
        self._again = [
            (FIRST_SUBQUERY_SLOT + number, each, *found, subquery_semijoin(number, each.steps, self._select.steps))
            for number, each in enumerate(program.subqueries)
            if each.steps.source.store is not None and (found := self._input(each.steps.source)) is not None
        ]
        self._order = [*small, *self._narrowed, *(large - self._narrowed.keys())]
        self._found: dict[int, Sequence[Any]] = {}  # the rows of inputs of the select, while it is evaluated
        program.namespace["selected"] = self.selected
        self._select.namespace.update(stored=self._stored, failed=owner.failed, out=None, push=None, slot=0)
        self._select.bind()

    # -------------------------------------------------------------- life
    def find(self, stores: Mapping[str, Store]) -> dict[str, Any]:
        """The select may read the named windows and tables `stores`; these and the relations, for subqueries."""
        self._stores = stores
        wants, sources = self._select.wants, enumerate(scan.source.store for scan in self._select.steps.scans)
        read = {number: stores[each.name] for number, each in sources if each is not None and each.name in stores}
        self._looks = StoreLookups(self._select.namespace, wants, self._plan.name, read)
        return {**stores, **{each.store.name: EmptyStore(each.store) for each in self._plan.partitions}}

    def start(self) -> None:
        """From now on the clock makes it run; tables have the rows that were given with it."""
        for name, columns, rows in self._plan.tables:
            replace_contents(
                self._stores[name], [dict(zip(columns, row, strict=True)) for row in rows], self._owner.now
            )
        self._looks.attach()
        self.rest(self._owner.now)

    def stop(self) -> None:
        """It takes nothing more."""
        self._looks.part()

    # -------------------------------------------------------------- what comes in
    def taker(self, types: Sequence[str]) -> Callable[[Any, Any], object] | None:
        """What takes an event that is of all `types`; None if no partition reads it."""
        plan, clock = self._plan, self._owner
        takes = [
            (number, self._program[f"take{number}"], each.weight, each.time)
            for number, each in enumerate(plan.partitions)
            if each.source.event_type in types
        ]
        if not takes:
            return None

        def take(event: Any, state: Any) -> bool:
            held: CycleState = state[1]
            taken, now = False, clock.now
            for number, values_of, weight, column in takes:
                values = values_of(event, state)
                if values is not None:
                    time = now if column is None else event.get(column)
                    held.admit(number, now if time is None else time, values, weight)
                    taken = True
            if taken and held.weight >= 1.0 and held.next >= NEVER:
                self._activations.wake(self)
            return taken

        return take

    # -------------------------------------------------------------- cycles
    def activate(self, now: int) -> None:
        """Run cycles as long as there is a cause."""
        state = self._owner.state
        held: CycleState = state[1]
        try:
            while held.caused(now):
                held.cycle(now, self._form, state)
                self._deliver(state, now)
        finally:
            self.rest(now)

    def _deliver(self, state: Any, now: int) -> None:
        """One lot: the rows of the select; if it fails the cycle has been run all the same."""
        try:
            rows, push = self.selected(state, now), self._outlet.push
            if rows and push is not None:
                push(now, rows, None)
        except Exception as failure:  # noqa: BLE001 - reported to the error feed
            self.failed(failure)

    # -------------------------------------------------------------- what the select reads
    def selected(self, state: Any, now: int) -> list[Any]:
        """The rows of the select over the relations as they are."""
        program = self._select
        steps = program.steps
        found = self._found = {}
        for number in self._order:
            found[number] = self._read(state, number)
            if not found[number] and steps.kind != "fully_aggregated":
                return []
        for place, each, relation, wanted, narrowing in self._again:
            held: CycleState = state[1]
            inner = held.relations[relation]
            if narrowing is None or narrowing.other not in found:
                rows = inner.read(wanted)
            else:
                rows = inner.among(narrowing.column, narrowing.keys(found[narrowing.other]), wanted)
            state[place] = each["new_state"](None, now)
            each["on_change"](state[place], rows, (), 0, now)
        if self._program.subqueries:
            made = program["new_state"](None, now, tuple(state[FIRST_SUBQUERY_SLOT:]))
        else:
            made = program["new_state"](None, now)
        if steps.join is not None or steps.aggregate is not None:
            program["prefill"](made, now)
        rows_found: list[Any] = program["rows"](made, now)
        self._found = {}
        return rows_found

    def _read(self, state: Any, number: int) -> Sequence[StageRow]:
        """The rows of an input: of a partition, or of what was correlated."""
        held: CycleState = state[1]
        each = self._inputs[number]
        assert each is not None
        relation, wanted = each
        if relation < 0:
            return held.fired
        narrowing = self._narrowed.get(number)
        if narrowing is None:
            return held.relations[relation].read(wanted)
        return held.relations[relation].among(narrowing.column, narrowing.keys(self._found[narrowing.other]), wanted)

    def _stored(self, _: Any, number: int = 0) -> Sequence[Any]:
        """The rows of an input of the select: called by its program."""
        if number in self._found:
            return self._found[number]
        source = self._select.steps.scans[number].source
        assert source.store is not None
        store = self._stores[source.store.name]
        return store.stored(held for _, held in store.owner.states())

    def _input(self, source: SourceNode) -> tuple[int, frozenset[int]] | None:
        """Which relation is read, and the statuses of its rows; -1 is what was correlated. None: another store."""
        assert source.store is not None
        number = self._relations.get(source.store.name)
        if number is not None:
            return number, possible_statuses(source.filter)
        correlation = self._plan.correlation
        if correlation is not None and correlation.store.name == source.store.name:
            return -1, frozenset((NEW,))
        return None


def possible_statuses(condition: x.BoundExpr | None) -> frozenset[int]:
    """The statuses that rows may have which pass a condition."""
    left = frozenset((STAYING, NEW, DEAD))
    for part in x.conjuncts(condition):
        if isinstance(part, x.ComparisonExpr) and isinstance(part.left, x.Prop) and part.left.name == STATUS:
            assert isinstance(part.right, x.Const)
            one = {part.right.value}
            left = left & one if part.op == "=" else left - one
    return left
