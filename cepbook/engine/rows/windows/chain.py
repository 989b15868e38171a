"""One view behind another: what the first posts goes into the second (``merge``, derived-value windows)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cepbook.engine.rows.windows.around import Around
from cepbook.engine.rows.windows.view import Change, Item, View


class Behind(View):
    """What can stand behind another view: it is given whole changes."""

    __slots__ = ()

    def take(self, change: Change, now: int) -> Change | None:
        """What the view before posted."""
        raise NotImplementedError

    def arrive(self, item: Item, now: int) -> Change | None:
        return self.take(((item,), ()), now)


class Windows(Around, Behind):
    """A data window behind another view: it takes what enters; what leaves there does not concern it."""

    __slots__ = ()

    def take(self, change: Change, now: int) -> Change | None:
        if len(change[0]) == 1:
            posted = self.view.arrive(change[0][0], now)
            self.due = self.view.due
            return posted
        entered: list[Item] = []
        left: list[Item] = []
        found = not change[0] and not change[1]  # a forced empty delivery goes on
        for item in change[0]:
            inner = self.view.arrive(item, now)
            if inner is not None:
                found = True
                entered += inner[0]
                left += inner[1]
        self.due = self.view.due
        return (entered, left) if found else None


class Chain(View):
    """`first`, and `then` behind it."""

    __slots__ = ("first", "then")

    def __init__(self, first: View, then: Behind) -> None:
        super().__init__()
        self.first = first
        self.then = then
        self._look()

    def _look(self) -> None:
        first, then = self.first.due, self.then.due
        self.due = first if first < then else then

    def arrive(self, item: Item, now: int) -> Change | None:
        change = self.first.arrive(item, now)
        if change is not None:
            change = self.then.take(change, now)
        self._look()
        return change

    def advance(self, now: int) -> Change | None:
        entered: list[Item] = []
        left: list[Item] = []
        found = False
        changes = [self.then.advance(now) if self.then.due <= now else None]
        if self.first.due <= now:
            change = self.first.advance(now)
            changes.append(None if change is None else self.then.take(change, now))
        for change in changes:
            if change is not None:
                found = True
                entered += change[0]
                left += change[1]
        self._look()
        return (entered, left) if found else None

    def reevaluate(self, now: int) -> None:
        self.first.reevaluate(now)
        self.then.reevaluate(now)
        self._look()

    def discard(self, item: Item) -> None:
        self.then.discard(item)
        self._look()

    def contents(self) -> Iterable[Item]:
        return self.then.contents()

    def shown(self) -> Iterable[Item]:
        return self.then.shown()

    def retained(self) -> int:
        return self.first.retained() + self.then.retained()

    def ahead(self, item: Item) -> tuple[Sequence[Item], int]:
        return self.then.ahead(item)
