"""The events of a statement's subqueries: which of these are for a type, and when each takes one; rows of stores.

A subquery in a filter does not see the event under test, any other sees it before the statement does (recorded:
own_stream_in_filter, self_subselect_order), unless ``Config.self_subselect_preeval`` is off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial, wraps
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.expressions.to_python import FIRST_SUBQUERY_SLOT
from cepbook.engine.relations.store import Item, Store, StoreObserver
from cepbook.engine.relations.store_lookups import StoreLookups
from cepbook.engine.relations.table import Table
from cepbook.engine.services import EngineServices
from cepbook.engine.statements.store_access import StoreAccess
from cepbook.engine.subscriptions.filter_index import EventReader
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p
from cepbook.lang.plan import traversal
from cepbook.lang.types import BOOLEAN

TakeEvent = Callable[[Any, Any], object]  # (event, state of the statement)
_FAR = 64  # bits: no partition has as many rows


class StoreSubquery(StoreObserver):
    """A subquery over a store, in all states of its statement: in each partition of one context its own rows."""

    def __init__(self, statement: StoreAccess, store: Store, place: int, program: StatementProgram) -> None:
        self.store = store
        self._statement = statement
        self._place = place
        self._program = program
        self._followed: Table | None = None
        lookup = program.steps.lookup
        # one that looks into the store keeps nothing; a table tells nobody: it is followed, or all is read anew
        self._told = store.type.kind == "window" and not (lookup is not None and lookup.shared)
        reader = f"{statement.name}.{place}"
        program.namespace["held"] = self.held
        if lookup is not None and lookup.follows:
            assert isinstance(store, Table)
            since, follow = partial(store.since, reader), partial(store.follow, reader)
            program.namespace.update(since=since, follow=follow, items=partial(store.items, None))
            self._followed, self._reader = store, reader
        self.reads = StoreLookups(program.namespace, program.wants, reader, {0: store})

    def part(self) -> None:
        """It reads nothing any more."""
        if self._followed is not None:
            self._followed.unfollow(self._reader)

    @property
    def _divided(self) -> bool:
        context = self._statement.context
        return context is not None and self.store.type.context == context.name

    def look(self, partition: Any, entered: Sequence[Item], left: Sequence[Item]) -> None:
        """What entered and left in a context partition of the store's owner."""
        if not self._told:
            return
        divided = self._divided
        for _, state in self._statement.states():
            if state is not None and (not divided or state[0] is partition):
                try:
                    self._change(state, partition, entered, left)
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    self._statement.failed(failure)

    def _change(self, state: Any, partition: Any, entered: Sequence[Item], left: Sequence[Item]) -> None:
        base = self._base(partition)
        self._program["on_change"](state[self._place], entered, left, base, self._statement.now)

    def _base(self, partition: Any) -> int:
        """What is added to the numbers of rows, so that those of different partitions differ."""
        return 0 if partition is None or self._divided else int(partition.id) << _FAR

    def held(self, state: Any) -> list[tuple[int, list[Item]]]:
        """What the store holds for a state: (what tells its partition apart, rows)."""
        states = [held for _, held in self.store.owner.states() if held is not None]
        if self._divided:
            states = [held for held in states if held[0] is state[0]]
        return [(self._base(held[0]), self.store.stored([held])) for held in states]

    def fill(self, state: Any) -> None:
        """Begin with what the store holds."""
        for base, rows in self.held(state) if self._told else ():
            self._program["on_change"](state[self._place], rows, (), base, self._statement.now)

    def refill_from_stores(self, state: Any) -> None:
        """The state comes from elsewhere: of stores that are not of its context it has what these hold here."""
        if self._told and not self._divided:
            state[self._place] = self._program["new_state"](state[0], self._statement.now)
            self.fill(state)


