"""What a running statement looks into of the stores that it reads: indexes that these keep for all their readers.

Generated code calls ``look0(P)``, with the context partition of its own state, or ``look0(T)`` with the state of the
store's owner where it changes the store; it gets the table of a hash index, a sorted index, or the rows. A join is told
of changes after they happened: until then it looks at what it was told of.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cepbook.engine.relations.relation import Item, ItemKey
from cepbook.engine.relations.store import DeferredReader, Store, StoreChange
from cepbook.engine.relations.store_indexes import ColumnKey, IndexRequest, UnreportedChange, as_reported

LookupRequests = Mapping[str, tuple[int, IndexRequest]]  # by the name of the function: of which input


class UnreportedChanges(DeferredReader):
    """What a join has not been told of yet, of the store that is one of its inputs."""

    PASSING = ("moved",)

    def __init__(self) -> None:
        self.moved: list[tuple[StoreChange | None, UnreportedChange]] = []

    def missed(self, moved: StoreChange) -> None:
        """It is to be told of this."""
        self.moved.append((moved, (moved.partition, moved.entered, moved.left)))

    def of(self, partition: Any) -> list[UnreportedChange]:
        """What is to be seen in a context partition."""
        return [each for _, each in self.moved if each[0] is None or each[0] is partition]


class StoreLookups:
    """The looks of one module of generated code. `reader` names it, `stores` are those that it reads, by input.

    `late`: it is told of changes later; `changes`: it changes the store, whose state it looks into.
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
        self.look()

    def _key(self, want: IndexRequest) -> ItemKey:
        key: ItemKey = self._namespace[want.function] if want.function else ColumnKey(want.columns)
        return key

    def look(self) -> None:
        """Let the generated code look at what there is."""
        for name, (number, want) in self._wants.items():
            store = self._stores[number]
            look = store.looking(want, want.name(self._reader), self._key(want), self._attached)
            look = look if self._attached else _once(look)
            missing = self._missing.get(number)
            if missing is not None:
                look = self._as_told(store, look, want, missing)
            elif not self._changes:
                look = _in_partition(store, look)
            self._namespace[name] = look

    def _as_told(
        self, store: Store, look: Callable[[Any], Any], want: IndexRequest, missing: UnreportedChanges
    ) -> Callable[[Any], Any]:
        look, key, moved = _in_partition(store, look), self._key(want), missing.moved

        def told(partition: Any) -> Any:
            found = look(partition)
            if moved:
                missed = missing.of(partition)
                return as_reported(found, want, key, missed) if missed else found
            return found

        return told

    # -------------------------------------------------------------- life
    def attach(self) -> None:
        """From now on the stores have the indexes."""
        for number, want in self._wants.values():
            if self._stores[number].keeps(want) and not (self._changes and want.kind == "rows"):
                self._stores[number].want(self, want.name(self._reader), want.kind, self._key(want))
        for number, missing in self._missing.items():
            if missing not in self._stores[number].deferred_readers:
                self._stores[number].deferred_readers.append(missing)
        self._attached = True
        self.look()

    def part(self) -> None:
        """It looks no more."""
        for number in {number for number, _ in self._wants.values()}:
            store = self._stores[number]
            store.part(self)
            if self._missing.get(number) in store.deferred_readers:
                store.deferred_readers.remove(self._missing[number])
        for name in self._wants:
            self._namespace[name] = None

    # -------------------------------------------------------------- what it was not told of
    def begins(self, items: Mapping[int, Sequence[Item]], partition: Any) -> None:
        """In a new partition it is told of what its inputs hold, of one after the other."""
        for number, missing in self._missing.items():
            missing.moved.append((None, (partition, items[number], ())))

    def told(self, number: int, moved: Sequence[StoreChange] | None) -> None:
        """Now it is told of this, of an input; None: of what it begins with."""
        missing = self._missing.get(number)
        if missing is not None and missing.moved:
            gone = {id(None)} if moved is None else {id(each) for each in moved}
            missing.moved[:] = [each for each in missing.moved if id(each[0]) not in gone]


def _once(look: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """`look` for a query, while which nothing changes."""
    found: dict[int, Any] = {}

    def once(state: Any) -> Any:
        if id(state) not in found:
            found[id(state)] = look(state)
        return found[id(state)]

    return once


def _in_partition(store: Store, look: Callable[[Any], Any]) -> Callable[[Any], Any]:
    owner = store.owner
    if store.type.context is None:
        return lambda partition: look(owner.state_of(None))
    return lambda partition: look(owner.state_of(partition))


NO_LOOKUPS = StoreLookups({}, {}, "", {})  # of statements that look into no store
