"""What matches of a pattern change, gathered: all that one stimulus made is one change, and only so can be sorted."""

from __future__ import annotations

from cepbook.engine.windows.view_wrappers import ViewWrapper
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView


class AccumulatingView(ViewWrapper):
    """`view` takes the matches one by one; nothing is posted before `post`."""

    __slots__ = ("entered", "left")

    def __init__(self, view: WindowView) -> None:
        super().__init__(view)
        self.entered: list[Item] = []
        self.left: list[Item] = []

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        change = self.view.arrive(item, now)
        self.due = self.view.due
        if change is not None:
            self.entered += change[0]
            self.left += change[1]
        return None

    def post(self) -> ViewDelta | None:
        """What the matches since the last time have changed."""
        entered, left = self.entered, self.left
        if not (entered or left):
            return None
        self.entered, self.left = [], []
        return entered, left
