"""Named windows at run time: the owner of the rows, their readers, and the changes between them.

A row that is inserted goes to the statement that created the store. The changes of its contents wait in
`PendingChanges` until all statements have seen the present event. Then each reader gets all of them as one delta,
reader by reader in deployment order.

::

    insert into W ──► owner (data window) ──► store ──► PendingChanges ──► readers, one delta each
                                                └─► subqueries and indexes, at once
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cepbook.engine.delivery.delta import Row
from cepbook.engine.relations.relation import HashIndex, ItemKey
from cepbook.engine.relations.statement_state import StoreState
from cepbook.engine.relations.store_indexes import (
    ColumnKey,
    IndexName,
    IndexRequest,
    RequestedIndex,
    UnbandedIndex,
    UnindexedItems,
)
from cepbook.lang.plan.catalog import EventType, IndexType, StoreType
from cepbook.lang.types import is_hashable

Item = tuple[Any, ...]


class StoreOwner(ABC):
    """The statement that created a store and holds its rows."""

    name: str
    output_type: EventType
    state: Any
    program: Any
    """A `StatementProgram`, whose `functions` have `arrive` and `apply`."""

    @abstractmethod
    def insert(self, row: Row) -> None:
        """Insert a row."""

    @abstractmethod
    def owning(self, row: Row) -> Sequence[int] | None:
        """Return the ids of the live partitions that a row belongs to, or None without a context."""

    @abstractmethod
    def states(self) -> list[tuple[int | None, Any]]:
        """Return (partition id, state) of every live partition."""

    @abstractmethod
    def state_of(self, partition: Any) -> Any:
        """Return the state in a partition, or the one state without a context."""


class StoreReader(ABC):
    """A statement that reads stores."""

    name: str
    order: tuple[int, int]

    drops: bool
    """True with `@Drop`: readers of the same or lower priority do not see the changes that this one has seen."""

    @abstractmethod
    def take(self, moved: Sequence[StoreChange]) -> None:
        """Process the changes of all stores that this statement reads, since the previous call."""

    @abstractmethod
    def failed(self, failure: Exception) -> None:
        """Report a run-time failure."""


class StoreObserver(ABC):
    """A subquery over a store; it sees each change at once."""

    @abstractmethod
    def look(self, partition: Any, entered: Sequence[Item], left: Sequence[Item]) -> None:
        """Process rows that entered and left in a context partition of the store's owner."""


class DeferredReader(ABC):
    """A reader that looks into the contents of a store, but is notified of changes later than they happen."""

    @abstractmethod
    def add(self, moved: StoreChange) -> None:
        """Note a change that will be reported later."""

    @abstractmethod
    def drop(self, moved: StoreChange) -> None:
        """Note that a change will not be reported, because of `@Drop`."""


