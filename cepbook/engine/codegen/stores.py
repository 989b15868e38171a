"""Code of named windows and of statements that read them.

A row of a named window is an item of the statement that created the window: its ordinal comes first, the whole row
last. Each delta goes to the statement's own deliveries and, as ``changed(S, entered, left, now)``, to the readers.
These take it as ``on_change(S, entered, left, now)``.
"""

from __future__ import annotations

from contextlib import nullcontext
from operator import itemgetter

from cepbook.engine.codegen.emit import Emitter
from cepbook.engine.codegen.join import JoinCodegen
from cepbook.engine.codegen.relation_loops import LookupCodegen, write_item_unpacking, write_loop_head
from cepbook.engine.codegen.statement import StatementCodegen
from cepbook.engine.codegen.views import filter_failures, write_store_items
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.fragments.event_layout import JoinedLayout
from cepbook.engine.fragments.unnest import write_unnest
from cepbook.engine.physical.access import AccessPath
from cepbook.lang.plan.nodes import InitialFill, OnSelectStatement, SourceNode


class StoreCodegen(StatementCodegen):
    """Writes ``create window``: rows arrive through its views, which are always called."""

    @property
    def arrivals(self) -> str:
        return "arrivals call the view: others read what enters and leaves"

    @property
    def reads_now(self) -> bool:
        return True

    @property
    def plain(self) -> bool:
        """False, since readers may change what enters and leaves."""
        return False

    def ahead(self) -> None: ...

    def arrival(self, emit: Emitter, *, hoisted: bool) -> None:
        self.code.number()
        self.source.line(f"change = W.arrive({self.pipeline.item()}, now)", self.pipeline.span)
        self.pipeline.armed()
        with self.source.block("if change is not None:"):
            self.source.line("change = admit(S, change, now)")
            self._process_change()
            emit("ins", "rem")

    def announce(self) -> None:
        self.source.line("changed(S, batch, former, now)")

    def change(self) -> None:
        self.source.line(f"ins += map({self._row_of}, batch)")
        self.source.line(f"rem += map({self._row_of}, former)")

    @property
    def _row_of(self) -> str:
        return self.source.bind("_row_of", itemgetter(-1))

    def helpers(self) -> None:
        """Write ``move(S, old, new, origins, now, silent)``, a change by others (`Store.move`), and what it results in,
        ``apply(S, batch, former, now, silent)``.
        """
        source = self.source
        with source.block("def move(S, old, new, origins, now, silent=False):"):
            source.line("W, batch, former = S.view, [], []")
            with source.block("for item in old:"):
                source.line("W.discard(item)")
            if self.steps.posts_empty_batches:
                source.line("change = W.after_deletions(now) if old else None")
                self._collect_change()
            with source.block("for e in new:"):
                self.code.number()
                for name, position in self.code.first.positions.items():
                    source.line(f"p{position} = e[{source.const(name, 'n')}]")
                source.line(f"change = W.arrive({self.pipeline.item()}, now)", self.pipeline.span)
                self.pipeline.armed()
                self._collect_change()
            if not self.steps.posts_empty_batches:  # of a batch only its release is a change
                source.line("former += old")
            with source.block("if batch or former:"):
                self._apply()
        with source.block("def apply(S, batch, former, now, silent=False):"):
            self._apply()
        if self.steps.initial_rows is not None:
            self._write_copied(self.steps.initial_rows)
        super().helpers()

    def _apply(self) -> None:
        self.announce()
        with self.source.block("if push and not silent:"):
            inserted, removed = (f"[*map({self._row_of}, {items})] or None" for items in ("batch", "former"))
            self.source.line(f"push(now, {inserted}, {removed})")

    def _collect_change(self) -> None:
        with self.source.block("if change is not None:"):
            self.source.line("batch += change[0]")
            self.source.line("former += change[1]")

    def _write_copied(self, fill: InitialFill) -> None:
        """Write ``copied(S, e, now)``: the row made of a row of another store; None if it is filtered out."""
        source = self.source
        names = lower.property_names(fill.where, *(column.value for column in fill.columns))
        local = {name: f"p{number}" for number, name in enumerate(names)}
        scope = self.code.base.at(props=lower.property_codes(local), events={0: "e"}, now="now")
        with source.block("def copied(S, e, now):"):
            for name, place in local.items():
                source.line(f"{place} = e[{source.const(name, 'n')}]")
            if fill.where is not None:
                with source.block(f"if not {lower.truth(scope, fill.where)}:", fill.where.span):
                    source.line("return None")
            columns = [f"{source.const(c.name, 'n')}: {lower.value(scope, c.value)}" for c in fill.columns]
            source.line(f"return {{{', '.join(columns)}}}", fill.span)


