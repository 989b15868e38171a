"""Contained-event selection: each arrival makes the events that it contains enter, all at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from cepbook.engine.state import created
from cepbook.engine.windows.derived_value import PackItem
from cepbook.engine.windows.view_chain import DownstreamView
from cepbook.engine.windows.window_view import Item, ViewDelta


class UnnestView(DownstreamView):
    """A view of contained events. ``unfold(event, state)`` returns them; the event is the last element of an item. With
    `remembers` the iterator shows those of the last event that contains some.

    None changes nothing. An empty list emits a delta: an ungrouped aggregation delivers again (recorded:
    ce_select_items).
    """

    unfold: Callable[[Any, Any], list[Any] | None]
    state: Any
    pack: PackItem
    remembers: bool
    last: list[Item] = created(list)

    def take(self, change: ViewDelta, now: int) -> ViewDelta | None:
        entered: list[Item] = []
        emits = False
        for item in change[0]:
            events = self.unfold(item[-1], self.state)
            if events is not None:
                emits = True
                entered += [self.pack(self.state, event, now, True) for event in events]
        if entered and self.remembers:
            self.last = entered
        return (entered, []) if emits else None

    def discard(self, item: Item) -> None:
        pass

    def contents(self) -> Iterable[Item]:
        return self.last

    def retained(self) -> int:
        return 0
