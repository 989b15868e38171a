"""What a statement has to do with named windows and tables: it creates one, changes one, or reads some."""

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
from cepbook.lang.plan.catalog import EventType, StoreType
from cepbook.lang.plan.nodes import SelectStatement, StatementPlan


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

    looks: StoreLookups
    """The indexes that the statement uses in these stores."""

    @abstractmethod
    def guarded(self, take: Callable[[Any, Any], object], event: Any, partitions: Iterable[ContextPartition]) -> bool:
        """Apply `take(event, state)` in the partitions, report failures, and return True if any consumed the event."""

    def state_of(self, partition: ContextPartition | None) -> Any:
        """The state in a partition, or the one state."""
        return self.state if partition is None else partition.states[self.program.namespace["slot"]]

    def states(self, wanted: Container[int | None] | None = None) -> list[tuple[int | None, Any]]:
        """(partition id, state) of every live partition, or of those `wanted`, by id; id None without a context."""
        if self.context is None:
            return [(None, self.state)] if wanted is None or None in wanted else []
        slot = self.program.namespace["slot"]
        found = self.context.partitions.values()
        return [(p.id, p.states[slot]) for p in found if wanted is None or p.id in wanted]

    def open_store_lookups(self) -> None:
        """From now on the stores have what it looks into."""
        if self.looks is NO_LOOKUPS and self.program.wants:
            self.looks = StoreLookups(self.program.namespace, self.program.wants, self.name, self.stores, late=True)
        self.looks.attach()

    @property
    def fills(self) -> bool:
        """Whether it begins with what the stores hold: an on-trigger does not."""
        return self.steps.row is not None and self.steps.selects is None

    def owns(self, changes: PendingChanges) -> Store:
        """The store that it creates."""
        assert self.steps.owns is not None
        self.owned = Store(self.steps.owns, self.output_type.properties, changes, self.steps.posts_empty_batches)
        self.owned.owner = self
        self.program.namespace.update(changed=self.owned.changed, admit=self.owned.admit)
        return self.owned

    def groups_in(self, state: Any) -> Any:
        """The aggregate part of a state; of a statement that feeds a table these are the items of the table."""
        into = self.steps.into
        return state[2] if into is None else self.program[self.program["__tables__"][into.store.name]].items(state[0])

    def insert(self, row: dict[str, Any]) -> None:
        """A row arrives at the named window that it created."""
        if self.context is None:
            self.program["on_event"](row)
        else:
            self.guarded(self.program["on_event"], row, self._partitions_of(row))

    def owning(self, row: dict[str, Any]) -> list[int] | None:
        """The ids of the partitions that a row of its named window belongs to, None without a context."""
        return None if self.context is None else [partition.id for partition in self._partitions_of(row)]

    def _partitions_of(self, row: dict[str, Any]) -> Sequence[ContextPartition]:
        assert self.steps.owns is not None
        assert self.context is not None
        return self.context.partitions_of_event(self.steps.owns.partitioned_as or self.steps.owns.name, row)

    def connect_target(
        self, stores: Mapping[str, Store], target_type: StoreType, trigger: StoreType | None, number: int = 0
    ) -> None:
        """It is an on-trigger on a store, maybe set off by rows that enter another, its input `number`."""
        store = stores[target_type.name]
        if trigger is not None:
            self.stores = {number: stores[trigger.name]}
        self.program.namespace.update(store.functions(lambda state: None if self.context is None else state[0]))
        self.looks = StoreLookups(self.program.namespace, self.program.wants, self.name, {0: store}, changes=True)

    def fill_from_stores(self, partition: ContextPartition) -> None:
        """A new partition begins with what the stores hold, one input after the other."""
        slot = self.program.namespace["slot"]
        held = {number: self.stored_of(partition.states[slot], number) for number in self.stores}
        self.looks.begins(held, partition)
        for number in self.stores:
            if self._on_change(number) in self.program.namespace:  # a table that is joined is looked into
                self.guarded(partial(self._begin_with, held), number, (partition,))

    def _begin_with(self, held: Mapping[int, list[Item]], number: int, state: Any) -> None:
        """A new state of a partition takes what the store that is input `number` holds."""
        self.looks.told(number, None)
        self.program[self._on_change(number)](state, held[number], (), self.now)

    @property
    def external_state(self) -> str | None:
        """What is not of its context, and agrees with its states in all partitions; None: nothing is."""
        assert self.context is not None
        for store in self.stores.values() if self.fills else ():
            if store.type.kind == "window" and store.type.context != self.context.name:
                return f"holds the rows of named window `{store.name}`"
        into = self.steps.into
        if into is not None and into.store.context != self.context.name:
            return f"feeds table `{into.store.name}`"
        return None

    def _on_change(self, number: int) -> str:
        """The function of the program that takes changes of the store that is input `number`."""
        return f"on_change{number}" if self.steps.inputs else "on_change"

    def stored_of(self, state: Any, number: int = 0) -> list[Item]:
        """The rows of the store that `state` reads as input `number`: all, or those of its own context partition."""
        store = self.stores[number]
        found = store.owner.states()
        if self.context is not None and store.type.context == self.context.name:
            found = [each for each in found if each[0] == state[0].id]
        return store.stored(each for _, each in found)

    def take(self, moved: Sequence[StoreChange]) -> None:
        """What entered and left the stores that it reads: of each by itself, in the order in which they changed."""
        try:
            for _, of_store in groupby(moved, key=lambda each: id(each.store)):
                own = list(of_store)
                for number, store in self.stores.items():
                    if store is own[0].store:
                        self.looks.told(number, own)
                        self._take(own, self.program[self._on_change(number)])
        finally:
            for number in self.stores:
                self.looks.told(number, moved)

    def _take(self, moved: Sequence[StoreChange], on_change: Callable[..., object]) -> None:
        now = self.now
        if self.context is None:
            on_change(self.state, *combine_changes(moved), now)
            return
        slot = self.program.namespace["slot"]
        shared = moved[0].store.type.context != self.context.name
        for partition in list(self.context.partitions.values()):
            own = moved if shared else [each for each in moved if each.partition is partition]
            if own and not partition.ended:
                on_change(partition.states[slot], *combine_changes(own), now)

    @property
    def reads_only_tables(self) -> bool:
        """Whether all that it reads is tables, which tell it of nothing."""
        sources = self.plan.sources if isinstance(self.plan, SelectStatement) else ()
        tables = all(each.store is not None and each.store.kind == "table" for each in sources)
        return self.fills and bool(self.stores) and tables

    def anew(self, state: Any, now: int) -> Any:
        """A state that has what a table holds now: it tells nobody of its changes."""
        made = self.program["new_state"](state[0], now)
        self.program["prefill"](made, now)
        return made
