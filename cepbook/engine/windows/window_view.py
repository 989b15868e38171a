"""Data windows as objects.

A window keeps *items* of recent events. It reacts to two calls: `arrive` for a new item and `advance` for a due time.
Both return a *view delta*, the items that entered and the items that left, or None if nothing is emitted::

    length(2)                        arrive(c) -> ((c,), (a,))
    arrivals   a   b   c
    contents   a   ab  bc

Kinds of views: `QueueView` (items in order of arrival; also the base of the time windows), `BatchView` (items are
emitted together and leave with the next batch), `ordered.OrderedView` (a sort order), views by key (``unique``,
``groupwin``), and views made of other views (`view_chain`, `combined`, `view_wrappers`).

The algebra: the deltas of a view sum up to its contents. An item enters once and leaves at most once, so accumulators
that add what enters and subtract what leaves always agree with the contents. Two empty sequences are a forced empty
delivery.

An item is a tuple: its ordinal (unique in the statement, ascending), engine time of arrival if a window reads it, the
operands that windows compare (keys, timestamps, sort keys), then the values that rows read.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, ClassVar

from cepbook.engine.state import State, created, initial
from cepbook.engine.time.clock import NEVER

Item = tuple[Any, ...]
ViewDelta = tuple[Sequence[Item], Sequence[Item]]
EMPTY_DELTA: ViewDelta = ((), ())


class WindowView(State):
    """One window, or several that act as one.

    `due` is the time at which the view must be advanced, `NEVER` if there is none; `armed` is the earliest time for
    which a timer runs already. `number` counts the views of a groupwin in order of creation.
    """

    due: int = initial(NEVER)
    armed: int = initial(NEVER)
    number: int = initial(0)

    refuses: ClassVar[bool] = False  # True if the view may refuse items; such a view evicts none on arrival

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        """Put an item in and return the delta.

        A view that `refuses` items returns None for one that it does not keep.
        """
        raise NotImplementedError

    def advance(self, now: int) -> ViewDelta | None:
        """Return the delta of the time `now`, which is at or after `due`."""
        return None

    def limit_advance(self, until: int) -> None:
        """Let the next `advance` handle only times up to `until` (inclusive). For views with several clocks."""

    def sweep(self, now: int) -> ViewDelta | None:
        """Remove the items that have expired at `now`, including those whose removal was postponed."""
        return self.advance(now)

    def reevaluate(self, now: int) -> None:
        """Request an advance at once, because a variable in the window's condition has changed."""

    def after_deletions(self, now: int) -> ViewDelta | None:
        """Return the delta after statements have deleted items."""
        return None

    def discard(self, item: Item) -> None:
        """Remove an item that left through another window. Called once, unless the item left here as well."""
        raise NotImplementedError

    def contents(self) -> Iterable[Item]:
        """Return the retained items in the window's order; of a batch, those being collected."""
        raise NotImplementedError

    def display_order(self) -> Iterable[Item]:
        """Return the retained items in the order of iterators and snapshots."""
        return self.contents()

    def posted(self) -> Iterable[Item]:
        """Return the items that entered by a delta and did not leave; of a batch, those of the previous one."""
        return self.display_order()

    def retained(self) -> int:
        """Return the number of retained items, including those of the previous batch."""
        return sum(1 for _ in self.contents())

    def prev_item(self, item: Item, index: int) -> Item | None:
        """Return, for ``prev``, the item `index` (0 or more) after the position that counts as 0; None beyond the
        window.
        """
        before = self.prev_items(item)
        if before is None:
            return None
        items, own = before
        return items[own + index] if own + index < len(items) else None

    def prev_items(self, item: Item) -> tuple[Sequence[Item], int] | None:
        """Return, for ``prev``, the items from newest to oldest (or in the window's order) and the position that counts
        as 0; None while the item waits in an unfinished batch.
        """
        items = list(self.contents())
        items.reverse()
        return items, 0


class PassThroughView(WindowView):
    """No window: events pass and are not kept."""

    def arrive(self, item: Item, now: int) -> ViewDelta:
        return (item,), ()

    def discard(self, item: Item) -> None:
        pass

    def contents(self) -> Iterable[Item]:
        return ()


class LastEventView(PassThroughView):
    """No window, but the iterator shows the last event (`Config.iterable_unbound`)."""

    last: tuple[Item, ...] = initial(())

    def arrive(self, item: Item, now: int) -> ViewDelta:
        self.last = (item,)
        return self.last, ()

    def contents(self) -> Iterable[Item]:
        return self.last


class QueueView(WindowView):
    """Items in order of arrival. An item that leaves from the middle is marked and removed when it reaches an end.

    After a batch that ran over arrays the items are deferred (`state.defer`).
    """

    items: deque[Item] = created(deque)
    gone: set[int] | None = initial(None)  # ordinals of the marked items; rarely used
    stored: partial[tuple[deque[Item]]] | None = initial(None)
    PASSING = ("stored",)
    DEFERRED = ("items",)

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
        item = self.items.popleft()
        if self.gone:
            self._trim(self.gone)
        return item

    def pop_until(self, limit: int, at: int) -> list[Item]:
        """Remove and return the oldest items while the time at their position `at` is `limit` or earlier."""
        items, left = self.items, []
        while items and items[0][at] <= limit:
            left.append(self.pop() if self.gone else items.popleft())
        return left

    def clear(self) -> list[Item]:
        items = list(self.contents())
        self.items.clear()
        self.gone = None
        return items

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
        """Remove marked items at both ends; if more than half of the items are marked, remove all of them to free
        memory.
        """
        items = self.items
        while items and items[0][0] in gone:
            gone.remove(items.popleft()[0])
        while items and items[-1][0] in gone:
            gone.remove(items.pop()[0])
        if len(gone) * 2 > len(items):
            remaining = self.contents()
            items.clear()
            items.extend(remaining)
            gone.clear()

    def prev_item(self, item: Item, index: int) -> Item | None:
        items = self.items
        if self.gone:
            return super().prev_item(item, index)
        return items[-1 - index] if index < len(items) else None

    def prev_items(self, item: Item) -> tuple[Sequence[Item], int] | None:
        return ReversedItems(self.items if not self.gone else list(self.contents())), 0


class BatchView(QueueView):
    """A batch: items are collected, emitted together, and leave when the next batch is emitted."""

    former: list[Item] = created(list)

    @property
    def idle(self) -> bool:
        """True if nothing was collected and the previous batch was empty."""
        return not self.items and not self.former

    def post(self) -> ViewDelta | None:
        """Emit the collected items; the previous batch leaves."""
        batch, former = self.clear(), self.former
        self.former = batch
        return batch, former

    def discard(self, item: Item) -> None:
        super().discard(item)
        former = self.former
        if former and former[0][0] <= item[0] <= former[-1][0]:  # a unique index rejected a row of the batch
            self.former = [other for other in former if other[0] != item[0]]

    def posted(self) -> Iterable[Item]:
        return self.former

    def retained(self) -> int:
        return len(self) + len(self.former)

    prev_item = WindowView.prev_item

    def prev_items(self, item: Item) -> tuple[Sequence[Item], int] | None:
        """Return the items of the row's batch from newest to oldest, and the row's own position. There is no position
        in the unfinished batch, which an iterator shows (recorded: prev_in_an_unfinished_batch_is_null_when_iterated).
        """
        batch = self.former
        if not batch or not batch[0][0] <= item[0] <= batch[-1][0]:
            return None
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
