"""Several windows over one stream as one: intersection (the default) and union (``retain-union``).

In an intersection, an event leaves when the first window drops it, and is then removed from the others. An event that
one window refuses enters none. If one window is a batch, it decides what is emitted and when, and the others restrict
what it collects. In a union, an event leaves when the last window has dropped it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.engine.state import created
from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.window_view import BatchView, Item, ViewDelta, WindowView


class _Combined(WindowView):
    """Several views as one. It is due when the first of them is."""

    views: Sequence[WindowView]
    refusing: list[WindowView] = created(list)
    taking: list[WindowView] = created(list)

    def __post_init__(self) -> None:
        self.refusing = [view for view in self.views if view.refuses]
        self.taking = [view for view in self.views if not view.refuses]
        self._update_due()

    def _update_due(self) -> None:
        due = NEVER
        for view in self.views:
            if view.due < due:
                due = view.due
        self.due = due

    def reevaluate(self, now: int) -> None:
        for view in self.views:
            view.reevaluate(now)
        self._update_due()


class _Intersection(_Combined):
    """Views that all contain the same items."""

    def _is_refused(self, item: Item, now: int) -> bool:
        """Offer `item` to every view that may refuse it. If one refuses, remove it from the others and return True."""
        accepting = [view for view in self.refusing if view.arrive(item, now) is not None]
        if len(accepting) == len(self.refusing):
            return False
        for view in accepting:
            view.discard(item)
        self._update_due()
        return True

    def discard(self, item: Item) -> None:
        for view in self.views:
            view.discard(item)
        self._update_due()

    def contents(self) -> Iterable[Item]:
        return self.views[0].contents()

    def display_order(self) -> Iterable[Item]:
        return self.views[0].display_order()


class WindowIntersection(_Intersection):
    """An intersection of windows that take and drop events one by one."""

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        if self.refusing and self._is_refused(item, now):
            return None
        leaving: dict[int, Item] = {}
        for view in self.taking:
            change = view.arrive(item, now)
            if change is not None:
                for dropped in change[1]:
                    leaving[dropped[0]] = dropped
        if leaving:
            self._drop(leaving)
        self._update_due()
        return (item,), tuple(leaving.values())

    def advance(self, now: int) -> ViewDelta | None:
        leaving: dict[int, Item] = {}
        for view in self.views:
            if view.due <= now:
                change = view.advance(now)
                if change is not None:
                    for dropped in change[1]:
                        leaving[dropped[0]] = dropped
        self._drop(leaving)
        self._update_due()
        return ((), tuple(leaving.values())) if leaving else None

    def _drop(self, leaving: dict[int, Item]) -> None:
        for view in self.views:
            discard = view.discard
            for item in leaving.values():
                discard(item)


class BatchIntersection(_Intersection):
    """An intersection of one batch with other windows."""

    __slots__ = ("batch", "others")

    def __init__(self, batch: BatchView, others: Sequence[WindowView]) -> None:
        super().__init__((batch, *others))
        self.batch = batch
        self.others = others

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        if self.refusing and self._is_refused(item, now):
            return None
        for view in self.taking:
            if view is not self.batch:
                self._discard_dropped(view.arrive(item, now))
        change = self.batch.arrive(item, now)
        self._remove_emitted(change)
        return change

    def advance(self, now: int) -> ViewDelta | None:
        for view in self.others:
            if view.due <= now:
                self._discard_dropped(view.advance(now))
        change = self.batch.advance(now) if self.batch.due <= now else None
        self._remove_emitted(change)
        return change

    def _discard_dropped(self, change: ViewDelta | None) -> None:
        if change is not None:
            for item in change[1]:
                for view in self.views:
                    view.discard(item)

    def _remove_emitted(self, change: ViewDelta | None) -> None:
        if change is not None:
            for view in self.others:
                for item in change[0]:
                    view.discard(item)
        self._update_due()

    def posted(self) -> Iterable[Item]:
        return self.batch.posted()

    def retained(self) -> int:
        return self.batch.retained()


def intersection(*views: WindowView) -> WindowView:
    """Return the intersection of `views`."""
    batches = [view for view in views if isinstance(view, BatchView)]
    if not batches:
        return WindowIntersection(views)
    return BatchIntersection(batches[0], [view for view in views if view is not batches[0]])


class WindowUnion(_Combined):
    """A union of windows. It emits arrivals at once. In a batch an event stays until the next batch is emitted."""

    __slots__ = ("items", "without")

    def __init__(self, *views: WindowView) -> None:
        super().__init__(views)
        self.items: dict[int, Item] = {}
        self.without: dict[int, int] = {}  # ordinal -> how many windows refused or dropped the event, if any

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        refused = 0
        for view in self.refusing:
            refused += view.arrive(item, now) is None
        if refused == len(self.views):
            return None
        ordinal = item[0]
        self.items[ordinal] = item
        if refused:
            self.without[ordinal] = refused
        leaving: list[Item] = []
        for view in self.taking:
            change = view.arrive(item, now)
            if change is not None and change[1]:
                self._count_drops(change[1], leaving)
        self._update_due()
        return (item,), leaving

    def advance(self, now: int) -> ViewDelta | None:
        leaving: list[Item] = []
        for view in self.views:
            if view.due <= now:
                change = view.advance(now)
                if change is not None:
                    self._count_drops(change[1], leaving)
        self._update_due()
        return ((), leaving) if leaving else None

    def _count_drops(self, dropped: Iterable[Item], leaving: list[Item]) -> None:
        items, without, view_count = self.items, self.without, len(self.views)
        for item in dropped:
            ordinal = item[0]
            if ordinal not in items:
                continue
            count = without.pop(ordinal, 0) + 1
            if count < view_count:
                without[ordinal] = count
            else:
                leaving.append(items.pop(ordinal))

    def discard(self, item: Item) -> None:
        if self.items.pop(item[0], None) is not None:
            self.without.pop(item[0], None)
            for view in self.views:
                view.discard(item)
        self._update_due()

    def contents(self) -> Iterable[Item]:
        return self.items.values()

    def retained(self) -> int:
        return len(self.items)
