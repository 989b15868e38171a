"""Fire-and-forget queries: asked once of what named windows and tables hold now.

A select is compiled like any statement that reads stores. It begins with the rows that they hold, which is all that it
ever sees, and its iterator has the answer (Esper reference, section "Fire-and-Forget Queries").
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
    """Rows and the names and types of their columns."""

    rows: list[Row]
    properties: Mapping[str, Type]


class FireAndForgetQuery:
    """A query that was read once and is asked as often as one likes, with other values for its parameters each time.

    Where only values differ and not their types it is compiled once: the parameters are then read like variables.
    `text` may have values of its own (`lang.text`). Errors: ParseError.
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
        """The keys of its parameters, in the order of the text: names, and numbers from 1 of those without."""
        return tuple(dict.fromkeys(key for _, key in self._uses))

    def ask(
        self,
        values: Mapping[str, Any] | None = None,
        selector: Selector | None = None,
        acts: Callable[[], object] = lambda: None,
    ) -> QueryResult:
        """The answer with `values` for its parameters, plain data as in `lang.dialects.parameters`.

        Of the context partitions that `selector` means, of all without one. `acts` is called before a store is changed.
        Errors: BindError; StatementError where an expression fails on a row.
        """
        runtime = self._runtime
        runtime.turn.check()
        plan, compiled = self._compiled(values)
        (query,) = plan.statements
        if not isinstance(query, SelectStatement) or query.insert is not None:
            acts()
        if isinstance(query, SelectStatement):
            answer = _select(runtime, query, compiled, selector)
            if query.insert is not None:
                rows = _put(runtime, query.insert.target, answer.rows, selector)
                window = runtime.stores[query.insert.target].type.kind == "window"
                answer = QueryResult(rows if window else [], answer.properties)
            return answer
        if isinstance(query, InsertRows):
            rows = _put(runtime, query.target.name, compiled.inserted[query.name](), selector)
            return QueryResult(rows if query.target.kind == "window" else [], query.output_type.properties)
        assert isinstance(query, MergeStatement)
        return _change(runtime, query, compiled, selector)

    # -------------------------------------------------------------- compiling
    def _compiled(self, values: Mapping[str, Any] | None) -> tuple[ModulePlan, CompiledModule]:
        runtime = self._runtime
        world = runtime.version, dict(runtime.functions)
        if world != self._world:  # what it was compiled for is not there any more
            self._ready.clear()
            self._world = world
        literals = literals_for(self._uses, values, self.text)
        if not all(isinstance(each, ast.Literal) for each in literals.values()):
            return self._compile(self._bound(literals), {})
        types = tuple(each.type for each in literals.values() if isinstance(each, ast.Literal))
        ready = self._ready.get(types)
        if ready is None:
            ready = self._ready[types] = self._prepare(literals)
        if ready.compiled is None:
            return self._compile(self._bound(literals), {})
        for node, key in self._uses:
            literal = literals[node.span]
            if key in ready.cells and isinstance(literal, ast.Literal):
                ready.cells[key].value = literal.value
        return ready.plan, ready.compiled

    def _prepare(self, literals: Mapping[Span, ast.Expr]) -> _Ready:
        """Compiled for values of the types of these, which are reported when the query cannot have them."""
        plain = self._bound(literals)
        cells: dict[str, RuntimeVariable] = {}
        read: dict[Span, ast.Expr] = {}
        catalog: Catalog = self._runtime.catalog.copy()
        for node, key in self._uses:
            literal = literals[node.span]
            assert isinstance(literal, ast.Literal)
            if literal.type == "null":
                read[node.span] = literal
                continue
            name, type_ = f":{key}", t.BY_NAME[literal.type]
            catalog.variables[name] = VariableType(name, type_, False, None, False, None)
            cells[key] = RuntimeVariable(name, type_, literal.value)
            read[node.span] = ast.Chain((ast.NameStep(name, span=node.span),), span=node.span)
        try:
            plan = self._bound(read, catalog)
        except BindError:  # what takes a constant only, such as a value that fits because it is small
            return _Ready(plain, None, {})
        if _columns(plan) != _columns(plain):
            return _Ready(plain, None, {})
        return _Ready(*self._compile(plan, {cell.name: cell for cell in cells.values()}, catalog), cells)

    @rejecting_deep_nesting()
    def _bound(self, given: Mapping[Span, ast.Expr], catalog: Catalog | None = None) -> ModulePlan:
        config: Config = self._runtime.config
        tree = map_nodes(self._tree, lambda node: given[node.span] if isinstance(node, ast.Parameter) else node)
        known = self._runtime.catalog if catalog is None else catalog
        return rewrite(bind_query(tree, known, self.text, binder_options(config)))

    def _compile(
        self, plan: ModulePlan, cells: Mapping[str, RuntimeVariable], catalog: Catalog | None = None
    ) -> tuple[ModulePlan, CompiledModule]:
        runtime = self._runtime
        variables = {**runtime.variables, **cells}
        known = runtime.catalog if catalog is None else catalog
        return plan, compile_plan(plan, known, runtime.clock, runtime.config, runtime.functions, variables)


