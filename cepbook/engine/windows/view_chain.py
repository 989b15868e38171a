"""Views in sequence: the delta of the first is the input of the second (``merge``, derived-value windows)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.engine.windows.view_wrappers import ViewWrapper
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView


class DownstreamView(WindowView):
    """A view that takes whole deltas, so it can follow another view."""

    def take(self, change: ViewDelta, now: int) -> ViewDelta | None:
        """Return the delta that follows from `change`, the delta of the view before."""
        raise NotImplementedError

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        return self.take(((item,), ()), now)


class DownstreamWindow(ViewWrapper, DownstreamView):
    """A data window behind another view. It takes the items that enter; items that leave there do not concern it."""

    def take(self, change: ViewDelta, now: int) -> ViewDelta | None:
        if len(change[0]) == 1:
            posted = self.view.arrive(change[0][0], now)
            self.due = self.view.due
            return posted
        entered: list[Item] = []
        left: list[Item] = []
        emits = not change[0] and not change[1]  # a forced empty delivery goes on
        for item in change[0]:
            inner = self.view.arrive(item, now)
            if inner is not None:
                emits = True
                entered += inner[0]
                left += inner[1]
        self.due = self.view.due
        return (entered, left) if emits else None


class ViewChain(WindowView):
    """The view `first`, followed by `then`."""

    first: WindowView
    then: DownstreamView

    def __post_init__(self) -> None:
        self._look()

    def _look(self) -> None:
        first, then = self.first.due, self.then.due
        self.due = first if first < then else then

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        change = self.first.arrive(item, now)
        if change is not None:
            change = self.then.take(change, now)
        self._look()
        return change

    def advance(self, now: int) -> ViewDelta | None:
        entered: list[Item] = []
        left: list[Item] = []
        emits = False
        changes = [self.then.advance(now) if self.then.due <= now else None]
        if self.first.due <= now:
            change = self.first.advance(now)
            changes.append(None if change is None else self.then.take(change, now))
        for change in changes:
            if change is not None:
                emits = True
                entered += change[0]
                left += change[1]
        self._look()
        return (entered, left) if emits else None

    def reevaluate(self, now: int) -> None:
        self.first.reevaluate(now)
        self.then.reevaluate(now)
        self._look()

    def discard(self, item: Item) -> None:
        self.then.discard(item)
        self._look()

    def contents(self) -> Iterable[Item]:
        return self.then.contents()

    def display_order(self) -> Iterable[Item]:
        return self.then.display_order()

    def posted(self) -> Iterable[Item]:
        return self.then.posted()

    def retained(self) -> int:
        return self.first.retained() + self.then.retained()

    def prev_items(self, item: Item) -> tuple[Sequence[Item], int] | None:
        return self.then.prev_items(item)
