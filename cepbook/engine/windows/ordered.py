"""The base of windows in sort order: a sorted list of entries (sort key, tie breaker, item)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from cepbook.engine.state import SortedList, created
from cepbook.engine.windows.window_view import Item, WindowView

SortEntry = tuple[Any, int, Item]  # (sort key, tie breaker that no two items share, item)


class OrderedView(WindowView):
    """Items in ascending order of their entries."""

    ordered: SortedList[SortEntry] = created(SortedList)

    def entry(self, item: Item) -> SortEntry:
        """Return the entry of `item`."""
        raise NotImplementedError

    def discard(self, item: Item) -> None:
        self.ordered.discard(self.entry(item))

    def contents(self) -> Iterable[Item]:
        return EntryItems(self.ordered)

    def retained(self) -> int:
        return len(self.ordered)

    def prev_items(self, item: Item) -> tuple[Sequence[Item], int]:
        """Return the items in the window's own order."""
        return EntryItems(self.ordered), 0


class EntryItems(Sequence[Item]):
    """The items of entries, without a copy."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Sequence[SortEntry]) -> None:
        self._entries = entries

    def __len__(self) -> int:
        return len(self._entries)

    def __getitem__(self, index: Any) -> Any:
        return self._entries[index][2]

    def __iter__(self) -> Any:
        return (entry[2] for entry in self._entries)
