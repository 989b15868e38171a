"""A subquery as a generated module: the events or aggregates that it keeps, and the function that looks up its result.

============================================  ======================================================================
``new_state(P, now)``                         create the state, a slot of its statement's state
``on_event(e, S)``, ``on_match(e, S)``        add an event of its stream; `on_match` skips the filter
``on_change(S, entered, left, base, now)``    apply a change of the named window that it reads
``tick(S, now)``, ``due(S)``                  advance its windows to `now`; return when that is next due
``lookup(S, now, v0, …)``                     return the result for the values of the outer statement: a value, a row,
                                              an event, or True, False, None
============================================  ======================================================================

The module calls ``process`` for each delta, and ``begin`` to bring its rows up to date with a table before a lookup. A
running statement binds ``store_rows`` (the rows of a table) and, to follow a table, ``items`` (its rows by key),
``since`` (keys changed since the last call; None if unknown) and ``follow`` (register as a follower).

A subquery reads its rows from one of three places (`LookupOperator`):

- ``S.relation``: the events of its windows, or a copy of the rows of a named window or table, with the index that its
  conditions need.
- the relation of the named window or table itself, if it is `shared`. Then nothing is kept.
- ``S.groups`` or ``S.cells``: aggregates, which entering and leaving events update. This is so if it returns only
  aggregates and no condition reads the outer statement.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from cepbook.engine.codegen import relation_loops as loops
from cepbook.engine.codegen.lookup_forms import lookup_form
from cepbook.engine.codegen.program import StatementProgram, locals_legend, storage_notes
from cepbook.engine.codegen.statement import StatementCodegen
from cepbook.engine.codegen.views import filter_failures, write_event_reading, write_store_items
from cepbook.engine.expressions import to_python as lower
from cepbook.engine.expressions.source_writer import SourceWriter
from cepbook.engine.expressions.to_python import CodeScope, ScopeFactory
from cepbook.engine.fragments.codegen_context import CodegenContext
from cepbook.engine.physical.subquery import lower_subquery
from cepbook.engine.relations.relation import Relation
from cepbook.engine.relations.statement_state import SubqueryState
from cepbook.engine.state import StateMarker
from cepbook.engine.time.clock import NEVER
from cepbook.lang import types as t
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes as p


def compile_subqueries(statement: p.StatementPlan, scope_in: ScopeFactory) -> tuple[StatementProgram, ...]:
    """Compile the subqueries of a statement. Errors: Refusal for a construct that is not supported."""
    context = statement.context if isinstance(statement, p.StreamStatement) else None
    fed_table = None if statement.into is None else statement.into.store.name
    return tuple(compile_subquery(subquery, context, scope_in, fed_table) for subquery in statement.subqueries)


def scope_with_subqueries(subqueries: Sequence[StatementProgram], scope_in: ScopeFactory) -> ScopeFactory:
    """Return `scope_in` for the statement of `subqueries`, whose code calls their functions."""
    if not subqueries:
        return scope_in

    def scope(source: SourceWriter) -> CodeScope:
        names = [source.bind(f"sub{number}", subquery.functions.lookup) for number, subquery in enumerate(subqueries)]
        for name, subquery in zip(names, subqueries, strict=True):
            source.bind(f"_{name}_state", subquery.functions.new_state)
        return scope_in(source).at(subqueries=names)

    return scope


def compile_subquery(
    subquery: p.SubqueryPlan, context: str | None, scope_in: ScopeFactory, fed_table: str | None = None
) -> StatementProgram:
    """Generate, compile and load the module of `subquery`, of a statement that feeds the table `fed_table`. Errors:
    Refusal for a construct that is not supported.
    """
    steps = lower_subquery(subquery, context, fed_table)
    source = SourceWriter()
    scope = scope_in(source)
    code = CodegenContext(steps, scope)
    writer = SubqueryCodegen(code)
    writer.write()
    namespace = source.load()
    constants = {k: v for k, v in source.constants.items() if k != "clock"}
    watched = tuple(scope.variables[name] for name in steps.watched)
    program = StatementProgram(steps, source.text, namespace, source.spans, (), constants, source.bound, None, watched)
    program.index_requests = writer.lookups.requests
    program.lookup_form = partial(lookup_form, code)
    program.legend = locals_legend(writer.code)
    program.notes = storage_notes(writer.code, "arrivals call the view")
    return program


class SubqueryCodegen(StatementCodegen):
    """Writes the functions of one subquery."""

    def __init__(self, code: CodegenContext) -> None:
        super().__init__(code, False)
        lookup = code.steps.lookup
        assert lookup is not None
        self.subquery, self.path, self.member = lookup.subquery, lookup.access, lookup.member
        self.shared = lookup.shared
        self.lookups = loops.LookupCodegen(self.source)
        self.values = tuple(f"v{number}" for number in range(self.subquery.parameters))
        self.q = self.q.at(parameters=self.values)

    @property
    def _aggregates(self) -> bool:
        return self.steps.aggregate is not None

    @property
    def reads_table(self) -> bool:
        store = self.steps.source.store
        return store is not None and store.kind == "table"

    def write(self) -> None:
        if not self.shared:
            if self.steps.reads_store:
                self._on_change()
            else:
                self._on_event()
            self._process()
            self._key()
            if self.reads_table:
                self._begin()
        if self.steps.ticks:
            self._tick()
        self._lookup()
        self.reevaluate()
        self._new_state()  # now all window parameters are known
        self.helpers()
        self.lookups.write_keys(
            lambda _, item: loops.write_item_unpacking(self.code.items, item, "q", self.source), self.code.retained()
        )

    def _new_state(self) -> None:
        source = self.source
        with source.block("def new_state(P, now):"):
            self.code.new_state(SubqueryState)
            source.line(f"S.view = {self.fresh}")
            if not self.shared:
                source.line(f"{self._target} = {self._empty()}")
            self.start()
            source.line("return S")

    @property
    def _target(self) -> str:
        """The code of the field of the state that has the relation, groups or cells."""
        return "S.relation" if self.path is not None else "S.groups" if self.steps.grouped else "S.cells"

    def _empty(self) -> str:
        """Return the code of the empty relation, groups or cells."""
        source = self.source
        if self.path is None:
            return "{}" if self.steps.grouped else self.code.aggregates.fresh()
        index = ""
        if self.path.index is not None:
            index = loops.new_index_code(self.path.index[0], "key0", source)
        return f"{source.bind('_Relation', Relation)}([{index}])"

    @property
    def _parts(self) -> Sequence[str]:
        """The locals that an item is unpacked into."""
        return () if self.code.items.bare else [f"q{component}" for component in self.code.items.parts]

    def _key(self) -> None:
        if self.path is not None and self.path.index is not None:
            unpack = partial(self.code.items.unpack, self.source)
            loops.write_key_function("key0", self.path.index[1], unpack, self.code.retained(), self._parts)

    def _begin(self) -> None:
        """Write ``begin(S, now)``: bring the rows up to date with a table. Rebuild all, or replace the changed ones."""
        source, lookup = self.source, self.steps.lookup
        assert lookup is not None
        if lookup.follows:
            self._follow()
            return
        with source.block("def begin(S, now):"):
            source.line(f"{self._target} = {self._empty()}")
            with source.block("for base, rows in store_rows(S):"):
                source.line("process(S, taken(S, rows, base, now), (), now)")

    def _follow(self) -> None:
        """Write ``begin`` for a followed table: ``S.followed`` maps each table key to the items made from its row. The
        items of changed keys are replaced. After a failure it is None, so that the next lookup rebuilds everything.
        """
        source = self.source
        for name in ("since", "follow", "items"):
            source.bind(name, _unknown)
        with source.block("def begin(S, now):"):
            source.line("known, rows = S.followed, items()")
            source.line("touched = since(known)")
            with source.block("if touched is None:"):
                source.line(f"{self._target} = {self._empty()}")
                source.line("known = S.followed = {}")
                source.line("follow(known)")
                source.line("touched = rows")
            with source.block("if not touched:"):
                source.line("return")
            source.line("left, entered = [], []")
            with source.block("try:"):
                with source.block("for key in touched:"):
                    source.line("left += known.pop(key, ())")
                    with source.block("if key in rows:"):
                        source.line("made = known[key] = taken(S, (rows[key],), 0, now)")
                        source.line("entered += made")
                with source.block("if left:"):
                    source.line("process(S, (), left, now)")
                source.line("process(S, entered, (), now)")
            with source.block("except BaseException:"):
                source.line("S.followed = None")
                source.line("raise")

    def _on_event(self) -> None:
        source, steps, code = self.source, self.steps, self.code
        condition = steps.source.filter
        for name, tested in (("on_event", condition), ("on_match", None)):
            if name == "on_match" and condition is None:
                source.line("on_match = on_event")
                return
            with source.function(name, ["e", "S"]):
                write_event_reading(code, tested, "clock.now")
                source.line("now, W = clock.now, S.view")
                code.number()
                if self._enters_alone:
                    self._enter_alone()
                    continue
                source.line(f"change = W.arrive({self.pipeline.item()}, now)", self.pipeline.span)
                if steps.ticks:
                    self.pipeline.arm()
                with source.block("if change is not None:"):
                    source.line("process(S, *change, now)")

    @property
    def _enters_alone(self) -> bool:
        """True if an event goes into window and relation in place: no failure of a key may come between the two."""
        if self.path is None or not self.pipeline.queued:
            return False
        exprs = () if self.path.index is None else self.path.index[1]
        return loops.plain_key_positions(exprs, self.code.retained(), self._parts) is not None

    def _enter_alone(self) -> None:
        emitted = self.pipeline.arrive(self._sweep)
        assert emitted is not None
        self.source.line("S.relation.enter(item)")
        if emitted.left is not None:
            head, left = emitted.left
            with self.source.block(head):
                self.source.line(f"S.relation.leave({left})")

    def _on_change(self) -> None:
        """Write ``on_change(S, entered, left, base, now)`` for rows of a named window. `base` is the offset of row
        numbers of its partition.
        """
        source = self.source
        write_store_items("taken", self.code, self.pipeline, "base")
        with source.block("def on_change(S, entered, left, base, now):"), filter_failures(source, self.steps) as unread:
            left = f"taken(S, left, base, now{', []' if unread else ''})"
            if self.steps.views_store:
                source.line(f"change = S.view.take((taken(S, entered, base, now{unread}), {left}), now)")
                source.line("if change is not None: process(S, *change, now)")
            else:
                source.line(f"process(S, taken(S, entered, base, now{unread}), {left}, now)")

    def _process(self) -> None:
        with self.source.block("def process(S, batch, former, now):"):
            if self.path is not None:
                self.source.line("S.relation.change(batch, former)")
                return
            if self.steps.reads_prev:
                self.source.line("W = S.view")
            self.code.load_groups()
            self.change()

    def change(self) -> None:
        if self.code.breaks:
            self.source.line("broken = None")
        if self.steps.grouped:
            if self.code.aggregates.lasting:
                self.source.line("emptied = {}")
            self._move_groups(lambda q: None)
            return
        self._load_one_group()
        self._move_one_group("", self._leave)

    def _tick(self) -> None:
        source = self.source
        source.bind("_NEVER", NEVER)
        with source.block("def due(S):"):
            source.line("return S.view.due")
        with source.block("def tick(S, now):"):
            source.line("W = S.view")
            source.line("W.armed = _NEVER")
            with source.block("if W.due <= now:"), self.code.reported():
                source.line("change = W.advance(now)")
                with source.block("if change is not None:"):
                    source.line("process(S, *change, now)")
            self.pipeline.arm()

    def _lookup(self) -> None:
        with self.source.block(f"def lookup({', '.join(['S', 'now', *self.values])}):"):
            if self.steps.reads_prev:
                self.source.line("W = S.view")
            if self.reads_table and not self.shared:
                self.source.line("begin(S, now)")
            if self.member:
                self._member()
                return
            rules = {"exists": self._exists, "any": self._any, "all": self._all, "list": self._list}
            rules.get(self.subquery.form, self._one)()

    def _member(self) -> None:
        """Write whether the index of a column contains a value. Without rows that is false. Otherwise it is unknown for
        null, and for a value that the column lacks while it contains null.
        """
        source = self.source
        assert self.path is not None
        (equal,) = self.path.keys
        source.line(f"value = {lower.value(self.q, equal.other)}", equal.other.span)
        source.line(f"index = {self._lookup_code}")
        with source.block("if not index:"):
            source.line("return False")
        with source.block("if value is None:"):
            source.line("return None")
        with source.block("if value in index and value == value:"):  # NaN equals nothing
            source.line("return True")
        source.line("return None if None in index else False")

    def _exists(self) -> None:
        with self._rows():
            self.source.line("return True")
        self.source.line("return False")

    def _result(self) -> x.BoundExpr:
        """Return the expression of the result of a row: its only column, a row of all, or for ``*`` the event."""
        columns = self.steps.projection.columns
        if len(columns) == 1:
            return columns[0].value
        if not columns:
            return x.EventOf(t.MAP, 0)
        of = t.struct_of(tuple((column.name, column.value.type) for column in columns))
        return x.StructOf(of, tuple((column.name, column.value) for column in columns))

    def _list(self) -> None:
        distinct = self.steps.projection.distinct
        self.source.line("found = []")
        with self._rows():
            self.source.line(f"one = {lower.value(self.q, self._result())}", self.subquery.span)
            self.source.line("if one not in found: found.append(one)" if distinct else "found.append(one)")
        # groups of which none passes having are an empty list
        self.source.line("return found if groups else None" if self.steps.grouped else "return found or None")

    def _one(self) -> None:
        """Write the result of the only row: null without rows or with several, for a struct one of nulls. With
        ``distinct`` rows of equal results count as one.
        """
        source, result = self.source, self._result()
        null: x.BoundExpr = x.Const(t.NULL, None)
        if isinstance(result, x.StructOf) and self.subquery.form == "struct":
            null = x.StructOf(result.type, tuple((name, null) for name, _ in result.columns))
        none = lower.value(self.q, null)
        if self._aggregates and not self.steps.grouped:
            with self._rows():
                source.line(f"return {lower.value(self.q, result)}", self.subquery.span)
            if self.steps.having is not None:
                source.line(f"return {none}")
            return
        empty = source.bind("_EMPTY", StateMarker.EMPTY)
        source.line(f"found = {empty}")
        with self._rows():
            if self.steps.projection.distinct:
                source.line(f"one = {lower.value(self.q, result)}", self.subquery.span)
                with source.block(f"if found is not {empty} and one != found:"):
                    source.line(f"return {none}")
                source.line("found = one")
            else:
                with source.block(f"if found is not {empty}:"):
                    source.line(f"return {none}")
                source.line(f"found = {lower.value(self.q, result)}", self.subquery.span)
        source.line(f"return {none} if found is {empty} else found")

    def _any(self) -> None:
        """Write ``any``: true if the comparison is true of a row, otherwise unknown if it is unknown of a row. With an
        operator such as ``<`` it must be unknown of all rows.
        """
        source = self.source
        if self._compare_only_row():
            return
        orders = self.subquery.op not in ("=", "!=")
        source.line("unknown = known = False")
        with self._rows():
            source.line(f"holds = {self._compared}", self.subquery.span)
            with source.block("if holds:"):
                source.line("return True")
            with source.block("if holds is None:"):
                source.line("unknown = True")
            if orders:
                with source.block("else:"):
                    source.line("known = True")
        source.line(f"return None if unknown{' and not known' if orders else ''} else False")

    def _compare_only_row(self) -> bool:
        """Write the comparison with the only row of aggregates without groups, null while having is false; return
        whether the subquery is of this kind.
        """
        if not self._aggregates or self.steps.grouped:
            return False
        with self._rows():
            self.source.line(f"return {self._compared}", self.subquery.span)
        return True

    def _all(self) -> None:
        """Write ``all``: false if the comparison is false of a row, otherwise unknown if it is unknown of a row."""
        source = self.source
        if self._compare_only_row():
            return
        source.line("unknown = False")
        with self._rows():
            source.line(f"holds = {self._compared}", self.subquery.span)
            with source.block("if holds is None:"):
                source.line("unknown = True")
            with source.block("elif not holds:"):
                source.line("return False")
        source.line("return None if unknown else True")

    @property
    def _compared(self) -> str:
        return lower.value(self.q, self.steps.projection.columns[0].value)

    @contextmanager
    def _rows(self) -> Iterator[None]:
        """Write a loop over the rows that pass the having clause; its body is written within."""
        code, source, cells = self.code, self.source, self.code.aggregates
        if not self._aggregates:
            with self._items(), code.having(self.q):
                yield
            return
        if self.path is None:
            code.load_groups()
            if not self.steps.grouped:
                cells.load("A")
        elif self.steps.grouped:
            source.line("groups = {}")
            with self._items():
                source.line(f"k = {code.key(self.q)}")
                code.open_group()
                code.enter(self.q)
                cells.store("G")
        else:
            cells.load(cells.fresh())
            with self._items():
                code.enter(self.q)
        if not self.steps.grouped:
            with code.having(self.q):
                yield
            return
        with source.block("for k, G in groups.items():"):
            cells.load("G")
            with code.having(self.q):
                yield

    @property
    def _lookup_code(self) -> str:
        assert self.path is not None
        return (
            f"{self.lookups.look(self.path)}(S.partition)"
            if self.shared
            else loops.lookup_target(self.path, "S.relation", 0)
        )

    @contextmanager
    def _items(self) -> Iterator[None]:
        """Write a loop over the items that pass the conditions; its body is written within."""
        source = self.source
        assert self.path is not None
        if self.shared:
            source.line(f"x = {self._lookup_code}")
        within = "x" if self.shared else self._lookup_code
        unpacked = ", ".join(self._parts) + "," * (len(self._parts) == 1)
        item = "item" if self.shared or self.steps.reads_prev or not unpacked else unpacked
        with source.block(loops.write_loop_head(self.path, within, item, self.q)):
            if self.shared:
                loops.write_item_unpacking(self.code.items, "item", "q", source)
            elif item == "item":
                self.code.items.unpack(source, "item")
            if not self.path.rest:
                yield
                return
            tests = " and ".join(lower.truth(self.q, e) for e in self.path.rest)
            with source.block(f"if {tests}:", self.path.rest[0].span):
                yield


def _unknown(*_: object) -> None:
    """Stand in for a function that a running statement binds."""
