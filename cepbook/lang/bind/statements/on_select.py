"""``on … select [and delete]`` (Esper reference, section "On-Select and On-Select-Delete").

It is a join of the event, which alone makes rows, with what the named window or table holds.
"""

from __future__ import annotations

from dataclasses import fields, replace

from cepbook.lang.bind.clauses.annotations import StatementHeading
from cepbook.lang.bind.clauses.insert_into import check_target_context
from cepbook.lang.bind.clauses.target_store import bind_target
from cepbook.lang.bind.clauses.trigger import bind_trigger
from cepbook.lang.bind.scope import ModuleScope, Scope
from cepbook.lang.bind.statements.select import bind_select
from cepbook.lang.plan import expressions as x
from cepbook.lang.plan import nodes
from cepbook.lang.plan.traversal import walk
from cepbook.lang.syntax import ast


def bind_on_select(
    node: ast.OnTrigger, name: str, heading: StatementHeading, module: ModuleScope
) -> nodes.OnSelectStatement | None:
    """The statement; None when the report says why not."""
    action = node.action
    assert isinstance(action, ast.OnSelect)
    trigger = bind_trigger(node, "on … select", module)
    if isinstance(trigger, Scope):
        return None
    (source,) = action.select.sources
    assert isinstance(source.stream, ast.FilterStream)
    target = bind_target(source.stream.type_name, source.alias, source.span, node, module)
    if target is None:
        return None
    if action.select.selector not in (None, "istream"):
        fact = f"`select {action.select.selector}` in `on … select`, which has an insert stream only"
        module.report("wrong-parameter", fact, action.span)
    select = replace(
        action.select,
        selector="istream",
        sources=(source, replace(node.trigger, unidirectional=True)),
        joins=(ast.Join("inner", None, span=node.span),),
        context=node.context,
        annotations=node.annotations,
        span=node.span,
    )
    if select.insert_into is not None:
        check_target_context(select.insert_into.target, node.context, node.span, module)
    found = bind_select(select, name, heading, module)
    if found is None:
        return None
    _refuse_rows_before(found, module)
    given = {each.name: getattr(found, each.name) for each in fields(found)}
    return nodes.OnSelectStatement(**given, target=target.store, deletes=action.delete)


def _refuse_rows_before(found: nodes.SelectStatement, module: ModuleScope) -> None:
    """Rows of stores have no order of arrival; subqueries have windows of their own, and are not walked."""
    for top in walk(found):
        for part in x.walk(top) if isinstance(top, x.BoundExpr) else ():
            if isinstance(part, (x.Prev, x.Prior)):
                what = f"`{'prior' if isinstance(part, x.Prior) else 'prev'}` is not allowed in `on … select`"
                module.report("wrong-parameter", what, part.span, "it is for the rows of a data window")
