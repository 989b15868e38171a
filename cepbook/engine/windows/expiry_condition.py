"""The conditions of ``expr`` and ``expr_batch``: tests over the window's oldest and newest event, with aggregates.

Generated functions do the work: ``expr0(C, item)`` tests; ``expr0_enter(C, item)`` and ``expr0_leave`` update the
aggregates of the condition, if it has any. A failing test is reported and counts as false, so the window keeps a
consistent state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cepbook.engine.aggregates.incremental import AggregateCodegen
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.physical.operators import Eviction
from cepbook.engine.state import State, created, initial
from cepbook.engine.windows.window_view import Item, QueueView
from cepbook.lang.plan.nodes import WindowSpec

Cells = list[Any]


class ExpiryCondition(State):
    """The values that a condition can read while it is tested, and the cells of its aggregates."""

    S: Any
    test: Callable[[ExpiryCondition, Item | None], bool]
    _fresh: Callable[[], Cells] | None
    _enter: Callable[[ExpiryCondition, Item], None] | None
    _leave: Callable[[ExpiryCondition, Item], None] | None
    cells: Cells = created(list)
    count: int = initial(0)
    expired: int = initial(0)
    now: int = initial(0)  # in a replay, the engine's clock may be behind this time
    oldest: Item | None = initial(None)
    newest: Item | None = initial(None)
    aggregates: bool = initial(False)

    def __post_init__(self) -> None:
        self.aggregates = self._enter is not None
        self.restart()

    def holds(self, item: Item | None, oldest: Item | None, newest: Item | None, count: int) -> bool:
        """Return whether the condition is true for `item`, given the window around it."""
        self.oldest, self.newest, self.count = oldest, newest, count
        return self.test(self, item)

    def enter(self, item: Item) -> None:
        if self._enter is not None:
            self._enter(self, item)

    def leave(self, item: Item) -> None:
        if self._leave is not None:
            self._leave(self, item)

    def restart(self) -> None:
        """Reset the aggregates, because all events left."""
        if self._fresh is not None:
            self.cells = self._fresh()


class ConditionedView(QueueView):
    """The common base of ``expr`` and ``expr_batch``. Subclasses have a slot for `condition`."""

    __slots__ = ()

    condition: ExpiryCondition

    def reevaluate(self, now: int) -> None:
        self.due = now

    def discard(self, item: Item) -> None:
        before = len(self)
        super().discard(item)
        if len(self) < before:
            self.condition.leave(item)


_VALUES = {
    "current_count": "C.count",
    "expired_count": "C.expired",
    "oldest_timestamp": "(None if C.oldest is None else C.oldest[1])",
    "newest_timestamp": "(None if C.newest is None else C.newest[1])",
    "oldest_event": "(None if C.oldest is None else C.oldest[-1])",
    "newest_event": "(None if C.newest is None else C.newest[-1])",
    "view_reference": "C",
}


def condition_code(code: CodegenContext, spec: WindowSpec, at: int) -> str:
    """Return code of a new `ExpiryCondition` for `spec`. Its functions are written after those of the statement."""
    name = f"expr{len(code.helpers)}"
    cells = AggregateCodegen(code.base, spec.calls, Eviction.ARBITRARY, False)
    scope = code.retained().at(aggregates=cells.values, window=_VALUES, partition="C.S.partition", now="C.now")
    source, items = code.source, code.items

    def write() -> None:
        with source.block(f"def {name}(C, item):"):
            if spec.row.batch:  # the batch may be empty when a variable changes
                with source.block("if item is None:"):
                    source.line(f"item = {items.nothing()}")
            items.unpack(source, "item")
            cells.load("C.cells")
            if cells.reads_now:
                source.line("now = C.now")
            with code.reported("return False"):
                source.line(f"return {lower.truth(scope, spec.args[0])}", spec.args[0].span)
        if not spec.calls:
            return
        with source.block(f"def {name}_fresh():"):
            source.line(f"return {cells.fresh()}")
        for move in ("enter", "leave"):
            with source.block(f"def {name}_{move}(C, item):"):
                items.unpack(source, "item")
                cells.load("C.cells")
                if move == "leave":
                    cells.leave(scope, "qo")
                    cells.store("C.cells")
                    continue
                if cells.risky:
                    source.line("broken = None")
                cells.enter(scope, "qo")
                cells.store("C.cells")
                if cells.risky:
                    with source.block("if broken is not None:"):
                        source.line("failed(broken)")

    code.helpers.append(write)
    moves = f"{name}_fresh, {name}_enter, {name}_leave" if spec.calls else "None, None, None"
    return f"{code.source.bind('_Condition', ExpiryCondition)}(S, {name}, {moves})"
