"""Code of statements with an output clause: deltas go through the state's limiter before delivery.

``process`` also returns how many entered and left events pass the where clause (for grouped ``first``: their keys).
Grouped rows go to the limiter as (key, row), with None for a row that the having clause rejects. Of a statement that
collects groups (`PhysicalPlan.collects_groups`) only keys go there, from where an event enters or leaves its group.

Beside the names of other statements the code has these: ``L`` is the limiter, ``posted`` the rows that it releases or
None, ``n_in`` and ``n_out`` the counts or keys above, ``touched`` the keys of a statement that collects groups.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, NoReturn

from cepbook.engine.codegen.delta import EVICTED_BLOCK
from cepbook.engine.codegen.emit import Emitter
from cepbook.engine.codegen.statement import StatementCodegen
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.fragments.codegen_context import CodegenContext, aggregate_indexes
from cepbook.engine.output.clause_functions import write_clause_functions
from cepbook.engine.output.collectors import CollectorOptions, DeferredRow, RowFactory
from cepbook.engine.output.limiter import ClauseFunctions, LimiterSpec
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.time.clock import NEVER
from cepbook.engine.time.timers import OUTPUT, WINDOW
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan.nodes import OutputClause
from cepbook.lang.registry.windows import WINDOWS


class OutputRateCodegen(StatementCodegen):
    """Writes the functions of one statement over views and a limiter."""

    def __init__(self, code: CodegenContext, output: OutputClause, iterable_unbound: bool) -> None:
        super().__init__(code, iterable_unbound)
        self.output = output
        self._limiter = "S.limiter"
        code.limits = True
        self._counts_keys = output.which == "first" and self.steps.grouped
        self.collects_groups = self.steps.collects_groups
        self.source.bind("_NEVER", NEVER)

    @property
    def arrivals(self) -> str:
        if self.collects_groups:
            return f"{super().arrivals}; the output clause takes keys of groups"
        if self._alone_at_once:
            return "arrivals are written into the statement: what they make goes through the output clause"
        return "arrivals call the view: what it answers goes through the output clause"

    @property
    def _alone_at_once(self) -> bool:
        """True if an arriving event is the whole delta and is not read again, so that no view need be called."""
        steps, output = self.steps, self.output
        again = defers_rows(steps, output) or (steps.kind == "aggregated_grouped" and output.which == "all")
        return steps.enters_alone and self.pipeline.keeps_nothing and not again

    @property
    def reads_now(self) -> bool:
        return True

    def append_row(self, rows: str, scope: CodeScope) -> None:
        """Append rows of groups with their keys; ``all`` of rows per event needs the events, too."""
        source, grouped = self.source, self.steps.grouped
        if grouped:
            source.line("row = None")
        self.code.load_local(scope)
        with self.code.having(scope):
            deferred = defers_rows(self.steps, self.output)
            code = self._deferred_row(scope) if deferred else self.code.row(scope)
            source.line(f"row = {code}" if grouped else f"{rows}.append({code})", self.steps.projection.span)
        if grouped:
            with_item = self.steps.kind == "aggregated_grouped" and self.output.which == "all"
            source.line(f"{rows}.append((k, row, item))" if with_item else f"{rows}.append((k, row))")

    def _deferred_row(self, scope: CodeScope) -> str:
        """Return the code of a `DeferredRow`, which a function ``deferred0(S, now, …)`` makes at delivery. The code
        captures the values that may change until then: the item, the key, aggregates, ``prev``.
        """
        source, steps = self.source, self.steps
        captured = {} if steps.rows_per_group else {"item": "item"}
        if steps.grouped:
            captured["k"] = "k"
        values = list(scope.aggregates)
        for i in sorted(aggregate_indexes(*steps.projection.row_expressions)):
            copied = ".copy()" if steps.calls[i].reference else ""
            captured[f"now{i}"], values[i] = f"{values[i]}{copied}", f"now{i}"
        previous: dict[x.Prev, str] = {}

        def captured_prev(e: x.Prev) -> str:
            if e not in previous:
                previous[e] = f"prev{len(previous)}"
                captured[previous[e]] = scope.row.prev(e)
            return previous[e]

        row = self.code.row(scope.at(aggregates=tuple(values), row=replace(scope.row, prev=captured_prev)))
        name = f"deferred{len(self.code.helpers)}"

        def write() -> None:
            with source.block(f"def {name}(S, now, {', '.join(captured)}):"):
                if not steps.rows_per_group:
                    self.code.items.unpack(source, "item")
                source.line(f"return {row}", steps.projection.span)

        self.code.helpers.append(write)
        captured_values = "".join(f"{code}, " for code in captured.values())
        return f"{source.bind('_DeferredRow', DeferredRow)}({name}, ({captured_values}))"

    def _count(self) -> None:
        source = self.source
        if not self._counts_keys and self.steps.where is None:
            source.line(f"n_in, n_out = {'1, 0' if self.alone else 'len(batch), len(former)'}")
            return
        source.line("n_in, n_out = [], []" if self._counts_keys else "n_in = n_out = 0")
        self.entered(lambda scope: self._count_one("n_in", scope))
        self.left(lambda scope: self._count_one("n_out", scope))

    def _count_one(self, count: str, scope: CodeScope) -> None:
        code, levels = self.code, self.steps.levels
        if not self._counts_keys:
            self.source.line(f"{count} += 1")
        elif levels:
            keys = ", ".join(code.level_key(scope, level) for level in range(len(levels)))
            self.source.line(f"{count} += ({keys},)")
        else:
            self.source.line(f"{count}.append({code.key(scope)})")

    def ahead(self) -> None:
        """Write nothing: the loop over a batch calls the view for each event."""

    def arrival(self, emit: Emitter, *, hoisted: bool) -> None:
        """Pass an event to the view, its delta to the limiter, and deliver rows that are due."""
        source = self.source
        self.code.number()
        if self.collects_groups:
            self._collect_groups()
            return
        if self._alone_at_once:
            self.pipeline.arrive(self._sweep)
            self._write_locals()
            self.alone = True
            self._count()
            self.change()
            self.alone = self.passed = self.loaded = False
            self._take("ins", "rem", self._time)
            self._deliver(emit)
            return
        self.pipeline.ask()
        self.pipeline.arm()
        with source.block("if change is not None:"):
            self.consume(emit)

    def _collect_groups(self) -> None:
        """Pass an event to its window and group, and the keys of touched groups to the limiter."""
        source = self.source
        self._load_touched()
        emitted = self.pipeline.arrive(self._sweep)
        if emitted is None:
            return
        if emitted.alone:
            self._enter_touching(emitted.left)
            return
        with source.block("if change is not None:"):
            if self.steps.enters_alone:
                self._enter_touching(EVICTED_BLOCK)
            else:
                self._touch_by_change()

    def _touch_by_change(self) -> None:
        self.source.line("touched = process(S, *change, now, None, None, False)")
        self._start_output_clock()

    def _enter_touching(self, leaves: tuple[str, str] | None) -> None:
        self.alone, self.leaves = True, leaves
        self.change()
        self.alone, self.leaves, self.passed = False, None, False
        self._start_output_clock()

    def _load_touched(self) -> None:
        self.source.line(f"L = {self._limiter}")
        self.source.line("touched = L.collector.touched")

    def _start_output_clock(self) -> None:
        """Write that the first touched group starts the clock of the output."""
        if self.output.kind == "terminated":
            return
        with self.source.block("if L.armed == _NEVER and touched:"):
            self.source.line("L.begin(now)", self.output.span)
            self._arm_limiter()

    def consume(self, emit: Emitter) -> None:
        self._write_locals()
        self._process("ins", "rem", "now", self._time)
        self._deliver(emit)

    def _write_locals(self) -> None:
        self.source.line(f"L = {self._limiter}")
        self.source.line("ins, rem, forced = [], [], False")

    def _deliver(self, emit: Emitter) -> None:
        self._arm_limiter()
        with self.source.block("if posted is not None:"):
            self.source.line("ins, rem = posted")
            emit("ins", "rem")

    def _process(self, ins: str, rem: str, now: str, at: str) -> None:
        """Write that the delta ``change`` is processed at `now`, and its rows are passed to the limiter at `at`."""
        source = self.source
        source.line("batch, former = change")
        source.line(f"n_in, n_out = process(S, batch, former, {now}, {ins}, {rem}, not batch and not former)")
        self._take(ins, rem, at)

    def _take(self, ins: str, rem: str, at: str) -> None:
        self.source.line(f"posted = L.take(S, {at}, {ins}, {rem}, n_in, n_out)", self.output.span)

    @property
    def _time(self) -> str:
        """The code of the time that decides about the rows of an arrival: for ``output first`` that at which a match
        was due, if the clock leaps over it.
        """
        return "min(now, timed.overdue)" if self.output.which == "first" and self.steps.reads_pattern else "now"

    def _arm_limiter(self) -> None:
        with self.source.block("if L.due < L.armed:"):
            self.source.line("L.armed = L.due")
            self.source.line(f"arm(L.due, S, L, {OUTPUT})")

    def timers(self) -> None:
        """Write ``process``, ``tick`` and ``dues``: at one instant windows advance before the output. If the clock
        leaps over several due times, ``output first`` decides at each of them, and ``after`` at its end.
        """
        source, steps = self.source, self.steps
        with source.block("def process(S, batch, former, now, ins, rem, forced):"):
            self.code.load_state()
            if self.collects_groups:
                self._load_touched()
            else:
                self._count()
            self.change()
            source.line("return touched" if self.collects_groups else "return n_in, n_out")
        with source.block("def tick(S, W, now, ins, rem, place):"):
            source.line(f"L, forced = {self._limiter}, False")
            with source.block(f"if place == {WINDOW}:"):
                source.line("W.armed = _NEVER")
                stops = self.output.which == "first" or self.output.begins_after_period  # on the way to `now`
                due = f"W.due <= now{' < L.due' * steps.lazy}"  # an output that is due sweeps a lazy window itself
                with self.code.reported(), source.block(f"{'while' if stops else 'if'} {due}:"):
                    at = "at" if stops else "now"
                    if stops:
                        source.line("at = L.stop_time(W.due, now)")
                    source.line(f"change = W.advance({at})")
                    with source.block("if change is not None:"):
                        if self.collects_groups:
                            self._touch_by_change()
                        else:
                            source.line("new, old = [], []")
                            self._process("new", "old", at, at)
                            self._add_posted()
            with source.block("else:"):
                source.line("L.armed = _NEVER")
            # The output is not due here if its own timer is still to be run at this instant.
            with source.block("if L.due < L.armed:"), self.code.reported():
                if steps.lazy:  # what expires until then comes first
                    self.sweep("sweep_before(L.due, now, clock.former)")
                source.line("posted = L.advance(S, now)", self.output.span)
                self._add_posted("forced = True")
            self.pipeline.arm()
            with source.block("if now < L.due:"):  # not where the next point could not be found
                self._arm_limiter()
            source.line("return forced")
        with source.block("def dues(S):"):
            source.line(f"return [({WINDOW}, S.view.due), ({OUTPUT}, {self._limiter}.due)]")

    def _add_posted(self, *then: str) -> None:
        with self.source.block("if posted is not None:"):
            for line in ("ins += posted[0]", "rem += posted[1]", *then):
                self.source.line(line)

    def begin_output(self) -> None:
        """Write ``begin_output(S, now)``: start the clock of a snapshot of stores, which need no event to have rows."""
        steps = self.steps
        timed = self.output.which == "snapshot" and self.output.kind in ("time", "at")
        plain = steps.reads_store and len(steps.stages) == 1 and steps.recognize is None
        if timed and (plain or steps.reads_only_tables):
            with self.source.block("def begin_output(S, now):"):
                if not steps.reads_only_tables:
                    self._return_unless_rows()
                self.source.line(f"L = {self._limiter}")
                self.source.line("L.begin(now)", self.output.span)
                self._arm_limiter()

    def _return_unless_rows(self) -> None:
        source = self.source
        self.code.load_state(only_read=True)
        with source.block("for item in taken(S, stored(S), now):"):
            self.code.items.unpack(source, "item")
            with self.code.where(self.q):
                source.line("break")
        with source.block("else:"):
            source.line("return")

    def ended(self) -> None:
        """Write ``ended(S, now, ins, rem)``: add the rows at the end of the partition, and return whether these are
        delivered even if there are none. Also write ``waiting(S)``: the number of rows that wait.
        """
        with self.source.block("def ended(S, now, ins, rem):"):
            self.source.line(f"posted = {self._limiter}.terminate(S, now)")
            self._add_posted()
            self.source.line("return posted is not None and posted[2]")

        with self.source.block("def waiting(S):"):
            self.source.line(f"return {self._limiter}.waiting")

    def reevaluate(self) -> None:
        """Also write ``reconsider(S, now)``: a variable of the output's condition was assigned."""
        super().reevaluate()
        with self.source.block("def reconsider(S, now):"):
            self.source.line(f"L = {self._limiter}")
            self.source.line("L.changed(now)", self.output.span)
            self._arm_limiter()

    def helpers(self) -> None:
        """Also write rows made at output and the clause's expressions."""
        if self.steps.rows_per_group:
            self._write_rows("group_rows(S, k, now)", of_event=False)
        if self.steps.kind == "aggregated_grouped":
            self._write_rows("event_rows(S, k, item, now)", of_event=True)
        self.begin_output()
        self.ended()
        write_clause_functions(self.output, self.code.base)
        super().helpers()

    def _write_rows(self, signature: str, *, of_event: bool) -> None:
        source = self.source
        with source.block(f"def {signature}:"):
            source.line("found = []")
            self.code.load_state()
            if of_event:
                self.code.items.unpack(source, "item")
            if self.steps.grouped:
                self.code.load_group_or_fresh()
            else:
                self.code.aggregates.load("A")
            if of_event and defers_rows(self.steps, self.output):
                self.code.load_local(self.q)
                with self.code.having(self.q):
                    source.line(f"found.append({self._deferred_row(self.q)})", self.steps.projection.span)
            else:
                self.code.append_row("found", self.q)
            source.line("return found")


