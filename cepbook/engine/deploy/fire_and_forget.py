"""Fire-and-forget queries: answered once, from the present contents of named windows and tables.

A select is compiled like any statement that reads stores. It starts with their rows, which are all it ever sees, and
its iterator has the answer (Esper reference, "Fire-and-Forget Queries").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any
from weakref import WeakKeyDictionary

from cepbook.dialects import parse_epl
from cepbook.engine.codegen.store_query import StoreQuery
from cepbook.engine.config import Config
from cepbook.engine.contexts.context import select_partitions
from cepbook.engine.contexts.selectors import Selector
from cepbook.engine.delivery.delta import Row
from cepbook.engine.deploy.compiler import CompiledModule, binder_options, compile_plan
from cepbook.engine.deploy.naming import lookup_name
from cepbook.engine.relations.store import Store, replace_contents
from cepbook.engine.relations.store_lookups import StoreLookups
from cepbook.engine.statements.statement import RunningStatement
from cepbook.engine.statements.variables import RuntimeVariable
from cepbook.errors import BindError, Span, UsageError, rejecting_deep_nesting
from cepbook.lang import types as t
from cepbook.lang.bind.fire_and_forget import bind_query
from cepbook.lang.bind.substitution import literals_for, parameter_uses
from cepbook.lang.plan.catalog import Catalog, VariableType
from cepbook.lang.plan.nodes import InsertRows, MergeStatement, ModulePlan, SelectStatement
from cepbook.lang.rewrite import rewrite
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import map_nodes
from cepbook.lang.syntax.source_text import settings_of
from cepbook.lang.types import Type


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Rows, and the plan of the statement that returned them."""

    rows: list[Row]
    plan: SelectStatement | InsertRows | MergeStatement


