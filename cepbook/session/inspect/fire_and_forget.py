"""Fire-and-forget queries: over named windows and tables, or over the current rows of statements, answered once.

The engine answers queries of named windows and tables; inserts, updates and deletes change them. In addition each
deployed statement is a table: the rows of its iterator, with its output columns. A select that reads statements, also
in a subquery, runs in a runtime of its own. Whatever it reads is a named window there, with the present rows.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Set
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pandas as pd

from cepbook.engine.contexts import selectors as engine
from cepbook.engine.contexts.context import select_partitions
from cepbook.engine.deploy.fire_and_forget import FireAndForgetQuery, replace_rows
from cepbook.engine.deploy.naming import known_names_hint
from cepbook.engine.runtime import Config, Runtime
from cepbook.errors import UsageError, hint_line
from cepbook.lang.bind.substitution import parameter_uses
from cepbook.lang.plan.catalog import EventType, FunctionType
from cepbook.lang.plan.nodes import InsertRows, MergeStatement, SelectStatement
from cepbook.lang.syntax import ast
from cepbook.lang.syntax.ast.syntax_node import walk
from cepbook.lang.syntax.reader import parser as dialect
from cepbook.lang.syntax.source_text import EPL, SourceText, settings_of
from cepbook.lang.types import Type
from cepbook.session.history.event_log import ManualAction
from cepbook.session.inspect.partition_selectors import Selector, engine_selector, selected_rows
from cepbook.session.inspect.time_columns import TimeColumns
from cepbook.session.io.event_validation import EventTypes
from cepbook.session.io.output.result_frames import rows_frame
from cepbook.session.io.output.time_types import output_types, time_type
from cepbook.session.io.parameter_values import ParameterValues, with_parameters

Functions = Mapping[str, tuple[Callable[..., Any], FunctionType]]


_parsed = lru_cache(maxsize=64)(dialect.parse_epl)


class PreparedQuery:
    """A query that was parsed once, made by `Workbench.prepare`. `run` answers it with new values for its parameters.

    `parameters` are the names of its parameters; unnamed ones are numbered from 1 in the order of the text.
    """

    def __init__(
        self, epl: str, run: Callable[[PreparedQuery, Selector | None, ParameterValues | None], pd.DataFrame]
    ) -> None:
        self.epl = epl
        self.parameters = tuple(dict.fromkeys(key for _, key in parameter_uses(_parsed(epl))))
        self._compiled: tuple[Runtime, FireAndForgetQuery] | None = None  # a query of stores
        self._run = run

    def compiled_for(self, runtime: Runtime) -> FireAndForgetQuery:
        """Return the query as compiled by an engine."""
        if self._compiled is None or self._compiled[0] is not runtime:
            self._compiled = runtime, FireAndForgetQuery(runtime, self.epl)
        return self._compiled[1]

    def run(self, *values: Any, selector: Selector | None = None, **named: Any) -> pd.DataFrame:
        """Return the rows that answer the query now, with values for its parameters by number, by name, or both.

        One dict gives all values. So does one list, unless the query has a single parameter: then it is the value.
        `selector` chooses partitions of the context that the query reads. Raises UsageError for values without a
        parameter, else as `Workbench.query` does.
        """
        if len(values) == 1 and not named and isinstance(values[0], Mapping):
            return self._run(self, selector, self._known(values[0]))
        if len(values) == 1 and isinstance(values[0], list | tuple) and len(self.parameters) != 1:
            values = tuple(values[0])
        by_number = {str(number): value for number, value in enumerate(values, 1)}
        unnamed = [key for key in self.parameters if key.isdecimal()]
        if len(values) > len(unnamed):
            takes = "no values by number" if not unnamed else f"{len(unnamed)} value{'s' * (len(unnamed) > 1)}"
            names = [key for key in self.parameters if not key.isdecimal()]
            hint = f"\n  hint: give it by name: run({names[0]}=…)" if names else ""
            raise UsageError(f"the query takes {takes}, found {len(values)}{hint}")
        return self._run(self, selector, self._known({**by_number, **named}))

    def _known(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        for name in values:
            if str(name) not in self.parameters:
                raise UsageError(f"the query has no parameter `{name}`{hint_line(str(name), self.parameters)}")
        return {str(name): value for name, value in values.items()}

    def __repr__(self) -> str:
        parameters = ", ".join(key if key.isdecimal() else f":{key}" for key in self.parameters)
        return f"Prepared({self.epl!r}{f', parameters {parameters}' if parameters else ''})"


def run_query(
    query: str | PreparedQuery,
    runtime: Runtime,
    config: Config,
    functions: Functions,
    selector: Selector | None = None,
    parameters: ParameterValues | None = None,
    *,
    before_change: Callable[[ManualAction, Set[str], Mapping[str, Any]], object],
) -> pd.DataFrame:
    """Return the rows of a query over the stores or the statements of `runtime`, of the partitions in `selector`.

    `before_change` is called before a store is changed, with a function that makes the same change in another runtime,
    the stores concerned, and the arguments of `repeat_query`. Raises ParseError and BindError as for any EPL,
    UsageError if the text is neither a query of stores nor a select over statements.
    """
    if not isinstance(query, str | PreparedQuery):
        raise UsageError(f"a query is EPL text, or what `prepare` gives, not {type(query).__name__}")
    text = query.epl if isinstance(query, PreparedQuery) else query
    epl = with_parameters(text, parameters, config, _parsed)
    statements = _parsed(epl).statements
    statement = statements[0] if len(statements) == 1 else None
    if isinstance(statement, ast.Select) and statement.insert_into is None:
        names = {node.type_name for node in walk(statement) if isinstance(node, ast.FilterStream)}
        if names - runtime.stores.keys():
            scratch = _runtime_of_rows(statement, names, runtime, config, functions, selector)
            result = FireAndForgetQuery(scratch, epl).ask(settings_of(epl).get("parameters"))
            return rows_frame(result.rows, _dated(scratch, result.plan))
        return _query_stores(query, epl, statement.context, names, runtime, selector, before_change)
    if isinstance(statement, ast.Select) and statement.insert_into is not None:
        target = statement.insert_into.target
    elif statement is not None and statement.changed_store is not None:
        target = statement.changed_store
    else:
        hint = "statements that stay are deployed: Workbench.run, %%epl"
        raise UsageError(f"a query is one select, insert, update or delete\n  hint: {hint}")
    return _query_stores(query, epl, statement.context, {target}, runtime, selector, before_change)


def _query_stores(
    query: str | PreparedQuery,
    epl: str,
    context: str | None,
    stores: Set[str],
    runtime: Runtime,
    selector: Selector | None,
    before_change: Callable[[ManualAction, Set[str], Mapping[str, Any]], object],
) -> pd.DataFrame:
    values = settings_of(epl).get("parameters")
    compiled = query.compiled_for(runtime) if isinstance(query, PreparedQuery) else FireAndForgetQuery(runtime, epl)
    partitions = _of_context(context, stores, runtime, selector)

    def record() -> None:
        ids = _partition_ids(partitions, context, stores, runtime)
        arguments: dict[str, Any] = {"epl": str(epl), "values": values, "partitions": ids}
        before_change(lambda other: repeat_query(other, **arguments), stores, arguments)

    result = compiled.ask(values, partitions, record)
    return rows_frame(result.rows, _dated(runtime, result.plan))


def _runtime_of_rows(
    select: ast.Select,
    names: Set[str],
    runtime: Runtime,
    config: Config,
    functions: Functions,
    selector: Selector | None,
) -> Runtime:
    """Return a runtime in which the statements and stores `names` are named windows with their present rows."""
    if select.context is not None:
        hint = "choose partitions of the statement: cep.query(…, selector=…)"
        raise UsageError(f"a query over statements cannot have a context\n  hint: {hint}")
    types = [replace(_output_type(name, runtime), supertypes=()) for name in sorted(names)]
    scratch = Runtime(config, start=runtime.now)
    scratch.catalog.expressions.update(runtime.catalog.expressions)
    for name, (fn, returns) in functions.items():
        scratch.register_function(name, fn, returns=returns)
    for name, cell in runtime.variables.items():
        if not cell.partitioned:
            scratch.define_variable(name, cell.type, cell.value, constant=runtime.catalog.variables[name].constant)
    for inner in _nested(types, runtime.catalog.event_types):
        if inner.name in names:
            hint = "give the statement another name: @name('…')"
            raise UsageError(
                f"`{inner.name}` is a statement and the event type of a column that is read\n  hint: {hint}"
            )
        scratch.define(inner)
    times = TimeColumns(runtime)
    for name, of in zip(sorted(names), types, strict=True):
        rows_type = f"rows of {name}"
        dates = times.of_statement(name)
        scratch.define(replace(of, name=rows_type, time_property=None, end_time_property=None, times=dates))
        scratch.deploy(f"create window `{name}`#keepall as `{rows_type}`")
        rows = selected_rows(runtime, name, selector)
        replace_rows(scratch, name, [[row[column] for column in of.properties] for row in rows])
    return scratch


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
    FireAndForgetQuery(runtime, text).ask(values, None if partitions is None else engine.ById(*partitions))


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


def _output_type(name: str, runtime: Runtime) -> EventType:
    if name not in runtime.statements and name in runtime.catalog.event_types:
        raise UsageError(f"`{name}` is an event type, and events are not stored; query a statement that has a window")
    if name not in runtime.statements:
        known = list(dict.fromkeys((*runtime.stores, *runtime.statements)))
        hint = hint_line(name, known) or known_names_hint("name", known)
        raise UsageError(f"there is no named window, table or statement `{name}`{hint}")
    return runtime.statement(name).output_type


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
    return list(needed.values())