@dataclass(frozen=True, slots=True)
class _Ready:
    """A query compiled for values of certain types, which stand in `cells`; None: for each value anew."""

    plan: ModulePlan
    compiled: CompiledModule | None
    cells: Mapping[str, RuntimeVariable]


def _columns(plan: ModulePlan) -> list[tuple[str, Type]]:
    """The columns of the answer in order."""
    (query,) = plan.statements
    assert isinstance(query, SelectStatement | InsertRows | MergeStatement)
    return list(query.output_type.properties.items())


def run_query(runtime: Any, epl: str, selector: Selector | None = None) -> QueryResult:
    """The answer to `epl`, of the context partitions that `selector` means, of all without one.

    Errors: ParseError, BindError; StatementError where an expression fails on a row.
    """
    return FireAndForgetQuery(runtime, epl).ask(settings_of(epl).get("parameters"), selector)


def replace_rows(runtime: Any, name: str, rows: Iterable[Sequence[Any]]) -> None:
    """A named window holds these rows, values in the order of its columns, and no others.

    Errors: UsageError when there is no such window, it is of a context, or a row has another number of values.
    """
    store: Store = lookup_name("named window", name, runtime.stores)
    if store.type.kind != "window" or store.type.context is not None:
        raise UsageError(f"the rows of `{name}` cannot be replaced: it is no named window without a context")
    found = [tuple(row) for row in rows]
    wrong = next((row for row in found if len(row) != len(store.columns)), None)
    if wrong is not None:
        raise UsageError(f"`{name}` has the columns {', '.join(store.columns)}, found the row {wrong!r}")
    with runtime.turn:
        try:
            replace_contents(store, [dict(zip(store.columns, row, strict=True)) for row in found], runtime.clock.now)
        except ValueError as failure:
            raise UsageError(str(failure)) from failure
        runtime.turn.settled()


_READ: WeakKeyDictionary[Store, int] = WeakKeyDictionary()  # stores, and how many queries read them right now


@contextmanager
def _reading(stores: Iterable[Store]) -> Iterator[None]:
    """Within, queries that the functions of a query ask may not change what it reads."""
    found = list(stores)
    for store in found:
        _READ[store] = _READ.get(store, 0) + 1
    try:
        yield
    finally:
        for store in found:
            _READ[store] -= 1


def _check_unread(store: Store) -> None:
    if _READ.get(store):
        raise UsageError(
            f"`{store.name}` is being read by a query, which a function of that query cannot change\n"
            "  hint: change it when the query was answered"
        )


def _put(runtime: Any, target: str, rows: list[Row], selector: Selector | None) -> list[Row]:
    """All rows are one change, or none is made. Returns those that got a place.

    Under a context a row is for the partitions that it belongs to, or that all rows do (a table's), of those that
    `selector` means.
    """
    store: Store = runtime.stores[target]
    _check_unread(store)
    places: dict[int | None, tuple[Any, list[Row]]] = {
        id_: (state, []) for id_, state in _meant(runtime, store, selector)
    }
    placed: list[Row] = []
    for row in rows:
        own = {name: row.get(name) for name in store.columns}
        ids = store.partitions_of(own)
        found = [places[id_][1] for id_ in (places if ids is None else ids) if id_ in places]
        for held in found:
            held.append(own)
        if found:
            placed.append(row)
    if rows and not placed:
        raise UsageError(
            f"no live partition of the context `{store.type.context}` takes the row\n"
            "  hint: send an event that begins one first"
        )
    with runtime.turn:
        for state, held in places.values():
            why = store.refusal(state, held) if held else None
            if why is not None:
                raise UsageError(why)
        for state, held in places.values():
            if held:
                store.move(state, (), [(row, None) for row in held], runtime.clock.now)
        runtime.turn.settled()
    return placed


