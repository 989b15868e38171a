"""Bind a module: a syntax tree and a catalog become a typed plan, or a report of all problems.

The binder is the only place that rejects a name or a type. Syntax that is parsed but not executed yet is reported as
``not-supported-yet``; nothing is ignored silently. Module headers (``module``, ``uses``, ``import``) are accepted
without effect: all modules see all names of a catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from typing import Any

from cepbook.errors import MOST_PROBLEMS, BindError, Span, unchecked_rest
from cepbook.lang.bind.clauses.annotations import Heading, bind_annotations
from cepbook.lang.bind.clauses.from_clause import check_table_contexts
from cepbook.lang.bind.clauses.index_hints import check_subquery_hints
from cepbook.lang.bind.clauses.insert_into import check_target_context
from cepbook.lang.bind.clauses.subquery import bind_subquery
from cepbook.lang.bind.expressions.declared_expressions import declare_expressions
from cepbook.lang.bind.plan_templates import PlanTemplates
from cepbook.lang.bind.scope import AlreadyReported, ModuleScope, Options
from cepbook.lang.bind.statements.create_context import bind_context
from cepbook.lang.bind.statements.create_schema import bind_schema
from cepbook.lang.bind.statements.create_table import bind_create_table
from cepbook.lang.bind.statements.create_window import bind_create_index, bind_create_window
from cepbook.lang.bind.statements.declarations import bind_create_expression, bind_create_variable, bind_on_set
from cepbook.lang.bind.statements.on_merge import bind_merge
from cepbook.lang.bind.statements.on_select import bind_on_select
from cepbook.lang.bind.statements.on_split import bind_split
from cepbook.lang.bind.statements.select import bind_select
from cepbook.lang.bind.statements.update_istream import bind_update_istream
from cepbook.lang.plan import nodes
from cepbook.lang.plan.catalog import Catalog
from cepbook.lang.syntax import ast

__all__ = ["Options", "bind"]

StatementRule = Callable[[Any, Heading, ModuleScope], nodes.StatementPlan | None]


def bind(
    module: ast.Module,
    catalog: Catalog,
    source: str,
    names: Collection[str] = (),
    options: Options = Options(),
    rules: Mapping[type[ast.Statement], StatementRule] | None = None,
) -> nodes.ModulePlan:
    """Return the plan of `module`; read `catalog`, but do not change it.

    `names` are statement names in use: a statement with one of these names is an error, and generated names
    (``stmt_1``) avoid them. `rules` replace the rules for statements of EPL modules. Raises BindError with all
    diagnostics.
    """
    state = ModuleScope(catalog.copy(), source, options, taken=names, subquery=bind_subquery)
    headings = {id(s): bind_annotations(s.annotations, state) for s in module.statements}
    _reserve(module, headings, state)
    statements: list[nodes.StatementPlan] = []
    forms = module.forms if rules is None else ()
    for node, form in zip_longest(module.statements, forms):
        if len(state.problems.reported) >= MOST_PROBLEMS:
            state.problems.reported.append(unchecked_rest(node.span))
            break
        heading = headings[id(node)]
        if not heading.named:
            heading = replace(heading, name=_fresh_name(state, node))
        state.statement = heading.name
        built = None if form is None else _TEMPLATES.plan(form, node.span, heading.name, state)
        if built is not None:
            statements.append(built)
            continue
        try:
            bound = _bind_statement(node, heading, state, _STATEMENTS if rules is None else rules)
        except AlreadyReported:  # of a part that cannot do without it
            bound = None
        check_subquery_hints(node, state.subqueries, state)
        if bound is not None:
            statements.append(_with_subqueries(bound, state))
        state.subqueries.clear()
    if state.problems.reported:
        raise BindError(tuple(state.problems.reported), source)
    return nodes.ModulePlan(tuple(statements), source, tuple(state.requires), tuple(state.provides), span=module.span)


def _reserve(module: ast.Module, headings: dict[int, Heading], state: ModuleScope) -> None:
    for node in module.statements:
        name = headings[id(node)].name
        if not name:
            continue
        if state.is_used(name):
            at = next((a.span for a in node.annotations if a.name.lower() == "name"), node.span)
            state.report("duplicate-name", f"a statement named `{name}` already exists", at)
        state.used_names.add(name)


def _fresh_name(state: ModuleScope, node: ast.Statement) -> str:
    """Return the name of a statement without one: its named window or table, or ``stmt_`` and a number."""
    if isinstance(node, (ast.CreateWindow, ast.CreateTable)) and not state.is_used(node.name):
        name = node.name
    else:
        name = f"stmt_{_free_number(lambda number: state.is_used(f'stmt_{number}'))}"
    state.used_names.add(name)
    return name


def _free_number(is_used: Callable[[int], bool]) -> int:
    """Return a number from 1 on that is not used: the lowest one, unless there are gaps."""
    free = 1
    while is_used(free):
        free *= 2
    used = free // 2
    while free - used > 1:
        middle = (free + used) // 2
        used, free = (middle, free) if is_used(middle) else (used, middle)
    return free


def _bind_statement(
    node: ast.Statement, heading: Heading, state: ModuleScope, rules: Mapping[type[ast.Statement], StatementRule]
) -> nodes.StatementPlan | None:
    declare_expressions(node.expressions, state)
    rule = rules.get(type(node))
    if rule is not None:
        return rule(node, heading, state)
    if isinstance(node, (ast.FafUpdate, ast.FafDelete, ast.FafInsert)):
        fact, hint = (
            "this statement is a query that runs once",
            "run it as a query, `%query …` or cep.query(…), or write an on-trigger",
        )
        if isinstance(node, ast.FafInsert) and node.target not in state.catalog.stores:
            name = node.target
            hint = f'send the event: a line `{name} …` in a cell %%events, or cep.send("{name}", …)'
        state.report("wrong-query", fact, node.span, hint)
        return None
    what, instead = _UNSUPPORTED.get(type(node), ("this statement", None))
    _refuse(node, what, instead, state)
    return None


def _with_subqueries(bound: nodes.StatementPlan, state: ModuleScope) -> nodes.StatementPlan:
    if not state.subqueries:
        return bound
    if not isinstance(bound, nodes.StreamStatement):
        for subquery in state.subqueries:
            state.unsupported("subqueries in this statement", subquery.span)
    return replace(bound, subqueries=tuple(state.subqueries))


def _refuse(node: ast.Statement, what: str, hint: str | None, state: ModuleScope) -> None:
    """Report a statement that is parsed but not supported; do not report the names that it would declare."""
    state.unsupported(what, node.span, hint)
    for attribute in ("name", "declaration"):
        declared = getattr(node, attribute, None)
        if declared is not None:
            state.rejected_names.add(declared if isinstance(declared, str) else declared.name)
    if isinstance(node, ast.OnTrigger):
        state.rejected_names.update(_inserted(node.action))


def _inserted(action: ast.OnAction) -> list[str]:
    if isinstance(action, ast.OnMerge):
        return [a.into for branch in action.branches for a in branch.actions if a.into is not None]
    if isinstance(action, ast.OnSelect) and action.select.insert_into is not None:
        return [action.select.insert_into.target]
    return []


def _select(node: ast.Select, heading: Heading, state: ModuleScope) -> nodes.StatementPlan | None:
    check_table_contexts(node, state)
    if node.insert_into is not None:
        check_target_context(node.insert_into.target, node.context, node.span, state)
    return bind_select(node, heading, state)


def _schema(node: ast.CreateSchema, heading: Heading, state: ModuleScope) -> nodes.StatementPlan | None:
    _refuse_prefix(node, "create schema", state)
    event_type = bind_schema(node, state)
    return nodes.CreateSchemaStatement(event_type=event_type, **heading.fields(node.span, state))


def _context(node: ast.CreateContext, heading: Heading, state: ModuleScope) -> nodes.StatementPlan | None:
    _refuse_prefix(node, "create context", state)
    bound = bind_context(node, state)
    if bound is None:
        return None
    context, spec = bound
    common = {"context": context, "priority": heading.priority, **heading.fields(node.span, state)}
    if isinstance(spec, nodes.KeyedStreams):
        return nodes.CreateContextStatement(spec=spec, **common)
    return nodes.CreateContextTreeStatement(spec=spec, **common)


def _on_trigger(node: ast.OnTrigger, heading: Heading, state: ModuleScope) -> nodes.StatementPlan | None:
    rule = _TRIGGERED.get(type(node.action))
    if rule is not None:
        return rule(node, heading, state)
    _refuse(node, "on-triggers", None, state)
    return None


def _refuse_prefix(node: ast.Statement, what: str, state: ModuleScope) -> None:
    if node.context is not None:
        at = Span(node.span.start, node.span.end)
        state.report("wrong-context", f"`{what}` does not take a context", at, f"leave `context {node.context}` out")


_STATEMENTS: dict[type[ast.Statement], StatementRule] = {
    ast.Select: _select,
    ast.CreateSchema: _schema,
    ast.CreateContext: _context,
    ast.CreateVariable: bind_create_variable,
    ast.CreateWindow: bind_create_window,
    ast.CreateIndex: bind_create_index,
    ast.CreateTable: bind_create_table,
    ast.OnTrigger: _on_trigger,
    ast.CreateExpression: bind_create_expression,
    ast.UpdateIStream: bind_update_istream,
}

_TEMPLATES = PlanTemplates(partial(_bind_statement, rules=_STATEMENTS))

# Rules for the actions of on-triggers
_TRIGGERED: dict[type[ast.OnAction], StatementRule] = {
    ast.OnSet: bind_on_set,
    ast.OnSplit: bind_split,
    ast.OnSelect: bind_on_select,
    ast.OnMerge: bind_merge,
    ast.OnDelete: bind_merge,
    ast.OnUpdate: bind_merge,
}

# Statements that are parsed but not supported, with a hint
_UNSUPPORTED: dict[type[ast.Statement], tuple[str, str | None]] = {
    ast.CreateDataflow: ("data flows", "statements that insert into streams do it, with sources and sinks in Python")
}
