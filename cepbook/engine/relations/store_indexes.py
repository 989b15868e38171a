"""The contents of a store as one relation that all its readers look into, each by the index that it wants.

An index is made when the first reader wants it, and dropped when the last one has gone. Readers that are told of
changes later than these happen (joins) see the contents as they were told of, `as_reported`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

from cepbook.engine.expressions.hashable import canonical_nan
from cepbook.engine.relations.relation import (
    CompositeIndex,
    HashIndex,
    Item,
    ItemKey,
    Relation,
    RelationIndex,
    SortedIndex,
)
from cepbook.engine.state import State

IndexName = tuple[Any, ...]
UnreportedChange = tuple[Any, Sequence[Item], Sequence[Item]]  # (context partition, None: of all; entered; left)
_ordinal = itemgetter(0)


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """What a reader looks into: a ``hash``, ``sorted`` or ``composite`` index, ``rows``, or a table by its ``key``.

    The index is on `columns`, or on what the reader's own `function` gives of an item.
    """

    kind: str
    columns: tuple[str, ...] = ()
    function: str = ""

    def name(self, reader: str) -> IndexName:
        """What readers share that want the same; `reader` identifies the one whose function it is."""
        return (self.kind, "", reader, self.function) if self.function else (self.kind, *self.columns)

    @property
    def by_keys(self) -> IndexRequest:
        """Instead of a composite index: a hash index on its keys alone."""
        return IndexRequest("hash", self.columns[:-1])


class ColumnKey(State):
    """The key of an index over columns of a store's rows; all NaN are one key."""

    __slots__ = ("columns",)

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns

    def __call__(self, item: Item) -> Any:
        row, columns = item[-1], self.columns
        return (
            canonical_nan(row[columns[0]])
            if len(columns) == 1
            else tuple([canonical_nan(row[name]) for name in columns])
        )


@dataclass(slots=True)
class RequestedIndex:
    """An index that is wanted by `users`; of a kind ``rows`` only the rows are."""

    kind: str
    key: ItemKey
    users: list[Any] = field(default_factory=list)

    def made(self) -> RelationIndex | None:
        """The index, without items."""
        return _KINDS[self.kind](self.key) if self.kind in _KINDS else None


_KINDS: dict[str, type[RelationIndex]] = {"hash": HashIndex, "sorted": SortedIndex, "composite": CompositeIndex}


class StoreContents(Relation):
    """What a store holds. `named` are its indexes by what is wanted."""

    __slots__ = ("named",)

    def __init__(self, items: Iterable[Item]) -> None:
        super().__init__()
        self.named: dict[IndexName, RelationIndex] = {}
        for item in sorted(items, key=_ordinal):  # views may have another order
            self.rows[item[0]] = item

    def name(self, name: IndexName, wanted: RequestedIndex) -> None:
        """Make the index of this name, if it is one and there is none."""
        index = None if name in self.named else wanted.made()
        if index is not None:
            self.add_index(index)
            self.named[name] = index

    def drop(self, name: IndexName) -> None:
        """Forget the index of this name."""
        index = self.named.pop(name, None)
        if index is not None:
            self.indexes.remove(index)


class UnindexedItems:
    """Items as an index that nobody keeps: what is looked into where there is none, as a query does that asks once.

    ``some(key)`` gives the items to be looked through for a key, if an index over a part of it knows them.
    """

    def __init__(
        self, items: Callable[[], Collection[Item]], key: ItemKey, some: Callable[[Any], Iterable[Item]] | None = None
    ) -> None:
        self._items = items
        self._key = key
        self._some = some
        self._index: HashIndex | None = None

    @property
    def table(self) -> dict[Any, dict[int, Item]]:
        """The items by key."""
        if self._index is None:
            self._index = HashIndex(self._key)
            for item in sorted(self._items(), key=_ordinal):
                self._index.enter(item)
        return self._index.table

    def get(self, key: Any, default: Any) -> Any:
        """The items of a key, by their ordinals."""
        if self._some is None:
            return self.table.get(key, default)
        return {item[0]: item for item in self._some(key) if self._key(item) == key}

    def __contains__(self, key: Any) -> bool:
        return bool(self.get(key, None))

    def __bool__(self) -> bool:
        return bool(self._items())

    def values(self) -> Collection[Item]:
        """All items."""
        return self._items()

    def within(self, low: Any, high: Any, with_low: bool, with_high: bool) -> Iterable[Item]:
        """As `SortedIndex.within`."""
        index = SortedIndex(self._key)
        for item in self._items():
            key = self._key(item)
            if key is not None and (low is None or low <= key) and (high is None or key <= high):
                index.enter(item)
        return index.within(low, high, with_low, with_high)


class UnbandedIndex:
    """What is looked into by keys alone as a composite index, which need not tell items of one key apart."""

    def __init__(self, looked: Any) -> None:
        self.table = looked

    def within(self, key: Any, low: Any, high: Any) -> Collection[Item]:
        """The items of `key`, whatever lies between `low` and `high`."""
        found: Collection[Item] = self.table.get(key, _NOTHING).values()
        return found


def as_reported(
    looked: Any, want: IndexRequest, key: ItemKey, missed: Sequence[UnreportedChange]
) -> UnindexedItems | UnbandedIndex:
    """What is `looked` into as it was before the changes that its reader has not been told of."""
    if want.kind == "composite":
        by_keys = as_reported(looked.table, want.by_keys, ColumnKey(want.columns[:-1]), missed)
        return UnbandedIndex(by_keys)
    kind = want.kind
    since: set[int] = set()
    former: dict[int, Item] = {}
    for _, entered, left in missed:
        since.update(item[0] for item in entered)
        former.update((item[0], item) for item in left if item[0] not in since)

    def before(found: Iterable[Item], more: Iterable[Item]) -> list[Item]:
        return sorted(chain((item for item in found if item[0] not in since), more), key=_ordinal)

    def of_key(wanted: Any) -> list[Item]:
        return before(looked.get(wanted, _NOTHING).values(), (i for i in former.values() if key(i) == wanted))

    if kind == "hash":
        return UnindexedItems(lambda: (), key, of_key)
    rows = looked.values() if kind == "rows" else (i for same in looked.table.values() for i in same.values())
    found = before(rows, former.values())
    return UnindexedItems(lambda: found, key)


_NOTHING: dict[int, Item] = {}


def lookup_keys(looked: Any, keys: Iterable[Any]) -> list[Item]:
    """The items of several keys in a hash index, in order of arrival. Null and NaN are in no list."""
    found = [looked.get(key, _NOTHING).values() for key in dict.fromkeys(keys) if key is not None and key == key]
    return list(found[0]) if len(found) == 1 else sorted(chain(*found), key=_ordinal)


def lookup_primary_keys(rows: dict[Any, Item], keys: Iterable[Any]) -> list[Item]:
    """The rows of a table with several primary keys, in order of arrival."""
    found = (rows.get(key) for key in dict.fromkeys(keys) if key is not None and key == key)
    return sorted((item for item in found if item is not None), key=_ordinal)


def in_arrival_order(items: Iterable[Item]) -> list[Item]:
    """`items` in order of arrival."""
    return sorted(items, key=_ordinal)
