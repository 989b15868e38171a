"""``newest(k, …)`` behind other windows: of what they hold it shows the last event of each key. Null is a key.

::

    length(3)#newest(k)
    arrivals   a1  a2  b1   c1
    held       a1  a12 a12b a2b1c1
    contents   a1  a2  a2b1 a2b1c1
    leaves         a1

What it hides takes its place in the windows all the same; it never comes back, since these drop the oldest first and so
the newer event of the key is there as long. (Apama's ``with unique``; Esper's ``#unique`` beside other windows takes
hidden events out of them and so makes room.)
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from cepbook.engine.windows.view_wrappers import ViewWrapper
from cepbook.engine.windows.window_codegen import WindowCodegen, key
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView
from cepbook.errors import Refusal


class NewestWindow(ViewWrapper):
    """`view` with all but the newest item of each key hidden; the key stands at position `at` of items."""

    __slots__ = ("at", "by_key")

    def __init__(self, view: WindowView, at: int) -> None:
        super().__init__(view)
        self.at = at
        self.by_key: dict[Any, Item] = {}  # what is shown

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        change = self.view.arrive(item, now)
        self.due = self.view.due
        return None if change is None else self._shown(change)

    def advance(self, now: int) -> ViewDelta | None:
        change = super().advance(now)
        return None if change is None else self._shown(change)

    def sweep(self, now: int) -> ViewDelta | None:
        return self.advance(now)

    def _shown(self, change: ViewDelta) -> ViewDelta | None:
        """What of a change of the view is to be seen."""
        by_key, at = self.by_key, self.at
        entered: dict[int, Item] = {}
        left: list[Item] = []
        for item in change[0]:
            former = by_key.pop(item[at], None)
            by_key[item[at]] = item
            entered[item[0]] = item
            if former is not None and entered.pop(former[0], None) is None:
                left.append(former)
        for item in change[1]:
            if by_key.get(item[at]) is item:
                del by_key[item[at]]
                if entered.pop(item[0], None) is None:
                    left.append(item)
        if len(left) > 1:
            left.sort(key=itemgetter(0))
        return (list(entered.values()), left) if entered or left else None

    def discard(self, item: Item) -> None:
        super().discard(item)
        if self.by_key.get(item[self.at]) is item:
            del self.by_key[item[self.at]]

    def contents(self) -> Iterable[Item]:
        return self.by_key.values()

    def shown(self) -> Iterable[Item]:
        return self.contents()

    def prev_item(self, item: Item, index: int) -> Item | None:
        return WindowView.prev_item(self, item, index)

    def ahead(self, item: Item) -> Any:
        return WindowView.ahead(self, item)


def _alone(*_: object) -> str:
    raise Refusal("no-window", "`newest` shows what other windows hold, and there is none before it")


WINDOW = WindowCodegen(_alone, key)