class SubqueryInputs:
    """The subqueries of a statement that read events. `failed` is told of their failures."""

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
        for each in programs:
            each.namespace.update(failed=failed)
        self.bind()
        self._lookers: list[StoreSubquery] = []
        self._places = range(FIRST_SUBQUERY_SLOT, FIRST_SUBQUERY_SLOT + len(programs))
        self._failed = failed
        self._host = host
        filters = _in_filters(plan)
        self._early: list[tuple[int, StatementProgram]] = []
        self._late: list[tuple[int, StatementProgram]] = []
        for number, each in enumerate(programs):
            found = self._early if ahead and number not in filters else self._late
            found.append((FIRST_SUBQUERY_SLOT + number, each))

    def bind(self) -> None:
        """Functions of the subqueries read what is in their namespaces by now."""
        for each in self._programs:
            each.bind()

    # -------------------------------------------------------------- named windows and tables
    def find(self, stores: Mapping[str, Store], statement: StoreAccess) -> None:
        """Find the stores that subqueries of `statement` read."""
        self._lookers = [
            StoreSubquery(statement, stores[each.steps.source.store.name], place, each)
            for place, each in (*self._early, *self._late)
            if each.steps.source.store is not None
        ]

    def listen(self) -> None:
        """From now on stores tell of their changes."""
        for looker in self._lookers:
            looker.store.observers.append(looker)
            looker.reads.attach()

    def part(self) -> None:
        """They tell no more."""
        for looker in self._lookers:
            looker.part()
            if looker in looker.store.observers:
                looker.store.observers.remove(looker)
            looker.reads.part()

    def fill(self, state: Any) -> None:
        """Begin a state of the statement with what the stores hold."""
        for looker in self._lookers:
            looker.fill(state)

    def refill_from_stores(self, state: Any) -> None:
        """A state of the statement comes from elsewhere."""
        for looker in self._lookers:
            looker.refill_from_stores(state)

    # -------------------------------------------------------------- events
    def retained(self, state: Any) -> int:
        """How many events a state of the statement holds, those of subqueries included."""
        states = (state, *(state[place] for place in self._places))
        return sum(0 if each[1] is None else each[1].retained() for each in states)

    def reads(self, type_name: str) -> bool:
        """Whether events of the type are for a subquery."""
        return bool(self._for(type_name, self._early) or self._for(type_name, self._late))

    def _for(self, type_name: str, among: Iterable[tuple[int, StatementProgram]]) -> list[tuple[int, StatementProgram]]:
        is_a = self._host.catalog.is_a  # which another deployment replaces
        return [(n, each) for n, each in among if any(is_a(type_name, read) for read in each.steps.event_types)]

    def reading(self, type_name: str, main: EventReader | None) -> EventReader | None:
        """How events of the type are taken by all that read it; `main` is how the statement itself does."""
        early, late = self._for(type_name, self._early), self._for(type_name, self._late)
        if not early and not late:
            return main
        found = [*early, *late]
        if main is None and len(found) == 1:
            ((place, only),) = found
            checked, matched = (self._taker([(place, only[name])]) for name in ("on_event", "on_match"))
            source = only.steps.source
            return EventReader(checked, matched, source.filter, False, source.event_type, True)
        before = self._taker([(place, each["on_event"]) for place, each in early])
        after = self._taker([(place, each["on_event"]) for place, each in late])
        if main is None:
            take, read = _in_turn(before, after, None), found[0][1].steps.source.event_type
            return EventReader(take, take, None, False, read, True)
        take = _in_turn(before, after, main.checked)
        return EventReader(take, take, None, main.drops, main.type, True)

    def _taker(self, takes: Sequence[tuple[int, TakeEvent]]) -> TakeEvent:
        """Hands an event to subqueries, which is not for the statement; a failure of one is told and stops nothing."""
        failed = self._failed

        def take(event: Any, state: Any) -> bool:
            for place, each in takes:
                try:
                    each(event, state[place])
                except Exception as failure:  # noqa: BLE001 - reported to the error feed
                    failed(failure)
            return False

        return take


def _in_turn(before: TakeEvent, after: TakeEvent, main: TakeEvent | None) -> TakeEvent:
    def take(event: Any, state: Any) -> object:
        before(event, state)
        try:
            return False if main is None else main(event, state)
        finally:
            after(event, state)

    return take


def _in_filters(plan: p.StatementPlan) -> set[int]:
    """The numbers of the subqueries that stand in filters of streams and patterns."""
    nodes = traversal.walk(plan) if plan.subqueries else ()
    filters = [getattr(node, "filter", None) for node in nodes if not isinstance(node, p.AggregateCall)]
    return {part.index for e in filters if e is not None for part in x.walk(e) if isinstance(part, x.SubqueryRef)}


def indexable_filter(condition: x.BoundExpr | None) -> x.BoundExpr | None:
    """What of a filter events can be asked before their statement takes them: not what subqueries say."""
    parts = x.conjuncts(condition)
    kept = [e for e in parts if not any(isinstance(part, x.SubqueryRef) for part in x.walk(e))]
    if condition is None or len(kept) == len(parts):
        return condition
    return None if not kept else kept[0] if len(kept) == 1 else x.Logic(BOOLEAN, "and", tuple(kept))


def ignore_state(take: Callable[..., object]) -> TakeEvent:
    """A function that knows the one state there is, as one that is told it; `unwrapped` gives it back."""

    def taking(event: Any, _: Any) -> object:
        return take(event)

    return wraps(take)(taking)


def without_state(take: TakeEvent) -> Callable[[Any], object] | None:
    """The function that knows the one state there is; None if this one must be told."""
    found: Callable[[Any], object] | None = getattr(take, "__wrapped__", None)
    return found
