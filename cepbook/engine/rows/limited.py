"""Code of statements with an output clause: changes go through the state's limiter before they are delivered.

``process`` also tells how many events entered and left that the where-clause accepts (of ``first`` with groups: their
keys), and grouped rows go to the limiter as (key, row), None in place of a row that the having-clause rejects.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from cepbook.engine.clock import NEVER
from cepbook.engine.rows.code import Code
from cepbook.engine.rows.expr import Scope
from cepbook.engine.rows.general import GeneralCode
from cepbook.engine.rows.output import Form
from cepbook.engine.rows.output.collect import RowForm, Rows
from cepbook.engine.rows.output.lowering import write_output
from cepbook.engine.rows.shape import Shape
from cepbook.engine.rows.sliding import Emit
from cepbook.lang.plan import Output


class LimitedCode(GeneralCode):
    """Writes the functions of one statement over views and a limiter."""

    def __init__(self, code: Code, output: Output, iterable_unbound: bool) -> None:
        super().__init__(code, iterable_unbound)
        self.output = output
        self._limiter = code.slot("limiter(P, now)")
        self._counts_keys = output.which == "first" and self.shape.grouped
        self.source.bind("_NEVER", NEVER)

    # -------------------------------------------------------------- rows
    def append_row(self, rows: str, scope: Scope) -> None:
        """Rows of groups with their keys."""
        if not self.shape.grouped:
            super().append_row(rows, scope)
            return
        self.source.line("row = None")
        with self.code.having(scope):
            self.source.line(f"row = {self.code.row(scope)}", self.shape.projection.span)
        self.source.line(f"{rows}.append((k, row))")

    def _count(self) -> None:
        """Write what counts the events of the change."""
        source = self.source
        if not self._counts_keys and self.shape.where is None:
            source.line("n_in, n_out = len(batch), len(former)")
            return
        source.line("n_in, n_out = [], []" if self._counts_keys else "n_in = n_out = 0")
        for items, count in (("batch", "n_in"), ("former", "n_out")):
            self.each(items, lambda scope, count=count: self._count_one(count, scope))  # type: ignore[misc]

    def _count_one(self, count: str, scope: Scope) -> None:
        code, levels = self.code, self.shape.levels
        if not self._counts_keys:
            self.source.line(f"{count} += 1")
        elif levels:
            keys = ", ".join(code.level_key(scope, level) for level in range(len(levels)))
            self.source.line(f"{count} += ({keys},)")
        else:
            self.source.line(f"{count}.append({code.key(scope)})")

    # -------------------------------------------------------------- arrival
    def arrival(self, emit: Emit, *, hoisted: bool) -> None:
        """Hand an event to the view, what this changes to the limiter, and deliver what is due."""
        source = self.source
        source.line("o = next_ordinal()")
        source.line(f"change = W.arrive({self.pipeline.arrive()}, now)")
        self._arm("W")
        with source.block("if change is not None:"):
            source.line(f"L = {self._limiter}")
            source.line("ins, rem, forced = [], [], False")
            self._limit("ins", "rem")
            self._arm_limiter()
            with source.block("if posted is not None:"):
                source.line("ins, rem = posted")
                emit("ins", "rem")

    def _limit(self, ins: str, rem: str) -> None:
        """Write what takes the local ``change`` through the statement and the limiter: ``posted`` is due at once."""
        source = self.source
        source.line("batch, former = change")
        source.line(f"n_in, n_out = process(S, batch, former, now, {ins}, {rem}, not batch and not former)")
        source.line(f"posted = L.take(S, now, {ins}, {rem}, n_in, n_out)")

    def _arm_limiter(self) -> None:
        with self.source.block("if L.due < L.armed:"):
            self.source.line("L.armed = L.due")
            self.source.line("arm(L.due, S, L, 1)")

    def timers(self) -> None:
        """``process`` and ``tick``: at one instant windows come before the output."""
        source = self.source
        with source.block("def process(S, batch, former, now, ins, rem, forced):"):
            self.code.load_state()
            self._count()
            self.change()
            source.line("return n_in, n_out")
        with source.block("def tick(S, timed_out, now, ins, rem, ordinal):"):
            source.line(f"W, L, forced = S[1], {self._limiter}, False")
            source.line("timed_out.armed = _NEVER")
            with source.block("if W.due <= now:"):
                source.line("change = W.advance(now)")
                with source.block("if change is not None:"):
                    source.line("new, old = [], []")
                    self._limit("new", "old")
                    self._add_posted()
            source.line("posted = L.advance(S, now)")
            with source.block("if posted is not None:"):
                source.line("forced = True")
            self._add_posted()
            self._arm("W")
            self._arm_limiter()
            source.line("return forced")

    def _add_posted(self) -> None:
        with self.source.block("if posted is not None:"):
            self.source.line("ins += posted[0]")
            self.source.line("rem += posted[1]")

    def reevaluate(self) -> None:
        """As for all, and ``reconsider(S, now)``: a variable that the output's condition reads was assigned."""
        super().reevaluate()
        with self.source.block("def reconsider(S, now):"):
            self.source.line(f"L = {self._limiter}")
            self.source.line("L.changed(now)")
            self._arm_limiter()

    # -------------------------------------------------------------- what limiters call
    def helpers(self) -> None:
        """Rows made at output, the clause's own expressions, and what else is needed."""
        if self.shape.fully:
            with self.source.block("def group_rows(S, k, now):"):
                self.source.line("found = []")
                self.code.load_state()
                if self.shape.grouped:
                    self.code.load_group_or_fresh()
                else:
                    self.code.aggregates.load("A")
                self.code.append_row("found", self.q)
                self.source.line("return found")
        write_output(self.output, self.code.base)
        super().helpers()


@dataclass(frozen=True, slots=True)
class _Rows:
    """The program's rows, for collectors."""

    namespace: Mapping[str, Callable[..., Rows]]

    def group_rows(self, state: Any, key: Any, now: int) -> Rows:
        return self.namespace["group_rows"](state, key, now)

    def snapshot_rows(self, state: Any, now: int) -> Rows:
        return self.namespace["snapshot_rows"](state, now)


def bind_limiter(shape: Shape, output: Output, namespace: dict[str, Any]) -> None:
    """Give the generated module the function that makes a state's limiter."""
    rows = RowForm(shape.kind, output.which, shape.plan.selector, bool(shape.levels))
    namespace["limiter"] = Form(output, rows, _Rows(namespace), namespace).limiter
