"""``sort(n, criteria …)``: the first n events in the sort order; the last in the order leaves.

::

    sort(2, x)
    arrivals   a3   b1   c2   d9
    contents   a    ba   bc   bc
    leaves               a    d

An event outside the range enters and leaves in one delivery. Of equals the newer comes first; null is the lowest.
"""

from __future__ import annotations

from cepbook.engine.expressions.sort_keys import sort_key_code
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.windows.ordered import OrderedView, SortEntry
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, operands_at, size
from cepbook.engine.windows.window_view import Item, ViewDelta
from cepbook.lang.plan.nodes import WindowSpec


class SortWindow(OrderedView):
    """The view of ``sort``; the sort key is at position `at` of items."""

    at: int
    size: int

    def entry(self, item: Item) -> SortEntry:
        return item[self.at], -item[0], item

    def arrive(self, item: Item, now: int) -> ViewDelta:
        ordered, entry = self.ordered, (item[self.at], -item[0], item)
        if len(ordered) < self.size:
            ordered.add(entry)
            return (item,), ()
        if entry > ordered[-1]:
            return (item,), (item,)
        ordered.add(entry)
        return (item,), (ordered.pop()[2],)


def _operands(code: CodegenContext, spec: WindowSpec) -> list[str]:
    return [sort_key_code(code.arriving("now"), spec.criteria)]


WINDOW = WindowCodegen(creates(SortWindow, operands_at, size()), _operands)
