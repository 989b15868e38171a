"""Code of statements on the general path: over views, of any combination of windows.

An arrival or a timer gives a change, the items that entered and those that left; both go through where, aggregation,
having and projection, as the two halves of a batch do. The code of this stands in the arrival itself, and for timers in
``process(S, batch, former, now, ins, rem, forced)``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from cepbook.engine.clock import NEVER
from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.changes import ChangeCode
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.emit import Emitter
from cepbook.engine.rows.expr import Scope
from cepbook.engine.rows.pipeline import Pipeline
from cepbook.engine.rows.windows.view import Item, View
from cepbook.errors import Refusal
from cepbook.lang import expr as x


class GeneralCode(ChangeCode):
    """Writes the functions of one statement over views."""

    def __init__(self, code: Code, iterable_unbound: bool) -> None:
        self.code = code
        self.shape = code.shape
        self.source = code.source
        self.resets = False
        self.pipeline = Pipeline(code, iterable_unbound)
        self._view = self.pipeline.view()
        self._previous: dict[x.Expr, str] = {}
        self.q = self._rows_scope(leaving=False)
        self.left = self._rows_scope(leaving=True)

    def _rows_scope(self, *, leaving: bool) -> Scope:
        return self.code.retained("now").at(row=partial(self._of_row, leaving))

    @property
    def fresh(self) -> str:
        """Code of the view of a new state."""
        return self._view

    # -------------------------------------------------------------- what depends on the row's place
    def _of_row(self, leaving: bool, e: x.Expr) -> str:
        if isinstance(e, x.InsertStream):
            return str(not leaving)
        if isinstance(e, x.Prior):
            return self.pipeline.prior(e)
        if isinstance(e, x.Prev):
            return "None" if leaving else self._prev(e)
        if isinstance(e, x.Grouping):
            return self._grouping(e)
        raise Refusal("no-row", f"{type(e).__name__.lower()} has no code in the row engine")

    def _grouping(self, e: x.Grouping) -> str:
        """The bits of each grouping set stand ready; the group's key says which set it is of."""
        levels = self.shape.levels
        bits = [sum((key not in level) << place for place, key in enumerate(reversed(e.keys))) for level in levels]
        return f"{self.source.const(tuple(bits))}[k[0]]" if levels else "0"

    def _prev(self, e: x.Prev) -> str:
        if e.kind == "count":
            return f"{self.source.bind('_prev_count', prev_count)}(W, item)"
        assert e.value is not None
        value = self._value_of_another(e.value)
        if e.kind == "window":
            return f"{self.source.bind('_prev_window', prev_window)}(W, item, {value})"
        find = prev_tail if e.kind == "tail" else prev
        index = "1" if e.index is None else lower.value(self.q, e.index)
        return f"{self.source.bind(f'_{find.__name__}', find)}(W, item, {index}, {value})"

    def _value_of_another(self, e: x.Expr) -> str:
        """The name of a function that gives the value of `e` for an item."""
        if e not in self._previous:
            name = self._previous[e] = f"previous{len(self._previous)}"

            def write() -> None:
                with self.source.block(f"def {name}(item):"):
                    self.code.items.unpack(self.source, "item")
                    self.source.line(f"return {lower.value(self.code.retained(), e)}", e.span)

            self.code.helpers.append(write)
        return self._previous[e]

    # -------------------------------------------------------------- arrival
    def arrival(self, emit: Emitter, *, hoisted: bool) -> None:
        """Hand an event that passed the filter to the view, and deliver what this changes."""
        source = self.source
        self.code.number()
        source.line(f"new = {self.pipeline.arrive()}", self.pipeline.span)
        source.line("change = W.arrive(new, now)", self.pipeline.span)
        self.arm_after_arrival()
        with source.block("if change is not None:"):
            self.alone = self.shape.enters_alone
            self._open_change()
            self.change()
            self.alone = False
            emit("ins", "rem")

    def arm_after_arrival(self) -> None:
        """Windows that never look at the clock want no timer after an arrival; and `run` looks at the view."""
        if self.shape.timed and not (self.code.in_run and self.code.own_timer):
            self._arm("W")

    def _open_change(self) -> None:
        """Write the locals of ``change``. Only windows that release batches post changes of nothing at an arrival."""
        source, shape = self.source, self.shape
        source.line("former = change[1]" if self.alone else "batch, former = change")
        if shape.wants_insert:
            source.line("ins = None" if self.one_insert_row else "ins = []")
        if shape.wants_remove:
            source.line("rem = []")
        source.line("forced = not batch and not former" if shape.posts_nothing else "forced = False")

    def _arm(self, view: str) -> None:
        source = self.source
        with source.block(f"if {view}.due < {view}.armed:"):
            source.line(f"{view}.armed = {view}.due")
            source.line(f"arm({view}.due, S, {view}, 0)")

    def start(self) -> None:
        """A view may want to be advanced before any event."""
        self.source.line("W = S[1]")
        self._arm("W")

    def timers(self) -> None:
        """``process`` and ``tick``."""
        source = self.source
        with source.block("def process(S, batch, former, now, ins, rem, forced):"):
            self.code.load_state()
            self.change()
        source.bind("_NEVER", NEVER)
        with source.block("def dues(S):"):
            source.line("return [(0, S[1].due)]")
        if self.code.one_view:
            return
        with source.block("def tick(S, W, now, ins, rem, ordinal):"):
            source.line("W.armed, forced, made = _NEVER, False, (len(ins), len(rem))")
            with source.block("if W.due <= now:"), self.code.reported("del ins[made[0] :], rem[made[1] :]"):
                source.line("change = W.advance(now)")
                with source.block("if change is not None:"):
                    source.line("batch, former = change")
                    source.line("forced = not batch and not former")
                    source.line("process(S, batch, former, now, ins, rem, forced)")
            self._arm("W")
            source.line("return forced")

    def run_expiry(self, emit: Emitter) -> None:
        """``run_expiry(S, W, upto, ticks, push)``: advance the one view there is; returns the next due time.

        Once, at `upto`; within `run` at the `ticks` at which the clock stops.
        """
        source = self.source
        source.bind("_bisect_left", bisect_left)
        with source.block("def run_expiry(S, W, upto, ticks, push):"):
            source.line("W.armed, now = _NEVER, upto")
            with source.block("while W.due <= upto:"):
                with source.block("if ticks is not None:"):
                    source.line("now = ticks[_bisect_left(ticks, W.due)]")
                source.line("change = W.advance(now)")
                with source.block("if change is not None:"), self.code.reported():
                    source.line("batch, former = change")
                    source.line("ins, rem, forced = [], [], not batch and not former")
                    source.line("process(S, batch, former, now, ins, rem, forced)")
                    emit("ins", "rem")
                with source.block("if ticks is None:"):
                    source.line("break")
            source.line("W.armed = W.due")
            source.line("return W.due")

    def reevaluate(self) -> None:
        """``reevaluate(S, now)``: a variable that a window's condition reads has changed."""
        with self.source.block("def reevaluate(S, now):"):
            self.source.line("W = S[1]")
            self.source.line("W.reevaluate(now)")
            self._arm("W")

    def helpers(self) -> None:
        """What the other functions turned out to need."""
        written = 0
        while written < len(self.code.helpers):
            self.code.helpers[written]()
            written += 1

    # -------------------------------------------------------------- reading
    def settle(self) -> None:
        """Views have nothing to drop between changes."""

    def contents(self) -> str:
        """Code of an iterable of the retained items."""
        return "W.contents()"


Value = Callable[[Item], Any]


def prev(view: View, item: Item, index: int | None, value: Value) -> Any:
    """`value` of the event `index` places before the newest (in a batch: before `item`); null beyond the window."""
    if index is None or index < 0:
        return None
    found = view.ahead_by(item, index)
    return None if found is None else value(found)


def prev_tail(view: View, item: Item, index: int | None, value: Value) -> Any:
    """`value` of the event `index` places from the end of the window; null beyond it."""
    if index is None or index < 0:
        return None
    items, _ = view.ahead(item)
    return value(items[len(items) - 1 - index]) if index < len(items) else None


def prev_window(view: View, item: Item, value: Value) -> list[Any]:
    """`value` of all events of the window."""
    items: Sequence[Item] = view.ahead(item)[0]
    return [value(each) for each in items]


def prev_count(view: View, item: Item) -> int:
    """The number of events in the window."""
    return len(view.ahead(item)[0])
