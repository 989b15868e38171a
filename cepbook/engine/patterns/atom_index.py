"""Waiting atoms of one number in one matcher, found by what an event must have.

Order of what is found: as the atoms were started; with a range, ascending by bound (recorded: match_order_correlated).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from typing import Any, Generic, TypeVar

from cepbook.engine.patterns.state_node import NumberedNode
from cepbook.engine.state import State

Waiter = TypeVar("Waiter", bound=NumberedNode)
Sorted = list[tuple[Any, int, Waiter]]  # (bound, serial, waiter)


class UnkeyedAtomIndex(State, Generic[Waiter]):
    """All waiters of an atom without key, in order of start."""

    __slots__ = ("waiters",)

    def __init__(self) -> None:
        self.waiters: dict[int, Waiter] = {}

    def __bool__(self) -> bool:
        return bool(self.waiters)

    def add(self, waiter: Waiter, key: Any, bound: Any) -> None:
        """`key` and `bound` are those of the match; null never matches and need not be kept."""
        self.waiters[waiter.serial] = waiter

    def remove(self, waiter: Waiter, key: Any, bound: Any) -> None:
        del self.waiters[waiter.serial]

    def find(self, key: Any, bound: Any) -> list[Waiter]:
        """The waiters for which an event with this key and bound is right; both not null."""
        return list(self.waiters.values())


class KeyedAtomIndex(State, Generic[Waiter]):
    """Waiters by key. One waiter of a key stands in the table itself, several in a dict in order of start."""

    __slots__ = ("table",)

    def __init__(self) -> None:
        self.table: dict[Any, Any] = {}

    def __bool__(self) -> bool:
        return bool(self.table)

    def add(self, waiter: Waiter, key: Any, bound: Any) -> None:
        held = self.table.get(key)
        if held is None:
            self.table[key] = waiter
        elif isinstance(held, dict):
            held[waiter.serial] = waiter
        else:
            self.table[key] = {held.serial: held, waiter.serial: waiter}

    def remove(self, waiter: Waiter, key: Any, bound: Any) -> None:
        held = self.table[key]
        if held is waiter:
            del self.table[key]
            return
        del held[waiter.serial]
        if not held:
            del self.table[key]

    def find(self, key: Any, bound: Any) -> list[Waiter]:
        held = self.table.get(key)
        if held is None:
            return []
        return list(held.values()) if isinstance(held, dict) else [held]


class RangeAtomIndex(State, Generic[Waiter]):
    """Waiters by bound. `op` compares the event with the bound."""

    __slots__ = ("op", "waiters")

    def __init__(self, op: str) -> None:
        self.op = op
        self.waiters: Sorted[Waiter] = []

    def __bool__(self) -> bool:
        return bool(self.waiters)

    def add(self, waiter: Waiter, key: Any, bound: Any) -> None:
        insort(self.waiters, (bound, waiter.serial, waiter))

    def remove(self, waiter: Waiter, key: Any, bound: Any) -> None:
        del self.waiters[bisect_left(self.waiters, (bound, waiter.serial))]

    def find(self, key: Any, bound: Any) -> list[Waiter]:
        return items_in_range(self.waiters, self.op, bound)


class KeyedRangeAtomIndex(State, Generic[Waiter]):
    """Waiters by key and bound."""

    __slots__ = ("op", "table")

    def __init__(self, op: str) -> None:
        self.op = op
        self.table: dict[Any, Sorted[Waiter]] = {}

    def __bool__(self) -> bool:
        return bool(self.table)

    def add(self, waiter: Waiter, key: Any, bound: Any) -> None:
        insort(self.table.setdefault(key, []), (bound, waiter.serial, waiter))

    def remove(self, waiter: Waiter, key: Any, bound: Any) -> None:
        held = self.table[key]
        del held[bisect_left(held, (bound, waiter.serial))]
        if not held:
            del self.table[key]

    def find(self, key: Any, bound: Any) -> list[Waiter]:
        held = self.table.get(key)
        return [] if held is None else items_in_range(held, self.op, bound)


AtomIndex = UnkeyedAtomIndex[Waiter] | KeyedAtomIndex[Waiter] | RangeAtomIndex[Waiter] | KeyedRangeAtomIndex[Waiter]


def items_in_range(waiters: Sorted[Waiter], op: str, value: Any) -> list[Waiter]:
    """Those of `waiters` for whose bound ``value op bound`` holds, ascending by bound."""
    match op:
        case ">":
            chosen = waiters[: bisect_left(waiters, value, key=_bound)]
        case ">=":
            chosen = waiters[: bisect_right(waiters, value, key=_bound)]
        case "<":
            chosen = waiters[bisect_right(waiters, value, key=_bound) :]
        case _:
            chosen = waiters[bisect_left(waiters, value, key=_bound) :]
    return [waiter for _, _, waiter in chosen]


def _bound(entry: tuple[Any, int, Any]) -> Any:
    return entry[0]


def new_index(keyed: bool, op: str | None) -> AtomIndex[Waiter]:
    """An empty index for an atom with or without a key, and with a range (`op`) or without."""
    if op is None:
        return KeyedAtomIndex() if keyed else UnkeyedAtomIndex()
    return KeyedRangeAtomIndex(op) if keyed else RangeAtomIndex(op)
