"""Lookups of a running statement in the stores that it reads, by indexes that the stores keep for all readers.

Generated code calls `look0(P)` with a context partition, or, in a statement that changes the store, `look0(T)` with the
state of the store's owner. The call returns the table of a hash index, a sorted index, or the rows. A join is notified
of changes after they happened. Until then its lookups return the contents before those changes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cepbook.engine.relations.relation import Item, ItemKey
from cepbook.engine.relations.store import DeferredReader, Store, StoreChange
from cepbook.engine.relations.store_indexes import ColumnKey, IndexRequest, UnreportedChange, as_reported

_Look = Callable[[Any], Any]
LookupRequests = Mapping[str, tuple[int, IndexRequest]]  # by the name of the lookup function: input and request


class UnreportedChanges(DeferredReader):
    """Changes of a store that a join has not been notified of: `moved` waits until the end of the event. `dropped` is
    what the join is never notified of because of `@Drop`, by partition: the rows that it does not see, and those that
    it still sees.
    """

    SAVED = ("dropped",)
    PASSING = ("moved",)

    def __init__(self) -> None:
        self.moved: list[tuple[StoreChange | None, UnreportedChange]] = []
        self.dropped: list[tuple[Any, dict[int, Item], dict[int, Item]]] = []

    def add(self, moved: StoreChange) -> None:
        """Record a change that the join has not been notified of yet."""
        self.moved.append((moved, (moved.partition, moved.entered, moved.left)))

    def drop(self, moved: StoreChange) -> None:
        """Note that the join will not be notified of a change, unless it has been already."""
        waiting = len(self.moved)
        self.mark_reported([moved])
        if len(self.moved) == waiting:
            return
        own = next((entry for entry in self.dropped if entry[0] is moved.partition), (moved.partition, {}, {}))
        _, unseen, still_seen = own
        unseen.update((item[0], item) for item in moved.entered)
        still_seen.update((item[0], item) for item in moved.left if unseen.pop(item[0], None) is None)
        others = [entry for entry in self.dropped if entry is not own and not (entry[0] and entry[0].ended)]
        self.dropped = [*others, own] if unseen or still_seen else others

    def mark_reported(self, reported: Sequence[StoreChange | None]) -> None:
        """Remove changes that the join has been notified of; None stands for the initial contents."""
        ids = {id(change) for change in reported}
        self.moved[:] = [entry for entry in self.moved if id(entry[0]) not in ids]

    def of(self, partition: Any) -> list[UnreportedChange]:
        """Return the changes in a context partition."""
        dropped = [(of, [*unseen.values()], [*seen.values()]) for of, unseen, seen in self.dropped]
        changes: list[UnreportedChange] = [*dropped, *(change for _, change in self.moved)]
        return [change for change in changes if change[0] is None or change[0] is partition]


class StoreLookups:
    """The lookups of one module of generated code. `reader` is the name of its statement, `stores` has the stores that
    the statement reads, by input.

    `late`: the statement is notified of changes after they happened. `changes`: it changes the store, and its lookups
    take the state of the store's owner.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        wants: LookupRequests,
        reader: str,
        stores: Mapping[int, Store],
        *,
        late: bool = False,
        changes: bool = False,
    ) -> None:
        self._namespace = namespace
        self._wants = wants
        self._reader = reader
        self._stores = stores
        self._changes = changes
        self._attached = False
        self._missing = {n: UnreportedChanges() for n, _ in wants.values() if late and stores[n].type.kind == "window"}
        self.bind_lookups()

    def _key(self, want: IndexRequest) -> ItemKey:
        key: ItemKey = self._namespace[want.function] if want.function else ColumnKey(want.columns)
        return key

    def bind_lookups(self) -> None:
        """Bind the lookup functions into the generated code."""
        for name, (number, want) in self._wants.items():
            store = self._stores[number]
            look = store.lookup_function(want, want.name(self._reader), self._key(want), self._attached)
            look = look if self._attached else _cached_by_state(look)
            missing = self._missing.get(number)
            if missing is not None:
                look = self._hiding_unreported(store, look, want, missing)
            elif not self._changes:
                look = _in_partition(store, look)
            self._namespace[name] = look

    def _hiding_unreported(self, store: Store, look: _Look, want: IndexRequest, missing: UnreportedChanges) -> _Look:
        look, key, moved = _in_partition(store, look), self._key(want), missing.moved

        def look_as_reported(partition: Any) -> Any:
            current = look(partition)
            if moved or missing.dropped:
                missed = missing.of(partition)
                return as_reported(current, want, key, missed) if missed else current
            return current

        return look_as_reported

    def attach(self) -> None:
        """Request the indexes from the stores, join the readers that are notified later, and bind the lookups anew."""
        for number, want in self._wants.values():
            if self._stores[number].keeps(want) and not (self._changes and want.kind == "rows"):
                self._stores[number].want(self, want.name(self._reader), want.kind, self._key(want))
        for number, missing in self._missing.items():
            if missing not in self._stores[number].deferred_readers:
                self._stores[number].deferred_readers.append(missing)
        self._attached = True
        self.bind_lookups()

    def release(self) -> None:
        """Release the indexes and unbind the lookup functions."""
        for number in {number for number, _ in self._wants.values()}:
            store = self._stores[number]
            store.release(self)
            if self._missing.get(number) in store.deferred_readers:
                store.deferred_readers.remove(self._missing[number])
        for name in self._wants:
            self._namespace[name] = None

    def record_initial_contents(self, items: Mapping[int, Sequence[Item]], partition: Any) -> None:
        """Record the rows of a new partition as unreported, because its inputs are filled one after the other."""
        for number, missing in self._missing.items():
            missing.moved.append((None, (partition, items[number], ())))

    @property
    def lacks_rows(self) -> bool:
        """True if `@Drop` keeps rows of a store from the statement."""
        return any(missing.dropped for missing in self._missing.values())

    def mark_reported(self, number: int, reported: Sequence[StoreChange] | None) -> None:
        """Remove the changes of an input that the join has been notified of; None stands for the initial contents."""
        missing = self._missing.get(number)
        if missing is not None and missing.moved:
            missing.mark_reported([None] if reported is None else reported)


def _cached_by_state(look: _Look) -> _Look:
    """Return `look` with one result for each state, for the time before the store keeps an index."""
    results: dict[int, Any] = {}

    def cached(state: Any) -> Any:
        if id(state) not in results:
            results[id(state)] = look(state)
        return results[id(state)]

    return cached


def _in_partition(store: Store, look: _Look) -> _Look:
    owner = store.owner
    if store.type.context is None:
        return lambda partition: look(owner.state)
    return lambda partition: look(owner.state_of(partition))


NO_LOOKUPS = StoreLookups({}, {}, "", {})  # for statements without lookups
