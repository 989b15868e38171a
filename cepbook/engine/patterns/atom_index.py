"""Indexes of the waiting instances of one atom in one matcher.

Results are in order of start; with a range, ascending by bound (recorded: match_order_correlated).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Generic, TypeVar

from cepbook.engine.patterns.state_node import NumberedNode
from cepbook.engine.state import State, created

Waiter = TypeVar("Waiter", bound=NumberedNode)
Sorted = list[tuple[Any, int, Waiter]]  # (bound, serial, waiter)
_bound = itemgetter(0)


class UnkeyedAtomIndex(State, Generic[Waiter]):
    """All instances of an atom without key, in order of start."""

    waiters: dict[int, Waiter] = created(dict)

    def __bool__(self) -> bool:
        return bool(self.waiters)

    def __iter__(self) -> Iterator[Waiter]:
        return iter(self.waiters.values())

    def add(self, waiter: Waiter, key: Any, bound: Any) -> None:
        """Add an instance; `key` and `bound` are values of its match. Null matches nothing and need not be added."""
        self.waiters[waiter.serial] = waiter

    def remove(self, waiter: Waiter, key: Any, bound: Any) -> None:
        del self.waiters[waiter.serial]

    def find(self, key: Any, bound: Any) -> list[Waiter]:
        """Return the instances that accept an event with this key and bound, neither of which is null."""
        return list(self.waiters.values())


class KeyedAtomIndex(State, Generic[Waiter]):
    """Instances by key.

    A single instance of a key is stored in the table itself, several in a dict in order of start.
    """

    table: dict[Any, Any] = created(dict)

    def __bool__(self) -> bool:
        return bool(self.table)

    def __iter__(self) -> Iterator[Waiter]:
        for entry in self.table.values():
            yield from entry.values() if isinstance(entry, dict) else (entry,)

    def add(self, waiter: Waiter, key: Any, bound: Any) -> None:
        entry = self.table.get(key)
        if entry is None:
            self.table[key] = waiter
        elif isinstance(entry, dict):
            entry[waiter.serial] = waiter
        else:
            self.table[key] = {entry.serial: entry, waiter.serial: waiter}

    def remove(self, waiter: Waiter, key: Any, bound: Any) -> None:
        entry = self.table[key]
        if entry is waiter:
            del self.table[key]
            return
        del entry[waiter.serial]
        if not entry:
            del self.table[key]

    def find(self, key: Any, bound: Any) -> list[Waiter]:
        entry = self.table.get(key)
        if entry is None:
            return []
        return list(entry.values()) if isinstance(entry, dict) else [entry]


class RangeAtomIndex(State, Generic[Waiter]):
    """Instances by bound. `op` compares the event with the bound."""

    op: str
    waiters: Sorted[Waiter] = created(list)

    def __bool__(self) -> bool:
        return bool(self.waiters)

    def __iter__(self) -> Iterator[Waiter]:
        return (waiter for _, _, waiter in self.waiters)

    def add(self, waiter: Waiter, key: Any, bound: Any) -> None:
        insort(self.waiters, (bound, waiter.serial, waiter))

    def remove(self, waiter: Waiter, key: Any, bound: Any) -> None:
        del self.waiters[bisect_left(self.waiters, (bound, waiter.serial))]

    def find(self, key: Any, bound: Any) -> list[Waiter]:
        return items_in_range(self.waiters, self.op, bound)


class KeyedRangeAtomIndex(State, Generic[Waiter]):
    """Instances by key and bound."""

    op: str
    table: dict[Any, Sorted[Waiter]] = created(dict)

    def __bool__(self) -> bool:
        return bool(self.table)

    def __iter__(self) -> Iterator[Waiter]:
        return (waiter for bounds in self.table.values() for _, _, waiter in bounds)

    def add(self, waiter: Waiter, key: Any, bound: Any) -> None:
        insort(self.table.setdefault(key, []), (bound, waiter.serial, waiter))

    def remove(self, waiter: Waiter, key: Any, bound: Any) -> None:
        bounds = self.table[key]
        del bounds[bisect_left(bounds, (bound, waiter.serial))]
        if not bounds:
            del self.table[key]

    def find(self, key: Any, bound: Any) -> list[Waiter]:
        bounds = self.table.get(key)
        return [] if bounds is None else items_in_range(bounds, self.op, bound)


AtomIndex = UnkeyedAtomIndex[Waiter] | KeyedAtomIndex[Waiter] | RangeAtomIndex[Waiter] | KeyedRangeAtomIndex[Waiter]


def items_in_range(waiters: Sorted[Waiter], op: str, value: Any) -> list[Waiter]:
    """Return the instances for whose bound ``value op bound`` holds, ascending by bound."""
    match op:
        case ">":
            matching = waiters[: bisect_left(waiters, value, key=_bound)]
        case ">=":
            matching = waiters[: bisect_right(waiters, value, key=_bound)]
        case "<":
            matching = waiters[bisect_right(waiters, value, key=_bound) :]
        case _:
            matching = waiters[bisect_left(waiters, value, key=_bound) :]
    return [waiter for _, _, waiter in matching]


def new_index(keyed: bool, op: str | None) -> AtomIndex[Waiter]:
    """Return an empty index for an atom with or without a key, and with a range (`op`) or without."""
    if op is None:
        return KeyedAtomIndex() if keyed else UnkeyedAtomIndex()
    return KeyedRangeAtomIndex(op) if keyed else RangeAtomIndex(op)
