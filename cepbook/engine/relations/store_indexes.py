"""The indexes of a store that its readers share.

An index is built for the first reader that requests it and dropped with the last one. Readers that are notified of
changes later than they happen (joins) see the contents as reported so far, `as_reported`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import itemgetter
from typing import Any

from cepbook.engine.expressions.hashable import canonical_nan
from cepbook.engine.relations.relation import (
    ArrivalIndex,
    CompositeIndex,
    HashIndex,
    Item,
    ItemKey,
    RelationIndex,
    SortedIndex,
)
from cepbook.engine.state import State

IndexName = tuple[Any, ...]
UnreportedChange = tuple[Any, Sequence[Item], Sequence[Item]]  # (context partition, None: of all; entered; left)
_ordinal = itemgetter(0)


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """A reader's request for a `hash`, `sorted` or `composite` index, for `rows`, or for a table by its `key`.

    The index is on `columns`, or on the result of the reader's own `function`.
    """

    kind: str
    columns: tuple[str, ...] = ()
    function: str = ""

    def name(self, reader: str) -> IndexName:
        """Return the index name, equal for readers that can share; `reader` identifies the owner of a function."""
        return (self.kind, "", reader, self.function) if self.function else (self.kind, *self.columns)

    @property
    def by_keys(self) -> IndexRequest:
        """A hash index on the keys alone, in place of a composite index."""
        return IndexRequest("hash", self.columns[:-1])


class ColumnKey(State):
    """Key function of an index on columns of a store's rows. All NaN are one key."""

    __slots__ = ("column", "columns")

    def __init__(self, columns: tuple[str, ...]) -> None:
        self.columns = columns
        self.column = columns[0] if len(columns) == 1 else None

    def __call__(self, item: Item) -> Any:
        if self.column is None:
            row = item[-1]
            return tuple([canonical_nan(row[name]) for name in self.columns])
        value = item[-1][self.column]
        return value if value == value else canonical_nan(value)


@dataclass(slots=True)
class RequestedIndex:
    """An index that `users` request."""

    kind: str
    key: ItemKey
    users: list[Any] = field(default_factory=list)

    def build(self, items: Iterable[Item]) -> RelationIndex:
        """Return a new index of `items`."""
        index = _KINDS[self.kind](self.key)
        for item in sorted(items, key=_ordinal):  # a view may have another order
            index.enter(item)
        return index


_KINDS: dict[str, type[RelationIndex]] = {
    "hash": HashIndex,
    "sorted": SortedIndex,
    "composite": CompositeIndex,
    "rows": ArrivalIndex,
}


class UnindexedItems:
    """Items with the interface of an index, for lookups that are not worth one (a query that runs once).

    `some(key)` returns candidates for a key, if an index on a part of it knows them.
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
        """Return the items of a key by ordinal."""
        if self._some is None:
            return self.table.get(key, default)
        return {item[0]: item for item in self._some(key) if self._key(item) == key}

    def __contains__(self, key: Any) -> bool:
        return bool(self.get(key, None))

    def __bool__(self) -> bool:
        return bool(self._items())

    def values(self) -> Collection[Item]:
        """Return all items."""
        return self._items()

    def within(self, low: Any, high: Any, with_low: bool, with_high: bool) -> Iterable[Item]:
        """Return the items in a range, like `SortedIndex.within`."""
        index = SortedIndex(self._key)
        for item in self._items():
            key = self._key(item)
            if key is not None and (low is None or low <= key) and (high is None or key <= high):
                index.enter(item)
        return index.within(low, high, with_low, with_high)


class UnbandedIndex:
    """A hash index with the interface of a composite index; it ignores the range."""

    def __init__(self, looked: Any) -> None:
        self.table = looked

    def within(self, key: Any, low: Any, high: Any) -> Collection[Item]:
        """Return the items of `key`, whatever the bounds."""
        items: Collection[Item] = self.table.get(key, _NOTHING).values()
        return items


def as_reported(
    looked: Any, want: IndexRequest, key: ItemKey, missed: Sequence[UnreportedChange]
) -> UnindexedItems | UnbandedIndex:
    """Return `looked` as it was before the changes that its reader has not been notified of."""
    if want.kind == "composite":
        by_keys = as_reported(looked.table, want.by_keys, ColumnKey(want.columns[:-1]), missed)
        return UnbandedIndex(by_keys)
    kind = want.kind
    since: set[int] = set()
    former: dict[int, Item] = {}
    for _, entered, left in missed:
        since.update(item[0] for item in entered)
        former.update((item[0], item) for item in left if item[0] not in since)

    def before(items: Iterable[Item], more: Iterable[Item]) -> list[Item]:
        return sorted(chain((item for item in items if item[0] not in since), more), key=_ordinal)

    def of_key(wanted: Any) -> list[Item]:
        return before(looked.get(wanted, _NOTHING).values(), (i for i in former.values() if key(i) == wanted))

    if kind == "hash":
        return UnindexedItems(lambda: (), key, of_key)
    rows = looked.values() if kind == "rows" else (i for same in looked.table.values() for i in same.values())
    items = before(rows, former.values())
    return UnindexedItems(lambda: items, key)


_NOTHING: dict[int, Item] = {}


def lookup_keys(looked: Any, keys: Iterable[Any]) -> list[Item]:
    """Return the items of several keys of a hash index in order of arrival. Null and NaN match nothing."""
    groups = [looked.get(key, _NOTHING).values() for key in dict.fromkeys(keys) if key is not None and key == key]
    return list(groups[0]) if len(groups) == 1 else sorted(chain(*groups), key=_ordinal)


def lookup_primary_keys(rows: dict[Any, Item], keys: Iterable[Any]) -> list[Item]:
    """Return the rows of a table with several primary keys in order of arrival."""
    matches = (rows.get(key) for key in dict.fromkeys(keys) if key is not None and key == key)
    return sorted((item for item in matches if item is not None), key=_ordinal)


def in_arrival_order(items: Iterable[Item]) -> list[Item]:
    """Return `items` in order of arrival."""
    return sorted(items, key=_ordinal)
