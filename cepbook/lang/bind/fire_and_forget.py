"""Fire-and-forget queries: the statements that may run once (Esper reference, section "Fire-and-Forget Queries")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cepbook.errors import BindError, Diagnostic, Span
from cepbook.lang.bind.clauses.annotations import Heading
from cepbook.lang.bind.clauses.insert_into import bind_insert, check_distinct_columns
from cepbook.lang.bind.clauses.select_list import bind_select_list
from cepbook.lang.bind.clauses.target_store import ABSENT_ROW, TargetStore, bind_changes, bind_target
from cepbook.lang.bind.expressions.expression import bind_clause, bind_expr
from cepbook.lang.bind.module_binder import StatementRule, bind
from cepbook.lang.bind.scope import ModuleScope, Options, Scope, resolve_context
from cepbook.lang.bind.statements.select import bind_select
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog, EventType
from cepbook.lang.syntax import ast


def bind_query(module: ast.Module, catalog: Catalog, source: str, options: Options = Options()) -> nodes.ModulePlan:
    """Return the plan of the one query in `module`. Raises BindError with all diagnostics."""
    diagnostics = list(_problems(module, catalog))
    if diagnostics:
        raise BindError(tuple(diagnostics), source)
    plan = bind(ast.Module(module.statements, span=module.span), catalog, source, (), options, _RULES)
    read = (subquery.source for statement in plan.statements for subquery in statement.subqueries)
    streams = [_no_store(stream.event_type, stream.span) for stream in read if stream.store is None]
    if streams:
        raise BindError(tuple(streams), source)
    return plan


def _problems(module: ast.Module, catalog: Catalog) -> list[Diagnostic]:
    if len(module.statements) != 1:
        return [_problem("a query is one statement", module.span)]
    (query,) = module.statements
    if isinstance(query, (ast.FafUpdate, ast.FafDelete, ast.FafInsert)):
        return []
    if not isinstance(query, ast.Select):
        return [_problem("a query is a select, an update, a delete, or an insert", query.span)]
    diagnostics = []
    for clause, what in (
        (query.output, "an output clause"),
        (query.into_table, "into table"),
        (query.match_recognize, "match_recognize"),
        (query.selector not in (None, "istream"), "a stream selector"),
    ):
        if clause:
            diagnostics.append(_problem(f"a query runs once and cannot have {what}", query.span))
    if query.sources and query.insert_into is not None:
        hint = "select the rows first, and insert them with `insert into … values (…)`"
        diagnostics.append(_problem("a query that inserts cannot have a from-clause", query.span, hint))
    for source in query.sources:
        diagnostics += _source_problems(source, catalog)
    return diagnostics


def _source_problems(source: ast.StreamSource, catalog: Catalog) -> list[Diagnostic]:
    stream = source.stream
    if not isinstance(stream, ast.FilterStream):
        return [_problem("a query reads named windows and tables, not patterns", stream.span)]
    if stream.type_name not in catalog.event_types:
        return []  # the binder tells
    if stream.type_name not in catalog.stores:
        return [_no_store(stream.type_name, stream.span)]
    if source.windows:
        return [_problem("a query reads the current rows and takes no data window", source.windows[0].span)]
    return []


def _select(node: ast.Select, heading: Heading, module: ModuleScope) -> nodes.StatementPlan | None:
    if node.insert_into is None:
        if not _check_contexts(node, module):
            return None
        return bind_select(node, heading, module)
    if node.insert_into.event_precedence is not None:
        at = node.insert_into.event_precedence.span
        module.wrong("a query takes no event-precedence", at, "a query inserts at once")
    scope = Scope(module, no_aggregates="an insert without a from-clause")
    columns, _ = bind_select_list(node.items, scope, node.insert_into)
    return _insert_rows(node.insert_into, (columns,), node, heading, module)


def _check_contexts(node: ast.Select, module: ModuleScope) -> bool:
    """Return whether the stores that a query reads are in its context or in none; report the first that is not.

    A query without a context reads all partitions of one context at most.
    """
    context = node.context
    for source in node.sources:
        name = source.stream.type_name if isinstance(source.stream, ast.FilterStream) else ""
        store = module.catalog.stores.get(name)
        if store is None or store.context is None:
            continue
        context = context or store.context
        if store.context != context:
            fact, hint = f"`{name}` is in context `{store.context}`", f"write `context {store.context}`"
            if node.context is None:
                fact += f", the window before it in `{context}`"
                hint = "query one of them, and join the rows in Python"
            module.report("wrong-context", fact, module.locate(name, source.stream.span), hint)
            return False
    return True


def _values(node: ast.FafInsert, heading: Heading, module: ModuleScope) -> nodes.StatementPlan | None:
    """Bind ``values``: of the listed columns, or of the first columns without a list."""
    if _target(node.target, None, node, module) is None:
        return None
    check_distinct_columns(node.columns, node.span, module)
    into = ast.InsertInto(node.target, None, node.columns, span=node.span)
    known = module.catalog.event_types.get(node.target)
    names = node.columns or tuple(known.properties if known is not None else ())
    rows = []
    scope = Scope(module, no_aggregates="values")
    for values in node.rows:
        if len(values) > len(names) or (node.columns and len(values) < len(names)):
            fact = f"number of columns: {len(names)} to be set, {len(values)} values"
            module.wrong(fact, values[0].span.to(values[-1].span))
            return None
        row_values = [bind_expr(value, scope) for value in values]
        rows.append(tuple(nodes.OutputColumn(n, e, span=e.span) for n, e in zip(names, row_values, strict=False)))
    return _insert_rows(replace(into, columns=()), rows, node, heading, module)


def _insert_rows(
    into: ast.InsertInto,
    rows: Sequence[tuple[nodes.OutputColumn, ...]],
    node: ast.Statement,
    heading: Heading,
    module: ModuleScope,
) -> nodes.StatementPlan | None:
    target = _target(into.target, None, node, module)
    if target is None:
        return None
    fitted = tuple(bind_insert(into, (row, False), None, module)[1][0] for row in rows)
    common = replace(heading, named=False).fields(node.span, module)
    return nodes.InsertRows(target=target.store, rows=fitted, output_type=target.event_type, **common)


def _change(node: ast.FafUpdate | ast.FafDelete, heading: Heading, module: ModuleScope) -> nodes.StatementPlan | None:
    """Bind ``update`` and ``delete`` as an on-trigger that no event triggers."""
    target = _target(node.target, node.alias, node, module)
    if target is None:
        return None
    context, _ = resolve_context(node.context, node.span, module)
    scope = Scope(module, (target.stream, ABSENT_ROW), context, no_aggregates="a query", no_row_functions="a query")
    predicate = None if node.where is None else bind_clause(node.where, scope, "the where-clause")
    action = nodes.MergeActionPlan("delete", None, span=node.span)
    if isinstance(node, ast.FafUpdate):
        changes = bind_changes(node.assignments, target, scope)
        action = nodes.MergeActionPlan("update", None, changes=changes, span=node.span)
    return nodes.MergeStatement(
        **replace(heading, named=False).fields(node.span, module),
        kind="update" if isinstance(node, ast.FafUpdate) else "delete",
        source=nodes.SourceNode(nodes.NO_EVENTS, None, None, span=node.span),
        target=target.store,
        predicate=predicate,
        branches=(nodes.MergeBranchPlan(True, None, (action,), span=node.span),),
        context=node.context,
        output_type=EventType(f"<{heading.name}>", target.event_type.properties),
    )


def _target(name: str, alias: str | None, node: ast.Statement, module: ModuleScope) -> TargetStore | None:
    return bind_target(name, alias, node.span, node, module, anywhere=True)


_RULES: Mapping[type[ast.Statement], StatementRule] = {
    ast.Select: _select,
    ast.FafInsert: _values,
    ast.FafUpdate: _change,
    ast.FafDelete: _change,
}


def _no_store(type_name: str, span: Span) -> Diagnostic:
    fact = f"`{type_name}` is an event type, and events are not stored"
    return _problem(fact, span, "query a named window or a table")


def _problem(fact: str, span: Span, hint: str | None = None) -> Diagnostic:
    return Diagnostic("wrong-query", fact, span, hint)
