"""Code of joins: how events enter the inputs, and how the combinations with an item of an input are found.

Each input is a little statement up to its windows: a state of its own (``_input_state0``) and a function that takes an
event (``arrive0``). ``find0(R, items)`` makes the combinations with `items` of input 0 out of the relations ``R``:
loops, one per other input, each over what an index or the whole relation gives. Of named windows and tables these are
the relations that all their readers share: there ``R`` has the context partition, with which they are asked.

Outer joins are made stream after stream, as they are written: ``extend2`` joins stream 2 to combinations of the streams
before it, ``with2`` finds those that go with items of stream 2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from cepbook.engine.codegen.join_view import (
    JoinSpec,
    JoinStream,
    JoinView,
    ignore_condition_failure,
    report_condition_failure,
)
from cepbook.engine.codegen.relation_loops import (
    LookupCodegen,
    lookup_target,
    new_index_code,
    plain_key_positions,
    write_item_unpacking,
    write_key_function,
    write_loop_head,
)
from cepbook.engine.codegen.views import ViewCodegen, write_event_reading, write_store_items
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.to_python import CodeScope
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.fragments.event_layout import JoinedLayout
from cepbook.engine.physical.access import AccessPath, inputs_read
from cepbook.engine.physical.lowering import rebase_to_input
from cepbook.engine.relations.relation import Relation
from cepbook.engine.windows.window_codegen import DELTA_IN_LOCAL, EmittedChange, EvictionWriter
from cepbook.errors import Refusal
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes


@dataclass(slots=True)
class _Input:
    """One input as it is written: its code and views, and the indexes that its relation needs."""

    code: CodegenContext
    pipeline: ViewCodegen
    view: str
    indexes: list[tuple[str, tuple[x.BoundExpr, ...]]] = field(default_factory=list)


class JoinCodegen(ViewCodegen):
    """Writes what turns events of several inputs into changes of combinations. `at`: the input that is written."""

    def __init__(self, code: CodegenContext) -> None:
        super().__init__(code, False)
        assert self.steps.join is not None and isinstance(code.items, JoinedLayout)
        self.join = self.steps.join
        self.rows = code.items
        self.at = 0
        self.assigner = False  # whether the locals of events are there already, and the filter is tested
        self.looks = LookupCodegen(self.source)
        self.inputs: list[_Input] = []
        for steps in self.steps.inputs:
            own = CodegenContext(steps, code.base.at(aggregates=(), keys=(), state="state_of(S[0])"))
            own.helpers = code.helpers  # of one module, with names of their own
            pipeline = ViewCodegen(own, False)
            self.inputs.append(_Input(own, pipeline, pipeline.view()))
        code.helpers.append(self._write_finders)

    # -------------------------------------------------------------- facts
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
        """Of ``prev``: code of the view that it looks at, and of the item of that input."""
        number = 0 if e.value is None else _one_input(e.value)
        begin = self.rows.place(number)
        return f"W.states[{number}][1], item[{begin}:{begin + len(self.rows.inputs[number].parts)}]"

    def of_input(self, e: x.BoundExpr) -> tuple[CodegenContext, x.BoundExpr]:
        """The code of the input that an expression reads, and the expression as it stands there."""
        return self.inputs[_one_input(e)].code, _local(e)

    # -------------------------------------------------------------- views and arrivals
    def view(self) -> str:
        joined, relation = self.source.bind("_Joined", JoinView), "_relation"
        states = ", ".join(f"_input_state{number}(P, now)" for number in range(len(self.inputs)))
        shared = self.join.shared
        relations = ", ".join("P" if n in shared else f"{relation}{n}()" for n in range(len(self.inputs)))
        return f"{joined}(join_form, [{states}], [{relations}])"

    def ask(self) -> None:
        source, at = self.source, self.at
        if at < 0:
            source.line("change = W.take_all(inputs, e, now)")
            return
        self.take()
        source.line(f"if change is not None: change = changed{at}(W, *change)")

    def take(self) -> None:
        """Write that the input that is written takes an event; ``change`` is what that changes in it."""
        source, at = self.source, self.at
        source.line("J, V = S, W")  # of the join; now S and W are those of the input
        source.line(f"S = V.states[{at}]")
        self._write_arrival("change =")
        if self.inputs[at].code.steps.ticks:
            source.line("due = W.due")
            source.line("S, W = J, V")
            source.line("if due != W.due: W.look()")
        else:
            source.line("S, W = J, V")

    def arrive(self, swept: EvictionWriter) -> EmittedChange | None:
        self.ask()
        self.armed()
        return DELTA_IN_LOCAL

    def item(self, operands: Sequence[str] | None = None) -> str:
        raise Refusal("no-item", "an event of a join is no row yet")

    # -------------------------------------------------------------- inputs
    @property
    def streams(self) -> list[int]:
        """The inputs that events come to, or matches: all but named windows and tables."""
        return [number for number, each in enumerate(self.steps.inputs) if not each.reads_store]

    @property
    def stores(self) -> list[int]:
        """The inputs that are named windows: they are told of changes."""
        steps, tables = self.steps.inputs, self.join.tables
        return [number for number, each in enumerate(steps) if each.reads_store and not tables[number]]

    @property
    def tables(self) -> list[int]:
        """The inputs that are tables whose rows are copied before they are looked at."""
        return [number for number, table in enumerate(self.join.tables) if table and number not in self.join.shared]

    def write_tables(self) -> None:
        """``table0(S)``: the present rows of the table that is input 0, as items of that input."""
        for number in self.tables:
            self.write_taken(number)
            with self.source.block(f"def table{number}(S):"):
                self.source.line(f"return taken{number}(S, stored(S, {number}), clock.now)")

    def write_taken(self, number: int) -> None:
        """``taken0(S, stored, now)``: rows of the named window that is input 0 as items of that input."""
        each = self.inputs[number]
        write_store_items(f"taken{number}", each.code, each.pipeline)

    def changed(self, unread: str) -> None:
        """Write that the input that is written, a named window, is told of a change; `unread` is of `taking`."""
        entered = f"taken{self.at}(W.states[{self.at}], entered, now{unread})"
        left = f"taken{self.at}(W.states[{self.at}], left, now{', []' if unread else ''})"
        self.source.line(f"change = changed{self.at}(W, {entered}, {left})")

    def prefill(self) -> None:
        """Write that all named windows are there from the beginning; rows that they make count and are not posted."""
        for number in self.stores:
            if not self.join.node.inputs[number].unidirectional and number not in self.join.shared:
                held = f"taken{number}(W.states[{number}], stored(S, {number}), now)"
                self.source.line(f"W.relations[{number}].change({held}, ())")
        if not self.join.unidirectional:
            self.source.line("process(S, list(W.contents()), (), now, [], [], False)")

    def write_inputs(self) -> None:
        """``arrive0(e, S, now)``: what an event changes in the input 0, of which ``S`` is the state."""
        for number in self.streams:
            self.at = number
            with self.source.block(f"def arrive{number}(e, S, now):"):
                self._write_arrival("return")

    def _write_arrival(self, then: str) -> None:
        """What an event changes in the input that is written, of which ``S`` is the state."""
        each = self.inputs[self.at]
        if not self.assigner:
            write_event_reading(each.code, each.code.steps.source.filter, "now")
        self.source.line("W = S[1]")
        each.code.number()
        self.source.line(f"{then} W.arrive({each.pipeline.item()}, now)", each.pipeline.span)

    def write_states(self) -> None:
        """``_input_state0(P, now)``: written when all window parameters are known."""
        for number, each in enumerate(self.inputs):
            with self.source.block(f"def _input_state{number}(P, now):"):
                self.source.line(f"S = [{', '.join(['P', 'None', 'None', '0', *each.code.parameters])}]")
                self.source.line(f"S[1] = {each.view}")
                self.source.line("return S")

    def form(self, namespace: Mapping[str, object]) -> JoinSpec:
        """What running joins are given."""
        numbers, steps = range(len(self.inputs)), self.steps
        find: Any = {n: namespace[f"find{n}"] for n in numbers if self.join.active[n]}
        guarded = self.join.inner and self._may_fail
        return JoinSpec(
            arrive={n: namespace[f"arrive{n}"] for n in self.streams if not steps.buffers_input},  # type: ignore[misc]
            find={n: partial(each, failing=partial(report_condition_failure, namespace)) for n, each in find.items()}
            if guarded
            else find,
            gone={n: partial(each, failing=ignore_condition_failure) for n, each in find.items()} if guarded else find,
            changed={n: namespace[f"changed{n}"] for n in numbers},  # type: ignore[misc]
            contents=namespace["joined_rows"],  # type: ignore[arg-type]
            active=self.join.active,
            keeps=tuple(map(self.keeps, numbers)),
            leaving=self._leaving,
            ordinals=tuple(self.rows.place(n) for n in numbers),
            tables=tuple((n, namespace[f"table{n}"]) for n in self.tables),  # type: ignore[misc]
            passing=tuple(n for n in numbers if self.steps.inputs[n].discards_events),
            layout=tuple(self._side(n, name) for n, name in enumerate(stream_names(self.join.node))),
            out_of_order=self.join.inner and _out_of_order(self.join.reached(0)),
        )

    def keeps(self, number: int) -> bool:
        """Whether the events of an input are there for others."""
        return not self.join.node.inputs[number].unidirectional and number not in self.join.shared

    @property
    def _leaving(self) -> bool:
        """Whether somebody looks at what leaves."""
        steps = self.steps
        return bool(steps.makes_remove_rows or steps.aggregation or steps.output) and not self.join.unidirectional

    def _side(self, number: int, name: str) -> JoinStream:
        items, at = self.rows.inputs[number], self.rows.place(number)
        whole = at + items.parts.index("e") if "e" in items.parts else None
        kept = tuple((each, at + items.parts.index(str(items.positions[each]))) for each in items.properties)
        return JoinStream(name, at, whole, kept)

    # -------------------------------------------------------------- combinations
    def _write_finders(self) -> None:
        self._write_combinations()
        for number in self.join.shared:
            self._write_whole(number)
        self._write_relations()
        for number in range(len(self.inputs)):
            self._write_changed(number)
        self.looks.write_keys(self._unpack_item, self._scope)

    def _write_combinations(self) -> None:
        """Write ``find0(R, items)`` of each active input, and ``joined_rows(R)``."""
        for number, active in enumerate(self.join.active):
            if active or number == 0:
                self._write_loops(number)
        with self.source.block("def joined_rows(R):"):
            self.source.line(f"return find0(R, {self._whole(0)})")

    # -------------------------------------------------------------- a change of one input
    def _write_changed(self, number: int) -> None:
        """``changed0(W, entered, left)``: what a change of input 0, of its views, makes of combinations."""
        source, active = self.source, self.join.active[number]
        with source.block(f"def changed{number}(W, entered, left):"):
            if self.tables:
                source.line("W.look_at_tables()")
            source.line("R = W.relations")
            guarded = self.join.inner and self._may_fail
            if active and self._leaving:
                failing = f", {source.bind('_ignored', ignore_condition_failure)}" if guarded else ""
                source.line(f"former = find{number}(R, left{failing}) if left else ()")
            if self.keeps(number):
                self.write_update(number)
            if not active:
                source.line("return None")
                return
            if self.join.inner:
                source.line("found, failing = [], failed" if guarded else "found = []")
                self.write_found(number, "entered", partial(self._append, number))
            else:
                source.line(f"found = find{number}(R, entered)")
            source.line("if W.form.told: W.form.tell(found)")
            former = "former" if self._leaving else "()"
            source.line(f"return (found, {former}) if found{' or former' * self._leaving} else None")

    def write_update(self, number: int) -> None:
        """The relation of an input and its indexes take a change; it is `Relation.change`, without calls."""
        source, made = self.source, list[tuple[str, str, str]]()
        for place, (kind, exprs) in enumerate(self.inputs[number].indexes):
            key = self._plain_key(number, exprs) if kind == "hash" else None
            if key is None:
                source.line(f"R[{number}].change(entered, left)")
                return
            made.append((f"t{place}", f"g{place}", key))
        source.line(f"rows = R[{number}].rows")
        for place, (table, _, _) in enumerate(made):
            source.line(f"{table} = R[{number}].indexes[{place}].table")
        with source.block("for item in entered:"):
            source.line("o = item[0]")
            source.line("rows[o] = item")
            for table, _, key in made:
                source.line(f"if {key} in {table}: {table}[{key}][o] = item")
                source.line(f"else: {table}[{key}] = {{o: item}}")
        with source.block("for item in left:"):
            source.line("o = item[0]")
            with source.block("if rows.pop(o, None) is not None:"):
                for table, group, key in made:
                    source.line(f"{group} = {table}.get({key})")
                    with source.block(f"if {group} is not None:"):
                        source.line(f"{group}.pop(o, None)")
                        source.line(f"if not {group}: del {table}[{key}]")

    def _plain_key(self, number: int, exprs: Sequence[x.BoundExpr]) -> str | None:
        """Code of the key of ``item`` where it is just parts of it, as `write_key_function` takes them; else None."""
        places = plain_key_positions(exprs, self._scope, self.rows.locals_of(number))
        if places is None:
            return None
        parts = ", ".join(f"item[{place}]" for place in places)
        return parts if len(places) == 1 else f"({parts})"

    def _write_relations(self) -> None:
        relation = self.source.bind("_Relation", Relation)
        for number, each in enumerate(self.inputs):
            if number in self.join.shared:
                continue
            made = []
            for place, (kind, exprs) in enumerate(each.indexes):
                name = f"key{number}_{place}"
                parts = self.rows.locals_of(number)
                write_key_function(name, exprs, partial(self._unpack_item, number), self._scope, parts)
                made.append(new_index_code(kind, name, self.source))
            with self.source.block(f"def _relation{number}():"):
                self.source.line(f"return {relation}([{', '.join(made)}])")

    def _whole(self, number: int) -> str:
        """Code of all items of an input."""
        return f"items{number}(R)" if number in self.join.shared else f"R[{number}].rows.values()"

    def _write_whole(self, number: int) -> None:
        """``items0(R)``: all rows of the store that is input 0, as items of that input."""
        with self.source.block(f"def items{number}(R):"):
            self.source.line("found = []")
            path = self.join.all_of(number)
            self._hoist(path)
            with self._each(path), self._if(path.rest):
                self.source.line(f"found.append({self._item(number)})")
            self.source.line("return found")

    @property
    def _scope(self) -> CodeScope:
        return self.rows.scope(self.code.base, retained=True)

    def _unpacking(self, numbers: Iterable[int], item: str) -> str:
        """The line that takes the items of some inputs, one behind the other, apart."""
        names = [name for number in numbers for name in self.rows.locals_of(number)]
        return f"{', '.join(names)}{',' * (len(names) == 1)} = {item}"

    def _unpack(self, number: int) -> None:
        self.source.line(self._unpacking([number], f"i{number}"))

    def _unpack_item(self, number: int, item: str) -> None:
        """Write what takes an item of a relation apart: of an input's own, or of a store's."""
        if number in self.join.shared:
            write_item_unpacking(self.rows.inputs[number], item, f"q{number}_", self.source)
        else:
            self.source.line(self._unpacking([number], item))

    def _item(self, number: int) -> str:
        """Code of the item of an input that was found in a relation and taken apart."""
        if number not in self.join.shared:
            return f"i{number}"
        names = self.rows.locals_of(number)
        return f"({', '.join(names)}{',' * (len(names) == 1)})"

    def _write_loops(self, number: int) -> None:
        failing = ", failing=None" if self._may_fail else ""
        with self.source.block(f"def find{number}(R, items{failing}):"):
            self.source.line("found = []")
            self.write_found(number, "items", partial(self._append, number))
            self.source.line("return found")

    def write_found(self, number: int, items: str, found: Callable[[], None], *, apart: bool = False) -> None:
        """Write loops over the combinations with these items of an input, of a join of inner kinds.

        `found` writes what is done with one; `apart`: its items are taken apart for that.
        """
        source, open_conditions = self.source, list(self.join.conditions)
        open_conditions += [e for n, (_, filters) in self.join.shared.items() if n != number for e in filters]
        accesses = self.join.reached(number)
        for each in accesses:
            self._hoist(each)
        with source.block(f"for i{number} in {items}:"):
            self._unpack(number)
            self._nested({number}, accesses, open_conditions, found, apart)

    def _append(self, number: int) -> None:
        """Write that ``found`` has a further combination, with an item of input `number` that came in."""
        items = (f"i{n}" if n == number else self._item(n) for n in range(len(self.inputs)))
        self.source.line(f"found.append({' + '.join(items)})")

    def _nested(
        self,
        known: set[int],
        accesses: list[AccessPath],
        open_: list[x.BoundExpr],
        found: Callable[[], None],
        apart: bool,
    ) -> None:
        """Write the loops over the inputs that are left, each behind the conditions that can be tested before it."""
        ready = [e for e in open_ if inputs_read(e) <= known]
        later = [e for e in open_ if e not in ready]
        with self._if(ready, guarded=True):
            if not accesses:
                found()
                return
            first, *rest = accesses
            by_index = [e for e in later if inputs_read(e) <= {*known, first.input} and e not in first.rest]
            tested = [e for e in later if e not in by_index]
            read = {n for e in (*tested, *(e for each in rest for e in each.known)) for n in inputs_read(e)}
            with self._each(first, apart or first.input in read):
                self._nested({*known, first.input}, rest, tested, found, apart)

    @property
    def _may_fail(self) -> bool:
        """Whether a condition on combinations may fail."""
        return lower.may_fail(*self.join.conditions, *(e for _, filters in self.join.shared.values() for e in filters))

    @contextmanager
    def _if(self, conditions: Sequence[x.BoundExpr], *, guarded: bool = False) -> Iterator[None]:
        """Under `conditions`; `guarded`: one that fails does not hold, and ``failing`` is told, if there is such."""
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

    def _index(self, each: AccessPath) -> int:
        """The place of the index that an access needs among those of its input."""
        assert each.index is not None
        indexes = self.inputs[each.input].indexes
        if each.index not in indexes:
            indexes.append(each.index)
        return indexes.index(each.index)

    def _hoist(self, each: AccessPath) -> None:
        """Write the local that an access looks into, before the loop."""
        if each.input in self.join.shared:
            looked = f"{self.looks.look(each)}(R[{each.input}])"
        else:
            looked = lookup_target(each, f"R[{each.input}]", 0 if each.scans else self._index(each))
        self.source.line(f"x{each.input} = {looked}")

    @contextmanager
    def _each(self, each: AccessPath, is_read: bool = True) -> Iterator[None]:
        """Write the loop over the items of an input that an access finds, taken apart where they are read."""
        with self.source.block(write_loop_head(each, f"x{each.input}", f"i{each.input}", self._scope)):
            if is_read or each.input in self.join.shared:
                self._unpack_item(each.input, f"i{each.input}")
            yield


def _one_input(e: x.BoundExpr) -> int:
    """The input whose events an expression reads. Errors: Refusal when it reads several."""
    found = inputs_read(e)
    if len(found) > 1:
        raise Refusal("several-inputs", "prev and prior look at the events of one stream of a join")
    return next(iter(found), 0)


def _local(e: x.BoundExpr) -> x.BoundExpr:
    """`e`, of one input, as the steps of that input have it."""
    return rebase_to_input(e, _one_input(e))


def stream_names(join: nodes.StreamJoin) -> list[str]:
    """What the streams of a join are called: by alias, else by type; with their numbers where that is not enough."""
    sources = [nodes.source_of(each.stream) for each in join.inputs]
    names = [source.alias or source.event_type or "pattern" for source in sources]
    return [name if names.count(name) == 1 else f"{name} {number}" for number, name in enumerate(names)]


def _out_of_order(accesses: Sequence[AccessPath]) -> bool:
    """Whether loops from the first input on give others than in order: of another input first, or by a sorted index."""
    inputs = [each.input for each in accesses]
    return inputs != sorted(inputs) or any(a.range is not None or any(key.more for key in a.keys) for a in accesses)
