"""A lot in a window: what it holds when all of a lot came in, compared with what it held before.

What enters and leaves again in between is nothing. Items are told apart by their ordinals, never by value, and stand in
the order of their arrival in what entered and in what left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import itemgetter

from cepbook.engine.windows.view_wrappers import ViewWrapper
from cepbook.engine.windows.window_view import Item, ViewDelta

_ordinal = itemgetter(0)


class ActivationView(ViewWrapper):
    """`view`, which takes all the items of an activation at once."""

    __slots__ = ()

    def take(self, items: Sequence[Item], now: int) -> ViewDelta | None:
        """What `items`, and the time `now`, change."""
        view = self.view
        entered: dict[int, Item] = {}
        left: dict[int, Item] = {}
        if view.due <= now:
            _add(view.advance(now), entered, left)
        for item in items:
            _add(view.arrive(item, now), entered, left)
        self.due = view.due
        return (_in_order(entered), _in_order(left)) if entered or left else None

    def contents(self) -> Iterable[Item]:
        return sorted(self.view.contents(), key=_ordinal)

    def shown(self) -> Iterable[Item]:
        return self.contents()


def _add(change: ViewDelta | None, entered: dict[int, Item], left: dict[int, Item]) -> None:
    if change is None:
        return
    for item in change[0]:
        entered[item[0]] = item
    for item in change[1]:
        if entered.pop(item[0], None) is None:
            left[item[0]] = item


def _in_order(items: dict[int, Item]) -> list[Item]:
    found = list(items.values())
    if len(found) > 1:
        found.sort(key=_ordinal)
    return found
