"""Fire-and-forget queries: over named windows and tables, or over the current rows of statements, answered once.

The engine answers queries of named windows and tables; inserts, updates and deletes change them. In addition each
deployed statement is a table: the rows of its iterator, with its output columns. Such a query is a plain select without
windows. It runs in a runtime of its own over these rows and leaves the running statements alone.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Set
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pandas as pd

from cepbook.engine.contexts import selectors as engine
from cepbook.engine.contexts.context import select_partitions
from cepbook.engine.deploy.compiler import binder_options
from cepbook.engine.deploy.fire_and_forget import FireAndForgetQuery
from cepbook.engine.deploy.naming import known_names_hint
from cepbook.engine.runtime import Config, Runtime
from cepbook.errors import UsageError, hint_line
from cepbook.lang.bind import bind
from cepbook.lang.bind.substitution import parameter_uses, substitute
from cepbook.lang.plan.catalog import EventType, FunctionType
from cepbook.lang.plan.nodes import InsertRows, MergeStatement, SelectStatement
from cepbook.lang.rewrite import rewrite
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.reader import parser as dialect
from cepbook.lang.syntax.source_text import EPL, SourceText, settings_of
from cepbook.lang.types import Type
from cepbook.session.history.event_log import ManualAction
from cepbook.session.inspect.partition_selectors import Selector, engine_selector, selected_rows
from cepbook.session.inspect.time_columns import TimeColumns, statement_output
from cepbook.session.io.event_validation import EventTypes
from cepbook.session.io.output_times import output_types, time_type
from cepbook.session.io.parameter_values import ParameterValues, with_parameters
from cepbook.session.io.result_frames import rows_frame

Functions = Mapping[str, tuple[Callable[..., Any], FunctionType]]


_parsed = lru_cache(maxsize=64)(dialect.parse_epl)


class PreparedQuery:
    """A query that was parsed once, made by `Workbench.prepare`. `run` answers it with new values for its parameters.

    `parameters` are the names of its parameters; unnamed ones are numbered from 1 in the order of the text.
    """

    def __init__(
        self, epl: str, answer: Callable[[PreparedQuery, Selector | None, ParameterValues | None], pd.DataFrame]
    ) -> None:
        self.epl = epl
        self.parameters = tuple(dict.fromkeys(key for _, key in parameter_uses(_parsed(epl))))
        self._asked: tuple[Runtime, FireAndForgetQuery] | None = (
            None  # for queries of stores: the runtime and the compiled query
        )
        self._answer = answer

    def within(self, runtime: Runtime) -> FireAndForgetQuery:
        """Return the query as compiled by an engine."""
        if self._asked is None or self._asked[0] is not runtime:
            self._asked = runtime, FireAndForgetQuery(runtime, self.epl)
        return self._asked[1]

    def run(self, *values: Any, selector: Selector | None = None, **named: Any) -> pd.DataFrame:
        """Return the rows that answer the query now, with values for its parameters by number, by name, or both.

        One dict or list gives all values. `selector` chooses partitions of the context that the query reads. Raises
        UsageError for values without a parameter, else as `Workbench.query` does.
        """
        if len(values) == 1 and not named and isinstance(values[0], Mapping):
            return self._answer(self, selector, self._known(values[0]))
        if len(values) == 1 and isinstance(values[0], list | tuple) and len(self.parameters) != 1:
            values = tuple(values[0])
        by_number = {str(number): value for number, value in enumerate(values, 1)}
        unnamed = [key for key in self.parameters if key.isdecimal()]
        if len(values) > len(unnamed):
            takes = "no values by number" if not unnamed else f"{len(unnamed)} value{'s' * (len(unnamed) > 1)}"
            names = [key for key in self.parameters if not key.isdecimal()]
            hint = f"\n  hint: give it by name: run({names[0]}=…)" if names else ""
            raise UsageError(f"the query takes {takes}, found {len(values)}{hint}")
        return self._answer(self, selector, self._known({**by_number, **named}))

    def _known(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in values:
            if str(name) not in self.parameters:
                raise UsageError(f"the query has no parameter `{name}`{hint_line(str(name), self.parameters)}")
        return {str(name): value for name, value in values.items()}

    def __repr__(self) -> str:
        parameters = ", ".join(key if key.isdecimal() else f":{key}" for key in self.parameters)
        return f"Prepared({self.epl!r}{f', parameters {parameters}' if parameters else ''})"


def run_query(
    asked: str | PreparedQuery,
    runtime: Runtime,
    config: Config,
    functions: Functions,
    selector: Selector | None = None,
    parameters: ParameterValues | None = None,
    *,
    acted: Callable[[ManualAction, Set[str], Mapping[str, Any]], object],
) -> pd.DataFrame:
    """Return the rows of a query over the stores or the statements of `runtime`, of the partitions in `selector`.

    `acted` is called before a store is changed, with a function that does the same to another runtime, the stores
    concerned, and the arguments of `repeat_query`. Raises ParseError and BindError as for any EPL, UsageError if the
    text is no query of stores and no plain select over statements.
    """
    if not isinstance(asked, str | PreparedQuery):
        raise UsageError(f"a query is EPL text, or what `prepare` gives, not {type(asked).__name__}")
    text = asked.epl if isinstance(asked, PreparedQuery) else asked
    epl = with_parameters(text, parameters, config, _parsed)
    values = settings_of(epl).get("parameters")
    context, stores = _stores(epl, runtime)
    if stores is not None:
        read = asked.within(runtime) if isinstance(asked, PreparedQuery) else FireAndForgetQuery(runtime, epl)

        def again(other: Runtime) -> object:
            return FireAndForgetQuery(other, epl).ask(values, _of_context(context, stores or (), other, selector), int)

        chosen = _of_context(context, stores, runtime, selector)

        def record() -> None:
            partitions = _partition_ids(chosen, context, stores, runtime)
            acted(again, stores, {"epl": str(epl), "values": values, "partitions": partitions})

        answer = read.ask(values, chosen, record)
        return rows_frame(answer.rows, _dated(runtime, answer.plan))
    select = _select(epl, values)
    names = _tables(select, runtime)
    scratch = Runtime(config, start=runtime.now)
    for name, (fn, returns) in functions.items():
        scratch.register_function(name, fn, returns=returns)
    for name, cell in runtime.variables.items():
        if not cell.partitioned:
            scratch.define_variable(name, cell.type, cell.value, constant=runtime.catalog.variables[name].constant)
    types = [replace(runtime.statement(name).output_type, name=name, supertypes=()) for name in names]
    for needed in _nested(types, runtime.catalog.event_types):
        scratch.define(needed)
    times = TimeColumns(runtime)
    for of in types:
        dates = times.of_statement(of.name)
        scratch.define(replace(of, time_property=None, end_time_property=None, times=dates))
    options = binder_options(config)
    deployment = scratch.deploy(rewrite(bind(ast.Module((select,)), scratch.catalog, epl, options=options)))
    for name in names:
        send = scratch.sender(name)
        for row in selected_rows(runtime, name, selector):
            send(row)
    (statement,) = deployment.statements
    types_of_rows, _ = statement_output(scratch, statement.name)
    return rows_frame(scratch.iterate(statement.name), types_of_rows)


def _dated(runtime: Runtime, plan: SelectStatement | InsertRows | MergeStatement) -> dict[str, Type]:
    times = TimeColumns(runtime).of_plan(plan)
    return output_types(plan.output_type.properties, times, time_type(runtime.config))


def _partition_ids(
    chosen: engine.Selector | None, context: str | None, stores: Set[str], runtime: Runtime
) -> list[int] | None:
    owner = context if context in runtime.contexts else _context_of(stores, runtime)
    return None if chosen is None or owner is None else sorted(select_partitions(chosen, runtime.context(owner)))


def repeat_query(runtime: Runtime, epl: str, values: Mapping[str, Any] | None, partitions: list[int] | None) -> None:
    """Run a query that changes rows again, with plain values of its parameters, in the partitions with these ids."""
    text = epl if values is None else SourceText(epl, EPL, {"parameters": values})
    FireAndForgetQuery(runtime, text).ask(values, None if partitions is None else engine.ById(*partitions), int)


def _of_context(
    named: str | None, stores: Container[str], runtime: Runtime, selector: Selector | None
) -> engine.Selector | None:
    """Return the engine's selector for the context `named` in the query, or for that of its stores.

    Raises UsageError without a context, and as `engine_selector` does.
    """
    if selector is None:
        return None
    context = named if named in runtime.contexts else _context_of(stores, runtime)
    if context is None:
        raise UsageError("the query reads nothing that has a context, its partitions cannot be selected")
    return engine_selector(runtime, context, selector)


def _context_of(stores: Container[str], runtime: Runtime) -> str | None:
    return next((s.type.context for name, s in runtime.stores.items() if name in stores and s.type.context), None)


def _stores(epl: str, runtime: Runtime) -> tuple[str | None, Set[str] | None]:
    """Return the context that a query names, and the named windows and tables that it reads or changes.

    None instead of the stores if it is a query over statements; no stores if it reads nothing, as ``select 1 + 1``.
    """
    statements = _parsed(epl).statements
    statement = statements[0] if len(statements) == 1 else None
    if isinstance(statement, (ast.FafInsert, ast.FafUpdate, ast.FafDelete)):
        return statement.context, {statement.target}
    if not isinstance(statement, ast.Select):
        return None, None
    names = {s.stream.type_name for s in statement.sources if isinstance(s.stream, ast.FilterStream)}
    if statement.insert_into is not None:
        names.add(statement.insert_into.target)
    return statement.context, names & runtime.stores.keys() or (None if statement.sources else set())


def _tables(select: ast.Select, runtime: Runtime) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_table(source, runtime) for source in select.sources))


def _select(epl: str, values: Mapping[str, Any] | None) -> ast.Select:
    tree = _parsed(epl)
    statements = (tree if values is None else substitute(tree, values, epl)).statements
    if len(statements) != 1 or not isinstance(statements[0], ast.Select):
        hint = "statements that stay are deployed: Workbench.run, %%epl"
        raise UsageError(f"a query is one select, insert, update or delete\n  hint: {hint}")
    select = statements[0]
    for clause, what in (
        (select.insert_into, "insert into"),
        (select.output, "an output clause"),
        (select.context, "a context"),
        (select.selector not in (None, "istream"), "a stream selector"),
        (select.match_recognize, "match_recognize"),
    ):
        if clause:
            raise UsageError(f"a query runs once and cannot have {what}")
    return replace(select, selector=None, sources=tuple(_with_keepall(source) for source in select.sources))


def _with_keepall(source: ast.StreamSource) -> ast.StreamSource:
    if not isinstance(source.stream, ast.FilterStream):
        raise UsageError("a query reads statements, not patterns")
    if source.windows:
        raise UsageError(
            f"a query reads the rows that `{source.stream.type_name}` holds now and cannot have a window\n"
            "  hint: give the statement the window"
        )
    return replace(source, windows=(ast.Window("keepall", ()),))


def _table(source: ast.StreamSource, runtime: Runtime) -> str:
    assert isinstance(source.stream, ast.FilterStream)  # `_with_keepall` has refused the rest
    name = source.stream.type_name
    if name not in runtime.statements and name in runtime.catalog.event_types:
        raise UsageError(f"`{name}` is an event type, and events are not stored; query a statement that has a window")
    if name not in runtime.statements:
        known = list(dict.fromkeys((*runtime.stores, *runtime.statements)))
        hint = hint_line(name, known) or known_names_hint("name", known)
        raise UsageError(f"there is no named window, table or statement `{name}`{hint}")
    return runtime.statement(name).name


def _nested(types: list[EventType], known: EventTypes) -> list[EventType]:
    needed: dict[str, EventType] = {}

    def visit(of: Type) -> None:
        if of.of is not None:
            visit(of.of)
        elif of.event is not None and of.event in known and of.event not in needed:
            for inner in known[of.event].properties.values():
                visit(inner)
            needed[of.event] = known[of.event]

    for one in types:
        for of in one.properties.values():
            visit(of)
    own = {one.name for one in types}
    return [one for name, one in needed.items() if name not in own]