def write_store_reader(body: StatementCodegen) -> None:
    """Write ``taken(S, stored, now)``, rows of the store as items of the statement, and ``on_change``."""
    source, code = body.source, body.code
    write_store_items("taken", code, body.pipeline)
    with source.block("def on_change(S, entered, left, now):"), filter_failures(source, code.steps) as unread:
        left = ", []" if unread else ""  # a row that failed to enter leaves without a report
        source.line(f"change = taken(S, entered, now{unread}), taken(S, left, now{left})")
        with source.block("if change[0] or change[1]:"):
            code.load_state()
            if not code.steps.views_store:
                body.consume(Emitter(code, "now", guarded=True))
            else:
                _write_view(body)
                with source.block("if change is not None:"):
                    body.consume(Emitter(code, "now", guarded=True))
    with source.block("def prefill(S, now):"):
        if not code.steps.views_store:
            source.line("process(S, taken(S, stored(S), now), (), now, [], [], False)")
        else:
            code.load_state()
            source.line("change = taken(S, stored(S), now), ()")
            _write_view(body)
            source.line("process(S, () if change is None else change[0], (), now, [], [], False)")


def _write_view(body: StatementCodegen) -> None:
    body.source.line("change = W.take(change, now)")
    body.pipeline.armed()


def write_joined_stores(body: StatementCodegen, joins: JoinCodegen) -> None:
    """Write ``on_change0(S, entered, left, now)`` for each joined named window, and ``prefill``. A window that several
    inputs read has one function, named after the first of them.
    """
    source, code = body.source, body.code
    joins.write_tables()
    for numbers in joins.stores_by_name:
        for number in numbers:
            joins.write_taken(number)
        own, head = [joins.inputs[number].code.steps for number in numbers], f"on_change{numbers[0]}"
        with source.block(f"def {head}(S, entered, left, now):"), filter_failures(source, *own) as unread:
            code.load_state()
            joins.changed(numbers, unread)
            with source.block("if change is not None:"):
                body.consume(Emitter(code, "now", guarded=True))
    if any(input_.reads_store for input_ in body.steps.inputs):
        with source.block("def prefill(S, now):"):
            code.load_state()
            joins.prefill()


