"""A select as one generated module: ``new_state``, ``on_event``, ``run``, timers, ``rows``, ``settle``.

The code of an arrival is written twice: in ``on_event(e, S)`` for single events, and inside the loop of ``run`` for a
batch of columns. Both deliver to ``out(record)`` and ``push(now, insert rows, remove rows)``. In ``on_event`` these are
None while nobody listens.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from cepbook.engine.codegen.buffered_input import write_buffered_input
from cepbook.engine.codegen.emit import ColumnEmitter, Emitter, RecordEmitter
from cepbook.engine.codegen.join import JoinCodegen
from cepbook.engine.codegen.join_forms import join_form
from cepbook.engine.codegen.join_loop import JoinColumns, JoinLoopCodegen, join_columns
from cepbook.engine.codegen.kernel_forms import kernel_form
from cepbook.engine.codegen.lookup_forms import enrichment_form
from cepbook.engine.codegen.output_rate import OutputRateCodegen, bind_limiter
from cepbook.engine.codegen.program import StatementProgram, locals_legend, storage_notes
from cepbook.engine.codegen.program_template import PORT, ProgramTemplates, VariablePort
from cepbook.engine.codegen.relation_loops import LookupCodegen
from cepbook.engine.codegen.statement import StatementCodegen
from cepbook.engine.codegen.store_query import compile_store_query
from cepbook.engine.codegen.stores import StoreCodegen, write_joined_stores, write_on_select, write_store_reader
from cepbook.engine.codegen.views import write_properties
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.patterns.pattern_codegen import PatternCodegen
from cepbook.engine.physical.lowering import lower_statement
from cepbook.engine.physical.lowering_templates import lower_to_shape
from cepbook.engine.physical.plan import PhysicalPlan
from cepbook.engine.physical.shape import PlanShape, shape_of
from cepbook.engine.recognize.recognize_codegen import RECOGNIZE_PROGRAM
from cepbook.engine.relations.statement_state import StatementState, StoreState
from cepbook.errors import Span
from cepbook.lang.plan.nodes import SelectStatement

_PARTITION_BITS = 40  # bits of an ordinal that count the rows of one context partition


def compile_select(
    plan: SelectStatement,
    scope_in: ScopeFactory,
    *,
    all_properties: Sequence[str],
    iterable_unbound: bool = False,
    subqueries: Sequence[StatementProgram] = (),
) -> StatementProgram:
    """Generate, compile and load the module of `plan`. `scope_in` returns the scope of a module, `all_properties` are
    those of the source's event type in order. The functions of `subqueries` are known to the scope. Errors: Refusal for
    a construct that is not supported.
    """
    steps, shape = lower_to_shape(plan, tuple(subquery.steps for subquery in subqueries))
    scope = scope_in(SourceWriter())
    properties = tuple(all_properties)

    def generate(blank: SelectStatement) -> tuple[_SelectText, SourceWriter, PlanShape | None]:
        lowered, source = lower_statement(blank), SourceWriter()
        variables = {name: VariablePort(name, cell.partitioned) for name, cell in scope.variables.items()}
        own = scope_in(source).at(variables=variables, user_functions={})
        source.constants[PORT] = None  # a template outlives the runtime
        return _SelectText(blank, lowered, own, properties, iterable_unbound), source, shape_of(lowered)

    template = None
    if shape is not None:
        partitioned = steps.context and tuple([name for name, cell in scope.variables.items() if cell.partitioned])
        key = (shape.key, properties, iterable_unbound, scope.rules, partitioned)
        template = _TEMPLATES.find(key, plan, shape, generate)
    if shape is None or template is None:
        text = _SelectText(plan, steps, scope, properties, iterable_unbound)
        program = text.program(plan, steps, scope, scope.source.constants, scope.source.spans, subqueries)
    else:
        constants = template.constants_of(shape, scope)
        program = template.text.program(plan, steps, scope, constants, template.spans_of(shape))
    program.store_query = partial(compile_store_query, steps, scope_in)
    return program


class _SelectText:
    """The generated text of a select, with the parts of its program that follow from the text."""

    def __init__(
        self,
        plan: SelectStatement,
        steps: PhysicalPlan,
        scope: CodeScope,
        all_properties: tuple[str, ...],
        iterable_unbound: bool,
    ) -> None:
        self.source = scope.source
        self.writer = _Writer(steps, CodegenContext(steps, scope), all_properties, iterable_unbound)
        self.writer.write()
        prefixes = [f"pattern{number or ''}" for number in range(len(plan.sources))]
        at = "S.view.states[{}].matcher" if steps.inputs and steps.on_select is None else "S.matcher"
        self.patterns = [
            (number, PatternCodegen(source.pattern, scope, prefixes[number], at.format(number)))
            for number, source in enumerate(plan.sources)
            if source.pattern is not None
        ]
        self.legend = locals_legend(self.writer.code)
        self.notes = storage_notes(self.writer.code, self.writer.body.arrivals)
        self.text = self.source.text

    def program(
        self,
        plan: SelectStatement,
        steps: PhysicalPlan,
        scope: CodeScope,
        constants: dict[str, Any],
        spans: dict[int, Span],
        subqueries: Sequence[StatementProgram] = (),
    ) -> StatementProgram:
        """Load the text for `plan`, whose lowered form is `steps`. The text may be that of a plan with other constants;
        `constants` and `spans` are those of `plan`.
        """
        source, writer = self.source, self.writer
        namespace = source.load(constants, self.text)
        joins, recognize = writer.body.joins, writer.body.pipeline.recognize
        join = namespace["join_form"] = None if joins is None else joins.spec(namespace)
        row_pattern = namespace[RECOGNIZE_PROGRAM] = None if recognize is None else recognize.form(namespace)
        if plan.output is not None:
            bind_limiter(steps, plan.output, namespace)
        own_constants = {name: value for name, value in constants.items() if name != PORT}
        row_columns = writer.code.row_columns
        program = StatementProgram(
            steps, self.text, namespace, spans, writer.columns, own_constants, source.bound, row_columns
        )
        program.watched = tuple(scope.variables[name] for name in steps.watched)
        program.output_watched = tuple(scope.variables[name] for name in steps.output_watched)
        program.legend, program.notes = self.legend, self.notes
        program.items = writer.code.items
        program.patterns = {
            number: code.program(namespace, plan.sources[number].pattern) for number, code in self.patterns
        }
        program.index_requests = writer.lookups.requests
        program.match_columns = writer.body.match_columns
        program.loop, program.join, program.recognize = writer.loop, join, row_pattern
        inserts_alone, unbound = writer.inserts_alone, writer.iterable_unbound
        program.kernel_form = partial(kernel_form, writer.code, steps, inserts_alone=inserts_alone, unbound=unbound)
        null_at_zero = writer.code.base.division_by_zero_null
        if joins is not None and writer.loop is not None:
            direct = writer.body.delivers_pairs
            program.kernel_form = partial(join_form, steps, joins.rows, direct=direct, null_at_zero=null_at_zero)
        elif subqueries:
            direct, forms = writer.body.delivers_events and not unbound, [s.lookup_form for s in subqueries]
            program.kernel_form = partial(enrichment_form, steps, forms, direct=direct, null_at_zero=null_at_zero)
        return program


_TEMPLATES: ProgramTemplates[_SelectText] = ProgramTemplates()


class _Writer:
    def __init__(
        self, steps: PhysicalPlan, code: CodegenContext, all_properties: tuple[str, ...], iterable_unbound: bool
    ) -> None:
        self.steps = steps
        self.code = code
        self.source = code.source
        self.iterable_unbound = iterable_unbound
        self.body = _body(code, iterable_unbound)
        extra = tuple(name for name in all_properties if name not in steps.properties) if steps.retains_event else ()
        self.columns = steps.properties + extra
        self.all_properties = all_properties
        self.contextual = steps.context is not None
        self.loop: JoinColumns | None = None
        self.expires_in_slices = False
        self.inserts_alone = False  # as in `StatementCodegen`
        self.lookups = self.body.joins.lookups if self.body.joins is not None else LookupCodegen(code.source)

    def write(self) -> None:
        if self.steps.buffers_input:
            write_buffered_input(self.body)
        elif self.body.joins is not None:
            self._on_inputs(self.body.joins)
        elif self.steps.reads_store:
            write_store_reader(self.body)
        elif self.steps.on_select is not None:
            self.lookups = write_on_select(self.body, self.steps.on_select)
        else:
            self._on_event()
            if not self.steps.needs_event_order and self.steps.lookup is None:
                self._run()
        self.body.timers()
        if self.code.has_single_timer:
            self.body.run_expiry(Emitter(self.code, "now", guarded=False))
            if self.expires_in_slices:
                self.body.expire(RecordEmitter(self.code, "now"))
        elif self.expires_in_slices and self.steps.ticks:
            self.body.expire_all(RecordEmitter(self.code, "now"))
        self.body.post(Emitter(self.code, "now", guarded=True))
        with self.source.block("def settle(S, now):"):
            self.body.settle()
        self._rows()
        if self.body.joins is not None:
            self.body.joins.write_states()
        self._new_state()  # now all window parameters are known
        self.body.reevaluate()
        self.body.helpers()

    def _new_state(self) -> None:
        source, cells = self.source, self.code.aggregates
        if self.steps.reads_only_tables and self.steps.on_select is None:
            with source.block("def refreshed(S, now):"):
                source.line(f"fresh = {self.code.fresh_state()}")
                source.line("prefill(fresh, now)")
                source.line("return fresh")
        owner = self.steps.owned_store is not None
        former = ", subqueries=None" if self.steps.subqueries else ""  # the states of subqueries that ran before
        with source.block(f"def new_state(P, now{former}):"):
            # a reader outside the context sees the rows of all partitions, so their ordinals must differ
            first = f", P.id << {_PARTITION_BITS}" if self.contextual and owner else ""
            self.code.new_state(StoreState if owner else StatementState, first, former="subqueries" if former else "")
            source.line(f"S.view = {self.body.fresh}")
            if self.steps.aggregation is not None:
                source.line("S.groups = {}" if self.steps.grouped else f"S.cells = {cells.fresh()}")
            self.body.start()
            source.line("return S")

    def _on_event(self) -> None:
        source, steps = self.source, self.steps
        condition = steps.source.filter
        early = lower.property_names(condition)
        late = [name for name in steps.properties if name not in early]
        for name, condition_applies in (("on_event", True), ("on_match", False)):
            if not condition_applies:
                if condition is None:
                    source.line("on_match = on_event")
                    continue
                late = [n for n in steps.properties if n not in early or n in self._needed_after_filter()]
            with source.function(name, ["e", "S"] if self.contextual else ["e"], self._state_parameters()):
                if condition is not None and condition_applies:
                    write_properties(self.code, early)
                    with source.block(f"if {lower.filter_condition(self.code.arriving(), condition)}:", condition.span):
                        self._accepted_event(late)
                else:
                    self._accepted_event(late)

    def _on_inputs(self, joins: JoinCodegen) -> None:
        joins.write_inputs()
        write_joined_stores(self.body, joins)
        of_state = ["S"] if self.contextual else []
        several = [(-1, "on_events", ["inputs"])] if len(joins.streams) > 1 or self.steps.reads_pattern else []
        for number, name, more in (*several, *((stream, f"on_event{stream}", list[str]()) for stream in joins.streams)):
            joins.at = number
            with self.source.function(name, ["e", *of_state, *more], self._state_parameters()):
                self._arrival()
                self.source.line("return change is not None")
        self.loop = join_columns(joins)
        if self.loop is not None:  # once all indexes of the inputs are known
            self.code.helpers.append(JoinLoopCodegen(self.body, joins, self.loop).write)

    def _accepted_event(self, names: Sequence[str]) -> None:
        write_properties(self.code, names)
        source, steps = self.source, self.steps
        plain = not steps.windows and steps.derived is None and steps.recognize is None
        if not steps.emit.drop or steps.where is None or not plain or steps.emit.selector == "rstream":
            self._arrival()
            source.line("return True")
            return
        source.line("taken = False")  # a where clause without a window is a filter
        self.code.notes_taken = True
        self._arrival()
        self.code.notes_taken = False
        source.line("return taken")

    def _state_parameters(self) -> list[str]:
        """Return the parts of the only state as parameters with default values, for a statement without a context."""
        if self.contextual:
            return []
        names = ["S", "W"]
        if self.steps.aggregation is not None and not self.steps.aggregate_only:
            names.append("groups" if self.steps.grouped or self.code.table else "A")
        return names

    def _needed_after_filter(self) -> set[str]:
        stage = self.steps.stages[0]
        arriving = [e for w in stage.windows for e in (*w.args, *(e for e, _ in w.criteria))]
        derived = self.steps.derived
        if derived is not None:
            arriving += [*derived.args, *(c.value for c in (*derived.extra, *derived.keys))]
        return {*stage.retained, *lower.property_names(*arriving)}

    def _arrival(self) -> None:
        if self.body.reads_now:
            self.source.line("now = clock.now")
        self._load_for_arrival()
        now = "now" if self.body.reads_now else "clock.now"
        self.body.arrival(Emitter(self.code, now, guarded=True), hoisted=False)

    def _run(self) -> None:
        source, steps, code = self.source, self.steps, self.code
        plain = not (self.contextual or steps.grouped or code.local or steps.output) and steps.enters_alone
        hoisted = plain and steps.aggregation is not None and not code.table
        parameters = [f"c{i}_" for i in range(len(self.columns))]
        locals_ = [f"p{i}" for i in range(len(self.columns))]
        self.inserts_alone = self.body.inserts_alone
        emit = ColumnEmitter(code, self.body.p, self.columns) if self.body.plain else None
        self.expires_in_slices = emit is None and RecordEmitter.suits(code)
        loop = emit is None or emit.needs_loop or not self.body.passes
        heads, names = (["times", "marks"], ["now", "mark"]) if emit is None else (["times"], ["now"])
        if self.contextual:
            heads, names = [*heads, "partitions"], [*names, "P"]
        ports = ["out", "push", "push_expired", "mark_of", "catch_up"]
        rest = "partitions" if self.contextual else "prefiltered"
        signature = ", ".join(["times", "marks", "S", *ports, "fire", rest, *parameters])
        with source.block(f"def run({signature}):"):
            if not self.contextual and loop:
                code.load_state()
            if hoisted:
                code.aggregates.load("A")
            code.in_column_loop = True
            rows = f"zip({', '.join([*heads, *parameters])})"
            if emit is not None:
                emit.begin(loop=loop)
                rows = emit.kept(rows)
            if loop:
                source.line(f"rows = {rows}")
                self._loop([*names, *locals_], emit, hoisted)
            if emit is not None:
                emit.end()
            self.body.end_prefetch()
            code.in_column_loop = False

    def _loop(self, names: Sequence[str], emit: ColumnEmitter | None, hoisted: bool) -> None:
        source, code = self.source, self.code
        with source.block("while True:"):
            if code.has_single_timer:
                source.line("due = W.due")
            self.body.ahead()  # a failure here is not due to an event and would repeat
            with source.block("try:"):
                with source.block(f"for {', '.join(names)}{',' * (len(names) == 1)} in rows:"):
                    self._row_body(emit, hoisted)
                source.line("break")
            with source.block("except Exception as failure:"):
                source.line("failed(failure)")
                if emit is not None:
                    emit.failed()
            if hoisted or code.has_single_timer:
                with source.block("finally:"):
                    if hoisted:
                        code.aggregates.store("A")
                    if code.has_single_timer:
                        source.line("W.armed = W.due")
                        source.line("rearm(W.due, S, W)")

    def _row_body(self, plain: ColumnEmitter | None, hoisted: bool) -> None:
        source, steps, code = self.source, self.steps, self.code
        flat = RecordEmitter(code, "now") if RecordEmitter.suits(code) else None
        emit = plain or flat or Emitter(code, "now", guarded=False)
        if code.has_single_timer:
            with source.block("if now >= due:"):
                if hoisted:
                    code.aggregates.store("A")
                if self.expires_in_slices:
                    source.line("due = expire(S, W, now, fire, out, mark_of)")
                else:
                    source.line("due = run_expiry(S, W, now, fire, push_expired)")
                if hoisted:
                    code.aggregates.load("A")
                self.body.ahead()
        elif steps.timed:
            with source.block("if now >= timed.due:"):
                if hoisted:
                    code.aggregates.store("A")
                source.line("catch_up(now)")
                if hoisted:
                    code.aggregates.load("A")
        if self.contextual:
            with source.block("if P is None:"):
                source.line("continue")
            source.line("S = P.states[slot]")
        condition = steps.source.filter
        if condition is None or plain is not None:
            self._row_arrival(emit, hoisted)
            return
        with source.block(f"if {lower.filter_condition(code.arriving('now'), condition)}:", condition.span):
            self._row_arrival(emit, hoisted)

    def _row_arrival(self, emit: Emitter, hoisted: bool) -> None:
        source = self.source
        if self.steps.retains_event:
            local = {name: f"p{i}" for i, name in enumerate(self.columns)}
            pairs = ", ".join(f"{source.const(n, 'n')}: {local[n]}" for n in self.all_properties)
            source.line(f"e = {{{pairs}}}")
        self._load_for_arrival()
        self.body.arrival(emit, hoisted=hoisted)

    def _load_for_arrival(self) -> None:
        if self.contextual and self.steps.aggregate_only:
            self.source.line("W = S.view")
        elif self.contextual:
            self.code.load_state()
        elif self.code.table:
            self.code.find_row()

    def _rows(self) -> None:
        source = self.source
        with source.block("def rows(S, now):"):
            source.line("settle(S, now)")
            source.line("found = []")
            self.code.load_state(only_read=True)
            self._found()
            source.line("return (arrange(found) or []) if arranged else found")
        source.bind("arranged", self.code.arranged)
        if not self.code.arranged:
            source.bind("arrange", None)
        if isinstance(self.body, OutputRateCodegen):
            with source.block("def snapshot_rows(S, now):"):
                if self.steps.reads_only_tables:
                    source.line("S = refreshed(S, now)")
                source.line("found = []")
                self.code.load_state(only_read=True)
                self._snapshot()
                source.line("return found")

    def _snapshot(self) -> None:
        """Write the rows of the iterator; without windows the groups (recorded: output_snapshot_when_terminated)."""
        source, code = self.source, self.code
        if self.steps.kind != "fully_aggregated_grouped" or self.steps.retains_events or code.table:
            self._found()
            return
        by_level = source.bind("_level", itemgetter(0))
        groups = f"sorted(groups, key={by_level})" if self.steps.levels else "groups"
        with source.block(f"for k in {groups}:"):
            code.load_group_or_fresh()
            code.append_row("found", self.body.q)

    def _found(self) -> None:
        source, steps, code = self.source, self.steps, self.code
        q = self.body.q.at(checks=False)
        if steps.on_select is not None:
            return  # no rows (recorded: ts_iterate_on_select)
        if steps.kind == "fully_aggregated":
            code.aggregates.load("A")
            code.append_row("found", q)
            return
        if steps.source.without_from:
            with code.where(q):
                code.append_row("found", q)
            return
        contents = self.body.contents()
        snapshot = steps.output is not None and steps.output.which == "snapshot"
        shows_groups = (self.iterable_unbound or snapshot) and not code.table  # those of a table are its rows
        if shows_groups and not steps.retains_events and steps.kind == "fully_aggregated_grouped":
            with source.block("for k, G in groups.items():"):
                code.aggregates.load("G")
                code.append_row("found", q)
            return
        if not steps.retains_events and not self.iterable_unbound:
            return
        if steps.kind == "aggregated":
            code.aggregates.load("A")
        if steps.kind == "fully_aggregated_grouped":
            source.line("seen = set()")
        if steps.aggregate_only:
            with source.block(f"for k in {contents}:"):
                code.load_group_or_fresh()
                code.append_row("found", q)
            return
        for level in range(max(1, len(steps.levels))):
            with source.block(f"for item in {contents}:"):
                code.items.unpack(source, "item")
                with code.where(q):
                    self._found_item(q, level)

    def _found_item(self, q: CodeScope, level: int) -> None:
        source, steps, code = self.source, self.steps, self.code
        if steps.grouped:
            source.line(f"k = {code.level_key(q, level) if steps.levels else code.key(q)}")
            if steps.kind == "fully_aggregated_grouped":
                with source.block("if k in seen:"):
                    source.line("continue")
                source.line("seen.add(k)")
            code.load_group_or_fresh()
        code.append_row("found", q)


def _body(code: CodegenContext, iterable_unbound: bool) -> StatementCodegen:
    if code.steps.owned_store is not None:
        return StoreCodegen(code, iterable_unbound)
    if code.steps.output is not None:
        return OutputRateCodegen(code, code.steps.output, iterable_unbound)
    return StatementCodegen(code, iterable_unbound)