class Store:
    """A named window. `owner` holds its rows, `readers` are notified of changes.

    Items start with their ordinal and end with the row. The states of the owner hold the requested indexes.
    """

    def __init__(self, type_: StoreType, columns: Iterable[str], changes: PendingChanges, unseen: bool) -> None:
        self.type = type_
        self.name = type_.name
        self.columns = tuple(columns)
        self.owner: StoreOwner
        self.readers: list[StoreReader] = []
        self.observers: list[StoreObserver] = []
        self.deferred_readers: list[DeferredReader] = []
        self.requested_indexes: dict[IndexName, RequestedIndex] = {}
        self.collects_batches = unseen  # rows are collected in batches before readers are notified
        self.uniques: tuple[IndexType, ...] = ()  # the declared indexes that are unique
        self._changes = changes

    def inserted(self, row: Row, partition: Any = None) -> None:
        """Insert a row; columns that the store does not have are dropped, missing ones are null.

        `partition` is the context partition of a table. A named window finds its partition by the row.
        """
        self.owner.insert({name: row.get(name) for name in self.columns})

    def partitions_of(self, row: Row) -> Sequence[int] | None:
        """Return the ids of the live partitions that a queried row belongs to; None: it is for all."""
        return self.owner.owning(row)

    def refusal(self, state: StoreState, old: Iterable[Item], new: Sequence[Row]) -> str | None:
        """Return why the rows `new` cannot stand in place of the items `old` in `state`, or None."""
        fresh: list[Item] = []
        gone = {item[0] for item in old} if self.uniques else ()
        for row in new if self.uniques else ():
            clash = self._clash(state, row, gone, fresh)
            if clash is not None:
                return clash
            fresh.append((-1, row))
        return None

    def check(self, state: StoreState, old: Iterable[Item], new: Sequence[Row], origins: Sequence[Item | None]) -> None:
        """Raise ValueError if `move` would violate a key or a unique index."""
        why = self.refusal(state, old, new)
        if why is not None:
            raise ValueError(why)

    def changed(self, state: StoreState, entered: Sequence[Item], left: Sequence[Item], now: int) -> None:
        """Process a change of the contents in `state`."""
        for index in state.indexes.values():
            index.change(entered, left)
        for looker in self.observers:
            looker.look(state.partition, entered, left)
        if self.readers:
            moved = StoreChange(self, state.partition, entered, left)
            for reader in self.deferred_readers:
                reader.add(moved)
            self._changes.add(moved)

    def functions(self, in_context: bool) -> dict[str, Any]:
        """Return the names that on-triggers read, which are in the context of the store's owner or in none."""
        owner = self.owner
        own = (lambda state: owner.state_of(state.partition)) if in_context else (lambda state: owner.state)
        return {"store": self, "target": own, "move": self.unchecked_move}

    @property
    def unchecked_move(self) -> Callable[..., None]:
        """`move` for a change that was checked; of a table `move` itself."""
        move: Callable[..., None] = self.owner.program.functions.move
        return move

    def contents(self, state: StoreState) -> list[Item]:
        """Return the items in a state of the owner, including those still collected for a batch."""
        return list(state.view.contents())

    def keeps(self, want: IndexRequest) -> bool:
        """Return True if the store keeps what the request needs for its readers."""
        return True

    def want(self, user: object, name: IndexName, kind: str, key: ItemKey) -> None:
        """Request an index for `user`; it exists from now on."""
        requested = self.requested_indexes.setdefault(name, RequestedIndex(kind, key))
        if user not in requested.users:
            requested.users.append(user)
        for _, state in self.owner.states():
            self.build_indexes(state)

    def release(self, user: object) -> None:
        """Release all indexes of `user`; an index without users is dropped."""
        states = [state for _, state in self.owner.states() if state is not None]
        for name, requested in list(self.requested_indexes.items()):
            if user in requested.users:
                requested.users.remove(user)
            if not requested.users:
                del self.requested_indexes[name]
                for state in states:
                    state.indexes.pop(name, None)

    def build_indexes(self, state: StoreState) -> None:
        """Build all requested indexes that a state does not have yet."""
        if state is None or self.collects_batches:
            return
        for name, requested in self.requested_indexes.items():
            if name not in state.indexes:
                state.indexes[name] = requested.build(state.view.contents())

    def lookup_function(self, want: IndexRequest, name: IndexName, key: ItemKey, lasting: bool) -> Callable[[Any], Any]:
        """Return a function from an owner's state to the index, or without one to a part of it or the rows."""
        indexed = name in self.requested_indexes and not self.collects_batches
        if want.kind == "composite":
            if indexed:
                return lambda state: state.indexes[name]
            by_keys = want.by_keys
            look = self.lookup_function(by_keys, by_keys.name(""), ColumnKey(by_keys.columns), lasting)
            return lambda state: UnbandedIndex(look(state))
        if want.kind == "hash":
            if indexed:
                return lambda state: state.indexes[name].table
            return lambda state: UnindexedItems(lambda: self.contents(state), key, self._some(state, want))
        if want.kind == "sorted" and indexed:
            return lambda state: state.indexes[name]
        if want.kind == "rows" and indexed and lasting:
            return lambda state: state.indexes[name].rows
        return lambda state: UnindexedItems(lambda: self.contents(state), key)

    def has_index_for(self, want: IndexRequest) -> bool:
        """Return True if there is an index on the requested columns, or on a part of them."""
        if self.collects_batches:
            return False
        if want.name("") in self.requested_indexes:
            return True
        if want.kind == "composite":
            return self.has_index_for(want.by_keys)
        return want.kind == "hash" and any({*columns} <= {*want.columns} for columns in self._hashed())

    def _hashed(self) -> Iterator[tuple[str, ...]]:
        return (name[1:] for name, index in self.requested_indexes.items() if index.kind == "hash" and name[1])

    def _some(self, state: StoreState, want: IndexRequest) -> Callable[[Any], Iterable[Item]] | None:
        indexes = [columns for columns in self._hashed() if {*columns} <= {*want.columns}]
        if not indexes or self.collects_batches:
            return None
        columns, look = max(indexes, key=len), self.by_key
        places = [want.columns.index(name) for name in columns]
        if len(want.columns) == 1:
            return lambda key: look(state, columns, key)
        if len(columns) == 1:
            return lambda key: look(state, columns, key[places[0]])
        return lambda key: look(state, columns, tuple(key[place] for place in places))

    def by_key(self, state: StoreState, columns: tuple[str, ...], key: Any) -> list[Item]:
        """Return the items whose `columns` equal `key`, by a requested index."""
        index = state.indexes["hash", *columns]
        assert isinstance(index, HashIndex)
        return list(index.table.get(key, {}).values())

    def admit(self, state: StoreState, change: tuple[Sequence[Item], Sequence[Item]], now: int) -> Any:
        """Return `change` without rows whose unique key a remaining row has; these raise ValueError."""
        if not self.uniques:
            return change
        entered, left = change
        gone = {item[0] for item in (*entered, *left)}
        admitted: list[Item] = []
        why = ""
        for item in entered:
            clash = self._clash(state, item[-1], gone, admitted)
            if clash is None:
                admitted.append(item)
            else:
                why = clash
                state.view.discard(item)
        if not why:
            return change
        if admitted or left:
            self.owner.program.functions.apply(state, admitted, left, now)
        raise ValueError(why)

    def _clash(self, state: StoreState, row: Row, gone: Container[int], more: Sequence[Item]) -> str | None:
        """Error text if `row` violates a unique index, given the current rows minus `gone` plus `more`; else None."""
        for index in self.uniques:
            key = ColumnKey(tuple(name for name, _ in index.columns))
            value = key((row,))
            remains = any(item[0] not in gone for item in self._with_key(state, key, value))
            if remains or any(key(item) == value for item in more):
                return f"unique index `{index.name}`: `{self.name}` has a row with {_shown(key.columns, row)} already"
        return None

    def _with_key(self, state: StoreState, key: ColumnKey, value: Any) -> list[Item]:
        """Return the items with a key. Batches that are being collected, and arrays, have no index."""
        if ("hash", *key.columns) in state.indexes:
            return self.by_key(state, key.columns, value)
        return [item for item in self.contents(state) if key(item) == value]

    def clash(self, index: IndexType) -> str | None:
        """Return a key of `index` that several rows share, or None."""
        key = ColumnKey(tuple(name for name, _ in index.columns))
        for _, state in self.owner.states():
            seen: set[Any] = set()
            for item in self.contents(state):
                value = key(item)
                if value in seen:
                    return _shown(key.columns, item[-1])
                seen.add(value)
        return None

    def move(
        self, state: StoreState, old: Sequence[Item], new: Sequence[Row], origins: Sequence[Item | None], now: int
    ) -> None:
        """Remove rows and insert rows as one change, with its evictions. A table reads `origins`, the item that each
        new row replaces or None. Errors: ValueError, before any change, if a unique index is violated.
        """
        if self.uniques:
            self.check(state, old, new, origins)
        self.unchecked_move(state, old, new, origins, now)

    def stored(self, states: Iterable[StoreState]) -> list[Item]:
        """Return the items in some states of the owner, in the order of the iterator."""
        return [item for state in states for item in state.view.display_order()]

    def posted(self, states: Iterable[StoreState]) -> list[Item]:
        """Return the items in some states of the owner that readers were notified of: no batch being collected."""
        return [item for state in states for item in state.view.posted()]


