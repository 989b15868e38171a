"""Finding the partitions that a statement's filter can let an event through in: ``from D(id = context.s.id)``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.state import State

_NONE: dict[int, ContextPartition] = {}


class CorrelationIndex(State):
    """Per statement whose filter has equalities with built-in properties: its live partitions by the values of these.

    What is found is all that may be right, by id; the filter itself is left to the statement.
    """

    def __init__(self) -> None:
        self._by_slot: dict[int, tuple[ContextMember, dict[Any, dict[int, ContextPartition]]]] = {}

    def join(self, slot: int, statement: ContextMember, partitions: Iterable[ContextPartition]) -> None:
        """A statement comes; `partitions` live."""
        if statement.correlation is not None:
            self._by_slot[slot] = statement, {}
            for partition in partitions:
                self._add(slot, partition)

    def part(self, slot: int) -> None:
        """A statement goes."""
        self._by_slot.pop(slot, None)

    def open(self, partition: ContextPartition) -> None:
        """A partition was allocated."""
        for slot in list(self._by_slot):
            self._add(slot, partition)

    def sort(self, partition: ContextPartition) -> None:
        """A partition has come, and its id is not the highest."""
        for slot, key in (partition.found_by or {}).items():
            if slot in self._by_slot:
                table = self._by_slot[slot][1]
                table[key] = dict(sorted(table[key].items()))

    def _add(self, slot: int, partition: ContextPartition) -> None:
        known = self._by_slot.get(slot)
        if known is None:
            return
        statement, table = known
        assert statement.correlation is not None
        try:
            key = statement.correlation[1](None, partition)
        except Exception:  # noqa: BLE001 - the statement's filter will fail in the partition likewise, and report it
            del self._by_slot[slot]
            return
        if None in key:  # null equals nothing
            return
        table.setdefault(key, {})[partition.id] = partition
        if partition.found_by is None:
            partition.found_by = {}
        partition.found_by[slot] = key

    def close(self, partition: ContextPartition) -> None:
        """A partition ended."""
        for slot, key in (partition.found_by or {}).items():
            if slot in self._by_slot:
                _, table = self._by_slot[slot]
                found = table[key]
                del found[partition.id]
                if not found:
                    del table[key]

    def find(self, slot: int, event: Any) -> Sequence[ContextPartition] | None:
        """The partitions that an event may be for; None: no table tells."""
        known = self._by_slot.get(slot)
        if known is None:
            return None
        statement, table = known
        assert statement.correlation is not None
        try:
            key = statement.correlation[0](event, None)
        except Exception:  # noqa: BLE001 - the statement's filter will fail on the event likewise, and report it
            return None
        return list(table.get(key, _NONE).values())
