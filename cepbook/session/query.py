"""Fire-and-forget queries: over named windows and tables, or over the rows that statements hold now, answered once.

The engine answers what is asked of named windows and tables; inserts, updates and deletes change them. Beside that each
deployed statement is a table: the rows of its iterator, with its output columns. Such a query is a normal select
without windows; it runs in a runtime of its own, over these rows, and leaves the running statements alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from typing import Any

import pandas as pd

from cepbook.engine.compiler import options_of
from cepbook.engine.contexts import selectors as engine
from cepbook.engine.queries import ask
from cepbook.engine.runtime import Config, Runtime
from cepbook.errors import UsageError
from cepbook.lang import ast
from cepbook.lang.bind import bind
from cepbook.lang.catalog import EventType
from cepbook.lang.dialects import epl as dialect
from cepbook.lang.rewrite import rewrite
from cepbook.lang.types import Type
from cepbook.session.selectors import Selector, rows_of, selector_of
from cepbook.session.tables import frame_of
from cepbook.session.validate import EventTypes

Functions = Mapping[str, tuple[Callable[..., Any], Type]]


def query(
    epl: str, runtime: Runtime, config: Config, functions: Functions, selector: Selector | None = None
) -> pd.DataFrame:
    """The rows of `epl` over the stores or the statements of `runtime`, of the partitions that `selector` names.

    Raises ParseError and BindError as for any EPL, UsageError when the text is no query of stores and no plain select
    over statements.
    """
    stores = _stores(epl, runtime)
    if stores is not None:
        answer = ask(runtime, epl, _of_context(stores, runtime, selector))
        return frame_of(answer.rows, answer.properties)
    select = _select(epl)
    names = _tables(select, runtime)
    scratch = Runtime(config, start=runtime.now)
    for name, (fn, returns) in functions.items():
        scratch.register_function(name, fn, returns=returns)
    for name, cell in runtime.variables.items():
        if cell.partitioned:
            continue
        scratch.define_variable(name, cell.type, cell.value, constant=runtime.catalog.variables[name].constant)
    types = [replace(runtime.statement(name).output_type, name=name, supertypes=()) for name in names]
    for needed in _nested(types, runtime.catalog.event_types):
        scratch.define(needed)
    for of in types:
        scratch.define(replace(of, time_property=None, end_time_property=None))
    options = options_of(config)
    deployment = scratch.deploy(rewrite(bind(ast.Module((select,)), scratch.catalog, epl, options=options)))
    for name in names:
        send = scratch.sender(name)
        for row in rows_of(runtime, name, selector):
            send(row)
    (statement,) = deployment.statements
    return frame_of(scratch.iterate(statement.name), statement.output_type.properties)


def tables_of(epl: str, runtime: Runtime) -> tuple[str, ...]:
    """The statements that a query reads, none where it is about stores. Raises as `query` does."""
    return () if _stores(epl, runtime) is not None else _tables(_select(epl), runtime)


def _of_context(stores: Set[str], runtime: Runtime, selector: Selector | None) -> engine.Selector | None:
    """The engine's selector, of the context of the stores of a query. Errors: UsageError without a context."""
    if selector is None or isinstance(selector, engine.Selector):
        return selector
    context = next((s.type.context for name, s in runtime.stores.items() if name in stores and s.type.context), None)
    if context is None:
        raise UsageError("the query reads nothing that has a context, its partitions cannot be selected")
    return selector_of(runtime, context, selector)


def _stores(epl: str, runtime: Runtime) -> Set[str] | None:
    """The named windows and tables that a query reads or changes; None: it is one over statements."""
    statements = dialect.parse(epl).statements
    only = statements[0] if len(statements) == 1 else None
    if isinstance(only, (ast.FafInsert, ast.FafUpdate, ast.FafDelete)):
        return {only.target}
    if not isinstance(only, ast.Select):
        return None
    found = {s.stream.type_name for s in only.sources if isinstance(s.stream, ast.FilterStream)}
    if only.insert_into is not None:
        found.add(only.insert_into.target)
    return found & runtime.stores.keys() or None


def _tables(select: ast.Select, runtime: Runtime) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_table(source, runtime) for source in select.sources))


def _select(epl: str) -> ast.Select:
    statements = dialect.parse(epl).statements
    if len(statements) != 1 or not isinstance(statements[0], ast.Select):
        raise UsageError("a query is one select statement")
    select = statements[0]
    for given, what in (
        (select.insert_into, "insert into"),
        (select.output, "an output clause"),
        (select.context, "a context"),
        (select.selector not in (None, "istream"), "a stream selector"),
        (select.match_recognize, "match_recognize"),
    ):
        if given:
            raise UsageError(f"a query runs once and cannot have {what}")
    if not select.sources:
        raise UsageError("a query needs a from-clause that names a statement")
    return replace(select, selector=None, sources=tuple(_kept(source) for source in select.sources))


def _kept(source: ast.StreamSource) -> ast.StreamSource:
    if not isinstance(source.stream, ast.FilterStream):
        raise UsageError("a query reads statements, not patterns")
    if source.windows:
        raise UsageError(
            f"a query reads the rows that `{source.stream.type_name}` holds now and cannot have a window\n"
            "  hint: give the statement the window"
        )
    return replace(source, windows=(ast.Window("keepall", ()),))


def _table(source: ast.StreamSource, runtime: Runtime) -> str:
    assert isinstance(source.stream, ast.FilterStream)  # _kept has refused the rest
    name = source.stream.type_name
    if name not in runtime.statements and name in runtime.catalog.event_types:
        raise UsageError(f"`{name}` is an event type, and events are not kept; query a statement that has a window")
    return runtime.statement(name).name


def _nested(types: list[EventType], known: EventTypes) -> list[EventType]:
    """Event types that properties of `types` refer to, deepest first."""
    found: dict[str, EventType] = {}

    def visit(of: Type) -> None:
        if of.of is not None:
            visit(of.of)
        elif of.event is not None and of.event in known and of.event not in found:
            for inner in known[of.event].properties.values():
                visit(inner)
            found[of.event] = known[of.event]

    for one in types:
        for of in one.properties.values():
            visit(of)
    own = {one.name for one in types}
    return [one for name, one in found.items() if name not in own]