class FireAndForgetQuery:
    """A query that is parsed once and can be run many times, with new values for its parameters each time.

    If only values change and not their types, it is compiled once: parameters are then read like variables. `text` may
    carry values of its own (`lang.text`). Errors: ParseError.
    """

    def __init__(self, runtime: Any, text: str) -> None:
        self.text = text
        self._runtime = runtime
        self._tree = parse_epl(text)
        self._uses = parameter_uses(self._tree)
        self._ready: dict[tuple[str, ...], _Ready] = {}
        self._world: object = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The keys of the parameters in the order of the text: names, or numbers from 1 for those without a name."""
        return tuple(dict.fromkeys(key for _, key in self._uses))

    def ask(
        self,
        values: Mapping[str, Any] | None = None,
        selector: Selector | None = None,
        acts: Callable[[], object] = lambda: None,
    ) -> QueryResult:
        """Run the query with `values` for its parameters (plain data), over the context partitions that `selector`
        chooses.

        `acts` is called before a store is changed. Errors: BindError; StatementError if an expression fails on a row.
        """
        runtime = self._runtime
        runtime.turn.check()
        plan, compiled = self._compiled(values)
        (query,) = plan.statements
        if isinstance(query, SelectStatement):
            return _select(runtime, query, compiled, selector)
        acts()
        if isinstance(query, InsertRows):
            rows = _put(runtime, query.target.name, compiled.insert_rows[query.name](), selector)
            return QueryResult(rows if query.target.kind == "window" else [], query)
        assert isinstance(query, MergeStatement)
        return _change(runtime, query, compiled, selector)

    def _compiled(self, values: Mapping[str, Any] | None) -> tuple[ModulePlan, CompiledModule]:
        runtime = self._runtime
        compiled_for = runtime.version, dict(runtime.functions)
        if compiled_for != self._world:  # compiled for an earlier version of the catalog
            self._ready.clear()
            self._world = compiled_for
        arguments = literals_for(self._uses, values, self.text)
        literals = {span: e.literal for span, e in arguments.items() if e.literal is not None}
        if len(literals) < len(arguments):
            return self._compile(self._bound(arguments), {})
        types = tuple(literal.type for literal in literals.values())
        prepared = self._ready.get(types)
        if prepared is None:
            prepared = self._ready[types] = self._prepare(literals)
        if prepared.compiled is None:
            return self._compile(self._bound(literals), {})
        for node, key in self._uses:
            if key in prepared.cells:
                prepared.cells[key].value = literals[node.span].value
        return prepared.plan, prepared.compiled

    def _prepare(self, literals: Mapping[Span, ast.Literal]) -> _Ready:
        plain = self._bound(literals)
        cells: dict[str, RuntimeVariable] = {}
        replacements: dict[Span, ast.Expr] = {}
        catalog: Catalog = self._runtime.catalog.copy()
        for node, key in self._uses:
            literal = literals[node.span]
            if literal.type == "null":
                replacements[node.span] = literal
                continue
            name, type_ = f":{key}", t.BY_NAME[literal.type]
            catalog.variables[name] = VariableType(name, type_, False, None, False, None)
            cells[key] = RuntimeVariable(name, type_, literal.value)
            replacements[node.span] = ast.Chain((ast.NameStep(name, span=node.span),), span=node.span)
        try:
            plan = self._bound(replacements, catalog)
        except BindError:  # some places need a constant, for example a value that fits because it is small
            return _Ready(plain, None, {})
        if _columns(plan) != _columns(plain):
            return _Ready(plain, None, {})
        return _Ready(*self._compile(plan, {cell.name: cell for cell in cells.values()}, catalog), cells)

    @rejecting_deep_nesting()
    def _bound(self, values: Mapping[Span, ast.Expr], catalog: Catalog | None = None) -> ModulePlan:
        config: Config = self._runtime.config
        tree = map_nodes(self._tree, lambda node: values[node.span] if isinstance(node, ast.Parameter) else node)
        visible = self._runtime.catalog if catalog is None else catalog
        return rewrite(bind_query(tree, visible, self.text, binder_options(config)))

    def _compile(
        self, plan: ModulePlan, cells: Mapping[str, RuntimeVariable], catalog: Catalog | None = None
    ) -> tuple[ModulePlan, CompiledModule]:
        runtime = self._runtime
        variables = {**runtime.variables, **cells}
        visible = runtime.catalog if catalog is None else catalog
        compiled = compile_plan(plan, visible, runtime.clock, runtime.config, runtime.functions, variables)
        for program in compiled.programs.values():
            program.store_query = cache(program.store_query)  # a query is asked several times
        return plan, compiled


@dataclass(frozen=True, slots=True)
class _Ready:
    """A query compiled for values of certain types, held in `cells`; None: it must be compiled for each value."""

    plan: ModulePlan
    compiled: CompiledModule | None
    cells: Mapping[str, RuntimeVariable]


def _columns(plan: ModulePlan) -> list[tuple[str, Type]]:
    (query,) = plan.statements
    assert isinstance(query, SelectStatement | InsertRows | MergeStatement)
    return list(query.output_type.properties.items())


def run_query(runtime: Any, epl: str, selector: Selector | None = None) -> QueryResult:
    """Run `epl` over the context partitions that `selector` chooses. Errors: ParseError, BindError, StatementError."""
    return FireAndForgetQuery(runtime, epl).ask(settings_of(epl).get("parameters"), selector)


def replace_rows(runtime: Any, name: str, rows: Iterable[Sequence[Any]]) -> None:
    """Replace all rows of a named window, values in column order. Errors: UsageError (context, wrong width)."""
    store: Store = lookup_name("named window", name, runtime.stores)
    if store.type.kind != "window" or store.type.context is not None:
        raise UsageError(f"the rows of `{name}` cannot be replaced: it is not a named window without a context")
    new_rows = [tuple(row) for row in rows]
    wrong = next((row for row in new_rows if len(row) != len(store.columns)), None)
    if wrong is not None:
        raise UsageError(f"`{name}` has the columns {', '.join(store.columns)}, found the row {wrong!r}")
    with runtime.turn:
        try:
            replace_contents(store, [dict(zip(store.columns, row, strict=True)) for row in new_rows], runtime.clock.now)
        except ValueError as failure:
            raise UsageError(str(failure)) from failure
        runtime.turn.settled()


_READ: WeakKeyDictionary[Store, int] = WeakKeyDictionary()  # number of queries that are reading each store


@contextmanager
def _reading(stores: Iterable[Store]) -> Iterator[None]:
    read_stores = list(stores)
    for store in read_stores:
        _READ[store] = _READ.get(store, 0) + 1
    try:
        yield
    finally:
        for store in read_stores:
            _READ[store] -= 1


def _check_unread(store: Store) -> None:
    if _READ.get(store):
        raise UsageError(
            f"`{store.name}` is being read by a query, so a function that the query calls cannot change it\n"
            "  hint: change it after the query"
        )


def _put(runtime: Any, target: str, rows: list[Row], selector: Selector | None) -> list[Row]:
    """Insert all rows as one change, or none. Return the rows that were inserted somewhere.

    Under a context a row goes to its partitions (a row of a table to all), restricted to those that `selector` chooses.
    """
    store: Store = runtime.stores[target]
    _check_unread(store)
    states = _selected_states(runtime, store, selector)
    targets: dict[int | None, tuple[Any, list[Row]]] = {i: (state, []) for i, state in states}
    placed: list[Row] = []
    for row in rows:
        own = {name: row.get(name) for name in store.columns}
        ids = store.partitions_of(own)
        lists = [targets[id_][1] for id_ in (targets if ids is None else ids) if id_ in targets]
        for placed_rows in lists:
            placed_rows.append(own)
        if lists:
            placed.append(row)
    if rows and not placed:
        raise UsageError(
            f"no live partition of the context `{store.type.context}` takes the row\n"
            "  hint: send an event that starts one first"
        )
    with runtime.turn:
        for state, placed_rows in targets.values():
            why = store.refusal(state, (), placed_rows) if placed_rows else None
            if why is not None:
                raise UsageError(why)
        for state, placed_rows in targets.values():
            if placed_rows:
                store.move(state, (), placed_rows, [None] * len(placed_rows), runtime.clock.now)
        runtime.turn.settled()
    return placed


def _selected_states(runtime: Any, store: Store, selector: Selector | None) -> list[tuple[int | None, Any]]:
    states: list[tuple[int | None, Any]] = store.owner.states()
    if selector is None or store.type.context is None:
        return states
    ids = select_partitions(selector, runtime.context(store.type.context))
    return [entry for entry in states if entry[0] in ids]


def _change(runtime: Any, query: MergeStatement, compiled: CompiledModule, selector: Selector | None) -> QueryResult:
    """Change the rows of all partitions, or raise StatementError and change none."""
    statement = RunningStatement(
        runtime.services, query, compiled.programs[query.name], (0, 0), "", compiled.plan.source, "query"
    )
    store, program = runtime.stores[query.target.name], statement.program
    _check_unread(store)
    statement.connect_target(runtime.stores, query.lookup)
    statement.subquery_inputs.find(runtime.stores, statement)
    changed: list[Row] = []
    program.namespace["push"] = lambda now, insert, remove: changed.extend(insert or ())
    moves: list[tuple[Any, ...]] = []
    renewals: list[tuple[Any, ...]] = []
    program.namespace.update(move=lambda *move: moves.append(move), renew=lambda *cells: renewals.append(cells))
    statement.bind_tables()
    with runtime.turn:
        try:
            for _, state in _selected_states(runtime, store, selector):
                program.namespace["target"] = partial(_same, state)
                program.functions.ask(statement.new_state(state.partition))
            for state, old, new, origins, _ in moves:
                store.check(state, old, new, origins)
        except Exception as failure:
            raise statement.error(failure) from failure
        for move in moves:
            store.move(*move)
        for cells in renewals:
            store.renew(*cells)
        runtime.turn.settled()
    return QueryResult(changed if store.type.kind == "window" else [], query)


def _same(state: Any, _: Any) -> Any:
    return state


def _select(runtime: Any, select: SelectStatement, compiled: CompiledModule, selector: Selector | None) -> QueryResult:
    source = compiled.plan.source
    statement = RunningStatement(runtime.services, select, compiled.programs[select.name], (0, 0), "", source, "query")
    statement.bind_tables()
    statement.subquery_inputs.find(runtime.stores, statement)
    stores = {source.store.name for source in select.sources if source.store is not None}
    stores |= {subquery.source.store.name for subquery in select.subqueries if subquery.source.store is not None}
    try:
        with _reading(runtime.stores[name] for name in stores):
            rows = [row for subquery in _states(runtime, statement, select, selector) for row in subquery]
    except Exception as failure:
        raise statement.error(failure) from failure
    fresh = statement.outlet.layout.fresh
    return QueryResult([fresh(row) for row in rows], select)


def _states(
    runtime: Any, statement: RunningStatement, select: SelectStatement, selector: Selector | None
) -> Iterable[list[Any]]:
    program, now = statement.program, runtime.clock.now
    stores = {n: runtime.stores[source.store.name] for n, source in enumerate(select.sources) if source.store}
    StoreLookups(program.namespace, program.index_requests, select.name, stores)
    picking = program.store_query() if list(stores) == [0] else None
    if picking is not None and stores[0].has_index_for(picking.want):
        StoreLookups(picking.namespace, picking.wants, select.name, stores, changes=True)
    else:
        picking = None
    partitions: list[Any] = [None]
    if select.context is not None:
        context = statement.context = runtime.context(select.context)
        ids = None if selector is None else select_partitions(selector, context)
        partitions = [p for p in context.partitions.values() if ids is None or p.id in ids]
    for partition in partitions:
        items = {number: _items(runtime, store, partition, selector, picking) for number, store in stores.items()}
        program.namespace["stored"] = lambda state, number=0, items=items: items[number]
        state = statement.new_state(partition)
        steps = program.steps
        if steps.kind != "unaggregated" or steps.inputs or steps.windows or steps.recognize is not None:
            program.functions.prefill(state, now)  # otherwise no state is needed, and rows are computed once
        yield program.functions.rows(state, now)


def _items(
    runtime: Any, store: Store, partition: Any, selector: Selector | None, picking: StoreQuery | None
) -> list[Any]:
    """Return a store's items for a partition of its context, else of those chosen; `picking` uses an index."""
    if partition is not None and store.type.context == partition.name:
        states = [entry for entry in store.owner.states() if entry[0] == partition.id]
    else:
        states = _selected_states(runtime, store, selector)
    if picking is not None:
        return [item for _, state in states for item in picking.picked(state)]
    items = store.stored(state for _, state in states)
    # ordinals are unique only within a partition
    return [(number, *item[1:]) for number, item in enumerate(items)] if len(states) > 1 else items
