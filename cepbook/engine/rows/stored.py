"""Code of named windows and of those that read them.

A row of a named window is an item of the statement that created it: its ordinal comes first, the whole row last. What
enters and leaves goes to the statement's own deliveries and, as ``changed(S, entered, left, now)``, to the readers:
these take it as ``on_change(S, entered, left, now)``.
"""

from __future__ import annotations

from cepbook.engine.rows import expr as lower
from cepbook.engine.rows.emit import Emitter
from cepbook.engine.rows.joins import JoinPipeline
from cepbook.engine.rows.pipeline import write_taken
from cepbook.engine.rows.writer import StatementCode
from cepbook.lang.plan import Fill


class StoreCode(StatementCode):
    """``create window``: rows arrive through its views, which are always asked."""

    @property
    def arrivals(self) -> str:
        return "arrivals call the view: others read what enters and leaves"

    @property
    def reads_now(self) -> bool:
        return True

    def arrival(self, emit: Emitter, *, hoisted: bool) -> None:
        """A row that was inserted."""
        self.code.number()
        self.source.line(f"change = W.arrive({self.pipeline.item()}, now)", self.pipeline.span)
        self.pipeline.armed()
        with self.source.block("if change is not None:"):
            self._process_change()
            emit("ins", "rem")

    def announce(self) -> None:
        """The readers are told."""
        self.source.line("changed(S, batch, former, now)")

    def helpers(self) -> None:
        """``arrive(e, S, now)``: what a row changes; ``apply(S, batch, former, now)``: a change by others."""
        with self.source.block("def arrive(e, S, now):"):
            self.source.line("W = S[1]")
            self.code.number()
            for name, position in self.code.first.positions.items():
                self.source.line(f"p{position} = e[{self.source.const(name, 'n')}]")
            self.source.line(f"change = W.arrive({self.pipeline.item()}, now)", self.pipeline.span)
            self.pipeline.armed()
            self.source.line("return change")
        with self.source.block("def apply(S, batch, former, now):"):
            self.source.line("change = batch, former")
            self._process_change()
            Emitter(self.code, "now", guarded=True)("ins", "rem")
        if self.steps.fill is not None:
            self._write_copied(self.steps.fill)
        super().helpers()

    def _write_copied(self, fill: Fill) -> None:
        """``copied(S, e, now)``: the row that a row of another store becomes here; None where it is not wanted."""
        source = self.source
        names = lower.properties(fill.where, *(column.value for column in fill.columns))
        local = {name: f"p{number}" for number, name in enumerate(names)}
        scope = self.code.base.at(props=lower.placed(local), events={0: "e"}, now="now")
        with source.block("def copied(S, e, now):"):
            for name, place in local.items():
                source.line(f"{place} = e[{source.const(name, 'n')}]")
            if fill.where is not None:
                with source.block(f"if not {lower.truth(scope, fill.where)}:", fill.where.span):
                    source.line("return None")
            columns = [f"{source.const(c.name, 'n')}: {lower.value(scope, c.value)}" for c in fill.columns]
            source.line(f"return {{{', '.join(columns)}}}", fill.span)


def write_consumer(body: StatementCode) -> None:
    """Write ``taken(S, stored, now)``, rows of the store as the statement's own items, and ``on_change``."""
    source, code = body.source, body.code
    write_taken("taken", code, body.pipeline)
    with source.block("def on_change(S, entered, left, now):"):
        source.line("change = taken(S, entered, now), taken(S, left, now)")
        with source.block("if change[0] or change[1]:"):
            code.load_state()
            body.consume(Emitter(code, "now", guarded=True))
    with source.block("def prefill(S, now):"):
        source.line("process(S, taken(S, stored(S), now), (), now, [], [], False)")


def write_joined(body: StatementCode, joins: JoinPipeline) -> None:
    """Write ``on_change0(S, entered, left, now)`` of each named window that is joined, and ``prefill``."""
    source, code = body.source, body.code
    for number in joins.stores:
        joins.at = number
        joins.write_taken(number)
        with source.block(f"def on_change{number}(S, entered, left, now):"):
            code.load_state()
            joins.changed()
            with source.block("if change is not None:"):
                body.consume(Emitter(code, "now", guarded=True))
    if joins.stores:
        with source.block("def prefill(S, now):"):
            code.load_state()
            joins.prefill()
