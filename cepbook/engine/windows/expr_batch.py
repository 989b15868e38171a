"""``expr_batch(condition [, include trigger])``: collects events until the condition holds, then releases them.

::

    expr_batch(current_count >= 2)
    arrivals   a   b    c   d
    enters         ab       cd
    leaves                  ab

The condition is evaluated with each arrival. The event that makes it true is released with the others, or, with
``false`` as the second parameter, is the first of the next batch. Aggregates start again with each batch. A change of a
variable in the condition evaluates it at the next advance of the clock.
"""

from __future__ import annotations

from cepbook.engine.time.clock import NEVER
from cepbook.engine.windows.expiry_condition import ConditionedView, ExpiryCondition, condition_code
from cepbook.engine.windows.window_codegen import WindowCodegen, creates, optional
from cepbook.engine.windows.window_view import BatchView, Item, ViewDelta


class ExprBatchWindow(ConditionedView, BatchView):
    """The view of ``expr_batch``."""

    condition: ExpiryCondition
    includes: bool

    def arrive(self, item: Item, now: int) -> ViewDelta | None:
        self.items.append(item)
        self.condition.now = now
        self.condition.enter(item)
        if not self.condition.holds(item, self.items[0], item, len(self)):
            return None
        if self.includes:
            return self._release()
        self.items.pop()
        change = self._release()
        self.items.append(item)
        for _ in range(2):  # recorded (expr_batch_sum_exclude): once as the trigger, once as an event of the new batch
            self.condition.enter(item)
        return change

    def _release(self) -> ViewDelta | None:
        self.condition.restart()
        return self.post()

    def after_deletions(self, now: int) -> ViewDelta | None:
        """Evaluate the condition again (recorded: delete_expr_batch)."""
        return self.advance(now) if len(self) else None

    def advance(self, now: int) -> ViewDelta | None:
        self.due = NEVER
        self.condition.now = now
        newest = self.items[-1] if self.items else None
        oldest = self.items[0] if self.items else None
        if self.idle or not self.condition.holds(newest, oldest, newest, len(self)):
            return None
        return self._release()


WINDOW = WindowCodegen(creates(ExprBatchWindow, condition_code, optional(1, "True")))
