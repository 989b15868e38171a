"""Tables at run time: rows by primary key, with plain columns and the cells of aggregation columns.

An item is (ordinal, cells, row). The cells are one flat list (see `aggregates.table_columns`) that ends with the row, a
dict of all columns. A statement that feeds an aggregation column also updates the value of that column in the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from cepbook.engine.delivery.delta import Row
from cepbook.engine.expressions.hashable import hashable, unhashed
from cepbook.engine.relations.relation import ItemKey
from cepbook.engine.relations.statement_state import StoreState
from cepbook.engine.relations.store import Item, PendingChanges, Store
from cepbook.engine.relations.store_indexes import ColumnKey, IndexName, IndexRequest
from cepbook.engine.windows.window_view import PassThroughView
from cepbook.lang.java.hashes import in_hash_order
from cepbook.lang.plan.catalog import StoreType


class TableRows(PassThroughView):
    """The items of a table by key. `freed` are keys of unique indexes that an update may take, see `Table.check`."""

    __slots__ = ("freed", "items")

    def __init__(self) -> None:
        super().__init__()
        self.items: dict[Any, Item] = {}
        self.freed: dict[Any, None] = {}

    def contents(self) -> Iterable[Item]:
        return self.items.values()

    def display_order(self) -> Iterable[Item]:
        return in_hash_order(self.items)

    def retained(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True)
class TableFunctions:
    """The generated functions of a table, and the places of its aggregation columns among the cells of a row."""

    new_cells: Callable[[Row], list[Any]]  # the cells of a new row, with the row itself at the end
    key_of: Callable[[Row], Any]  # the primary key: one value, a tuple of several, or () for a table of one row
    accumulators: Mapping[str, Callable[[list[Any]], Any]]  # (cells): the accumulator of a column with methods
    places: Mapping[str, slice]


class TableState(StoreState):
    """The state of a statement that created a table."""

    __slots__ = ()
    view: TableRows


class Table(Store):
    """A running table. Readers are not notified of changes: they look into the rows or indexes.

    Aggregation columns change in place, so there are no indexes on them. For each follower the table notes the keys
    that changed since the follower last asked, so an aggregate over all rows need not be recomputed.
    """

    def __init__(
        self, type_: StoreType, columns: Iterable[str], changes: PendingChanges, functions: TableFunctions
    ) -> None:
        super().__init__(type_, columns, changes, False)
        self._functions = functions
        self._alone = type_.context is None  # there is one state
        self.followers: dict[str, tuple[object, dict[Any, None]]] = {}  # state, changed keys

    def _state(self, partition: Any) -> Any:
        return self.owner.state if self._alone else self.owner.state_of(partition)

    def read(self, partition: Any, key: Any, column: str) -> Any:
        """Return a column of the row under `key`, or null."""
        item = self._state(partition).view.items.get(key)
        return None if item is None else item[1][-1][column]

    def accumulator(self, partition: Any, key: Any, column: str) -> Any:
        """Return the accumulator of a column of the row under `key`, or null."""
        item = self._state(partition).view.items.get(key)
        return None if item is None else self._functions.accumulators[column](item[1])

    def row(self, partition: Any, key: Any) -> Row | None:
        """Return the row under `key`, or null."""
        item = self._state(partition).view.items.get(key)
        return None if item is None else dict(item[1][-1])

    def keys(self, partition: Any) -> list[Any]:
        """Return all keys; a key of several columns is an array."""
        keys = [unhashed(key) for key in in_hash_order({key: key for key in self._state(partition).view.items})]
        return keys if len(self.type.keys) == 1 else [list(key) for key in keys if isinstance(key, tuple)]

    def follow(self, name: str, known: object) -> None:
        """Note that `name` has read all rows; `known` is an object of its state, which differs in a restored state."""
        self.followers[name] = known, {}

    def since(self, name: str, known: object) -> dict[Any, None] | None:
        """Return the keys changed since the follower's last call; None: it must read all rows and call `follow`."""
        follower = self.followers.get(name)
        if follower is None or follower[0] is not known:
            return None
        if follower[1]:
            self.followers[name] = known, {}
        return follower[1]

    def unfollow(self, name: str) -> None:
        """Remove the follower `name`."""
        self.followers.pop(name, None)

    def touch(self, key: Any) -> None:
        """Note that the row under `key` changes."""
        for _, keys in self.followers.values():
            keys[key] = None

    def items(self, partition: Any) -> dict[Any, Item]:
        """Return all items by key."""
        items: dict[Any, Item] = self._state(partition).view.items
        return items

    def cells(self, partition: Any, key: Any) -> list[Any]:
        """Return the cells of the row under `key`; a missing row is created."""
        state = self.owner.state if self._alone else self.owner.state_of(partition)
        item = state.view.items.get(key)
        if item is None:
            row = dict.fromkeys(self.columns)
            keys = (key,) if len(self.type.keys) == 1 else key
            row.update(zip(self.type.keys, map(unhashed, keys), strict=True))
            item = self._put(state, key, row)
        cells: list[Any] = item[1]
        return cells

    def peek(self, partition: Any, key: Any) -> list[Any]:
        """Return the cells of the row under `key`, or those of a new row."""
        item = self._state(partition).view.items.get(key)
        return self.fresh({}) if item is None else item[1]

    def fresh(self, row: Row) -> list[Any]:
        """Return the cells of a new row."""
        cells: list[Any] = self._functions.new_cells(row)
        return cells

    def blank(self, row: Row, names: Sequence[str]) -> None:
        """Reset aggregation columns of a row to their initial values."""
        begin = self.fresh({})[-1]
        row.update((name, begin[name]) for name in names)

    def renew(self, item: Item, names: Sequence[str]) -> None:
        """Reset the cells of aggregation columns of a row."""
        begin, places = self.fresh({}), self._functions.places
        for name in names:
            item[1][places[name]] = begin[places[name]]
        self.touch(self.key(item[-1]))

    def functions(self, in_context: bool) -> dict[str, Any]:
        return {**super().functions(in_context), "blank": self.blank, "renew": self.renew}

    @property
    def unchecked_move(self) -> Callable[..., None]:
        return self.move

    def _put(self, state: Any, key: Any, row: Row) -> Item:
        cells = self.fresh(row)
        self.touch(key)
        state.ordinal += 1
        item = state.view.items[key] = (state.ordinal, cells, cells[-1])
        for index in state.indexes.values():
            index.enter(item)
        return item

    def key(self, row: Row) -> Any:
        """Return the key of a row."""
        return self._functions.key_of(row)

    def inserted(self, row: Row, partition: Any = None) -> None:
        """Insert a row. Errors: ValueError if the key or a unique index is taken."""
        state, row = self._state(partition), {name: row.get(name) for name in self.columns}
        key = self.key(row)
        why = self._taken(row) if key in state.view.items else self._clash(state, row, (), ())
        if why is not None:
            state.view.freed.update(dict.fromkeys(self._unique_keys(row)))
            raise ValueError(why)
        self._put(state, key, row)

    def partitions_of(self, row: Row) -> None:
        return None

    def refusal(self, state: Any, old: Iterable[Item], new: Sequence[Row]) -> str | None:
        gone = {self.key(item[-1]) for item in old}
        after: set[Any] = set()
        for row in new:
            key = self.key(row)
            if key in after or (key in state.view.items and key not in gone):
                return self._taken(row)
            after.add(key)
        return super().refusal(state, old, new)

    def check(self, state: Any, old: Iterable[Item], new: Sequence[Row], origins: Sequence[Item | None]) -> None:
        """Check a change like `Store.check`, but let an update take a unique key for which an insert was refused
        (recorded: tx_secondary_unique_index).
        """
        freed = state.view.freed.keys()
        if freed:
            pairs = [pair for pair in zip(new, origins, strict=True) if not self._takes(*pair, freed)]
            new, origins = [row for row, _ in pairs], [origin for _, origin in pairs]
        super().check(state, old, new, origins)

    def _takes(self, row: Row, origin: Item | None, freed: Set[Any]) -> bool:
        same_key = origin is not None and self.key(row) == self.key(origin[-1])
        return same_key and not freed.isdisjoint(self._unique_keys(row))

    def _unique_keys(self, row: Row) -> list[Any]:
        keys = ((index.name, ColumnKey(tuple(name for name, _ in index.columns))((row,))) for index in self.uniques)
        return [(name, hashable(key)) for name, key in keys]

    def _taken(self, row: Row) -> str:
        keys = ", ".join(f"{name} = {row[name]!r}" for name in self.type.keys)
        return f"table `{self.name}` has a row {f'with {keys}' if keys else ''} already".replace("  ", " ")

    def admit(self, state: Any, change: Any, now: int) -> Any:
        return change

    def move(
        self, state: Any, old: Sequence[Item], new: Sequence[Row], origins: Sequence[Item | None], now: int
    ) -> None:
        """Remove, change and insert rows; changed rows keep their cells. The statement of a table delivers nothing.
        Errors as `inserted`, before any change.
        """
        items = state.view.items
        if len(new) == 1 and len(old) == 1 and origins[0] is old[0]:
            row, key = new[0], self.key(new[0])
            if key == self.key(old[0][-1]) and not self.uniques:
                self._exchange(state, key, old[0], row)
                return
        self.check(state, old, new, origins)
        changed = {origin[0]: row for row, origin in zip(new, origins, strict=True) if origin is not None}
        for item in old:
            self.touch(self.key(item[-1]))
        stays = {self.key(row) for row in changed.values()}  # keys of rows that stay
        for item in old:
            if self.key(item[-1]) not in stays:
                del items[self.key(item[-1])]
            if item[0] not in changed:
                for index in state.indexes.values():
                    index.leave(item)
        for row, origin in zip(new, origins, strict=True):
            if origin is None:
                self._put(state, self.key(row), row)
                continue
            changed_row = changed[origin[0]]
            self._exchange(state, self.key(changed_row), origin, changed_row)

    def _exchange(self, state: Any, key: Any, origin: Item, row: Row) -> None:
        self.touch(key)
        origin[1][-1] = row
        item = state.view.items[key] = (origin[0], origin[1], row)
        for index in state.indexes.values():
            index.replace(origin, item)

    def keeps(self, want: IndexRequest) -> bool:
        return want.kind not in ("key", "rows")

    def lookup_function(self, want: IndexRequest, name: IndexName, key: ItemKey, lasting: bool) -> Callable[[Any], Any]:
        if self.keeps(want):
            return super().lookup_function(want, name, key, lasting)
        return lambda state: state.view.items

    def has_index_for(self, want: IndexRequest) -> bool:
        primary = bool(self.type.keys) and {*self.type.keys} <= {*want.columns}
        return want.kind == "key" or (primary and want.kind == "hash") or super().has_index_for(want)

    def _some(self, state: Any, want: IndexRequest) -> Callable[[Any], Iterable[Item]] | None:
        keys, items = self.type.keys, state.view.items
        if not keys or not set(keys) <= set(want.columns):
            return super()._some(state, want)
        places = [want.columns.index(name) for name in keys]

        def one(key: Any) -> Iterable[Item]:
            item = items.get(key[places[0]] if len(places) == 1 else tuple(key[place] for place in places))
            return () if item is None else (item,)

        return one
