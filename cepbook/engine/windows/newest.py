"""``newest(k, …)`` after other windows: exposes only the newest event of each key in the windows before it.

Null is a key.

::

    length(3)#newest(k)
    arrivals   a1      a2       b1         c1
    length     a1      a1 a2    a1 a2 b1   a2 b1 c1
    contents   a1      a2       a2 b1      a2 b1 c1
    leaves             a1

A hidden event still counts towards the size of the windows before. It stays hidden, since these windows evict in order
of arrival: the newer event of its key leaves after it.

This is Apama's ``with unique``. Esper's ``#unique`` beside other windows removes hidden events from them instead.
"""

from __future__ import annotations

from collections.abc import Iterable
from operator import itemgetter
from typing import Any

from cepbook.engine.state import created
from cepbook.engine.windows.view_wrappers import ViewWrapper
from cepbook.engine.windows.window_codegen import WindowCodegen, key
from cepbook.engine.windows.window_view import Item, ViewDelta, WindowView
from cepbook.errors import Refusal


class NewestWindow(ViewWrapper):
    """A view around `view` that hides all but the newest item of each key; the tuple of keys is at position `at` of
    items.
    """

    at: int
    by_key: dict[Any, Item] = created(dict)  # the visible items

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        change = self.view.arrive(item, now)
        self.due = self.view.due
        return None if change is None else self._hide_older(change)

    def advance(self, now: int) -> ViewDelta | None:
        change = super().advance(now)
        return None if change is None else self._hide_older(change)

    def sweep(self, now: int) -> ViewDelta | None:
        return self.advance(now)

    def _hide_older(self, change: ViewDelta) -> ViewDelta | None:
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

    def display_order(self) -> Iterable[Item]:
        return self.contents()

    # `prev` counts visible items only, in contrast to a `ViewWrapper`.
    def prev_item(self, item: Item, index: int) -> Item | None:
        return WindowView.prev_item(self, item, index)

    def prev_items(self, item: Item) -> Any:
        return WindowView.prev_items(self, item)


def _refuse_alone(*_: object) -> str:
    raise Refusal("no-window", "`newest` needs a window before it, such as `length(10)#newest(key)`")


WINDOW = WindowCodegen(_refuse_alone, key)
