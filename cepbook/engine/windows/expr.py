"""``expr(condition)``: keeps events while the condition holds; with every arrival, the oldest leave until it does.

::

    expr(current_count <= 2)
    arrivals   a   b   c
    contents   a   ab  bc
    leaves             a

The condition is evaluated for the oldest event, then, if it does not hold (null counts as false), for the next one, and
so on. The arriving event itself may leave at once. Time alone never evaluates the condition. A change of a variable in
the condition evaluates it at the next advance of the clock.
"""

from __future__ import annotations

from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.expiry_condition import ConditionedView, ExpiryCondition, condition_code
from cepbook.engine.windows.window_codegen import WindowCodegen, creates
from cepbook.engine.windows.window_view import Item, ViewDelta


class ExprWindow(ConditionedView):
    """The view of ``expr``."""

    condition: ExpiryCondition

    def arrive(self, item: Item, now: int) -> ViewDelta:
        self.items.append(item)
        self.condition.now = now
        if self.condition.aggregates:
            self.condition.enter(item)
        return (item,), self._expire(item)

    def _expire(self, newest: Item) -> list[Item]:
        items, condition = self.items, self.condition
        test, keeps = condition.test, condition.aggregates
        condition.newest = newest
        left: list[Item] = []
        while items:
            oldest = items[0]
            condition.oldest = oldest
            condition.count = len(self) if self.gone else len(items)
            condition.expired = len(left)
            if test(condition, oldest):
                break
            if keeps:
                condition.leave(oldest)
            left.append(self.pop())
        return left

    def advance(self, now: int) -> ViewDelta:
        self.due = NEVER
        self.condition.now = now
        return (), (self._expire(self.items[-1]) if self.items else ())


WINDOW = WindowCodegen(creates(ExprWindow, condition_code))
