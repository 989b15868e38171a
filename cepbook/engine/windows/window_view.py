"""Data windows as objects, for statements that are more than one plain window: see `rows.writer`.

An item is a tuple: its ordinal (unique in the statement, ascending), engine time of arrival if a window reads it, the
operands that windows compare (keys, timestamps, sort keys), then what rows read. A view answers an arrival or a timer
with the items that entered and those that left, or None if nothing is to be posted; two empty sequences are a forced
empty delivery.

``due`` is when a view wants to be advanced next, ``armed`` the earliest time for which a timer runs already.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from cepbook.engine.state import State
from cepbook.engine.time.clock import NEVER

Item = tuple[Any, ...]
ViewDelta = tuple[Sequence[Item], Sequence[Item]]
EMPTY_DELTA: ViewDelta = ((), ())


class WindowView(State):
    """One window, or several that act as one."""

    __slots__ = ("armed", "due", "place")

    refuses: ClassVar[bool] = False  # whether it may refuse items; such a view drops none when it takes one

    def __init__(self) -> None:
        self.due = NEVER
        self.armed = NEVER
        self.place = 0  # among the views of a groupwin, in order of creation

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        """Put an item in; the change that this posts. None of a view that `refuses`: it does not take the item."""
        raise NotImplementedError

    def advance(self, now: int) -> ViewDelta | None:
        """The time has come to `now`, at or after `due`."""
        return None

    def limit_advance(self, until: int) -> None:
        """Let only what is due up to `until` have its time when next advanced: a view that has several clocks."""

    def sweep(self, now: int) -> ViewDelta | None:
        """Drop what has left at `now` without having been noticed, however late the view wants to be advanced."""
        return self.advance(now)

    def reevaluate(self, now: int) -> None:
        """A variable that the window's condition reads has changed: ask to be advanced at once."""

    def thinned(self, now: int) -> ViewDelta | None:
        """Statements have deleted items: the change that this posts."""
        return None

    def discard(self, item: Item) -> None:
        """Forget an item that left through another window: once, unless it left here as well."""
        raise NotImplementedError

    def contents(self) -> Iterable[Item]:
        """The retained items, in the window's order; of a batch those being collected."""
        raise NotImplementedError

    def shown(self) -> Iterable[Item]:
        """The retained items in the order in which iterators and snapshots show them."""
        return self.contents()

    def retained(self) -> int:
        """How many items are held, those of the former batch included."""
        return sum(1 for _ in self.contents())

    def prev_item(self, item: Item, index: int) -> Item | None:
        """For ``prev``: the item `index` (0 or more) behind the position that counts as 0; None beyond the window."""
        items, own = self.ahead(item)
        return items[own + index] if own + index < len(items) else None

    def ahead(self, item: Item) -> tuple[Sequence[Item], int]:
        """For ``prev``: items, newest (or first in the window's order) first, and the position that counts as 0."""
        items = list(self.contents())
        items.reverse()
        return items, 0


class PassThroughView(WindowView):
    """No window: events pass and are not kept."""

    __slots__ = ()

    def arrive(self, item: Item, now: int) -> ViewDelta:
        return (item,), ()

    def discard(self, item: Item) -> None:
        """Nothing is held."""

    def contents(self) -> Iterable[Item]:
        return ()


class LastEventView(PassThroughView):
    """No window, but the iterator shows the last event (`Config.iterable_unbound`)."""

    __slots__ = ("last",)

    def __init__(self) -> None:
        super().__init__()
        self.last: tuple[Item, ...] = ()

    def arrive(self, item: Item, now: int) -> ViewDelta:
        self.last = (item,)
        return self.last, ()

    def contents(self) -> Iterable[Item]:
        return self.last


class QueueView(WindowView):
    """Items in order of arrival. One that leaves from the middle is marked, and dropped when it comes to an end."""

    __slots__ = ("gone", "items")

    def __init__(self) -> None:
        super().__init__()
        self.items: deque[Item] = deque()
        self.gone: set[int] | None = None  # ordinals of the marked ones; few windows ever have any

    def __len__(self) -> int:
        return len(self.items) - len(self.gone) if self.gone else len(self.items)

    def retained(self) -> int:
        return len(self)

    def contents(self) -> Iterable[Item]:
        gone = self.gone
        if not gone:
            return self.items
        return [item for item in self.items if item[0] not in gone]

    def pop(self) -> Item:
        """Take out the oldest."""
        item = self.items.popleft()
        if self.gone:
            self._trim(self.gone)
        return item

    def pop_until(self, limit: int, at: int) -> list[Item]:
        """Take out the oldest as long as the time at their position `at` is not above `limit`."""
        items, left = self.items, []
        while items and items[0][at] <= limit:
            left.append(self.pop() if self.gone else items.popleft())
        return left

    def clear(self) -> list[Item]:
        """Take out all."""
        found = list(self.contents())
        self.items.clear()
        self.gone = None
        return found

    def discard(self, item: Item) -> None:
        items, ordinal = self.items, item[0]
        if not items or not items[0][0] <= ordinal <= items[-1][0]:
            return
        if items[0] is item:
            self.pop()
            return
        if self.gone is None:
            self.gone = set()
        if ordinal not in self.gone:
            self.gone.add(ordinal)
            self._trim(self.gone)

    def _trim(self, gone: set[int]) -> None:
        """Drop what is marked at both ends; everywhere once it is the greater part, so that it costs no memory."""
        items = self.items
        while items and items[0][0] in gone:
            gone.remove(items.popleft()[0])
        while items and items[-1][0] in gone:
            gone.remove(items.pop()[0])
        if len(gone) * 2 > len(items):
            held = self.contents()
            items.clear()
            items.extend(held)
            gone.clear()

    def prev_item(self, item: Item, index: int) -> Item | None:
        items = self.items
        if self.gone:
            return super().prev_item(item, index)
        return items[-1 - index] if index < len(items) else None

    def ahead(self, item: Item) -> tuple[Sequence[Item], int]:
        return ReversedItems(self.items if not self.gone else list(self.contents())), 0


class BatchView(QueueView):
    """A batch: items wait, are posted together, and leave when the next batch is posted."""

    __slots__ = ("former",)

    def __init__(self) -> None:
        super().__init__()
        self.former: list[Item] = []

    @property
    def idle(self) -> bool:
        """Nothing was collected and nothing posted before."""
        return not self.items and not self.former

    def post(self) -> ViewDelta | None:
        """Release what was collected; the former batch leaves."""
        batch, former = self.clear(), self.former
        self.former = batch
        return batch, former

    def retained(self) -> int:
        return len(self) + len(self.former)

    prev_item = WindowView.prev_item

    def ahead(self, item: Item) -> tuple[Sequence[Item], int]:
        """Within the batch, from the row's own position."""
        batch: Sequence[Item] = self.items if not self.gone else list(self.contents())
        if self.former and self.former[0][0] <= item[0] <= self.former[-1][0]:
            batch = self.former
        return ReversedItems(batch), len(batch) - 1 - bisect_left(batch, item[:1])


class ReversedItems(Sequence[Item]):
    """A sequence read from its end, without a copy."""

    __slots__ = ("_items",)

    def __init__(self, items: Sequence[Item]) -> None:
        self._items = items

    def __len__(self) -> int:
        return len(self._items)

    def __getitem__(self, index: Any) -> Any:
        return self._items[-1 - index]

    def __iter__(self) -> Iterator[Item]:
        return reversed(self._items)
