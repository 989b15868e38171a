"""Access of a running statement to named windows and tables: it creates one, changes one, or reads some."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from functools import partial
from itertools import groupby
from typing import Any

from cepbook.engine.codegen.program import StatementProgram
from cepbook.engine.contexts.context import Context
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.delivery.outlet import DeliveryOutlet
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.relations.store import (
    Item,
    PendingChanges,
    Store,
    StoreChange,
    StoreOwner,
    StoreReader,
    combine_changes,
)
from cepbook.engine.relations.store_lookups import NO_LOOKUPS, StoreLookups
from cepbook.engine.time.activations import ActivationOwner
from cepbook.lang.plan.catalog import EventType
from cepbook.lang.plan.nodes import StatementPlan, StoreLookup


class StoreAccess(StoreOwner, StoreReader, ActivationOwner):
    """The part of a running statement that creates, changes or reads named windows and tables."""

    name: str
    plan: StatementPlan
    steps: PhysicalPlan
    program: StatementProgram
    output_type: EventType
    context: Context | None
    state: Any
    outlet: DeliveryOutlet
    owned: Store | None
    """The store that the statement created, if any."""

    stores: dict[int, Store]
    """The stores that the statement reads, by input."""

    lookups: StoreLookups
    """The indexes that the statement uses in these stores."""

    @abstractmethod
    def guarded(self, take: Callable[[Any, Any], object], event: Any, partitions: Iterable[ContextPartition]) -> bool:
        """Apply `take(event, state)` in the partitions, report failures, and return True if any consumed the event."""

    def state_of(self, partition: ContextPartition | None) -> Any:
        return self.state if partition is None else partition.states[self.program.slot]

    def states(self, wanted: Container[int | None] | None = None) -> list[tuple[int | None, Any]]:
        """Return (partition id, state) of every live partition or those `wanted`; id None without a context.

        A statement that has not started, or is being restored, has none.
        """
        if self.context is None:
            return [(None, self.state)] if self.state is not None and (wanted is None or None in wanted) else []
        slot = self.program.slot
        partitions = self.context.partitions.values()
        return [(p.id, p.states[slot]) for p in partitions if wanted is None or p.id in wanted]

    def open_store_lookups(self) -> None:
        """Request the indexes that the statement needs."""
        program = self.program
        if self.lookups is NO_LOOKUPS and program.index_requests:
            self.lookups = StoreLookups(program.namespace, program.index_requests, self.name, self.stores, late=True)
        self.lookups.attach()

    @property
    def fills(self) -> bool:
        """True if the statement starts with the contents of its stores; on-triggers do not."""
        return self.steps.row is not None and self.steps.on_select is None

    def create_store(self, columns: Iterable[str], changes: PendingChanges) -> Store:
        """Create and return the store of this statement."""
        assert self.steps.owned_store is not None
        self.owned = Store(self.steps.owned_store, columns, changes, self.steps.posts_empty_batches)
        self.owned.owner = self
        self.program.namespace.update(changed=self.owned.changed, admit=self.owned.admit)
        return self.owned

    def groups_in(self, state: StatementState) -> Any:
        """Return the groups of a state; for a statement that feeds a table, these are the items of the table."""
        into = self.steps.into
        return state.groups if into is None else self.program.table(into.store.name).items(state.partition)

    def insert(self, row: dict[str, Any]) -> None:
        """Insert a row into the named window of this statement."""
        if self.context is None:
            self.program.functions.on_event(row)
        else:
            self.guarded(self.program.functions.on_event, row, self._partitions_of(row))

    def owning(self, row: dict[str, Any]) -> list[int] | None:
        return None if self.context is None else [partition.id for partition in self._partitions_of(row)]

    def _partitions_of(self, row: dict[str, Any]) -> Sequence[ContextPartition]:
        store = self.steps.owned_store
        assert store is not None
        assert self.context is not None
        return self.context.partitions_of_event(store.partitioned_as or store.name, row)

    def connect_target(self, stores: Mapping[str, Store], lookup: StoreLookup) -> None:
        """Connect an on-trigger to the store that it looks up, and to the store that sets it off, if one does."""
        store = stores[lookup.store.name]
        if lookup.source.store is not None:
            self.stores = {lookup.number: stores[lookup.source.store.name]}
        program = self.program
        program.namespace.update(store.functions(self.steps.context is not None))
        if lookup.silent:
            program.namespace["move"] = partial(program.namespace["move"], silent=True)
        self.lookups = StoreLookups(program.namespace, program.index_requests, self.name, {0: store}, changes=True)

    def fill_from_stores(self, partition: ContextPartition) -> None:
        """Fill a new partition with the contents of the stores, one input after the other."""
        slot = self.program.slot
        contents = {number: self.posted_of(partition.states[slot], number) for number in self.stores}
        self.lookups.record_initial_contents(contents, partition)
        for number in self.stores:
            if number in self.program.functions.on_change_of:  # a joined table is only looked up
                self.guarded(partial(self._begin_with, contents), number, (partition,))

    def _begin_with(self, contents: Mapping[int, list[Item]], number: int, state: StatementState) -> None:
        self.lookups.mark_reported(number, None)
        self.program.functions.on_change_of[number](state, contents[number], (), self.now)

    @property
    def external_state(self) -> str | None:
        """Reason why single partitions cannot be moved (state shared across partitions); None if they can."""
        assert self.context is not None
        for store in self.stores.values() if self.fills else ():
            if store.type.kind == "window" and store.type.context != self.context.name:
                return f"holds the rows of named window `{store.name}`, which is not in the context"
        into = self.steps.into
        if into is not None and into.store.context != self.context.name:
            return f"feeds table `{into.store.name}`, which is not in the context"
        return "joins a named window without rows that `@Drop` kept from it" if self.lookups.lacks_rows else None

    def stored_of(self, state: StatementState, number: int = 0) -> list[Item]:
        """Return the rows of input `number` for `state`: all, or those of its own context partition."""
        return self.stores[number].stored(self._owner_states(state, number))

    def posted_of(self, state: StatementState, number: int = 0) -> list[Item]:
        """Return the rows of input `number` that readers of the store were notified of."""
        return self.stores[number].posted(self._owner_states(state, number))

    def _owner_states(self, state: StatementState, number: int) -> Iterable[Any]:
        store = self.stores[number]
        if self.context is not None and store.type.context == self.context.name:
            own = store.owner.state_of(state.partition)  # of a partition that ends, too
            return () if own is None else (own,)
        return (owner_state for _, owner_state in store.owner.states())

    def take(self, moved: Sequence[StoreChange]) -> None:
        """Process changes of the stores that this statement reads, in the order in which they happened."""
        try:
            groups = [moved] if len(moved) == 1 else [list(own) for _, own in groupby(moved, key=_identity_of_store)]
            for own in groups:
                for number, store in self.stores.items():
                    if store is own[0].store:
                        self.lookups.mark_reported(number, own)
                        if number in self.program.functions.on_change_of:  # the first input of this store
                            self._take(own, self.program.functions.on_change_of[number])
        finally:
            for number in self.stores:
                self.lookups.mark_reported(number, moved)

    def _take(self, moved: Sequence[StoreChange], on_change: Callable[..., object]) -> None:
        now = self.now
        if self.context is None:
            on_change(self.state, *combine_changes(moved), now)
            return
        slot = self.program.slot
        shared = moved[0].store.type.context != self.context.name
        for partition in list(self.context.partitions.values()):
            own = moved if shared else [change for change in moved if change.partition is partition]
            if own and not partition.ended:
                on_change(partition.states[slot], *combine_changes(own), now)

    @property
    def reads_only_tables(self) -> bool:
        """True if the statement reads only tables, which do not report changes."""
        return self.fills and self.steps.reads_only_tables

    def begin_output(self, state: StatementState) -> None:
        """Start the clock of ``output snapshot`` over a store whose rows are output without an event: a table, or a
        named window that has rows (recorded: snapshot_of_a_window_that_has_rows).
        """
        if self.program.functions.begin_output is not None:
            self.program.functions.begin_output(state, self.now)


def _identity_of_store(change: StoreChange) -> int:
    return id(change.store)
