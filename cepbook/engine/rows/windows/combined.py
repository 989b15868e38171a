"""Several windows over one stream as one: intersection (the default) and union (``retain-union``).

In an intersection an event leaves when the first window drops it, and is then taken out of the others. A window that
refuses an event keeps it out of all. If one of them is a batch, it decides what is posted and when, and the others trim
what it collects. In a union an event leaves when the last window has dropped it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.engine.rows.windows.view import Change, Collecting, Item, View


class Intersection(View):
    """An intersection of windows that take and drop events one by one."""

    __slots__ = ("views",)

    def __init__(self, views: Sequence[View]) -> None:
        super().__init__()
        self.views = views
        self._look()

    def _look(self) -> None:
        self.due = min(view.due for view in self.views)

    def accepts(self, item: Item, now: int) -> bool:
        return all(view.accepts(item, now) for view in self.views)

    def arrive(self, item: Item, now: int) -> Change | None:
        if not self.accepts(item, now):
            return None
        left: dict[int, Item] = {}
        for view in self.views:
            self._dropped(view.arrive(item, now), left)
        self._drop(left)
        return (item,), list(left.values())

    def advance(self, now: int) -> Change | None:
        left: dict[int, Item] = {}
        for view in self.views:
            if view.due <= now:
                self._dropped(view.advance(now), left)
        self._drop(left)
        return ((), list(left.values())) if left else None

    def _dropped(self, change: Change | None, left: dict[int, Item]) -> None:
        if change is not None:
            for item in change[1]:
                left[item[0]] = item

    def _drop(self, left: dict[int, Item]) -> None:
        for item in left.values():
            for view in self.views:
                view.discard(item)
        self._look()

    def reevaluate(self, now: int) -> None:
        for view in self.views:
            view.reevaluate(now)
        self._look()

    def discard(self, item: Item) -> None:
        for view in self.views:
            view.discard(item)
        self._look()

    def contents(self) -> Iterable[Item]:
        return self.views[0].contents()


class BatchIntersection(View):
    """An intersection of one batch with other windows."""

    __slots__ = ("batch", "others")

    def __init__(self, batch: Collecting, others: Sequence[View]) -> None:
        super().__init__()
        self.batch = batch
        self.others = others
        self._look()

    def _look(self) -> None:
        self.due = min(view.due for view in (self.batch, *self.others))

    def accepts(self, item: Item, now: int) -> bool:
        return all(view.accepts(item, now) for view in self.others)

    def arrive(self, item: Item, now: int) -> Change | None:
        if not self.accepts(item, now):
            return None
        for view in self.others:
            self._trim(view.arrive(item, now))
        change = self.batch.arrive(item, now)
        self._posted(change)
        return change

    def advance(self, now: int) -> Change | None:
        for view in self.others:
            if view.due <= now:
                self._trim(view.advance(now))
        change = self.batch.advance(now) if self.batch.due <= now else None
        self._posted(change)
        return change

    def _trim(self, change: Change | None) -> None:
        if change is not None:
            for item in change[1]:
                self.batch.discard(item)

    def _posted(self, change: Change | None) -> None:
        if change is not None:
            for item in change[0]:
                for view in self.others:
                    view.discard(item)
        self._look()

    def reevaluate(self, now: int) -> None:
        for view in (self.batch, *self.others):
            view.reevaluate(now)
        self._look()

    def discard(self, item: Item) -> None:
        for view in (self.batch, *self.others):
            view.discard(item)
        self._look()

    def contents(self) -> Iterable[Item]:
        return self.batch.contents()

    def retained(self) -> int:
        return self.batch.retained()


def intersection(*views: View) -> View:
    """The intersection of `views`."""
    batches = [view for view in views if isinstance(view, Collecting)]
    if not batches:
        return Intersection(views)
    return BatchIntersection(batches[0], [view for view in views if view is not batches[0]])


class Union(View):
    """A union of windows. Batches hand events on at once, so for them an event is there until it is posted."""

    __slots__ = ("held", "items", "views")

    def __init__(self, *views: View) -> None:
        super().__init__()
        self.views = views
        self.held: dict[int, int] = {}  # ordinal -> number of windows that hold the event
        self.items: dict[int, Item] = {}
        self._look()

    def _look(self) -> None:
        self.due = min(view.due for view in self.views)

    def accepts(self, item: Item, now: int) -> bool:
        return any(view.accepts(item, now) for view in self.views)

    def arrive(self, item: Item, now: int) -> Change | None:
        if not self.accepts(item, now):
            return None
        ordinal = item[0]
        self.items[ordinal] = item
        self.held[ordinal] = sum(view.accepts(item, now) for view in self.views)
        left: list[Item] = []
        for view in self.views:
            if view.accepts(item, now):
                self._dropped(view.arrive(item, now), left)
        self._look()
        return (item,), left

    def advance(self, now: int) -> Change | None:
        left: list[Item] = []
        for view in self.views:
            if view.due <= now:
                self._dropped(view.advance(now), left)
        self._look()
        return ((), left) if left else None

    def _dropped(self, change: Change | None, left: list[Item]) -> None:
        for item in () if change is None else change[1]:
            ordinal = item[0]
            if ordinal not in self.held:
                continue
            self.held[ordinal] -= 1
            if not self.held[ordinal]:
                del self.held[ordinal]
                left.append(self.items.pop(ordinal))

    def reevaluate(self, now: int) -> None:
        for view in self.views:
            view.reevaluate(now)
        self._look()

    def discard(self, item: Item) -> None:
        if self.held.pop(item[0], None) is not None:
            del self.items[item[0]]
            for view in self.views:
                view.discard(item)
        self._look()

    def contents(self) -> Iterable[Item]:
        return self.items.values()

    def retained(self) -> int:
        return len(self.items)