def write_on_select(body: StatementCodegen, plan: OnSelectStatement) -> LookupCodegen:
    """Write ``on_event1(e)``: join an event with the rows of the store and deliver the result. Of contained events each
    is joined on its own, and their rows are one delivery.
    """
    source, code, steps = body.source, body.code, body.steps
    rows, trigger = code.items, steps.inputs[1].source
    assert isinstance(rows, JoinedLayout) and steps.join is not None
    for name in ("target", "move"):
        source.bind(name, None)  # of the running statement
    lookups, scope = LookupCodegen(source), rows.scope(code.base.at(now="now"))
    look = lookups.look(steps.join.of_target)
    if trigger.contained:
        write_unnest(trigger.contained, code.base, "unfold")
    with source.block("def select(S, events, now):"):
        source.line("batch, ins, rem, taken, passed, forced = [], [], [], {}, False, False")
        with source.block("for e in events:"):
            if not trigger.contained:
                _unpack_event(rows, source)
            with source.block("for e in unfold(e, S) or ():") if trigger.contained else nullcontext():
                if trigger.contained:
                    _unpack_event(rows, source)
                    source.line("batch = []")
                source.line("passed = True")
                source.line("T = target(S)")
                source.line(f"x = {look}(T)")
                with source.block(write_loop_head(steps.join.of_target, "x", "i", scope, by_age=True)):
                    _take_row(rows, steps.join.of_target, scope, deletes=plan.deletes)
                if trigger.contained:
                    _select_from_batch(code, "own")
        if not trigger.contained:
            _select_from_batch(code, "ins")
        Emitter(code, "now", guarded=True)("ins", None, arranged=bool(trigger.contained))
        if plan.deletes:
            with source.block("if taken:"):
                source.line("move(T, list(taken.values()), (), (), now)", plan.span)
        source.line("return passed")
    parameters = (["e"], ["S"]) if steps.context is None else (["e", "S"], [])
    for name in ("on_event1", "on_event"):  # of an event, of a match
        with source.function(name, *parameters):
            if name == "on_event1":
                _skip_unless_passing(code, trigger, "return False", "clock.now")
            source.line("return select(S, (e,), clock.now)")
    with source.block("def on_change1(S, entered, left, now):"):
        source.line("events = []")
        with source.block("for item in entered:"):
            source.line("e = item[-1]")
            _skip_unless_passing(code, trigger, "continue", "now")
            source.line("events.append(e)")
        source.line("select(S, events, now)")
    lookups.write_keys(lambda _, item: write_item_unpacking(rows.inputs[0], item, "q0_", source), scope)
    return lookups


def _skip_unless_passing(code: CodegenContext, trigger: SourceNode, skip: str, now: str) -> None:
    """Write the filter of the trigger, which tests the event around contained events."""
    if trigger.filter is None:
        return
    read = {name: _property(name, code.source) for name in lower.property_names(trigger.filter)}
    scope = code.base.at(props=lower.property_codes(read), events={0: "e"}, now=now)
    with code.source.block(f"if not {lower.filter_condition(scope, trigger.filter)}:", trigger.filter.span):
        code.source.line(skip)


def _take_row(rows: JoinedLayout, path: AccessPath, scope: CodeScope, *, deletes: bool) -> None:
    source = scope.source
    write_item_unpacking(rows.inputs[0], "i", "q0_", source)
    if path.rest:
        tests = " and ".join(lower.truth(scope, e) for e in path.rest)
        with source.block(f"if not ({tests}):", path.rest[0].span):
            source.line("continue")
    source.line(f"batch.append(({', '.join([*rows.locals_of(0), *rows.locals_of(1)])},))")
    if deletes:
        source.line("taken[i[0]] = i")


def _select_from_batch(code: CodegenContext, into: str) -> None:
    """Write what makes rows of `batch`; with ``own`` they are arranged and appended to ``ins``."""
    source, steps = code.source, code.steps
    alone = steps.kind == "fully_aggregated"  # one row, whatever matches, for an event that passes
    with source.block("if passed:" if alone else "if batch:"):
        if into == "own":
            source.line("own = []")
        state = "S" if steps.kind == "unaggregated" else code.fresh_state()
        source.line(f"process({state}, batch, (), now, {into}, rem, {alone})")
        if into == "own":
            source.line(f"ins += {'arrange(own)' if code.arranged else 'own'}")


def _unpack_event(rows: JoinedLayout, source: SourceWriter) -> None:
    """Write the locals of the event, which is input 1 of the join; input 0 is the row of the store."""
    names = {str(place): name for name, place in rows.inputs[1].positions.items()}
    for component in rows.inputs[1].parts:
        value = {"o": "0", "e": "e"}.get(component)
        source.line(f"q1_{component} = {value or _property(names[component], source)}")


def _property(name: str, source: SourceWriter) -> str:
    return f"e.get({source.const(name, 'n')})"
