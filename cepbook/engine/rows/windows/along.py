"""Batches of which only aggregates show: what they collect are groups, and no event is kept.

The statement adds each event to the cells of its group in ``items`` (without group by: the one under None), and counts
all events that come, those that the where-clause rejects, too. Releasing such a batch swaps groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cepbook.engine.rows.windows.view import Collecting

Groups = dict[Any, list[Any]]


class Along(Collecting):
    """Stands before a batch among the bases of a view, which has a slot for `count`."""

    __slots__ = ()

    count: int

    def __init__(self, *parameters: Any) -> None:
        super().__init__(*parameters)
        self.items: Groups = {}  # type: ignore[assignment]
        self.former: Groups = {}  # type: ignore[assignment]
        self.count = 0  # type: ignore[misc]

    def __len__(self) -> int:
        return self.count

    def clear(self) -> Any:
        """Take out all groups."""
        found, self.items, self.count = self.items, {}, 0  # type: ignore[misc]
        return found

    def contents(self) -> Iterable[Any]:
        """The keys of the groups being collected."""
        return self.items

    def retained(self) -> int:
        return 0
