"""The loop of a join over columns, for replays: ``run_joined(order, S, out, push, advance, reads)``.

`order` gives the input of each event. ``reads[n]()`` returns the next event of input n as a tuple: its time, its
context partition (only in a context), the event (only if it is kept whole) and the properties that the input reads. The
last function of ``reads`` serves events that several inputs read: time, partition, event, and the numbers of these
inputs. ``advance(t)`` fires the timers that are due.

An event arrives as in ``on_event0`` and ``on_events``. If each combination of an inner join is one row, and no row can
fail, rows go straight from the index into the delivery, and no combination is made.
"""

from __future__ import annotations

from cepbook.engine.codegen.emit import Emitter
from cepbook.engine.codegen.join import JoinCodegen
from cepbook.engine.codegen.statement import StatementCodegen
from cepbook.engine.delivery.delta import INSERT, MORE
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.fragments.codegen_context import CodegenContext

JoinColumns = tuple[tuple[tuple[str, ...], bool], ...]


def join_columns(joins: JoinCodegen) -> JoinColumns | None:
    """Return the properties that the loop reads of each input, and whether whole events; None without such a loop."""
    steps = joins.steps
    if len(joins.streams) < len(steps.inputs) or steps.reads_pattern or steps.subqueries or steps.buffers_input:
        return None
    return tuple((input_.properties, input_.retains_event) for input_ in steps.inputs)


class JoinLoopCodegen:
    """Writes the loop, once all indexes of the join are known."""

    def __init__(self, body: StatementCodegen, joins: JoinCodegen, loop: JoinColumns) -> None:
        self._body = body
        self._joins = joins
        self._loop = loop
        self._code: CodegenContext = joins.code
        self._source = joins.source
        self._contextual = joins.steps.context is not None

    def write(self) -> None:
        """Write ``run_joined``."""
        source, joins = self._source, self._joins
        numbers = range(len(self._loop))
        with source.block("def run_joined(order, S, out, push, advance, reads):"):
            source.line(f"{', '.join(f'next{n}' for n in (*numbers, len(numbers)))} = reads")
            source.line("order = iter(order)")
            source.line("present = clock.now")
            if not self._contextual:
                self._code.load_state()
                source.line("J, V = S, W")
            joins.reads_columns = True
            with source.block("while True:"):
                with source.block("try:"):
                    with source.block("for number in order:"):
                        for n in numbers:
                            with source.block(f"{'el' * (n > 0)}if number == {n}:"):
                                self._event(n)
                        with source.block("else:"):
                            self._shared_event(len(numbers))
                    source.line("break")
                with source.block("except Exception as failure:"):
                    if not self._contextual:
                        source.line("S, W = J, V")  # the failure may have come while they were those of an input
                    source.line("failed(failure)")
            joins.reads_columns = False

    def _event(self, number: int) -> None:
        source, joins = self._source, self._joins
        properties, whole = self._loop[number]
        own = joins.inputs[number].code
        self._next(number, [*["e"] * whole, *(f"p{own.first.positions[name]}" for name in properties)])
        condition = own.steps.source.filter
        if condition is None:
            self._arrival(number)
            return
        with source.block(f"if {lower.filter_condition(own.arriving('now'), condition)}:", condition.span):
            self._arrival(number)

    def _shared_event(self, number: int) -> None:
        self._next(number, ["e", "inputs"])
        self._joins.at = -1
        self._body.arrival(Emitter(self._code, "now", guarded=False), hoisted=False)

    def _next(self, number: int, names: list[str]) -> None:
        source, joins = self._source, self._joins
        names = ["now", *["P"] * self._contextual, *names]
        source.line(f"{', '.join(names)}{',' * (len(names) == 1)} = next{number}()")
        with source.block("if now > present:"):
            if joins.steps.timed or joins.steps.watched:
                with source.block("if now >= timed.due:"):
                    source.line("advance(now)")
            source.line("present = clock.now = now")
        with source.block("elif now < present:"):
            source.line("now = present")
        if self._contextual:
            with source.block("if P is None:"):
                source.line("continue")
            source.line("S = P.states[slot]")
            self._code.load_state()

    def _arrival(self, number: int) -> None:
        self._joins.at = number
        if self._body.delivers_pairs and self._joins.join.inner:
            self._straight_rows(number)
        else:
            self._body.arrival(Emitter(self._code, "now", guarded=False), hoisted=False)

    def _straight_rows(self, number: int) -> None:
        source, joins = self._source, self._joins
        joins.take()
        with source.block("if change is not None:"):
            source.line("entered, left = change")
            source.line("R = W.relations")
            if joins.keeps(number):
                joins.write_update(number)
            if joins.join.active[number]:
                source.line(f"mark = {INSERT}")
                joins.write_found(number, "entered", self._row, apart=True)
        joins.armed()

    def _row(self) -> None:
        code, q = self._code, self._body.q
        with code.where(q), code.having(q):
            self._source.line(f"out({code.record(q, 'now', 'mark')})", self._joins.steps.projection.span)
            self._source.line(f"mark = {MORE}")
