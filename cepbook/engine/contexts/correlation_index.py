"""Index of partitions by the equalities in statement filters, such as ``from D(id = context.s.id)``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cepbook.engine.contexts.context_member import ContextMember
from cepbook.engine.contexts.partition import ContextPartition
from cepbook.engine.state import State, created


class CorrelationIndex(State):
    """Live partitions by key, per statement whose filter compares event values with built-in properties.

    The index returns candidates in order of their ids. The statement still evaluates its whole filter.
    """

    _by_slot: dict[int, tuple[ContextMember, dict[Any, dict[int, ContextPartition]]]] = created(dict)

    def add_statement(self, slot: int, statement: ContextMember, partitions: Iterable[ContextPartition]) -> None:
        """Index the live `partitions` for a new statement, if its filter has equalities."""
        if statement.correlation is not None:
            self._by_slot[slot] = statement, {}
            for partition in partitions:
                self._add(slot, partition)

    def remove_statement(self, slot: int) -> None:
        self._by_slot.pop(slot, None)

    def add(self, partition: ContextPartition) -> None:
        """Add a new partition to all tables."""
        for slot in list(self._by_slot):
            self._add(slot, partition)

    def restore_order(self, partition: ContextPartition) -> None:
        """Sort the entries beside a partition whose id is not the highest."""
        for slot, key in (partition.correlation_keys or {}).items():
            if slot in self._by_slot:
                table = self._by_slot[slot][1]
                table[key] = dict(sorted(table[key].items()))

    def _add(self, slot: int, partition: ContextPartition) -> None:
        entry = self._by_slot.get(slot)
        if entry is None:
            return
        statement, table = entry
        assert statement.correlation is not None
        try:
            key = statement.correlation[1](None, partition)
        except Exception:  # noqa: BLE001 - the statement's filter fails in this partition as well and reports it
            del self._by_slot[slot]
            return
        if None in key:  # null equals nothing
            return
        table.setdefault(key, {})[partition.id] = partition
        if partition.correlation_keys is None:
            partition.correlation_keys = {}
        partition.correlation_keys[slot] = key

    def remove(self, partition: ContextPartition) -> None:
        """Remove an ended partition from all tables."""
        for slot, key in (partition.correlation_keys or {}).items():
            if slot in self._by_slot:
                _, table = self._by_slot[slot]
                partitions = table[key]
                del partitions[partition.id]
                if not partitions:
                    del table[key]

    def candidates(self, slot: int, event: Any) -> Sequence[ContextPartition] | None:
        """Return the partitions in which the filter may accept an event; None if the index cannot tell."""
        entry = self._by_slot.get(slot)
        if entry is None:
            return None
        correlation = entry[0].correlation
        assert correlation is not None
        try:
            partitions = entry[1].get(correlation[0](event, None))
        except Exception:  # noqa: BLE001 - the statement's filter fails on this event as well and reports it
            return None
        return () if partitions is None else list(partitions.values())