def _meant(runtime: Any, store: Store, selector: Selector | None) -> list[tuple[int | None, Any]]:
    """The states of a store with the ids of their partitions, those that `selector` means."""
    states: list[tuple[int | None, Any]] = store.owner.states()
    if selector is None or store.type.context is None:
        return states
    wanted = select_partitions(selector, runtime.context(store.type.context))
    return [each for each in states if each[0] in wanted]


def _change(runtime: Any, query: MergeStatement, compiled: CompiledModule, selector: Selector | None) -> QueryResult:
    """The rows that an update or a delete has changed; no rows of a table."""
    statement = RunningStatement(
        runtime.services, query, compiled.programs[query.name], (0, 0), "", compiled.plan.source, "query"
    )
    store, program = runtime.stores[query.target.name], statement.program
    _check_unread(store)
    statement.connect_target(runtime.stores, query.target, None)
    statement.inner.find(runtime.stores, statement)
    found: list[Row] = []
    program.namespace["push"] = lambda now, insert, remove: found.extend(insert or ())
    statement.meet()
    with runtime.turn:
        for _, state in _meant(runtime, store, selector):
            program.namespace["target"] = partial(_same, state)
            own = statement.new_state(state[0])
            try:
                program["ask"](own)
            except Exception as failure:  # noqa: BLE001 - told when what was changed is handed on
                statement.failed(failure)
        runtime.turn.settled()
    return QueryResult(found if store.type.kind == "window" else [], query.output_type.properties)


def _same(state: Any, _: Any) -> Any:
    return state


def _select(runtime: Any, select: SelectStatement, compiled: CompiledModule, selector: Selector | None) -> QueryResult:
    source = compiled.plan.source
    statement = RunningStatement(runtime.services, select, compiled.programs[select.name], (0, 0), "", source, "query")
    statement.meet()
    statement.inner.find(runtime.stores, statement)
    stores = {source.store.name for source in select.sources if source.store is not None}
    stores |= {each.source.store.name for each in select.subqueries if each.source.store is not None}
    try:
        with _reading(runtime.stores[name] for name in stores):
            rows = [row for each in _states(runtime, statement, select, selector) for row in each]
    except Exception as failure:
        raise statement.error(failure) from failure
    fresh = statement.outlet.layout.fresh
    return QueryResult([fresh(row) for row in rows], select.output_type.properties)


def _states(
    runtime: Any, statement: RunningStatement, select: SelectStatement, selector: Selector | None
) -> Iterable[list[Any]]:
    """The rows of the one state, or with a context clause of one state for each partition."""
    program, now = statement.program, runtime.clock.now
    stores = {n: runtime.stores[source.store.name] for n, source in enumerate(select.sources) if source.store}
    StoreLookups(program.namespace, program.wants, select.name, stores)
    picking = program.picking() if len(select.sources) == 1 else None
    if picking is not None and stores[0].serves(picking.want):
        StoreLookups(picking.namespace, picking.wants, select.name, stores, changes=True)
    else:
        picking = None
    partitions: list[Any] = [None]
    if select.context is not None:
        context = statement.context = runtime.context(select.context)
        wanted = None if selector is None else select_partitions(selector, context)
        partitions = [p for p in context.partitions.values() if wanted is None or p.id in wanted]
    for partition in partitions:
        items = {number: _held(runtime, store, partition, selector, picking) for number, store in stores.items()}
        program.namespace["stored"] = partial(_of_input, items)
        state = statement.new_state(partition)
        steps = program.steps
        if steps.kind != "unaggregated" or steps.inputs or steps.windows or steps.recognize is not None:
            program["prefill"](state, now)  # else there is nothing to be kept, and rows are made once
        yield program["rows"](state, now)


def _held(
    runtime: Any, store: Store, partition: Any, selector: Selector | None, picking: StoreQuery | None
) -> list[Any]:
    """The items of a store: in a partition of its own context, else in those that `selector` means.

    With a `picking` those that it finds by an index.
    """
    if partition is not None and store.type.context == partition.name:
        states = [each for each in store.owner.states() if each[0] == partition.id]
    else:
        states = _meant(runtime, store, selector)
    if picking is not None:
        return [item for _, state in states for item in picking.picked(state)]
    items = store.stored(state for _, state in states)
    # ordinals are those of a partition
    return [(number, *item[1:]) for number, item in enumerate(items)] if len(states) > 1 else items


def _of_input(items: Mapping[int, list[Any]], state: Any, number: int = 0) -> list[Any]:
    return items[number]