def replace_contents(store: Store, rows: Iterable[Row], now: int) -> None:
    """Replace all rows of a named window without context."""
    state = store.owner.state_of(None)
    own = [{name: row.get(name) for name in store.columns} for row in rows]
    store.move(state, store.contents(state), own, (), now)


def apply_declared_indexes(store: Store, indexes: Mapping[str, IndexType]) -> None:
    """Request the declared indexes of a store, and release those that are not declared any more."""
    of_store = [index for index in indexes.values() if index.store == store.name]
    store.uniques = tuple(index for index in of_store if index.unique)
    types = store.owner.output_type.properties
    hashable = (index for index in of_store if all(is_hashable(types[name]) for name, _ in index.columns))
    plain = [index for index in hashable if not index.spatial]
    kinds = dict(map(_declared, plain))
    gone = [name for name, index in store.requested_indexes.items() if _DECLARED in index.users and name not in kinds]
    for name, kind in kinds.items():
        store.want(_DECLARED, name, kind, ColumnKey(name[1:]))
    if gone:
        store.release(_DECLARED)
        apply_declared_indexes(store, indexes)


_DECLARED = "create index"


def _declared(index: IndexType) -> tuple[IndexName, str]:
    columns = tuple(name for name, _ in index.columns)
    ordered = len(columns) == 1 and index.columns[0][1] == "btree" and not index.unique
    kind = "sorted" if ordered else "hash"
    return (kind, *columns), kind


