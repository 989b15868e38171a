"""Batches that only feed aggregates: they collect groups instead of events.

The statement adds each event to the aggregate cells of its group in ``items`` (under None without group by). It counts
all events that arrive, including those that the where clause rejects: a batch in which no event passes is not idle, and
its release changes nothing. Releasing a batch swaps the groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cepbook.engine.windows.window_view import BatchView, ViewDelta

Groups = dict[Any, list[Any]]


class AggregateOnlyBatch(BatchView):
    """A mixin before a batch in the bases of a view, which has slots for `count` and `released`.

    `count` is the number of events being collected; if the clock starts with a group, only events that begin a group
    count. `released` is the count of the previous batch.
    """

    __slots__ = ()

    count: int
    released: int

    def __init__(self, *parameters: Any) -> None:
        super().__init__(*parameters)
        self.items: Groups = {}  # type: ignore[assignment]
        self.former: Groups = {}  # type: ignore[assignment]
        self.count = self.released = 0

    def __len__(self) -> int:
        return self.count

    def clear(self) -> Any:
        groups, self.items = self.items, {}
        self.released, self.count = self.count, 0
        return groups

    @property
    def idle(self) -> bool:
        return not self.count and not self.released

    def post(self) -> ViewDelta | None:
        """Return the groups of this batch and of the previous one; None if no event of either passed."""
        change = super().post()
        return change if change is not None and any(change) else None

    def contents(self) -> Iterable[Any]:
        """Return the keys of the groups being collected."""
        return self.items

    def retained(self) -> int:
        return 0
