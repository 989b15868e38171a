"""Views around another view, which change what arrivals emit and leave everything else to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from cepbook.engine.state import created
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView

_ordinal = itemgetter(0)


class ViewWrapper(WindowView):
    """A view around `view`, which holds the items and determines when it is due."""

    view: WindowView

    def __post_init__(self) -> None:
        self.due = self.view.due

    def advance(self, now: int) -> ViewDelta | None:
        delta = self.view.advance(now)
        self.due = self.view.due
        return delta

    def sweep(self, now: int) -> ViewDelta | None:
        delta = self.view.sweep(now)
        self.due = self.view.due
        return delta

    def reevaluate(self, now: int) -> None:
        self.view.reevaluate(now)
        self.due = self.view.due

    def discard(self, item: Item) -> None:
        self.view.discard(item)
        self.due = self.view.due

    def contents(self) -> Iterable[Item]:
        return self.view.contents()

    def display_order(self) -> Iterable[Item]:
        return self.view.display_order()

    def posted(self) -> Iterable[Item]:
        return self.view.posted()

    def retained(self) -> int:
        return self.view.retained()

    def prev_item(self, item: Item, index: int) -> Item | None:
        return self.view.prev_item(item, index)

    def prev_items(self, item: Item) -> tuple[Sequence[Item], int] | None:
        return self.view.prev_items(item)


class AccumulatingView(ViewWrapper):
    """Accumulates the deltas of single pattern matches until `post`, so that all matches of one stimulus are one delta.

    Only then can the rows of the matches be sorted together.
    """

    entered: list[Item] = created(list)
    left: list[Item] = created(list)

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        delta = self.view.arrive(item, now)
        self.due = self.view.due
        if delta is not None:
            self.entered += delta[0]
            self.left += delta[1]
        return None

    def post(self) -> ViewDelta | None:
        """Return the delta since the last call."""
        entered, left = self.entered, self.left
        if not (entered or left):
            return None
        self.entered, self.left = [], []
        return entered, left


class ActivationView(ViewWrapper):
    """Processes all items of an activation at once and emits the net delta.

    An item that enters and leaves in between is not part of the delta. Items are identified by ordinal, never by value,
    and are in order of arrival in the delta.
    """

    def take(self, items: Sequence[Item], now: int) -> ViewDelta | None:
        """Return the net delta of `items` and of the time `now`."""
        view = self.view
        entered: dict[int, Item] = {}
        left: dict[int, Item] = {}
        if view.due <= now:
            _add(view.advance(now), entered, left)
        for item in items:
            _add(view.arrive(item, now), entered, left)
        self.due = view.due
        in_order = sorted(entered.values(), key=_ordinal), sorted(left.values(), key=_ordinal)
        return in_order if entered or left else None

    def contents(self) -> Iterable[Item]:
        return sorted(self.view.contents(), key=_ordinal)

    def display_order(self) -> Iterable[Item]:
        return self.contents()


def _add(delta: ViewDelta | None, entered: dict[int, Item], left: dict[int, Item]) -> None:
    if delta is None:
        return
    for item in delta[0]:
        entered[item[0]] = item
    for item in delta[1]:
        if entered.pop(item[0], None) is None:
            left[item[0]] = item
