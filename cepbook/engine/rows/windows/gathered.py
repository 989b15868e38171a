"""What matches of a pattern change, gathered: all that one stimulus made is one change, and only so can be sorted."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.engine.rows.windows.view import Change, Item, View


class Gathered(View):
    """`view` takes the matches one by one; nothing is posted before `post`."""

    __slots__ = ("entered", "left", "view")

    def __init__(self, view: View) -> None:
        super().__init__()
        self.view = view
        self.due = view.due
        self.entered: list[Item] = []
        self.left: list[Item] = []

    def arrive(self, item: Item, now: int) -> Change | None:
        change = self.view.arrive(item, now)
        self.due = self.view.due
        if change is not None:
            self.entered += change[0]
            self.left += change[1]
        return None

    def post(self) -> Change | None:
        """What the matches since the last time have changed."""
        entered, left = self.entered, self.left
        if not (entered or left):
            return None
        self.entered, self.left = [], []
        return entered, left

    def advance(self, now: int) -> Change | None:
        change = self.view.advance(now)
        self.due = self.view.due
        return change

    def sweep(self, now: int) -> Change | None:
        change = self.view.sweep(now)
        self.due = self.view.due
        return change

    def reevaluate(self, now: int) -> None:
        self.view.reevaluate(now)
        self.due = self.view.due

    def discard(self, item: Item) -> None:
        self.view.discard(item)
        self.due = self.view.due

    def contents(self) -> Iterable[Item]:
        return self.view.contents()

    def retained(self) -> int:
        return self.view.retained()

    def ahead_by(self, item: Item, index: int) -> Item | None:
        return self.view.ahead_by(item, index)

    def ahead(self, item: Item) -> tuple[Sequence[Item], int]:
        return self.view.ahead(item)
