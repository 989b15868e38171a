"""Inputs of a statement's subqueries: events, and rows of stores.

A subquery in a filter does not see the event under test. Any other subquery sees the event before the statement does
(recorded: own_stream_in_filter, self_subselect_order), unless `Config.self_subselect_preeval` is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.relations.store import Item, Store, StoreObserver
from cepbook.engine.relations.store_lookups import StoreLookups
from cepbook.engine.relations.table import Table
from cepbook.engine.services import EngineServices
from cepbook.engine.statements.store_access import StoreAccess
from cepbook.engine.subscriptions.filter_index import EventReader
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan import traversal

TakeEvent = Callable[[Any, Any], object]  # (event, state of the statement)
_PARTITION_BITS = 64  # bits; no partition has that many rows


class StoreSubquery(StoreObserver):
    """A subquery over a store, in all states of its statement; partitioned if the store has the same context."""

    def __init__(self, statement: StoreAccess, store: Store, number: int, program: StatementProgram) -> None:
        self.store = store
        self._statement = statement
        self._number = number
        self._program = program
        self._followed: Table | None = None
        lookup = program.steps.lookup
        # A lookup keeps no rows. A table does not report changes: it is followed, or read again as a whole.
        self._notified = store.type.kind == "window" and not (lookup is not None and lookup.shared)
        reader = f"{statement.name}.{number}"
        program.namespace["store_rows"] = self.store_rows
        if lookup is not None and lookup.follows:
            assert isinstance(store, Table)
            since, follow = partial(store.since, reader), partial(store.follow, reader)
            program.namespace.update(since=since, follow=follow, items=partial(store.items, None))
            self._followed, self._reader = store, reader
        self.reads = StoreLookups(program.namespace, program.index_requests, reader, {0: store})

    def release(self) -> None:
        """Stop reading the store."""
        if self._followed is not None:
            self._followed.unfollow(self._reader)

    @property
    def _partitioned(self) -> bool:
        context = self._statement.context
        return context is not None and self.store.type.context == context.name

    def look(self, partition: Any, entered: Sequence[Item], left: Sequence[Item]) -> None:
        if not self._notified:
            return
        divided = self._partitioned
        for _, state in self._statement.states():
            if state is not None and (not divided or state.partition is partition):
                try:
                    self._change(state, partition, entered, left)
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    self._statement.failed(failure)

    def _change(self, state: StatementState, partition: Any, entered: Sequence[Item], left: Sequence[Item]) -> None:
        base = self._base(partition)
        self._program.functions.on_change(state.subqueries[self._number], entered, left, base, self._statement.now)

    def _base(self, partition: Any) -> int:
        """Return the offset of row numbers in a partition, so that rows of different partitions differ."""
        return 0 if partition is None or self._partitioned else int(partition.id) << _PARTITION_BITS

    def store_rows(self, state: StatementState) -> list[tuple[int, list[Item]]]:
        """Return (row number offset, rows) of the store's states that concern a state of the statement."""
        states = [owner_state for _, owner_state in self.store.owner.states() if owner_state is not None]
        if self._partitioned:
            states = [owner_state for owner_state in states if owner_state.partition is state.partition]
        return [(self._base(owner_state.partition), self.store.posted([owner_state])) for owner_state in states]

    def fill(self, state: StatementState) -> None:
        """Fill a state with the contents of the store."""
        for base, rows in self.store_rows(state) if self._notified else ():
            self._program.functions.on_change(state.subqueries[self._number], rows, (), base, self._statement.now)

    def refill_from_stores(self, state: StatementState) -> None:
        """Refill a restored state from stores that are not in its context."""
        if self._notified and not self._partitioned:
            state.subqueries[self._number] = self._program.functions.new_state(state.partition, self._statement.now)
            self.fill(state)


