"""``expr(condition)``: keeps events while the condition holds; with every arrival the oldest leave until it does.

::

    expr(current_count <= 2)
    arrivals   a   b   c
    contents   a   ab  bc
    leaves             a

The condition is evaluated for the oldest event, then, if it does not hold (null counts as false), without it for the
next, and so on; the arriving event itself may leave at once. Time alone never evaluates it; a change of a variable that
it reads does, at the next advance of the clock.
"""

from __future__ import annotations

from cepbook.engine.clock import NEVER
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.condition import Condition, OverCondition, condition_code
from cepbook.engine.rows.windows.form import Window
from cepbook.engine.rows.windows.view import Change, Item
from cepbook.lang.plan import WindowSpec


class Expr(OverCondition):
    """The view of ``expr``."""

    __slots__ = ("condition",)

    def __init__(self, condition: Condition) -> None:
        super().__init__()
        self.condition = condition

    def arrive(self, item: Item, now: int) -> Change:
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

    def advance(self, now: int) -> Change:
        self.due = NEVER
        self.condition.now = now
        return (), (self._expire(self.items[-1]) if self.items else ())


def _view(code: Code, spec: WindowSpec, at: int) -> str:
    return f"{code.source.bind('_Expr', Expr)}({condition_code(code, spec)})"


WINDOW = Window(_view)
