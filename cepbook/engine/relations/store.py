"""Named windows that run: who holds the rows, who reads them, and what is handed on when they change.

A row that is inserted goes to the statement that created the store; what enters and leaves there waits (`Changes`)
until all statements have seen the present event, and then goes to the readers, in their order, one change for each.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from cepbook.engine.delta import Row
from cepbook.engine.relations.relation import HashIndex, Relation, SortedIndex
from cepbook.engine.rows.frozen import one_nan
from cepbook.engine.state import State
from cepbook.lang.catalog import IndexType, StoreType

Item = tuple[Any, ...]


class Owner(Protocol):
    """The statement that created a store."""

    name: str

    @property
    def program(self) -> Any:
        """Its functions ``arrive(row, state, now)``, and ``apply(state, entered, left, now)``, which tells of both."""

    def insert(self, row: Row) -> None:
        """A row arrives."""

    def states(self) -> list[tuple[int | None, Any]]:
        """(partition id, state) of every live partition."""

    def state_of(self, partition: Any) -> Any:
        """The state in a partition, or the one state."""


class Reader(Protocol):
    """A statement that reads stores."""

    name: str
    order: tuple[int, int]

    def take(self, moved: Sequence[Moved]) -> None:
        """What entered and left stores that it reads, since it was last told."""

    def failed(self, failure: Exception) -> None:
        """It failed."""


class Looker(Protocol):
    """A subquery over a store: it knows at once what the store holds."""

    def look(self, partition: Any, entered: Sequence[Item], left: Sequence[Item]) -> None:
        """What entered and left in a context partition of the store's owner."""


class Store:
    """A named window: `owner` holds its rows, `readers` are told of what enters and leaves.

    Items begin with their ordinal and end with the row.
    """

    def __init__(self, type_: StoreType, columns: Iterable[str], changes: Changes, unseen: bool) -> None:
        self.type = type_
        self.name = type_.name
        self.columns = tuple(columns)
        self.owner: Owner
        self.readers: list[Reader] = []
        self.lookers: list[Looker] = []
        self.unseen = unseen  # rows are collected before anybody is told of them
        self.uniques: tuple[IndexType, ...] = ()  # the declared indexes that are unique
        self._changes = changes

    def inserted(self, row: Row) -> None:
        """A row of ``insert into``; the store's own dict has its columns, and only these."""
        self.owner.insert({name: row.get(name) for name in self.columns})

    def put(self, rows: Iterable[Row], now: int) -> None:
        """Rows of a query, all at once."""
        own = [{name: row.get(name) for name in self.columns} for row in rows]
        if self.type.context is None:
            self.move(self.owner.state_of(None), (), [(row, None) for row in own], now)
            return
        for row in own:
            self.owner.insert(row)

    def changed(self, state: Any, entered: Sequence[Item], left: Sequence[Item], now: int) -> None:
        """What entered and left the contents in `state`."""
        if state[2] is not None:
            state[2].change(entered, left)
        for looker in self.lookers:
            looker.look(state[0], entered, left)
        if self.readers:
            self._changes.add(Moved(self, state[0], entered, left))

    def functions(self, partition_of: Callable[[Any], Any]) -> dict[str, Callable[..., Any]]:
        """What generated code of on-triggers calls; `partition_of` gives the context partition of a state of theirs."""
        return {
            "target": lambda state: self.owner.state_of(partition_of(state)),
            "contents": self.contents,
            "by_key": self.by_key,
            "within": self.within,
            "move": self.move,
        }

    def contents(self, state: Any) -> list[Item]:
        """The items in a state of the owner; those that are still collected for a batch, too."""
        return list(state[1].contents())

    def by_key(self, state: Any, columns: tuple[str, ...], key: Any) -> list[Item]:
        """Those whose `columns` have the values of `key`."""
        found = self._index(state, HashIndex, columns).table.get(key)
        return [] if found is None else list(found.values())

    def within(self, state: Any, column: str, low: Any, high: Any, with_low: bool, with_high: bool) -> list[Item]:
        """Those whose `column` lies between two values, in order of arrival."""
        found = self._index(state, SortedIndex, (column,)).within(low, high, with_low, with_high)
        return sorted(found, key=_ordinal)

    def _index(self, state: Any, kind: type[Any], columns: tuple[str, ...]) -> Any:
        """The index of a kind over `columns`, made when it is first needed."""
        relation = self._relation(state)
        for index in relation.indexes:
            if type(index) is kind and isinstance(index.key, ColumnKey) and index.key.columns == columns:
                return index
        made = kind(ColumnKey(columns))
        relation.add_index(made)
        return made

    def _relation(self, state: Any) -> Relation:
        """The contents with indexes. A batch that is being collected changes unseen: it is looked through anew."""
        relation: Relation | None = state[2]
        if relation is None or self.unseen:
            relation = Relation()
            for item in state[1].contents():
                relation.enter(item)
            state[2] = None if self.unseen else relation
        return relation

    # -------------------------------------------------------------- unique indexes
    def admit(self, state: Any, change: tuple[Sequence[Item], Sequence[Item]], now: int) -> Any:
        """`change`, unless what enters has the key of a row that stays: that does not enter, and it is an error."""
        if not self.uniques:
            return change
        entered, left = change
        gone = {item[0] for item in (*entered, *left)}
        if state[2] is None and not self.unseen:  # what enters is there already, and is told of later
            relation = state[2] = Relation()
            relation.change([item for item in state[1].contents() if item[0] not in gone], ())
        found: list[Item] = []
        why = ""
        for item in entered:
            clash = self._clash(state, item[-1], gone, found)
            if clash is None:
                found.append(item)
            else:
                why = clash
                state[1].discard(item)
        if not why:
            return change
        if found or left:
            self.owner.program["apply"](state, found, left, now)
        raise ValueError(why)

    def _clash(self, state: Any, row: Row, gone: Container[int], more: Sequence[Item]) -> str | None:
        """What forbids a row beside those that are there, without those that are `gone`, and `more`."""
        for index in self.uniques:
            key = ColumnKey(tuple(name for name, _ in index.columns))
            value = key((row,))
            held = [*self.by_key(state, key.columns, value), *(item for item in more if key(item) == value)]
            if any(item[0] not in gone for item in held):
                return f"unique index `{index.name}`: `{self.name}` has a row with {_shown(key.columns, row)} already"
        return None

    def clash(self, index: IndexType) -> str | None:
        """A key of `index` that several rows have."""
        key = ColumnKey(tuple(name for name, _ in index.columns))
        for _, state in self.owner.states():
            seen: set[Any] = set()
            for item in self.contents(state):
                value = key(item)
                if value in seen:
                    return _shown(key.columns, item[-1])
                seen.add(value)
        return None

    # -------------------------------------------------------------- changes by others
    def move(self, state: Any, old: Sequence[Item], new: Sequence[tuple[Row, Item | None]], now: int) -> None:
        """Take items out and put rows in, each with the item that it was, as one change.

        What the data windows push out goes with what is taken out.
        """
        view = state[1]
        if self.uniques and new:
            gone, fresh = {item[0] for item in old}, list[Item]()
            for row, _ in new:
                clash = self._clash(state, row, gone, fresh)
                if clash is not None:
                    raise ValueError(clash)
                fresh.append((-1, row))
        for item in old:
            view.discard(item)
        entered: list[Item] = []
        left: list[Item] = []
        posted = [view.thinned(now)] if old else []
        posted += [self.owner.program["arrive"](row, state, now) for row, _ in new]
        for change in posted:
            if change is not None:
                entered += change[0]
                left += change[1]
        if not self.unseen:
            left += old
        if entered or left:
            self.owner.program["apply"](state, entered, left, now)

    def stored(self, states: Iterable[Any]) -> list[Item]:
        """The items in some of the owner's states."""
        return [item for state in states for item in state[1].contents()]