_OF_DELIVERY = (x.CurrentTimestamp, x.VariableRead, x.ContextProp, x.SubqueryRef, x.TableRead)


def defers_rows(steps: PhysicalPlan, output: OutputClause) -> bool:
    """Return whether collected rows read values that must be read at delivery."""
    deferred = any(isinstance(node, _OF_DELIVERY) for e in steps.projection.row_expressions for node in x.walk(e))
    return deferred and output.which not in ("first", "snapshot")


def bind_limiter(steps: PhysicalPlan, output: OutputClause, namespace: dict[str, Any]) -> None:
    """Put the function that makes limiters into the generated module."""
    deferred = defers_rows(steps, output)
    releases = any(WINDOWS[name].batch for name in steps.data_window_names)
    having = steps.having is not None
    levels, leaving = bool(steps.levels), steps.inserts_evicted_rows
    rows = CollectorOptions(
        steps.kind, output.which, steps.selector, levels, deferred, having, releases, leaving=leaving
    )
    makers = (namespace.get(name, _unwritten) for name in ("group_rows", "event_rows", "snapshot_rows"))
    clause = ClauseFunctions(**{f.name: namespace.get(f.name) for f in fields(ClauseFunctions)})
    namespace["limiter"] = LimiterSpec(output, rows, RowFactory(*makers), clause).limiter


def _unwritten(*_: object) -> NoReturn:
    raise AssertionError("the output clause of this statement makes no such rows")