class SubqueryInputs:
    """The subqueries of a statement. `failed` reports their failures. `ahead`: they see events before the statement."""

    def __init__(
        self,
        plan: p.StatementPlan,
        programs: Sequence[StatementProgram],
        host: EngineServices,
        failed: Callable[[Exception], None],
        *,
        ahead: bool,
    ) -> None:
        self._programs = programs
        for program in programs:
            program.namespace.update(failed=failed)
        self.bind()
        self._lookers: list[StoreSubquery] = []
        self._failed = failed
        self._host = host
        filters = _in_filters(plan)
        self._early: list[tuple[int, StatementProgram]] = []
        self._late: list[tuple[int, StatementProgram]] = []
        for number, program in enumerate(programs):
            subqueries = self._early if ahead and number not in filters else self._late
            subqueries.append((number, program))

    def bind(self) -> None:
        """Rebind the functions of the subqueries to the values in their namespaces."""
        for program in self._programs:
            program.bind()

    def find(self, stores: Mapping[str, Store], statement: StoreAccess) -> None:
        """Find the stores that subqueries of `statement` read."""
        self._lookers = [
            StoreSubquery(statement, stores[program.steps.source.store.name], number, program)
            for number, program in (*self._early, *self._late)
            if program.steps.source.store is not None
        ]

    def listen(self) -> None:
        """Start to observe the stores."""
        for looker in self._lookers:
            looker.store.observers.append(looker)
            looker.reads.attach()

    def release(self) -> None:
        """Stop observing the stores."""
        for looker in self._lookers:
            looker.release()
            if looker in looker.store.observers:
                looker.store.observers.remove(looker)
            looker.reads.release()

    def fill(self, state: StatementState) -> None:
        """Fill a state of the statement from the stores."""
        for looker in self._lookers:
            looker.fill(state)

    def refill_from_stores(self, state: StatementState) -> None:
        """Refill a restored state of the statement."""
        for looker in self._lookers:
            looker.refill_from_stores(state)

    def retained(self, state: StatementState) -> int:
        """Return the number of events in a state of the statement, including subqueries."""
        return sum(self.retained_by_source(state))

    def retained_by_source(self, state: StatementState) -> list[int]:
        """Return the number of events that a state of the statement retains itself, and that of each subquery."""
        return [state.view.retained(), *(own.view.retained() for own in (state.subqueries if self._programs else ()))]

    def reads(self, type_name: str) -> bool:
        """Return True if a subquery reads events of the type."""
        return bool(self._for(type_name, self._early) or self._for(type_name, self._late))

    def _for(self, type_name: str, among: Iterable[tuple[int, StatementProgram]]) -> list[tuple[int, StatementProgram]]:
        is_a = self._host.catalog.is_a  # not kept, because a deployment replaces the catalog
        return [(n, inner) for n, inner in among if any(is_a(type_name, read) for read in inner.steps.event_types)]

    def reading(self, type_name: str, main: EventReader | None) -> EventReader | None:
        """Combine the reader of the statement itself, `main`, with those of its subqueries."""
        early, late = self._for(type_name, self._early), self._for(type_name, self._late)
        if not early and not late:
            return main
        programs = [*early, *late]
        if main is None and len(programs) == 1:
            ((number, only),) = programs
            functions = only.functions
            checked, matched = (self._taker([(number, take)]) for take in (functions.on_event, functions.on_match))
            source = only.steps.source
            return EventReader(checked, matched, source.filter, False, source.event_type, True)
        before, after = (
            [(number, program.functions.on_event) for number, program in subqueries] for subqueries in (early, late)
        )
        take = self._taker(before, None if main is None else main.checked, after)
        if main is None:
            return EventReader(take, take, None, False, programs[0][1].steps.source.event_type, True)
        return EventReader(take, take, None, main.drops, main.type, True)

    def _taker(
        self,
        before: Sequence[tuple[int, TakeEvent]],
        main: TakeEvent | None = None,
        after: Sequence[tuple[int, TakeEvent]] = (),
    ) -> TakeEvent:
        """Return a function that passes an event to subqueries, to `main` and to further subqueries. A failure of a
        subquery is reported and stops nothing.
        """
        failed = self._failed

        def take_before(event: Any, state: StatementState) -> object:
            for number, take_inner in before:
                try:
                    take_inner(event, state.subqueries[number])
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    failed(failure)
            return main is not None and main(event, state)

        if not after:
            return take_before
        take_after = self._taker(after)

        def take(event: Any, state: StatementState) -> object:
            try:
                return take_before(event, state)
            finally:
                take_after(event, state)

        return take


def _in_filters(plan: p.StatementPlan) -> set[int]:
    """Return the numbers of the subqueries in filters of streams and patterns."""
    nodes = traversal.walk(plan) if plan.subqueries else ()
    filters = [getattr(node, "filter", None) for node in nodes if not isinstance(node, p.AggregateCall)]
    return {reference.index for reference in x.find(x.SubqueryRef, *filters)}


def indexable_filter(condition: x.BoundExpr | None) -> x.BoundExpr | None:
    """Return the part of a filter that the index may test: everything without subqueries."""
    conjuncts = x.conjuncts(condition)
    testable = [e for e in conjuncts if not any(x.find(x.SubqueryRef, e))]
    if condition is None or len(testable) == len(conjuncts):
        return condition
    return x.conjunction(testable)


def ignore_state(take: Callable[..., object]) -> TakeEvent:
    """Return a function of one state in the form `take(event, state)`; `without_state` undoes this."""

    def taking(event: Any, _: Any) -> object:
        return take(event)

    return wraps(take)(taking)


def without_state(take: TakeEvent) -> Callable[[Any], object] | None:
    """Return the wrapped function of one state, or None if `take` needs the state."""
    wrapped: Callable[[Any], object] | None = getattr(take, "__wrapped__", None)
    return wrapped