def _shown(columns: Sequence[str], row: Row) -> str:
    return ", ".join(f"{name} = {row[name]!r}" for name in columns)


@dataclass(slots=True, eq=False)
class StoreChange:
    """Items that entered and left a store, in the context partition `partition` of its owner."""

    store: Store
    partition: Any
    entered: Sequence[Item]
    left: Sequence[Item]


class PendingChanges:
    """Changes of stores that were not reported yet. `waits` requests a flush at the end of the present event."""

    def __init__(self, waits: Callable[[], None]) -> None:
        self._waits = waits
        self.moved: list[StoreChange] = []  # never replaced by another list: the turn refers to it

    def __bool__(self) -> bool:
        return bool(self.moved)

    def add(self, moved: StoreChange) -> None:
        """Queue a change until all statements have seen the present event."""
        if not self.moved:
            self._waits()
        self.moved.append(moved)

    def dropped(self) -> str:
        """Discard the queued changes and return the name of one of their stores."""
        name = self.moved[-1].store.name
        self.moved.clear()
        return name

    def spread(self) -> None:
        """Report the queued changes to the readers, one after the other; each gets all of its changes at once."""
        moved = self.moved.copy()
        self.moved.clear()
        readers = moved[0].store.readers
        if len(moved) > 1:
            readers = [*{id(reader): reader for change in moved for reader in change.store.readers}.values()]
        for reader in sorted(readers, key=lambda reader: (reader.order[0], not reader.drops, reader.order[1])):
            try:
                reader.take([change for change in moved if reader in change.store.readers])
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                reader.failed(failure)
            if reader.drops:
                dropped = [change for change in moved if reader in change.store.readers]
                moved = [change for change in moved if reader not in change.store.readers]
                for change in dropped:
                    for deferred in change.store.deferred_readers:
                        deferred.drop(change)


def combine_changes(moved: Sequence[StoreChange]) -> tuple[Sequence[Item], Sequence[Item]]:
    """Return all items that entered, and all that left."""
    if len(moved) == 1:
        return moved[0].entered, moved[0].left
    return [item for change in moved for item in change.entered], [item for change in moved for item in change.left]