def replaced(store: Store, rows: Iterable[Row], now: int) -> None:
    """A named window without a context holds these rows, and no others."""
    state = store.owner.state_of(None)
    own = [({name: row.get(name) for name in store.columns}, None) for row in rows]
    store.move(state, store.contents(state), own, now)


def declare(stores: Mapping[str, Store], indexes: Mapping[str, IndexType]) -> None:
    """These are the indexes that are declared now."""
    for store in stores.values():
        store.uniques = tuple(each for each in indexes.values() if each.store == store.name and each.unique)


def _shown(columns: Sequence[str], row: Row) -> str:
    return ", ".join(f"{name} = {row[name]!r}" for name in columns)


def _ordinal(item: Item) -> int:
    return int(item[0])


class ColumnKey(State):
    """The key of an index over columns of a store's rows; all NaN are one key."""

    __slots__ = ("columns",)

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns

    def __call__(self, item: Item) -> Any:
        row, columns = item[-1], self.columns
        return one_nan(row[columns[0]]) if len(columns) == 1 else tuple([one_nan(row[name]) for name in columns])


@dataclass(frozen=True, slots=True)
class Moved:
    """What entered and left a store, in the context partition `partition` of its owner."""

    store: Store
    partition: Any
    entered: Sequence[Item]
    left: Sequence[Item]


class Changes:
    """What moved and was not handed on yet. `waits` makes the round look when the present event was seen."""

    def __init__(self, waits: Callable[[], None]) -> None:
        self._waits = waits
        self._moved: list[Moved] = []

    def __bool__(self) -> bool:
        return bool(self._moved)

    def add(self, moved: Moved) -> None:
        """Hand this on when all statements have seen the present event."""
        if not self._moved:
            self._waits()
        self._moved.append(moved)

    def spread(self) -> None:
        """Hand on what has moved so far, to one reader after another; each is told of all of it at once."""
        moved, self._moved = self._moved, []
        readers = {id(reader): reader for each in moved for reader in each.store.readers}
        for reader in sorted(readers.values(), key=lambda r: r.order):
            try:
                reader.take([each for each in moved if reader in each.store.readers])
            except Exception as failure:  # noqa: BLE001 - reported to the error feed
                reader.failed(failure)


def together(moved: Sequence[Moved]) -> tuple[Sequence[Item], Sequence[Item]]:
    """All that entered, and all that left."""
    if len(moved) == 1:
        return moved[0].entered, moved[0].left
    return [i for each in moved for i in each.entered], [i for each in moved for i in each.left]
