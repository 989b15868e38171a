"""``expr_batch(condition [, include trigger])``: collects events until the condition holds, then releases them.

::

    expr_batch(current_count >= 2)
    arrivals   a   b    c   d
    enters         ab       cd
    leaves                  ab

The condition is evaluated with each arrival. The event that makes it true is released with the others, or with
``false`` as the second parameter is the first of the next batch. Aggregates start anew with each batch. A change of a
variable that the condition reads evaluates it at the next advance of the clock.
"""

from __future__ import annotations

from cepbook.engine.clock import NEVER
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.windows.condition import Condition, OverCondition, condition_code
from cepbook.engine.rows.windows.form import Window
from cepbook.engine.rows.windows.view import Change, Collecting, Item
from cepbook.lang.plan import WindowSpec


class ExprBatch(OverCondition, Collecting):
    """The view of ``expr_batch``."""

    __slots__ = ("condition", "includes")

    def __init__(self, condition: Condition, includes: bool) -> None:
        super().__init__()
        self.condition = condition
        self.includes = includes

    def arrive(self, item: Item, now: int) -> Change | None:
        self.items.append(item)
        self.condition.now = now
        self.condition.enter(item)
        if not self.condition.holds(item, self.items[0], item, len(self), 0):
            return None
        if self.includes:
            return self._release()
        self.items.pop()
        change = self._release()
        self.items.append(item)
        for _ in range(2):  # recorded (expr_batch_sum_exclude): once as the trigger, once as an event of the new batch
            self.condition.enter(item)
        return change

    def _release(self) -> Change | None:
        self.condition.restart()
        return self.post()

    def thinned(self, now: int) -> Change | None:
        """The condition is looked at again (recorded: delete_expr_batch)."""
        return self.advance(now) if len(self) else None

    def advance(self, now: int) -> Change | None:
        self.due = NEVER
        self.condition.now = now
        newest = self.items[-1] if self.items else None
        oldest = self.items[0] if self.items else None
        if self.idle or not self.condition.holds(newest, oldest, newest, len(self), 0):
            return None
        return self._release()


def _view(code: Code, spec: WindowSpec, at: int) -> str:
    includes = code.parameter(spec.args[1]) if len(spec.args) > 1 else "True"
    return f"{code.source.bind('_ExprBatch', ExprBatch)}({condition_code(code, spec)}, {includes})"


WINDOW = Window(_view)
