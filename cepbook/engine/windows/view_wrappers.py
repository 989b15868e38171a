"""A view around another one: all but arrivals are that one's own affair."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView


class ViewWrapper(WindowView):
    """`view` holds the items, and says when it is due."""

    __slots__ = ("view",)

    def __init__(self, view: WindowView) -> None:
        super().__init__()
        self.view = view
        self.due = view.due

    def advance(self, now: int) -> ViewDelta | None:
        change = self.view.advance(now)
        self.due = self.view.due
        return change

    def sweep(self, now: int) -> ViewDelta | None:
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

    def shown(self) -> Iterable[Item]:
        return self.view.shown()

    def retained(self) -> int:
        return self.view.retained()

    def prev_item(self, item: Item, index: int) -> Item | None:
        return self.view.prev_item(item, index)

    def ahead(self, item: Item) -> tuple[Sequence[Item], int]:
        return self.view.ahead(item)
