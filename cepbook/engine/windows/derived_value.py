"""Derived-value windows: each change of the window before them makes one derived event and retracts the previous one.

::

    length(2)#size
    arrivals   a   b   c
    enters     1   2   -
    leaves     0   1   -

A derived event is a dict: the keys of ``groupwin``, the fields of the statistic, then the extra expressions. These are
taken from the last event that arrived and are null before the first. Even before any event there is a derived event,
which the iterator shows and the first change retracts. With keys, every group has its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from cepbook.engine.expressions.hashable import hashable
from cepbook.engine.state import State, created, initial
from cepbook.engine.windows.running_statistics import Statistic
from cepbook.engine.windows.view_chain import DownstreamView
from cepbook.engine.windows.window_view import Item, ViewDelta

PackItem = Callable[[Any, Any, int, bool], Item]  # in a state, of a derived event, at a time; whether it is posted


class _Group(State):
    """The statistic of one group, its extra values, and the fields and item that were emitted last."""

    statistic: Statistic
    keys: Sequence[Any]
    extra: Sequence[Any]
    fields: dict[str, Any] = created(dict)
    item: Item = initial(())


class DerivedValueView(DownstreamView):
    """The view of a derived-value window.

    In items, the parameters start at position `at`, followed by the extra values, then the keys. With `counts`
    (``size``), the view emits only if its fields change.
    """

    make: Callable[[], Statistic]
    at: int
    width: int
    extra: Sequence[str]
    keys: Sequence[str]
    state: Any
    pack: PackItem
    since: int
    counts: bool
    by_key: dict[Any, _Group] = created(dict)
    _first: _Group | None = initial(None)

    def __post_init__(self) -> None:
        if not self.keys:
            self._first = self._group((), (), self.since)

    def _group(self, key: Any, keys: Sequence[Any], now: int) -> _Group:
        """Return a new group with the derived event that it has before any event."""
        group = self.by_key[key] = _Group(self.make(), keys, (None,) * len(self.extra))
        self._renew(group, now, False, group.statistic.fields())
        return group

    def _renew(self, group: _Group, now: int, posted: bool, fields: dict[str, Any]) -> None:
        event = group.fields = fields
        if self.keys or self.extra or self.counts:
            event = dict(zip(self.keys, group.keys, strict=True))
            event.update(fields)
            event.update(zip(self.extra, group.extra, strict=True))
        group.item = self.pack(self.state, event, now, posted)

    def take(self, change: ViewDelta, now: int) -> ViewDelta | None:
        if self._first is None:
            return self._take_by_key(change, now)
        self._move(self._first, change[0], change[1])
        return self._post([self._first], now) if change[0] or change[1] else None

    def _take_by_key(self, change: ViewDelta, now: int) -> ViewDelta | None:
        touched: dict[int, _Group] = {}
        for item in change[0]:
            group = self._of(item, now)
            self._move(group, (item,), ())
            touched[id(group)] = group
        for item in change[1]:
            group = self._of(item, now)
            self._move(group, (), (item,))
            touched[id(group)] = group
        return self._post(touched.values(), now)

    def _move(self, group: _Group, entered: Sequence[Item], left: Sequence[Item]) -> None:
        at, end = self.at, self.at + self.width
        for item in entered:
            group.statistic.enter(*item[at:end])
            if self.extra:
                group.extra = item[end : end + len(self.extra)]
        for item in left:
            group.statistic.leave(*item[at:end])

    def _of(self, item: Item, now: int) -> _Group:
        start = self.at + self.width + len(self.extra)
        keys = item[start : start + len(self.keys)]
        key = tuple(hashable(value) for value in keys)
        group = self.by_key.get(key)
        return self._group(key, keys, now) if group is None else group

    def _post(self, groups: Iterable[_Group], now: int) -> ViewDelta | None:
        entered: list[Item] = []
        left: list[Item] = []
        for group in groups:
            fields = group.statistic.fields()
            if self.counts and group.fields == fields:
                continue
            left.append(group.item)
            self._renew(group, now, True, fields)
            entered.append(group.item)
        return (entered, left) if entered else None

    def discard(self, item: Item) -> None:
        """Do nothing: an item that leaves this window is no event of the windows before it."""

    def contents(self) -> Iterable[Item]:
        return [group.item for group in self.by_key.values()]

    def retained(self) -> int:
        return 0
