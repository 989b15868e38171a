"""Relations: items in order of arrival, with indexes that each change keeps up to date.

An item is a tuple that starts with its ordinal, unique and ascending within the relation. A relation is plain state;
its key functions are parts of the program.

::

    enter (1,'a') (2,'b') (3,'a')      rows {1: …, 2: …, 3: …}      hash {'a': {1: …, 3: …}, 'b': {2: …}}
    leave (1,'a')                      rows {2: …, 3: …}            hash {'a': {3: …}, 'b': {2: …}}
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Any

from cepbook.engine.state import SortedList, State

Item = tuple[Any, ...]
ItemKey = Callable[[Item], Any]


class RelationIndex(State):
    """Items by key, `key(item)`."""

    __slots__ = ("key",)

    def __init__(self, key: ItemKey) -> None:
        self.key = key

    def enter(self, item: Item) -> None:
        """Add an item."""
        raise NotImplementedError

    def leave(self, item: Item) -> None:
        """Remove an item, if it is there."""
        raise NotImplementedError

    def replace(self, old: Item, new: Item) -> None:
        """Replace an item by another one with the same ordinal."""
        self.leave(old)
        self.enter(new)

    def change(self, entered: Sequence[Item], left: Sequence[Item]) -> None:
        """Apply a delta. An item that enters and leaves in it is not kept."""
        for item in entered:
            self.enter(item)
        for item in left:
            self.leave(item)


class ArrivalIndex(RelationIndex):
    """All items by ordinal, in order of arrival."""

    __slots__ = ("rows",)

    def __init__(self, key: ItemKey) -> None:
        super().__init__(key)
        self.rows: dict[int, Item] = {}

    def enter(self, item: Item) -> None:
        self.rows[item[0]] = item

    def leave(self, item: Item) -> None:
        self.rows.pop(item[0], None)


class HashIndex(RelationIndex):
    """Items of each key by ordinal, in order of arrival; null is a key.

    Generated code reads `table`; the cost of a lookup does not depend on the number of items.
    """

    __slots__ = ("column", "table")

    def __init__(self, key: ItemKey) -> None:
        super().__init__(key)
        self.column: str | None = getattr(key, "column", None)  # the key, if it is one column of the item's row
        self.table: dict[Any, dict[int, Item]] = {}

    def enter(self, item: Item) -> None:
        key = self.key(item)
        same = self.table.get(key)
        if same is None:
            self.table[key] = {item[0]: item}
        else:
            same[item[0]] = item

    def leave(self, item: Item) -> None:
        key = self.key(item)
        same = self.table.get(key)
        if same is not None:
            same.pop(item[0], None)
            if not same:
                del self.table[key]

    def replace(self, old: Item, new: Item) -> None:
        key = self.key(new)
        if self.key(old) == key and key in self.table:
            self.table[key][new[0]] = new
        else:
            super().replace(old, new)

    def change(self, entered: Sequence[Item], left: Sequence[Item]) -> None:
        column = self.column
        if column is not None and len(entered) == len(left) == 1:
            new, old = entered[0], left[0]
            key = new[-1][column]  # the most common change, without calls; NaN does not equal itself
            same = self.table.get(key) if key == old[-1][column] and new[0] != old[0] else None
            if same is not None:
                same.pop(old[0], None)
                same[new[0]] = new
                return
        super().change(entered, left)


class SortedIndex(HashIndex):
    """Items by an ordered key, for ranges. Items whose key is null or NaN are in no range and are left out.

    `keys` has each key once, so keys are compared, not pairs of keys and ordinals.
    """

    __slots__ = ("keys",)

    def __init__(self, key: ItemKey) -> None:
        super().__init__(key)
        self.keys: Any = SortedList()

    def enter(self, item: Item) -> None:
        key = self.key(item)
        if key is None or key != key:
            return
        same = self.table.get(key)
        if same is None:
            self.table[key] = {item[0]: item}
            self.keys.add(key)
            return
        late = item[0] < next(reversed(same))
        same[item[0]] = item
        if late:  # its key has changed
            self.table[key] = dict(sorted(same.items()))

    def leave(self, item: Item) -> None:
        key = self.key(item)
        same = None if key is None else self.table.get(key)
        if same is not None and same.pop(item[0], None) is not None and not same:
            del self.table[key]
            self.keys.remove(key)

    def within(self, low: Any, high: Any, with_low: bool, with_high: bool) -> Iterable[Item]:
        """Return the items with keys between `low` and `high` (None: no bound; included if `with_…`), by key,
        arrival.
        """
        if low is not None and high is not None and not low <= high:
            return ()
        table = self.table
        return [item for key in self.keys.irange(low, high, (with_low, with_high)) for item in table[key].values()]


class CompositeIndex(HashIndex):
    """Items by key and, where a key has many, by an ordered value; `key(item)` returns the parts of both.

    Null and NaN are in no range. Only keys with more than `MANY` items are sorted; for the others all items are
    returned.
    """

    __slots__ = ("bands",)
    MANY = 32

    def __init__(self, key: ItemKey) -> None:
        super().__init__(key)
        self.bands: dict[Any, Any] = {}  # by key: SortedList of (value, ordinal)

    def enter(self, item: Item) -> None:
        *key_parts, value = self.key(item)
        key = key_parts[0] if len(key_parts) == 1 else tuple(key_parts)
        same = self.table.setdefault(key, {})
        same[item[0]] = item
        if key in self.bands:
            if value is not None and value == value:
                self.bands[key].add((value, item[0]))
        elif len(same) > self.MANY:
            values = ((self.key(other)[-1], ordinal) for ordinal, other in same.items())
            self.bands[key] = SortedList(pair for pair in values if pair[0] is not None and pair[0] == pair[0])

    def leave(self, item: Item) -> None:
        *key_parts, value = self.key(item)
        key = key_parts[0] if len(key_parts) == 1 else tuple(key_parts)
        same = self.table.get(key, {})
        if same.pop(item[0], None) is None:
            return
        if key in self.bands:
            if value is not None and value == value:
                self.bands[key].discard((value, item[0]))
            if len(same) <= self.MANY // 2:
                del self.bands[key]
        if not same:
            del self.table[key]

    replace = RelationIndex.replace

    def within(self, key: Any, low: Any, high: Any) -> Iterable[Item]:
        """Return the items of `key` by arrival; of many, those between `low` and `high` (None: no bound) if few."""
        same = self.table.get(key)
        if same is None:
            return ()
        band = self.bands.get(key)
        if band is None:
            return same.values()
        begin = 0 if low is None else band.bisect_left((low,))
        end = len(band) if high is None else band.bisect_right((high, inf))
        if 4 * (end - begin) > len(same):  # scanning all costs less than sorting these by arrival
            return same.values()
        return [same[ordinal] for ordinal in sorted([ordinal for _, ordinal in band.islice(begin, end)])]


class Relation(State):
    """Items by ordinal, in order of arrival, with `indexes`. After a batch that ran over arrays both are deferred
    (`state.defer`).
    """

    __slots__ = ("indexes", "rows", "stored")
    PASSING = ("stored",)
    DEFERRED = ("rows", "indexes")

    def __init__(self, indexes: Iterable[RelationIndex] = ()) -> None:
        self.rows: dict[int, Item] = {}
        self.indexes = list(indexes)
        self.stored: Any = None

    def enter(self, item: Item) -> None:
        """Add an item."""
        self.rows[item[0]] = item
        for index in self.indexes:
            index.enter(item)

    def leave(self, item: Item) -> None:
        """Remove an item, if it is there."""
        if self.rows.pop(item[0], None) is not None:
            for index in self.indexes:
                index.leave(item)

    def replace(self, old: Item, new: Item) -> None:
        """Replace an item by another one with the same ordinal."""
        self.rows[new[0]] = new
        for index in self.indexes:
            index.replace(old, new)

    def change(self, entered: Sequence[Item], left: Sequence[Item]) -> None:
        """Apply a delta. An item that enters and leaves in it is not kept."""
        rows = self.rows
        for item in entered:
            rows[item[0]] = item
        for item in left:
            rows.pop(item[0], None)
        for index in self.indexes:
            index.change(entered, left)

    def add_index(self, index: RelationIndex) -> None:
        """Add an index and fill it from the contents."""
        for item in self.rows.values():
            index.enter(item)
        self.indexes.append(index)
