"""Code of joins: how events enter the inputs, and how the combinations with an item of an input are found.

Each input is a small statement up to its windows, with a state of its own (``_input_state0``) and a function that takes
an event (``arrive0``). ``find0(R, items)`` returns the combinations with `items` of input 0, from the relations ``R``:
one loop per other input, over the result of an index or over the whole relation.

Named windows and tables have one relation for all their readers. There ``R`` contains the context partition, which is
passed to the lookup.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cepbook.engine.codegen import join_view
from cepbook.engine.codegen import relation_loops as loops
from cepbook.engine.codegen.views import ViewCodegen, write_event_reading, write_properties, write_store_items
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.fragments.event_layout import JoinedLayout
from cepbook.engine.physical.access import AccessPath
from cepbook.engine.physical.lowering import rebase_to_input
from cepbook.engine.relations.relation import Relation
from cepbook.engine.relations.statement_state import StatementState
from cepbook.engine.windows.window_codegen import DELTA_IN_LOCAL, EmittedChange, EvictionWriter
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.references import streams_read

_NESTED_LOOPS = 10  # what was found so far is collected after as many


@dataclass(slots=True)
class _Input:
    """One input while it is written: its context, its views, and the indexes that its relation needs."""

    code: CodegenContext
    pipeline: ViewCodegen
    view: str
    indexes: list[tuple[str, tuple[x.BoundExpr, ...]]] = field(default_factory=list)


class JoinCodegen(ViewCodegen):
    """Writes how events of several inputs become deltas of combinations. `at` is the input that is written."""

    def __init__(self, code: CodegenContext) -> None:
        super().__init__(code, False)
        assert self.steps.join is not None and isinstance(code.items, JoinedLayout)
        self.join = self.steps.join
        self.rows = code.items
        self.at = 0
        self.reads_columns = False  # True if the locals of events exist and the filter was tested
        self.lookups = loops.LookupCodegen(self.source)
        self.inputs: list[_Input] = []
        for steps in self.steps.inputs:
            own = CodegenContext(steps, code.base.at(aggregates=(), keys=(), state="state_of(S.partition)"))
            own.helpers = code.helpers  # one module for all inputs
            pipeline = ViewCodegen(own, False)
            self.inputs.append(_Input(own, pipeline, pipeline.view()))
        code.helpers.append(self._write_finders)

    @property
    def objection(self) -> str | None:
        return "several streams are joined"

    @property
    def reads_now(self) -> bool:
        return True

    def prior(self, e: x.BoundExpr, *, arriving: bool) -> str:
        number = _one_input(e)
        priors = self.steps.inputs[number].priors
        own = [i for i, prior in enumerate(priors) if prior == _local(e)]
        return f"q{number}_r{own[0]}"

    def previous(self, e: x.Prev) -> str:
        """Return, for ``prev``, the code of the view and of the item of that input."""
        number = 0 if e.value is None else _one_input(e.value)
        begin = self.rows.place(number)
        return f"W.states[{number}].view, item[{begin}:{begin + len(self.rows.inputs[number].parts)}]"

    def of_input(self, e: x.BoundExpr) -> tuple[CodegenContext, x.BoundExpr]:
        """Return the context of the input that an expression reads, and the expression within that input."""
        return self.inputs[_one_input(e)].code, _local(e)

    def view(self) -> str:
        joined, relation = self.source.bind("_Joined", join_view.JoinView), "_relation"
        states = ", ".join(f"_input_state{number}(P, now)" for number in range(len(self.inputs)))
        shared = self.join.shared
        relations = ", ".join("P" if n in shared else f"{relation}{n}()" for n in range(len(self.inputs)))
        return f"{joined}(join_form, [{states}], [{relations}])"

    def ask(self) -> None:
        source, at = self.source, self.at
        if at < 0:
            arrivals = "inputs" if self.steps.reads_pattern else "[(number, e) for number in inputs]"
            entered = "enter_inputs(W, e" if self.steps.joins_one_type else f"W.take_all({arrivals}"
            source.line(f"change = {entered}, now)")
            return
        self.take()
        source.line(f"if change is not None: change = changed{at}(W, *change)")

    def take(self) -> None:
        """Write that the input takes an event; ``change`` is the delta of the input."""
        source, at = self.source, self.at
        source.line("J, V = S, W")  # of the join; now S and W are those of the input
        source.line(f"S = V.states[{at}]")
        self._write_arrival("change =")
        if self.inputs[at].code.steps.ticks:
            source.line("due = W.due")
            source.line("S, W = J, V")
            source.line("if due != W.due: W.update_due()")
        else:
            source.line("S, W = J, V")

    def arrive(self, swept: EvictionWriter) -> EmittedChange | None:
        self.ask()
        self.armed()
        return DELTA_IN_LOCAL

    def item(self, operands: Sequence[str] | None = None) -> str:
        raise Refusal("no-item", "a single event of a join is not a row")

    @property
    def streams(self) -> list[int]:
        """The inputs that receive events or matches: all but named windows and tables."""
        return [number for number, input_ in enumerate(self.steps.inputs) if not input_.reads_store]

    @property
    def stores(self) -> list[int]:
        """The inputs that are named windows, which report their changes."""
        steps, tables = self.steps.inputs, self.join.tables
        return [number for number, input_ in enumerate(steps) if input_.reads_store and not tables[number]]

    @property
    def stores_by_name(self) -> list[list[int]]:
        """The inputs that are named windows, those of one window together."""
        inputs: dict[str, list[int]] = {}
        for number in self.stores:
            store = self.steps.inputs[number].source.store
            assert store is not None
            inputs.setdefault(store.name, []).append(number)
        return list(inputs.values())

    @property
    def tables(self) -> list[int]:
        """The inputs that are tables whose rows are copied before each lookup."""
        return [number for number, table in enumerate(self.join.tables) if table and number not in self.join.shared]

    def write_tables(self) -> None:
        """Write ``table0(S)``: the present rows of the table that is input 0, as items of that input."""
        for number in self.tables:
            self.write_taken(number)
            with self.source.block(f"def table{number}(S):"):
                self.source.line(f"return taken{number}(S, stored(S, {number}), clock.now)")

    def write_taken(self, number: int) -> None:
        """Write ``taken0(S, stored, now)``: rows of the named window that is input 0, as items of that input."""
        input_ = self.inputs[number]
        write_store_items(f"taken{number}", input_.code, input_.pipeline)

    def changed(self, numbers: Sequence[int], unread: str) -> None:
        """Write how inputs that read one named window take its change; `unread` is from `filter_failures`."""
        source, several = self.source, len(numbers) > 1
        if several:
            source.line("changes = []")
        for number in numbers:
            steps = self.inputs[number].code.steps
            entering, leaving = (unread, ", []") if unread and lower.may_fail(steps.source.filter) else ("", "")
            entered, left = (
                f"taken{number}(W.states[{number}], {rows}, now{failures})"
                for rows, failures in (("entered", entering), ("left", leaving))
            )
            if not steps.views_store:
                source.line(f"change = ({entered}, {left})")
            else:
                source.line(f"change = W.states[{number}].view.take(({entered}, {left}), now)")
            then = f"changes.append(({number}, change))" if several else f"change = changed{number}(W, *change)"
            source.line(f"if change is not None: {then}" if steps.views_store else then)
        if several:
            source.line("change = W.all_changed(changes)")

    def prefill(self) -> None:
        """Write how named windows are filled at the start. The rows that this makes count and are not posted."""
        for number in self.stores:
            if not self.join.node.inputs[number].unidirectional and number not in self.join.shared:
                rows = f"taken{number}(W.states[{number}], stored(S, {number}), now)"
                if self.inputs[number].code.steps.views_store:
                    self.source.line(f"change = W.states[{number}].view.take(({rows}, ()), now)")
                    self.source.line(f"if change is not None: W.relations[{number}].change(*change)")
                else:
                    self.source.line(f"W.relations[{number}].change({rows}, ())")
        if not self.join.unidirectional:
            self.source.line("process(S, list(W.contents()), (), now, [], [], False)")

    def write_inputs(self) -> None:
        """Write ``arrive0(e, S, now)``: the delta that an event causes in input 0 with state ``S``."""
        for number in self.streams:
            self.at = number
            with self.source.block(f"def arrive{number}(e, S, now):"):
                self._write_arrival("return")
        if self.steps.joins_one_type:
            with self.source.block("def enter_inputs(V, e, now):"):
                self._enter_inputs()

    def _enter_inputs(self) -> None:
        """Write `JoinView.take_all` for an event that all inputs read: filters, arrivals, and the combinations."""
        source, changes = self.source, [f"change{number}" for number in self.streams]
        present: Mapping[str, int] | None = None  # the properties in locals
        for number, input_ in enumerate(self.inputs):
            code, condition = input_.code, input_.code.steps.source.filter
            source.line(f"S, change{number} = V.states[{number}], None")
            if code.first.positions != present:
                write_properties(code, code.steps.properties)
                present = code.first.positions
            test = "True" if condition is None else lower.filter_condition(code.arriving("now"), condition)
            with source.block(f"if {test}:", None if condition is None else condition.span):
                source.line("W = S.view")
                code.number()
                source.line(f"change{number} = W.arrive({input_.pipeline.item()}, now)", input_.pipeline.span)
        if self.steps.ticks:
            source.line("V.update_due()")
        for number, change in enumerate(changes):
            with source.block(f"if {' and '.join(f'{other} is None' for other in changes if other != change)}:"):
                source.line(f"return None if {change} is None else changed{number}(V, *{change})")
        several = ", ".join(f"({number}, {change})" for number, change in enumerate(changes))
        source.line(f"return V.all_changed([change for change in ({several}) if change[1] is not None])")

    def _write_arrival(self, then: str) -> None:
        input_ = self.inputs[self.at]
        if not self.reads_columns:
            write_event_reading(input_.code, input_.code.steps.source.filter, "now")
        self.source.line("W = S.view")
        input_.code.number()
        self.source.line(f"{then} W.arrive({input_.pipeline.item()}, now)", input_.pipeline.span)

    def write_states(self) -> None:
        """Write ``_input_state0(P, now)``, once all window parameters are known."""
        for number, input_ in enumerate(self.inputs):
            with self.source.block(f"def _input_state{number}(P, now):"):
                input_.code.new_state(StatementState)
                self.source.line(f"S.view = {input_.view}")
                self.source.line("return S")

    def spec(self, namespace: Mapping[str, Any]) -> join_view.JoinSpec:
        """Return what running joins share."""
        numbers, steps = range(len(self.inputs)), self.steps
        find = {n: namespace[f"find{n}"] for n in numbers if self.join.active[n]}
        find_left = find
        if self._may_fail:
            report = partial(join_view.report_condition_failure, namespace)
            ignore = join_view.ignore_condition_failure
            find_left = {n: partial(function, failing=ignore) for n, function in find.items()}
            find = {n: partial(function, failing=report) for n, function in find.items()}
        return join_view.JoinSpec(
            arrive={n: namespace[f"arrive{n}"] for n in self.streams if not steps.buffers_input},
            find=find,
            find_left=find_left,
            changed={n: namespace[f"changed{n}"] for n in numbers},
            contents=namespace["joined_rows"],
            active=self.join.active,
            keeps=tuple(map(self.keeps, numbers)),
            leaving=self._leaving,
            ordinals=tuple(self.rows.place(n) for n in numbers),
            tables=tuple((n, namespace[f"table{n}"]) for n in self.tables),
            passing=tuple(map(self._passes, numbers)),
            transient=self.join.transient,
            layout=tuple(self._side(n, name) for n, name in enumerate(stream_names(self.join.node))),
            out_of_order=self.join.inner and (self.join.follows_tree or _out_of_order(self.join.reached(0))),
        )

    def keeps(self, number: int) -> bool:
        """Return whether the events of an input are kept for events of others."""
        apart = self.join.node.inputs[number].unidirectional or number in self.join.shared
        return not apart and not self._passes(number)

    def _passes(self, number: int) -> bool:
        return self.steps.inputs[number].discards_events or self.join.transient[number]

    @property
    def _leaving(self) -> bool:
        steps = self.steps
        return bool(steps.makes_remove_rows or steps.aggregation or steps.output) and not self.join.unidirectional

    def _side(self, number: int, name: str) -> join_view.JoinStream:
        items, at = self.rows.inputs[number], self.rows.place(number)
        whole = at + items.parts.index("e") if "e" in items.parts else None
        properties = tuple((name_, at + items.parts.index(str(items.positions[name_]))) for name_ in items.properties)
        return join_view.JoinStream(name, at, whole, properties)

    def _write_finders(self) -> None:
        self._write_combinations()
        for number in self.join.shared:
            self._write_whole(number)
        self._write_relations()
        for number in range(len(self.inputs)):
            self._write_changed(number)
        self.lookups.write_keys(self._unpack_item, self._scope)

    def _write_combinations(self) -> None:
        first, *others = self.join.starts
        for number, active in enumerate(self.join.active):
            if active or number in self.join.starts:
                with self.source.block(f"def find{number}(R, items{', failing=None' * self._may_fail}):"):
                    self.source.line("found = []")
                    self.write_found(number, "items", partial(self._append, number))
                    self.source.line("return found")
        with self.source.block("def joined_rows(R):"):
            self.source.line(f"found = find{first}(R, {self._whole(first)})")
            for number in others:  # the others of its combinations were found before
                lonely = " and ".join(f"item[{self.rows.place(n)}] < 0" for n in range(number))
                self.source.line(f"found += [item for item in find{number}(R, {self._whole(number)}) if {lonely}]")
            self.source.line("return found")

    def _write_changed(self, number: int) -> None:
        source, active = self.source, self.join.active[number]
        with source.block(f"def changed{number}(W, entered, left):"):
            if self.tables:
                source.line("W.copy_tables()")
            source.line("R = W.relations")
            guarded = self._may_fail
            if active and self._leaving:
                failing = f", {source.bind('_ignored', join_view.ignore_condition_failure)}" if guarded else ""
                source.line(f"former = find{number}(R, left{failing}) if left else ()")
            if self.keeps(number):
                self.write_update(number)
            if not active:
                source.line("return None")
                return
            source.line("found, failing = [], failed" if guarded else "found = []")
            self.write_found(number, "entered", partial(self._append, number))
            source.line("if W.spec.listeners: W.spec.notify(found)")
            former = "former" if self._leaving else "()"
            source.line(f"return (found, {former}) if found{' or former' * self._leaving} else None")

    def write_update(self, number: int) -> None:
        """Write `Relation.change` for an input, without calls."""
        source, tables = self.source, list[tuple[str, str, str]]()
        for place, (kind, exprs) in enumerate(self.inputs[number].indexes):
            key = self._plain_key(number, exprs) if kind == "hash" else None
            if key is None:
                source.line(f"R[{number}].change(entered, left)")
                return
            tables.append((f"t{place}", f"g{place}", key))
        source.line(f"rows = R[{number}].rows")
        for place, (table, _, _) in enumerate(tables):
            source.line(f"{table} = R[{number}].indexes[{place}].table")
        with source.block("for item in entered:"):
            source.line("o = item[0]")
            source.line("rows[o] = item")
            for table, _, key in tables:
                source.line(f"if {key} in {table}: {table}[{key}][o] = item")
                source.line(f"else: {table}[{key}] = {{o: item}}")
        with source.block("for item in left:"):
            source.line("o = item[0]")
            with source.block("if rows.pop(o, None) is not None:"):
                for table, group, key in tables:
                    source.line(f"{group} = {table}.get({key})")
                    with source.block(f"if {group} is not None:"):
                        source.line(f"{group}.pop(o, None)")
                        source.line(f"if not {group}: del {table}[{key}]")

    def _plain_key(self, number: int, exprs: Sequence[x.BoundExpr]) -> str | None:
        places = loops.plain_key_positions(exprs, self._scope, self.rows.locals_of(number))
        if places is None:
            return None
        code = ", ".join(f"item[{place}]" for place in places)
        return code if len(places) == 1 else f"({code})"

    def _write_relations(self) -> None:
        relation = self.source.bind("_Relation", Relation)
        for number, input_ in enumerate(self.inputs):
            if number in self.join.shared:
                continue
            indexes = []
            for place, (kind, exprs) in enumerate(input_.indexes):
                name = f"key{number}_{place}"
                locals_ = self.rows.locals_of(number)
                loops.write_key_function(name, exprs, partial(self._unpack_item, number), self._scope, locals_)
                indexes.append(loops.new_index_code(kind, name, self.source))
            with self.source.block(f"def _relation{number}():"):
                self.source.line(f"return {relation}([{', '.join(indexes)}])")

    def _whole(self, number: int) -> str:
        return f"items{number}(R)" if number in self.join.shared else f"R[{number}].rows.values()"

    def _write_whole(self, number: int) -> None:
        with self.source.block(f"def items{number}(R):"):
            self.source.line("found = []")
            path = self.join.all_of(number)
            self._hoist(path)
            with self._loop_over(path), self._if(path.rest):
                self.source.line(f"found.append({self._item(number)})")
            self.source.line("return found")

    @property
    def _scope(self) -> CodeScope:
        return self.rows.scope(self.code.base, retained=True)

    def _unpacking(self, numbers: Iterable[int], item: str) -> str:
        names = [name for number in numbers for name in self.rows.locals_of(number)]
        return f"{', '.join(names)}{',' * (len(names) == 1)} = {item}"

    def _unpack(self, number: int) -> None:
        self.source.line(self._unpacking([number], f"i{number}"))

    def _unpack_item(self, number: int, item: str) -> None:
        if number in self.join.shared:
            loops.write_item_unpacking(self.rows.inputs[number], item, f"q{number}_", self.source)
        else:
            self.source.line(self._unpacking([number], item))

    def _item(self, number: int) -> str:
        if number not in self.join.shared:
            return f"i{number}"
        names = self.rows.locals_of(number)
        return f"({', '.join(names)}{',' * (len(names) == 1)})"

    def write_found(self, number: int, items: str, write_match: Callable[[], None], *, apart: bool = False) -> None:
        """Write loops over the combinations with these items of an input. `write_match` writes what happens to one;
        with `apart` its items are unpacked.
        """
        source, open_ = self.source, list(self.join.conditions)
        open_ += [e for n, (_, filters) in self.join.shared.items() if n != number for e in filters]
        accesses, known = self.join.reached(number), [number]
        for path in accesses:
            self._hoist(path)
        while len(accesses) > _NESTED_LOOPS:  # Python limits how deeply blocks nest
            nested, accesses = accesses[:_NESTED_LOOPS], accesses[_NESTED_LOOPS:]
            locals_ = [f"i{n}" for n in (*known, *(path.input for path in nested))]
            begun = f"begun{len(known)}"
            source.line(f"{begun} = []")
            append = partial(source.line, f"{begun}.append(({', '.join(locals_)}))")
            self._loop(known, items, nested, open_, append, False)
            known += [path.input for path in nested]
            open_ = [e for e in open_ if not streams_read(e) <= {*known}]
            items = begun
        self._loop(known, items, accesses, open_, write_match, apart)

    def _loop(
        self,
        known: list[int],
        items: str,
        accesses: list[AccessPath],
        open_: list[x.BoundExpr],
        write_match: Callable[[], None],
        apart: bool,
    ) -> None:
        first, *others = known
        with self.source.block(f"for {', '.join(f'i{n}' for n in known)} in {items}:"):
            self._unpack(first)
            for number in others:
                self._unpack_item(number, f"i{number}")
            self._nested({*known}, accesses, open_, write_match, apart)

    def _append(self, number: int) -> None:
        items = (f"i{n}" if n == number else self._item(n) for n in range(len(self.inputs)))
        self.source.line(f"found.append({' + '.join(items)})")

    def _nested(
        self,
        known: set[int],
        accesses: list[AccessPath],
        open_: list[x.BoundExpr],
        write_match: Callable[[], None],
        apart: bool,
    ) -> None:
        """Write the loops over the remaining inputs, each after the conditions that can be tested before it."""
        ready = [e for e in open_ if streams_read(e) <= known]
        later = [e for e in open_ if e not in ready]
        with self._if(ready, guarded=True):
            if not accesses:
                write_match()
                return
            first, *rest = accesses
            by_index = [e for e in later if streams_read(e) <= {*known, first.input} and e not in first.rest]
            tested = [e for e in later if e not in by_index]
            read = {n for e in (*tested, *(e for path in rest for e in path.known)) for n in streams_read(e)}
            with self._loop_over(first, apart or first.input in read):
                self._nested({*known, first.input}, rest, tested, write_match, apart)

    @property
    def _may_fail(self) -> bool:
        return self.join.may_fail

    @contextmanager
    def _if(self, conditions: Sequence[x.BoundExpr], *, guarded: bool = False) -> Iterator[None]:
        """Write `conditions`. With `guarded` a failing condition is false, and is passed to ``failing`` if there is
        one.
        """
        if not conditions:
            yield
            return
        source, span = self.source, conditions[0].span
        tests = " and ".join(lower.truth(self._scope, e) for e in conditions)
        if not (guarded and lower.may_fail(*conditions)):
            with source.block(f"if {tests}:", span):
                yield
            return
        with source.block("try:"):
            source.line(f"held = {tests}", span)
        with source.block("except Exception as failure:"):
            with source.block("if failing is None:"):
                source.line("raise")
            source.line("failing(failure)")
            source.line("held = False")
        with source.block("if held:"):
            yield

    def _index(self, path: AccessPath) -> int:
        assert path.index is not None
        indexes = self.inputs[path.input].indexes
        if path.index not in indexes:
            indexes.append(path.index)
        return indexes.index(path.index)

    def _hoist(self, path: AccessPath) -> None:
        if path.input in self.join.shared:
            looked = f"{self.lookups.look(path)}(R[{path.input}])"
        else:
            looked = loops.lookup_target(path, f"R[{path.input}]", 0 if path.scans else self._index(path))
        self.source.line(f"x{path.input} = {looked}")

    @contextmanager
    def _loop_over(self, path: AccessPath, is_read: bool = True) -> Iterator[None]:
        with self.source.block(loops.write_loop_head(path, f"x{path.input}", f"i{path.input}", self._scope)):
            if is_read or path.input in self.join.shared:
                self._unpack_item(path.input, f"i{path.input}")
            yield


def _one_input(e: x.BoundExpr) -> int:
    inputs = streams_read(e)
    if len(inputs) > 1:
        raise Refusal("several-inputs", "`prev` and `prior` can read only one stream of a join")
    return next(iter(inputs), 0)


def _local(e: x.BoundExpr) -> x.BoundExpr:
    return rebase_to_input(e, _one_input(e))


def stream_names(join: nodes.StreamJoin) -> list[str]:
    """Return the names of the streams of a join: alias, else event type; with numbers if these are not unique."""
    sources = [nodes.source_of(stream.stream) for stream in join.inputs]
    names = [source.alias or source.event_type or "pattern" for source in sources]
    return [name if names.count(name) == 1 else f"{name} {number}" for number, name in enumerate(names)]


def _out_of_order(accesses: Sequence[AccessPath]) -> bool:
    inputs = [path.input for path in accesses]
    sorts = any(path.range is not None or any(key.more for key in path.keys) for path in accesses)
    return sorts or inputs != sorted(inputs)
