"""``rank(keys …, n, criteria …)``: the last event of each key, and of these the first n in the sort order.

::

    rank(k, 2, x)
    arrivals   a3   b1   c2   a9
    contents   a3   b1a3 b1c2 b1c2
    leaves               a3   a9

An update replaces the event of its key and is placed after its equals. If there are too many events, the last in the
order leaves, of equals the oldest. A key whose event left is new again.
"""

from __future__ import annotations

from typing import Any

from cepbook.engine.expressions.sort_keys import sort_key_code
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.state import created
from cepbook.engine.windows.ordered import OrderedView, SortEntry
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, operands_at, size
from cepbook.engine.windows.window_view import Item, ViewDelta
from cepbook.lang.plan.nodes import WindowSpec


class RankWindow(OrderedView):
    """The view of ``rank``; key and sort key are at positions `at` and `at` + 1 of items."""

    at: int
    size: int
    by_key: dict[Any, Item] = created(dict)

    def entry(self, item: Item) -> SortEntry:
        return item[self.at + 1], item[0], item

    def arrive(self, item: Item, now: int) -> ViewDelta:
        ordered, key = self.ordered, item[self.at]
        ordered.add(self.entry(item))  # first: values that cannot be ordered raise, and then the window stays as it was
        former = self.by_key.pop(key, None)
        self.by_key[key] = item
        if former is not None:
            ordered.remove(self.entry(former))
            return (item,), (former,)
        if len(ordered) <= self.size:
            return (item,), ()
        oldest = self._oldest_of_the_last()
        self.discard(oldest)
        return (item,), (oldest,)

    def _oldest_of_the_last(self) -> Item:
        last: SortEntry = self.ordered[-1]
        if self.ordered[-2][0] == last[0]:
            last = next(self.ordered.irange((last[0],)))
        return last[2]

    def discard(self, item: Item) -> None:
        if self.by_key.get(item[self.at]) is item:
            del self.by_key[item[self.at]]
            self.ordered.remove(self.entry(item))


def _operands(code: CodegenContext, spec: WindowSpec) -> list[str]:
    return [code.window_key(code.arriving("now"), spec.args[1:]), sort_key_code(code.arriving("now"), spec.criteria)]


WINDOW = WindowCodegen(creates(RankWindow, operands_at, size()), _operands)
