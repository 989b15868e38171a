"""Batches of which only aggregates show: what they collect are groups, and no event is kept.

The statement adds each event to the cells of its group in ``items`` (without group by: the one under None), and counts
all events that come, those that the where-clause rejects, too: a batch of which no event passes is no idle one, and
its release changes nothing. Releasing such a batch swaps groups.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cepbook.engine.windows.window_view import BatchView, ViewDelta

Groups = dict[Any, list[Any]]


class AggregateOnlyBatch(BatchView):
    """Stands before a batch among the bases of a view, which has slots for `count` and `released`.

    `count`: events being collected; where their groups start the clock only those that begin one. `released`: the same
    of the former batch.
    """

    __slots__ = ()

    count: int
    released: int

    def __init__(self, *parameters: Any) -> None:
        super().__init__(*parameters)
        self.items: Groups = {}  # type: ignore[assignment]
        self.former: Groups = {}  # type: ignore[assignment]
        self.count = self.released = 0  # type: ignore[misc]

    def __len__(self) -> int:
        return self.count

    def clear(self) -> Any:
        """Take out all groups."""
        found, self.items = self.items, {}
        self.released, self.count = self.count, 0  # type: ignore[misc]
        return found

    @property
    def idle(self) -> bool:
        return not self.count and not self.released

    def post(self) -> ViewDelta | None:
        """The groups of this batch and of the former one; None where no event of either passes."""
        change = super().post()
        return change if change is not None and any(change) else None

    def contents(self) -> Iterable[Any]:
        """The keys of the groups being collected."""
        return self.items

    def retained(self) -> int:
        return 0
